//! What jobs fall back to when they say nothing of themselves: by kind, agent, queue, default, in that order.

use std::time::Duration;
use windlass_core::limits::Invalid;
use windlass_core::{Name, Who};
use windlass_engine::service::QueuePolicies;
use windlass_engine::{Policies, Policy};

/// What the program says by kind and agent; what the store says of its queues comes to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fallbacks {
    pub(crate) kinds: Vec<(String, Policy)>,
    pub(crate) agents: Vec<(String, Policy)>,
    pub(crate) default: Policy,
    /// How long what the store says is trusted, where that is not the usual time.
    pub(crate) trusted: Option<Duration>,
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

    /// With what the store says of its queues. The program's own words were checked when the client was made.
    pub(crate) fn with_queues(&self) -> QueuePolicies {
        let policies = QueuePolicies::new(self.own().unwrap_or_default());
        match self.trusted {
            Some(trusted) => policies.trusted(trusted),
            None => policies,
        }
    }
}
