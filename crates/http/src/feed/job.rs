//! One who listens to one job. Its cursor is the job's version, so nothing can be missed or told twice: what does not
//! follow directly on what was told is read from the job's log.

use super::hub::{Counted, Watched};
use super::item::data_lines;
use super::sse::{self, Listen};
use crate::access::revoked;
use crate::app::App;
use crate::call::{Call, Reply, ok};
use crate::wire::event::EventShape;
use bytes::Bytes;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::{Event, Invalid, Job, JobId, Name, Version};
use windlass_engine::Level;
use windlass_store::{ReadEvents, StoreResult};

/// Events of one look into the log: each may be a mebibyte.
const PAGE: usize = 100;
/// The longest that a page is waited for, in milliseconds.
const WAIT_MAX_MS: i64 = 60_000;

/// One who listens to one job.
struct Listener {
    app: Arc<App>,
    watched: Watched,
    job: JobId,
    queue: Name,
    kind: Name,
    /// The newest event that was told.
    told: Version,
    /// What the reader had of this job at the last look.
    seen: u64,
    /// Whether the log may hold more than was read.
    is_behind: bool,
    _counted: Counted,
}

/// From where a caller wants to hear: after a version, or from now on.
fn version(call: &Call, job: &Job) -> Result<Version, Invalid> {
    let Some(text) = sse::resume_from(call) else { return Ok(job.version) };
    let wrong = || Invalid::new("after", &text, "must be a version of the job: 0 for all of its events");
    text.parse().ok().filter(|version: &Version| *version >= 0).ok_or_else(wrong)
}

async fn listener(call: &Call) -> Result<Listener, crate::problem::Problem> {
    // Before the job is read, so that nothing falls between.
    let watched = call.app.hub.watch(call.job_id()?);
    let job = call.job().await?.job;
    let told = version(call, &job)?;
    Ok(Listener {
        app: Arc::clone(&call.app),
        watched,
        job: job.id,
        told,
        seen: 0,
        is_behind: told < job.version,
        queue: job.queue,
        kind: job.kind,
        _counted: call.app.hub.counted(),
    })
}

/// `GET /v1/jobs/{id}/feed`, as a stream.
pub(crate) async fn stream(call: Call) -> Reply {
    let open = sse::Open::of(&call)?;
    let listener = listener(&call).await?;
    let opening = sse::opening(&listener.told.to_string());
    Ok(sse::respond(listener, open, opening))
}

/// `GET /v1/jobs/{id}/feed`, as a page.
pub(crate) async fn page(call: Call) -> Reply {
    let mut listener = listener(&call).await?;
    let limit = call.query.limit(PAGE)?.min(PAGE);
    let wait_ms = call.query.span_ms("wait", WAIT_MAX_MS)?.unwrap_or_default();
    let until = Instant::now() + Duration::from_millis(wait_ms as u64);
    let mut pass = call.who.pass(&call.app);
    let events = loop {
        let events = listener.read(limit).await?;
        if !events.is_empty() || Instant::now() >= until || listener.app.is_ending() {
            break events;
        }
        tokio::select! {
            changed = listener.watched.news.changed() => if changed.is_err() { sleep(Duration::from_secs(1)).await },
            () = listener.app.ending.reached(Level::Graceful) => {}
            () = pass.over() => return Err(revoked()),
            () = sleep_until(until) => {}
        }
    };
    let next_cursor = events.last().map_or(listener.told, |event| event.version).to_string();
    let events = events.iter().map(|event| listener.shape(event)).collect();
    ok(&JobPage { events, next_cursor })
}

#[derive(Serialize)]
struct JobPage {
    events: Vec<EventShape>,
    next_cursor: String,
}

impl Listener {
    async fn read(&self, limit: usize) -> StoreResult<Vec<Event>> {
        let request = ReadEvents { job: self.job, after: self.told, limit, newest_first: false };
        self.app.store.events(request, None).await
    }

    fn shape(&self, event: &Event) -> EventShape {
        let mut shape = EventShape::of(event);
        shape.job_id = Some(self.job.to_string());
        shape.queue = Some(self.queue.to_string());
        shape.kind = Some(self.kind.to_string());
        shape
    }

    /// What the reader kept of this job, if it follows on what was told.
    fn kept(&mut self) -> VecDeque<Bytes> {
        let mut frames = VecDeque::new();
        // This first: what is told from here on is heard of again.
        let newest = *self.watched.news.borrow_and_update();
        let (items, base) = self.app.hub.of_job(self.job, self.told);
        // What happened since the last look was kept, and is no more.
        self.is_behind = newest > self.seen && newest <= base;
        self.seen = newest;
        for item in items {
            if item.version != self.told + 1 {
                self.is_behind = true;
                break;
            }
            self.told = item.version;
            frames.push_back(Bytes::from(format!("id: {}\n", item.version)));
            frames.push_back(item.data(false));
        }
        frames
    }

