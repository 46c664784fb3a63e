//! Why a job is not running, and what to do about it.

use crate::job::Job;
use crate::status::Status;
use crate::time::Timestamp;
use serde::Serialize;

/// The answer to "why is it not running".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// One word: `paused`, `not_due`, `no_worker`, `waiting`, `assigned`, `cancelling`.
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
    /// Whether a live worker takes jobs of its queue and kind.
    pub has_worker: bool,
}

/// Why `job` is not running at `now`; none if it runs, is finished, or is about to run.
pub fn blocked(job: &Job, around: &Surroundings, now: Timestamp) -> Option<Blocked> {
    let because = |reason, since, by: String, fix: String| Some(Blocked { reason, since, by, fix });
    let worker = || job.worker_id.as_ref().map(ToString::to_string).unwrap_or_default();
    match job.status {
        Status::Running => {
            let since = job.cancel_requested_at?;
            let force = job.deadline_at.unwrap_or(now);
            because("cancelling", since, worker(), format!("wait until {force}, or cancel with force"))
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
        Status::Waiting if job.due_at.is_none_or(|t| t > now) => {
            let what = job.waiting_for.map_or("something", |w| w.as_str());
            let by = job.wait_name.as_ref().map_or_else(|| what.to_owned(), |n| format!("{what} {n}"));
            let fix = match (job.due_at, job.deadline_at) {
                (Some(due), _) => format!("it wakes at {due}"),
                (None, Some(end)) => format!("decide or send it before {end}"),
                (None, None) => "decide or send what it waits for, or cancel it".to_owned(),
            };
            because("waiting", job.updated_at, by, fix)
        }
        status if status.is_terminal() => None,
        _ => {
            if let Some((since, by)) = &around.paused {
                return because("paused", *since, by.clone(), format!("resume queue {}", job.queue));
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
            if !around.has_worker {
                let fix = format!("start a worker for queue {} and kind {}", job.queue, job.kind);
                return because("no_worker", due, "no live worker".into(), fix);
            }
            None
        }
    }
}
