//! Breaks queues whose attempts fail too often, and mends them when one succeeds again, while this process leads.
//!
//! It reads the feed, counts in its memory and writes only what follows, under the leader's epoch: nothing is counted where
//! jobs are claimed or settled. While no queue has a breaker it reads nothing. A new leader counts anew; a queue that broke
//! stays so until its next job that is tried succeeds.

use crate::repeat::jittered;
use crate::service::Leading;
use crate::shutdown::Shutdown;
use metrics::counter;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::breaker::{Attempts, Breaker, Broken, Verdict, Window};
use windlass_core::{FeedCursor, Name, Refusal};
use windlass_store::{BreakQueue, ReadFeed, Store, StoreError, StoreResult, fresh};

/// How often it looks while a queue has a breaker.
const EVERY: Duration = Duration::from_millis(500);
/// How often it looks whether one has.
const LOOK: Duration = Duration::from_secs(10);
/// How many events are read at once.
const PAGE: usize = 500;
/// How many pages are read before what was counted is judged.
const PAGES: usize = 20;

/// Breaks and mends queues.
#[derive(Debug)]
pub struct QueueBreaker {
    store: Arc<dyn Store>,
    leading: Leading,
}

/// Queues with a breaker, and how each stands.
type Rules = HashMap<Name, (Breaker, Option<Broken>)>;

/// What was read and counted under one epoch.
#[derive(Default)]
struct Counts {
    /// Where the feed was read up to; none before the first look.
    after: Option<FeedCursor>,
    windows: HashMap<Name, Window>,
}

impl QueueBreaker {
    /// Looks at the queues of this store while this process leads.
    pub fn new(store: Arc<dyn Store>, leading: Leading) -> Self {
        Self { store, leading }
    }

    /// Looks until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.keep_looking(epoch)).await;
        }
    }

    async fn keep_looking(&self, epoch: i64) {
        let (mut counts, mut silent) = (Counts::default(), false);
        loop {
            let looked = self.look(epoch, &mut counts).await;
            match &looked {
                Ok(_) => silent = false,
                Err(error) if !silent => {
                    tracing::warn!(%error, "queues with a breaker could not be looked at; it is tried again until they can");
                    silent = true;
                }
                Err(_) => {}
            }
            sleep(if matches!(looked, Ok(true)) { EVERY } else { jittered(LOOK) }).await;
        }
    }

    /// Counts what came, and breaks or mends. Says whether a queue has a breaker.
    async fn look(&self, epoch: i64, counts: &mut Counts) -> StoreResult<bool> {
        let rules = self.rules().await?;
        if rules.is_empty() {
            *counts = Counts::default();
            return Ok(false);
        }
        counts.windows.retain(|name, _| rules.contains_key(name));
        self.count(&rules, counts).await?;
        let now = fresh::wall_clock();
        for (queue, (breaker, broken)) in rules {
            let window = counts.windows.entry(queue.clone()).or_default();
            match window.judge(breaker, broken.as_ref(), now) {
                Verdict::Stays => {}
                Verdict::Breaks(count) => {
                    if self.write(epoch, queue, Some(count)).await? {
                        window.broke();
                    }
                }
                Verdict::Mends => {
                    self.write(epoch, queue, None).await?;
                }
            }
        }
        Ok(true)
    }

    async fn rules(&self) -> StoreResult<Rules> {
        let queues = self.store.queue_settings((), None).await?.into_iter();
        let rule = |queue: windlass_core::Queue| {
            let flow = queue.flow?;
            Some((queue.name, (flow.breaker?, flow.broken)))
        };
        Ok(queues.filter_map(rule).collect())
    }

    async fn count(&self, rules: &Rules, counts: &mut Counts) -> StoreResult<()> {
        for _ in 0..PAGES {
            let Some(after) = counts.after.clone() else {
                counts.after = Some(self.store.feed_head((), None).await?);
                return Ok(());
            };
            let read = ReadFeed { after: Some(after), limit: PAGE, payloads: false };
            let Ok(page) = self.store.feed(read, None).await? else {
                // As after a restore: what was there before is not counted.
                counts.after = None;
                continue;
            };
            for fed in page.events.iter().filter(|fed| rules.contains_key(&fed.queue)) {
                counts.windows.entry(fed.queue.clone()).or_default().add(&fed.event);
            }
            counts.after = Some(page.next);
            if page.events.len() < PAGE {
                break;
            }
        }
        Ok(())
    }

    /// Writes what follows; says whether it was written.
    async fn write(&self, epoch: i64, queue: Name, count: Option<Attempts>) -> StoreResult<bool> {
        let request = BreakQueue { term: Leading::term(), epoch, queue: queue.clone(), count };
        match self.store.break_queue(request, None).await? {
            Ok(true) => {
                let outcome = if count.is_some() { "broken" } else { "mended" };
                counter!("windlass_queue_breaks_total", "queue" => queue.to_string(), "outcome" => outcome)
                    .increment(1);
                match count {
                    Some(Attempts { ended, failed }) => {
                        tracing::warn!(%queue, failed, ended, "the queue broke: too many attempts failed");
                    }
                    None => tracing::info!(%queue, "the queue is whole again: an attempt succeeded"),
                }
                Ok(true)
            }
            Ok(false) => Ok(false),
            // Another leads: the term of this one ends by itself.
            Err(Refusal::StaleEpoch(_)) => Ok(false),
            Err(refusal) => Err(StoreError::Unavailable(refusal.to_string())),
        }
    }
}
