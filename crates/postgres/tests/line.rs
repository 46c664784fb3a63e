//! The line and the holds: derived tables that point at jobs. No verb leaves a job out of them, and what is broken there
//! by hand is found and mended. Every database of these tests is compared with its line when it is dropped.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{database, hand, soon, until, wait_for};
use windlass_conformance::{Bed, at, completes};
use windlass_postgres::Options;

async fn place() -> (Bed, Arc<windlass_postgres::PostgresStore>, tokio_postgres::Client, support::Database) {
    let (url, database) = database().await;
    let store = Arc::new(Options::new(&url).pool(8).open().await.expect("a store"));
    (Bed::new(Arc::clone(&store) as _), store, hand(&url).await, database)
}

/// M12, R13: a plain claim and a plain completion write no index entry of `jobs`: every update is heap-only.
#[test]
fn a_plain_life_is_heap_only() {
    wait_for(async {
        let (bed, _store, hand, _database) = place().await;
        for round in 0..10 {
            bed.enqueue_all((0..200).map(|_| bed.job("work")).collect(), at(round)).await;
            let held = bed.claims("w", 200, at(round)).await;
            assert_eq!(held.len(), 200);
            for held in &held {
                bed.settles(held, completes(), at(round)).await.expect("completed");
            }
        }
        hand.batch_execute("SELECT pg_stat_clear_snapshot()").await.expect("fresh numbers");
        let mut seen = (0i64, 0i64);
        support::until("the server counted every update", async || {
            hand.batch_execute("SELECT pg_stat_clear_snapshot()").await.expect("fresh numbers");
            let row = hand
                .query_one(
                    "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'windlass.jobs'::regclass",
                    &[],
                )
                .await
                .expect("numbers");
            seen = (row.get(0), row.get(1));
            seen.0 >= 4_000
        })
        .await;
        assert_eq!(seen.0, seen.1, "updates, and those of them that touched no index");
        let named = hand
            .query(
                "SELECT DISTINCT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
                 WHERE i.indrelid = 'windlass.jobs'::regclass AND a.attnum = ANY (i.indkey) ORDER BY 1",
                &[],
            )
            .await
            .expect("columns");
        let named: Vec<String> = named.iter().map(|r| r.get(0)).collect();
        assert_eq!(named, ["assigned_to", "dead", "dead_at", "deadline_at", "id", "parked"]);
    });
}

/// What a user broke in the derived tables is named, and mended from the rows of jobs; every job then runs once.
#[test]
fn a_broken_line_is_found_and_mended() {
    wait_for(async {
        let (bed, store, hand, _database) = place().await;
        bed.enqueue_all((0..20).map(|_| bed.job("work")).collect(), at(0)).await;
        let held = bed.claims("w", 5, at(0)).await;
        assert!(store.out_of_line(10).await.expect("an answer").is_empty());
        hand.batch_execute(
            "SET application_name = 'windlass test';
             DELETE FROM windlass.holds;
             DELETE FROM windlass.line WHERE id IN (SELECT id FROM windlass.line ORDER BY id LIMIT 7);
             INSERT INTO windlass.line SELECT queue, priority, due_at, id FROM windlass.line LIMIT 2;
             INSERT INTO windlass.line SELECT queue, priority, due_at + interval '1 hour', id FROM windlass.line LIMIT 1",
        )
        .await
        .expect("broken");
        assert!(store.out_of_line(100).await.expect("an answer").len() >= 14);
        assert!(store.mend_line().await.expect("mended") >= 14);
        assert_eq!(store.out_of_line(10).await.expect("an answer"), []);
        for held in &held {
            bed.settles(held, completes(), at(1)).await.expect("completed");
        }
        assert_eq!(bed.claims("w", 100, at(1)).await.len(), 15, "nothing is lost and nothing is there twice");
    });
}

