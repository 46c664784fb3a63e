//! Streams: one job's events until it ends, and the feed of every job.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::repeat::PATIENCE;
use crate::tail::{Subscription, ends};
use futures_core::Stream;
use futures_util::stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Event, FeedCursor, JobId, Refusal, Version};
use windlass_engine::service::FeedTail;
use windlass_store::{FeedEvent, ReadEvents};

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;

/// A stream of one job's events, in order, until the job has ended. Made by [`Client::watch`].
///
/// A slow reader holds nothing up and misses nothing. A store that fails is an `Err` in the stream, and the stream goes on
/// where it was when it is polled again. An unknown job is [`Refusal::NotFound`], and then the end.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)]
/// # struct Resize;
/// # impl windlass::Job for Resize { const KIND: &str = "resize"; type Output = (); }
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = windlass::connect("memory:").await?;
/// use futures_util::TryStreamExt;
///
/// let job = client.enqueue(Resize).await?.id;
/// client.cancel(job).await?;
/// let events: Vec<_> = client.watch(job).map_ok(|event| event.what.type_name().to_owned()).try_collect().await?;
/// assert_eq!(events, ["job_created", "job_cancelled"]);
/// # Ok::<_, windlass::Error>(()) }).unwrap();
/// ```
#[must_use = "a stream does nothing before it is polled"]
pub struct Watch {
    inner: Option<Boxed<Event>>,
    client: Client,
    job: JobId,
    after: Version,
}

impl Watch {
    pub(crate) fn new(client: Client, job: JobId) -> Self {
        Self { inner: None, client, job, after: 0 }
    }

    /// Only what came after this version.
    pub fn after(mut self, version: Version) -> Self {
        self.after = version;
        self.inner = None;
        self
    }
}

impl Stream for Watch {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let (client, job, after) = (self.client.clone(), self.job, self.after);
        let inner = self.inner.get_or_insert_with(|| {
            Box::pin(stream::unfold(Watcher::new(client, job, after), |mut watcher| async {
                watcher.next().await.map(|item| (item, watcher))
            }))
        });
        inner.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("job", &self.job).finish_non_exhaustive()
    }
}

struct Watcher {
    client: Client,
    job: JobId,
    /// The newest event that was read.
    after: Version,
    read: VecDeque<Event>,
    subscription: Option<Subscription>,
    /// Whether what was read so far leaves the job ended.
    is_ended: bool,
    is_over: bool,
}

impl Watcher {
    fn new(client: Client, job: JobId, after: Version) -> Self {
        let (read, subscription) = (VecDeque::new(), None);
        Self { client, job, after, read, subscription, is_ended: false, is_over: false }
    }

    async fn next(&mut self) -> Option<Result<Event>> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.read_on().await {
                return Some(Err(error));
            }
        }
    }

    /// Reads what is new, and waits for it when there is nothing.
    async fn read_on(&mut self) -> Result<()> {
        if self.subscription.is_none() {
            self.subscription =
                Some(self.client.repeat(|| self.client.inner.tail.subscribe(self.job)).await?);
        }
        let request = ReadEvents { job: self.job, after: self.after, limit: PAGE_MAX, newest_first: false };
        let store = self.client.store();
        self.read = self.client.repeat(|| store.events(request, None)).await?.into();
        for event in &self.read {
            self.after = event.version;
            self.is_ended = ends(event).unwrap_or(self.is_ended);
        }
        if !self.read.is_empty() {
            return Ok(());
        }
        if self.is_ended || self.has_ended().await? {
            self.is_over = true;
            return Ok(());
        }
        if let Some(subscription) = &mut self.subscription
            && !subscription.beyond(self.after).await
        {
            self.subscription = None;
        }
        Ok(())
    }

    /// For who began to watch after the end.
    async fn has_ended(&mut self) -> Result<bool> {
        match self.client.job(self.job).await? {
            None => {
                self.is_over = true;
                Err(Error::Refused(Refusal::NotFound))
            }
            Some(view) => Ok(view.job.status.is_terminal() && view.job.version <= self.after),
        }
    }
}

/// A stream of every event of every job, in one order, from a cursor on. Made by [`Client::feed`].
///
/// Each event brings the [`FeedCursor`] that resumes after it: keep it, and nothing is missed over a restart. A store that
/// fails is an `Err` in the stream, and the stream goes on where it was when it is polled again. Only a cursor that the store
/// does not take any more ends it, with [`Refusal::CursorExpired`], as after a restore: read what you need from the lists,
/// then begin anew with [`Client::feed_head`].
#[must_use = "a stream does nothing before it is polled"]
pub struct Feed {
    inner: Boxed<FeedEvent>,
}

impl Feed {
    pub(crate) fn new(client: &Client, after: FeedCursor) -> Self {
        let feed = FeedTail::new(Arc::clone(client.store()), Some(after)).payloads(true);
        let reader = Reader { feed, read: VecDeque::new() };
        let inner = stream::unfold(Some(reader), |reader| async {
            let mut reader = reader?;
            let next = reader.next().await;
            // The same cursor would be refused for ever.
            let is_over = matches!(&next, Err(Error::Refused(_)));
            Some((next, (!is_over).then_some(reader)))
        });
        Self { inner: Box::pin(inner) }
    }
}

impl Stream for Feed {
    type Item = Result<FeedEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inner.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

struct Reader {
    feed: FeedTail,
    read: VecDeque<FeedEvent>,
}

impl Reader {
    async fn next(&mut self) -> Result<FeedEvent> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(event) = self.read.pop_front() {
                return Ok(event);
            }
            match self.feed.read().await {
                Ok(page) => self.read = page?.events.into(),
                // A restart of the store is nobody's news.
                Err(_) if Instant::now() < until => {}
                Err(error) => return Err(error.into()),
            }
            if self.read.is_empty() {
                self.feed.rest(Duration::ZERO).await;
            }
        }
    }
}
