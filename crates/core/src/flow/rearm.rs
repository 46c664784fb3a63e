//! A redrive within a graph: jobs that were skipped because of the one that comes back wait for it again.
//!
//! A store follows the edges from the job that is redriven ([`Behind::of`], [`Behind::to_look_at`], [`Behind::found`]), says which
//! unique keys are free ([`Behind::needs_key`]), locks the rows that [`Behind::rows`] names, and writes what
//! [`Behind::back`] answers.

use super::{Dependent, Edge, SKIPPED, gains};
use crate::decide::Move;
use crate::end::counted_again;
use crate::enqueue::UniqueKey;
use crate::event::{self, Event, EventKind};
use crate::ids::JobId;
use crate::job::{Job, Version};
use crate::name::Actor;
use crate::refusal::Refusal;
use crate::status::Status;
use crate::time::Timestamp;
use crate::unique::Hold;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The jobs behind one that is redriven which may come back with it.
#[derive(Debug, Default)]
pub struct Behind {
    /// The job that is redriven, and its parent.
    redriven: Option<(JobId, Option<JobId>)>,
    /// Linked behind what comes back, to be looked at next.
    next: BTreeSet<JobId>,
    seen: BTreeSet<JobId>,
    skipped: BTreeMap<JobId, Skipped>,
    keys: BTreeMap<UniqueKey, Hold>,
}

/// A job that was skipped.
#[derive(Debug)]
struct Skipped {
    /// At which version it was looked at.
    version: Version,
    parent: Option<JobId>,
    /// Those of its edges of whose ends it did not learn.
    awaits: Vec<Edge>,
}

/// What comes back with a job, to be written after its redrive.
#[derive(Debug, Default)]
pub struct Back {
    /// How jobs move, in this order: those that wait again, those they wait for, the parents that count them.
    pub steps: Vec<Move>,
    /// Unique keys to take, in the one order in which everybody takes them.
    pub keys: BTreeMap<UniqueKey, Hold>,
}

fn is_skipped(job: &Job) -> bool {
    job.status == Status::Cancelled && job.error_code.as_ref().is_some_and(|code| code.as_str() == SKIPPED)
}

/// Everybody who ever waited for a job, from its log.
fn linked(log: &[Event]) -> BTreeSet<JobId> {
    let mut found = BTreeSet::new();
    for event in log {
        match &event.what {
            EventKind::JobDependentsAdded(d) => found.extend(d.dependents.iter().map(|d| d.job)),
            EventKind::JobForked(_) => found.clear(),
            _ => {}
        }
    }
    found
}

/// Those edges of a job of whose ends it has not learned, from its log. None if it is not to come back: what it was given
/// was erased, or it has children of its own, which its row would count together with its edges.
fn awaits(log: &[Event]) -> Option<Vec<Edge>> {
    let mut edges: BTreeMap<JobId, Edge> = BTreeMap::new();
    let mut left: BTreeSet<JobId> = BTreeSet::new();
    for event in log {
        match &event.what {
            EventKind::JobCreated(facts) if facts.erased => return None,
            EventKind::JobCreated(facts) => {
                edges = facts.after().iter().map(|edge| (edge.job, edge.clone())).collect();
                left = edges.keys().copied().collect();
            }
            EventKind::JobUpstreamFinished(d) => {
                left.remove(&d.upstream);
            }
            EventKind::JobRearmed(d) => left = d.upstream.iter().copied().collect(),
            EventKind::JobChildrenAdded(_) => return None,
            _ => {}
        }
    }
    Some(edges.into_values().filter(|edge| left.contains(&edge.job)).collect())
}

impl Behind {
    /// Whether anybody can ever have waited for a job: if not, its log need not be read.
    pub fn is_possible(redriven: &Job) -> bool {
        redriven.dependents > 0 || redriven.generation > 0
    }

    /// Begins at a job that is to be redriven, with what its log says of its graph.
    pub fn of(redriven: &Job, log: &[Event]) -> Self {
        let mut behind = Self {
            redriven: Some((redriven.id, redriven.parent_id)),
            seen: BTreeSet::from([redriven.id]),
            ..Self::default()
        };
        behind.follow(log);
        behind
    }

    fn follow(&mut self, log: &[Event]) {
        let fresh = linked(log).into_iter().filter(|job| self.seen.insert(*job));
        self.next.extend(fresh);
    }

