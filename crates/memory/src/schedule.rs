//! Jobs by the clock.

use crate::state::State;
use windlass_core::operate::Cancel;
use windlass_core::schedule::Changed;
use windlass_core::{Name, Refusal, Timestamp};
use windlass_store::{
    Applied, ApplySchedules, Enqueue, Enqueued, FireSchedule, PauseSchedule, PutSchedule, RemoveSchedule,
    ScheduleState,
};

impl State {
    /// Makes a schedule or changes it.
    pub fn put_schedule(&mut self, request: PutSchedule, now: Timestamp) -> Result<ScheduleState, Refusal> {
        let changed = request.decide(self.schedules.get(&request.name), now)?;
        self.change_schedule(&request.name, changed, now)
    }

    /// Pauses or resumes a schedule.
    pub fn pause_schedule(
        &mut self,
        request: PauseSchedule,
        now: Timestamp,
    ) -> Result<ScheduleState, Refusal> {
        let changed = request.decide(self.schedules.get(&request.name), now)?;
        self.change_schedule(&request.name, changed, now)
    }

    fn change_schedule(
        &mut self,
        name: &Name,
        changed: Changed,
        now: Timestamp,
    ) -> Result<ScheduleState, Refusal> {
        if let Some((state, audit)) = changed {
            self.write_audit(audit, now);
            self.schedules.insert(name.clone(), state);
        }
        self.schedules.get(name).cloned().ok_or_else(|| Refusal::ScheduleNotFound(name.to_string()))
    }

    /// Removes a schedule.
    pub fn remove_schedule(&mut self, request: RemoveSchedule, now: Timestamp) -> Result<(), Refusal> {
        let audit = request.decide(self.schedules.get(&request.name))?;
        self.write_audit(audit, now);
        self.schedules.remove(&request.name);
        Ok(())
    }

    /// Makes, changes and removes schedules, all or none.
    pub fn apply_schedules(
        &mut self,
        request: ApplySchedules,
        now: Timestamp,
    ) -> Result<Vec<Applied>, Refusal> {
        let all = request.decide(&self.schedules, now)?;
        for Applied { name, after, audit, .. } in all.iter().filter(|_| !request.dry_run) {
            if let Some(audit) = audit {
                self.write_audit(audit.clone(), now);
            }
            match after {
                Some(state) => self.schedules.insert(name.clone(), state.clone()),
                None => self.schedules.remove(name),
            };
        }
        Ok(all)
    }

    /// One schedule.
    pub fn schedule(&mut self, request: Name, _now: Timestamp) -> Option<ScheduleState> {
        self.schedules.get(&request).cloned()
    }

    /// Every schedule, by name.
    pub fn schedules(&mut self, _request: (), _now: Timestamp) -> Vec<ScheduleState> {
        self.schedules.values().cloned().collect()
    }

    /// Which schedules have a slot whose time has come, oldest first.
    pub fn due_schedules(&mut self, request: usize, now: Timestamp) -> Vec<Name> {
        let due = |state: &ScheduleState| Some((state.next_at.filter(|at| *at <= now)?, state.name.clone()));
        let mut due: Vec<_> = self.schedules.values().filter_map(due).collect();
        due.sort();
        due.into_iter().take(request).map(|(_, name)| name).collect()
    }

    /// Makes the jobs of the slots that have come, and moves the schedule on.
    pub fn fire_schedule(&mut self, request: FireSchedule, now: Timestamp) -> Result<Vec<Enqueued>, Refusal> {
        let before = self.schedules.get(&request.name);
        let last = before.and_then(|state| Some(self.entries.get(&state.last_job?)?.job.status));
        let Some(firing) = request.decide(self.terms.get(&request.term), before, last, now)? else {
            return Ok(vec![]);
        };
        let actor = request.actor()?;
        let made = Enqueue { jobs: firing.jobs, actor: actor.clone(), idempotency: None };
        let made = self.enqueue(made, now).map_err(|refused| refused.refusal)?;
        if let Some(job) = firing.cancel {
            // It may have ended since: then there is nothing to cancel.
            let _ended = self.cancel(Cancel::for_next_slot(job, actor), now);
        }
        self.schedules.insert(request.name, firing.state.after(&made));
        Ok(made)
    }
}
