//! Jobs by the clock.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use rusqlite::Row;
use windlass_core::operate::Cancel;
use windlass_core::schedule::Changed;
use windlass_core::{Name, Refusal, Timestamp};
use windlass_store::{
    Applied, ApplySchedules, Enqueue, Enqueued, FireSchedule, PauseSchedule, PutSchedule, RemoveSchedule,
    ScheduleState,
};

/// A schedule. One that does not read back says so in its place: it stops no other.
fn state(r: &Row<'_>) -> Tried<ScheduleState> {
    let name = Name::try_from(r.get::<_, String>(0)?).unwrap_or_else(|_| Name::unreadable());
    let state = serde_json::from_str(&r.get::<_, String>(1)?);
    Ok(state.unwrap_or_else(|why| ScheduleState::unreadable(name, why)))
}

impl Db<'_> {
    pub(crate) fn schedule(&self, name: &Name) -> Tried<Option<ScheduleState>> {
        self.one(sql!("schedule"), [name.as_str()], state)
    }

    pub(crate) fn schedules(&self) -> Tried<Vec<ScheduleState>> {
        self.all(sql!("schedules"), (), state)
    }

    pub(crate) fn due_schedules(&self, limit: usize, now: Timestamp) -> Tried<Vec<Name>> {
        let due = (now.as_micros(), i64::try_from(limit).unwrap_or(i64::MAX));
        let names = self.all(sql!("due_schedules"), due, |r| Ok(r.get::<_, String>(0)?))?;
        Ok(names.into_iter().filter_map(|name| Name::try_from(name).ok()).collect())
    }
}

impl Tx<'_, '_> {
    pub(crate) fn put_schedule(
        &self,
        request: &PutSchedule,
        now: Timestamp,
    ) -> Tried<Result<ScheduleState, Refusal>> {
        let before = self.schedule(&request.name)?;
        let changed = granted!(request.decide(before.as_ref(), now));
        self.change_schedule(&request.name, before, changed, now)
    }

    pub(crate) fn pause_schedule(
        &self,
        request: &PauseSchedule,
        now: Timestamp,
    ) -> Tried<Result<ScheduleState, Refusal>> {
        let before = self.schedule(&request.name)?;
        let changed = granted!(request.decide(before.as_ref(), now));
        self.change_schedule(&request.name, before, changed, now)
    }

    fn change_schedule(
        &self,
        name: &Name,
        before: Option<ScheduleState>,
        changed: Changed,
        now: Timestamp,
    ) -> Tried<Result<ScheduleState, Refusal>> {
        let Some((state, audit)) = changed else {
            return Ok(before.ok_or_else(|| Refusal::ScheduleNotFound(name.to_string())));
        };
        self.save_schedule(&state)?;
        self.write_audit(&audit, now)?;
        Ok(Ok(state))
    }

    fn save_schedule(&self, state: &ScheduleState) -> Tried<()> {
        if state.is_unreadable() {
            return self.execute(sql!("set_aside_schedule"), [state.name.as_str()]).map(|_| ());
        }
        let next_at = state.next_at.map(Timestamp::as_micros);
        let params = (state.name.as_str(), next_at, serde_json::to_string(state)?);
        self.execute(sql!("put_schedule"), params).map(|_| ())
    }

    pub(crate) fn remove_schedule(
        &self,
        request: &RemoveSchedule,
        now: Timestamp,
    ) -> Tried<Result<(), Refusal>> {
        let audit = granted!(request.decide(self.schedule(&request.name)?.as_ref()));
        self.execute(sql!("remove_schedule"), [request.name.as_str()])?;
        self.write_audit(&audit, now)?;
        Ok(Ok(()))
    }

    pub(crate) fn apply_schedules(
        &self,
        request: &ApplySchedules,
        now: Timestamp,
    ) -> Tried<Result<Vec<Applied>, Refusal>> {
        let before = self.schedules()?.into_iter().map(|state| (state.name.clone(), state)).collect();
        let all = granted!(request.decide(&before, now));
        for Applied { name, after, audit, .. } in all.iter().filter(|_| !request.dry_run) {
            let Some(audit) = audit else { continue };
            match after {
                Some(state) => self.save_schedule(state)?,
                None => self.execute(sql!("remove_schedule"), [name.as_str()]).map(|_| ())?,
            }
            self.write_audit(audit, now)?;
        }
        Ok(Ok(all))
    }

    pub(crate) fn fire_schedule(
        &self,
        request: &FireSchedule,
        now: Timestamp,
    ) -> Tried<Result<Vec<Enqueued>, Refusal>> {
        let before = self.schedule(&request.name)?;
        let last = match before.as_ref().and_then(|state| state.last_job) {
            Some(job) => self.job(job)?.map(|job| job.status),
            None => None,
        };
        let decided = request.decide(self.term(&request.term)?.as_ref(), before.as_ref(), last, now);
        let Some(firing) = granted!(decided) else { return Ok(Ok(vec![])) };
        let actor = granted!(request.actor());
        let made = Enqueue { jobs: firing.jobs, actor: actor.clone(), idempotency: None };
        let made = granted!(self.enqueue(&made, now)?.map_err(|refused| refused.refusal));
        if let Some(job) = firing.cancel {
            // It may have ended since: then there is nothing to cancel.
            let _ended = self.cancel(&Cancel::for_next_slot(job, actor), now)?;
        }
        self.save_schedule(&firing.state.after(&made))?;
        Ok(Ok(made))
    }
}
