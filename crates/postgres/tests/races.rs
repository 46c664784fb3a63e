//! What can only race where several connections write at once: rows that are not there yet, families of jobs,
//! batches in different orders.

mod support;

use std::sync::Arc;
use tokio::task::JoinSet;
use windlass_conformance::{Bed, Made, at, completes, fails_for_good, fork, name, run, stop_at_once, who};
use windlass_core::registry::QueueDefaults;
use windlass_core::{Actor, ApprovalId, Done, JobId, LeaseMs, Metadata, Refusal, Status};
use windlass_postgres::Options;
use windlass_store::{Assign, Cancel, PauseQueue, Purge, PutAccessKey, PutQueue, PutWorker, ReadAudit};

async fn make() -> Made {
    let (url, database) = support::database().await;
    let store = Options::new(&url).pool(16).open().await.expect("a store");
    Made { store: Arc::new(store), keep: Box::new(database) }
}

/// Does something `count` times at once.
async fn at_once<T, F>(bed: &Bed, count: usize, act: impl Fn(Bed, usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut racers = JoinSet::new();
    for n in 0..count {
        racers.spawn(act(bed.clone(), n));
    }
    racers.join_all().await
}

/// How many entries of the audit tell of `action`.
async fn audited(bed: &Bed, action: &str) -> usize {
    let page = ReadAudit { before: None, limit: 1_000 };
    let audit = bed.store.audit(page, None).await.expect("the store answers");
    audit.iter().filter(|entry| entry.action == name(action)).count()
}

/// (terms): a term that nobody held yet has one first holder, and everybody else learns whose it is.
#[test]
fn the_first_term_is_taken_once() {
    run(make, |bed| async move {
        let taken =
            at_once(&bed, 12, |bed, n| async move { bed.leads(&format!("node-{n}"), at(0)).await }).await;
        let won: Vec<_> = taken.iter().flatten().collect();
        assert_eq!(won.len(), 1, "{taken:?}");
        assert_eq!(won[0].epoch, 1);
        assert!(taken.iter().filter_map(|t| t.as_ref().err()).all(|term| term == won[0]), "{taken:?}");
    });
}

/// (registry): whoever makes a queue, a worker or a key at the same time overwrites nobody.
#[test]
fn nobody_overwrites_what_was_made_at_the_same_time() {
    run(make, |bed| async move {
        for round in 0..5 {
            let queue = format!("q{round}");
            at_once(&bed, 8, |bed, n| {
                let (name, actor) = (name(&queue), Actor::api());
                async move {
                    if n % 2 == 0 {
                        let pause = PauseQueue { name, pause: true, actor };
                        bed.store.pause_queue(pause, at(0)).await.expect("paused");
                    } else {
                        let defaults = QueueDefaults { max_retries: Some(7), ..QueueDefaults::default() };
                        let put = PutQueue { defaults: Some(defaults), ..PutQueue::new(name, actor) };
                        bed.store.put_queue(put, at(0)).await.expect("the store answers").expect("put");
                    }
                }
            })
            .await;
        }
        let queues = bed.store.queues(10, at(0)).await.expect("the store answers");
        assert!(queues.iter().all(|q| q.queue.paused.is_some() && q.queue.defaults.max_retries == Some(7)));
        assert_eq!(
            (queues.len(), audited(&bed, "queue.pause").await, audited(&bed, "queue.put").await),
            (5, 5, 5)
        );
        at_once(&bed, 12, |bed, n| async move {
            let (queues, kinds, labels) = (vec![name("default")], vec![], Metadata::new());
            let ttl_ms = LeaseMs::DEFAULT;
            let put = PutWorker {
                id: who("w"),
                queues,
                kinds,
                capacity: 1,
                slots: Default::default(),
                labels,
                draining: n == 3,
                ttl_ms,
            };
            bed.store.put_worker(put, at(n as i64)).await.expect("the store answers")
        })
        .await;
        let workers = bed.store.workers((), at(0)).await.expect("the store answers");
        assert!(workers.len() == 1 && workers[0].draining, "{workers:?}");
        let made = at_once(&bed, 12, |bed, n| async move {
            let (hash, roles, actor) = ([n as u8 / 2; 32], vec![], Actor::api());
            let put = PutAccessKey { name: who("ann"), hash, roles, queues: None, expires_at: None, actor };
            bed.store.put_access_key(put, at(0)).await.expect("the store answers")
        })
        .await;
        assert_eq!(made.iter().filter(|made| **made).count(), 2, "the one that won and its repeat: {made:?}");
        assert_eq!(audited(&bed, "key.create").await, 1);
    });
}

/// (waits): two jobs that bring the same approval id: one gets it, the other is told.
#[test]
fn an_approval_id_is_taken_once() {
    run(make, |bed| async move {
        for n in 0..6 {
            bed.a_job(at(n)).await;
        }
        let held = Arc::new(bed.claims("w", 6, at(10)).await);
        let id = ApprovalId::from_bytes(*bed.id().as_bytes());
        let asked = at_once(&bed, 6, |bed, n| {
            let held = Arc::clone(&held);
            async move {
                let (mut ask, _) = bed.question(&held[n], "gate");
                ask.id = id;
                bed.store.ask(ask, at(11)).await.expect("the store answers")
            }
        })
        .await;
        assert_eq!(asked.iter().flatten().count(), 1, "{asked:?}");
        let told = |a: &&Refusal| matches!(a, Refusal::Invalid(_));
        assert_eq!(asked.iter().filter_map(|a| a.as_ref().err()).filter(told).count(), 5, "{asked:?}");
    });
}

/// (jobs): a fork that is asked for many times at once is made once.
#[test]
fn a_fork_is_made_once() {
    run(make, |bed| async move {
        let (from, to) = (bed.a_job(at(0)).await, bed.id());
        let forked = at_once(&bed, 8, |bed, _| async move { bed.forks(fork(from, to), at(1)).await }).await;
        let moved = |a: &&Result<Done, Refusal>| matches!(a, Ok(Done::Moved(..)));
        assert_eq!(forked.iter().filter(moved).count(), 1, "{forked:?}");
        assert!(forked.iter().all(Result::is_ok), "{forked:?}");
    });
}

/// (leases): parents and children that end, time out and are cancelled at once never wait for each other in a circle,
/// and every end is counted once.
#[test]
fn a_family_ends_at_once_and_is_counted() {
    run(make, |bed| async move {
        let parent = bed.a_job(at(0)).await;
        let held = bed.claims_one("parent", at(0)).await;
        let mut children = Vec::new();
        for _ in 0..24 {
            let mut child = bed.job("work");
            (child.facts.parent_id, child.facts.timeout_ms, child.facts.max_retries) =
                (Some(parent), Some(1_000), 0);
            children.push(bed.enqueue(child, at(1)).await.id);
        }
        bed.waits(&held, windlass_conformance::for_children(), at(2)).await.expect("it waits");
        let held = Arc::new(bed.claims("child", 12, at(3)).await);
        let children = Arc::new(children);
        at_once(&bed, 28, |bed, n| {
            let (held, children) = (Arc::clone(&held), Arc::clone(&children));
            async move {
                let outcome = if n % 2 == 0 { completes() } else { fails_for_good("broken") };
                match n {
                    0..6 => drop(bed.settles(&held[n], outcome, at(4)).await),
                    6..24 if n >= 12 => {
                        let cancel =
                            Cancel { job: children[n], wish: stop_at_once(), expected_version: None };
                        bed.store.cancel(cancel, at(4)).await.expect("the store answers").expect("cancelled");
                    }
                    _ => drop(bed.sweeps(at(2_000)).await),
                }
            }
        })
        .await;
        // What a sweep found held by somebody else it left to the next.
        bed.sweeps(at(2_001)).await;
        let row = bed.row(parent).await;
        assert_eq!((row.children, row.status), (0, Status::Waiting));
        assert!(row.due_at.is_some(), "the last child woke it: {row:?}");
        let told = bed.types(parent).await.iter().filter(|t| *t == "job_child_finished").count();
        assert_eq!(told, 24);
    });
}

/// (leases): batches that name the same jobs in different orders all get their answers.
#[test]
fn batches_in_different_orders_do_not_block_each_other() {
    run(make, |bed| async move {
        let mut jobs = Vec::new();
        for n in 0..20 {
            jobs.push(bed.a_job(at(n)).await);
        }
        let term = bed.leads("node", at(30)).await.expect("a term");
        let jobs: Arc<Vec<JobId>> = Arc::new(jobs);
        let answers = at_once(&bed, 8, |bed, n| {
            let (jobs, epoch) = (Arc::clone(&jobs), term.epoch);
            async move {
                let mut items: Vec<_> = jobs.iter().map(|job| (*job, who("w"))).collect();
                items.rotate_left(n * 2);
                if n % 2 == 1 {
                    items.reverse();
                }
                let assign = Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
                // What another batch holds just now is asked for again.
                let mut heard = Vec::new();
                loop {
                    let answers = bed.store.assign(assign.clone(), at(31)).await.expect("the store answers");
                    let asked = answers.len();
                    let answers = answers.into_iter().filter(|a| *a != Err(Refusal::Busy));
                    let before = heard.len();
                    heard.extend(answers);
                    if heard.len() - before == asked {
                        return heard;
                    }
                }
            }
        })
        .await;
        let moved = answers.iter().flatten().filter(|a| matches!(a, Ok(Done::Moved(..)))).count();
        assert_eq!(moved, 20);
        assert!(answers.iter().flatten().all(Result::is_ok), "{answers:?}");
        let mut ended = Vec::new();
        for job in jobs.iter() {
            bed.cancels(*job, stop_at_once(), at(32)).await.expect("cancelled");
            ended.push((*job, bed.row(*job).await.version));
        }
        let ended = Arc::new(ended);
        let gone =
            at_once(&bed, 6, |bed, n| {
                let mut jobs = ended.to_vec();
                jobs.rotate_left(n * 3);
                async move {
                    bed.store.purge(Purge { jobs, archive: None }, at(33)).await.expect("the store answers")
                }
            })
            .await;
        assert_eq!(gone.iter().flatten().filter(|a| a.is_ok()).count(), 20, "each once: {gone:?}");
    });
}
