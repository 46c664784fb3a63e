//! Votes: who may, how often, and what each wrong one is told and leaves in the audit.

use crate::approve::{gated, stands};
use crate::{Bed, Racer, at, completes, for_approval, key_of, together, who};
use windlass_core::wait::{ApprovalStatus, Decision, LinkToken, Voter, WakeOutcome};
use windlass_core::{Answer, ApprovalId, Done, EventKind, Refusal, Status};
use windlass_store::CastVote;

/// This module's laws, as tests.
#[macro_export]
macro_rules! vote_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            vote: votes_are_counted_and_each_voter_counts_once,
            one_denial_is_enough,
            only_named_approvers_and_roles_may_vote,
            a_link_has_no_vote_where_approvers_are_named,
            a_link_has_no_vote_where_several_people_are_needed,
            a_key_beside_a_link_is_who_voted,
            a_key_named_like_something_else_is_itself,
            a_job_does_not_vote_for_itself,
            five_wrong_votes_are_five_refusals_each_on_record,
            an_unknown_approval_is_refused_on_record,
            a_link_votes_once_among_racers,
            the_last_votes_racing_wake_the_job_once,
            approve_and_deny_and_expiry_race_for_one_outcome,
        );
    };
}

/// M8
pub async fn votes_are_counted_and_each_voter_counts_once(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut ask, _) = bed.question(&held, "gate");
    ask.required = 3;
    let id = bed.asks(ask, at(0)).await.approval.id;
    bed.waits(&held, for_approval("gate"), at(0)).await.expect("the holder may wait");
    let vote = |voter| bed.votes(id, Decision::Approve, voter, at(1));
    assert_eq!(vote(key_of("ann", &[])).await, Ok(Done::Moved(5, Status::Waiting)));
    let before = bed.snapshot(held.job.id).await;
    assert_eq!(vote(key_of("ann", &["ops"])).await, Err(Refusal::ApprovalDecided), "one vote per key");
    bed.is_unchanged(&before).await;
    assert_eq!(vote(key_of("cem", &[])).await, Ok(Done::Moved(6, Status::Waiting)));
    let view = stands(&bed, id).await;
    assert_eq!((view.approval.status, view.approval.approved), (ApprovalStatus::Pending, 2));
    assert_eq!(bed.claims("w", 9, at(1)).await, [], "one vote is missing");
    assert_eq!(vote(key_of("bob", &[])).await, Ok(Done::Moved(7, Status::Waiting)));
    let by: Vec<String> = stands(&bed, id).await.votes.iter().map(|v| v.by.to_string()).collect();
    assert_eq!(by, ["ann", "cem", "bob"]);
    assert_eq!(vote(key_of("eve", &[])).await, Err(Refusal::ApprovalDecided));
    let resumed = bed.claims_one("w", at(1)).await;
    assert_eq!(resumed.wake.map(|w| w.outcome), Some(WakeOutcome::Approved));
}

/// M8
pub async fn one_denial_is_enough(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut ask, _) = bed.question(&held, "gate");
    ask.required = 3;
    let id = bed.asks(ask, at(0)).await.approval.id;
    bed.waits(&held, for_approval("gate"), at(0)).await.expect("the holder may wait");
    let first = bed.votes(id, Decision::Approve, key_of("ann", &[]), at(1)).await;
    assert_eq!(first, Ok(Done::Moved(5, Status::Waiting)));
    let second = bed.votes(id, Decision::Deny, key_of("bob", &[]), at(2)).await;
    assert_eq!(second, Ok(Done::Moved(7, Status::Failed)));
    let third = bed.votes(id, Decision::Approve, key_of("eve", &[]), at(3)).await;
    assert_eq!(third, Err(Refusal::ApprovalDecided));
    assert_eq!(stands(&bed, id).await.approval.status, ApprovalStatus::Denied);
}

