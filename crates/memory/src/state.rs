//! What is stored: each job with its log, and what surrounds jobs. [`State::write`] is how a job changes.

use crate::index::Index;
use crate::registry::Remembered;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use windlass_core::decide::Move;
use windlass_core::end::Ending;
use windlass_core::enqueue::UniqueKey;
use windlass_core::flow::{children, dependents};
use windlass_core::limits::{self, Invalid};
use windlass_core::retention::Tombstone;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Approval, ApprovalId, AuditEntry, Done, Event, EventKind, Facts, Job, JobId, Key, Life,
    LogLine, LogPart, Metadata, Name, Payload, Queue, Refusal, Status, Term, Timestamp, Version, Who, Worker,
};

/// A job with everything that goes when it goes.
pub(crate) struct Entry {
    /// Where it stands.
    pub job: Job,
    /// Its log, contiguous from version 1.
    pub events: Vec<Event>,
    /// Where its events stand in the feed, so that a purge finds them there.
    pub seqs: Vec<i64>,
    /// Which events carry a key: one event per key.
    pub keys: HashMap<Key, Version>,
    /// Its log lines.
    pub lines: Vec<LogLine>,
    /// Where lines are that moved to the archive.
    pub log_parts: Vec<LogPart>,
    /// Its approvals, in the order of their first asking.
    pub approvals: Vec<ApprovalId>,
}

impl Entry {
    /// What never changes about the job: in event 1.
    pub fn facts(&self) -> Option<&Facts> {
        match &self.event(1)?.what {
            EventKind::JobCreated(facts) => Some(facts),
            _ => None,
        }
    }

    /// An event by its version.
    pub fn event(&self, version: Version) -> Option<&Event> {
        self.events.get(usize::try_from(version - 1).ok()?)
    }

    /// The payload that a pointer of the row points at.
    pub fn payload(&self, version: Option<Version>) -> Option<Payload> {
        self.event(version?)?.payload.clone()
    }

    /// The payload, as it is now.
    pub fn payload_now(&self) -> Option<Payload> {
        self.payload(self.job.payload_version.or(Some(1)))
    }

    /// The whole metadata, as it is now.
    pub fn metadata(&self) -> Metadata {
        let changed = self.job.meta_version.and_then(|version| self.event(version));
        match changed.map(|event| &event.what) {
            Some(EventKind::JobCreated(facts)) => facts.metadata.clone(),
            Some(EventKind::JobProgressed(report)) => report.metadata.clone().unwrap_or_default(),
            _ => Metadata::new(),
        }
    }

    /// The event that carries a caller's key.
    pub fn keyed(&self, key: Option<&Key>) -> Option<&Event> {
        self.event(self.keys.get(key?).copied()?)
    }
}

