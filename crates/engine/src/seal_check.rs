//! Checks the seals over the log: the chain itself, each sealed event, and that nothing stands beside what was sealed.
//!
//! Read in bounded pages beside a running system. Which events are in no seal although they are old can only be said job by
//! job; jobs are taken in so many portions that one fits into memory.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use windlass_core::erase::KeptHashes;
use windlass_core::seal::{Differing, SEALED_MAX, SEALS, SealHead, SealedEvent, Wrong};
use windlass_core::{EventKind, FeedCursor, JobId, Name, Timestamp, Version};
use windlass_store::{
    EventHash, EventKey, LogSeal, ReadEvents, ReadFeed, ReadSeals, Removal, Store, StoreError, StoreResult,
};

/// Seals per look: some 34 kB each, at most.
const SEALS_PAGE: usize = 20;
/// Events per look at a log for an erasure.
const EVENTS: usize = 100;
/// So many jobs are remembered at once: 40 bytes each.
const PORTION: u64 = 500_000;
/// So many events that are not sealed yet are told from what was inserted.
const UNSEALED_MAX: usize = 500_000;

/// A job, where it has one, and what is wrong.
pub type Problem = (Option<JobId>, String);

/// A head that was kept elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptHead {
    /// The number of the store that made the seal. Seals move to another store with their number.
    pub store: u64,
    /// What it was.
    pub head: SealHead,
}

/// What a look at all seals came to.
#[derive(Debug, Default)]
pub struct SealReport {
    /// Seals that were looked at.
    pub seals: u64,
    /// Events in them.
    pub events: u64,
    /// Of those, events of jobs that the engine removed.
    pub removed: u64,
    /// Of those, events that the engine erased.
    pub erased: u64,
    /// The end of the chain.
    pub last: Option<LogSeal>,
    /// What is wrong, in the order of the chain.
    pub problems: Vec<Problem>,
    /// Runs of events of one job: no fewer than jobs.
    runs: u64,
}

/// Looks at the seals of a store.
#[derive(Debug)]
pub struct SealCheck {
    store: Arc<dyn Store>,
    /// Where the sealing stood at the beginning: what comes later is not sealed yet.
    place: Option<FeedCursor>,
    most: usize,
}

/// Jobs of one portion, and up to which version the log of each is sealed.
#[derive(Debug, Default)]
pub struct SealedJobs {
    portion: u64,
    portions: u64,
    upto: HashMap<JobId, Version>,
    unsealed: HashSet<EventKey>,
    is_full: bool,
}

impl SealCheck {
    /// Looks at the seals of this store, and stops after so many problems.
    pub async fn new(store: Arc<dyn Store>, most: usize) -> StoreResult<Self> {
        let reader =
            Name::parse("reader", SEALS).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let place = store.place(reader, None).await?.and_then(|place| place.cursor);
        Ok(Self { store, place, most })
    }

    /// Checks the chain and every event in it. `heads` were kept elsewhere, also of stores whose jobs have moved here; `looked`
    /// is given the number of each page's last seal.
    pub async fn chain(&self, heads: &[KeptHead], mut looked: impl FnMut(i64)) -> StoreResult<SealReport> {
        let mut report = SealReport::default();
        let mut kept: HashMap<i64, Vec<&KeptHead>> = HashMap::new();
        heads.iter().for_each(|head| kept.entry(head.head.number).or_default().push(head));
        // Of every store that made one of these seals, and of this one, a head that does not fit says that something is wrong.
        let mut stores = BTreeSet::from([self.store.feed_head((), None).await?.life.store]);
        let mut unlike: Vec<&KeptHead> = Vec::new();
        let mut gone = BTreeSet::new();
        let mut last: Option<SealHead> = None;
        loop {
            let after = last.map_or(0, |last| last.number);
            let page = self.store.seals(ReadSeals { after, limit: SEALS_PAGE }, None).await?;
            for seal in &page {
                report.seals += 1;
                stores.insert(seal.life.store);
                let of_seal = kept.remove(&seal.number).unwrap_or_default();
                let fits = |kept: &&KeptHead| kept.store == seal.life.store && kept.head.hash == seal.hash;
                unlike.extend(of_seal.into_iter().filter(|kept| !fits(kept)));
                if let Some(why) = broken(seal, last.as_ref()) {
                    report.problems.push((None, why));
                } else if let Some(events) = seal.events() {
                    report.events += events.len() as u64;
                    report.runs += runs(&events);
                    self.events(seal.at, &events, &mut gone, &mut report).await?;
                } else {
                    report.problems.push((None, format!("seal {} does not read back", seal.number)));
                }
                last = Some(seal.head());
                if report.problems.len() >= self.most {
                    return Ok(report);
                }
            }
            let Some(end) = page.into_iter().next_back() else { break };
            looked(end.number);
            report.last = Some(end);
        }
        let end = last.map_or(0, |last| last.number);
        unlike.extend(kept.into_values().flatten());
        unlike.sort_by_key(|kept| kept.head.number);
        report.problems.extend(unlike.into_iter().map(|kept| (None, no_seal_of(kept, &stores, end))));
        Ok(report)
    }

