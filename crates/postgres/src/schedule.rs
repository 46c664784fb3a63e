//! Jobs by the clock.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{Columns, Ts, name};
use tokio_postgres::Row;
use windlass_core::operate::Cancel;
use windlass_core::schedule::Changed;
use windlass_core::{Name, Refusal, Timestamp};
use windlass_store::{
    Applied, ApplySchedules, Enqueue, Enqueued, FireSchedule, Now, PauseSchedule, PutSchedule,
    RemoveSchedule, ScheduleState,
};

/// A schedule. One that does not read back says so in its place: it stops no other.
fn state(row: &Row) -> Tried<ScheduleState> {
    let mut c = Columns::new(row, 0);
    let name = c.text_or(name, Name::unreadable)?;
    Ok(serde_json::from_str(c.get()?).unwrap_or_else(|why| ScheduleState::unreadable(name, why)))
}

impl Db<'_> {
    pub(crate) async fn schedule(&self, request: &Name, _: Now) -> Tried<Option<ScheduleState>> {
        self.one(sql!("schedule"), params![request.as_str()], state).await
    }

    pub(crate) async fn schedules(&self, (): &(), _: Now) -> Tried<Vec<ScheduleState>> {
        self.all(sql!("schedules"), params![], state).await
    }

    pub(crate) async fn due_schedules(&self, limit: &usize, now: Now) -> Tried<Vec<Name>> {
        let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
        self.all(sql!("due_schedules"), params![now.map(Ts), limit], |row| Columns::new(row, 0).text(name))
            .await
    }
}

impl Tx<'_> {
    async fn lock_schedule(&self, name: &Name) -> Tried<(Option<ScheduleState>, Timestamp)> {
        let name = name.as_str();
        let lock = params![name];
        tokio::try_join!(biased; self.one(sql!("lock_schedule"), lock, state), self.now())
    }

    pub(crate) async fn put_schedule(&self, request: &PutSchedule) -> Tried<Result<ScheduleState, Refusal>> {
        let (before, now) = self.lock_schedule(&request.name).await?;
        let changed = granted!(request.decide(before.as_ref(), now));
        self.change_schedule(&request.name, before, changed, now).await
    }

    pub(crate) async fn pause_schedule(
        &self,
        request: &PauseSchedule,
    ) -> Tried<Result<ScheduleState, Refusal>> {
        let (before, now) = self.lock_schedule(&request.name).await?;
        let changed = granted!(request.decide(before.as_ref(), now));
        self.change_schedule(&request.name, before, changed, now).await
    }

    async fn change_schedule(
        &self,
        name: &Name,
        before: Option<ScheduleState>,
        changed: Changed,
        now: Timestamp,
    ) -> Tried<Result<ScheduleState, Refusal>> {
        let Some((state, audit)) = changed else {
            return Ok(before.ok_or_else(|| Refusal::ScheduleNotFound(name.to_string())));
        };
        self.save_schedule(&state, before.is_some()).await?;
        self.put_audit(&audit, now).await?;
        Ok(Ok(state))
    }

    async fn save_schedule(&self, state: &ScheduleState, was_there: bool) -> Tried<()> {
        if state.is_unreadable() {
            return self.execute(sql!("set_aside_schedule"), params![state.name.as_str()]).await;
        }
        let text = serde_json::to_string(state)?;
        let (name, next_at) = (state.name.as_str(), state.next_at.map(Ts));
        let put = self.rows(sql!("put_schedule"), params![name, next_at, text, was_there]).await?;
        if put.is_empty() { Err(Failure::Raced) } else { Ok(()) }
    }

    pub(crate) async fn remove_schedule(&self, request: &RemoveSchedule) -> Tried<Result<(), Refusal>> {
        let (before, now) = self.lock_schedule(&request.name).await?;
        let audit = granted!(request.decide(before.as_ref()));
        self.execute(sql!("remove_schedule"), params![request.name.as_str()]).await?;
        self.put_audit(&audit, now).await?;
        Ok(Ok(()))
    }

    pub(crate) async fn apply_schedules(
        &self,
        request: &ApplySchedules,
    ) -> Tried<Result<Vec<Applied>, Refusal>> {
        let before = self.all(sql!("lock_schedules"), params![], state).await?.into_iter();
        let before = before.map(|state| (state.name.clone(), state)).collect();
        let now = self.now().await?;
        let all = granted!(request.decide(&before, now));
        for Applied { name, before, after, audit } in all.iter().filter(|_| !request.dry_run) {
            let Some(audit) = audit else { continue };
            match after {
                Some(state) => self.save_schedule(state, before.is_some()).await?,
                None => self.execute(sql!("remove_schedule"), params![name.as_str()]).await?,
            }
            self.put_audit(audit, now).await?;
        }
        Ok(Ok(all))
    }

    /// The leader's term first, then the schedule, then what its jobs need.
    pub(crate) async fn fire_schedule(
        &self,
        request: &FireSchedule,
    ) -> Tried<Result<Vec<Enqueued>, Refusal>> {
        let term = self.share_term(&request.term).await?;
        let (before, now) = self.lock_schedule(&request.name).await?;
        let last = match before.as_ref().and_then(|state| state.last_job) {
            Some(job) => self.job(job).await?.map(|job| job.status),
            None => None,
        };
        let decided = request.decide(term.as_ref(), before.as_ref(), last, now);
        let Some(firing) = granted!(decided) else { return Ok(Ok(vec![])) };
        let actor = granted!(request.actor());
        let made = if firing.jobs.is_empty() {
            vec![]
        } else {
            let made = Enqueue { jobs: firing.jobs, actor: actor.clone(), idempotency: None };
            granted!(self.enqueue(&made).await?.map_err(|refused| refused.refusal))
        };
        if let Some(job) = firing.cancel {
            // It may have ended since: then there is nothing to cancel.
            let _ended = self.cancel(&Cancel::for_next_slot(job, actor)).await?;
        }
        self.save_schedule(&firing.state.after(&made), true).await?;
        Ok(Ok(made))
    }
}
