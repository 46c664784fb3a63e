//! What a purge leaves in the file.

mod place;

use place::{Place, wait_for};
use windlass_conformance::{at, completes, key, name};
use windlass_core::unique::{Policy, Scope};
use windlass_core::{JobId, Unique};
use windlass_store::{Purge, WriteLogs};

/// J3: in no table is anything left that names a removed job, but its unique key; whatever tables there are.
#[test]
fn nothing_names_a_removed_job_but_its_key_and_its_removal() {
    wait_for(async {
        let place = Place::new();
        let bed = place.bed();
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
        let before = tables_that_name(&place, id);
        for table in ["jobs", "job_events", "job_tags", "job_logs", "job_keys", "approvals"] {
            assert!(before.contains(&table.to_owned()), "{table} names it before: {before:?}");
        }
        let version = bed.row(id).await.version;
        assert_eq!(
            bed.store.purge(Purge { jobs: vec![(id, version)], archive: None }, at(2)).await,
            Ok(vec![Ok(())])
        );
        assert_eq!(tables_that_name(&place, id), ["job_keys", "removals"]);
    });
}

/// Every table with a row that has the id in some column of bytes.
fn tables_that_name(place: &Place, id: JobId) -> Vec<String> {
    let hand = place.hand();
    let mut columns = hand
        .prepare(
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND c.type = 'BLOB' ORDER BY m.name",
        )
        .expect("a statement");
    let columns = columns.query_map([], |r| Ok((r.get(0)?, r.get(1)?))).expect("columns");
    let mut found: Vec<String> = Vec::new();
    for (table, column) in columns.map(|c: rusqlite::Result<(String, String)>| c.expect("a column")) {
        let sql = format!("SELECT count(*) FROM {table} WHERE {column} = ?1");
        let n: i64 = hand.query_row(&sql, [id.as_bytes()], |r| r.get(0)).expect("a count");
        if n > 0 && !found.contains(&table) {
            found.push(table);
        }
    }
    found
}
