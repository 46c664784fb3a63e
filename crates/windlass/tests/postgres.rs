//! Inside the caller's own PostgreSQL transaction, with both drivers; and the examples that need a server.

#[path = "../../engine/tests/bed/postgres.rs"]
#[allow(dead_code, reason = "of a server that can be killed only its start is needed here")]
mod server;
mod support;

use server::database;
use sqlx::Connection;
use std::sync::Arc;
use std::time::Duration;
use support::{Add, Task, task};
use tokio::sync::Mutex;
use windlass::{
    Backoff, Client, Context, Enqueue, Error, Full, HandlerError, JobId, LaneMode, LaneRule, Lanes,
    OpenError, PostgresOpenError, QueueLimits, Status, Timestamp, UniquePolicy, UniqueScope, Worker,
};

/// Runs a test that waits, on as many threads as a server would have.
fn wait_for<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let in_time = async { tokio::time::timeout(Duration::from_secs(120), test).await };
    runtime.expect("a runtime").block_on(in_time).expect("it ends within two minutes")
}

/// A connection as any program would open it.
#[expect(
    clippy::disallowed_methods,
    reason = "it ends with its client, and what it has to say its client says"
)]
async fn hand(url: &str) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

async fn is_there(client: &Client, id: JobId) -> bool {
    client.job(id).await.expect("the store reads").is_some()
}

/// A job with every option.
fn every_option(client: &Client) -> Enqueue {
    client
        .enqueue(task("with \"quotes\" and ü"))
        .queue("other")
        .priority(-2)
        .run_at(Timestamp::from_micros(1_893_456_000_123_456))
        .max_retries(9)
        .timeout(Duration::from_millis(1_500))
        .lease(Duration::from_secs(7))
        .grace(Duration::from_secs(2))
        .backoff(Backoff { base_ms: 7, multiplier: 1.5, ..Backoff::default() })
        .agent("ann")
        .tag("a")
        .tag("b")
        .metadata("trace", serde_json::json!({ "id": 1 }))
        .key("acme")
        .cost(3)
}

