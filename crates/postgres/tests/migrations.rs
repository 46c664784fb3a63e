//! How a database becomes a store: once, whoever comes first; never backwards; by hand too.

mod support;

use std::sync::Arc;
use std::time::Duration;
use support::{empty_database, hand, wait_for};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_postgres::Client;
use windlass_conformance::{Bed, at, completes, invariants, key, name};
use windlass_core::Unique;
use windlass_postgres::{OpenError, Options, PostgresStore, migrations_as_sql};
use windlass_store::Purge;

/// Everything in a schema, as PostgreSQL describes it.
async fn schema(hand: &Client, schema: &str) -> Vec<String> {
    let sql = "
        SELECT 'column ' || c.table_name || '.' || c.column_name || ' ' || c.data_type || ' ' || c.is_nullable
          || coalesce(' ' || c.column_default, '') || coalesce(' ' || c.collation_name, '')
        FROM information_schema.columns c WHERE c.table_schema = $1
        UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = $1
        UNION ALL SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class r ON r.oid = t.tgrelid
          WHERE r.relnamespace = $1::text::regnamespace
        UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
          FROM pg_constraint WHERE connamespace = $1::text::regnamespace
        UNION ALL SELECT 'function ' || pg_get_functiondef(oid) || coalesce(proacl::text, '') FROM pg_proc
          WHERE pronamespace = $1::text::regnamespace
        UNION ALL SELECT 'view ' || viewname || definition FROM pg_views WHERE schemaname = $1
        ORDER BY 1";
    let rows = hand.query(sql, &[&schema]).await.expect("the schema");
    rows.iter().map(|r| r.get(0)).collect()
}

/// What is on record of migrations: id, name, checksum, when.
async fn ledger(hand: &Client) -> Vec<(i64, String, String, String)> {
    let sql = "SELECT id, name, checksum, applied_at::text FROM windlass.migrations ORDER BY id";
    let rows = hand.query(sql, &[]).await.expect("a ledger");
    rows.iter().map(|r| (r.get(0), r.get(1), r.get(2), r.get(3))).collect()
}

/// The guard in force: its parts with number and checksum.
async fn guard(hand: &Client) -> String {
    let sql =
        "SELECT string_agg(concat_ws(' ', part, number, checksum), ', ' ORDER BY part) FROM windlass.guard";
    hand.query_one(sql, &[]).await.expect("a guard").get(0)
}

/// Says that the guard in force is older than any.
const OLD_GUARD: &str = "UPDATE windlass.guard SET number = 0, checksum = 'old'";

async fn opened(url: &str) -> PostgresStore {
    PostgresStore::open(url).await.expect("a store")
}

/// A job from its beginning to its removal.
async fn whole_life(bed: &Bed) {
    let mut job = bed.job("work");
    job.facts.unique = Some(Unique::in_queue(name("default"), key(&job.id.to_string())));
    job.facts.tags = vec![name("a")];
    let held = bed.holds("w", job, None).await;
    let (ask, _) = bed.question(&held, "gate");
    bed.asks(ask, None).await;
    bed.settles(&held, completes(), None).await.expect("it completes");
    invariants::check(bed).await;
    let jobs = vec![(held.job.id, bed.row(held.job.id).await.version)];
    assert_eq!(bed.store.purge(Purge { jobs, archive: None }, None).await, Ok(vec![Ok(())]));
    bed.a_held_job("w", None).await;
    invariants::check(bed).await;
}

/// T11: a new database gets the schema and a record of each migration; opening again applies and changes nothing.
#[test]
fn migrations_run_once_and_say_so() {
    wait_for(async {
        let (url, _database) = empty_database().await;
        drop(opened(&url).await);
        let hand = hand(&url).await;
        let (before, recorded) = (schema(&hand, "windlass").await, ledger(&hand).await);
        let files =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).expect("migrations");
        let mut names: Vec<String> = files
            .map(|f| f.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(recorded.iter().map(|m| m.1.clone()).collect::<Vec<_>>(), names);
        for (n, (id, name, checksum, _)) in (1..).zip(&recorded) {
            assert_eq!(*id, n, "ids count from 1: {name}");
            assert!(name.starts_with(&format!("{n:04}_")), "a name begins with its id: {name}");
            assert_eq!(checksum.len(), 64, "a SHA-256: {checksum}");
        }
        let store = "SELECT xmin::text || ' ' || store_id FROM windlass.store";
        let written: String = hand.query_one(store, &[]).await.expect("a store").get(0);
        drop(opened(&url).await);
        drop(Options::new(&url).migrate(false).open().await.expect("a store"));
        assert_eq!((schema(&hand, "windlass").await, ledger(&hand).await), (before, recorded));
        assert_eq!(hand.query_one(store, &[]).await.expect("a store").get::<_, String>(0), written);
    });
}

