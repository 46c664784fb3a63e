//! Calls that come at once share statements, and nobody can tell: each is answered as if it had come alone.

mod support;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use support::{Database, database, hand, soon, until, wait_for};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use windlass_conformance::{Bed, at, completes, fails_for_good, invariants, json, key, name};
use windlass_core::unique::{Policy, Scope, Unique};
use windlass_core::{Actor, Done, JobId, LeaseMs, NewJob, Outcome, Refusal, Status};
use windlass_postgres::Options;
use windlass_store::{
    BatchRefusal, Claimed, Enqueue, Enqueued, Extend, Settle, SettleItem, StoreError, StoreResult,
};

async fn place() -> (Bed, Client, Database) {
    let (url, database) = database().await;
    let store = Options::new(&url).pool(8).open().await.expect("a store");
    (Bed::new(Arc::new(store)), hand(&url).await, database)
}

/// Calls, all on their way before the first is answered; the answers in their order.
async fn at_once<T: Send + 'static>(
    calls: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut tasks = JoinSet::new();
    for (n, call) in calls.into_iter().enumerate() {
        tasks.spawn(async move { (n, call.await) });
    }
    let mut answers = soon("every call is answered", tasks.join_all()).await;
    answers.sort_by_key(|(n, _)| *n);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

type Answered = StoreResult<Result<Vec<Enqueued>, BatchRefusal>>;

async fn enqueue(bed: Bed, job: NewJob) -> Answered {
    bed.store.enqueue(Enqueue { jobs: vec![job], actor: Actor::api(), idempotency: None }, None).await
}

async fn settle(bed: Bed, held: Claimed, outcome: Outcome) -> StoreResult<Vec<windlass_core::Answer>> {
    let item = SettleItem { job: held.job.id, token: held.lease.token, outcome };
    bed.store.settle(Settle { items: vec![item] }, None).await
}

async fn held(bed: &Bed, count: usize) -> Vec<Claimed> {
    bed.enqueue_all((0..count).map(|_| bed.job("work")).collect(), None).await;
    let held = bed.claims("w", count, None).await;
    assert_eq!(held.len(), count);
    held
}

/// How many transactions wrote the events of a type.
async fn transactions(hand: &Client, type_name: &str) -> i64 {
    let count = "SELECT count(DISTINCT tx) FROM windlass.job_events WHERE type = $1";
    hand.query_one(count, &[&type_name]).await.expect("a count").get(0)
}

/// A row like that cannot be written.
async fn forbid(hand: &Client, condition: &str) {
    let check = format!("ALTER TABLE windlass.job_events ADD CONSTRAINT forbidden CHECK ({condition})");
    hand.batch_execute(&check).await.expect("a constraint");
}

/// (performance): a hundred callers need far fewer commits than calls.
#[test]
fn calls_at_once_share_commits() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let jobs: Vec<NewJob> = (0..200).map(|_| bed.job("work")).collect();
        let answers = at_once(jobs.iter().map(|job| enqueue(bed.clone(), job.clone()))).await;
        for (answer, job) in answers.into_iter().zip(&jobs) {
            let fresh = Enqueued { id: job.id, existed: false, payload_differs: false, dropped: false };
            assert_eq!(answer, Ok(Ok(vec![fresh])));
        }
        assert!(transactions(&hand, "job_created").await < 100);
        let held = bed.claims("w", 200, None).await;
        assert_eq!(held.len(), 200);
        let answers = at_once(held.into_iter().map(|held| settle(bed.clone(), held, completes()))).await;
        assert!(answers.iter().all(|a| *a == Ok(vec![Ok(Done::Moved(3, Status::Completed))])), "{answers:?}");
        assert!(transactions(&hand, "job_completed").await < 100);
        invariants::check(&bed).await;
    });
}

