//! One who listens to one job. Its cursor is the job's version, so nothing can be missed or told twice: what does not
//! follow directly on what was told is read from the job's log.

use super::hub::{Counted, Watched};
use super::item::data_lines;
use super::sse::{self, Listen};
use crate::access::Principal;
use crate::app::App;
use crate::call::{Call, Reply, ok};
use crate::shape::event::EventShape;
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
    who: Principal,
    watched: Watched,
    job: JobId,
    queue: Name,
    kind: Name,
    /// The newest event that was told.
    told: Version,
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
        who: call.who.clone(),
        watched,
        job: job.id,
        told,
        is_behind: told < job.version,
        queue: job.queue,
        kind: job.kind,
        _counted: call.app.hub.counted(),
    })
}

/// `GET /v1/jobs/{id}/feed`, as a stream.
pub(crate) async fn stream(call: Call) -> Reply {
    let listener = listener(&call).await?;
    let opening = sse::opening(&listener.told.to_string());
    Ok(sse::respond(listener, opening))
}

/// `GET /v1/jobs/{id}/feed`, as a page.
pub(crate) async fn page(call: Call) -> Reply {
    let mut listener = listener(&call).await?;
    let limit = call.query.limit(PAGE)?.min(PAGE);
    let wait_ms = call.query.span_ms("wait", WAIT_MAX_MS)?.unwrap_or_default();
    let until = Instant::now() + Duration::from_millis(wait_ms as u64);
    let events = loop {
        let events = listener.read(limit).await?;
        if !events.is_empty() || Instant::now() >= until || listener.app.is_ending() {
            break events;
        }
        tokio::select! {
            changed = listener.watched.news.changed() => if changed.is_err() { sleep(Duration::from_secs(1)).await },
            () = listener.app.ending.reached(Level::Graceful) => {}
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
        for item in self.app.hub.of_job(self.job, self.told) {
            if item.version != self.told + 1 {
                self.is_behind = true;
                break;
            }
            self.told = item.version;
            frames.push_back(Bytes::from(format!("id: {}\n", item.version)));
            frames.push_back(item.data());
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
            self.watched.news.mark_unchanged();
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
                    } else if self.app.hub.of_job(self.job, self.told).is_empty() {
                        // It was kept, and is no more.
                        self.is_behind = true;
                    }
                }
                () = self.app.ending.reached(Level::Graceful) => return None,
                () = sleep_until(silent_until) => {
                    let may = Box::pin(sse::may_still(&self.app, &self.who)).await;
                    return may.then(|| VecDeque::from([sse::comment()]));
                }
            }
        }
    }
}
