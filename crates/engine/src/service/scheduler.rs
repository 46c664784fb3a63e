//! Fires schedules whose slot has come, while this process leads.

use crate::service::{Leading, LiveSettings};
use crate::shutdown::Shutdown;
use futures_util::StreamExt;
use futures_util::stream;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::{Name, Refusal};
use windlass_store::{FireSchedule, MissedLimits, Store, fresh};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);
/// How many schedules it looks at in one go.
const LIMIT: usize = 1_000;
/// How many of them it fires side by side.
const LANES: usize = 8;
/// The most slots of one schedule that are fired in one go.
const SLOTS: usize = 16;

/// Fires schedules.
#[derive(Debug)]
pub struct Scheduler {
    store: Arc<dyn Store>,
    leading: Leading,
    settings: LiveSettings,
}

impl Scheduler {
    /// Fires the schedules of this store while this process leads.
    pub fn new(store: Arc<dyn Store>, leading: Leading, settings: LiveSettings) -> Self {
        Self { store, leading, settings }
    }

    /// Fires until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.fire(epoch)).await;
        }
    }

    async fn fire(&self, epoch: i64) {
        let mut told = false;
        loop {
            match self.store.due_schedules(LIMIT, None).await {
                Ok(due) => {
                    told = false;
                    let full = due.len() == LIMIT;
                    let fired = self.fire_all(epoch, due).await;
                    if full && fired {
                        continue;
                    }
                }
                Err(error) => {
                    if !told {
                        tracing::warn!(%error, "schedules cannot be looked at; it is tried again until they can");
                        told = true;
                    }
                }
            }
            sleep(EVERY).await;
        }
    }

    /// Fires these, each for itself: one that cannot be fired stops no other. Says whether any moved on.
    async fn fire_all(&self, epoch: i64, due: Vec<Name>) -> bool {
        if due.is_empty() {
            return false;
        }
        let settings = self.settings.now().await;
        let missed = MissedLimits { after_ms: settings.missed_after_ms, max: settings.missed_max };
        let one = |name: Name| async move {
            let ids = (0..SLOTS).map(|_| fresh::job_id()).collect();
            let wish = FireSchedule { term: Leading::term(), epoch, name: name.clone(), ids, missed };
            match self.store.fire_schedule(wish, None).await {
                Ok(Ok(made)) => {
                    tracing::debug!(schedule = %name, jobs = made.len(), "fired");
                    true
                }
                Ok(Err(Refusal::StaleEpoch(_) | Refusal::ScheduleNotFound(_))) => false,
                Ok(Err(refusal)) => {
                    tracing::warn!(schedule = %name, %refusal, "a schedule cannot be fired; change it or pause it");
                    false
                }
                Err(error) => {
                    tracing::warn!(schedule = %name, %error, "a schedule was not fired; it is tried again");
                    false
                }
            }
        };
        let fired: Vec<bool> = stream::iter(due).map(one).buffer_unordered(LANES).collect().await;
        fired.into_iter().any(|moved| moved)
    }
}
