//! What surrounds jobs: queues, workers, audit, access keys, remembered answers, unique keys.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::row;
use rusqlite::Row;
use windlass_core::limits::{ANSWER_KEPT_MS, PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::rate::WHOLE;
use windlass_core::registry::KeyMaking;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Actor, AuditEntry, Count, Name, Queue, QueueMode, Refusal, Timestamp, Who, Worker,
};
use windlass_store::{
    BreakQueue, Candidate, DrainWorker, Idempotency, PauseQueue, PutAccessKey, PutQueue, PutWorker,
    QueueState, ReadAudit, Remember, RevokeAccessKey, WriteAudit,
};

fn unreadable(error: impl std::fmt::Display) -> Failure {
    Failure::Unreadable(error.to_string())
}

pub(crate) fn queue(r: &Row<'_>) -> Tried<Queue> {
    let paused_at = r.get::<_, Option<i64>>(1)?.map(Timestamp::from_micros);
    let paused_by = r.get::<_, Option<String>>(2)?.map(Actor::try_from).transpose().map_err(unreadable)?;
    Ok(Queue {
        name: Name::try_from(r.get::<_, String>(0)?).map_err(unreadable)?,
        paused: paused_at.zip(paused_by),
        defaults: serde_json::from_str(&r.get::<_, String>(3)?)?,
        mode: QueueMode::parse(&r.get::<_, String>(4)?).map_err(unreadable)?,
        flow: r.get::<_, Option<String>>(5)?.map(|text| serde_json::from_str(&text)).transpose()?,
        endpoint: r.get::<_, Option<String>>(6)?.map(|text| serde_json::from_str(&text)).transpose()?,
    })
}

fn access_key(r: &Row<'_>) -> Tried<AccessKey> {
    let queues: Option<String> = r.get(3)?;
    Ok(AccessKey {
        name: Who::try_from(r.get::<_, String>(0)?).map_err(unreadable)?,
        hash: r.get(1)?,
        roles: serde_json::from_str(&r.get::<_, String>(2)?)?,
        queues: queues.map(|q| serde_json::from_str(&q)).transpose()?,
        expires_at: r.get::<_, Option<i64>>(4)?.map(Timestamp::from_micros),
        created_at: Timestamp::from_micros(r.get(5)?),
        revoked_at: r.get::<_, Option<i64>>(6)?.map(Timestamp::from_micros),
    })
}

