//! What a claim hands out, read from its answer: most of a job that was only created and claimed follows from its first
//! event, so its row does not travel.

use super::Taken;
use super::fan::Fan;
use super::positions::Place;
use crate::db::{Db, uuid};
use crate::error::{Failure, Tried};
use crate::row::Columns;
use tokio_postgres::Row;
use windlass_core::decide::{Claim, Command, decide};
use windlass_core::step;
use windlass_core::{
    Actor, Event, EventKind, Facts, Job, JobId, Lease, Metadata, Payload, Timestamp, Token, Version, Wake,
};
use windlass_store::Claimed;

impl Db<'_> {
    pub(super) async fn taken(&self, rows: &[Row], claim: &Claim, tokens: Option<&Fan>) -> Tried<Taken> {
        let mut taken = Taken::default();
        let mut moved = Vec::new();
        for row in rows {
            let mut c = Columns::new(row, 0);
            let (what, id) = (c.get::<&str>()?, c.job_id()?);
            match what {
                "held" => taken.held.push((id, c.pass(2).get()?)),
                "assigned" => taken.assigned.push(id),
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
            match self.handed_out(id, moved, row, claim, tokens).await {
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
        tokens: Option<&Fan>,
    ) -> Tried<Option<Claimed>> {
        let corrupt = |why| Failure::Corrupt { job: id, why };
        let Some(first_event) = moved.first_event else { return Ok(None) };
        let (at, facts, payload) = first_event.map_err(corrupt)?;
        let mut job = match row {
            Some((_, Some(why))) => return Err(corrupt(why)),
            Some((job, None)) => job,
            None => only_created(id, at, &facts, claim, moved.now)?,
        };
        let ahead = tokens.and_then(|fan| fan.token(moved.nth));
        let token = ahead.unwrap_or_else(|| claim.secret.token(id, job.attempt));
        job.lease_hash = Some(token.hash());
        self.claimed_with(job, claim, token, facts, payload).await.map(Some)
    }

    /// A held job with everything its holder needs.
    pub(crate) async fn claimed(&self, job: Job, claim: &Claim) -> Tried<Claimed> {
        let lost = without_first_event(job.id);
        self.claimed_if_whole(job, claim).await?.ok_or(lost)
    }

    /// The same; none if its first event is gone.
    pub(super) async fn claimed_if_whole(&self, job: Job, claim: &Claim) -> Tried<Option<Claimed>> {
        match self.created(job.id).await? {
            Some((facts, payload)) => {
                let token = claim.secret.token(job.id, job.attempt);
                self.claimed_with(job, claim, token, facts, payload).await.map(Some)
            }
            None => Ok(None),
        }
    }

    pub(super) async fn claimed_with(
        &self,
        job: Job,
        claim: &Claim,
        token: Token,
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
            (self.count_steps(&job).await?, self.wake(&job).await?)
        };
        let payload = self.payload_now(&job, payload).await?;
        Ok(Claimed {
            lease: Lease {
                job: job.id,
                attempt: job.attempt,
                fence: self.fence(job.attempt),
                token,
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
    /// Which of the statement's jobs it is, from 1.
    nth: usize,
    /// None if it is gone, and why if it does not read back.
    first_event: Option<Result<FirstEvent, String>>,
}

impl Moved {
    fn read(mut c: Columns<'_>) -> Tried<Self> {
        let (version, now) = (c.get()?, c.time()?);
        let at = c.opt_time()?;
        let facts = Facts::read(c.get::<Option<&str>>()?);
        let is_json: Option<bool> = c.get()?;
        let payload = c.get::<Option<Vec<u8>>>()?;
        let nth = usize::try_from(c.get::<i32>()?).unwrap_or_default();
        let Some(at) = at else { return Ok(Self { version, now, nth, first_event: None }) };
        let payload = payload.map(|bytes| Payload::stored(bytes, is_json.unwrap_or(false)));
        let read = facts.map(|facts| (at, facts, payload)).map_err(|unreadable| unreadable.to_string());
        Ok(Self { version, now, nth, first_event: Some(read) })
    }
}

pub(super) fn without_first_event(job: JobId) -> Failure {
    Failure::Corrupt { job, why: "it has no first event".into() }
}

/// Where a job stood in line: which line, and its place there.
pub(super) fn spot(c: &mut Columns<'_>, id: JobId) -> Tried<(usize, Place)> {
    let probe = c.get::<i32>()? - 1;
    let probe = usize::try_from(probe).map_err(|_| Failure::Unreadable(format!("probe {probe}")))?;
    Ok((probe, (c.time()?, uuid(id))))
}

/// The row of a job that was created and claimed, and nothing else: it follows from those two events.
pub(super) fn only_created(
    id: JobId,
    at: Timestamp,
    facts: &Facts,
    claim: &Claim,
    now: Timestamp,
) -> Tried<Job> {
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
