//! A lock that a stranger holds stops nothing but its own row: every verb skips it or gives up soon, and answers for
//! that job alone. In each test the lock is held until the last answer is there, so none of them can be waiting for it.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::cluster::Cluster;
use support::proxy::Proxy;
use support::{Database, database, hand, soon, wait_for};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use windlass_conformance::{Bed, at, completes, fails, fails_for_good, invariants, key, name, redrive};
use windlass_core::flow::{Edge, Graph, On};
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::unique::{Policy, Scope, Unique};
use windlass_core::{Actor, Done, JobId, LeaseMs, NewJob, QueueLimits, Refusal, RunAt, Status};
use windlass_postgres::Options;
use windlass_store::{
    Adopt, Cancel, CancelIdle, Claimed, Extend, List, Settle, SettleItem, Signal, StoreError, Sweep,
};

async fn place() -> (Bed, String, Database) {
    let (url, database) = database().await;
    let store = Options::new(&url).pool(8).open().await.expect("a store");
    (Bed::new(Arc::new(store)), url, database)
}

/// Somebody who holds a row of `jobs` locked until the value is dropped.
async fn locks(url: &str, job: JobId) -> Client {
    let stranger = hand(url).await;
    stranger.batch_execute("BEGIN").await.expect("a transaction");
    let lock = "SELECT 1 FROM windlass.jobs WHERE id = $1 FOR UPDATE";
    assert_eq!(stranger.execute(lock, &[job.as_uuid()]).await.expect("a lock"), 1);
    stranger
}

/// A parent that waits for nothing yet, and children of it, all of them held by `w`.
async fn family(bed: &Bed, children: usize, lease_ms: Option<i64>) -> (JobId, Vec<Claimed>) {
    let parent = bed.enqueue(bed.job_in("parent", "parents"), None).await.id;
    let child = || {
        let mut job = bed.job("child");
        job.facts.parent_id = Some(parent);
        job.facts.lease_ms = lease_ms.map(|ms| LeaseMs::new(ms).expect("a lease"));
        job
    };
    bed.enqueue_all((0..children).map(|_| child()).collect(), None).await;
    let held = bed.claims("w", children, None).await;
    assert_eq!(held.len(), children);
    (parent, held)
}

async fn held(bed: &Bed, count: usize) -> Vec<Claimed> {
    bed.enqueue_all((0..count).map(|_| bed.job("work")).collect(), None).await;
    let held = bed.claims("w", count, None).await;
    assert_eq!(held.len(), count);
    held
}

fn renewal(held: &[Claimed]) -> Extend {
    let leases = held.iter().map(|h| (h.job.id, h.lease.token)).collect();
    Extend { leases, extend_ms: LeaseMs::new(60_000).expect("a lease") }
}

fn completion(held: &[Claimed]) -> Settle {
    let item = |h: &Claimed| SettleItem { job: h.job.id, token: h.lease.token, outcome: completes() };
    Settle { items: held.iter().map(item).collect() }
}

/// (a): one locked row of six: the others are renewed and answered, this one is answered for itself.
#[test]
fn a_locked_row_costs_no_other_lease() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let held = held(&bed, 6).await;
        let stranger = locks(&url, held[2].job.id).await;
        let answers = soon("renewals", bed.store.extend(renewal(&held), None)).await.expect("an answer");
        for (n, (answer, held)) in answers.iter().zip(&held).enumerate() {
            if n == 2 {
                assert_eq!(*answer, Err(Refusal::Busy));
            } else {
                let extended = answer.as_ref().expect("it is renewed");
                assert!(extended.expires_at > held.lease.expires_at);
            }
        }
        drop(stranger);
        let again = async || bed.store.extend(renewal(&held[2..3]), None).await.expect("an answer").remove(0);
        support::until("the lock is gone", async || again().await.is_ok()).await;
        invariants::check(&bed).await;
    });
}

