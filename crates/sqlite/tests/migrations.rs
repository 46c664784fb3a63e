//! How a file becomes a store: once, whoever comes first; never backwards; by hand too.

mod place;

use place::{Place, wait_for};
use rusqlite::Connection;
use std::path::Path;
use windlass_conformance::{Bed, at, invariants};
use windlass_sqlite::{OpenError, Options, migrations_as_sql};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql");

/// Everything in the schema, as SQLite keeps it.
fn schema(conn: &Connection) -> String {
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL
               ORDER BY CASE type WHEN 'table' THEN 1 WHEN 'index' THEN 2 ELSE 3 END, tbl_name, name";
    let mut statement = conn.prepare(sql).expect("a statement");
    let parts = statement.query_map((), |r| r.get::<_, String>(0)).expect("the schema");
    parts.map(|part| part.expect("a part") + ";\n").collect::<Vec<_>>().join("\n")
}

/// What is on record of migrations.
fn ledger(conn: &Connection) -> Vec<(i64, String, String, i64)> {
    let sql = "SELECT id, name, checksum, applied_at FROM windlass_migrations ORDER BY id";
    let mut statement = conn.prepare(sql).expect("a statement");
    let rows = statement.query_map((), |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)));
    rows.expect("a ledger").map(|r| r.expect("a row")).collect()
}

fn one<T: rusqlite::types::FromSql>(conn: &Connection, sql: &str) -> T {
    conn.query_row(sql, (), |r| r.get(0)).expect("a value")
}

/// Opens and closes the store, so that everything is in the one file.
fn made(place: &Place) {
    drop(place.open());
    let left = std::fs::read_dir(place.folder()).expect("a folder").count();
    assert_eq!(left, 1, "a closed store is one file");
}

/// T11: a new file gets the schema and a record of each migration: id, name, checksum, time.
#[test]
fn a_new_file_is_migrated_and_says_so() {
    let place = Place::new();
    made(&place);
    let ledger = ledger(&place.hand());
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).expect("migrations");
    let mut names: Vec<String> = files
        .map(|f| f.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(ledger.iter().map(|m| m.1.clone()).collect::<Vec<_>>(), names);
    for (n, (id, name, checksum, at)) in (1..).zip(&ledger) {
        assert_eq!(*id, n, "ids count from 1: {name}");
        assert!(name.starts_with(&format!("{n:04}_")), "a name begins with its id: {name}");
        assert_eq!(checksum.len(), 64, "a SHA-256: {checksum}");
        assert!(*at > 1_700_000_000_000_000, "when: {at}");
    }
    let mode: String = one(&place.hand(), "PRAGMA journal_mode");
    assert_eq!(mode, "wal");
}

/// T11: opening again applies nothing and changes nothing.
#[test]
fn opening_again_changes_nothing() {
    let place = Place::new();
    made(&place);
    let before = std::fs::read(&place.path).expect("the file");
    made(&place);
    made(&place);
    assert!(std::fs::read(&place.path).expect("the file") == before, "the file is the same to the byte");
}

/// T11: run by hand as plain SQL, the migrations make the same schema and record, and opening applies nothing.
#[test]
fn migrations_run_by_hand_make_the_same_store() {
    let (opened, by_hand) = (Place::new(), Place::new());
    made(&opened);
    let hand = by_hand.hand();
    hand.execute_batch(&migrations_as_sql()).expect("plain SQL");
    assert_eq!(schema(&hand), schema(&opened.hand()));
    let recorded = ledger(&hand);
    let known = |l: &[(i64, String, String, i64)]| -> Vec<_> {
        l.iter().map(|m| (m.0, m.1.clone(), m.2.clone())).collect()
    };
    assert_eq!(known(&recorded), known(&ledger(&opened.hand())));
    let guard: String = one(&hand, "SELECT guard FROM windlass_store");
    assert_eq!(guard, one::<String>(&opened.hand(), "SELECT guard FROM windlass_store"));
    let version: i64 = one(&hand, "PRAGMA schema_version");
    drop(hand);
    wait_for(async {
        let bed = by_hand.bed();
        bed.a_held_job("w", at(0)).await;
        invariants::check(&bed).await;
    });
    assert_eq!(ledger(&by_hand.hand()), recorded, "opening applied nothing");
    assert_eq!(one::<i64>(&by_hand.hand(), "PRAGMA schema_version"), version, "nor re-created the guard");
}

/// T11: run by hand on a store that is there, the SQL stops at its first statement and harms nothing.
#[test]
fn migrations_run_twice_by_hand_harm_nothing() {
    let place = Place::new();
    made(&place);
    let before = schema(&place.hand());
    let said = place.hand().execute_batch(&migrations_as_sql()).expect_err("the tables are there");
    assert!(said.to_string().contains("already exists"), "{said}");
    assert_eq!(schema(&place.hand()), before);
    assert_eq!(ledger(&place.hand()).len(), 1);
}

/// T11: a schema from the future is refused with both numbers, and the file stays as it is, to the byte, whatever
/// journal it was left with.
#[test]
fn a_newer_schema_is_refused_and_never_rewritten() {
    for journal in ["wal", "delete"] {
        let place = Place::new();
        made(&place);
        let hand = place.hand();
        hand.pragma_update(None, "journal_mode", journal).expect("a journal");
        hand.execute("INSERT INTO windlass_migrations VALUES (9, '0009_of_tomorrow', 'x', 1)", ())
            .expect("a row");
        hand.execute("UPDATE windlass_store SET guard = 'of tomorrow'", ()).expect("a row");
        drop(hand);
        let before = std::fs::read(&place.path).expect("the file");
        for create in [true, false] {
            let said = Options::new(&place.path).create(create).open().expect_err("refused");
            assert!(matches!(said, OpenError::NewerSchema { found: 9, known: 1 }), "{said:?}");
            let said = said.to_string();
            assert!(said.contains("migration 9") && said.contains("upgrade windlass"), "{said}");
        }
        assert!(std::fs::read(&place.path).expect("the file") == before, "{journal}: the file is the same");
    }
}

