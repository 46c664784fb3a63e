//! Being known: the worker reports itself, learns whether it is drained and what its queues' defaults are, and is
//! forgotten when it ends.

use crate::engine::Shared;
use crate::health;
use crate::repeat::jittered;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::LeaseMs;
use windlass_store::{PutWorker, StoreResult};

/// How often it reports.
const EVERY: Duration = Duration::from_secs(10);
/// How often it reads the queues' defaults: every so many reports.
const DEFAULTS_EVERY: u32 = 3;
/// How soon it tries again when the store does not answer.
const AGAIN: Duration = Duration::from_secs(2);

/// Reports until the worker has ended.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut reports = 0u32;
    loop {
        let reported = report(&shared, reports.is_multiple_of(DEFAULTS_EVERY)).await;
        match reported {
            Ok(()) => {
                shared.health.answered(health::Line::Work);
                reports = reports.wrapping_add(1);
            }
            Err(error) => shared.health.failed(health::Line::Work, &error),
        }
        tokio::time::sleep(jittered(if reports == 0 { AGAIN } else { EVERY })).await;
    }
}

async fn report(shared: &Arc<Shared>, defaults: bool) -> StoreResult<()> {
    let request = PutWorker {
        id: shared.identity.clone(),
        queues: shared.lines.iter().map(|line| line.queue.clone()).collect(),
        kinds: shared.kinds.clone(),
        capacity: i32::try_from(shared.capacity()).unwrap_or(i32::MAX),
        slots: shared.lines.iter().map(|line| (line.queue.clone(), line.concurrency as i32)).collect(),
        labels: shared.labels.clone(),
        draining: false,
        ttl_ms: LeaseMs::DEFAULT,
    };
    // First the defaults: a worker that is on the list knows them.
    if defaults && let Some(store) = &shared.store {
        let queues = shared.ask(store.queues(1, None)).await?;
        shared.learn(queues.into_iter().map(|state| (state.queue.name, state.queue.defaults)));
    }
    let worker = shared.ask(shared.source.put_worker(request)).await?;
    shared.set_draining(worker.draining);
    Ok(())
}
