//! How a job gets into a worker's hands.

mod fan;
mod handed_out;
mod many;
mod positions;

use crate::assign::start_assigned;
use crate::bulk_insert::first;
use crate::db::{Db, Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::lanes;
use crate::lost::end;
use crate::param::{Params, params};
use crate::pool::Connections;
use crate::row::{self, Columns, Ts};
use fan::{Fan, token_of};
use handed_out::{only_created, spot, without_first_event};
use positions::{Place, Turn};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::decide::{Claim, Command, Move, decide};
use windlass_core::limits::CLAIM_MAX;
use windlass_core::{Job, JobId, Name, Refusal, Status, Timestamp};
use windlass_store::{ClaimMany, ClaimOne, Claimed, EnqueueClaimed, EnqueuedClaimed, Now, StoreResult};

pub(crate) use positions::Positions;

/// The most claims whose leases are looked at in one statement.
const RECOVER_MAX: i64 = 20;

/// What one claim statement did.
#[derive(Default)]
struct Taken {
    claimed: Vec<(usize, Place, Claimed)>,
    /// Handed out, but their first event is gone, or something of them does not read back: what.
    lost: Vec<(JobId, Option<String>)>,
    /// Running rows that must end instead of being handed out again, before anything behind them is.
    ending: Vec<(usize, Place)>,
    /// What this very claim holds already.
    held: Vec<(JobId, Option<i64>)>,
    /// What this worker was assigned and can start.
    assigned: Vec<JobId>,
    /// Where looks for kinds stopped.
    stopped: Vec<(usize, Place)>,
    /// The server's clock, where jobs were passed.
    now: Option<Timestamp>,
}

pub(crate) async fn claim(
    connections: &Arc<Connections>,
    positions: &Arc<Positions>,
    mut request: ClaimMany,
    now: Now,
) -> StoreResult<Vec<Claimed>> {
    request.max = request.max.min(CLAIM_MAX);
    let mut seen = std::collections::HashSet::new();
    request.queues.retain(|q| seen.insert(q.clone()));
    if request.max == 0 || request.queues.is_empty() {
        return Ok(Vec::new());
    }
    let ruled = positions.2.known(connections, now).await?;
    if request.queues.iter().any(|queue| ruled.laned.contains(queue)) {
        return claim_in_turn(connections, positions, request, &ruled.laned, now).await;
    }
    claim_plain(connections, positions, request, true, now).await
}

/// Takes from queues of which some have rules: in the order given, those without together.
async fn claim_in_turn(
    connections: &Arc<Connections>,
    positions: &Arc<Positions>,
    request: ClaimMany,
    laned: &HashSet<Name>,
    now: Now,
) -> StoreResult<Vec<Claimed>> {
    recover(connections, positions, now).await?;
    let request = Arc::new(request);
    let asked = Arc::clone(&request);
    // Nothing is taken: what this very claim holds already, and what the worker was assigned.
    let before = connections
        .single(move |db| {
            let asked = Arc::clone(&asked);
            Box::pin(async move {
                let (nowhere, max) = (positions::nowhere(&asked), asked.max as i64);
                let rows = db.claim(&asked, max, &nowhere, 1, true, None, now).await?;
                db.taken(&rows, &asked.claim, None).await
            })
        })
        .await?;
    if !before.held.is_empty() {
        return hold_again(connections, before.held, request.claim.clone(), now).await;
    }
    let mut claimed = Vec::new();
    for run in request.queues.chunk_by(|one, next| !laned.contains(one) && !laned.contains(next)) {
        let room = request.max - claimed.len();
        if room == 0 {
            break;
        }
        if let [queue] = run
            && laned.contains(queue)
            && let Some(handed) = lanes::claim(connections, &positions.2, &request, queue, room, now).await?
        {
            claimed.extend(handed);
            continue;
        }
        let plain = ClaimMany { queues: run.to_vec(), max: room, ..(*request).clone() };
        claimed.extend(claim_plain(connections, positions, plain, false, now).await?);
    }
    let mut assigned = before.assigned;
    assigned.truncate(request.max - claimed.len());
    if !assigned.is_empty() {
        claimed.extend(start_assigned(connections, assigned, request.claim.clone(), now).await?);
    }
    Ok(claimed)
}

/// Takes from queues without rules. Only the first of a claim looks at what the claim or its worker has already, and only
/// where it is the only one are tokens made ahead: a claim has one nonce.
async fn claim_plain(
    connections: &Arc<Connections>,
    positions: &Arc<Positions>,
    request: ClaimMany,
    is_whole: bool,
    now: Now,
) -> StoreResult<Vec<Claimed>> {
    let turn = if now.is_none() { positions.turn(&request).await } else { None };
    let (mut in_turn, turn) = (turn.is_some(), Arc::new(Mutex::new(turn)));
    let mut course = positions.begin(&request, now.is_some());
    recover(connections, positions, now).await?;
    let request = Arc::new(request);
    let mut fan = Fan::of(&request).filter(|_| is_whole);
    let (mut claimed, mut first, mut server_now, mut assigned) = (Vec::new(), is_whole, None, Vec::new());
    loop {
        let want = (request.max - claimed.len()) as i64;
        let (asked, from, look) =
            (Arc::clone(&request), Arc::new(course.from().collect::<Vec<_>>()), course.look);
        let (hints, ours, tokens) = (Arc::clone(positions), Arc::clone(&turn), fan.clone());
        let taken = connections
            .single(move |db| {
                let (asked, from) = (Arc::clone(&asked), Arc::clone(&from));
                let (hints, ours, tokens) = (Arc::clone(&hints), Arc::clone(&ours), tokens.clone());
                Box::pin(async move {
                    let tokens = tokens.as_ref();
                    let rows = db.claim(&asked, want, &from, look, first, tokens, now).await?;
                    if let Some(ours) = ours.lock().ok().and_then(|mut ours| ours.take()) {
                        pass_on(&hints, &asked, &rows, ours)?;
                    }
                    db.taken(&rows, &asked.claim, tokens).await
                })
            })
            .await
            .inspect_err(|_| positions.forget(&request))?;
        if !taken.held.is_empty() {
            return hold_again(connections, taken.held, request.claim.clone(), now).await;
        }
        // Also those whose job was lost are used up.
        if let Some(fan) = &mut fan {
            fan.hand_out(taken.claimed.len() + taken.lost.len());
        }
        course.passed_on |= std::mem::take(&mut in_turn) && !taken.claimed.is_empty();
        first = false;
        assigned.extend(taken.assigned);
        server_now = taken.now.or(server_now);
        if !taken.claimed.is_empty() {
            connections.wakeups.hint(false);
        }
        let ended = !taken.ending.is_empty() || !taken.lost.is_empty();
        for (probe, place, held) in taken.claimed {
            course.pass(probe, place);
            claimed.push(held);
        }
        for (probe, (due_at, id)) in taken.ending.iter().copied() {
            let job = JobId::from_bytes(id.into_bytes());
            if !end(connections, job, None, request.claim.clone(), now).await? {
                course.pass(probe, (due_at, Uuid::from_u128(id.as_u128().saturating_add(1))));
            }
        }
        for (id, why) in taken.lost {
            end(connections, id, why, request.claim.clone(), now).await?;
        }
        if claimed.len() >= request.max {
            course.found();
            break;
        }
        course.pass_ended(&taken.ending, &taken.stopped);
        // Rows that ended took the place of others that may be due.
        if !ended && !course.go_on(&taken.stopped) {
            break;
        }
    }
    positions.end(&request, &mut course, server_now);
    assigned.truncate(request.max.saturating_sub(claimed.len()));
    if !assigned.is_empty() {
        claimed.extend(start_assigned(connections, assigned, request.claim.clone(), now).await?);
    }
    Ok(claimed)
}

/// Says where the claim after this one may begin, and lets it, while this one is committed and its answer is read.
fn pass_on(positions: &Positions, asked: &ClaimMany, rows: &[Row], turn: Turn) -> Tried<()> {
    let (mut last, mut now) = (HashMap::new(), None);
    for row in rows {
        let mut c = Columns::new(row, 0);
        if c.get::<&str>()? == "taken" {
            let id = c.job_id()?;
            let (probe, place) = spot(&mut c, id)?;
            let furthest = last.entry(probe).or_insert(place);
            *furthest = place.max(*furthest);
            now = now.or(c.pass(1).opt_time()?);
        }
    }
    if let Some(now) = now {
        positions.pass_on(asked, &last, now);
    }
    drop(turn);
    Ok(())
}

/// Puts jobs whose lease is over back into line. Everybody who claims does so, twice a second.
pub(crate) async fn recover(
    connections: &Arc<Connections>,
    positions: &Positions,
    now: Now,
) -> StoreResult<()> {
    if now.is_none() && !positions.recovers() {
        return Ok(());
    }
    loop {
        let looked = connections.single(move |db| Box::pin(db.recover(now))).await?;
        if looked < RECOVER_MAX {
            return Ok(());
        }
    }
}

async fn hold_again(
    connections: &Arc<Connections>,
    mut ids: Vec<(JobId, Option<i64>)>,
    claim: Claim,
    now: Now,
) -> StoreResult<Vec<Claimed>> {
    // One order on every store.
    ids.sort_unstable();
    let (again, lost) = {
        let claim = claim.clone();
        connections
            .read(move |db| {
                let (ids, claim) = (ids.clone(), claim.clone());
                Box::pin(async move {
                    let (mut held, mut lost) = (Vec::new(), Vec::new());
                    for (id, nonce) in ids {
                        match db.hold_again(id, &claim, nonce).await {
                            Err(Failure::Corrupt { why, .. }) => lost.push((id, why)),
                            found => held.extend(found?),
                        }
                    }
                    Ok((held, lost))
                })
            })
            .await?
    };
    for (id, why) in lost {
        end(connections, id, Some(why), claim.clone(), now).await?;
    }
    Ok(again)
}

/// Whether the job is held under this very claim: a repeat after a lost answer.
pub(crate) fn holds(job: &Job, claim: &Claim, now: Timestamp) -> bool {
    job.is_held(now)
        && job.worker_id.as_ref() == Some(&claim.worker)
        && job.lease_hash == Some(claim.secret.token(job.id, job.attempt).hash())
}

impl Tx<'_> {
    pub(crate) async fn claim_one(&self, request: &ClaimOne) -> Tried<Result<Claimed, Refusal>> {
        let (Some(job), now) = self.lock(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        if holds(&job, &request.claim, now) {
            return self.claimed(job, &request.claim).await.map(Ok);
        }
        if job.status.is_terminal() {
            return Ok(Err(Refusal::Finished(job.status)));
        }
        let queue = self.queue(&job.queue).await?;
        if !queue.as_ref().is_none_or(|queue| queue.is_open()) || !job.is_due(now) {
            return Ok(Err(Refusal::NotClaimable(job.status)));
        }
        let (mut now, has_rules) = (now, queue.is_some_and(|queue| queue.flow.is_some()));
        let decided = |now| decide(&job, Command::Claim(request.claim.clone()), now);
        let mut step = match decided(now) {
            Ok(step) => step,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if has_rules {
            // A lost run that ends here starts nothing.
            let Some(at) = self.take_slot(&job, step.job.status == Status::Running).await? else {
                return Ok(Err(Refusal::NotClaimable(job.status)));
            };
            // It starts when it is paid for, not when its own row was locked.
            now = at.max(now);
            step = match decided(now) {
                Ok(step) => step,
                Err(refusal) => return Ok(Err(refusal)),
            };
        }
        self.hand_out(&job, step, &request.claim, now).await
    }

    /// Writes what a claim or a start of one job leads to. Only a job that runs by it is handed out.
    pub(crate) async fn hand_out(
        &self,
        job: &Job,
        step: Move,
        claim: &Claim,
        now: Timestamp,
    ) -> Tried<Result<Claimed, Refusal>> {
        self.write_claimed(job, &step, Some(number(claim))).await?;
        let mut status = step.job.status;
        if status == Status::Running {
            let lost = match self.claimed_if_whole(step.job.clone(), claim).await {
                Ok(Some(held)) => return Ok(Ok(held)),
                Ok(None) => Command::LosePayload,
                Err(Failure::Corrupt { why, .. }) => Command::Unreadable(why),
                Err(failure) => return Err(failure),
            };
            if let Ok(lost) = decide(&step.job, lost, now) {
                self.write(&step.job, &lost).await?;
                status = lost.job.status;
            }
        }
        Ok(Err(if status.is_terminal() { Refusal::Finished(status) } else { Refusal::NotClaimable(status) }))
    }
}

impl Db<'_> {
    async fn hold_again(&self, id: JobId, claim: &Claim, nonce: Option<i64>) -> Tried<Option<Claimed>> {
        let Some(job) = self.job(id).await? else { return Ok(None) };
        let Some(token) = token_of(&job, claim, nonce) else { return Ok(None) };
        let (facts, payload) = self.created(id).await?.ok_or_else(|| without_first_event(id))?;
        self.claimed_with(job, claim, token, facts, payload).await.map(Some)
    }

    /// Looks at holds whose time has come, and tells how many there were.
    async fn recover(&self, now: Now) -> Tried<i64> {
        let rows = self.rows_kept(sql!("recover"), params![now.map(Ts), RECOVER_MAX]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
    }

    #[expect(clippy::too_many_arguments, reason = "what one statement takes")]
    async fn claim(
        &self,
        request: &ClaimMany,
        want: i64,
        from: &[Option<Place>],
        look: i64,
        first: bool,
        tokens: Option<&Fan>,
        now: Now,
    ) -> Tried<Vec<Row>> {
        let queues: Vec<&str> = request.queues.iter().map(Name::as_str).collect();
        let kinds: Vec<&str> = request.kinds.iter().map(Name::as_str).collect();
        let (claim, hashes) = (&request.claim, tokens.map(Fan::hashes));
        self.rows_kept(
            sql!("claim"),
            params![
                queues,
                want,
                claim.worker.as_str(),
                claim.secret.0.as_slice(),
                claim.lease_ms.get(),
                now.map(Ts),
                kinds,
                from.iter().map(|place| place.map(|(due, _)| Ts(due))).collect::<Vec<Option<Ts>>>(),
                from.iter().map(|place| place.map(|(_, id)| id)).collect::<Vec<Option<Uuid>>>(),
                look,
                number(claim),
                first,
                hashes.as_deref(),
                tokens.map(|fan| fan.nonce),
            ],
        )
        .await
    }

    /// Writes a plain job and hands it out, in one round trip. None if its id is taken: the transaction has then failed.
    pub(crate) async fn insert_claimed(
        &self,
        request: &EnqueueClaimed,
        now: Now,
    ) -> Tried<Option<EnqueuedClaimed>> {
        let EnqueueClaimed { job, actor, claim } = request;
        let new = [(job, actor)];
        let (created, taken) =
            tokio::join!(biased; self.inserted_at(&new, now), self.hand_out_new(job.id, claim, now));
        let Some(created) = created? else { return Ok(None) };
        let claimed = match taken? {
            None => None,
            Some(now) => {
                let row = only_created(job.id, created, &job.facts, claim, now)?;
                let token = claim.secret.token(row.id, row.attempt);
                let held =
                    self.claimed_with(row, claim, token, job.facts.clone(), job.payload.clone()).await?;
                Some(Box::new(held))
            }
        };
        Ok(Some(EnqueuedClaimed { enqueued: first(job), claimed }))
    }

    /// Hands out a job that this transaction made, and tells the moment; none if it is not to be taken now.
    async fn hand_out_new(&self, id: JobId, claim: &Claim, now: Now) -> Tried<Option<Timestamp>> {
        let rows = self
            .rows_kept(
                sql!("claim_new"),
                params![
                    uuid(id),
                    claim.worker.as_str(),
                    claim.secret.0.as_slice(),
                    claim.lease_ms.get(),
                    number(claim),
                    now.map(Ts),
                ],
            )
            .await?;
        rows.first().map(|row| Columns::new(row, 0).time()).transpose()
    }

    /// Writes jobs that are handed out by this, and returns their first events.
    async fn handed_out_rows(&self, params: &Params<'_>) -> Tried<Vec<Row>> {
        self.rows_kept(sql!("hand_out"), params).await
    }

    /// The rows of jobs, also of those that do not read back.
    pub(crate) async fn readable_jobs(
        &self,
        ids: impl Iterator<Item = JobId>,
    ) -> Tried<HashMap<JobId, (Job, Option<String>)>> {
        let ids: Vec<Uuid> = ids.map(uuid).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let jobs = self.all(sql!("jobs"), params![ids], row::readable_job).await?;
        Ok(jobs.into_iter().map(|(job, wrong)| (job.id, (job, wrong))).collect())
    }

    /// The rows of jobs.
    pub(crate) async fn jobs_of(&self, ids: impl Iterator<Item = JobId>) -> Tried<HashMap<JobId, Job>> {
        let ids: Vec<Uuid> = ids.map(uuid).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let jobs = self.all(sql!("jobs"), params![ids], row::job).await?;
        Ok(jobs.into_iter().map(|job| (job.id, job)).collect())
    }
}

/// What a claim is known by in the rows it took: nobody can tell the secret from it. Two workers with one secret are two.
pub(crate) fn number(claim: &Claim) -> i64 {
    let hash = Sha256::new().chain_update(claim.secret.0).chain_update(claim.worker.as_str()).finalize();
    let (eight, _) = hash.split_at(8);
    eight.iter().fold(0, |number: i64, byte| number << 8 | i64::from(*byte))
}
