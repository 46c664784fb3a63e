//! Lines and lanes: a line per queue, where claimed jobs wait their turn, and as many lanes as may run at once.
//!
//! A lane is a task on the caller's runtime that runs one job after the other until its line is empty. So a burst of
//! short jobs costs a few tasks and not one each.

use crate::attempt::Attempt;
use crate::control::Standing;
use crate::handler::Handler;
use crate::holdings::{Ended, Holdings};
use crate::metrics::{KindMetrics, outcome_word};
use crate::run::{Bounds, drive};
use crate::task;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;
use windlass_core::limits::CLAIM_MAX;
use windlass_core::{Name, Outcome, RunAt};

/// How far ahead of its lanes a line is filled: what would begin within this time at the pace it has.
const AHEAD: Duration = Duration::from_millis(100);
/// The longest a job waits for a lane. Then the pace was wrong, and the job goes back: another worker may begin it sooner.
const PATIENCE: Duration = Duration::from_secs(1);
/// A claim that brought at least so many, and all that was asked for, is followed by the next one before its answer is
/// here: else the store would wait for the worker and the worker for the disk, by turns.
pub(crate) const DEEP: usize = 250;
/// A job with a timeout waits at most this part of it, because its timeout counts from the claim.
const PART_OF_TIMEOUT: u32 = 50;

/// A job that waits for a lane.
pub(crate) struct Ready {
    pub(crate) attempt: Attempt,
    pub(crate) handler: Handler,
    pub(crate) bounds: Bounds,
    pub(crate) metrics: Arc<KindMetrics>,
    pub(crate) waited: Option<Duration>,
    /// How long it may wait for a lane, counted from its claim.
    pub(crate) patience: Duration,
    /// When it goes back if it has found none.
    pub(crate) leave_at: Instant,
}

/// How long a job may wait for a lane, given how long its lease and its timeout are.
pub(crate) fn patience(lease: Duration, timeout: Option<Duration>) -> Duration {
    let timeout = timeout.map_or(PATIENCE, |timeout| timeout / PART_OF_TIMEOUT);
    PATIENCE.min(lease / 3).min(timeout)
}

/// One queue of a worker.
pub(crate) struct Line {
    pub(crate) queue: Name,
    pub(crate) concurrency: usize,
    /// A blocking lock: it is held for a push or a pop.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Ready>,
    lanes: usize,
    /// What claims may bring or have brought that is not taken in yet.
    asked: usize,
    /// Places that offers have reserved.
    offered: usize,
    /// Whether room is worth a claim: the last one may have left more behind, or there was no room to ask.
    hot: bool,
    /// Whether the last claim brought plenty, and all that was asked for.
    deep: bool,
    pace: Pace,
    /// How far ahead the line may be filled: as long as the most impatient of the last jobs that came may wait.
    reach: Option<Duration>,
    /// How many jobs would begin within that time.
    ahead: usize,
}

/// How many jobs begin per second, measured over windows that are long enough to say something.
#[derive(Default)]
struct Pace {
    since: Option<Instant>,
    begun: u32,
    per_second: f64,
}

impl Pace {
    /// The shortest window, unless it has seen `ENOUGH` jobs.
    const WINDOW: Duration = Duration::from_millis(10);
    const ENOUGH: u32 = 256;
    /// What is older than this has no say.
    const MEMORY: Duration = Duration::from_millis(200);

    fn measure(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let passed = now - since;
        if passed.is_zero() || (passed < Self::WINDOW && self.begun < Self::ENOUGH) {
            return;
        }
        let measured = f64::from(self.begun) / passed.as_secs_f64();
        let weight = (passed.as_secs_f64() / Self::MEMORY.as_secs_f64()).clamp(0.25, 1.0);
        self.per_second += (measured - self.per_second) * weight;
        (self.since, self.begun) = (Some(now), 0);
    }
}

