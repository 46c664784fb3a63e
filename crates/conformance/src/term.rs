//! Terms: one leader at a time, under an epoch that grows with every change of holder.

use crate::{Bed, Racer, at, name, time, together, who};
use windlass_core::{Done, LeaseMs, Refusal, Status, Term};
use windlass_store::{AcquireTerm, Assign, RenewTerm, ResignTerm};

/// This module's laws, as tests.
#[macro_export]
macro_rules! term_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            term: a_free_term_is_taken_and_its_holder_keeps_it,
            a_term_that_is_over_changes_hands_under_a_higher_epoch,
            a_holder_that_comes_back_late_reigns_anew,
            a_renewal_needs_the_live_term,
            a_resigned_term_is_free_at_once,
            terms_of_different_names_are_apart,
            a_stale_leader_assigns_nothing,
            racing_candidates_have_one_winner,
            a_stale_assignment_racing_the_failover_is_all_or_nothing,
        );
    };
}

fn term(holder: &str, epoch: i64, expires_ms: i64) -> Term {
    Term { name: name("leader"), holder: who(holder), epoch, expires_at: time(expires_ms) }
}

async fn renews(bed: &Bed, holder: &str, epoch: i64, ms: i64) -> Result<Term, Refusal> {
    let ttl_ms = LeaseMs::new(10_000).expect("a lease");
    let request = RenewTerm { name: name("leader"), holder: who(holder), epoch, ttl_ms };
    bed.store.renew_term(request, at(ms)).await.expect("the store answers")
}

async fn resigns(bed: &Bed, holder: &str, epoch: i64, ms: i64) -> Result<(), Refusal> {
    let request = ResignTerm { name: name("leader"), holder: who(holder), epoch };
    bed.store.resign_term(request, at(ms)).await.expect("the store answers")
}

async fn current(bed: &Bed, ms: i64) -> Option<Term> {
    bed.store.term(name("leader"), at(ms)).await.expect("the store answers")
}

/// R4
pub async fn a_free_term_is_taken_and_its_holder_keeps_it(bed: Bed) {
    assert_eq!(current(&bed, 0).await, None);
    assert_eq!(bed.leads("a", at(0)).await, Ok(term("a", 1, 10_000)));
    assert_eq!(bed.leads("b", at(1)).await, Err(term("a", 1, 10_000)), "it is told whose term it is");
    assert_eq!(bed.leads("a", at(5_000)).await, Ok(term("a", 1, 15_000)), "its own is renewed");
    assert_eq!(bed.leads("b", at(14_999)).await, Err(term("a", 1, 15_000)));
    assert_eq!(current(&bed, 14_999).await, Some(term("a", 1, 15_000)));
}

/// R4
pub async fn a_term_that_is_over_changes_hands_under_a_higher_epoch(bed: Bed) {
    assert_eq!(bed.leads("a", at(0)).await, Ok(term("a", 1, 10_000)));
    assert_eq!(bed.leads("b", at(10_000)).await, Ok(term("b", 2, 20_000)), "over at its very end");
    assert_eq!(bed.leads("a", at(10_001)).await, Err(term("b", 2, 20_000)));
    assert_eq!(bed.leads("a", at(20_000)).await, Ok(term("a", 3, 30_000)));
    assert_eq!(current(&bed, 99_000).await, Some(term("a", 3, 30_000)), "the last one stays known");
}

/// R4: whoever could not renew has stopped, so it begins again under an epoch of its own.
pub async fn a_holder_that_comes_back_late_reigns_anew(bed: Bed) {
    assert_eq!(bed.leads("a", at(0)).await, Ok(term("a", 1, 10_000)));
    assert_eq!(bed.leads("a", at(10_000)).await, Ok(term("a", 2, 20_000)));
    assert_eq!(renews(&bed, "a", 1, 10_001).await, Err(Refusal::StaleEpoch(2)));
}

/// R4: a leader that cannot renew must stop at once.
pub async fn a_renewal_needs_the_live_term(bed: Bed) {
    assert_eq!(renews(&bed, "a", 1, 0).await, Err(Refusal::StaleEpoch(0)), "there is no term yet");
    assert_eq!(bed.leads("a", at(0)).await, Ok(term("a", 1, 10_000)));
    assert_eq!(renews(&bed, "a", 1, 4_000).await, Ok(term("a", 1, 14_000)));
    for (holder, epoch) in [("b", 1), ("a", 2), ("a", 0)] {
        assert_eq!(renews(&bed, holder, epoch, 4_001).await, Err(Refusal::StaleEpoch(1)), "{holder} {epoch}");
    }
    assert_eq!(current(&bed, 4_001).await, Some(term("a", 1, 14_000)), "a refusal changes nothing");
    assert_eq!(
        renews(&bed, "a", 1, 14_000).await,
        Err(Refusal::StaleEpoch(1)),
        "an ended one is not revived"
    );
    assert_eq!(bed.leads("b", at(14_000)).await, Ok(term("b", 2, 24_000)));
    assert_eq!(renews(&bed, "a", 1, 14_001).await, Err(Refusal::StaleEpoch(2)));
}

