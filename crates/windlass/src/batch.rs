//! Many jobs of one kind in one call: whoever comes first waits for company and makes the call for all.

use crate::context::Context;
use crate::job::Job;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use windlass_engine::HandlerError;

type Outcome<J> = Result<<J as Job>::Output, HandlerError>;

/// A job that waits for its batch.
struct Member<J: Job, S> {
    job: J,
    ctx: Context<S>,
    tell: oneshot::Sender<Outcome<J>>,
}

/// Jobs that are handled together.
struct Batch<J: Job, S> {
    members: Mutex<Vec<Member<J, S>>>,
    full: Notify,
}

/// Where jobs gather.
pub(crate) struct Batches<J: Job, S> {
    max: usize,
    wait: Duration,
    /// The batch that is still open.
    open: Mutex<Option<Arc<Batch<J, S>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<J: Job, S: Send + Sync + 'static> Batches<J, S> {
    pub(crate) fn new(max: usize, wait: Duration) -> Self {
        Self { max: max.max(1), wait, open: Mutex::new(None) }
    }

    /// Hands a job in and waits for its outcome.
    pub(crate) async fn join<F, Fut>(&self, job: J, ctx: Context<S>, handler: &F) -> Outcome<J>
    where
        F: Fn(Vec<(J, Context<S>)>) -> Fut + Sync,
        Fut: Future<Output = Vec<Outcome<J>>> + Send,
    {
        let (tell, told) = oneshot::channel();
        if let Some(batch) = self.enter(Member { job, ctx, tell }) {
            let led = Led { batches: self, batch };
            tokio::select! {
                () = led.batch.full.notified() => {}
                () = tokio::time::sleep(self.wait) => {}
            }
            led.handle(handler).await;
        }
        // Whoever made the call is gone, and with it the call: the job is given back and uses no retry.
        told.await.unwrap_or_else(|_| Err(HandlerError::snooze(Duration::ZERO)))
    }

    /// Adds a member. The first of a batch leads it.
    fn enter(&self, member: Member<J, S>) -> Option<Arc<Batch<J, S>>> {
        let mut open = lock(&self.open);
        let leads = open.is_none();
        let batch =
            open.get_or_insert_with(|| Arc::new(Batch { members: Mutex::default(), full: Notify::new() }));
        let batch = Arc::clone(batch);
        let mut members = lock(&batch.members);
        members.push(member);
        if members.len() >= self.max {
            *open = None;
            batch.full.notify_one();
        }
        drop(members);
        leads.then_some(batch)
    }
}

/// A batch, in the hands of its first member. It goes with it.
struct Led<'a, J: Job, S> {
    batches: &'a Batches<J, S>,
    batch: Arc<Batch<J, S>>,
}

impl<J: Job, S> Led<'_, J, S> {
    /// Nobody comes any more.
    fn close(&self) -> Vec<Member<J, S>> {
        let mut open = lock(&self.batches.open);
        if open.as_ref().is_some_and(|open| Arc::ptr_eq(open, &self.batch)) {
            *open = None;
        }
        std::mem::take(&mut *lock(&self.batch.members))
    }

    async fn handle<F, Fut>(&self, handler: &F)
    where
        F: Fn(Vec<(J, Context<S>)>) -> Fut,
        Fut: Future<Output = Vec<Outcome<J>>>,
    {
        // Those whose attempt has ended meanwhile are left out.
        let members = self.close().into_iter().filter(|member| !member.tell.is_closed());
        let (jobs, tells): (Vec<_>, Vec<_>) =
            members.map(|member| ((member.job, member.ctx), member.tell)).unzip();
        let number = jobs.len();
        let mut outcomes = handler(jobs).await.into_iter();
        for tell in tells {
            let missing = || {
                let message =
                    format!("the batch of {number} jobs gave fewer outcomes; give one for each, in order");
                Err(HandlerError::permanent(message).code("batch_outcome_missing"))
            };
            let _gone = tell.send(outcomes.next().unwrap_or_else(missing));
        }
    }
}

impl<J: Job, S> Drop for Led<'_, J, S> {
    fn drop(&mut self) {
        drop(self.close());
    }
}
