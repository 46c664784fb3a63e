//! A queue of a hundred thousand keys. It is no law of the suite, for checking the invariants on every job takes minutes.

use crate::{Bed, Made, at, completes, key, time};
use std::collections::BTreeSet;
use std::future::Future;
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::limits::{ENQUEUE_MAX, LANED_CLAIM_MAX, LANED_LOOK_MAX, LANED_WALK_MAX};
use windlass_core::{Key, QueueLimits, RunAt};

/// Keys, each with one job.
const KEYS: usize = 100_000;
/// When the jobs of these keys are due.
const LATER_MS: i64 = 10_000;

/// A key that may start a job is found at once where few jobs are due, and within a bounded number of claims where many are,
/// however many keys have no room or no due job. Once all are due each has its turn before any has a second.
pub fn a_crowd_of_keys<Making: Future<Output = Made>>(make: impl FnOnce() -> Making) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let made = make().await;
        let bed = Bed::new(made.store.clone());
        let each = LaneRule { concurrency: Some(1), ..LaneRule::default() };
        let lanes = Some(Lanes { each, ..Lanes::default() });
        bed.limits(QueueLimits { lanes, ..QueueLimits::default() }, at(0)).await;
        for from in (0..KEYS).step_by(ENQUEUE_MAX) {
            let later = |n: usize| {
                let mut job = bed.keyed(&format!("later-{n}"));
                job.facts.run_at = RunAt::At(time(LATER_MS));
                job
            };
            bed.enqueue_all((from..from + ENQUEUE_MAX).map(later).collect(), at(0)).await;
        }
        few_are_due(&bed).await;
        many_are_due(&bed).await;
        all_are_due(&bed).await;
        drop(made.keep);
    });
}

async fn few_are_due(bed: &Bed) {
    let free = bed.enqueues("free", 1, at(1)).await;
    let held = bed.claims("w", LANED_CLAIM_MAX, at(1)).await;
    assert_eq!(crate::lanes::ids(&held), free, "found among keys of which nothing is due yet");
    bed.settles(&held[0], completes(), at(1)).await.expect("settled");
}

/// More than a claim looks at, of a key that has no room.
async fn many_are_due(bed: &Bed) {
    bed.enqueues("many", LANED_LOOK_MAX + 1_000, at(2)).await;
    let (mut claims, mut found) = (0, BTreeSet::new());
    let free = bed.enqueues("free", 1, at(2)).await[0];
    while !found.contains(&free) {
        claims += 1;
        assert!(claims <= KEYS / LANED_WALK_MAX + 3, "{claims} claims, and it was not found");
        found.extend(crate::lanes::ids(&bed.claims("w", LANED_CLAIM_MAX, at(3)).await));
    }
    assert!(found.len() <= 2, "the one, and one of the other key");
}

async fn all_are_due(bed: &Bed) {
    let (mut seen, mut claimed) = (BTreeSet::<Key>::new(), 0);
    for n in 0..10 {
        let held = bed.claims("w", LANED_CLAIM_MAX, at(LATER_MS + n)).await;
        claimed += held.len();
        seen.extend(held.into_iter().filter_map(|held| held.facts.key));
    }
    assert_eq!(claimed, 10 * LANED_CLAIM_MAX);
    assert_eq!(seen.len(), claimed, "no key has a second turn");
    assert!(!seen.contains(&key("many")), "it has no room");
}
