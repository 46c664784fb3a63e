//! Jobs that are enqueued into the hands of a worker that waits for them.

use crate::{Bed, at, completes, json, key, name, together, who};
use std::sync::Arc;
use windlass_core::decide::Claim;
use windlass_core::{Actor, LeaseMs, NewJob, Refusal, RunAt, Status, Unique};
use windlass_store::{
    ClaimMany, EnqueueClaimed, EnqueuedClaimed, Faults, Faulty, Now, PauseQueue, Settle, SettleItem,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! hand_laws {
    ($($make:tt)*) => {
        $crate::law_tests!([$($make)*], hand:
            a_job_is_enqueued_into_a_waiting_workers_hands,
            what_cannot_be_handed_out_is_enqueued_all_the_same,
            a_bad_job_is_refused_to_a_waiting_worker_too,
            the_same_secret_again_returns_the_job_it_was_handed,
            of_thirty_two_that_hand_over_the_same_job_one_does,
            who_repeats_every_handing_over_completes_every_job_once,
        );
    };
}

/// Enqueues a job for a worker, under this claim.
async fn hands(bed: &Bed, job: &NewJob, claim: &Claim, now: Now) -> Result<EnqueuedClaimed, Refusal> {
    let request = EnqueueClaimed { job: job.clone(), actor: Actor::api(), claim: claim.clone() };
    bed.store.enqueue_claimed(request, now).await.expect("the store answers")
}

/// J7, Q4, T4: as if it had been enqueued and then claimed, by the store's clock and by a test's.
pub async fn a_job_is_enqueued_into_a_waiting_workers_hands(bed: Bed) {
    for now in [at(5), None] {
        let mut plain = bed.job("work");
        plain.facts.metadata.insert("tenant".into(), "acme".into());
        let mut keyed = bed.job("work");
        keyed.facts.unique = Some(Unique::in_queue(name("default"), key(&keyed.id.to_string())));
        let mut bounded = bed.job_in("work", "other");
        (bounded.facts.priority, bounded.facts.timeout_ms) = (3, Some(7_000));
        (bounded.facts.lease_ms, bounded.facts.grace_ms) = (LeaseMs::new(9_000).ok(), 500);
        let mut child = bed.job("work");
        child.facts.parent_id = Some(plain.id);
        for job in [plain, keyed, bounded, child] {
            let claim = bed.claim("w-1");
            let handed = hands(&bed, &job, &claim, now).await.expect("it is accepted");
            assert_eq!((handed.enqueued.id, handed.enqueued.existed), (job.id, false));
            let held = *handed.claimed.expect("it is due");
            assert_eq!((held.job.status, held.job.version, held.job.attempt), (Status::Running, 2, 1));
            assert_eq!(held.lease.token, claim.secret.token(job.id, 1));
            assert_eq!((&held.facts, &held.payload), (&job.facts, &job.payload));
            assert_eq!(held.metadata, job.facts.metadata);
            assert_eq!((&held.checkpoint, &held.wake, held.steps_recorded), (&None, &None, 0));
            let row = bed.row(job.id).await;
            assert_eq!(row, held.job, "what was handed out is what is stored");
            let lease_ms =
                job.facts.lease_ms.map_or(30_000, LeaseMs::get).min(job.facts.timeout_ms.unwrap_or(i64::MAX));
            let started_at = row.started_at.expect("it runs");
            assert_eq!(row.lease_expires_at, Some(started_at.plus_ms(lease_ms)));
            assert_eq!(row.due_at, Some(started_at.plus_ms(lease_ms + job.facts.grace_ms)));
            assert_eq!(bed.types(job.id).await[..2], ["job_created", "job_claimed"]);
            assert_eq!(bed.log(job.id).await[1].actor, Actor::worker(&who("w-1")));
            assert_eq!(bed.claims_from("b", &["default", "other"], 10, now).await, [], "nobody else gets it");
            bed.settles(&held, completes(), now).await.expect("its holder may end it");
        }
    }
}

/// Q3, Q14, J7
pub async fn what_cannot_be_handed_out_is_enqueued_all_the_same(bed: Bed) {
    let actor = Actor::try_from("operator:ann").expect("an actor");
    let pause = PauseQueue { name: name("closed"), pause: true, actor };
    bed.store.pause_queue(pause, at(0)).await.expect("the store answers");
    for now in [at(0), None] {
        let mut later = bed.job("work");
        later.facts.run_at = RunAt::After(60_000);
        let closed = bed.job_in("work", "closed");
        for job in [later, closed] {
            let handed = hands(&bed, &job, &bed.claim("w"), now).await.expect("it is accepted");
            assert_eq!((handed.enqueued.existed, handed.claimed), (false, None));
            assert_eq!(bed.row(job.id).await.status, Status::Pending);
            assert_eq!(bed.types(job.id).await, ["job_created"]);
        }
        let mut first = bed.job("work");
        first.facts.unique = Some(Unique::in_queue(name("default"), key(&format!("k-{}", first.id))));
        bed.enqueue(first.clone(), now).await;
        let second = NewJob { id: bed.id(), ..first.clone() };
        let handed = hands(&bed, &second, &bed.claim("w"), now).await.expect("it is accepted");
        assert_eq!((handed.enqueued.id, handed.enqueued.existed), (first.id, true));
        assert_eq!(handed.claimed, None, "what was there already waits for its turn");
        let again = hands(&bed, &first, &bed.claim("w"), now).await.expect("a repeat is not refused");
        assert_eq!((again.enqueued.existed, again.claimed), (true, None));
        assert_eq!(bed.types(first.id).await, ["job_created"]);
    }
}

/// Q1
pub async fn a_bad_job_is_refused_to_a_waiting_worker_too(bed: Bed) {
    for now in [at(0), None] {
        let mut job = bed.job("work");
        job.facts.timeout_ms = Some(-1);
        let refused = hands(&bed, &job, &bed.claim("w"), now).await;
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
        assert_eq!(bed.store.job(job.id, now).await, Ok(None));
        let known = bed.job("work");
        bed.enqueue(known.clone(), now).await;
        let other = NewJob { payload: Some(json("\"other\"")), ..known.clone() };
        assert_eq!(hands(&bed, &other, &bed.claim("w"), now).await, Err(Refusal::JobExists));
        let mut orphan = bed.job("work");
        orphan.facts.parent_id = Some(bed.id());
        let refused = hands(&bed, &orphan, &bed.claim("w"), now).await;
        assert!(matches!(refused, Err(Refusal::ParentNotFound(_))), "{refused:?}");
        assert_eq!(bed.types(known.id).await, ["job_created"]);
    }
}

/// Q7, R1: an answer that was lost is asked for again, by the same verb or by a claim.
pub async fn the_same_secret_again_returns_the_job_it_was_handed(bed: Bed) {
    for now in [at(0), None] {
        let (job, claim) = (bed.job("work"), bed.claim("w"));
        let first = hands(&bed, &job, &claim, now).await.expect("it is accepted");
        let again = hands(&bed, &job, &claim, now).await.expect("a repeat is not refused");
        assert!(again.enqueued.existed);
        assert_eq!(again.claimed, first.claimed);
        let queues = vec![name("default")];
        let asked = ClaimMany { from: None, queues, kinds: vec![], max: 1, claim: claim.clone() };
        let held = bed.store.claim(asked, now).await.expect("the store answers");
        assert_eq!(held.first(), first.claimed.as_deref());
        let another = hands(&bed, &job, &bed.claim("w"), now).await.expect("a repeat is not refused");
        assert_eq!(another.claimed, None, "not under another secret");
        bed.settles(&held[0], completes(), now).await.expect("its holder may end it");
        let late = hands(&bed, &job, &claim, now).await.expect("a repeat is not refused");
        assert_eq!((late.enqueued.existed, late.claimed), (true, None));
    }
}

/// J7, Q7
pub async fn of_thirty_two_that_hand_over_the_same_job_one_does(bed: Bed) {
    for _ in 0..10 {
        let job = bed.job("work");
        let racers = (0..32).map(|n| {
            let (bed, job) = (bed.clone(), job.clone());
            async move {
                let claim = bed.claim(&format!("w{n}"));
                hands(&bed, &job, &claim, None).await.expect("it is accepted")
            }
        });
        let handed = together(racers).await;
        assert_eq!(handed.iter().filter(|h| h.claimed.is_some()).count(), 1);
        assert_eq!(handed.iter().filter(|h| !h.enqueued.existed).count(), 1);
        assert_eq!(bed.types(job.id).await, ["job_created", "job_claimed"]);
    }
}

/// J7, Q7, R1: however many answers and requests are lost or doubled.
pub async fn who_repeats_every_handing_over_completes_every_job_once(bed: Bed) {
    for seed in [1, 20_260_101] {
        let faults = Faults { seed, fail_before: 15, lose_answer: 20, delay: 5, duplicate: 20 };
        let sick: Arc<Faulty> = Arc::new(Faulty::new(bed.store.clone(), faults));
        let workers = (0..4).map(|n| {
            let (bed, sick) = (bed.clone(), Bed::new(sick.clone()));
            async move {
                for _ in 0..20 {
                    let (job, claim) = (bed.job("work"), bed.claim(&format!("w{n}")));
                    let request = EnqueueClaimed { job: job.clone(), actor: Actor::api(), claim };
                    let handed = loop {
                        if let Ok(answer) = sick.store.enqueue_claimed(request.clone(), None).await {
                            break answer.expect("a repeat is not refused");
                        }
                    };
                    let held = handed.claimed.expect("it is its holder's");
                    let item = SettleItem { job: job.id, token: held.lease.token, outcome: completes() };
                    let settle = Settle { items: vec![item] };
                    while sick.store.settle(settle.clone(), None).await.is_err() {}
                    let types = bed.types(job.id).await;
                    assert_eq!(types, ["job_created", "job_claimed", "job_completed"]);
                }
            }
        });
        together(workers).await;
    }
}
