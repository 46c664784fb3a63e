//! Watching one job and tailing the feed: nothing missed, nothing repeated, and idle watchers cost nothing.

#[path = "support/probe.rs"]
mod probe;
mod support;

use futures_util::{StreamExt, TryStreamExt};
use probe::Probe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Add, places};
use windlass::{Client, Refusal, Store};
use windlass_memory::MemoryStore;
use windlass_store::{Clocked, Faults, Faulty, fresh};

fn types(events: &[windlass::Event]) -> Vec<&str> {
    events.iter().map(|event| event.what.type_name()).collect()
}

/// J9
#[tokio::test]
async fn a_watch_gives_what_was_and_what_comes_and_ends_with_the_job() {
    for place in places().await {
        let client = &place.client;
        let id = client.enqueue(Add(1, 2)).await.unwrap().id;
        client.signal(id, "before", 1).await.unwrap();
        let mut watch = client.watch(id);
        let mut seen: Vec<windlass::Event> = watch.by_ref().take(2).try_collect().await.unwrap();
        let (rest, ()) = tokio::join!(watch.try_collect::<Vec<_>>(), async {
            client.signal(id, "after", 2).await.unwrap();
            client.cancel(id).await.unwrap();
        });
        seen.extend(rest.unwrap());
        assert_eq!(types(&seen), ["job_created", "job_signalled", "job_signalled", "job_cancelled"]);
        assert_eq!(seen.iter().map(|e| e.version).collect::<Vec<_>>(), [1, 2, 3, 4], "{}", place.what);
        let late: Vec<_> = client.watch(id).after(4).try_collect().await.unwrap();
        assert!(late.is_empty(), "who comes after the end is told of the end");
        let mut none = client.watch(fresh::job_id());
        let refused = none.next().await.unwrap().unwrap_err();
        assert_eq!(refused.refusal(), Some(&Refusal::NotFound));
        assert!(none.next().await.is_none());
    }
}

