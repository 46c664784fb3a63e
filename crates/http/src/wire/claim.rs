//! Jobs in a worker's hands: claiming, renewing, log lines.

use super::job::JobShape;
use super::object::two_way;
use super::time::{Span, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

two_way!(ClaimBody, ClaimOneBody, StartBody, Heartbeat, HeldLease, LogsBody);

/// Which jobs a worker wants.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Claim)]
pub struct ClaimBody {
    /// In this order.
    #[schema(min_items = 1, max_items = 1000)]
    pub queues: Vec<String>,
    /// Only these; all when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    /// Who claims: fresh per process start.
    pub worker_id: String,
    /// 64 hex digits made by the worker: the same secret again returns the jobs that it already holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// At most so many; one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max: Option<i64>,
    /// For how long, 1 s to 24 h; the server's default lease, 30 seconds unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// How long to wait for one, at most 60 seconds; not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
}

/// Jobs in a worker's hands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Claimed)]
pub struct ClaimedJobs {
    /// Each with its lease. None is no error.
    pub jobs: Vec<JobShape>,
}

/// Who wants one job.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = ClaimOne)]
pub struct ClaimOneBody {
    /// Who claims.
    pub worker_id: String,
    /// 64 hex digits made by the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// For how long; the server's default lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
}

/// Leases to renew.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Heartbeat)]
pub struct Heartbeat {
    /// Who holds them.
    pub worker_id: String,
    /// Which, at most 10,000.
    pub leases: Vec<HeldLease>,
    /// For how long from now; the server's default lease, 30 seconds unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend: Option<Span>,
}

/// A lease to renew.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct HeldLease {
    /// Of which job.
    pub job_id: String,
    /// Proves it.
    pub token: String,
}

/// What became of each lease, in order.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Renewed)]
pub struct Renewed {
    /// One per lease that was shown.
    pub leases: Vec<RenewedLease>,
}

/// What became of a lease.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RenewedLease {
    /// Of which job.
    pub job_id: String,
    /// Whether it was renewed.
    pub ok: bool,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Why it was not renewed: stop working on the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Whether the holder should stop.
    pub cancel_requested: bool,
}

/// Log lines to write.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewLogs)]
pub struct LogsBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// The lines, each at most 16 KiB.
    pub lines: Vec<String>,
}

/// Which assignment a worker starts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Start)]
pub struct StartBody {
    /// Who starts: the worker that the job is assigned to.
    pub worker_id: String,
    /// Which assignment, as the job shows it.
    pub assignment: i64,
    /// The epoch of that assignment.
    pub epoch: i64,
    /// 64 hex digits made by the worker: the same secret again returns the job that it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// For how long; the server's default lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
}
