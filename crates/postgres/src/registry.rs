//! What surrounds jobs: queues, workers, audit, access keys, remembered answers, unique keys.
//!
//! Whoever decides on a row has locked it. One that was not there could not be locked: if somebody else made it
//! meanwhile, the verb looks again.

use crate::append::granted;
use crate::db::{Db, Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, Columns, Ts, name, who};
use std::collections::{BTreeMap, HashMap};
use tokio_postgres::Row;
use windlass_core::limits::ANSWER_KEPT_MS;
use windlass_core::rate::WHOLE;
use windlass_core::registry::KeyMaking;
use windlass_core::unique::Hold;
use windlass_core::{
    AccessKey, Actor, AuditEntry, Count, Name, Queue, QueueMode, Refusal, Timestamp, Who, Worker,
};
use windlass_store::{
    BreakQueue, Candidate, DrainWorker, Idempotency, Now, PauseQueue, PutAccessKey, PutQueue, PutWorker,
    QueueState, ReadAudit, Remember, RevokeAccessKey, WriteAudit,
};

fn actor(text: &str) -> Option<Actor> {
    Actor::try_from(text).ok()
}

pub(crate) fn queue(r: &Row) -> Tried<Queue> {
    let mut c = Columns::new(r, 0);
    let name = c.text(name)?;
    let (paused_at, paused_by) = (c.opt_time()?, c.opt_text(actor)?);
    let defaults = serde_json::from_str(c.get()?)?;
    let mode = c.text(|word| QueueMode::parse(word).ok())?;
    let flow = c.get::<Option<&str>>()?.map(serde_json::from_str).transpose()?;
    let endpoint = c.get::<Option<&str>>()?.map(serde_json::from_str).transpose()?;
    Ok(Queue { name, paused: paused_at.zip(paused_by), defaults, mode, flow, endpoint })
}

fn access_key(r: &Row) -> Tried<AccessKey> {
    let mut c = Columns::new(r, 0);
    Ok(AccessKey {
        name: c.text(who)?,
        hash: c.hash()?,
        roles: serde_json::from_str(c.get()?)?,
        queues: c.get::<Option<&str>>()?.map(serde_json::from_str).transpose()?,
        expires_at: c.opt_time()?,
        created_at: c.time()?,
        revoked_at: c.opt_time()?,
    })
}

