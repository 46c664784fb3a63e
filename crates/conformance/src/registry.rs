//! What surrounds jobs: queues, workers, audit, access keys, remembered answers.

use crate::{Bed, at, completes, is_invalid, key, name, stop, time, together, who};
use windlass_core::limits::ANSWER_KEPT_MS;
use windlass_core::registry::{AT_ONCE, Endpoint};
use windlass_core::{Actor, Count, LeaseMs, QueueDefaults, QueueMode, Refusal, Role, RunAt, Status, Worker};
use windlass_store::{
    DrainWorker, Idempotency, PauseQueue, PutAccessKey, PutQueue, PutWorker, QueueState, ReadAudit, Remember,
    RevokeAccessKey, SetEndpoint, WebhookSecret, WriteAudit,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! registry_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            registry: a_paused_queue_hands_out_nothing,
            a_pause_is_audited_once_per_change,
            queue_settings_are_checked_and_audited,
            an_endpoint_stays_until_it_is_taken_away,
            queues_tell_what_is_due_in_them,
            a_worker_reports_itself_and_is_forgotten,
            a_drained_worker_stays_drained,
            the_audit_is_read_newest_first,
            access_keys_are_made_once_and_taken_back,
            an_answer_is_remembered_for_a_day,
            racing_answers_agree_on_the_first,
        );
    };
}

fn ann() -> Actor {
    Actor::try_from("operator:ann").expect("an actor")
}

fn json_of(defaults: QueueDefaults) -> serde_json::Value {
    serde_json::to_value(defaults).expect("settings are JSON")
}

async fn pauses(bed: &Bed, queue: &str, pause: bool, ms: i64) {
    let request = PauseQueue { name: name(queue), pause, actor: ann() };
    bed.store.pause_queue(request, at(ms)).await.expect("the store answers");
}

async fn queues(bed: &Bed, cap: i64, ms: i64) -> Vec<QueueState> {
    bed.store.queues(cap, at(ms)).await.expect("the store answers")
}

async fn actions(bed: &Bed) -> Vec<(String, String, String)> {
    let audit = bed.audit().await;
    audit.iter().map(|e| (e.actor.to_string(), e.action.to_string(), e.target.clone())).collect()
}

fn acted(action: &str, target: &str) -> (String, String, String) {
    ("operator:ann".into(), action.into(), target.into())
}

/// J7, J10
pub async fn a_paused_queue_hands_out_nothing(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let other = bed.enqueue(bed.job_in("work", "other"), at(0)).await.id;
    pauses(&bed, "default", true, 1).await;
    let before = bed.snapshot(id).await;
    assert_eq!(bed.claims("w", 9, at(2)).await, []);
    assert_eq!(bed.claims_by_id("w", id, at(2)).await, Err(Refusal::NotClaimable(Status::Pending)));
    bed.is_unchanged(&before).await;
    let claimed = bed.claims_from("w", &["default", "other"], 9, at(2)).await;
    assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [other], "others go on");
    pauses(&bed, "default", false, 3).await;
    assert_eq!(bed.claims_one("w", at(3)).await.job.id, id);
}

/// R12
pub async fn a_pause_is_audited_once_per_change(bed: Bed) {
    for (pause, ms) in [(false, 0), (true, 1), (true, 2), (false, 3), (false, 4)] {
        pauses(&bed, "q", pause, ms).await;
    }
    assert_eq!(actions(&bed).await, [acted("queue.pause", "q"), acted("queue.resume", "q")]);
    pauses(&bed, "q", true, 5).await;
    pauses(&bed, "q", true, 6).await;
    let state = queues(&bed, 9, 7).await.remove(0);
    assert_eq!(state.queue.paused, Some((time(5), ann())), "since the first time");
    assert_eq!(bed.audit().await.last().expect("an entry").at, time(5));
}

