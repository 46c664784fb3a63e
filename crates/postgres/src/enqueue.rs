//! How jobs enter: all of a request or nothing.
//!
//! Plain jobs are one set-based statement; single ones that come at the same time share it, and each caller still
//! gets its own durable answer. A request with unique keys, parents or an idempotency key is planned first, on what
//! is there, and written under the unique constraints: whoever loses a race there looks again.

use crate::append::granted;
use crate::batch::{self, Batcher};
use crate::bulk_insert::{is_plain, is_plain_job};
use crate::claim::holds;
use crate::db::{Tx, sql, uuid};
use crate::end::Moves;
use crate::entry::{Entries, is_guarded};
use crate::error::{Failure, Tried};
use crate::lanes::Lanes;
use crate::param::params;
use crate::pool::Connections;
use crate::row::{self, Ts};
use futures_util::future::try_join_all;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use uuid::Uuid;
use windlass_core::decide::seal_key;
use windlass_core::enqueue::{Born, Loaded, Plan, UniqueKey, check_size, first_answer, plan, size};
use windlass_core::flow::waits_for_flow;
use windlass_core::unique::Hold;
use windlass_core::{Actor, EventKind, Facts, Job, JobId, NewJob, Payload, Refusal, Timestamp, Unique};
use windlass_store::fresh::wall_clock;
use windlass_store::{
    BatchRefusal, ClaimOne, Enqueue, EnqueueClaimed, Enqueued, EnqueuedClaimed, Now, StoreResult,
};

/// New jobs of a graph that are sent to the server before its first answer is waited for.
const BORN_TOGETHER: usize = 16;

/// What a request is answered.
pub(crate) type Answered = Result<Vec<Enqueued>, BatchRefusal>;
/// Requests that can share a statement.
pub(crate) type Calls = Batcher<Arc<Enqueue>, Answered>;

pub(crate) async fn enqueue(
    connections: &Arc<Connections>,
    lanes: &Lanes,
    calls: &Calls,
    request: Enqueue,
    now: Now,
) -> StoreResult<Answered> {
    granted!(check_size(size(&request.jobs)));
    let is_guarded = is_guarded(connections, lanes, &request.jobs, now).await?;
    let request = Arc::new(request);
    if let ([job], None) = (&*request.jobs, now)
        && !is_guarded
        && is_plain(&request)
    {
        // The horizon of a run time is ten years: any clock can tell.
        if let Err(invalid) = job.check(wall_clock()) {
            return Ok(Err(BatchRefusal { index: 0, refusal: invalid.into() }));
        }
        let weight = 1 + job.payload.as_ref().map_or(0, |p| p.as_bytes().len() / 1_024);
        if batch::is_small(weight) {
            return calls.call(request, weight).await;
        }
    }
    connections
        .transact(now, move |tx| {
            let request = Arc::clone(&request);
            Box::pin(async move { tx.enqueue_into(&request, is_guarded).await })
        })
        .await
}

/// Enqueues one job and hands it out in the same transaction; a plain job in one round trip.
pub(crate) async fn enqueue_claimed(
    connections: &Arc<Connections>,
    lanes: &Lanes,
    request: EnqueueClaimed,
    now: Now,
) -> StoreResult<Result<EnqueuedClaimed, Refusal>> {
    let is_guarded = is_guarded(connections, lanes, std::slice::from_ref(&request.job), now).await?;
    let request = Arc::new(request);
    if is_plain_job(&request.job) && !is_guarded {
        // The horizon of a run time is ten years: any clock can tell.
        let about = now.unwrap_or_else(wall_clock);
        if let Err(invalid) = request.job.check(about) {
            return Ok(Err(invalid.into()));
        }
        let asked = Arc::clone(&request);
        let handed = connections
            .single(move |db| {
                let asked = Arc::clone(&asked);
                Box::pin(async move { db.insert_claimed(&asked, now).await })
            })
            .await?;
        if let Some(handed) = handed {
            let due = request.job.facts.run_at.resolve(about) <= about;
            connections.wakeups.hint(due && handed.claimed.is_none());
            return Ok(Ok(handed));
        }
    }
    connections
        .transact(now, move |tx| {
            let request = Arc::clone(&request);
            Box::pin(async move { tx.enqueue_claimed(&request).await })
        })
        .await
}

