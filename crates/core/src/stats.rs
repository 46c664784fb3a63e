//! Numbers over time: what the events of the feed add up to, per minute and per hour.
//!
//! Every event adds to the row of its minute and to the row of its hour, by the moment that the log gives it. So rows of
//! minutes can be removed early, an event that is read late counts where it belongs, and reading the whole log again gives
//! the same numbers.

use crate::event::{Event, EventKind};
use crate::job::{Job, Version};
use crate::name::Name;
use crate::status::Status;
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// How long a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// A minute; kept for 48 hours.
    Minute,
    /// An hour; kept for 90 days.
    Hour,
}

impl Resolution {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Minute, Self::Hour];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// The length of a slot, in milliseconds.
    pub const fn ms(self) -> i64 {
        match self {
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
        }
    }

    /// How long a slot is kept, in milliseconds.
    pub const fn kept_ms(self) -> i64 {
        match self {
            Self::Minute => 48 * 3_600_000,
            Self::Hour => 90 * 24 * 3_600_000,
        }
    }

    /// The beginning of the slot in which a moment lies.
    pub const fn floor(self, at: Timestamp) -> Timestamp {
        let long = self.ms() * 1_000;
        Timestamp::from_micros(at.as_micros().div_euclid(long).saturating_mul(long))
    }
}

macro_rules! tallies {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// What is counted. An attempt ends as one of `completed` to `lost`; these have the time that it ran.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Tally { $($(#[$doc])* $name,)* }

        impl Tally {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word for it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }
        }
    };
}

tallies! {
    /// A job came in.
    Enqueued = "enqueued",
    /// A worker began an attempt; its time is how long the job had been due.
    Started = "started",
    /// The job is done.
    Completed = "completed",
    /// The attempt failed or took too long, and is repeated.
    Retried = "retried",
    /// The job failed.
    Failed = "failed",
    /// The job took too long, and has no retry left.
    TimedOut = "timed_out",
    /// The job was cancelled; it has a time if it ran.
    Cancelled = "cancelled",
    /// The worker gave the job back without using a retry.
    Released = "released",
    /// The attempt ended with a wait.
    Waited = "waited",
    /// The lease was over before the attempt ended, and another worker began.
    Lost = "lost",
    /// An operator sent the job back to the line.
    Redriven = "redriven",
}

impl Tally {
    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.as_str() == word)
    }
}

/// What must be known of a job to time its next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Since when a worker may take it; none while one has it, or none may.
    pub due_at: Option<Timestamp>,
    /// Since when it runs.
    pub running_since: Option<Timestamp>,
}

impl Standing {
    /// Of a job as it stood; for an assigned one, the version at which it still stood in line.
    pub fn of(job: &Job) -> Result<Self, Version> {
        match (job.status, job.assignment) {
            (Status::Running, _) => Ok(Self { due_at: None, running_since: job.started_at }),
            (Status::Assigned, Some(assignment)) => Err(assignment - 1),
            _ => Ok(Self { due_at: job.due_at, running_since: None }),
        }
    }

    /// How the job stands after an event, if that follows from what is known; else it is to be looked up.
    pub fn after(before: Option<Self>, event: &Event) -> Option<Self> {
        match &event.what {
            EventKind::JobCreated(facts) => {
                let waits = facts.graph.as_ref().is_some_and(|graph| graph.waits_for().is_some());
                let due_at = (!waits).then(|| facts.run_at.resolve(event.at));
                Some(Self { due_at, running_since: None })
            }
            EventKind::JobClaimed | EventKind::JobStarted => {
                Some(Self { due_at: None, running_since: Some(event.at) })
            }
            EventKind::JobProgressed(_)
            | EventKind::NodeStarted(_)
            | EventKind::NodeFinished(_)
            | EventKind::ToolCalled(_)
            | EventKind::ToolReturned(_)
            | EventKind::JobCancelRequested(_)
            | EventKind::JobApprovalAsked(_)
            | EventKind::JobChildrenAdded(_)
            | EventKind::JobDependentsAdded(_)
            | EventKind::Noted(_) => before,
            _ => None,
        }
    }
}