/// (a): a parent that is locked is no matter of its children's renewals.
#[test]
fn a_locked_parent_costs_no_lease() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let (parent, held) = family(&bed, 3, None).await;
        let _stranger = locks(&url, parent).await;
        let mut leases = renewal(&held);
        // What the set-based statement leaves out is looked at by itself: a token that is not the lease's.
        leases.leases.push((held[0].job.id, held[1].lease.token));
        let answers = soon("renewals", bed.store.extend(leases, None)).await.expect("an answer");
        assert!(answers[..3].iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(answers[3], Err(Refusal::Mismatch));
    });
}

/// (b): a lost child that must end stands at the head of the line, its parent locked: the claim passes it over.
#[test]
fn a_claim_passes_an_end_whose_parent_is_locked() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let (parent, lost) = family(&bed, 1, Some(1_000)).await;
        let id = lost[0].job.id;
        bed.store
            .cancel(Cancel { job: id, wish: windlass_conformance::stop(), expected_version: None }, None)
            .await
            .expect("an answer")
            .expect("it is requested");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let behind = bed.a_job(None).await;
        let stranger = locks(&url, parent).await;
        for worker in ["a", "b"] {
            let claimed = soon("a claim", bed.claims(worker, 10, None)).await;
            let ids: Vec<JobId> = claimed.iter().map(|c| c.job.id).collect();
            assert_eq!(ids, if worker == "a" { vec![behind] } else { vec![] });
        }
        assert_eq!(bed.row(id).await.status, Status::Running);
        drop(stranger);
        let ended = async || {
            bed.claims("c", 10, None).await;
            bed.row(id).await.status == Status::Cancelled
        };
        support::until("the end is made up for", ended).await;
        invariants::check(&bed).await;
    });
}

/// (c): of six items three are under a held parent: three are settled, three answered for themselves.
#[test]
fn settling_under_a_locked_parent_delays_nobody_else() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let (parent, children) = family(&bed, 3, None).await;
        let others = held(&bed, 3).await;
        let mixed: Vec<Claimed> =
            children.iter().zip(&others).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        let stranger = locks(&url, parent).await;
        let answers =
            soon("six answers", bed.store.settle(completion(&mixed), None)).await.expect("an answer");
        let done = Ok(Done::Moved(3, Status::Completed));
        let busy = Err(Refusal::Busy);
        assert_eq!(answers, [busy.clone(), done.clone(), busy.clone(), done.clone(), busy, done.clone()]);
        drop(stranger);
        let again = async || {
            let answers = bed.store.settle(completion(&children), None).await.expect("an answer");
            answers.iter().all(Result::is_ok)
        };
        support::until("the lock is gone", again).await;
        assert_eq!(bed.row(parent).await.children, 0);
        invariants::check(&bed).await;
    });
}

/// (c): many completions under one held parent, at once: none is an error, and a pool of four still renews, reads,
/// claims and settles.
#[test]
fn completions_that_cannot_go_on_leave_the_pool_to_others() {
    wait_for(async {
        let (url, _database) = database().await;
        let store = Options::new(&url).pool(4).open().await.expect("a store");
        let bed = Bed::new(Arc::new(store));
        let (parent, children) = family(&bed, 24, None).await;
        let other = held(&bed, 2).await;
        let _stranger = locks(&url, parent).await;
        let mut completions = JoinSet::new();
        for child in children.clone() {
            let bed = bed.clone();
            // Each again and again, as a worker does.
            completions.spawn(async move {
                loop {
                    let answers = bed.store.settle(completion(std::slice::from_ref(&child)), None).await;
                    assert_eq!(answers, Ok(vec![Err(Refusal::Busy)]));
                }
            });
        }
        for _ in 0..5 {
            let renewed = bed.store.extend(renewal(&children), None).await.expect("an answer");
            assert!(renewed.iter().all(Result::is_ok), "{renewed:?}");
            bed.view(other[0].job.id, None).await;
            bed.a_job(None).await;
            assert_eq!(bed.claims("x", 1, None).await.len(), 1);
        }
        let settled = bed.store.settle(completion(&other), None).await.expect("an answer");
        assert_eq!(settled, [Ok(Done::Moved(3, Status::Completed)), Ok(Done::Moved(3, Status::Completed))]);
        assert!(completions.try_join_next().is_none(), "all of them go on");
    });
}