/// T11: ten processes that open one new database at once all succeed, and migrate it once.
#[test]
fn a_new_database_can_be_opened_many_times_at_once() {
    wait_for(async {
        let (url, _database) = empty_database().await;
        let mut racers = JoinSet::new();
        for _ in 0..10 {
            let url = url.clone();
            racers.spawn(async move {
                let store = Options::new(&url).pool(1).open().await.expect("a store");
                Bed::new(Arc::new(store)).enqueue_all(vec![], None).await
            });
        }
        racers.join_all().await;
        assert_eq!(ledger(&hand(&url).await).await.len(), 1);
    });
}

/// T11: run by hand as plain SQL, the migrations make the same schema and record, and opening applies nothing.
#[test]
fn migrations_run_by_hand_make_the_same_store() {
    wait_for(async {
        let ((one, _first), (two, _second)) = (empty_database().await, empty_database().await);
        drop(opened(&one).await);
        let (one, by_hand) = (hand(&one).await, hand(&two).await);
        by_hand.batch_execute(&migrations_as_sql()).await.expect("plain SQL");
        let made = schema(&by_hand, "windlass").await;
        assert!(made.len() > 100, "{made:?}");
        assert_eq!(made, schema(&one, "windlass").await);
        let recorded = ledger(&by_hand).await;
        let known = |l: &[(i64, String, String, String)]| -> Vec<_> {
            l.iter().map(|m| (m.0, m.1.clone(), m.2.clone())).collect()
        };
        assert_eq!(known(&recorded), known(&ledger(&one).await));
        assert_eq!(guard(&by_hand).await, guard(&one).await);
        whole_life(&Bed::new(Arc::new(opened(&two).await))).await;
        assert_eq!(ledger(&by_hand).await, recorded, "opening applied nothing");
        let again = by_hand.batch_execute(&migrations_as_sql()).await.expect_err("the tables are there");
        assert!(support::said(&again).1.contains("already exists"), "{again}");
        by_hand.batch_execute("ROLLBACK").await.expect("nothing was done");
        assert_eq!(schema(&by_hand, "windlass").await, made);
    });
}

/// T11: a schema from the future is refused with both numbers and stays as it is.
#[test]
fn a_newer_schema_is_refused_and_never_rewritten() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let hand = hand(&url).await;
        hand.batch_execute(
            "INSERT INTO windlass.migrations VALUES (9, '0009_of_tomorrow', 'x', now());
             UPDATE windlass.guard SET checksum = 'of tomorrow'; DROP TRIGGER jobs_kept ON windlass.jobs",
        )
        .await
        .expect("rows");
        let (before, in_force) = (schema(&hand, "windlass").await, guard(&hand).await);
        for migrate in [true, false] {
            let said = Options::new(&url).migrate(migrate).open().await.expect_err("refused");
            assert!(matches!(said, OpenError::NewerSchema { found: 9, known: 1 }), "{said:?}");
            let said = said.to_string();
            assert!(said.contains("migration 9") && said.contains("upgrade windlass"), "{said}");
        }
        assert_eq!(schema(&hand, "windlass").await, before);
        assert_eq!(guard(&hand).await, in_force);
    });
}

/// T11: a migration that was applied with another text is refused by name.
#[test]
fn a_changed_migration_is_refused() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let hand = hand(&url).await;
        hand.batch_execute("UPDATE windlass.migrations SET checksum = 'another'").await.expect("a row");
        for migrate in [true, false] {
            let said = Options::new(&url).migrate(migrate).open().await.expect_err("refused");
            assert!(
                matches!(&said, OpenError::ChangedMigration(name) if name == "0001_create_jobs"),
                "{said:?}"
            );
            assert!(said.to_string().contains("0001_create_jobs"), "{said}");
        }
    });
}

/// M1, T11: a guard with another text is replaced by ours, and the jobs stay; who may not migrate leaves it.
#[test]
fn an_old_guard_is_replaced() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let hand = hand(&url).await;
        let before = schema(&hand, "windlass").await;
        let job = Bed::new(Arc::new(opened(&url).await)).a_job(at(0)).await;
        hand.batch_execute(
            "DROP TRIGGER jobs_kept ON windlass.jobs; DROP TRIGGER jobs_guard ON windlass.jobs;
             CREATE OR REPLACE FUNCTION windlass.keep_history() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';
             UPDATE windlass.guard SET number = 0, checksum = 'old'",
        )
        .await
        .expect("an old guard");
        let old = guard(&hand).await;
        drop(Options::new(&url).migrate(false).open().await.expect("the tables are as they should be"));
        assert_eq!(guard(&hand).await, old);
        let store = opened(&url).await;
        assert_eq!(schema(&hand, "windlass").await, before);
        assert_eq!(Bed::new(Arc::new(store)).row(job).await.version, 1);
    });
}

