//! A queue whose jobs fail breaks by itself, and mends when one succeeds, also under another leader.

mod bed;

use bed::{Bed, DEADLINE, who};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_core::breaker::{Breaker, Broken};
use windlass_core::decide::Claim;
use windlass_core::{Actor, Failure, LeaseMs, Name, Outcome, QueueDefaults, QueueLimits};
use windlass_engine::Shutdown;
use windlass_engine::service::{Leader, QueueBreaker};
use windlass_store::{ClaimMany, Claimed, PutQueue, Settle, SettleItem, fresh};

/// A process that leads, or waits to; it dies with the set.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str) {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(2_000);
    let breaker = QueueBreaker::new(Arc::clone(&bed.store), leader.leading());
    let shutdown = Shutdown::new();
    tasks.spawn(async move {
        tokio::join!(leader.run(shutdown.clone()), breaker.run(shutdown));
    });
}

fn queue() -> Name {
    Name::parse("queue", "default").expect("a name")
}

async fn broken(bed: &Bed) -> Option<Broken> {
    let queues = bed.store.queues(10, None).await.expect("the store");
    queues.into_iter().find(|state| state.queue.name == queue())?.queue.flow?.broken
}

async fn claim(bed: &Bed) -> Option<Claimed> {
    let claim = Claim { worker: who("w"), secret: fresh::secret(), lease_ms: LeaseMs::DEFAULT };
    let request = ClaimMany { queues: vec![queue()], kinds: vec![], max: 1, from: None, claim };
    bed.store.claim(request, None).await.expect("the store").pop()
}

async fn settle(bed: &Bed, held: &Claimed, outcome: Outcome) {
    let item = SettleItem { job: held.job.id, token: held.lease.token, outcome };
    bed.store
        .settle(Settle { items: vec![item] }, None)
        .await
        .expect("the store")
        .remove(0)
        .expect("settled");
}

fn fails() -> Outcome {
    let error = Failure::new("down", "it is down").expect("a failure");
    Outcome::Fail { error, permanent: true, run_at: None }
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looked = async {
        while !is_so().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(DEADLINE, looked).await.is_ok(), "{what}");
}

/// Fails what comes until the queue is broken: the leader may have begun to count only now.
async fn fail_until_broken(bed: &Bed) {
    until("it never broke", async || {
        bed.put("call").await;
        if let Some(held) = claim(bed).await {
            settle(bed, &held, fails()).await;
        }
        broken(bed).await.is_some()
    })
    .await;
}

on_every_store! {
    /// F19: it breaks, stays so while nobody leads, is tried by the next leader, breaks again, and mends.
    #[test]
    async fn a_queue_breaks_and_mends_by_itself(bed: Bed) {
        let breaker = Breaker { errors: 2, of: 3, within_ms: 60_000, pause_ms: 1_000 };
        let flow = Some(QueueLimits { breaker: Some(breaker), ..QueueLimits::default() });
        let (defaults, actor) = (QueueDefaults::default(), Actor::api());
        let put = PutQueue { defaults: Some(defaults), flow, ..PutQueue::new(queue(), actor) };
        bed.store.put_queue(put, None).await.expect("the store").expect("set");
        let mut first = JoinSet::new();
        process(&bed, &mut first, "a");
        fail_until_broken(&bed).await;
        let since = broken(&bed).await.expect("broken").at;
        // Killed: what it wrote holds.
        drop(first);
        let mut second = JoinSet::new();
        process(&bed, &mut second, "b");
        let before = broken(&bed).await.expect("broken").until;
        bed.put("call").await;
        until("what was tried failed, and it did not break again", async || {
            if let Some(held) = claim(&bed).await {
                settle(&bed, &held, fails()).await;
                bed.put("call").await;
            }
            broken(&bed).await.is_some_and(|broken| broken.until > before)
        })
        .await;
        assert_eq!(broken(&bed).await.map(|broken| broken.at), Some(since));
        until("one succeeded, and it did not mend", async || {
            if let Some(held) = claim(&bed).await {
                settle(&bed, &held, Outcome::Complete(None)).await;
                bed.put("call").await;
            }
            broken(&bed).await.is_none()
        })
        .await;
        fail_until_broken(&bed).await;
    }

    /// F19: what an operator mends stays whole, although the leader remembers the failures that broke it.
    #[test]
    async fn a_queue_that_was_mended_by_hand_stays_whole(bed: Bed) {
        let breaker = Breaker { errors: 2, of: 2, within_ms: 60_000, pause_ms: 60_000 };
        let flow = Some(QueueLimits { breaker: Some(breaker), ..QueueLimits::default() });
        let put = PutQueue { flow, ..PutQueue::new(queue(), Actor::api()) };
        bed.store.put_queue(put.clone(), None).await.expect("the store").expect("set");
        let mut leads = JoinSet::new();
        process(&bed, &mut leads, "a");
        fail_until_broken(&bed).await;
        bed.store.put_queue(put, None).await.expect("the store").expect("mended");
        // Three looks of the leader.
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(broken(&bed).await, None);
        fail_until_broken(&bed).await;
    }
}