impl Line {
    pub(crate) fn new(queue: Name, concurrency: usize) -> Self {
        Self { queue, concurrency: concurrency.max(1), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many jobs a claim may bring now. If none, whoever makes room says so.
    pub(crate) fn room(&self, now: Instant) -> usize {
        let mut state = self.lock();
        state.pace.measure(now);
        let reach = state.reach.map_or(AHEAD, |reach| reach.min(AHEAD));
        let ahead = (state.pace.per_second * reach.as_secs_f64()) as usize;
        state.ahead = ahead;
        let ready = state.ready.len() + state.asked;
        let held = ready + state.lanes + state.offered;
        // A line that is filled ahead waits until half of it is used up: few large claims instead of many small ones.
        let waits = ready > 0 && ready > ahead / 2;
        // One claim takes a part of it, so that the next can be under way meanwhile.
        let most = CLAIM_MAX.min(self.concurrency.max(DEEP).max(ahead / 4));
        let room = if waits { 0 } else { (self.concurrency + ahead).saturating_sub(held).min(most) };
        state.hot |= room == 0;
        room
    }

    pub(crate) fn is_hot(&self) -> bool {
        self.lock().hot
    }

    /// A claim brought so many jobs of this line, of a full answer or not.
    pub(crate) fn note(&self, brought: usize, full: bool) {
        let mut state = self.lock();
        // One job is a drop, and the next is hinted at; of several there may be more.
        (state.hot, state.deep) = (full || brought > 1, full && brought >= DEEP);
    }

    pub(crate) fn is_deep(&self) -> bool {
        self.lock().deep
    }

    /// A place for a job that may come out of turn, if one is left beside it for those that come in theirs.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<Reserved> {
        let mut state = self.lock();
        let held = state.ready.len() + state.asked + state.lanes + state.offered;
        if state.hot || held + 2 > self.concurrency {
            return None;
        }
        state.offered += 1;
        Some(Reserved(Arc::clone(self)))
    }

    /// Takes claimed jobs in and opens lanes for them.
    pub(crate) fn admit(self: &Arc<Self>, runtime: &Handle, holdings: &Arc<Holdings>, jobs: Vec<Ready>) {
        let mut state = self.lock();
        state.reach = jobs.iter().map(|ready| ready.patience).min();
        state.ready.extend(jobs);
        let open = state.ready.len().min(self.concurrency.saturating_sub(state.lanes));
        state.lanes += open;
        drop(state);
        for _ in 0..open {
            let lane = Lane { line: Arc::clone(self), holdings: Arc::clone(holdings), open: true };
            task::detach_on(runtime, lane.run());
        }
    }

    /// When the first of those that wait is to go back.
    pub(crate) fn leave_at(&self) -> Option<Instant> {
        self.lock().ready.iter().map(|ready| ready.leave_at).min()
    }

    /// What waits and has not begun, so that it can be given back; with a moment, only what has waited long enough then.
    pub(crate) fn take_back(&self, now: Option<Instant>) -> Vec<Attempt> {
        let mut state = self.lock();
        let leaves =
            |ready: &Ready| now.is_none_or(|now| ready.leave_at <= now || ready.attempt.is_cancelled());
        let (back, stay): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut state.ready).into_iter().partition(leaves);
        state.ready = stay;
        back.into_iter().map(|ready| ready.attempt).collect()
    }
}

/// All lines of a worker.
pub(crate) struct Lines(Vec<Arc<Line>>);

impl Lines {
    pub(crate) fn new(queues: impl IntoIterator<Item = (Name, usize)>) -> Self {
        Self(queues.into_iter().map(|(queue, concurrency)| Arc::new(Line::new(queue, concurrency))).collect())
    }

    /// How many jobs run at once.
    pub(crate) fn capacity(&self) -> usize {
        self.0.iter().map(|line| line.concurrency).sum()
    }

    /// What waits and has not begun; with a moment, only what has waited long enough then.
    pub(crate) fn take_back(&self, now: Option<Instant>) -> impl Iterator<Item = Attempt> {
        self.0.iter().flat_map(move |line| line.take_back(now))
    }
}

impl std::ops::Deref for Lines {
    type Target = [Arc<Line>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A place in a line, until it is dropped.
pub(crate) struct Reserved(Arc<Line>);

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.lock().offered -= 1;
    }
}