impl Tx<'_> {
    pub(crate) async fn enqueue(&self, request: &Enqueue) -> Tried<Answered> {
        let has_key = request.jobs.iter().any(|job| job.facts.key.is_some());
        self.enqueue_into(request, has_key).await
    }

    /// Enqueues; into lanes whose rules may look at jobs that come, if so it is said.
    async fn enqueue_into(&self, request: &Enqueue, is_guarded: bool) -> Tried<Answered> {
        let entries = if is_guarded { self.lock_lanes(request).await? } else { Entries::new() };
        if entries.is_empty()
            && is_plain(request)
            && let Some(answered) = self.enqueue_plain(request).await?
        {
            return Ok(answered);
        }
        let parents = self.lock_named(request).await?;
        let now = self.now().await?;
        if let Some(promise) = &request.idempotency
            && let Some(answers) = granted!(first_answer(self.recall(promise, Some(now)).await?))
        {
            return Ok(Ok(answers));
        }
        let mut sealed = HashSet::new();
        for parent in parents.values().filter(|parent| waits_for_flow(parent)) {
            if self.event_by_key(parent.id, &seal_key()).await?.is_some() {
                sealed.insert(parent.id);
            }
        }
        let holds = self.holds(request).await?;
        let is_unlocked = |unique: &Unique| {
            let hold = holds.get(&(unique.scope.clone(), unique.key.clone()));
            hold.is_some_and(|hold| !parents.contains_key(&hold.job))
        };
        let mut debounced = request.jobs.iter().filter_map(NewJob::debounce);
        if debounced.any(|(unique, _)| is_unlocked(unique)) {
            // Somebody else took the key meanwhile, or its job is gone.
            return Err(Failure::Raced);
        }
        let lanes = self.ahead(entries).await?;
        let loaded = Loaded { created: self.created_among(request).await?, holds, parents, sealed, lanes };
        let plan = granted!(plan(&loaded, request, now));
        self.carry_out(&plan, &request.actor, now).await?;
        if let Some(promise) = &request.idempotency {
            let body = serde_json::to_vec(&plan.answers)?;
            if !self.put_answer(promise, &body, now).await? {
                return Err(Failure::Raced);
            }
        }
        Ok(Ok(plan.answers))
    }

    async fn enqueue_claimed(&self, request: &EnqueueClaimed) -> Tried<Result<EnqueuedClaimed, Refusal>> {
        let EnqueueClaimed { job, actor, claim } = request;
        let alone = Enqueue { jobs: vec![job.clone()], actor: actor.clone(), idempotency: None };
        let enqueued = match self.enqueue(&alone).await? {
            Ok(answers) => answers.into_iter().next().unwrap_or_else(|| Enqueued::new(job)),
            Err(refused) => return Ok(Err(refused.refusal)),
        };
        // In a queue with rules somebody else may be next.
        if enqueued.dropped
            || !enqueued.existed
                && self.queue(&job.facts.queue).await?.is_some_and(|queue| queue.flow.is_some())
        {
            return Ok(Ok(EnqueuedClaimed { enqueued, claimed: None }));
        }
        // One that was there already is handed only to whom it was handed before.
        if enqueued.existed {
            let (row, now) = self.lock(job.id).await?;
            if enqueued.id != job.id || !row.is_some_and(|row| holds(&row, claim, now)) {
                return Ok(Ok(EnqueuedClaimed { enqueued, claimed: None }));
            }
        }
        let claimed = self.claim_one(&ClaimOne { job: job.id, claim: claim.clone() }).await?;
        if claimed.is_ok() {
            self.nothing_due();
        }
        Ok(Ok(EnqueuedClaimed { enqueued, claimed: claimed.ok().map(Box::new) }))
    }

    /// One statement, if no id is taken; else none, and nothing was done.
    async fn enqueue_plain(&self, request: &Enqueue) -> Tried<Option<Answered>> {
        // The horizon of a run time is ten years: any clock can tell.
        let now = self.given().unwrap_or_else(wall_clock);
        for (index, job) in request.jobs.iter().enumerate() {
            if let Err(invalid) = job.check(now) {
                return Ok(Some(Err(BatchRefusal { index, refusal: invalid.into() })));
            }
        }
        let jobs: Vec<(&NewJob, &Actor)> = request.jobs.iter().map(|job| (job, &request.actor)).collect();
        let insert = self.insert_jobs(&jobs, self.given());
        let ((), inserted) = tokio::try_join!(biased; self.savepoint(), insert)?;
        if !inserted {
            self.back_to_savepoint().await?;
            return Ok(None);
        }
        self.mark(request.jobs.iter().any(|j| j.facts.run_at.resolve(now) <= now));
        Ok(Some(Ok(request.jobs.iter().map(Enqueued::new).collect())))
    }

    /// Locks the jobs that a request names, and those whose keys it may take over.
    async fn lock_named(&self, request: &Enqueue) -> Tried<HashMap<JobId, Job>> {
        let holders = match request.jobs.iter().any(|job| job.debounce().is_some()) {
            true => self.holds(request).await?.into_values().map(|hold| hold.job).collect(),
            false => Vec::new(),
        };
        let named = |job: &NewJob| {
            let upstream: Vec<JobId> = job.facts.after().iter().map(|edge| edge.job).collect();
            job.facts.parent_id.into_iter().chain(upstream)
        };
        let ids: Vec<Uuid> = request.jobs.iter().flat_map(named).chain(holders).map(uuid).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = self.all(sql!("lock_jobs"), params![ids], row::job).await?;
        Ok(rows.into_iter().map(|job| (job.id, job)).collect())
    }

    async fn created_among(&self, request: &Enqueue) -> Tried<HashMap<JobId, (Facts, Option<Payload>)>> {
        let ids: Vec<Uuid> = request.jobs.iter().map(|j| uuid(j.id)).collect();
        let events = self.all(sql!("created"), params![ids], |r| row::event(r, 0)).await?;
        let created = |e: windlass_core::Event| match e.what {
            EventKind::JobCreated(facts) => Some((e.job, (*facts, e.payload))),
            _ => None,
        };
        Ok(events.into_iter().filter_map(created).collect())
    }

    async fn holds(&self, request: &Enqueue) -> Tried<HashMap<UniqueKey, Hold>> {
        let uniques = request.jobs.iter().filter_map(|j| j.facts.unique.as_ref());
        let asked: HashMap<(String, &str), &Unique> =
            uniques.map(|u| ((u.scope.to_text(), u.key.as_str()), u)).collect();
        if asked.is_empty() {
            return Ok(HashMap::new());
        }
        let scopes: Vec<&str> = asked.keys().map(|(scope, _)| scope.as_str()).collect();
        let keys: Vec<&str> = asked.keys().map(|(_, key)| *key).collect();
        let holds = self
            .all(sql!("find_keys"), params![scopes, keys], |r| {
                let mut c = row::Columns::new(r, 0);
                let key = (c.get::<String>()?, c.get::<String>()?);
                let job = c.job_id()?;
                let payload_hash = c.bytes()?.unwrap_or_default();
                Ok((key, Hold { job, payload_hash, expires_at: c.opt_time()? }))
            })
            .await?;
        let unique = |((scope, key), hold): ((String, String), Hold)| {
            let unique = asked.get(&(scope, key.as_str()))?;
            Some(((unique.scope.clone(), unique.key.clone()), hold))
        };
        Ok(holds.into_iter().filter_map(unique).collect())
    }

    async fn carry_out(&self, plan: &Plan<'_>, actor: &Actor, now: Timestamp) -> Tried<()> {
        let fresh: Vec<(&NewJob, &Actor)> = plan.fresh.iter().map(|job| (*job, actor)).collect();
        if !self.insert_jobs(&fresh, Some(now)).await? {
            return Err(Failure::Raced);
        }
        if !plan.fresh.is_empty() {
            self.mark(plan.fresh.iter().any(|j| j.facts.run_at.resolve(now) <= now));
        }
        for together in plan.born.chunks(BORN_TOGETHER) {
            let made = try_join_all(together.iter().map(|born| self.bear(born, now))).await?;
            if made.contains(&false) {
                return Err(Failure::Raced);
            }
        }
        for id in &plan.freed {
            self.execute(sql!("free_keys"), params![uuid(*id)]).await?;
        }
        self.take_keys(&plan.holds, now).await?;
        for (parent, step) in &plan.adoptions {
            self.write(parent, step).await?;
        }
        if plan.give_way.is_empty() && plan.endings.is_empty() {
            return Ok(());
        }
        let mut moves = Moves::new(self);
        moves.load(plan.give_way.iter().map(|gives_way| gives_way.job)).await?;
        let mut ended = VecDeque::new();
        for gives_way in &plan.give_way {
            let step = moves.row(gives_way.job).and_then(|job| gives_way.step(job, now));
            ended.extend(step.and_then(|step| moves.moves(step)));
        }
        ended.extend(&plan.endings);
        moves.follow(ended, now).await?;
        moves.write().await
    }

    /// Writes a new job of a graph with its first events. False if its id is taken.
    async fn bear(&self, born: &Born, now: Timestamp) -> Tried<bool> {
        let insert = self.insert_job(&born.row, now);
        let append = try_join_all(born.events.iter().map(|event| self.append_event(event)));
        let (made, _) = tokio::try_join!(biased; insert, append)?;
        Ok(made)
    }

    /// Takes keys in the order of their names, so that two requests never wait for each other in a circle.
    async fn take_keys(&self, keys: &BTreeMap<UniqueKey, Hold>, now: Timestamp) -> Tried<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let scopes: Vec<String> = keys.keys().map(|(scope, _)| scope.to_text()).collect();
        let names: Vec<&str> = keys.keys().map(|(_, key)| key.as_str()).collect();
        let jobs: Vec<Uuid> = keys.values().map(|h| uuid(h.job)).collect();
        let hashes: Vec<&[u8]> = keys.values().map(|h| h.payload_hash.as_slice()).collect();
        let until: Vec<Option<Ts>> = keys.values().map(|h| h.expires_at.map(Ts)).collect();
        let taken =
            self.rows(sql!("take_keys"), params![scopes, names, jobs, hashes, until, Ts(now)]).await?;
        if taken.len() < keys.len() { Err(Failure::Raced) } else { Ok(()) }
    }
}
