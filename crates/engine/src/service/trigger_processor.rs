//! Makes the jobs of events that could not be processed when they came, and removes old events, while this process leads.

use crate::service::{Leading, LiveSettings};
use crate::shutdown::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use windlass_core::trigger::JOBS_MAX;
use windlass_core::{Refusal, TriggerEventId};
use windlass_store::{ForgetTriggerEvents, ProcessTriggerEvent, Store, StoreError, fresh};

/// How often it looks for events to try again.
const EVERY: Duration = Duration::from_secs(2);
/// How often it looks for events to remove.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// How many events it looks at in one go.
const LIMIT: usize = 1_000;

/// Processes what came in and was kept.
#[derive(Debug)]
pub struct TriggerProcessor {
    store: Arc<dyn Store>,
    leading: Leading,
    settings: LiveSettings,
}

impl TriggerProcessor {
    /// Processes the events of this store while this process leads.
    pub fn new(store: Arc<dyn Store>, leading: Leading, settings: LiveSettings) -> Self {
        Self { store, leading, settings }
    }

    /// Processes until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.process(epoch)).await;
        }
    }

    async fn process(&self, epoch: i64) {
        let mut is_silent = false;
        let mut forget_at = Instant::now();
        loop {
            let looked = async {
                if forget_at <= Instant::now() {
                    self.forget(epoch).await?;
                    forget_at = Instant::now() + FORGET_EVERY;
                }
                self.store.due_trigger_events(LIMIT, None).await
            };
            match looked.await {
                Ok(due) => {
                    is_silent = false;
                    for id in due {
                        self.process_one(epoch, id).await;
                    }
                }
                Err(error) if !is_silent => {
                    tracing::warn!(%error, "events of triggers cannot be looked at; it is tried again until they can");
                    is_silent = true;
                }
                Err(_) => {}
            }
            sleep(EVERY).await;
        }
    }

    /// One event, for itself: one that cannot be processed stops no other.
    async fn process_one(&self, epoch: i64, id: TriggerEventId) {
        let ids = (0..JOBS_MAX).map(|_| fresh::job_id()).collect();
        let wish = ProcessTriggerEvent { term: Leading::term(), epoch, id, ids };
        match self.store.process_trigger_event(wish, None).await {
            Ok(Ok(Some(event))) if event.processed_at.is_some() => {
                tracing::info!(event = %id, trigger = %event.trigger, jobs = event.detail.jobs.len(), "processed");
            }
            Ok(Ok(_)) | Ok(Err(Refusal::StaleEpoch(_))) => {}
            Ok(Err(refusal)) => tracing::warn!(event = %id, %refusal, "an event cannot be processed"),
            Err(error) => {
                tracing::warn!(event = %id, %error, "an event was not processed; it is tried again");
            }
        }
    }

    async fn forget(&self, epoch: i64) -> Result<(), StoreError> {
        let kept_ms = self.settings.now().await.trigger_events_kept_ms;
        loop {
            let before = fresh::wall_clock().plus_ms(-kept_ms);
            let wish = ForgetTriggerEvents { term: Leading::term(), epoch, before, limit: LIMIT };
            match self.store.forget_trigger_events(wish, None).await? {
                Ok(gone) if gone == LIMIT => {}
                _ => return Ok(()),
            }
        }
    }
}