/// R12, M9
pub async fn queue_settings_are_checked_and_audited(bed: Bed) {
    let puts = |defaults| {
        let request = PutQueue { defaults: Some(defaults), ..PutQueue::new(name("q"), ann()) };
        let store = bed.store.clone();
        async move { store.put_queue(request, at(0)).await.expect("the store answers") }
    };
    let none = QueueDefaults::default();
    is_invalid(&puts(QueueDefaults { max_retries: Some(101), ..none }).await, "max_retries");
    is_invalid(&puts(QueueDefaults { timeout_ms: Some(-1), ..none }).await, "timeout");
    is_invalid(&puts(QueueDefaults { grace_ms: Some(-1), ..none }).await, "grace");
    assert_eq!((queues(&bed, 9, 0).await, actions(&bed).await), (vec![], vec![]), "a refusal leaves nothing");
    let lease_ms = Some(LeaseMs::new(5_000).expect("a lease"));
    let settings = QueueDefaults { max_retries: Some(7), timeout_ms: Some(9_000), lease_ms, ..none };
    assert_eq!(puts(settings).await, Ok(()));
    assert_eq!(puts(settings).await, Ok(()));
    let states = queues(&bed, 9, 0).await;
    assert_eq!((states.len(), states[0].queue.defaults), (1, settings));
    assert_eq!(actions(&bed).await, [acted("queue.put", "q")], "a repeat changes nothing");
    let detail = bed.audit().await.remove(0).detail;
    assert_eq!((&detail["before"], &detail["after"]), (&serde_json::Value::Null, &json_of(settings)));
    pauses(&bed, "q", true, 1).await;
    assert_eq!(puts(none).await, Ok(()));
    let state = queues(&bed, 9, 1).await.remove(0);
    assert!(state.queue.paused.is_some() && state.queue.defaults == none, "a setting does not resume");
    let detail = bed.audit().await.remove(2).detail;
    assert_eq!((&detail["before"], &detail["after"]), (&json_of(settings), &json_of(none)));
    assert_eq!(puts(settings).await, Ok(()));
    let push = PutQueue { mode: Some(QueueMode::Push), ..PutQueue::new(name("q"), ann()) };
    bed.store.put_queue(push, at(0)).await.expect("the store answers").expect("set");
    let state = queues(&bed, 9, 0).await.remove(0);
    assert_eq!(
        (state.queue.defaults, state.queue.mode),
        (settings, QueueMode::Push),
        "what is not named stays"
    );
}

/// (post) An endpoint is kept with its secret, changed, and taken away; what says nothing of it leaves it, and the audit shows no
/// secret and no path.
pub async fn an_endpoint_stays_until_it_is_taken_away(bed: Bed) {
    let puts = |endpoint| {
        let (defaults, actor) = (QueueDefaults::default(), ann());
        let request = PutQueue { defaults: Some(defaults), endpoint, ..PutQueue::new(name("q"), actor) };
        let store = bed.store.clone();
        async move { store.put_queue(request, at(0)).await.expect("the store answers") }
    };
    let put = |url: &str, secret: Option<&str>, max| SetEndpoint::Put {
        url: url.to_owned(),
        secret: secret.map(|text| WebhookSecret::parse(text).expect("a secret")),
        max,
    };
    let kept = async || queues(&bed, 9, 0).await.remove(0).queue.endpoint;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    is_invalid(&puts(put("https://a.example/k3y", None, None)).await, "endpoint.secret");
    is_invalid(&puts(put("ftp://a.example", Some(secret), None)).await, "url");
    is_invalid(&puts(put("https://a.example", Some(secret), Some(0))).await, "endpoint.max");
    assert_eq!(puts(put("https://a.example/k3y", Some(secret), None)).await, Ok(()));
    let first = kept().await.expect("an endpoint");
    assert_eq!((first.url.as_str(), first.max), ("https://a.example/k3y", AT_ONCE));
    assert_eq!(first.secret.to_text(), secret);
    assert_eq!(puts(SetEndpoint::Keep).await, Ok(()));
    pauses(&bed, "q", true, 1).await;
    assert_eq!(kept().await, Some(first.clone()), "neither settings nor a pause change it");
    assert_eq!(puts(put("https://a.example/k3y", None, Some(3))).await, Ok(()));
    assert_eq!(kept().await, Some(Endpoint { max: 3, ..first }), "the secret stays");
    assert_eq!(puts(SetEndpoint::Remove).await, Ok(()));
    assert_eq!(kept().await, None);
    let audit = bed.audit().await;
    let said = format!("{:?}", audit.iter().map(|entry| &entry.detail).collect::<Vec<_>>());
    assert!(
        said.contains("https://a.example/…") && !said.contains("k3y") && !said.contains("MfKQ"),
        "{said}"
    );
}