/// What an event counts as; none if it is not counted.
pub fn tally(event: &Event) -> Option<Tally> {
    Some(match &event.what {
        EventKind::JobCreated(_) | EventKind::JobForked(_) => Tally::Enqueued,
        EventKind::JobClaimed | EventKind::JobStarted => Tally::Started,
        EventKind::JobCompleted => Tally::Completed,
        EventKind::JobRetried(_) => Tally::Retried,
        EventKind::JobTimedOut(d) if d.due_at.is_some() => Tally::Retried,
        EventKind::JobTimedOut(_) => Tally::TimedOut,
        EventKind::JobFailed(_) => Tally::Failed,
        EventKind::JobCancelled(_) | EventKind::JobSkipped(_) => Tally::Cancelled,
        EventKind::JobReleased(_) => Tally::Released,
        EventKind::JobWaiting(_) => Tally::Waited,
        EventKind::JobRedriven(_) | EventKind::JobRearmed(_) => Tally::Redriven,
        _ => return None,
    })
}

/// Whether an event is timed by how its job stood before.
pub fn is_timed(event: &Event) -> bool {
    !matches!(tally(event), None | Some(Tally::Enqueued | Tally::Redriven))
}

/// The upper ends of the buckets, in microseconds: from 1 ms to 7 days, each 1.378 times the one before.
const BOUNDS: [i64; 64] = [
    1_000,
    1_378,
    1_900,
    2_619,
    3_610,
    4_977,
    6_860,
    9_457,
    13_035,
    17_969,
    24_769,
    34_143,
    47_064,
    64_875,
    89_427,
    123_271,
    169_922,
    234_229,
    322_873,
    445_064,
    613_498,
    845_676,
    1_165_721,
    1_606_887,
    2_215_011,
    3_053_280,
    4_208_790,
    5_801_602,
    7_997_211,
    11_023_747,
    15_195_672,
    20_946_456,
    28_873_619,
    39_800_808,
    54_863_379,
    75_626_363,
    104_247_074,
    143_699_262,
    198_082_087,
    273_046_029,
    376_379_992,
    518_820_576,
    715_167_640,
    985_822_028,
    1_358_905_265,
    1_873_181_434,
    2_582_084_840,
    3_559_271_942,
    4_906_274_404,
    6_763_048_431,
    9_322_516_500,
    12_850_612_380,
    17_713_912_175,
    24_417_722_306,
    33_658_581_837,
    46_396_634_260,
    63_955_388_290,
    88_159_233_024,
    121_522_995_563,
    167_513_236_494,
    230_908_432_356,
    318_295_468_757,
    438_754_030_756,
    604_800_000_000,
];

/// Lengths of time in 64 buckets, the upper end of each 1.378 times that of the one before: a quantile is within 17.5 % of
/// the truth, between 1 ms and 7 days. Histograms add up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram(BTreeMap<u8, i64>);

impl Histogram {
    /// The upper ends of the buckets, in seconds. What is longer than the last one is counted in it.
    pub fn bounds_s() -> impl Iterator<Item = f64> {
        BOUNDS.iter().map(|micros| *micros as f64 / 1e6)
    }

    /// Counts a length of time, in microseconds; what is below zero, by a clock that went back, counts as zero.
    pub fn add(&mut self, micros: i64, count: i64) {
        let bucket = BOUNDS.partition_point(|end| *end < micros).min(BOUNDS.len() - 1);
        self.put(bucket as u8, count);
    }

    fn put(&mut self, bucket: u8, count: i64) {
        let sum = self.0.get(&bucket).copied().unwrap_or_default().saturating_add(count);
        if sum == 0 {
            self.0.remove(&bucket);
        } else {
            self.0.insert(bucket, sum);
        }
    }

    /// Adds another one to it.
    pub fn merge(&mut self, other: &Self) {
        other.buckets().for_each(|(bucket, count)| self.put(bucket, count));
    }

    /// The buckets that hold something, by their numbers from 0.
    pub fn buckets(&self) -> impl Iterator<Item = (u8, i64)> {
        self.0.iter().map(|(bucket, count)| (*bucket, *count))
    }

    /// How many lengths of time were counted.
    pub fn count(&self) -> i64 {
        self.0.values().sum()
    }

    /// The length that a part of all (0 to 1) does not exceed, in seconds: the middle of its bucket. None of nothing.
    pub fn quantile_s(&self, part: f64) -> Option<f64> {
        let wanted = (self.count() as f64 * part).ceil().max(1.0) as i64;
        let mut seen = 0;
        let (bucket, _) = self.buckets().find(|(_, count)| {
            seen += count;
            seen >= wanted
        })?;
        let upper = BOUNDS.get(usize::from(bucket)).copied()? as f64 / 1e6;
        let lower = usize::from(bucket).checked_sub(1).map(|below| BOUNDS[below] as f64 / 1e6);
        Some(lower.map_or(upper, |lower| (lower * upper).sqrt()))
    }

