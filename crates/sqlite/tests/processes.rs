//! Several processes on one file, some of which die.

mod place;

use place::process::{Process, listen, role, say};
use place::{Place, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass_conformance::{Bed, completes, name, who};
use windlass_core::{Actor, Facts, JobId, NewJob, Status};
use windlass_sqlite::{Options, SqliteStore};
use windlass_store::fresh::{job_id, random, secret, wall_clock};
use windlass_store::{ClaimMany, Claimed, Enqueue, Feed, Jobs, Leases, Settle, SettleItem};

fn open(file: &Path) -> Arc<SqliteStore> {
    Arc::new(Options::new(file).open().expect("a store"))
}

fn a_job() -> NewJob {
    let payload = Some(windlass_conformance::json("{\"n\":1}"));
    NewJob { id: job_id(), facts: Facts::new(name("work"), name("default")), payload, parent_token: None }
}

async fn enqueue(store: &SqliteStore, jobs: Vec<NewJob>) -> Vec<JobId> {
    let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
    let answer = store.enqueue(request, None).await.expect("the store answers").expect("accepted");
    answer.iter().map(|e| e.id).collect()
}

async fn claim(store: &SqliteStore, worker: &str, max: usize) -> Vec<Claimed> {
    let request = ClaimMany::new(who(worker), vec![name("default")], max, secret());
    store.claim(request, None).await.expect("the store answers")
}

async fn complete(store: &SqliteStore, held: &[Claimed]) -> Vec<JobId> {
    let item = |c: &Claimed| SettleItem { job: c.job.id, token: c.lease.token, outcome: completes() };
    let answers = store.settle(Settle { items: held.iter().map(item).collect() }, None).await;
    for answer in answers.expect("the store answers") {
        answer.expect("it is ours to complete");
    }
    held.iter().map(|c| c.job.id).collect()
}

/// Enqueues, claims and completes for ever, or so many times, and says what was acknowledged.
async fn hammer(store: Arc<SqliteStore>, times: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..6 {
        let store = store.clone();
        tasks.spawn(async move {
            for _ in 0..times {
                for id in enqueue(&store, vec![a_job(), a_job()]).await {
                    say(&format!("enqueued {id}"));
                }
                let held = claim(&store, &format!("hammer-{n}"), 3).await;
                for id in complete(&store, &held).await {
                    say(&format!("completed {id}"));
                }
            }
        });
    }
    tasks.join_all().await;
}

/// Completes whatever is there, until nothing is.
async fn work(store: Arc<SqliteStore>) {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..2 {
        let store = store.clone();
        tasks.spawn(async move {
            loop {
                let held = claim(&store, &format!("worker-{}-{n}", std::process::id()), 4).await;
                if held.is_empty() {
                    return;
                }
                for id in complete(&store, &held).await {
                    say(&format!("completed {id}"));
                }
            }
        });
    }
    tasks.join_all().await;
}

/// J12: what a process of these tests does: its role, or the hammer's for a moment.
#[test]
fn child() {
    let Some((role, file)) = role() else {
        let place = Place::new();
        wait_for(async {
            hammer(place.open(), 5).await;
            place.is_sound().await;
        });
        return;
    };
    wait_for(async {
        match role.as_str() {
            "hammer" => hammer(open(&file), usize::MAX).await,
            "open" => {
                say("ready");
                listen();
                let store = open(&file);
                say(&format!("enqueued {}", enqueue(&store, vec![a_job()]).await[0]));
            }
            "work" => {
                let store = open(&file);
                say("ready");
                listen();
                work(store).await;
            }
            "idle" => {
                let store = open(&file);
                say("ready");
                while listen() {
                    say(&format!("enqueued {}", enqueue(&store, vec![a_job()]).await[0]));
                }
            }
            other => panic!("there is no role {other}"),
        }
    });
}

/// What was said, by verb.
fn acknowledged(said: &[String], into: &mut BTreeMap<String, BTreeSet<JobId>>) {
    for words in said {
        let (verb, id) = words.split_once(' ').expect("a verb and an id");
        into.entry(verb.to_owned()).or_default().insert(JobId::parse(id).expect("an id"));
    }
}

/// T11: ten processes that open the same new file at the same moment all succeed, and each can enqueue.
#[test]
fn ten_processes_make_one_store() {
    for _ in 0..3 {
        let place = Place::new();
        let mut all: Vec<Process> = (0..10).map(|_| Process::start("open", &place.path)).collect();
        assert!(all.iter().all(|p| p.hears() == "ready"));
        all.iter_mut().for_each(Process::tells);
        let mut said = BTreeMap::new();
        for process in all {
            let (end, words) = process.ends();
            assert!(end.success(), "a process failed: {words:?}");
            acknowledged(&words, &mut said);
        }
        assert_eq!(said["enqueued"].len(), 10);
        wait_for(place.is_sound());
        let recorded: i64 = place
            .hand()
            .query_row("SELECT count(*) FROM windlass_migrations", (), |r| r.get(0))
            .expect("a ledger");
        assert_eq!(recorded, 1, "it was migrated once");
    }
}

/// J5, J12: processes are killed under load at random moments. What they acknowledged is there, nothing is half
/// there, the others are not held up, and the work goes on.
#[test]
fn nothing_acknowledged_is_lost_to_a_kill() {
    let place = Place::new();
    let mut said = BTreeMap::new();
    for round in 0..5 {
        let (first, second) = (Process::start("hammer", &place.path), Process::start("hammer", &place.path));
        let mut heard = vec![first.hears(), second.hears()];
        let ms = 50 + u64::from(u16::from_be_bytes(random())) % 400;
        std::thread::sleep(Duration::from_millis(ms));
        heard.extend(first.kills());
        while second.hears_within(Duration::ZERO).is_some_and(|words| {
            heard.push(words);
            true
        }) {}
        heard.push(second.hears_within(Duration::from_secs(20)).expect("the survivor goes on"));
        std::thread::sleep(Duration::from_millis(ms / 4));
        heard.extend(second.kills());
        acknowledged(&heard, &mut said);
        let store = open(&place.path);
        wait_for(async {
            assert_eq!(store.integrity().await.expect("the store answers"), "ok", "round {round}, {ms} ms");
            let bed = Bed::new(store.clone());
            for id in &said["enqueued"] {
                let view = store.job(*id, None).await.expect("the store answers");
                let status = view.unwrap_or_else(|| panic!("{id} was acknowledged and is gone")).job.status;
                let completed = said.get("completed").is_some_and(|c| c.contains(id));
                assert!(!completed || status == Status::Completed, "{id} was completed and is {status}");
            }
            windlass_conformance::invariants::check(&bed).await;
        });
    }
    wait_for(async {
        let store = open(&place.path);
        let bed = Bed::new(store);
        // Everybody who held something is dead; their leases are over by then.
        let later = Some(wall_clock().plus_ms(31_000));
        loop {
            let held = bed.claims("survivor", 500, later).await;
            if held.is_empty() {
                break;
            }
            for held in held {
                bed.settles(&held, completes(), later).await.expect("it completes");
            }
        }
        let rows = windlass_conformance::invariants::every_job(&bed).await;
        assert!(rows.len() >= said["enqueued"].len());
        assert!(rows.iter().all(|job| job.status == Status::Completed), "everything is done in the end");
    });
}

/// J7, J12: processes that share a file share its work: each job once, nobody refused, nobody starved.
#[test]
fn processes_share_the_work() {
    for processes in [2, 4] {
        let place = Place::new();
        wait_for(async {
            let store = place.open();
            enqueue(&store, (0..2_000).map(|_| a_job()).collect()).await;
        });
        let mut all: Vec<Process> = (0..processes).map(|_| Process::start("work", &place.path)).collect();
        assert!(all.iter().all(|p| p.hears() == "ready"));
        all.iter_mut().for_each(Process::tells);
        let (mut done, mut shares) = (BTreeSet::new(), Vec::new());
        for process in all {
            let (end, words) = process.ends();
            assert!(end.success(), "no process sees an error");
            let mut said = BTreeMap::new();
            acknowledged(&words, &mut said);
            let share = said.remove("completed").unwrap_or_default();
            shares.push(share.len());
            assert!(done.is_disjoint(&share), "a job is completed by one process");
            done.extend(share);
        }
        assert_eq!(done.len(), 2_000, "every job is completed");
        assert!(shares.iter().all(|n| *n >= 100), "each process gets at least 5 %: {shares:?}");
        wait_for(async {
            let bed = place.bed();
            for job in windlass_conformance::invariants::every_job(&bed).await {
                assert_eq!(
                    (job.status, job.attempt, job.version),
                    (Status::Completed, 1, 3),
                    "once: {job:?}"
                );
            }
            windlass_conformance::invariants::check(&bed).await;
        });
    }
}

/// J9, J12: what another process enqueues is hinted at here, soon.
#[test]
fn hints_cross_processes() {
    let place = Place::new();
    let mut other = Process::start("idle", &place.path);
    assert_eq!(other.hears(), "ready");
    wait_for(async {
        let store = place.open();
        let mut hints = store.hints();
        for _ in 0..3 {
            // A first look at the file is needed to notice a change of it.
            tokio::time::sleep(Duration::from_millis(200)).await;
            hints.due.mark_unchanged();
            hints.feed.mark_unchanged();
            other.tells();
            assert!(other.hears().starts_with("enqueued"));
            let both = async { (hints.due.changed().await, hints.feed.changed().await) };
            let hinted = tokio::time::timeout(Duration::from_secs(2), both).await;
            assert!(matches!(hinted, Ok((Ok(()), Ok(())))), "a hint comes within 2 s: {hinted:?}");
            assert_eq!(claim(&store, "w", 1).await.len(), 1, "and there is something to claim");
        }
    });
}

/// J12: a process that stands still with the file open holds nobody up, and goes on when it is let.
#[test]
fn a_process_that_stands_still_holds_nobody_up() {
    let signal = |process: &Process, signal: &str| {
        let kill = format!("kill -{signal} {}", process.id());
        assert!(std::process::Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    };
    let place = Place::new();
    let mut still = Process::start("idle", &place.path);
    assert_eq!(still.hears(), "ready");
    still.tells();
    assert!(still.hears().starts_with("enqueued"));
    signal(&still, "STOP");
    let work = async {
        let store = place.open();
        enqueue(&store, (0..200).map(|_| a_job()).collect()).await;
        work(store).await;
        place.is_sound().await;
    };
    wait_for(async { tokio::time::timeout(Duration::from_secs(20), work).await })
        .expect("nobody waits for it");
    signal(&still, "CONT");
    still.tells();
    assert!(still.hears().starts_with("enqueued"));
    let (end, _) = still.ends();
    assert!(end.success());
    wait_for(place.is_sound());
}

/// J5: another program that keeps the file for a second delays writers by that and fails none of them; readers do
/// not even wait.
#[test]
fn a_foreign_lock_only_delays_writers() {
    let place = Place::new();
    wait_for(async {
        let store = place.open();
        let before = enqueue(&store, vec![a_job()]).await[0];
        let hand = place.hand();
        hand.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let store = store.clone();
            tasks.spawn(async move { enqueue(&store, vec![a_job()]).await });
        }
        for _ in 0..10 {
            let read = tokio::time::timeout(Duration::from_secs(10), store.job(before, None)).await;
            assert!(read.expect("readers do not wait").expect("the store answers").is_some());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(tasks.try_join_next().is_none(), "writers wait");
        hand.execute_batch("COMMIT").expect("the lock is given back");
        let all = tokio::time::timeout(Duration::from_secs(20), tasks.join_all()).await;
        assert_eq!(all.expect("and then go on").len(), 20);
    });
    wait_for(place.is_sound());
}