/// (d): a page full of deadlines under a held parent does not hide those behind it.
#[test]
fn a_sweep_pages_past_what_is_locked() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let parent = bed.enqueue(bed.job_in("parent", "parents"), None).await.id;
        let job = |parent: Option<JobId>| {
            let mut job = bed.job("work");
            job.facts.parent_id = parent;
            (job.facts.timeout_ms, job.facts.max_retries) = (Some(1), 0);
            job
        };
        let mut jobs: Vec<_> = (0..25).map(|_| job(Some(parent))).collect();
        jobs.push(job(None));
        let last = jobs[25].id;
        bed.enqueue_all(jobs, None).await;
        assert_eq!(bed.claims("w", 26, None).await.len(), 26);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let stranger = locks(&url, parent).await;
        let swept = soon("a sweep", bed.store.sweep(Sweep { limit: 10 }, None)).await.expect("an answer");
        assert_eq!(swept.iter().map(|s| s.job).collect::<Vec<_>>(), [last]);
        assert_eq!(bed.row(last).await.status, Status::TimedOut);
        drop(stranger);
        let mut count = 0;
        let all = async || {
            count += bed.store.sweep(Sweep { limit: 10 }, None).await.expect("an answer").len();
            count == 25
        };
        support::until("the others are swept", all).await;
        invariants::check(&bed).await;
    });
}

/// (e): a handler's own transaction asserts its lease, is renewed meanwhile, and completes: nothing deadlocks.
#[test]
fn a_handlers_own_transaction_never_deadlocks() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let (parent, held) = family(&bed, 2, None).await;
        let tx = hand(&url).await;
        tx.batch_execute("BEGIN").await.expect("a transaction");
        let token = held[0].lease.token.to_text();
        let assert = "SELECT 1 FROM windlass.assert_lease($1, $2)";
        tx.execute(assert, &[held[0].job.id.as_uuid(), &token]).await.expect("it is leased");
        // All of these look at the job, and some at its parent, while the transaction is open.
        let mut others = JoinSet::new();
        for n in 0..30 {
            let (bed, held) = (bed.clone(), held.clone());
            others.spawn(async move {
                let job = held[0].job.id;
                match n % 3 {
                    0 => {
                        let answers = bed.store.extend(renewal(&held), None).await.expect("an answer");
                        let fine = |a| matches!(a, &Ok(_) | &Err(Refusal::Busy | Refusal::Finished(_)));
                        assert!(answers.iter().all(fine), "{answers:?}");
                    }
                    1 => {
                        let signal = Signal {
                            job,
                            name: name("go"),
                            payload: None,
                            key: None,
                            actor: windlass_core::Actor::api(),
                        };
                        let answer = bed.store.signal(signal, None).await;
                        assert!(matches!(answer, Err(StoreError::Busy(_)) | Ok(_)), "{answer:?}");
                    }
                    _ => {
                        let answers =
                            bed.store.settle(completion(&held[1..]), None).await.expect("an answer");
                        assert!(answers[0].is_ok() || answers[0] == Err(Refusal::Busy), "{answers:?}");
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let complete = "SELECT windlass.complete($1, $2)";
        tx.execute(complete, &[held[0].job.id.as_uuid(), &token]).await.expect("it completes");
        tx.batch_execute("COMMIT").await.expect("it commits");
        soon("the others", others.join_all()).await;
        assert_eq!(bed.row(held[0].job.id).await.status, Status::Completed);
        assert!(bed.row(parent).await.children < 2);
        invariants::check(&bed).await;
    });
}

/// (e): two transactions of people, one asserting and completing, one cancelling: parents first, so none is a victim.
#[test]
fn two_transactions_of_people_never_deadlock() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let (_parent, held) = family(&bed, 1, None).await;
        let (one, other) = (hand(&url).await, hand(&url).await);
        let (job, token) = (*held[0].job.id.as_uuid(), held[0].lease.token.to_text());
        one.batch_execute("BEGIN").await.expect("a transaction");
        one.execute("SELECT 1 FROM windlass.assert_lease($1, $2)", &[&job, &token])
            .await
            .expect("it is leased");
        let mut cancels = JoinSet::new();
        cancels.spawn(async move { other.query_one("SELECT windlass.cancel($1)", &[&job]).await });
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        support::until("the cancel waits", async || {
            one.query_one(waits, &[]).await.expect("a count").get::<_, i64>(0) == 1
        })
        .await;
        one.execute("SELECT windlass.complete($1, $2)", &[&job, &token]).await.expect("it completes");
        one.batch_execute("COMMIT").await.expect("it commits");
        let cancelled = cancels.join_next().await.expect("an end").expect("no panic");
        assert_eq!(support::said(&cancelled.expect_err("it has finished")).0, "WL007");
        invariants::check(&bed).await;
    });
}

