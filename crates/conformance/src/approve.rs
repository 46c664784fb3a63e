//! Approval gates: asked by a holder, decided by people, while no worker waits.

use crate::{
    Bed, at, checkpoint, completes, error_of, fails_for_good, for_approval, is_invalid, json, key_of, name,
    redrive, stop, time,
};
use windlass_core::limits::{APPROVAL_EXPIRES_DEFAULT_MS, APPROVAL_EXPIRES_MAX_MS};
use windlass_core::wait::{ApprovalStatus, Decision, LinkToken, Voter, WakeOutcome};
use windlass_core::{Actor, Approval, ApprovalId, Done, Outcome, Refusal, Status, WaitFor, Wake};
use windlass_store::{ApprovalView, Asked, CastVote, Claimed, ListApprovals, ReadSteps};

/// This module's laws, as tests.
#[macro_export]
macro_rules! approve_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            approve: an_approval_is_asked_and_its_secret_is_nowhere,
            an_approval_lets_another_execution_resume,
            an_approval_before_the_wait_answers_it,
            a_denial_fails_the_job_with_the_reason,
            a_denial_before_the_wait_fails_the_job_at_the_wait,
            a_denial_is_told_with_its_own_reason,
            an_expiry_denies,
            an_expiry_before_the_wait_fails_the_job_at_the_wait,
            a_job_may_pass_several_gates,
            asking_needs_the_lease_and_keeps_to_the_limits,
            asking_again_replaces_the_link,
            asking_again_keeps_the_votes,
            a_question_takes_an_id_of_its_own,
            an_approved_gate_is_not_asked_again,
            a_denied_gate_is_asked_anew_after_a_redrive,
            an_open_approval_is_void_when_its_job_ends,
            approvals_are_listed_newest_first_and_by_status,
        );
    };
}

/// A held job that waits at the gate `gate`.
pub(crate) async fn gated(bed: &Bed, ms: i64) -> (Claimed, Asked, LinkToken) {
    let held = bed.a_held_job("w", at(ms)).await;
    let (ask, link) = bed.question(&held, "gate");
    let asked = bed.asks(ask, at(ms)).await;
    bed.waits(&held, for_approval("gate"), at(ms)).await.expect("the holder may wait");
    (held, asked, link)
}

pub(crate) async fn stands(bed: &Bed, id: ApprovalId) -> ApprovalView {
    bed.store.approval(id, None).await.expect("the store answers").expect("the approval is there")
}

/// M7, M8: the log has the approval's id and never its secret.
pub async fn an_approval_is_asked_and_its_secret_is_nowhere(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut ask, link) = bed.question(&held, "gate");
    ask.approvers = vec!["ann".into(), "ops".into()];
    ask.required = 2;
    let asked = bed.asks(ask.clone(), at(1)).await;
    let expected = Approval {
        id: ask.id,
        job: held.job.id,
        name: name("gate"),
        status: ApprovalStatus::Pending,
        required: 2,
        approved: 0,
        expires_at: time(3_600_001),
        token_hash: link.hash(),
        token_used: false,
        asked_version: 3,
        asked_at: time(1),
        decided_at: None,
    };
    assert_eq!((asked.done, &asked.approval), (Done::Moved(3, Status::Running), &expected));
    let view = stands(&bed, ask.id).await;
    assert_eq!((&view.approval, view.prompt.as_str(), &view.votes), (&expected, "may it?", &vec![]));
    assert_eq!((&view.approvers, view.asked_by.as_str()), (&ask.approvers, "worker:w"));
    let mut everything = format!("{view:?}");
    for event in bed.log(held.job.id).await {
        everything += &format!("{event:?} {}", event.what.detail().unwrap_or_default());
    }
    assert!(everything.contains(&ask.id.to_string()) && !everything.contains(&link.to_text()));
    let unknown = ApprovalId::from_bytes(*bed.id().as_bytes());
    assert_eq!(bed.store.approval(unknown, at(1)).await.expect("the store answers"), None);
}

