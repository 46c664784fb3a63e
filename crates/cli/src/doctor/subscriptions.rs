//! Subscriptions: whether events arrive where they are sent.

use super::{Finding, ago, ok, problem, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_store::{Store, SubscriptionState, fresh};

/// Looks at every subscription.
pub async fn look(store: &Arc<dyn Store>) -> Outcome<Vec<Finding>> {
    Ok(of(&store.subscriptions((), None).await?, fresh::wall_clock()))
}

fn of(states: &[SubscriptionState], now: Timestamp) -> Vec<Finding> {
    let mut found = Vec::new();
    for SubscriptionState { name, paused, failing, .. } in states {
        if let Some(paused) = paused {
            let since = ago(paused.at, now);
            let told = format!("{name} is paused for {since} and delivers nothing: {}", paused.why);
            let fix = format!("mend the other side, then windlass subscriptions resume {name}; or rm {name}");
            found.push(problem("subscriptions", told, fix));
        } else if let Some(failing) = failing {
            let since = ago(failing.since, now);
            let told = format!("{name} has delivered nothing for {since}: {}", failing.why);
            let fix = "mend the other side: it is tried again, and paused when it fails for too long";
            found.push(warning("subscriptions", told, fix));
        }
    }
    if found.is_empty() {
        found.push(ok("subscriptions", format!("{} known, none is paused or failing", states.len())));
    }
    found
}