/// (performance): completions whose rows somebody else holds locked for a moment are waited for together, and made in one
/// more transaction.
#[test]
fn rows_locked_for_a_moment_are_settled_together() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let held = held(&bed, 50).await;
        // All of them, as by a claim that raced the one that took them.
        let lock = "SELECT FROM windlass.jobs FOR UPDATE";
        hand.batch_execute(&format!("BEGIN; {lock}")).await.expect("locks");
        let item = |c: &Claimed| SettleItem { job: c.job.id, token: c.lease.token, outcome: completes() };
        let request = Settle { items: held.iter().map(item).collect() };
        let settled = tokio::join!(bed.store.settle(request, None), async {
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            let waits = async || hand.query_one(waits, &[]).await.expect("a count").get::<_, i64>(0) > 0;
            until("somebody waits", waits).await;
            hand.batch_execute("COMMIT").await.expect("no locks");
        });
        let answers = settled.0.expect("the store answers");
        assert!(answers.iter().all(|a| *a == Ok(Done::Moved(3, Status::Completed))), "{answers:?}");
        assert_eq!(transactions(&hand, "job_completed").await, 1);
        invariants::check(&bed).await;
    });
}

/// J7, M1: ids that are taken are found among many that are not, and those still share their commits.
#[test]
fn a_taken_id_is_left_out_and_the_others_stay_together() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let old: Vec<NewJob> = (0..5).map(|_| bed.job("work")).collect();
        for job in &old {
            enqueue(bed.clone(), job.clone()).await.expect("the store answers").expect("accepted");
        }
        let before = transactions(&hand, "job_created").await;
        let mut jobs: Vec<NewJob> = (0..200).map(|_| bed.job("work")).collect();
        for (n, job) in old.iter().enumerate() {
            jobs.insert(n * 40 + 20, job.clone());
        }
        let answers = at_once(jobs.iter().map(|job| enqueue(bed.clone(), job.clone()))).await;
        for (answer, job) in answers.into_iter().zip(&jobs) {
            let existed = old.iter().any(|o| o.id == job.id);
            assert_eq!(
                answer,
                Ok(Ok(vec![Enqueued { id: job.id, existed, payload_differs: false, dropped: false }]))
            );
        }
        assert!(transactions(&hand, "job_created").await - before < 100);
        invariants::check(&bed).await;
    });
}

/// J7, M1: neighbours with the same id, the same unique key or another actor are answered as if one came after the other.
#[test]
fn neighbours_are_told_apart() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let mut calls = Vec::new();
        for n in 0..20 {
            let same = bed.job("same");
            let mut other = same.clone();
            other.payload = Some(json("{\"n\":2}"));
            let mut keyed = [bed.job("keyed"), bed.job("keyed")];
            for job in &mut keyed {
                let (scope, key) = (Scope::Kind(name("keyed")), key(&n.to_string()));
                job.facts.unique = Some(Unique { scope, key, policy: Policy::Active });
            }
            let [first, second] = keyed;
            calls.extend([same.clone(), same.clone(), other, first, second, same, bed.job("alone")]);
        }
        let answers = at_once(calls.iter().map(|job| enqueue(bed.clone(), job.clone()))).await;
        for (jobs, answers) in calls.chunks(7).zip(answers.chunks(7)) {
            let told: Vec<_> = answers.iter().map(|a| a.clone().expect("the store answers")).collect();
            let id = jobs[0].id;
            let existed = |n: usize| told[n].as_ref().ok().map(|e| (e[0].id, e[0].existed));
            let refused = |n: usize| told[n].as_ref().err().map(|e| (e.index, e.refusal.clone()));
            // Whichever came first is there; the same body again existed, another is refused.
            let won = |n: usize| existed(n) == Some((id, false));
            assert_eq!([0, 1, 2, 5].into_iter().filter(|n| won(*n)).count(), 1, "{told:?}");
            for n in [0, 1, 5].into_iter().filter(|n| !won(*n)) {
                if won(2) {
                    assert_eq!(refused(n), Some((0, Refusal::JobExists)), "{told:?}");
                } else {
                    assert_eq!(existed(n), Some((id, true)), "{told:?}");
                }
            }
            assert!(won(2) || refused(2) == Some((0, Refusal::JobExists)), "{told:?}");
            let [first, second] = [3, 4].map(|n| existed(n).expect("a key is no refusal"));
            assert_eq!(first.0, second.0, "one job has the key");
            assert!(first.1 != second.1, "and it is new once: {told:?}");
            assert_eq!(existed(6), Some((jobs[6].id, false)));
        }
        let actors: Vec<Actor> =
            (0..20).map(|n| Actor::parse("actor", format!("key:k{n}")).expect("an actor")).collect();
        let calls: Vec<_> = actors.iter().map(|actor| (bed.job("acted"), actor.clone())).collect();
        let requests =
            calls.clone().into_iter().map(|(job, actor)| {
                let (bed, request) = (bed.clone(), Enqueue { jobs: vec![job], actor, idempotency: None });
                async move {
                    bed.store.enqueue(request, None).await.expect("the store answers").expect("accepted")
                }
            });
        at_once(requests).await;
        for (job, actor) in calls {
            assert_eq!(bed.log(job.id).await[0].actor, actor);
        }
        assert!(transactions(&hand, "job_created").await > 0);
        invariants::check(&bed).await;
    });
}

