//! Being known: the worker reports itself, learns whether it is drained and what its queues' defaults are, and is
//! forgotten when it ends.

use crate::health;
use crate::holdings::Holdings;
use crate::lanes::Lines;
use crate::policy::LivePolicies;
use crate::profile::Profile;
use crate::reach::Reach;
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

/// What it reports, and who learns from the answers.
pub(crate) struct Registrar {
    pub(crate) reach: Arc<Reach>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) policies: Arc<LivePolicies>,
    pub(crate) holdings: Arc<Holdings>,
}

/// Reports until the worker has ended.
pub(crate) async fn run(registrar: Arc<Registrar>) {
    let mut reports = 0u32;
    loop {
        let reported = report(&registrar, reports.is_multiple_of(DEFAULTS_EVERY)).await;
        match reported {
            Ok(()) => {
                registrar.reach.health.answered(health::Line::Work);
                reports = reports.wrapping_add(1);
            }
            Err(error) => registrar.reach.health.failed(health::Line::Work, &error),
        }
        tokio::time::sleep(jittered(if reports == 0 { AGAIN } else { EVERY })).await;
    }
}

async fn report(registrar: &Registrar, defaults: bool) -> StoreResult<()> {
    let Registrar { reach, profile, lines, policies, .. } = registrar;
    let request = PutWorker {
        id: profile.identity.clone(),
        queues: lines.iter().map(|line| line.queue.clone()).collect(),
        kinds: profile.kinds.clone(),
        capacity: i32::try_from(lines.capacity()).unwrap_or(i32::MAX),
        slots: lines.iter().map(|line| (line.queue.clone(), line.concurrency as i32)).collect(),
        labels: profile.labels.clone(),
        draining: false,
        ttl_ms: LeaseMs::DEFAULT,
    };
    // First the defaults: a worker that is on the list knows them.
    if defaults && let Some(store) = &reach.store {
        let queues = reach.ask(store.queue_settings((), None)).await?;
        policies.learn(queues.into_iter().map(|queue| (queue.name, queue.defaults)));
    }
    let worker = reach.ask(reach.source.put_worker(request)).await?;
    registrar.drain(worker.draining);
    Ok(())
}

impl Registrar {
    /// An operator wants it to take no more, or to take jobs again. What has not begun goes back.
    fn drain(&self, draining: bool) {
        if !self.holdings.drain(draining) {
            return;
        }
        let worker = &self.profile.identity;
        if draining {
            tracing::info!(%worker, "drained by an operator: nothing new is taken");
            self.holdings.give_back(self.lines.take_back(None));
        } else {
            tracing::info!(%worker, "no longer drained: jobs are taken again");
        }
        // What was offered is withdrawn, or jobs are looked for again.
        self.holdings.room.notify_one();
    }
}
