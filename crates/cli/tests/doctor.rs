//! `windlass doctor`: every problem is made, for real, and then found with its fix.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;
#[path = "bed/database.rs"]
mod database;
mod machine;

use bed::{Bed, kill, ran, wait_for};
use database::{Database, Pooled};
use machine::Machine;
use serde_json::Value;
use std::io::{Read, Seek, SeekFrom, Write};
use windlass_core::outcome::Found;
use windlass_core::{Actor, Facts, Failure, Name, NewJob, Outcome, Payload, RunAt, Wait, WaitFor, Who};
use windlass_store::{ClaimMany, Clocked, Enqueue, Settle, SettleItem, fresh};

/// What the doctor says of a check, the worst first.
fn said(bed: &Bed, words: &[&str], check: &str) -> Value {
    said_by(bed.run(&[&["doctor", "--json"], words].concat()), check)
}

fn said_by(ran: bed::Ran, check: &str) -> Value {
    let told = ran.json();
    assert_eq!(ran.code == 0, told["ok"] == true, "{told}");
    let all: Vec<Value> =
        told["findings"].as_array().unwrap().iter().filter(|f| f["check"] == check).cloned().collect();
    let worst =
        ["problem", "warning", "ok"].iter().find_map(|level| all.iter().find(|f| f["level"] == **level));
    worst.unwrap_or_else(|| panic!("{check} is not looked at: {told}")).clone()
}

#[track_caller]
fn assert_said(finding: &Value, level: &str, found: &str, fix: &str) {
    let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("level"), level, "{finding}");
    assert!(text("found").contains(found) && text("fix").contains(fix), "{finding}");
}

/// T9: unfinished work that nothing has happened to for long is reported; what a time will move is not.
#[test]
fn idle_work_is_found() {
    let bed = Bed::new();
    bed.enqueue(&["later", "--delay", "10d"]);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(said(&bed, &["--idle", "1s"], "idle work")["level"], "ok", "it is due later");
    let id = bed.enqueue(&["stands"]);
    assert_eq!(said(&bed, &["--idle", "1h"], "idle work")["level"], "ok", "it is young");
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let found = said(&bed, &["--idle", "1s"], "idle work");
    assert_said(&found, "warning", "1 unfinished job stood", "jobs cancel");
    assert!(found["found"].as_str().unwrap().contains(&id), "{found}");
    bed.run(&["jobs", "cancel", &id]).ok();
    assert_eq!(said(&bed, &["--idle", "1s"], "idle work")["level"], "ok", "it has ended");
}

#[test]
fn a_healthy_file_has_every_check_told_and_no_problem() {
    let bed = Bed::new();
    bed.run(&["migrate"]).ok();
    let told = bed.json(&["doctor"]);
    assert_eq!(told["ok"], true, "{told}");
    let checks: Vec<&str> =
        told["findings"].as_array().unwrap().iter().map(|f| f["check"].as_str().unwrap()).collect();
    for check in [
        "store",
        "schema",
        "integrity",
        "durability",
        "wal",
        "file system",
        "disk",
        "queues",
        "limits",
        "leases",
        "deadlines",
        "workers",
        "dead letters",
    ] {
        assert!(checks.contains(&check), "{check}: {checks:?}");
    }
    let people = bed.run(&["doctor"]).ok().out;
    assert!(people.contains("SQLite") && people.contains("jobs.db"), "{people}");
}

#[test]
fn no_store_is_a_problem_and_is_not_made() {
    let bed = Bed::empty();
    assert_said(&said(&bed, &[], "store"), "problem", "there is no store", "windlass migrate");
    assert!(!bed.path("jobs.db").exists());
    let away = ["--store", "postgres://nobody@127.0.0.1:1/none"];
    assert_said(&said(&bed, &away, "store"), "problem", "", "start the database");
}

