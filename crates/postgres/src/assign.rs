//! Jobs that a leader gives to workers.

use crate::append::granted;
use crate::claim::{Positions, holds, recover};
use crate::db::{Db, Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::lost::set_aside;
use crate::param::params;
use crate::pool::Connections;
use crate::rates::Paying;
use crate::row::{Columns, Ts, name};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::decide::{Claim, Command, Move, decide};
use windlass_core::lane::Held;
use windlass_core::limits::{self, BATCH_MAX};
use windlass_core::operate::{Verdict, assign as decide_assign};
use windlass_core::term::may_assign;
use windlass_core::{
    Answer, Done, Facts, Job, JobId, Name, QueueLimits, Refusal, Status, Timestamp, Who, event,
};
use windlass_store::{Assign, Claimed, Now, ReadUnassigned, Start, StoreResult, Unassigned, UnassignedPage};

/// Due jobs of push queues, after runs whose lease is over are back in line.
pub(crate) async fn unassigned(
    connections: &Arc<Connections>,
    positions: &Positions,
    request: ReadUnassigned,
    now: Now,
) -> StoreResult<UnassignedPage> {
    recover(connections, positions, now).await?;
    let request = Arc::new(request);
    connections
        .read(move |db| {
            let request = Arc::clone(&request);
            Box::pin(async move { db.unassigned(&request, now).await })
        })
        .await
}

/// Gives jobs to workers: all that can be at once, and where what becomes of one decides over the next, one by one.
pub(crate) async fn assign(
    connections: &Arc<Connections>,
    request: Assign,
    now: Now,
) -> StoreResult<Vec<Answer>> {
    if let Some(answers) = assign_all(connections, request.clone(), now).await? {
        return Ok(answers);
    }
    let mut answers = Vec::with_capacity(request.items.len());
    for (n, item) in request.items.iter().enumerate() {
        if let Err(invalid) = limits::count("items", n + 1, BATCH_MAX) {
            answers.push(Err(invalid.into()));
            continue;
        }
        let alone = Assign { items: vec![item.clone()], ..request.clone() };
        answers.extend(assign_all(connections, alone, now).await?.unwrap_or_default());
    }
    Ok(answers)
}

/// All that can be in one statement, then what needs more than its own row, one by one. Nothing is done, and none is
/// answered, if a lost run is among many of a queue with limits: what becomes of it may free a slot for the next.
async fn assign_all(
    connections: &Arc<Connections>,
    request: Assign,
    now: Now,
) -> StoreResult<Option<Vec<Answer>>> {
    let request = Arc::new(request);
    let asked = Arc::clone(&request);
    let answers = connections
        .transact(now, move |tx| {
            let asked = Arc::clone(&asked);
            Box::pin(async move { tx.assign(&asked).await })
        })
        .await?;
    let Some(answers) = answers else { return Ok(None) };
    let mut whole = Vec::with_capacity(answers.len());
    for ((id, worker), answer) in request.items.iter().zip(answers) {
        if let Err(Refusal::Unreadable(why)) = &answer {
            set_aside(connections, *id, why.clone(), now).await?;
        }
        // The end of a lost run may concern its parent, which is locked before it.
        if !matches!(answer, Err(Refusal::NotClaimable(Status::Running))) {
            whole.push(answer);
            continue;
        }
        let (asked, worker, id) = (Arc::clone(&request), worker.clone(), *id);
        let lost = connections
            .transact(now, move |tx| {
                let (asked, worker) = (Arc::clone(&asked), worker.clone());
                Box::pin(async move { tx.take_back(&asked, id, &worker).await })
            })
            .await?;
        whole.push(lost);
    }
    Ok(Some(whole))
}

/// Starts what a worker that claims was assigned. What another transaction holds is left to its next claim.
pub(crate) async fn start_assigned(
    connections: &Arc<Connections>,
    ids: Vec<JobId>,
    claim: Claim,
    now: Now,
) -> StoreResult<Vec<Claimed>> {
    connections
        .transact(now, move |tx| {
            let (ids, claim) = (ids.clone(), claim.clone());
            Box::pin(async move { tx.start_assigned(&ids, &claim).await })
        })
        .await
}

impl Db<'_> {
    async fn unassigned(&self, request: &ReadUnassigned, now: Now) -> Tried<UnassignedPage> {
        let after = &request.after;
        let queues: Vec<&str> = after.iter().map(|place| place.queue.as_str()).collect();
        let priorities: Vec<i32> = after.iter().map(|place| place.priority).collect();
        let dues: Vec<Ts> = after.iter().map(|place| Ts(place.due_at)).collect();
        let ids: Vec<Uuid> = after.iter().map(|place| uuid(place.id)).collect();
        let (limit, now) = (crate::list::page(request.limit), now.map(Ts));
        let params = params![queues, priorities, dues, ids, limit, now];
        let rows = self.listed(sql!("unassigned"), params, unassigned_job).await?;
        let mut page = UnassignedPage::default();
        for (queue, job) in rows {
            if page.queues.last() != Some(&queue) {
                page.queues.push(queue);
            }
            page.jobs.extend(job);
        }
        Ok(page)
    }
}

