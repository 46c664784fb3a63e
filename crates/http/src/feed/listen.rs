//! One who listens to everything: from a cursor, through what is kept in the store, to the live end of the feed.
//!
//! Two readers of a feed may see its events in different orders: each sees what its snapshot of the database sees. So a
//! listener that comes from the store does not look for its place among the reader's items. It begins at a place that the
//! reader had reached before the last look into the store, leaves out what it was given already, and holds the rest back
//! until the reader has seen everything that the listener has. From then on the reader's cursors are its own.

use super::gather::Gather;
use super::hub::{Hub, Mark, Taken};
use super::item::Item;
use super::sse::{self, Listen};
use super::want::Want;
use crate::app::App;
use crate::call::{Call, Reply};
use crate::codes;
use crate::problem::Problem;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::{FeedCursor, JobId, Refusal, Version};
use windlass_engine::Level;
use windlass_store::FeedPage;

/// Items that are taken at once.
const AT_ONCE: usize = 64;
/// Events of one look into the store: each may be a mebibyte.
const PAGE: usize = 100;
/// The most that is held back; beyond it, a listener goes on reading from the store.
const HELD: usize = 4_096;
/// The pause of one who cannot go on.
const PAUSE: Duration = Duration::from_secs(1);

/// Where a listener stands.
enum Stage {
    /// It takes from the reader.
    Live,
    /// It reads from the store.
    Behind {
        /// What was read, by page, with how many reads of the reader had begun by then.
        read: Vec<(u64, Vec<(JobId, Version)>)>,
        /// Whether the last page was not full: only then the next one begins with a look at now.
        is_fresh: bool,
    },
    /// It takes from the reader and leaves out what it had from the store.
    Joining {
        /// The newest version of each job that it had from the store lately.
        had: HashMap<JobId, Version>,
        /// When a read that began after this one has ended, the reader has seen all of that.
        until: u64,
        held: Vec<Arc<Item>>,
    },
}

/// One who listens to everything.
pub(crate) struct Listener {
    app: Arc<App>,
    want: Want,
    stage: Stage,
    /// Resumes after everything that was told.
    cursor: Arc<FeedCursor>,
    /// Whether `cursor` has moved since it was told.
    is_ahead: bool,
    /// The number of the next item, while it takes from the reader.
    place: u64,
    epoch: u64,
    /// What is told later, for one who wants to be told at most so often.
    gather: Option<Box<Gather>>,
    _counted: super::hub::Counted,
}

/// `GET /v1/feed`, as a stream.
pub(crate) async fn stream(call: Call) -> Reply {
    let (want, open) = (Want::of(&call)?, sse::Open::of(&call)?);
    let mut listener = match sse::resume_from(&call) {
        None => {
            let (mark, head) = call.app.hub.now().await?;
            Listener::new(&call, want, Stage::Live, head).at(mark.end, mark.epoch)
        }
        Some(text) => {
            let cursor = Arc::new(FeedCursor::parse(&text)?);
            match call.app.hub.find(&cursor) {
                Some((place, epoch)) => Listener::new(&call, want, Stage::Live, cursor).at(place, epoch),
                None => Listener::new(&call, want, behind(), cursor),
            }
        }
    };
    let opening = sse::opening(&listener.cursor.to_text());
    let mut first = vec![opening];
    if matches!(listener.stage, Stage::Behind { .. }) {
        // The first page tells whether the cursor is of any use, while there is still a status to answer.
        let page = listener.hub().behind(&listener.cursor, PAGE).await?.map_err(expired)?;
        first.extend(listener.tell(page, &Mark::default()).await);
    }
    Ok(sse::respond(listener, open, Bytes::from(first.concat())))
}

const fn behind() -> Stage {
    Stage::Behind { read: Vec::new(), is_fresh: false }
}

/// What is told of a cursor that the store does not take.
pub(crate) fn expired(refusal: Refusal) -> Problem {
    let detail = format!("{refusal}; read what you need from the lists, then begin without a cursor");
    Problem::new(codes::CURSOR_EXPIRED, detail)
}

