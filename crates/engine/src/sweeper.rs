//! Looking at deadlines now and then: timeouts, forced cancels, expired waits. Any process does; more than one is no harm.

use crate::engine::Shared;
use crate::health;
use crate::repeat::jittered;
use std::sync::Arc;
use std::time::Duration;
use windlass_store::Sweep;

/// How often.
const EVERY: Duration = Duration::from_secs(5);
/// The most of one sweep.
const LIMIT: usize = 1_000;

/// Sweeps until the worker has ended.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(jittered(EVERY)) => {}
            () = shared.sweep.notified() => {}
        }
        loop {
            match shared.ask(shared.store.sweep(Sweep { limit: LIMIT }, None)).await {
                Ok(swept) if swept.len() >= LIMIT => tokio::task::yield_now().await,
                Ok(_) => {
                    shared.health.answered(health::Line::Work);
                    break;
                }
                Err(error) => {
                    shared.health.failed(health::Line::Work, &error);
                    break;
                }
            }
        }
    }
}
