//! Who may do what: the app runs the engine and cannot touch history, a reader sees the views.

mod support;

use std::sync::Arc;
use support::{Database, as_role, hand, said, wait_for};
use tokio_postgres::Client;
use windlass_conformance::{
    Bed, checkpoint, completes, fails, for_approval, for_children, for_signal, invariants, key, key_of, name,
    note, redrive, step_begins, step_ends, stop, stop_at_once,
};
use windlass_core::subscription::{Begin, GIVE_UP_MS, Selection, Subscription, TIMEOUT_MS, Target};
use windlass_core::wait::Decision;
use windlass_core::{Actor, LeaseMs, Status, Unique, Who};
use windlass_postgres::{OpenError, Options};
use windlass_store::{
    AcquireTerm, Credential, Delivery, Erase, ForgetTombstones, LogRange, MoveLogs, PauseQueue, Purge,
    PutSubscription, ReadArchive, RemoveSubscription, ReportSubscription, WriteLogs,
};

/// A role of one test, dropped at its end.
struct Role {
    owner: Client,
    owner_url: String,
    name: String,
    url: String,
    _database: Database,
}

impl Role {
    /// A role that can log in to a fresh store and has been granted what `grant` grants.
    async fn new(test: &str, grant: &str) -> Self {
        let (url, database) = support::database().await;
        let owner = hand(&url).await;
        let name = format!("windlass_{test}_{}", std::process::id());
        owner.batch_execute(&format!("DROP ROLE IF EXISTS {name}")).await.expect("nothing is left");
        owner.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD 'secret'")).await.expect("a role");
        owner.batch_execute(&format!("SELECT windlass.{grant}('{name}')")).await.expect("granted");
        let app = as_role(&url, &name);
        Self { owner, owner_url: url, name, url: app, _database: database }
    }

    async fn ends(self) {
        let name = &self.name;
        self.owner.batch_execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}")).await.expect("dropped");
    }
}

/// The SQLSTATE of a statement that must be refused.
async fn refused(hand: &Client, sql: &str) -> String {
    match hand.batch_execute(sql).await {
        Ok(()) => panic!("{sql} should be refused"),
        Err(error) => said(&error).0,
    }
}

/// The first column of a statement's rows.
async fn column(hand: &Client, sql: &str) -> Vec<String> {
    hand.query(sql, &[]).await.expect(sql).iter().map(|r| r.get(0)).collect()
}

const NO_PRIVILEGE: &str = "42501";

/// M7, T11: a role with only what `grant_app` grants runs every part of the engine.
#[test]
fn the_app_role_runs_a_whole_life() {
    wait_for(async {
        let role = Role::new("app", "grant_app").await;
        let store = Options::new(&role.url).migrate(false).pool(4).open().await.expect("a store");
        let bed = Bed::new(Arc::new(store));
        let parent = bed.holds("boss", bed.job("parent"), None).await;
        let mut child = bed.job("child");
        child.facts.parent_id = Some(parent.job.id);
        child.facts.tags = vec![name("a")];
        child.facts.unique = Some(Unique::in_queue(name("default"), key("k")));
        let child = bed.enqueue(child, None).await.id;
        bed.waits(&parent, for_children(), None).await.expect("it waits");
        let held = bed.claims_one("w", None).await;
        assert_eq!(held.job.id, child);
        bed.extends(&held, 60_000, None).await.expect("renewed");
        bed.reports(checkpoint(&held, "{}"), None).await.expect("a checkpoint");
        bed.records(step_begins(&held, "pay"), None).await.expect("a step");
        bed.records(step_ends(&held, "pay", "1"), None).await.expect("its end");
        bed.appends(note(child, "seen"), None).await.expect("a note");
        let (ask, _) = bed.question(&held, "gate");
        let asked = bed.asks(ask, None).await;
        bed.waits(&held, for_approval("gate"), None).await.expect("it waits");
        let voter = key_of("ann", &["operator"]);
        bed.votes(asked.approval.id, Decision::Approve, voter, None).await.expect("a vote");
        let held = bed.claims_by_id("w", child, None).await.expect("approved");
        bed.waits(&held, for_signal("go"), None).await.expect("it waits");
        bed.signals(child, "go", "ann", None).await.expect("signalled");
        let held = bed.claims_by_id("w", child, None).await.expect("woken");
        bed.settles(&held, completes(), None).await.expect("it completes");
        let parent = bed.claims_by_id("boss", parent.job.id, None).await.expect("its child ended");
        bed.settles(&parent, fails("broken"), None).await.expect("it fails");
        bed.cancels(parent.job.id, stop_at_once(), None).await.expect("cancelled");
        bed.redrives(redrive(parent.job.id), None).await.expect("redriven");
        bed.cancels(parent.job.id, stop(), None).await.expect("cancelled");
        let fork = windlass_conformance::fork(child, bed.id());
        bed.forks(fork, None).await.expect("forked");
        bed.registers("w", None).await;
        bed.a_job_that_is(Status::Orphaned, 0).await;
        bed.sweeps(None).await;
        let pause = PauseQueue { name: name("q"), pause: true, actor: Actor::api() };
        bed.store.pause_queue(pause, None).await.expect("paused");
        invariants::check(&bed).await;

        let soon = bed.row(child).await.updated_at.plus_ms(60_000);
        let request = ReadArchive { finished_before: soon, limit: 10 };
        let archived = bed.store.archive(request, None).await.expect("the store answers");
        let jobs: Vec<_> = archived.iter().map(|a| (a.job.id, a.job.version)).collect();
        assert_eq!(jobs.len(), 2);
        let gone = bed.store.purge(Purge { jobs, archive: None }, None).await.expect("the store answers");
        assert_eq!(gone, [Ok(()), Ok(())]);
        assert_eq!(bed.store.job(child, None).await.expect("the store answers"), None);
        invariants::check(&bed).await;
        drop(bed);
        role.ends().await;
    });
}