#[test]
fn a_job_enqueued_inside_a_transaction_is_the_same_job() {
    wait_for(async {
        let (url, _database) = database().await;
        let client = windlass::connect(&url).await.unwrap();
        let mut db = hand(&url).await;
        let of = async |id| {
            let view = client.job(id).await.unwrap().unwrap();
            (view.facts, view.payload, view.metadata, view.job.due_at)
        };
        let outside = every_option(&client).await.unwrap();
        let mut tx = db.transaction().await.unwrap();
        let inside = every_option(&client).in_tx(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        assert!(!inside.existed);
        assert_eq!(of(inside.id).await, of(outside.id).await);

        for policy in [UniquePolicy::Succeeded, UniquePolicy::Forever, UniquePolicy::Ttl(60_000)] {
            let unique = |key: &str| {
                let job = client.enqueue(task(key)).unique(key).unique_scope(UniqueScope::Kind);
                job.unique_policy(policy).delay(Duration::from_secs(5))
            };
            let (a, b) = (format!("a{policy:?}"), format!("b{policy:?}"));
            let outside = unique(&a).await.unwrap();
            let mut tx = db.transaction().await.unwrap();
            let inside = unique(&b).in_tx(&mut tx).notify().await.unwrap();
            let again = unique(&a).in_tx(&mut tx).await.unwrap();
            assert_eq!((again.id, again.existed), (outside.id, true));
            tx.commit().await.unwrap();
            assert_eq!(of(inside.id).await.0.unique.unwrap().policy, policy);
            assert_eq!(of(inside.id).await.0.run_at, of(outside.id).await.0.run_at);
            assert!(unique(&b).await.unwrap().existed);
        }
    });
}

#[test]
fn it_is_there_if_and_when_the_transaction_commits() {
    wait_for(async {
        let (url, _database) = database().await;
        let client = windlass::connect(&url).await.unwrap();
        let mut db = hand(&url).await;
        let mut tx = db.transaction().await.unwrap();
        let never = client.enqueue(Add(1, 2)).in_tx(&mut tx).await.unwrap().id;
        tx.rollback().await.unwrap();
        assert!(!is_there(&client, never).await);

        let mut sqlx = sqlx::PgConnection::connect(&url).await.unwrap();
        let mut tx = sqlx.begin().await.unwrap();
        let sent = client.enqueue(Add(1, 2)).in_tx(&mut tx).await.unwrap().id;
        let same = client.enqueue(Add(3, 4)).in_tx(&mut *tx).await.unwrap().id;
        assert!(!is_there(&client, sent).await);
        tx.commit().await.unwrap();
        assert!(is_there(&client, sent).await && is_there(&client, same).await);
    });
}

type Asking<'a> = Box<dyn Fn() -> Enqueue + 'a>;

/// What is asked inside a transaction is answered as without one: duplicates, repeats, refusals, and who asked.
#[test]
fn in_a_transaction_the_answers_are_the_same() {
    wait_for(async {
        let (url, _database) = database().await;
        let client = Client::builder(&url).actor("billing").connect().await.unwrap();
        let mut db = hand(&url).await;
        client.enqueue(task("first")).unique("taken").await.unwrap();
        let known = client
            .enqueue(task("known"))
            .priority(2)
            .tag("t")
            .metadata("a", 1.5)
            .unique("by-id")
            .await
            .unwrap()
            .id;
        let (nobody, fresh) = (windlass_store::fresh::job_id(), windlass_store::fresh::job_id());
        let lanes = async |queue: &str, rule: LaneRule| {
            let lanes = Some(Lanes { each: rule, ..Lanes::default() });
            let flow = QueueLimits { lanes, ..QueueLimits::default() };
            client.queue(queue).set_flow(flow).await.unwrap();
        };
        for (queue, full) in [("full", Full::Refuse), ("drops", Full::Drop)] {
            lanes(queue, LaneRule { backlog: Some(1), full: Some(full), ..LaneRule::default() }).await;
            client.enqueue(task("waits")).queue(queue).key("acme").await.unwrap();
        }
        let asked: Vec<(&str, Asking<'_>)> = vec![
            ("a duplicate", Box::new(|| client.enqueue(task("first")).unique("taken"))),
            ("a duplicate that differs", Box::new(|| client.enqueue(task("second")).unique("taken"))),
            (
                "the same id and body",
                Box::new(|| {
                    client
                        .enqueue(task("known"))
                        .priority(2)
                        .tag("t")
                        .metadata("a", 1.5)
                        .unique("by-id")
                        .id(known)
                }),
            ),
            ("the same id, another body", Box::new(|| client.enqueue(task("other")).id(known))),
            (
                "the same id, other options",
                Box::new(|| client.enqueue(task("known")).unique("by-id").id(known)),
            ),
            ("no such parent", Box::new(|| client.enqueue(task("")).parent(nobody))),
            ("a full lane", Box::new(|| client.enqueue(task("")).queue("full").key("acme").id(fresh))),
            (
                "a full lane that drops",
                Box::new(|| client.enqueue(task("")).queue("drops").key("acme").id(fresh)),
            ),
            ("a wrong cost", Box::new(|| client.enqueue(task("")).key("acme").cost(0))),
            ("a wrong priority", Box::new(|| client.enqueue(task("")).priority(9))),
            (
                "a wrong delay",
                Box::new(|| client.enqueue(task("")).delay(Duration::from_secs(u64::MAX / 10_000))),
            ),
        ];
        for (what, ask) in asked {
            let mut tx = db.transaction().await.unwrap();
            let inside = ask().in_tx(&mut tx).await;
            tx.rollback().await.unwrap();
            assert_eq!(inside, ask().await, "{what}");
            let mut tx = db.transaction().await.unwrap();
            let inside = client.enqueue_many([client.enqueue(task("a")), ask()]).in_tx(&mut tx).await;
            tx.rollback().await.unwrap();
            let outside = client.enqueue_many([client.enqueue(task("a")), ask()]).await;
            match (inside, outside) {
                (Ok(inside), Ok(outside)) => assert_eq!(inside[1], outside[1], "{what}"),
                (inside, outside) => assert_eq!(inside.unwrap_err(), outside.unwrap_err(), "{what}"),
            }
        }
        // What cannot be kept in somebody's transaction is refused by name.
        lanes("newest", LaneRule { mode: Some(LaneMode::Newest), ..LaneRule::default() }).await;
        let newest = client.enqueue(task("")).queue("newest").key("acme");
        let debounced = client.enqueue(task("")).key("acme").debounce(Duration::from_secs(1));
        for (job, word) in [(newest, "newest"), (debounced, "debounce")] {
            let mut tx = db.transaction().await.unwrap();
            let refused = job.in_tx(&mut tx).await.unwrap_err().to_string();
            assert!(refused.contains(word), "{refused}");
            tx.rollback().await.unwrap();
        }
        let mut tx = db.transaction().await.unwrap();
        let id = client.enqueue(task("")).in_tx(&mut tx).await.unwrap().id;
        // A job of the same transaction is known to it.
        let child = client.enqueue(task("")).parent(id).in_tx(&mut tx).await.unwrap().id;
        let again = client.enqueue(task("")).id(id).in_tx(&mut tx).await.unwrap();
        assert_eq!((again.id, again.existed), (id, true));
        tx.commit().await.unwrap();
        for id in [id, child, known] {
            assert_eq!(client.events(id).await.unwrap()[0].actor.as_str(), "billing");
        }
    });
}

/// Many in one transaction: all or none, and their workers are woken by a nudge after the commit.
#[test]
fn many_jobs_in_one_transaction() {
    wait_for(async {
        let (url, _database) = database().await;
        let client = windlass::connect(&url).await.unwrap();
        let mut db = hand(&url).await;
        let mut tx = db.transaction().await.unwrap();
        let sent = client.enqueue_many((0..500).map(|n| Add(n, 1))).in_tx(&mut tx).await.unwrap();
        assert!(client.enqueue_many(Vec::<Add>::new()).in_tx(&mut tx).await.unwrap().is_empty());
        assert!(!is_there(&client, sent[0].id).await);
        let mut hints = client.store().hints();
        hints.due.mark_unchanged();
        tx.commit().await.unwrap();
        client.nudge();
        assert!(hints.due.has_changed().unwrap());
        let worker = windlass::connect(&url).await.unwrap();
        let worker =
            Worker::new(worker).queue("default", 8).handle(|Add(a, b), _: Context| async move { Ok(a + b) });
        let all = async {
            for (n, sent) in sent.iter().enumerate() {
                assert_eq!(client.wait::<Add>(sent.id).await.unwrap(), n as i64 + 1);
            }
        };
        worker.run_until(all).await.unwrap();
    });
}

/// A handler that adds to an account and completes in the same transaction; `spoil` says what its first attempt does.
async fn deposits(spoil: &'static str) -> (i64, Client, JobId, server::Database) {
    type Db = Mutex<tokio_postgres::Client>;
    let (url, database) = database().await;
    let client = windlass::connect(&url).await.expect("a store");
    let db = hand(&url).await;
    db.batch_execute("CREATE TABLE account (cents bigint); INSERT INTO account VALUES (0)")
        .await
        .expect("a table");
    let handler = move |Add(cents, _), ctx: Context<Arc<Db>>| async move {
        let mut db = ctx.state().lock().await;
        let mut tx = db.transaction().await?;
        assert_eq!(ctx.assert_lease(&mut tx).await?, ctx.fence());
        let row = tx.query_one("UPDATE account SET cents = cents + $1 RETURNING cents", &[&cents]).await?;
        let balance: i64 = row.get(0);
        ctx.complete_in(&mut tx, &balance).await?;
        match spoil {
            "fails" if ctx.fence() == 1 => Err(HandlerError::retry("before the commit")),
            "forgets" if ctx.fence() == 1 => Ok(balance),
            _ => {
                tx.commit().await?;
                Ok(balance)
            }
        }
    };
    let sent = client.enqueue(Add(5, 0)).backoff(Backoff { base_ms: 1, ..Backoff::default() }).await;
    let sent = sent.expect("a job").id;
    let db = Arc::new(Mutex::new(db));
    let worker = Worker::new(client.clone()).state(Arc::clone(&db)).queue("default", 1).handle(handler);
    let mut result = None;
    worker.run_until(async { result = Some(client.wait::<Add>(sent).await) }).await.expect("it runs");
    assert_eq!(result, Some(Ok(5)));
    let balance = db.lock().await.query_one("SELECT cents FROM account", &[]).await.expect("a row").get(0);
    (balance, client, sent, database)
}

#[test]
fn a_write_and_the_completion_commit_together() {
    wait_for(async {
        for (spoil, attempts, code) in
            [("", 1, None), ("fails", 2, Some("failed")), ("forgets", 2, Some("not_committed"))]
        {
            let (balance, client, job, _database) = deposits(spoil).await;
            let view = client.job(job).await.unwrap().unwrap();
            assert_eq!(
                (balance, view.job.status, view.job.attempt),
                (5, Status::Completed, attempts),
                "{spoil}"
            );
            let retried = client.events(job).await.unwrap().into_iter().find_map(|event| match event.what {
                windlass::EventKind::JobRetried(detail) => Some(detail.code.to_string()),
                _ => None,
            });
            assert_eq!(retried.as_deref(), code, "{spoil}");
        }
    });
}

/// A worker that lost its lease can commit nothing, and its handler matches on why.
#[test]
fn who_lost_the_lease_is_refused_inside_the_transaction() {
    wait_for(async {
        let (url, _database) = database().await;
        let client = windlass::connect(&url).await.unwrap();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let (stopped, url_of) = (client.clone(), url.clone());
        let handler = move |_: Task, ctx: Context| {
            let (tell, client, url) = (tell.clone(), stopped.clone(), url_of.clone());
            async move {
                client.cancel(ctx.id()).force().await?;
                let mut sqlx = sqlx::PgConnection::connect(&url).await?;
                let mut tx = sqlx.begin().await?;
                tell.send(ctx.complete_in(&mut tx, &"late").await.unwrap_err()).unwrap();
                let mut db = hand(&url).await;
                let mut tx = db.transaction().await?;
                tell.send(ctx.assert_lease(&mut tx).await.unwrap_err()).unwrap();
                // Any other failure keeps its SQLSTATE.
                let aborted = client.enqueue(task("late")).in_tx(&mut tx).await.unwrap_err();
                assert!(
                    matches!(&aborted, Error::Transaction { sqlstate: Some(state), .. } if state == "25P02")
                );
                tell.send(HandlerError::permanent("seen").code("seen")).unwrap();
                Err::<String, _>(HandlerError::retry("refused"))
            }
        };
        let id = client.enqueue(task("")).await.unwrap().id;
        let worker = Worker::new(client.clone()).queue("tasks", 1).handle(handler);
        let mut codes = Vec::new();
        let all = async {
            for _ in 0..3 {
                codes.push(told.recv().await.unwrap().error_code().to_owned());
            }
        };
        worker.run_until(all).await.unwrap();
        assert_eq!(codes, ["job_finished", "job_finished", "seen"]);
        assert_eq!(client.job(id).await.unwrap().unwrap().job.status, Status::Cancelled);
    });
}

/// What each verb of a handler answers while the handler's own transaction has the job locked.
async fn inside_own_transaction(ctx: &Context<String>) -> Vec<(&'static str, Option<String>)> {
    let mut db = hand(ctx.state()).await;
    let mut tx = db.transaction().await.expect("a transaction");
    ctx.assert_lease(&mut tx).await.expect("a live lease");
    let code = |end: Result<(), HandlerError>| end.err().map(|e| e.error_code().to_owned());
    let said = |end: Result<(), Error>| end.err().map(|e| e.to_string());
    let (client, me) = (ctx.client(), ctx.id());
    let step = || async { Ok::<_, HandlerError>(()) };
    vec![
        ("step", code(ctx.step("step", step).await)),
        ("tool", code(ctx.tool("tool", &1, step).await)),
        ("progress", code(ctx.progress(50, "half").await)),
        ("metadata", code(ctx.set_metadata("a", 1).await)),
        ("checkpoint", code(ctx.checkpoint(&1).await)),
        ("note", code(ctx.note("noted", &1).await.map(drop))),
        ("log", code(ctx.log("a line").await)),
        ("spawn", code(ctx.spawn("child", Add(1, 2)).await.map(drop))),
        ("spawn_many", code(ctx.spawn_many("many", [Add(1, 2)]).await.map(drop))),
        ("ask", code(ctx.ask("may-i").prompt("may I?").await.map(drop))),
        ("signal", said(client.signal(me, "hello", 1).await.map(drop))),
        ("cancel", said(client.cancel(me).await.map(drop))),
        ("parent", said(client.enqueue(Add(1, 2)).parent(me).await.map(drop))),
        ("enqueue", said(client.enqueue(Add(1, 2)).await.map(drop))),
        ("read", said(client.job(me).await.map(drop))),
    ]
}

/// (own locks) A verb of a handler whose own transaction has the job locked works, or is refused at once with the reason:
/// it never waits for itself. After the transaction it works.
#[test]
fn a_handler_never_waits_for_its_own_transaction() {
    wait_for(async {
        let (url, _database) = database().await;
        let client = windlass::connect(&url).await.unwrap();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let handler = move |_: Task, ctx: Context<String>| {
            let tell = tell.clone();
            async move {
                tell.send(inside_own_transaction(&ctx).await).unwrap();
                ctx.step("after", || async { Ok::<_, HandlerError>(()) }).await?;
                Ok("done".to_owned())
            }
        };
        // With a lease as long as this test's patience: whoever asked until it is over would not be done in time.
        let id = client.enqueue(task("")).lease(Duration::from_secs(120)).await.unwrap().id;
        let worker = Worker::new(client.clone()).state(url).queue("tasks", 1).handle(handler);
        let mut all = None;
        let ended = async {
            all = told.recv().await;
            assert_eq!(client.wait::<Task>(id).await.unwrap(), "done");
        };
        worker.run_until(ended).await.unwrap();
        for (verb, said) in all.unwrap() {
            match verb {
                "enqueue" | "read" => assert_eq!(said, None, "{verb} locks nothing"),
                "signal" | "cancel" | "parent" => {
                    assert!(said.as_ref().is_some_and(|said| said.contains("locked")), "{verb}: {said:?}");
                }
                _ => assert_eq!(said.as_deref(), Some("job_busy"), "{verb}"),
            }
        }
        let view = client.job(id).await.unwrap().unwrap();
        assert_eq!((view.job.attempt, view.job.retries), (1, 0));
    });
}

/// (own locks) A wait inside the handler's own transaction drops both, and the job waits.
#[test]
fn a_wait_ends_the_handlers_own_transaction() {
    wait_for(async {
        let (url, _database) = database().await;
        let client = windlass::connect(&url).await.unwrap();
        let handler = |_: Task, ctx: Context<String>| async move {
            let mut db = hand(ctx.state()).await;
            let mut tx = db.transaction().await?;
            ctx.assert_lease(&mut tx).await?;
            ctx.sleep("a-moment", Duration::from_millis(50)).await?;
            tx.commit().await?;
            Ok("done".to_owned())
        };
        let id = client.enqueue(task("")).await.unwrap().id;
        let worker = Worker::new(client.clone()).state(url).queue("tasks", 1).handle(handler);
        let ended = async { assert_eq!(client.wait::<Task>(id).await.unwrap(), "done") };
        worker.run_until(ended).await.unwrap();
        let view = client.job(id).await.unwrap().unwrap();
        assert_eq!((view.job.attempt, view.job.retries, view.job.crashes), (2, 0, 0));
    });
}

#[test]
fn another_schema_and_no_migration() {
    wait_for(async {
        let (url, _database) = database().await;
        let unmade = Client::builder(&url).schema("jobs").migrate(false).connect().await.unwrap_err();
        let old =
            matches!(unmade, Error::Open(OpenError::Postgres(PostgresOpenError::OldSchema { found: 0, .. })));
        assert!(old, "{unmade}");
        let client = Client::builder(&url).schema("jobs").pool(3).connect().await.unwrap();
        let mut db = hand(&url).await;
        let mut tx = db.transaction().await.unwrap();
        let sent = client.enqueue(Add(1, 2)).in_tx(&mut tx).await.unwrap().id;
        tx.commit().await.unwrap();
        let again = Client::builder(&url).schema("jobs").migrate(false).connect().await.unwrap();
        let worker =
            Worker::new(again).queue("default", 2).handle(|Add(a, b), _: Context| async move { Ok(a + b) });
        let mut sum = None;
        worker.run_until(async { sum = Some(client.wait::<Add>(sent).await) }).await.unwrap();
        assert_eq!(sum.unwrap().unwrap(), 3);
    });
}

/// (connections) The store that a worker renews through takes two connections and listens to nobody.
#[test]
fn a_worker_listens_once() {
    wait_for(async {
        let (url, _database) = database().await;
        let client = windlass::connect(&url).await.unwrap();
        let db = hand(&url).await;
        let id = client.enqueue(task("")).await.unwrap().id;
        let worker = Worker::new(client.clone())
            .queue("tasks", 1)
            .lease(Duration::from_secs(4))
            .handle(|_: Task, _: Context| std::future::pending::<Result<String, HandlerError>>());
        let worker = worker.shutdown_deadline(Duration::ZERO);
        let renewed = async {
            let lease = async || client.job(id).await.unwrap().unwrap().job.lease_expires_at;
            while lease().await.is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            // Twice, because the first may still go through the worker's own store.
            for _ in 0..2 {
                let before = lease().await;
                while lease().await == before {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            let listeners = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                             AND application_name = 'windlass notify'";
            assert_eq!(db.query_one(listeners, &[]).await.unwrap().get::<_, i64>(0), 1);
        };
        worker.run_until(renewed).await.unwrap();
    });
}

#[test]
fn the_examples_that_need_a_server() {
    let (url, _database) = wait_for(database());
    let said = support::run("transactional_enqueue", &url);
    let expected = "after the rollback: job is not there\nbefore the commit: job is not there\n\
                    after the commit: job is there\norder 2 is shipped\n";
    assert_eq!(said, expected);
    support::is_trip(&support::run("saga", &url));
    let said = support::run("exactly_once", &url);
    let expected = "attempt 1: 500 cents, not committed yet\nattempt 2: 500 cents, not committed yet\n\
                    the balance is 500\n";
    assert_eq!(said, expected);
}