    /// The jobs to look at next, each of which is given to [`Behind::found`] if it is there. Empty when all were looked at.
    pub fn to_look_at(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.next).into_iter().collect()
    }

    /// A job that was asked for: its row, and what its log says of its graph.
    pub fn found(&mut self, job: &Job, log: &[Event]) {
        if !is_skipped(job) {
            return;
        }
        if let Some(awaits) = awaits(log) {
            let (version, parent) = (job.version, job.parent_id);
            self.skipped.insert(job.id, Skipped { version, parent, awaits });
            self.follow(log);
        }
    }

    /// The unique key that the redriven job takes.
    pub fn takes_key(&mut self, key: Option<(UniqueKey, Hold)>) {
        self.keys.extend(key);
    }

    /// The jobs that may come back, by id. Of each that has a unique key [`Behind::needs_key`] is to be asked.
    pub fn jobs(&self) -> Vec<JobId> {
        self.skipped.keys().copied().collect()
    }

    /// The unique key that a job takes if it comes back, as [`key_again`](crate::end::key_again) answers. One whose key
    /// another has stays as it is.
    pub fn needs_key(&mut self, job: JobId, key: Result<Option<(UniqueKey, Hold)>, Refusal>) {
        match key {
            Ok(None) => {}
            Ok(Some((key, hold))) if !self.keys.contains_key(&key) => {
                self.keys.insert(key, hold);
            }
            _ => {
                self.skipped.remove(&job);
            }
        }
    }

    /// The jobs whose rows the decision needs, locked: those that may come back, those they wait for, and parents.
    pub fn rows(&self) -> BTreeSet<JobId> {
        let Some((redriven, parent)) = self.redriven else { return BTreeSet::new() };
        let mut rows: BTreeSet<JobId> = parent.into_iter().collect();
        for (id, skipped) in &self.skipped {
            rows.insert(*id);
            rows.extend(skipped.parent);
            rows.extend(skipped.awaits.iter().map(|edge| edge.job));
        }
        rows.remove(&redriven);
        rows
    }

    /// Whether every job that may come back stands as it was looked at; else all is to be looked at again.
    pub fn is_current<'r>(&self, row: impl Fn(JobId) -> Option<&'r Job>) -> bool {
        self.skipped.iter().all(|(id, skipped)| row(*id).is_some_and(|job| job.version == skipped.version))
    }

    /// Jobs that may come back, each after those of them that it waits for.
    fn in_order(&self) -> Vec<JobId> {
        let mut left: BTreeMap<JobId, usize> = BTreeMap::new();
        let mut behind: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
        for (id, skipped) in &self.skipped {
            let upstream =
                skipped.awaits.iter().map(|edge| edge.job).filter(|job| self.skipped.contains_key(job));
            let mut count = 0;
            for job in upstream {
                behind.entry(job).or_default().push(*id);
                count += 1;
            }
            left.insert(*id, count);
        }
        let mut ready: VecDeque<JobId> =
            left.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
        let mut order = Vec::with_capacity(left.len());
        while let Some(id) = ready.pop_front() {
            order.push(id);
            for dependent in behind.remove(&id).unwrap_or_default() {
                if let Some(count) = left.get_mut(&dependent) {
                    *count -= 1;
                    if *count == 0 {
                        ready.push_back(dependent);
                    }
                }
            }
        }
        order
    }

    /// What comes back with `redriven`, the row as its redrive leaves it. A job waits again for all that has not ended, unless
    /// one that has ended is still a reason to skip it, or is gone and nothing says how it ended.
    pub fn back<'r>(
        mut self,
        redriven: &Job,
        row: impl Fn(JobId) -> Option<&'r Job>,
        actor: &Actor,
        now: Timestamp,
    ) -> Back {
        let loaded = self.rows().into_iter().filter_map(|id| Some((id, row(id)?))).collect();
        let mut rows =
            Moved { loaded, moved: BTreeMap::from([(redriven.id, redriven.clone())]), steps: Vec::new() };
        let mut links: BTreeMap<JobId, Vec<Dependent>> = BTreeMap::new();
        let mut families: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
        families.extend(redriven.parent_id.map(|parent| (parent, vec![redriven.id])));
        for id in self.in_order() {
            let Some(skipped) = self.skipped.get(&id) else { continue };
            let Some(left) = still_awaited(skipped, |job| rows.get(job)).filter(|left| !left.is_empty())
            else {
                continue;
            };
            let upstream = left.iter().map(|edge| edge.job).collect();
            let what = EventKind::JobRearmed(event::Rearmed { redriven: redriven.id, upstream });
            let comes_back = |job: &Job| {
                is_skipped(job).then(|| Move::new(job, now.max(job.updated_at), actor.clone(), what).done())
            };
            if !rows.moves(id, comes_back) {
                continue;
            }
            for edge in left {
                // Who never came back has this job in its log since it was made.
                if rows.get(edge.job).is_some_and(|job| job.generation > 0) {
                    links.entry(edge.job).or_default().push(Dependent { job: id, on: edge.on });
                }
            }
            if let Some(parent) = skipped.parent {
                families.entry(parent).or_default().push(id);
            }
        }
        for (id, dependents) in links {
            rows.moves(id, |job| Some(gains(job, dependents, actor, now)));
        }
        for (id, children) in families {
            rows.moves(id, |parent| counted_again(parent, children, actor, now));
        }
        self.keys.retain(|_, hold| rows.moved.contains_key(&hold.job));
        Back { steps: rows.steps, keys: self.keys }
    }
}

