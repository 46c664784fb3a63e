//! `kill -9` at every named point of a job's life. Another worker takes over, nothing on record is done again, and the job
//! ends as it should.

mod site;
mod support;

use site::process::{Process, role, say};
use site::{Site, effect, events, logged, signal, stop, until, wait_for};
use std::sync::Arc;
use std::time::Duration;
use support::{Task, task};
use tokio::time::timeout;
use windlass::{Client, Context, HandlerError, JobId, Shutdown, Status, Worker};
use windlass_store::{Faults, Faulty, Store};

/// How long the lease of a worker is that will be killed: so long its jobs wait for another.
const LEASE: Duration = Duration::from_secs(5);

/// A place in a job's life where its worker is killed, and what must be seen afterwards.
struct Point {
    name: &'static str,
    /// Executions in all; an undisturbed life has two, one before its wait and one after.
    attempts: i32,
    /// How often each was done: the first step, the second, the tool, the last line.
    done: [usize; 4],
    /// The code of the error that ends the job, if one must.
    fails: Option<&'static str>,
}

const fn point(name: &'static str, attempts: i32, done: [usize; 4]) -> Point {
    Point { name, attempts, done, fails: None }
}

/// The crash points.
const POINTS: &[Point] = &[
    // The claim is in the store, and its worker never learns what it got.
    point("claim-unanswered", 3, [1, 1, 1, 1]),
    // After the claim, at the handler's first line.
    point("claimed", 3, [1, 1, 1, 1]),
    // In a step, before it did anything.
    point("mid-step", 3, [1, 1, 1, 1]),
    // After a step's effect and before its record: the one thing that must be done again.
    point("effect-unrecorded", 3, [1, 2, 1, 1]),
    // A tool was called and has not returned: nobody may guess, and the job says so.
    Point { name: "mid-tool", attempts: 2, done: [1, 1, 1, 0], fails: Some("tool_in_doubt") },
    // The wait is in the store, and its worker does not know.
    point("wait-unanswered", 2, [1, 1, 1, 1]),
    // While the job waits, which nobody holds.
    point("mid-wait", 2, [1, 1, 1, 1]),
    // Asked to end, and killed before it had.
    point("mid-shutdown", 3, [1, 1, 1, 1]),
    // The completion is in the store, and its worker never hears so.
    point("completion-unanswered", 2, [1, 1, 1, 1]),
];

/// What the handler of a process knows: where it is to die, and the store it can make deaf.
struct Fate {
    point: String,
    store: Arc<Faulty>,
}

impl Fate {
    /// Tells the parent that the point is reached, and goes no further.
    async fn dies_at(&self, point: &str) {
        if self.point == point {
            say(point);
            std::future::pending::<()>().await;
        }
    }

    /// Lets the next call of a verb be the last thing that this process does.
    fn deaf_to(&self, point: &str, verb: &'static str) {
        if self.point == point {
            self.store.never_answer(verb);
        }
    }
}

async fn live(job: Task, ctx: Context<Fate>) -> Result<String, HandlerError> {
    let (fate, point) = (ctx.state(), job.text.as_str());
    fate.dies_at("claimed").await;
    let step = async |what: &str| {
        effect(&format!("{point} {what}"));
        Ok::<_, HandlerError>(what.to_owned())
    };
    let first = ctx.step("first", || step("first")).await?;
    let second = ctx
        .step("second", || async {
            fate.dies_at("mid-step").await;
            let second = step("second").await;
            fate.dies_at("effect-unrecorded").await;
            second
        })
        .await?;
    ctx.tool("pay", &5, || async {
        let paid = step("tool").await;
        fate.dies_at("mid-tool").await;
        paid
    })
    .await?;
    fate.deaf_to("wait-unanswered", "settle");
    let () = ctx.wait_for("go").await?;
    if fate.point == "mid-shutdown" {
        say("to be stopped");
        ctx.stopping().await;
        fate.dies_at("mid-shutdown").await;
    }
    effect(&format!("{point} end"));
    fate.deaf_to("completion-unanswered", "settle");
    Ok(format!("{first}, {second}"))
}

