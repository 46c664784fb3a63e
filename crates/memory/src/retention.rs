//! Retention: a finished job goes whole, or not at all.

use crate::index::id_of;
use crate::state::{State, page};
use windlass_core::{JobId, Order, Refusal, Status, Timestamp, Version};
use windlass_store::{Archived, Purge, ReadArchive};

impl State {
    /// Finished jobs, whole, oldest end first.
    pub fn archive(&mut self, request: ReadArchive, _now: Timestamp) -> Vec<Archived> {
        // The list of finished jobs is read from its end: it shows the last finished first.
        let oldest_first = self.index.list(Order::Finished, None).rev();
        let ended = oldest_first.filter_map(|cursor| self.entries.get(&id_of(cursor)));
        let old = ended
            .take_while(|entry| entry.job.finished_at.is_some_and(|t| t < request.finished_before))
            .take(page(request.limit));
        old.map(|entry| Archived {
            job: entry.job.clone(),
            events: entry.events.clone(),
            logs: entry.lines.clone(),
        })
        .collect()
    }

    /// Removes finished jobs that are still at the version that was archived. Unique keys stay.
    pub fn purge(&mut self, request: Purge, _now: Timestamp) -> Vec<Result<(), Refusal>> {
        request.jobs.into_iter().map(|(id, version)| self.purge_one(id, version)).collect()
    }

    /// How a removed job ended, while a unique key keeps its id.
    pub fn purged(&mut self, request: JobId, _now: Timestamp) -> Option<Status> {
        let (key, status) = self.purged.get(&request)?;
        let keeps = self.holds.get(key).is_some_and(|hold| hold.job == request);
        (keeps && !self.entries.contains_key(&request)).then_some(*status)
    }

    fn purge_one(&mut self, id: JobId, version: Version) -> Result<(), Refusal> {
        let job = &self.entry(id)?.job;
        if !job.status.is_terminal() {
            return Err(Refusal::NotFinished(job.status));
        }
        if job.version != version {
            return Err(Refusal::VersionMismatch(job.version));
        }
        let gone = self.entries.remove(&id).ok_or(Refusal::NotFound)?;
        self.index.replace(Some(&gone.job), None);
        let unique = gone.facts().and_then(|facts| facts.unique.clone());
        if let Some(key) = unique.map(|unique| (unique.scope, unique.key))
            && self.holds.get(&key).is_some_and(|hold| hold.job == id)
        {
            self.purged.insert(id, (key, gone.job.status));
        }
        for seq in gone.seqs {
            self.feed.remove(&seq);
            self.purged_seq = self.purged_seq.max(seq);
        }
        for approval in gone.approvals {
            self.approvals.remove(&approval);
        }
        Ok(())
    }
}
