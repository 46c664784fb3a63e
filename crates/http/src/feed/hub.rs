//! The one reader of the store's feed. It keeps what it read last; whoever listens takes it from there.
//!
//! The store is asked as often with ten thousand listeners as with one: on a hint, and every second.

use super::item::{Item, facts_of};
use super::rates::Rates;
use super::want::Want;
use crate::wire::registry::RatesShape;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Facts, FeedCursor, JobId, Name, Refusal};
use windlass_engine::service::FeedTail;
use windlass_store::{FeedPage, ReadEvents, ReadFeed, Store, StoreError, StoreResult, fresh};

/// How long a reader lets news gather, so that a busy store is not asked after every single commit.
const GATHER: Duration = Duration::from_millis(5);
/// The same while nobody listens: then only rates are counted.
const UNHEARD: Duration = Duration::from_millis(200);
/// How soon something that failed is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// Events and bytes that are kept for listeners.
const KEPT: usize = 8_192;
const KEPT_BYTES: usize = 16 << 20;
/// How many listeners catch up from the store at once.
const CATCHING: usize = 4;
/// Facts of jobs that are kept for filters.
const FACTS: usize = 10_000;
/// How long the store may be silent in good health. It is asked once a second, and silence is told within two.
const SILENT: Duration = Duration::from_millis(650);
/// How long a listener waits to join, and the reader for the store.
const PATIENCE: Duration = Duration::from_secs(5);

/// The recent end of the feed.
struct Ring {
    /// The number of the first item.
    base: u64,
    items: VecDeque<Arc<Item>>,
    bytes: usize,
    mark: Mark,
}

/// How far the reader has come, at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark {
    /// The number that the next item will have.
    pub(crate) end: u64,
    /// Resumes after all items before `end`; none before the first answer.
    pub(crate) head: Option<Arc<FeedCursor>>,
    /// Everything that was committed before this read began has been read.
    pub(crate) covered: u64,
    /// Grows when the feed had to be begun anew: numbers of before mean nothing then.
    pub(crate) epoch: u64,
}

/// What a listener finds at its place.
pub(crate) enum Taken {
    /// The next items.
    Items(Vec<Arc<Item>>),
    /// Nothing yet.
    Nothing(Mark),
    /// They are kept no more.
    Lagged,
    /// The feed was begun anew.
    Gone,
}

/// The one reader.
pub(crate) struct Hub {
    store: Arc<dyn Store>,
    /// A blocking lock: it is held to look or to push, never across an await.
    ring: Mutex<Ring>,
    /// Grows with the ring and with what is covered: for who listens to everything.
    news: watch::Sender<(u64, u64)>,
    /// For who listens to one job: the number after that of its newest item.
    jobs: Mutex<HashMap<JobId, (watch::Sender<u64>, usize)>>,
    /// How many reads have begun.
    begun: AtomicU64,
    /// Somebody wants a read now.
    wanted: Notify,
    catching: Semaphore,
    /// Facts of jobs, for filters. An async lock: whoever misses looks it up while the others wait for the answer.
    facts: tokio::sync::Mutex<HashMap<JobId, Option<Arc<Facts>>>>,
    rates: Mutex<Rates>,
    reading: Mutex<Reading>,
    lag_micros: AtomicI64,
    listeners: AtomicU64,
}

/// How the reader gets on with the store.
#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    /// When the store answered last.
    answered_at: Option<Instant>,
    /// When it was asked something that it has not answered yet.
    asked_at: Option<Instant>,
    /// Whether the last answer was a failure.
    is_failed: bool,
}