/// T11: a migration that was applied with another text is refused by name.
#[test]
fn a_changed_migration_is_refused() {
    let place = Place::new();
    made(&place);
    place.hand().execute("UPDATE windlass_migrations SET checksum = 'another'", ()).expect("a row");
    let before = std::fs::read(&place.path).expect("the file");
    let said = place.try_open().expect_err("refused");
    assert!(matches!(&said, OpenError::ChangedMigration(name) if name == "0001_create_jobs"), "{said:?}");
    assert!(said.to_string().contains("0001_create_jobs"), "{said}");
    assert!(std::fs::read(&place.path).expect("the file") == before, "the file is the same");
}

/// M1, T11: a guard with another text is replaced by ours, and the jobs stay.
#[test]
fn an_old_guard_is_replaced() {
    let place = Place::new();
    let job = wait_for(async { place.bed().a_job(at(0)).await });
    let before = schema(&place.hand());
    let hand = place.hand();
    hand.execute_batch(
        "DROP TRIGGER jobs_kept; DROP TRIGGER jobs_by_hand; DROP TRIGGER job_events_immutable;
         CREATE TRIGGER job_events_immutable BEFORE UPDATE ON job_events BEGIN SELECT 1; END;
         UPDATE windlass_store SET guard = 'old'",
    )
    .expect("an old guard");
    drop(hand);
    made(&place);
    assert_eq!(schema(&place.hand()), before);
    let said = place.hand().execute("DELETE FROM jobs", ()).expect_err("the guard is back");
    assert!(said.to_string().contains("never deleted by hand"), "{said}");
    wait_for(async { assert_eq!(place.bed().row(job).await.version, 1) });
}

/// T11: the schema on record is the sum of the migrations and the guard. `BLESS=1` rewrites it.
#[test]
fn the_schema_on_record_is_the_sum_of_the_migrations() {
    let place = Place::new();
    made(&place);
    let made = format!(
        "-- The whole schema, as a fresh store has it. Made by the tests: `make bless` rewrites it.\n\n{}",
        schema(&place.hand())
    );
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(SCHEMA, &made).expect("the dump is writable");
    }
    let written = std::fs::read_to_string(SCHEMA).unwrap_or_default();
    assert!(written == made, "schema.sql is not what the migrations make; run `make bless`");
}

/// T11: who only reads creates nothing: no folder, no file, no table.
#[test]
fn a_reader_creates_nothing() {
    let place = Place::new();
    let open = |path: &Path| Options::new(path).create(false).open().expect_err("nothing is there");
    for path in [place.path.clone(), place.folder().join("deep/er/windlass.db")] {
        let said = open(&path);
        assert!(matches!(said, OpenError::NoStore(_)), "{said:?}");
        assert!(said.to_string().contains(&*path.to_string_lossy()), "{said}");
    }
    assert_eq!(std::fs::read_dir(place.folder()).expect("a folder").count(), 0, "nothing was created");
    std::fs::write(&place.path, b"").expect("an empty file");
    assert!(matches!(open(&place.path), OpenError::NoStore(_)));
    assert_eq!(std::fs::metadata(&place.path).expect("the file").len(), 0, "an empty file stays empty");
    place.hand().execute_batch("CREATE TABLE another (thing)").expect("another program's file");
    let before = std::fs::read(&place.path).expect("the file");
    assert!(matches!(open(&place.path), OpenError::NoStore(_)));
    assert!(std::fs::read(&place.path).expect("the file") == before, "another program's file stays as it is");
    std::fs::remove_file(&place.path).expect("removed");
    made(&place);
    drop(Options::new(&place.path).create(false).open().expect("a store is there"));
}

/// T11: a missing folder is made.
#[test]
fn a_missing_folder_is_made() {
    let place = Place::new();
    let path = place.folder().join("deep/er/windlass.db");
    drop(Options::new(&path).open().expect("a store"));
    assert!(path.is_file());
}

/// T11: what cannot be a store is named, with what to do about it.
#[test]
fn what_is_no_store_is_named() {
    let place = Place::new();
    let text = place.folder().join("notes.txt");
    std::fs::write(
        &text,
        "not a database, just a long enough text to be read as a header, and some more of it",
    )
    .expect("a file");
    let under_a_file = text.join("windlass.db");
    let cases = [
        (place.folder(), "cannot be opened"),
        (&text, "not a Windlass store"),
        (&under_a_file, "its folder"),
    ];
    for (path, said) in cases {
        for create in [true, false] {
            if !create && !path.exists() {
                continue;
            }
            let error = Options::new(path).create(create).open().expect_err("no store");
            assert!(matches!(error, OpenError::Failed { .. }), "{error:?}");
            let error = error.to_string();
            assert!(error.contains(said) && error.contains(&*path.to_string_lossy()), "{error}");
        }
    }
    let kept = std::fs::read_to_string(&text).expect("the file");
    assert!(kept.starts_with("not a database"), "it was not touched");
}

/// T11: many threads that open one new file at once all succeed, and migrate it once.
#[test]
fn a_new_file_can_be_opened_many_times_at_once() {
    for _ in 0..5 {
        let place = Place::new();
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    let store = place.open();
                    wait_for(async { Bed::new(store).enqueue_all(vec![], None).await });
                });
            }
        });
        assert_eq!(ledger(&place.hand()).len(), 1);
    }
}
