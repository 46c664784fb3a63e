//! Jobs by the clock.

use crate::client::Client;
use crate::enqueue::{Request, millis};
use crate::error::Result;
use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;
use windlass_core::limits::HORIZON_MS;
use windlass_core::schedule::{Missed, Overlap, Schedule, Timing};
use windlass_core::{Facts, Invalid, JobId, Name, Timestamp};
use windlass_store::{Enqueue, PauseSchedule, PutSchedule, RemoveSchedule, ScheduleState, fresh};

impl Client {
    /// One schedule, to be made, changed, paused or asked.
    ///
    /// Schedules fire where somebody leads: in a server, or in a worker with [`Worker::schedules`](crate::Worker::schedules).
    /// Each slot becomes one job, however many of them there are.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Report { team: String }
    /// # impl windlass::Job for Report { const KIND: &str = "report"; type Output = (); }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// client
    ///     .schedule("nightly")
    ///     .cron("0 3 * * *", "Europe/Berlin")
    ///     .job(Report { team: "ops".into() })
    ///     .await?;
    /// assert_eq!(client.schedule("nightly").next(5).await?.len(), 5);
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub fn schedule(&self, name: &str) -> ScheduleHandle {
        ScheduleHandle { client: self.clone(), name: name.to_owned() }
    }

    /// Every schedule, by name.
    pub async fn schedules(&self) -> Result<Vec<ScheduleState>> {
        Ok(self.repeat(|| self.store().schedules((), None)).await?)
    }
}

/// One schedule. Made by [`Client::schedule`].
#[derive(Debug, Clone)]
pub struct ScheduleHandle {
    client: Client,
    name: String,
}

impl ScheduleHandle {
    fn name(&self) -> Result<Name, Invalid> {
        Name::parse("schedule", &self.name)
    }

    /// Fires when a clock in this zone shows what the text says: five fields, six with seconds in front, or a word like
    /// `@daily`. A time that a clock leaves out in spring happens right after the gap; one that it shows twice in autumn
    /// happens once.
    pub fn cron(&self, cron: &str, zone: &str) -> NewSchedule {
        self.timed(Timing::Cron(cron.to_owned()), zone)
    }

    /// Fires in a fixed interval of at least a second.
    pub fn every(&self, interval: Duration) -> NewSchedule {
        self.timed(Timing::Every(millis(interval, HORIZON_MS)), "UTC")
    }

    fn timed(&self, timing: Timing, zone: &str) -> NewSchedule {
        // The job is filled in later: only what makes times is looked at before.
        let nobody = Name::parse("kind", "job").map(|name| Facts::new(name.clone(), name));
        let schedule =
            nobody.map(|facts| Schedule { timezone: zone.to_owned(), ..Schedule::new(timing, facts) });
        NewSchedule { handle: self.clone(), schedule, job: None, expected_version: None }
    }

    /// The schedule as it stands; none if there is no such.
    pub async fn get(&self) -> Result<Option<ScheduleState>> {
        let name = self.name()?;
        Ok(self.client.repeat(|| self.client.store().schedule(name.clone(), None)).await?)
    }

    /// The next slots from now on, at most so many; none of a schedule that is paused or not there.
    pub async fn next(&self, count: usize) -> Result<Vec<Timestamp>> {
        let Some(state) = self.get().await? else { return Ok(vec![]) };
        let slots = state.schedule.slots(state.created_at)?;
        let mut next: Vec<Timestamp> = state.next_at.into_iter().take(count).collect();
        while next.len() < count
            && let Some(slot) = next.last().and_then(|last| slots.after(*last))
        {
            next.push(slot);
        }
        Ok(next)
    }

    /// Fires nothing until it is resumed.
    pub async fn pause(&self) -> Result<ScheduleState> {
        self.set_paused(true).await
    }

    /// Fires again, from the next slot on: what passed meanwhile was not missed.
    pub async fn resume(&self) -> Result<ScheduleState> {
        self.set_paused(false).await
    }

    async fn set_paused(&self, pause: bool) -> Result<ScheduleState> {
        let request = PauseSchedule { name: self.name()?, pause, actor: self.client.actor() };
        Ok(self.client.repeat(|| self.client.store().pause_schedule(request.clone(), None)).await??)
    }

    /// Removes it. Its jobs stay.
    pub async fn remove(&self) -> Result<()> {
        let request = RemoveSchedule { name: self.name()?, actor: self.client.actor() };
        Ok(self.client.repeat(|| self.client.store().remove_schedule(request.clone(), None)).await??)
    }

