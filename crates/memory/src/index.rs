//! The orders in which jobs are found without looking at every one.
//!
//! A place in a list is a [`Cursor`], and comparing cursors is the order of the list. So an index is a set of
//! cursors, and a claim, a page and a count are stretches of it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Bound;
use windlass_core::limits::{PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::{Count, Cursor, Job, JobId, Name, Order, Status, Timestamp, Who};

const ORDERS: [Order; 5] = [Order::Created, Order::Finished, Order::Due, Order::Worker, Order::Parked];
const FIRST_ID: JobId = JobId::from_bytes([0; 16]);
const LAST_ID: JobId = JobId::from_bytes([0xff; 16]);
const LONG_AGO: Timestamp = Timestamp::from_micros(i64::MIN);

/// Where every job stands, in every order.
#[derive(Default)]
pub(crate) struct Index {
    /// One set per order, in the order of [`ORDERS`].
    lists: [BTreeSet<Cursor>; ORDERS.len()],
    /// When the engine must act, soonest first.
    deadlines: BTreeSet<(Timestamp, JobId)>,
}

impl Index {
    /// Moves a job from where it stood to where it stands. Places that stay the same are not touched.
    pub fn replace(&mut self, before: Option<&Job>, after: Option<&Job>) {
        for (order, list) in ORDERS.into_iter().zip(&mut self.lists) {
            let old = before.and_then(|job| Cursor::of(order, job));
            let new = after.and_then(|job| Cursor::of(order, job));
            swap(list, old, new);
        }
        let deadline = |job: &Job| job.deadline_at.map(|t| (t, job.id));
        swap(&mut self.deadlines, before.and_then(deadline), after.and_then(deadline));
    }

    /// The jobs of a list after a cursor, in the order of the list.
    pub fn list(&self, order: Order, after: Option<&Cursor>) -> impl DoubleEndedIterator<Item = &Cursor> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.of(order).range((start, Bound::Unbounded))
    }

    /// The next job of a line, in the order of claims: due at `now` and after a place.
    pub fn next_due(
        &self,
        queue: &Name,
        priority: i32,
        after: Option<&Cursor>,
        now: Timestamp,
    ) -> Option<&Cursor> {
        let first = due(queue, priority, LONG_AGO, FIRST_ID);
        let start = after.map_or(Bound::Included(&first), Bound::Excluded);
        let last = due(queue, priority, now, LAST_ID);
        self.of(Order::Due).range((start, Bound::Included(&last))).next()
    }

    /// The queues that have a job with a due time, by name.
    pub fn queues(&self) -> Vec<Name> {
        let mut found: Vec<Name> = Vec::new();
        loop {
            // Past the lowest priority: the next cursor belongs to the next queue.
            let last = found.last().map(|queue| due(queue, i32::MIN, LONG_AGO, FIRST_ID));
            match self.list(Order::Due, last.as_ref()).next() {
                Some(Cursor::Due(queue, ..)) => found.push(queue.clone()),
                _ => return found,
            }
        }
    }

    /// How many jobs of a queue are due at `now`, and since when the oldest is.
    pub fn due(&self, queue: &Name, cap: i64, now: Timestamp) -> (Count, Option<Timestamp>) {
        let line = |priority| {
            let first = due(queue, priority, LONG_AGO, FIRST_ID);
            self.of(Order::Due).range(first..=due(queue, priority, now, LAST_ID))
        };
        let priorities = || (PRIORITY_MIN as i32..=PRIORITY_MAX as i32).rev();
        let first_due = |cursor: &Cursor| if let Cursor::Due(_, _, t, _) = cursor { Some(*t) } else { None };
        let oldest = priorities().filter_map(|p| line(p).next().and_then(first_due)).min();
        (count(priorities().flat_map(line), cap), oldest)
    }

    /// How many jobs stand in a status.
    pub fn standing(&self, status: Status, cap: i64) -> Count {
        let range = Cursor::Parked(status, FIRST_ID)..=Cursor::Parked(status, LAST_ID);
        count(self.of(Order::Parked).range(range), cap)
    }

    /// What a worker holds or is assigned, by id.
    pub fn of_worker(&self, worker: &Who) -> impl Iterator<Item = JobId> {
        let range = Cursor::Worker(worker.clone(), FIRST_ID)..=Cursor::Worker(worker.clone(), LAST_ID);
        self.of(Order::Worker).range(range).map(id_of)
    }

    /// The next job past its deadline at `now`, after a place.
    pub fn next_deadline(
        &self,
        after: Option<(Timestamp, JobId)>,
        now: Timestamp,
    ) -> Option<(Timestamp, JobId)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.deadlines.range((start, Bound::Included((now, LAST_ID)))).next().copied()
    }

    fn of(&self, order: Order) -> &BTreeSet<Cursor> {
        let place = ORDERS.iter().position(|o| *o == order).unwrap_or_default();
        &self.lists[place]
    }
}

/// Whose place it is.
pub(crate) fn id_of(cursor: &Cursor) -> JobId {
    match cursor {
        Cursor::Created(Reverse(id)) | Cursor::Finished(Reverse((_, id))) => *id,
        Cursor::Due(_, _, _, id) | Cursor::Worker(_, id) | Cursor::Parked(_, id) => *id,
    }
}

fn due(queue: &Name, priority: i32, at: Timestamp, id: JobId) -> Cursor {
    Cursor::Due(queue.clone(), Reverse(priority), at, id)
}

fn swap<T: Ord>(set: &mut BTreeSet<T>, old: Option<T>, new: Option<T>) {
    if old == new {
        return;
    }
    if let Some(old) = old {
        set.remove(&old);
    }
    set.extend(new);
}

/// Counts up to a cap, without looking further than one past it.
fn count<T>(items: impl Iterator<Item = T>, cap: i64) -> Count {
    let cap = cap.max(0);
    let seen = items.take(usize::try_from(cap).unwrap_or(usize::MAX).saturating_add(1)).count();
    let seen = i64::try_from(seen).unwrap_or(i64::MAX);
    Count { n: seen.min(cap), capped: seen > cap }
}
