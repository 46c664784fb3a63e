//! Seals over the log, and what there is to check them by.

use crate::state::State;
use std::collections::BTreeMap;
use windlass_core::{JobId, Timestamp, Version};
use windlass_store::{EventHash, EventKey, LogSeal, ReadSeals, Removal};

/// The most seals of one answer.
const SEALS_MAX: usize = 100;

/// What is kept of the log and of jobs that are gone.
#[derive(Default)]
pub(crate) struct Sealed {
    /// The chain.
    pub chain: Vec<LogSeal>,
    /// When which version of a job was removed. Never forgotten: seals are checked by it.
    pub removals: BTreeMap<(JobId, Version), Timestamp>,
}

impl State {
    /// A stretch of the chain.
    pub fn seals(&mut self, request: ReadSeals, _now: Timestamp) -> Vec<LogSeal> {
        let later = self.sealed.chain.iter().skip(usize::try_from(request.after).unwrap_or(0));
        later.take(request.limit.clamp(1, SEALS_MAX)).cloned().collect()
    }

    /// The end of the chain.
    pub fn last_seal(&mut self, (): (), _now: Timestamp) -> Option<LogSeal> {
        self.sealed.chain.last().cloned()
    }

    /// The hashes of events as they are stored.
    pub fn event_hashes(&mut self, request: Vec<EventKey>, _now: Timestamp) -> Vec<Option<EventHash>> {
        let hash = |(job, version): EventKey| Some(self.entries.get(&job)?.event(version)?.hash());
        request.into_iter().map(hash).collect()
    }

    /// When jobs were removed.
    pub fn removals(&mut self, request: Vec<JobId>, _now: Timestamp) -> Vec<Removal> {
        let of = |job: JobId| {
            let times = self.sealed.removals.range((job, Version::MIN)..=(job, Version::MAX));
            times.map(|((job, version), at)| Removal { job: *job, version: *version, at: *at })
        };
        request.into_iter().flat_map(of).collect()
    }
}
