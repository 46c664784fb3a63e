//! Reading a job's log.

use crate::client::Client;
use crate::error::Result;
use std::future::IntoFuture;
use std::pin::Pin;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Event, JobId, Version};
use windlass_store::ReadEvents;

/// Reads a stretch of a job's log when awaited: the first 1,000 events unless said otherwise; none for an unknown job.
/// Made by [`Client::events`].
#[derive(Debug)]
#[must_use = "nothing is read before it is awaited"]
pub struct Events {
    client: Client,
    request: ReadEvents,
}

impl Events {
    pub(crate) fn new(client: Client, job: JobId) -> Self {
        Self { client, request: ReadEvents { job, after: 0, limit: PAGE_MAX, newest_first: false } }
    }

    /// Only what came after this version.
    pub fn after(mut self, version: Version) -> Self {
        self.request.after = version;
        self
    }

    /// From the newest event down.
    pub fn newest_first(mut self) -> Self {
        self.request.newest_first = true;
        self
    }

    /// At most so many; never more than 1,000 at once.
    pub fn limit(mut self, limit: usize) -> Self {
        self.request.limit = limit.min(PAGE_MAX);
        self
    }
}

impl IntoFuture for Events {
    type Output = Result<Vec<Event>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, request } = self;
            Ok(client.repeat(|| client.store().events(request, None)).await?)
        })
    }
}
