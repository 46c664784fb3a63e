//! Why a job is not running, and what to do about it.

use crate::breaker::Broken;
use crate::job::Job;
use crate::status::Status;
use crate::time::Timestamp;
use crate::wait::WaitFor;
use serde::Serialize;

/// The answer to "why is it not running".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// One word: `paused`, `not_due`, `broken`, `limit`, `held`, `rate`, `no_worker`, `waiting`, `upstream`, `assigned`, `cancelling`.
    pub reason: &'static str,
    /// Since when.
    pub since: Timestamp,
    /// By whom or what.
    pub by: String,
    /// What to do.
    pub fix: String,
}

/// What a store knows around the job.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// When its queue was paused and by whom, if it is.
    pub paused: Option<(Timestamp, String)>,
    /// That its queue broke, and does not try this job; none if it is whole or tries it.
    pub broken: Option<Broken>,
    /// What of its queue's limits it stands behind, in words; none if there is a slot for it.
    pub full: Option<String>,
    /// Who holds it back, in words, and until when; none if nobody does.
    pub held: Option<(String, Timestamp)>,
    /// Which rate it stands behind, in words, and when it may start; none if it may now.
    pub rated: Option<(String, Timestamp)>,
    /// Whether a live worker takes jobs of its queue and kind.
    pub has_worker: bool,
    /// Jobs that it waits for before its first run, with their names.
    pub upstream: Vec<String>,
}

/// Why `job` is not running at `now`; none if it runs, is finished, or is about to run.
pub fn blocked(job: &Job, around: &Surroundings, now: Timestamp) -> Option<Blocked> {
    let because = |reason, since, by: String, fix: String| Some(Blocked { reason, since, by, fix });
    let worker = || job.worker_id.as_ref().map(ToString::to_string).unwrap_or_default();
    match job.status {
        Status::Running => {
            let since = job.cancel_requested_at?;
            let force = job.deadline_at.unwrap_or(now);
            let fix = format!(
                "it is stopped at {force}, or at once with `windlass jobs cancel {} --force`",
                job.id
            );
            because("cancelling", since, worker(), fix)
        }
        Status::Assigned => {
            let by = worker();
            because(
                "assigned",
                job.updated_at,
                by,
                "the worker must start it, or be gone for it to be moved".into(),
            )
        }
        Status::Waiting if job.waiting_for == Some(WaitFor::Upstream) && job.due_at.is_none() => {
            let by = format!("{} of the jobs it waits for: {}", job.children, around.upstream.join(", "));
            because("upstream", job.updated_at, by, format!("`windlass flow graph {}`", job.id))
        }
        Status::Waiting if job.due_at.is_none_or(|t| t > now) => {
            let what = job.waiting_for.map_or("something", |w| w.as_str());
            let by = job.wait_name.as_ref().map_or_else(|| what.to_owned(), |n| format!("{what} {n}"));
            let name = job.wait_name.as_ref().map_or("NAME", |name| name.as_str());
            let wakes = match (job.waiting_for, job.due_at) {
                (_, Some(due)) => format!("it wakes at {due}"),
                (Some(WaitFor::Signal), None) => format!("`windlass jobs signal {} {name}`", job.id),
                (Some(WaitFor::Approval), None) => format!("`windlass approvals ls --job {}`", job.id),
                (Some(WaitFor::Children | WaitFor::Flow), None) => {
                    format!("`windlass jobs ls --parent-id {}`", job.id)
                }
                (_, None) => format!("`windlass jobs cancel {}`", job.id),
            };
            let fix = match job.deadline_at.filter(|_| job.due_at.is_none()) {
                Some(end) => format!("{wakes}; it gives up at {end}"),
                None => wakes,
            };
            because("waiting", job.updated_at, by, fix)
        }
        status if status.is_terminal() => None,
        _ => {
            if let Some((since, by)) = &around.paused {
                return because(
                    "paused",
                    *since,
                    by.clone(),
                    format!("`windlass queues resume {}`", job.queue),
                );
            }
            let due = job.due_at?;
            if due > now {
                return because(
                    "not_due",
                    job.updated_at,
                    "its run time".into(),
                    format!("it is due at {due}"),
                );
            }
            if let Some(broken) = &around.broken {
                let fix = match broken.tries(now) {
                    true => "one job at a time is tried until one succeeds".to_owned(),
                    false => format!("one job is tried at {}", broken.until),
                };
                let fix =
                    format!("{fix}; `windlass queues set {} …` with its limits mends it at once", job.queue);
                return because("broken", broken.at, format!("the breaker of the queue: {broken}"), fix);
            }
            if let Some(by) = &around.full {
                let fix = format!(
                    "it runs once a slot is free; `windlass queues set {} --limit N --per-key N` changes the limits",
                    job.queue
                );
                return because("limit", due, by.clone(), fix);
            }
            if let Some((by, until)) = &around.held {
                let fix = format!(
                    "it may start at {until}; `windlass lanes release {} [KEY]` lets it go at once",
                    job.queue
                );
                return because("held", due, format!("{by} until {until}"), fix);
            }
            if let Some((by, at)) = &around.rated {
                let fix = format!(
                    "it may start at {at}; `windlass queues set {} --rate N/s --key-rate N/s` changes the rates",
                    job.queue
                );
                return because("rate", due, by.clone(), fix);
            }
            if !around.has_worker {
                let fix = format!(
                    "start a worker for it: `windlass work --queue {} --kind {} --exec …`",
                    job.queue, job.kind
                );
                return because("no_worker", due, "no live worker".into(), fix);
            }
            None
        }
    }
}