impl Listener {
    fn new(call: &Call, want: Want, stage: Stage, cursor: Arc<FeedCursor>) -> Self {
        let app = Arc::clone(&call.app);
        let _counted = app.hub.counted();
        let gather = want.every.map(|every| Box::new(Gather::new(every)));
        Self { app, want, stage, cursor, is_ahead: false, place: 0, epoch: 0, gather, _counted }
    }

    fn at(mut self, place: u64, epoch: u64) -> Self {
        (self.place, self.epoch) = (place, epoch);
        self
    }

    fn hub(&self) -> &Arc<Hub> {
        &self.app.hub
    }

    /// Tells a page of the store, which was read after the reader had come to `mark`.
    async fn tell(&mut self, page: FeedPage, mark: &Mark) -> VecDeque<Bytes> {
        let begun = self.hub().begun();
        let is_full = page.events.len() >= PAGE;
        let mut frames = VecDeque::new();
        let mut told = Vec::with_capacity(page.events.len());
        for event in page.events {
            let item = Arc::new(Item::new(event));
            told.push((item.job, item.version));
            if self.app.hub.is_wanted(&self.want, &item).await {
                match &mut self.gather {
                    Some(gather) => gather.add(item),
                    None => frames.push_back(item.frame(self.want.is_lean)),
                }
            }
        }
        self.cursor = Arc::new(page.next);
        self.is_ahead = true;
        let Stage::Behind { read, is_fresh } = &mut self.stage else { return frames };
        // What the reader had seen before `mark` lies before the place where this listener would join.
        read.retain(|(begun, _)| *begun >= mark.covered);
        read.push((begun, told));
        let is_now = std::mem::replace(is_fresh, !is_full) && !is_full;
        if is_now && mark.head.is_some() {
            let mut had = HashMap::new();
            for (job, version) in read.drain(..).flat_map(|(_, told)| told) {
                let newest = had.entry(job).or_insert(version);
                *newest = version.max(*newest);
            }
            (self.place, self.epoch) = (mark.end, mark.epoch);
            self.stage = Stage::Joining { had, until: begun, held: Vec::new() };
            self.hub().hurry();
        }
        frames
    }

    async fn read_on(&mut self) -> Option<VecDeque<Bytes>> {
        let mark = self.hub().mark();
        match self.hub().behind(&self.cursor, PAGE).await {
            Ok(Ok(page)) => {
                let frames = self.tell(page, &mark).await;
                if mark.head.is_none() {
                    // The reader has not begun: there is nothing to join yet.
                    sleep(PAUSE / 10).await;
                }
                Some(frames)
            }
            // The store does not take it any more; whoever comes back with it is told so.
            Ok(Err(_)) => None,
            Err(_) => {
                sleep(PAUSE).await;
                Some(VecDeque::new())
            }
        }
    }

    /// Takes what the reader has, and answers whether there was anything, or the end.
    async fn take(&mut self, frames: &mut VecDeque<Bytes>) -> Option<bool> {
        match self.hub().take(self.place, self.epoch, AT_ONCE) {
            Taken::Gone => None,
            Taken::Lagged => {
                self.stage = behind();
                Some(true)
            }
            Taken::Nothing(mark) => Some(self.may_join(&mark, frames).await),
            Taken::Items(items) => {
                self.place += items.len() as u64;
                for item in items {
                    self.meet(item, frames).await;
                }
                if matches!(&self.stage, Stage::Joining { held, .. } if held.len() >= HELD) {
                    self.stage = behind();
                }
                Some(true)
            }
        }
    }

    async fn meet(&mut self, item: Arc<Item>, frames: &mut VecDeque<Bytes>) {
        match &mut self.stage {
            Stage::Joining { had, held, .. } => {
                if had.get(&item.job).is_none_or(|version| *version < item.version) {
                    held.push(item);
                }
            }
            _ => {
                self.cursor = Arc::clone(&item.cursor);
                self.is_ahead = true;
                if self.app.hub.is_wanted(&self.want, &item).await {
                    match &mut self.gather {
                        Some(gather) => gather.add(item),
                        None => {
                            frames.push_back(item.frame(self.want.is_lean));
                            self.is_ahead = false;
                        }
                    }
                }
            }
        }
    }