/// M7, T9, R11: a role with only what `grant_app` grants leads, moves log lines, archives, erases, forgets tombstones and keeps
/// subscriptions; what it removed and erased stays provable.
#[test]
fn the_app_role_keeps_house() {
    wait_for(async {
        let role = Role::new("keeps", "grant_app").await;
        let store = Options::new(&role.url).migrate(false).pool(4).open().await.expect("a store");
        let bed = Bed::new(Arc::new(store));
        let (term, holder) = (name("leader"), Who::parse("holder", "a").expect("a name"));
        let ttl_ms = LeaseMs::new(60_000).expect("a length of time");
        let wish = AcquireTerm { name: term.clone(), holder, ttl_ms };
        let epoch = bed.store.acquire_term(wish, None).await.expect("the store answers").expect("free").epoch;
        let (one, two) =
            (bed.holds("w", bed.job("work"), None).await, bed.holds("w", bed.job("work"), None).await);
        for held in [&one, &two] {
            let lines = vec!["one".to_owned(), "two".to_owned()];
            let lines = WriteLogs { job: held.job.id, token: held.lease.token, lines };
            bed.store.write_logs(lines, None).await.expect("the store answers").expect("written");
        }
        let ranges = vec![LogRange { job: one.job.id, first: 1, last: 2 }];
        let moves = MoveLogs { term: term.clone(), epoch, part: "logs-1".to_owned(), ranges };
        assert_eq!(bed.store.move_logs(moves, None).await, Ok(Ok(vec![Ok(())])));
        for held in [&one, &two] {
            bed.settles(held, completes(), None).await.expect("completed");
        }
        let wish = Erase { job: two.job.id, actor: Actor::api(), expected_version: None };
        bed.store.erase(wish, None).await.expect("the store answers").expect("erased");
        let version = bed.row(one.job.id).await.version;
        let purge = Purge { jobs: vec![(one.job.id, version)], archive: Some("jobs-1".to_owned()) };
        assert_eq!(bed.store.purge(purge, None).await, Ok(vec![Ok(())]));
        let left = bed.store.purged(one.job.id, None).await.expect("the store answers");
        assert_eq!(left.and_then(|left| left.archive).as_deref(), Some("jobs-1"));
        let before = bed.row(two.job.id).await.updated_at.plus_ms(60_000);
        let forget = ForgetTombstones { term: term.clone(), epoch, before, limit: 10 };
        assert_eq!(bed.store.forget_tombstones(forget, None).await, Ok(Ok(1)));
        let target = Target::Webhook { url: "https://a.example/".to_owned(), timeout_ms: TIMEOUT_MS };
        let credential =
            Credential::parse(&target, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let select = Selection::default();
        let subscription = Subscription { select, target, from: Begin::Now, give_up_ms: GIVE_UP_MS };
        let put = PutSubscription {
            name: name("a"),
            subscription,
            credential: Some(credential),
            expected_version: None,
            actor: Actor::api(),
        };
        let made = bed.store.put_subscription(put, None).await.expect("the store answers").expect("made");
        let (version, delivery) = (made.version, Delivery::GivesUp("410".to_owned()));
        let report = ReportSubscription { term, epoch, name: name("a"), version, delivery };
        let state =
            bed.store.report_subscription(report, None).await.expect("the store answers").expect("noted");
        assert!(state.paused.is_some());
        let remove = RemoveSubscription { name: name("a"), actor: Actor::api() };
        bed.store.remove_subscription(remove, None).await.expect("the store answers").expect("removed");
        invariants::check(&bed).await;
        drop(bed);
        role.ends().await;
    });
}

/// M7: as the app, history and schema are out of reach by privilege, whatever the session says of itself.
#[test]
fn the_app_role_cannot_touch_history() {
    wait_for(async {
        let role = Role::new("hand", "grant_app").await;
        let app = hand(&role.url).await;
        app.batch_execute("SELECT windlass.enqueue('work', '{\"n\":1}')").await.expect("it may enqueue");
        for settings in [
            "",
            "SET windlass_guard.purging = 'on'; SET windlass_guard.door = 'open'; SET application_name = 'windlass'",
        ] {
            app.batch_execute(settings).await.expect("anybody may say so");
            for sql in [
                "UPDATE windlass.job_events SET actor = 'me'",
                "DELETE FROM windlass.job_events",
                "DELETE FROM windlass.jobs",
                "DELETE FROM windlass.audit",
                "UPDATE windlass.audit SET actor = 'me'",
                "UPDATE windlass.guard SET checksum = 'mine'",
                "INSERT INTO windlass.migrations VALUES (9, 'mine', '', now())",
                "TRUNCATE windlass.jobs",
                "TRUNCATE windlass.job_events",
                "DROP TABLE windlass.jobs",
                "DROP TRIGGER jobs_guard ON windlass.jobs",
                "ALTER TABLE windlass.jobs DISABLE TRIGGER ALL",
                "CREATE TABLE windlass.mine (n int)",
                "CREATE OR REPLACE FUNCTION windlass.guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
                "SELECT windlass.grant_app(current_user::regrole)",
                "SELECT windlass.finished(j, now(), 'me') FROM windlass.jobs j",
            ] {
                assert_eq!(refused(&app, sql).await, NO_PRIVILEGE, "{sql}");
            }
        }
        let unfinished = "SELECT windlass.purge(array_agg(id), array_agg(version)) FROM windlass.jobs";
        assert!(app.query(unfinished, &[]).await.expect("it may call it").is_empty(), "nothing has finished");
        app.batch_execute("SELECT windlass.cancel(id) FROM windlass.jobs").await.expect("it may cancel");
        for detail in [r#"{"kind": "other"}"#, "{}"] {
            let rewrites = format!(
                "SELECT windlass.erase(id, version, '{{1}}', ARRAY['{detail}'], 0, 'erased', now()) FROM windlass.jobs"
            );
            assert_eq!(refused(&app, &rewrites).await, "WL003", "an erasure takes, and changes nothing else");
        }
        let log = "SELECT string_agg(actor, ' ') FROM windlass.history_view";
        let actors: String = app.query_one(log, &[]).await.expect("a log").get(0);
        assert_eq!(actors, format!("sql:{0} sql:{0}", role.name), "who it was, not whose function it was");
        drop(app);
        role.ends().await;
    });
}

/// M7: the app reads tables and writes none of them: there is a function for everything it does.
#[test]
fn the_app_role_writes_no_table() {
    wait_for(async {
        let role = Role::new("reads", "grant_app").await;
        // What an earlier version granted is taken back.
        let earlier =
            format!("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA windlass TO {}", role.name);
        role.owner.batch_execute(&earlier).await.expect("granted");
        role.owner
            .batch_execute(&format!("SELECT windlass.grant_app('{}')", role.name))
            .await
            .expect("granted");
        let app = hand(&role.url).await;
        let tables = column(
            &role.owner,
            "SELECT relname::text FROM pg_class
            WHERE relnamespace = 'windlass'::regnamespace AND relkind IN ('r', 'p')",
        )
        .await;
        assert!(tables.len() > 10, "{tables:?}");
        for table in tables {
            app.batch_execute(&format!("SELECT * FROM windlass.{table}")).await.expect("it may look");
            for sql in [
                "INSERT INTO windlass.TABLE DEFAULT VALUES",
                "DELETE FROM windlass.TABLE",
                "TRUNCATE windlass.TABLE",
                "SELECT * FROM windlass.TABLE FOR UPDATE",
            ] {
                assert_eq!(refused(&app, &sql.replace("TABLE", &table)).await, NO_PRIVILEGE, "{sql} {table}");
            }
            let columns = format!(
                "SELECT attname::text FROM pg_attribute WHERE attrelid = 'windlass.{table}'::regclass
                AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
            );
            for column in column(&role.owner, &columns).await {
                let sql = format!("UPDATE windlass.{table} SET {column} = NULL");
                assert_eq!(refused(&app, &sql).await, NO_PRIVILEGE, "{sql}");
            }
        }
        let sequence = "SELECT nextval('windlass.job_events_seq_seq')";
        assert_eq!(refused(&app, sequence).await, NO_PRIVILEGE);
        drop(app);
        role.ends().await;
    });
}

/// M7: what a function of the app's does must be whole by the end of its transaction: no event without its row and no row
/// without its event, no lease that was not handed out, no approval without its votes, no key without its audit entry.
#[test]
fn the_app_role_forges_nothing() {
    wait_for(async {
        let role = Role::new("forges", "grant_app").await;
        let owner = Options::new(&role.owner_url).pool(2).open().await.expect("a store");
        let bed = Bed::new(Arc::new(owner));
        let job = bed.enqueue(bed.job("work"), None).await.id;
        let held = bed.holds("w", bed.job_in("work", "other"), None).await;
        let (ask, _) = bed.question(&held, "gate");
        let asked = bed.asks(ask, None).await.approval.id;
        let app = hand(&role.url).await;
        app.batch_execute("SET application_name = 'windlass'").await.expect("anybody may say so");
        let named = column(
            &role.owner,
            "SELECT proname::text FROM pg_proc
            WHERE pronamespace = 'windlass'::regnamespace AND proname LIKE 'app\\_%'",
        )
        .await;
        let function = |name: &str| {
            let start = format!("app_{name}_");
            let is_it = |f: &&String| {
                f.strip_prefix(&start).is_some_and(|hash| hash.len() == 8 && !hash.contains('_'))
            };
            format!("windlass.{}", named.iter().find(is_it).expect(name))
        };
        let append = |of: &str, version: &str, what: &str, detail: &str| {
            format!("SELECT {}(id, {version}, clock_timestamp(), '{what}', 'engine', attempt, generation, NULL, NULL, {detail},
                NULL, NULL, NULL, NULL, NULL, '{{}}') FROM windlass.jobs WHERE id = '{of}'", function("append_event"))
        };
        let move_job = |set: &str| {
            let lease = if set == "running" { "sha256('mine')" } else { "NULL" };
            let (due, end) =
                if set == "running" { ("clock_timestamp()", "NULL") } else { ("NULL", "clock_timestamp()") };
            let until = if set == "running" { "clock_timestamp() + interval '1 day'" } else { "NULL" };
            format!("SELECT * FROM windlass.jobs j CROSS JOIN LATERAL {}(j.id, '{set}', {due}, NULL, 'w', {lease}, {until}, NULL,
                NULL, j.attempt, j.retries, j.crashes, j.version + 1, j.generation, j.progress, j.stage, NULL, NULL, NULL,
                NULL, j.signals, j.children, NULL, j.steps_from, NULL, NULL, NULL, NULL, NULL, NULL, NULL, clock_timestamp(), {end},
                NULL, NULL, j.version) m WHERE j.id = '{job}'", function("move_job"))
        };
        let (job_id, held_id) = (job.to_string(), held.job.id.to_string());
        let approve = format!(
            "SELECT {}(id, job_id, name, 'approved', required, required, expires_at, token_hash, true,
            asked_version, asked_at, clock_timestamp()) FROM windlass.approvals WHERE id = '{asked}'",
            function("put_approval")
        );
        let key = format!(
            "SELECT {}('root', sha256('root'), '[\"admin\"]', NULL, NULL, clock_timestamp())",
            function("put_access_key")
        );
        for forged in [
            append(&job_id, "version + 1", "note", "NULL"),
            append(&job_id, "version + 1", "job_completed", "NULL"),
            format!("{}; {}", append(&job_id, "version + 1", "note", "NULL"), move_job("cancelled")),
            format!("{}; {}", append(&job_id, "version + 1", "job_claimed", "NULL"), move_job("running")),
            move_job("running"),
            move_job("cancelled"),
            format!("DELETE FROM windlass.owed; {}", move_job("cancelled")),
            append(&held_id, "version + 7", "job_completed", "NULL"),
            approve.clone(),
            key.clone(),
        ] {
            let code = refused(&app, &format!("BEGIN; {forged}; COMMIT")).await;
            let expected = if forged.starts_with("DELETE") { NO_PRIVILEGE } else { "WL013" };
            assert_eq!(code, expected, "{forged}");
            app.batch_execute("ROLLBACK").await.expect("nothing was done");
            // Checked now or at the end: there is no third way.
            if !forged.starts_with("DELETE") {
                assert_eq!(
                    refused(&app, &format!("BEGIN; SET CONSTRAINTS ALL IMMEDIATE; {forged}")).await,
                    "WL013"
                );
                app.batch_execute("ROLLBACK").await.expect("nothing was done");
            }
        }
        let audited = format!(
            "SELECT {}(clock_timestamp(), 'me', 'key.create', 'root', '{{}}')",
            function("write_audit")
        );
        app.batch_execute(&format!("BEGIN; {key}; {audited}; COMMIT")).await.expect("on record it is one");
        assert_eq!(column(&role.owner, "SELECT count(*)::text FROM windlass.owed").await, ["0"]);
        invariants::check(&bed).await;
        drop((bed, app));
        role.ends().await;
    });
}

