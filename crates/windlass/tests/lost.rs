//! A store that loses answers and fails: a client repeats, and nothing happens twice.

mod support;

use std::sync::Arc;
use support::{Add, Task, task};
use windlass::testing::Rig;
use windlass::{Client, Context, Decision, Filter, HandlerError, Status, Store, Worker};
use windlass_memory::MemoryStore;
use windlass_store::{Faults, Faulty};

/// A client to a store that loses every third answer and fails before.
fn faulty_over(store: Arc<dyn Store>, seed: u64) -> Client {
    let faults = Faults { seed, fail_before: 15, lose_answer: 33, delay: 0, duplicate: 0 };
    Client::new(Arc::new(Faulty::new(store, faults)))
}

/// Such a client, and one to the store behind it.
fn faulty(seed: u64) -> (Client, Client) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    (faulty_over(Arc::clone(&store), seed), Client::new(store))
}

#[tokio::test(start_paused = true)]
async fn nothing_is_enqueued_twice() {
    for seed in 0..8 {
        let (client, behind) = faulty(seed);
        for n in 0..20 {
            let sent = client.enqueue(Add(n, 1)).await.unwrap();
            assert!(behind.job(sent.id).await.unwrap().is_some(), "it is there under the id that was told");
        }
        client.enqueue_many((0..20).map(|n| Add(n, 2))).await.unwrap();
        let all = behind.jobs(Filter::default(), None).await.unwrap();
        assert_eq!(all.items.len(), 40, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_is_told_what_became_of_it() {
    for seed in 0..16 {
        let (client, behind) = faulty(seed);
        let id = client.enqueue(Add(1, 2)).await.unwrap().id;
        client.cancel(id).await.unwrap();
        client.redrive(id).await.unwrap();
        assert!(!client.signal(id, "s", 1).await.unwrap(), "its own repeat is no duplicate");
        let fork = client.fork(id).await.unwrap();
        assert_eq!(behind.job(fork).await.unwrap().unwrap().job.status, Status::Pending);
        let events = behind.events(id).await.unwrap();
        let types: Vec<_> = events.iter().map(|e| e.what.type_name()).collect();
        assert_eq!(types, ["job_created", "job_cancelled", "job_redriven", "job_signalled"], "seed {seed}");
    }
}

/// A repeated vote is refused, for its work is done; whose answer was lost must not hear that as a no.
#[tokio::test(start_paused = true)]
async fn a_vote_whose_answer_was_lost_counts_and_a_second_one_does_not() {
    let asks = |_: Task, ctx: Context| async move {
        ctx.approval("go").prompt("go?").required(2).await.map(|()| String::new())
    };
    for seed in 0..16 {
        let rig = Rig::new();
        let worker = Worker::new(rig.client().clone()).queue("tasks", 1).handle(asks);
        let id = rig.client().enqueue(task("")).await.unwrap().id;
        rig.drain(&worker).await;
        let asked = rig.client().approvals(id).await.unwrap().remove(0).approval.id;
        let client = faulty_over(Arc::clone(rig.client().store()), seed);
        client.decide(asked, Decision::Approve).by("ada").reason("yes").await.unwrap();
        let again = rig.client().decide(asked, Decision::Approve).by("ada").reason("yes").await.unwrap_err();
        assert_eq!(again.refusal().map(|r| r.code()), Some("approval_decided"));
        client.decide(asked, Decision::Approve).by("eve").await.unwrap();
        assert_eq!(rig.client().approvals(id).await.unwrap().remove(0).votes.len(), 2, "seed {seed}");
    }
}

/// A handler that does everything once, over a store that fails half of the time.
#[tokio::test]
async fn a_whole_life_happens_once() {
    for seed in 0..4 {
        let (client, behind) = faulty(seed);
        let life = |job: Task, ctx: Context| async move {
            let part = ctx.step("part", || async { Ok::<_, HandlerError>(format!("{}!", job.text)) }).await?;
            ctx.approval("go").prompt("go?").await?;
            let child = ctx.spawn("child", Add(1, 2)).queue("tasks").await?;
            let sum = ctx.join("children", &[child]).await?.remove(0).map_err(HandlerError::permanent)?;
            Ok(format!("{part} {sum}"))
        };
        let add = |Add(a, b), _: Context| async move { Ok(a + b) };
        let id = client.enqueue(task("a")).await.unwrap().id;
        let worker = Worker::new(client.clone()).queue("tasks", 4).handle(life).handle(add);
        let decided = async {
            let mut events = behind.watch(id);
            while let Some(event) = futures_util::TryStreamExt::try_next(&mut events).await.unwrap() {
                if event.what.type_name() == "job_waiting" {
                    break;
                }
            }
            let asked = behind.approvals(id).await.unwrap().remove(0).approval.id;
            client.decide(asked, Decision::Approve).by("ada").await.unwrap();
            assert_eq!(behind.wait::<Task>(id).await.unwrap(), "a! 3", "seed {seed}");
        };
        worker.run_until(decided).await.unwrap();
        let votes = behind.approvals(id).await.unwrap().remove(0).votes.len();
        let ended = |e: &windlass::Event| {
            matches!(e.what.type_name(), "node_finished" | "job_children_added" | "job_completed")
        };
        let events = behind.events(id).await.unwrap();
        assert_eq!((votes, events.iter().filter(|e| ended(e)).count()), (1, 3), "seed {seed}: {events:?}");
    }
}