/// One of those who listen, for as long as it is held.
pub(crate) struct Counted(Arc<Hub>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let ring = Ring { base: 0, items: VecDeque::new(), bytes: 0, mark: Mark::default() };
        Self {
            store,
            ring: Mutex::new(ring),
            news: watch::Sender::new((0, 0)),
            jobs: Mutex::default(),
            begun: AtomicU64::new(0),
            wanted: Notify::new(),
            catching: Semaphore::new(CATCHING),
            facts: tokio::sync::Mutex::default(),
            rates: Mutex::default(),
            reading: Mutex::default(),
            lag_micros: AtomicI64::new(0),
            listeners: AtomicU64::new(0),
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Nothing panics while it is held.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the feed for as long as it is polled.
    pub(crate) async fn run(&self) {
        let mut feed = FeedTail::new(Arc::clone(&self.store), None).payloads(true);
        let mut chain: Option<u64> = None;
        loop {
            let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            match self.read(&mut feed).await {
                Ok(Ok(page)) => {
                    // A page that is not full ends at the moment at which the first full one before it was read.
                    let first = chain.take().unwrap_or(number);
                    let is_full = page.events.len() >= PAGE_MAX;
                    chain = is_full.then_some(first);
                    self.keep(page, (!is_full).then_some(first));
                }
                Ok(Err(_)) => {
                    tracing::warn!(
                        "the feed cannot be followed from here, as after another store took its place"
                    );
                    chain = None;
                    feed.begin_anew();
                    self.begin_anew();
                    continue;
                }
                Err(_) => {
                    feed.rest(GATHER).await;
                    continue;
                }
            }
            let gather = if feed.is_full() || self.listeners() > 0 { GATHER } else { UNHEARD };
            tokio::select! {
                () = feed.rest(gather) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    /// The next page, with a note of how the store gets on.
    async fn read(&self, feed: &mut FeedTail) -> StoreResult<Result<FeedPage, Refusal>> {
        self.reading().asked_at = Some(Instant::now());
        let page = feed.read().await;
        let mut reading = self.reading();
        (reading.asked_at, reading.is_failed) = (None, page.is_err());
        if page.is_ok() {
            reading.answered_at = Some(Instant::now());
        }
        page
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, page: FeedPage, covered: Option<u64>) {
        let items: Vec<Arc<Item>> = page.events.into_iter().map(|event| Arc::new(Item::new(event))).collect();
        let now = fresh::wall_clock();
        let lag = items.first().map_or(0, |item| now.as_micros().saturating_sub(item.at.as_micros()));
        self.lag_micros.store(lag.max(0), Ordering::Relaxed);
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        items.iter().for_each(|item| rates.count(item));
        drop(rates);
        let news = self.push(&items, page.next, covered);
        self.tell(&items, news);
    }

    /// Puts items into the ring, and answers how far it has come.
    pub(super) fn push(&self, items: &[Arc<Item>], next: FeedCursor, covered: Option<u64>) -> (u64, u64) {
        let mut ring = self.ring();
        for item in items {
            ring.bytes += item.weight();
            ring.items.push_back(Arc::clone(item));
        }
        while ring.items.len() > KEPT || (ring.bytes > KEPT_BYTES && ring.items.len() > 1) {
            let Some(oldest) = ring.items.pop_front() else { break };
            ring.bytes -= oldest.weight();
            ring.base += 1;
        }
        ring.mark.end += items.len() as u64;
        ring.mark.head = Some(Arc::new(next));
        ring.mark.covered = covered.unwrap_or(ring.mark.covered);
        (ring.mark.end, ring.mark.covered)
    }

    /// Wakes whoever listens to the items that were pushed last.
    pub(super) fn tell(&self, items: &[Arc<Item>], news: (u64, u64)) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if !jobs.is_empty() {
            // The newest first, so that whoever watches a job is woken once, however much of it came at once.
            for (number, item) in (1..=news.0).rev().zip(items.iter().rev()) {
                if let Some((sender, _)) = jobs.get(&item.job) {
                    sender.send_if_modified(|newest| {
                        let is_newer = *newest < number;
                        *newest = number.max(*newest);
                        is_newer
                    });
                }
            }
        }
        drop(jobs);
        self.news.send_replace(news);
    }

    fn begin_anew(&self) {
        let mut ring = self.ring();
        ring.items.clear();
        ring.bytes = 0;
        ring.base = ring.mark.end;
        ring.mark.head = None;
        ring.mark.epoch += 1;
        let news = (ring.mark.end, ring.mark.covered);
        drop(ring);
        self.news.send_replace(news);
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// How far the reader has come.
    pub(crate) fn mark(&self) -> Mark {
        self.ring().mark.clone()
    }

    /// How many reads have begun: a read with a greater number begins later than this call.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Asks for a read now.
    pub(crate) fn hurry(&self) {
        self.wanted.notify_one();
    }

    /// Told when there is something new.
    pub(crate) fn news(&self) -> watch::Receiver<(u64, u64)> {
        self.news.subscribe()
    }

    /// Waits until everything that is committed now has been read, and says how far that is.
    pub(crate) async fn now(&self) -> StoreResult<(Mark, Arc<FeedCursor>)> {
        let wanted = self.begun() + 1;
        self.hurry();
        let away = || StoreError::Unavailable("the feed was not read in time".into());
        let mut news = self.news.subscribe();
        let covered = news.wait_for(|(_, covered)| *covered >= wanted);
        timeout(PATIENCE, covered).await.map_err(|_| away())?.map_err(|_| away())?;
        let mark = self.mark();
        let head = mark.head.clone().ok_or_else(away)?;
        Ok((mark, head))
    }

    /// The items from a place on, some of them.
    pub(crate) fn take(&self, from: u64, epoch: u64, most: usize) -> Taken {
        let ring = self.ring();
        if ring.mark.epoch != epoch {
            return Taken::Gone;
        }
        let Some(skip) = from.checked_sub(ring.base) else { return Taken::Lagged };
        let items: Vec<_> = ring.items.iter().skip(skip as usize).take(most).cloned().collect();
        if items.is_empty() { Taken::Nothing(ring.mark.clone()) } else { Taken::Items(items) }
    }

    /// The place right after a cursor, if what came since is still kept.
    pub(crate) fn find(&self, cursor: &FeedCursor) -> Option<(u64, u64)> {
        let ring = self.ring();
        if ring.mark.head.as_deref() == Some(cursor) {
            return Some((ring.mark.end, ring.mark.epoch));
        }
        let place = ring.items.iter().rposition(|item| *item.cursor == *cursor)?;
        Some((ring.base + place as u64 + 1, ring.mark.epoch))
    }

    /// The items of one job that are still kept, and the number of the first item that is, of whichever job.
    pub(crate) fn of_job(&self, job: JobId, after: i64) -> (Vec<Arc<Item>>, u64) {
        let ring = self.ring();
        let items = ring.items.iter().filter(|item| item.job == job && item.version > after);
        (items.cloned().collect(), ring.base)
    }

    /// A page of the store's feed for one who is behind. Only so many ask at once.
    pub(crate) async fn behind(
        &self,
        after: &FeedCursor,
        limit: usize,
    ) -> StoreResult<Result<FeedPage, windlass_core::Refusal>> {
        let closed = |_| StoreError::Unavailable("the server ends".into());
        let _turn = self.catching.acquire().await.map_err(closed)?;
        self.store.feed(ReadFeed { after: Some(after.clone()), limit, payloads: true }, None).await
    }

    /// Whether somebody wants an event. What only its job's first event tells is looked up once for everybody.
    pub(crate) async fn is_wanted(&self, want: &Want, item: &Item) -> bool {
        if !want.takes(item) {
            return false;
        }
        if !want.needs_facts() {
            return true;
        }
        if let Some(facts) = item.facts() {
            return want.takes_facts(facts);
        }
        self.facts(item.job).await.is_some_and(|facts| want.takes_facts(&facts))
    }

    async fn facts(&self, job: JobId) -> Option<Arc<Facts>> {
        let mut known = self.facts.lock().await;
        if let Some(facts) = known.get(&job) {
            return facts.clone();
        }
        let request = ReadEvents { job, after: 0, limit: 1, newest_first: false };
        let mut tries = 0;
        let first = loop {
            match self.store.events(request, None).await {
                Ok(events) => break events.into_iter().next(),
                Err(_) if tries < 3 => tries += 1,
                // The event is not told; its cursor is, and a listener that needs it comes back for it.
                Err(_) => return None,
            }
            sleep(AGAIN).await;
        };
        let facts = first.as_ref().and_then(facts_of).map(|facts| Arc::new(facts.clone()));
        if known.len() >= FACTS {
            known.clear();
        }
        known.insert(job, facts.clone());
        facts
    }

    /// Watches one job, for as long as the answer is held.
    pub(crate) fn watch(self: &Arc<Self>, job: JobId) -> Watched {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let (sender, count) = jobs.entry(job).or_insert_with(|| (watch::Sender::new(0), 0));
        *count += 1;
        Watched { news: sender.subscribe(), hub: Arc::clone(self), job }
    }

    /// Counts one who listens.
    pub(crate) fn counted(self: &Arc<Self>) -> Counted {
        if self.listeners.fetch_add(1, Ordering::Relaxed) == 0 {
            // The reader may take its time just now.
            self.hurry();
        }
        Counted(Arc::clone(self))
    }

    /// How many listen.
    pub(crate) fn listeners(&self) -> u64 {
        self.listeners.load(Ordering::Relaxed)
    }

    /// Queues in which something happened in the last day.
    pub(crate) fn known(&self) -> Vec<Name> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).known(fresh::wall_clock())
    }

    /// What happened in a queue within the last minute.
    pub(crate) fn rates(&self, queue: &Name) -> RatesShape {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).of(queue, fresh::wall_clock())
    }

    /// Whether the store does not answer: it failed, was never asked, or is silent for longer than it may. It is asked
    /// every second, so this is known within two seconds.
    pub(crate) fn is_silent(&self) -> bool {
        let reading = *self.reading();
        let is_late = reading.asked_at.is_some_and(|at| at.elapsed() > SILENT);
        is_late || reading.is_failed || reading.answered_at.is_none()
    }

    /// How far the reader is behind what is written, in seconds.
    pub(crate) fn lag_seconds(&self) -> f64 {
        let answered_at = self.reading().answered_at;
        match answered_at.filter(|_| self.is_silent()) {
            Some(at) => at.elapsed().as_secs_f64(),
            None => self.lag_micros.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

/// One who watches one job.
pub(crate) struct Watched {
    pub(crate) news: watch::Receiver<u64>,
    hub: Arc<Hub>,
    job: JobId,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut jobs = self.hub.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((sender, count)) = jobs.get_mut(&self.job)
            // A feed that was begun anew took the entry with it, and this may be a newer one.
            && sender.subscribe().same_channel(&self.news)
        {
            *count -= 1;
            if *count == 0 {
                jobs.remove(&self.job);
            }
        }
    }
}