/// M8, M5: the worker is freed, the next execution has the checkpoint and knows why it runs.
pub async fn an_approval_lets_another_execution_resume(bed: Bed) {
    let held = bed.a_held_job("w1", at(0)).await;
    let id = held.job.id;
    bed.reports(checkpoint(&held, "{\"at\":3}"), at(1)).await.expect("the holder may report");
    let (ask, _) = bed.question(&held, "gate");
    bed.asks(ask.clone(), at(2)).await;
    assert_eq!(bed.waits(&held, for_approval("gate"), at(3)).await, Ok(Done::Moved(5, Status::Waiting)));
    let row = bed.row(id).await;
    assert_eq!((row.worker_id, row.due_at, row.deadline_at), (None, None, at(3_600_002)));
    assert_eq!(bed.claims("w2", 9, at(4)).await, []);
    let voted = bed.votes(ask.id, Decision::Approve, key_of("ann", &[]), at(5)).await;
    assert_eq!(voted, Ok(Done::Moved(6, Status::Waiting)));
    let view = stands(&bed, ask.id).await;
    assert_eq!((view.approval.status, view.approval.decided_at), (ApprovalStatus::Approved, at(5)));
    assert_eq!((view.approval.approved, view.votes.len()), (1, 1));
    assert_eq!((view.votes[0].by.as_str(), view.votes[0].at), ("ann", time(5)));
    let held = bed.claims_one("w2", at(5)).await;
    let outcome = WakeOutcome::Approved;
    let wake = Wake { waited_for: WaitFor::Approval, name: Some(name("gate")), outcome, payload: None };
    assert_eq!((held.wake, held.checkpoint), (Some(wake), Some(json("{\"at\":3}"))));
    assert_eq!(bed.log(id).await[5].actor, Actor::try_from("key:ann").expect("an actor"));
}

/// M8
pub async fn an_approval_before_the_wait_answers_it(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (ask, link) = bed.question(&held, "gate");
    bed.asks(ask.clone(), at(1)).await;
    let voted =
        bed.votes(ask.id, Decision::Approve, Voter::Link { token: link.to_text(), key: None }, at(2)).await;
    assert_eq!(voted, Ok(Done::Moved(4, Status::Running)));
    assert_eq!(bed.log(held.job.id).await[3].actor.as_str(), "link");
    assert_eq!(bed.waits(&held, for_approval("gate"), at(3)).await, Ok(Done::Moved(5, Status::Waiting)));
    let resumed = bed.claims_one("w", at(3)).await;
    assert_eq!(resumed.wake.map(|w| w.outcome), Some(WakeOutcome::Approved));
}

/// M8, M5
pub async fn a_denial_fails_the_job_with_the_reason(bed: Bed) {
    let (held, asked, _) = gated(&bed, 0).await;
    let id = held.job.id;
    let voted = bed.votes(asked.approval.id, Decision::Deny, key_of("ann", &[]), at(1)).await;
    assert_eq!(voted, Ok(Done::Moved(6, Status::Failed)));
    let types = bed.types(id).await;
    assert_eq!(types[3..], ["job_waiting", "job_approval_voted", "job_failed"]);
    let view = bed.view(id, at(1)).await;
    let (error, failed_at) = view.error.expect("a failed job has an error");
    assert_eq!(error_of(&error), ("approval_denied".into(), "too risky".into()));
    assert_eq!((failed_at, view.job.finished_at, view.job.waiting_for), (time(1), at(1), None));
    let approval = stands(&bed, asked.approval.id).await;
    assert_eq!(approval.approval.status, ApprovalStatus::Denied);
    assert_eq!(approval.votes[0].reason.as_deref(), Some("too risky"));
}