/// J7: what the database refuses fails its own call, and nobody else's.
#[test]
fn a_bad_call_does_not_fail_its_neighbours() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        forbid(&hand, "kind IS DISTINCT FROM 'bad'").await;
        let jobs: Vec<NewJob> = (0..100).map(|n| bed.job(if n % 20 == 7 { "bad" } else { "good" })).collect();
        let answers = at_once(jobs.iter().map(|job| enqueue(bed.clone(), job.clone()))).await;
        for (answer, job) in answers.into_iter().zip(&jobs) {
            if job.facts.kind == name("bad") {
                assert!(
                    matches!(&answer, Err(StoreError::Unavailable(why)) if why.contains("forbidden")),
                    "{answer:?}"
                );
                assert!(bed.store.job(job.id, None).await.expect("the store answers").is_none());
            } else {
                assert_eq!(answer.map(|a| a.map(|e| e[0].id)), Ok(Ok(job.id)));
            }
        }
        invariants::check(&bed).await;
    });
}

/// J7: a result that cannot be stored leaves the others settled, of other callers and of its own request.
#[test]
fn a_bad_result_does_not_keep_others_from_ending() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        forbid(&hand, "type <> 'job_completed' OR payload <> '\"bad\"'").await;
        let bad = || Outcome::Complete(Some(json("\"bad\"")));
        let held = held(&bed, 110).await;
        let (many, single) = held.split_at(10);
        let outcomes: Vec<Outcome> =
            (0..100).map(|n| if n % 20 == 7 { bad() } else { completes() }).collect();
        let calls = single.iter().zip(&outcomes);
        let answers =
            at_once(calls.map(|(held, outcome)| settle(bed.clone(), held.clone(), outcome.clone()))).await;
        for (answer, outcome) in answers.iter().zip(&outcomes) {
            if *outcome == bad() {
                assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
            } else {
                assert_eq!(*answer, Ok(vec![Ok(Done::Moved(3, Status::Completed))]));
            }
        }
        let item = |n: usize, held: &Claimed| SettleItem {
            job: held.job.id,
            token: held.lease.token,
            outcome: if n == 4 { bad() } else { completes() },
        };
        let items = many.iter().enumerate().map(|(n, held)| item(n, held)).collect();
        let answer = bed.store.settle(Settle { items }, None).await;
        assert!(matches!(answer, Err(StoreError::Indeterminate(_))), "a part was done: {answer:?}");
        for (n, held) in many.iter().enumerate() {
            let status = if n == 4 { Status::Running } else { Status::Completed };
            assert_eq!(bed.row(held.job.id).await.status, status);
        }
        invariants::check(&bed).await;
    });
}