impl Db<'_> {
    pub(crate) async fn queue(&self, name: &Name) -> Tried<Option<Queue>> {
        self.one(sql!("queue"), params![name.as_str()], queue).await
    }

    pub(crate) async fn is_paused(&self, name: &Name) -> Tried<bool> {
        Ok(self.queue(name).await?.is_some_and(|q| q.paused.is_some()))
    }

    pub(crate) async fn queue_settings(&self, _: &(), _: Now) -> Tried<Vec<Queue>> {
        self.all(sql!("queues"), params![], queue).await
    }

    pub(crate) async fn queues(&self, request: &i64, now: Now) -> Tried<Vec<QueueState>> {
        let cap = (*request).clamp(0, 1_000_000);
        let (set, names, now) =
            tokio::try_join!(self.queue_settings(&(), now), self.queue_names(), self.clock(now))?;
        let mut queues: HashMap<Name, Queue> = set.into_iter().map(|q| (q.name.clone(), q)).collect();
        for text in names {
            let name = name(&text).ok_or_else(|| Failure::Unreadable(format!("queue {text:?}")))?;
            let new = Queue::new(name.clone());
            queues.entry(name).or_insert(new);
        }
        let depths = self.depths(queues.keys().map(Name::as_str).collect(), cap, now).await?;
        let mut states = Vec::new();
        for queue in queues.into_values() {
            let (n, oldest_due_at) = depths.get(queue.name.as_str()).copied().unwrap_or_default();
            let due = Count { n: n.min(cap), capped: n > cap };
            let held_until = match queue.flow.as_ref().filter(|flow| flow.held) {
                Some(flow) => {
                    self.rates(&queue.name, flow, now).await?.and_then(|rates| rates.held_until(WHOLE))
                }
                None => None,
            };
            states.push(QueueState { queue, due, oldest_due_at, held_until });
        }
        states.sort_by(|a, b| a.queue.name.cmp(&b.queue.name));
        Ok(states)
    }

    /// How much of each queue is due, and since when.
    async fn depths(
        &self,
        queues: Vec<&str>,
        cap: i64,
        now: Timestamp,
    ) -> Tried<HashMap<String, (i64, Option<Timestamp>)>> {
        let read = |r: &Row| {
            let mut c = Columns::new(r, 0);
            Ok((c.get()?, (c.get()?, c.opt_time()?)))
        };
        let depths = self.listed(sql!("queue_depth"), params![queues, Ts(now), cap + 1], read).await?;
        Ok(depths.into_iter().collect())
    }

    pub(crate) async fn workers(&self, _: &(), _: Now) -> Tried<Vec<Worker>> {
        self.all(sql!("workers"), params![], row::worker).await
    }

    /// Live workers of these queues that are not drained, with how much each has.
    pub(crate) async fn candidates(&self, queues: &[Name], now: Now) -> Tried<Vec<Candidate>> {
        let (mut workers, now) = tokio::try_join!(self.workers(&(), now), self.clock(now))?;
        workers.retain(|worker| {
            worker.expires_at > now && !worker.draining && worker.queues.iter().any(|q| queues.contains(q))
        });
        let ids: Vec<&str> = workers.iter().map(|worker| worker.id.as_str()).collect();
        let read = |r: &Row| {
            let mut c = Columns::new(r, 0);
            Ok((c.text(who)?, c.text(name)?, c.get::<i64>()?))
        };
        let mut has: HashMap<Who, BTreeMap<Name, i64>> = HashMap::new();
        for (worker, queue, jobs) in self.listed(sql!("candidates"), params![ids], read).await? {
            has.entry(worker).or_default().insert(queue, jobs);
        }
        let candidate =
            |worker: Worker| Candidate { has: has.remove(&worker.id).unwrap_or_default(), worker };
        Ok(workers.into_iter().map(candidate).collect())
    }

    pub(crate) async fn audit(&self, request: &ReadAudit, _: Now) -> Tried<Vec<AuditEntry>> {
        let before = request.before.unwrap_or(i64::MAX);
        self.all(sql!("audit"), params![before, crate::list::page(request.limit)], |r| {
            let mut c = Columns::new(r, 0);
            Ok(AuditEntry {
                seq: c.get()?,
                at: c.time()?,
                actor: c.text(actor)?,
                action: c.text(name)?,
                target: c.get()?,
                detail: serde_json::from_str(c.get()?)?,
            })
        })
        .await
    }

    pub(crate) async fn access_key(&self, request: &[u8; 32], _: Now) -> Tried<Option<AccessKey>> {
        self.one(sql!("access_key"), params![request.as_slice()], access_key).await
    }

    pub(crate) async fn access_keys(&self, _: &(), _: Now) -> Tried<Vec<AccessKey>> {
        self.all(sql!("access_keys"), params![], access_key).await
    }

    pub(crate) async fn recall(
        &self,
        request: &Idempotency,
        now: Now,
    ) -> Tried<Result<Option<Vec<u8>>, Refusal>> {
        let now = self.clock(now).await?;
        self.recalled(request, now).await
    }

    pub(crate) async fn recalled(
        &self,
        promise: &Idempotency,
        now: Timestamp,
    ) -> Tried<Result<Option<Vec<u8>>, Refusal>> {
        let read = |r: &Row| Ok((Columns::new(r, 0).hash()?, r.try_get::<_, Vec<u8>>(1)?));
        let kept = self.one(sql!("recall"), params![promise.key.as_str(), Ts(now)], read).await?;
        Ok(promise.recall(kept))
    }
}