/// (f): an open transaction that enqueued a duplicate does not keep the key's holder from ending.
#[test]
fn an_open_duplicate_does_not_keep_the_holder_from_ending() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let stranger = hand(&url).await;
        let enqueue = "SELECT windlass.enqueue('work', unique_key => 'k', unique_policy => 'active')";
        let id: uuid::Uuid = stranger.query_one(enqueue, &[]).await.expect("a job").get(0);
        let held = bed.claims_one("w", None).await;
        assert_eq!(*held.job.id.as_uuid(), id);
        stranger.batch_execute("BEGIN").await.expect("a transaction");
        let same: uuid::Uuid = stranger.query_one(enqueue, &[]).await.expect("a duplicate").get(0);
        assert_eq!(same, id);
        let answer = soon("a completion", bed.settles(&held, completes(), None)).await;
        assert_eq!(answer, Ok(Done::Moved(3, Status::Completed)));
        stranger.batch_execute("COMMIT").await.expect("it commits");
        let next: uuid::Uuid = stranger.query_one(enqueue, &[]).await.expect("a job").get(0);
        assert_ne!(next, id, "the key is free again");
        invariants::check(&bed).await;
    });
}

/// (f): a key that an open transaction takes is busy for others, who are told so.
#[test]
fn a_key_of_an_open_transaction_is_busy() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let stranger = hand(&url).await;
        let enqueue = "BEGIN; SELECT windlass.enqueue('work', unique_key => 'k')";
        stranger.batch_execute(enqueue).await.expect("a job");
        let unique = || {
            let mut job = bed.job("work");
            job.facts.unique = Some(Unique {
                scope: Scope::Queue(name("default")),
                key: key("k"),
                policy: Policy::Succeeded,
            });
            job
        };
        let request = windlass_store::Enqueue {
            jobs: vec![unique()],
            actor: windlass_core::Actor::api(),
            idempotency: None,
        };
        let answer = soon("an enqueue", bed.store.enqueue(request.clone(), None)).await;
        assert!(matches!(answer, Err(StoreError::Busy(_))), "{answer:?}");
        stranger.batch_execute("COMMIT").await.expect("it commits");
        let answers = bed.store.enqueue(request, None).await.expect("an answer").expect("accepted");
        assert!(answers[0].existed);
    });
}

fn behind(bed: &Bed, upstream: &[JobId]) -> NewJob {
    let mut job = bed.job("work");
    let after = upstream.iter().map(|job| Edge { job: *job, on: On::Success, name: None }).collect();
    job.facts.graph = Some(Box::new(Graph { after, ..Graph::default() }));
    job
}

