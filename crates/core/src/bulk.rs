//! What is done to everything that a filter matches.

use crate::ids::JobId;
use crate::job::{Job, RunAt};
use crate::list::Filter;
use crate::status::Status;
use crate::time::Timestamp;
use crate::undo::is_undo;
use serde::{Deserialize, Serialize};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BulkAction {
    /// Stop them.
    Cancel,
    /// Send them back.
    Redrive,
}

impl BulkAction {
    /// The word for it in the audit.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "bulk.cancel",
            Self::Redrive => "bulk.redrive",
        }
    }

    /// Whether it is for a job that a filter found. What undoes jobs is cancelled only by a filter that names its kind: else
    /// whoever cancels all of a queue would keep what is cancelled there from being undone.
    pub fn is_for_found(self, job: &Job, filter: &Filter) -> bool {
        let spares = self == Self::Cancel && is_undo(&job.kind) && filter.kind.as_ref() != Some(&job.kind);
        self.is_for(job.status) && !spares
    }

    /// Whether it is for jobs that stand here.
    pub fn is_for(self, status: Status) -> bool {
        match self {
            Self::Cancel => !status.is_terminal(),
            Self::Redrive => status.is_terminal() && status != Status::Completed,
        }
    }

    /// The statuses when the filter names none: nobody wants every cancelled job back by leaving something out.
    pub fn usual(self) -> Vec<Status> {
        match self {
            Self::Cancel => Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect(),
            Self::Redrive => vec![Status::Failed, Status::TimedOut],
        }
    }
}

/// When a job runs that is sent back with others, from a time on and spread over a period. Spread evenly by the random part of
/// the id, which needs no count and is the same for a repeat.
pub fn spread(job: JobId, run_at: Option<Timestamp>, spread_ms: i64) -> RunAt {
    let mut random = [0u8; 8];
    random.copy_from_slice(&job.as_bytes()[8..]);
    // The first two bits say which kind of UUID it is.
    let share = u128::from(u64::from_be_bytes(random) << 2);
    let spread_ms = spread_ms.max(0) as u128;
    let offset_ms = ((share * spread_ms) >> 64) as i64;
    match run_at {
        Some(time) => RunAt::At(time.plus_ms(offset_ms)),
        None if offset_ms == 0 => RunAt::Now,
        None => RunAt::After(offset_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_reaches_from_now_to_the_end() {
        let id = |n: u64| JobId::from_parts(Timestamp::from_micros(1), n.to_be_bytes());
        let ms = |n: u64| match spread(id(n), None, 10_000) {
            RunAt::Now => 0,
            RunAt::After(ms) => ms,
            RunAt::At(_) => unreachable!(),
        };
        assert_eq!(ms(0), 0);
        assert_eq!(ms(u64::MAX), 9_999);
        assert!((4_900..5_100).contains(&ms(u64::MAX >> 3)), "{}", ms(u64::MAX >> 3));
    }
}
