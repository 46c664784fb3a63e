//! What a job falls back to: its own word, then its kind's, its agent's, its queue's, the default, field by field.
//!
//! A client resolves when it enqueues, so that the job carries its policy wherever it runs. A worker resolves again
//! for jobs that were enqueued without one, as far as a worker can: timeout, lease and backoff. Retries and grace are
//! the row's own and are fixed when the job is made.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use windlass_core::{Facts, Name, QueueDefaults, Who};

/// Retries, timeout, lease, grace and backoff; what is left out is decided further down the line.
pub type Policy = QueueDefaults;

/// Who falls back to what.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    kinds: HashMap<Name, Policy>,
    agents: HashMap<Who, Policy>,
    queues: HashMap<Name, Policy>,
    pushed: HashSet<Name>,
    default: Policy,
}

impl Policies {
    /// Nothing is said about anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// What jobs of a kind fall back to.
    pub fn set_kind(&mut self, kind: Name, policy: Policy) {
        self.kinds.insert(kind, policy);
    }

    /// What jobs of an agent fall back to.
    pub fn set_agent(&mut self, agent: Who, policy: Policy) {
        self.agents.insert(agent, policy);
    }

    /// What everything falls back to.
    pub fn set_default(&mut self, policy: Policy) {
        self.default = policy;
    }

    /// What jobs of queues fall back to, as the store has it; replaces what was known of queues.
    pub fn set_queues(&mut self, queues: impl IntoIterator<Item = (Name, Policy)>) {
        self.queues = queues.into_iter().collect();
    }

    /// Which queues are in mode push, as the store has it.
    pub fn set_pushed(&mut self, queues: impl IntoIterator<Item = Name>) {
        self.pushed = queues.into_iter().collect();
    }

    /// Whether a queue is in mode push, as far as is known.
    pub fn is_pushed(&self, queue: &Name) -> bool {
        self.pushed.contains(queue)
    }

    /// The policy of a job of this kind, agent and queue that says `own` of itself.
    pub fn resolve(&self, own: &Policy, kind: &Name, agent: Option<&Who>, queue: &Name) -> Policy {
        let of_kind = self.kinds.get(kind);
        let of_agent = agent.and_then(|agent| self.agents.get(agent));
        let of_queue = self.queues.get(queue);
        [Some(own), of_kind, of_agent, of_queue, Some(&self.default)].into_iter().flatten().fold(
            Policy::default(),
            |said, next| Policy {
                max_retries: said.max_retries.or(next.max_retries),
                timeout_ms: said.timeout_ms.or(next.timeout_ms),
                lease_ms: said.lease_ms.or(next.lease_ms),
                grace_ms: said.grace_ms.or(next.grace_ms),
                backoff: said.backoff.or(next.backoff),
            },
        )
    }

    /// Completes the facts of a job that is about to be enqueued and says `own` of itself.
    pub fn fill(&self, facts: &mut Facts, own: &Policy) {
        let policy = self.resolve(own, &facts.kind, facts.agent_id.as_ref(), &facts.queue);
        facts.max_retries = policy.max_retries.unwrap_or(facts.max_retries);
        facts.timeout_ms = policy.timeout_ms.or(facts.timeout_ms);
        facts.lease_ms = policy.lease_ms.or(facts.lease_ms);
        facts.grace_ms = policy.grace_ms.unwrap_or(facts.grace_ms);
        facts.backoff = policy.backoff.or(facts.backoff);
    }

    /// The policy of a job that is there.
    pub fn of(&self, facts: &Facts) -> Policy {
        let own = Policy {
            max_retries: Some(facts.max_retries),
            timeout_ms: facts.timeout_ms,
            lease_ms: facts.lease_ms,
            grace_ms: Some(facts.grace_ms),
            backoff: facts.backoff,
        };
        self.resolve(&own, &facts.kind, facts.agent_id.as_ref(), &facts.queue)
    }
}

/// The policies of a worker: replaced as a whole when the store's defaults change, read once per claim.
#[derive(Debug)]
pub(crate) struct LivePolicies(RwLock<Arc<Policies>>);

impl LivePolicies {
    pub(crate) fn new(policies: Policies) -> Self {
        Self(RwLock::new(Arc::new(policies)))
    }

    pub(crate) fn now(&self) -> Arc<Policies> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over the queues' defaults as the store has them.
    pub(crate) fn learn(&self, queues: impl IntoIterator<Item = (Name, Policy)>) {
        let mut policies = Policies::clone(&self.now());
        policies.set_queues(queues);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::{Backoff, LeaseMs};

    fn name(text: &str) -> Name {
        Name::parse("name", text).unwrap()
    }

    fn timeout(ms: i64) -> Policy {
        Policy { timeout_ms: Some(ms), ..Policy::default() }
    }

    /// M9: configurable per agent, kind and job.
    #[test]
    fn the_nearest_word_counts_field_by_field() {
        let (kind, queue, agent) = (name("mail"), name("default"), Who::parse("agent_id", "ann").unwrap());
        let slow = Backoff { base_ms: 7, ..Backoff::default() };
        let mut policies = Policies::new();
        let resolve = |policies: &Policies, own: &Policy| policies.resolve(own, &kind, Some(&agent), &queue);
        policies.set_default(Policy { max_retries: Some(9), ..timeout(5) });
        assert_eq!(resolve(&policies, &Policy::default()).timeout_ms, Some(5));
        policies.set_queues([(queue.clone(), Policy { backoff: Some(slow), ..timeout(4) })]);
        assert_eq!(resolve(&policies, &Policy::default()).timeout_ms, Some(4));
        policies.set_agent(agent.clone(), timeout(3));
        assert_eq!(resolve(&policies, &Policy::default()).timeout_ms, Some(3));
        policies.set_kind(kind.clone(), timeout(2));
        assert_eq!(resolve(&policies, &Policy::default()).timeout_ms, Some(2));
        let all = resolve(&policies, &timeout(1));
        assert_eq!((all.timeout_ms, all.backoff, all.max_retries), (Some(1), Some(slow), Some(9)));
        assert_eq!(
            policies.resolve(&Policy::default(), &name("other"), None, &name("other")).timeout_ms,
            Some(5)
        );
    }

    #[test]
    fn facts_are_filled_and_read_back() {
        let mut policies = Policies::new();
        let lease_ms = Some(LeaseMs::new(5_000).unwrap());
        policies.set_kind(
            name("mail"),
            Policy { max_retries: Some(0), lease_ms, grace_ms: Some(7), ..timeout(2) },
        );
        let mut facts = Facts::new(name("mail"), name("default"));
        policies.fill(&mut facts, &timeout(1));
        assert_eq!(
            (facts.max_retries, facts.timeout_ms, facts.lease_ms, facts.grace_ms),
            (0, Some(1), lease_ms, 7)
        );
        assert_eq!(policies.of(&facts).timeout_ms, Some(1));
    }
}
