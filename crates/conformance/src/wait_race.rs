//! Waits under races: decided on the locked row, so no wake-up is lost and none happens twice.

use crate::wait::{child, from, keyed, resumed, sends, woken};
use crate::{Bed, Racer, at, completes, for_children, for_signal, stop, together};
use std::collections::BTreeSet;
use windlass_core::wait::WakeOutcome;
use windlass_core::{Done, Status};

/// This module's laws, as tests.
#[macro_export]
macro_rules! wait_race_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            wait_race: a_signal_racing_the_wait_is_never_lost,
            racing_signals_wake_once_and_none_is_lost,
            a_key_racing_itself_is_written_once,
            the_last_children_racing_wake_the_parent_once,
        );
    };
}

/// M8: whichever comes first, the job gets the signal.
pub async fn a_signal_racing_the_wait_is_never_lost(bed: Bed) {
    for _ in 0..60 {
        let held = bed.a_held_job("w", at(0)).await;
        let id = held.job.id;
        let (waiter, sender) = (bed.clone(), bed.clone());
        let waiting = async move { waiter.waits(&held, for_signal("go"), at(0)).await };
        let sending = async move { sender.signals(id, "go", "a", at(0)).await };
        let (waiting, sending): (Racer<_>, Racer<_>) = (Box::pin(waiting), Box::pin(sending));
        for answer in together([waiting, sending]).await {
            assert!(matches!(answer, Ok(Done::Moved(3 | 4, _))), "{answer:?}");
        }
        let (held, wake) = resumed(&bed, "w", 0).await;
        assert_eq!((wake.outcome, wake.payload), (WakeOutcome::Signalled, from("a")));
        assert_eq!(held.job.signals, 0);
        bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
    }
}

/// M8, R1
pub async fn racing_signals_wake_once_and_none_is_lost(bed: Bed) {
    for _ in 0..10 {
        let held = bed.a_held_job("w", at(0)).await;
        let id = held.job.id;
        bed.waits(&held, for_signal("go"), at(0)).await.expect("the holder may wait");
        let senders = (0..8).map(|n| {
            let (bed, request) = (bed.clone(), keyed(id, &format!("k{n}"), &n.to_string()));
            async move { sends(&bed, request, 0).await }
        });
        let versions: BTreeSet<i64> =
            together(senders).await.into_iter().map(|a| a.expect("a signal is taken").version()).collect();
        assert_eq!(versions, (4..12).collect(), "each is an event of its own");
        assert_eq!((woken(&bed, id).await, bed.row(id).await.signals), (1, 7));
        let mut seen = BTreeSet::new();
        for _ in 0..8 {
            let (held, wake) = resumed(&bed, "w", 0).await;
            seen.insert(wake.payload.expect("a payload").as_bytes().to_vec());
            bed.waits(&held, for_signal("go"), at(0)).await.expect("the holder may wait");
        }
        assert_eq!(seen.len(), 8, "each signal answered one wait");
        bed.cancels(id, stop(), at(0)).await.expect("a waiting job can be cancelled");
    }
}

/// M8, R1
pub async fn a_key_racing_itself_is_written_once(bed: Bed) {
    for _ in 0..10 {
        let id = bed.a_job(at(0)).await;
        let senders = (0..8).map(|n| {
            let (bed, request) = (bed.clone(), keyed(id, "k", &n.to_string()));
            async move { sends(&bed, request, 0).await }
        });
        let answers = together(senders).await;
        let first = answers.iter().filter(|a| **a == Ok(Done::Moved(2, Status::Pending))).count();
        let again = answers.iter().filter(|a| **a == Ok(Done::Already(2))).count();
        assert_eq!((first, again, bed.row(id).await.signals), (1, 7, 1), "{answers:?}");
    }
}

/// M8: the count of children is decided on the parent's locked row.
pub async fn the_last_children_racing_wake_the_parent_once(bed: Bed) {
    for _ in 0..30 {
        let parent = bed.a_held_job("p", at(0)).await;
        let id = parent.job.id;
        bed.enqueue_all((0..4).map(|_| child(&bed, &parent)).collect(), at(0)).await;
        bed.waits(&parent, for_children(), at(0)).await.expect("the holder may wait");
        let ends = bed.claims("w", 9, at(0)).await.into_iter().map(|held| {
            let bed = bed.clone();
            async move { bed.settles(&held, completes(), at(0)).await }
        });
        for answer in together(ends).await {
            assert_eq!(answer, Ok(Done::Moved(3, Status::Completed)));
        }
        let (held, wake) = resumed(&bed, "p", 0).await;
        assert_eq!((held.job.id, held.job.children), (id, 0));
        assert_eq!((wake.outcome, woken(&bed, id).await), (WakeOutcome::Joined, 1));
        bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
    }
}