/// J6, J7: a store that fails while the jobs of a parent are settled does not say that nothing happened, where a part did.
#[test]
fn what_failed_halfway_is_not_called_undone() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        hand.batch_execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
             CREATE TRIGGER full_disk BEFORE INSERT ON windlass.job_events FOR EACH ROW
             WHEN (NEW.type = 'job_child_finished') EXECUTE FUNCTION full_disk()",
        )
        .await
        .expect("a trigger");
        let parent = bed.holds("w", bed.job("parent"), None).await;
        let mut held = held(&bed, 1).await;
        for _ in 0..2 {
            let mut child = bed.job_in("work", "children");
            child.facts.parent_id = Some(parent.job.id);
            held.push(bed.holds("w", child, None).await);
        }
        let item =
            |held: &Claimed| SettleItem { job: held.job.id, token: held.lease.token, outcome: completes() };
        let items: Vec<SettleItem> = held.iter().map(item).collect();
        let answer = bed.store.settle(Settle { items: items[1..].to_vec() }, None).await;
        assert!(matches!(answer, Err(StoreError::Full(_))), "nothing was done: {answer:?}");
        let answer = bed.store.settle(Settle { items }, None).await;
        assert!(matches!(answer, Err(StoreError::Indeterminate(_))), "a part was done: {answer:?}");
        for (n, held) in held.iter().enumerate() {
            let status = if n == 0 { Status::Completed } else { Status::Running };
            assert_eq!(bed.row(held.job.id).await.status, status);
        }
        invariants::check(&bed).await;
    });
}

/// (leases): settled and renewed at once with strangers, with foreign tokens, twice: everybody gets their own answer.
#[test]
fn leases_are_told_apart() {
    wait_for(async {
        let (bed, _hand, _database) = place().await;
        let held = held(&bed, 60).await;
        let extends = held.iter().enumerate().map(|(n, one)| {
            // Some for another time, some under another's token, one for two jobs.
            let ms = LeaseMs::new(if n % 2 == 0 { 60_000 } else { 90_000 }).expect("a lease");
            let token = held[if n % 10 == 3 { n + 1 } else { n }].lease.token;
            let mut leases = vec![(one.job.id, token)];
            if n == 0 {
                leases.push((held[1].job.id, held[1].lease.token));
            }
            let (bed, extend) = (bed.clone(), Extend { leases, extend_ms: ms });
            async move { bed.store.extend(extend, None).await.expect("the store answers") }
        });
        let answers = at_once(extends).await;
        for (n, answers) in answers.iter().enumerate() {
            assert_eq!(answers.len(), if n == 0 { 2 } else { 1 });
            if n % 10 == 3 {
                assert_eq!(answers[0], Err(Refusal::Mismatch));
                continue;
            }
            let until = answers[0].as_ref().expect("a live lease is renewed").expires_at;
            let more_ms = (until.as_micros() - held[n].lease.expires_at.as_micros()) / 1_000;
            let expected = if n % 2 == 0 { 30_000..60_000 } else { 60_000..90_000 };
            assert!(expected.contains(&more_ms), "{n}: {more_ms} ms more");
        }
        let settles = held.iter().enumerate().flat_map(|(n, one)| {
            let outcome = if n % 3 == 0 { fails_for_good("broken") } else { completes() };
            let mut foreign = one.clone();
            foreign.lease.token = held[(n + 1) % held.len()].lease.token;
            let calls = [(one.clone(), outcome.clone()), (one.clone(), outcome.clone()), (foreign, outcome)];
            calls.map(|(held, outcome)| settle(bed.clone(), held, outcome))
        });
        let answers = at_once(settles).await;
        for (n, answers) in answers.chunks(3).enumerate() {
            let status = if n % 3 == 0 { Status::Failed } else { Status::Completed };
            let told: Vec<_> =
                answers.iter().map(|a| a.clone().expect("the store answers").remove(0)).collect();
            let moved = told[..2].iter().filter(|t| **t == Ok(Done::Moved(3, status))).count();
            let again = told[..2].iter().filter(|t| **t == Ok(Done::Already(3))).count();
            assert_eq!((moved, again), (1, 1), "{told:?}");
            let refusals = [Err(Refusal::Mismatch), Err(Refusal::Finished(status))];
            assert!(refusals.contains(&told[2]), "{told:?}");
        }
        invariants::check(&bed).await;
    });
}

