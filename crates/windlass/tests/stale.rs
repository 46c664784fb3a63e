//! Workers that stand still: stopped past their lease and continued, or blocked by their own handlers. Who lost the lease
//! changes nothing any more, neither through Windlass nor, with the fence, anywhere else.

mod site;
mod support;

use site::process::{listen, role, say};
use site::{Site, events, freeze, logged, signal, stop, until, until_is, view, wait_for, world};
use std::path::Path;
use std::time::Duration;
use support::{Task, task};
use windlass::{Context, EventKind, HandlerError, JobId, Shutdown, Status, Worker};
use windlass_core::Outcome;
use windlass_store::{Settle, SettleItem, fresh};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(4);

/// The user's own record in SQLite: one row, with the fence of whoever wrote it last.
const LEDGER: &str = "CREATE TABLE ledger (writer TEXT NOT NULL, fence BIGINT NOT NULL)";
/// A write that is refused when somebody with a higher fence was there before.
const FENCED: &str = "UPDATE ledger SET writer = $1, fence = $2 WHERE fence < $2";

/// Writes into the user's own record, under the fence; answers how many rows took it.
fn write_sqlite(folder: &Path, writer: &str, fence: i64) -> usize {
    let ledger = rusqlite::Connection::open(folder.join("ledger.db")).expect("a ledger");
    ledger.execute(FENCED, rusqlite::params![writer, fence]).expect("an answer")
}

#[expect(clippy::disallowed_methods, reason = "it ends with its client, which says what went wrong")]
async fn hand(url: &str) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Everything that an attempt can try to leave behind beside its result, one line each.
async fn write_everything(ctx: &Context<String>, writer: &str) -> Vec<String> {
    let url = ctx.state().as_str();
    if url.starts_with("sqlite:") {
        return vec![format!("rows {}", write_sqlite(&world(), writer, ctx.fence()))];
    }
    let mut db = hand(url).await;
    let rows = db.execute(FENCED, &[&writer, &ctx.fence()]).await.expect("an answer");
    let mut tx = db.transaction().await.expect("a transaction");
    let held = ctx.assert_lease(&mut tx).await;
    let held = held.map_or_else(|e| format!("refused: {}", e.error_code()), |_| "held".into());
    vec![format!("rows {rows}"), held]
}

/// Says by hand what a worker says when its handler is done.
async fn complete(ctx: &Context<String>) -> String {
    let client = windlass::connect(ctx.state()).await.expect("a store");
    let item = SettleItem { job: ctx.id(), token: ctx.lease_token(), outcome: Outcome::Complete(None) };
    let answer =
        client.store().settle(Settle { items: vec![item] }, None).await.expect("an answer").remove(0);
    answer.map_or_else(|refusal| refusal.code().to_owned(), |_| "completed".into())
}

/// The first attempt acts on a thread of its own, which nobody can drop, when its parent lets it.
async fn acts(_: Task, ctx: Context<String>) -> Result<String, HandlerError> {
    if ctx.fence() > 1 {
        for line in write_everything(&ctx, "fresh").await {
            say(&line);
        }
        return Ok("fresh".into());
    }
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        say("holding");
        listen();
        for line in wait_for(write_everything(&ctx, "stale")) {
            say(&line);
        }
        say(&wait_for(complete(&ctx)));
        // Nobody listens when the handler was dropped.
        let _ = tell.send(());
    });
    told.await?;
    Ok("stale".into())
}

/// Blocks every thread that handlers have for longer than the lease.
async fn blocks(_: Task, _: Context<String>) -> Result<String, HandlerError> {
    std::thread::sleep(3 * LEASE);
    Ok("blocked".into())
}

/// Waits for ever, once; says that it began.
async fn hangs(_: Task, ctx: Context<String>) -> Result<String, HandlerError> {
    if ctx.fence() == 1 {
        say("holding");
        std::future::pending::<()>().await;
    }
    Ok(ctx.fence().to_string())
}