    /// Compares the events of a seal with what is stored.
    async fn events(
        &self,
        at: Timestamp,
        events: &[SealedEvent],
        gone: &mut BTreeSet<JobId>,
        report: &mut SealReport,
    ) -> StoreResult<()> {
        for events in events.chunks(SEALED_MAX) {
            let keys = events.iter().map(|one| (one.job, one.version)).collect();
            let found = self.store.event_hashes(keys, None).await?;
            let differs = |(one, found): &(&SealedEvent, &Option<EventHash>)| {
                found.as_ref().map(EventHash::mark) != Some(one.mark)
            };
            let differing: Vec<_> = events.iter().zip(&found).filter(differs).collect();
            for of_job in differing.chunk_by(|a, b| a.0.job == b.0.job) {
                self.job(at, of_job, gone, report).await?;
            }
        }
        Ok(())
    }

    /// Judges events of one job that are not as they were sealed.
    async fn job(
        &self,
        sealed_at: Timestamp,
        differing: &[(&SealedEvent, &Option<EventHash>)],
        gone: &mut BTreeSet<JobId>,
        report: &mut SealReport,
    ) -> StoreResult<()> {
        let job = differing[0].0.job;
        let (job_is_here, erasures) = self.erasures(job).await?;
        // Last: what is gone in the meantime is on record by now.
        let removals: Vec<Removal> = self.store.removals(vec![job], None).await?;
        for (sealed, found) in differing {
            let found = **found;
            let judged =
                Differing { sealed_at, found, erasures: &erasures, removals: &removals, job_is_here };
            let version = sealed.version;
            let why = match judged.judge(sealed) {
                Ok(()) if removals.is_empty() => {
                    report.erased += 1;
                    continue;
                }
                Ok(()) => {
                    report.removed += 1;
                    continue;
                }
                Err(Wrong::JobGone) if !gone.insert(job) => continue,
                Err(Wrong::JobGone) => "the whole job is gone, and no removal is on record".to_owned(),
                Err(Wrong::Removed) => format!("version {version} of its log was removed"),
                Err(Wrong::Changed) => {
                    format!("version {version} of its log is not what was sealed: it was changed")
                }
            };
            report.problems.push((Some(job), why));
        }
        Ok(())
    }

    /// Whether a job is there, and what erasures of it kept.
    async fn erasures(&self, job: JobId) -> StoreResult<(bool, Vec<KeptHashes>)> {
        let (mut kept, mut after, mut is_here) = (Vec::new(), 0, false);
        loop {
            let read = ReadEvents { job, after, limit: EVENTS, newest_first: false };
            let page = match self.store.events(read, None).await {
                // What does not read back keeps nothing.
                Err(StoreError::Corrupt { .. }) => return Ok((true, kept)),
                page => page?,
            };
            let Some(last) = page.last() else { return Ok((is_here, kept)) };
            (after, is_here) = (last.version, true);
            let erased = page.iter().filter(|event| event.what == EventKind::JobErased);
            kept.extend(erased.filter_map(KeptHashes::read));
        }
    }

    /// In how many portions the jobs of a store are taken whose seals were looked at.
    pub fn portions(&self, report: &SealReport) -> u64 {
        if self.place.is_none() { 1 } else { report.runs.div_ceil(PORTION).max(1) }
    }

