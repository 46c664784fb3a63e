//! The leases a worker holds, from claim to settle, measured on its own monotonic clock.
//!
//! A lease counts from before the request that gave it was sent, so this clock is never later than the store's.

use crate::attempt::Attempt;
use crate::control::Standing;
use crate::mirror::{LeaseMirror, LeaseNote};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::{JobId, LeaseMs};

/// How long a runner has to notice a timeout before the lease counts as lost.
const TIMEOUT_SLACK: Duration = Duration::from_millis(250);

/// A lease that this worker holds.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) attempt: Attempt,
    /// For how long it is renewed.
    pub(crate) lease_ms: LeaseMs,
    /// When the holder must have stopped by itself.
    pub(crate) expires: Instant,
    /// When to renew it: a third into the lease.
    pub(crate) renew_at: Instant,
}

impl Held {
    /// A lease claimed by a request sent at `sent`. One that ends because the attempt's timeout does is watched a
    /// little longer: the runner keeps that time itself and says what it was.
    pub(crate) fn new(
        attempt: Attempt,
        lease_ms: LeaseMs,
        sent: Instant,
        claimed_for: Duration,
        timeout_at: Option<Instant>,
    ) -> Self {
        let (end, renew_at) = (sent + claimed_for, sent + claimed_for / 3);
        let expires = if timeout_at.is_some_and(|at| at <= end) { end + TIMEOUT_SLACK } else { end };
        Self { attempt, lease_ms, expires, renew_at }
    }

    /// When nobody with this token may do anything any more.
    pub(crate) fn over(&self) -> Instant {
        let grace = u64::try_from(self.attempt.job().grace_ms).unwrap_or(0);
        self.expires + Duration::from_millis(grace)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// A blocking lock: it is held for a look-up or one pass, never over an await.
    held: Mutex<HashMap<JobId, Held>>,
    /// Tells the heart that something is due earlier than it thought.
    earlier: Notify,
    /// Tells who waits for the end that nothing is held any more.
    empty: Notify,
    /// Where they are shown beside the store.
    mirrors: Vec<Arc<dyn LeaseMirror>>,
}

impl Leases {
    /// None yet; what comes is shown there.
    pub(crate) fn shown_in(mirrors: Vec<Arc<dyn LeaseMirror>>) -> Self {
        Self { mirrors, ..Self::default() }
    }