#[test]
fn a_damaged_file_is_found() {
    let bed = Bed::new();
    for n in 0..40 {
        bed.enqueue(&["k", "--payload", &format!("\"{}\"", "x".repeat(4_000 + n))]);
    }
    assert_said(&said(&bed, &[], "integrity"), "ok", "quick check", "");
    let path = bed.path("jobs.db");
    // Everything is in the file and not beside it once the last process has closed it.
    let pages = std::fs::metadata(&path).unwrap().len() / 8_192;
    assert!(pages > 10, "{pages} pages");
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for page in pages / 2..pages - 1 {
        file.seek(SeekFrom::Start(page * 8_192)).unwrap();
        file.write_all(&[0xA5; 64]).unwrap();
    }
    drop(file);
    let ran = bed.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{} {}", ran.out, ran.err);
    assert!(ran.out.contains("damaged") || ran.out.contains("malformed"), "{} {}", ran.out, ran.err);
}

#[test]
fn a_file_in_memory_is_told() {
    let bed = Bed::new();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    bed.run(&["migrate", "--store", &url]).ok();
    assert_said(&said(&bed, &["--store", &url], "file system"), "warning", "in memory", "--store");
}

#[test]
fn queues_that_stand_still_are_told() {
    let bed = Bed::new();
    bed.enqueue(&["sum", "--queue", "math"]);
    assert_said(
        &said(&bed, &[], "queues"),
        "problem",
        "no live worker",
        "windlass work --queue math --kind sum",
    );
    bed.run(&["queues", "pause", "math"]).ok();
    assert_said(&said(&bed, &[], "queues"), "warning", "paused", "windlass queues resume math");
    let id = bed.enqueue(&["sum"]);
    bed.run(&["jobs", "cancel", &id]).ok();
    assert_said(&said(&bed, &[], "dead letters"), "ok", "none", "");
}

#[test]
fn dead_letters_dead_workers_and_leases_in_dead_hands_are_told() {
    let mut bed = Bed::new();
    let worker = bed.work(&[
        "--lease",
        "1s",
        "--exec",
        "sh",
        "-c",
        "read n; [ $n = 1 ] || exit 65; echo $$ > child; sleep 600",
    ]);
    let dead = bed.enqueue(&["k", "--payload", "0"]);
    bed.until_status(&dead, "failed");
    assert_said(&said(&bed, &[], "dead letters"), "warning", "1 jobs are dead", "redrive");
    let held = bed.enqueue(&["k", "--payload", "1"]);
    let child = bed.read("child");
    bed.signal(worker, "KILL");
    bed.ended(worker);
    kill("KILL", child.parse().unwrap());
    wait_for(|| said(&bed, &["--late", "1s"], "leases")["level"] == "problem");
    let finding = said(&bed, &["--late", "1s"], "leases");
    assert_said(&finding, "problem", &held, "");
    assert_said(&said(&bed, &[], "leases"), "ok", "1 running", "");
}

/// A job that waits for a signal until a moment, and nobody is there to see it pass.
#[test]
fn deadlines_that_nobody_looks_at_are_told() {
    let bed = Bed::new();
    bed.enqueue(&["k"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = windlass::connect(&bed.url()).await.unwrap();
        let queue = Name::parse("queue", "default").unwrap();
        let request = ClaimMany::new(Who::parse("worker", "w").unwrap(), vec![queue], 1, fresh::secret());
        let held = client.store().claim(request, None).await.unwrap().pop().unwrap();
        let expires_at = Some(fresh::wall_clock().plus_ms(500));
        let name = Some(Name::parse("name", "go").unwrap());
        let wait = Wait { waits_for: WaitFor::Signal, name, until: None, expires_at, since: 0 };
        let item = SettleItem {
            job: held.job.id,
            token: held.lease.token,
            outcome: Outcome::Wait(wait, Found::default()),
        };
        client.store().settle(Settle { items: vec![item] }, None).await.unwrap().pop().unwrap().unwrap();
    });
    wait_for(|| said(&bed, &["--late", "1s"], "deadlines")["level"] == "problem");
    assert_said(&said(&bed, &["--late", "1s"], "deadlines"), "problem", "nobody acted", "windlass serve");
}