    /// Reads how far the jobs of a portion are sealed.
    pub async fn sealed_jobs(&self, portion: u64, portions: u64) -> StoreResult<SealedJobs> {
        let mut jobs = SealedJobs { portion, portions, ..SealedJobs::default() };
        let mut after = 0;
        loop {
            let page = self.store.seals(ReadSeals { after, limit: SEALS_PAGE }, None).await?;
            let Some(last) = page.last() else { return Ok(jobs) };
            after = last.number;
            for sealed in page.iter().filter_map(LogSeal::events).flatten() {
                if jobs.takes(sealed.job) {
                    let upto = jobs.upto.entry(sealed.job).or_default();
                    *upto = sealed.version.max(*upto);
                }
            }
        }
    }

    /// Which of the noted events are in no seal although they are older than what was sealed: somebody inserted them. Also
    /// whether there were too many of them to say so.
    pub async fn inserted(&self, jobs: SealedJobs) -> StoreResult<(Vec<Problem>, bool)> {
        let Some(place) = self.place.clone() else { return Ok((Vec::new(), false)) };
        let (mut unsealed, is_full) = (jobs.unsealed, jobs.is_full);
        // Somebody may have removed the event that it rests on. Then its number may have been given again, and what is new
        // cannot be told from what is old.
        let read = ReadFeed { after: Some(place.clone()), limit: 1, payloads: false };
        let doubt = match self.store.feed(read, None).await? {
            Ok(_) => ", and older than the last: it was inserted",
            Err(_) => ": it was inserted, or came since the last sealed event was removed",
        };
        let mut after = Some(FeedCursor { last: None, ..place });
        while !unsealed.is_empty() && !is_full {
            let read = ReadFeed { after: after.take(), limit: SEALED_MAX, payloads: false };
            // A place of before a restore: the log is sealed anew from its beginning, and nothing can be said before.
            let Ok(page) = self.store.feed(read, None).await? else { return Ok((Vec::new(), false)) };
            if page.events.is_empty() {
                break;
            }
            for fed in &page.events {
                unsealed.remove(&(fed.event.job, fed.event.version));
            }
            after = Some(page.next);
        }
        if is_full {
            return Ok((Vec::new(), true));
        }
        let mut strange: Vec<EventKey> = Vec::new();
        let all: Vec<EventKey> = unsealed.into_iter().collect();
        for keys in all.chunks(SEALED_MAX) {
            // What was removed with its job in the meantime is not strange.
            let found = self.store.event_hashes(keys.to_vec(), None).await?;
            strange.extend(keys.iter().zip(&found).filter(|(_, found)| found.is_some()).map(|(key, _)| *key));
        }
        strange.sort();
        let why = |version| format!("version {version} of its log is in no seal{doubt}");
        let found = strange.into_iter().take(self.most).map(|(job, version)| (Some(job), why(version)));
        Ok((found.collect(), false))
    }
}

impl SealedJobs {
    /// Whether a job is of this portion.
    pub fn takes(&self, job: JobId) -> bool {
        // The last bytes of an id are drawn.
        let bytes = job.as_bytes();
        self.portions <= 1
            || u64::from(u16::from_be_bytes([bytes[14], bytes[15]])) % self.portions == self.portion
    }

    /// Notes what of a job's log is in no seal.
    pub fn note(&mut self, job: JobId, version: Version) {
        for version in self.upto.get(&job).copied().unwrap_or_default() + 1..=version {
            if self.unsealed.len() >= UNSEALED_MAX {
                self.is_full = true;
                return;
            }
            self.unsealed.insert((job, version));
        }
    }
}

/// What is wrong with a seal.
fn broken(seal: &LogSeal, last: Option<&SealHead>) -> Option<String> {
    let (number, before) = (seal.number, last.map_or(0, |last| last.number));
    if number != before + 1 {
        return Some(format!("seals {} to {} are gone", before + 1, number - 1));
    }
    let why = "was changed, or the one before it: what it sealed is not checked";
    (!seal.follows(last)).then(|| format!("seal {number} {why}"))
}

/// Why a head fits no seal of a chain that ends at this number and was made by these stores.
fn no_seal_of(kept: &KeptHead, stores: &BTreeSet<u64>, end: i64) -> String {
    let number = kept.head.number;
    if !stores.contains(&kept.store) {
        return format!("the head of seal {number} was kept of another store");
    }
    if number > end {
        let why = "later seals were cut off, or the store was restored from an older back-up";
        return format!("seal {number}, of which the head was kept, is gone: the chain ends at {end}; {why}");
    }
    format!("seal {number} is not the one of which the head was kept: the chain was made anew")
}

fn runs(events: &[SealedEvent]) -> u64 {
    events.chunk_by(|a, b| a.job == b.job).count() as u64
}