/// F13, F14: a locked predecessor delays its own end and redrive, and those of no other.
#[test]
fn a_locked_predecessor_stops_its_own_end_alone() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let held = held(&bed, 3).await;
        let [a, b, c] = [held[0].job.id, held[1].job.id, held[2].job.id];
        let both = bed.enqueue(behind(&bed, &[a, b]), None).await.id;
        let other = bed.enqueue(behind(&bed, &[c]), None).await.id;
        let stranger = locks(&url, a).await;
        let done = soon("the end of the other", bed.settles(&held[1], completes(), None)).await;
        assert!(matches!(done, Ok(Done::Moved(_, Status::Completed))), "{done:?}");
        let (row, next) = (bed.row(both).await, bed.enqueue(behind(&bed, &[b]), None).await.id);
        assert_eq!((row.children, row.due_at), (1, None));
        assert!(bed.row(next).await.due_at.is_some(), "what waits for the other alone runs");
        let busy = soon("its own end", bed.settles(&held[0], completes(), None)).await;
        assert_eq!(busy, Err(Refusal::Busy));
        let done = soon("the end of a stranger to it", bed.settles(&held[2], completes(), None)).await;
        assert!(matches!(done, Ok(Done::Moved(_, Status::Completed))), "{done:?}");
        assert!(bed.row(other).await.due_at.is_some());
        drop(stranger);
        support::until("the lock is gone", async || bed.settles(&held[0], completes(), None).await.is_ok())
            .await;
        assert!(bed.row(both).await.due_at.is_some());
        invariants::check(&bed).await;
    });
}

/// F14: a redrive needs every predecessor of what comes back; one that is locked makes it busy, and nothing is written.
#[test]
fn a_redrive_waits_for_no_locked_predecessor() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let held = held(&bed, 3).await;
        let [a, b, c] = [held[0].job.id, held[1].job.id, held[2].job.id];
        let both = bed.enqueue(behind(&bed, &[a, b]), None).await.id;
        let last = bed.enqueue(behind(&bed, &[both]), None).await.id;
        for held in [&held[0], &held[2]] {
            bed.settles(held, fails_for_good("broken"), None).await.expect("the holder may fail");
        }
        for locked in [b, both, last] {
            let before = [bed.snapshot(a).await, bed.snapshot(both).await, bed.snapshot(last).await];
            let stranger = locks(&url, locked).await;
            let busy = soon("a redrive", bed.store.redrive(redrive(a), None)).await;
            assert!(matches!(busy, Err(StoreError::Busy(_))), "{busy:?}");
            for before in &before {
                bed.is_unchanged(before).await;
            }
            stranger.batch_execute("ROLLBACK").await.expect("it lets go");
        }
        let stranger = locks(&url, b).await;
        let apart = soon("a redrive elsewhere", bed.redrives(redrive(c), None)).await;
        assert!(apart.is_ok(), "{apart:?}");
        stranger.batch_execute("ROLLBACK").await.expect("it lets go");
        bed.redrives(redrive(a), None).await.expect("nobody is in the way");
        assert_eq!((bed.row(both).await.children, bed.row(last).await.children), (2, 1));
        invariants::check(&bed).await;
    });
}

