//! How a job gets into a worker's hands.

use crate::db::{Tx, array, sql};
use crate::error::{Failure, Tried};
use crate::row::{self, Readable};
use rusqlite::types::Value;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use windlass_core::decide::{Claim, Command, Move, decide, hand_out};
use windlass_core::limits::{CLAIM_MAX, PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::step;
use windlass_core::{
    Actor, Facts, Job, JobId, Lane, Lease, Metadata, Name, Payload, QueueLimits, Refusal, Status, Timestamp,
};
use windlass_store::{ClaimMany, ClaimOne, Claimed, LanePlaces, WriteAudit};

/// How long a look may go on from where the last one ended before it starts from the beginning again.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How many entries of the due index one look for some kinds may read.
const SCAN_MAX: usize = 5_000;

/// Where the next look for some kinds goes on in a queue and priority, when the last one ran into its limit:
/// a million due jobs of other kinds cost every claim a bounded scan, and hide nothing for ever.
#[derive(Debug, Default)]
pub(crate) struct Positions(Mutex<HashMap<Look, (Position, Instant)>>, pub(crate) LanePlaces);

/// Queue, priority and kinds.
type Look = (Name, i64, Vec<Name>);
/// Due time and id.
type Position = (i64, [u8; 16]);

/// Before everything.
const START: Position = (i64::MIN, [0; 16]);

impl Positions {
    /// Where to look, and where an earlier look stopped if this one begins at the head of the line again.
    #[expect(clippy::disallowed_methods, reason = "measures how old a hint is, in this process only")]
    fn begin(&self, key: &Look) -> (Position, Option<Position>) {
        let Ok(mut map) = self.0.lock() else { return (START, None) };
        match map.get_mut(key) {
            None => (START, None),
            Some((position, since)) if since.elapsed() < SWEEP_EVERY => (*position, None),
            Some((position, since)) => {
                *since = Instant::now();
                (START, Some(*position))
            }
        }
    }

    /// Where the next look goes on. Its age is that of the look at the head, not of the last step.
    #[expect(clippy::disallowed_methods, reason = "measures how old a hint is, in this process only")]
    fn end(&self, key: Look, position: Option<Position>) {
        let Ok(mut map) = self.0.lock() else { return };
        match position {
            None => drop(map.remove(&key)),
            Some(position) => map.entry(key).or_insert_with(|| (position, Instant::now())).0 = position,
        }
    }
}

impl Tx<'_, '_> {
    pub(crate) fn claim(
        &self,
        request: &ClaimMany,
        positions: &Positions,
        now: Timestamp,
    ) -> Tried<Vec<Claimed>> {
        let max = request.max.min(CLAIM_MAX);
        if max == 0 {
            return Ok(Vec::new());
        }
        let held = self.held_already(&request.claim, now)?;
        if !held.is_empty() {
            let again = held.into_iter().map(|job| self.hold_again(job, &request.claim, now));
            return again.filter_map(Tried::transpose).collect();
        }
        let mut claimed = Vec::new();
        let mut seen = HashSet::new();
        for queue in request.queues.iter().filter(|q| seen.insert(*q)) {
            let set = self.queue(queue)?;
            if !set.as_ref().is_none_or(|set| set.is_open()) {
                continue;
            }
            if let Some(set) = set
                && let Some(flow) = self.settled_flow(set, now)?
            {
                self.claim_laned(queue, &flow, request, max, &positions.1, now, &mut claimed)?;
                if claimed.len() >= max {
                    return Ok(claimed);
                }
                continue;
            }
            for priority in (PRIORITY_MIN..=PRIORITY_MAX).rev() {
                self.claim_at(request, queue, priority, max, positions, now, &mut claimed)?;
                if claimed.len() >= max {
                    return Ok(claimed);
                }
            }
        }
        self.start_assigned(request, max, now, &mut claimed)?;
        Ok(claimed)
    }

    /// Takes from one queue at one priority until there is enough or nothing left.
    #[expect(clippy::too_many_arguments, reason = "one loop's body, split for its length")]
    fn claim_at(
        &self,
        request: &ClaimMany,
        queue: &Name,
        priority: i64,
        max: usize,
        positions: &Positions,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) -> Tried<()> {
        let mut stuck = HashSet::new();
        loop {
            let want = max - claimed.len() + stuck.len();
            let (found, more) = self.due(request, queue, priority, want, positions, now)?;
            let (due, set_aside) = self.without_unreadable(found, &mut stuck, now)?;
            let ended = self.take_all(due, &request.claim, now, claimed)? || set_aside;
            if claimed.len() >= max || !(more || ended) {
                return Ok(());
            }
            if ended {
                // What it freed, and what stands behind that, comes next.
                positions.end((queue.clone(), priority, request.kinds.clone()), None);
            }
        }
    }

    /// Rows that are due, at most `want`, and whether looking again at once may find more.
    fn due(
        &self,
        request: &ClaimMany,
        queue: &Name,
        priority: i64,
        want: usize,
        positions: &Positions,
        now: Timestamp,
    ) -> Tried<(Vec<(i64, Readable)>, bool)> {
        let now = now.as_micros();
        if request.kinds.is_empty() {
            let jobs =
                self.all(sql!("due"), (queue.as_str(), priority, now, want as i64), row::placed_job)?;
            let full = jobs.len() == want;
            return Ok((jobs, full));
        }
        let key = (queue.clone(), priority, request.kinds.clone());
        let ((from_due, from_id), earlier) = positions.begin(&key);
        let mut statement = self.statement(sql!("due_of_kinds"))?;
        let mut rows =
            statement.query((queue.as_str(), priority, now, from_due, from_id, SCAN_MAX as i64))?;
        let (mut found, mut scanned, mut last) = (Vec::new(), 0, None);
        while found.len() < want
            && let Some(row) = rows.next()?
        {
            scanned += 1;
            last = Some((row.get(0)?, row.get(1)?));
            let kind = row.get_ref(2)?.as_str().unwrap_or_default();
            if request.kinds.iter().any(|k| k.as_str() == kind) {
                found.push(JobId::from_bytes(row.get(1)?));
            }
        }
        let ran_out = scanned < SCAN_MAX && found.len() < want;
        let began_late = (from_due, from_id) != START;
        // What an earlier look passed over is not looked at again: however rarely somebody asks, the end is reached.
        let earlier = earlier.filter(|place| found.len() < want && !ran_out && last <= Some(*place));
        // Others stand in between: the next look goes on here, until the end is reached or the position is old.
        let passed_over = began_late || scanned > found.len();
        positions.end(key, if passed_over && !ran_out { earlier.or(last) } else { None });
        // Some of what was found may end here instead of being handed out; then there is room for more.
        let more = found.len() == want || (ran_out && began_late) || earlier.is_some();
        let jobs = self.all(
            sql!("due_by_id"),
            [array(found.iter().map(|id| id.as_bytes().to_vec()))],
            row::placed_job,
        )?;
        Ok((jobs, more))
    }

    /// Claims rows that are due: in two statements when nobody held them, else one by one. Says whether one ended instead:
    /// that may have told another row of these, or freed one that is due at this moment.
    fn take_all(
        &self,
        due: Vec<(i64, Job)>,
        claim: &Claim,
        now: Timestamp,
        claimed: &mut Vec<Claimed>,
    ) -> Tried<bool> {
        if due.len() < 2 || !self.numbers_itself() || due.iter().any(|(_, job)| job.status == Status::Running)
        {
            let mut ended = false;
            for (_, mut job) in due {
                if ended {
                    if job.due_at >= Some(now) {
                        break;
                    }
                    job = self.job(job.id)?.unwrap_or(job);
                }
                let Ok(step) = decide(&job, Command::Claim(claim.clone()), now) else { continue };
                match self.take(&job, step, claim, now)? {
                    Some(held) => claimed.push(held),
                    None => ended = true,
                }
            }
            return Ok(ended);
        }
        let actor = Actor::worker(&claim.worker);
        let decided =
            |(row, job): (i64, Job)| Some((Value::Integer(row), hand_out(job, claim, &actor, now)?.job));
        let (rows, jobs): (Vec<Value>, Vec<Job>) = due.into_iter().filter_map(decided).unzip();
        let rows = Rc::new(rows);
        let ids = array(jobs.iter().map(|job| job.id.as_bytes().to_vec()));
        let (worker, secret) = (claim.worker.as_str(), claim.secret.0);
        let params = (&rows, worker, now.as_micros(), claim.lease_ms.get(), secret);
        let moved = self.execute(sql!("claim"), params)?;
        let logged = self.execute(sql!("claim_event"), (&rows, actor.as_str(), now.as_micros()))?;
        if moved != jobs.len() || logged != jobs.len() {
            let message = format!("{} due jobs were found, {moved} moved, {logged} logged", jobs.len());
            return Err(Failure::Unreadable(message));
        }
        self.appended(logged, now);
        // In the order of the jobs, without those whose first event is gone.
        let mut created = self.all(sql!("created"), [&ids], first_events())?.into_iter().peekable();
        claimed.reserve(jobs.len());
        for job in jobs {
            let first_event = created.next_if(|(id, _)| *id == job.id).map(|(_, read)| read);
            claimed.extend(self.handed_out(job, first_event, claim, now)?);
        }
        Ok(false)
    }

    /// A job that was handed out, with everything its holder needs. Fails it instead if its first event is gone or something
    /// of it does not read back: the others go on.
    fn handed_out(
        &self,
        job: Job,
        first_event: Option<FirstEvent>,
        claim: &Claim,
        now: Timestamp,
    ) -> Tried<Option<Claimed>> {
        let lost = match first_event {
            None => Command::LosePayload,
            Some(Err(why)) => Command::Unreadable(why),
            Some(Ok((facts, payload))) => match self.claimed_with(job.clone(), claim, facts, payload) {
                Err(Failure::Corrupt { why, .. }) => Command::Unreadable(why),
                held => return held.map(Some),
            },
        };
        if let Ok(step) = decide(&job, lost, now) {
            self.write(&job, &step)?;
        }
        Ok(None)
    }

    fn hold_again(&self, job: Job, claim: &Claim, now: Timestamp) -> Tried<Option<Claimed>> {
        let first_event = self.first_event(job.id)?;
        self.handed_out(job, first_event, claim, now)
    }

    fn first_event(&self, job: JobId) -> Tried<Option<FirstEvent>> {
        match self.created(job) {
            Ok(created) => Ok(created.map(Ok)),
            Err(Failure::Corrupt { why, .. }) => Ok(Some(Err(why))),
            Err(failure) => Err(failure),
        }
    }

    /// Ends a job whose row does not read back. No rule can decide on it, so it goes as it would from a user at an SQL
    /// prompt, and the reason is in the audit. Says no if even that is refused.
    pub(crate) fn set_aside(&self, job: JobId, why: &str, now: Timestamp) -> Tried<bool> {
        tracing::error!(%job, %why, "a job does not read back and is set aside; run `windlass verify`");
        // The engine's own statements need no guard; this one does.
        let ended = self.guarded(sql!("set_aside"), [job.as_bytes()]);
        if let Err(error) = ended {
            tracing::error!(%job, %error, "it cannot be set aside; it stays in line");
            return Ok(false);
        }
        self.logged_otherwise()?;
        self.write_audit(&WriteAudit::set_aside(job, why), now)?;
        Ok(true)
    }

    /// Rows that read back, and whether one did not and was set aside. What cannot be set aside is remembered as stuck.
    fn without_unreadable(
        &self,
        found: Vec<(i64, Readable)>,
        stuck: &mut HashSet<JobId>,
        now: Timestamp,
    ) -> Tried<(Vec<(i64, Job)>, bool)> {
        let (mut due, mut set_aside) = (Vec::with_capacity(found.len()), false);
        for (row, (job, wrong)) in found {
            match wrong {
                None => due.push((row, job)),
                Some(_) if stuck.contains(&job.id) => {}
                Some(why) if self.set_aside(job.id, &why, now)? => set_aside = true,
                Some(_) => drop(stuck.insert(job.id)),
            }
        }
        Ok((due, set_aside))
    }

    /// Writes what the claim of one row leads to. Answers it only if it was handed out: a lease that was lost too often,
    /// or past its timeout, or with a cancel requested, ends the job here instead.
    pub(crate) fn take(
        &self,
        job: &Job,
        step: Move,
        claim: &Claim,
        now: Timestamp,
    ) -> Tried<Option<Claimed>> {
        self.write(job, &step)?;
        if step.job.status != Status::Running {
            return Ok(None);
        }
        let first_event = self.first_event(job.id)?;
        self.handed_out(step.job, first_event, claim, now)
    }

    pub(crate) fn claim_one(&self, request: &ClaimOne, now: Timestamp) -> Tried<Result<Claimed, Refusal>> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        if holds(&job, &request.claim, now) {
            return self.claimed(job, &request.claim).map(Ok);
        }
        if job.status.is_terminal() {
            return Ok(Err(Refusal::Finished(job.status)));
        }
        if !self.is_open(&job.queue)? || !job.is_due(now) || !self.has_slot(&job, now)? {
            return Ok(Err(Refusal::NotClaimable(job.status)));
        }
        if let Ok(step) = decide(&job, Command::Claim(request.claim.clone()), now) {
            // A lost run that ends here starts nothing.
            let flow = self.queue(&job.queue)?.and_then(|queue| queue.flow);
            let flow = flow.filter(|_| step.job.status == Status::Running);
            if let Some(claimed) = self.take_paid(&job, step, flow, &request.claim, now)? {
                return Ok(Ok(claimed));
            }
        }
        let status = self.job(request.job)?.map_or(job.status, |j| j.status);
        Ok(Err(if status.is_terminal() { Refusal::Finished(status) } else { Refusal::NotClaimable(status) }))
    }

    /// Hands out one job by itself, if the rates of its queue allow it, and pays for it.
    fn take_paid(
        &self,
        job: &Job,
        step: Move,
        flow: Option<QueueLimits>,
        claim: &Claim,
        now: Timestamp,
    ) -> Tried<Option<Claimed>> {
        let mut rates = match &flow {
            Some(flow) => self.rates(&job.queue, flow, now)?,
            None => None,
        };
        let (lane, cost) =
            (flow.map_or(Lane::PLAIN, |flow| flow.lane(job.lane)), self.cost(rates.as_ref(), job)?);
        let claimed = match rates.as_mut().is_none_or(|rates| rates.admits(lane, cost)) {
            true => self.take(job, step, claim, now)?,
            false => None,
        };
        if let (Some(rates), true) = (&mut rates, claimed.is_some()) {
            rates.pay(lane, cost);
        }
        self.keep_rates(&job.queue, rates, now)?;
        Ok(claimed)
    }

    fn held_already(&self, claim: &Claim, now: Timestamp) -> Tried<Vec<Job>> {
        let mine = |r: &rusqlite::Row<'_>| {
            let (id, attempt): ([u8; 16], i32) = (r.get(0)?, r.get(1)?);
            let hash: Option<[u8; 16]> = r.get(2)?;
            let id = JobId::from_bytes(id);
            Ok((hash == Some(claim.secret.token(id, attempt).hash().0)).then_some(id))
        };
        let mine = self.all(sql!("held"), [claim.worker.as_str()], mine)?;
        let mut held = Vec::new();
        for id in mine.into_iter().flatten() {
            match self.job(id) {
                // It is not handed out again; once its lease is over the next claim sets it aside.
                Err(Failure::Corrupt { .. }) => {}
                found => held.extend(found?.filter(|job| holds(job, claim, now))),
            }
        }
        Ok(held)
    }
}