impl Db<'_> {
    pub(crate) fn queue(&self, name: &Name) -> Tried<Option<Queue>> {
        self.one(sql!("queue"), [name.as_str()], queue)
    }

    pub(crate) fn is_paused(&self, name: &Name) -> Tried<bool> {
        Ok(self.queue(name)?.is_some_and(|q| q.paused.is_some()))
    }

    /// Whether a worker may take a job from a queue that it was not assigned.
    pub(crate) fn is_open(&self, name: &Name) -> Tried<bool> {
        Ok(self.queue(name)?.is_none_or(|q| q.is_open()))
    }

    pub(crate) fn queue_settings(&self) -> Tried<Vec<Queue>> {
        self.all(sql!("queues"), (), queue)
    }

    pub(crate) fn queues(&self, cap: i64, now: Timestamp) -> Tried<Vec<QueueState>> {
        let mut queues = self.queue_settings()?;
        for name in self.all(sql!("queue_names"), (), |r| Ok(r.get::<_, String>(0)?))? {
            let name = Name::try_from(name).map_err(unreadable)?;
            if !queues.iter().any(|q| q.name == name) {
                queues.push(Queue::new(name));
            }
        }
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        let mut states = Vec::new();
        for queue in queues {
            let (due, oldest_due_at) = self.depth(&queue.name, cap.clamp(0, 1_000_000), now)?;
            let held_until = match queue.flow.as_ref().filter(|flow| flow.held) {
                Some(flow) => self.rates(&queue.name, flow, now)?.and_then(|rates| rates.held_until(WHOLE)),
                None => None,
            };
            states.push(QueueState { queue, due, oldest_due_at, held_until });
        }
        Ok(states)
    }

    fn depth(&self, queue: &Name, cap: i64, now: Timestamp) -> Tried<(Count, Option<Timestamp>)> {
        let (mut n, mut oldest) = (0, None);
        for priority in PRIORITY_MIN..=PRIORITY_MAX {
            // Past the cap the count is over, but the oldest may still be of this priority.
            let params = (queue.as_str(), priority, now.as_micros(), (cap + 1 - n).max(1));
            let read = |r: &Row<'_>| Ok((r.get::<_, i64>(0)?, r.get::<_, Option<i64>>(1)?));
            if let Some((count, since)) = self.one(sql!("queue_depth"), params, read)? {
                n += count;
                oldest = oldest.into_iter().chain(since).min();
            }
        }
        Ok((Count { n: n.min(cap), capped: n > cap }, oldest.map(Timestamp::from_micros)))
    }

    pub(crate) fn worker(&self, id: &Who) -> Tried<Option<Worker>> {
        self.one(sql!("worker"), [id.as_str()], row::worker)
    }

    pub(crate) fn workers(&self) -> Tried<Vec<Worker>> {
        self.all(sql!("workers"), (), row::worker)
    }

    /// Live workers of these queues that are not drained, with how much each has.
    pub(crate) fn candidates(&self, queues: &[Name], now: Timestamp) -> Tried<Vec<Candidate>> {
        let takes = |worker: &Worker| {
            worker.expires_at > now && !worker.draining && worker.queues.iter().any(|q| queues.contains(q))
        };
        let workers: Vec<Worker> = self.workers()?.into_iter().filter(takes).collect();
        let mut candidates = Vec::with_capacity(workers.len());
        for worker in workers {
            let count = |r: &Row<'_>| {
                let queue = Name::try_from(r.get::<_, String>(0)?).map_err(unreadable)?;
                Ok((queue, r.get::<_, i64>(1)?))
            };
            let has = self.all(sql!("candidates"), [worker.id.as_str()], count)?.into_iter().collect();
            candidates.push(Candidate { worker, has });
        }
        Ok(candidates)
    }

    pub(crate) fn audit(&self, request: ReadAudit) -> Tried<Vec<AuditEntry>> {
        let before = request.before.unwrap_or(i64::MAX);
        self.all(sql!("audit"), (before, crate::list::page(request.limit)), |r| {
            Ok(AuditEntry {
                seq: r.get(0)?,
                at: Timestamp::from_micros(r.get(1)?),
                actor: Actor::try_from(r.get::<_, String>(2)?).map_err(unreadable)?,
                action: Name::try_from(r.get::<_, String>(3)?).map_err(unreadable)?,
                target: r.get(4)?,
                detail: serde_json::from_str(&r.get::<_, String>(5)?)?,
            })
        })
    }

    pub(crate) fn access_key(&self, hash: [u8; 32]) -> Tried<Option<AccessKey>> {
        self.one(sql!("access_key"), [hash], access_key)
    }

    pub(crate) fn access_keys(&self) -> Tried<Vec<AccessKey>> {
        self.all(sql!("access_keys"), (), access_key)
    }

    pub(crate) fn recall(
        &self,
        promise: &Idempotency,
        now: Timestamp,
    ) -> Tried<Result<Option<Vec<u8>>, Refusal>> {
        let params = (promise.key.as_str(), now.as_micros());
        let kept = self.one(sql!("recall"), params, |r| Ok((r.get::<_, [u8; 32]>(0)?, r.get(1)?)))?;
        Ok(promise.recall(kept))
    }
}

impl Tx<'_, '_> {
    pub(crate) fn take_key(&self, scope: &str, key: &str, hold: &Hold) -> Tried<()> {
        let expires_at = hold.expires_at.map(Timestamp::as_micros);
        let params = (scope, key, hold.job.as_bytes(), hold.payload_hash, expires_at);
        self.execute(sql!("take_key"), params).map(|_| ())
    }

    /// Remembers where the feed ended before a purge could remove its last entries.
    pub(crate) fn keep_seq(&self) -> Tried<()> {
        self.execute(sql!("purge_seq"), [self.last_seq()]).map(|_| ())
    }

    pub(crate) fn save_queue(&self, q: &Queue) -> Tried<()> {
        let (at, by) = q.paused.clone().unzip();
        let defaults = serde_json::to_string(&q.defaults)?;
        let flow = q.flow.as_ref().map(serde_json::to_string).transpose()?;
        let (at, by) = (at.map(Timestamp::as_micros), by.map(String::from));
        let endpoint = q.endpoint.as_ref().map(serde_json::to_string).transpose()?;
        let params = (q.name.as_str(), at, by, defaults, q.mode.as_str(), flow, endpoint);
        self.execute(sql!("put_queue"), params).map(|_| ())
    }

    pub(crate) fn put_queue(&self, request: &PutQueue, now: Timestamp) -> Tried<Result<(), Refusal>> {
        let decided = request.decide(self.queue(&request.name)?.as_ref()).map_err(Refusal::from);
        if let Some((queue, audit)) = granted!(decided) {
            self.save_queue(&queue)?;
            // What stood behind a limit may be free now.
            self.hint();
            self.write_audit(&audit, now)?;
        }
        Ok(Ok(()))
    }

    pub(crate) fn break_queue(&self, request: &BreakQueue, now: Timestamp) -> Tried<Result<bool, Refusal>> {
        let (term, before) = (self.term(&request.term)?, self.queue(&request.queue)?);
        let decided = granted!(request.decide(term.as_ref(), before.as_ref(), now));
        let Some((queue, audit)) = decided else { return Ok(Ok(false)) };
        self.save_queue(&queue)?;
        self.hint();
        self.write_audit(&audit, now)?;
        Ok(Ok(true))
    }

