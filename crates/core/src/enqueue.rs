//! How jobs enter: which jobs of a request are new, which are there already, and what is refused.
//!
//! A store loads what [`Known`] asks for under its locks, plans, and carries the plan out: all of it, or nothing.

mod entry;

pub use entry::{Ahead, GivesWay, SUPERSEDED};

use crate::decide::{Command, Move, check_lease, counts_children, decide, replace};
use crate::end::Ending;
use crate::event::{Event, EventKind};
use crate::flow::{Dependent, FLOW_KIND, ends_flow, gains, upstream_ended, waits_for_flow};
use crate::ids::JobId;
use crate::job::{Facts, Job, NewJob};
use crate::lease::LeaseHash;
use crate::limits::{ENQUEUE_MAX, Invalid};
use crate::name::{Actor, Key, Name};
use crate::payload::Payload;
use crate::refusal::Refusal;
use crate::registry::Idempotency;
use crate::status::Status;
use crate::time::Timestamp;
use crate::unique::{Debounce, Hold, Policy, Scope, Unique};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Jobs to enqueue: all or none.
#[derive(Debug, Clone)]
pub struct Enqueue {
    /// At most 10,000.
    pub jobs: Vec<NewJob>,
    /// Who enqueues.
    pub actor: Actor,
    /// Recognises a repeat of the whole request.
    pub idempotency: Option<Idempotency>,
}

/// One enqueued job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    /// The job: the first one, if it existed.
    pub id: JobId,
    /// Whether it was there already.
    pub existed: bool,
    /// Whether the one that was there has another payload.
    pub payload_differs: bool,
    /// Whether it was left out, because as many jobs of its key wait as may: there is no such job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}

impl Enqueued {
    /// The answer for a job that is new.
    pub fn new(job: &NewJob) -> Self {
        Self { id: job.id, existed: false, payload_differs: false, dropped: false }
    }

    /// The answer for a job that was there already.
    pub fn there(id: JobId) -> Self {
        Self { id, existed: true, payload_differs: false, dropped: false }
    }

    /// The answer for a job that was left out.
    pub fn dropped(job: &NewJob) -> Self {
        Self { dropped: true, ..Self::new(job) }
    }
}

/// Why a request of many was refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("item {index}: {refusal}; nothing was written")]
pub struct BatchRefusal {
    /// Which item.
    pub index: usize,
    /// Why.
    pub refusal: Refusal,
}

/// What a unique key is found by.
pub type UniqueKey = (Scope, Key);

/// What is there already, as far as a request asks: its ids, its unique keys, its parents.
pub trait Known {
    /// The first event of a job that has this id.
    fn created(&self, id: JobId) -> Option<(&Facts, Option<&Payload>)>;
    /// Who holds a unique key, or held it last.
    fn hold(&self, key: &UniqueKey) -> Option<&Hold>;
    /// The row of a parent, of a job to wait for, or of one whose key may be taken over.
    fn parent(&self, id: JobId) -> Option<&Job>;
    /// Whether a parent that waits for its flow was sealed.
    fn is_sealed(&self, id: JobId) -> bool;
    /// The jobs of a key, where the rules of the queue ask for them.
    fn ahead(&self, queue: &Name, key: &Key) -> Option<Ahead>;
}

/// What a store has loaded for one request.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Jobs that have an id of the request: what event 1 carries.
    pub created: HashMap<JobId, (Facts, Option<Payload>)>,
    /// Unique keys of the request that are or were held.
    pub holds: HashMap<UniqueKey, Hold>,
    /// Parents and jobs to wait for that the request names, and the jobs whose keys it may take over, locked.
    pub parents: HashMap<JobId, Job>,
    /// Those of them that wait for their flow and were sealed.
    pub sealed: HashSet<JobId>,
    /// The lanes of the request whose rules look at a job that comes.
    pub lanes: HashMap<(Name, Key), Ahead>,
}

impl Known for Loaded {
    fn created(&self, id: JobId) -> Option<(&Facts, Option<&Payload>)> {
        self.created.get(&id).map(|(facts, payload)| (facts, payload.as_ref()))
    }

    fn hold(&self, key: &UniqueKey) -> Option<&Hold> {
        self.holds.get(key)
    }

    fn parent(&self, id: JobId) -> Option<&Job> {
        self.parents.get(&id)
    }

    fn is_sealed(&self, id: JobId) -> bool {
        self.sealed.contains(&id)
    }

    fn ahead(&self, queue: &Name, key: &Key) -> Option<Ahead> {
        if self.lanes.is_empty() { None } else { self.lanes.get(&(queue.clone(), key.clone())).cloned() }
    }
}

