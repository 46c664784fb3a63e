//! The line and the holds: derived tables that point at jobs. No verb leaves a job out of them, and what is broken there
//! by hand is found and mended. Every database of these tests is compared with its line when it is dropped.

mod support;

use std::sync::Arc;
use support::{database, hand, wait_for};
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
