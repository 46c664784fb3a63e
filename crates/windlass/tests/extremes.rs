//! More than usual: a burst of producers, thousands of jobs that wait, and what is too large or does not read.

mod site;
mod support;

use site::process::{Process, role};
use site::{Site, error_of, stop, until_is, wait_for};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use support::{Task, task};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass::{Client, Context, Filter, HandlerError, Job, JobId, Shutdown, Status, Worker};

/// Producers at once.
const PRODUCERS: usize = 1_000;
/// Jobs of each: 100,000 in all.
const EACH: usize = 100;
/// Jobs that wait while a process is weighed.
const WAITING: usize = 10_000;
/// What they may cost it.
const GROWTH_MAX_BYTES: u64 = 5 << 20;

async fn obey(job: Task, ctx: Context) -> Result<String, HandlerError> {
    // Only who asks for it: the process that does thousands of other jobs is weighed.
    let too_large = || "x".repeat(1 << 20);
    match job.text.as_str() {
        "result" => Ok(too_large()),
        "checkpoint" => ctx.checkpoint(&too_large()).await.map(|()| String::new()),
        "value" => ctx.step("value", || async { Ok::<_, HandlerError>(too_large()) }).await,
        "wait" => ctx.wait_for("never").await,
        other => Ok(other.to_owned()),
    }
}

/// What a process of these tests does: it works; without a word it does one job in one.
#[test]
fn child() {
    wait_for(async {
        if let Some((_, url)) = role() {
            let client = windlass::connect(url.to_str().expect("a URL")).await.expect("a store");
            let worker = Worker::new(client).queue("tasks", 16).handle(obey);
            return worker.run(Shutdown::on_signals().expect("signals")).await.expect("a good end");
        }
        let site = Site::sqlite().await;
        let (client, process) = (site.client().await, site.start("works"));
        let id = client.enqueue(task("small")).await.expect("a job").id;
        assert_eq!(client.wait::<Task>(id).await.expect("done"), "small");
        stop(process);
    });
}

/// Every job that is there, page by page.
async fn all_jobs(client: &Client) -> Vec<JobId> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.jobs(Filter::default(), cursor).await.expect("a page");
        found.extend(page.items.into_iter().map(|listed| listed.job.id));
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

/// Waits until so many jobs stand so, as long as there are ever more of them.
async fn until_are(client: &Client, status: Status, count: i64) {
    let mut are = 0;
    while are < count {
        let more = async {
            loop {
                let counts = client.store().counts(1_000_000, None).await.expect("counts");
                let so = counts.statuses.iter().find(|(found, _)| *found == status);
                match so {
                    Some((_, found)) if found.n > are => return found.n,
                    _ => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        are = timeout(site::DEADLINE, more).await.unwrap_or_else(|_| panic!("{are} {status:?} of {count}"));
    }
}

/// The memory that a process has in use.
fn resident_bytes(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Sends ten thousand jobs.
async fn send_all(client: &Client, text: &str) {
    for _ in 0..WAITING / 1_000 {
        client.enqueue_many((0..1_000).map(|_| task(text))).await.expect("jobs");
    }
}

/// A job of the same kind as its enqueuer once knew it.
#[derive(serde::Serialize, serde::Deserialize)]
struct Old {
    number: u32,
}

impl Job for Old {
    const KIND: &str = Task::KIND;
    const QUEUE: &str = Task::QUEUE;
    type Output = ();
}

on_both_stores! {
    /// (burst) A thousand producers at once, each awaiting every answer: all jobs are there, each once.
    #[test]
    async fn a_burst_of_producers_loses_and_doubles_nothing(site: Site) {
        let client = Arc::new(site.client().await);
        let mut producers = JoinSet::new();
        for n in 0..PRODUCERS {
            let client = Arc::clone(&client);
            producers.spawn(async move {
                let mut told = Vec::with_capacity(EACH);
                for _ in 0..EACH {
                    let sent = client.enqueue(task(&n.to_string())).await.expect("accepted");
                    assert!(!sent.existed);
                    told.push(sent.id);
                }
                told
            });
        }
        let told: HashSet<JobId> = producers.join_all().await.into_iter().flatten().collect();
        let found = all_jobs(&client).await;
        assert_eq!((told.len(), found.len()), (PRODUCERS * EACH, PRODUCERS * EACH));
        assert_eq!(found.into_iter().collect::<HashSet<_>>(), told);
    }

    /// T8, Q14: what is too large and what does not read fail the job once and for good, with the reason; the worker goes on.
    #[test]
    async fn what_does_not_fit_fails_with_the_reason(site: Site) {
        let (client, process) = (site.client().await, site.start("works"));
        for what in ["result", "checkpoint", "value"] {
            let id = client.enqueue(task(what)).await.unwrap().id;
            let dead = until_is(&client, id, Status::Failed).await;
            let (code, message) = error_of(&dead);
            assert_eq!((code.as_str(), dead.job.attempt), ("too_large", 1), "{message}");
            assert!(message.contains(what) && message.contains("1048578") && message.contains("1048576"), "{message}");
        }
        let id = client.enqueue(Old { number: 7 }).await.unwrap().id;
        let dead = until_is(&client, id, Status::Failed).await;
        let (code, message) = error_of(&dead);
        assert_eq!((code.as_str(), dead.job.attempt), ("payload_unreadable", 1), "{message}");
        assert!(message.contains("missing field `text`"), "{message}");
        let id = client.enqueue(task("still there")).await.unwrap().id;
        assert_eq!(client.wait::<Task>(id).await.unwrap(), "still there");
        stop(process);
    }
}

/// (memory) Ten thousand jobs that wait hold no worker and cost its process no more than 5 MB, once as many have filled its
/// caches and the allocator's: what is left is what each of them holds.
#[test]
fn waiting_jobs_cost_no_memory() {
    wait_for(async {
        let site = Site::sqlite().await;
        let (client, process) = (site.client().await, site.start("works"));
        send_all(&client, "wait").await;
        until_are(&client, Status::Waiting, WAITING as i64).await;
        let before = resident_bytes(&process);
        send_all(&client, "wait").await;
        until_are(&client, Status::Waiting, 2 * WAITING as i64).await;
        let grown = resident_bytes(&process).saturating_sub(before);
        assert!(grown <= GROWTH_MAX_BYTES, "{grown} bytes more than {before}");
        let id = client.enqueue(task("still there")).await.expect("a job").id;
        assert_eq!(client.wait::<Task>(id).await.expect("done"), "still there");
        stop(process);
    });
}