/// M8
pub async fn a_denial_before_the_wait_fails_the_job_at_the_wait(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (ask, _) = bed.question(&held, "gate");
    bed.asks(ask.clone(), at(1)).await;
    let voted = bed.votes(ask.id, Decision::Deny, key_of("ann", &[]), at(2)).await;
    assert_eq!(voted, Ok(Done::Moved(4, Status::Running)), "a holder is not torn from its work");
    assert_eq!(bed.waits(&held, for_approval("gate"), at(3)).await, Ok(Done::Moved(5, Status::Failed)));
    assert_eq!(bed.row(held.job.id).await.error_code.expect("an error").as_str(), "approval_denied");
    assert_eq!(bed.waits(&held, for_approval("gate"), at(4)).await, Ok(Done::Already(5)));
}

/// M8: of two gates that were denied, the job fails at the one that it waits for, with the reason given there.
pub async fn a_denial_is_told_with_its_own_reason(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    for (n, (gate, reason)) in [("first", "too soon"), ("second", "too dear")].into_iter().enumerate() {
        let (ask, _) = bed.question(&held, gate);
        let approval = bed.asks(ask, at(1 + n as i64)).await.approval.id;
        let reason = Some(reason.to_owned());
        let vote = CastVote { approval, decision: Decision::Deny, voter: key_of("ann", &[]), reason };
        bed.store.vote(vote, at(1 + n as i64)).await.expect("the store answers").expect("the vote counts");
    }
    bed.waits(&held, for_approval("first"), at(3)).await.expect("it ends here");
    let view = bed.view(held.job.id, at(3)).await;
    let (error, _) = view.error.expect("a failed job has an error");
    assert_eq!(error_of(&error), ("approval_denied".to_owned(), "too soon".to_owned()));
}

/// M8: expiry denies, at the very moment and whether or not a sweep came by.
pub async fn an_expiry_denies(bed: Bed) {
    let (held, asked, link) = gated(&bed, 0).await;
    let approval = asked.approval.id;
    assert_eq!(bed.sweeps(at(3_599_999)).await, []);
    for voter in [Voter::Link { token: link.to_text(), key: None }, key_of("ann", &[])] {
        let late = bed.votes(approval, Decision::Approve, voter, at(3_600_000)).await;
        assert_eq!(late, Err(Refusal::ApprovalExpired));
    }
    assert_eq!(bed.row(held.job.id).await.status, Status::Waiting, "a refused vote changes nothing");
    let swept = bed.sweeps(at(3_600_000)).await;
    assert_eq!(swept.len(), 1);
    assert_eq!(swept[0].answer, Ok(Done::Moved(5, Status::Failed)));
    assert_eq!(bed.row(held.job.id).await.error_code.expect("an error").as_str(), "approval_expired");
    let view = stands(&bed, approval).await;
    assert_eq!(view.approval.status, ApprovalStatus::Expired);
    let late = bed.votes(approval, Decision::Approve, key_of("ann", &[]), at(3_600_001)).await;
    assert_eq!(late, Err(Refusal::ApprovalExpired));
}

/// M8
pub async fn an_expiry_before_the_wait_fails_the_job_at_the_wait(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut ask, _) = bed.question(&held, "gate");
    ask.expires_ms = 5_000;
    bed.asks(ask.clone(), at(0)).await;
    assert_eq!(bed.waits(&held, for_approval("gate"), at(5_000)).await, Ok(Done::Moved(4, Status::Failed)));
    assert_eq!(bed.row(held.job.id).await.error_code.expect("an error").as_str(), "approval_expired");
    assert_eq!(stands(&bed, ask.id).await.approval.status, ApprovalStatus::Expired);
}