    fn show(&self, lease: &Held) {
        for mirror in &self.mirrors {
            let (attempt, lasts) = (&lease.attempt, lease.over().saturating_duration_since(Instant::now()));
            mirror.holds(LeaseNote {
                job: attempt.job_id(),
                worker: attempt.worker().clone(),
                attempt: attempt.number(),
                fence: attempt.fence(),
                lasts,
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, leases: impl IntoIterator<Item = Held>) {
        let mut held = self.lock();
        for lease in leases {
            self.show(&lease);
            held.insert(lease.attempt.job_id(), lease);
        }
        drop(held);
        self.earlier.notify_waiters();
    }

    /// Lets go of attempts that are settled or lost. A newer attempt of the same job stays.
    pub(crate) fn remove<'a>(&self, attempts: impl IntoIterator<Item = &'a Attempt>) {
        let mut held = self.lock();
        for attempt in attempts {
            let id = attempt.job_id();
            if held.get(&id).is_some_and(|lease| lease.attempt.number() == attempt.number()) {
                held.remove(&id);
                self.mirrors.iter().for_each(|mirror| mirror.let_go(id, attempt.fence()));
            }
        }
        if held.is_empty() {
            self.empty.notify_waiters();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Until when each attempt may still be settled; none if its lease is gone.
    pub(crate) fn over<'a>(&self, attempts: impl IntoIterator<Item = &'a Attempt>) -> Vec<Option<Instant>> {
        let held = self.lock();
        let over = |attempt: &Attempt| {
            let lease = held.get(&attempt.job_id())?;
            (lease.attempt.number() == attempt.number()).then(|| lease.over())
        };
        attempts.into_iter().map(over).collect()
    }

    /// When the holder of this attempt must have stopped, and when its lease is over; none if it is gone.
    pub(crate) fn end(&self, attempt: &Attempt) -> Option<(Instant, Instant)> {
        let held = self.lock();
        let lease = held.get(&attempt.job_id())?;
        (lease.attempt.number() == attempt.number()).then(|| (lease.expires, lease.over()))
    }

    /// The leases to renew now. Those that would soon be due go along, so that one statement renews them all.
    pub(crate) fn due(&self, now: Instant) -> Vec<Held> {
        let held = self.lock();
        let soon = |lease: &Held| now + Duration::from_millis(lease.lease_ms.get().unsigned_abs()) / 6;
        if !held.values().any(|lease| lease.renew_at <= now) {
            return Vec::new();
        }
        held.values().filter(|lease| lease.renew_at <= soon(lease)).cloned().collect()
    }

    /// A lease was renewed by a request sent at `sent`.
    pub(crate) fn renewed(&self, attempt: &Attempt, sent: Instant) {
        let mut held = self.lock();
        if let Some(lease) = held.get_mut(&attempt.job_id())
            && lease.attempt.number() == attempt.number()
        {
            let full = Duration::from_millis(lease.lease_ms.get().unsigned_abs());
            lease.expires = lease.expires.max(sent + full);
            lease.renew_at = sent + full / 3;
            self.show(lease);
        }
    }

    /// A renewal got no answer: try these again after a pause.
    pub(crate) fn again_at(&self, attempts: &[Held], at: Instant) {
        let mut held = self.lock();
        for lease in attempts {
            if let Some(lease) = held.get_mut(&lease.attempt.job_id()) {
                lease.renew_at = at;
            }
        }
    }

    /// Attempts that still run past the end of their lease, with whether they are within their grace.
    pub(crate) fn expired(&self, now: Instant) -> Vec<(Attempt, bool)> {
        let held = self.lock();
        let past = held.values().filter(|lease| lease.expires <= now);
        let runs = past.filter(|lease| lease.attempt.control().standing() == Standing::Running);
        runs.map(|lease| (lease.attempt.clone(), lease.over() > now)).collect()
    }

    /// All attempts that still run.
    pub(crate) fn running(&self) -> Vec<Attempt> {
        let held = self.lock();
        let attempts = held.values().map(|lease| &lease.attempt);
        attempts.filter(|attempt| attempt.control().standing() == Standing::Running).cloned().collect()
    }

    /// Waits until the next renewal is due.
    pub(crate) async fn renewal(&self) {
        self.first(|lease| Some(lease.renew_at)).await;
    }

    /// Waits until the next running lease is at its end.
    pub(crate) async fn expiry(&self) {
        let running = |lease: &Held| lease.attempt.control().standing() == Standing::Running;
        self.first(|lease| running(lease).then_some(lease.expires)).await;
    }

    async fn first(&self, when: impl Fn(&Held) -> Option<Instant>) {
        loop {
            let mut earlier = std::pin::pin!(self.earlier.notified());
            earlier.as_mut().enable();
            let first = self.lock().values().filter_map(&when).min();
            match first {
                Some(at) if at <= Instant::now() => return,
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => return,
                    () = earlier => {}
                },
                None => earlier.await,
            }
        }
    }

    /// Waits until nothing is held.
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

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::decide::Claim;
    use windlass_core::{Actor, Facts, Name, NewJob, Timestamp, Who};
    use windlass_memory::MemoryStore;
    use windlass_store::{ClaimOne, Enqueue, Store, fresh};

    const LEASE_MS: i64 = 3_000;
    const LEASE: Duration = Duration::from_millis(LEASE_MS as u64);

    /// Two attempts of one job, the second of which was made after the lease of the first.
    async fn two_attempts() -> [Attempt; 2] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let name = |text| Name::parse("name", text).unwrap();
        let (id, facts) = (fresh::job_id(), Facts::new(name("kind"), name("queue")));
        let jobs = vec![NewJob { id, facts, payload: None, parent_token: None }];
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
        store.enqueue(request, Some(now)).await.unwrap().unwrap();
        let claim = async |now| {
            let lease_ms = LeaseMs::new(LEASE_MS).unwrap();
            let claim =
                Claim { worker: Who::parse("worker", "w").unwrap(), secret: fresh::secret(), lease_ms };
            let claimed = store.claim_one(ClaimOne { job: id, claim }, Some(now)).await.unwrap().unwrap();
            Attempt::new(windlass_store::work::on(Arc::clone(&store)), claimed, None)
        };
        [claim(now).await, claim(now.plus_ms(LEASE_MS)).await]
    }

    fn held(attempt: &Attempt, sent: Instant) -> Held {
        Held::new(attempt.clone(), LeaseMs::new(LEASE_MS).unwrap(), sent, LEASE, None)
    }

    /// Q14: an attempt that is over says nothing about the next one of its job.
    #[tokio::test(start_paused = true)]
    async fn an_older_attempt_does_not_speak_for_a_newer() {
        let [old, new] = two_attempts().await;
        let (leases, sent) = (Leases::default(), Instant::now());
        leases.insert([held(&new, sent)]);
        assert_eq!(leases.over([&old, &new]), [None, Some(sent + LEASE)]);
        leases.renewed(&old, sent + LEASE);
        assert_eq!(leases.over([&new]), [Some(sent + LEASE)]);
        leases.remove([&old]);
        assert_eq!(leases.len(), 1);
        leases.remove([&new]);
        assert_eq!(leases.len(), 0);
    }

    /// Q14: renewed a third into the lease, again a third after that, and over at its end.
    #[tokio::test(start_paused = true)]
    async fn a_lease_is_renewed_after_a_third() {
        let [_, attempt] = two_attempts().await;
        let (leases, sent) = (Leases::default(), Instant::now());
        leases.insert([held(&attempt, sent)]);
        leases.renewal().await;
        assert_eq!(sent.elapsed().as_millis(), 1_000);
        assert!(leases.due(sent).is_empty(), "not before");
        assert_eq!(leases.due(Instant::now()).len(), 1);
        leases.renewed(&attempt, Instant::now());
        leases.renewal().await;
        assert_eq!(sent.elapsed().as_millis(), 2_000);
        leases.expiry().await;
        assert_eq!(sent.elapsed().as_millis(), 4_000, "from the renewal on, a whole lease");
        assert_eq!(leases.expired(Instant::now()).len(), 1);
    }
}