/// R4
pub async fn a_resigned_term_is_free_at_once(bed: Bed) {
    assert_eq!(resigns(&bed, "a", 1, 0).await, Err(Refusal::StaleEpoch(0)));
    assert_eq!(bed.leads("a", at(0)).await, Ok(term("a", 1, 10_000)));
    for (holder, epoch) in [("b", 1), ("a", 2)] {
        assert_eq!(resigns(&bed, holder, epoch, 1).await, Err(Refusal::StaleEpoch(1)));
    }
    assert_eq!(resigns(&bed, "a", 1, 2).await, Ok(()));
    assert_eq!(renews(&bed, "a", 1, 2).await, Err(Refusal::StaleEpoch(1)), "it has stopped");
    assert_eq!(bed.leads("b", at(2)).await, Ok(term("b", 2, 10_002)));
    assert_eq!(resigns(&bed, "a", 1, 3).await, Err(Refusal::StaleEpoch(2)), "not somebody else's");
    assert_eq!(current(&bed, 3).await, Some(term("b", 2, 10_002)));
}

/// R4
pub async fn terms_of_different_names_are_apart(bed: Bed) {
    assert_eq!(bed.leads("a", at(0)).await, Ok(term("a", 1, 10_000)));
    let ttl_ms = LeaseMs::new(10_000).expect("a lease");
    let request = AcquireTerm { name: name("other"), holder: who("b"), ttl_ms };
    let other = bed.store.acquire_term(request, at(0)).await.expect("the store answers");
    assert_eq!(other, Ok(Term { name: name("other"), ..term("b", 1, 10_000) }));
    assert_eq!(current(&bed, 1).await, Some(term("a", 1, 10_000)));
}

/// R4, R1: every item is told, nothing is written.
pub async fn a_stale_leader_assigns_nothing(bed: Bed) {
    let jobs = [bed.a_job(at(0)).await, bed.a_job(at(0)).await];
    let assigns = |epoch, ms| {
        let items = jobs.iter().map(|id| (*id, who("w"))).collect();
        let request = Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
        let store = bed.store.clone();
        async move { store.assign(request, at(ms)).await.expect("the store answers") }
    };
    let stale = |epoch| vec![Err(Refusal::StaleEpoch(epoch)); 2];
    assert_eq!(assigns(1, 0).await, stale(0), "nobody leads");
    assert_eq!(bed.leads("a", at(0)).await, Ok(term("a", 1, 10_000)));
    assert_eq!(assigns(0, 1).await, stale(1));
    assert_eq!(assigns(2, 1).await, stale(1));
    assert_eq!(assigns(1, 10_000).await, stale(1), "the term is over, though nobody took it");
    assert_eq!(bed.leads("b", at(10_000)).await, Ok(term("b", 2, 20_000)));
    assert_eq!(assigns(1, 10_001).await, stale(2));
    for job in jobs {
        assert_eq!(bed.types(job).await, ["job_created"]);
    }
    assert_eq!(assigns(2, 10_002).await, vec![Ok(Done::Moved(2, Status::Assigned)); 2]);
}

/// R4: two leaders never hold one term, and each new one has a higher epoch.
pub async fn racing_candidates_have_one_winner(bed: Bed) {
    for round in 0..25 {
        let ms = round * 10_000;
        let candidates = (0..8).map(|n| {
            let bed = bed.clone();
            async move { bed.leads(&format!("node{n}"), at(ms)).await }
        });
        let answers = together(candidates).await;
        let won: Vec<&Term> = answers.iter().filter_map(|a| a.as_ref().ok()).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        assert_eq!((won[0].epoch, won[0].expires_at), (round + 1, time(ms + 10_000)));
        let told = answers.iter().filter_map(|a| a.as_ref().err());
        assert!(told.into_iter().all(|t| t == won[0]), "the others are told who leads: {answers:?}");
    }
}

/// R4: an assignment under an old epoch happened before the failover or not at all.
pub async fn a_stale_assignment_racing_the_failover_is_all_or_nothing(bed: Bed) {
    for round in 0..40 {
        let ms = round * 30_000;
        let old = bed.leads("a", at(ms)).await.expect("the term is over").epoch;
        let jobs = [bed.a_job(at(ms)).await, bed.a_job(at(ms)).await];
        let items = jobs.iter().map(|id| (*id, who("w"))).collect();
        let request = Assign { term: name("leader"), epoch: old, items, lapse_ms: 5_000 };
        let (leader, rival) = (bed.clone(), bed.clone());
        let assign: Racer<bool> = Box::pin(async move {
            let answers = leader.store.assign(request, at(ms + 9_999)).await.expect("the store answers");
            let made = answers.iter().filter(|a| a.is_ok()).count();
            let stale = answers.iter().filter(|a| matches!(a, Err(Refusal::StaleEpoch(_)))).count();
            assert!((made, stale) == (2, 0) || (made, stale) == (0, 2), "{answers:?}");
            made == 2
        });
        let take: Racer<bool> = Box::pin(async move { rival.leads("b", at(ms + 10_000)).await.is_ok() });
        let won = together([assign, take]).await;
        assert!(won[1], "a term that is over can be taken");
        let expected = if won[0] { (Status::Assigned, Some(old)) } else { (Status::Pending, None) };
        for job in jobs {
            let row = bed.row(job).await;
            assert_eq!((row.status, row.epoch), expected);
        }
        assert!(bed.leads("b", at(ms + 10_001)).await.expect("its own term").epoch > old);
    }
}