/// M8
pub async fn a_job_may_pass_several_gates(bed: Bed) {
    let mut held = bed.a_held_job("w", at(0)).await;
    for (n, gate) in ["first", "second", "third"].into_iter().enumerate() {
        let (ask, _) = bed.question(&held, gate);
        bed.asks(ask.clone(), at(n as i64)).await;
        bed.waits(&held, for_approval(gate), at(n as i64)).await.expect("the holder may wait");
        bed.votes(ask.id, Decision::Approve, key_of("ann", &[]), at(n as i64)).await.expect("a vote");
        held = bed.claims_one("w", at(n as i64)).await;
        let wake = held.wake.clone().expect("the wait is told");
        assert_eq!((wake.name, wake.outcome), (Some(name(gate)), WakeOutcome::Approved));
    }
    bed.settles(&held, completes(), at(9)).await.expect("the holder may complete");
    let recorded = bed.store.steps(ReadSteps::all(held.job.id), at(9)).await.expect("the store answers");
    assert_eq!(recorded.expect("the job is there").waits.len(), 3);
}

/// M8, Q6: 24 hours by default, 7 days at most.
pub async fn asking_needs_the_lease_and_keeps_to_the_limits(bed: Bed) {
    assert_eq!((APPROVAL_EXPIRES_DEFAULT_MS, APPROVAL_EXPIRES_MAX_MS), (86_400_000, 7 * 86_400_000));
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    let (ask, _) = bed.question(&held, "gate");
    let asks = |ask| async { bed.store.ask(ask, at(1)).await.expect("the store answers") };
    let (mut none, mut long, mut many, mut zero, mut crowd) =
        (ask.clone(), ask.clone(), ask.clone(), ask.clone(), ask.clone());
    (none.expires_ms, long.expires_ms) = (0, APPROVAL_EXPIRES_MAX_MS + 1);
    (zero.required, many.required) = (0, 101);
    crowd.approvers = vec!["ann".into(); 101];
    let wrong = [(none, "expires"), (long, "expires"), (zero, "required"), (many, "required")];
    for (ask, field) in wrong.into_iter().chain([(crowd, "approvers")]) {
        is_invalid(&asks(ask).await, field);
    }
    let mut stranger = ask.clone();
    stranger.token = Bed::secret(9).token(held.job.id, 1);
    assert_eq!(asks(stranger).await, Err(Refusal::Mismatch));
    let mut unknown = ask.clone();
    unknown.job = bed.id();
    assert_eq!(asks(unknown).await, Err(Refusal::NotFound));
    bed.is_unchanged(&before).await;
    let mut longest = ask.clone();
    longest.expires_ms = APPROVAL_EXPIRES_MAX_MS;
    assert_eq!(asks(longest).await.expect("seven days are fine").done, Done::Moved(3, Status::Running));
    bed.settles(&held, fails_for_good("broken"), at(2)).await.expect("the holder may fail it");
    assert_eq!(asks(ask).await, Err(Refusal::Finished(Status::Failed)));
}

/// M8: the newest link is the only one, and a repeated question is known.
pub async fn asking_again_replaces_the_link(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (first, old) = bed.question(&held, "gate");
    bed.asks(first.clone(), at(0)).await;
    assert_eq!(bed.asks(first.clone(), at(1)).await.done, Done::Already(3), "the same link is a repeat");
    let (mut second, new) = bed.question(&held, "gate");
    second.prompt = "really?".into();
    let asked = bed.asks(second.clone(), at(2)).await;
    assert_eq!((asked.done, asked.approval.id), (Done::Moved(4, Status::Running), first.id));
    assert_eq!((asked.approval.token_hash, asked.approval.asked_at), (new.hash(), time(0)));
    assert_eq!((asked.approval.expires_at, asked.approval.asked_version), (time(3_600_002), 4));
    assert_eq!(stands(&bed, first.id).await.prompt, "really?");
    let unknown = bed.store.approval(second.id, at(2)).await.expect("the store answers");
    assert_eq!(unknown, None, "no second approval was made");
    let voted =
        bed.votes(first.id, Decision::Approve, Voter::Link { token: old.to_text(), key: None }, at(3)).await;
    assert_eq!(voted, Err(Refusal::ApprovalTokenWrong));
    let voted =
        bed.votes(first.id, Decision::Approve, Voter::Link { token: new.to_text(), key: None }, at(3)).await;
    assert_eq!(voted, Ok(Done::Moved(5, Status::Running)));
}

