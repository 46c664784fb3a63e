//! A PostgreSQL that says nothing, as a server's clients see it: one that is silent with TCP alive, and one whose synchronous
//! standby is gone.

mod bed;
#[path = "../../postgres/tests/support/cluster.rs"]
#[allow(dead_code, reason = "no server is killed here")]
mod cluster;
#[path = "../../postgres/tests/support/proxy.rs"]
#[allow(dead_code, reason = "its other tricks are not played here")]
mod proxy;

use bed::{Answer, Bed, Place, soon, until};
use cluster::Cluster;
use proxy::Proxy;
use reqwest::Method;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};
use windlass_postgres::Options;

async fn served(options: Options) -> Bed {
    let store = options.open().await.expect("a store");
    let bed = Place::other("postgres", Arc::new(store), Box::new(())).serve().await;
    until("it is ready", async || bed.get("/readyz").await.status == 200).await;
    bed
}

/// (http) The database is silent and its connections stand: the server is alive, not ready within two seconds, and goes on
/// over new connections, while the old ones stay silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_silent_database_is_said_and_left_behind() {
    let cluster = Cluster::start_on_port(&["fsync=off"]);
    let proxy = Proxy::before(cluster.port()).await;
    let bed = served(Options::new(&proxy.url()).pool(4).timeout(Duration::from_secs(2))).await;
    let (id, token) = bed.held_job().await;
    bed.job(&id).await;
    let renewal = json!({ "worker_id": "w1", "leases": [{ "job_id": id, "token": token }] });
    bed.post("/v1/heartbeat", renewal.clone()).await.is(200);

    let made = proxy.tricks.made.load(Ordering::Relaxed);
    proxy.tricks.silent_up_to.store(made, Ordering::Relaxed);
    let began = Instant::now();
    let is_alive = async || {
        let asked = Instant::now();
        assert_eq!(bed.get("/healthz").await.is(200)["status"], "ok");
        assert!(asked.elapsed() < Duration::from_secs(1), "alive after {:?}", asked.elapsed());
    };
    until("it is not ready", async || {
        is_alive().await;
        bed.get("/readyz").await.status == 503
    })
    .await;
    assert!(began.elapsed() < Duration::from_secs(2), "not ready after {:?}", began.elapsed());
    let calls = async {
        tokio::join!(bed.get("/v1/jobs"), bed.post("/v1/jobs", json!({ "kind": "x" })), bed.get("/v1/queues"))
    };
    tokio::select! {
        biased;
        (list, made, queues) = soon("calls end", calls) => {
            // Each heard that it was silent, or got a new connection in time.
            for (answer, good) in [(list, 200), (made, 201), (queues, 200)] {
                assert!([good, 503].contains(&answer.status), "{}", answer.text);
            }
        }
        () = async { loop { is_alive().await; tokio::time::sleep(Duration::from_millis(50)).await; } } => {}
    }
    until("it is ready again", async || bed.get("/readyz").await.status == 200).await;
    assert_eq!(bed.job(&id).await["status"], "running");
    bed.post("/v1/jobs", json!({ "kind": "x" })).await.is(201);
    bed.post("/v1/heartbeat", renewal).await.is(200);
    assert_eq!(proxy.tricks.silent_up_to.load(Ordering::Relaxed), made, "the old ones are silent still");
    assert!(proxy.tricks.made.load(Ordering::Relaxed) > made);
}

async fn hand(url: &str) -> (Client, JoinSet<()>) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    let mut driven = JoinSet::new();
    driven.spawn(async move { connection.await.expect("it ends with its client") });
    client.batch_execute("SET synchronous_commit = local").await.expect("a setting");
    (client, driven)
}

/// Names the synchronous standbys; of one that nobody is, commits wait.
async fn standby(hand: &Client, names: &str) {
    let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
    hand.batch_execute(&set).await.expect("a setting");
    hand.batch_execute("SELECT pg_reload_conf()").await.expect("a setting");
    until("the setting is in force", async || {
        let row = hand.query_one("SHOW synchronous_standby_names", &[]).await.expect("a setting");
        row.get::<_, String>(0) == names
    })
    .await;
    // Those who commit hear it from another process, a moment later.
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// (http) While commits wait for a standby that is gone, the server is ready, reads are answered and leases renewed. A commit
/// whose wait was cancelled is unknown to its client, also when it is asked for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stuck_standby_takes_nothing_with_it() {
    let cluster = Cluster::start(&["fsync=off"]);
    let bed = served(Options::new(&cluster.url()).pool(8)).await;
    let (hand, _driven) = hand(&cluster.url()).await;
    let (id, token) = bed.held_job().await;
    standby(&hand, "nobody").await;
    let new = json!({ "kind": "x", "id": "01890000-0000-7000-8000-000000000001" });
    let mut waiting = JoinSet::new();
    let request = bed.request(Method::POST, "/v1/jobs").json(&new);
    waiting.spawn(async move { Answer::of(request.send().await.expect("an answer")).await });
    let stuck = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until("a commit waits", async || hand.query_one(stuck, &[]).await.expect("a look").get::<_, i64>(0) > 0)
        .await;

    let is_well = async || {
        bed.get("/readyz").await.is(200);
        assert_eq!(bed.job(&id).await["status"], "running");
        let leases = json!([{ "job_id": id, "token": token }]);
        let renewal = json!({ "worker_id": "w1", "leases": leases, "extend": "60s" });
        let renewed = bed.post("/v1/heartbeat", renewal).await.is(200);
        assert_eq!(renewed["leases"][0]["ok"], true, "{renewed}");
    };
    let until_then = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until_then {
        let asked = Instant::now();
        is_well().await;
        assert!(asked.elapsed() < Duration::from_secs(2), "well after {:?}", asked.elapsed());
    }

    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let mut cancelled = 0;
    until("the call ends", async || {
        cancelled += hand.execute(cancel, &[]).await.expect("a look");
        waiting.try_join_next().is_some_and(|answer| {
            answer.expect("no panic").refused(503, "outcome_unknown");
            true
        })
    })
    .await;
    assert!(cancelled > 1, "the repeats waited for the standby too: {cancelled}");
    is_well().await;
    let listed = bed.get("/v1/jobs?kind=x").await.is(200);
    assert_eq!(listed["jobs"].as_array().expect("a list").len(), 1, "it stands on this server");
    standby(&hand, "").await;
    assert_eq!(bed.post("/v1/jobs", new).await.is(200)["existed"], true);
    bed.post(&format!("/v1/jobs/{id}/complete"), json!({ "lease_token": token })).await.is(200);
}