async fn work(url: &str, role: &str, shutdown: Shutdown) {
    let client = windlass::connect(url).await.expect("a store");
    let worker = Worker::new(client).state(url.to_owned()).queue("tasks", 2).lease(LEASE);
    let worker = match role {
        "blocks" => worker.handle(blocks),
        "hangs" => worker.handle(hangs),
        "acts" => worker.handle(acts),
        other => panic!("nobody plays {other}"),
    };
    worker.run(shutdown).await.expect("a worker that ends well");
}

/// What a process of these tests does: its role, or an attempt that nobody disturbs.
#[test]
fn child() {
    if let Some((role, url)) = role() {
        // As many threads as the worker runs at once: blocked handlers leave none for anybody else.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.expect("a runtime").block_on(async {
            work(url.to_str().expect("a URL"), &role, Shutdown::on_signals().expect("signals")).await;
        });
    }
    wait_for(async {
        let site = Site::sqlite().await;
        let (client, process) = (site.client().await, site.start("blocks"));
        let id = client.enqueue(task("")).await.expect("a job").id;
        until_is(&client, id, Status::Completed).await;
        stop(process);
    });
}

async fn make_ledger(site: &Site) {
    let zero = "INSERT INTO ledger VALUES ('nobody', 0)";
    if site.is_postgres() {
        let db = hand(&site.url).await;
        db.batch_execute(&format!("{LEDGER}; {zero}")).await.expect("a ledger");
    } else {
        let ledger = rusqlite::Connection::open(site.folder().join("ledger.db")).expect("a ledger");
        ledger.execute_batch(&format!("{LEDGER}; {zero}")).expect("a ledger");
    }
}

/// Who wrote into the ledger last.
async fn last_writer(site: &Site) -> String {
    let sql = "SELECT writer FROM ledger";
    if site.is_postgres() {
        return hand(&site.url).await.query_one(sql, &[]).await.expect("a row").get(0);
    }
    let ledger = rusqlite::Connection::open(site.folder().join("ledger.db")).expect("a ledger");
    ledger.query_row(sql, [], |row| row.get(0)).expect("a row")
}

/// When a job was claimed, in microseconds.
async fn claims(client: &windlass::Client, id: JobId) -> Vec<i64> {
    let log = events(client, id).await;
    log.iter().filter(|e| e.what == EventKind::JobClaimed).map(|e| e.at.as_micros()).collect()
}

