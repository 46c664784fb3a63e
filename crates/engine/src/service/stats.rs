//! The reader of the feed that makes stats and problems of it.

use crate::service::follower::Reader;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::follow::STATS;
use windlass_core::problem::{Sighting, Sightings};
use windlass_core::stats::{Gauge, Resolution, Rollups, Standing, is_timed};
use windlass_core::{EventKind, Filter, Job, JobId, Name, Status, Timestamp, Version};
use windlass_store::{AtVersion, FeedEvent, Findings, List, Place, ReadEvents, Store, StoreResult, fresh};

/// How many jobs it remembers, so that their next event needs no look: twice as many, at most.
const REMEMBERED: usize = 50_000;
/// How many jobs it looks up side by side.
const LOOKS: usize = 8;
/// How often it looks how queues stand.
const SAMPLE: Duration = Duration::from_secs(60);
/// How often it removes what is older than it is kept.
const FORGET: Duration = Duration::from_secs(600);
/// Up to where due jobs of a queue are counted.
const DEPTH_MAX: i64 = 100_000;
/// Up to how many pages of running jobs are counted.
const BUSY_PAGES: usize = 20;

/// Adds up the feed.
#[derive(Debug)]
pub struct StatsReader {
    store: Arc<dyn Store>,
    /// How jobs stand whose last event said so. Dropping any of it costs a look.
    young: HashMap<JobId, Standing>,
    old: HashMap<JobId, Standing>,
    /// Events before are counted already.
    since: Option<Timestamp>,
    sampled: Option<Instant>,
    forgot: Option<Instant>,
}

/// How a job stood before one of its events.
type Looked = HashMap<(JobId, Version), Standing>;