    /// Enqueues its job now, beside its slots; also while it is paused.
    pub async fn trigger(&self) -> Result<JobId> {
        let name = self.name()?;
        let missing = || windlass_core::Refusal::ScheduleNotFound(self.name.clone());
        let state = self.get().await?.ok_or_else(missing)?;
        let job = state.schedule.job_now(&name, fresh::job_id())?;
        self.enqueue(vec![job]).await?.pop().ok_or_else(|| missing().into())
    }

    /// Makes the jobs of the slots from `from` until before `to`, at most 1,000: those that have one keep it. Answers the jobs,
    /// the oldest slot's first.
    pub async fn backfill(&self, from: Timestamp, to: Timestamp) -> Result<Vec<JobId>> {
        let name = self.name()?;
        let missing = || windlass_core::Refusal::ScheduleNotFound(self.name.clone());
        let state = self.get().await?.ok_or_else(missing)?;
        let slots = state.schedule.slots(state.created_at)?.between(from, to)?;
        if slots.is_empty() {
            return Ok(vec![]);
        }
        let job = |slot: &Timestamp| state.schedule.job_of(&name, *slot, fresh::job_id());
        self.enqueue(slots.iter().map(job).collect::<Result<_, _>>()?).await
    }

    async fn enqueue(&self, jobs: Vec<windlass_core::NewJob>) -> Result<Vec<JobId>> {
        let request = Enqueue { jobs, actor: self.client.actor(), idempotency: None };
        let made = self.client.repeat(|| self.client.store().enqueue(request.clone(), None)).await??;
        Ok(made.into_iter().map(|made| made.id).collect())
    }
}

/// A schedule on its way into the store: made or changed when awaited. Made by [`ScheduleHandle::cron`] and
/// [`ScheduleHandle::every`].
#[derive(Debug)]
#[must_use = "nothing is scheduled before it is awaited"]
pub struct NewSchedule {
    handle: ScheduleHandle,
    schedule: Result<Schedule, Invalid>,
    job: Option<Request>,
    expected_version: Option<i64>,
}

impl NewSchedule {
    fn set(mut self, change: impl FnOnce(&mut Schedule)) -> Self {
        if let Ok(schedule) = &mut self.schedule {
            change(schedule);
        }
        self
    }

    /// What is enqueued at each slot: a job, or what [`Client::enqueue`] gives, with its options.
    pub fn job(mut self, job: impl Into<Request>) -> Self {
        self.job = Some(job.into());
        self
    }

    /// What becomes of slots that passed while nobody led: the newest is made up for, unless this says otherwise.
    pub fn missed(self, missed: Missed) -> Self {
        self.set(|schedule| schedule.missed = missed)
    }

    /// Makes up for so many missed slots, the newest.
    pub fn missed_all(self, most: u32) -> Self {
        self.set(|schedule| (schedule.missed, schedule.missed_max) = (Missed::All, most))
    }

    /// What becomes of a slot while the last job lives: it is fired, unless this says otherwise.
    pub fn overlap(self, overlap: Overlap) -> Self {
        self.set(|schedule| schedule.overlap = overlap)
    }

    /// Each job runs some while after its slot, at most so long: schedules of one moment do not come all at once.
    pub fn jitter(self, most: Duration) -> Self {
        self.set(|schedule| schedule.jitter_ms = millis(most, HORIZON_MS))
    }

    /// Nothing fires before.
    pub fn starts_at(self, time: impl Into<Timestamp>) -> Self {
        self.set(|schedule| schedule.starts_at = Some(time.into()))
    }

    /// Nothing fires from then on.
    pub fn ends_at(self, time: impl Into<Timestamp>) -> Self {
        self.set(|schedule| schedule.ends_at = Some(time.into()))
    }

    /// Only if it is at this version; 0 if it must not be there.
    pub fn expected_version(mut self, version: i64) -> Self {
        self.expected_version = Some(version);
        self
    }

    async fn put(self) -> Result<ScheduleState> {
        let Self { handle, schedule, job, expected_version } = self;
        let missing = || Invalid::new("job", "none", "say what the schedule enqueues: `.job(…)`");
        let policies = handle.client.policies().await?;
        let job = job.ok_or_else(missing)?.finish(&policies)?;
        let payload = job.payload.as_ref().map(|p| serde_json::from_slice(p.as_bytes())).transpose();
        let unreadable = |_| Invalid::new("payload", "bytes", "a schedule's payload is JSON");
        let schedule = Schedule { job: job.facts, payload: payload.map_err(unreadable)?, ..schedule? };
        let (name, actor) = (handle.name()?, handle.client.actor());
        let request = PutSchedule { name, schedule, expected_version, actor };
        Ok(handle.client.repeat(|| handle.client.store().put_schedule(request.clone(), None)).await??)
    }
}

impl IntoFuture for NewSchedule {
    type Output = Result<ScheduleState>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.put())
    }
}