/// F18: a lane whose backlog an open transaction counts in is busy for other producers of that key, and for nobody else.
#[test]
fn a_lane_of_an_open_transaction_is_busy_for_its_producers_alone() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let each = LaneRule { backlog: Some(5), ..LaneRule::default() };
        let flow = QueueLimits { lanes: Some(Lanes { each, ..Lanes::default() }), ..QueueLimits::default() };
        bed.limits(flow, None).await;
        let keyed = |of: &str| {
            let mut job = bed.job("work");
            job.facts.key = Some(key(of));
            windlass_store::Enqueue { jobs: vec![job], actor: Actor::api(), idempotency: None }
        };
        bed.store.enqueue(keyed("acme"), None).await.expect("the store answers").expect("it enters");
        let stranger = hand(&url).await;
        let enqueue = "BEGIN; SELECT windlass.enqueue('work', key => 'acme')";
        stranger.batch_execute(enqueue).await.expect("a job");
        let busy = soon("an enqueue of the key", bed.store.enqueue(keyed("acme"), None)).await;
        assert!(matches!(busy, Err(StoreError::Busy(_))), "{busy:?}");
        let other = soon("an enqueue of another", bed.store.enqueue(keyed("globex"), None)).await;
        assert!(matches!(other, Ok(Ok(_))), "{other:?}");
        let taken = soon("a claim", bed.claims("w", 9, None)).await;
        assert_eq!(taken.len(), 2, "what is committed runs");
        let ended = soon("an end", bed.settles(&taken[0], completes(), None)).await;
        assert!(ended.is_ok(), "{ended:?}");
        stranger.batch_execute("COMMIT").await.expect("it commits");
        assert_eq!(bed.claims("w", 9, None).await.len(), 1);
        invariants::check(&bed).await;
    });
}

/// Verbs by id say that their own job is busy, and others are answered.
#[test]
fn verbs_by_id_answer_for_a_locked_job_alone() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let held = held(&bed, 2).await;
        let _stranger = locks(&url, held[0].job.id).await;
        for (n, held) in held.iter().enumerate() {
            let cancel =
                Cancel { job: held.job.id, wish: windlass_conformance::stop(), expected_version: None };
            let answer = soon("a cancel", bed.store.cancel(cancel, None)).await;
            match n {
                0 => assert!(matches!(answer, Err(StoreError::Busy(_))), "{answer:?}"),
                _ => assert!(matches!(answer, Ok(Ok(Done::Moved(..)))), "{answer:?}"),
            }
        }
        let failed = SettleItem { job: held[0].job.id, token: held[0].lease.token, outcome: fails("x") };
        let released = SettleItem {
            job: held[1].job.id,
            token: held[1].lease.token,
            outcome: windlass_core::Outcome::Release(RunAt::Now),
        };
        let request = Settle { items: vec![failed, released] };
        let answers = soon("two answers", bed.store.settle(request, None)).await.expect("an answer");
        assert_eq!(answers[0], Err(Refusal::Busy));
        assert!(answers[1].is_ok(), "{answers:?}");
        let list = List { filter: windlass_core::Filter::default(), cursor: None, limit: 10 };
        assert_eq!(bed.store.jobs(list, None).await.expect("a list").expect("a page").items.len(), 2);
    });
}

/// TCP stands and the server says nothing: whoever asks is answered, what may have happened is told as such, and new
/// connections take the place of the silent ones.
#[test]
fn a_silent_server_is_given_up_and_new_connections_are_made() {
    wait_for(async {
        let cluster = Cluster::start_on_port(&["fsync=off"]);
        let proxy = Proxy::before(cluster.port()).await;
        let options = Options::new(&proxy.url()).pool(4).timeout(Duration::from_secs(1));
        let bed = Bed::new(Arc::new(options.open().await.expect("a store")));
        let held = held(&bed, 4).await;
        // Connections of each kind, at rest.
        for _ in 0..3 {
            bed.view(held[0].job.id, None).await;
            bed.store.extend(renewal(&held), None).await.expect("an answer");
        }
        let made = proxy.tricks.made.load(Ordering::Relaxed);
        proxy.tricks.silent_up_to.store(made, Ordering::Relaxed);

        let list = || List { filter: windlass_core::Filter::default(), cursor: None, limit: 10 };
        let (listed, settled, renewed) = tokio::join!(
            soon("a list", bed.store.jobs(list(), None)),
            soon("an end", bed.store.settle(completion(&held), None)),
            soon("a renewal", bed.store.extend(renewal(&held), None)),
        );
        assert!(matches!(listed, Err(StoreError::Unavailable(_))), "{listed:?}");
        assert!(matches!(settled, Err(StoreError::Indeterminate(_))), "COMMIT was sent: {settled:?}");
        assert!(matches!(renewed, Err(StoreError::Indeterminate(_))), "COMMIT was sent: {renewed:?}");

        // Every connection that was silent is thrown away with the first of its kind that is noticed.
        let answers = soon("a repeat", bed.store.settle(completion(&held), None)).await.expect("an answer");
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(bed.store.jobs(list(), None).await.expect("a list").expect("a page").items.len(), 4);
        let renewed = bed.store.extend(renewal(&held), None).await.expect("an answer");
        assert!(renewed.iter().all(|r| *r == Err(Refusal::Finished(Status::Completed))), "{renewed:?}");
        assert!(proxy.tricks.made.load(Ordering::Relaxed) > made, "there are new ones");
        drop(bed);
    });
}

