//! The feed: streams that resume without gap or repeat, however many listen, and pages of the same.

mod bed;

use bed::counting::Counting;
use bed::events::Events;
use bed::{Bed, Place, beds, soon, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

async fn listen(bed: &Bed, path: &str, last: Option<&str>) -> Events {
    let mut request = bed.request(reqwest::Method::GET, path).header("accept", "text/event-stream");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let mut events = Events::of(soon("an answer", request.send()).await.expect("a stream"));
    events.opened().await;
    events
}

async fn note(bed: &Bed, id: &str) {
    bed.post(&format!("/v1/jobs/{id}/events"), json!({ "type": "note" })).await.is(201);
}

/// Notices a gap or a repeat in what a listener was told, job by job.
#[derive(Default)]
struct Ledger {
    newest: BTreeMap<String, i64>,
    told: usize,
}

impl Ledger {
    fn tell(&mut self, data: &Value) {
        let job = data["job_id"].as_str().expect("a job").to_owned();
        let version = data["version"].as_i64().expect("a version");
        let newest = self.newest.entry(job.clone()).or_insert(0);
        assert_eq!(version, *newest + 1, "job {job}: no gap, no repeat, in order");
        *newest = version;
        self.told += 1;
    }
}

/// J9: what is written after the stream began is told, with a cursor that resumes after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_and_resumes() {
    for bed in beds().await {
        let before = bed.put_job(json!({})).await;
        let mut events = listen(&bed, "/v1/feed", None).await;
        let id = bed.put_job(json!({ "queue": "mail", "payload": { "n": 1 } })).await;
        let first = events.next().await.unwrap();
        assert_ne!(first.data["job_id"], before, "it starts now");
        for (field, expected) in [
            ("job_id", json!(id)),
            ("version", json!(1)),
            ("type", json!("job_created")),
            ("queue", json!("mail")),
            ("kind", json!("work")),
            ("actor", json!("api")),
            ("payload", json!({ "n": 1 })),
        ] {
            assert_eq!(first.data[field], expected, "{field}");
        }
        note(&bed, &id).await;
        note(&bed, &id).await;
        let second = events.next().await.unwrap();
        assert_eq!(second.data["version"], 2);
        drop(events);
        let mut resumed = listen(&bed, "/v1/feed", Some(&second.id)).await;
        assert_eq!(resumed.next().await.unwrap().data["version"], 3);
        let mut by_address = listen(&bed, &format!("/v1/feed?after={}", first.id), None).await;
        let rest = by_address.take(2).await;
        assert_eq!((&rest[0].data["version"], &rest[1].data["version"]), (&json!(2), &json!(3)));
        assert!(by_address.within(Duration::from_millis(100)).await.is_none());
        note(&bed, &id).await;
        assert_eq!(by_address.next().await.unwrap().data["version"], 4, "and then it is live");
        bed.get("/v1/feed?after=nonsense").await.refused(422, "invalid");
        bed.get("/v1/feed?kin=work").await.refused(422, "unknown_field");
    }
}

/// (http) A cursor of another store is of no use.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_cursor_has_expired() {
    let [bed, other] = beds().await;
    let foreign = listen(&other, "/v1/feed", None).await.last_id;
    bed.get(&format!("/v1/feed?after={foreign}")).await.refused(410, "cursor_expired");
    let request = bed.request(reqwest::Method::GET, &format!("/v1/feed?after={foreign}"));
    let page = request.header("accept", "application/json").send().await.unwrap();
    bed::Answer::of(page).await.refused(410, "cursor_expired");
}

/// (http) A stream brings what its filters ask for, and moves on over the rest.
#[tokio::test(flavor = "multi_thread")]
async fn filters_apply_to_streams() {
    for bed in beds().await {
        let mut by_queue = listen(&bed, "/v1/feed?queue=mail&type=job_created", None).await;
        let mut by_agent = listen(&bed, "/v1/feed?agent_id=ann&tag=t", None).await;
        let mut dead = listen(&bed, "/v1/feed?dead=true&error_code=down", None).await;
        bed.put_job(json!({})).await;
        let mail = bed.put_job(json!({ "queue": "mail" })).await;
        note(&bed, &mail).await;
        let ann = bed.put_job(json!({ "agent_id": "ann", "tags": ["t"] })).await;
        bed.put_job(json!({ "agent_id": "ann" })).await;
        note(&bed, &ann).await;
        assert_eq!(by_queue.next().await.unwrap().data["job_id"], mail);
        let told = by_agent.take(2).await;
        assert!(told.iter().all(|told| told.data["job_id"] == ann));
        assert_eq!(told[1].data["type"], "note");
        let token = bed.hold(&mail).await;
        let failed = json!({ "lease_token": token, "error": { "code": "down" }, "permanent": true });
        bed.post(&format!("/v1/jobs/{mail}/fail"), failed).await.is(200);
        assert_eq!(dead.next().await.unwrap().data["type"], "job_failed");
        assert!(by_queue.within(Duration::from_millis(100)).await.is_none());
    }
}