/// T11: an older binary leaves a newer guard in force, and one of the same number does not replace what another build of
/// that number put up: restarts in any order change nothing.
#[test]
fn a_guard_is_never_put_back() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let (hand, mut bed) = (hand(&url).await, Bed::new(Arc::new(opened(&url).await)));
        for newer in [0, 1] {
            let other =
                format!("UPDATE windlass.guard SET number = number + {newer}, checksum = 'another build'");
            hand.batch_execute(&other).await.expect("another guard");
            hand.batch_execute(
                "CREATE OR REPLACE FUNCTION windlass.keep_history() RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN RAISE EXCEPTION ''tomorrow''; END'",
            )
            .await
            .expect("its function");
            let (before, in_force) = (schema(&hand, "windlass").await, guard(&hand).await);
            bed.store = Arc::new(opened(&url).await);
            whole_life(&bed).await;
            assert_eq!((schema(&hand, "windlass").await, guard(&hand).await), (before, in_force));
        }
    });
}

/// T11: a store is upgraded from one migration to the next with its jobs in it; a store of the older version that is open
/// goes on beside it with every verb, and one that is opened afterwards is refused.
#[test]
fn a_store_is_upgraded_beside_one_at_work() {
    const NEXT: &str = "ALTER TABLE windlass.jobs ADD COLUMN colour text NOT NULL DEFAULT 'red';
        ALTER TABLE windlass.job_events ADD COLUMN shape text;
        CREATE INDEX jobs_colour ON windlass.jobs (colour) WHERE colour <> 'red'";
    const GUARD: &str =
        "CREATE OR REPLACE FUNCTION windlass.of_tomorrow() RETURNS int LANGUAGE sql AS 'SELECT 2';";
    wait_for(async {
        let (url, _database) = support::database().await;
        let old = Bed::new(Arc::new(opened(&url).await));
        for status in windlass_core::Status::ALL {
            old.a_job_that_is(status, 0).await;
        }
        let held = old.a_held_job("w", None).await;
        let tomorrow = || Options::new(&url).tomorrow(NEXT, GUARD);
        let refused = tomorrow().migrate(false).open().await.expect_err("not upgraded yet");
        assert!(matches!(refused, OpenError::OldSchema { found: 1, known: 2 }), "{refused:?}");
        let mut new = old.clone();
        new.store = Arc::new(tomorrow().open().await.expect("upgraded"));
        let hand = hand(&url).await;
        let names: Vec<String> = ledger(&hand).await.into_iter().map(|m| m.1).collect();
        assert_eq!(names, ["0001_create_jobs", "0002_of_tomorrow"]);
        assert!(guard(&hand).await.split(", ").all(|part| part.contains(" 2 ")), "{}", guard(&hand).await);
        invariants::check(&new).await;
        new.settles(&held, completes(), None).await.expect("claimed before, completed after");
        for bed in [&old, &new, &old] {
            whole_life(bed).await;
            for status in windlass_core::Status::ALL {
                bed.a_job_that_is(status, 0).await;
            }
            invariants::check(bed).await;
        }
        let reds =
            "SELECT count(*) > 10 AND count(*) = (SELECT count(*) FROM windlass.jobs) FROM windlass.jobs
            WHERE colour = 'red'";
        assert!(hand.query_one(reds, &[]).await.expect("a count").get::<_, bool>(0));
        let (before, in_force) = (schema(&hand, "windlass").await, guard(&hand).await);
        let refused = Options::new(&url).open().await.expect_err("a schema of tomorrow");
        assert!(matches!(refused, OpenError::NewerSchema { found: 2, known: 1 }), "{refused:?}");
        drop(tomorrow().open().await.expect("nothing to do"));
        assert_eq!((schema(&hand, "windlass").await, guard(&hand).await), (before, in_force));
    });
}

