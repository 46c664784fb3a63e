//! A job as users see it.

use super::raw::{Raw, Shown, present};
use super::registry::BackoffOut;
use super::time::{Span, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::dispatch::Requires;
use windlass_core::unique::Scope;
use windlass_core::wait::WakeOutcome;
use windlass_core::{Blocked, Facts, Job, Metadata, Payload, Status, Timestamp, WaitFor, Wake};
use windlass_store::{Claimed, JobView, Listed, fresh};

/// A job: where it stands and what it was given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Job)]
pub struct JobShape {
    /// Its identity, a UUIDv7.
    pub id: String,
    /// What to do.
    pub kind: String,
    /// Which line it stands in.
    pub queue: String,
    /// `pending`, `assigned`, `running`, `retry`, `waiting`, `orphaned`, `completed`, `failed`, `timed_out`, `cancelled`.
    #[schema(value_type = String)]
    pub status: Status,
    /// What it waits for, exactly while it waits: `approval`, `signal`, `timer`, `children`, `news`, `upstream`, `flow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub waiting_for: Option<WaitFor>,
    /// The name of that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_name: Option<String>,
    /// What of it does not read back from the store. What could not be read is then absent or made up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Free text of where its handler is.
    pub stage: Option<String>,
    /// 0 to 100.
    pub progress: i32,
    /// −5 to 5, higher first.
    pub priority: i32,
    /// Executions over its whole life: the fence.
    pub attempt: i32,
    /// Failures that used the budget.
    pub retries: i32,
    /// The budget.
    pub max_retries: i32,
    /// Leases lost in a row.
    pub crashes: i32,
    /// Events ever written.
    pub version: i64,
    /// Redrives.
    pub generation: i32,
    /// From when a worker may take it; while it runs, when its lease is over.
    pub due_at: Option<Time>,
    /// When the engine must act.
    pub deadline_at: Option<Time>,
    /// Who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseShape>,
    /// Present while its lease has expired and its grace has not: only its holder may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<ContinuationShape>,
    /// Who is to start it, exactly while it is assigned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned: Option<AssignedShape>,
    /// Labels that its worker must have.
    #[serde(default, skip_serializing_if = "Requires::is_empty")]
    #[schema(value_type = Option<Object>)]
    pub requires: Requires,
    /// Whose job it is: jobs of one key form a lane of their queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How many units of its queue's rate one start takes, where that is not one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<i32>,
    /// What it was given. Absent in lists, and where it is not JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Raw>)]
    pub payload: Option<Option<Raw>>,
    /// What it was given, when that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// What it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Raw>,
    /// What it gave, when that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Its last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorShape>,
    /// Where its last attempt left off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Raw>,
    /// The same, when that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_base64: Option<String>,
    /// Small JSON that travels with it. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Labels to find it by.
    pub tags: Vec<String>,
    /// The agent it belongs to.
    pub agent_id: Option<String>,
    /// The job that spawned it.
    pub parent_id: Option<String>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long one attempt may take, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How its retries are spaced, where it says so itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffOut>,
    /// When its holder was asked to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<Time>,
    /// Why it is not running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<BlockedShape>,
    /// How its last wait ended. Only in a claim's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<WakeShape>,
    /// How many finished steps are on record. Only in a claim's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_recorded: Option<i64>,
    /// True if it left the store, and this comes from the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// True if what it was given, found and printed was erased: payload, result, checkpoint, metadata, error text, log lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased: Option<bool>,
    /// When it was enqueued.
    pub created_at: Time,
    /// When its latest attempt started.
    pub started_at: Option<Time>,
    /// When it last changed.
    pub updated_at: Time,
    /// When it ended.
    pub finished_at: Option<Time>,
}

/// That a job goes on beyond its lease.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Continuation)]
pub struct ContinuationShape {
    /// `confirming`: the lease has expired, and only its holder may renew it or finish.
    pub state: String,
    /// From then on another worker may take it.
    pub until: Time,
}

/// A lease, seen from outside or by its holder.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseShape {
    /// Who holds it.
    pub worker_id: String,
    /// Proves it. Only in a claim's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Which execution of the job it is for. Only in a claim's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i32>,
    /// What the holder writes beside its own changes elsewhere, to refuse a smaller one there. Only in a claim's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<i64>,
    /// When the holder must have stopped by itself.
    pub expires_at: Option<Time>,
}

