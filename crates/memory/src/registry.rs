//! What surrounds jobs: queues, workers, audit, access keys, remembered answers.

use crate::state::{State, page};
use std::collections::BTreeSet;
use windlass_core::limits::ANSWER_KEPT_MS;
use windlass_core::{AccessKey, Actor, AuditEntry, Metadata, Name, Queue, Refusal, Timestamp, Who, Worker};
use windlass_store::{
    DrainWorker, Idempotency, PauseQueue, PutAccessKey, PutQueue, PutWorker, QueueState, ReadAudit, Remember,
    RevokeAccessKey, WriteAudit,
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
        request.defaults.check()?;
        let known = self.queues.get(&request.name);
        let before = known.map(|queue| queue.defaults);
        if before == Some(request.defaults) {
            return Ok(());
        }
        let paused = known.and_then(|queue| queue.paused.clone());
        let json = |defaults| serde_json::to_value(defaults).unwrap_or_default();
        let detail = Metadata::from_iter([
            ("before".to_owned(), json(before.unwrap_or_default())),
            ("after".to_owned(), json(request.defaults)),
        ]);
        let queue = Queue { name: request.name.clone(), paused, defaults: request.defaults };
        self.note(request.actor, "queue.put", request.name.to_string(), detail, now);
        self.queues.insert(request.name, queue);
        Ok(())
    }

    /// Pauses or resumes a queue. A repeat changes nothing, not even since when it is paused.
    pub fn pause_queue(&mut self, request: PauseQueue, now: Timestamp) {
        if self.is_paused(&request.name) == request.pause {
            return;
        }
        let paused = request.pause.then(|| (now, request.actor.clone()));
        let action = if request.pause { "queue.pause" } else { "queue.resume" };
        self.note(request.actor, action, request.name.to_string(), Metadata::new(), now);
        let new = Queue { name: request.name.clone(), paused: None, defaults: Default::default() };
        self.queues.entry(request.name).or_insert(new).paused = paused;
        if !request.pause {
            self.tell(true);
        }
    }

    /// Every queue that has a setting or a job that could be taken, by name.
    pub fn queues(&mut self, request: i64, now: Timestamp) -> Vec<QueueState> {
        let names: BTreeSet<Name> = self.queues.keys().cloned().chain(self.index.queues()).collect();
        let state = |name: Name| {
            let (due, oldest_due_at) = self.index.due(&name, request, now);
            let set = self.queues.get(&name).cloned();
            (set.is_some() || oldest_due_at.is_some()).then(|| QueueState {
                queue: set.unwrap_or(Queue { name, paused: None, defaults: Default::default() }),
                due,
                oldest_due_at,
            })
        };
        names.into_iter().filter_map(state).collect()
    }

    /// Whether claims and assignments skip a queue.
    pub fn is_paused(&self, queue: &Name) -> bool {
        self.queues.get(queue).is_some_and(|queue| queue.paused.is_some())
    }

    /// A worker reports itself.
    pub fn put_worker(&mut self, request: PutWorker, now: Timestamp) -> Worker {
        let known = self.workers.get(&request.id);
        let worker = Worker {
            id: request.id.clone(),
            queues: request.queues,
            kinds: request.kinds,
            capacity: request.capacity,
            labels: request.labels,
            draining: request.draining || known.is_some_and(|worker| worker.draining),
            started_at: known.map_or(now, |worker| worker.started_at),
            seen_at: now,
            expires_at: now.plus_ms(request.ttl_ms.get()),
        };
        self.workers.insert(request.id, worker.clone());
        worker
    }

    /// Tells a worker to take no more.
    pub fn drain_worker(&mut self, request: DrainWorker, now: Timestamp) -> Option<Worker> {
        let worker = self.workers.get_mut(&request.id)?;
        let was_draining = std::mem::replace(&mut worker.draining, true);
        let worker = worker.clone();
        if !was_draining {
            self.note(request.actor, "worker.drain", request.id.to_string(), Metadata::new(), now);
        }
        Some(worker)
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

    /// Puts on record what the store itself sees an operator do.
    pub fn note(
        &mut self,
        actor: Actor,
        action: &'static str,
        target: String,
        detail: Metadata,
        now: Timestamp,
    ) {
        let action = Name::parse("action", action).expect("the store's own words are names");
        self.write_audit(WriteAudit { actor, action, target, detail }, now);
    }

    /// A page of the audit, newest first.
    pub fn audit(&mut self, request: ReadAudit, _now: Timestamp) -> Vec<AuditEntry> {
        let older = |entry: &&AuditEntry| request.before.is_none_or(|seq| entry.seq < seq);
        self.audit.iter().rev().filter(older).take(page(request.limit)).cloned().collect()
    }

    /// Makes an access key; false if the name is taken by another key.
    pub fn put_access_key(&mut self, request: PutAccessKey, now: Timestamp) -> bool {
        if let Some(known) = self.access_keys.get(&request.name) {
            return known.hash == request.hash;
        }
        let detail = request.detail();
        self.note(request.actor, "key.create", request.name.to_string(), detail, now);
        let key = AccessKey {
            name: request.name.clone(),
            hash: request.hash,
            roles: request.roles,
            queues: request.queues,
            expires_at: request.expires_at,
            created_at: now,
            revoked_at: None,
        };
        self.access_keys.insert(request.name, key);
        true
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
        let key = self.access_keys.get_mut(&request.name)?;
        let revoked_before = key.revoked_at.is_some();
        key.revoked_at = key.revoked_at.or(Some(now));
        let key = key.clone();
        if !revoked_before {
            self.note(request.actor, "key.revoke", request.name.to_string(), Metadata::new(), now);
        }
        Some(key)
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
        match self.answers.get(&request.key).filter(|answer| answer.expires_at > now) {
            None => Ok(None),
            Some(answer) if answer.request_hash == request.request_hash => Ok(Some(answer.body.clone())),
            Some(_) => Err(Refusal::IdempotencyKeyReused),
        }
    }
}
