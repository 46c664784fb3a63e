//! Ending attempts in batches: at once when nothing is under way, else together with whoever ends meanwhile.

use crate::attempt::{Attempt, is_loss};
use crate::engine::Shared;
use crate::error::failure;
use crate::health;
use crate::repeat::{Pause, jittered};
use crate::task::detach;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use windlass_core::{Answer, Outcome, Refusal, RunAt, Status};
use windlass_store::{Settle, SettleItem};

/// The most attempts of one settle: large enough to be cheap, small enough to take a few milliseconds.
const BATCH: usize = 1_000;
/// How long after a store said that a job is locked it is asked again.
const BUSY: Duration = Duration::from_millis(250);

/// An attempt that has come to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) attempt: Attempt,
    pub(crate) outcome: Outcome,
}

/// Settles what comes until nobody can send any more. The channel has no limit of its own because a worker holds a
/// limited number of leases, and each ends once.
pub(crate) async fn run(shared: Arc<Shared>, queue: &mut UnboundedReceiver<Ended>) {
    let mut settled = Settled::default();
    loop {
        if queue.is_empty() {
            settled.conclude(&shared);
        }
        let mut batch = Vec::with_capacity(BATCH);
        if queue.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        shared.metrics.settle_batch.record(batch.len() as f64);
        // The store has its next batch before the last one is put away.
        let next = settle(&shared, batch);
        settled = tokio::join!(biased; next, async { settled.conclude(&shared) }).0;
    }
}

/// A batch that was answered.
#[derive(Default)]
struct Settled {
    batch: Vec<Ended>,
    answers: Vec<Answer>,
}

impl Settled {
    fn conclude(&mut self, shared: &Arc<Shared>) {
        if !self.batch.is_empty() {
            conclude(shared, std::mem::take(&mut self.batch), std::mem::take(&mut self.answers));
        }
    }
}

/// Settles a batch until the store answers or the leases are over.
async fn settle(shared: &Shared, mut batch: Vec<Ended>) -> Settled {
    let mut pause = Pause::default();
    loop {
        let over = shared.leases.over(batch.iter().map(|ended| &ended.attempt));
        let (mut over, now) = (over.into_iter(), Instant::now());
        batch.retain(|ended| match over.next().flatten() {
            Some(over) if over > now => true,
            _ => {
                too_late(shared, ended);
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
        match shared.ask(shared.source.settle(request)).await {
            Ok(answers) => {
                shared.health.answered(health::Line::Work);
                return Settled { batch, answers };
            }
            Err(error) => {
                shared.health.failed(health::Line::Work, &error);
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
fn too_late(shared: &Shared, ended: &Ended) {
    let (job, attempt) = (ended.attempt.job_id(), ended.attempt.number());
    tracing::warn!(%job, attempt, "the lease ended before the outcome could be stored; it is discarded");
    shared.metrics.lease_lost.increment(1);
    shared.leases.remove([&ended.attempt]);
    note_timeout(shared, ended);
}

/// Settles jobs that were locked, apart from all others, whose answers would wait for theirs.
fn settle_busy(shared: &Arc<Shared>, busy: Vec<Ended>) {
    let shared = Arc::clone(shared);
    detach(async move {
        tokio::time::sleep(jittered(BUSY)).await;
        settle(&shared, busy).await.conclude(&shared);
    });
}

fn conclude(shared: &Arc<Shared>, batch: Vec<Ended>, answers: Vec<Answer>) {
    let (mut done, mut due, mut busy) = (Vec::with_capacity(batch.len()), Vec::new(), Vec::new());
    for (ended, answer) in batch.into_iter().zip(answers) {
        match answer {
            Ok(_) => {
                due.extend(next_due(&ended));
                done.push(ended.attempt);
            }
            Err(Refusal::Busy) => busy.push(ended),
            Err(refusal) if is_loss(&refusal) => {
                refused(shared, &ended, &refusal);
                done.push(ended.attempt);
            }
            Err(refusal) => match instead(&ended, &refusal) {
                Some(outcome) => shared.settle(Ended { attempt: ended.attempt, outcome }),
                None => {
                    let job = ended.attempt.job_id();
                    tracing::error!(%job, %refusal, "an outcome was refused; the job is taken up when its lease is over");
                    done.push(ended.attempt);
                }
            },
        }
    }
    shared.leases.remove(&done);
    shared.clear();
    shared.soon.remember(due);
    if !busy.is_empty() {
        settle_busy(shared, busy);
    }
}

fn refused(shared: &Shared, ended: &Ended, refusal: &Refusal) {
    let (job, attempt) = (ended.attempt.job_id(), ended.attempt.number());
    match refusal {
        // Completed in the handler's own transaction, or stopped by an operator meanwhile.
        Refusal::Finished(Status::Completed | Status::Cancelled) => {
            tracing::debug!(%job, attempt, %refusal, "the job had ended already");
        }
        _ => {
            tracing::warn!(%job, attempt, %refusal, "the outcome came too late; it is discarded");
            shared.metrics.lease_lost.increment(1);
            note_timeout(shared, ended);
        }
    }
}

/// A timeout that came too late to be settled stands in the store as a deadline that has passed.
fn note_timeout(shared: &Shared, ended: &Ended) {
    if ended.outcome == Outcome::TimeOut {
        shared.sweep.notify_one();
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
        Outcome::Wait(wait, _) => ms(RunAt::At(wait.until?)),
        _ => return None,
    };
    let after = u64::try_from(after).unwrap_or(0);
    Instant::now().checked_add(std::time::Duration::from_millis(after))
}
