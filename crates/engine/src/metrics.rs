//! Counters and histograms, through the `metrics` facade: whoever embeds the engine picks the recorder. Names are
//! contract. Handles are made once per queue and kind, because to look one up costs more than to count.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{Job, Name, Outcome};

/// The words that `outcome` takes.
const OUTCOMES: [&str; 8] =
    ["completed", "retried", "failed", "released", "timed_out", "cancelled", "waiting", "lost"];

/// What became of an attempt of this job, as a word.
pub(crate) fn outcome_word(outcome: Option<&Outcome>, job: &Job) -> &'static str {
    match outcome {
        Some(Outcome::Complete(_)) => "completed",
        Some(Outcome::Fail { permanent: false, .. }) if job.retries < job.max_retries => "retried",
        Some(Outcome::Fail { .. }) => "failed",
        Some(Outcome::Release(_) | Outcome::RateLimited(_)) => "released",
        Some(Outcome::TimeOut) => "timed_out",
        Some(Outcome::Cancelled { .. }) => "cancelled",
        Some(Outcome::Wait(..)) => "waiting",
        None => "lost",
    }
}

/// What is counted per queue and kind.
pub(crate) struct KindMetrics {
    started: Counter,
    finished: [Counter; OUTCOMES.len()],
    duration: Histogram,
    wait: Histogram,
    in_flight: Gauge,
}

impl KindMetrics {
    fn new(queue: &Name, kind: &Name) -> Self {
        let labels = || [("queue", queue.to_string()), ("kind", kind.to_string())];
        let ended = |outcome: &'static str| {
            let [queue, kind] = labels();
            counter!("windlass_attempts_finished_total", &[queue, kind, ("outcome", outcome.to_owned())])
        };
        Self {
            started: counter!("windlass_attempts_started_total", &labels()),
            finished: OUTCOMES.map(ended),
            duration: histogram!("windlass_attempt_duration_seconds", &labels()),
            wait: histogram!("windlass_attempt_wait_seconds", &labels()),
            in_flight: gauge!("windlass_attempts_in_flight", &labels()),
        }
    }

    /// An attempt began, so long after it was due, if that is known.
    pub(crate) fn began(&self, waited: Option<Duration>) {
        self.started.increment(1);
        self.in_flight.increment(1.0);
        if let Some(waited) = waited {
            self.wait.record(waited.as_secs_f64());
        }
    }

    /// An attempt ended.
    pub(crate) fn ended(&self, outcome: &'static str, took: Duration) {
        self.in_flight.decrement(1.0);
        self.duration.record(took.as_secs_f64());
        if let Some(place) = OUTCOMES.iter().position(|word| *word == outcome) {
            self.finished[place].increment(1);
        }
    }
}

/// What a worker counts.
pub(crate) struct Metrics {
    /// Leases that were lost, by the store's word or by the clock.
    pub(crate) lease_lost: Counter,
    /// Jobs per claim that brought any.
    pub(crate) claim_batch: Histogram,
    /// Attempts per settle.
    pub(crate) settle_batch: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            lease_lost: counter!("windlass_lease_lost_total"),
            claim_batch: histogram!("windlass_claim_batch_size"),
            settle_batch: histogram!("windlass_settle_batch_size"),
        }
    }
}

/// Handles by queue and kind. Of kinds that nobody registered, as a handler of any kind meets them, only so many are
/// kept apart: a label is forever.
#[derive(Default)]
pub(crate) struct Kinds {
    known: HashMap<(Name, Name), Arc<KindMetrics>>,
    /// What was asked for last: most claims bring jobs of one kind, which need no look-up then.
    last: Option<(Name, Name, Arc<KindMetrics>)>,
}

impl Kinds {
    const MOST: usize = 1_000;

    pub(crate) fn get(&mut self, queue: &Name, kind: &Name) -> Arc<KindMetrics> {
        if let Some((of_queue, of_kind, metrics)) = &self.last
            && (of_queue, of_kind) == (queue, kind)
        {
            return Arc::clone(metrics);
        }
        let key = (queue.clone(), kind.clone());
        let found = self.known.get(&key).cloned();
        let metrics = found.unwrap_or_else(|| Arc::new(KindMetrics::new(queue, kind)));
        if self.known.len() < Self::MOST {
            self.known.insert(key, Arc::clone(&metrics));
        }
        self.last = Some((queue.clone(), kind.clone(), Arc::clone(&metrics)));
        metrics
    }
}
