//! Two stores that are asked the very same things, and what the plan's places stand for.

use crate::{BASE, json, key, name, who};
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use windlass_core::flow::{Edge, FLOW_KIND, Flow, Graph, Join, On};
use windlass_core::unique::{Debounce, Policy, Scope};
use windlass_core::wait::LinkToken;
use windlass_core::{
    ApprovalId, Backoff, Event, EventKind, Facts, FeedCursor, JobId, Key, LeaseMs, Name, NewJob, Payload,
    RunAt, Secret, Timestamp, Token, Unique, Version, Who,
};
use windlass_store::{Now, ReadFeed, Restore, Store, StoreResult};

use super::plan::{Node, Place, Shown, Spec};
use super::sql::SqlApi;

/// How often each verb was carried out and how often it was refused.
pub type Tally = BTreeMap<&'static str, (u64, u64)>;

/// Both stores, and everything that was made so far.
pub struct Twins {
    pub model: Arc<dyn Store>,
    pub store: Arc<dyn Store>,
    /// The SQL API of the store, if it has one.
    pub sql: Option<Arc<dyn SqlApi>>,
    pub tally: Tally,
    pub written: BTreeMap<String, u64>,
    pub now: Timestamp,
    pub sent: Vec<NewJob>,
    pub ids: Vec<JobId>,
    pub leases: Vec<(JobId, Token)>,
    pub approvals: Vec<(ApprovalId, LinkToken)>,
    pub assignments: Vec<(JobId, Version, Who, i64)>,
    pub forks: Vec<(JobId, JobId)>,
    /// Open flows.
    pub flows: Vec<JobId>,
    /// Jobs because of which others were skipped.
    pub skips: Vec<JobId>,
    /// What was removed, as an archive would hold it.
    pub archived: Vec<Restore>,
    /// Jobs that ended rate limited: their key, or their queue, may be held.
    pub held: Vec<JobId>,
    /// Jobs that were settled for good.
    pub ended: Vec<JobId>,
    pub epoch: i64,
    pub last_secret: Secret,
    counter: u64,
    tails: [Option<FeedCursor>; 2],
}

/// Asks both stores the same and gives back the one answer.
macro_rules! both {
    ($twins:expr, $verb:ident, $request:expr) => {{
        let request = $request;
        let left = $twins.model.$verb(Clone::clone(&request), Some($twins.now)).await;
        let right = $twins.store.$verb(Clone::clone(&request), Some($twins.now)).await;
        $crate::differential::twins::same(stringify!($verb), &request, left, right)?
    }};
}
pub(super) use both;

/// The answer of both, or how they differ.
pub fn same<T: PartialEq + Debug>(
    verb: &str,
    request: &impl Debug,
    left: StoreResult<T>,
    right: StoreResult<T>,
) -> Result<T, TestCaseError> {
    match (left, right) {
        (Ok(left), Ok(right)) if left == right => Ok(left),
        (left, right) => Err(TestCaseError::fail(format!(
            "{verb} differs for {request:?}\n{}",
            difference(&format!("{left:#?}"), &format!("{right:#?}"))
        ))),
    }
}

/// The lines in which two answers differ, with a few before them: what is equal says nothing, and is long.
fn difference(left: &str, right: &str) -> String {
    let (left, right): (Vec<&str>, Vec<&str>) = (left.lines().collect(), right.lines().collect());
    let begin = left.iter().zip(&right).take_while(|(l, r)| l == r).count();
    let rest = left.len().min(right.len()) - begin;
    let end = left.iter().rev().zip(right.iter().rev()).take(rest).take_while(|(l, r)| l == r).count();
    let shown = |lines: &[&str]| lines[begin.saturating_sub(5)..lines.len() - end].join("\n");
    format!(
        "from line {begin} on\nthe model answers\n{}\nthe store answers\n{}\n",
        shown(&left),
        shown(&right)
    )
}