/// A web service that does every job.
fn service() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/calls", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // A small request comes at once; what would come later is not waited for.
            let _ = stream.read(&mut [0; 8_192]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    url
}

/// (post) A queue with an endpoint: no server sends its jobs, or the service takes none for long.
#[test]
fn endpoints_that_take_no_jobs_are_told() {
    let mut bed = Bed::new();
    bed.run(&["migrate"]).ok();
    std::fs::write(bed.path("secret"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    assert_said(&said(&bed, &[], "endpoints"), "ok", "0 queues with one", "");
    let set = ["queues", "set", "calls", "--endpoint", &service(), "--endpoint-secret-file", "secret"];
    bed.run(&set).ok();
    assert_said(&said(&bed, &[], "endpoints"), "problem", "no server sends its jobs", "windlass serve");
    // A job failed twenty minutes ago, another was given back, and none was done since. Stats know once a server leads.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = windlass::connect(&bed.url()).await.unwrap();
        let earlier = || fresh::wall_clock().plus_ms(-1_200_000);
        let store: std::sync::Arc<dyn windlass_store::Store> =
            std::sync::Arc::new(Clocked::new(client.store().clone(), earlier));
        let queue = Name::parse("queue", "calls").unwrap();
        let facts = Facts::new(Name::parse("kind", "k").unwrap(), queue.clone());
        let job = || NewJob { id: fresh::job_id(), facts: facts.clone(), payload: None, parent_token: None };
        let enqueue = Enqueue { jobs: vec![job(), job()], actor: Actor::api(), idempotency: None };
        store.enqueue(enqueue, None).await.unwrap().unwrap();
        let request = ClaimMany::new(Who::parse("worker", "w").unwrap(), vec![queue], 2, fresh::secret());
        let held = store.claim(request, None).await.unwrap();
        let error = Failure::new("http_500", "no").unwrap();
        let fails = Outcome::Fail { error, permanent: true, run_at: None };
        let outcomes = [fails, Outcome::Release(RunAt::After(86_400_000))];
        let items = held.iter().zip(outcomes).map(|(held, outcome)| SettleItem {
            job: held.job.id,
            token: held.lease.token,
            outcome,
        });
        let settled = store.settle(Settle { items: items.collect() }, None).await.unwrap();
        assert!(settled.len() == 2 && settled.iter().all(Result::is_ok), "{settled:?}");
    });
    bed.serve("serve");
    wait_for(|| said(&bed, &[], "endpoints")["level"] == "warning");
    let found = said(&bed, &[], "endpoints");
    assert_said(&found, "warning", "took none of 2 attempts for 2", "windlass jobs ls --queue calls");
    let done = bed.enqueue(&["k", "--queue", "calls"]);
    bed.until_status(&done, "completed");
    wait_for(|| said(&bed, &[], "endpoints")["level"] == "ok");
    assert_said(&said(&bed, &[], "endpoints"), "ok", "1 queues with one", "");
}

#[test]
fn a_server_is_looked_at() {
    let (bed, database) = (Bed::new(), Database::new());
    let store = ["--store", &database.url];
    bed.run(&[&["migrate"], &store[..]].concat()).ok();
    assert_said(&said(&bed, &store, "store"), "ok", "PostgreSQL", "");
    assert_said(&said(&bed, &store, "clock"), "ok", "differ by", "");
    assert_said(&said(&bed, &store, "pooler"), "ok", "", "");
    assert_said(&said(&bed, &store, "wake-ups"), "ok", "NOTIFY comes back", "");
    assert_said(&said(&bed, &store, "transactions"), "ok", "none", "");
    assert_said(&said(&bed, &store, "vacuum"), "ok", "jobs: ", "");
    database.on("ALTER DATABASE {} SET synchronous_commit = off");
    assert_said(&said(&bed, &store, "durability"), "problem", "synchronous_commit = off", "reload");
}