/// M7: a reader sees the views and nothing else, and acts on nothing.
#[test]
fn a_reader_sees_the_views_only() {
    wait_for(async {
        let role = Role::new("reader", "grant_reader").await;
        role.owner.batch_execute("SELECT windlass.enqueue('work', '{\"n\":1}')").await.expect("a job");
        let reader = hand(&role.url).await;
        for view in ["job_view", "queue_view", "history_view"] {
            let rows =
                reader.query(&format!("SELECT * FROM windlass.{view}"), &[]).await.expect("it may look");
            assert_eq!(rows.len(), 1, "{view}");
        }
        let seen = reader.query_one("SELECT payload::text FROM windlass.job_view", &[]).await.expect("a job");
        assert_eq!(seen.get::<_, String>(0), "{\"n\": 1}");
        reader.batch_execute("SELECT * FROM windlass.dead_letter_view").await.expect("it may look");
        for sql in [
            "SELECT lease_hash FROM windlass.jobs",
            "SELECT * FROM windlass.job_events",
            "SELECT * FROM windlass.approvals",
            "SELECT * FROM windlass.access_keys",
            "UPDATE windlass.jobs SET status = 'cancelled'",
            "SELECT windlass.purge('{}', '{}')",
            "SELECT windlass.erase(gen_random_uuid(), 1, '{}', '{}', 0, '', now())",
            "SELECT windlass.enqueue('work')",
            "SELECT windlass.cancel(id) FROM windlass.job_view",
            "SELECT windlass.signal(id, 'go') FROM windlass.job_view",
            "SELECT windlass.assert_lease(id, '') FROM windlass.job_view",
            "SELECT windlass.complete(id, '') FROM windlass.job_view",
            "SELECT windlass.grant_app(current_user::regrole)",
        ] {
            assert_eq!(refused(&reader, sql).await, NO_PRIVILEGE, "{sql}");
        }
        drop(reader);
        role.ends().await;
    });
}

