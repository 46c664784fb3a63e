//! How soon a job that was enqueued inside somebody's own transaction is taken.

mod site;
mod support;

use site::process::role;
use site::{Site, stop, wait_for};
use std::time::{Duration, Instant};
use support::{Task, task};
use windlass::{Client, Context, HandlerError, Shutdown, Worker};

/// Longer than any test: nothing is found by looking.
const NEVER: Duration = Duration::from_secs(3_600);
/// Jobs, one after the other.
const ROUNDS: usize = 10;
/// What they take together, with room for a busy machine. A process that listens makes sure every 5 s that it missed nothing:
/// without a nudge each of them would wait for that.
const TOGETHER_MAX: Duration = Duration::from_secs(25);

fn worker(client: Client) -> Worker {
    let done = |job: Task, _: Context| async move { Ok::<_, HandlerError>(job.text) };
    Worker::new(client).queue("tasks", 2).poll_every(NEVER).handle(done)
}

/// What a process of these tests does: it works; without a word it has one job done.
#[test]
fn child() {
    wait_for(async {
        if let Some((_, url)) = role() {
            let client = windlass::connect(url.to_str().expect("a URL")).await.expect("a store");
            return worker(client).run(Shutdown::on_signals().expect("signals")).await.expect("a good end");
        }
        let site = Site::sqlite().await;
        let (client, process) = (site.client().await, site.start("works"));
        let id = client.enqueue(task("known")).await.expect("a job").id;
        assert_eq!(client.wait::<Task>(id).await.expect("done"), "known");
        stop(process);
    });
}

#[expect(clippy::disallowed_methods, reason = "it ends with its client, which says what went wrong")]
async fn hand(url: &str) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Jobs one by one, each in a transaction of its own, followed by a nudge.
async fn rounds(client: &Client, url: &str) {
    let mut db = hand(url).await;
    // From here on the worker is there, and idle.
    let known = client.enqueue(task("known")).await.expect("a job").id;
    client.wait::<Task>(known).await.expect("done");
    let began = Instant::now();
    for n in 0..ROUNDS {
        let mut tx = db.transaction().await.expect("a transaction");
        let id = match n % 2 {
            0 => client.enqueue(task("one")).in_tx(&mut tx).await.expect("a job").id,
            _ => client.enqueue_many([task("many")]).in_tx(&mut tx).await.expect("jobs")[0].id,
        };
        tx.commit().await.expect("a commit");
        client.nudge();
        client.wait::<Task>(id).await.expect("done");
    }
    let took = began.elapsed();
    assert!(took < TOGETHER_MAX, "{ROUNDS} jobs took {took:?}");
}

/// (pickup) A nudge after the commit wakes a worker of the same process.
#[test]
fn a_nudge_wakes_the_worker_here() {
    wait_for(async {
        let site = Site::postgres().await;
        let client = site.client().await;
        worker(client.clone()).run_until(rounds(&client, &site.url)).await.expect("a good end");
    });
}

/// (pickup) A nudge after the commit wakes a worker of another process.
#[test]
fn a_nudge_wakes_the_worker_of_another_process() {
    wait_for(async {
        let site = Site::postgres().await;
        let (client, process) = (site.client().await, site.start("works"));
        rounds(&client, &site.url).await;
        stop(process);
    });
}