/// R13, M12
pub async fn queues_tell_what_is_due_in_them(bed: Bed) {
    let mut later = bed.job_in("work", "future");
    later.facts.run_at = RunAt::At(time(60_000));
    bed.enqueue(later, at(0)).await;
    for ms in [3, 4, 5] {
        bed.enqueue(bed.job_in("work", "busy"), at(ms)).await;
    }
    pauses(&bed, "set", true, 5).await;
    let states = queues(&bed, 2, 6).await;
    let names: Vec<&str> = states.iter().map(|s| s.queue.name.as_str()).collect();
    assert_eq!(
        names,
        ["busy", "future", "set"],
        "those with a setting or a job that may run some day, by name"
    );
    let set = bed.store.queue_settings((), at(6)).await.expect("the store answers");
    assert_eq!(
        set,
        [states[2].queue.clone()],
        "and what was said of queues, without those of which nothing was"
    );
    assert_eq!((states[0].due, states[0].oldest_due_at), (Count { n: 2, capped: true }, at(3)));
    for state in &states[1..] {
        assert_eq!((state.due, state.oldest_due_at), (Count { n: 0, capped: false }, None));
    }
    let states = queues(&bed, 9, 60_000).await;
    assert_eq!(states.len(), 3);
    assert_eq!(states[0].due, Count { n: 3, capped: false });
    assert_eq!((states[1].queue.name.as_str(), states[1].oldest_due_at), ("future", at(60_000)));
    let held = bed.claims_from("w", &["busy"], 9, at(60_000)).await;
    let states = queues(&bed, 9, 60_001).await;
    assert_eq!(
        (states[0].queue.name.as_str(), states[0].due.n),
        ("busy", 0),
        "one whose jobs all run is there"
    );
    for held in held {
        bed.settles(&held, completes(), at(60_002)).await.expect("held");
    }
    assert_eq!(queues(&bed, 9, 60_003).await.len(), 2, "and one without jobs is not");
}

fn a_worker(id: &str) -> PutWorker {
    let labels = serde_json::json!({ "zone": "a" }).as_object().cloned().unwrap_or_default();
    PutWorker {
        id: who(id),
        queues: vec![name("b"), name("a")],
        kinds: vec![name("work")],
        capacity: 3,
        slots: [(name("a"), 2)].into(),
        labels,
        draining: false,
        ttl_ms: LeaseMs::new(10_000).expect("a lease"),
    }
}

/// R8
pub async fn a_worker_reports_itself_and_is_forgotten(bed: Bed) {
    let puts = |worker, ms| {
        let store = bed.store.clone();
        async move { store.put_worker(worker, at(ms)).await.expect("the store answers") }
    };
    let request = a_worker("w1");
    let expected = Worker {
        id: who("w1"),
        queues: request.queues.clone(),
        kinds: request.kinds.clone(),
        capacity: 3,
        slots: request.slots.clone(),
        labels: request.labels.clone(),
        draining: false,
        started_at: time(0),
        seen_at: time(0),
        expires_at: time(10_000),
    };
    assert_eq!(puts(request, 0).await, expected);
    let again = Worker { seen_at: time(4_000), expires_at: time(14_000), capacity: 5, ..expected };
    assert_eq!(puts(PutWorker { capacity: 5, ..a_worker("w1") }, 4_000).await, again);
    let second = puts(a_worker("w2"), 5_000).await;
    let workers = |ms| {
        let store = bed.store.clone();
        async move {
            let mut all = store.workers((), at(ms)).await.expect("the store answers");
            all.sort_by_key(|w| w.id.clone());
            all
        }
    };
    assert_eq!(workers(99_000).await, [again, second.clone()], "gone, but not forgotten");
    bed.store.remove_worker(who("w1"), at(99_000)).await.expect("the store answers");
    bed.store.remove_worker(who("w1"), at(99_000)).await.expect("a repeat is fine");
    assert_eq!(workers(99_000).await, [second]);
}

