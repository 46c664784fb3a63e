//! Triggers: an event starts its jobs once, whoever brings it and however often.

use crate::{Bed, at, is_invalid, json, key, name, time, together};
use serde_json::{Value, json as value};
use windlass_core::trigger::webhook::{Signed, WebhookSecret};
use windlass_core::trigger::{JOBS_MAX, Passed, Trigger, TriggerJob};
use windlass_core::{Actor, Facts, JobId, Payload, Refusal, RunAt, TriggerEventId};
use windlass_store::{
    EventsOf, ForgetTriggerEvents, Ingest, Ingested, ProcessTriggerEvent, PutTrigger, PutTriggerSecret,
    ReadTriggerEvents, RemoveTrigger, TriggerEvent, TriggerState, fresh,
};

/// This module's laws, as tests.
#[macro_export]
macro_rules! trigger_laws {
    ($($make:tt)*) => {
        $crate::law_tests!(
            [$($make)*],
            trigger: an_event_starts_one_job_per_definition,
            an_event_with_a_known_key_starts_nothing,
            of_racing_duplicates_one_starts_jobs,
            a_template_fills_in_what_the_event_brought,
            what_does_not_fit_is_kept_until_the_trigger_is_mended,
            a_stale_leader_processes_and_forgets_nothing,
            what_a_removed_trigger_left_is_closed,
            unprocessed_events_come_oldest_first,
            processed_events_are_forgotten_when_they_are_old,
            a_trigger_is_changed_under_a_version,
            a_trigger_that_cannot_start_anything_is_refused,
            a_secret_is_replaced_and_the_last_one_lives_for_a_day,
            what_people_do_to_triggers_is_in_the_audit,
        );
    };
}

fn ann() -> Actor {
    Actor::try_from("key:ann").expect("an actor")
}

fn job(kind: &str, payload: Passed) -> TriggerJob {
    TriggerJob { job: Facts::new(name(kind), name("default")), payload }
}

fn invoice() -> Trigger {
    let to = value!({ "order": "{{payload.order.id}}", "text": "order {{payload.order.id}} of {{trigger}}" });
    Trigger { jobs: vec![job("book", Passed::Whole), job("mail", Passed::Template(to))] }
}

const ORDER: &str = r#"{ "order": {"id": 7} }"#;

impl Bed {
    async fn puts_trigger(&self, which: &str, trigger: Trigger, ms: i64) -> Result<TriggerState, Refusal> {
        let request = PutTrigger { name: name(which), trigger, expected_version: None, actor: ann() };
        self.store.put_trigger(request, at(ms)).await.expect("the store answers")
    }

    fn event(&self, which: &str, dedupe_key: Option<&str>, payload: Option<Payload>) -> Ingest {
        Ingest {
            id: fresh::trigger_event_id(),
            trigger: name(which),
            dedupe_key: dedupe_key.map(key),
            payload,
            actor: ann(),
            ids: (0..JOBS_MAX).map(|_| self.id()).collect(),
        }
    }

    async fn ingests(&self, event: Ingest, ms: i64) -> Result<Ingested, Refusal> {
        self.store.ingest(event, at(ms)).await.expect("the store answers")
    }

    async fn processes(
        &self,
        id: TriggerEventId,
        epoch: i64,
        ms: i64,
    ) -> Result<Option<TriggerEvent>, Refusal> {
        let ids = (0..JOBS_MAX).map(|_| self.id()).collect();
        let request = ProcessTriggerEvent { term: name("leader"), epoch, id, ids };
        self.store.process_trigger_event(request, at(ms)).await.expect("the store answers")
    }

    async fn came(&self, of: EventsOf) -> Vec<TriggerEvent> {
        let request = ReadTriggerEvents { of, limit: 100 };
        self.store.trigger_events(request, at(0)).await.expect("the store answers")
    }

    async fn due_events(&self, ms: i64) -> Vec<TriggerEventId> {
        self.store.due_trigger_events(100, at(ms)).await.expect("the store answers")
    }

    async fn all_jobs(&self) -> Vec<JobId> {
        let list = windlass_store::List { limit: 1_000, ..Default::default() };
        let page = self.store.jobs(list, at(0)).await.expect("the store answers").expect("a page");
        page.items.iter().map(|listed| listed.job.id).collect()
    }

    async fn got(&self, job: JobId) -> Value {
        self.view(job, at(0)).await.payload.expect("a payload").parse().expect("JSON")
    }
}

