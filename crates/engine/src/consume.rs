//! Jobs that messages of a broker name: each is taken by its id, out of its turn, by the worker that is sent the message.
//!
//! The store owns the job: a message says when it is taken, and never whether it is. It stays unacknowledged while the
//! attempt runs that it led to, so that the broker sends it to another worker when this one dies. There it meets a lease,
//! waits until that is over, and leads to the next attempt. A lease that was renewed meanwhile has a holder who lives: then
//! the message has nothing left to say, and the same is true of a job that has ended, waits or is for later.

mod session;
mod stage;

use crate::mirror::{LeaseMirror, LeaseNote};
use crate::service::{PublishError, Received, Source};
use async_trait::async_trait;
pub(crate) use session::run;
use stage::Stage;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use windlass_core::decide::Claim;
use windlass_core::{JobId, Name, Refusal};
use windlass_store::work::Work;
use windlass_store::{ClaimMany, ClaimOne, Claimed, StoreError, StoreResult, fresh};

/// Where messages that name jobs come from: a queue of a broker.
#[async_trait]
pub trait Deliveries: fmt::Debug + Send + Sync {
    /// Opens it, at first and again after every failure. It is to send at most `ahead` messages that are not acknowledged.
    async fn open(&self, ahead: u16) -> Result<Box<dyn Source>, PublishError>;
}

/// A message that is not answered.
struct Delivery {
    message: Received,
    stage: Stage,
}

/// The messages that a worker was sent and has not answered.
pub(crate) struct Consumer {
    deliveries: Arc<dyn Deliveries>,
    /// Which jobs this worker runs: of these queues, and of these kinds, or of all when there are none.
    queues: Vec<Name>,
    kinds: Vec<Name>,
    ahead: u16,
    /// By the job that each names. A blocking lock: it is held for a look.
    held: Mutex<HashMap<JobId, Delivery>>,
    /// There is something to look at.
    news: Notify,
    /// Nothing is held any more.
    empty: Notify,
}

impl Consumer {
    pub(crate) fn new(
        deliveries: Arc<dyn Deliveries>,
        queues: Vec<Name>,
        kinds: Vec<Name>,
        capacity: usize,
    ) -> Self {
        let ahead = u16::try_from(capacity).unwrap_or(u16::MAX);
        let (held, news, empty) = (Mutex::default(), Notify::new(), Notify::new());
        Self { deliveries, queues, kinds, ahead, held, news, empty }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Delivery>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims what was named. After an error all of it is asked for again, under the same claims: what was claimed already is
    /// then brought again.
    pub(crate) async fn claim(&self, source: &dyn Work, request: &ClaimMany) -> StoreResult<Vec<Claimed>> {
        let mut claimed = Vec::new();
        let named = self.take_ready(request);
        for request in &named {
            match source.claim_one(request.clone()).await {
                Ok(Ok(held)) => claimed.push(held),
                Ok(Err(refusal)) => self.look_again(request.job, refusal != Refusal::Busy),
                Err(error) => {
                    named.into_iter().for_each(|request| self.ready_again(request.job));
                    // What came before it may be held since then.
                    let unknown = !claimed.is_empty();
                    return Err(if unknown { StoreError::Indeterminate(error.to_string()) } else { error });
                }
            }
        }
        claimed.iter().for_each(|held| self.set(held.job.id, Stage::Claimed));
        Ok(claimed)
    }

    /// What may be claimed for this request, first come first served. From now on it is being claimed.
    fn take_ready(&self, request: &ClaimMany) -> Vec<ClaimOne> {
        let mut held = self.lock();
        let mut ready: Vec<_> = held
            .iter_mut()
            .filter_map(|(job, delivery)| match &delivery.stage {
                Stage::Ready { queue, since, .. } if request.queues.contains(queue) => {
                    Some((*since, *job, delivery))
                }
                _ => None,
            })
            .collect();
        ready.sort_by_key(|(since, ..)| *since);
        ready.truncate(request.max);
        let begin = |(_, job, delivery): (_, JobId, &mut Delivery)| {
            let fresh = || Claim { secret: fresh::secret(), ..request.claim.clone() };
            let claim = delivery.stage.begin_claim(fresh)?;
            Some(ClaimOne { job, claim })
        };
        ready.into_iter().filter_map(begin).collect()
    }

    fn set(&self, job: JobId, stage: Stage) {
        if let Some(delivery) = self.lock().get_mut(&job) {
            delivery.stage = stage;
        }
    }

    fn look_again(&self, job: JobId, refused: bool) {
        self.set(job, Stage::New { refused });
        self.news.notify_one();
    }

    fn ready_again(&self, job: JobId) {
        if let Some(delivery) = self.lock().get_mut(&job) {
            delivery.stage.end_claim();
        }
    }

    /// Forgets everything: whoever is connected anew is sent it again.
    fn forget(&self) {
        self.lock().clear();
        self.empty.notify_waiters();
    }

    /// Waits until every message is answered.
    pub(crate) async fn emptied(&self) {
        loop {
            let mut empty = std::pin::pin!(self.empty.notified());
            empty.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            empty.await;
        }
    }
}

impl LeaseMirror for Consumer {
    fn holds(&self, _lease: LeaseNote) {}

    /// Its attempt is settled, or lost: the store says what that came to.
    fn let_go(&self, job: JobId, _fence: i64) {
        if let Some(delivery) = self.lock().get_mut(&job)
            && matches!(delivery.stage, Stage::Claimed | Stage::Later(_))
        {
            delivery.stage = Stage::New { refused: false };
            self.news.notify_one();
        }
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("deliveries", &self.deliveries).finish_non_exhaustive()
    }
}