/// A job in a leader's line for one worker.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Assigned)]
pub struct AssignedShape {
    /// Who is to start it.
    pub worker_id: String,
    /// Which assignment it is: what the start names.
    pub assignment: Option<i64>,
    /// The epoch of the leader that made it: what the start names.
    pub epoch: Option<i64>,
    /// From when another gets it, if this worker is gone by then.
    pub until: Option<Time>,
}

/// An error of a job.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = JobError)]
pub struct ErrorShape {
    /// One word.
    pub code: String,
    /// What went wrong. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

/// Why a job is not running.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Blocked)]
pub struct BlockedShape {
    /// `paused`, `not_due`, `broken`, `limit`, `held`, `rate`, `no_worker`, `waiting`, `upstream`, `assigned`, `cancelling`.
    pub reason: String,
    /// Since when.
    pub since: Time,
    /// By whom or what.
    pub by: String,
    /// What to do.
    pub fix: String,
}

/// How a wait ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Wake)]
pub struct WakeShape {
    /// What it waited for.
    #[schema(value_type = String)]
    pub r#for: WaitFor,
    /// The name of the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `approved`, `signalled`, `fired`, `joined`, `expired`.
    #[schema(value_type = String)]
    pub outcome: WakeOutcome,
    /// What the signal brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Raw>,
    /// The same, when that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
}

/// What stands around the row.
#[derive(Debug, Default)]
pub(crate) struct Around<'a> {
    pub(crate) payload: Option<&'a Payload>,
    pub(crate) result: Option<&'a Payload>,
    pub(crate) error: Option<(&'a Payload, Timestamp)>,
    pub(crate) checkpoint: Option<&'a Payload>,
    pub(crate) metadata: Metadata,
}

impl JobShape {
    /// The row and what never changes: a job in a list.
    pub(crate) fn listed(Listed { job, facts, unreadable }: &Listed) -> Self {
        Self { unreadable: unreadable.clone(), ..Self::row(job, facts) }
    }

    /// A job with everything.
    pub(crate) fn view(view: JobView) -> Self {
        let error = view.error.as_ref().map(|(payload, at)| (payload, *at));
        let around = Around {
            payload: view.payload.as_ref(),
            result: view.result.as_ref(),
            error,
            checkpoint: view.checkpoint.as_ref(),
            metadata: view.metadata,
        };
        let mut shape = Self::whole(&view.job, &view.facts, around);
        shape.blocked = view.blocked.map(blocked);
        shape
    }

    /// A job in its holder's hands.
    pub(crate) fn claimed(claimed: Claimed) -> Self {
        let around = Around {
            payload: claimed.payload.as_ref(),
            checkpoint: claimed.checkpoint.as_ref(),
            metadata: claimed.metadata,
            ..Around::default()
        };
        let mut shape = Self::whole(&claimed.job, &claimed.facts, around);
        shape.lease = Some(LeaseShape {
            worker_id: claimed.lease.worker.to_string(),
            token: Some(claimed.lease.token.to_text()),
            attempt: Some(claimed.lease.attempt),
            fence: Some(claimed.lease.fence),
            expires_at: Some(Time(claimed.lease.expires_at)),
        });
        shape.wake = claimed.wake.map(wake);
        shape.steps_recorded = Some(claimed.steps_recorded);
        shape
    }

    /// The row with what its pointers point at.
    pub(crate) fn whole(job: &Job, facts: &Facts, around: Around<'_>) -> Self {
        let mut shape = Self::row(job, facts);
        (shape.payload, shape.payload_base64) = Shown::of(around.payload).or_null();
        (shape.result, shape.result_base64) = Shown::of(around.result).or_absent();
        (shape.checkpoint, shape.checkpoint_base64) = Shown::of(around.checkpoint).or_absent();
        shape.error = around.error.map(|(payload, at)| error(job, payload, at)).or(shape.error);
        shape.metadata = Some(around.metadata);
        shape
    }

