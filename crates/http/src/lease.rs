//! While a job is held: `POST /v1/heartbeat`, `POST /v1/jobs/{id}/progress`.

use crate::app::known;
use crate::append::Written;
use crate::call::{Call, Reply, ok};
use crate::shape::new_job::{job_id, lease_ms};
use crate::shape::object::objects;
use crate::shape::raw::{Json, payload};
use crate::shape::time::{Span, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::limits::{BATCH_MAX, PAYLOAD_MAX_BYTES, count};
use windlass_core::{Metadata, Refusal, Token, Who};
use windlass_store::{Extend, Extended, Progress};

objects!(Heartbeat, HeldLease, ProgressBody);

/// Leases to renew.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Heartbeat)]
pub(crate) struct Heartbeat {
    /// Who holds them.
    worker_id: String,
    /// Which, at most 10,000.
    leases: Vec<HeldLease>,
    /// For how long from now; the server's default lease, 30 seconds unless it is set.
    #[serde(default)]
    extend: Option<Span>,
}

/// A lease to renew.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
struct HeldLease {
    /// Of which job.
    job_id: String,
    /// Proves it.
    token: String,
}

/// What became of each lease, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Renewed)]
pub(crate) struct Renewed {
    leases: Vec<RenewedLease>,
}

/// What became of a lease.
#[derive(Debug, Serialize, ToSchema)]
struct RenewedLease {
    /// Of which job.
    job_id: String,
    /// Whether it was renewed.
    ok: bool,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    /// Why it was not renewed: stop working on the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// Whether the holder should stop.
    cancel_requested: bool,
}

/// `POST /v1/heartbeat`
pub(crate) async fn heartbeat(call: Call) -> Reply {
    let body: Heartbeat = call.body()?;
    Who::parse("worker_id", &body.worker_id)?;
    count("leases", body.leases.len(), BATCH_MAX)?;
    let extend_ms = match lease_ms("extend", body.extend)? {
        Some(extend) => extend,
        None => call.app.lease_ms().await,
    };
    let mut leases = Vec::with_capacity(body.leases.len());
    for HeldLease { job_id: job, token } in &body.leases {
        leases.push((job_id("job_id", job)?, call.token(Some(token))?));
    }
    let request = Extend { leases, extend_ms };
    let answers = call.store().extend(request.clone(), None).await?;
    let lease = |(job_id, answer): (_, Result<Extended, Refusal>)| {
        let job_id = windlass_core::JobId::to_string(&job_id);
        match answer {
            Ok(Extended { expires_at, cancel_requested }) => RenewedLease {
                job_id,
                ok: true,
                expires_at: Some(Time(expires_at)),
                code: None,
                cancel_requested,
            },
            Err(refusal) => {
                call.refused(&refusal);
                let code = Some(refusal.code());
                RenewedLease { job_id, ok: false, expires_at: None, code, cancel_requested: false }
            }
        }
    };
    let jobs = request.leases.into_iter().map(|(job, _): (_, Token)| job);
    ok(&Renewed { leases: jobs.zip(answers).map(lease).collect() })
}

/// What a holder reports: one change.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Progress)]
pub(crate) struct ProgressBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default)]
    lease_token: Option<String>,
    /// 0 to 100.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 100)]
    progress: Option<i64>,
    /// Free text.
    #[serde(default)]
    stage: Option<String>,
    /// Merged into what is there, key by key.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Metadata>,
    /// For the next attempt, at most 1 MiB.
    #[serde(default)]
    checkpoint: Option<Json>,
}

/// `POST /v1/jobs/{id}/progress`
pub(crate) async fn progress(call: Call) -> Reply {
    let body: ProgressBody = call.body()?;
    let key = call.idempotency()?.map(|idempotency| idempotency.key);
    let request = Progress {
        job: call.job_id()?,
        token: call.token(body.lease_token.as_deref())?,
        progress: body.progress,
        stage: body.stage,
        metadata: body.metadata,
        checkpoint: payload("checkpoint", body.checkpoint, None, PAYLOAD_MAX_BYTES)?,
        key,
    };
    let told = known(|| call.app.store.progress(request.clone(), None)).await?;
    ok(&Written::from(told.inspect_err(|refusal| call.refused(refusal))?))
}