/// A commit that stopped waiting for its synchronous standby stands on one server only: nobody is told that it happened.
#[test]
fn a_commit_that_no_standby_confirmed_is_unknown() {
    wait_for(async {
        let cluster = Cluster::start(&["fsync=off"]);
        let options = Options::new(&cluster.url()).pool(4);
        let bed = Bed::new(Arc::new(options.open().await.expect("a store")));
        bed.a_job(None).await;
        let hand = hand(&cluster.url()).await;
        let standby = async |names: &str| {
            hand.batch_execute("SET synchronous_commit = local").await.expect("a setting");
            hand.batch_execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"))
                .await
                .expect("a setting");
            hand.batch_execute("SELECT pg_reload_conf()").await.expect("a setting");
            let shown = async || {
                let row = hand.query_one("SHOW synchronous_standby_names", &[]).await.expect("a setting");
                row.get::<_, String>(0) == names
            };
            support::until("the setting is in force", shown).await;
            // Those who commit hear it from another process, a moment later.
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        };
        standby("nobody").await;
        let job = bed.job("work");
        let request = windlass_store::Enqueue {
            jobs: vec![job],
            actor: windlass_core::Actor::api(),
            idempotency: None,
        };
        let (asked, store) = (request.clone(), Arc::clone(&bed.store));
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { store.enqueue(asked, None).await });
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        support::until("the commit waits, and is cancelled", async || {
            hand.execute(cancel, &[]).await.expect("a look") == 1
        })
        .await;
        let answer = soon("an answer", waiting.join_next()).await.expect("an end").expect("no panic");
        assert!(matches!(answer, Err(StoreError::Indeterminate(_))), "{answer:?}");
        let list = List { filter: windlass_core::Filter::default(), cursor: None, limit: 10 };
        let listed = bed.store.jobs(list, None).await.expect("reads go on").expect("a page");
        assert_eq!(listed.items.len(), 2, "it stands on this server");
        standby("").await;
        let answers =
            soon("a repeat", bed.store.enqueue(request, None)).await.expect("an answer").expect("accepted");
        assert!(answers[0].existed);
        drop(bed);
    });
}

/// Leases that are over: those of jobs that a stranger keeps locked stay where they are, all others are taken up.
#[test]
fn a_locked_row_keeps_no_other_lost_job_from_its_line() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        bed.enqueue_all((0..6).map(|_| bed.job("work")).collect(), at(0)).await;
        let lost: Vec<JobId> = bed.claims("w", 6, at(0)).await.iter().map(|held| held.job.id).collect();
        let stranger = locks(&url, lost[2]).await;
        let again = soon("a claim", bed.claims("v", 10, at(31_000))).await;
        let free: Vec<JobId> = lost.iter().copied().filter(|id| *id != lost[2]).collect();
        assert_eq!(again.iter().map(|held| held.job.id).collect::<Vec<_>>(), free);
        drop(stranger);
        let mut later = 32_000;
        support::until("the last one is taken up", async || {
            later += 1_000;
            bed.claims("v", 1, at(later)).await.iter().any(|held| held.job.id == lost[2])
        })
        .await;
    });
}

