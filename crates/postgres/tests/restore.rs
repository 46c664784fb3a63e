//! The feed and the store's incarnation on real servers: dumped and restored, killed, promoted, changed while they run.

mod support;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::cluster::{Cluster, binaries};
use support::{database, hand, until, wait_for};
use windlass_conformance::{Bed, completes, note};
use windlass_core::{FeedCursor, Filter, JobId, Refusal, Version};
use windlass_postgres::{Options, PostgresStore};
use windlass_store::{Feed, FeedEvent, FeedPage, Jobs, List, ReadFeed, StoreResult};

async fn open(url: &str) -> (Arc<PostgresStore>, Bed) {
    let store = Arc::new(Options::new(url).pool(8).feed_steps(10, 20).open().await.expect("a store"));
    (Arc::clone(&store), Bed::new(store))
}

async fn read(store: &PostgresStore, after: Option<FeedCursor>) -> StoreResult<Result<FeedPage, Refusal>> {
    store.feed(ReadFeed { after, limit: 100, payloads: true }, None).await
}

/// Everything after a cursor.
async fn rest(store: &PostgresStore, mut after: Option<FeedCursor>) -> Vec<FeedEvent> {
    let mut all = Vec::new();
    loop {
        let page = read(store, after).await.expect("the store answers").expect("a page");
        if page.events.is_empty() {
            return all;
        }
        after = Some(page.next);
        all.extend(page.events);
    }
}

fn is_expired(answer: &Result<FeedPage, Refusal>) {
    assert!(matches!(answer, Err(Refusal::CursorExpired(_))), "{answer:?}");
}

async fn some_life(bed: &Bed, jobs: usize) {
    for _ in 0..jobs {
        let held = bed.holds("w", bed.job("life"), None).await;
        bed.appends(note(held.job.id, "noted"), None).await.expect("a note is taken");
        bed.settles(&held, completes(), None).await.expect("the holder may complete");
    }
}

/// J9: after `pg_dump` and `pg_restore` into another cluster old cursors are refused, the store is in a new incarnation, and
/// a new reader sees everything once, although the ids of transactions on record are another server's.
#[test]
fn a_restored_dump_is_another_incarnation() {
    wait_for(async {
        let old = Cluster::start(&[]);
        let (store, bed) = open(&old.url()).await;
        // Ids that the new server will not reach soon.
        hand(&old.url())
            .await
            .batch_execute(
                "DO $$ BEGIN FOR n IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
            )
            .await
            .expect("ids");
        some_life(&bed, 5).await;
        let first = bed.holds("w", bed.job("fenced"), None).await;
        let head = store.feed_head((), None).await.expect("the store answers");
        let told = rest(&store, None).await;
        let dump = old.folder().join("windlass.dump");
        let run = |program: &str, args: &[&str]| {
            let done = Command::new(binaries().join(program)).args(args).output().expect("it runs");
            assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
        };
        let file = format!("--file={}", dump.display());
        run("pg_dump", &["--schema=windlass", "--format=custom", &file, "--dbname", &old.url()]);
        let new = Cluster::start(&[]);
        run("pg_restore", &["--exit-on-error", "--dbname", &new.url(), &dump.display().to_string()]);
        let (restored, bed) = open(&new.url()).await;
        // Ids that the dump does not hold.
        for _ in 0..100 {
            let _ = bed.id();
        }
        for cursor in told.iter().map(|fed| fed.cursor.clone()).chain([head.clone()]) {
            is_expired(&read(&restored, Some(cursor)).await.expect("the store answers"));
        }
        let now = restored.feed_head((), None).await.expect("the store answers");
        assert_eq!(now.life.incarnation, head.life.incarnation + 1);
        let again = rest(&restored, None).await;
        assert_eq!(again.len(), told.len(), "everything is there, once");
        let second = bed.holds("w", bed.job("fenced"), None).await;
        assert!(second.lease.fence > first.lease.fence.max(i64::from(i32::MAX)));
        some_life(&bed, 5).await;
        assert_eq!(rest(&restored, Some(now)).await.len(), 22, "what came since, once");
        assert_eq!(rest(&restored, None).await.len(), told.len() + 22);
        drop((store, restored, bed));
    });
}

