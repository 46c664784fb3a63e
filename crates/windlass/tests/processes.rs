//! What workers promise, with real processes on both durable stores: sharing, gates, backoff, cancelling, ending, and two
//! versions of one program.

mod site;
mod support;

use site::process::{role, say};
use site::{
    Site, effect, error_of, events, freeze, logged, question, signal, stop, until, until_is, view, wait_for,
};
use std::collections::HashSet;
use std::time::Duration;
use support::{Add, Task, task};
use tokio::time::Instant;
use windlass::{
    Backoff, Cancelling, Client, Context, Decision, EventKind, HandlerError, JobId, Shutdown, Status, Worker,
};

const SECOND: Duration = Duration::from_secs(1);
/// No worker here is to lose one, however busy the machine is; a cancel is heard of a third into it.
const LEASE: Duration = Duration::from_secs(12);
/// How long a worker that is patient waits for what runs.
const PATIENCE: Duration = Duration::from_secs(120);
/// No chance in it, so that it can be measured.
const STEADY: Backoff = Backoff { base_ms: 300, max_ms: 400, multiplier: 2.0, jitter: false };

/// Does what its text says.
async fn obey(job: Task, ctx: Context) -> Result<String, HandlerError> {
    let fence = ctx.fence();
    match job.text.as_str() {
        "ask" => {
            let from: Option<u32> = ctx.checkpoint_value()?;
            if from.is_none() {
                ctx.checkpoint(&7).await?;
            }
            ctx.approval("first").prompt("go?").await?;
            ctx.approval("second").prompt("really?").await?;
            Ok(format!("from {from:?}"))
        }
        "never" => Err(HandlerError::permanent("it cannot be done").code("impossible")),
        "third time" if fence < 3 => Err(HandlerError::retry("not yet").code("later")),
        "panic once" if fence == 1 => panic!("on purpose"),
        "hang" => {
            say("holding");
            ctx.stopping().await;
            hang("stopping").await
        }
        "hang once" if fence == 1 => hang("holding").await,
        "stop" => {
            say("holding");
            ctx.cancelled().await;
            say("stopping");
            Err(HandlerError::cancelled())
        }
        "finish" => {
            say("holding");
            ctx.stopping().await;
            Ok("finished in time".into())
        }
        count => {
            effect(count);
            Ok(count.to_owned())
        }
    }
}

/// Goes no further, and says so.
async fn hang(words: &str) -> Result<String, HandlerError> {
    say(words);
    std::future::pending().await
}

/// The first version of a program with three steps; it fails before its end.
async fn version_1(_: Task, ctx: Context) -> Result<String, HandlerError> {
    for name in ["charge", "wrap", "weigh"] {
        ctx.step(name, || done(name)).await?;
    }
    hang("three steps").await
}

/// The second: one step was renamed, one removed, one is new.
async fn version_2(_: Task, ctx: Context) -> Result<String, HandlerError> {
    let mut all = Vec::new();
    for name in ["ship", "pack", "charge"] {
        all.push(ctx.step(name, || done(name)).await?);
    }
    Ok(all.join(" "))
}

async fn done(name: &str) -> Result<String, HandlerError> {
    effect(name);
    Ok(name.to_owned())
}

async fn work(url: &str, role: &str, shutdown: Shutdown) {
    let client = windlass::connect(url).await.expect("a store");
    let worker = Worker::new(client).queue("tasks", 4).lease(LEASE).cancel_grace(SECOND);
    let worker = match role {
        "shares" => worker.lease(30 * SECOND).handle(obey),
        "obeys" => worker.handle(obey),
        "hurries" => worker.shutdown_deadline(Duration::from_millis(200)).handle(obey),
        "is patient" => worker.shutdown_deadline(PATIENCE).handle(obey),
        "version 1" => worker.lease(3 * SECOND).handle(version_1),
        "version 2" => worker.handle(version_2),
        other => panic!("nobody plays {other}"),
    };
    worker.run(shutdown).await.expect("a worker that ends well");
}

/// What a process of these tests does: its role, or one job that nobody disturbs.
#[test]
fn child() {
    wait_for(async {
        if let Some((role, url)) = role() {
            let shutdown = Shutdown::on_signals().expect("signals");
            return work(url.to_str().expect("a URL"), &role, shutdown).await;
        }
        let site = Site::sqlite().await;
        let (client, process) = (site.client().await, site.start("obeys"));
        assert_eq!(client.wait::<Task>(send(&client, "one").await).await.expect("done"), "one");
        stop(process);
        assert_eq!(site.effects(), ["one"]);
    });
}

async fn send(client: &Client, text: &str) -> JobId {
    client.enqueue(task(text)).backoff(STEADY).await.expect("a job").id
}

