//! Coalescing: calls of one verb that come while others of it are under way gather, and go out together.
//!
//! A call that finds a lane free leaves at once, so nothing is ever waited for; the busier the store, the larger the
//! batches. A batch runs in a task of its own: a caller that is dropped leaves its work to be done. What a batch does,
//! and that one bad call never harms its neighbours, is the verb's to know.

use crate::db::Boxed;
use crate::error::Tried;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use windlass_store::{StoreError, StoreResult};

/// Batches of a verb under way at once: one is written while the other's answers are read.
const LANES: usize = 2;
/// A batch that takes longer than this, behind a lock perhaps, keeps its lane to itself no longer.
const SLOW: Duration = Duration::from_millis(100);
/// The most weight that leaves together: an item and a KiB weigh 1 each.
const BATCH: usize = 1_000;
/// The most weight that waits or is under way; callers beyond it wait with their request in their own hands.
const ROOM: usize = 16_000;
/// Calls that weigh more gain nothing from company.
const SMALL: usize = 100;

/// A call on its way.
pub(crate) struct Call<A, T> {
    /// What is asked.
    pub(crate) asked: A,
    weight: usize,
    tell: oneshot::Sender<StoreResult<T>>,
    /// Kept until the call is answered.
    _room: OwnedSemaphorePermit,
}

impl<A, T> Call<A, T> {
    /// Answers the caller, if it still waits.
    pub(crate) fn answer(self, answer: StoreResult<T>) {
        let _dropped = self.tell.send(answer);
    }

    /// Answers the caller with what becomes of `work`, which runs in a task of its own and keeps nobody else waiting.
    pub(crate) fn answer_later(self, work: impl Future<Output = Tried<T>> + Send + 'static)
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        let answering = async move { self.answer(work.await.map_err(|failure| failure.told())) };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(answering);
        }
    }
}

/// What is done with the calls of a batch: each is answered by itself.
type Run<A, T> = Box<dyn Fn(Vec<Call<A, T>>) -> Boxed<'static, ()> + Send + Sync>;

/// The calls of one verb.
pub(crate) struct Batcher<A, T>(Arc<Inner<A, T>>);

struct Inner<A, T> {
    run: Run<A, T>,
    lanes: usize,
    /// Whether whoever comes at the same moment is waited for.
    gathers: bool,
    room: Arc<Semaphore>,
    line: Mutex<Line<A, T>>,
}

struct Line<A, T> {
    waiting: VecDeque<Call<A, T>>,
    lanes_taken: usize,
}

impl<A, T> fmt::Debug for Batcher<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.0.line();
        let (waiting, lanes_taken) = (line.waiting.len(), line.lanes_taken);
        f.debug_struct("Batcher").field("waiting", &waiting).field("lanes_taken", &lanes_taken).finish()
    }
}

/// Whether a call of this weight gains from company.
pub(crate) fn is_small(weight: usize) -> bool {
    weight <= SMALL
}

impl<A: Send + 'static, T: Send + 'static> Batcher<A, T> {
    pub(crate) fn new(run: impl Fn(Vec<Call<A, T>>) -> Boxed<'static, ()> + Send + Sync + 'static) -> Self {
        Self::with(LANES, false, run)
    }

    /// For reads, of which a batch costs hardly more than one: in a single lane, and with those who come at the same
    /// moment, as the callers do whose writes were just committed together.
    pub(crate) fn of_reads(
        run: impl Fn(Vec<Call<A, T>>) -> Boxed<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self::with(1, true, run)
    }

    fn with(
        lanes: usize,
        gathers: bool,
        run: impl Fn(Vec<Call<A, T>>) -> Boxed<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let line = Line { waiting: VecDeque::new(), lanes_taken: 0 };
        let room = Arc::new(Semaphore::new(ROOM));
        Self(Arc::new(Inner { run: Box::new(run), lanes, gathers, room, line: Mutex::new(line) }))
    }

    /// Sends a call out, alone or in company, and waits for its own answer.
    pub(crate) async fn call(&self, asked: A, weight: usize) -> StoreResult<T> {
        let weight = weight.clamp(1, BATCH);
        let permits = u32::try_from(weight).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.0.room).acquire_many_owned(permits).await else {
            return Err(StoreError::Unavailable("the store is closed".into()));
        };
        let (tell, told) = oneshot::channel();
        self.0.line().waiting.push_back(Call { asked, weight, tell, _room: room });
        if self.0.gathers {
            tokio::task::yield_now().await;
        }
        self.0.depart();
        told.await
            .unwrap_or_else(|_| Err(StoreError::Indeterminate("the batch was given up half-way".into())))
    }
}

