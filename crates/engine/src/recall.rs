//! What waiting jobs have on record, kept by the worker that ran them last: their next attempt here reads only what came
//! after it. So a job that waits a thousand times does not read its whole record a thousand times.

use crate::record::Record;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use windlass_core::{JobId, Version};
use windlass_store::Claimed;

/// How many bytes of records one worker keeps; those that were put here first go first.
const KEPT_MAX_BYTES: usize = 8 << 20;
/// A shorter record is read anew: most jobs that wait have one, and cost no memory meanwhile.
const KEPT_MIN_ENTRIES: usize = 64;

/// A record, and how far it was read.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// The claim of the attempt that had it. No wait was open there, so reading can go on from it.
    pub(crate) at: Version,
    pub(crate) record: Arc<Record>,
    /// A redrive from the start lets this grow: what was recorded before counts no more.
    steps_from: Version,
    /// Fences are this much ahead of attempts; a restored store is further ahead, and may have forgotten what was recorded.
    life: i64,
}

impl Known {
    pub(crate) fn new(claimed: &Claimed, record: Arc<Record>) -> Self {
        let Claimed { job, lease, .. } = claimed;
        let life = lease.fence - i64::from(lease.attempt);
        Self { at: job.version, record, steps_from: job.steps_from, life }
    }

    fn is_of(&self, claimed: &Claimed) -> bool {
        let Claimed { job, lease, .. } = claimed;
        let life = lease.fence - i64::from(lease.attempt);
        self.at < job.version && self.steps_from == job.steps_from && self.life == life
    }
}

/// The records of one worker.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    /// A blocking lock, held for a look-up.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    jobs: HashMap<JobId, (u64, Known)>,
    /// Jobs by when they were put here.
    order: BTreeMap<u64, JobId>,
    next: u64,
    bytes: usize,
}

impl Recall {
    /// Keeps what an attempt that begins to wait has read.
    pub(crate) fn put(&self, job: JobId, known: Known) {
        if known.record.entries() < KEPT_MIN_ENTRIES {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(job);
        let place = kept.next;
        kept.next += 1;
        kept.bytes += known.record.bytes();
        kept.order.insert(place, job);
        kept.jobs.insert(job, (place, known));
        while kept.bytes > KEPT_MAX_BYTES
            && let Some((_, oldest)) = kept.order.first_key_value().map(|(place, job)| (*place, *job))
        {
            kept.remove(oldest);
        }
    }

    /// What is known of the job of a claim, and still holds.
    pub(crate) fn take(&self, claimed: &Claimed) -> Option<Known> {
        let known = self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(claimed.job.id);
        known.filter(|known| known.is_of(claimed))
    }
}

impl Kept {
    fn remove(&mut self, job: JobId) -> Option<Known> {
        let (place, known) = self.jobs.remove(&job)?;
        self.order.remove(&place);
        self.bytes -= known.record.bytes();
        Some(known)
    }
}