/// R12
pub async fn a_drained_worker_stays_drained(bed: Bed) {
    let set = |id: &str, drain: bool| {
        let request = DrainWorker { id: who(id), drain, actor: ann() };
        let store = bed.store.clone();
        async move { store.drain_worker(request, at(1)).await.expect("the store answers") }
    };
    let drains = |id: &str| set(id, true);
    assert_eq!(drains("w").await, None);
    bed.store.put_worker(a_worker("w"), at(0)).await.expect("the store answers");
    assert!(drains("w").await.expect("a known worker").draining);
    assert!(drains("w").await.expect("a known worker").draining);
    let told = bed.store.put_worker(a_worker("w"), at(2)).await.expect("the store answers");
    assert!(told.draining, "its next report learns of it and does not undo it");
    assert_eq!(actions(&bed).await, [acted("worker.drain", "w")]);
    for _ in 0..2 {
        assert!(!set("w", false).await.expect("a known worker").draining, "it is undone");
    }
    let told = bed.store.put_worker(a_worker("w"), at(2)).await.expect("the store answers");
    assert!(!told.draining, "its next report learns of it");
    assert_eq!(actions(&bed).await.len(), 2, "a repeat is not on record");
    let own = PutWorker { draining: true, ..a_worker("w2") };
    assert!(bed.store.put_worker(own, at(2)).await.expect("the store answers").draining);
}

/// R12
pub async fn the_audit_is_read_newest_first(bed: Bed) {
    for n in 0..7 {
        let detail = serde_json::json!({ "n": n }).as_object().cloned().unwrap_or_default();
        let entry =
            WriteAudit { actor: ann(), action: name("jobs.redrive"), target: format!("t{n}"), detail };
        bed.store.write_audit(entry, at(n)).await.expect("the store answers");
    }
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = bed.store.audit(ReadAudit { before, limit: 3 }, at(9)).await.expect("the store answers");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        before = Some(last.seq);
        seen.extend(page);
    }
    assert!(seen.windows(2).all(|w| w[0].seq > w[1].seq));
    let told: Vec<_> = seen.iter().map(|e| (e.target.as_str(), e.at, e.detail["n"].as_i64())).collect();
    let targets: Vec<String> = (0..7).map(|n| format!("t{n}")).collect();
    let expected: Vec<_> = (0..7).rev().map(|n| (targets[n as usize].as_str(), time(n), Some(n))).collect();
    assert_eq!(told, expected);
    assert!(seen.iter().all(|e| e.actor == ann() && e.action.as_str() == "jobs.redrive"));
}

/// R12
pub async fn access_keys_are_made_once_and_taken_back(bed: Bed) {
    let made = |id: &str, hash: u8| {
        let request = PutAccessKey {
            name: who(id),
            hash: [hash; 32],
            roles: vec![Role::Producer, Role::Approver],
            queues: Some(vec![name("q")]),
            expires_at: Some(time(10_000)),
            actor: ann(),
        };
        let store = bed.store.clone();
        async move { store.put_access_key(request, at(1)).await.expect("the store answers") }
    };
    assert!(made("zoe", 1).await && made("bob", 2).await);
    assert!(made("zoe", 1).await, "a repeat is fine");
    assert!(!made("zoe", 3).await, "a name stands for one key");
    let found = |hash: u8| bed.store.access_key([hash; 32], at(2));
    let zoe = found(1).await.expect("the store answers").expect("a key");
    assert_eq!((zoe.name.as_str(), zoe.created_at, zoe.revoked_at), ("zoe", time(1), None));
    assert_eq!(
        (zoe.roles.clone(), zoe.queues.clone()),
        (vec![Role::Producer, Role::Approver], Some(vec![name("q")]))
    );
    assert!(zoe.is_valid(time(9_999)) && !zoe.is_valid(time(10_000)));
    assert_eq!(found(3).await, Ok(None));
    let revokes = |id: &str| {
        let request = RevokeAccessKey { name: who(id), actor: ann() };
        let store = bed.store.clone();
        async move { store.revoke_access_key(request, at(3)).await.expect("the store answers") }
    };
    assert_eq!(revokes("eve").await, None);
    assert_eq!(revokes("zoe").await.expect("a key").revoked_at, at(3));
    assert_eq!(revokes("zoe").await.expect("a key").revoked_at, at(3), "a repeat is fine");
    assert!(!found(1).await.expect("the store answers").expect("a key").is_valid(time(4)));
    assert!(!made("zoe", 3).await, "a revoked name is not given away");
    let all = bed.store.access_keys((), at(4)).await.expect("the store answers");
    assert_eq!(all.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["bob", "zoe"]);
    let expected = [acted("key.create", "zoe"), acted("key.create", "bob"), acted("key.revoke", "zoe")];
    assert_eq!(actions(&bed).await, expected);
    let audit =
        bed.store.audit(ReadAudit { before: None, limit: 10 }, at(5)).await.expect("the store answers");
    let made = &audit.last().expect("an entry").detail;
    assert_eq!(made["roles"], serde_json::json!(["producer", "approver"]), "the audit names all of it");
    assert_eq!(
        (&made["queues"], made["expires_at"].as_str()),
        (&serde_json::json!(["q"]), Some(time(10_000).to_string().as_str()))
    );
}