/// A push queue, and a job of it that nobody has, if there is one.
fn unassigned_job(row: &Row) -> Tried<(Name, Option<Unassigned>)> {
    let mut c = Columns::new(row, 0);
    let queue = c.text(name)?;
    let (Some(priority), Some(due_at)) = (c.get::<Option<i16>>()?, c.opt_time()?) else {
        return Ok((queue, None));
    };
    let (id, kind) = (c.job_id()?, c.text(name)?);
    // What does not read back fails when it is started, alone.
    let facts = Facts::read(c.get::<Option<&str>>()?).ok();
    let requires = facts.map(|facts| facts.requires).unwrap_or_default();
    let job = Unassigned { id, queue: queue.clone(), kind, priority: priority.into(), due_at, requires };
    Ok((queue, Some(job)))
}

/// A queue with rules that is locked.
struct Limited {
    flow: QueueLimits,
    /// The slots that are taken.
    held: Held,
    paying: Paying,
}

/// What one request has locked or looked at.
struct Locked {
    jobs: HashMap<JobId, Result<Job, Refusal>>,
    paused: HashSet<Name>,
    /// Queues with rules.
    limited: HashMap<Name, Limited>,
    now: Timestamp,
}

impl Tx<'_> {
    /// The leader's term first, then the jobs in the order of their ids; answers in the order asked. A job that another
    /// transaction holds is answered for itself; a run, held or lost, is refused here.
    async fn assign(&self, request: &Assign) -> Tried<Option<Vec<Answer>>> {
        let term = self.share_term(&request.term).await?;
        // Before any job is locked: one that does not lead any more is in nobody's way.
        let long_ago = Timestamp::from_micros(i64::MIN);
        if let Err(refusal) = may_assign(term.as_ref(), request.epoch, request.lapse_ms, long_ago) {
            return Ok(Some(request.items.iter().map(|_| Err(refusal.clone())).collect()));
        }
        let ids: Vec<JobId> = request.items.iter().take(BATCH_MAX).map(|(job, _)| *job).collect();
        let free = self.lock_free(ids.iter().copied().map(uuid).collect()).await?;
        // A later statement, so it sees the rows as they were locked.
        let rows = self.readable_jobs(ids.into_iter()).await?;
        let mut now = self.now().await?;
        if let Err(refusal) = may_assign(term.as_ref(), request.epoch, request.lapse_ms, now) {
            return Ok(Some(request.items.iter().map(|_| Err(refusal.clone())).collect()));
        }
        let queues: BTreeSet<&Name> = rows.values().map(|(job, _)| &job.queue).collect();
        let (mut paused, mut limited, mut flows) = (HashSet::new(), HashMap::new(), Vec::new());
        // In the order of their names, so that two leaders cannot wait for each other.
        for name in queues {
            let Some(queue) = self.queue(name).await? else { continue };
            if queue.paused.is_some() {
                paused.insert(name.clone());
            }
            if queue.flow.is_some()
                && let Some(flow) = self.lock_queue(name).await?.and_then(|queue| queue.flow)
            {
                let held = self.locked_slots(name, &flow).await?;
                flows.push((name, flow, held));
            }
        }
        if !flows.is_empty() {
            // Others may have been paid for while this waited for the queues.
            now = self.now().await?.max(now);
        }
        for (name, flow, held) in flows {
            let mut paying = self.paying(name, &flow, now).await?;
            let of_it = rows.values().map(|(job, _)| job).filter(|job| job.queue == *name);
            self.learn_costs(&mut paying, of_it.map(|job| job.id)).await?;
            limited.insert(name.clone(), Limited { flow, held, paying });
        }
        let frees = |(job, _): &(Job, _)| job.status == Status::Running && limited.contains_key(&job.queue);
        if request.items.len() > 1 && rows.values().any(frees) {
            return Ok(None);
        }
        let mut locked = Locked { jobs: HashMap::new(), paused, limited, now };
        for (id, (job, wrong)) in rows {
            let known = match wrong {
                _ if !free.contains(&uuid(id)) => Err(Refusal::Busy),
                Some(why) => Err(Refusal::Unreadable(why)),
                None => Ok(job),
            };
            locked.jobs.insert(id, known);
        }
        let mut steps = Vec::new();
        let one = |(n, (job, worker)): (usize, &(JobId, Who))| {
            limits::count("items", n + 1, BATCH_MAX)?;
            assign_one(request, *job, worker, &mut locked, &mut steps)
        };
        let answers = request.items.iter().enumerate().map(one).collect();
        self.write_assigned(request, &steps).await?;
        let in_limited = steps.iter().filter(|step| locked.limited.contains_key(&step.job.queue));
        self.take_slots(in_limited.map(|step| uuid(step.job.id)).collect()).await?;
        for (name, limited) in &locked.limited {
            self.keep_rates(name, &limited.paying, locked.now).await?;
        }
        Ok(Some(answers))
    }

    async fn write_assigned(&self, request: &Assign, steps: &[Move]) -> Tried<()> {
        let Some(first) = steps.first() else { return Ok(()) };
        let jobs: Vec<Uuid> = steps.iter().map(|step| uuid(step.job.id)).collect();
        let versions: Vec<i64> = steps.iter().map(|step| step.job.version).collect();
        let at: Vec<Ts> = steps.iter().map(|step| Ts(step.event.at)).collect();
        let workers: Vec<Option<&str>> =
            steps.iter().map(|step| step.job.worker_id.as_ref().map(Who::as_str)).collect();
        let deadlines: Vec<Option<Ts>> = steps.iter().map(|step| step.job.deadline_at.map(Ts)).collect();
        let details: Vec<Option<String>> = steps.iter().map(|step| step.event.what.detail()).collect();
        let (actor, term) = (first.event.actor.as_str(), request.term.as_str());
        let params = params![jobs, versions, at, workers, deadlines, details, actor, request.epoch, term];
        let written = self.listed(sql!("assign"), params, |_| Ok(())).await?.len();
        if written != steps.len() {
            let message = format!("{} jobs were to be assigned, {written} were", steps.len());
            return Err(Failure::Unreadable(message));
        }
        self.mark(true);
        Ok(())
    }

    /// A run whose lease is over goes back into line, or ends.
    async fn take_back(&self, request: &Assign, id: JobId, worker: &Who) -> Tried<Answer> {
        let term = self.share_term(&request.term).await?;
        let (Some(job), now) = self.lock(id).await? else { return Ok(Err(Refusal::NotFound)) };
        granted!(may_assign(term.as_ref(), request.epoch, request.lapse_ms, now));
        let deadline_at = now.plus_ms(request.lapse_ms);
        let to = event::Assigned { worker: worker.clone(), epoch: request.epoch, deadline_at };
        let paused = self.is_paused(&job.queue).await?;
        let step = match granted!(decide_assign(&job, to, paused, now)) {
            Verdict::Already(version) => return Ok(Ok(Done::Already(version))),
            Verdict::Step(step) => *step,
        };
        self.write(&job, &step).await?;
        Ok(Ok(Done::Moved(step.job.version, step.job.status)))
    }

    pub(crate) async fn start(&self, request: &Start) -> Tried<Result<Claimed, Refusal>> {
        let (Some(job), now) = self.lock_row(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        if holds(&job, &request.claim, now) {
            return self.claimed(job, &request.claim).await.map(Ok);
        }
        let command = Command::Start {
            claim: request.claim.clone(),
            assignment: request.assignment,
            epoch: request.epoch,
        };
        let step = granted!(decide(&job, command, now));
        self.hand_out(&job, step, &request.claim, now).await
    }

    async fn start_assigned(&self, ids: &[JobId], claim: &Claim) -> Tried<Vec<Claimed>> {
        let free = self.lock_free(ids.iter().copied().map(uuid).collect()).await?;
        let mut rows = self.readable_jobs(ids.iter().copied().filter(|id| free.contains(&uuid(*id)))).await?;
        let now = self.now().await?;
        let mut claimed = Vec::with_capacity(rows.len());
        for id in ids {
            let Some((job, None)) = rows.remove(id) else { continue };
            let (Some(assignment), Some(epoch)) = (job.assignment, job.epoch) else { continue };
            let now = now.max(job.updated_at);
            let start = Command::Start { claim: claim.clone(), assignment, epoch };
            if let Ok(step) = decide(&job, start, now) {
                claimed.extend(self.hand_out(&job, step, claim, now).await?);
            }
        }
        Ok(claimed)
    }
}