/// M8
pub async fn only_named_approvers_and_roles_may_vote(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut ask, _) = bed.question(&held, "gate");
    ask.approvers = vec!["ann".into(), "ops".into()];
    ask.required = 2;
    let id = bed.asks(ask, at(0)).await.approval.id;
    let before = bed.snapshot(held.job.id).await;
    for (name, roles) in [("bob", vec![]), ("bob", vec!["dev", "viewer"]), ("Ann", vec![])] {
        for decision in [Decision::Approve, Decision::Deny] {
            let answer = bed.votes(id, decision, key_of(name, &roles), at(1)).await;
            assert_eq!(answer, Err(Refusal::ApprovalForbidden), "{name} {roles:?}");
        }
    }
    bed.is_unchanged(&before).await;
    let by_name = bed.votes(id, Decision::Approve, key_of("ann", &[]), at(2)).await;
    assert_eq!(by_name, Ok(Done::Moved(4, Status::Running)));
    let by_role = bed.votes(id, Decision::Approve, key_of("bob", &["dev", "ops"]), at(3)).await;
    assert_eq!(by_role, Ok(Done::Moved(5, Status::Running)));
    assert_eq!(stands(&bed, id).await.approval.status, ApprovalStatus::Approved);
}

/// The link with a key sent beside it.
fn link_and_key(link: &LinkToken, key: &str) -> Voter {
    Voter::Link { token: link.to_text(), key: Some(who(key)) }
}

/// M8: the job that asks is given the link, so its vote would be the job's own.
pub async fn a_link_has_no_vote_where_approvers_are_named(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut ask, link) = bed.question(&held, "gate");
    ask.approvers = vec!["ann".into()];
    let id = bed.asks(ask, at(0)).await.approval.id;
    let before = bed.snapshot(held.job.id).await;
    for voter in [Voter::Link { token: link.to_text(), key: None }, link_and_key(&link, "ann")] {
        for decision in [Decision::Approve, Decision::Deny] {
            let answer = bed.votes(id, decision, voter.clone(), at(1)).await;
            assert_eq!(answer, Err(Refusal::ApprovalForbidden), "{voter:?}");
        }
    }
    bed.is_unchanged(&before).await;
    assert!(!stands(&bed, id).await.approval.token_used);
    let by_key = bed.votes(id, Decision::Approve, key_of("ann", &[]), at(2)).await;
    assert_eq!(by_key, Ok(Done::Moved(4, Status::Running)));
}

/// M8: two votes are two people. A link does not show who uses it, be that the job that was given it or somebody who votes with
/// a key as well, so it has no vote where several are needed, whatever is shown beside it.
pub async fn a_link_has_no_vote_where_several_people_are_needed(bed: Bed) {
    for required in [2, 5] {
        let held = bed.a_held_job("w", at(0)).await;
        let (mut ask, link) = bed.question(&held, "gate");
        ask.required = required;
        let id = bed.asks(ask, at(0)).await.approval.id;
        let vote = |voter, decision| bed.votes(id, decision, voter, at(1));
        let links = [Voter::Link { token: link.to_text(), key: None }, link_and_key(&link, "eve")];
        let by_link_is_refused = async || {
            let before = bed.snapshot(held.job.id).await;
            for (voter, decision) in links.iter().flat_map(|v| [(v, Decision::Approve), (v, Decision::Deny)])
            {
                let answer = vote(voter.clone(), decision).await;
                assert_eq!(answer, Err(Refusal::ApprovalNeedsKeys(required)), "{voter:?}");
            }
            bed.is_unchanged(&before).await;
            assert!(!stands(&bed, id).await.approval.token_used);
        };
        by_link_is_refused().await;
        let first = vote(key_of("ann", &[]), Decision::Approve).await;
        assert_eq!(first, Ok(Done::Moved(4, Status::Running)));
        by_link_is_refused().await;
        let beside = vote(link_and_key(&link, "ann"), Decision::Approve).await;
        assert_eq!(beside, Err(Refusal::ApprovalDecided), "ann has voted");
        assert_eq!(stands(&bed, id).await.approval.status, ApprovalStatus::Pending, "by one person");
        let second = vote(key_of("bob", &[]), Decision::Approve).await;
        assert_eq!(second, Ok(Done::Moved(5, Status::Running)));
        let view = stands(&bed, id).await;
        let by: Vec<_> = view.votes.iter().map(|vote| (vote.by.as_str(), vote.by_key)).collect();
        assert_eq!(by, [("ann", true), ("bob", true)]);
        assert_eq!(view.approval.status == ApprovalStatus::Approved, required == 2);
        bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    }
}