/// R10
pub async fn an_event_starts_one_job_per_definition(bed: Bed) {
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    let event = bed.event("order", Some("o-7"), Some(json(ORDER)));
    let took = bed.ingests(event.clone(), 5).await.expect("taken");
    assert!(!took.deduped && !took.payload_differs);
    assert_eq!((took.event.received_at, took.event.processed_at), (time(5), Some(time(5))));
    let [book, mail] = took.event.detail.jobs.clone().try_into().expect("two jobs");
    let view = bed.view(book, at(5)).await;
    assert_eq!(view.payload.expect("a payload").as_bytes(), ORDER.as_bytes(), "byte for byte");
    assert_eq!((view.job.kind.as_str(), &view.metadata["trigger"]), ("book", &value!("order")));
    assert_eq!(view.metadata["event"], took.event.id.to_string());
    assert_eq!(bed.row(mail).await.kind, name("mail"));
    assert_eq!(bed.log(book).await[0].actor.as_str(), "trigger:order");
    assert_eq!(bed.ingests(event, 6).await, Ok(took.clone()), "the same request again");
    assert_eq!(bed.came(EventsOf::Trigger(name("order"))).await, [took.event]);
    assert_eq!(bed.all_jobs().await.len(), 2);
    let unknown = bed.ingests(bed.event("nosuch", None, None), 7).await;
    assert_eq!(unknown, Err(Refusal::TriggerNotFound("nosuch".into())));
}

/// R10: a key is of one trigger; without one nothing is a duplicate.
pub async fn an_event_with_a_known_key_starts_nothing(bed: Bed) {
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    bed.puts_trigger("other", invoice(), 0).await.expect("made");
    let first = bed.ingests(bed.event("order", Some("o-7"), Some(json(ORDER))), 1).await.expect("taken");
    let same = r#"{"order":{"id":7}}"#;
    let again = bed.ingests(bed.event("order", Some("o-7"), Some(json(same))), 2).await.expect("taken");
    assert_eq!((again.deduped, again.payload_differs, &again.event), (true, false, &first.event));
    let changed = bed.ingests(bed.event("order", Some("o-7"), Some(json("8"))), 3).await.expect("taken");
    assert_eq!((changed.deduped, changed.payload_differs, &changed.event), (true, true, &first.event));
    assert_eq!(bed.all_jobs().await.len(), 2);
    let other = bed.ingests(bed.event("other", Some("o-7"), Some(json(ORDER))), 4).await.expect("taken");
    assert!(!other.deduped);
    for ms in [5, 6] {
        let keyless = bed.ingests(bed.event("order", None, Some(json(ORDER))), ms).await.expect("taken");
        assert!(!keyless.deduped);
    }
    assert_eq!(bed.all_jobs().await.len(), 8);
}

/// R10
pub async fn of_racing_duplicates_one_starts_jobs(bed: Bed) {
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    for round in 0..10_i64 {
        let racers = (0..8).map(|_| {
            let bed = bed.clone();
            async move {
                let event = bed.event("order", Some(&format!("o-{round}")), Some(json(ORDER)));
                bed.ingests(event, round + 1).await.expect("taken")
            }
        });
        let took = together(racers).await;
        assert_eq!(took.iter().filter(|one| !one.deduped).count(), 1, "round {round}");
        assert!(took.iter().all(|one| one.event == took[0].event), "everybody learns the same jobs");
    }
    assert_eq!(bed.all_jobs().await.len(), 20);
}

