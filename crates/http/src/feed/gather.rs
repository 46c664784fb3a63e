//! What a stream tells that is told at most so often: of each job the newest event, and how many it left out.

use super::item::Item;
use super::sse;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::{FeedCursor, JobId};

/// The most jobs of one telling. Nobody reads more in a quarter of a second.
const MOST: usize = 500;

/// What came since the last telling.
#[derive(Debug)]
pub(crate) struct Gather {
    every: Duration,
    /// Not told before this.
    due: Instant,
    /// The newest event of each job, with the number by which it came.
    newest: HashMap<JobId, (u64, Arc<Item>)>,
    came: u64,
    skipped: u64,
}

impl Gather {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, due: Instant::now(), newest: HashMap::new(), came: 0, skipped: 0 }
    }

    /// Takes an event; one of the same job that was not told yet makes room for it.
    pub(crate) fn add(&mut self, item: Arc<Item>) {
        self.came += 1;
        let is_known = self.newest.contains_key(&item.job);
        if is_known || self.newest.len() >= MOST {
            self.skipped += 1;
        }
        if is_known || self.newest.len() < MOST {
            self.newest.insert(item.job, (self.came, item));
        }
    }

    /// When there is something to tell, and it may be told.
    pub(crate) fn due(&self) -> Option<Instant> {
        (!self.newest.is_empty()).then_some(self.due)
    }

    /// Tells what came, in the order in which it came; the cursor comes last, for it stands after all of it.
    pub(crate) fn tell(&mut self, is_lean: bool, cursor: &FeedCursor) -> VecDeque<Bytes> {
        let mut items: Vec<_> = self.newest.drain().map(|(_, came)| came).collect();
        items.sort_unstable_by_key(|(came, _)| *came);
        let mut frames: VecDeque<Bytes> = items.iter().map(|(_, item)| item.data(is_lean)).collect();
        let skipped = std::mem::take(&mut self.skipped);
        if skipped > 0 {
            frames.push_back(sse::skipped(skipped));
        }
        frames.push_back(sse::place(&cursor.to_text()));
        self.due = Instant::now() + self.every;
        frames
    }
}
