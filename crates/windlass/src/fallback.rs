//! What jobs fall back to when they say nothing of themselves: by kind, agent, queue, default, in that order.

use crate::error::Result;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::limits::Invalid;
use windlass_core::{Name, Who};
use windlass_engine::{Policies, Policy};
use windlass_store::{QueueState, StoreResult};

/// How long a client trusts what it read of the queues' settings.
const TRUSTED: Duration = Duration::from_secs(10);

/// What the program says by kind and agent, and what the store says of its queues.
#[derive(Debug)]
pub(crate) struct Fallbacks {
    pub(crate) kinds: Vec<(String, Policy)>,
    pub(crate) agents: Vec<(String, Policy)>,
    pub(crate) default: Policy,
    pub(crate) trusted: Duration,
    /// A blocking lock: it is held for a look or an assignment.
    known: Mutex<Option<(Instant, Arc<Policies>)>>,
    /// Held while the store is asked: of a thousand callers that come at once, one asks.
    asking: tokio::sync::Mutex<()>,
}

impl Default for Fallbacks {
    fn default() -> Self {
        let (kinds, agents) = (Vec::new(), Vec::new());
        let default = Policy::default();
        Self { kinds, agents, default, trusted: TRUSTED, known: Mutex::default(), asking: Default::default() }
    }
}

impl Clone for Fallbacks {
    fn clone(&self) -> Self {
        let Self { kinds, agents, default, trusted, .. } = self;
        Self {
            kinds: kinds.clone(),
            agents: agents.clone(),
            default: *default,
            trusted: *trusted,
            ..Self::default()
        }
    }
}

impl Fallbacks {
    /// What the program itself says.
    pub(crate) fn own(&self) -> Result<Policies, Invalid> {
        let mut policies = Policies::new();
        for (kind, policy) in &self.kinds {
            policy.check()?;
            policies.set_kind(Name::parse("kind", kind)?, *policy);
        }
        for (agent, policy) in &self.agents {
            policy.check()?;
            policies.set_agent(Who::parse("agent_id", agent)?, *policy);
        }
        self.default.check()?;
        policies.set_default(self.default);
        Ok(policies)
    }

    /// With what the store said of its queues within the last seconds.
    pub(crate) async fn now(
        &self,
        ask: impl AsyncFnOnce() -> StoreResult<Vec<QueueState>>,
    ) -> Result<Arc<Policies>> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let _asking = self.asking.lock().await;
        if let Some(known) = self.known() {
            return Ok(known);
        }
        Ok(self.learn(ask().await?)?)
    }

    /// What is known and still trusted.
    pub(crate) fn known(&self) -> Option<Arc<Policies>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|(at, _)| at.elapsed() < self.trusted).map(|(_, policies)| Arc::clone(policies))
    }

    /// Takes in what the store says of its queues.
    pub(crate) fn learn(&self, queues: Vec<QueueState>) -> Result<Arc<Policies>, Invalid> {
        let mut policies = self.own()?;
        policies.set_queues(queues.into_iter().map(|state| (state.queue.name, state.queue.defaults)));
        let policies = Arc::new(policies);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((Instant::now(), Arc::clone(&policies)));
        Ok(policies)
    }
}