/// M8: a key beside the link says who voted with it.
pub async fn a_key_beside_a_link_is_who_voted(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (ask, link) = bed.question(&held, "gate");
    let id = bed.asks(ask, at(0)).await.approval.id;
    let vote = |voter| bed.votes(id, Decision::Approve, voter, at(1));
    assert_eq!(vote(link_and_key(&link, "ann")).await, Ok(Done::Moved(4, Status::Running)));
    for voter in [key_of("ann", &[]), link_and_key(&link, "bob"), key_of("bob", &[])] {
        assert_eq!(vote(voter).await, Err(Refusal::ApprovalDecided));
    }
    let view = stands(&bed, id).await;
    let by: Vec<_> = view.votes.iter().map(|vote| (vote.by.as_str(), vote.by_key)).collect();
    assert_eq!((by.as_slice(), view.approval.token_used), (&[("ann", true)][..], true));
}

/// M8: names of keys are free, also those that logs use for somebody else.
pub async fn a_key_named_like_something_else_is_itself(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut ask, _) = bed.question(&held, "many");
    ask.required = 9;
    let id = bed.asks(ask, at(0)).await.approval.id;
    let vote = |voter| bed.votes(id, Decision::Approve, voter, at(1));
    let names = ["link", "key:link", "key", "worker:w", "engine", "operator:ann"];
    for (n, name) in names.into_iter().enumerate() {
        let counted = Ok(Done::Moved(4 + n as i64, Status::Running));
        assert_eq!(vote(key_of(name, &[])).await, counted, "{name} has not voted");
        assert_eq!(vote(key_of(name, &[])).await, Err(Refusal::ApprovalDecided), "{name} has voted");
    }
    let (one, link) = bed.question(&held, "one");
    let one = bed.asks(one, at(2)).await.approval.id;
    let no_key = Voter::Link { token: link.to_text(), key: None };
    bed.votes(one, Decision::Approve, no_key, at(2)).await.expect("one yes of anybody is enough");
    let mut links = Vec::new();
    for id in [id, one] {
        let voted = stands(&bed, id).await.votes;
        links.extend(voted.iter().filter(|vote| vote.by.as_str() == "link").map(|vote| vote.by_key));
    }
    assert_eq!(links, [true, false], "a list shows which of them was the key");
}

/// M8: neither with the key under which it asked, nor with the link that it was given, if it shows who it is.
pub async fn a_job_does_not_vote_for_itself(bed: Bed) {
    for (gate, approvers) in [("open", vec![]), ("named", vec!["bot".to_owned(), "approver".to_owned()])] {
        let held = bed.a_held_job("w", at(0)).await;
        let (mut ask, link) = bed.question(&held, gate);
        (ask.asker, ask.approvers) = (Some(who("bot")), approvers);
        let id = bed.asks(ask, at(0)).await.approval.id;
        let before = bed.snapshot(held.job.id).await;
        for voter in [key_of("bot", &["approver"]), link_and_key(&link, "bot")] {
            let answer = bed.votes(id, Decision::Approve, voter.clone(), at(1)).await;
            assert_eq!(answer, Err(Refusal::ApprovalForbidden), "{gate}: {voter:?}");
        }
        bed.is_unchanged(&before).await;
        let other = bed.votes(id, Decision::Approve, key_of("ann", &["approver"]), at(1)).await;
        assert_eq!(other, Ok(Done::Moved(4, Status::Running)), "{gate}");
        bed.settles(&held, completes(), at(1)).await.expect("the holder may complete");
    }
}