/// M7: nobody may call a function of the schema unless it was granted, and no function of the owner's looks names up where a
/// caller may put some.
#[test]
fn no_function_is_open_to_everybody() {
    wait_for(async {
        let (url, _database) = support::database().await;
        let owner = hand(&url).await;
        let open = "SELECT p.oid::regprocedure::text FROM pg_proc p
            CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
            WHERE p.pronamespace = 'windlass'::regnamespace AND a.grantee = 0";
        assert_eq!(column(&owner, open).await, [""; 0], "PUBLIC may execute these");
        let loose = "SELECT p.oid::regprocedure::text FROM pg_proc p
            WHERE p.pronamespace = 'windlass'::regnamespace AND p.prosecdef AND NOT EXISTS (
              SELECT 1 FROM unnest(p.proconfig) c WHERE c = 'search_path=windlass, pg_temp')";
        assert_eq!(column(&owner, loose).await, [""; 0], "these run as the owner and find names elsewhere");
        let many =
            "SELECT count(*)::text FROM pg_proc WHERE pronamespace = 'windlass'::regnamespace AND prosecdef";
        assert!(column(&owner, many).await[0].parse::<u32>().expect("a count") >= 8);
    });
}

/// A temporary table with the columns of `jobs`, and one row that copies a job but for its version.
const FORGED: &str = "
    CREATE TEMP TABLE forged (LIKE pg_temp.shape);
    INSERT INTO forged SELECT (jsonb_populate_record(NULL::forged, to_jsonb(j) || '{\"version\":7}')).*
    FROM windlass.job_view j;";