    /// Lets go what was held back, once the reader has seen everything that this listener has.
    async fn may_join(&mut self, mark: &Mark, frames: &mut VecDeque<Bytes>) -> bool {
        let Stage::Joining { until, held, .. } = &mut self.stage else { return false };
        if mark.covered <= *until {
            return false;
        }
        for item in std::mem::take(held) {
            if self.app.hub.is_wanted(&self.want, &item).await {
                match &mut self.gather {
                    Some(gather) => gather.add(item),
                    None => frames.push_back(item.data(self.want.is_lean)),
                }
            }
        }
        self.stage = Stage::Live;
        if let Some(head) = &mark.head {
            self.cursor = Arc::clone(head);
        }
        // The cursor stands after what is gathered, so it is told with it.
        self.is_ahead = self.gather.is_some();
        if !self.is_ahead {
            frames.push_back(sse::place(&self.cursor.to_text()));
        }
        true
    }
}

impl Listener {
    /// When what is gathered may be told, if there is any.
    fn gathered_by(&self) -> Option<Instant> {
        self.gather.as_ref().and_then(|gather| gather.due())
    }

    /// What is gathered, once it may be told.
    fn tell_gathered(&mut self) -> Option<VecDeque<Bytes>> {
        if self.gathered_by()? > Instant::now() {
            return None;
        }
        self.is_ahead = false;
        let (is_lean, cursor) = (self.want.is_lean, Arc::clone(&self.cursor));
        self.gather.as_mut().map(|gather| gather.tell(is_lean, &cursor))
    }

    /// A sign of life, with how far it has come: one who wants little need not come back to where it began.
    fn say_something(&mut self) -> VecDeque<Bytes> {
        let mut frames = VecDeque::from([sse::comment()]);
        if self.gathered_by().is_none() && std::mem::take(&mut self.is_ahead) {
            frames.push_back(sse::place(&self.cursor.to_text()));
        }
        frames
    }
}

impl Listen for Listener {
    async fn next(&mut self) -> Option<VecDeque<Bytes>> {
        let silent_until = Instant::now() + self.app.comment_every;
        let mut news = self.app.hub.news();
        let mut frames = VecDeque::new();
        while frames.is_empty() {
            if self.app.is_ending() {
                return None;
            }
            if let Some(gathered) = self.tell_gathered() {
                return Some(gathered);
            }
            if Instant::now() >= silent_until {
                return Some(self.say_something());
            }
            news.mark_unchanged();
            // What is done now and then is boxed, so that ten thousand who only wait take little room.
            let went_on = if matches!(self.stage, Stage::Behind { .. }) {
                frames = Box::pin(self.read_on()).await?;
                true
            } else {
                Box::pin(self.take(&mut frames)).await?
            };
            if went_on {
                continue;
            }
            tokio::select! {
                _ = news.changed() => {}
                () = self.app.ending.reached(Level::Graceful) => return None,
                () = sleep_until(self.gathered_by().map_or(silent_until, |due| due.min(silent_until))) => {}
            }
        }
        Some(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Patience;
    use crate::throttle::Limits;
    use windlass_core::LeaseMs;
    use windlass_memory::MemoryStore;
    use windlass_store::Feed;

    /// A listener that waits takes little room: there may be ten thousand.
    #[tokio::test]
    async fn who_waits_takes_little_room() {
        let store = Arc::new(MemoryStore::new());
        let cursor = Arc::new(store.feed_head((), None).await.unwrap());
        let (every, limits) = (Duration::from_secs(15), Limits::default());
        let app = Arc::new(App::new(store, Patience::default(), every, limits, LeaseMs::DEFAULT));
        let _counted = app.hub.counted();
        let mut listener = Listener {
            app,
            want: Want::default(),
            stage: Stage::Live,
            cursor,
            is_ahead: false,
            place: 0,
            epoch: 0,
            gather: None,
            _counted,
        };
        let (own, waiting) = (size_of::<Listener>(), size_of_val(&listener.next()));
        assert!(own < 1_024 && waiting < 1_024, "{own} bytes, and {waiting} while it waits");
    }
}
