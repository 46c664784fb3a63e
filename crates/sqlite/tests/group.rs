//! One commit for whoever is waiting.

mod place;

use place::{Place, wait_for};
use windlass_conformance::{invariants, together};

/// How many commits stand in the write-ahead log: a frame that ends one carries the size of the file after it.
fn commits(place: &Place) -> usize {
    let log = std::fs::read(place.path.with_extension("db-wal")).expect("a write-ahead log");
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().expect("four bytes"));
    let page = number(8) as usize;
    (32..log.len().saturating_sub(24 + page - 1))
        .step_by(24 + page)
        .filter(|frame| log[frame + 8..frame + 16] == log[16..24] && number(frame + 4) > 0)
        .count()
}

/// J5, M12: a thousand calls at once are far fewer commits, and every caller is answered after its own.
#[test]
fn calls_that_wait_together_are_committed_together() {
    wait_for(async {
        let place = Place::new();
        let bed = place.bed();
        bed.a_job(None).await;
        // A snapshot that somebody reads keeps the log from starting over.
        let hand = place.hand();
        hand.execute_batch("BEGIN; SELECT count(*) FROM jobs").expect("a snapshot");
        let before = commits(&place);
        let calls: Vec<_> = (0..1_000)
            .map(|_| {
                let (bed, job) = (bed.clone(), bed.job("work"));
                async move { bed.enqueue(job, None).await.id }
            })
            .collect();
        let ids = together(calls).await;
        let made = commits(&place) - before;
        assert!((1..=250).contains(&made), "1,000 calls took {made} commits");
        drop(hand);
        for id in ids {
            assert_eq!(bed.row(id).await.version, 1);
        }
        invariants::check(&bed).await;
    });
}