/// Everything the store knows.
pub(crate) struct State {
    /// Which store this is, and which of its lives.
    pub life: Life,
    /// The moment of the last event: no verb happens before it.
    pub last_written_at: Timestamp,
    /// What time it is for verbs that are not given one.
    pub clock: windlass_store::Clock,
    /// Jobs. Boxed: an entry is some 800 bytes, and a growing map moves and over-allocates what it holds.
    pub entries: HashMap<JobId, Box<Entry>>,
    /// Jobs, in every order they are asked for.
    pub index: Index,
    /// Schedules.
    pub schedules: BTreeMap<Name, windlass_store::ScheduleState>,
    /// Triggers with the secrets of their webhooks.
    pub triggers: BTreeMap<Name, (windlass_store::TriggerState, Vec<windlass_core::trigger::KeptSecret>)>,
    /// Subscriptions with what they sign in with.
    pub subscriptions:
        BTreeMap<Name, (windlass_store::SubscriptionState, Option<windlass_store::Credential>)>,
    /// Papers.
    pub papers: BTreeMap<(windlass_store::PaperKind, Name), windlass_store::Paper>,
    /// Events that came in.
    pub trigger_events: BTreeMap<windlass_core::TriggerEventId, windlass_store::TriggerEvent>,
    /// Settings of the store.
    pub settings: windlass_store::SettingsState,
    /// Unique keys. They outlive jobs.
    pub holds: BTreeMap<UniqueKey, Hold>,
    /// How removed jobs ended whose unique key is left.
    pub purged: HashMap<JobId, (UniqueKey, Status)>,
    /// What is left of archived jobs, and since when.
    pub tombstones: BTreeMap<JobId, (Tombstone, Timestamp)>,
    /// Approvals, oldest first.
    pub approvals: BTreeMap<ApprovalId, Approval>,
    /// Every event of every job, in the order of writing.
    pub feed: BTreeMap<i64, (JobId, Version)>,
    /// Events ever written.
    pub last_seq: i64,
    /// The highest number that was purged.
    pub purged_seq: i64,
    /// Terms.
    pub terms: BTreeMap<Name, Term>,
    /// What readers of the feed keep.
    pub kept: crate::follow::Kept,
    /// Seals over the log, and removals.
    pub sealed: crate::seals::Sealed,
    /// Queues with a setting.
    pub queues: BTreeMap<Name, Queue>,
    /// What starts of queues with rates have paid for, per lane.
    pub buckets: BTreeMap<(Name, windlass_core::Lane), windlass_core::rate::Bucket>,
    /// Whose turn it is in queues with rules.
    pub lane_places: windlass_store::LanePlaces,
    /// Workers that reported themselves.
    pub workers: BTreeMap<Who, Worker>,
    /// What operators did, oldest first.
    pub audit: Vec<AuditEntry>,
    /// Access keys.
    pub access_keys: BTreeMap<Who, AccessKey>,
    /// Answers to repeated requests.
    pub answers: BTreeMap<Key, Remembered>,
    /// Whether there is something new since the last look, and whether that includes a due job.
    pub news: Option<bool>,
    /// Jobs that ended and of which others are still to learn, in this verb.
    pub ended: VecDeque<Ending>,
    /// Whether that is under way.
    pub is_ending: bool,
}

impl State {
    /// Nothing yet.
    pub fn new(store: u64) -> Self {
        Self {
            life: Life { store, incarnation: 0 },
            last_written_at: Timestamp::from_micros(i64::MIN),
            clock: windlass_store::Clock::default(),
            entries: HashMap::new(),
            index: Index::default(),
            schedules: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            papers: BTreeMap::new(),
            triggers: BTreeMap::new(),
            trigger_events: BTreeMap::new(),
            settings: windlass_store::SettingsState::default(),
            holds: BTreeMap::new(),
            purged: HashMap::new(),
            tombstones: BTreeMap::new(),
            approvals: BTreeMap::new(),
            feed: BTreeMap::new(),
            last_seq: 0,
            purged_seq: 0,
            terms: BTreeMap::new(),
            kept: crate::follow::Kept::default(),
            sealed: crate::seals::Sealed::default(),
            queues: BTreeMap::new(),
            buckets: BTreeMap::new(),
            lane_places: windlass_store::LanePlaces::default(),
            workers: BTreeMap::new(),
            audit: Vec::new(),
            access_keys: BTreeMap::new(),
            answers: BTreeMap::new(),
            news: None,
            ended: VecDeque::new(),
            is_ending: false,
        }
    }

    /// A job that must exist.
    pub fn entry(&self, id: JobId) -> Result<&Entry, Refusal> {
        self.entries.get(&id).map(|entry| &**entry).ok_or(Refusal::NotFound)
    }

    /// Adds a job that begins with these events and stands where they lead.
    pub fn create(&mut self, job: Job, events: Vec<Event>, now: Timestamp) {
        let id = job.id;
        self.announce(&job, now);
        self.index.replace(None, Some(&job));
        let entry = Entry {
            job,
            events: Vec::with_capacity(events.len()),
            seqs: Vec::with_capacity(events.len()),
            keys: HashMap::new(),
            lines: Vec::new(),
            log_parts: Vec::new(),
            approvals: Vec::new(),
        };
        self.entries.insert(id, Box::new(entry));
        for event in events {
            self.log(event);
        }
    }