fn promise(k: &str, hash: u8) -> Idempotency {
    Idempotency { key: key(k), request_hash: [hash; 32] }
}

/// Q11
pub async fn an_answer_is_remembered_for_a_day(bed: Bed) {
    let remembers = |hash, body: &[u8], ms| {
        let request = Remember { idempotency: promise("k", hash), body: body.to_vec() };
        let store = bed.store.clone();
        async move { store.remember(request, at(ms)).await.expect("the store answers") }
    };
    let recalls = |k: &str, hash, ms| {
        let (store, request) = (bed.store.clone(), promise(k, hash));
        async move { store.recall(request, at(ms)).await.expect("the store answers") }
    };
    assert_eq!(recalls("k", 1, 0).await, Ok(None));
    assert_eq!(remembers(1, b"first", 0).await, Ok(b"first".to_vec()));
    assert_eq!(remembers(1, b"second", 1).await, Ok(b"first".to_vec()), "the first answer stays");
    assert_eq!(recalls("k", 1, 2).await, Ok(Some(b"first".to_vec())));
    assert_eq!(remembers(2, b"other", 3).await, Err(Refusal::IdempotencyKeyReused));
    assert_eq!(recalls("k", 2, 3).await, Err(Refusal::IdempotencyKeyReused));
    assert_eq!(recalls("l", 1, 3).await, Ok(None));
    assert_eq!(recalls("k", 1, ANSWER_KEPT_MS - 1).await, Ok(Some(b"first".to_vec())));
    assert_eq!(recalls("k", 1, ANSWER_KEPT_MS).await, Ok(None), "after a day it is forgotten");
    assert_eq!(remembers(2, b"other", ANSWER_KEPT_MS).await, Ok(b"other".to_vec()));
    let id = bed.a_job(at(ANSWER_KEPT_MS)).await;
    bed.cancels(id, stop(), at(ANSWER_KEPT_MS)).await.expect("a live job can be cancelled");
    bed.sweeps(at(2 * ANSWER_KEPT_MS - 1)).await;
    assert_eq!(
        recalls("k", 2, 2 * ANSWER_KEPT_MS - 1).await,
        Ok(Some(b"other".to_vec())),
        "a sweep keeps it"
    );
}

/// Q11, R1
pub async fn racing_answers_agree_on_the_first(bed: Bed) {
    for round in 0..10 {
        let racers = (0..8u8).map(|n| {
            let idempotency = promise(&format!("k{round}"), 1);
            let (store, request) = (bed.store.clone(), Remember { idempotency, body: vec![n] });
            async move { store.remember(request, at(0)).await.expect("the store answers") }
        });
        let answers = together(racers).await;
        assert!(answers.iter().all(|a| a.is_ok() && *a == answers[0]), "{answers:?}");
    }
}