impl StatsReader {
    /// Adds up the feed of this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let (young, old) = (HashMap::new(), HashMap::new());
        Self { store, young, old, since: None, sampled: None, forgot: None }
    }

    fn known(&self, job: JobId) -> Option<Standing> {
        self.young.get(&job).or_else(|| self.old.get(&job)).copied()
    }

    fn know(&mut self, job: JobId, standing: Option<Standing>) {
        self.old.remove(&job);
        match standing {
            Some(standing) => {
                if self.young.len() >= REMEMBERED {
                    self.old = std::mem::take(&mut self.young);
                }
                self.young.insert(job, standing);
            }
            None => drop(self.young.remove(&job)),
        }
    }

    fn forget_all(&mut self) {
        (self.young, self.old) = (HashMap::new(), HashMap::new());
    }

    fn counts(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| at >= since)
    }

    /// Looks up how jobs stood before those events for which that is needed and not known.
    async fn look_up(&self, events: &[FeedEvent]) -> StoreResult<Looked> {
        let mut known: HashMap<JobId, Option<Standing>> = HashMap::new();
        let mut wanted = Vec::new();
        for fed in events {
            let job = fed.event.job;
            let before = *known.entry(job).or_insert_with(|| self.known(job));
            if before.is_none() && is_timed(&fed.event) {
                wanted.push((job, fed.event.version));
            }
            known.insert(job, Standing::after(before, &fed.event));
        }
        let looks = stream::iter(wanted).map(|(job, version)| async move {
            StoreResult::Ok(((job, version), self.look_at(job, version - 1).await?))
        });
        let found: Vec<_> = looks.buffer_unordered(LOOKS).try_collect().await?;
        Ok(found.into_iter().filter_map(|(key, standing)| Some((key, standing?))).collect())
    }

    /// How a job stood at a version; none if it is gone.
    async fn look_at(&self, job: JobId, version: Version) -> StoreResult<Option<Standing>> {
        let at = async |version| self.store.at_version(AtVersion { job, version }, None).await;
        let Some(stood) = at(version).await? else { return Ok(None) };
        let in_line = match Standing::of(&stood) {
            Ok(standing) => return Ok(Some(standing)),
            Err(version) => at(version).await?,
        };
        Ok(in_line.and_then(|job| Standing::of(&job).ok()))
    }

    /// Takes back what the copied part of a fork's log was counted as: it happened to another job. So is the log of a job that
    /// came back from the archive: it was counted when it happened.
    async fn take_back(&self, fork: &FeedEvent, rows: &mut Rollups, seen: &mut Sightings) -> StoreResult<()> {
        let (job, end) = (fork.event.job, fork.event.version);
        let (mut stood, mut after): (Option<Job>, Version) = (None, 0);
        // How it stood last when it was not assigned.
        let mut before: Option<Standing> = None;
        let (mut copied_rows, mut copied_seen) = (Rollups::default(), Vec::new());
        while after < end - 1 {
            let read = ReadEvents { job, after, limit: 1_000, newest_first: false };
            let page = self.store.events(read, None).await?;
            if page.is_empty() {
                break;
            }
            for event in page.into_iter().filter(|event| event.version < end) {
                after = event.version;
                if matches!(event.what, EventKind::JobForked(_) | EventKind::JobRestored) {
                    // What was copied twice was taken back there.
                    (copied_rows, copied_seen) = (Rollups::default(), Vec::new());
                }
                if self.counts(event.at) {
                    copied_rows.count(&fork.queue, &fork.kind, &event, before, -1);
                    copied_seen.extend(Sighting::of(&fork.kind, &event).map(Sighting::taken_back));
                }
                match &mut stood {
                    Some(job) => job.apply(&event),
                    None => stood = Job::created(&event),
                }
                before = stood.as_ref().and_then(|job| Standing::of(job).ok()).or(before);
            }
        }
        rows.merge(copied_rows.into_rows());
        copied_seen.into_iter().for_each(|one| seen.add(one));
        Ok(())
    }

    async fn add_up(&mut self, events: &[FeedEvent]) -> StoreResult<Findings> {
        let looked = self.look_up(events).await?;
        let (mut rows, mut seen) = (Rollups::default(), Sightings::default());
        for fed in events {
            let event = &fed.event;
            let known = self.known(event.job);
            let before = known.or_else(|| looked.get(&(event.job, event.version)).copied());
            if matches!(event.what, EventKind::JobForked(_) | EventKind::JobRestored) {
                self.take_back(fed, &mut rows, &mut seen).await?;
            }
            if self.counts(event.at) {
                rows.count(&fed.queue, &fed.kind, event, before, 1);
                if let Some(sighting) = Sighting::of(&fed.kind, event) {
                    seen.add(sighting);
                }
            }
            self.know(event.job, Standing::after(known, event));
        }
        Ok(Findings { rollups: rows.into_rows(), sightings: seen.into_all(), ..Findings::default() })
    }

    /// How queues stand at this moment.
    async fn sample(&self) -> StoreResult<Vec<Gauge>> {
        let now = fresh::wall_clock();
        let mut queues: BTreeMap<Name, Gauge> = BTreeMap::new();
        let empty = |queue: &Name| Gauge {
            resolution: Resolution::Minute,
            at: now,
            queue: queue.clone(),
            depth: 0,
            oldest_ms: 0,
            busy: 0,
            capacity: 0,
        };
        for state in self.store.queues(DEPTH_MAX, None).await? {
            let oldest = state.oldest_due_at.map_or(0, |at| now.as_micros().saturating_sub(at.as_micros()));
            let gauge =
                Gauge { depth: state.due.n, oldest_ms: oldest.max(0) / 1_000, ..empty(&state.queue.name) };
            queues.insert(state.queue.name, gauge);
        }
        for worker in self.store.workers((), None).await? {
            if worker.expires_at > now && !worker.draining {
                for queue in &worker.queues {
                    let gauge = queues.entry(queue.clone()).or_insert_with(|| empty(queue));
                    gauge.capacity += i64::from(worker.capacity);
                }
            }
        }
        let filter = Filter { statuses: vec![Status::Running], ..Filter::default() };
        let mut list = List { filter, cursor: None, limit: 1_000 };
        for _ in 0..BUSY_PAGES {
            let Ok(page) = self.store.jobs(list.clone(), None).await? else { break };
            for one in page.items {
                let queue = &one.job.queue;
                queues.entry(queue.clone()).or_insert_with(|| empty(queue)).busy += 1;
            }
            list.cursor = page.next;
            if list.cursor.is_none() {
                break;
            }
        }
        let at_all = |gauge: &Gauge| gauge.depth + gauge.oldest_ms + gauge.busy + gauge.capacity > 0;
        let of = |gauge: Gauge| {
            Resolution::ALL.map(|resolution| Gauge { resolution, at: resolution.floor(now), ..gauge.clone() })
        };
        Ok(queues.into_values().filter(at_all).flat_map(of).collect())
    }
}

impl Reader for StatsReader {
    fn name(&self) -> Name {
        Name::parse("reader", STATS).unwrap_or_else(|_| unreachable!("it is a name"))
    }

    fn begin(&mut self, place: Option<&Place>) {
        self.forget_all();
        self.since = place.and_then(|place| place.since);
    }

    async fn read(&mut self, events: &[FeedEvent]) -> StoreResult<Findings> {
        let added = self.add_up(events).await;
        if added.is_err() {
            // Some of these events are known by now, and come again.
            self.forget_all();
        }
        added
    }

    async fn look(&mut self) -> StoreResult<Option<Findings>> {
        let is_due = |last: Option<Instant>, every| last.is_none_or(|last| last.elapsed() >= every);
        if !is_due(self.sampled, SAMPLE) {
            return Ok(None);
        }
        let gauges = self.sample().await?;
        self.sampled = Some(Instant::now());
        let forget = is_due(self.forgot, FORGET);
        if forget {
            self.forgot = self.sampled;
        }
        Ok((forget || !gauges.is_empty()).then(|| Findings { gauges, forget, ..Findings::default() }))
    }
}
