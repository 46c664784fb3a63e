//! The feed and the store's incarnation on real servers: dumped and restored, killed, promoted, changed while they run.

mod support;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::cluster::{Cluster, binaries};
use support::{database, hand, wait_for};
use windlass_conformance::{Bed, completes, note};
use windlass_core::{FeedCursor, Filter, JobId, Refusal, Version};
use windlass_postgres::{Options, PostgresStore};
use windlass_store::{Feed, FeedEvent, FeedPage, Jobs, List, ReadFeed, StoreResult};

async fn open(url: &str) -> (Arc<PostgresStore>, Bed) {
    let store = Arc::new(Options::new(url).pool(8).open().await.expect("a store"));
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
