//! Which worker of a push queue gets which job.
//!
//! A store says which jobs wait and who could take them; the leader chooses here and has the store write it. Choosing is
//! no promise: what was decided on may have changed, so the store looks at every job again under its lock.

use crate::ids::JobId;
use crate::name::{Name, Who};
use crate::registry::Worker;
use crate::time::Timestamp;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Labels that a worker must have, with these values.
pub type Requires = BTreeMap<Name, String>;

/// A due job of a push queue that nobody has.
#[derive(Debug, Clone, PartialEq)]
pub struct Unassigned {
    /// Which.
    pub id: JobId,
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// Its priority.
    pub priority: i32,
    /// Since when it is due.
    pub due_at: Timestamp,
    /// Labels that its worker must have.
    pub requires: Requires,
}

/// A live worker that takes jobs, with how many it has.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The worker.
    pub worker: Worker,
    /// How many jobs of each queue it runs or is assigned.
    pub has: BTreeMap<Name, i64>,
}

impl Worker {
    /// Whether its labels are what a job requires. A label that is a list has each of its values.
    pub fn meets(&self, requires: &Requires) -> bool {
        requires.iter().all(|(label, wanted)| match self.labels.get(label.as_str()) {
            Some(serde_json::Value::Array(values)) => values.iter().any(|value| reads(value, wanted)),
            Some(value) => reads(value, wanted),
            None => false,
        })
    }
}

fn reads(value: &serde_json::Value, wanted: &str) -> bool {
    match value {
        serde_json::Value::String(text) => text == wanted,
        other => {
            let text = other.to_string();
            text == wanted
        }
    }
}

impl Candidate {
    fn total(&self) -> i64 {
        self.has.values().sum()
    }

    fn room(&self) -> i64 {
        i64::from(self.worker.capacity) - self.total()
    }

    fn takes(&self, job: &Unassigned) -> bool {
        let Worker { queues, kinds, slots, .. } = &self.worker;
        let of_queue = self.has.get(&job.queue).copied().unwrap_or_default();
        self.room() > 0
            && queues.contains(&job.queue)
            && (kinds.is_empty() || kinds.contains(&job.kind))
            && slots.get(&job.queue).is_none_or(|most| of_queue < i64::from(*most))
            && self.worker.meets(&job.requires)
    }

    /// Which of two has less to do for its size; then fewer jobs, then the smaller name.
    fn order(&self, other: &Self) -> Ordering {
        let part = self.total() * i64::from(other.worker.capacity);
        let other_part = other.total() * i64::from(self.worker.capacity);
        let then = || (self.total(), &self.worker.id).cmp(&(other.total(), &other.worker.id));
        part.cmp(&other_part).then_with(then)
    }
}

/// Gives a job to the least loaded worker that takes it, and counts it there; none if nobody has room for it.
pub fn give(job: &Unassigned, candidates: &mut [Candidate]) -> Option<Who> {
    let best = candidates.iter_mut().filter(|one| one.takes(job)).min_by(|a, b| a.order(b))?;
    *best.has.entry(job.queue.clone()).or_default() += 1;
    Some(best.worker.id.clone())
}

/// Whether anybody has room for anything.
pub fn has_room(candidates: &[Candidate]) -> bool {
    candidates.iter().any(|one| one.room() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Metadata;

    fn name(text: &str) -> Name {
        Name::parse("name", text).unwrap()
    }

    fn worker(id: &str, capacity: i32, labels: serde_json::Value) -> Candidate {
        let at = Timestamp::from_micros(0);
        let worker = Worker {
            id: Who::parse("id", id).unwrap(),
            queues: vec![name("q")],
            kinds: vec![],
            capacity,
            slots: BTreeMap::new(),
            labels: labels.as_object().cloned().unwrap_or_else(Metadata::new),
            draining: false,
            started_at: at,
            seen_at: at,
            expires_at: at,
        };
        Candidate { worker, has: BTreeMap::new() }
    }

    fn job(requires: &[(&str, &str)]) -> Unassigned {
        Unassigned {
            id: JobId::from_bytes([7; 16]),
            queue: name("q"),
            kind: name("k"),
            priority: 0,
            due_at: Timestamp::from_micros(0),
            requires: requires.iter().map(|(label, value)| (name(label), (*value).to_owned())).collect(),
        }
    }

    fn given(job: &Unassigned, to: &mut [Candidate], times: usize) -> String {
        let one = |_| give(job, to).map_or("-".to_owned(), |who| who.to_string());
        (0..times).map(one).collect::<Vec<_>>().join("")
    }

    #[test]
    fn the_least_loaded_for_its_size_gets_the_next() {
        let none = serde_json::Value::Null;
        let mut two = [worker("a", 2, none.clone()), worker("b", 4, none)];
        assert_eq!(given(&job(&[]), &mut two, 7), "abbabb-");
        assert!(!has_room(&two));
    }

    #[test]
    fn labels_kinds_queues_and_slots_are_looked_at() {
        let gpu = serde_json::json!({"gpu": "a100", "cores": 8, "zone": ["eu", "us"], "ssd": true});
        let mut one = [worker("a", 99, gpu)];
        for (label, value, fits) in [
            ("gpu", "a100", true),
            ("gpu", "h100", false),
            ("cores", "8", true),
            ("zone", "us", true),
            ("zone", "asia", false),
            ("ssd", "true", true),
            ("fpga", "", false),
        ] {
            assert_eq!(give(&job(&[(label, value)]), &mut one).is_some(), fits, "{label}={value}");
        }
        assert!(give(&job(&[("gpu", "a100"), ("zone", "asia")]), &mut one).is_none(), "all of them count");
        one[0].worker.slots.insert(name("q"), 5);
        assert_eq!(
            given(&job(&[]), &mut one, 2),
            "a-",
            "four are there, the fifth is the last of this queue"
        );
        assert!(has_room(&one));
        one[0].worker.slots.clear();
        one[0].worker.kinds = vec![name("other")];
        assert!(give(&job(&[]), &mut one).is_none());
    }
}
