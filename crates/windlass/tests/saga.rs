//! Sagas: what a job did is undone, whoever ends it and however, and whatever happens to whoever undoes it.

mod site;
mod support;
#[path = "support/trip.rs"]
mod trip;

use site::process::{role, say};
use site::{Site, effect, error_of, events, question, stop, until, until_is, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Task, task};
use trip::{Books, book, travel};
use windlass::testing::Rig;
use windlass::{
    Client, Context, Decision, EventKind, Filter, HandlerError, JobId, Name, Shutdown, Status, Worker,
};

const SECOND: Duration = Duration::from_secs(1);
/// What a whole saga leaves behind in its book.
const UNDONE: [&str; 4] = ["flight", "hotel", "not hotel 7", "not flight 7"];

/// The jobs behind a job.
async fn behind(client: &Client, id: JobId) -> Vec<JobId> {
    let mut found = Vec::new();
    for event in events(client, id).await {
        if let EventKind::JobDependentsAdded(added) = event.what {
            found.extend(added.dependents.into_iter().map(|dependent| dependent.job));
        }
    }
    found
}

/// The one job that undoes another.
async fn undoing(client: &Client, id: JobId) -> JobId {
    let [one] = behind(client, id).await[..] else { panic!("one job undoes {id}") };
    one
}

/// A trip of this kind, which nothing but its own end ends.
async fn sent(client: &Client, text: &str) -> JobId {
    client.enqueue(task(text)).max_retries(0).timeout(60 * SECOND).await.expect("a job").id
}

/// Ends jobs in every way, and sees each undone once.
#[allow(clippy::unwrap_used, reason = "the body of tests")]
async fn every_end(client: Client, prompt: Option<&tokio_postgres::Client>) {
    let books = Books::default();
    let worker = Worker::new(client.clone()).state(books.clone()).queue("tasks", 8);
    let worker = worker.cancel_grace(Duration::from_millis(50)).handle(travel);
    let run = worker.run_until(async {
        let is = |status| move |view: &windlass::JobView| view.job.status == status;
        let [fails, panics, goes_well] =
            [sent(&client, "fails").await, sent(&client, "panics").await, sent(&client, "goes well").await];
        let late = client.enqueue(task("hangs")).max_retries(0).timeout(2 * SECOND).await.unwrap().id;
        let silent = sent(&client, "asks shortly").await;
        let waits = [sent(&client, "waits").await, sent(&client, "waits").await];
        let asks = sent(&client, "asks").await;
        let retries = client.enqueue(task("comes back")).await.unwrap().id;
        let runs = sent(&client, "hangs").await;
        let flow = client.flow();
        flow.add("trip", task("waits"));
        let flow = flow.start().await.unwrap();
        let in_flow = flow.jobs["trip"];

        for id in waits.into_iter().chain([asks, in_flow]) {
            until(&client, id, "waiting", is(Status::Waiting)).await;
        }
        client.cancel(waits[0]).await.unwrap();
        match prompt {
            Some(prompt) => ends_by_hand(prompt, waits[1]).await,
            None => {
                client.cancel(waits[1]).await.unwrap();
            }
        }
        let asked = question(&client, asks, "pay").await;
        client.decide(asked, Decision::Deny).by("ada").await.unwrap();
        client.cancel(flow.id).await.unwrap();
        until(&client, retries, "to be tried again", is(Status::Retry)).await;
        client.cancel(retries).await.unwrap();
        until(&client, runs, "booked", |view| view.job.progress == 60).await;
        client.cancel(runs).await.unwrap();

        let ends = [
            (fails, Status::Failed),
            (panics, Status::Failed),
            (late, Status::TimedOut),
            (waits[0], Status::Cancelled),
            (waits[1], Status::Cancelled),
            (asks, Status::Failed),
            (silent, Status::Failed),
            (in_flow, Status::Cancelled),
            (retries, Status::Cancelled),
            (runs, Status::Cancelled),
        ];
        for (id, status) in ends {
            let ended = until(&client, id, "at its end", |view| view.job.status.is_terminal()).await;
            assert_eq!(ended.job.status, status, "{:?}", ended.payload);
            let undo = undoing(&client, id).await;
            until_is(&client, undo, Status::Completed).await;
            assert_eq!(books.of(id), UNDONE, "{:?}", ended.payload);
            let steps: Vec<String> = events(&client, undo).await.into_iter().filter_map(step).collect();
            assert_eq!(steps, ["cancel-hotel", "cancel-flight"], "on record");
        }
        until_is(&client, goes_well, Status::Completed).await;
        until_is(&client, undoing(&client, goes_well).await, Status::Cancelled).await;
        assert_eq!(books.of(goes_well), UNDONE[..2]);
    });
    run.await.expect("a worker that ends well");
}