/// What is to be written, in this order, if nothing was refused.
#[derive(Debug, Default)]
pub struct Plan<'r> {
    /// The answer, a line per job of the request.
    pub answers: Vec<Enqueued>,
    /// New jobs that begin with one event, in the order of the request.
    pub fresh: Vec<&'r NewJob>,
    /// New jobs of a graph, after those, in the order of the request.
    pub born: Vec<Born>,
    /// Jobs that give their unique key back first.
    pub freed: Vec<JobId>,
    /// Unique keys to take, in the one order in which everybody takes them.
    pub holds: BTreeMap<UniqueKey, Hold>,
    /// Parents and upstream jobs as they stand, each with the event by which it learns of all its new children or
    /// dependents, in the order of ids.
    pub adoptions: Vec<(Job, Move)>,
    /// Jobs whose places newer ones of their keys take, as they stand after all that. What their ends entail comes first.
    pub give_way: Vec<GivesWay>,
    /// What the ends of jobs entail that ended as they were born, after all else is written.
    pub endings: Vec<Ending>,
}

/// A new job that begins with more than one event, or waits.
#[derive(Debug)]
pub struct Born {
    /// Where it stands after them.
    pub row: Job,
    /// Its first events.
    pub events: Vec<Event>,
}

impl Born {
    fn then(&mut self, step: Move) {
        self.row = step.job;
        self.events.push(step.event);
    }

    /// What never changes about it.
    pub fn facts(&self) -> Option<&Facts> {
        match self.events.first().map(|event| &event.what) {
            Some(EventKind::JobCreated(facts)) => Some(facts),
            _ => None,
        }
    }
}

/// How many jobs of a request count against its limit: the parent of a flow comes on top of its jobs.
pub fn size(jobs: &[NewJob]) -> usize {
    jobs.len() - jobs.iter().filter(|job| job.facts.flow().is_some()).count()
}

/// Refuses a request that is too large to be looked at.
pub fn check_size(jobs: usize) -> Result<(), BatchRefusal> {
    if jobs <= ENQUEUE_MAX {
        return Ok(());
    }
    let limit = format!("at most {ENQUEUE_MAX} jobs in one request");
    let refusal = Invalid::new("jobs", format!("{jobs} jobs"), limit).into();
    Err(BatchRefusal { index: ENQUEUE_MAX, refusal })
}

/// What the same request was answered before, from what is remembered for its key. A key that stands for another
/// verb's answer was reused.
pub fn first_answer(
    recalled: Result<Option<Vec<u8>>, Refusal>,
) -> Result<Option<Vec<Enqueued>>, BatchRefusal> {
    let read = |body: Vec<u8>| serde_json::from_slice(&body).map_err(|_| Refusal::IdempotencyKeyReused);
    recalled.and_then(|body| body.map(read).transpose()).map_err(|refusal| BatchRefusal { index: 0, refusal })
}

/// Plans a request on what is there. Later jobs see earlier ones of the same request.
pub fn plan<'r>(known: &impl Known, request: &'r Enqueue, now: Timestamp) -> Result<Plan<'r>, BatchRefusal> {
    let mut planner = Planner {
        known,
        now,
        actor: &request.actor,
        plan: Plan::default(),
        fresh: HashMap::new(),
        families: BTreeMap::new(),
        graph: HashMap::new(),
        downstream: BTreeMap::new(),
        lanes: BTreeMap::new(),
    };
    for (index, job) in request.jobs.iter().enumerate() {
        planner.add(index, job).map_err(|refusal| BatchRefusal { index, refusal })?;
    }
    planner.finish()
}

/// A request on its way in.
struct Planner<'k, 'r, K> {
    known: &'k K,
    now: Timestamp,
    actor: &'r Actor,
    plan: Plan<'r>,
    fresh: HashMap<JobId, &'r NewJob>,
    families: BTreeMap<JobId, Family>,
    /// New jobs that wait, or that others of the request wait for.
    graph: HashMap<JobId, Born>,
    /// Live jobs with those of the request that wait for them.
    downstream: BTreeMap<JobId, Vec<Dependent>>,
    /// Lanes whose rules look at jobs that come, with those of the request.
    lanes: BTreeMap<(Name, Key), Ahead>,
}

/// The new children of one parent.
#[derive(Default)]
struct Family {
    /// The first of them, to name when the parent refuses.
    index: usize,
    lease: Option<LeaseHash>,
    children: Vec<JobId>,
}