/// What a skipped job would wait for if it came back. None if a reason to skip it is left.
fn still_awaited<'s, 'r>(
    skipped: &'s Skipped,
    row: impl Fn(JobId) -> Option<&'r Job>,
) -> Option<Vec<&'s Edge>> {
    let mut left = Vec::new();
    for edge in &skipped.awaits {
        match row(edge.job).map(|job| job.status) {
            Some(status) if !status.is_terminal() => left.push(edge),
            Some(status) if edge.on.is_met(status) => {}
            _ => return None,
        }
    }
    Some(left)
}

/// Rows as they were loaded, and as they will be.
struct Moved<'r> {
    loaded: BTreeMap<JobId, &'r Job>,
    moved: BTreeMap<JobId, Job>,
    steps: Vec<Move>,
}

impl Moved<'_> {
    fn get(&self, id: JobId) -> Option<&Job> {
        self.moved.get(&id).or_else(|| self.loaded.get(&id).copied())
    }

    /// Moves a job that is there; says whether it did.
    fn moves(&mut self, id: JobId, step: impl FnOnce(&Job) -> Option<Move>) -> bool {
        let Some(step) = self.get(id).and_then(step) else { return false };
        self.moved.insert(id, step.job.clone());
        self.steps.push(step);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Graph, On, upstream_ended};
    use crate::job::{Facts, NewJob};
    use crate::name::Name;

    fn id(n: u8) -> JobId {
        JobId::from_parts(Timestamp::from_micros(0), [n; 8])
    }

    /// A job that waits for others, with its log.
    fn job(n: u8, after: &[(u8, On)]) -> (Job, Vec<Event>) {
        let mut facts = Facts::new(Name::word("work"), Name::word("default"));
        let after = after.iter().map(|(n, on)| Edge { job: id(*n), on: *on, name: None }).collect();
        facts.graph = Some(Box::new(Graph { after, ..Graph::default() }));
        let new = NewJob { id: id(n), facts, payload: None, parent_token: None };
        let created = new.created(&Actor::engine(), Timestamp::from_micros(0));
        (Job::created(&created).unwrap(), vec![created])
    }

    fn then(job: &mut (Job, Vec<Event>), step: Move) {
        job.0 = step.job;
        job.1.push(step.event);
    }

    /// F14: also where ids do not grow along the edges, as those that callers bring may.
    #[test]
    fn jobs_are_decided_after_those_they_wait_for() {
        let now = Timestamp::from_micros(1);
        let mut top = job(9, &[]);
        let mut middle = job(5, &[(9, On::Success)]);
        let mut alert = job(1, &[(9, On::Success), (5, On::Failure)]);
        let dependents = [(5, On::Success), (1, On::Success)].map(|(n, on)| Dependent { job: id(n), on });
        let linked = gains(&top.0, dependents.to_vec(), &Actor::engine(), now);
        then(&mut top, linked);
        for skipped in [&mut middle, &mut alert] {
            let step = upstream_ended(&skipped.0, On::Success, id(9), Status::Failed, now).unwrap();
            then(skipped, step);
        }
        let redriven = EventKind::JobRedriven(event::Redriven { due_at: now, from_start: false });
        let redriven = Move::new(&top.0, now, Actor::engine(), redriven).done().job;
        let mut behind = Behind::of(&top.0, &top.1);
        assert_eq!(behind.to_look_at(), [id(1), id(5)]);
        behind.found(&alert.0, &alert.1);
        behind.found(&middle.0, &middle.1);
        assert!(behind.to_look_at().is_empty() && behind.rows().len() == 2);
        let rows = [&alert.0, &middle.0];
        let row = |wanted| rows.into_iter().find(|job| job.id == wanted);
        assert!(behind.is_current(row));
        let back = behind.back(&redriven, row, &Actor::engine(), now);
        let waits: Vec<_> = back.steps.iter().map(|step| (step.job.id, step.job.children)).collect();
        // The alert waits for both: the middle job, which it wants to fail, runs again.
        assert_eq!(waits[..2], [(id(5), 1), (id(1), 2)]);
        assert_eq!(waits[2..].iter().map(|(job, _)| *job).collect::<Vec<_>>(), [id(5), id(9)]);
    }
}