/// The name of a step that ended.
fn step(event: windlass::Event) -> Option<String> {
    match event.what {
        EventKind::NodeFinished(step) => Some(step.name.to_string()),
        _ => None,
    }
}

/// Cancels at an SQL prompt a job and what waits to undo it, as one statement on all of a queue would.
async fn ends_by_hand(prompt: &tokio_postgres::Client, id: JobId) {
    let sql = format!(
        "UPDATE windlass.jobs SET status = 'cancelled' WHERE id = '{id}' OR id IN (
           SELECT (e.detail::json #>> '{{dependents,0,job}}')::uuid FROM windlass.job_events e
           WHERE e.job_id = '{id}' AND e.type = 'job_dependents_added')"
    );
    prompt.batch_execute(&sql).await.expect("both are matched");
}

/// J11, J12, J7: a failure, a panic, a timeout, a denial, silence, cancels of every kind.
#[test]
fn every_end_is_undone_in_memory() {
    wait_for(async { every_end(windlass::connect("memory:").await.unwrap(), None).await });
}

/// J11, J12, J7
#[test]
fn every_end_is_undone_on_sqlite() {
    wait_for(async {
        let site = Site::sqlite().await;
        every_end(site.client().await, None).await;
    });
}

/// J11, J12, J7, M7: also when a user at an SQL prompt ends all of a queue, with what waits to undo it.
#[test]
fn every_end_is_undone_on_postgres() {
    wait_for(async {
        let site = Site::postgres().await;
        let (prompt, connection) =
            tokio_postgres::connect(&site.url, tokio_postgres::NoTls).await.expect("a connection");
        tokio::select! {
            () = every_end(site.client().await, Some(&prompt)) => {}
            end = connection => panic!("the connection ended: {end:?}"),
        }
    });
}

/// What a process does to the world, which outlives it.
async fn go(point: &'static str, ctx: Context) -> Result<String, HandlerError> {
    for what in ["flight", "hotel"] {
        let booked = ctx.step(what, || async {
            effect(what);
            Ok::<_, HandlerError>(what.to_owned())
        });
        let undo = move |what: String| async move {
            if point == "dies" && what == "flight" {
                say("half undone");
                std::future::pending::<()>().await;
            }
            effect(&format!("not {what}"));
            Ok::<_, HandlerError>(())
        };
        booked.undo(&format!("cancel-{what}"), undo).await?;
    }
    ctx.wait_for("paid").await
}

async fn work(url: &str, role: &str, shutdown: Shutdown) {
    let client = windlass::connect(url).await.expect("a store");
    let point = if role == "dies" { "dies" } else { "lives" };
    let worker = Worker::new(client).queue("tasks", 4).lease(2 * SECOND);
    worker.handle(move |_: Task, ctx| go(point, ctx)).run(shutdown).await.expect("a worker that ends well");
}

/// What a process of these tests does: its role, or one job that is paid for.
#[test]
fn child() {
    wait_for(async {
        if let Some((role, url)) = role() {
            let shutdown = Shutdown::on_signals().expect("signals");
            return work(url.to_str().expect("a URL"), &role, shutdown).await;
        }
        let site = Site::sqlite().await;
        let (client, process) = (site.client().await, site.start("lives"));
        let id = sent(&client, "trip").await;
        client.signal(id, "paid", "yes").await.expect("signalled");
        assert_eq!(client.wait::<Task>(id).await.expect("done"), "yes");
        stop(process);
        assert_eq!(site.effects(), ["flight", "hotel"]);
    });
}