#[test]
fn a_transaction_that_is_left_open_is_told_with_its_process() {
    let (bed, database) = (Bed::new(), Database::new());
    bed.run(&["migrate", "--store", &database.url]).ok();
    let open = database.open_transaction();
    let words = ["--store", &database.url, "--late", "1s"];
    wait_for(|| said(&bed, &words, "transactions")["level"] != "ok");
    let finding = said(&bed, &words, "transactions");
    assert!(
        finding["fix"].as_str().unwrap().contains(&format!("pg_terminate_backend({})", open.pid)),
        "{finding}"
    );
    assert!(finding["found"].as_str().unwrap().contains("idle in transaction"), "{finding}");
    drop(open);
    wait_for(|| said(&bed, &words, "transactions")["level"] == "ok");
}

#[test]
fn a_pooler_that_lends_for_a_transaction_is_told() {
    let (bed, database) = (Bed::new(), Database::new());
    bed.run(&["migrate", "--store", &database.url]).ok();
    let through = Pooled::new(&database);
    let words = ["--store", &through.url];
    assert_said(&said(&bed, &words, "pooler"), "warning", "wake-ups are lost", "--notify-url");
    assert_said(&said(&bed, &words, "wake-ups"), "warning", "lost in the pooler", "--notify-url");
    let beside = ["--store", &through.url, "--notify-url", &database.url];
    assert_said(&said(&bed, &beside, "pooler"), "ok", "notify_url", "");
    assert_said(&said(&bed, &beside, "wake-ups"), "ok", "comes back", "");
}

#[test]
fn a_clock_that_is_off_is_told() {
    let (bed, database) = (Bed::new(), Database::new());
    let store = ["--store", &database.url];
    bed.run(&[&["migrate"], &store[..]].concat()).ok();
    let machine = Machine::new(&bed.path(""));
    for (off, found) in [("3600", "behind this machine's"), ("-7200", "ahead of this machine's")] {
        let mut command = bed.command(&[&["doctor", "--json"], &store[..]].concat());
        machine.under(&mut command);
        let finding = said_by(ran(command.env("CLOCK_OFF", off).output().unwrap()), "clock");
        assert_said(&finding, "warning", found, "set both by NTP");
    }
}

/// Rows that a transaction wrote and took back are dead, and nobody removes them here.
#[test]
fn dead_rows_that_pile_up_are_told() {
    let (bed, database) = (Bed::new(), Database::with(&[]));
    let store = ["--store", &database.url];
    bed.run(&[&["migrate"], &store[..]].concat()).ok();
    database.within("ALTER TABLE windlass.jobs SET (autovacuum_enabled = off)");
    // One job is asked for as anybody does; the others are its copies, for which the guard would take a minute.
    database.within(
        "BEGIN; SELECT windlass.enqueue('k'); SET LOCAL session_replication_role = replica;
         WITH copies AS MATERIALIZED (
           SELECT jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid())) AS job
           FROM windlass.jobs j, generate_series(1, 51000))
         INSERT INTO windlass.jobs SELECT (job).* FROM copies; ROLLBACK",
    );
    wait_for(|| said(&bed, &store, "vacuum")["level"] != "ok");
    assert_said(&said(&bed, &store, "vacuum"), "warning", "51001 dead", "VACUUM jobs");
    database.within("VACUUM windlass.jobs");
    wait_for(|| said(&bed, &store, "vacuum")["level"] == "ok");
    database.on("ALTER SYSTEM SET autovacuum = off");
    database.on("SELECT pg_reload_conf()");
    wait_for(|| said(&bed, &store, "vacuum")["level"] == "problem");
    assert_said(&said(&bed, &store, "vacuum"), "problem", "autovacuum is off", "set autovacuum = on");
}