/// A worker that takes from these queues, on a store that can be made deaf.
async fn work(client: &Client, point: &str, queues: &[&str], lease: Duration, shutdown: Shutdown) {
    let faults = Faults { seed: 0, fail_before: 0, lose_answer: 0, delay: 0, duplicate: 0 };
    let store = Arc::new(Faulty::new(Arc::clone(client.store()), faults));
    let fate = Fate { point: point.to_owned(), store: Arc::clone(&store) };
    fate.deaf_to("claim-unanswered", "claim");
    let deaf = Client::new(Arc::clone(&store) as Arc<dyn Store>);
    let mut worker = Worker::new(deaf).state(fate).lease(lease).handle(live);
    for queue in queues {
        worker = worker.queue(queue, 4);
    }
    let hung = async {
        while !store.is_hung() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        say(point);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ran = worker.run(shutdown) => ran.expect("a worker that ends well"),
        () = hung => {}
    }
}

/// What a process of these tests does: its role, or a life that nobody disturbs.
#[test]
fn child() {
    wait_for(async {
        if let Some((point, url)) = role() {
            let client = windlass::connect(url.to_str().expect("a URL")).await.expect("a store");
            let shutdown = Shutdown::on_signals().expect("signals");
            let all: Vec<&str> = POINTS.iter().map(|point| point.name).collect();
            match point.as_str() {
                "survivor" => work(&client, "", &all, Duration::from_secs(30), shutdown).await,
                point => work(&client, point, &[point], LEASE, shutdown).await,
            }
            return;
        }
        let site = Site::sqlite().await;
        let (client, survivor) = (site.client().await, site.start("survivor"));
        let id = sent(&client, "claimed").await;
        client.signal(id, "go", ()).await.expect("signalled");
        check(&site, &client, &point("claimed", 2, [1, 1, 1, 1]), id).await;
        stop(survivor);
    });
}

async fn sent(client: &Client, point: &str) -> JobId {
    client.enqueue(task(point)).queue(point).await.expect("a job").id
}

/// Brings a worker to a point and kills it there.
async fn kill_at(site: &Site, client: &Client, point: &Point, id: JobId) {
    let process: Process = site.start(point.name);
    match point.name {
        "mid-wait" => {
            until(client, id, "waiting", |view| view.job.status == Status::Waiting).await;
        }
        "mid-shutdown" => {
            assert_eq!(process.hears(), "to be stopped");
            signal(&process, "TERM");
            assert_eq!(process.hears(), point.name);
        }
        name => assert_eq!(process.hears(), name),
    }
    process.kills();
}

/// The job ends as the point says, everything was done as often as it says, and the log tells one story.
async fn check(site: &Site, client: &Client, point: &Point, id: JobId) {
    let ended = timeout(site::DEADLINE, client.wait::<Task>(id)).await;
    let ended = ended.unwrap_or_else(|_| panic!("{}: it never ended", point.name));
    let found = site::view(client, id).await;
    let log = events(client, id).await;
    match (point.fails, ended) {
        (None, Ok(output)) => assert_eq!(output, "first, second", "{}", point.name),
        (Some(code), Err(windlass::Error::Ended(end))) => assert_eq!(end.code, code, "{}", point.name),
        (_, ended) => panic!("{}: {ended:?}, {log:?}", point.name),
    }
    let done = ["first", "second", "tool", "end"].map(|what| site.count(&format!("{} {what}", point.name)));
    assert_eq!((found.job.attempt, done), (point.attempts, point.done), "{}: {log:?}", point.name);
    assert_eq!(found.job.retries, 0, "{}: a death is no failure of the job", point.name);
    let completed = logged(client, id, "job_completed").await;
    assert_eq!(completed, usize::from(point.fails.is_none()), "{}: {log:?}", point.name);
}

on_both_stores! {
    /// J11, J12, Q14: at whatever point a worker is killed, another takes over and the job ends right.
    #[test]
    async fn killed_at_every_point(site: Site) {
        let client = site.client().await;
        let mut ids = Vec::new();
        for point in POINTS {
            let id = sent(&client, point.name).await;
            // A signal that comes before the wait is kept for it. Who is killed in the wait must not be woken before.
            let early = !["wait-unanswered", "mid-wait"].contains(&point.name);
            if early {
                client.signal(id, "go", ()).await.unwrap();
            }
            kill_at(&site, &client, point, id).await;
            if !early {
                client.signal(id, "go", ()).await.unwrap();
            }
            ids.push(id);
        }
        let survivor = site.start("survivor");
        for (point, id) in POINTS.iter().zip(ids) {
            check(&site, &client, point, id).await;
        }
        stop(survivor);
    }
}
