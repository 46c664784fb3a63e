//! Offers: a worker that waits says so, and who enqueues in the same process puts a job into its hands.
//!
//! An offer is a claim that was not sent. Whoever enqueues takes it along, and the store enqueues and claims in one
//! transaction: nobody has to be told of the job and ask for it. An offer that was taken is answered whatever happens,
//! because it may have brought a job; where the answer is lost, the worker asks for what its claim holds.

use crate::lanes::{Line, Reserved};
use crate::profile::Profile;
use crate::repeat::repeat;
use crate::task;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use windlass_core::decide::Claim;
use windlass_core::{Actor, Facts, Name, NewJob, Refusal, RunAt};
use windlass_store::{Claimed, EnqueueClaimed, Enqueued, EnqueuedClaimed, Store, StoreError, StoreResult};

/// What became of an offer.
pub(crate) struct OfferReply {
    /// Since when the store may have carried it out: the lease of what came of it counts from here.
    pub(crate) since: Instant,
    pub(crate) came: Came,
}

/// What came of an offer.
pub(crate) enum Came {
    Job(Box<Claimed>),
    Nothing,
    /// Nobody heard the store's answer.
    Unknown,
}

/// The workers of a process that wait for a job. Share one between who enqueues and the workers of the same store.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use windlass_core::{Actor, Facts, Name, NewJob};
/// # use windlass_engine::{Handler, HandlerError, Offers, Worker};
/// # use windlass_memory::MemoryStore;
/// # use windlass_store::{Enqueue, Jobs, Store, fresh};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let (store, offers) = (Arc::new(MemoryStore::new()) as Arc<dyn Store>, Offers::default());
/// let echo = Handler::from_fn(|attempt| async move { Ok::<_, HandlerError>(attempt.payload().cloned()) });
/// let worker = Worker::new(Arc::clone(&store)).offers(offers.clone()).queue("mail", 32).handle("email.send", echo);
/// # let facts = Facts::new(Name::parse("kind", "email.send").unwrap(), Name::parse("queue", "mail").unwrap());
/// # let job = NewJob { id: fresh::job_id(), facts, payload: None, parent_token: None };
/// # let enqueueing = async {
/// match offers.take(&job.facts) {
///     Some(offer) => _ = offer.hand_over(store, job, Actor::api(), Duration::from_secs(10)).await?,
///     None => _ = store.enqueue(Enqueue { jobs: vec![job], actor: Actor::api(), idempotency: None }, None).await?,
/// }
/// # Ok::<_, windlass_store::StoreError>(()) };
/// # let (ran, sent) = tokio::join!(worker.run_until(async {}), enqueueing);
/// # ran.unwrap(); sent.unwrap();
/// # });
/// ```
#[derive(Clone, Default)]
pub struct Offers(Arc<Open>);

#[derive(Default)]
struct Open {
    /// How many there are, to be looked at without the lock.
    count: AtomicUsize,
    /// A blocking lock: it is held for a look.
    line: Mutex<VecDeque<Waiting>>,
}

/// An offer that nobody has taken.
struct Waiting {
    queue: Name,
    /// None means every kind.
    kinds: Arc<[Name]>,
    claim: Claim,
    tell: oneshot::Sender<OfferReply>,
    runtime: Handle,
}

impl Offers {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.0.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is offered, and counts it.
    fn change<T>(&self, change: impl FnOnce(&mut VecDeque<Waiting>) -> T) -> T {
        let mut line = self.lock();
        let changed = change(&mut line);
        self.0.count.store(line.len(), Ordering::Relaxed);
        changed
    }

    /// A worker that waits for such a job, if it is to run now. Whoever has waited longest comes first.
    pub fn take(&self, facts: &Facts) -> Option<Offer> {
        if self.0.count.load(Ordering::Relaxed) == 0 || facts.run_at != RunAt::Now {
            return None;
        }
        let fits =
            |w: &Waiting| w.queue == facts.queue && (w.kinds.is_empty() || w.kinds.contains(&facts.kind));
        let taken = self.change(|line| line.iter().position(fits).and_then(|place| line.remove(place)))?;
        let Waiting { claim, tell, runtime, .. } = taken;
        Some(Offer { claim, since: Instant::now(), tell: Some(tell), runtime })
    }
}

impl fmt::Debug for Offers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offers").field("open", &self.lock().len()).finish()
    }
}

/// A worker's offer, taken along to the store.
pub struct Offer {
    claim: Claim,
    /// Since when the store may have carried it out.
    since: Instant,
    /// Until it has said what came of it.
    tell: Option<oneshot::Sender<OfferReply>>,
    /// Where the worker's handlers run, for who enqueues outside of any runtime.
    runtime: Handle,
}