/// M7: the functions of the guard's triggers act for the owner, and so only on the store's own table: not from a table that
/// somebody made in its likeness.
#[test]
fn the_guard_does_not_serve_a_table_in_the_likeness_of_jobs() {
    wait_for(async {
        let role = Role::new("forger", "grant_reader").await;
        role.owner.batch_execute("SELECT windlass.enqueue('work', '{\"n\":1}')").await.expect("a job");
        let columns = "SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
            FROM pg_attribute WHERE attrelid = 'windlass.jobs'::regclass AND attnum > 0 AND NOT attisdropped";
        let shape = format!("CREATE TEMP TABLE shape ({})", column(&role.owner, columns).await[0]);
        let log = "SELECT count(*)::text FROM windlass.job_events";
        let triggers = "SELECT 'windlass.' || proname || '()' FROM pg_proc
            WHERE pronamespace = 'windlass'::regnamespace AND prorettype = 'trigger'::regtype AND prosecdef";
        let reader = hand(&role.url).await;
        for forger in [&reader, &role.owner] {
            forger.batch_execute(&format!("{shape}; {FORGED}")).await.expect("a likeness");
        }
        for function in column(&role.owner, triggers).await {
            for (when, each) in [("BEFORE", "ROW"), ("AFTER", "STATEMENT")] {
                let attach = format!(
                    "CREATE TRIGGER forging {when} UPDATE ON forged FOR EACH {each} EXECUTE FUNCTION {function}"
                );
                assert_eq!(refused(&reader, &attach).await, NO_PRIVILEGE, "{function}");
                // Who may attach it gets no further.
                role.owner.batch_execute(&attach).await.expect("the owner may");
                let code = refused(&role.owner, "UPDATE forged SET status = 'cancelled'").await;
                assert_eq!(code, "WL004", "{function}");
                role.owner.batch_execute("DROP TRIGGER forging ON forged").await.expect("dropped");
            }
        }
        assert_eq!(column(&role.owner, log).await, ["1"], "nothing was forged");
        drop(reader);
        role.ends().await;
    });
}

