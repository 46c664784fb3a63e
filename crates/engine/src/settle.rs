//! Ending attempts in batches: at once when nothing is under way, else together with whoever ends meanwhile.

use crate::attempt::is_loss;
use crate::due_timers::DueTimers;
use crate::error::failure;
use crate::health;
use crate::holdings::{Ended, Holdings};
use crate::reach::Reach;
use crate::repeat::{Pause, jittered};
use crate::task::detach;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use windlass_core::{Answer, Outcome, Refusal, RunAt, Status};
use windlass_store::{Settle, SettleItem};

/// The most attempts of one settle: large enough to be cheap, small enough to take a few milliseconds.
const BATCH: usize = 1_000;
/// How long after a store said that a job is locked it is asked again.
const BUSY: Duration = Duration::from_millis(250);

/// Who settles.
pub(crate) struct Settler {
    pub(crate) reach: Arc<Reach>,
    pub(crate) holdings: Arc<Holdings>,
    /// When jobs that this worker let go are due again.
    pub(crate) soon: Arc<DueTimers>,
    /// There may be a deadline that has passed.
    pub(crate) sweep: Arc<Notify>,
}

/// Settles what comes until nobody can send any more. The channel has no limit of its own because a worker holds a
/// limited number of leases, and each ends once.
pub(crate) async fn run(settler: Arc<Settler>, queue: &mut UnboundedReceiver<Ended>) {
    let mut settled = Settled::default();
    loop {
        if queue.is_empty() {
            settled.conclude(&settler);
        }
        let mut batch = Vec::with_capacity(BATCH);
        if queue.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        settler.holdings.metrics.settle_batch.record(batch.len() as f64);
        // The store has its next batch before the last one is put away.
        let next = settle(&settler, batch);
        settled = tokio::join!(biased; next, async { settled.conclude(&settler) }).0;
    }
}

/// A batch that was answered.
#[derive(Default)]
struct Settled {
    batch: Vec<Ended>,
    answers: Vec<Answer>,
}

impl Settled {
    fn conclude(&mut self, settler: &Arc<Settler>) {
        if !self.batch.is_empty() {
            conclude(settler, std::mem::take(&mut self.batch), std::mem::take(&mut self.answers));
        }
    }
}

/// Settles a batch until the store answers or the leases are over.
async fn settle(settler: &Settler, mut batch: Vec<Ended>) -> Settled {
    let mut pause = Pause::default();
    loop {
        let over = settler.holdings.leases.over(batch.iter().map(|ended| &ended.attempt));
        let (mut over, now) = (over.into_iter(), Instant::now());
        batch.retain(|ended| match over.next().flatten() {
            Some(over) if over > now => true,
            _ => {
                too_late(settler, ended);
                false
            }
        });
        if batch.is_empty() {
            return Settled::default();
        }
        let item = |ended: &Ended| SettleItem {
            job: ended.attempt.job_id(),
            token: ended.attempt.lease_token(),
            outcome: ended.outcome.clone(),
        };
        let request = Settle { items: batch.iter().map(item).collect() };
        match settler.reach.ask(settler.reach.source.settle(request)).await {
            Ok(answers) => {
                settler.reach.health.answered(health::Line::Work);
                return Settled { batch, answers };
            }
            Err(error) => {
                settler.reach.health.failed(health::Line::Work, &error);
                // What may have happened is asked again at once: the repeat is answered from the log.
                if !error.is_unknown() || !pause.is_first() {
                    tokio::time::sleep(pause.next()).await;
                } else {
                    pause.next();
                }
            }
        }
    }
}

/// An attempt can no longer be settled, because somebody else may have the job: its result is discarded.
fn too_late(settler: &Settler, ended: &Ended) {
    let (job, attempt) = (ended.attempt.job_id(), ended.attempt.number());
    tracing::warn!(%job, attempt, "the lease ended before the outcome could be stored; it is discarded");
    settler.holdings.metrics.lease_lost.increment(1);
    settler.holdings.leases.remove([&ended.attempt]);
    note_timeout(settler, ended);
}