    fn row(job: &Job, facts: &Facts) -> Self {
        let schedule = facts.unique.as_ref().and_then(|unique| match &unique.scope {
            Scope::Schedule(name) => Some(name.to_string()),
            _ => None,
        });
        let lease = job.lease_hash.and(job.worker_id.as_ref()).map(|worker| LeaseShape {
            worker_id: worker.to_string(),
            token: None,
            attempt: None,
            fence: None,
            expires_at: job.lease_expires_at.map(Time),
        });
        let to = job.worker_id.as_ref().filter(|_| job.status == Status::Assigned);
        let assigned = to.map(|worker| AssignedShape {
            worker_id: worker.to_string(),
            assignment: job.assignment,
            epoch: job.epoch,
            until: job.deadline_at.map(Time),
        });
        let error_code = job.error_code.as_ref();
        Self {
            id: job.id.to_string(),
            kind: job.kind.to_string(),
            queue: job.queue.to_string(),
            status: job.status,
            waiting_for: job.waiting_for,
            wait_name: job.wait_name.as_ref().map(ToString::to_string),
            unreadable: None,
            stage: job.stage.clone(),
            progress: job.progress,
            priority: job.priority,
            attempt: job.attempt,
            retries: job.retries,
            max_retries: job.max_retries,
            crashes: job.crashes,
            version: job.version,
            generation: job.generation,
            due_at: job.due_at.map(Time),
            deadline_at: job.deadline_at.map(Time),
            lease,
            continuation: job
                .in_grace_until(fresh::wall_clock())
                .map(|until| ContinuationShape { state: "confirming".to_owned(), until: Time(until) }),
            assigned,
            requires: facts.requires.clone(),
            key: facts.key.as_ref().map(ToString::to_string),
            cost: Some(facts.cost).filter(|cost| *cost != 1),
            payload: None,
            payload_base64: None,
            result: None,
            result_base64: None,
            error: error_code.map(|code| ErrorShape { code: code.to_string(), message: None, at: None }),
            checkpoint: None,
            checkpoint_base64: None,
            metadata: None,
            tags: facts.tags.iter().map(ToString::to_string).collect(),
            agent_id: facts.agent_id.as_ref().map(ToString::to_string),
            parent_id: facts.parent_id.map(|id| id.to_string()),
            schedule,
            timeout: job.timeout_ms.map(Span::from_ms),
            backoff: job.backoff.map(BackoffOut::from),
            cancel_requested_at: job.cancel_requested_at.map(Time),
            blocked: None,
            wake: None,
            steps_recorded: None,
            archived: None,
            erased: facts.erased.then_some(true),
            created_at: Time(job.created_at),
            started_at: job.started_at.map(Time),
            updated_at: Time(job.updated_at),
            finished_at: job.finished_at.map(Time),
        }
    }
}

fn error(job: &Job, payload: &Payload, at: Timestamp) -> ErrorShape {
    let said: serde_json::Value = payload.parse().unwrap_or_default();
    let text = |member: &str| said.get(member).and_then(|value| value.as_str()).map(str::to_owned);
    let code = text("code").or_else(|| job.error_code.as_ref().map(ToString::to_string));
    ErrorShape { code: code.unwrap_or_default(), message: text("message"), at: Some(Time(at)) }
}

fn blocked(blocked: Blocked) -> BlockedShape {
    let Blocked { reason, since, by, fix } = blocked;
    BlockedShape { reason: reason.to_owned(), since: Time(since), by, fix }
}

fn wake(wake: Wake) -> WakeShape {
    let (payload, payload_base64) = Shown::of(wake.payload.as_ref()).or_absent();
    WakeShape {
        r#for: wake.waited_for,
        name: wake.name.map(|name| name.to_string()),
        outcome: wake.outcome,
        payload,
        payload_base64,
    }
}

/// A page of jobs. It may be short: only a missing cursor is the end.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Jobs)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct JobsPage {
    pub jobs: Vec<JobShape>,
    /// Where to go on; none at the end.
    pub next_cursor: Option<String>,
}