impl<A, T> Inner<A, T> {
    fn line(&self) -> MutexGuard<'_, Line<A, T>> {
        // Nothing that panics happens under this lock.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Send + 'static, T: Send + 'static> Inner<A, T> {
    /// Sends waiting calls out while there is a lane for them.
    fn depart(self: &Arc<Self>) {
        // Without a runtime this one is being taken down, and nobody waits any more.
        let Ok(runtime) = Handle::try_current() else { return };
        while let Some(batch) = self.line().next(self.lanes) {
            let lane = Lane(Arc::clone(self));
            let work = (self.run)(batch);
            runtime.spawn(travel(work, lane));
        }
    }
}

impl<A, T> Line<A, T> {
    /// The next batch, if there is a lane for it: from the front, at least one call.
    fn next(&mut self, lanes: usize) -> Option<Vec<Call<A, T>>> {
        if self.lanes_taken == lanes || self.waiting.is_empty() {
            return None;
        }
        self.lanes_taken += 1;
        let mut weight = 0;
        let fits = |call: &&Call<A, T>| {
            weight += call.weight;
            weight <= BATCH
        };
        let count = self.waiting.iter().take_while(fits).count().max(1);
        Some(self.waiting.drain(..count).collect())
    }
}

async fn travel<A: Send + 'static, T: Send + 'static>(mut work: Boxed<'static, ()>, lane: Lane<A, T>) {
    if tokio::time::timeout(SLOW, &mut work).await.is_err() {
        drop(lane);
        work.await;
    }
}

/// A lane in use. Its end, also by a panic, lets the next batch go.
struct Lane<A: Send + 'static, T: Send + 'static>(Arc<Inner<A, T>>);

impl<A: Send + 'static, T: Send + 'static> Drop for Lane<A, T> {
    fn drop(&mut self) {
        self.0.line().lanes_taken -= 1;
        self.0.depart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::task::JoinSet;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
    }

    /// Answers with what was asked, as soon as the gate lets a batch through; notes how large each was.
    fn echo(gate: &Arc<Semaphore>, sizes: &Arc<Mutex<Vec<usize>>>) -> Batcher<usize, usize> {
        let (gate, sizes) = (Arc::clone(gate), Arc::clone(sizes));
        Batcher::new(move |calls: Vec<Call<usize, usize>>| {
            sizes.lock().unwrap().push(calls.len());
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                gate.acquire().await.unwrap().forget();
                for call in calls {
                    let answer = call.asked;
                    call.answer(Ok(answer));
                }
            })
        })
    }

    #[test]
    fn whoever_finds_a_lane_free_leaves_at_once_and_the_others_together() {
        // One thread: nobody comes between a caller's getting in line and its leaving.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (gate, sizes) = (Arc::new(Semaphore::new(0)), Arc::default());
            let batcher = Arc::new(echo(&gate, &sizes));
            let mut calls = JoinSet::new();
            for n in 0..10 {
                let batcher = Arc::clone(&batcher);
                calls.spawn(async move { assert_eq!(batcher.call(n, 1).await, Ok(n)) });
            }
            while batcher.0.line().waiting.len() < 8 {
                tokio::task::yield_now().await;
            }
            assert_eq!(*sizes.lock().unwrap(), [1, 1]);
            gate.add_permits(10);
            calls.join_all().await;
            assert_eq!(*sizes.lock().unwrap(), [1, 1, 8]);
        });
    }

    #[test]
    fn what_waits_and_what_leaves_together_is_bounded() {
        runtime().block_on(async {
            let (gate, sizes) = (Arc::new(Semaphore::new(usize::MAX >> 4)), Arc::default());
            let batcher = Arc::new(echo(&gate, &sizes));
            let mut calls = JoinSet::new();
            for n in 0..5_000 {
                let batcher = Arc::clone(&batcher);
                calls.spawn(async move { assert_eq!(batcher.call(n, 100).await, Ok(n)) });
            }
            calls.join_all().await;
            let sizes = sizes.lock().unwrap();
            assert_eq!(sizes.iter().sum::<usize>(), 5_000);
            assert!(sizes.iter().all(|n| *n * 100 <= BATCH), "{sizes:?}");
            assert_eq!(batcher.0.room.available_permits(), ROOM, "whoever was answered makes room");
        });
    }

    #[test]
    fn a_batch_that_panics_tells_its_callers_and_blocks_nobody() {
        runtime().block_on(async {
            let ran = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&ran);
            let batcher: Batcher<usize, usize> = Batcher::new(move |calls: Vec<Call<usize, usize>>| {
                let n = counted.fetch_add(1, Ordering::Relaxed);
                Box::pin(async move {
                    assert!(n >= 4, "the first four batches panic");
                    calls.into_iter().for_each(|call| call.answer(Ok(1)));
                })
            });
            for _ in 0..4 {
                assert!(matches!(batcher.call(0, 1).await, Err(StoreError::Indeterminate(_))));
            }
            assert_eq!(batcher.call(0, 1).await, Ok(1));
        });
    }
}