    async fn log(&mut self) -> VecDeque<Bytes> {
        let mut frames = VecDeque::new();
        let Ok(events) = self.read(PAGE).await else {
            sleep(Duration::from_secs(1)).await;
            return frames;
        };
        self.is_behind = events.len() == PAGE;
        for event in &events {
            self.told = event.version;
            let mut frame = format!("id: {}\n", event.version).into_bytes();
            data_lines(&serde_json::to_vec(&self.shape(event)).unwrap_or_default(), &mut frame);
            frames.push_back(Bytes::from(frame));
        }
        frames
    }
}

impl Listen for Listener {
    async fn next(&mut self) -> Option<VecDeque<Bytes>> {
        let silent_until = Instant::now() + self.app.comment_every;
        loop {
            if self.app.is_ending() {
                return None;
            }
            // What is done now and then is boxed, so that many who only wait take little room.
            let frames = if self.is_behind { Box::pin(self.log()).await } else { self.kept() };
            if !frames.is_empty() {
                return Some(frames);
            }
            if self.is_behind {
                continue;
            }
            tokio::select! {
                changed = self.watched.news.changed() => {
                    // The feed was begun anew: the log says what is new, and the watch is taken up again.
                    if changed.is_err() {
                        self.watched = self.app.hub.watch(self.job);
                        self.is_behind = true;
                        self.seen = 0;
                    }
                }
                () = self.app.ending.reached(Level::Graceful) => return None,
                () = sleep_until(silent_until) => return Some(VecDeque::from([sse::comment()])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hub::Hub;
    use super::super::item::Item;
    use super::*;
    use crate::body::Patience;
    use crate::throttle::Limits;
    use windlass_core::{Actor, Facts, FeedCursor, NewJob, Payload};
    use windlass_memory::MemoryStore;
    use windlass_store::{Enqueue, Feed, ReadFeed, Store, fresh};

    async fn enqueue(store: &dyn Store, payload: &str) -> JobId {
        let name = |text| Name::parse("name", text).unwrap();
        let (id, facts) = (fresh::job_id(), Facts::new(name("kind"), name("queue")));
        let payload = Some(Payload::from_value("payload", &payload, 1 << 20).unwrap());
        let jobs = vec![NewJob { id, facts, payload, parent_token: None }];
        store.enqueue(Enqueue { jobs, actor: Actor::api(), idempotency: None }, None).await.unwrap().unwrap();
        id
    }

    /// What the reader does with a page, in its two halves.
    struct Page(Vec<Arc<Item>>, (u64, u64));

    impl Page {
        async fn push(hub: &Hub, store: &MemoryStore, after: &mut FeedCursor) -> Self {
            let request = ReadFeed { after: Some(after.clone()), limit: 100, payloads: true };
            let page = store.feed(request, None).await.unwrap().unwrap();
            *after = page.next;
            let items: Vec<_> = page.events.into_iter().map(|event| Arc::new(Item::new(event))).collect();
            let news = hub.push(&items, after.clone(), None);
            Self(items, news)
        }

        fn tell(self, hub: &Hub) {
            hub.tell(&self.0, self.1);
        }
    }

    /// J9: the log is read for what the reader keeps no more, and only then. A listener may take an item before it is
    /// told of it, and is told of it afterwards.
    #[tokio::test]
    async fn the_log_is_read_only_for_what_was_dropped() {
        let store = Arc::new(MemoryStore::new());
        let app = Arc::new(App::new(
            store.clone(),
            Patience::default(),
            Duration::from_secs(15),
            Limits::default(),
            windlass_core::LeaseMs::DEFAULT,
        ));
        let hub = Arc::clone(&app.hub);
        let mut after = store.feed_head((), None).await.unwrap();
        let job = enqueue(&*store, "small").await;
        let name = |text| Name::parse("name", text).unwrap();
        let mut listener = Listener {
            watched: hub.watch(job),
            job,
            queue: name("queue"),
            kind: name("kind"),
            told: 0,
            seen: 0,
            is_behind: false,
            _counted: hub.counted(),
            app,
        };
        let page = Page::push(&hub, &store, &mut after).await;
        assert_eq!((listener.kept().len(), listener.told), (2, 1), "an id and an event");
        page.tell(&hub);
        assert!(listener.watched.news.has_changed().unwrap());
        assert!(listener.kept().is_empty() && !listener.is_behind, "it was taken already");

        let large = "x".repeat(1_000_000);
        listener.told = 0;
        listener.seen = 0;
        for _ in 0..20 {
            enqueue(&*store, &large).await;
        }
        Page::push(&hub, &store, &mut after).await.tell(&hub);
        assert!(listener.kept().is_empty() && listener.is_behind, "it was dropped before it was taken");
        assert_eq!((listener.log().await.len(), listener.told), (1, 1));
        assert!(listener.kept().is_empty() && !listener.is_behind, "and is asked for once");
    }
}