impl<'r, K: Known> Planner<'_, 'r, K> {
    fn add(&mut self, index: usize, job: &'r NewJob) -> Result<(), Refusal> {
        job.check(self.now)?;
        if let Some(there) = self.same_id(job)? {
            self.plan.answers.push(there);
            return Ok(());
        }
        if let Some((unique, debounce)) = job.debounce() {
            if self.debounce(job, unique, debounce)? {
                return Ok(());
            }
        } else if let Some(unique) = &job.facts.unique {
            let key = (unique.scope.clone(), unique.key.clone());
            let mine = Hold::take(job.id, unique, job.payload.as_ref(), self.now);
            let hold = self.plan.holds.get(&key).or_else(|| self.known.hold(&key));
            if let Some(hold) = hold.filter(|hold| hold.is_held(self.now)) {
                let payload_differs = hold.payload_hash != mine.payload_hash;
                self.plan.answers.push(Enqueued { payload_differs, ..Enqueued::there(hold.job) });
                return Ok(());
            }
            if !self.enters(job)? {
                return Ok(());
            }
            self.plan.holds.insert(key, mine);
        } else if !self.enters(job)? {
            return Ok(());
        }
        self.join(job)?;
        self.adopt(index, job)?;
        self.plan.answers.push(Enqueued::new(job));
        self.fresh.insert(job.id, job);
        self.plan.fresh.push(job);
        Ok(())
    }

    /// Gives what is asked to the job that waits under the same key, if there is one. A key whose job waits no more, because
    /// it runs or has ended, is taken over. Says whether the job is answered for by that, or left out.
    fn debounce(&mut self, job: &NewJob, unique: &Unique, debounce: Debounce) -> Result<bool, Refusal> {
        let key = (unique.scope.clone(), unique.key.clone());
        if self.plan.holds.contains_key(&key) {
            return Err(Invalid::new("debounce", &unique.key, "stands for one job of a request only").into());
        }
        let mine = Hold::take(job.id, unique, job.payload.as_ref(), self.now);
        let hold = self.known.hold(&key).map(|hold| hold.job);
        let waits = |there: &&Job| there.status == Status::Pending && there.attempt == 0;
        let Some(there) = hold.and_then(|id| self.known.parent(id)).filter(waits) else {
            if !self.enters(job)? {
                return Ok(true);
            }
            self.plan.freed.extend(hold);
            self.plan.holds.insert(key, mine);
            return Ok(false);
        };
        self.plan.freed.extend(hold);
        let due_at = debounce.due_at(there.created_at, self.now);
        let step = replace(there, self.actor, job.payload.clone(), due_at, self.now);
        self.plan.holds.insert(key, Hold { job: there.id, ..mine });
        self.plan.answers.push(Enqueued::there(there.id));
        self.plan.adoptions.push((there.clone(), step));
        Ok(true)
    }

    /// The job that has this id: a repeat if it has the same body, else refused.
    fn same_id(&self, job: &NewJob) -> Result<Option<Enqueued>, Refusal> {
        let planned = self.fresh.get(&job.id).map(|earlier| (&earlier.facts, earlier.payload.as_ref()));
        match planned.or_else(|| self.known.created(job.id)) {
            None => Ok(None),
            Some((facts, payload))
                if facts.asks_the_same(&job.facts) && (facts.erased || payload == job.payload.as_ref()) =>
            {
                Ok(Some(Enqueued::there(job.id)))
            }
            Some(_) => Err(Refusal::JobExists),
        }
    }

    fn adopt(&mut self, index: usize, job: &NewJob) -> Result<(), Refusal> {
        let Some(id) = job.facts.parent_id else { return Ok(()) };
        let lease = job.parent_token.map(|token| token.hash());
        match self.known.parent(id) {
            None if !self.fresh.contains_key(&id) => return Err(Refusal::ParentNotFound(id)),
            None if lease.is_some() => return Err(Refusal::NotLeased(Status::Pending)),
            None => {}
            Some(parent) => {
                lease.map_or(Ok(()), |hash| check_lease(parent, hash, self.now))?;
                let is_over = parent.kind.as_str() == FLOW_KIND && parent.status.is_terminal();
                if is_over || (waits_for_flow(parent) && self.known.is_sealed(id)) {
                    return Err(Refusal::FlowNotOpen);
                }
                if !counts_children(parent) {
                    // Linked, so that lists show it, but a completed job never waits again.
                    return Ok(());
                }
            }
        }
        let family = self.families.entry(id).or_insert_with(|| Family { index, ..Family::default() });
        family.lease = family.lease.or(lease);
        family.children.push(job.id);
        Ok(())
    }

    fn born(&self, job: &NewJob) -> Option<Born> {
        let created = job.created(self.actor, self.now);
        Some(Born { row: Job::created(&created)?, events: vec![created] })
    }

    /// Links a job to those it waits for. What has ended already is decided here, under its lock.
    fn join(&mut self, job: &'r NewJob) -> Result<(), Refusal> {
        if job.facts.graph.as_ref().is_none_or(|graph| graph.waits_for().is_none()) {
            return Ok(());
        }
        let Some(mut born) = self.born(job) else { return Ok(()) };
        for edge in job.facts.after() {
            let upstream = match (self.graph.get(&edge.job), self.fresh.get(&edge.job)) {
                (Some(born), _) => Some(born.row.status),
                (None, Some(_)) => Some(Status::Pending),
                (None, None) => self.known.parent(edge.job).map(|job| job.status),
            };
            let status = upstream.ok_or(Refusal::UpstreamNotFound(edge.job))?;
            if !status.is_terminal() {
                let dependent = Dependent { job: job.id, on: edge.on };
                self.downstream.entry(edge.job).or_default().push(dependent);
            } else if let Some(step) = upstream_ended(&born.row, edge.on, edge.job, status, self.now) {
                born.then(step);
            }
        }
        self.graph.insert(job.id, born);
        Ok(())
    }

    /// Says to live jobs who waits for them.
    fn link(&mut self) {
        for (id, dependents) in std::mem::take(&mut self.downstream) {
            if let Some(job) = self.fresh.get(&id)
                && !self.graph.contains_key(&id)
                && let Some(born) = self.born(job)
            {
                self.graph.insert(id, born);
            }
            // Who has been skipped by another job on the way is not waited with.
            let waits =
                |d: &Dependent| self.graph.get(&d.job).is_some_and(|born| !born.row.status.is_terminal());
            let dependents: Vec<Dependent> = dependents.into_iter().filter(waits).collect();
            if dependents.is_empty() {
                continue;
            }
            if let Some(born) = self.graph.get_mut(&id) {
                born.then(gains(&born.row, dependents, self.actor, self.now));
            } else if let Some(row) = self.known.parent(id) {
                let step = gains(row, dependents, self.actor, self.now);
                self.plan.adoptions.push((row.clone(), step));
            }
        }
    }

    /// Flows without jobs end at once, or run their callback; new jobs of graphs follow the others.
    fn arrange(&mut self) {
        for job in std::mem::take(&mut self.plan.fresh) {
            let Some(mut born) = self.graph.remove(&job.id) else {
                self.plan.fresh.push(job);
                continue;
            };
            if let Some(step) = ends_flow(&born.row, None, self.now) {
                born.then(step);
            }
            let created = born.events.first().and_then(Job::created);
            self.plan.endings.extend(created.and_then(|created| Ending::of(&created, &born.row)));
            self.plan.born.push(born);
        }
    }

    fn finish(mut self) -> Result<Plan<'r>, BatchRefusal> {
        self.link();
        let actor = self.actor;
        for (id, family) in std::mem::take(&mut self.families) {
            let created = || self.fresh.get(&id).and_then(|job| Job::created(&job.created(actor, self.now)));
            let linked = self.plan.adoptions.iter().find(|(job, _)| job.id == id).map(|(_, step)| &step.job);
            let there = linked.or_else(|| self.graph.get(&id).map(|born| &born.row));
            let there = there.or_else(|| self.known.parent(id));
            let Some(parent) = there.cloned().or_else(created) else { continue };
            let command = Command::AddChildren(actor.clone(), family.lease, family.children);
            // Whatever the clock says, time never runs backwards within a job.
            let step = decide(&parent, command, self.now.max(parent.updated_at))
                .map_err(|refusal| BatchRefusal { index: family.index, refusal })?;
            match self.graph.get_mut(&id) {
                Some(born) => born.then(step),
                None => self.plan.adoptions.push((parent, step)),
            }
        }
        self.give_way();
        // In the order of ids; two events of one job stay in theirs.
        self.plan.adoptions.sort_by_key(|(job, _)| job.id);
        self.arrange();
        Ok(self.plan)
    }
}

impl NewJob {
    /// Its key and how it gives way to a later job, if it does.
    pub fn debounce(&self) -> Option<(&Unique, Debounce)> {
        match &self.facts.unique {
            Some(unique) => match unique.policy {
                Policy::Debounce(debounce) => Some((unique, debounce)),
                _ => None,
            },
            None => None,
        }
    }

    /// The event that a job begins with.
    pub fn created(&self, actor: &Actor, now: Timestamp) -> Event {
        Event {
            job: self.id,
            version: 1,
            at: now,
            actor: actor.clone(),
            attempt: 0,
            generation: 0,
            lease: None,
            key: None,
            what: EventKind::JobCreated(Box::new(self.facts.clone())),
            payload: self.payload.clone(),
        }
    }
}
