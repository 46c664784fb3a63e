//! What surrounds jobs: queues, workers, audit, access keys, remembered answers.

use crate::state::{State, page};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::limits::ANSWER_KEPT_MS;
use windlass_core::rate::WHOLE;
use windlass_core::registry::KeyMaking;
use windlass_core::{AccessKey, AuditEntry, Name, Queue, Refusal, Timestamp, Who, Worker};
use windlass_store::{
    BreakQueue, Candidate, DrainWorker, Idempotency, PauseQueue, PutAccessKey, PutQueue, PutWorker,
    QueueState, ReadAudit, Remember, RevokeAccessKey, WriteAudit,
};

/// An answer that a repeated request gets back.
pub(crate) struct Remembered {
    /// SHA-256 of the request it answered.
    request_hash: [u8; 32],
    /// The answer.
    body: Vec<u8>,
    /// When it is forgotten.
    pub expires_at: Timestamp,
}

impl State {
    /// Sets what a queue's jobs fall back to.
    pub fn put_queue(&mut self, request: PutQueue, now: Timestamp) -> Result<(), Refusal> {
        if let Some((queue, audit)) = request.decide(self.queues.get(&request.name))? {
            self.write_audit(audit, now);
            self.queues.insert(request.name, queue);
            // What stood behind a limit may be free now.
            self.tell(true);
        }
        Ok(())
    }

    /// Breaks a queue, or mends it.
    pub fn break_queue(&mut self, request: BreakQueue, now: Timestamp) -> Result<bool, Refusal> {
        let (term, before) = (self.terms.get(&request.term), self.queues.get(&request.queue));
        let Some((queue, audit)) = request.decide(term, before, now)? else { return Ok(false) };
        self.write_audit(audit, now);
        self.queues.insert(request.queue, queue);
        self.tell(true);
        Ok(true)
    }

    /// Pauses or resumes a queue. A repeat changes nothing, not even since when it is paused.
    pub fn pause_queue(&mut self, request: PauseQueue, now: Timestamp) {
        let Some((queue, audit)) = request.decide(self.queues.get(&request.name), now) else { return };
        self.write_audit(audit, now);
        self.queues.insert(request.name, queue);
        if !request.pause {
            self.tell(true);
        }
    }

    /// What was said of queues, by name.
    pub fn queue_settings(&mut self, (): (), _now: Timestamp) -> Vec<Queue> {
        self.queues.values().cloned().collect()
    }

    /// Every queue that has a setting or a job that could be taken, by name.
    pub fn queues(&mut self, request: i64, now: Timestamp) -> Vec<QueueState> {
        let names: BTreeSet<Name> = self.queues.keys().cloned().chain(self.index.queues()).collect();
        let state = |name: Name| {
            let (due, oldest_due_at) = self.index.due(&name, request, now);
            let set = self.queues.get(&name).cloned();
            let rates = self.flow(&name).and_then(|flow| self.rates(&name, flow, now));
            let held_until = rates.and_then(|rates| rates.held_until(WHOLE));
            QueueState { queue: set.unwrap_or_else(|| Queue::new(name)), due, oldest_due_at, held_until }
        };
        names.into_iter().map(state).collect()
    }

    /// Whether a worker may take a job from a queue that it was not assigned.
    pub fn is_open(&self, queue: &Name) -> bool {
        self.queues.get(queue).is_none_or(Queue::is_open)
    }

    /// Live workers of these queues that are not drained, with how much each has.
    pub fn candidates(&mut self, request: Vec<Name>, now: Timestamp) -> Vec<Candidate> {
        let takes = |worker: &&Worker| {
            worker.expires_at > now
                && !worker.draining
                && worker.queues.iter().any(|queue| request.contains(queue))
        };
        let candidate = |worker: &Worker| {
            let mut has = BTreeMap::new();
            for entry in self.index.of_worker(&worker.id).filter_map(|id| self.entry(id).ok()) {
                *has.entry(entry.job.queue.clone()).or_default() += 1;
            }
            Candidate { worker: worker.clone(), has }
        };
        self.workers.values().filter(takes).map(candidate).collect()
    }