    /// Changes a job: row and event together, and what follows when it ended by that.
    pub fn write(&mut self, step: Move) -> Done {
        let Move { job, event } = step;
        let at = event.at;
        let done = Done::Moved(event.version, job.status);
        self.announce(&job, at);
        let before = self.entries.get(&job.id).map(|entry| &entry.job);
        let ending = before.and_then(|before| Ending::of(before, &job));
        self.replace(job);
        self.log(event);
        self.ended.extend(ending);
        if !self.is_ending {
            self.follow_ends(at);
        }
        done
    }

    /// Carries out what ends entail, one after the other: an end may bring about others, in a chain of any length.
    pub fn follow_ends(&mut self, now: Timestamp) {
        self.is_ending = true;
        while let Some(ending) = self.ended.pop_front() {
            self.end(ending, now);
        }
        self.is_ending = false;
    }

    /// Puts a new row in the place of the old one. By itself it is only a renewal, the one change without an event.
    pub fn replace(&mut self, job: Job) {
        let Some(entry) = self.entries.get_mut(&job.id) else { return };
        self.index.replace(Some(&entry.job), Some(&job));
        entry.job = job;
    }

    /// Notes that there is something new, for those who wait.
    pub fn tell(&mut self, due: bool) {
        self.news = Some(due || self.news.unwrap_or_default());
    }

    /// What is new since the last look.
    pub fn take_news(&mut self) -> Option<bool> {
        self.news.take()
    }

    fn announce(&mut self, job: &Job, now: Timestamp) {
        let is_free = job.status != Status::Running && !job.status.is_terminal();
        // An assigned job waits for its worker, which looks as for a due one.
        self.tell(job.is_due(now) && is_free || job.status == Status::Assigned);
    }

    fn log(&mut self, event: Event) {
        let Some(entry) = self.entries.get_mut(&event.job) else { return };
        self.last_written_at = self.last_written_at.max(event.at);
        self.last_seq += 1;
        self.feed.insert(self.last_seq, (event.job, event.version));
        entry.seqs.push(self.last_seq);
        if let Some(key) = &event.key {
            entry.keys.insert(key.clone(), event.version);
        }
        entry.events.push(event);
    }

    /// Carries out what the end of a job entails.
    fn end(&mut self, ending: Ending, now: Timestamp) {
        let Some(entry) = self.entries.get(&ending.job) else { return };
        if ending.frees_key
            && let Some(unique) = entry.facts().and_then(|facts| facts.unique.as_ref())
        {
            let key = (unique.scope.clone(), unique.key.clone());
            // Another job may have the key by now, if this one's hold ran out.
            if self.holds.get(&key).is_some_and(|hold| hold.job == ending.job) {
                self.holds.remove(&key);
            }
        }
        if ending.closes_approvals {
            for id in &entry.approvals {
                if let Some(approval) = self.approvals.get_mut(id) {
                    *approval = approval.clone().closed(now);
                }
            }
        }
        let parent = ending.parent.and_then(|parent| self.entries.get(&parent));
        for step in parent.map(|parent| ending.told(&parent.job, now)).unwrap_or_default() {
            self.write(step);
        }
        self.tell_graph(&ending, now);
    }

    /// Tells those who wait for a job that it has ended, and cancels the jobs of a flow with it.
    fn tell_graph(&mut self, ending: &Ending, now: Timestamp) {
        let Some(entry) = self.entries.get(&ending.job) else { return };
        let waiting = if ending.has_dependents { dependents(&entry.events) } else { Vec::new() };
        let nodes = if ending.cancels_children { children(&entry.events) } else { BTreeSet::new() };
        for dependent in waiting {
            let there = self.entries.get(&dependent.job);
            if let Some(step) = there.and_then(|there| ending.reaches(&there.job, dependent.on, now)) {
                self.write(step);
            }
        }
        for node in nodes {
            let there = self.entries.get(&node);
            if let Some(step) = there.and_then(|there| ending.cancels(&there.job, now)) {
                self.write(step);
            }
        }
    }
}

/// Refuses the items of a batch beyond the largest one.
pub(crate) fn in_batch(index: usize) -> Result<(), Invalid> {
    limits::count("items", index + 1, limits::BATCH_MAX)
}

/// A page size that is neither nothing nor too much.
pub(crate) fn page(limit: usize) -> usize {
    limit.clamp(1, limits::PAGE_MAX)
}
