//! How a job gets into a worker's hands.

mod positions;

use crate::bulk_insert::first;
use crate::db::{Db, Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::lost::end;
use crate::param::params;
use crate::pool::Connections;
use crate::row::{self, Columns, Ts};
use positions::Place;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::decide::{Claim, Command, decide};
use windlass_core::limits::CLAIM_MAX;
use windlass_core::step::{self, StepState};
use windlass_core::{
    Actor, Event, EventKind, Facts, Job, JobId, Lease, Metadata, Name, Payload, Refusal, Status, Timestamp,
    Version, Wake,
};
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
    held: Vec<JobId>,
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
    let mut course = positions.begin(&request, now.is_some());
    recover(connections, positions, now).await?;
    let request = Arc::new(request);
    let (mut claimed, mut first, mut server_now) = (Vec::new(), true, None);
    loop {
        let want = (request.max - claimed.len()) as i64;
        let (asked, from, look) =
            (Arc::clone(&request), Arc::new(course.from().collect::<Vec<_>>()), course.look);
        let taken = connections
            .single(move |db| {
                let (asked, from) = (Arc::clone(&asked), Arc::clone(&from));
                Box::pin(async move { db.claim(&asked, want, &from, look, first, now).await })
            })
            .await?;
        if !taken.held.is_empty() {
            return hold_again(connections, taken.held, request.claim.clone(), now).await;
        }
        first = false;
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
    Ok(claimed)
}

/// Puts jobs whose lease is over back into line. Everybody who claims does so, twice a second.
async fn recover(connections: &Arc<Connections>, positions: &Positions, now: Now) -> StoreResult<()> {
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
    ids: Vec<JobId>,
    claim: Claim,
    now: Now,
) -> StoreResult<Vec<Claimed>> {
    let (again, lost) = {
        let claim = claim.clone();
        connections
            .read(move |db| {
                let (ids, claim) = (ids.clone(), claim.clone());
                Box::pin(async move {
                    let (mut held, mut lost) = (Vec::new(), Vec::new());
                    for id in ids {
                        match db.hold_again(id, &claim).await {
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
        if self.is_paused(&job.queue).await? || !job.is_due(now) {
            return Ok(Err(Refusal::NotClaimable(job.status)));
        }
        let step = match decide(&job, Command::Claim(request.claim.clone()), now) {
            Ok(step) => step,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.write_claimed(&job, &step, Some(number(&request.claim))).await?;
        let mut status = step.job.status;
        if status == Status::Running {
            let lost = match self.claimed_if_whole(step.job.clone(), &request.claim).await {
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
    async fn hold_again(&self, id: JobId, claim: &Claim) -> Tried<Option<Claimed>> {
        match self.job(id).await? {
            Some(job) => self.claimed(job, claim).await.map(Some),
            None => Ok(None),
        }
    }

    /// Looks at holds whose time has come, and tells how many there were.
    async fn recover(&self, now: Now) -> Tried<i64> {
        let rows = self.rows_kept(sql!("recover"), params![now.map(Ts), RECOVER_MAX]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
    }

    async fn claim(
        &self,
        request: &ClaimMany,
        want: i64,
        from: &[Option<Place>],
        look: i64,
        first: bool,
        now: Now,
    ) -> Tried<Taken> {
        let queues: Vec<&str> = request.queues.iter().map(Name::as_str).collect();
        let kinds: Vec<&str> = request.kinds.iter().map(Name::as_str).collect();
        let claim = &request.claim;
        let rows = self
            .rows_kept(
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
                ],
            )
            .await?;
        self.taken(&rows, claim).await
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
                let held = self.claimed_with(row, claim, job.facts.clone(), job.payload.clone()).await?;
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

    async fn taken(&self, rows: &[Row], claim: &Claim) -> Tried<Taken> {
        let mut taken = Taken::default();
        let mut moved = Vec::new();
        for row in rows {
            let mut c = Columns::new(row, 0);
            let (what, id) = (c.get::<&str>()?, c.job_id()?);
            match what {
                "held" => taken.held.push(id),
                "ending" => taken.ending.push(spot(&mut c, id)?),
                "until" => {
                    taken.stopped.push(spot(&mut c, id)?);
                    taken.now = c.pass(1).opt_time()?;
                }
                _ => moved.push((spot(&mut c, id)?, id, Moved::read(c)?)),
            }
        }
        taken.now = moved.last().map(|(_, _, moved)| moved.now).or(taken.now);
        // As they stand in line; the statement answers in whatever order it moved them.
        moved.sort_unstable_by_key(|(spot, ..)| *spot);
        taken.ending.sort_unstable();
        let worked_on = moved.iter().filter(|(_, _, m)| m.version > 2).map(|(_, id, _)| *id);
        let mut rows = self.readable_jobs(worked_on).await?;
        for ((probe, place), id, moved) in moved {
            let row = rows.remove(&id);
            match self.handed_out(id, moved, row, claim).await {
                Ok(Some(held)) => taken.claimed.push((probe, place, held)),
                Ok(None) => taken.lost.push((id, None)),
                // It fails alone: the others were handed out with it.
                Err(Failure::Corrupt { why, .. }) => taken.lost.push((id, Some(why))),
                Err(failure) => return Err(failure),
            }
        }
        Ok(taken)
    }

    /// A job that the claim moved; none if its first event is gone.
    async fn handed_out(
        &self,
        id: JobId,
        moved: Moved,
        row: Option<(Job, Option<String>)>,
        claim: &Claim,
    ) -> Tried<Option<Claimed>> {
        let corrupt = |why| Failure::Corrupt { job: id, why };
        let Some(first_event) = moved.first_event else { return Ok(None) };
        let (at, facts, payload) = first_event.map_err(corrupt)?;
        let job = match row {
            Some((_, Some(why))) => return Err(corrupt(why)),
            Some((job, None)) => job,
            None => only_created(id, at, &facts, claim, moved.now)?,
        };
        self.claimed_with(job, claim, facts, payload).await.map(Some)
    }

    /// The rows of jobs, also of those that do not read back.
    async fn readable_jobs(
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

    /// A held job with everything its holder needs.
    pub(crate) async fn claimed(&self, job: Job, claim: &Claim) -> Tried<Claimed> {
        let lost = Failure::Corrupt { job: job.id, why: "it has no first event".into() };
        self.claimed_if_whole(job, claim).await?.ok_or(lost)
    }

    /// The same; none if its first event is gone.
    async fn claimed_if_whole(&self, job: Job, claim: &Claim) -> Tried<Option<Claimed>> {
        match self.created(job.id).await? {
            Some((facts, payload)) => self.claimed_with(job, claim, facts, payload).await.map(Some),
            None => Ok(None),
        }
    }

    async fn claimed_with(
        &self,
        job: Job,
        claim: &Claim,
        facts: Facts,
        payload: Option<Payload>,
    ) -> Tried<Claimed> {
        let metadata = match job.meta_version {
            None => Metadata::new(),
            Some(1) => facts.metadata.clone(),
            Some(_) => self.metadata(&job).await?,
        };
        // A job that was only created and claimed has nothing on record.
        let (steps_recorded, wake) = if job.version <= 2 {
            (0, None)
        } else {
            let record = step::recorded(&self.remembered(job.id).await?, job.steps_from);
            let ended = record.steps.iter().filter(|s| matches!(s.state, StepState::Ended { .. })).count();
            (ended as i64, self.wake(&job).await?)
        };
        let payload = self.payload_now(&job, payload).await?;
        Ok(Claimed {
            lease: Lease {
                job: job.id,
                attempt: job.attempt,
                fence: self.fence(job.attempt),
                token: claim.secret.token(job.id, job.attempt),
                worker: claim.worker.clone(),
                expires_at: job.lease_expires_at.unwrap_or(job.updated_at),
            },
            checkpoint: self.pointed(job.id, job.checkpoint_version).await?.and_then(|e| e.payload),
            facts,
            payload,
            metadata,
            wake,
            steps_recorded,
            job,
        })
    }

    async fn wake(&self, job: &Job) -> Tried<Option<Wake>> {
        let Some(waiting) = self.pointed(job.id, job.wait_version).await? else { return Ok(None) };
        let ended_by = self.pointed(job.id, job.wake_version).await?;
        Ok(step::wake(&waiting, ended_by.as_ref()))
    }
}

/// When a job was made, what it is, and what it was given.
type FirstEvent = (Timestamp, Facts, Option<Payload>);

/// What a row of the claim tells of a job that was handed out.
struct Moved {
    version: Version,
    now: Timestamp,
    /// None if it is gone, and why if it does not read back.
    first_event: Option<Result<FirstEvent, String>>,
}

impl Moved {
    fn read(mut c: Columns<'_>) -> Tried<Self> {
        let (version, now) = (c.get()?, c.time()?);
        let Some(at) = c.opt_time()? else { return Ok(Self { version, now, first_event: None }) };
        let facts = Facts::read(c.get::<Option<&str>>()?);
        let is_json: Option<bool> = c.get()?;
        let payload = c.get::<Option<Vec<u8>>>()?;
        let payload = payload.map(|bytes| Payload::stored(bytes, is_json.unwrap_or(false)));
        let read = facts.map(|facts| (at, facts, payload)).map_err(|unreadable| unreadable.to_string());
        Ok(Self { version, now, first_event: Some(read) })
    }
}

/// Where a job stood in line: which line, and its place there.
fn spot(c: &mut Columns<'_>, id: JobId) -> Tried<(usize, Place)> {
    let probe = c.get::<i32>()? - 1;
    let probe = usize::try_from(probe).map_err(|_| Failure::Unreadable(format!("probe {probe}")))?;
    Ok((probe, (c.time()?, uuid(id))))
}

/// The row of a job that was created and claimed, and nothing else: it follows from those two events.
fn only_created(id: JobId, at: Timestamp, facts: &Facts, claim: &Claim, now: Timestamp) -> Tried<Job> {
    let event = Event {
        job: id,
        version: 1,
        at,
        actor: Actor::api(),
        attempt: 0,
        generation: 0,
        lease: None,
        key: None,
        what: EventKind::JobCreated(Box::new(facts.clone())),
        payload: None,
    };
    let claimed = Job::created(&event).map(|job| decide(&job, Command::Claim(claim.clone()), now));
    match claimed {
        Some(Ok(step)) => Ok(step.job),
        _ => Err(Failure::Corrupt { job: id, why: "its first event contradicts that it was claimed".into() }),
    }
}

/// What a claim is known by in the rows it took: nobody can tell the secret from it. Two workers with one secret are two.
pub(crate) fn number(claim: &Claim) -> i64 {
    let hash = Sha256::new().chain_update(claim.secret.0).chain_update(claim.worker.as_str()).finalize();
    let (eight, _) = hash.split_at(8);
    eight.iter().fold(0, |number: i64, byte| number << 8 | i64::from(*byte))
}