/// A claim whose worker is gone: its jobs go back into line when their lease is over, those that were renewed do not.
#[test]
fn what_is_renewed_stays_held_beside_what_is_not() {
    wait_for(async {
        let (bed, _store, hand, _database) = place().await;
        bed.enqueue_all((0..10).map(|_| bed.job("work")).collect(), at(0)).await;
        let held = bed.claims("w", 10, at(0)).await;
        for held in &held[..4] {
            bed.extends(held, 60_000, at(20_000)).await.expect("renewed");
        }
        assert_eq!(bed.claims("v", 100, at(30_000)).await.len(), 6);
        let holds: i64 =
            hand.query_one("SELECT count(*) FROM windlass.holds", &[]).await.expect("a count").get(0);
        assert_eq!(holds, 2, "one per claim");
        assert_eq!(bed.claims("v", 100, at(80_000)).await.len(), 10);
    });
}

/// Q13: a claim that had to wait for four seconds does not make the next ones blind: a job that somebody enqueues to be due
/// an hour ago, before all that was claimed, is seen by a look at the head of the line, of which there is one a second.
#[test]
#[expect(clippy::disallowed_methods, reason = "it measures how long a job stays unseen")]
fn a_stall_hides_no_job() {
    wait_for(async {
        let (bed, _store, hand, _database) = place().await;
        bed.enqueue_all((0..3).map(|_| bed.job("work")).collect(), None).await;
        hand.batch_execute("BEGIN; LOCK TABLE windlass.line").await.expect("a stall");
        let stalled = bed.claims("w", 1, None);
        let release = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            hand.batch_execute("COMMIT").await.expect("the end of the stall");
        };
        let (claimed, ()) = tokio::join!(stalled, release);
        assert_eq!(claimed.len(), 1, "it waited");
        let sql = "SELECT windlass.enqueue('work', run_at => clock_timestamp() - interval '1 hour')";
        let overdue: uuid::Uuid = hand.query_one(sql, &[]).await.expect("a job").get(0);
        let begun = Instant::now();
        let mut seen = Vec::new();
        until("the overdue job is claimed", async || {
            seen.extend(bed.claims("w", 1, None).await);
            seen.iter().any(|held| *held.job.id.as_uuid() == overdue)
        })
        .await;
        assert!(begun.elapsed() < Duration::from_secs(20), "not before {:?}", begun.elapsed());
    });
}

/// Q13: an enqueue that commits a little late, behind jobs that were enqueued after it and claimed before, is seen by the
/// very next claim.
#[test]
#[expect(clippy::disallowed_methods, reason = "it measures how late the commit was")]
fn a_late_commit_is_seen_at_the_next_claim() {
    wait_for(async {
        let (bed, _store, hand, _database) = place().await;
        let mut late = 0;
        for round in 0..60 {
            let begun = Instant::now();
            hand.batch_execute("BEGIN").await.expect("a transaction");
            let sql = "SELECT windlass.enqueue('work')";
            let slow: uuid::Uuid = hand.query_one(sql, &[]).await.expect("a job").get(0);
            let fast = bed.a_job(None).await;
            let claimed = bed.claims("w", 10, None).await;
            assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [fast], "round {round}");
            tokio::time::sleep(Duration::from_millis(50)).await;
            hand.batch_execute("COMMIT").await.expect("a late commit");
            let claimed = soon("an answer", bed.claims("w", 10, None)).await;
            // What took longer on a busy machine is seen by the next look at the head of the line.
            if begun.elapsed() < Duration::from_millis(400) {
                assert_eq!(
                    claimed.iter().map(|c| *c.job.id.as_uuid()).collect::<Vec<_>>(),
                    [slow],
                    "round {round}"
                );
                late += 1;
            }
            if claimed.is_empty() {
                until("it is seen", async || !bed.claims("w", 10, None).await.is_empty()).await;
            }
        }
        assert!(late >= 10, "only {late} commits were late by a little");
    });
}