/// Settles jobs that were locked, apart from all others, whose answers would wait for theirs.
fn settle_busy(settler: &Arc<Settler>, busy: Vec<Ended>) {
    let settler = Arc::clone(settler);
    detach(async move {
        tokio::time::sleep(jittered(BUSY)).await;
        settle(&settler, busy).await.conclude(&settler);
    });
}

fn conclude(settler: &Arc<Settler>, batch: Vec<Ended>, answers: Vec<Answer>) {
    let (mut done, mut due, mut busy) = (Vec::with_capacity(batch.len()), Vec::new(), Vec::new());
    for (ended, answer) in batch.into_iter().zip(answers) {
        match answer {
            Ok(_) => {
                due.extend(next_due(&ended));
                done.push(ended.attempt);
            }
            Err(Refusal::Busy) => busy.push(ended),
            Err(refusal) if is_loss(&refusal) => {
                refused(settler, &ended, &refusal);
                done.push(ended.attempt);
            }
            Err(refusal) => match instead(&ended, &refusal) {
                Some(outcome) => settler.holdings.settle(Ended { attempt: ended.attempt, outcome }),
                None => {
                    let job = ended.attempt.job_id();
                    tracing::error!(%job, %refusal, "an outcome was refused; the job is taken up when its lease is over");
                    done.push(ended.attempt);
                }
            },
        }
    }
    settler.holdings.leases.remove(&done);
    settler.holdings.clear();
    settler.soon.remember(due);
    if !busy.is_empty() {
        settle_busy(settler, busy);
    }
}

fn refused(settler: &Settler, ended: &Ended, refusal: &Refusal) {
    let (job, attempt) = (ended.attempt.job_id(), ended.attempt.number());
    match refusal {
        // Completed in the handler's own transaction, or stopped by an operator meanwhile.
        Refusal::Finished(Status::Completed | Status::Cancelled) => {
            tracing::debug!(%job, attempt, %refusal, "the job had ended already");
        }
        _ => {
            tracing::warn!(%job, attempt, %refusal, "the outcome came too late; it is discarded");
            settler.holdings.metrics.lease_lost.increment(1);
            note_timeout(settler, ended);
        }
    }
}

/// A timeout that came too late to be settled stands in the store as a deadline that has passed.
fn note_timeout(settler: &Settler, ended: &Ended) {
    if ended.outcome == Outcome::TimeOut {
        settler.sweep.notify_one();
    }
}

/// What to settle when the outcome itself is not acceptable, such as a result that is too large: a failure that says
/// so, for good, because the next attempt would only make the same.
fn instead(ended: &Ended, refusal: &Refusal) -> Option<Outcome> {
    if matches!(ended.outcome, Outcome::Fail { permanent: true, .. }) {
        return None;
    }
    let error = failure(refusal.code(), &refusal.to_string());
    Some(Outcome::Fail { error, permanent: true, run_at: None })
}

/// When a job that was just settled is due again, if this worker can tell.
fn next_due(ended: &Ended) -> Option<Instant> {
    let job = ended.attempt.job();
    let ms = |run_at: RunAt| match run_at {
        RunAt::Now => 0,
        RunAt::After(ms) => ms,
        RunAt::At(at) => (at.as_micros() - ended.attempt.now().as_micros()) / 1_000 + 1,
    };
    let after = match &ended.outcome {
        Outcome::Release(run_at) | Outcome::Fail { run_at: Some(run_at), permanent: false, .. } => {
            ms(*run_at)
        }
        Outcome::Fail { permanent: false, .. } | Outcome::TimeOut => {
            job.backoff.unwrap_or_default().delay_ms(job.retries, job.id, job.attempt)
        }
        // Others may end the hold, or be first in its lane: a hint, not a promise.
        Outcome::RateLimited(after_ms) => *after_ms,
        Outcome::Wait(wait, _) => ms(RunAt::At(wait.until?)),
        _ => return None,
    };
    let after = u64::try_from(after).unwrap_or(0);
    Instant::now().checked_add(std::time::Duration::from_millis(after))
}