async fn refusals_on_record(bed: &Bed) -> Vec<(String, String, String, String)> {
    let audit = bed.audit().await;
    let refused = audit.iter().filter(|e| e.action.as_str() == "approval.refused");
    let text = |value: Option<&serde_json::Value>| {
        value.and_then(serde_json::Value::as_str).expect("a refused vote says why").to_owned()
    };
    refused
        .map(|e| {
            let (code, reason) = (text(e.detail.get("code")), text(e.detail.get("reason")));
            (e.target.clone(), e.actor.to_string(), code, reason)
        })
        .collect()
}

/// M8: wrong, used, expired, malformed, unauthorised.
pub async fn five_wrong_votes_are_five_refusals_each_on_record(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut open, _) = bed.question(&held, "open");
    open.approvers = vec!["ann".into()];
    let (used, link) = bed.question(&held, "used");
    let (mut short, late) = bed.question(&held, "short");
    short.expires_ms = 1_000;
    let foreign = windlass_store::fresh::link_token();
    for ask in [&open, &used, &short] {
        bed.asks(ask.clone(), at(0)).await;
    }
    bed.votes(used.id, Decision::Approve, Voter::Link { token: link.to_text(), key: None }, at(1))
        .await
        .expect("a vote");
    let before = bed.snapshot(held.job.id).await;
    let by_link = |token: &windlass_core::wait::LinkToken| Voter::Link { token: token.to_text(), key: None };
    let wrong = [
        (open.id, by_link(&foreign), Refusal::ApprovalTokenWrong, "wrong"),
        (used.id, by_link(&link), Refusal::ApprovalDecided, "used"),
        (short.id, by_link(&late), Refusal::ApprovalExpired, "expired"),
        (
            open.id,
            Voter::Link { token: "not-a-token".into(), key: None },
            Refusal::ApprovalTokenMalformed,
            "malformed",
        ),
        (open.id, key_of("bob", &["dev"]), Refusal::ApprovalForbidden, "forbidden"),
    ];
    let (mut expected, mut told) = (Vec::new(), std::collections::BTreeSet::new());
    for (id, voter, refusal, reason) in wrong {
        told.insert(refusal.to_string());
        let actor = if matches!(voter, Voter::Link { .. }) { "link" } else { "key:bob" };
        let code = refusal.code().to_owned();
        assert_eq!(bed.votes(id, Decision::Approve, voter, at(1_000)).await, Err(refusal));
        expected.push((id.to_string(), actor.to_owned(), code, reason.to_owned()));
    }
    assert_eq!(refusals_on_record(&bed).await, expected);
    assert_eq!(told.len(), 5, "five different errors: {told:?}");
    bed.is_unchanged(&before).await;
    let everything = format!("{:?}", bed.audit().await);
    for token in [foreign, link, late] {
        assert!(!everything.contains(&token.to_text()), "the audit holds no secret");
    }
}

/// M8
pub async fn an_unknown_approval_is_refused_on_record(bed: Bed) {
    let unknown = ApprovalId::from_bytes(*bed.id().as_bytes());
    let answer = bed.votes(unknown, Decision::Approve, key_of("bob", &[]), at(0)).await;
    assert_eq!(answer, Err(Refusal::ApprovalNotFound));
    let expected = (unknown.to_string(), "key:bob".into(), "approval_not_found".into(), "unknown".into());
    assert_eq!(refusals_on_record(&bed).await, [expected]);
}

