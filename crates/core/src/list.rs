//! Lists: filters, the order each filter is answered in, and opaque cursors.
//!
//! A list is driven by an index that exists for another reason, never by scanning the churning row. So the
//! order follows from the filter, and a page may be short although more follows: only a missing cursor is the end.

use crate::ids::JobId;
use crate::job::{Facts, Job};
use crate::lease::{hex, unhex};
use crate::limits::Invalid;
use crate::name::{Name, Who};
use crate::status::Status;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Which jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Any of these; empty is all. Dead letters: failed and timed out.
    pub statuses: Vec<Status>,
    /// In this queue.
    pub queue: Option<Name>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// Of this agent.
    pub agent_id: Option<Who>,
    /// With this tag.
    pub tag: Option<Name>,
    /// Spawned by this job.
    pub parent_id: Option<JobId>,
    /// Held by or assigned to this worker.
    pub worker_id: Option<Who>,
    /// With this last error.
    pub error_code: Option<Who>,
    /// Enqueued at or after.
    pub created_after: Option<Timestamp>,
    /// Enqueued before.
    pub created_before: Option<Timestamp>,
    /// Ended at or after.
    pub finished_after: Option<Timestamp>,
    /// Ended before.
    pub finished_before: Option<Timestamp>,
}

/// What drives a list, and so its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Newest id first: everything, or by kind, agent, parent or tag.
    Created,
    /// Last finished first: terminal statuses.
    Finished,
    /// As they will be claimed: pending, retry, orphaned.
    Due,
    /// By worker, then id: running jobs, or those of one worker.
    Worker,
    /// By status, then id: waiting and assigned.
    Parked,
}

impl Filter {
    /// What drives this list.
    pub fn order(&self) -> Order {
        let all =
            |class: &[Status]| !self.statuses.is_empty() && self.statuses.iter().all(|s| class.contains(s));
        if self.worker_id.is_some() {
            Order::Worker
        } else if self.parent_id.is_some() || self.agent_id.is_some() || self.tag.is_some() {
            Order::Created
        } else if all(&[Status::Completed, Status::Failed, Status::TimedOut, Status::Cancelled]) {
            Order::Finished
        } else if all(&[Status::Running]) {
            Order::Worker
        } else if all(&[Status::Pending, Status::Retry, Status::Orphaned]) {
            Order::Due
        } else if all(&[Status::Waiting, Status::Assigned]) {
            Order::Parked
        } else {
            Order::Created
        }
    }

    /// Whether a job belongs to the list. `facts` are asked only when the filter is about them.
    pub fn matches(&self, job: &Job, facts: impl FnOnce() -> Option<Facts>) -> bool {
        let is = |wanted: &Option<Name>, found: &Name| wanted.as_ref().is_none_or(|w| w == found);
        let from =
            |after: Option<Timestamp>, t: Option<Timestamp>| after.is_none_or(|a| t.is_some_and(|t| t >= a));
        let to =
            |before: Option<Timestamp>, t: Option<Timestamp>| before.is_none_or(|b| t.is_some_and(|t| t < b));
        let row = (self.statuses.is_empty() || self.statuses.contains(&job.status))
            && is(&self.queue, &job.queue)
            && is(&self.kind, &job.kind)
            && self.worker_id.as_ref().is_none_or(|w| job.worker_id.as_ref() == Some(w))
            && self.error_code.as_ref().is_none_or(|c| job.error_code.as_ref() == Some(c))
            && from(self.created_after, Some(job.created_at))
            && to(self.created_before, Some(job.created_at))
            && from(self.finished_after, job.finished_at)
            && to(self.finished_before, job.finished_at);
        if !row || (self.agent_id.is_none() && self.tag.is_none() && self.parent_id.is_none()) {
            return row;
        }
        facts().is_some_and(|f| {
            self.agent_id.as_ref().is_none_or(|a| f.agent_id.as_ref() == Some(a))
                && self.tag.as_ref().is_none_or(|t| f.tags.contains(t))
                && self.parent_id.is_none_or(|p| f.parent_id == Some(p))
        })
    }
}

/// Where a page ended. Comparing cursors of one list is the list's order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursor {
    /// Of [`Order::Created`].
    Created(Reverse<JobId>),
    /// Of [`Order::Finished`].
    Finished(Reverse<(Timestamp, JobId)>),
    /// Of [`Order::Due`].
    Due(Name, Reverse<i32>, Timestamp, JobId),
    /// Of [`Order::Worker`].
    Worker(Who, JobId),
    /// Of [`Order::Parked`].
    Parked(Status, JobId),
}

impl Cursor {
    /// Where `job` stands in a list of this order; none if it does not belong to any such list.
    pub fn of(order: Order, job: &Job) -> Option<Self> {
        Some(match order {
            Order::Created => Self::Created(Reverse(job.id)),
            Order::Finished => Self::Finished(Reverse((job.finished_at?, job.id))),
            Order::Due => Self::Due(job.queue.clone(), Reverse(job.priority), job.due_at?, job.id),
            Order::Worker => Self::Worker(job.worker_id.clone()?, job.id),
            Order::Parked => Self::Parked(job.status, job.id),
        })
    }

    /// The order this cursor belongs to.
    pub const fn order(&self) -> Order {
        match self {
            Self::Created(_) => Order::Created,
            Self::Finished(_) => Order::Finished,
            Self::Due(..) => Order::Due,
            Self::Worker(..) => Order::Worker,
            Self::Parked(..) => Order::Parked,
        }
    }

    /// The opaque text that users see.
    pub fn to_text(&self) -> String {
        format!("l1{}", hex(&serde_json::to_vec(self).unwrap_or_default()))
    }

    /// Parses what [`Cursor::to_text`] wrote, for a list of this order.
    pub fn parse(text: &str, order: Order) -> Result<Self, Invalid> {
        let wrong = || Invalid::new("cursor", text, "must come from a page of the same list");
        let bytes = text.strip_prefix("l1").and_then(unhex).ok_or_else(wrong)?;
        let cursor: Self = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
        if cursor.order() != order { Err(wrong()) } else { Ok(cursor) }
    }
}

/// A count that stopped counting at a cap: dashboards must not scan millions of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// How many were counted.
    pub n: i64,
    /// Whether there are more.
    pub capped: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back_and_foreign_ones_are_refused() {
        let cursor = Cursor::Created(Reverse(JobId::from_bytes([3; 16])));
        assert_eq!(Cursor::parse(&cursor.to_text(), Order::Created).unwrap(), cursor);
        assert!(Cursor::parse(&cursor.to_text(), Order::Due).is_err());
        assert!(Cursor::parse("l1zz", Order::Created).is_err() && Cursor::parse("", Order::Created).is_err());
    }
}