on_both_stores! {
    /// J12, Q14: who undoes is killed in the middle, and another goes on from there.
    #[test]
    async fn an_undoing_that_is_killed_goes_on(site: Site) {
        let (client, process) = (site.client().await, site.start("dies"));
        let id = sent(&client, "trip").await;
        until_is(&client, id, Status::Waiting).await;
        client.cancel(id).await.unwrap();
        assert_eq!(process.hears(), "half undone");
        process.kills();
        let survivor = site.start("lives");
        let undone = until_is(&client, undoing(&client, id).await, Status::Completed).await;
        assert_eq!((undone.job.attempt, undone.job.retries), (2, 0), "a death is no failure");
        assert_eq!(site.effects(), ["flight", "hotel", "not hotel", "not flight"]);
        stop(survivor);
    }
}

fn worker<F, Fut>(rig: &Rig, handler: F) -> (Worker<Books>, Books)
where
    F: Fn(Task, Context<Books>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<String, HandlerError>> + Send + 'static,
{
    let books = Books::default();
    (Worker::new(rig.client().clone()).state(books.clone()).queue("tasks", 1).handle(handler), books)
}

async fn run_out(rig: &Rig, worker: &Worker<Books>) {
    for _ in 0..20 {
        rig.drain(worker).await;
        rig.advance(600 * SECOND);
    }
}

/// J11, J12: only the last failure is undone; an undo that fails is tried again and keeps no other from being done.
#[tokio::test]
async fn an_undo_that_fails_is_tried_again() {
    let rig = Rig::new();
    let (worker, books) = worker(&rig, |_, ctx| async move {
        book(&ctx, "flight").await?;
        let (books, id) = (ctx.state().clone(), ctx.id());
        let undo = move |(): ()| async move {
            books.write(id, "try");
            match books.of(id).iter().filter(|line| *line == "try").count() {
                1 => Err(HandlerError::retry("busy")),
                2 => panic!("worse"),
                _ => Ok(()),
            }
        };
        let hotel = ctx.step("hotel", || async { Ok::<_, HandlerError>(()) });
        hotel.undo("cancel-hotel", undo).await?;
        Err(HandlerError::retry("no car"))
    });
    let id = rig.client().enqueue(task("t")).max_retries(2).await.unwrap().id;
    run_out(&rig, &worker).await;
    assert_eq!((rig.view(id).await.job.status, rig.view(id).await.job.attempt), (Status::Failed, 3));
    assert_eq!(books.of(id), ["flight", "try", "not flight 7", "try", "try"]);
    let undone = rig.view(undoing(rig.client(), id).await).await.job;
    assert_eq!((undone.status, undone.retries), (Status::Completed, 2));
}

/// J12: an undo that no try can help fails the job that undoes, which says so and can be redriven.
#[tokio::test]
async fn an_undo_that_cannot_be_done_is_a_dead_letter() {
    let rig = Rig::new();
    let (worker, books) = worker(&rig, |_, ctx| async move {
        book(&ctx, "flight").await?;
        let (books, id) = (ctx.state().clone(), ctx.id());
        let undo = move |(): ()| async move {
            books.write(id, "try");
            if books.of(id).len() < 4 { Err(HandlerError::permanent("no refund")) } else { Ok(()) }
        };
        ctx.step("hotel", || async { Ok::<_, HandlerError>(()) }).undo("cancel-hotel", undo).await?;
        Err(HandlerError::permanent("no car"))
    });
    let id = sent(rig.client(), "t").await;
    run_out(&rig, &worker).await;
    let undo = undoing(rig.client(), id).await;
    let view = rig.view(undo).await;
    assert_eq!((view.job.status, view.job.retries), (Status::Failed, 0));
    assert_eq!(error_of(&view), ("undo_failed".into(), "cancel-hotel: no refund".into()));
    assert_eq!(books.of(id), ["flight", "try", "not flight 7"], "the other was undone all the same");
    rig.client().redrive(undo).await.unwrap();
    run_out(&rig, &worker).await;
    assert_eq!(rig.view(undo).await.job.status, Status::Completed);
    assert_eq!(books.of(id), ["flight", "try", "not flight 7", "try"]);
}

/// J12: steps side by side are undone in the order of their records; nothing is undone before all are found again.
#[tokio::test]
async fn a_handler_that_stumbles_between_two_steps_is_played_back_again() {
    let rig = Rig::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let (worker, books) = worker(&rig, move |_, ctx| {
        let run = counted.fetch_add(1, Ordering::AcqRel);
        async move {
            let slow = async {
                tokio::task::yield_now().await;
                book(&ctx, "flight").await
            };
            let (flight, hotel) = tokio::join!(slow, book(&ctx, "hotel"));
            let _tickets = (flight?, hotel?);
            if run == 1 {
                return Err(HandlerError::retry("the database is away"));
            }
            book(&ctx, "car").await?;
            ctx.wait_for::<()>("paid").await?;
            Ok(String::new())
        }
    });
    let id = sent(rig.client(), "t").await;
    rig.drain(&worker).await;
    rig.client().cancel(id).await.unwrap();
    rig.drain(&worker).await;
    assert_eq!(books.of(id), ["hotel", "flight", "car"]);
    let undo = undoing(rig.client(), id).await;
    let (code, message) = error_of(&rig.view(undo).await);
    assert_eq!(code, "undo_incomplete");
    assert_eq!(message, "the handler did not come to car again: the database is away");
    run_out(&rig, &worker).await;
    assert_eq!(rig.view(undo).await.job.status, Status::Completed);
    assert_eq!(books.of(id)[3..], ["not car 7", "not flight 7", "not hotel 7"]);
}

/// J12: what the handler never comes to again is named, and the rest is undone with the last try.
#[tokio::test]
async fn what_a_changed_handler_does_not_know_is_named() {
    let rig = Rig::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let (worker, books) = worker(&rig, move |_, ctx| {
        let is_first = runs.fetch_add(1, Ordering::AcqRel) == 0;
        async move {
            book(&ctx, "flight").await?;
            if is_first {
                book(&ctx, "hotel").await?;
            }
            Err(HandlerError::permanent("no car"))
        }
    });
    let id = sent(rig.client(), "t").await;
    run_out(&rig, &worker).await;
    let view = rig.view(undoing(rig.client(), id).await).await;
    assert_eq!((view.job.status, view.job.retries), (Status::Failed, 10));
    assert!(error_of(&view).1.contains("did not come to hotel again: no car"), "{view:?}");
    assert_eq!(books.of(id), ["flight", "hotel", "not flight 7"]);
}

/// J11, M7: what was undone is not taken for done after a redrive; from the start everything is done, and undone, again.
#[tokio::test]
async fn a_redriven_job_does_not_build_on_what_was_undone() {
    let rig = Rig::new();
    let (worker, books) = worker(&rig, travel);
    let id = sent(rig.client(), "waits").await;
    rig.drain(&worker).await;
    rig.client().cancel(id).await.unwrap();
    // Nobody has undone anything yet: what is to be undone is what was done before the redrive.
    rig.client().redrive(id).from_start().await.unwrap();
    run_out(&rig, &worker).await;
    let mut lines = books.of(id);
    lines.sort_unstable();
    assert_eq!(lines, ["flight", "flight", "hotel", "hotel", "not flight 7", "not hotel 7"]);
    assert_eq!(rig.status(id).await, Status::Waiting);
    rig.client().cancel(id).await.unwrap();
    run_out(&rig, &worker).await;
    assert_eq!(books.of(id).len(), 8, "the second life is undone too");
    assert_eq!(behind(rig.client(), id).await.len(), 2);
    rig.client().redrive(id).await.unwrap();
    run_out(&rig, &worker).await;
    assert_eq!(error_of(&rig.view(id).await).0, "step_undone");
    assert_eq!(books.of(id).len(), 8);
}

/// J11: a fork goes on from another's record, and undoes only what it did itself.
#[tokio::test]
async fn a_fork_undoes_what_it_did() {
    let rig = Rig::new();
    let (worker, books) = worker(&rig, |_, ctx| async move {
        book(&ctx, "flight").await?;
        ctx.wait_for::<()>("on").await?;
        book(&ctx, "hotel").await?;
        Err(HandlerError::permanent("no car"))
    });
    let id = sent(rig.client(), "t").await;
    rig.drain(&worker).await;
    let fork = rig.client().fork(id).await.unwrap();
    for job in [fork, id] {
        rig.client().signal(job, "on", ()).await.unwrap();
        run_out(&rig, &worker).await;
    }
    assert_eq!(books.of(fork), ["hotel", "not hotel 7"]);
    assert_eq!(books.of(id), UNDONE);
}

/// M10: whoever cancels all of a queue does not keep it from being undone.
#[tokio::test]
async fn all_of_a_queue_is_cancelled_and_undone() {
    let rig = Rig::new();
    let (worker, books) = worker(&rig, travel);
    let ids = [sent(rig.client(), "waits").await, sent(rig.client(), "waits").await];
    rig.drain(&worker).await;
    let named = |word| Some(Name::parse("name", word).unwrap());
    let queue = Filter { queue: named("tasks"), ..Filter::default() };
    assert_eq!(rig.client().cancel_all(queue.clone()).await.unwrap().done, 2);
    assert_eq!(rig.client().cancel_all(queue.clone()).await.unwrap().matched, 0, "also once they are due");
    rig.drain(&worker).await;
    for id in ids {
        assert_eq!(books.of(id), UNDONE);
    }
    // Who wants no undoing says so.
    let kept = sent(rig.client(), "waits").await;
    rig.drain(&worker).await;
    let undos = Filter { kind: named("task:undo"), ..queue };
    assert_eq!(rig.client().cancel_all(undos).await.unwrap().done, 1);
    rig.client().cancel(kept).await.unwrap();
    rig.drain(&worker).await;
    assert_eq!(books.of(kept), UNDONE[..2]);
}

/// (library) Handlers that block and jobs in batches are undone one by one, and two undos of one name are refused.
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_handler_is_undone() {
    let client = windlass::connect("memory:").await.unwrap();
    let books = Books::default();
    let worker = Worker::new(client.clone()).state(books.clone()).queue("tasks", 8);
    let worker =
        worker.handle_batch(4, Duration::from_millis(50), |jobs: Vec<(Task, Context<Books>)>| async {
            let mut ends = Vec::new();
            for (job, ctx) in jobs {
                ends.push(travel(job, ctx).await);
            }
            ends
        });
    let blocks = Books::default();
    let blocking = Worker::new(client.clone()).state(blocks.clone()).queue("blocking", 8);
    let blocking = blocking.handle_blocking(|_: Task, ctx: Context<Books>| {
        tokio::runtime::Handle::current().block_on(async {
            book(&ctx, "flight").await?;
            match book(&ctx, "flight").await {
                Err(twice) => assert_eq!(twice.error_code(), "name_used_twice"),
                Ok(_) => panic!("a name serves once"),
            }
            book(&ctx, "hotel").await?;
            ctx.step("charge", || async { Err::<(), _>(HandlerError::permanent("no")) }).await?;
            Ok(String::new())
        })
    });
    let ended = async {
        let ids = [sent(&client, "fails").await, sent(&client, "fails").await];
        let blocked = client.enqueue(task("t")).queue("blocking").await.unwrap().id;
        for (id, books) in [(ids[0], &books), (ids[1], &books), (blocked, &blocks)] {
            until_is(&client, id, Status::Failed).await;
            until_is(&client, undoing(&client, id).await, Status::Completed).await;
            assert_eq!(books.of(id), UNDONE);
        }
    };
    tokio::select! {
        () = ended => {}
        end = async { tokio::join!(worker.run_until(std::future::pending()), blocking.run_until(std::future::pending())) } =>
            panic!("{end:?}"),
    }
}
