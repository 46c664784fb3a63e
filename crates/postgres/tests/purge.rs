//! What a purge leaves in the database.

mod support;

use std::sync::Arc;
use support::{hand, wait_for};
use tokio_postgres::Client;
use windlass_conformance::{Bed, at, completes, key, name};
use windlass_core::unique::{Policy, Scope};
use windlass_core::{JobId, Unique};
use windlass_postgres::Options;
use windlass_store::{Purge, WriteLogs};

/// J3: in no table is anything left that names a removed job, but its unique key; whatever tables there are.
#[test]
fn nothing_names_a_removed_job_but_its_key_and_its_removal() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let bed = Bed::new(Arc::new(Options::new(&url).pool(4).open().await.expect("a store")));
        let hand = hand(&url).await;
        let mut job = bed.job("work");
        job.facts.tags = vec![name("x"), name("y")];
        job.facts.unique =
            Some(Unique { scope: Scope::Kind(name("work")), key: key("k"), policy: Policy::Forever });
        let held = bed.holds("w", job, at(0)).await;
        let id = held.job.id;
        let (ask, _) = bed.question(&held, "gate");
        bed.asks(ask, at(0)).await;
        let lines = WriteLogs { job: id, token: held.lease.token, lines: vec!["one".into()] };
        bed.store.write_logs(lines, at(0)).await.expect("the store answers").expect("written");
        bed.settles(&held, completes(), at(1)).await.expect("completed");
        let before = tables_that_name(&hand, id).await;
        for table in ["jobs", "job_events", "job_logs", "job_keys", "approvals"] {
            assert!(before.contains(&table.to_owned()), "{table} names it before: {before:?}");
        }
        let version = bed.row(id).await.version;
        assert_eq!(
            bed.store.purge(Purge { jobs: vec![(id, version)], archive: None }, at(2)).await,
            Ok(vec![Ok(())])
        );
        assert_eq!(tables_that_name(&hand, id).await, ["job_keys", "removals"]);
    });
}

/// Every table with a row whose text has the id in it. A hold names the jobs of its claim until its lease would be over,
/// whatever became of them; it points and decides nothing.
async fn tables_that_name(hand: &Client, id: JobId) -> Vec<String> {
    let sql = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'windlass' AND c.relkind IN ('r', 'p') AND c.relname <> 'holds' ORDER BY 1";
    let tables = hand.query(sql, &[]).await.expect("the tables");
    let mut found = Vec::new();
    for table in tables.iter().map(|row| row.get::<_, String>(0)) {
        let sql = format!("SELECT count(*) FROM windlass.{table} t WHERE t::text LIKE '%' || $1 || '%'");
        let named: i64 = hand.query_one(&sql, &[&id.to_string()]).await.expect("a count").get(0);
        if named > 0 {
            found.push(table);
        }
    }
    found
}