/// (performance): a call that must wait for somebody's open transaction keeps nobody else waiting.
#[test]
fn a_call_behind_a_lock_keeps_nobody_waiting() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let blocked: Vec<NewJob> = (0..4).map(|_| bed.job("blocked")).collect();
        hand.batch_execute("BEGIN").await.expect("a transaction");
        for job in &blocked {
            let put = "SELECT windlass.enqueue('blocked', id => $1)";
            hand.execute(put, &[job.id.as_uuid()]).await.expect("a job");
        }
        let mut waiting = JoinSet::new();
        let mut jobs = Vec::new();
        for n in 0..80 {
            if n % 20 == 5 {
                waiting.spawn(enqueue(bed.clone(), blocked[n / 20].clone()));
            }
            jobs.push(bed.job("work"));
        }
        let answers = at_once(jobs.iter().map(|job| enqueue(bed.clone(), job.clone()))).await;
        assert!(answers.iter().all(|a| matches!(a, Ok(Ok(_)))), "{answers:?}");
        assert!(waiting.try_join_next().is_none(), "they wait");
        hand.batch_execute("ROLLBACK").await.expect("an end");
        for answer in soon("the others are answered too", waiting.join_all()).await {
            assert!(!answer.expect("the store answers").expect("accepted")[0].existed);
        }
        invariants::check(&bed).await;
    });
}

/// (leases): a caller that gives up has its work done all the same, and its neighbours get their answers.
#[test]
fn the_work_of_a_dropped_caller_is_done() {
    wait_for(async {
        let (bed, _hand, _database) = place().await;
        let (kept, dropped): (Vec<NewJob>, Vec<NewJob>) =
            (0..60).map(|_| (bed.job("kept"), bed.job("dropped"))).unzip();
        let mut calls = JoinSet::new();
        for (kept, dropped) in kept.iter().zip(&dropped) {
            calls.spawn(enqueue(bed.clone(), kept.clone()));
            // Asked once, and never again.
            let mut call = Box::pin(enqueue(bed.clone(), dropped.clone()));
            poll_fn(|cx| {
                assert!(call.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        for answer in soon("the others are answered", calls.join_all()).await {
            assert!(!answer.expect("the store answers").expect("accepted")[0].existed);
        }
        let ids: Vec<JobId> = dropped.iter().map(|job| job.id).collect();
        until("what was dropped is there", async || {
            for id in &ids {
                if bed.store.job(*id, None).await.expect("the store answers").is_none() {
                    return false;
                }
            }
            true
        })
        .await;
        invariants::check(&bed).await;
    });
}

/// Q11, (leases): a sweep shares commits, and a row that cannot be acted on stops no other.
#[test]
fn a_bad_row_does_not_stop_a_sweep() {
    wait_for(async {
        let (bed, hand, _database) = place().await;
        let late = async |count: usize| {
            let mut jobs: Vec<NewJob> = (0..count).map(|_| bed.job("work")).collect();
            for job in &mut jobs {
                (job.facts.timeout_ms, job.facts.max_retries) = (Some(1_000), 0);
            }
            bed.enqueue_all(jobs, at(0)).await;
            bed.claims("w", count, at(0)).await
        };
        late(30).await;
        assert_eq!(bed.sweeps(at(2_000)).await.len(), 30);
        assert_eq!(transactions(&hand, "job_timed_out").await, 1, "thirty in one");
        let held = late(30).await;
        let bad = held[7].job.id;
        forbid(&hand, &format!("job_id <> '{}' OR version < 3", bad.as_uuid())).await;
        let swept = bed.sweeps(at(2_000)).await;
        assert_eq!(swept.len(), 29);
        for held in &held {
            let status = if held.job.id == bad { Status::Running } else { Status::TimedOut };
            assert_eq!(bed.row(held.job.id).await.status, status);
        }
        invariants::check(&bed).await;
    });
}