#[test]
fn a_prepared_transaction_that_is_left_is_told() {
    let (bed, database) = (Bed::new(), Database::with(&["max_prepared_transactions=2"]));
    bed.run(&["migrate", "--store", &database.url]).ok();
    let words = ["--store", &database.url, "--late", "1s"];
    assert_said(&said(&bed, &words, "transactions"), "ok", "none", "");
    database.within("BEGIN; SELECT windlass.enqueue('k'); PREPARE TRANSACTION 'left behind'");
    wait_for(|| said(&bed, &words, "transactions")["level"] == "problem");
    assert_said(
        &said(&bed, &words, "transactions"),
        "problem",
        "the prepared transaction \"left behind\" is open",
        "COMMIT PREPARED or ROLLBACK PREPARED 'left behind'",
    );
    database.within("ROLLBACK PREPARED 'left behind'");
    assert_said(&said(&bed, &words, "transactions"), "ok", "none", "");
}

/// A reader in another process that begins and does not end: what is written since cannot go from the log into the file.
#[test]
fn a_log_that_cannot_shrink_is_told() {
    let mut bed = Bed::new();
    bed.enqueue(&["k"]);
    let mut reader = std::process::Command::new("python3");
    let script = "import sqlite3, time, sys; c = sqlite3.connect('jobs.db', isolation_level=None); c.execute('BEGIN'); \
                  c.execute('SELECT count(*) FROM jobs').fetchone(); print('reading', flush=True); time.sleep(600)";
    let reader = bed.spawn({
        reader.args(["-c", script]).current_dir(bed.path(""));
        reader
    });
    wait_for(|| bed.printed(reader).contains("reading"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = windlass::connect(&bed.url()).await.unwrap();
        let kind = Name::parse("kind", "k").unwrap();
        for _ in 0..27 {
            let job = |_| NewJob {
                id: fresh::job_id(),
                facts: Facts::new(kind.clone(), Name::parse("queue", "default").unwrap()),
                payload: Some(Payload::bytes("payload", vec![7; 1 << 20], 1 << 20).unwrap()),
                parent_token: None,
            };
            let jobs = (0..10).map(job).collect();
            let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
            client.store().enqueue(request, None).await.unwrap().unwrap();
        }
    });
    assert_said(&said(&bed, &[], "wal"), "warning", "cannot be put into the file", "fuser FILE-wal");
    bed.signal(reader, "KILL");
    bed.ended(reader);
    // Whoever closes the file last puts the log into it.
    bed.enqueue(&["k"]);
    assert_said(&said(&bed, &[], "wal"), "ok", "MiB", "");
}

/// Less room than was asked about; and a disk of 32 MiB, which is mounted in a namespace of the test's own.
#[test]
fn a_disk_that_is_nearly_full_is_told() {
    let bed = Bed::new();
    bed.run(&["migrate"]).ok();
    assert_said(
        &said(&bed, &["--room", "1000000"], "disk"),
        "warning",
        "MiB are free",
        "free some, or move the file",
    );
    let small = "mkdir small && mount -t tmpfs -o size=32m small small && cp jobs.db small && cd small && exec \"$@\"";
    let unshare = || std::process::Command::new("unshare");
    let tried = unshare().args(["-rm", "true"]).output().expect("unshare, of util-linux");
    let why = String::from_utf8_lossy(&tried.stderr);
    assert!(tried.status.success(), "allow user namespaces on this machine, or test as root: {why}");
    let mut command = unshare();
    command.args(["-rm", "sh", "-c", small, "sh", env!("CARGO_BIN_EXE_windlass"), "doctor", "--json"]);
    command.args(["--store", "sqlite:jobs.db"]).current_dir(bed.path(""));
    let ran = ran(command.output().unwrap());
    assert_said(&said_by(ran, "disk"), "problem", "MiB are free", "free some, or move the file");
}

/// A PostgreSQL that may lose what it confirmed is served only on demand.
#[test]
fn a_forgetful_server_is_not_served_by_accident() {
    let (bed, database) = (Bed::new(), Database::with(&[]));
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let ran = ran(bed.command(&serve).env("WINDLASS_STORE", &database.url).output().unwrap());
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.contains("fsync") && ran.err.contains("--unsafe"), "{}", ran.err);
}