/// M8: asked again while it is open, the question keeps who voted: nobody is asked twice.
pub async fn asking_again_keeps_the_votes(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (mut ask, link) = bed.question(&held, "gate");
    ask.required = 3;
    let id = bed.asks(ask, at(1)).await.approval.id;
    let by_link = |link: &LinkToken| Voter::Link { token: link.to_text(), key: None };
    let vote = |voter, ms| bed.votes(id, Decision::Approve, voter, at(ms));
    vote(key_of("ann", &[]), 2).await.expect("ann has a vote");
    vote(key_of("cem", &[]), 2).await.expect("cem has a vote");
    let (mut again, _) = bed.question(&held, "gate");
    again.required = 3;
    let asked = bed.asks(again, at(3)).await.approval;
    assert_eq!((asked.id, asked.approved, asked.asked_at), (id, 2, time(1)));
    assert_eq!(stands(&bed, id).await.votes.len(), 2);
    assert_eq!(vote(by_link(&link), 4).await, Err(Refusal::ApprovalTokenWrong), "the old link is replaced");
    assert_eq!(vote(key_of("ann", &[]), 4).await, Err(Refusal::ApprovalDecided), "ann has voted");
    vote(key_of("bob", &[]), 4).await.expect("bob has not");
    assert_eq!(stands(&bed, id).await.approval.status, ApprovalStatus::Approved);
}

/// M8: an approval is found by its id alone, so no two have one.
pub async fn a_question_takes_an_id_of_its_own(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (first, _) = bed.question(&held, "gate");
    bed.asks(first.clone(), at(1)).await;
    let other = bed.holds("w", bed.job("work"), at(1)).await;
    for holder in [&held, &other] {
        let (mut second, _) = bed.question(holder, "other");
        second.id = first.id;
        let before = bed.snapshot(holder.job.id).await;
        is_invalid(&bed.store.ask(second, at(2)).await.expect("the store answers"), "approval id");
        bed.is_unchanged(&before).await;
    }
    assert_eq!(stands(&bed, first.id).await.approval.job, held.job.id);
}

/// M8, J11: a resumed run that asks again is told that the gate stands open.
pub async fn an_approved_gate_is_not_asked_again(bed: Bed) {
    let (_, asked, _) = gated(&bed, 0).await;
    let approval = asked.approval.id;
    bed.votes(approval, Decision::Approve, key_of("ann", &[]), at(1)).await.expect("a vote");
    let held = bed.claims_one("w", at(1)).await;
    let (again, _) = bed.question(&held, "gate");
    let told = bed.asks(again, at(2)).await;
    assert_eq!((told.done, told.approval.id), (Done::Already(3), approval));
    assert_eq!(told.approval.status, ApprovalStatus::Approved);
    bed.settles(&held, fails_for_good("broken"), at(3)).await.expect("the holder may fail it");
    let mut afresh = redrive(held.job.id);
    afresh.from_start = true;
    bed.redrives(afresh, at(4)).await.expect("a failed job can be redriven");
    let held = bed.claims_one("w", at(4)).await;
    let (anew, _) = bed.question(&held, "gate");
    let asked = bed.asks(anew.clone(), at(5)).await;
    assert_eq!((asked.approval.id, asked.approval.status), (anew.id, ApprovalStatus::Pending));
}

/// M8
pub async fn a_denied_gate_is_asked_anew_after_a_redrive(bed: Bed) {
    let (held, asked, _) = gated(&bed, 0).await;
    bed.votes(asked.approval.id, Decision::Deny, key_of("ann", &[]), at(1)).await.expect("a vote");
    bed.redrives(redrive(held.job.id), at(2)).await.expect("a failed job can be redriven");
    let held = bed.claims_one("w", at(2)).await;
    let (anew, _) = bed.question(&held, "gate");
    assert_eq!(bed.asks(anew.clone(), at(3)).await.approval.id, anew.id);
    bed.waits(&held, for_approval("gate"), at(3)).await.expect("the holder may wait");
    assert_eq!(bed.row(held.job.id).await.status, Status::Waiting, "the newest approval counts");
    bed.votes(anew.id, Decision::Approve, key_of("ann", &[]), at(4)).await.expect("a vote");
    let held = bed.claims_one("w", at(4)).await;
    assert_eq!(held.wake.map(|w| w.outcome), Some(WakeOutcome::Approved));
}