/// Whether the job is held under this very claim: a repeat after a lost answer.
pub(crate) fn holds(job: &Job, claim: &Claim, now: Timestamp) -> bool {
    job.is_held(now)
        && job.worker_id.as_ref() == Some(&claim.worker)
        && job.lease_hash == Some(claim.secret.token(job.id, job.attempt).hash())
}

impl Tx<'_, '_> {
    /// A held job with everything its holder needs.
    pub(crate) fn claimed(&self, job: Job, claim: &Claim) -> Tried<Claimed> {
        match self.created(job.id)? {
            Some((facts, payload)) => self.claimed_with(job, claim, facts, payload),
            None => Err(Failure::Corrupt { job: job.id, why: "it has no first event".into() }),
        }
    }

    fn claimed_with(
        &self,
        job: Job,
        claim: &Claim,
        facts: Facts,
        payload: Option<Payload>,
    ) -> Tried<Claimed> {
        let metadata = match job.meta_version {
            None => Metadata::new(),
            Some(1) => facts.metadata.clone(),
            Some(_) => self.metadata(&job)?,
        };
        // A job that was only created and claimed has nothing on record.
        let (steps_recorded, wake) =
            if job.version <= 2 { (0, None) } else { (self.count_steps(&job)?, self.wake(&job)?) };
        let payload = self.payload_now(&job, payload)?;
        Ok(Claimed {
            lease: Lease {
                job: job.id,
                attempt: job.attempt,
                fence: self.life().fence(job.attempt),
                token: claim.secret.token(job.id, job.attempt),
                worker: claim.worker.clone(),
                expires_at: job.lease_expires_at.unwrap_or(job.updated_at),
            },
            checkpoint: self.pointed(job.id, job.checkpoint_version)?.and_then(|e| e.payload),
            facts,
            payload,
            metadata,
            wake,
            steps_recorded,
            job,
        })
    }