    pub(crate) fn pause_queue(&self, request: &PauseQueue, now: Timestamp) -> Tried<()> {
        let decided = request.decide(self.queue(&request.name)?.as_ref(), now);
        let Some((queue, audit)) = decided else { return Ok(()) };
        self.save_queue(&queue)?;
        if !request.pause {
            self.hint();
        }
        self.write_audit(&audit, now)
    }

    pub(crate) fn put_worker(&self, request: &PutWorker, now: Timestamp) -> Tried<Worker> {
        let worker = request.decide(self.worker(&request.id)?.as_ref(), now);
        self.save_worker(&worker)?;
        Ok(worker)
    }

    fn save_worker(&self, w: &Worker) -> Tried<()> {
        let params = (
            w.id.as_str(),
            serde_json::to_string(&w.queues)?,
            serde_json::to_string(&w.kinds)?,
            w.capacity,
            serde_json::to_string(&w.labels)?,
            w.draining,
            w.started_at.as_micros(),
            w.seen_at.as_micros(),
            w.expires_at.as_micros(),
            serde_json::to_string(&w.slots)?,
        );
        self.execute(sql!("put_worker"), params).map(|_| ())
    }

    pub(crate) fn drain_worker(&self, request: &DrainWorker, now: Timestamp) -> Tried<Option<Worker>> {
        let Some(worker) = self.worker(&request.id)? else { return Ok(None) };
        let Some((draining, audit)) = request.decide(&worker) else { return Ok(Some(worker)) };
        self.save_worker(&draining)?;
        self.write_audit(&audit, now)?;
        Ok(Some(draining))
    }

    pub(crate) fn remove_worker(&self, id: &Who, _: Timestamp) -> Tried<()> {
        self.execute(sql!("remove_worker"), [id.as_str()]).map(|_| ())
    }

    pub(crate) fn write_audit(&self, request: &WriteAudit, now: Timestamp) -> Tried<()> {
        let WriteAudit { actor, action, target, detail } = request;
        let detail = serde_json::to_string(detail)?;
        let params = (now.as_micros(), actor.as_str(), action.as_str(), target, detail);
        self.execute(sql!("write_audit"), params).map(|_| ())
    }

    fn access_key_by_name(&self, name: &Who) -> Tried<Option<AccessKey>> {
        self.one(sql!("access_key_by_name"), [name.as_str()], access_key)
    }

    pub(crate) fn put_access_key(&self, request: &PutAccessKey, now: Timestamp) -> Tried<bool> {
        let (by_name, by_hash) = (self.access_key_by_name(&request.name)?, self.access_key(request.hash)?);
        let (key, audit) = match request.decide(by_name.as_ref(), by_hash.as_ref(), now) {
            KeyMaking::Already => return Ok(true),
            KeyMaking::Taken => return Ok(false),
            KeyMaking::New(key, audit) => (*key, audit),
        };
        let params = (
            key.name.as_str(),
            key.hash,
            serde_json::to_string(&key.roles)?,
            key.queues.as_ref().map(serde_json::to_string).transpose()?,
            key.expires_at.map(Timestamp::as_micros),
            key.created_at.as_micros(),
        );
        self.execute(sql!("put_access_key"), params)?;
        self.write_audit(&audit, now)?;
        Ok(true)
    }

    pub(crate) fn revoke_access_key(
        &self,
        request: &RevokeAccessKey,
        now: Timestamp,
    ) -> Tried<Option<AccessKey>> {
        let Some(key) = self.access_key_by_name(&request.name)? else { return Ok(None) };
        let Some((revoked, audit)) = request.decide(&key, now) else { return Ok(Some(key)) };
        self.execute(sql!("revoke_access_key"), (request.name.as_str(), now.as_micros()))?;
        self.write_audit(&audit, now)?;
        Ok(Some(revoked))
    }

    pub(crate) fn put_answer(&self, promise: &Idempotency, body: &[u8], now: Timestamp) -> Tried<()> {
        let until = now.plus_ms(ANSWER_KEPT_MS).as_micros();
        self.execute(sql!("remember"), (promise.key.as_str(), promise.request_hash, body, until)).map(|_| ())
    }

    pub(crate) fn remember(&self, request: &Remember, now: Timestamp) -> Tried<Result<Vec<u8>, Refusal>> {
        match self.recall(&request.idempotency, now)? {
            Ok(Some(body)) => Ok(Ok(body)),
            Err(refusal) => Ok(Err(refusal)),
            Ok(None) => {
                self.put_answer(&request.idempotency, &request.body, now)?;
                Ok(Ok(request.body.clone()))
            }
        }
    }
}