/// (http) A lean stream brings no payloads; one that gathers brings the newest event of each job, says how many it left
/// out, and resumes after all of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lean_stream_gathers() {
    for bed in beds().await {
        let mut lean = listen(&bed, "/v1/feed?payload=false", None).await;
        let mut gathered = listen(&bed, "/v1/feed?payload=false&every=700ms", None).await;
        let first = bed.put_job(json!({ "payload": { "large": "x".repeat(50_000) } })).await;
        let created = lean.next().await.unwrap();
        assert_eq!((&created.data["type"], &created.data["job_id"]), (&json!("job_created"), &json!(first)));
        assert!(created.data.get("payload").is_none());
        // The first comes at once; what comes before the pause is over is told together.
        assert_eq!(gathered.next().await.unwrap().data["version"], 1);
        for _ in 0..5 {
            note(&bed, &first).await;
        }
        let second = bed.put_job(json!({})).await;
        let mut newest = BTreeMap::new();
        let (mut told, mut skipped) = (1, 0);
        while newest.get(&first) != Some(&6) || !newest.contains_key(&second) {
            let next = gathered.next().await.unwrap();
            match next.data["job_id"].as_str() {
                Some(job) => {
                    told += 1;
                    newest.insert(job.to_owned(), next.data["version"].as_i64().unwrap());
                }
                None => skipped += next.data["skipped"].as_i64().unwrap(),
            }
        }
        // What was left out of the last telling is said right behind it.
        while told + skipped < 7 {
            skipped += gathered.next().await.unwrap().data["skipped"].as_i64().unwrap();
        }
        assert_eq!(told + skipped, 7, "each event was told, or counted");
        bed.get("/v1/feed?every=11s").await.refused(422, "invalid");
        bed.get("/v1/feed?payload=some").await.refused(422, "invalid");
    }
}

/// (http) A silent stream says now and then that it is there, and how far it has come.
#[tokio::test(flavor = "multi_thread")]
async fn silence_is_commented() {
    let bed = Place::memory().serve_with(|server| server.comment_every(Duration::from_millis(50))).await;
    let mut events = listen(&bed, "/v1/feed?queue=mail", None).await;
    let began_at = events.last_id.clone();
    bed.put_job(json!({})).await;
    assert!(events.within(Duration::from_millis(300)).await.is_none());
    assert!(events.comments >= 2, "{}", events.comments);
    assert_ne!(events.last_id, began_at, "it moved on over what it does not want");
}

/// J9: streams that break and resume again and again, while many write, miss nothing and repeat nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn resuming_under_racing_writers_leaves_no_gap() {
    for bed in beds().await {
        let bed = Arc::new(bed);
        let mut events = listen(&bed, "/v1/feed", None).await;
        let over = Arc::new(AtomicBool::new(false));
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (bed, over) = (Arc::clone(&bed), Arc::clone(&over));
            writers.spawn(async move {
                let (mut jobs, mut written) = (Vec::new(), 0);
                while !over.load(Ordering::Relaxed) && written < 400 {
                    let id = bed.put_job(json!({})).await;
                    note(&bed, &id).await;
                    jobs.push(id);
                    written += 2;
                    note(&bed, &jobs[written % jobs.len()]).await;
                    written += 1;
                }
                written
            });
        }
        let mut ledger = Ledger::default();
        for round in 0..12 {
            for told in events.take(15 + round).await {
                ledger.tell(&told.data);
            }
            let last = events.last_id.clone();
            drop(events);
            events = listen(&bed, "/v1/feed", Some(&last)).await;
        }
        over.store(true, Ordering::Relaxed);
        let mut written = 0;
        while let Some(n) = writers.join_next().await {
            written += n.unwrap();
        }
        while ledger.told < written {
            ledger.tell(&events.next().await.unwrap().data);
        }
        assert!(events.within(Duration::from_millis(100)).await.is_none(), "and nothing more");
    }
}

/// A connection takes two descriptors here, for both of its ends are in this process.
fn allow_descriptors(wanted: u64) {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let is_enough = most.maximum.is_none_or(|maximum| maximum >= wanted);
    assert!(is_enough, "this test needs {wanted} open files; raise the hard limit (ulimit -Hn)");
    if most.current.is_some_and(|current| current < wanted) {
        let limit = rustix::process::Rlimit { current: Some(wanted), ..most };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("below the hard limit");
    }
}

