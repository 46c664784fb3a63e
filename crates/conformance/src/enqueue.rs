//! How jobs enter.

use crate::{
    Bed, at, completes, fails_for_good, invariants, is_invalid, json, key, name, note, report, stop,
    stop_at_once, time, who,
};
use tokio::task::JoinSet;
use windlass_core::backoff::Backoff;
use windlass_core::limits::{
    ANSWER_KEPT_MS, ENQUEUE_MAX, GRACE_MAX_MS, HORIZON_MS, METADATA_MAX_BYTES, PAYLOAD_MAX_BYTES, TAGS_MAX,
    TIMEOUT_MAX_MS,
};
use windlass_core::unique::{Policy, Scope};
use windlass_core::{
    Actor, EventKind, Facts, Filter, JobId, Key, LeaseMs, Metadata, Name, NewJob, Outcome, Payload, Refusal,
    RunAt, Status, Timestamp, Unique, Who,
};
use windlass_store::{
    AtVersion, BatchRefusal, Enqueue, Enqueued, Idempotency, List, Purge, ReadEvents, ReadLogs, ReadSteps,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! enqueue_laws {
    ($($make:tt)*) => {
        $crate::law_tests!([$($make)*], enqueue:
            a_new_job_is_pending_and_due_at_once,
            a_new_job_tells_everything_about_itself,
            an_unknown_job_reads_as_nothing,
            ids_are_of_version_7_and_sort_by_creation,
            jobs_are_listed_by_agent,
            a_delay_counts_from_the_stores_time,
            time_never_runs_backwards_within_a_job,
            what_came_in_goes_out_unchanged,
            metadata_goes_out_as_it_came_in,
            a_payload_above_the_limit_is_refused,
            values_outside_their_limits_are_refused_by_name,
            values_at_their_limits_are_accepted,
            words_are_checked_where_they_are_made,
            jobs_of_one_request_keep_what_each_says,
            a_request_is_taken_whole_or_not_at_all,
            a_request_of_too_many_is_refused_and_an_empty_one_is_fine,
            the_same_id_and_body_again_is_the_same_job,
            the_same_id_from_another_trace_is_the_same_job,
            the_same_id_with_another_body_is_refused,
            the_same_id_twice_in_a_request_is_one_job,
            without_a_key_nothing_is_ever_a_duplicate,
            a_key_holds_within_its_queue,
            scopes_never_meet,
            the_same_input_of_a_kind_is_one_job,
            the_same_input_runs_again_unless_it_succeeded,
            an_active_key_is_free_after_any_end,
            a_succeeded_key_is_free_after_a_failure_and_not_after_success,
            a_key_for_ever_outlives_its_job,
            a_key_for_a_time_is_over_to_the_microsecond,
            an_end_frees_no_key_that_another_job_took,
            duplicates_within_a_request_are_the_first_one,
            racing_requests_in_opposite_orders_agree,
            a_slot_is_created_once_whoever_tries,
            a_slot_stays_taken_however_its_job_ends,
            an_idempotency_key_replays_its_answer,
            an_idempotency_key_with_another_body_is_refused,
            an_idempotency_key_is_forgotten_after_a_day,
            racing_repeats_of_a_request_get_one_answer,
            a_child_needs_its_parent,
            children_are_counted_by_one_event,
            a_spawn_needs_the_parents_live_lease,
            nobody_holds_a_parent_of_the_same_request,
            a_key_that_was_taken_anew_knows_the_new_payload,
            a_repeated_spawn_counts_nothing_twice,
            a_finished_parent_is_only_linked,
        );
    };
}

/// J2, J10, M3, Q3
pub async fn a_new_job_is_pending_and_due_at_once(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let row = bed.row(id).await;
    assert_eq!((row.status, row.version, row.due_at), (Status::Pending, 1, at(0)));
    assert_eq!(bed.types(id).await, ["job_created"]);
}

/// T1, T2, J2, J10
pub async fn a_new_job_tells_everything_about_itself(bed: Bed) {
    let mut job = bed.job_in("report.render", "reports");
    job.facts = Facts {
        priority: 4,
        run_at: RunAt::At(time(5_000)),
        max_retries: 7,
        timeout_ms: Some(60_000),
        lease_ms: Some(LeaseMs::new(45_000).expect("a lease")),
        grace_ms: 2_000,
        backoff: Some(Backoff { base_ms: 10, max_ms: 20, multiplier: 1.5, jitter: false }),
        agent_id: Some(who("agent 7 – ä")),
        tags: vec![name("nightly"), name("eu")],
        metadata: object("{\"tenant\":\"acme\",\"n\":1}"),
        unique: Some(Unique::in_queue(name("reports"), key("r-1"))),
        ..job.facts
    };
    let asked = job.clone();
    let request = Enqueue { jobs: vec![job], actor: actor("api:ann"), idempotency: None };
    let answer = bed.store.enqueue(request, at(7)).await.expect("the store answers").expect("accepted");
    assert_eq!(answer, [Enqueued { id: asked.id, existed: false, payload_differs: false, dropped: false }]);

    let view = bed.view(asked.id, at(7)).await;
    assert_eq!((&view.facts, &view.payload), (&asked.facts, &asked.payload));
    assert_eq!(view.metadata, asked.facts.metadata);
    assert_eq!((view.result, view.error, view.checkpoint), (None, None, None));
    let row = view.job;
    assert_eq!((row.queue.as_str(), row.kind.as_str(), row.priority), ("reports", "report.render", 4));
    assert_eq!((row.attempt, row.retries, row.max_retries, row.crashes), (0, 0, 7, 0));
    assert_eq!((row.progress, row.stage, row.generation, row.version), (0, None, 0, 1));
    assert_eq!((row.created_at, row.updated_at, row.due_at), (time(7), time(7), at(5_000)));
    assert_eq!((row.started_at, row.finished_at, row.worker_id), (None, None, None));

    let log = bed.log(asked.id).await;
    assert_eq!((log[0].actor.as_str(), log[0].at, log[0].attempt), ("api:ann", time(7), 0));
    assert_eq!(log[0].what, EventKind::JobCreated(Box::new(asked.facts)));
    assert_eq!(log[0].payload, asked.payload);
}

/// J3, T10
pub async fn an_unknown_job_reads_as_nothing(bed: Bed) {
    let id = bed.id();
    assert_eq!(bed.store.job(id, at(0)).await, Ok(None));
    let request = ReadEvents { job: id, after: 0, limit: 100, newest_first: true };
    assert_eq!(bed.store.events(request, at(0)).await, Ok(vec![]));
    assert_eq!(bed.store.at_version(AtVersion { job: id, version: 1 }, at(0)).await, Ok(None));
    assert_eq!(bed.store.steps(ReadSteps::all(id), at(0)).await, Ok(None));
    assert_eq!(bed.store.logs(ReadLogs { job: id, after: 0, limit: 10 }, at(0)).await, Ok(vec![]));
}

/// M3
pub async fn ids_are_of_version_7_and_sort_by_creation(bed: Bed) {
    let fresh = windlass_store::fresh::job_id();
    assert_eq!(JobId::parse(&fresh.to_string()), Ok(fresh));
    assert!(JobId::parse("9f9f0e0c-7a5d-4c53-9d5c-0e6c4b1a2f3d").is_err(), "version 4 is no job id");
    assert!(JobId::parse("job-1").is_err());
    let (earlier, later) = (JobId::from_parts(time(0), [255; 8]), JobId::from_parts(time(1), [0; 8]));
    assert!(earlier < later, "a later millisecond sorts after");
    // Enqueued the other way round, they are still handed out by due time and listed newest id first.
    for id in [later, earlier, fresh] {
        let answer = bed.enqueue(NewJob { id, ..bed.job("work") }, at(0)).await;
        assert_eq!((answer.id, answer.existed), (id, false), "the caller's id is kept");
    }
    let listed: Vec<JobId> = invariants::every_job(&bed).await.iter().map(|j| j.id).collect();
    let mut sorted = vec![later, earlier, fresh];
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(listed, sorted);
}

/// J10
pub async fn jobs_are_listed_by_agent(bed: Bed) {
    let mut of_agent = Vec::new();
    for (n, agent) in ["a", "b", "a"].into_iter().enumerate() {
        let mut job = bed.job("work");
        job.facts.agent_id = Some(who(agent));
        let id = bed.enqueue(job, at(n as i64)).await.id;
        if agent == "a" {
            of_agent.insert(0, id);
        }
    }
    bed.a_job(at(9)).await;
    let filter = Filter { agent_id: Some(who("a")), ..Filter::default() };
    let request = List { filter, cursor: None, limit: 100 };
    let page = bed.store.jobs(request, at(9)).await.expect("the store answers").expect("a page");
    let listed: Vec<JobId> = page.items.iter().map(|l| l.job.id).collect();
    assert_eq!(listed, of_agent, "newest first, and only this agent's");
}

/// Q3
pub async fn a_delay_counts_from_the_stores_time(bed: Bed) {
    let due = async |run_at: RunAt| {
        let mut job = bed.job("work");
        job.facts.run_at = run_at;
        let id = bed.enqueue(job, at(100)).await.id;
        bed.row(id).await.due_at
    };
    assert_eq!(due(RunAt::Now).await, at(100));
    assert_eq!(due(RunAt::After(0)).await, at(100));
    assert_eq!(due(RunAt::After(250)).await, at(350));
    assert_eq!(due(RunAt::At(time(400))).await, at(400));
    assert_eq!(due(RunAt::At(time(-400))).await, at(-400), "the past is a time like any other");
}

/// M6
pub async fn time_never_runs_backwards_within_a_job(bed: Bed) {
    let id = bed.a_job(at(1_000)).await;
    bed.appends(note(id, "seen"), at(400)).await.expect("a note");
    let log = bed.log(id).await;
    assert_eq!((log[1].at, bed.row(id).await.updated_at), (time(1_000), time(1_000)));
}

/// Q2, M4
pub async fn what_came_in_goes_out_unchanged(bed: Bed) {
    let texts = [
        r#"{"b":1, "a" : "\u0000", "b":2}"#,
        " [ 1.50, 1e400, 123456789012345678901234567890, -0 ]\n",
        r#""\ud83d\ude00 ü \/""#,
        "null",
        "{}",
    ];
    let mut payloads: Vec<Option<Payload>> = texts.iter().map(|t| Some(json(t))).collect();
    for bytes in [vec![], vec![0], vec![0xff, 0xfe, 0, 0x80], b"{not json".to_vec(), b"{\"a\":1}".to_vec()] {
        payloads.push(Some(Payload::bytes("payload", bytes, 100).expect("bytes")));
    }
    payloads.push(None);
    for payload in payloads {
        let job = NewJob { payload: payload.clone(), ..bed.job("work") };
        let held = bed.holds("w", job, at(0)).await;
        assert_eq!(held.payload, payload, "to the handler");
        assert_eq!(bed.view(held.job.id, at(0)).await.payload, payload, "to the reader");
        // As a result, a checkpoint, a step's value and a note as well.
        let mut say = report(&held);
        (say.checkpoint, say.stage) = (payload.clone(), Some("half".into()));
        bed.reports(say, at(0)).await.expect("a checkpoint");
        let step = crate::step_begins(&held, "s");
        let step = windlass_store::RecordStep { payload: payload.clone(), finished: true, ..step };
        bed.records(step, at(0)).await.expect("a step");
        let plan = windlass_store::Append { payload: payload.clone(), ..note(held.job.id, "plan_generated") };
        bed.appends(plan, at(0)).await.expect("a note");
        bed.settles(&held, Outcome::Complete(payload.clone()), at(0)).await.expect("completed");
        let view = bed.view(held.job.id, at(0)).await;
        assert_eq!((&view.result, &view.checkpoint), (&payload, &payload));
        let log = bed.log(held.job.id).await;
        assert!([0, 2, 3, 4, 5].iter().all(|n| log[*n].payload == payload), "{log:#?}");
    }
}

/// T1
pub async fn metadata_goes_out_as_it_came_in(bed: Bed) {
    let metadata = object(r#"{"z":"\u0000","ü 😀":[1,2.5,null,{"deep":true}],"":"","big":9007199254740993}"#);
    let mut job = bed.job("work");
    job.facts.metadata = metadata.clone();
    let held = bed.holds("w", job, at(0)).await;
    assert_eq!(held.metadata, metadata);
    let view = bed.view(held.job.id, at(0)).await;
    assert_eq!((&view.metadata, &view.facts.metadata), (&metadata, &metadata));
    let order: Vec<&String> = view.metadata.keys().collect();
    assert_eq!(order, metadata.keys().collect::<Vec<_>>(), "also its order");
}

/// Q2, T8
pub async fn a_payload_above_the_limit_is_refused(bed: Bed) {
    let with = |n: usize| NewJob { payload: Some(bytes(n)), ..bed.job("work") };
    let (index, refusal) =
        bed.enqueue_refused(vec![bed.job("work"), with(PAYLOAD_MAX_BYTES + 1)], at(0)).await;
    assert_eq!(index, 1);
    is_invalid(&Err::<(), _>(refusal.clone()), "payload");
    assert!(refusal.to_string().contains("16777216"), "the limit is in the message: {refusal}");
    assert_eq!(invariants::every_job(&bed).await, [], "nothing was written");
    let id = bed.enqueue(with(PAYLOAD_MAX_BYTES), at(0)).await.id;
    assert_eq!(bed.view(id, at(0)).await.payload, Some(bytes(PAYLOAD_MAX_BYTES)));
}

/// Q2, M5, M9, Q10, T1
pub async fn values_outside_their_limits_are_refused_by_name(bed: Bed) {
    type Change = fn(&mut Facts);
    let cases: &[(&str, Change)] = &[
        ("priority", |f| f.priority = 6),
        ("priority", |f| f.priority = -6),
        ("priority", |f| f.priority = i32::MIN),
        ("max_retries", |f| f.max_retries = -1),
        ("max_retries", |f| f.max_retries = 101),
        ("timeout", |f| f.timeout_ms = Some(-1)),
        ("timeout", |f| f.timeout_ms = Some(TIMEOUT_MAX_MS + 1)),
        ("grace", |f| f.grace_ms = -1),
        ("grace", |f| f.grace_ms = GRACE_MAX_MS + 1),
        ("backoff.base", |f| f.backoff = Some(Backoff { base_ms: -1, ..Backoff::default() })),
        ("backoff.base", |f| f.backoff = Some(Backoff { base_ms: i64::MAX, ..Backoff::default() })),
        ("backoff.max", |f| f.backoff = Some(Backoff { max_ms: -1, ..Backoff::default() })),
        ("backoff.multiplier", |f| f.backoff = Some(Backoff { multiplier: 0.9, ..Backoff::default() })),
        ("backoff.multiplier", |f| f.backoff = Some(Backoff { multiplier: 1_001.0, ..Backoff::default() })),
        ("backoff.multiplier", |f| f.backoff = Some(Backoff { multiplier: f64::NAN, ..Backoff::default() })),
        ("tags", |f| f.tags = (0..=TAGS_MAX).map(|n| name(&format!("t{n}"))).collect()),
        ("metadata", |f| f.metadata = metadata_of(METADATA_MAX_BYTES + 1)),
        ("metadata", |f| f.metadata = nested(64)),
        ("run_at", |f| f.run_at = RunAt::At(Timestamp::from_micros(i64::MAX))),
        ("run_at", |f| f.run_at = RunAt::At(Timestamp::from_micros(i64::MIN))),
        ("run_at", |f| f.run_at = RunAt::At(time(HORIZON_MS + 1))),
        ("run_at", |f| f.run_at = RunAt::At(time(-HORIZON_MS - 1))),
        ("delay", |f| f.run_at = RunAt::After(-1)),
        ("delay", |f| f.run_at = RunAt::After(i64::MAX)),
        ("unique.ttl", |f| f.unique = Some(unique("q", "k", Policy::Ttl(0)))),
        ("unique.ttl", |f| f.unique = Some(unique("q", "k", Policy::Ttl(i64::MAX)))),
    ];
    for (n, (field, change)) in cases.iter().enumerate() {
        let mut bad = bed.job("work");
        change(&mut bad.facts);
        let (index, refusal) = bed.enqueue_refused(vec![bed.job("work"), bad], at(0)).await;
        assert_eq!(index, 1, "case {n}: {field}");
        is_invalid(&Err::<(), _>(refusal), field);
    }
    assert_eq!(invariants::every_job(&bed).await, [], "nothing was written");
}

/// Q2, M5, M9, Q10, T1
pub async fn values_at_their_limits_are_accepted(bed: Bed) {
    type Change = fn(&mut Facts);
    let cases: &[Change] = &[
        |f| f.priority = 5,
        |f| f.priority = -5,
        |f| f.max_retries = 0,
        |f| f.max_retries = 100,
        |f| f.timeout_ms = Some(0),
        |f| f.timeout_ms = Some(1),
        |f| f.timeout_ms = Some(TIMEOUT_MAX_MS),
        |f| f.grace_ms = GRACE_MAX_MS,
        |f| f.lease_ms = LeaseMs::new(1_000).ok(),
        |f| f.lease_ms = LeaseMs::new(86_400_000).ok(),
        |f| {
            f.backoff = Some(Backoff { base_ms: 0, max_ms: HORIZON_MS, multiplier: 1_000.0, jitter: true });
        },
        |f| f.tags = (0..TAGS_MAX).map(|n| name(&format!("t{n}"))).collect(),
        |f| f.metadata = metadata_of(METADATA_MAX_BYTES),
        |f| f.metadata = nested(63),
        |f| f.run_at = RunAt::At(time(HORIZON_MS)),
        |f| f.run_at = RunAt::At(time(-HORIZON_MS)),
        |f| f.run_at = RunAt::After(HORIZON_MS),
        |f| f.kind = name(&"k".repeat(128)),
        |f| f.agent_id = Some(who(&"ä".repeat(64))),
        |f| f.unique = Some(unique("q", &"ß".repeat(256), Policy::Ttl(HORIZON_MS))),
        |f| f.unique = Some(unique("q", "line\nbreak and 'quotes' \"of\" all % _ kinds", Policy::Forever)),
    ];
    for (n, change) in cases.iter().enumerate() {
        let mut job = bed.job("work");
        change(&mut job.facts);
        let facts = job.facts.clone();
        let answer = bed.enqueue(job, at(0)).await;
        assert!(!answer.existed, "case {n}");
        assert_eq!(bed.view(answer.id, at(0)).await.facts, facts, "case {n}");
    }
    assert_eq!(bed.row(bed.a_job(at(0)).await).await.max_retries, 3, "the default");
}

/// Q2, Q10, M3: names, keys, actors, leases and JSON that exist are within their limits.
pub async fn words_are_checked_where_they_are_made(_bed: Bed) {
    for bad in ["", "a b", "a\0b", "ä", "a/b", "a\n", &"x".repeat(129)] {
        assert!(Name::parse("queue", bad).is_err(), "no name: {bad:?}");
    }
    for bad in ["", "a\0b", "a\nb", "\u{7f}", &"x".repeat(129)] {
        assert!(Who::parse("worker", bad).is_err(), "no worker: {bad:?}");
    }
    for bad in ["", "a\0b", "\t", &"x".repeat(161)] {
        assert!(Actor::parse("actor", bad).is_err(), "no actor: {bad:?}");
    }
    for bad in ["", "a\0b", &"x".repeat(513)] {
        assert!(Key::parse("key", bad).is_err(), "no key: {bad:?}");
    }
    for bad in [0, -1, 999, 86_400_001, i64::MAX, i64::MIN] {
        assert!(LeaseMs::new(bad).is_err(), "no lease: {bad}");
    }
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(Payload::json("payload", deep(64), 1 << 20).is_ok());
    for bad in [deep(65), deep(400_000), "{".into(), String::new(), "{} {}".into(), "'a'".into()] {
        assert!(Payload::json("payload", bad, 1 << 20).is_err());
    }
    let long = Payload::json("payload", format!("\"{}\"", "x".repeat(99)), 100);
    assert!(long.expect_err("too long").to_string().contains("100 bytes"), "the limit is named");
    let failure = windlass_core::Failure::new("a\nb", "x");
    assert!(failure.is_err() && windlass_core::Failure::new("x", "a\0b").is_err());
}

/// T1, J2, Q2: one job that differs from its neighbours in one thing, at each place among them.
pub async fn jobs_of_one_request_keep_what_each_says(bed: Bed) {
    let parent = bed.a_job(at(0)).await;
    let differences: [fn(&mut NewJob, JobId); 16] = [
        |job, _| job.facts.queue = name("other"),
        |job, _| job.facts.kind = name("other"),
        |job, _| job.facts.priority = -3,
        |job, _| job.facts.run_at = RunAt::At(time(5_000)),
        |job, _| job.facts.run_at = RunAt::After(7_000),
        |job, _| job.facts.max_retries = 0,
        |job, _| job.facts.timeout_ms = Some(1_000),
        |job, _| job.facts.lease_ms = LeaseMs::new(5_000).ok(),
        |job, _| job.facts.grace_ms = 1,
        |job, _| job.facts.backoff = Some(Backoff { base_ms: 1, max_ms: 2, multiplier: 2.0, jitter: true }),
        |job, _| job.facts.agent_id = Some(who("agent")),
        |job, parent| job.facts.parent_id = Some(parent),
        |job, _| job.facts.tags = vec![name("a"), name("b")],
        |job, _| job.facts.metadata = object("{\"a\":1}"),
        |job, _| job.facts.unique = Some(unique("default", &job.id.to_string(), Policy::Forever)),
        |job, _| job.payload = None,
    ];
    for (n, differ) in differences.into_iter().enumerate() {
        for place in 0..3 {
            let mut jobs: Vec<NewJob> = (0..3).map(|_| bed.job("work")).collect();
            differ(&mut jobs[place], parent);
            bed.enqueue_all(jobs.clone(), at(1)).await;
            for asked in jobs {
                let view = bed.view(asked.id, at(1)).await;
                let said = (&view.facts, &view.payload, &view.metadata);
                assert_eq!(said, (&asked.facts, &asked.payload, &asked.facts.metadata), "{n} at {place}");
                assert_eq!(view.job.due_at, Some(asked.facts.run_at.resolve(time(1))), "{n} at {place}");
            }
        }
    }
}

/// Q11, T3, R1
pub async fn a_request_is_taken_whole_or_not_at_all(bed: Bed) {
    let parent = bed.a_job(at(0)).await;
    let before = bed.snapshot(parent).await;
    let kept = unique("default", "all-or-none", Policy::Forever);
    let (mut keyed, mut child, mut bad, mut worse) =
        (bed.job("work"), bed.job("work"), bed.job("work"), bed.job("work"));
    keyed.facts.unique = Some(kept.clone());
    child.facts.parent_id = Some(parent);
    bad.facts.parent_id = Some(bed.id());
    worse.facts.priority = 99;
    let ids = [keyed.id, child.id, bad.id, worse.id];
    let missing = bad.facts.parent_id.expect("a parent");
    let request = Enqueue {
        jobs: vec![keyed.clone(), child.clone(), bad, worse],
        actor: Actor::api(),
        idempotency: Some(idempotency("whole", 1)),
    };
    let refused = bed.store.enqueue(request.clone(), at(1)).await.expect("the store answers");
    let expected = BatchRefusal { index: 2, refusal: Refusal::ParentNotFound(missing) };
    assert_eq!(refused, Err(expected), "the first bad one is named");
    for id in ids {
        assert_eq!(bed.store.job(id, at(1)).await, Ok(None), "no job");
    }
    assert_eq!(bed.holder_of(&kept, at(1)).await, None, "no key");
    bed.is_unchanged(&before).await;
    // Nothing was remembered either: the same key may bring the corrected request.
    let request = Enqueue { jobs: vec![keyed, child], ..request };
    let answer = bed.store.enqueue(request, at(2)).await.expect("the store answers").expect("accepted");
    assert!(answer.iter().all(|e| !e.existed));
}

/// Q2
pub async fn a_request_of_too_many_is_refused_and_an_empty_one_is_fine(bed: Bed) {
    assert_eq!(bed.enqueue_all(vec![], at(0)).await, []);
    let jobs = (0..=ENQUEUE_MAX).map(|_| bed.job("work")).collect();
    let (index, refusal) = bed.enqueue_refused(jobs, at(0)).await;
    assert_eq!(index, ENQUEUE_MAX);
    assert!(matches!(refusal, Refusal::Invalid(_)), "{refusal:?}");
    assert_eq!(invariants::every_job(&bed).await, []);
}

/// Q11, T3
pub async fn the_same_id_and_body_again_is_the_same_job(bed: Bed) {
    let mut job = bed.job("work");
    job.facts.unique = Some(unique("default", "k", Policy::Active));
    job.facts.metadata = object("{\"a\":1}");
    let id = job.id;
    assert!(!bed.enqueue(job.clone(), at(0)).await.existed);
    let there = Enqueued::there(id);
    assert_eq!(bed.enqueue(job.clone(), at(1)).await, there);
    let held = bed.claims_one("w", at(2)).await;
    bed.reports(windlass_store::Progress { metadata: Some(object("{\"b\":2}")), ..report(&held) }, at(2))
        .await
        .expect("a report");
    assert_eq!(bed.enqueue(job.clone(), at(3)).await, there, "also while it runs");
    bed.settles(&held, completes(), at(4)).await.expect("completed");
    let before = bed.snapshot(id).await;
    assert_eq!(bed.enqueue(job.clone(), at(5)).await, there, "also when it is done");
    bed.is_unchanged(&before).await;
    assert_eq!(bed.holder_of(&job.facts.unique.expect("a key"), at(5)).await, None, "no key is taken");
}

/// Q11, T3: A repeat may come from another trace, or from none. The first one's trace stays.
pub async fn the_same_id_from_another_trace_is_the_same_job(bed: Bed) {
    let first = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut job = bed.job("work");
    job.facts.metadata = object(&format!("{{\"traceparent\":\"{first}\",\"tracestate\":\"a=1\"}}"));
    bed.enqueue(job.clone(), at(0)).await;
    let before = bed.snapshot(job.id).await;
    for metadata in ["{}", "{\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}"] {
        job.facts.metadata = object(metadata);
        assert!(bed.enqueue(job.clone(), at(1)).await.existed, "{metadata}");
    }
    bed.is_unchanged(&before).await;
    job.facts.metadata = object("{\"a\":1}");
    assert_eq!(bed.enqueue_refused(vec![job], at(1)).await, (0, Refusal::JobExists));
}

/// Q11
pub async fn the_same_id_with_another_body_is_refused(bed: Bed) {
    let job = bed.job("work");
    bed.enqueue(job.clone(), at(0)).await;
    let before = bed.snapshot(job.id).await;
    let mut others = vec![job.clone(), job.clone(), job.clone(), job.clone(), job.clone()];
    others[0].payload = Some(json("{\"n\":2}"));
    others[1].payload = None;
    others[2].payload = Some(Payload::bytes("payload", b"{\"n\":1}".to_vec(), 100).expect("bytes"));
    others[3].facts.kind = name("other");
    others[4].facts.run_at = RunAt::At(time(0));
    for other in others {
        let (index, refusal) = bed.enqueue_refused(vec![bed.job("work"), other], at(1)).await;
        assert_eq!((index, refusal), (1, Refusal::JobExists));
    }
    bed.is_unchanged(&before).await;
    assert_eq!(invariants::every_job(&bed).await.len(), 1);
}

/// Q11, T3
pub async fn the_same_id_twice_in_a_request_is_one_job(bed: Bed) {
    let job = bed.job("work");
    let answers = bed.enqueue_all(vec![job.clone(), bed.job("work"), job.clone()], at(0)).await;
    assert_eq!((answers[0].id, answers[0].existed), (job.id, false));
    assert_eq!((answers[2].id, answers[2].existed), (job.id, true));
    assert_eq!(bed.types(job.id).await, ["job_created"]);
    let mut other = bed.job("work");
    let first = other.clone();
    other.facts.priority = 1;
    let (index, refusal) = bed.enqueue_refused(vec![first.clone(), other], at(1)).await;
    assert_eq!((index, refusal), (1, Refusal::JobExists));
    assert_eq!(bed.store.job(first.id, at(1)).await, Ok(None));
}

/// Q11
pub async fn without_a_key_nothing_is_ever_a_duplicate(bed: Bed) {
    let answers = bed.enqueue_all(vec![bed.job("work"), bed.job("work"), bed.job("work")], at(0)).await;
    assert!(answers.iter().all(|e| !e.existed));
    assert_eq!(invariants::every_job(&bed).await.len(), 3);
}

/// Q11, T3
pub async fn a_key_holds_within_its_queue(bed: Bed) {
    let keyed = |queue: &str, text: &str, payload: &str| {
        let mut job = bed.job_in("work", queue);
        job.facts.unique = Some(Unique::in_queue(name(queue), key(text)));
        NewJob { payload: Some(json(payload)), ..job }
    };
    let first = bed.enqueue(keyed("a", "k", "1"), at(0)).await;
    assert!(!first.existed);
    let before = bed.snapshot(first.id).await;
    let same = bed.enqueue(keyed("a", "k", "1"), at(1)).await;
    assert_eq!(same, Enqueued::there(first.id));
    let other = bed.enqueue(keyed("a", "k", "2"), at(1)).await;
    assert_eq!(other, Enqueued { id: first.id, existed: true, payload_differs: true, dropped: false });
    bed.is_unchanged(&before).await;
    assert!(!bed.enqueue(keyed("b", "k", "1"), at(1)).await.existed, "another queue");
    assert!(!bed.enqueue(keyed("a", "K", "1"), at(1)).await.existed, "another key: case counts");
    assert!(!bed.enqueue(keyed("a", "k ", "1"), at(1)).await.existed, "so does a space");
}

/// Q11, R7
pub async fn scopes_never_meet(bed: Bed) {
    let scopes = [Scope::Queue(name("x")), Scope::Kind(name("x")), Scope::Schedule(name("x"))];
    for _ in 0..2 {
        for scope in &scopes {
            let mut job = bed.job_in("x", "x");
            job.facts.unique = Some(Unique { scope: scope.clone(), key: key("k"), policy: Policy::Active });
            bed.enqueue(job, at(0)).await;
        }
    }
    assert_eq!(invariants::every_job(&bed).await.len(), 3, "one job per scope");
}

/// T3
pub async fn the_same_input_of_a_kind_is_one_job(bed: Bed) {
    let input = |kind: &str, queue: &str, payload: Option<&str>| {
        let mut job = bed.job_in(kind, queue);
        job.payload = payload.map(json);
        job.facts.unique = Some(Unique::by_payload(name(kind), job.payload.as_ref()).expect("a key"));
        job
    };
    let first = bed.enqueue(input("resize", "a", Some("{\"w\":1}")), at(0)).await;
    let again = bed.enqueue(input("resize", "b", Some("{\"w\":1}")), at(1)).await;
    assert_eq!(again, Enqueued::there(first.id), "in any queue");
    let both = bed.enqueue(input("resize", "a", Some("{\"w\":1,\"h\":{\"a\":1,\"b\":2}}")), at(0)).await;
    let turned = bed.enqueue(input("resize", "a", Some("{\"h\": {\"b\":2,\"a\":1}, \"w\":1}")), at(1)).await;
    assert_eq!(turned, Enqueued::there(both.id), "in any order of keys");
    assert!(!bed.enqueue(input("resize", "a", Some("{\"w\":2}")), at(1)).await.existed);
    assert!(!bed.enqueue(input("crop", "a", Some("{\"w\":1}")), at(1)).await.existed);
    assert!(!bed.enqueue(input("resize", "a", None), at(1)).await.existed, "no payload is an input too");
    assert!(bed.enqueue(input("resize", "a", None), at(1)).await.existed);
}

/// T3: a failed or cancelled task does not block its input; one that succeeded does, by payload as by a caller's key.
pub async fn the_same_input_runs_again_unless_it_succeeded(bed: Bed) {
    for (n, end) in ENDS.into_iter().enumerate() {
        let payload = json(&format!("{{\"input\":{n}}}"));
        for unique in [
            Unique::by_payload(name("work"), Some(&payload)).expect("a key"),
            Unique::in_queue(name("default"), key(&format!("caller{n}"))),
        ] {
            let first = job_that_ended(&bed, &unique, end).await;
            let again = bed.enqueue(with_key(&bed, &unique), at(20)).await;
            let succeeded = end == Status::Completed;
            assert_eq!((again.existed, again.id == first), (succeeded, succeeded), "{end}, {unique:?}");
        }
    }
}

/// T3
pub async fn an_active_key_is_free_after_any_end(bed: Bed) {
    for (n, end) in ENDS.into_iter().enumerate() {
        let (first, unique) = keyed_job_that_ended(&bed, n, end, Policy::Active).await;
        assert_eq!(bed.holder_of(&unique, at(20)).await, None, "{end}");
        let second = bed.enqueue(with_key(&bed, &unique), at(20)).await;
        assert!(!second.existed && second.id != first, "{end}");
        assert_eq!(bed.holder_of(&unique, at(20)).await, Some(second.id));
    }
}

/// T3
pub async fn a_succeeded_key_is_free_after_a_failure_and_not_after_success(bed: Bed) {
    for (n, end) in ENDS.into_iter().enumerate() {
        let (first, unique) = keyed_job_that_ended(&bed, n, end, Policy::Succeeded).await;
        let second = bed.enqueue(with_key(&bed, &unique), at(20)).await;
        assert_eq!(second.existed, end == Status::Completed, "{end}");
        assert_eq!(second.id == first, end == Status::Completed, "{end}");
    }
}

/// T3, R7
pub async fn a_key_for_ever_outlives_its_job(bed: Bed) {
    for (n, end) in ENDS.into_iter().enumerate() {
        let (first, unique) = keyed_job_that_ended(&bed, n, end, Policy::Forever).await;
        let version = bed.row(first).await.version;
        let purged = bed.store.purge(Purge { jobs: vec![(first, version)], archive: None }, at(15)).await;
        assert_eq!(purged.expect("the store answers"), [Ok(())]);
        assert_eq!(bed.store.job(first, at(15)).await, Ok(None), "the job is gone");
        let second = bed.enqueue(with_key(&bed, &unique), at(20)).await;
        assert_eq!(second, Enqueued::there(first), "{end}");
    }
}

/// T3
pub async fn a_key_for_a_time_is_over_to_the_microsecond(bed: Bed) {
    let unique = unique("default", "k", Policy::Ttl(1_000));
    let first = bed.enqueue(with_key(&bed, &unique), at(0)).await;
    let held = bed.claims_one("w", at(0)).await;
    bed.settles(&held, fails_for_good("broken"), at(1)).await.expect("failed");
    let early = Some(Timestamp::from_micros(time(1_000).as_micros() - 1));
    let again = bed.enqueue(with_key(&bed, &unique), early).await;
    assert_eq!((again.id, again.existed), (first.id, true), "whatever became of the job");
    let second = bed.enqueue(with_key(&bed, &unique), at(1_000)).await;
    assert!(!second.existed, "a time that is `<= now` is over");
    let third = bed.enqueue(with_key(&bed, &unique), at(1_999)).await;
    assert_eq!((third.id, third.existed), (second.id, true), "the second one holds it from its own start");
}

/// T3, R1
pub async fn an_end_frees_no_key_that_another_job_took(bed: Bed) {
    let brief = unique("default", "k", Policy::Ttl(1_000));
    let active = Unique { policy: Policy::Active, ..brief.clone() };
    let first = bed.enqueue(with_key(&bed, &brief), at(0)).await.id;
    let second = bed.enqueue(with_key(&bed, &active), at(1_000)).await.id;
    assert_eq!(bed.holder_of(&active, at(1_000)).await, Some(second));
    bed.cancels(first, stop(), at(1_001)).await.expect("cancelled");
    assert_eq!(bed.holder_of(&active, at(1_001)).await, Some(second));
    // The same when the first one's policy frees keys: it ended, and ends again after a redrive without its key.
    let (ended, freed) = keyed_job_that_ended(&bed, 9, Status::Failed, Policy::Active).await;
    let taker = bed.enqueue(with_key(&bed, &freed), at(2_000)).await.id;
    let taken = bed.redrives(crate::redrive(ended), at(2_001)).await;
    assert_eq!(taken, Err(Refusal::UniqueTaken(taker)));
    assert_eq!(bed.holder_of(&freed, at(2_002)).await, Some(taker));
}

/// T3, Q11
pub async fn duplicates_within_a_request_are_the_first_one(bed: Bed) {
    let (k, l) = (unique("default", "k", Policy::Active), unique("default", "l", Policy::Active));
    let other = NewJob { payload: Some(json("\"other\"")), ..with_key(&bed, &k) };
    let jobs = vec![with_key(&bed, &k), other, with_key(&bed, &l), bed.job("work"), with_key(&bed, &k)];
    let ids: Vec<JobId> = jobs.iter().map(|j| j.id).collect();
    let answers = bed.enqueue_all(jobs, at(0)).await;
    let told: Vec<(JobId, bool, bool)> =
        answers.iter().map(|e| (e.id, e.existed, e.payload_differs)).collect();
    let expected = [
        (ids[0], false, false),
        (ids[0], true, true),
        (ids[2], false, false),
        (ids[3], false, false),
        (ids[0], true, false),
    ];
    assert_eq!(told, expected);
    assert_eq!(invariants::every_job(&bed).await.len(), 3);
}

/// T3, Q11, R1
pub async fn racing_requests_in_opposite_orders_agree(bed: Bed) {
    const KEYS: usize = 60;
    let mut racers = JoinSet::new();
    for racer in 0..16 {
        let bed = bed.clone();
        racers.spawn(async move {
            let mut keys: Vec<usize> = (0..KEYS).collect();
            if racer % 2 == 1 {
                keys.reverse();
            }
            // Every key twice, so that each request has duplicates of its own.
            keys.extend_from_within(..);
            let job = |n: &usize| {
                let job = with_key(&bed, &unique("default", &format!("k{n}"), Policy::Active));
                NewJob { payload: Some(json(&racer.to_string())), ..job }
            };
            let answers = bed.enqueue_all(keys.iter().map(job).collect(), at(0)).await;
            let mut by_key: Vec<(usize, JobId, bool)> =
                keys.into_iter().zip(answers).map(|(n, e)| (n, e.id, e.existed)).collect();
            by_key.sort_by_key(|(n, _, existed)| (*n, *existed));
            by_key
        });
    }
    let told = racers.join_all().await;
    let created: usize = told.iter().flatten().filter(|(_, _, existed)| !existed).count();
    assert_eq!(created, KEYS, "each key was taken once");
    for (n, id, _) in told.iter().flatten() {
        assert_eq!(*id, told[0][n * 2].1, "everybody was told the same job of k{n}");
    }
    assert_eq!(invariants::every_job(&bed).await.len(), KEYS);
}

/// R7
pub async fn a_slot_is_created_once_whoever_tries(bed: Bed) {
    let slot = |ms: i64| Unique::slot(name("nightly"), time(ms)).expect("a slot");
    let mut racers = JoinSet::new();
    for _ in 0..24 {
        let (bed, slot) = (bed.clone(), slot(0));
        racers.spawn(async move { bed.enqueue(with_key(&bed, &slot), at(0)).await });
    }
    let answers = racers.join_all().await;
    assert_eq!(answers.iter().filter(|e| !e.existed).count(), 1, "one winner");
    assert!(answers.iter().all(|e| e.id == answers[0].id), "everybody is told the same job");
    assert!(!bed.enqueue(with_key(&bed, &slot(60_000)), at(0)).await.existed, "another instant");
    let held = bed.claims_one("w", at(0)).await;
    bed.settles(&held, completes(), at(1)).await.expect("completed");
    let purged = bed.store.purge(Purge { jobs: vec![(held.job.id, 3)], archive: None }, at(2)).await;
    assert_eq!(purged.expect("the store answers"), [Ok(())]);
    assert!(bed.enqueue(with_key(&bed, &slot(0)), at(3)).await.existed, "the slot outlives its job");
}

/// R7: an instant of a schedule happens once, also if its job fails, times out or is cancelled, and after it is gone.
pub async fn a_slot_stays_taken_however_its_job_ends(bed: Bed) {
    for (n, end) in (0..).zip(ENDS) {
        let slot = Unique::slot(name("nightly"), time(n * 60_000)).expect("a slot");
        let first = job_that_ended(&bed, &slot, end).await;
        assert_eq!(bed.holder_of(&slot, at(10)).await, Some(first), "{end}");
        let again = bed.enqueue(with_key(&bed, &slot), at(20)).await;
        assert_eq!((again.existed, again.id), (true, first), "{end}");
        let version = bed.row(first).await.version;
        let purged = bed.store.purge(Purge { jobs: vec![(first, version)], archive: None }, at(30)).await;
        assert_eq!(purged.expect("the store answers"), [Ok(())]);
        let again = bed.enqueue(with_key(&bed, &slot), at(40)).await;
        assert_eq!((again.existed, again.id), (true, first), "{end}, and removed");
    }
}

/// Q11, T3
pub async fn an_idempotency_key_replays_its_answer(bed: Bed) {
    let mut keyed = bed.job("work");
    keyed.facts.unique = Some(unique("default", "k", Policy::Active));
    let request = Enqueue {
        jobs: vec![keyed.clone(), bed.job("work"), NewJob { id: bed.id(), ..keyed.clone() }],
        actor: Actor::api(),
        idempotency: Some(idempotency("request-1", 1)),
    };
    let first = bed.store.enqueue(request.clone(), at(0)).await.expect("the store answers");
    assert!(first.as_ref().is_ok_and(|a| !a[0].existed && !a[1].existed && a[2].existed));
    bed.cancels(keyed.id, stop(), at(1)).await.expect("cancelled");
    let again = bed.store.enqueue(request.clone(), at(2)).await.expect("the store answers");
    assert_eq!(again, first, "word for word, although the key is free by now");
    // Ids may be made anew by a retrying caller: the answer still names the first ones.
    let jobs = request.jobs.iter().map(|j| NewJob { id: bed.id(), ..j.clone() }).collect();
    let again = bed.store.enqueue(Enqueue { jobs, ..request }, at(3)).await.expect("the store answers");
    assert_eq!(again, first);
    assert_eq!(invariants::every_job(&bed).await.len(), 2);
}

/// Q11
pub async fn an_idempotency_key_with_another_body_is_refused(bed: Bed) {
    let request = |hash: u8| Enqueue {
        jobs: vec![bed.job("work")],
        actor: Actor::api(),
        idempotency: Some(idempotency("request-1", hash)),
    };
    bed.store.enqueue(request(1), at(0)).await.expect("the store answers").expect("accepted");
    let refused = bed.store.enqueue(request(2), at(1)).await.expect("the store answers");
    assert_eq!(refused, Err(BatchRefusal { index: 0, refusal: Refusal::IdempotencyKeyReused }));
    assert_eq!(invariants::every_job(&bed).await.len(), 1, "nothing was written");
}

/// Q11
pub async fn an_idempotency_key_is_forgotten_after_a_day(bed: Bed) {
    let request = |jobs: Vec<NewJob>, hash: u8| Enqueue {
        jobs,
        actor: Actor::api(),
        idempotency: Some(idempotency("request-1", hash)),
    };
    let job = bed.job("work");
    let enqueue = async |request, now| {
        bed.store.enqueue(request, now).await.expect("the store answers").expect("accepted")
    };
    assert!(!enqueue(request(vec![job.clone()], 1), at(0)).await[0].existed);
    let late = Some(Timestamp::from_micros(time(ANSWER_KEPT_MS).as_micros() - 1));
    assert!(!enqueue(request(vec![job.clone()], 1), late).await[0].existed, "the first answer, replayed");
    let again = enqueue(request(vec![job.clone()], 1), at(ANSWER_KEPT_MS)).await;
    assert_eq!((again[0].id, again[0].existed), (job.id, true), "now only the id knows it");
    // The key was remembered anew just now, and is free for another body a day later.
    let anew = enqueue(request(vec![bed.job("work")], 2), at(2 * ANSWER_KEPT_MS)).await;
    assert!(!anew[0].existed);
}

/// Q11, T3
pub async fn racing_repeats_of_a_request_get_one_answer(bed: Bed) {
    let jobs: Vec<NewJob> = (0..20).map(|_| bed.job("work")).collect();
    let mut racers = JoinSet::new();
    for _ in 0..16 {
        let bed = bed.clone();
        let idempotency = Some(idempotency("request-1", 1));
        let request = Enqueue { jobs: jobs.clone(), actor: Actor::api(), idempotency };
        racers.spawn(async move { bed.store.enqueue(request, at(0)).await.expect("the store answers") });
    }
    let answers = racers.join_all().await;
    assert!(answers.iter().all(|a| a == &answers[0]), "one answer for all");
    assert!(answers[0].as_ref().is_ok_and(|a| a.iter().all(|e| !e.existed)));
    assert_eq!(invariants::every_job(&bed).await.len(), 20);
}

/// J10, R1
pub async fn a_child_needs_its_parent(bed: Bed) {
    let child_of = |parent: JobId| {
        let mut job = bed.job("work");
        job.facts.parent_id = Some(parent);
        job
    };
    let nobody = bed.id();
    let refused = bed.enqueue_refused(vec![bed.job("work"), child_of(nobody)], at(0)).await;
    assert_eq!(refused, (1, Refusal::ParentNotFound(nobody)));
    // A parent may come earlier in the same request, never later.
    let parent = bed.job("work");
    let refused = bed.enqueue_refused(vec![child_of(parent.id), parent.clone()], at(0)).await;
    assert_eq!(refused, (0, Refusal::ParentNotFound(parent.id)));
    let child = child_of(parent.id);
    let ids = [parent.id, child.id];
    let answers = bed.enqueue_all(vec![parent, child], at(0)).await;
    assert!(answers.iter().all(|e| !e.existed));
    assert_eq!(bed.types(ids[0]).await, ["job_created", "job_children_added"]);
    assert_eq!((bed.row(ids[0]).await.children, bed.row(ids[1]).await.parent_id), (1, Some(ids[0])));
}

/// J10, J2
pub async fn children_are_counted_by_one_event(bed: Bed) {
    let (one, other) = (bed.a_job(at(0)).await, bed.a_job(at(0)).await);
    let child_of = |parent: JobId| {
        let mut job = bed.job("work");
        job.facts.parent_id = Some(parent);
        job
    };
    let jobs = vec![child_of(one), child_of(other), bed.job("work"), child_of(one), child_of(one)];
    let ids: Vec<JobId> = jobs.iter().map(|j| j.id).collect();
    bed.enqueue_all(jobs, at(1)).await;
    for (parent, children) in [(one, vec![ids[0], ids[3], ids[4]]), (other, vec![ids[1]])] {
        let log = bed.log(parent).await;
        assert_eq!(log.len(), 2, "one event for all: {log:#?}");
        assert!(matches!(&log[1].what, EventKind::JobChildrenAdded(d) if d.children == children), "{log:#?}");
        assert_eq!(bed.row(parent).await.children, children.len() as i32);
    }
}

/// J6, Q6
pub async fn a_spawn_needs_the_parents_live_lease(bed: Bed) {
    let held = bed.a_held_job("w", at(0)).await;
    let parent = held.job.id;
    let spawn = |token| {
        let mut job = bed.job_in("work", "children");
        job.facts.parent_id = Some(parent);
        NewJob { parent_token: Some(token), ..job }
    };
    let child = spawn(held.lease.token);
    bed.enqueue(child.clone(), at(1)).await;
    let log = bed.log(parent).await;
    assert_eq!(log[2].actor, Actor::worker(&who("w")), "the holder spawned it");
    assert_eq!(log[2].lease, Some(held.lease.token.hash()));
    let before = bed.snapshot(parent).await;
    let wrong = Bed::secret(9).token(parent, 1);
    let refused = bed.enqueue_refused(vec![bed.job("work"), spawn(wrong)], at(2)).await;
    assert_eq!(refused, (1, Refusal::Mismatch));
    let refused = bed.enqueue_refused(vec![spawn(held.lease.token)], at(30_000)).await;
    assert_eq!(refused, (0, Refusal::Expired));
    bed.is_unchanged(&before).await;
    bed.cancels(parent, stop_at_once(), at(30_001)).await.expect("cancelled");
    let refused = bed.enqueue_refused(vec![spawn(held.lease.token)], at(30_002)).await;
    assert_eq!(refused, (0, Refusal::Finished(Status::Cancelled)));
    let again = bed.enqueue(child.clone(), at(30_003)).await;
    assert_eq!((again.id, again.existed), (child.id, true), "a repeat is answered without the lease");
    let pending = bed.a_job(at(30_004)).await;
    let mut early = spawn(wrong);
    early.facts.parent_id = Some(pending);
    let refused = bed.enqueue_refused(vec![early], at(30_004)).await;
    assert_eq!(refused, (0, Refusal::NotLeased(Status::Pending)));
}

/// T3: a duplicate is compared with the job that holds the key now, not with one that held it before.
pub async fn a_key_that_was_taken_anew_knows_the_new_payload(bed: Bed) {
    let keyed = |payload: &str| {
        let mut job = bed.job("work");
        let (scope, key) = (Scope::Kind(name("work")), key("k"));
        job.facts.unique = Some(Unique { scope, key, policy: Policy::Ttl(1_000) });
        job.payload = Some(json(payload));
        job
    };
    let first = bed.enqueue(keyed("1"), at(0)).await;
    let second = bed.enqueue(keyed("2"), at(1_000)).await;
    assert_eq!((first.existed, second.existed, first.id == second.id), (false, false, false));
    for (payload, payload_differs) in [("2", false), ("1", true)] {
        let again = bed.enqueue(keyed(payload), at(1_001)).await;
        assert_eq!(
            again,
            Enqueued { id: second.id, existed: true, payload_differs, dropped: false },
            "{payload}"
        );
    }
}

/// J6, Q6: a parent that comes with its child is held by nobody, whatever token the child brings.
pub async fn nobody_holds_a_parent_of_the_same_request(bed: Bed) {
    let parent = bed.job("parent");
    let mut child = bed.job("child");
    child.facts.parent_id = Some(parent.id);
    child.parent_token = Some(Bed::secret(7).token(parent.id, 1));
    let (id, jobs) = (parent.id, vec![parent, child]);
    let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
    let refused = bed.store.enqueue(request, at(0)).await.expect("the store answers");
    assert_eq!(refused, Err(BatchRefusal { index: 1, refusal: Refusal::NotLeased(Status::Pending) }));
    assert_eq!(bed.store.job(id, at(0)).await, Ok(None), "nothing was written");
}

/// J10, Q11
pub async fn a_repeated_spawn_counts_nothing_twice(bed: Bed) {
    let parent = bed.a_job(at(0)).await;
    let kept = unique("default", "k", Policy::Active);
    let (mut child, mut twin) = (with_key(&bed, &kept), with_key(&bed, &kept));
    child.facts.parent_id = Some(parent);
    twin.facts.parent_id = Some(parent);
    bed.enqueue(child.clone(), at(1)).await;
    let before = bed.snapshot(parent).await;
    let answers = bed.enqueue_all(vec![child.clone(), twin, child], at(2)).await;
    assert!(answers.iter().all(|e| e.existed));
    bed.is_unchanged(&before).await;
}

/// J6, T5, M2
pub async fn a_finished_parent_is_only_linked(bed: Bed) {
    let parent = bed.a_job_that_is(Status::Completed, 0).await;
    let before = bed.snapshot(parent).await;
    let mut child = bed.job("work");
    child.facts.parent_id = Some(parent);
    let id = bed.enqueue(child, at(1)).await.id;
    bed.is_unchanged(&before).await;
    let held = bed.claims_one("w", at(2)).await;
    assert_eq!(held.job.id, id);
    bed.settles(&held, completes(), at(3)).await.expect("completed");
    assert_eq!(bed.row(parent).await.status, Status::Completed);
    let filter = Filter { parent_id: Some(parent), ..Filter::default() };
    let request = List { filter, cursor: None, limit: 10 };
    let page = bed.store.jobs(request, at(4)).await.expect("the store answers").expect("a page");
    assert_eq!(page.items.iter().map(|l| l.job.id).collect::<Vec<_>>(), [id], "it is found as a child");
}

const ENDS: [Status; 4] = [Status::Completed, Status::Failed, Status::TimedOut, Status::Cancelled];

fn unique(queue: &str, text: &str, policy: Policy) -> Unique {
    Unique { scope: Scope::Queue(name(queue)), key: key(text), policy }
}

fn with_key(bed: &Bed, unique: &Unique) -> NewJob {
    let mut job = bed.job("work");
    job.facts.unique = Some(unique.clone());
    job
}

/// A job with a key of its own that ended so, within the first 10 ms.
async fn keyed_job_that_ended(bed: &Bed, n: usize, end: Status, policy: Policy) -> (JobId, Unique) {
    let unique = unique("default", &format!("k{n}"), policy);
    (job_that_ended(bed, &unique, end).await, unique)
}

/// A job under a key that ended so, within the first 10 ms.
async fn job_that_ended(bed: &Bed, unique: &Unique, end: Status) -> JobId {
    let mut job = with_key(bed, unique);
    job.facts.max_retries = 0;
    let held = bed.holds("w", job, at(0)).await;
    let outcome = match end {
        Status::Completed => completes(),
        Status::Failed => fails_for_good("broken"),
        Status::TimedOut => Outcome::TimeOut,
        _ => Outcome::Cancelled { reason: None },
    };
    let done = bed.settles(&held, outcome, at(1)).await.expect("settled");
    assert_eq!(bed.row(held.job.id).await.status, end, "{done:?}");
    held.job.id
}

fn idempotency(text: &str, hash: u8) -> Idempotency {
    Idempotency { key: key(text), request_hash: [hash; 32] }
}

fn actor(text: &str) -> Actor {
    Actor::parse("actor", text).expect("an actor")
}

fn object(text: &str) -> Metadata {
    serde_json::from_str(text).expect("an object")
}

fn bytes(n: usize) -> Payload {
    Payload::bytes("payload", vec![7; n], n).expect("bytes")
}

/// Metadata of exactly so many bytes.
fn metadata_of(n: usize) -> Metadata {
    let text = "x".repeat(n - "{\"a\":\"\"}".len());
    object(&format!("{{\"a\":\"{text}\"}}"))
}

/// Metadata with so many levels below its own.
fn nested(levels: usize) -> Metadata {
    object(&format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels)))
}