/// How long after each failure its next try was due, and how long it really took, in milliseconds.
async fn pauses(client: &Client, id: JobId) -> Vec<(i64, i64)> {
    let log = events(client, id).await;
    let pause = |pair: &[windlass::Event]| match (&pair[0].what, &pair[1].what) {
        (EventKind::JobRetried(retried), EventKind::JobClaimed) => {
            let since = |at: windlass::Timestamp| (at.as_micros() - pair[0].at.as_micros()) / 1_000;
            Some((since(retried.due_at), since(pair[1].at)))
        }
        _ => None,
    };
    log.windows(2).filter_map(pause).collect()
}

on_both_stores! {
    /// J12: processes share the work: each job once, nobody left out.
    #[test]
    async fn processes_share_the_work(site: Site) {
        let client = site.client().await;
        let workers = [site.start("shares"), site.start("shares"), site.start("shares")];
        let mut ids = Vec::new();
        for part in 0..10 {
            let jobs = (0..30).map(|n| task(&format!("{part} {n}")));
            ids.extend(client.enqueue_many(jobs).await.unwrap().into_iter().map(|sent| sent.id));
        }
        for id in ids {
            until_is(&client, id, Status::Completed).await;
        }
        workers.into_iter().for_each(stop);
        let effects = site.effects();
        let distinct: HashSet<_> = effects.iter().collect();
        assert_eq!((effects.len(), distinct.len()), (300, 300));
    }

    /// M8, J11: a gate frees the process, which may even end; yes lets another go on from the checkpoint through the next
    /// gate, no fails with the reason, and a job that waits can be cancelled.
    #[test]
    async fn a_gate_outlives_the_process_that_asked(site: Site) {
        let client = site.client().await;
        let process = site.start("obeys");
        let [yes, no, cancelled] = [send(&client, "ask").await, send(&client, "ask").await, send(&client, "ask").await];
        for id in [yes, no, cancelled] {
            until_is(&client, id, Status::Waiting).await;
        }
        stop(process);
        client.decide(question(&client, no, "first").await, Decision::Deny).by("ada").reason("too dear").await.unwrap();
        assert_eq!(error_of(&view(&client, no).await), ("approval_denied".into(), "too dear".into()));
        assert_eq!(client.cancel(cancelled).await.unwrap(), Cancelling::Cancelled);
        client.decide(question(&client, yes, "first").await, Decision::Approve).by("ada").await.unwrap();
        let process = site.start("obeys");
        until(&client, yes, "at the second gate", |view| view.job.status == Status::Waiting && view.job.attempt == 2).await;
        client.decide(question(&client, yes, "second").await, Decision::Approve).by("eve").await.unwrap();
        assert_eq!(client.wait::<Task>(yes).await.unwrap(), "from Some(7)");
        let ends = [view(&client, no).await.job, view(&client, cancelled).await.job].map(|job| (job.status, job.attempt));
        assert_eq!(ends, [(Status::Failed, 1), (Status::Cancelled, 1)]);
        assert_eq!(view(&client, yes).await.job.attempt, 3);
        stop(process);
    }

    /// M13, M9, Q14: what cannot pass fails at once, what may pass is tried again after the backoff, a panic is such a
    /// failure, and a kind that nobody here knows is left alone.
    #[test]
    async fn failures_are_told_apart(site: Site) {
        let client = site.client().await;
        let unknown = client.enqueue(Add(1, 2)).queue("tasks").await.unwrap().id;
        let process = site.start("obeys");
        let [never, third, panics] =
            [send(&client, "never").await, send(&client, "third time").await, send(&client, "panic once").await];
        let dead = until_is(&client, never, Status::Failed).await;
        assert_eq!((dead.job.attempt, dead.job.retries, error_of(&dead).0.as_str()), (1, 0, "impossible"));
        let found = until_is(&client, third, Status::Completed).await;
        assert_eq!((found.job.attempt, found.job.retries), (3, 2));
        let pauses = pauses(&client, third).await;
        let due: Vec<i64> = pauses.iter().map(|(due, _)| *due).collect();
        assert_eq!(due, [300, 400], "base, then base × 2 up to the longest");
        assert!(pauses.iter().all(|(due, took)| took >= due), "{pauses:?}");
        let found = until_is(&client, panics, Status::Completed).await;
        assert_eq!((found.job.attempt, found.job.retries), (2, 1));
        let left = view(&client, unknown).await.job;
        assert_eq!((left.status, left.version), (Status::Pending, 1));
        stop(process);
    }

    /// M10, T7: cancelled where it stands when nobody holds it; else its holder hears of it and stops.
    #[test]
    async fn a_cancel_reaches_every_status(site: Site) {
        let client = site.client().await;
        let pending = client.enqueue(task("later")).delay(600 * SECOND).await.unwrap().id;
        let process = site.start("obeys");
        let held = send(&client, "stop").await;
        assert_eq!(process.hears(), "holding");
        let slow = Backoff { base_ms: 60_000, max_ms: 60_000, ..STEADY };
        let retry = client.enqueue(task("third time")).backoff(slow).await.unwrap().id;
        until_is(&client, retry, Status::Retry).await;
        let waiting = send(&client, "ask").await;
        until_is(&client, waiting, Status::Waiting).await;
        for id in [pending, retry, waiting] {
            assert_eq!(client.cancel(id).reason("enough").await.unwrap(), Cancelling::Cancelled);
        }
        assert_eq!(client.cancel(held).await.unwrap(), Cancelling::Requested);
        assert_eq!(process.hears(), "stopping", "at the latest with the next renewal");
        for id in [pending, retry, waiting, held] {
            assert_eq!(until_is(&client, id, Status::Cancelled).await.job.retries, i32::from(id == retry));
        }
        stop(process);
    }

    /// T7: a holder that does not hear is not waited for, and its completion afterwards loses.
    #[test]
    async fn a_deaf_holder_is_cancelled_by_force(site: Site) {
        let client = site.client().await;
        // A lease that outlasts the force, and whose renewal is refused soon after.
        let id = client.enqueue(task("hang")).lease(20 * SECOND).await.unwrap().id;
        let deaf = site.start("obeys");
        assert_eq!(deaf.hears(), "holding");
        freeze(&deaf, &client).await;
        let other = site.start("obeys");
        assert_eq!(client.cancel(id).force_after(SECOND).await.unwrap(), Cancelling::Requested);
        until_is(&client, id, Status::Cancelled).await;
        signal(&deaf, "CONT");
        // It finds its lease gone, drops the handler and works on.
        stop(other);
        assert_eq!(client.wait::<Task>(send(&client, "next").await).await.unwrap(), "next");
        stop(deaf);
        assert_eq!(events(&client, id).await.last().unwrap().what.type_name(), "job_cancelled");
    }

    /// M13, Q14: a process that is asked to end lets finish what does, gives back the rest without a retry, and takes
    /// nothing new; asked twice it ends at once.
    #[test]
    async fn a_signal_ends_a_worker_gracefully(site: Site) {
        let client = site.client().await;
        let process = site.start("hurries");
        let (finishes, hangs) = (send(&client, "finish").await, send(&client, "hang once").await);
        assert_eq!([process.hears(), process.hears()], ["holding", "holding"]);
        stop(process);
        assert_eq!(view(&client, finishes).await.job.status, Status::Completed);
        let given_back = view(&client, hangs).await.job;
        assert_eq!((given_back.status, given_back.retries, given_back.crashes), (Status::Retry, 0, 0));
        assert_eq!(logged(&client, hangs, "job_released").await, 1);
        let process = site.start("is patient");
        assert_eq!(client.wait::<Task>(hangs).await.unwrap(), "hang once");
        let again = send(&client, "hang").await;
        assert_eq!(process.hears(), "holding");
        signal(&process, "TERM");
        assert_eq!(process.hears(), "stopping");
        let (late, asked_again) = (send(&client, "late").await, Instant::now());
        signal(&process, "TERM");
        let (status, _) = process.ends();
        assert!(status.success() && asked_again.elapsed() < PATIENCE / 2, "{status}");
        let given_back = view(&client, again).await.job;
        assert_eq!((given_back.status, given_back.retries, given_back.crashes), (Status::Retry, 0, 0));
        assert_eq!(view(&client, late).await.job.attempt, 0, "nothing new was taken");
    }

    /// J11: a job that began under one version of a program ends under another: what is on record under a name that is
    /// still used is not done again, a renamed step is done under its new name, a removed one is left on record.
    #[test]
    async fn two_versions_of_a_worker(site: Site) {
        let client = site.client().await;
        let id = send(&client, "order").await;
        let old = site.start("version 1");
        assert_eq!(old.hears(), "three steps");
        old.kills();
        let new = site.start("version 2");
        assert_eq!(client.wait::<Task>(id).await.unwrap(), "ship pack charge");
        stop(new);
        assert_eq!(site.effects(), ["charge", "wrap", "weigh", "ship", "pack"]);
        let recorded = client.store().steps(windlass_store::ReadSteps::all(id), None).await.unwrap().unwrap();
        assert_eq!(recorded.steps.len(), 5, "nothing of the old version was lost");
    }
}