    /// Whether claims and assignments skip a queue.
    pub fn is_paused(&self, queue: &Name) -> bool {
        self.queues.get(queue).is_some_and(|queue| queue.paused.is_some())
    }

    /// A worker reports itself.
    pub fn put_worker(&mut self, request: PutWorker, now: Timestamp) -> Worker {
        let worker = request.decide(self.workers.get(&request.id), now);
        self.workers.insert(request.id, worker.clone());
        worker
    }

    /// Tells a worker to take no more.
    pub fn drain_worker(&mut self, request: DrainWorker, now: Timestamp) -> Option<Worker> {
        let worker = self.workers.get(&request.id)?.clone();
        let Some((draining, audit)) = request.decide(&worker) else { return Some(worker) };
        self.write_audit(audit, now);
        self.workers.insert(request.id, draining.clone());
        Some(draining)
    }

    /// Forgets a worker that stopped.
    pub fn remove_worker(&mut self, request: Who, _now: Timestamp) {
        self.workers.remove(&request);
    }

    /// Every worker that was not forgotten, by id.
    pub fn workers(&mut self, (): (), _now: Timestamp) -> Vec<Worker> {
        self.workers.values().cloned().collect()
    }

    /// Puts an operator's action on record.
    pub fn write_audit(&mut self, request: WriteAudit, now: Timestamp) {
        let WriteAudit { actor, action, target, detail } = request;
        let seq = self.audit.last().map_or(1, |entry| entry.seq + 1);
        self.audit.push(AuditEntry { seq, at: now, actor, action, target, detail });
    }

    /// A page of the audit, newest first.
    pub fn audit(&mut self, request: ReadAudit, _now: Timestamp) -> Vec<AuditEntry> {
        let older = |entry: &&AuditEntry| request.before.is_none_or(|seq| entry.seq < seq);
        self.audit.iter().rev().filter(older).take(page(request.limit)).cloned().collect()
    }

    /// Makes an access key; false if the name is taken by another key.
    pub fn put_access_key(&mut self, request: PutAccessKey, now: Timestamp) -> bool {
        let by_name = self.access_keys.get(&request.name);
        let by_hash = self.access_keys.values().find(|key| key.hash == request.hash);
        match request.decide(by_name, by_hash, now) {
            KeyMaking::Already => true,
            KeyMaking::Taken => false,
            KeyMaking::New(key, audit) => {
                self.write_audit(audit, now);
                self.access_keys.insert(request.name, *key);
                true
            }
        }
    }

    /// The key with this hash, valid or not.
    pub fn access_key(&mut self, request: [u8; 32], _now: Timestamp) -> Option<AccessKey> {
        self.access_keys.values().find(|key| key.hash == request).cloned()
    }

    /// Every key, by name.
    pub fn access_keys(&mut self, (): (), _now: Timestamp) -> Vec<AccessKey> {
        self.access_keys.values().cloned().collect()
    }

    /// Takes a key back.
    pub fn revoke_access_key(&mut self, request: RevokeAccessKey, now: Timestamp) -> Option<AccessKey> {
        let key = self.access_keys.get(&request.name)?.clone();
        let Some((revoked, audit)) = request.decide(&key, now) else { return Some(key) };
        self.write_audit(audit, now);
        self.access_keys.insert(request.name, revoked.clone());
        Some(revoked)
    }

    /// Remembers an answer. The first one stays.
    pub fn remember(&mut self, request: Remember, now: Timestamp) -> Result<Vec<u8>, Refusal> {
        let Remember { idempotency, body } = request;
        if let Some(first) = self.recall(idempotency.clone(), now)? {
            return Ok(first);
        }
        let Idempotency { key, request_hash } = idempotency;
        let expires_at = now.plus_ms(ANSWER_KEPT_MS);
        self.answers.insert(key, Remembered { request_hash, body: body.clone(), expires_at });
        Ok(body)
    }

    /// The remembered answer for a key and body.
    pub fn recall(&self, request: Idempotency, now: Timestamp) -> Result<Option<Vec<u8>>, Refusal> {
        let kept = self.answers.get(&request.key).filter(|answer| answer.expires_at > now);
        request.recall(kept.map(|answer| (answer.request_hash, answer.body.clone())))
    }
}