/// What points at jobs is mended beside a stranger's lock: what is locked is left to the next time.
#[test]
fn a_locked_row_keeps_no_other_from_being_mended() {
    wait_for(async {
        let (url, _database) = database().await;
        let store = Arc::new(Options::new(&url).pool(8).open().await.expect("a store"));
        let bed = Bed::new(Arc::clone(&store) as _);
        bed.enqueue_all((0..5).map(|_| bed.job("work")).collect(), None).await;
        let breaker = hand(&url).await;
        let lost = "SET application_name = 'windlass test'; DELETE FROM windlass.line";
        breaker.batch_execute(lost).await.expect("a broken line");
        let broken = store.out_of_line(10).await.expect("an answer");
        assert_eq!(broken.len(), 5);
        let stranger = locks(&url, broken[3].0).await;
        assert_eq!(soon("mending", store.mend_line()).await, Ok(4));
        assert_eq!(bed.claims("w", 10, None).await.len(), 4, "they run");
        drop(stranger);
        support::until("the last one is mended", async || store.mend_line().await == Ok(1)).await;
        assert_eq!(store.out_of_line(10).await, Ok(vec![]));
    });
}

/// A new incarnation begins when everything that is numbered has ended. Where a stranger's transaction has not, the call
/// says so soon and nothing is changed; everybody else goes on.
#[test]
fn an_open_transaction_delays_an_adoption_and_nobody_else() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let stranger = hand(&url).await;
        stranger.batch_execute("BEGIN; SELECT windlass.enqueue('late')").await.expect("an open transaction");
        let before = bed.store.feed_head((), None).await.expect("the store answers").life;
        let adopt = || bed.store.adopt(Adopt { actor: Actor::api() }, None);
        let refused = soon("an adoption", adopt()).await.expect_err("it is not the time");
        assert!(matches!(refused, StoreError::Busy(_)), "{refused:?}");
        let held = soon("a job's life", held(&bed, 3)).await;
        soon("an end", bed.store.settle(completion(&held), None)).await.expect("the store answers");
        assert_eq!(bed.store.feed_head((), None).await.expect("the store answers").life, before);
        stranger.batch_execute("COMMIT").await.expect("the end");
        let after = adopt().await.expect("the store answers");
        assert_eq!(after.incarnation, before.incarnation + 1);
    });
}

/// T9: of idle jobs, one that a stranger keeps locked is passed over, and so is one whose parent is; the others are cancelled.
#[test]
fn a_locked_job_costs_no_other_idle_one() {
    wait_for(async {
        let (bed, url, _database) = place().await;
        let parent = bed.enqueue(bed.job("parent"), at(0)).await.id;
        let mut child = bed.job("child");
        child.facts.parent_id = Some(parent);
        let jobs = vec![bed.job("work"), bed.job("work"), bed.job("work"), child];
        let jobs: Vec<JobId> = bed.enqueue_all(jobs, at(0)).await.iter().map(|made| made.id).collect();
        let epoch = bed.leads("a", at(1_000)).await.expect("free").epoch;
        let wish = CancelIdle { term: name("leader"), epoch, idle_ms: 1_000, jobs: jobs.clone() };
        let cancels = async || bed.store.cancel_idle(wish.clone(), at(1_000)).await.expect("an answer");
        let strangers = (locks(&url, jobs[1]).await, locks(&url, parent).await);
        let answers = soon("idle jobs", cancels()).await.expect("it leads");
        assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
        assert_eq!((&answers[1], &answers[3]), (&Err(Refusal::Busy), &Err(Refusal::Busy)));
        drop(strangers);
        let is_free = async || !cancels().await.expect("it leads").contains(&Err(Refusal::Busy));
        support::until("the locks are gone", is_free).await;
        for job in jobs {
            assert_eq!(bed.row(job).await.status, Status::Cancelled);
        }
        invariants::check(&bed).await;
    });
}