    /// As it is stored: `bucket:count`, separated by spaces.
    pub fn to_text(&self) -> String {
        let parts: Vec<String> = self.buckets().map(|(bucket, count)| format!("{bucket}:{count}")).collect();
        parts.join(" ")
    }

    /// Reads what [`Histogram::to_text`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let one = |part: &str| {
            let (bucket, count) = part.split_once(':')?;
            let bucket = bucket.parse().ok().filter(|bucket| usize::from(*bucket) < BOUNDS.len())?;
            Some((bucket, count.parse().ok()?))
        };
        text.split_whitespace().map(one).collect::<Option<_>>().map(Self)
    }
}

/// What a row of numbers is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RollupKey {
    /// How long its slot is.
    pub resolution: Resolution,
    /// When its slot begins.
    pub at: Timestamp,
    /// The queue.
    pub queue: Name,
    /// The kind.
    pub kind: Name,
    /// What is counted.
    pub tally: Tally,
}

/// One row of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollup {
    /// What it is of.
    pub key: RollupKey,
    /// How many.
    pub count: i64,
    /// How long they took: [`Tally::Started`] the time in line, the ends of attempts the time that they ran.
    pub times: Histogram,
}

impl Rollup {
    /// Adds a row of the same key to it.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.times.merge(&other.times);
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.times.0.is_empty()
    }
}

impl RollupKey {
    #[cfg(test)]
    pub(crate) fn of(
        resolution: Resolution,
        at: Timestamp,
        queue: &'static str,
        kind: &'static str,
        tally: Tally,
    ) -> Self {
        Self { resolution, at: resolution.floor(at), queue: Name::word(queue), kind: Name::word(kind), tally }
    }
}

/// Rows that are being added up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rollups(BTreeMap<RollupKey, Rollup>);

impl Rollups {
    /// Counts an event of a job in a queue, `sign` times (-1 takes it back).
    pub fn count(&mut self, queue: &Name, kind: &Name, event: &Event, before: Option<Standing>, sign: i64) {
        let Some(tally) = tally(event) else { return };
        let before = before.unwrap_or_default();
        let since = |from: Option<Timestamp>| from.map(|from| event.at.as_micros() - from.as_micros());
        let took = match tally {
            Tally::Enqueued | Tally::Redriven => None,
            Tally::Started => {
                if let Some(ran) = since(before.running_since) {
                    self.add(queue, kind, (event.at, Tally::Lost), Some(ran), sign);
                }
                since(before.due_at)
            }
            _ => since(before.running_since),
        };
        self.add(queue, kind, (event.at, tally), took, sign);
    }

    fn add(&mut self, queue: &Name, kind: &Name, what: (Timestamp, Tally), took: Option<i64>, sign: i64) {
        let (at, tally) = what;
        for resolution in Resolution::ALL {
            let at = resolution.floor(at);
            let key = RollupKey { resolution, at, queue: queue.clone(), kind: kind.clone(), tally };
            let empty = || Rollup { key: key.clone(), count: 0, times: Histogram::default() };
            let row = self.0.entry(key.clone()).or_insert_with(empty);
            row.count += sign;
            if let Some(micros) = took {
                row.times.add(micros, sign);
            }
        }
    }

    /// Adds others to them.
    pub fn merge(&mut self, others: impl IntoIterator<Item = Rollup>) {
        for other in others {
            match self.0.get_mut(&other.key) {
                Some(row) => row.merge(&other),
                None => drop(self.0.insert(other.key.clone(), other)),
            }
        }
    }

    /// Every row, also one that says nothing any more, by their keys.
    pub fn into_all(self) -> Vec<Rollup> {
        self.0.into_values().collect()
    }

    /// The rows that say something, by their keys.
    pub fn into_rows(self) -> Vec<Rollup> {
        self.0.into_values().filter(|row| !row.is_empty()).collect()
    }
}

/// How a queue stood, at its worst within a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gauge {
    /// How long the slot is.
    pub resolution: Resolution,
    /// When it begins.
    pub at: Timestamp,
    /// The queue.
    pub queue: Name,
    /// Jobs that a worker could take.
    pub depth: i64,
    /// How long the oldest of them had been due, in milliseconds.
    pub oldest_ms: i64,
    /// Jobs that ran.
    pub busy: i64,
    /// Jobs that live workers of this queue could run at once.
    pub capacity: i64,
}

impl Gauge {
    /// The larger of each number.
    pub fn merge(&mut self, other: &Self) {
        self.depth = self.depth.max(other.depth);
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
        self.busy = self.busy.max(other.busy);
        self.capacity = self.capacity.max(other.capacity);
    }
}

#[cfg(test)]
mod tests;