/// J9: four thousand listeners ask the store as often as one, and each is told everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_listeners_cost_as_much_as_one() {
    allow_descriptors(10_000);
    let (place, counting) = Place::memory().around(Counting::new);
    let bed = place.serve().await;
    let id = bed.put_job(json!({})).await;
    let mut listeners = vec![listen(&bed, "/v1/feed", None).await];
    let idle = async || {
        let before = counting.count();
        tokio::time::sleep(Duration::from_secs(3)).await;
        counting.count() - before
    };
    let one = idle().await;
    let paths = ["/v1/feed".to_owned(), format!("/v1/jobs/{id}/feed")];
    let rest: Vec<usize> = (1..4_000).collect();
    for some in rest.chunks(50) {
        let opening = some.iter().map(|n| listen(&bed, &paths[n % 2], None));
        listeners.extend(futures_util::future::join_all(opening).await);
    }
    assert!(bed.get("/metrics").await.text.contains("windlass_feed_listeners 4000"));
    let many = idle().await;
    assert!(many <= one + 6, "idle: {one} calls in three seconds for one listener, {many} for thousands");
    let (before, began) = (counting.count(), tokio::time::Instant::now());
    for _ in 0..5 {
        note(&bed, &id).await;
    }
    for listener in &mut listeners {
        let told = listener.take(5).await;
        assert_eq!(told.last().unwrap().data["version"], 6);
    }
    let (busy, took) = (counting.count() - before, began.elapsed());
    let most = 100 + 10 * took.as_secs();
    assert!(busy < most, "five notes were told to all listeners with {busy} calls in {took:?}");
    drop(listeners);
    until("they are gone", async || bed.get("/metrics").await.text.contains("windlass_feed_listeners 0"))
        .await;
}

/// J9: a listener that reads nothing for a while blocks nobody and is told everything afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_listener_is_caught_up() {
    for bed in beds().await {
        let mut slow = listen(&bed, "/v1/feed", None).await;
        let mut quick = listen(&bed, "/v1/feed", None).await;
        let id = bed.put_job(json!({})).await;
        // More than the socket and the server's memory of recent events hold: 40 events of half a mebibyte.
        let large = "x".repeat(512 << 10);
        for n in 0..40 {
            bed.put_job(json!({ "payload": format!("{n}{large}") })).await;
        }
        note(&bed, &id).await;
        let mut ledger = Ledger::default();
        for told in quick.take(42).await {
            ledger.tell(&told.data);
        }
        let mut ledger = Ledger::default();
        for told in slow.take(42).await {
            ledger.tell(&told.data);
        }
        assert_eq!(ledger.newest[&id], 2);
    }
}

/// J9: one job's feed has its versions as cursors.
#[tokio::test(flavor = "multi_thread")]
async fn one_job_is_followed_by_version() {
    for bed in beds().await {
        let id = bed.put_job(json!({})).await;
        note(&bed, &id).await;
        let path = format!("/v1/jobs/{id}/feed");
        let mut live = listen(&bed, &path, None).await;
        assert_eq!(live.last_id, "2");
        let mut all = listen(&bed, &format!("{path}?after=0"), None).await;
        bed.put_job(json!({})).await;
        note(&bed, &id).await;
        let told = live.next().await.unwrap();
        assert_eq!(
            (told.id.as_str(), &told.data["version"], &told.data["job_id"]),
            ("3", &json!(3), &json!(id))
        );
        let ids: Vec<String> = all.take(3).await.into_iter().map(|told| told.id).collect();
        assert_eq!(ids, ["1", "2", "3"]);
        drop(all);
        note(&bed, &id).await;
        let mut resumed = listen(&bed, &path, Some("3")).await;
        assert_eq!(resumed.next().await.unwrap().id, "4");
        let page = async |query: &str| {
            let request = bed.request(reqwest::Method::GET, &format!("{path}?{query}"));
            bed::Answer::of(request.header("accept", "application/json").send().await.unwrap()).await
        };
        let answer = page("after=1&limit=2").await.is(200);
        assert_eq!((&answer["events"][0]["version"], &answer["next_cursor"]), (&json!(2), &json!("3")));
        let (waited, ()) = tokio::join!(page("after=4&wait=60s"), async {
            until("it listens", async || {
                bed.get("/metrics").await.text.contains("windlass_feed_listeners 3")
            })
            .await;
            note(&bed, &id).await;
        });
        assert_eq!(waited.is(200)["events"][0]["version"], 5);
        page("after=x").await.refused(422, "invalid");
        let lost = "01890000-0000-7000-8000-000000000009";
        bed.get(&format!("/v1/jobs/{lost}/feed")).await.refused(404, "not_found");
    }
}