impl Tx<'_> {
    /// Takes a key that is free or whose time is over. False if it is held, by whomever; it is locked then.
    pub(crate) async fn take_key(&self, scope: &str, key: &str, hold: &Hold, now: Timestamp) -> Tried<bool> {
        let (job, hash) = (uuid(hold.job), hold.payload_hash.as_slice());
        Ok(!self
            .rows(sql!("take_key"), params![scope, key, job, hash, hold.expires_at.map(Ts), Ts(now)])
            .await?
            .is_empty())
    }

    pub(crate) async fn lock_queue(&self, name: &Name) -> Tried<Option<Queue>> {
        self.one(sql!("lock_queue"), params![name.as_str()], queue).await
    }

    /// Writes a queue's settings, which are locked if they were there. What is held of a queue that gets its first rule is
    /// listed.
    pub(crate) async fn save_queue(&self, q: &Queue, before: Option<&Queue>) -> Tried<()> {
        let was_there = before.is_some();
        let (at, by) = q.paused.clone().unzip();
        let (at, by) = (at.map(Ts), by.map(String::from));
        let defaults = serde_json::to_string(&q.defaults)?;
        let (name, mode) = (q.name.as_str(), q.mode.as_str());
        let flow = q.flow.as_ref().map(serde_json::to_string).transpose()?;
        let endpoint = q.endpoint.as_ref().map(serde_json::to_string).transpose()?;
        let params = params![name, at, by, defaults, mode, was_there, flow, endpoint];
        let put = self.rows(sql!("put_queue"), params).await?;
        if put.is_empty() {
            return Err(Failure::Raced);
        }
        if q.flow.is_some() && before.is_none_or(|before| before.flow.is_none()) {
            self.execute(sql!("adopt_slots"), params![name]).await?;
        }
        Ok(())
    }

    pub(crate) async fn put_queue(&self, request: &PutQueue) -> Tried<Result<(), Refusal>> {
        let before = self.lock_queue(&request.name).await?;
        let decided = request.decide(before.as_ref()).map_err(Refusal::from);
        if let Some((queue, audit)) = granted!(decided) {
            let now = self.now().await?;
            self.save_queue(&queue, before.as_ref()).await?;
            // What stood behind a limit may be free now.
            self.mark(true);
            self.put_audit(&audit, now).await?;
        }
        Ok(Ok(()))
    }

    /// The leader's term first, then the queue.
    pub(crate) async fn break_queue(&self, request: &BreakQueue) -> Tried<Result<bool, Refusal>> {
        let term = self.share_term(&request.term).await?;
        let before = self.lock_queue(&request.queue).await?;
        let now = self.now().await?;
        let decided = granted!(request.decide(term.as_ref(), before.as_ref(), now));
        let Some((queue, audit)) = decided else { return Ok(Ok(false)) };
        self.save_queue(&queue, before.as_ref()).await?;
        self.mark(true);
        self.put_audit(&audit, now).await?;
        Ok(Ok(true))
    }

    pub(crate) async fn pause_queue(&self, request: &PauseQueue) -> Tried<()> {
        let before = self.lock_queue(&request.name).await?;
        let now = self.now().await?;
        let Some((queue, audit)) = request.decide(before.as_ref(), now) else { return Ok(()) };
        self.save_queue(&queue, before.as_ref()).await?;
        if !request.pause {
            self.mark(true);
        }
        self.put_audit(&audit, now).await
    }

    pub(crate) async fn lock_worker(&self, id: &Who) -> Tried<Option<Worker>> {
        self.one(sql!("lock_worker"), params![id.as_str()], row::worker).await
    }

    pub(crate) async fn put_worker(&self, request: &PutWorker) -> Tried<Worker> {
        let (before, now) = tokio::try_join!(biased; self.lock_worker(&request.id), self.now())?;
        let worker = request.decide(before.as_ref(), now);
        self.save_worker(&worker, before.is_some()).await?;
        Ok(worker)
    }

    async fn save_worker(&self, w: &Worker, was_there: bool) -> Tried<()> {
        let (queues, kinds) = (serde_json::to_string(&w.queues)?, serde_json::to_string(&w.kinds)?);
        let (labels, slots) = (serde_json::to_string(&w.labels)?, serde_json::to_string(&w.slots)?);
        let put = self
            .rows(
                sql!("put_worker"),
                params![
                    w.id.as_str(),
                    queues,
                    kinds,
                    w.capacity,
                    labels,
                    w.draining,
                    Ts(w.started_at),
                    Ts(w.seen_at),
                    Ts(w.expires_at),
                    slots,
                    was_there,
                ],
            )
            .await?;
        if put.is_empty() { Err(Failure::Raced) } else { Ok(()) }
    }

    pub(crate) async fn drain_worker(&self, request: &DrainWorker) -> Tried<Option<Worker>> {
        let Some(worker) = self.lock_worker(&request.id).await? else { return Ok(None) };
        let Some((draining, audit)) = request.decide(&worker) else { return Ok(Some(worker)) };
        let now = self.now().await?;
        self.save_worker(&draining, true).await?;
        self.put_audit(&audit, now).await?;
        Ok(Some(draining))
    }

    pub(crate) async fn remove_worker(&self, request: &Who) -> Tried<()> {
        self.execute(sql!("remove_worker"), params![request.as_str()]).await
    }

    pub(crate) async fn put_audit(&self, entry: &WriteAudit, now: Timestamp) -> Tried<()> {
        let WriteAudit { actor, action, target, detail } = entry;
        let detail = serde_json::to_string(detail)?;
        self.execute(
            sql!("write_audit"),
            params![Ts(now), actor.as_str(), action.as_str(), target.as_str(), detail],
        )
        .await
    }

    pub(crate) async fn write_audit(&self, request: &WriteAudit) -> Tried<()> {
        let now = self.now().await?;
        self.put_audit(request, now).await
    }

    async fn lock_access_key(&self, name: &Who) -> Tried<Option<AccessKey>> {
        self.one(sql!("access_key_by_name"), params![name.as_str()], access_key).await
    }

    pub(crate) async fn put_access_key(&self, request: &PutAccessKey) -> Tried<bool> {
        let by_name = self.lock_access_key(&request.name).await?;
        let by_hash = self.access_key(&request.hash, None).await?;
        let now = self.now().await?;
        let (key, audit) = match request.decide(by_name.as_ref(), by_hash.as_ref(), now) {
            KeyMaking::Already => return Ok(true),
            KeyMaking::Taken => return Ok(false),
            KeyMaking::New(key, audit) => (*key, audit),
        };
        let (roles, created_at) = (serde_json::to_string(&key.roles)?, Ts(key.created_at));
        let queues = key.queues.as_ref().map(serde_json::to_string).transpose()?;
        let (name, hash, expires_at) = (key.name.as_str(), key.hash.as_slice(), key.expires_at.map(Ts));
        let params = params![name, hash, roles, queues, expires_at, created_at];
        if self.rows(sql!("put_access_key"), params).await?.is_empty() {
            return Err(Failure::Raced);
        }
        self.put_audit(&audit, now).await?;
        Ok(true)
    }

    pub(crate) async fn revoke_access_key(&self, request: &RevokeAccessKey) -> Tried<Option<AccessKey>> {
        let Some(key) = self.lock_access_key(&request.name).await? else { return Ok(None) };
        let now = self.now().await?;
        let Some((revoked, audit)) = request.decide(&key, now) else { return Ok(Some(key)) };
        self.execute(sql!("revoke_access_key"), params![request.name.as_str(), Ts(now)]).await?;
        self.put_audit(&audit, now).await?;
        Ok(Some(revoked))
    }

    /// Remembers an answer; false if another is remembered already.
    pub(crate) async fn put_answer(&self, promise: &Idempotency, body: &[u8], now: Timestamp) -> Tried<bool> {
        let (hash, until) = (promise.request_hash.as_slice(), Ts(now.plus_ms(ANSWER_KEPT_MS)));
        Ok(!self
            .rows(sql!("remember"), params![promise.key.as_str(), hash, body, until, Ts(now)])
            .await?
            .is_empty())
    }

    pub(crate) async fn remember(&self, request: &Remember) -> Tried<Result<Vec<u8>, Refusal>> {
        let now = self.now().await?;
        if self.put_answer(&request.idempotency, &request.body, now).await? {
            return Ok(Ok(request.body.clone()));
        }
        // One is remembered, and locked by our try: a fresh look sees it.
        match self.recalled(&request.idempotency, now).await? {
            Ok(Some(body)) => Ok(Ok(body)),
            Err(refusal) => Ok(Err(refusal)),
            Ok(None) => Err(Failure::Raced),
        }
    }
}