/// M8, R1
pub async fn a_link_votes_once_among_racers(bed: Bed) {
    for _ in 0..10 {
        let held = bed.a_held_job("w", at(0)).await;
        let (ask, link) = bed.question(&held, "gate");
        let id = bed.asks(ask, at(0)).await.approval.id;
        let voters = (0..8).map(|_| {
            let (bed, voter) = (bed.clone(), Voter::Link { token: link.to_text(), key: None });
            async move { bed.votes(id, Decision::Approve, voter, at(0)).await }
        });
        let answers = together(voters).await;
        let counted = answers.iter().filter(|a| **a == Ok(Done::Moved(4, Status::Running))).count();
        let refused = answers.iter().filter(|a| **a == Err(Refusal::ApprovalDecided)).count();
        assert_eq!((counted, refused), (1, 7), "{answers:?}");
        assert_eq!(stands(&bed, id).await.approval.approved, 1);
        bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
    }
}

/// M8: votes are counted on the locked row.
pub async fn the_last_votes_racing_wake_the_job_once(bed: Bed) {
    for _ in 0..15 {
        let held = bed.a_held_job("w", at(0)).await;
        let (mut ask, _) = bed.question(&held, "gate");
        ask.required = 3;
        let id = bed.asks(ask, at(0)).await.approval.id;
        bed.waits(&held, for_approval("gate"), at(0)).await.expect("the holder may wait");
        let voters = (0..6).map(|n| {
            let (bed, voter) = (bed.clone(), key_of(&format!("key{n}"), &[]));
            async move { bed.votes(id, Decision::Approve, voter, at(0)).await }
        });
        let answers = together(voters).await;
        assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 3, "{answers:?}");
        let woke = |what: &EventKind| matches!(what, EventKind::JobApprovalVoted(d) if d.woke);
        let log = bed.log(held.job.id).await;
        assert_eq!(log.iter().filter(|e| woke(&e.what)).count(), 1);
        assert_eq!(stands(&bed, id).await.approval.approved, 3);
        let held = bed.claims_one("w", at(0)).await;
        bed.settles(&held, completes(), at(0)).await.expect("the holder may complete");
    }
}

/// M8, M1: one winner, and approval and job tell the same story.
pub async fn approve_and_deny_and_expiry_race_for_one_outcome(bed: Bed) {
    for round in 0..40 {
        let start = round * 3_600_001;
        let (held, asked, link) = gated(&bed, start).await;
        let (id, job) = (asked.approval.id, held.job.id);
        let vote = |decision, voter| {
            let (bed, request) = (bed.clone(), CastVote { approval: id, decision, voter, reason: None });
            let answer = async move { bed.store.vote(request, at(start)).await.expect("the store answers") };
            Box::pin(answer) as Racer<Answer>
        };
        let sweeper = bed.clone();
        let sweep: Racer<Answer> = Box::pin(async move {
            let swept = sweeper.sweeps(at(start + 3_600_000)).await;
            swept.into_iter().next().map_or(Err(Refusal::NotFound), |s| s.answer)
        });
        let approve = vote(Decision::Approve, Voter::Link { token: link.to_text(), key: None });
        let deny = vote(Decision::Deny, key_of("ann", &[]));
        let answers = together([approve, deny, sweep]).await;
        assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 1, "one winner: {answers:?}");
        let winner = answers.iter().position(Result::is_ok).expect("a winner");
        let expected = [
            (ApprovalStatus::Approved, Status::Waiting, None),
            (ApprovalStatus::Denied, Status::Failed, Some("approval_denied")),
            (ApprovalStatus::Expired, Status::Failed, Some("approval_expired")),
        ][winner];
        let (approval, row) = (stands(&bed, id).await.approval, bed.row(job).await);
        let code = row.error_code.as_ref().map(|c| c.as_str());
        assert_eq!((approval.status, row.status, code), expected);
        if winner == 0 {
            let held = bed.claims_one("w", at(start + 3_600_000)).await;
            bed.settles(&held, completes(), at(start + 3_600_000)).await.expect("the holder may complete");
        }
    }
}