/// Follows the feed through whatever the server does; false when the cursor was refused.
async fn follows(store: Arc<PostgresStore>, stop: Arc<AtomicBool>) -> (Vec<(JobId, Version)>, bool) {
    let (mut seen, mut after) = (Vec::new(), None);
    let mut idle = 0;
    while idle < 5 {
        match read(&store, after.clone()).await {
            Ok(Ok(page)) => {
                seen.extend(page.events.iter().map(|fed| (fed.event.job, fed.event.version)));
                idle = if stop.load(Ordering::Relaxed) && page.events.is_empty() { idle + 1 } else { 0 };
                after = Some(page.next);
            }
            Ok(Err(_)) => return (seen, false),
            Err(_) => idle = 0,
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (seen, true)
}

/// J9: a server that is killed under load, eight times, forgets the ids of transactions that did not commit and gives them
/// again; a reader that follows misses and repeats nothing.
#[test]
fn a_killed_server_hides_nothing_from_a_reader() {
    wait_for(async {
        let mut cluster = Cluster::start(&[]);
        let (store, _) = open(&cluster.url()).await;
        let stop = Arc::new(AtomicBool::new(false));
        let reader = follows(Arc::clone(&store), Arc::clone(&stop));
        let url = cluster.url();
        let writers = (0..4).map(|n| {
            let (url, stop) = (url.clone(), Arc::clone(&stop));
            async move {
                let (store, bed) = open(&url).await;
                while !stop.load(Ordering::Relaxed) {
                    let job =
                        windlass_core::NewJob { id: windlass_store::fresh::job_id(), ..bed.job("work") };
                    let request = windlass_store::Enqueue {
                        jobs: vec![job],
                        actor: windlass_core::Actor::api(),
                        idempotency: None,
                    };
                    let _lost = store.enqueue(request, None).await;
                    // Transactions with an id that never commit, whose ids a crash forgets.
                    if n == 0
                        && let Ok((client, connection)) =
                            tokio_postgres::connect(&url, tokio_postgres::NoTls).await
                    {
                        let abort = async {
                            let _ =
                                client.batch_execute("BEGIN; SELECT pg_current_xact_id(); ROLLBACK").await;
                            drop(client);
                        };
                        let _ = tokio::join!(abort, connection);
                    }
                }
            }
        });
        let killer = async {
            for _ in 0..8 {
                tokio::time::sleep(Duration::from_millis(700)).await;
                cluster.kill();
                cluster.restart();
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            stop.store(true, Ordering::Relaxed);
        };
        let ((seen, followed), _, ()) = tokio::join!(reader, futures_util::future::join_all(writers), killer);
        assert!(followed, "the cursor holds through crashes");
        let mut count: BTreeMap<(JobId, Version), usize> = BTreeMap::new();
        seen.iter().for_each(|event| *count.entry(*event).or_default() += 1);
        assert!(count.values().all(|n| *n == 1), "nothing is repeated");
        let whole = rest(&store, None).await;
        let missed =
            whole.iter().filter(|fed| !count.contains_key(&(fed.event.job, fed.event.version))).count();
        assert_eq!(
            (missed, count.len()),
            (0, whole.len()),
            "nothing is missed, and nothing was told that is not there"
        );
        assert!(whole.len() > 100, "there was a load: {}", whole.len());
        drop(store);
    });
}

/// Where two servers are, of which one is the primary.
fn either(one: &Cluster, other: &Cluster) -> String {
    let host = |cluster: &Cluster| cluster.folder().display().to_string().replace('/', "%2F");
    format!("postgres://windlass@{},{}/postgres?target_session_attrs=read-write", host(one), host(other))
}

async fn is_so(hand: &tokio_postgres::Client, sql: &str) -> bool {
    hand.query_one(sql, &[]).await.expect("an answer").get(0)
}

/// A failover to a standby that had everything: nothing that was acknowledged is lost, also what was written until the
/// primary died. And to one that was behind: what it did not get is lost. In both cases the store begins a new incarnation
/// before it hands anything out, no cursor of before is taken, whoever begins anew sees everything once, and every fence is
/// higher than all of before.
async fn fails_over(is_behind: bool) {
    let mut primary = Cluster::start(&[]);
    let standby = primary.standby("second");
    let (first, second) = (hand(&primary.url()).await, hand(&standby.url()).await);
    let follows = "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'";
    until("the standby follows", async || is_so(&first, follows).await).await;
    if !is_behind {
        let sync = "ALTER SYSTEM SET synchronous_standby_names = 'second'";
        first.batch_execute(sync).await.expect("a setting");
        first.batch_execute("SELECT pg_reload_conf()").await.expect("a setting");
        let synced = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
        until("commits wait for the standby", async || is_so(&first, synced).await).await;
    }
    let (store, bed) = open(&either(&primary, &standby)).await;
    some_life(&bed, 5).await;
    let mut fences = vec![bed.holds("w", bed.job("fenced"), None).await.lease.fence];
    let head = store.feed_head((), None).await.expect("the store answers");
    let kept = rest(&store, None).await;
    let mut cursors: Vec<FeedCursor> =
        kept.iter().map(|fed| fed.cursor.clone()).chain([head.clone()]).collect();
    if is_behind {
        let at: String =
            first.query_one("SELECT pg_current_wal_lsn()::text", &[]).await.expect("a place").get(0);
        let there = format!("SELECT pg_last_wal_replay_lsn() >= '{at}'::pg_lsn");
        until("the standby has this much", async || is_so(&second, &there).await).await;
        second.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.expect("a setting");
        second.batch_execute("SELECT pg_reload_conf()").await.expect("a setting");
        let cut = "SELECT count(*) = 0 FROM pg_stat_wal_receiver";
        until("the standby gets no more", async || is_so(&second, cut).await).await;
        some_life(&bed, 3).await;
        fences.push(bed.holds("w", bed.job("lost"), None).await.lease.fence);
        cursors.extend(rest(&store, Some(head.clone())).await.into_iter().map(|fed| fed.cursor));
    }
    // Writers until the primary dies.
    let (stop, acknowledged) = (AtomicBool::new(false), std::sync::Mutex::new(Vec::new()));
    let writer = async {
        while !stop.load(Ordering::Relaxed) {
            let job = windlass_core::NewJob { id: windlass_store::fresh::job_id(), ..bed.job("work") };
            let id = job.id;
            let actor = windlass_core::Actor::api();
            let request = windlass_store::Enqueue { jobs: vec![job], actor, idempotency: None };
            if store.enqueue(request, None).await.is_ok() {
                acknowledged.lock().expect("unpoisoned").push(id);
            }
        }
    };
    let failover = async {
        until("something is written", async || acknowledged.lock().expect("unpoisoned").len() >= 20).await;
        primary.kill();
        stop.store(true, Ordering::Relaxed);
        second.batch_execute("SELECT pg_promote()").await.expect("the standby takes over");
    };
    tokio::join!(writer, failover);
    until("the store has found the new primary", async || store.feed_head((), None).await.is_ok()).await;
    let now = store.feed_head((), None).await.expect("the store answers");
    assert_eq!(now.life.incarnation, head.life.incarnation + 1);
    for cursor in cursors {
        is_expired(&read(&store, Some(cursor)).await.expect("the store answers"));
    }
    let again = rest(&store, None).await;
    let mut seen: Vec<(JobId, Version)> =
        again.iter().map(|fed| (fed.event.job, fed.event.version)).collect();
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count, "nothing twice");
    assert!(kept.iter().all(|fed| seen.contains(&(fed.event.job, fed.event.version))), "nothing is gone");
    let acknowledged = acknowledged.into_inner().expect("unpoisoned");
    let lost = acknowledged.iter().filter(|id| !seen.contains(&(**id, 1))).count();
    assert_eq!(lost, if is_behind { acknowledged.len() } else { 0 });
    for held in bed.claims("w", 1_000, None).await {
        assert!(
            fences.iter().all(|fence| held.lease.fence > *fence),
            "{} after {fences:?}",
            held.lease.fence
        );
    }
    fences.push(bed.holds("w", bed.job("fenced"), None).await.lease.fence);
    assert!(fences.iter().max() == fences.last(), "{fences:?}");
    some_life(&bed, 2).await;
    assert!(rest(&store, Some(now)).await.len() >= 8, "the new cursor goes on");
    drop((store, bed, first, second));
    drop((primary, standby));
}

/// J9, J7
#[test]
fn a_failover_loses_nothing_where_commits_waited_for_the_standby() {
    wait_for(fails_over(false));
}

/// J9, J7
#[test]
fn a_failover_that_lost_commits_is_noticed() {
    wait_for(fails_over(true));
}

/// J9: a column that a newer version adds breaks nobody who reads.
#[test]
fn an_added_column_breaks_no_running_reader() {
    wait_for(async {
        let (url, _database) = database().await;
        let (store, bed) = open(&url).await;
        some_life(&bed, 2).await;
        let head = store.feed_head((), None).await.expect("the store answers");
        let newer = "ALTER TABLE windlass.job_events ADD COLUMN tomorrow text; ALTER TABLE windlass.jobs ADD COLUMN tomorrow text; \
             ALTER TABLE windlass.store ADD COLUMN tomorrow text";
        hand(&url).await.batch_execute(newer).await.expect("columns");
        some_life(&bed, 2).await;
        assert_eq!(rest(&store, Some(head)).await.len(), 8);
        assert_eq!(rest(&store, None).await.len(), 16);
        let jobs = store.jobs(List { filter: Filter::default(), cursor: None, limit: 10 }, None).await;
        assert_eq!(jobs.expect("the store answers").expect("a page").items.len(), 4);
    });
}

/// J9: a transaction that was open when the cursor was made neither stalls the feed nor makes its pages read more; what it
/// wrote comes when it has ended, once.
#[test]
fn an_open_transaction_neither_stalls_nor_slows_the_feed() {
    wait_for(async {
        let (url, _database) = database().await;
        let (store, bed) = open(&url).await;
        let slow = hand(&url).await;
        slow.batch_execute("BEGIN; SELECT windlass.enqueue('late')").await.expect("an open transaction");
        let mut after = store.feed_head((), None).await.expect("the store answers");
        let watch = hand(&url).await;
        let mut most = 0i64;
        for _ in 0..20 {
            bed.enqueue_all((0..50).map(|_| bed.job("work")).collect(), None).await;
            let before = reads(&watch).await;
            let page = read(&store, Some(after)).await.expect("the store answers").expect("a page");
            assert_eq!(page.events.len(), 50, "no stall");
            after = page.next;
            assert!(after.to_text().len() < 2_000);
            most = most.max(reads(&watch).await - before);
        }
        slow.batch_execute("COMMIT").await.expect("the end");
        let late = rest(&store, Some(after)).await;
        assert_eq!(late.iter().map(|fed| fed.kind.as_str()).collect::<Vec<_>>(), ["late"]);
        // Of a thousand events each page reads its own fifty, the fifty of before as far as they are not marked, and little more.
        assert!(most < 400, "a page read {most} entries");
    });
}

/// How many entries of the log's index of numbers were read so far.
async fn reads(watch: &tokio_postgres::Client) -> i64 {
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let sql = "SELECT idx_tup_read FROM pg_stat_all_indexes WHERE indexrelname = 'job_events_seq'";
    watch.query_one(sql, &[]).await.expect("statistics").get(0)
}
