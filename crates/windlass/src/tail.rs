//! One reader of the feed for everybody who watches a job through one client: an idle watcher costs nothing, and a
//! thousand of them poll no more than one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use windlass_core::{Event, EventKind, FeedCursor, JobId, Version};
use windlass_engine::service::FeedTail;
use windlass_store::{FeedEvent, Store, StoreResult};

/// How long a reader lets news gather, so that a busy store is not asked after every single commit.
const GATHER: Duration = Duration::from_millis(5);

/// The newest that the feed said of one job.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Its newest event.
    version: Version,
    /// Its newest event that ended it.
    ended: Version,
}

/// The reader, while somebody watches.
pub(crate) struct Tail {
    store: Arc<dyn Store>,
    watched: Mutex<Watched>,
    /// Held until a starting reader knows where the feed ended; whoever subscribes reads its job only after that.
    starting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Watched {
    jobs: HashMap<JobId, (watch::Sender<Seen>, usize)>,
    /// Which reader runs, if one does.
    reader: Option<u64>,
    readers: u64,
    abort: Option<AbortHandle>,
}

impl Tail {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, watched: Mutex::default(), starting: tokio::sync::Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        // Nothing panics while it is held, and a broken map would only lose hints.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a job. What is read of the job after this returns, and what the subscription tells later, leave no gap.
    pub(crate) async fn subscribe(self: &Arc<Self>, job: JobId) -> StoreResult<Subscription> {
        let _starting = self.starting.lock().await;
        let (subscription, has_reader) = {
            let mut watched = self.lock();
            let (sender, count) = watched.jobs.entry(job).or_insert_with(|| (watch::Sender::default(), 0));
            *count += 1;
            let seen = sender.subscribe();
            (Subscription { tail: Arc::clone(self), job, seen }, watched.reader.is_some())
        };
        if !has_reader {
            let head = self.store.feed_head((), None).await?;
            self.start(head);
        }
        Ok(subscription)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "it ends with the last watcher or the client, and tells nobody anything"
    )]
    fn start(self: &Arc<Self>, head: FeedCursor) {
        let mut watched = self.lock();
        watched.readers += 1;
        let running = Running { tail: Arc::downgrade(self), id: watched.readers };
        watched.reader = Some(running.id);
        watched.abort = Some(tokio::spawn(read(running, Arc::clone(&self.store), head)).abort_handle());
    }

    /// Passes the news on, and answers whether anybody is left to tell; if not, the reader has ended.
    fn tell(&self, events: &[FeedEvent]) -> bool {
        let mut watched = self.lock();
        for FeedEvent { event, .. } in events {
            if let Some((sender, _)) = watched.jobs.get(&event.job) {
                sender.send_modify(|seen| {
                    seen.version = seen.version.max(event.version);
                    if ends(event) == Some(true) {
                        seen.ended = seen.ended.max(event.version);
                    }
                });
            }
        }
        if watched.jobs.is_empty() {
            watched.reader = None;
        }
        watched.reader.is_some()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        if let Some(reader) = self.lock().abort.take() {
            reader.abort();
        }
    }
}

/// Whether an event ends its job, or takes the end back; none when it does neither.
pub(crate) fn ends(event: &Event) -> Option<bool> {
    match &event.what {
        EventKind::JobCompleted
        | EventKind::JobFailed(_)
        | EventKind::JobCancelled(_)
        | EventKind::JobSkipped(_) => Some(true),
        EventKind::JobTimedOut(detail) => Some(detail.due_at.is_none()),
        EventKind::JobRedriven(_) | EventKind::JobRearmed(_) | EventKind::JobForked(_) => Some(false),
        _ => None,
    }
}

/// Tells that the reader is gone, however it went: with its runtime, too. Whoever watches then subscribes again.
struct Running {
    tail: Weak<Tail>,
    id: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(tail) = self.tail.upgrade() {
            let mut watched = tail.lock();
            if watched.reader == Some(self.id) {
                watched.reader = None;
                watched.jobs.clear();
            }
        }
    }
}

async fn read(running: Running, store: Arc<dyn Store>, head: FeedCursor) {
    let mut feed = FeedTail::new(store, Some(head));
    loop {
        match feed.read().await {
            Ok(Ok(page)) => {
                // Its client is gone, or nobody watches any more.
                if !running.tail.upgrade().is_some_and(|tail| tail.tell(&page.events)) {
                    return;
                }
            }
            Ok(Err(refusal)) => {
                tracing::warn!(%refusal, "the feed cannot be followed from here; watchers begin anew");
                return;
            }
            Err(_) => {}
        }
        feed.rest(GATHER).await;
    }
}

/// One watcher of one job.
pub(crate) struct Subscription {
    tail: Arc<Tail>,
    job: JobId,
    seen: watch::Receiver<Seen>,
}

impl Subscription {
    /// Waits for an event after `version`; false when the reader is gone and one must subscribe again.
    pub(crate) async fn beyond(&mut self, version: Version) -> bool {
        self.seen.wait_for(|seen| seen.version > version).await.is_ok()
    }

    /// Waits for an event after `version` that ends the job; false when the reader is gone.
    pub(crate) async fn ended_after(&mut self, version: Version) -> bool {
        self.seen.wait_for(|seen| seen.ended > version).await.is_ok()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut watched = self.tail.lock();
        if let Some((sender, count)) = watched.jobs.get_mut(&self.job)
            // A reader that went took the entry with it, and this may be a newer one.
            && sender.subscribe().same_channel(&self.seen)
        {
            *count -= 1;
            if *count == 0 {
                watched.jobs.remove(&self.job);
            }
        }
    }
}
