//! A load of producers and workers that repeat every call until it is answered, and keep count of what they were told.
//!
//! What they check on the way: a job that "existed" at its first telling was either told as lost before or given up by
//! the caller; after nothing but "unavailable" nothing may have happened.

use super::{soon, until};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use windlass_conformance::{Bed, fails_for_good, invariants, json, key, name};
use windlass_core::unique::{Policy, Scope, Unique};
use windlass_core::{Actor, Done, JobId, LeaseMs, NewJob, Outcome, Refusal, Status};
use windlass_store::{ClaimMany, Claimed, Enqueue, Extend, Settle, SettleItem, StoreError, StoreResult};

/// What happened so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Jobs whose enqueueing was acknowledged.
    pub enqueued: AtomicU32,
    /// Jobs whose end was acknowledged.
    pub settled: AtomicU32,
    /// Calls that were told that nothing happened.
    pub unavailable: AtomicU32,
    /// Calls that were told that their answer was lost.
    pub indeterminate: AtomicU32,
    /// Calls that were given up half-way.
    pub dropped: AtomicU32,
    draws: AtomicU64,
}

/// A load on one store.
#[derive(Clone)]
pub struct Load {
    pub bed: Bed,
    pub tally: Arc<Tally>,
    /// How many of a hundred calls are dropped after at most three milliseconds.
    pub drop_percent: u64,
    jobs: u32,
}

/// How often a call was tried in vain, and whether it may have happened all the same.
#[derive(Default)]
struct Tries {
    maybe_done: bool,
}

impl Load {
    /// So many jobs, all of them enqueued, claimed, renewed and settled.
    pub fn new(bed: Bed, jobs: u32) -> Self {
        Self { bed, tally: Arc::default(), drop_percent: 0, jobs }
    }

    /// Runs it to its end beside `trouble`, which is dropped when everything is done.
    pub async fn run(&self, trouble: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        for n in 0..6 {
            let load = self.clone();
            tasks.spawn(async move { load.produce(n).await });
        }
        for n in 0..6 {
            let load = self.clone();
            tasks.spawn(async move { load.work(n).await });
        }
        let mut trouble = std::pin::pin!(trouble);
        let mut over = false;
        let done = async {
            loop {
                tokio::select! {
                    ended = tasks.join_next() => match ended {
                        Some(ended) => ended.expect("nobody panics"),
                        None => return,
                    },
                    () = &mut trouble, if !over => over = true,
                }
            }
        };
        soon("the load is done", done).await;
    }

    /// What must be so afterwards: every job there once and ended once, the invariants, no transaction left open.
    pub async fn check(&self, hand: &Client) {
        let jobs = invariants::every_job(&self.bed).await;
        assert_eq!(jobs.len() as u32, self.jobs, "every acknowledged job is there, once");
        for job in &jobs {
            let types = self.bed.types(job.id).await;
            assert_eq!(types[..2], ["job_created", "job_claimed"], "{job:?}");
            let end = if job.status == Status::Failed { "job_failed" } else { "job_completed" };
            assert_eq!(types[2..], [end], "{job:?}");
        }
        invariants::check(&self.bed).await;
        until("no transaction is left open", async || {
            let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
            hand.query_one(open, &[]).await.expect("a count").get::<_, i64>(0) == 0
        })
        .await;
    }

    fn draw(&self) -> u64 {
        let n = self.tally.draws.fetch_add(1, Ordering::Relaxed);
        // SplitMix64.
        let z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
    }

