//! How a job's log grows: notes, reports, steps, lines.

use crate::{
    Bed, at, checkpoint, completes, fails_for_good, fails_until, is_invalid, json, key, name, note, redrive,
    report, step_begins, step_ends, time, who,
};
use tokio::task::JoinSet;
use windlass_core::limits::{
    BATCH_MAX, EVENT_PAYLOAD_MAX_BYTES, LOG_LINE_MAX_BYTES, METADATA_MAX_BYTES, PAYLOAD_MAX_BYTES,
    TEXT_MAX_BYTES,
};
use windlass_core::step::{RecordedStep, StepRun, StepState};
use windlass_core::{
    Actor, Done, Event, EventKind, Job, JobId, Metadata, Payload, Refusal, RunAt, Status, Version,
};
use windlass_store::{
    Append, Claimed, HolderReply, Now, Progress, ReadEvents, ReadLogs, ReadSteps, RecordStep, Signal,
    WriteLogs,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! append_laws {
    ($($make:tt)*) => {
        $crate::law_tests!([$($make)*], append:
            notes_of_any_type_are_kept_as_they_came,
            a_note_on_an_unknown_job_is_refused,
            an_append_goes_where_its_writer_believes_the_log_ends,
            one_of_many_appends_with_the_same_belief_wins,
            appends_to_different_jobs_never_disturb_each_other,
            racing_appends_without_a_belief_are_all_kept,
            a_note_under_a_lease_is_its_holders,
            lease_and_version_guard_together,
            a_note_by_someone_else_never_breaks_a_worker,
            the_engines_own_types_are_reserved,
            node_and_tool_types_need_a_lease,
            a_finished_job_takes_notes_and_stays_finished,
            a_key_makes_a_repeat_known,
            a_key_stands_for_one_thing_in_its_job_and_for_nothing_in_another,
            racing_repeats_under_a_key_are_one,
            a_note_above_the_limit_is_refused,
            a_log_is_read_in_order_page_by_page,
            a_report_is_one_change_by_the_worker,
            progress_out_of_range_is_refused_never_clamped,
            a_report_that_says_nothing_is_refused,
            metadata_merges_key_by_key,
            merged_metadata_keeps_to_the_limit,
            a_checkpoint_is_absent_then_the_latest,
            a_repeated_report_is_one_change,
            a_step_is_recorded_once_with_its_value,
            a_recorded_step_never_changes,
            a_repeat_of_a_step_is_known_after_the_lease_is_lost,
            a_tool_without_a_return_is_in_doubt,
            steps_survive_attempts_and_a_redrive_but_not_one_from_the_start,
            step_values_and_checkpoints_above_the_limit_are_refused,
            log_lines_are_numbered_and_change_nothing_else,
            log_lines_outside_their_limits_are_refused_whole,
            racing_log_lines_are_numbered_without_a_gap,
        );
    };
}

/// J2, J5
pub async fn notes_of_any_type_are_kept_as_they_came(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let before = bed.row(id).await;
    for (n, type_name) in ["plan_generated", "my.own:Type-1", "jobless"].into_iter().enumerate() {
        let version = n as Version + 2;
        let payload = (n != 1).then(|| json(&format!("{{\"n\":{n}}}")));
        let actor = Actor::parse("actor", format!("agent:{n}")).expect("an actor");
        let note = Append { payload: payload.clone(), actor: actor.clone(), ..note(id, type_name) };
        let told = bed.appends(note, at(10 * version)).await;
        let moved = Done::Moved(version, Status::Pending);
        assert_eq!(told, Ok(HolderReply { done: moved, cancel_requested: false }));
        let event = bed.log(id).await.pop().expect("an event");
        assert_eq!(event.what, EventKind::Noted(name(type_name)));
        assert_eq!((event.version, event.at, event.actor), (version, time(10 * version), actor));
        assert_eq!((event.payload, event.lease, event.key), (payload, None, None));
    }
    let after = Job { version: 4, updated_at: time(40), ..before };
    assert_eq!(bed.row(id).await, after, "only version and time of change move");
}

/// J3, J5
pub async fn a_note_on_an_unknown_job_is_refused(bed: Bed) {
    let id = bed.id();
    assert_eq!(bed.appends(note(id, "seen"), at(0)).await, Err(Refusal::NotFound));
    let expecting = Append { expected_version: Some(0), ..note(id, "job_created") };
    assert_eq!(bed.appends(expecting, at(0)).await, Err(Refusal::NotFound));
    assert_eq!(bed.log(id).await, []);
}

/// J5, R1
pub async fn an_append_goes_where_its_writer_believes_the_log_ends(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let expecting = |v| Append { expected_version: Some(v), ..note(id, "seen") };
    for wrong in [0, 2, -1, i64::MAX] {
        let before = bed.snapshot(id).await;
        assert_eq!(bed.appends(expecting(wrong), at(1)).await, Err(Refusal::VersionMismatch(1)));
        bed.is_unchanged(&before).await;
    }
    let told = bed.appends(expecting(1), at(1)).await.expect("noted");
    assert_eq!(told.done, Done::Moved(2, Status::Pending));
    assert_eq!(bed.appends(expecting(1), at(2)).await, Err(Refusal::VersionMismatch(2)));
    assert_eq!(bed.appends(expecting(2), at(2)).await.map(|t| t.done.version()), Ok(3));
}

/// J5, R1
pub async fn one_of_many_appends_with_the_same_belief_wins(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    for round in 1..=5 {
        let mut racers = JoinSet::new();
        for _ in 0..16 {
            let bed = bed.clone();
            let note = Append { expected_version: Some(round), ..note(id, "seen") };
            racers.spawn(async move { bed.appends(note, at(1)).await });
        }
        let answers = racers.join_all().await;
        assert_eq!(answers.iter().filter(|a| a.is_ok()).count(), 1, "one winner");
        let lost = Err(Refusal::VersionMismatch(round + 1));
        assert_eq!(answers.iter().filter(|a| **a == lost).count(), 15, "the others are told where it is");
    }
    assert_eq!(bed.row(id).await.version, 6);
}

/// J5
pub async fn appends_to_different_jobs_never_disturb_each_other(bed: Bed) {
    let mut racers = JoinSet::new();
    for _ in 0..16 {
        let bed = bed.clone();
        racers.spawn(async move {
            let id = bed.a_job(at(0)).await;
            for version in 1..=20 {
                let note = Append { expected_version: Some(version), ..note(id, "seen") };
                bed.appends(note, at(1)).await.expect("nobody else writes here");
            }
            bed.row(id).await.version
        });
    }
    assert!(racers.join_all().await.iter().all(|v| *v == 21));
}

/// J5, J4
pub async fn racing_appends_without_a_belief_are_all_kept(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let mut racers = JoinSet::new();
    for n in 0..40 {
        let bed = bed.clone();
        let note = Append { payload: Some(json(&n.to_string())), ..note(id, "seen") };
        racers.spawn(async move { bed.appends(note, at(1)).await.expect("noted").done.version() });
    }
    let mut versions = racers.join_all().await;
    versions.sort_unstable();
    assert_eq!(versions, (2..=41).collect::<Vec<_>>());
    let mut told: Vec<i64> = Vec::new();
    for event in &bed.log(id).await[1..] {
        told.push(event.payload.as_ref().expect("a payload").parse().expect("a number"));
    }
    told.sort_unstable();
    assert_eq!(told, (0..40).collect::<Vec<_>>(), "each exactly once");
}

/// J6, T4
pub async fn a_note_under_a_lease_is_its_holders(bed: Bed) {
    let held = bed.a_held_job("w-1", at(0)).await;
    let actor = Actor::parse("actor", "somebody").expect("an actor");
    let note = Append { token: Some(held.lease.token), actor, ..note(held.job.id, "thought") };
    bed.appends(note, at(1)).await.expect("noted");
    let event = bed.log(held.job.id).await.pop().expect("an event");
    assert_eq!(event.actor, Actor::worker(&who("w-1")), "whoever the caller says it is");
    assert_eq!((event.lease, event.attempt), (Some(held.lease.token.hash()), 1));
}

/// J5, J6
pub async fn lease_and_version_guard_together(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let note = |token, v| Append { token: Some(token), expected_version: Some(v), ..note(id, "seen") };
    let wrong = Bed::secret(9).token(id, 1);
    let before = bed.snapshot(id).await;
    let refused = bed.appends(note(held.lease.token, 1), at(1)).await;
    assert_eq!(refused, Err(Refusal::VersionMismatch(2)));
    assert_eq!(bed.appends(note(wrong, 2), at(1)).await, Err(Refusal::Mismatch));
    assert_eq!(bed.appends(note(wrong, 1), at(1)).await, Err(Refusal::Mismatch), "the lease comes first");
    assert_eq!(bed.appends(note(wrong, 1), at(30_000)).await, Err(Refusal::Expired));
    bed.is_unchanged(&before).await;
    assert_eq!(bed.appends(note(held.lease.token, 2), at(2)).await.map(|t| t.done.version()), Ok(3));
}

/// J6, T4
pub async fn a_note_by_someone_else_never_breaks_a_worker(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    for _ in 0..3 {
        bed.appends(note(id, "plan_generated"), at(1)).await.expect("noted");
    }
    bed.extends(&held, 30_000, at(2)).await.expect("renewed");
    bed.reports(checkpoint(&held, "1"), at(2)).await.expect("reported");
    let done = bed.settles(&held, completes(), at(3)).await;
    assert_eq!(done, Ok(Done::Moved(7, Status::Completed)));
}

/// J2, J6, M7
pub async fn the_engines_own_types_are_reserved(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let before = bed.snapshot(id).await;
    let own = EventKind::TYPES.iter().copied().filter(|t| t.starts_with("job_"));
    for type_name in own.chain(["job_", "job_whatever"]) {
        let reserved = Err(Refusal::EventTypeReserved(type_name.to_owned()));
        assert_eq!(bed.appends(note(id, type_name), at(1)).await, reserved);
        let leased = Append { token: Some(held.lease.token), ..note(id, type_name) };
        assert_eq!(bed.appends(leased, at(1)).await, reserved, "not even for the holder");
    }
    bed.is_unchanged(&before).await;
    bed.appends(note(id, "Job_done"), at(2)).await.expect("only this spelling is reserved");
}

/// J2, J6
pub async fn node_and_tool_types_need_a_lease(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let types = ["node_started", "node_finished", "tool_called", "tool_returned", "node_x", "tool_"];
    let before = bed.snapshot(id).await;
    for type_name in types {
        let refused = bed.appends(note(id, type_name), at(1)).await;
        assert_eq!(refused, Err(Refusal::LeaseRequired(type_name.to_owned())));
    }
    bed.is_unchanged(&before).await;
    for type_name in types {
        let leased = Append { token: Some(held.lease.token), ..note(id, type_name) };
        bed.appends(leased, at(2)).await.expect("the holder's");
        assert_eq!(bed.log(id).await.last().map(|e| e.what.clone()), Some(EventKind::Noted(name(type_name))));
    }
    let recorded = bed
        .store
        .steps(ReadSteps::all(id), at(3))
        .await
        .expect("the store answers")
        .expect("the job is there");
    assert_eq!(recorded.steps, [], "a note is no step");
}

/// J6, M2, Q9
pub async fn a_finished_job_takes_notes_and_stays_finished(bed: Bed) {
    for status in [Status::Completed, Status::Failed, Status::TimedOut, Status::Cancelled] {
        let id = bed.a_job_that_is(status, 0).await;
        let before = bed.row(id).await;
        let told = bed.appends(Append { expected_version: Some(3), ..note(id, "postmortem") }, at(50)).await;
        assert_eq!(told.map(|t| t.done), Ok(Done::Moved(4, status)));
        let after = Job { version: 4, updated_at: time(50), ..before.clone() };
        assert_eq!(bed.row(id).await, after, "only version and time of change move");
        let signal = Signal { job: id, name: name("go"), payload: None, actor: Actor::api(), key: None };
        let refused = bed.store.signal(signal, at(51)).await.expect("the store answers");
        assert_eq!(refused, Err(Refusal::Finished(status)));
        let leased = Append { token: Some(Bed::secret(1).token(id, 1)), ..note(id, "node_started") };
        assert_eq!(bed.appends(leased, at(51)).await, Err(Refusal::Finished(status)));
        let queue = before.queue.as_str();
        assert_eq!(bed.claims_from("w", &[queue], 10, at(86_400_000)).await, [], "nothing wakes it");
        assert_eq!(bed.claims_by_id("w", id, at(86_400_000)).await, Err(Refusal::Finished(status)));
    }
}

/// R1, J5
pub async fn a_key_makes_a_repeat_known(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let keyed = Append { key: Some(key("k-1")), token: Some(held.lease.token), ..note(id, "seen") };
    assert_eq!(bed.appends(keyed.clone(), at(1)).await.map(|t| t.done), Ok(Done::Moved(3, Status::Running)));
    assert_eq!(bed.log(id).await[2].key, Some(key("k-1")));
    let before = bed.snapshot(id).await;
    let already = Ok(Done::Already(3));
    assert_eq!(bed.appends(keyed.clone(), at(2)).await.map(|t| t.done), already);
    let other = Append { expected_version: Some(99), payload: Some(json("1")), ..keyed.clone() };
    assert_eq!(bed.appends(other, at(2)).await.map(|t| t.done), already, "whatever else it says");
    assert_eq!(bed.appends(keyed.clone(), at(30_000)).await.map(|t| t.done), already, "the lease is over");
    bed.is_unchanged(&before).await;
    bed.cancels(id, crate::stop_at_once(), at(30_001)).await.expect("cancelled");
    assert_eq!(bed.appends(keyed, at(30_002)).await.map(|t| t.done), already, "the job is over");
}

/// R1
pub async fn a_key_stands_for_one_thing_in_its_job_and_for_nothing_in_another(bed: Bed) {
    let held = bed.holds("w", bed.job("work"), at(0)).await;
    let other = bed.holds("w", bed.job("work"), at(0)).await;
    let say = |held: &Claimed, k: &str| Progress { key: Some(key(k)), progress: Some(7), ..report(held) };
    let remark = |job: JobId, k: &str| Append { key: Some(key(k)), ..note(job, "seen") };
    bed.reports(say(&held, "k"), at(1)).await.expect("reported");
    let noted = bed.appends(remark(held.job.id, "k"), at(2)).await;
    assert_eq!(noted, Err(Refusal::KeyReused(3)), "a report's key is not a note's");
    bed.appends(remark(held.job.id, "l"), at(2)).await.expect("noted");
    assert_eq!(bed.reports(say(&held, "l"), at(2)).await, Err(Refusal::KeyReused(4)));
    let signal = |job: JobId, k: &str| Signal {
        job,
        name: name("go"),
        payload: None,
        actor: Actor::api(),
        key: Some(key(k)),
    };
    let signalled = bed.store.signal(signal(held.job.id, "k"), at(3)).await.expect("the store answers");
    assert_eq!(signalled, Err(Refusal::KeyReused(3)), "a signal is never swallowed by a note's key");
    bed.reports(say(&other, "k"), at(3)).await.expect("another job's key is its own");
    assert_eq!(bed.row(other.job.id).await.version, 3);
}

/// R1, J5
pub async fn racing_repeats_under_a_key_are_one(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let mut racers = JoinSet::new();
    for _ in 0..16 {
        let bed = bed.clone();
        let note = Append { key: Some(key("k")), ..note(id, "seen") };
        racers.spawn(async move { bed.appends(note, at(1)).await.expect("noted").done });
    }
    let answers = racers.join_all().await;
    assert_eq!(answers.iter().filter(|d| !d.is_repeat()).count(), 1, "written once");
    assert!(answers.iter().all(|d| d.version() == 2), "everybody is told where");
    assert_eq!(bed.types(id).await, ["job_created", "seen"]);
}

/// Q2, J2
pub async fn a_note_above_the_limit_is_refused(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let sized = |n: usize| Append { payload: Some(bytes(n)), ..note(id, "seen") };
    let before = bed.snapshot(id).await;
    let refused = bed.appends(sized(EVENT_PAYLOAD_MAX_BYTES + 1), at(1)).await;
    is_invalid(&refused, "payload");
    let told = refused.expect_err("refused").to_string();
    assert!(told.contains("65536"), "the limit is in the message: {told}");
    bed.is_unchanged(&before).await;
    bed.appends(sized(EVENT_PAYLOAD_MAX_BYTES), at(1)).await.expect("the largest passes");
}

/// J4, T10
pub async fn a_log_is_read_in_order_page_by_page(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    for _ in 0..149 {
        bed.appends(note(id, "seen"), at(1)).await.expect("noted");
    }
    let read = async |after, limit, newest_first| {
        let request = ReadEvents { job: id, after, limit, newest_first };
        let events: Vec<Event> = bed.store.events(request, at(2)).await.expect("the store answers");
        events.iter().map(|e| e.version).collect::<Vec<_>>()
    };
    assert_eq!(read(0, 100, false).await, (1..=100).collect::<Vec<_>>());
    assert_eq!(read(100, 100, false).await, (101..=150).collect::<Vec<_>>());
    assert_eq!(read(150, 100, false).await, Vec::<Version>::new());
    assert_eq!(read(149, 1, false).await, [150]);
    assert_eq!(read(0, 100, true).await, (51..=150).rev().collect::<Vec<_>>(), "the newest 100");
    assert_eq!(read(51, 100, true).await, (1..=50).rev().collect::<Vec<_>>());
    assert_eq!(read(1, 100, true).await, Vec::<Version>::new());
    assert_eq!(read(0, usize::MAX, false).await.len(), 150);
    assert_eq!(read(0, 0, false).await, [1], "a page has at least one row");
}

/// T1, T4
pub async fn a_report_is_one_change_by_the_worker(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let say = Progress {
        progress: Some(40),
        stage: Some("reading – Ünïcode\n2nd line".into()),
        metadata: Some(object("{\"rows\":12}")),
        checkpoint: Some(json("{\"page\":3}")),
        ..report(&held)
    };
    let told = bed.reports(say.clone(), at(5)).await;
    assert_eq!(told, Ok(HolderReply { done: Done::Moved(3, Status::Running), cancel_requested: false }));
    let view = bed.view(id, at(5)).await;
    assert_eq!((view.job.progress, &view.job.stage, view.job.updated_at), (40, &say.stage, time(5)));
    assert_eq!((Some(&view.metadata), &view.checkpoint), (say.metadata.as_ref(), &say.checkpoint));
    let log = bed.log(id).await;
    assert_eq!(log[2].what.type_name(), "job_progressed");
    assert_eq!((&log[2].actor, log[2].attempt), (&Actor::worker(&who("w")), 1));
    assert_eq!(log[2].lease, Some(held.lease.token.hash()));
    // What a report does not mention stays.
    bed.reports(Progress { progress: Some(41), ..report(&held) }, at(6)).await.expect("reported");
    let after = bed.view(id, at(6)).await;
    assert_eq!((after.job.progress, after.job.stage), (41, view.job.stage));
    assert_eq!((after.metadata, after.checkpoint), (view.metadata, view.checkpoint));
    bed.reports(Progress { stage: Some(String::new()), ..report(&held) }, at(7)).await.expect("reported");
    assert_eq!(bed.row(id).await.stage.as_deref(), Some(""), "an empty stage is a stage");
}

/// T4, T1
pub async fn progress_out_of_range_is_refused_never_clamped(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let percent = |p: i64| Progress { progress: Some(p), ..report(&held) };
    let before = bed.snapshot(held.job.id).await;
    for wrong in [-1, 101, i64::MAX, i64::MIN, 1 << 32, (1 << 32) + 50] {
        is_invalid(&bed.reports(percent(wrong), at(1)).await, "progress");
    }
    for wrong in ["x".repeat(TEXT_MAX_BYTES + 1), "a\0b".to_owned()] {
        is_invalid(&bed.reports(Progress { stage: Some(wrong), ..percent(5) }, at(1)).await, "stage");
    }
    bed.is_unchanged(&before).await;
    for right in [0, 100, 30] {
        bed.reports(percent(right), at(2)).await.expect("reported");
        assert_eq!(i64::from(bed.row(held.job.id).await.progress), right, "also downwards");
    }
    let stage = Some("x".repeat(TEXT_MAX_BYTES));
    bed.reports(Progress { stage, ..report(&held) }, at(3)).await.expect("the longest passes");
}

/// T4
pub async fn a_report_that_says_nothing_is_refused(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    is_invalid(&bed.reports(report(&held), at(1)).await, "progress");
    bed.is_unchanged(&before).await;
}

/// T4
pub async fn metadata_merges_key_by_key(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.metadata = object("{\"a\":{\"x\":1,\"y\":2},\"b\":[1,2],\"c\":1}");
    let held = bed.holds("w", job, at(0)).await;
    let id = held.job.id;
    let merge = async |text: &str, now: Now| {
        let metadata = Some(object(text));
        bed.reports(Progress { metadata, ..report(&held) }, now).await.expect("reported");
        bed.view(id, now).await.metadata
    };
    let merged = merge("{\"a\":{\"x\":9},\"d\":null}", at(1)).await;
    assert_eq!(merged, object("{\"a\":{\"x\":9},\"b\":[1,2],\"c\":1,\"d\":null}"), "one level deep");
    let merged = merge("{\"b\":[3],\"c\":\"\\u0000\"}", at(2)).await;
    assert_eq!(merged, object("{\"a\":{\"x\":9},\"b\":[3],\"c\":\"\\u0000\",\"d\":null}"));
    assert_eq!(merge("{}", at(3)).await, merged, "nothing to merge changes nothing");
    assert_eq!(bed.view(id, at(3)).await.facts.metadata.len(), 3, "the facts stay as they were");
    bed.settles(&held, fails_until("x", RunAt::Now), at(4)).await.expect("retried");
    assert_eq!(bed.claims_one("v", at(5)).await.metadata, merged, "the next attempt has it");
}

/// T1, T4
pub async fn merged_metadata_keeps_to_the_limit(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let sized = |k: &str, n: usize| {
        let metadata = Some(object(&format!("{{\"{k}\":\"{}\"}}", "x".repeat(n))));
        Progress { metadata, ..report(&held) }
    };
    bed.reports(sized("a", 10_000), at(1)).await.expect("within the limit");
    let before = bed.snapshot(id).await;
    is_invalid(&bed.reports(sized("b", 10_000), at(2)).await, "metadata");
    bed.is_unchanged(&before).await;
    bed.reports(sized("a", 11_000), at(3)).await.expect("in place of the old value");
    // {"a":"…","b":"…"} of exactly the limit, then one byte more.
    let rest = METADATA_MAX_BYTES - 11_000 - "{\"a\":\"\",\"b\":\"\"}".len();
    bed.reports(sized("b", rest), at(4)).await.expect("the largest passes");
    is_invalid(&bed.reports(sized("b", rest + 1), at(5)).await, "metadata");
}

/// M4, J10
pub async fn a_checkpoint_is_absent_then_the_latest(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    let now = async || bed.view(id, at(0)).await.checkpoint;
    assert_eq!(now().await, None);
    bed.reports(Progress { progress: Some(1), ..report(&held) }, at(1)).await.expect("reported");
    assert_eq!(now().await, None, "a report without one leaves none");
    for text in ["{\"page\":1}", "null", "[ 2 ]"] {
        bed.reports(checkpoint(&held, text), at(2)).await.expect("reported");
        assert_eq!(now().await, Some(json(text)));
    }
    bed.reports(Progress { progress: Some(2), ..report(&held) }, at(3)).await.expect("reported");
    assert_eq!(now().await, Some(json("[ 2 ]")), "a report without one keeps the last");
    assert_eq!(bed.view(id, at(3)).await.payload, held.payload, "the payload never moves");
}

/// R1, T4
pub async fn a_repeated_report_is_one_change(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let say = Progress { key: Some(key("k")), progress: Some(10), ..report(&held) };
    bed.reports(say.clone(), at(1)).await.expect("reported");
    bed.reports(Progress { progress: Some(20), ..report(&held) }, at(2)).await.expect("reported");
    let before = bed.snapshot(held.job.id).await;
    assert_eq!(bed.reports(say, at(3)).await.map(|t| t.done), Ok(Done::Already(3)));
    bed.is_unchanged(&before).await;
}

/// J11, J2
pub async fn a_step_is_recorded_once_with_its_value(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    assert_eq!(steps(&bed, id).await, []);
    let args = RecordStep { payload: Some(json("\"in\"")), ..step_begins(&held, "fetch") };
    assert_eq!(bed.records(args, at(1)).await.map(|t| t.done), Ok(Done::Moved(3, Status::Running)));
    let begun = RecordedStep {
        name: name("fetch"),
        tool: false,
        state: StepState::Begun { args: Some(json("\"in\"")) },
        version: 3,
        run: StepRun::This,
    };
    assert_eq!(steps(&bed, id).await, std::slice::from_ref(&begun));
    bed.records(step_ends(&held, "fetch", "{\"out\":1}"), at(2)).await.expect("recorded");
    let state = StepState::Ended { value: Some(json("{\"out\":1}")) };
    let ended = RecordedStep { state, version: 4, ..begun };
    assert_eq!(steps(&bed, id).await, std::slice::from_ref(&ended));
    let tool = RecordStep { tool: true, payload: None, ..step_ends(&held, "call", "0") };
    bed.records(tool, at(3)).await.expect("an end needs no beginning");
    let state = StepState::Ended { value: None };
    let called = RecordedStep { name: name("call"), tool: true, state, version: 5, run: StepRun::This };
    assert_eq!(steps(&bed, id).await, [ended, called], "in the order of their first record");
    let types = bed.types(id).await;
    assert_eq!(types[2..], ["node_started", "node_finished", "tool_returned"]);
    let log = bed.log(id).await;
    assert!(log[2..].iter().all(|e| e.actor == Actor::worker(&who("w")) && e.lease.is_some()));
}

/// J11
pub async fn a_recorded_step_never_changes(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    bed.records(step_ends(&held, "fetch", "1"), at(1)).await.expect("recorded");
    let before = bed.snapshot(id).await;
    let again = bed.records(step_ends(&held, "fetch", "1"), at(2)).await;
    assert_eq!(again.map(|t| t.done), Ok(Done::Already(3)), "the same value is the same record");
    for other in [
        step_ends(&held, "fetch", "2"),
        step_ends(&held, "fetch", " 1"),
        RecordStep { payload: None, ..step_ends(&held, "fetch", "1") },
        step_begins(&held, "fetch"),
    ] {
        assert_eq!(bed.records(other, at(2)).await, Err(Refusal::StepRecorded(3)));
    }
    let wrong = RecordStep { token: Bed::secret(9).token(id, 1), ..step_ends(&held, "fetch", "2") };
    assert_eq!(bed.records(wrong, at(2)).await, Err(Refusal::Mismatch), "the lease comes first");
    bed.is_unchanged(&before).await;
}

/// J11, R1
pub async fn a_repeat_of_a_step_is_known_after_the_lease_is_lost(bed: Bed) {
    let held = bed.a_held_job("a", at(0)).await;
    bed.records(step_ends(&held, "fetch", "1"), at(1)).await.expect("recorded");
    let next = bed.claims_one("b", at(30_000)).await;
    assert_eq!(next.steps_recorded, 1);
    let again = bed.records(step_ends(&held, "fetch", "1"), at(30_001)).await;
    assert_eq!(again.map(|t| t.done), Ok(Done::Already(3)));
    let refused = bed.records(step_ends(&held, "other", "1"), at(30_001)).await;
    assert_eq!(refused, Err(Refusal::Mismatch), "but nothing new is recorded under a lost lease");
}

/// J11
pub async fn a_tool_without_a_return_is_in_doubt(bed: Bed) {
    let held = bed.a_held_job("a", at(0)).await;
    let id = held.job.id;
    let calls = |held: &Claimed, args: &str| RecordStep {
        tool: true,
        payload: Some(json(args)),
        ..step_begins(held, "charge")
    };
    bed.records(calls(&held, "{\"eur\":5}"), at(1)).await.expect("recorded");
    let next = bed.claims_one("b", at(30_000)).await;
    assert_eq!(next.steps_recorded, 0, "it did not end");
    let in_doubt = RecordedStep {
        name: name("charge"),
        tool: true,
        state: StepState::Begun { args: Some(json("{\"eur\":5}")) },
        version: 3,
        run: StepRun::This,
    };
    assert_eq!(steps(&bed, id).await, [in_doubt]);
    // The handler decides to call again.
    bed.records(calls(&next, "{\"eur\":6}"), at(30_001)).await.expect("recorded");
    let returns = RecordStep { tool: true, ..step_ends(&next, "charge", "\"paid\"") };
    bed.records(returns, at(30_002)).await.expect("recorded");
    let ended = &steps(&bed, id).await[0];
    assert_eq!((ended.version, &ended.state), (6, &StepState::Ended { value: Some(json("\"paid\"")) }));
}

/// J11, M4
pub async fn steps_survive_attempts_and_a_redrive_but_not_one_from_the_start(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let id = held.job.id;
    bed.records(step_ends(&held, "fetch", "1"), at(1)).await.expect("recorded");
    bed.reports(checkpoint(&held, "\"here\""), at(1)).await.expect("reported");
    bed.settles(&held, fails_for_good("broken"), at(2)).await.expect("failed");
    bed.redrives(redrive(id), at(3)).await.expect("redriven");
    let held = bed.claims_one("w", at(4)).await;
    assert_eq!((held.steps_recorded, held.checkpoint.clone()), (1, Some(json("\"here\""))));
    assert_eq!(bed.records(step_ends(&held, "fetch", "2"), at(4)).await, Err(Refusal::StepRecorded(3)));
    bed.settles(&held, fails_for_good("broken"), at(5)).await.expect("failed");
    let anew = windlass_store::Redrive { from_start: true, ..redrive(id) };
    bed.redrives(anew, at(6)).await.expect("redriven");
    assert_eq!(steps(&bed, id).await, [], "forgotten");
    let held = bed.claims_one("w", at(7)).await;
    assert_eq!((held.steps_recorded, held.checkpoint.clone()), (0, None));
    assert_eq!(bed.view(id, at(7)).await.checkpoint, None);
    bed.records(step_ends(&held, "fetch", "2"), at(8)).await.expect("another value is fine now");
    assert_eq!(
        bed.records(step_ends(&held, "fetch", "2"), at(8)).await.map(|t| t.done.is_repeat()),
        Ok(true)
    );
    assert_eq!(steps(&bed, id).await[0].state, StepState::Ended { value: Some(json("2")) });
}

/// Q2, J11, M4
pub async fn step_values_and_checkpoints_above_the_limit_are_refused(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let before = bed.snapshot(held.job.id).await;
    let value = |n: usize| RecordStep { payload: Some(bytes(n)), ..step_ends(&held, "s", "1") };
    let mark = |n: usize| Progress { checkpoint: Some(bytes(n)), ..report(&held) };
    let refused = bed.records(value(PAYLOAD_MAX_BYTES + 1), at(1)).await;
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    let refused = bed.reports(mark(PAYLOAD_MAX_BYTES + 1), at(1)).await;
    assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    bed.is_unchanged(&before).await;
    bed.records(value(PAYLOAD_MAX_BYTES), at(2)).await.expect("the largest passes");
    bed.reports(mark(PAYLOAD_MAX_BYTES), at(2)).await.expect("the largest passes");
}

/// R11, T4
pub async fn log_lines_are_numbered_and_change_nothing_else(bed: Bed) {
    let held = bed.a_held_job("a", at(0)).await;
    let id = held.job.id;
    let before = bed.snapshot(id).await;
    let write = async |held: &Claimed, lines: &[&str], now: Now| {
        let lines = lines.iter().map(|l| (*l).to_owned()).collect();
        let request = WriteLogs { job: id, token: held.lease.token, lines };
        bed.store.write_logs(request, now).await.expect("the store answers")
    };
    let read = async |after: i64, limit: usize| {
        let request = ReadLogs { job: id, after, limit };
        let lines = bed.store.logs(request, at(0)).await.expect("the store answers");
        lines.into_iter().map(|l| (l.n, l.attempt, l.line)).collect::<Vec<_>>()
    };
    assert_eq!(write(&held, &["one", "", "three – ü\n\tx"], at(1)).await, Ok(()));
    assert_eq!(write(&held, &[], at(2)).await, Ok(()));
    bed.is_unchanged(&before).await;
    let next = bed.claims_one("b", at(30_000)).await;
    assert_eq!(write(&next, &["four"], at(30_001)).await, Ok(()));
    let line = |n: i64, attempt: i32, text: &str| (n, attempt, text.to_owned());
    let all = [line(1, 1, "one"), line(2, 1, ""), line(3, 1, "three – ü\n\tx"), line(4, 2, "four")];
    assert_eq!(read(0, 1_000).await, all);
    assert_eq!(read(1, 2).await, all[1..3]);
    assert_eq!(read(4, 10).await, []);
    let request = ReadLogs { job: id, after: 3, limit: 10 };
    let last = bed.store.logs(request, at(0)).await.expect("the store answers");
    assert_eq!(last[0].at, time(30_001));
    bed.settles(&next, completes(), at(30_002)).await.expect("completed");
    assert_eq!(write(&next, &["late"], at(30_003)).await, Err(Refusal::Finished(Status::Completed)));
    assert_eq!(read(0, 1_000).await, all, "still readable");
}

/// Q2
pub async fn log_lines_outside_their_limits_are_refused_whole(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let (job, token) = (held.job.id, held.lease.token);
    let long = "x".repeat(LOG_LINE_MAX_BYTES + 1);
    let many = vec![String::new(); BATCH_MAX + 1];
    for lines in [vec!["fine".into(), long.clone()], vec!["fine".into(), "a\0b".into()], many] {
        let refused = bed.store.write_logs(WriteLogs { job, token, lines }, at(1)).await;
        let refused = refused.expect("the store answers");
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{refused:?}");
    }
    let read = ReadLogs { job, after: 0, limit: 10 };
    assert_eq!(bed.store.logs(read, at(1)).await, Ok(vec![]), "not even the good ones");
    let lines = vec![long[1..].to_owned()];
    let written = bed.store.write_logs(WriteLogs { job, token, lines }, at(2)).await;
    assert_eq!(written, Ok(Ok(())), "the longest passes");
}

/// T4
pub async fn racing_log_lines_are_numbered_without_a_gap(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let mut racers = JoinSet::new();
    for n in 0..20 {
        let bed = bed.clone();
        let lines = vec![format!("{n} a"), format!("{n} b")];
        let request = WriteLogs { job: held.job.id, token: held.lease.token, lines };
        racers.spawn(async move { bed.store.write_logs(request, at(1)).await });
    }
    assert!(racers.join_all().await.iter().all(|a| *a == Ok(Ok(()))));
    let request = ReadLogs { job: held.job.id, after: 0, limit: 100 };
    let lines = bed.store.logs(request, at(1)).await.expect("the store answers");
    assert_eq!(lines.iter().map(|l| l.n).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());
    for pair in lines.chunks(2) {
        let (a, b) = (pair[0].line.strip_suffix(" a"), pair[1].line.strip_suffix(" b"));
        assert!(a.is_some() && a == b, "one request's lines stay together: {pair:?}");
    }
}

async fn steps(bed: &Bed, job: JobId) -> Vec<RecordedStep> {
    bed.store
        .steps(ReadSteps::all(job), at(0))
        .await
        .expect("the store answers")
        .expect("the job is there")
        .steps
}

fn object(text: &str) -> Metadata {
    serde_json::from_str(text).expect("an object")
}

fn bytes(n: usize) -> Payload {
    Payload::bytes("payload", vec![7; n], n).expect("bytes")
}
