//! Retention: a finished job goes whole, or not at all.

use crate::index::id_of;
use crate::state::{State, page};
use windlass_core::retention::Tombstone;
use windlass_core::{Answer, Done, JobId, Order, Refusal, Timestamp, Version};
use windlass_store::{Archived, ForgetTombstones, Purge, ReadArchive, Restore};

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
            log_parts: entry.log_parts.clone(),
        })
        .collect()
    }

    /// Removes finished jobs that are still at the version that was archived. Unique keys stay.
    pub fn purge(&mut self, request: Purge, now: Timestamp) -> Vec<Result<(), Refusal>> {
        let Purge { jobs, archive } = request;
        jobs.into_iter().map(|(id, version)| self.purge_one(id, version, archive.as_ref(), now)).collect()
    }

    /// What is left of a removed job, while a tombstone or a unique key keeps its id.
    pub fn purged(&mut self, request: JobId, _now: Timestamp) -> Option<Tombstone> {
        if self.entries.contains_key(&request) {
            return None;
        }
        if let Some((tombstone, _)) = self.tombstones.get(&request) {
            return Some(tombstone.clone());
        }
        let (key, status) = self.purged.get(&request)?;
        let keeps = self.holds.get(key).is_some_and(|hold| hold.job == request);
        keeps.then_some(Tombstone { status: *status, finished_at: None, archive: None })
    }

    /// Puts an archived job back.
    pub fn restore(&mut self, request: Restore, now: Timestamp) -> Answer {
        let id = request.job().ok_or(Refusal::NotFound)?;
        if let Some(there) = self.entries.get(&id) {
            return request.made_before(&there.events).map(Done::Already);
        }
        let (row, step) = request.decide(now)?;
        self.create(row, request.events, now);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.lines = request.logs;
            entry.log_parts = request.log_parts;
        }
        Ok(self.write(step))
    }

    /// Removes old tombstones.
    pub fn forget_tombstones(&mut self, request: ForgetTombstones, now: Timestamp) -> Result<usize, Refusal> {
        request.decide(self.terms.get(&request.term), now)?;
        let old = self.tombstones.iter().filter(|(_, (_, at))| *at < request.before);
        let old: Vec<JobId> = old.take(request.limit).map(|(id, _)| *id).collect();
        old.iter().for_each(|id| {
            self.tombstones.remove(id);
        });
        Ok(old.len())
    }

    fn purge_one(
        &mut self,
        id: JobId,
        version: Version,
        archive: Option<&String>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let job = &self.entry(id)?.job;
        if !job.status.is_terminal() {
            return Err(Refusal::NotFinished(job.status));
        }
        if job.version != version {
            return Err(Refusal::VersionMismatch(job.version));
        }
        let gone = self.entries.remove(&id).ok_or(Refusal::NotFound)?;
        self.index.replace(Some(&gone.job), None);
        self.sealed.removals.insert((id, version), now);
        match archive {
            Some(archive) => {
                let (status, finished_at) = (gone.job.status, gone.job.finished_at);
                let tombstone = Tombstone { status, finished_at, archive: Some(archive.clone()) };
                self.tombstones.insert(id, (tombstone, now));
            }
            None => {
                self.tombstones.remove(&id);
            }
        }
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