    /// Repeats the very same call until it is answered.
    async fn answered<T, F: Future<Output = StoreResult<T>>>(&self, call: impl Fn() -> F) -> (T, Tries) {
        let mut tries = Tries::default();
        loop {
            let drawn = self.draw();
            let answer = if drawn % 100 < self.drop_percent {
                let Ok(answer) = tokio::time::timeout(Duration::from_micros(drawn % 3_000), call()).await
                else {
                    self.tally.dropped.fetch_add(1, Ordering::Relaxed);
                    tries.maybe_done = true;
                    continue;
                };
                answer
            } else {
                call().await
            };
            match answer {
                Ok(answer) => return (answer, tries),
                Err(StoreError::Indeterminate(_)) => {
                    self.tally.indeterminate.fetch_add(1, Ordering::Relaxed);
                    tries.maybe_done = true;
                }
                Err(StoreError::Busy(_)) => {}
                Err(_) => {
                    self.tally.unavailable.fetch_add(1, Ordering::Relaxed);
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Single jobs mostly, some with a unique key, some three at a time.
    async fn produce(&self, producer: u32) {
        let mine = self.jobs / 6 + u32::from(producer < self.jobs % 6);
        let mut made = 0;
        while made < mine {
            let count = if made % 7 == 0 { 3.min(mine - made) } else { 1 };
            let mut jobs: Vec<NewJob> = (0..count).map(|_| self.bed.job("work")).collect();
            if made % 5 == 1 {
                let scope = Scope::Kind(name("work"));
                let key = key(&format!("{producer}-{made}"));
                jobs[0].facts.unique = Some(Unique { scope, key, policy: Policy::Active });
            }
            let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
            let (answer, tries) = self.answered(|| self.bed.store.enqueue(request.clone(), None)).await;
            for (told, job) in answer.expect("a repeat is not refused").iter().zip(&request.jobs) {
                assert_eq!((told.id, told.payload_differs), (job.id, false));
                assert!(!told.existed || tries.maybe_done, "nothing happened, and yet the job is there");
            }
            made += count;
            self.tally.enqueued.fetch_add(count, Ordering::Relaxed);
        }
    }

    async fn work(&self, worker: u32) {
        let mut seen: BTreeMap<JobId, i32> = BTreeMap::new();
        let mut claim = self.bed.claim(&format!("w{worker}"));
        claim.lease_ms = LeaseMs::new(600_000).expect("a lease");
        while self.tally.settled.load(Ordering::Relaxed) < self.jobs {
            // A call that was given up may still be on its way: with the same secret a later one finds what it took.
            if self.drop_percent == 0 {
                claim.secret = windlass_store::fresh::secret();
            }
            let queues = vec![name("default")];
            let request = ClaimMany { from: None, queues, kinds: vec![], max: 5, claim: claim.clone() };
            let (held, _) = self.answered(|| self.bed.store.claim(request.clone(), None)).await;
            if held.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            for held in held {
                assert_eq!(seen.insert(held.job.id, held.lease.attempt), None, "each is worked on once");
                self.renew(&held).await;
                self.settle(&held).await;
            }
        }
    }

    async fn renew(&self, held: &Claimed) {
        let lease = (held.job.id, held.lease.token);
        let extend = Extend { leases: vec![lease], extend_ms: LeaseMs::new(600_000).expect("a lease") };
        // What was cut off or given up may hold the row for a while yet.
        loop {
            let (answers, _) = self.answered(|| self.bed.store.extend(extend.clone(), None)).await;
            match &answers[0] {
                Err(Refusal::Busy) => {}
                answer => {
                    answer.as_ref().expect("a live lease is renewed");
                    return;
                }
            }
        }
    }

    async fn settle(&self, held: &Claimed) {
        let outcome = match self.draw() % 10 {
            0 => fails_for_good("broken"),
            1..4 => Outcome::Complete(None),
            _ => Outcome::Complete(Some(json("{\"ok\":true}"))),
        };
        let settle =
            Settle { items: vec![SettleItem { job: held.job.id, token: held.lease.token, outcome }] };
        let mut maybe_done = false;
        let done = loop {
            let (answers, tries) = self.answered(|| self.bed.store.settle(settle.clone(), None)).await;
            maybe_done |= tries.maybe_done;
            match answers[0].clone() {
                Err(Refusal::Busy) => {}
                answer => break answer.expect("a live lease settles"),
            }
        };
        assert_eq!(done.version(), 3);
        let repeated = matches!(done, Done::Already(_));
        assert!(!repeated || maybe_done, "nothing happened, and yet the job has ended");
        self.tally.settled.fetch_add(1, Ordering::Relaxed);
    }
}