/// Room in lines that a claim has asked to fill. It is theirs again when what the claim brought is taken in.
pub(crate) struct Asked {
    lines: Vec<Arc<Line>>,
    max: usize,
}

impl Asked {
    pub(crate) fn of(lines: &[&Arc<Line>], max: usize) -> Self {
        let lines: Vec<Arc<Line>> = lines.iter().map(|line| Arc::clone(line)).collect();
        lines.iter().for_each(|line| line.lock().asked += max);
        Self { lines, max }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.lines.iter().for_each(|line| line.lock().asked -= self.max);
    }
}

/// One job after the other.
struct Lane {
    line: Arc<Line>,
    holdings: Arc<Holdings>,
    open: bool,
}

impl Lane {
    async fn run(mut self) {
        while let Some(ready) = self.next() {
            self.run_one(ready).await;
            // Jobs that never wait would keep the thread from everybody else.
            tokio::task::consume_budget().await;
        }
    }

    /// The next job; closes the lane when there is none, under the same lock, so that no job is left without one.
    fn next(&mut self) -> Option<Ready> {
        let mut state = self.line.lock();
        let next = state.ready.pop_front();
        if next.is_some() {
            state.pace.begun += 1;
        } else {
            state.lanes -= 1;
            self.open = false;
        }
        let claim = state.hot && state.ready.len() <= state.ahead / 2;
        drop(state);
        if claim {
            self.holdings.room.notify_one();
        }
        next
    }

    async fn run_one(&self, ready: Ready) {
        let Ready { attempt, handler, bounds, metrics, waited, .. } = ready;
        self.look(&attempt, bounds);
        match attempt.control().standing() {
            Standing::Running if attempt.is_cancelled() => return self.stop_unbegun(attempt),
            Standing::Running => {}
            Standing::GivenBack => {
                return self.holdings.settle(Ended { attempt, outcome: Outcome::Release(RunAt::Now) });
            }
            _ => return self.forget(&attempt),
        }
        let began = Instant::now();
        metrics.began(waited);
        let mut guard = Begun { holdings: &self.holdings, attempt: Some(attempt) };
        let outcome = match &guard.attempt {
            Some(attempt) => drive(handler, attempt, bounds.begun(began)).await,
            None => return,
        };
        let Some(attempt) = guard.attempt.take() else { return };
        metrics.ended(outcome_word(outcome.as_ref(), attempt.job()), began.elapsed());
        match (Some(attempt), outcome) {
            (Some(attempt), Some(outcome)) => self.holdings.settle(Ended { attempt, outcome }),
            (Some(attempt), None) => self.forget(&attempt),
            (None, _) => {}
        }
    }

    /// Whether it may still begin: what is over by this process's own clock is lost, or goes back within its grace.
    fn look(&self, attempt: &Attempt, bounds: Bounds) {
        let now = Instant::now();
        let end = self.holdings.leases.end(attempt);
        let timed_out = bounds.timeout_at.is_some_and(|at| at <= now);
        match end {
            Some((expires, _)) if expires > now && !timed_out => {}
            Some((_, over)) if over > now && !timed_out => _ = attempt.control().move_to(Standing::GivenBack),
            _ => _ = attempt.control().move_to(Standing::Lost),
        }
    }

    /// Somebody wanted it stopped before it began.
    fn stop_unbegun(&self, attempt: Attempt) {
        if attempt.control().move_to(Standing::Ended) {
            let reason = Some("it was cancelled before its handler began".to_owned());
            self.holdings.settle(Ended { attempt, outcome: Outcome::Cancelled { reason } });
        }
    }

    /// Nothing is to be settled: somebody else may have the job by now.
    fn forget(&self, attempt: &Attempt) {
        if attempt.control().standing() == Standing::Lost {
            self.holdings.metrics.lease_lost.increment(1);
            self.holdings.leases.remove([attempt]);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.open {
            self.line.lock().lanes -= 1;
        }
    }
}

/// An attempt whose handler has begun. If the runtime that runs it ends first, it is given back.
struct Begun<'a> {
    holdings: &'a Holdings,
    attempt: Option<Attempt>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.holdings.give_back(self.attempt.take());
    }
}