/// (http) The same feed in pages, also waited for.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_feed() {
    for bed in beds().await {
        let page = async |query: &str| {
            let request = bed.request(reqwest::Method::GET, &format!("/v1/feed?{query}"));
            bed::Answer::of(request.header("accept", "application/json").send().await.unwrap()).await
        };
        let now = page("").await.is(200);
        assert_eq!(now["events"], json!([]));
        let began = now["next_cursor"].as_str().unwrap().to_owned();
        let ids: Vec<_> = futures_util::future::join_all((0..30).map(|_| bed.put_job(json!({})))).await;
        let (mut ledger, mut cursor) = (Ledger::default(), began.clone());
        while ledger.told < 30 {
            let answer = soon("the rest", page(&format!("after={cursor}&limit=7&wait=5s"))).await.is(200);
            let events = answer["events"].as_array().unwrap();
            assert!(!events.is_empty() && events.len() <= 7);
            events.iter().for_each(|event| ledger.tell(event));
            cursor = answer["next_cursor"].as_str().unwrap().to_owned();
        }
        assert!(ids.iter().all(|id| ledger.newest.contains_key(id)));
        assert_eq!(page(&format!("after={cursor}")).await.is(200)["events"], json!([]));
        let filtered = page(&format!("after={began}&queue=none")).await.is(200);
        assert_eq!(filtered["events"], json!([]));
        assert_eq!(filtered["next_cursor"], cursor, "it moved on over what it does not want");
        let wait = format!("after={cursor}&wait=60s");
        let (waited, id) = tokio::join!(page(&wait), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            bed.put_job(json!({})).await
        });
        assert_eq!(waited.is(200)["events"][0]["job_id"], id);
        page("wait=61s").await.refused(422, "invalid");
    }
}

/// (http) Filters by parent, worker and kind bring those events and no others, as a stream and as a page.
#[tokio::test(flavor = "multi_thread")]
async fn the_feed_knows_parents_workers_and_kinds() {
    for bed in beds().await {
        let parent = bed.put_job(json!({})).await;
        let mut by_parent = listen(&bed, &format!("/v1/feed?parent_id={parent}"), None).await;
        let mut by_worker = listen(&bed, "/v1/feed?worker_id=w1", None).await;
        let mut by_kind = listen(&bed, "/v1/feed?kind=rare", None).await;
        let mut by_status = listen(&bed, "/v1/feed?status=running", None).await;
        let stranger = bed.put_job(json!({})).await;
        let child = bed.put_job(json!({ "parent_id": parent })).await;
        let rare = bed.put_job(json!({ "kind": "rare" })).await;
        bed.post(&format!("/v1/jobs/{stranger}/claim"), json!({ "worker_id": "w2" })).await.is(200);
        bed.hold(&child).await;
        assert_eq!(by_parent.next().await.unwrap().data["job_id"], child);
        assert_eq!(by_parent.next().await.unwrap().data["type"], "job_claimed");
        assert_eq!(by_kind.next().await.unwrap().data["job_id"], rare);
        assert_eq!(by_worker.next().await.unwrap().data["job_id"], child, "w2 is somebody else");
        let running = by_status.take(2).await;
        assert_eq!(
            (&running[0].data["job_id"], &running[1].data["job_id"]),
            (&json!(stranger), &json!(child))
        );
        for stream in [&mut by_parent, &mut by_worker, &mut by_kind, &mut by_status] {
            assert!(stream.within(Duration::from_millis(50)).await.is_none());
        }
    }
}

/// J9: after a restore whoever listens is cut off, is told 410 when it comes back with its old cursor, and begins anew
/// without one; the server's own reader begins anew by itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_expired_cursor_is_told_once_and_a_new_stream_goes_on() {
    for bed in beds().await {
        let mut events = listen(&bed, "/v1/feed", None).await;
        bed.put_job(json!({})).await;
        let told = events.next().await.expect("an event");
        let page = bed.request(reqwest::Method::GET, &format!("/v1/feed?after={}", told.id));
        let page = soon("a page", page.header("accept", "application/json").send()).await.expect("an answer");
        let page = bed::Answer::of(page).await.is(200);
        let adopt = windlass_store::Adopt { actor: windlass_core::Actor::api() };
        bed.store().adopt(adopt, None).await.expect("the store answers");
        assert!(events.next().await.is_none(), "the stream ends");
        for old in [told.id.as_str(), page["next_cursor"].as_str().expect("a cursor")] {
            bed.get(&format!("/v1/feed?after={old}")).await.refused(410, "cursor_expired");
            let again = bed.request(reqwest::Method::GET, "/v1/feed").header("last-event-id", old);
            let again = again.header("accept", "text/event-stream");
            let refused = soon("an answer", again.send()).await.expect("an answer");
            assert_eq!(refused.status(), 410);
        }
        let mut events = listen(&bed, "/v1/feed", None).await;
        let id = bed.put_job(json!({})).await;
        assert_eq!(events.next().await.expect("an event").data["job_id"], id);
    }
}