impl Offer {
    /// Enqueues the job and puts it into the worker's hands, in one transaction. A call whose answer was lost is repeated
    /// until `patience` is over. Once begun it goes on, also if what this returns is dropped or never looked at again: the
    /// worker waits for its answer.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn hand_over(
        mut self,
        store: Arc<dyn Store>,
        job: NewJob,
        actor: Actor,
        patience: Duration,
    ) -> StoreResult<Result<Enqueued, Refusal>> {
        let request = EnqueueClaimed { job, actor, claim: self.claim.clone() };
        let runtime = Handle::try_current().unwrap_or_else(|_| self.runtime.clone());
        let (tell, told) = oneshot::channel();
        let handing = async move {
            let since = Since::default();
            let answer =
                repeat(patience, || since.noting(store.enqueue_claimed(request.clone(), None))).await;
            self.since = since.first().unwrap_or(self.since);
            let (answer, claimed) = match answer {
                Ok(Ok(EnqueuedClaimed { enqueued, claimed })) => (Ok(Ok(enqueued)), claimed),
                Ok(Err(refusal)) => (Ok(Err(refusal)), None),
                // Dropped without a word.
                Err(unknown @ StoreError::Indeterminate(_)) => return Err(unknown),
                Err(failed) => (Err(failed), None),
            };
            self.say(claimed.map_or(Came::Nothing, Came::Job));
            answer
        };
        // In a task of its own: the worker must not wait until somebody looks after what this returns.
        task::detach_on(&runtime, async move {
            let _dropped = tell.send(handing.await);
        });
        let given_up = |_| Err(StoreError::Indeterminate("the task that enqueued was given up".into()));
        told.await.unwrap_or_else(given_up)
    }

    /// Under which claim the job is enqueued.
    #[cfg(test)]
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Tells the worker, once.
    fn say(&mut self, came: Came) {
        let Some(tell) = self.tell.take() else { return };
        if let Err(OfferReply { came: Came::Job(held), .. }) =
            tell.send(OfferReply { since: self.since, came })
        {
            let job = held.job.id;
            tracing::warn!(%job, "its worker has ended; the job is taken up when its lease is over");
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.say(Came::Unknown);
    }
}

/// Since when a claim that is sent again may have been carried out: as long as nothing happened, since the last call.
#[derive(Default)]
struct Since {
    /// A blocking lock: it is held for a look.
    sent: Mutex<Option<Instant>>,
    is_unknown: AtomicBool,
}

impl Since {
    /// Notes when a call is sent, and whether it may have been carried out unheard.
    async fn noting<T>(&self, call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        if !self.is_unknown.load(Ordering::Relaxed) {
            *self.lock() = Some(Instant::now());
        }
        let answer = call.await;
        if matches!(answer, Err(StoreError::Indeterminate(_))) {
            self.is_unknown.store(true, Ordering::Relaxed);
        }
        answer
    }

    fn first(&self) -> Option<Instant> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("worker", &self.claim.worker).finish_non_exhaustive()
    }
}

/// The offers that one worker has made.
pub(crate) struct OpenOffers {
    offers: Offers,
    profile: Arc<Profile>,
    runtime: Handle,
    kinds: Arc<[Name]>,
    made: Vec<OpenOffer>,
}

/// An offer as its worker knows it. It is withdrawn with its end.
pub(crate) struct OpenOffer {
    offers: Offers,
    line: Arc<Line>,
    claim: Claim,
    made_at: Instant,
    told: oneshot::Receiver<OfferReply>,
    /// What it may bring has a place in its line.
    _place: Reserved,
}

impl OpenOffer {
    pub(crate) fn queue(&self) -> &Name {
        &self.line.queue
    }

    /// What it stands for: under it, the store tells what came of the offer.
    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Whether nobody has taken it; nobody can any more.
    fn withdraw(&self) -> bool {
        let mine = |w: &Waiting| w.claim.secret == self.claim.secret;
        self.offers.change(|line| line.iter().position(mine).map(|place| line.remove(place))).is_some()
    }
}

impl Drop for OpenOffer {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl OpenOffers {
    pub(crate) fn new(offers: Offers, profile: Arc<Profile>, runtime: Handle) -> Self {
        let kinds = profile.kinds.as_slice().into();
        Self { offers, profile, runtime, kinds, made: Vec::new() }
    }

    /// Makes an offer for every line that has a place to spare beside the one that is kept for jobs in their turn.
    pub(crate) fn make(&mut self, lines: &[Arc<Line>]) {
        for line in lines {
            if self.made.iter().any(|made| Arc::ptr_eq(&made.line, line)) {
                continue;
            }
            let Some(place) = line.reserve() else { continue };
            let (claim, (tell, told)) = (self.profile.fresh_claim(), oneshot::channel());
            let (kinds, runtime) = (Arc::clone(&self.kinds), self.runtime.clone());
            let waiting = Waiting { queue: line.queue.clone(), kinds, claim: claim.clone(), tell, runtime };
            self.offers.change(|open| open.push_back(waiting));
            let (offers, line) = (self.offers.clone(), Arc::clone(line));
            self.made.push(OpenOffer { offers, line, claim, made_at: Instant::now(), told, _place: place });
        }
    }

    /// Takes back what nobody has taken. What was taken stays until it is answered.
    pub(crate) fn withdraw(&mut self) {
        self.made.retain(|made| !made.withdraw());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// The next offer that is answered, and how. Safe to drop.
    pub(crate) async fn answered(&mut self) -> (OpenOffer, OfferReply) {
        poll_fn(|cx| {
            for place in 0..self.made.len() {
                if let Poll::Ready(told) = Pin::new(&mut self.made[place].told).poll(cx) {
                    let made = self.made.swap_remove(place);
                    // It cannot go without a word.
                    let told = told.unwrap_or(OfferReply { since: made.made_at, came: Came::Unknown });
                    return Poll::Ready((made, told));
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    /// (leases) What certainly did not happen does not count, and what may have happened counts from its call.
    #[tokio::test(start_paused = true)]
    async fn a_lease_counts_from_the_first_call_that_may_have_been_carried_out() {
        let (since, second) = (Since::default(), Duration::from_secs(1));
        let away = async || {
            sleep(second).await;
            Err::<(), _>(StoreError::Unavailable("away".into()))
        };
        since.noting(away()).await.unwrap_err();
        since.noting(away()).await.unwrap_err();
        let unheard = Instant::now();
        since.noting(async { Err::<(), _>(StoreError::Indeterminate("cut".into())) }).await.unwrap_err();
        sleep(second).await;
        since.noting(away()).await.unwrap_err();
        since.noting(async { Ok(()) }).await.unwrap();
        assert_eq!(since.first(), Some(unheard));
    }
}