/// M8, M10
pub async fn an_open_approval_is_void_when_its_job_ends(bed: Bed) {
    let (held, asked, link) = gated(&bed, 0).await;
    let approval = asked.approval.id;
    assert_eq!(bed.cancels(held.job.id, stop(), at(1)).await, Ok(Done::Moved(5, Status::Cancelled)));
    let view = stands(&bed, approval).await;
    assert_eq!((view.approval.status, view.approval.decided_at), (ApprovalStatus::Void, at(1)));
    let before = bed.snapshot(held.job.id).await;
    for voter in [Voter::Link { token: link.to_text(), key: None }, key_of("ann", &[])] {
        let late = bed.votes(approval, Decision::Deny, voter, at(2)).await;
        assert_eq!(late, Err(Refusal::ApprovalDecided));
    }
    bed.is_unchanged(&before).await;
    let held = bed.a_held_job("w", at(3)).await;
    let (ask, _) = bed.question(&held, "gate");
    bed.asks(ask.clone(), at(3)).await;
    let done = bed.settles(&held, Outcome::Complete(None), at(4)).await;
    assert_eq!(done, Ok(Done::Moved(4, Status::Completed)));
    assert_eq!(stands(&bed, ask.id).await.approval.status, ApprovalStatus::Void);
}

/// M8, M12
pub async fn approvals_are_listed_newest_first_and_by_status(bed: Bed) {
    let mut ids = Vec::new();
    for n in 0..5 {
        let (held, asked, _) = gated(&bed, n).await;
        ids.push((held.job.id, asked.approval.id));
    }
    bed.votes(ids[1].1, Decision::Approve, key_of("ann", &[]), at(5)).await.expect("a vote");
    bed.votes(ids[3].1, Decision::Deny, key_of("ann", &[]), at(5)).await.expect("a vote");
    let listed = |request: ListApprovals, ms: i64| {
        let store = bed.store.clone();
        async move {
            let page = store.approvals(request, at(ms)).await.expect("the store answers");
            page.iter().map(|v| v.approval.id).collect::<Vec<_>>()
        }
    };
    let all = ListApprovals { limit: 100, ..ListApprovals::default() };
    let of = |status| ListApprovals { status: Some(status), ..all };
    assert_eq!(listed(all, 6).await, [ids[4].1, ids[3].1, ids[2].1, ids[1].1, ids[0].1]);
    assert_eq!(listed(of(ApprovalStatus::Pending), 6).await, [ids[4].1, ids[2].1, ids[0].1]);
    assert_eq!(listed(of(ApprovalStatus::Approved), 6).await, [ids[1].1]);
    assert_eq!(listed(of(ApprovalStatus::Denied), 6).await, [ids[3].1]);
    let first = ListApprovals { limit: 2, ..of(ApprovalStatus::Pending) };
    assert_eq!(listed(first, 6).await, [ids[4].1, ids[2].1]);
    assert_eq!(listed(ListApprovals { before: Some(ids[2].1), ..first }, 6).await, [ids[0].1]);
    assert_eq!(listed(ListApprovals { job: Some(ids[2].0), ..all }, 6).await, [ids[2].1]);
    assert_eq!(listed(of(ApprovalStatus::Expired), 6).await, []);
    let late = listed(of(ApprovalStatus::Expired), 3_600_002).await;
    assert_eq!(late, [ids[2].1, ids[0].1], "expired by its time, without a sweep");
}
