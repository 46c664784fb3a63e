//! From names to edges: the jobs of a flow in an order in which they can be written.

use super::{Edge, Graph, On, UPSTREAM_SHOWN};
use crate::ids::JobId;
use crate::job::NewJob;
use crate::limits::Invalid;
use crate::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A job of a flow that is being made, known by its name.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name, one of a kind in the flow.
    pub name: Name,
    /// The job; its place in the graph is filled in.
    pub job: NewJob,
    /// What it waits for, and for which end.
    pub after: Vec<(Before, On)>,
}

/// What a job of a flow waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// Another job of the same request.
    Node(Name),
    /// A job that exists.
    Job(JobId),
}

/// The jobs of a flow in an order in which each comes after those it waits for, with their edges. Ids are made anew in that
/// order, so that they grow along the edges, unless `own` has the job's id. Refused: a name that is given twice or not at
/// all, and a circle.
pub fn arrange(
    parent: JobId,
    nodes: Vec<Node>,
    own: &BTreeSet<JobId>,
    mut fresh: impl FnMut() -> JobId,
) -> Result<Vec<NewJob>, Invalid> {
    let mut places = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        if places.insert(node.name.clone(), place).is_some() {
            return Err(Invalid::new("nodes", node.name.as_str(), "must have each name once"));
        }
    }
    let order = in_order(&nodes, &places)?;
    let mut ids: BTreeMap<usize, JobId> = BTreeMap::new();
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    let mut jobs = Vec::with_capacity(order.len());
    for place in order {
        let Some(Node { name, mut job, after }) = nodes[place].take() else { continue };
        if !own.contains(&job.id) {
            job.id = fresh();
        }
        ids.insert(place, job.id);
        let edge = |(before, on): (Before, On)| match before {
            Before::Job(job) => Some(Edge { job, on, name: None }),
            Before::Node(name) => {
                let job = places.get(&name).and_then(|place| ids.get(place)).copied()?;
                Some(Edge { job, on, name: Some(name) })
            }
        };
        let after = after.into_iter().filter_map(edge).collect();
        job.facts.parent_id = Some(parent);
        job.facts.graph = Some(Box::new(Graph { name: Some(name), after, flow: None }));
        jobs.push(job);
    }
    Ok(jobs)
}

/// Places of nodes, each after those it waits for, else in the order given.
fn in_order(nodes: &[Node], places: &BTreeMap<Name, usize>) -> Result<Vec<usize>, Invalid> {
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut left = vec![0usize; nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        for (before, _) in &node.after {
            let Before::Node(name) = before else { continue };
            let Some(upstream) = places.get(name) else {
                let limit = format!(
                    "must name a job of the flow, or the id of a job that exists; {} does not",
                    node.name
                );
                return Err(Invalid::new("after", name.as_str(), limit));
            };
            behind[*upstream].push(place);
            left[place] += 1;
        }
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|place| left[*place] == 0).collect();
    let mut next = 0;
    while let Some(place) = order.get(next).copied() {
        next += 1;
        for dependent in &behind[place] {
            left[*dependent] -= 1;
            if left[*dependent] == 0 {
                order.push(*dependent);
            }
        }
    }
    if order.len() < nodes.len() {
        let circle =
            nodes.iter().zip(&left).filter(|(_, left)| **left > 0).map(|(node, _)| node.name.as_str());
        let circle: Vec<&str> = circle.take(UPSTREAM_SHOWN).collect();
        return Err(Invalid::new("after", circle.join(", "), "must not lead in a circle"));
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Facts;
    use crate::time::Timestamp;

    fn node(name: &str, after: &[&str]) -> Node {
        let name = Name::parse("name", name).unwrap();
        let job = NewJob {
            id: JobId::from_parts(Timestamp::from_micros(0), [9; 8]),
            facts: Facts::new(Name::word("work"), Name::word("default")),
            payload: None,
            parent_token: None,
        };
        let after =
            after.iter().map(|n| (Before::Node(Name::parse("name", n).unwrap()), On::Success)).collect();
        Node { name, job, after }
    }

    fn arranged(nodes: Vec<Node>) -> Result<Vec<NewJob>, Invalid> {
        let parent = JobId::from_parts(Timestamp::from_micros(0), [0; 8]);
        let mut n = 0;
        let fresh = || {
            n += 1;
            JobId::from_parts(Timestamp::from_micros(0), [n; 8])
        };
        arrange(parent, nodes, &BTreeSet::new(), fresh)
    }

    /// F12: whatever order they are given in.
    #[test]
    fn jobs_come_after_those_they_wait_for() {
        let jobs = arranged(vec![node("c", &["b", "a"]), node("b", &["a"]), node("a", &[])]).unwrap();
        let names: Vec<&str> =
            jobs.iter().map(|j| j.facts.graph.as_ref().unwrap().name.as_ref().unwrap().as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(jobs.is_sorted_by_key(|job| job.id), "ids grow along the edges");
        let edges: Vec<JobId> = jobs[2].facts.after().iter().map(|edge| edge.job).collect();
        assert_eq!(edges, [jobs[1].id, jobs[0].id]);
    }

    /// F12
    #[test]
    fn circles_unknown_and_repeated_names_are_refused() {
        let circle = arranged(vec![node("a", &["c"]), node("b", &["a"]), node("c", &["b"]), node("d", &[])]);
        assert_eq!(circle.unwrap_err().value, "a, b, c");
        assert_eq!(arranged(vec![node("a", &["a"])]).unwrap_err().field, "after");
        assert_eq!(arranged(vec![node("a", &["x"])]).unwrap_err().value, "x");
        assert_eq!(arranged(vec![node("a", &[]), node("a", &[])]).unwrap_err().field, "nodes");
    }

    /// F12: a chain of any length needs no stack.
    #[test]
    fn a_long_chain_is_arranged() {
        let name = |n: usize| format!("n{n}");
        let nodes =
            (0..10_000).map(|n| if n == 0 { node(&name(0), &[]) } else { node(&name(n), &[&name(n - 1)]) });
        let jobs = arrange(
            JobId::from_parts(Timestamp::from_micros(0), [0; 8]),
            nodes.collect(),
            &BTreeSet::new(),
            || JobId::from_parts(Timestamp::from_micros(0), [1; 8]),
        );
        assert_eq!(jobs.unwrap().len(), 10_000);
    }
}