/// Decides one item on the rows that are locked; what is assigned by it is left to be written.
fn assign_one(
    request: &Assign,
    id: JobId,
    worker: &Who,
    locked: &mut Locked,
    steps: &mut Vec<Move>,
) -> Answer {
    let job = locked.jobs.get(&id).cloned().unwrap_or(Err(Refusal::NotFound))?;
    if job.status == Status::Running {
        return Err(Refusal::NotClaimable(Status::Running));
    }
    let now = locked.now.max(job.updated_at);
    let deadline_at = now.plus_ms(request.lapse_ms);
    let to = event::Assigned { worker: worker.clone(), epoch: request.epoch, deadline_at };
    // What is held already has its slot, and starts nothing more by this.
    let mut limited = locked.limited.get_mut(&job.queue).filter(|_| !job.takes_slot());
    let full = limited.as_mut().is_some_and(|Limited { flow, held, paying }| {
        !flow.at(now).has_room(job.lane, held.clone()) || !paying.admits(flow.lane(job.lane), id)
    });
    match decide_assign(&job, to, full || locked.paused.contains(&job.queue), now)? {
        Verdict::Already(version) => Ok(Done::Already(version)),
        Verdict::Step(step) => {
            let done = Done::Moved(step.job.version, step.job.status);
            if let Some(Limited { flow, held, paying }) = limited {
                held.take(flow.lane(job.lane));
                paying.pay(flow.lane(job.lane), id);
            }
            locked.jobs.insert(id, Ok(step.job.clone()));
            steps.push(*step);
            Ok(done)
        }
    }
}