/// T11: the guard is re-created twenty times beside readers and writers in tight loops: nobody is ended by a deadlock, and
/// nobody waits for a lock for more than a second.
#[test]
fn a_guard_is_replaced_beside_a_system_at_work() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut loops = JoinSet::new();
        let bed = Bed::new(Arc::new(opened(&url).await));
        for n in 0..4 {
            let (url, done, mut bed) = (url.clone(), Arc::clone(&done), bed.clone());
            loops.spawn(async move {
                // A third of its timeout is how long a store waits for a lock.
                let options = Options::new(&url).pool(2).timeout(std::time::Duration::from_secs(3));
                bed.store = Arc::new(options.open().await.expect("a store"));
                let hand = hand(&url).await;
                hand.batch_execute("SET lock_timeout = '1s'").await.expect("a setting");
                let mut rounds = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    if n % 2 == 0 {
                        let job = bed.enqueue(bed.job("work"), None).await.id;
                        let held = bed.claims_by_id("w", job, None).await.expect("it is claimed");
                        bed.settles(&held, completes(), None).await.expect("it completes");
                    } else {
                        // Both orders of the two tables, and every view.
                        let read = "BEGIN; SELECT count(*) FROM windlass.job_events; SELECT count(*) FROM windlass.jobs;
                            SELECT count(*) FROM windlass.history_view; COMMIT; BEGIN;
                            SELECT count(*) FROM windlass.dead_letter_view; SELECT count(*) FROM windlass.queue_view;
                            SELECT count(*) FROM windlass.jobs; SELECT count(*) FROM windlass.job_events; COMMIT";
                        hand.batch_execute(read).await.expect("it may look");
                    }
                    rounds += 1;
                }
                rounds
            });
        }
        let hand = hand(&url).await;
        for _ in 0..20 {
            hand.batch_execute(OLD_GUARD).await.expect("an old guard");
            drop(Options::new(&url).pool(1).listen(false).open().await.expect("a new guard"));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for rounds in loops.join_all().await {
            assert!(rounds > 20, "{rounds} rounds");
        }
    });
}

/// T11: while somebody reads in one long transaction, a migration stands behind it again and again, and whoever comes behind
/// the migration waits for less than a second each time. When the reader has gone, the guard is replaced.
#[test]
fn a_guard_is_replaced_beside_an_open_reader() {
    const READ: &str = "SELECT count(*) FROM windlass.jobs; SELECT count(*) FROM windlass.job_events;
        SELECT count(*) FROM windlass.history_view; SELECT count(*) FROM windlass.queue_view";
    wait_for(async {
        let (url, _database) = support::database().await;
        let bed = Bed::new(Arc::new(opened(&url).await));
        bed.a_job(None).await;
        let (watcher, reader) = (hand(&url).await, hand(&url).await);
        watcher.batch_execute(OLD_GUARD).await.expect("an old guard");
        reader.batch_execute(&format!("BEGIN; {READ}")).await.expect("a look");
        let mut migrating = JoinSet::new();
        let to = url.clone();
        migrating.spawn(async move { drop(opened(&to).await) });
        let end = Instant::now() + Duration::from_secs(5);
        let mut others = JoinSet::new();
        for act in [READ, "SELECT windlass.enqueue('work')", "SELECT count(*) FROM windlass.queue_view"] {
            let hand = hand(&url).await;
            others.spawn(async move {
                let (mut longest, mut rounds) = (Duration::ZERO, 0);
                while Instant::now() < end {
                    let asked = Instant::now();
                    hand.batch_execute(act).await.expect(act);
                    longest = longest.max(asked.elapsed());
                    rounds += 1;
                }
                (act, longest, rounds)
            });
        }
        // The migration in line, and whoever is behind it.
        let in_line = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND datname = current_database()";
        let mut seen = 0;
        while Instant::now() < end {
            seen += watcher.query_one(in_line, &[]).await.expect("a look").get::<_, i64>(0).min(1);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(seen >= 10, "the migration stood in line at {seen} looks");
        for (act, longest, rounds) in others.join_all().await {
            assert!(longest < Duration::from_secs(1), "{act}: waited for {longest:?}");
            assert!(rounds > 10, "{act}: {rounds} rounds");
        }
        assert!(migrating.try_join_next().is_none(), "the reader is still there");
        reader.batch_execute("COMMIT").await.expect("the reader goes");
        support::soon("the migration", migrating.join_next()).await.expect("one").expect("it is done");
        let old = "SELECT count(*) FROM windlass.guard WHERE number = 0";
        assert_eq!(watcher.query_one(old, &[]).await.expect("a count").get::<_, i64>(0), 0);
    });
}

/// T11: a schema of another name holds a whole store, beside the first and apart from it.
#[test]
fn another_schema_is_another_store() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let other = Options::new(&url).schema("other").open().await.expect("a store");
        let bed = Bed::new(Arc::new(other));
        whole_life(&bed).await;
        let hand = hand(&url).await;
        let job = bed.a_job(None).await;
        let cancel = "UPDATE other.jobs SET status = 'cancelled' WHERE id = $1";
        assert_eq!(hand.execute(cancel, &[job.as_uuid()]).await.expect("a legal transition"), 1);
        hand.batch_execute("SELECT other.enqueue('work', unique_key => 'sql')").await.expect("enqueued");
        hand.batch_execute("SELECT other.cancel(id) FROM other.job_view WHERE status = 'pending'")
            .await
            .expect("cancelled");
        invariants::check(&bed).await;
        let jobs: i64 =
            hand.query_one("SELECT count(*) FROM windlass.jobs", &[]).await.expect("a count").get(0);
        assert_eq!(jobs, 0, "the first store is untouched");
        hand.batch_execute("DROP SCHEMA windlass CASCADE").await.expect("the first is not needed");
        let third = Options::new(&url).schema("third").open().await.expect("a store");
        whole_life(&Bed::new(Arc::new(third))).await;
        for text in schema(&hand, "other").await {
            assert!(!text.contains("windlass."), "{text}");
        }
        drop(Options::new(&url).schema("other").migrate(false).open().await.expect("it is there"));
    });
}