    fn wake(&self, job: &Job) -> Tried<Option<windlass_core::Wake>> {
        let Some(waiting) = self.pointed(job.id, job.wait_version)? else { return Ok(None) };
        let ended_by = self.pointed(job.id, job.wake_version)?;
        Ok(step::wake(&waiting, ended_by.as_ref()))
    }
}

/// What a job's first event carries, or why it does not read back.
type FirstEvent = Result<(Facts, Option<Payload>), String>;
/// A job with its first event.
type Created = (JobId, FirstEvent);

/// Reads rows of `created.sql`. Jobs that come together are often of one kind: equal facts are parsed once.
fn first_events() -> impl FnMut(&rusqlite::Row<'_>) -> Tried<Created> {
    let mut last: Option<(String, Facts)> = None;
    move |row| {
        let job = JobId::from_bytes(row.get(0)?);
        let detail = row.get_ref(1)?.as_str_or_null().unwrap_or(None).unwrap_or_default();
        let facts = match &last {
            Some((same, facts)) if same == detail => facts.clone(),
            _ => match Facts::read(Some(detail)) {
                Ok(facts) => last.insert((detail.to_owned(), facts)).1.clone(),
                Err(unreadable) => return Ok((job, Err(unreadable.to_string()))),
            },
        };
        let payload: Option<Vec<u8>> = row.get(3)?;
        let is_json: Option<bool> = row.get(2)?;
        let payload = payload.map(|bytes| Payload::stored(bytes, is_json.unwrap_or(false)));
        Ok((job, Ok((facts, payload))))
    }
}