/// The keys that jobs have; none beyond them.
pub fn lane_key(n: usize) -> Option<Key> {
    ["acme", "globex", "initech"].get(n).map(|text| key(text))
}

/// What stands at a place, counted from the newest.
pub fn at_place<T>(all: &[T], place: Place) -> Option<&T> {
    all.len().checked_sub(1).map(|last| &all[last - place % all.len()])
}

impl Twins {
    pub fn new(model: Arc<dyn Store>, store: Arc<dyn Store>, sql: Option<Arc<dyn SqlApi>>) -> Self {
        Self {
            model,
            store,
            sql,
            tally: Tally::new(),
            written: BTreeMap::new(),
            now: BASE,
            sent: vec![],
            ids: vec![],
            leases: vec![],
            approvals: vec![],
            assignments: vec![],
            forks: vec![],
            flows: vec![],
            skips: vec![],
            archived: vec![],
            held: vec![],
            ended: vec![],
            epoch: 0,
            last_secret: Secret([0; 32]),
            counter: 0,
            tails: [None, None],
        }
    }

    pub fn now(&self) -> Now {
        Some(self.now)
    }

    /// Notes whether a verb was carried out.
    pub fn tells(&mut self, verb: &'static str, done: bool) {
        let entry = self.tally.entry(verb).or_default();
        if done {
            entry.0 += 1;
        } else {
            entry.1 += 1;
        }
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// A fresh id; ids grow in the order they are made.
    pub fn fresh_id(&mut self) -> JobId {
        let mut random = [0u8; 8];
        random.copy_from_slice(&self.next().to_be_bytes());
        JobId::from_parts(BASE, random)
    }

    /// A fresh secret, or the last one again.
    pub fn secret(&mut self, again: bool) -> Secret {
        if !again {
            let mut bytes = [1u8; 32];
            bytes[..8].copy_from_slice(&self.next().to_be_bytes());
            self.last_secret = Secret(bytes);
        }
        self.last_secret
    }

    /// A fresh link token.
    pub fn link(&mut self) -> LinkToken {
        let mut bytes = [2u8; 32];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        LinkToken(bytes)
    }

    /// The job at a place, or one that never was.
    pub fn job(&mut self, place: Place) -> JobId {
        match at_place(&self.ids, place) {
            Some(id) if place < 19 => *id,
            _ => self.fresh_id(),
        }
    }

    /// The job and token that a holder shows.
    pub fn lease(&mut self, shown: Shown) -> (JobId, Token) {
        match shown {
            Shown::Held(place) => {
                if let Some(lease) = at_place(&self.leases, place) {
                    return *lease;
                }
                self.lease(Shown::Forged(place))
            }
            Shown::Forged(place) => {
                let id = self.job(place);
                (id, Secret([255; 32]).token(id, 1))
            }
        }
    }

    /// Puts a job's leases behind all others: most turns should find a live one.
    pub fn rests(&mut self, job: JobId) {
        let (old, live): (Vec<_>, Vec<_>) = self.leases.drain(..).partition(|(id, _)| *id == job);
        self.leases.extend(old.into_iter().chain(live));
    }

    /// The job that a spec asks for.
    pub fn new_job(&mut self, spec: &Spec) -> NewJob {
        let (queue, kind) = (name(["q0", "q1"][spec.queue]), name(["red", "blue"][spec.kind]));
        let mut facts = Facts::new(kind.clone(), queue.clone());
        facts.priority = spec.priority;
        facts.run_at = if spec.delay_ms == 0 { RunAt::Now } else { RunAt::After(spec.delay_ms) };
        facts.max_retries = spec.max_retries;
        facts.timeout_ms = spec.timeout_ms;
        facts.lease_ms = spec.lease_ms.and_then(|ms| LeaseMs::new(ms).ok());
        facts.grace_ms = spec.grace_ms;
        facts.backoff = Some(Backoff { base_ms: 500, max_ms: 2_000, multiplier: 2.0, jitter: spec.jitter });
        if spec.labels & 1 == 1 {
            facts.agent_id = Some(who("agent"));
            facts.tags = vec![name("x"), name("y")];
        }
        if spec.labels & 2 == 2 {
            facts.metadata.insert("made".into(), spec.payload.into());
        }
        let policies =
            [Policy::Active, Policy::Succeeded, Policy::Forever, Policy::Ttl(5_000), Policy::Active];
        facts.unique = spec.unique.map(|(k, policy)| {
            let key = key(["k0", "k1", "k2"][k]);
            match (policies.get(policy), policy) {
                (Some(policy), 4) => Unique { scope: Scope::Kind(kind), key, policy: *policy },
                (Some(policy), _) => Unique { scope: Scope::Queue(queue), key, policy: *policy },
                (None, _) => Unique::debounced(queue, kind, key, Debounce::new(3_000, Some(8_000))),
            }
        });
        if facts.unique.as_ref().is_some_and(|unique| matches!(unique.policy, Policy::Debounce(_))) {
            facts.run_at = RunAt::After(3_000);
        }
        facts.key = spec.lane.and_then(lane_key);
        facts.cost = spec.cost;
        let mut parent_token = None;
        if let Some((place, held)) = spec.parent.filter(|_| !self.ids.is_empty()) {
            let parent = self.job(place);
            facts.parent_id = Some(parent);
            let known = self.leases.iter().rev().find(|(id, _)| *id == parent).map(|(_, token)| *token);
            parent_token = held.then(|| known.unwrap_or_else(|| Secret([255; 32]).token(parent, 1)));
        }
        let payload = match spec.payload {
            0 => None,
            1 => Some(json("{\"p\":1}")),
            _ => Some(Payload::stored(vec![0, 255, 7], false)),
        };
        let id = self.fresh_id();
        if let Some(node) = spec.graph.as_ref().filter(|_| !self.ids.is_empty()) {
            facts.run_at = RunAt::Now;
            facts.graph = Some(Box::new(self.graph(id, node, &mut facts.kind)));
        }
        NewJob { id, facts, payload, parent_token }
    }

    fn graph(&mut self, id: JobId, node: &Node, kind: &mut Name) -> Graph {
        match node {
            Node::After(edges) => {
                let edge = |(place, on): &(usize, usize)| Edge {
                    job: self.job(*place),
                    on: On::ALL[*on],
                    name: None,
                };
                Graph { after: edges.iter().map(edge).collect(), ..Graph::default() }
            }
            Node::Flow { join, callback, open } => {
                if !callback {
                    *kind = name(FLOW_KIND);
                }
                if *open {
                    self.flows.push(id);
                }
                Graph { flow: Some(Flow { join: Join::ALL[*join], open: *open }), ..Graph::default() }
            }
        }
    }

    /// Compares what both feeds tell since the last call: the same events, each job's in order.
    pub async fn tails(&mut self) -> Result<(), TestCaseError> {
        let mut told: [Vec<Event>; 2] = [vec![], vec![]];
        for (n, store) in [self.model.clone(), self.store.clone()].into_iter().enumerate() {
            loop {
                let request = ReadFeed { after: self.tails[n].clone(), limit: 1_000, payloads: true };
                let page = store.feed(request, self.now()).await;
                let Ok(Ok(page)) = page else {
                    return Err(TestCaseError::fail(format!("no feed: {page:?}")));
                };
                self.tails[n] = Some(page.next);
                if page.events.is_empty() {
                    break;
                }
                told[n].extend(page.events.into_iter().map(|f| f.event));
            }
            // One call may write to several jobs, in any order among them; the sort is stable within a job.
            told[n].sort_by_key(|e| e.job);
        }
        let [left, right] = told;
        for event in &left {
            *self.written.entry(event.what.type_name().to_owned()).or_default() += 1;
            if let EventKind::JobSkipped(d) = &event.what {
                self.skips.push(d.upstream);
            }
        }
        same("feed", &"what is new", Ok(left), Ok(right)).map(|_| ())
    }
}