/// T11: a schema may be named like a word of SQL.
#[test]
fn a_schema_may_be_a_reserved_word() {
    wait_for(async {
        let (url, _database) = empty_database().await;
        for word in ["user", "select", "default"] {
            let store = Options::new(&url).schema(word).open().await.expect(word);
            let bed = Bed::new(Arc::new(store));
            whole_life(&bed).await;
            let hand = hand(&url).await;
            hand.batch_execute(&format!("SELECT \"{word}\".enqueue('work', notify => true)"))
                .await
                .expect(word);
            let by_hand = format!("UPDATE \"{word}\".jobs SET status = 'cancelled' WHERE status = 'pending'");
            hand.batch_execute(&by_hand).await.expect(word);
            invariants::check(&bed).await;
        }
    });
}

/// T11: names that no schema should have are refused before anything is asked of the server.
#[test]
fn a_schema_that_cannot_be_one_is_refused() {
    wait_for(async {
        for schema in ["", "Windlass", "1st", "a-b", "a;b", "pg_mine", "ä", &"x".repeat(64)] {
            let said = Options::new("postgres://nobody@localhost/none").schema(schema).open().await;
            assert!(matches!(said, Err(OpenError::Schema(_))), "{schema}");
        }
    });
}

/// T11: a URL that is none is named as such, and a password is never repeated.
#[test]
fn a_malformed_url_is_a_clear_error_without_its_password() {
    wait_for(async {
        for url in [
            "postgres://app:hunter2@db:port/work",
            "postgres://app:hunter2@db:99999/work",
            "postgres://app:hunter2@db/work?sslmode=hunter2",
            "postgres://app:hunter2@db/work?nonsense=1",
            "postgres//app:hunter2@db/work",
            "mysql://app:hunter2@db/work",
            "host=db password=hunter2 port=x",
            "password='hunter2",
            "hunter2",
            "",
        ] {
            let options = Options::new(url).pool(1);
            assert!(!format!("{options:?}").contains("hunter2"), "{url}");
            let said = options.open().await.expect_err(url);
            assert!(!format!("{said} {said:?}").contains("hunter2"), "{url}: {said}");
            assert!(matches!(said, OpenError::Url(_)), "{url}: {said:?}");
            assert!(said.to_string().contains("postgres://user:password@host:5432/database"), "{said}");
        }
        let nobody = "postgres://app:hunter2@localhost:1/work";
        let said = PostgresStore::open(nobody).await.expect_err("nobody is there");
        assert!(matches!(&said, OpenError::Failed(why) if why.contains("refused")), "{said:?}");
        assert!(!format!("{said} {said:?}").contains("hunter2"), "{said}");
    });
}

/// T11: who may not migrate is told how old the schema is, and creates nothing.
#[test]
fn without_migrating_an_old_schema_is_refused() {
    wait_for(async {
        let (url, _database) = empty_database().await;
        let hand = hand(&url).await;
        let none = "SELECT count(*) FROM pg_namespace WHERE nspname = 'windlass'";
        let said = Options::new(&url).migrate(false).open().await.expect_err("nothing is there");
        assert!(matches!(said, OpenError::OldSchema { found: 0, known: 1 }), "{said:?}");
        assert!(said.to_string().contains("windlass migrate"), "{said}");
        assert_eq!(hand.query_one(none, &[]).await.expect("a count").get::<_, i64>(0), 0);
        drop(opened(&url).await);
        drop(Options::new(&url).migrate(false).open().await.expect("now it is"));
    });
}