/// (library) Who waits for one job reads nobody's payloads: not of those that the feed tells of besides.
#[tokio::test]
async fn a_wait_reads_no_payloads() {
    for place in places().await {
        let (probe, client) = Probe::around(&place.client);
        let head = client.feed_head().await.unwrap();
        let id = client.enqueue(Add(1, 2)).await.unwrap().id;
        let (ended, ()) = tokio::join!(client.wait::<Add>(id), async {
            while probe.asked("feed").is_empty() {
                place.client.enqueue(Add(3, 4)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            client.cancel(id).await.unwrap();
        });
        assert!(matches!(ended, Err(windlass::Error::Ended(_))), "{ended:?}");
        for read in probe.asked("feed") {
            assert!(read.contains("payloads: false"), "{}: {read}", place.what);
        }
        // Who tails the feed asks for them.
        let feed = client.feed(head);
        let _first: Vec<_> = feed.take(1).try_collect().await.unwrap();
        assert!(probe.asked("feed").last().unwrap().contains("payloads: true"));
    }
}

/// J9: what idle watchers cost does not grow with their number.
#[tokio::test(start_paused = true)]
async fn a_hundred_idle_watchers_poll_no_more_than_one() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let clock = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        fresh::wall_clock()
    };
    let client = Client::new(Arc::new(Clocked::new(Arc::new(MemoryStore::new()), clock)));
    let sent = client.enqueue_many((0..100).map(|n| Add(n, 0))).await.unwrap();
    let watches = sent.iter().map(|sent| client.watch(sent.id).try_collect::<Vec<_>>());
    let mut all = std::pin::pin!(futures_util::future::try_join_all(watches));
    tokio::select! {
        end = &mut all => panic!("{end:?}"),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    let before = calls.load(Ordering::SeqCst);
    tokio::select! {
        end = &mut all => panic!("{end:?}"),
        () = tokio::time::sleep(Duration::from_secs(60)) => {}
    }
    let polls = calls.load(Ordering::SeqCst) - before;
    assert!((50..=70).contains(&polls), "about one a second, not one a second each: {polls}");
    for sent in &sent {
        client.cancel(sent.id).await.unwrap();
    }
    assert!(all.await.unwrap().iter().all(|events| types(events) == ["job_created", "job_cancelled"]));
    // With the last watcher the reader ends too.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = calls.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(calls.load(Ordering::SeqCst), before);
}

/// J9: a store that comes and goes is no reason to miss or repeat anything.
#[tokio::test(start_paused = true)]
async fn a_watch_and_the_feed_survive_a_failing_store() {
    for seed in 0..10 {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let faults = Faults { seed, fail_before: 70, lose_answer: 10, delay: 0, duplicate: 0 };
        let client = Client::new(Arc::new(Faulty::new(Arc::clone(&store), faults)));
        let sure = Client::new(store);
        let head = sure.feed_head().await.unwrap();
        let id = sure.enqueue(Add(1, 2)).await.unwrap().id;
        let acts = async {
            for n in 0..30 {
                sure.signal(id, "s", n).await.unwrap();
                tokio::time::sleep(Duration::from_millis(700)).await;
            }
            sure.cancel(id).await.unwrap();
        };
        let watch = client.watch(id).filter_map(async |event| event.ok()).map(|event| event.version);
        let feed = client.feed(head).filter_map(async |event| event.ok()).map(|event| event.event.version);
        let (watched, fed, ()) =
            tokio::join!(watch.collect::<Vec<_>>(), feed.take(32).collect::<Vec<_>>(), acts);
        let all: Vec<i64> = (1..=32).collect();
        assert_eq!((watched, fed), (all.clone(), all), "seed {seed}");
    }
}

#[tokio::test]
async fn the_feed_goes_on_from_any_event() {
    for place in places().await {
        let client = &place.client;
        client.enqueue(Add(0, 0)).await.unwrap();
        let head = client.feed_head().await.unwrap();
        let sent = client.enqueue_many((1..=5).map(|n| Add(n, 0))).await.unwrap();
        let events: Vec<_> = client.feed(head).take(5).try_collect().await.unwrap();
        let ids = |events: &[windlass::FeedEvent]| events.iter().map(|e| e.event.job).collect::<Vec<_>>();
        assert_eq!(ids(&events), sent.iter().map(|s| s.id).collect::<Vec<_>>(), "{}", place.what);
        assert!(events.iter().all(|e| e.kind.as_str() == "add" && e.queue.as_str() == "default"));
        let rest: Vec<_> = client.feed(events[2].cursor.clone()).take(2).try_collect().await.unwrap();
        assert_eq!(ids(&rest), ids(&events[3..]));
    }
}

/// J9: a store that was adopted after a restore takes no cursor of before. The feed says so once and ends, instead of saying
/// it for ever; a watch of one job, which rests on the job's own log, goes on.
#[tokio::test]
async fn an_expired_cursor_ends_the_feed_and_no_watch() {
    for place in places().await {
        let client = &place.client;
        let head = client.feed_head().await.unwrap();
        let id = client.enqueue(Add(1, 2)).await.unwrap().id;
        let (mut feed, mut watch) = (client.feed(head.clone()), client.watch(id));
        assert_eq!(feed.next().await.unwrap().unwrap().event.job, id);
        assert_eq!(watch.next().await.unwrap().unwrap().version, 1);
        let adopt = windlass_store::Adopt { actor: windlass_core::Actor::api() };
        client.store().adopt(adopt, None).await.unwrap();
        for mut feed in [feed, client.feed(head)] {
            let refused = feed.next().await.unwrap().unwrap_err();
            assert!(
                matches!(refused.refusal(), Some(Refusal::CursorExpired(_))),
                "{}: {refused}",
                place.what
            );
            assert!(feed.next().await.is_none(), "{}", place.what);
        }
        let mut feed = client.feed(client.feed_head().await.unwrap());
        let (rest, _) = tokio::join!(watch.try_collect::<Vec<_>>(), client.cancel(id));
        assert_eq!(types(&rest.unwrap()), ["job_cancelled"], "{}", place.what);
        assert_eq!(feed.next().await.unwrap().unwrap().event.version, 2, "begun anew");
    }
}

/// The reader of the feed ends with the runtime it was started on; whoever still watches starts another.
#[test]
fn a_watch_outlives_the_runtime_it_began_on() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = runtime();
    let client = first.block_on(windlass::connect("memory:")).unwrap();
    let id = first.block_on(async { client.enqueue(Add(1, 2)).await.unwrap().id });
    let mut watch = client.watch(id);
    first.block_on(async {
        assert!(watch.next().await.is_some());
        // It waits for more, so that it depends on the reader.
        let waiting = tokio::time::timeout(Duration::from_millis(50), watch.next());
        assert!(waiting.await.is_err());
    });
    drop(first);
    runtime().block_on(async {
        let rest =
            async { watch.map_ok(|e| e.what.type_name().to_owned()).try_collect::<Vec<_>>().await.unwrap() };
        let (rest, _) = tokio::join!(rest, async { client.cancel(id).await.unwrap() });
        assert_eq!(rest, ["job_cancelled"]);
    });
}
