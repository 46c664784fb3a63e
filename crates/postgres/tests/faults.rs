//! What a network and a server do to a store under load: kills, cuts, lost answers, callers that give up. Everything
//! resumes by itself, nothing is lost or done twice, no transaction stays open.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::cluster::Cluster;
use support::load::Load;
use support::proxy::Proxy;
use support::{database, hand, soon, until, wait_for};
use windlass_conformance::{Bed, at};
use windlass_core::Filter;
use windlass_postgres::{Options, PostgresStore};
use windlass_store::List;

async fn open(url: &str) -> (Arc<PostgresStore>, Bed) {
    let store = Arc::new(Options::new(url).pool(8).open().await.expect("a store"));
    (Arc::clone(&store), Bed::new(store))
}

/// (leases): a server that is killed and comes back, three times, loses nothing that was acknowledged.
#[test]
fn a_killed_server_loses_nothing() {
    wait_for(async {
        let mut cluster = Cluster::start(&[]);
        let url = cluster.url();
        let (store, bed) = open(&url).await;
        let load = Load::new(bed, 600);
        let tally = Arc::clone(&load.tally);
        load.run(async {
            for part in [100, 250, 400] {
                until("some of the load is done", async || tally.settled.load(Ordering::Relaxed) >= part)
                    .await;
                cluster.kill();
                cluster.restart();
            }
        })
        .await;
        let hurt = tally.unavailable.load(Ordering::Relaxed) + tally.indeterminate.load(Ordering::Relaxed);
        assert!(hurt > 0, "somebody noticed: {tally:?}");
        until("notifications arrive again", async || store.listening()).await;
        load.check(&hand(&url).await).await;
        // The store's connections before its server.
        drop((load, store));
        drop(cluster);
    });
}

/// (views): whoever reads is told when it takes too long, as whoever writes is, and the next one is answered.
#[test]
fn a_read_does_not_wait_for_ever() {
    wait_for(async {
        let (url, _database) = database().await;
        let store = Options::new(&url).timeout(Duration::from_millis(600)).open().await.expect("a store");
        let bed = Bed::new(Arc::new(store));
        let job = bed.enqueue(bed.job("work"), None).await.id;
        let list = || List { filter: Filter::default(), cursor: None, limit: 10 };
        let locker = hand(&url).await;
        locker.batch_execute("BEGIN; LOCK TABLE windlass.jobs").await.expect("a lock");
        let listed = soon("a list", bed.store.jobs(list(), None)).await;
        let told = listed.expect_err("the table is locked").to_string();
        assert!(told.contains("stayed locked too long"), "{told}");
        locker.batch_execute("COMMIT").await.expect("no lock");
        let listed = bed.store.jobs(list(), None).await.expect("a list").expect("a page");
        assert_eq!(listed.items.iter().map(|l| l.job.id).collect::<Vec<_>>(), [job]);
    });
}

/// (leases): connections that are ended one by one, all the time, cost nobody but their own call.
#[test]
fn terminated_backends_lose_nothing() {
    wait_for(async {
        let (url, _database) = database().await;
        let (store, bed) = open(&url).await;
        let load = Load::new(bed, 600);
        let (axe, tally) = (hand(&url).await, Arc::clone(&load.tally));
        let mut ended = 0;
        load.run(async {
            loop {
                let settled = tally.settled.load(Ordering::Relaxed);
                let one = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                    WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1";
                ended += axe.execute(one, &[]).await.expect("an end");
                let go_on = async || tally.settled.load(Ordering::Relaxed) > settled;
                until("some more of the load is done", go_on).await;
            }
        })
        .await;
        assert!(ended >= 20, "{ended} connections were ended: {tally:?}");
        until("notifications arrive again", async || store.listening()).await;
        load.check(&axe).await;
    });
}

/// (leases): whoever loses the answer to a commit is told exactly that, never that nothing happened; and the very
/// same request again is answered as the first would have been.
#[test]
fn an_answer_lost_after_the_commit_is_told_as_lost() {
    wait_for(async {
        let cluster = Cluster::start_on_port(&["fsync=off"]);
        let proxy = Proxy::before(cluster.port()).await;
        let (store, bed) = open(&proxy.url()).await;
        let load = Load::new(bed, 600);
        proxy.tricks.cut_every.store(9, Ordering::Relaxed);
        load.run(std::future::pending()).await;
        proxy.tricks.cut_every.store(0, Ordering::Relaxed);
        let (cuts, tally) = (proxy.tricks.cuts.load(Ordering::Relaxed), &load.tally);
        assert!(cuts >= 50, "{cuts} answers were lost: {tally:?}");
        let lost = tally.indeterminate.load(Ordering::Relaxed);
        // A batch that was cut is told to everybody in it.
        assert!(lost >= cuts, "each was told to somebody: {cuts} cuts, {tally:?}");
        assert_eq!(
            tally.unavailable.load(Ordering::Relaxed),
            0,
            "nobody was told that nothing happened: {tally:?}"
        );
        load.check(&hand(&cluster.url()).await).await;
        drop((load, store));
    });
}

/// (leases): callers that give up at any moment leave nothing half done and nobody waiting.
#[test]
fn dropped_calls_leave_nothing_half_done() {
    wait_for(async {
        let (url, _database) = database().await;
        let (_store, bed) = open(&url).await;
        let mut load = Load::new(bed, 600);
        load.drop_percent = 40;
        load.run(std::future::pending()).await;
        let dropped = load.tally.dropped.load(Ordering::Relaxed);
        assert!(dropped >= 50, "{dropped} calls were given up: {:?}", load.tally);
        load.check(&hand(&url).await).await;
    });
}

/// T11: a job whose first event is gone fails and says so; it neither stops the line nor comes round again.
#[test]
fn a_job_that_lost_its_payload_fails_and_its_neighbours_run() {
    wait_for(async {
        let (url, _database) = database().await;
        let (_store, bed) = open(&url).await;
        let ids = [bed.a_job(at(0)).await, bed.a_job(at(0)).await, bed.a_job(at(0)).await];
        let alone = bed.enqueue(bed.job_in("work", "other"), at(0)).await.id;
        let hand = hand(&url).await;
        for id in [ids[1], alone] {
            let sql = format!(
                "DROP TRIGGER IF EXISTS job_events_kept ON windlass.job_events;
                 DELETE FROM windlass.job_events WHERE job_id = '{}' AND version = 1",
                id.as_uuid()
            );
            hand.batch_execute(&sql).await.expect("a hand that means it");
        }
        let claimed = bed.claims("w", 10, at(1)).await;
        assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [ids[0], ids[2]], "many at once");
        assert!(bed.claims_by_id("w", alone, at(1)).await.is_err(), "by id");
        for id in [ids[1], alone] {
            let sql = "SELECT status || ' ' || error_code FROM windlass.jobs WHERE id = $1";
            let stands: String = hand.query_one(sql, &[id.as_uuid()]).await.expect("a row").get(0);
            assert_eq!(stands, "failed payload_missing");
        }
        assert!(bed.claims_from("w2", &["default", "other"], 10, at(2)).await.is_empty());
    });
}