/// T11: an app of another version is told to migrate; once the owner did, it may call that version's functions.
#[test]
fn an_upgrade_grants_the_app_its_new_functions() {
    wait_for(async {
        let role = Role::new("upgraded", "grant_app").await;
        let one = "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE proname LIKE 'app\\_move\\_job\\_%'";
        let one = column(&role.owner, one).await.remove(0);
        role.owner.batch_execute(&format!("DROP FUNCTION {one}")).await.expect("as before an upgrade");
        let app = || Options::new(&role.url).migrate(false).pool(2);
        let refused = app().open().await.expect_err("a function is missing");
        assert!(matches!(refused, OpenError::MissingFunctions), "{refused:?}");
        assert!(refused.to_string().contains("windlass migrate"), "{refused}");
        drop(Options::new(&role.owner_url).open().await.expect("upgraded"));
        let bed = Bed::new(Arc::new(app().open().await.expect("a store")));
        let held = bed.a_held_job("w", None).await;
        bed.reports(checkpoint(&held, "{}"), None).await.expect("a checkpoint");
        drop(bed);
        role.ends().await;
    });
}

/// T11: what was granted stays granted when a new guard is put in force.
#[test]
fn grants_outlive_a_new_guard() {
    wait_for(async {
        let role = Role::new("kept", "grant_reader").await;
        role.owner
            .batch_execute("UPDATE windlass.guard SET number = 0, checksum = 'old'")
            .await
            .expect("an old guard");
        role.owner
            .batch_execute("CREATE VIEW mine AS SELECT * FROM windlass.job_view")
            .await
            .expect("somebody's own view");
        drop(Options::new(&role.owner_url).open().await.expect("a store"));
        let reader = hand(&role.url).await;
        reader.batch_execute("SELECT * FROM windlass.job_view").await.expect("it may still look");
        drop(reader);
        role.ends().await;
    });
}