on_both_stores! {
    /// Q14, J12: a process that was stopped past its lease and goes on can complete nothing, and neither can it pass the
    /// user's own fence; then it works on as any other.
    #[test]
    async fn a_process_stopped_past_its_lease_changes_nothing(site: Site) {
        make_ledger(&site).await;
        let client = site.client().await;
        let id = client.enqueue(task("")).await.unwrap().id;
        let mut stale = site.start("acts");
        assert_eq!(stale.hears(), "holding");
        freeze(&stale, &client).await;
        let fresh = site.start("acts");
        assert_eq!(client.wait::<Task>(id).await.unwrap(), "fresh");
        assert_eq!(fresh.hears(), "rows 1");
        if site.is_postgres() {
            assert_eq!(fresh.hears(), "held");
        }
        stop(fresh);
        signal(&stale, "CONT");
        stale.tells();
        assert_eq!(stale.hears(), "rows 0", "a smaller fence is refused");
        if site.is_postgres() {
            let refused = stale.hears();
            let codes = ["job_finished", "lease_expired", "lease_mismatch", "not_leased"];
            assert!(codes.iter().any(|code| refused == format!("refused: {code}")), "{refused}");
        }
        assert_eq!(stale.hears(), "job_finished", "its completion is refused");
        assert_eq!(last_writer(&site).await, "fresh");
        let found = view(&client, id).await;
        assert_eq!((found.job.attempt, logged(&client, id, "job_completed").await), (2, 1));
        // It was wrong about one job and is as good as any for the next.
        let next = client.enqueue(task("")).await.unwrap().id;
        assert_eq!(stale.hears(), "holding");
        stale.tells();
        until_is(&client, next, Status::Completed).await;
        stop(stale);
    }

    /// Q14: handlers that block every thread of their runtime for three times the lease keep their jobs.
    #[test]
    async fn handlers_that_block_keep_their_leases(site: Site) {
        let client = site.client().await;
        let jobs = client.enqueue_many([task("a"), task("b")]).await.unwrap();
        let blocked = site.start("blocks");
        for job in &jobs {
            until_is(&client, job.id, Status::Running).await;
        }
        // Somebody is there to take over what is let go.
        let idle = site.start("hangs");
        for job in jobs {
            let found = until_is(&client, job.id, Status::Completed).await;
            assert_eq!((found.job.attempt, found.job.crashes), (1, 0), "{:?}", events(&client, job.id).await);
        }
        stop(blocked);
        stop(idle);
    }

    /// R6: the job of a worker that is gone stays its own through the grace, and is then executed again, once.
    #[test]
    async fn the_grace_belongs_to_the_holder(site: Site) {
        let client = site.client().await;
        let id = client.enqueue(task("")).grace(2 * SECOND).await.unwrap().id;
        let cut_off = site.start("hangs");
        assert_eq!(cut_off.hears(), "holding");
        cut_off.kills();
        let other = site.start("hangs");
        assert_eq!(client.wait::<Task>(id).await.unwrap(), "2");
        let at = claims(&client, id).await;
        assert!(at.len() == 2 && at[1] - at[0] >= 6_000_000, "lease and grace passed first: {at:?}");
        stop(other);
    }

    /// R6: who stood still and comes back within its grace finds its handler stopped, and gives the job back itself.
    #[test]
    async fn who_comes_back_within_the_grace_gives_back(site: Site) {
        let client = site.client().await;
        let id = client.enqueue(task("")).grace(600 * SECOND).await.unwrap().id;
        let slow = site.start("hangs");
        assert_eq!(slow.hears(), "holding");
        freeze(&slow, &client).await;
        let other = site.start("hangs");
        let held = view(&client, id).await.job.lease_expires_at.unwrap();
        until(&client, id, "past its lease", |_| fresh::wall_clock() > held).await;
        assert_eq!(view(&client, id).await.job.status, Status::Running, "nobody else may have it");
        signal(&slow, "CONT");
        assert_eq!(client.wait::<Task>(id).await.unwrap(), "2");
        let found = view(&client, id).await;
        assert_eq!((found.job.crashes, logged(&client, id, "job_released").await), (0, 1));
        stop(slow);
        stop(other);
    }
}

/// (own locks) A handler that keeps its own job locked for longer than two leases costs no other handler its lease.
#[test]
fn a_lock_of_a_handlers_own_costs_no_other_handler() {
    wait_for(async {
        let site = Site::postgres().await;
        let client = site.client().await;
        let handler = |job: Task, ctx: Context<String>| async move {
            if job.text == "locks" && ctx.fence() == 1 {
                let (tell, told) = tokio::sync::oneshot::channel();
                // On a thread of its own: the lock outlives the handler, which is dropped when its lease is over.
                std::thread::spawn(move || {
                    wait_for(async {
                        let mut db = hand(ctx.state()).await;
                        let mut tx = db.transaction().await.expect("a transaction");
                        ctx.assert_lease(&mut tx).await.expect("a live lease");
                        tokio::time::sleep(2 * LEASE + LEASE / 2).await;
                    });
                    let _ = tell.send(());
                });
                told.await?;
            } else {
                tokio::time::sleep(2 * LEASE + LEASE / 2).await;
            }
            Ok::<_, HandlerError>(job.text)
        };
        let sent = client.enqueue_many(["locks", "1", "2", "3", "4", "5"].map(task)).await.unwrap();
        let worker = Worker::new(client.clone()).state(site.url.clone()).queue("tasks", 6).lease(LEASE);
        let ended = async {
            for sent in &sent {
                client.wait::<Task>(sent.id).await.unwrap();
            }
        };
        worker.handle(handler).run_until(ended).await.unwrap();
        for sent in &sent[1..] {
            let job = view(&client, sent.id).await.job;
            assert_eq!((job.attempt, job.crashes), (1, 0), "never lost");
        }
    });
}
