//! What is done to jobs from outside, on memory and SQLite.

mod support;

use futures_util::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;
use support::{Add, Task, places, task};
use windlass::{
    Backoff, Cancelling, Client, Context, Ended, Error, Filter, HandlerError, Name, Payload, Policy, Refusal,
    Status, Timestamp, UniquePolicy, UniqueScope, Worker,
};

/// Runs a worker with one handler until `end`.
async fn with_worker(client: &Client, end: impl Future<Output = ()> + Send) {
    let add =
        |Add(a, b), _: Context| async move { a.checked_add(b).ok_or(HandlerError::permanent("too much")) };
    let worker = Worker::new(client.clone()).queue("default", 4).handle(add);
    worker.run_until(end).await.expect("the worker runs");
}

#[tokio::test]
async fn every_option_arrives_in_the_job() {
    for place in places().await {
        let backoff = Backoff { base_ms: 7, ..Backoff::default() };
        let at = Timestamp::parse("run_at", "2030-01-01T00:00:00Z").unwrap();
        let parent = place.client.enqueue(Add(0, 0)).await.unwrap().id;
        let sent = place
            .client
            .enqueue(task("x"))
            .queue("other")
            .priority(-2)
            .run_at(at)
            .max_retries(9)
            .timeout(Duration::from_millis(1_500))
            .lease(Duration::from_secs(7))
            .grace(Duration::from_secs(2))
            .backoff(backoff)
            .agent("ann")
            .tag("a")
            .tag("b")
            .metadata("trace", "t1")
            .parent(parent)
            .unique("key")
            .unique_scope(UniqueScope::Kind)
            .unique_policy(UniquePolicy::Forever)
            .await
            .unwrap();
        let view = place.client.job(sent.id).await.unwrap().unwrap();
        let facts = &view.facts;
        assert_eq!((facts.kind.as_str(), facts.queue.as_str(), facts.priority), ("task", "other", -2));
        assert_eq!(view.job.due_at, Some(at));
        assert_eq!((facts.max_retries, facts.timeout_ms, facts.grace_ms), (9, Some(1_500), 2_000));
        assert_eq!((facts.lease_ms.unwrap().get(), facts.backoff), (7_000, Some(backoff)));
        assert_eq!(facts.agent_id.as_ref().unwrap().as_str(), "ann");
        assert_eq!(facts.tags.iter().map(Name::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((facts.parent_id, &view.metadata["trace"]), (Some(parent), &"t1".into()));
        let unique = facts.unique.as_ref().unwrap();
        assert_eq!((unique.scope.to_text(), unique.policy), ("kind:task".into(), UniquePolicy::Forever));
        assert_eq!(view.payload.unwrap().parse::<Task>().unwrap(), task("x"));
    }
}

#[tokio::test]
async fn what_is_outside_the_limits_is_named_and_nothing_is_written() {
    for place in places().await {
        let client = &place.client;
        let refused = |end: windlass::Result<_>| match end {
            Err(Error::Invalid(invalid)) => invalid.field,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(client.enqueue(Add(1, 2)).queue("no good").await), "queue");
        assert_eq!(refused(client.enqueue(Add(1, 2)).priority(9).await), "priority");
        assert_eq!(refused(client.enqueue(Add(1, 2)).lease(Duration::ZERO).await), "lease");
        assert_eq!(refused(client.enqueue(Add(1, 2)).unique("").await), "unique.key");
        assert_eq!(refused(client.enqueue(task(&"x".repeat(2 << 20))).await), "payload");
        let many =
            [client.enqueue(Add(1, 2)), client.enqueue(task("x")), client.enqueue(Add(3, 4)).priority(9)];
        match client.enqueue_many(many).await {
            Err(Error::Batch(refused)) => assert_eq!(refused.index, 2),
            other => panic!("{other:?}"),
        }
        let all = client.jobs(Filter::default(), None).await.unwrap();
        assert!(all.items.is_empty(), "{}: {:?}", place.what, all.items);
    }
}

#[tokio::test]
async fn a_unique_key_answers_the_first_job() {
    for place in places().await {
        let client = &place.client;
        let first = client.enqueue(Add(1, 2)).unique("k").await.unwrap();
        let again = client.enqueue(Add(3, 4)).unique("k").await.unwrap();
        assert_eq!((again.id, again.existed, again.payload_differs), (first.id, true, true));
        assert!(!client.enqueue(Add(1, 2)).queue("other").unique("k").await.unwrap().existed);
        let by_payload = client.enqueue(task("same")).unique_by_payload().await.unwrap();
        let same = client.enqueue(task("same")).queue("other").unique_by_payload().await.unwrap();
        assert_eq!((same.id, same.existed), (by_payload.id, true), "in any queue of the kind");
        assert!(!client.enqueue(task("another")).unique_by_payload().await.unwrap().existed);
        client.cancel(first.id).await.unwrap();
        assert!(
            !client.enqueue(Add(1, 2)).unique("k").await.unwrap().existed,
            "a cancelled one frees its key"
        );
    }
}

#[tokio::test]
async fn a_result_is_typed_and_every_other_end_says_what_it_was() {
    for place in places().await {
        let client = &place.client;
        let [good, bad] = [Add(1, 2), Add(i64::MAX, 1)].map(|job| client.enqueue(job));
        let (good, bad) = (good.await.unwrap().id, bad.await.unwrap().id);
        let gone = client.enqueue(Add(1, 2)).queue("nobody").await.unwrap().id;
        client.cancel(gone).reason("no need").await.unwrap();
        with_worker(client, async {
            assert_eq!(client.wait::<Add>(good).await.unwrap(), 3);
            let failed = client.wait::<Add>(bad).await.unwrap_err();
            let Error::Ended(Ended { status, code, message, .. }) = failed else { panic!("{failed}") };
            assert_eq!((status, code.as_str(), message.as_str()), (Status::Failed, "failed", "too much"));
            let cancelled = client.wait::<Add>(gone).await.unwrap_err().to_string();
            assert!(cancelled.contains("is cancelled"), "{cancelled}");
            let other = client.wait::<Task>(good).await.unwrap_err();
            assert!(matches!(&other, Error::Result { why, .. } if why.contains("string")), "{other}");
            let none = client.wait::<Add>(windlass_store::fresh::job_id()).await.unwrap_err();
            assert_eq!(none.refusal(), Some(&Refusal::NotFound));
        })
        .await;
    }
}

#[tokio::test]
async fn a_dead_job_is_redriven_and_a_completed_one_forked() {
    for place in places().await {
        let client = &place.client;
        let dead = client.enqueue(Add(i64::MAX, 1)).await.unwrap().id;
        with_worker(client, async {
            client.wait::<Add>(dead).await.unwrap_err();
            client.redrive(dead).delay(Duration::from_secs(600)).await.unwrap();
            let view = client.job(dead).await.unwrap().unwrap();
            assert_eq!((view.job.status, view.job.generation), (Status::Pending, 1));
            let refused = client.redrive(dead).await.unwrap_err();
            assert_eq!(refused.refusal(), Some(&Refusal::NotFinished(Status::Pending)));
            let fork = client.fork(dead).from_version(1).payload(Add(20, 1)).await.unwrap();
            assert_eq!(client.wait::<Add>(fork).await.unwrap(), 21);
        })
        .await;
    }
}

#[tokio::test]
async fn a_held_job_is_asked_to_stop() {
    for place in places().await {
        let client = &place.client;
        let job = client.enqueue(task("long")).await.unwrap().id;
        let long = |_: Task, ctx: Context| async move {
            ctx.cancelled().await;
            Err::<String, _>(HandlerError::cancelled())
        };
        let worker = Worker::new(client.clone()).queue("tasks", 1).lease(Duration::from_secs(4)).handle(long);
        let stopped = async {
            let started = |event: &windlass::Event| event.what.type_name() == "job_claimed";
            let mut events = client.watch(job);
            while !started(&events.try_next().await.unwrap().unwrap()) {}
            assert_eq!(client.cancel(job).await.unwrap(), Cancelling::Requested);
            assert_eq!(client.cancel(job).await.unwrap(), Cancelling::Requested, "again, it is on its way");
            client.wait::<Task>(job).await.unwrap_err();
            assert_eq!(client.cancel(job).await.unwrap(), Cancelling::Cancelled);
        };
        worker.run_until(stopped).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_job_does_not_say_its_kind_agent_and_queue_do() {
    let retries = |n| Policy { max_retries: Some(n), ..Policy::default() };
    let client = Client::builder("memory:")
        .kind_policy::<Task>(Policy { timeout_ms: Some(2), ..Policy::default() })
        .agent_policy("ann", Policy { timeout_ms: Some(3), ..retries(4) })
        .default_policy(retries(9))
        .connect()
        .await
        .unwrap();
    let name = Name::parse("queue", "slow").unwrap();
    let put = windlass_store::PutQueue {
        defaults: Some(retries(5)),
        ..windlass_store::PutQueue::new(name, windlass_core::Actor::api())
    };
    client.store().put_queue(put, None).await.unwrap().unwrap();
    let facts = async |sent: windlass::Enqueue| {
        let id = sent.await.unwrap().id;
        let facts = client.job(id).await.unwrap().unwrap().facts;
        (facts.max_retries, facts.timeout_ms)
    };
    assert_eq!(facts(client.enqueue(Add(1, 2))).await, (9, None));
    assert_eq!(facts(client.enqueue(Add(1, 2)).queue("slow")).await, (5, None));
    assert_eq!(facts(client.enqueue(Add(1, 2)).queue("slow").agent("ann")).await, (4, Some(3)));
    assert_eq!(facts(client.enqueue(task("")).queue("slow").agent("ann")).await, (4, Some(2)));
    let own = client.enqueue(task("")).agent("ann").max_retries(0).timeout(Duration::from_millis(1));
    assert_eq!(facts(own).await, (0, Some(1)));
    let wrong = Client::builder("memory:").default_policy(retries(1_000)).connect().await.unwrap_err();
    assert!(matches!(&wrong, Error::Invalid(invalid) if invalid.field == "max_retries"), "{wrong}");
}

#[tokio::test]
async fn events_are_read_in_pages_from_either_end() {
    for place in places().await {
        let client = &place.client;
        let id = client.enqueue(Add(1, 2)).await.unwrap().id;
        for n in 0..4 {
            assert!(!client.signal(id, "s", n).key(&format!("k{n}")).await.unwrap());
        }
        assert!(client.signal(id, "s", 0).key("k0").await.unwrap(), "the key came before");
        let versions = |events: Vec<windlass::Event>| events.iter().map(|e| e.version).collect::<Vec<_>>();
        assert_eq!(versions(client.events(id).await.unwrap()), [1, 2, 3, 4, 5]);
        assert_eq!(versions(client.events(id).after(2).limit(2).await.unwrap()), [3, 4]);
        assert_eq!(versions(client.events(id).newest_first().limit(2).await.unwrap()), [5, 4]);
        let brought = client.events(id).after(4).await.unwrap().remove(0).payload;
        assert_eq!(brought.map(|p: Payload| p.parse::<i32>().unwrap()), Some(3));
    }
}

/// Operators from Rust: what is found by a dry run is done by the run, queues stand still while paused, old jobs go whole.
#[tokio::test]
async fn operators_need_no_server() {
    for place in places().await {
        let client = &place.client;
        let sent = client.enqueue_many((0..5).map(|n| Add(n, 0))).await.unwrap();
        let adds = || Filter { kind: Some("add".try_into().unwrap()), ..Filter::default() };
        let dry = client.cancel_all(adds()).dry_run().await.unwrap();
        assert_eq!((dry.matched, dry.done, dry.sample.len()), (5, 0, 5), "{}", place.what);
        assert_eq!(client.job(sent[0].id).await.unwrap().unwrap().job.status, Status::Pending);
        let done = client.cancel_all(adds()).reason("a drill").await.unwrap();
        assert_eq!((done.matched, done.done, done.skipped), (5, 5, 0));
        assert_eq!(client.cancel_all(adds()).await.unwrap().matched, 0);
        assert_eq!(
            client.redrive_all(adds()).await.unwrap().matched,
            0,
            "what was cancelled is named, or left"
        );
        let cancelled = Filter { statuses: vec![Status::Cancelled], ..adds() };
        let later = client.redrive_all(cancelled.clone()).spread(Duration::from_secs(60)).await.unwrap();
        assert_eq!(later.done, 5);
        assert!(client.cancel_all(adds()).await.unwrap().done == 5);

        assert_eq!(client.prune(Duration::from_secs(60)).dry_run().await.unwrap(), 0);
        assert_eq!(client.prune(Duration::ZERO).dry_run().await.unwrap(), 5);
        let full = client.prune(Duration::ZERO).archive(|_| Err("the disk is full")).await.unwrap_err();
        assert!(matches!(&full, Error::Archive { why, .. } if why == "the disk is full"), "{full}");
        let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = Arc::clone(&kept);
        let archive = move |whole: &windlass::Archived| {
            keep.lock().unwrap().push((whole.job.id, whole.events.len()));
            Ok::<_, Error>(())
        };
        assert_eq!(client.prune(Duration::ZERO).archive(archive).await.unwrap(), 5);
        assert_eq!(kept.lock().unwrap().len(), 5);
        assert!(
            kept.lock().unwrap().iter().all(|(_, events)| *events == 4),
            "created, cancelled, redriven, cancelled"
        );
        assert_eq!(client.job(sent[0].id).await.unwrap(), None);

        client.queue("tasks").pause().await.unwrap();
        let defaults = windlass::Policy { max_retries: Some(7), ..Default::default() };
        client.queue("tasks").set_defaults(defaults).await.unwrap();
        let queues = client.queues().await.unwrap();
        let tasks = queues.iter().find(|state| state.queue.name.as_str() == "tasks").unwrap();
        assert!(tasks.queue.paused.is_some() && tasks.queue.defaults == defaults);
        client.queue("tasks").resume().await.unwrap();
        assert!(client.queues().await.unwrap().iter().all(|state| state.queue.paused.is_none()));
        assert!(client.queue("no queue").pause().await.is_err());
        assert!(client.workers().await.unwrap().is_empty() && !client.drain_worker("nobody").await.unwrap());
        assert!(client.open_approvals(None).await.unwrap().is_empty());
    }
}
