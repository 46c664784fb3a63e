//! What happened in the last minute, and where anything did in the last day, by queue, as the one reader of the feed sees it pass.

use super::item::Item;
use crate::wire::registry::RatesShape;
use std::collections::HashMap;
use windlass_core::{Name, Status, Timestamp};

/// Seconds that are remembered.
const SECONDS: usize = 60;
/// So long ago something must have happened in a queue that nobody speaks of any more.
const KNOWN_SECONDS: i64 = 24 * 3_600;
/// The most queues that are counted.
const MOST: usize = 1_000;

/// What one second saw: enqueued, started, completed, dead.
type Second = [u32; 4];

struct Line {
    /// A ring, by the second's number.
    seconds: Box<[(i64, Second); SECONDS]>,
}

/// Counts by queue.
#[derive(Default)]
pub(crate) struct Rates(HashMap<Name, Line>);

fn second(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}

impl Rates {
    /// Counts an event.
    pub(crate) fn count(&mut self, item: &Item) {
        let place = match (item.moved, item.version) {
            (Some(Status::Pending), 1) => 0,
            (Some(Status::Running), _) => 1,
            (Some(Status::Completed), _) => 2,
            (Some(Status::Failed | Status::TimedOut), _) => 3,
            _ => return,
        };
        if self.0.len() >= MOST && !self.0.contains_key(&item.queue) {
            return;
        }
        let line = self.0.entry(item.queue.clone());
        let line = line.or_insert_with(|| Line { seconds: Box::new([(i64::MIN, [0; 4]); SECONDS]) });
        let now = second(item.at);
        let (number, counts) = &mut line.seconds[now.rem_euclid(SECONDS as i64) as usize];
        if *number < now {
            (*number, *counts) = (now, [0; 4]);
        }
        if *number == now {
            counts[place] += 1;
        }
    }

    /// Queues in which something happened in the last day.
    pub(crate) fn known(&self, now: Timestamp) -> Vec<Name> {
        let oldest = second(now) - KNOWN_SECONDS;
        let is_known = |line: &Line| line.seconds.iter().any(|(number, _)| *number > oldest);
        self.0.iter().filter(|(_, line)| is_known(line)).map(|(name, _)| name.clone()).collect()
    }

    /// Per second, over the last minute.
    pub(crate) fn of(&self, queue: &Name, now: Timestamp) -> RatesShape {
        let Some(line) = self.0.get(queue) else { return RatesShape::default() };
        let oldest = second(now) - SECONDS as i64;
        let mut sums = [0u64; 4];
        for (_, counts) in line.seconds.iter().filter(|(number, _)| *number > oldest) {
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += u64::from(*n));
        }
        let [enqueued, started, completed, dead] = sums.map(|sum| sum as f64 / SECONDS as f64);
        RatesShape { enqueued, started, completed, dead }
    }
}
