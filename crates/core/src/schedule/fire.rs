//! What a firing makes: which slots become jobs now.

use super::{MISSED_AFTER_MS, MISSED_MAX, Missed, Overlap, SLOTS_MAX, ScheduleState};
use crate::ids::JobId;
use crate::job::NewJob;
use crate::name::{Actor, Name};
use crate::refusal::Refusal;
use crate::status::Status;
use crate::term::Term;
use crate::time::Timestamp;

/// What counts as missed, and how much of it is made up for: settings of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissedLimits {
    /// A slot that is so much later was missed, in milliseconds.
    pub after_ms: i64,
    /// Most missed slots that are made up for in one go, whatever a schedule says.
    pub max: u32,
}

impl Default for MissedLimits {
    fn default() -> Self {
        Self { after_ms: MISSED_AFTER_MS, max: MISSED_MAX as u32 }
    }
}

/// A leader's wish to fire a schedule whose slot has come.
#[derive(Debug, Clone)]
pub struct FireSchedule {
    /// The leader's term.
    pub term: Name,
    /// Its epoch.
    pub epoch: i64,
    /// Which schedule.
    pub name: Name,
    /// Ids for its jobs: no more slots are fired at once than there are ids.
    pub ids: Vec<JobId>,
    /// What counts as missed.
    pub missed: MissedLimits,
}

/// What a firing writes, in one transaction.
#[derive(Debug)]
pub struct Firing {
    /// The jobs of the slots that are fired.
    pub jobs: Vec<NewJob>,
    /// The job of the last slot, to be cancelled.
    pub cancel: Option<JobId>,
    /// The schedule afterwards; its last job is the last of these jobs, or the one that has its slot already.
    pub state: ScheduleState,
}

impl FireSchedule {
    /// Who enqueues.
    pub fn actor(&self) -> Result<Actor, Refusal> {
        Ok(Actor::try_from(format!("schedule:{}", self.name))?)
    }

    /// Which slots become jobs now; none if nothing is due. `last` is where the job of the last slot stands.
    pub fn decide(
        &self,
        term: Option<&Term>,
        before: Option<&ScheduleState>,
        last: Option<Status>,
        now: Timestamp,
    ) -> Result<Option<Firing>, Refusal> {
        match term {
            Some(term) if term.allows(self.epoch, now) => {}
            other => return Err(Refusal::StaleEpoch(other.map_or(0, |term| term.epoch))),
        }
        let Some(state) = before else { return Err(Refusal::ScheduleNotFound(self.name.to_string())) };
        if state.is_unreadable() {
            // It is set aside: it must not be asked for every second, nor written over.
            return Ok(Some(Firing { jobs: vec![], cancel: None, state: state.clone() }));
        }
        let Some(next_at) = state.next_at.filter(|at| *at <= now && state.paused.is_none()) else {
            return Ok(None);
        };
        let schedule = &state.schedule;
        let slots = match schedule.slots(state.created_at) {
            Ok(slots) => slots,
            // It was readable once. It must not stop the others, nor be asked for ever.
            Err(invalid) => {
                let broken = Some(invalid.to_string());
                let state = ScheduleState { next_at: None, broken, ..state.clone() };
                return Ok(Some(Firing { jobs: vec![], cancel: None, state }));
            }
        };
        let room = self.ids.len().min(SLOTS_MAX);
        let in_time = now.plus_ms(-self.missed.after_ms);
        let missed = match schedule.missed {
            Missed::Skip => vec![],
            Missed::Once => slots.newest(next_at, in_time, 1),
            Missed::All => slots.newest(next_at, in_time, schedule.missed_max.min(self.missed.max) as usize),
        };
        let rest =
            slots.newest(next_at.max(Timestamp::from_micros(in_time.as_micros() + 1)), now, usize::MAX);
        // One late slot is enough where a later one is in time.
        let missed = if schedule.missed == Missed::Once && !rest.is_empty() { vec![] } else { missed };
        let mut due: Vec<Timestamp> = missed.into_iter().chain(rest).collect();
        let left = due.split_off(due.len().min(room));
        let lives = last.is_some_and(|status| !status.is_terminal());
        let mut cancel = None;
        match schedule.overlap {
            Overlap::Allow => {}
            Overlap::Skip if lives => due.clear(),
            // Of several at once only the first would not overlap.
            Overlap::Skip => due.truncate(1),
            Overlap::Cancel => {
                due = due.split_off(due.len().saturating_sub(1));
                cancel = state.last_job.filter(|_| lives && !due.is_empty());
            }
        }
        let jobs = due.iter().zip(&self.ids).map(|(slot, id)| schedule.job_of(&self.name, *slot, *id));
        let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        let next_at = left.first().copied().or_else(|| slots.after(now));
        let state = ScheduleState {
            next_at,
            last_slot: due.last().copied().or(state.last_slot),
            last_job: jobs.last().map(|job| job.id).or(state.last_job),
            ..state.clone()
        };
        Ok(Some(Firing { jobs, cancel, state }))
    }
}