/// R10
pub async fn a_template_fills_in_what_the_event_brought(bed: Bed) {
    let template = value!({
        "whole": "{{ payload }}", "list": ["{{payload.items.1}}", 5, null], "missing": "{{payload.no?}}",
        "text": "{{payload.name}}/{{payload.items}}/{{payload.no?}}", "key": "{{event.dedupe_key}}",
        "at": "{{event.received_at}}",
    });
    let trigger = Trigger { jobs: vec![job("k", Passed::Template(template))] };
    bed.puts_trigger("t", trigger, 0).await.expect("made");
    let payload = json(r#"{"name":"ann","items":[1,{"a":true}]}"#);
    let took = bed.ingests(bed.event("t", Some("k-1"), Some(payload)), 5).await.expect("taken");
    let got = bed.got(took.event.detail.jobs[0]).await;
    assert_eq!(got["whole"], value!({"name": "ann", "items": [1, {"a": true}]}));
    assert_eq!((&got["list"], &got["missing"]), (&value!([{"a": true}, 5, null]), &Value::Null));
    assert_eq!(got["text"], r#"ann/[1,{"a":true}]/"#);
    assert_eq!((&got["key"], &got["at"]), (&value!("k-1"), &value!(time(5).to_string())));
}

/// R10: the event is not lost, says why, and is processed once when it can be.
pub async fn what_does_not_fit_is_kept_until_the_trigger_is_mended(bed: Bed) {
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    let event = bed.event("order", Some("o-1"), Some(json("{}")));
    let took = bed.ingests(event.clone(), 10).await.expect("taken");
    let problem = took.event.detail.problem.clone().expect("a problem");
    assert!(problem.contains("{{payload.order.id}}") && problem.contains("?}}"), "{problem}");
    assert_eq!((took.event.processed_at, took.event.due_at), (None, Some(time(1_010))));
    assert!(took.event.detail.jobs.is_empty() && bed.all_jobs().await.is_empty(), "all of its jobs or none");
    assert_eq!(bed.came(EventsOf::Unprocessed(None)).await, std::slice::from_ref(&took.event));
    let epoch = bed.leads("a", at(1_000)).await.expect("leads").epoch;
    assert_eq!(bed.processes(took.event.id, epoch, 1_000).await, Ok(None), "not yet");
    assert_eq!(bed.due_events(1_010).await, [took.event.id]);
    let tried = bed.processes(took.event.id, epoch, 1_010).await.expect("tried").expect("an event");
    assert_eq!((tried.due_at, tried.detail.tries), (Some(time(3_010)), 2), "the pause doubles");
    assert!(bed.ingests(bed.event("order", Some("o-1"), None), 1_011).await.expect("taken").deduped);
    let mended = Trigger { jobs: vec![job("book", Passed::Whole)] };
    bed.puts_trigger("order", mended, 1_020).await.expect("mended");
    assert_eq!(bed.due_events(1_020).await, [took.event.id], "tried at once");
    let racers = (0..4).map(|_| {
        let bed = bed.clone();
        async move { bed.processes(took.event.id, epoch, 1_030).await.expect("leads") }
    });
    let done: Vec<TriggerEvent> = together(racers).await.into_iter().flatten().collect();
    let [done] = done.try_into().expect("processed once");
    assert_eq!((done.processed_at, done.due_at, done.detail.problem), (Some(time(1_030)), None, None));
    assert_eq!(bed.all_jobs().await, done.detail.jobs);
    assert_eq!(bed.came(EventsOf::Unprocessed(None)).await, []);
    assert_eq!(bed.due_events(99_000).await, []);
}

/// R4, R10
pub async fn a_stale_leader_processes_and_forgets_nothing(bed: Bed) {
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    let kept = bed.ingests(bed.event("order", None, None), 10).await.expect("taken").event.id;
    bed.ingests(bed.event("order", None, Some(json(ORDER))), 10).await.expect("taken");
    assert_eq!(bed.processes(kept, 1, 5_000).await, Err(Refusal::StaleEpoch(0)), "nobody leads");
    let old = bed.leads("a", at(5_000)).await.expect("leads").epoch;
    let new = bed.leads("b", at(15_000)).await.expect("leads").epoch;
    assert_eq!(bed.processes(kept, old, 15_001).await, Err(Refusal::StaleEpoch(new)));
    let forgets =
        |epoch| ForgetTriggerEvents { term: name("leader"), epoch, before: time(15_000), limit: 10 };
    let refused = bed.store.forget_trigger_events(forgets(old), at(15_001)).await.expect("the store answers");
    assert_eq!(refused, Err(Refusal::StaleEpoch(new)));
    assert_eq!(bed.came(EventsOf::Trigger(name("order"))).await.len(), 2);
    let gone = bed.store.forget_trigger_events(forgets(new), at(15_001)).await.expect("the store answers");
    assert_eq!(gone, Ok(1), "the one that is processed");
}

/// R10
pub async fn what_a_removed_trigger_left_is_closed(bed: Bed) {
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    let kept = bed.ingests(bed.event("order", None, None), 10).await.expect("taken").event.id;
    let remove = || RemoveTrigger { name: name("order"), actor: ann() };
    assert_eq!(bed.store.remove_trigger(remove(), at(20)).await.expect("the store answers"), Ok(()));
    let again = bed.store.remove_trigger(remove(), at(20)).await.expect("the store answers");
    assert_eq!(again, Err(Refusal::TriggerNotFound("order".into())));
    assert_eq!(bed.store.trigger(name("order"), at(0)).await.expect("the store answers"), None);
    let epoch = bed.leads("a", at(5_000)).await.expect("leads").epoch;
    let closed = bed.processes(kept, epoch, 5_000).await.expect("leads").expect("an event");
    assert_eq!(closed.processed_at, Some(time(5_000)));
    assert!(closed.detail.problem.expect("why").contains("removed") && closed.detail.jobs.is_empty());
    assert_eq!(bed.came(EventsOf::Unprocessed(None)).await, []);
}

/// R10
pub async fn unprocessed_events_come_oldest_first(bed: Bed) {
    bed.puts_trigger("a", invoice(), 0).await.expect("made");
    bed.puts_trigger("b", invoice(), 0).await.expect("made");
    let mut ids = Vec::new();
    for (which, ms) in [("a", 30), ("b", 10), ("a", 20)] {
        ids.push(bed.ingests(bed.event(which, None, None), ms).await.expect("taken").event.id);
    }
    bed.ingests(bed.event("a", None, Some(json(ORDER))), 5).await.expect("processed");
    let of = |events: Vec<TriggerEvent>| events.into_iter().map(|event| event.id).collect::<Vec<_>>();
    // Time never runs backwards in a store: what came later is later.
    let all = of(bed.came(EventsOf::Unprocessed(None)).await);
    assert_eq!(all.len(), 3);
    assert!(
        bed.came(EventsOf::Unprocessed(None)).await.is_sorted_by_key(|event| (event.received_at, event.id))
    );
    assert_eq!(of(bed.came(EventsOf::Unprocessed(Some(name("b")))).await), [ids[1]]);
    let request = ReadTriggerEvents { of: EventsOf::Unprocessed(None), limit: 1 };
    assert_eq!(of(bed.store.trigger_events(request, at(0)).await.expect("the store answers")), all[..1]);
}

/// R10
pub async fn processed_events_are_forgotten_when_they_are_old(bed: Bed) {
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    for (n, ms) in [(1, 10), (2, 20), (3, 30)] {
        let event = bed.event("order", Some(&format!("o-{n}")), Some(json(ORDER)));
        bed.ingests(event, ms).await.expect("taken");
    }
    bed.ingests(bed.event("order", Some("kept"), None), 5).await.expect("taken");
    let epoch = bed.leads("a", at(100)).await.expect("leads").epoch;
    let forget = async |before_ms: i64, limit: usize| {
        let request = ForgetTriggerEvents { term: name("leader"), epoch, before: time(before_ms), limit };
        bed.store.forget_trigger_events(request, at(100)).await.expect("the store answers")
    };
    assert_eq!(forget(10, 10).await, Ok(0), "the moment itself is not before it");
    assert_eq!((forget(30, 1).await, forget(30, 10).await), (Ok(1), Ok(1)), "some at a time");
    assert_eq!(
        bed.came(EventsOf::Trigger(name("order"))).await.len(),
        2,
        "the new one, and what is not processed"
    );
    let again = bed.ingests(bed.event("order", Some("o-1"), Some(json(ORDER))), 110).await.expect("taken");
    assert!(!again.deduped, "what is forgotten is no duplicate any more");
}

/// R10, R12
pub async fn a_trigger_is_changed_under_a_version(bed: Bed) {
    let made = bed.puts_trigger("order", invoice(), 0).await.expect("made");
    assert_eq!((made.version, made.signed), (1, false));
    assert_eq!(bed.puts_trigger("order", invoice(), 5).await, Ok(made), "it is so already");
    let other = Trigger { jobs: vec![job("book", Passed::Whole)] };
    let expects = |expected| {
        let (name, trigger, actor) = (name("order"), other.clone(), ann());
        PutTrigger { name, trigger, expected_version: Some(expected), actor }
    };
    let refused = bed.store.put_trigger(expects(0), at(6)).await.expect("the store answers");
    assert_eq!(refused, Err(Refusal::VersionMismatch(1)));
    let changed =
        bed.store.put_trigger(expects(1), at(7)).await.expect("the store answers").expect("changed");
    assert_eq!((changed.version, changed.created_at, changed.updated_at), (2, time(0), time(7)));
    let all = bed.store.triggers((), at(0)).await.expect("the store answers");
    assert_eq!(all, [changed]);
}

/// R10: bad input is named, and nothing is kept of it.
pub async fn a_trigger_that_cannot_start_anything_is_refused(bed: Bed) {
    let put = async |jobs: Vec<TriggerJob>, field: &str| {
        is_invalid(&bed.puts_trigger("bad", Trigger { jobs }, 0).await, field);
    };
    put(vec![], "jobs").await;
    put(vec![job("k", Passed::Whole); JOBS_MAX + 1], "jobs").await;
    for text in ["{{payload", "{{nothing}}", "{{event.secret}}", "{{payload..a}}", "{{}}"] {
        put(vec![job("k", Passed::Template(value!({ "a": [text] })))], "jobs[0].payload").await;
    }
    let mut later = job("k", Passed::Whole);
    later.job.run_at = RunAt::At(time(5));
    put(vec![job("k", Passed::Whole), later], "jobs[1].run_at").await;
    let mut high = job("k", Passed::Whole);
    high.job.priority = 9;
    put(vec![high], "jobs[0].priority").await;
    assert!(bed.store.triggers((), at(0)).await.expect("the store answers").is_empty());
    assert_eq!(bed.audit().await, []);
}

/// R10
pub async fn a_secret_is_replaced_and_the_last_one_lives_for_a_day(bed: Bed) {
    let secret = |n: u8| WebhookSecret::from_bytes([n; 32]).expect("a secret");
    let put = async |n: u8, ms: i64| {
        let request = PutTriggerSecret { name: name("order"), secret: secret(n), actor: ann() };
        bed.store.put_trigger_secret(request, at(ms)).await.expect("the store answers")
    };
    let open =
        async |ms: i64| bed.store.trigger_secrets(name("order"), at(ms)).await.expect("the store answers");
    assert_eq!(put(1, 0).await, Err(Refusal::TriggerNotFound("order".into())));
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    assert_eq!(open(0).await, []);
    assert!(put(1, 0).await.expect("set").signed);
    let signed = Signed { id: "m", timestamp: "1", body: b"{}" };
    assert_eq!(open(0).await[0].sign(&signed), secret(1).sign(&signed), "it can verify");
    let state = put(2, 1_000).await.expect("set");
    assert_eq!(put(2, 2_000).await, Ok(state), "a repeat changes nothing");
    let day = 86_400_000;
    assert_eq!(open(day + 999).await, [secret(2), secret(1)]);
    assert_eq!(open(day + 1_000).await, [secret(2)]);
    put(3, 3_000).await.expect("set");
    assert_eq!(open(4_000).await, [secret(3), secret(2)], "one older one at most");
    let other = Trigger { jobs: vec![job("book", Passed::Whole)] };
    assert!(bed.puts_trigger("order", other, 5_000).await.expect("changed").signed, "a change keeps them");
    assert_eq!(open(6_000).await.len(), 2);
}

/// R12: with before and after, and never a secret.
pub async fn what_people_do_to_triggers_is_in_the_audit(bed: Bed) {
    bed.puts_trigger("order", invoice(), 0).await.expect("made");
    bed.puts_trigger("order", Trigger { jobs: vec![job("book", Passed::Whole)] }, 1).await.expect("changed");
    let secret = WebhookSecret::from_bytes([7; 32]).expect("a secret");
    let request = PutTriggerSecret { name: name("order"), secret: secret.clone(), actor: ann() };
    bed.store.put_trigger_secret(request, at(2)).await.expect("the store answers").expect("set");
    let request = RemoveTrigger { name: name("order"), actor: ann() };
    assert_eq!(bed.store.remove_trigger(request, at(3)).await.expect("the store answers"), Ok(()));
    let mut audit = bed.audit().await;
    audit.sort_by_key(|entry| entry.seq);
    let actions: Vec<&str> = audit.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["trigger.put", "trigger.put", "trigger.secret", "trigger.remove"]);
    assert!(audit.iter().all(|entry| entry.actor == ann() && entry.target == "order"));
    assert_eq!(audit[0].detail["before"], Value::Null);
    assert_eq!(audit[1].detail["before"], audit[0].detail["after"]);
    assert_eq!(audit[3].detail["before"], audit[1].detail["after"]);
    let said = format!("{audit:?}");
    assert!(!said.contains(&secret.to_text()), "{said}");
}
