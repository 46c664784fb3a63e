//! Several servers on one PostgreSQL, and one leads: stopped, cut off, killed, with a wrong clock, with the database gone
//! for a moment. Whatever happens, each slot is one job, each job is assigned by the leader of its time, and each runs once.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use windlass_core::follow::STATS;
use windlass_core::seal::SEALS;
use windlass_core::stats::Tally;
use windlass_core::{Name, Timestamp};
use windlass_engine::service::Leading;
use windlass_store::{ReadFeed, ReadRollups, Resolution, fresh};
use wire::hole::Hole;
use wire::receiver::{Receiver, SECRET};
use wire::{Client, Place, Served, free_address, until};

/// How many transactions a second an idle leader may run.
const MOST: f64 = 9.0;

fn signal(served: &Served, signal: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", served.pid())]).status().unwrap();
    assert!(sent.success());
}

/// What `/metrics` says under a name, of this very process.
fn measured(served: &Served, name: &str) -> f64 {
    let text = served.client().get("/metrics").unwrap().text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

fn leads(served: &Served) -> bool {
    measured(served, "windlass_leader") == 1.0
}

fn epoch(client: &mut Client) -> i64 {
    client.get("/v1/leader").unwrap().is(200)["epoch"].as_i64().unwrap()
}

/// A schedule that fires every second into a push queue, and a worker that takes all of it.
fn set_up(client: &mut Client) {
    client.send("PUT", "/v1/queues/ticks", "", r#"{"mode":"push"}"#).unwrap().is(200);
    let report = json!({ "queues": ["ticks"], "capacity": 1_000_000, "ttl": "1h" }).to_string();
    client.send("PUT", "/v1/workers/taker", "", &report).unwrap().is(200);
    let tick = json!({ "every": "1s", "missed": "skip", "job": { "kind": "tick", "queue": "ticks" } });
    client.send("PUT", "/v1/schedules/pulse", "", &tick.to_string()).unwrap().is(200);
}

/// How many jobs there are, and how many of them are assigned.
fn ticks(client: &mut Client) -> (usize, usize) {
    let page = client.get("/v1/jobs?queue=ticks&limit=1000").unwrap().is(200);
    let jobs = page["jobs"].as_array().unwrap();
    let is_assigned = |job: &&Value| job["status"] == "assigned";
    (jobs.len(), jobs.iter().filter(is_assigned).count())
}

/// Waits until so many more ticks came and all are assigned.
#[track_caller]
fn goes_on(client: &mut Client, more: usize) {
    let before = ticks(client).0;
    until("schedules fire and jobs are assigned", || {
        let (all, assigned) = ticks(client);
        all >= before + more && assigned == all
    });
}

/// Every write of a leader came before the first of the next one, and no slot has two jobs.
fn is_one_story(place: &Place) {
    place.on_database(
        "DO $$ BEGIN
           IF EXISTS (SELECT 1 FROM (
             SELECT substr(actor, 8)::bigint AS epoch, max(substr(actor, 8)::bigint) OVER (ORDER BY seq) AS newest
             FROM windlass.job_events WHERE actor LIKE 'leader:%') e WHERE epoch < newest)
           THEN RAISE EXCEPTION 'a leader wrote after the next one'; END IF;
           IF EXISTS (SELECT 1 FROM windlass.job_keys GROUP BY scope, key HAVING count(*) > 1)
           THEN RAISE EXCEPTION 'a slot was fired twice'; END IF;
           IF EXISTS (SELECT 1 FROM windlass.job_events WHERE type = 'job_assigned' GROUP BY job_id HAVING count(*) > 1)
           THEN RAISE EXCEPTION 'a job was assigned twice'; END IF;
         END $$",
    );
    place.is_sound();
}

/// Two servers; the first of the pair leads.
fn two(place: &Place) -> (Served, Served) {
    let first = place.serve();
    until("the first server leads", || leads(&first));
    (first, place.serve())
}

/// R4: a leader that ends resigns, and the next leads within a second or so; one that is killed is followed after its term.
#[test]
fn another_leads_when_the_leader_ends_or_is_killed() {
    let place = Place::postgres();
    let (first, mut second) = two(&place);
    let mut client = second.client();
    set_up(&mut client);
    goes_on(&mut client, 2);
    signal(&first, "TERM");
    until("the second leads", || leads(&second));
    until("the first says that it resigned", || first.log().contains("it resigned"));
    assert_eq!((epoch(&mut client), measured(&second, "windlass_leader_changes_total")), (2, 1.0));
    goes_on(&mut client, 2);
    let third = place.serve();
    let mut client = third.client();
    second.kill();
    until("the third leads", || leads(&third));
    goes_on(&mut client, 2);
    let audit = client.get("/v1/audit?action=leader.change").unwrap().is(200);
    let epochs: Vec<i64> =
        audit["entries"].as_array().unwrap().iter().map(|e| e["detail"]["epoch"].as_i64().unwrap()).collect();
    assert_eq!(epochs, [3, 2, 1], "every change is on record");
    drop((first, second, third));
    is_one_story(&place);
}

/// All that a leader does when there is nothing to do are a few transactions a second.
#[test]
fn an_idle_leader_asks_for_little() {
    let place = Place::postgres();
    let served = place.serve();
    let mut client = served.client();
    let yearly = json!({ "cron": "0 0 1 1 *", "job": { "kind": "tick" } }).to_string();
    client.send("PUT", "/v1/schedules/yearly", "", &yearly).unwrap().is(200);
    client.send("PUT", "/v1/queues/ticks", "", r#"{"mode":"push"}"#).unwrap().is(200);
    until("it leads", || leads(&served));
    // What is not meant passes: what a start reads, what each connection prepares once, a vacuum. So the first quarter of a minute
    // without it counts; one that asks for more has none. A connection that rests says what it did only after ten seconds.
    let transactions = || {
        place.of_database(
            "SELECT (xact_commit + xact_rollback)::float8 FROM pg_stat_database WHERE datname = current_database()",
        )
    };
    until("a quarter of a minute in which it asks for little", || {
        let (began, before) = (Instant::now(), transactions());
        std::thread::sleep(Duration::from_secs(15));
        let asked = (transactions() - before) / began.elapsed().as_secs_f64();
        println!("{asked} transactions a second");
        assert!(asked > 1.0, "nothing was counted: {asked} a second");
        asked <= MOST
    });
    drop(served);
    place.is_sound();
}

/// R4, R2: stopped past its term and continued, a leader that still believes to lead writes nothing.
#[test]
fn a_leader_that_was_stopped_writes_nothing_afterwards() {
    let place = Place::postgres();
    let (first, second) = two(&place);
    let mut client = second.client();
    set_up(&mut client);
    for round in 1..=2 {
        let (stopped, other) = if leads(&first) { (&first, &second) } else { (&second, &first) };
        let mut client = other.client();
        goes_on(&mut client, 1);
        signal(stopped, "STOP");
        until("the other leads", || leads(other));
        goes_on(&mut client, 2);
        signal(stopped, "CONT");
        until("the stopped one knows", || !leads(stopped));
        goes_on(&mut client, 2);
        assert_eq!(epoch(&mut client), round + 1);
    }
    drop((first, second));
    is_one_story(&place);
}

/// R4: cut off from the database without a reset, a leader stops by itself before another can lead.
#[test]
fn a_leader_that_is_cut_off_stops_by_itself() {
    let place = Place::postgres();
    let hole = Hole::before(&place.url);
    let address = free_address();
    let mut command = place.command(&["serve", "--unsafe", "--listen", &address]);
    command.env("WINDLASS_STORE", &hole.url);
    let first = Served::start(command, place.folder(), &address);
    until("the first server leads", || leads(&first));
    let second = place.serve();
    let mut client = second.client();
    set_up(&mut client);
    goes_on(&mut client, 2);
    hole.swallow(true);
    until("the second leads", || leads(&second));
    until("the first says that it stopped", || first.log().contains("leads no more"));
    goes_on(&mut client, 2);
    hole.swallow(false);
    goes_on(&mut client, 2);
    assert_eq!(epoch(&mut client), 2);
    drop((first, second));
    is_one_story(&place);
}

/// A program of one's own that works and may lead, in a process of its own: below, tests start it.
#[test]
fn a_program() {
    let Ok(url) = std::env::var("WINDLASS_TEST_PROGRAM") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = windlass::connect(&url).await.unwrap();
        let worker = windlass::Worker::new(client).queue("default", 2).identity("program").schedules(true);
        let worker = worker.handle(|_: Errand, _: windlass::Context| async { Ok(()) });
        worker.run(windlass::Shutdown::on_signals().unwrap()).await.unwrap();
    });
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Errand {}

impl windlass::Job for Errand {
    const KIND: &str = "errand";
    type Output = ();
}

/// It ends with this.
struct Program(std::process::Child);

impl Program {
    fn start(place: &Place) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_program"]).env("WINDLASS_TEST_PROGRAM", &place.url);
        Self(command.stdout(std::process::Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the store itself says, with no server there, and how many errands were run.
struct Inside<'a> {
    place: &'a Place,
    runtime: tokio::runtime::Runtime,
    client: windlass::Client,
    errands: i64,
}

impl<'a> Inside<'a> {
    fn of(place: &'a Place) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = runtime.block_on(windlass::connect(&place.url)).unwrap();
        Self { place, runtime, client, errands: 0 }
    }

    /// Whose term it is.
    fn holder(&self) -> String {
        let term = self.runtime.block_on(self.client.store().term(Leading::term(), None)).unwrap();
        term.map_or(String::new(), |term| term.holder.to_string())
    }

    /// Whether stats and seals are at the end of the feed, and every errand is counted.
    fn is_read(&self) -> bool {
        let (from, to) = (Timestamp::from_micros(0), fresh::wall_clock().plus_ms(3_600_000));
        let hours =
            ReadRollups { resolution: Resolution::Hour, from, to, queue: None, kind: None, limit: 1_000 };
        self.runtime.block_on(async {
            let store = self.client.store();
            for reader in [STATS, SEALS] {
                let place = store.place(Name::parse("reader", reader).unwrap(), None).await.unwrap();
                let Some(after) = place.and_then(|place| place.cursor) else { return false };
                let unread = ReadFeed { after: Some(after), limit: 1, payloads: false };
                if !store.feed(unread, None).await.unwrap().unwrap().events.is_empty() {
                    return false;
                }
            }
            let rows = store.rollups(hours, None).await.unwrap();
            let completed = rows.iter().filter(|row| row.key.tally == Tally::Completed);
            completed.map(|row| row.count).sum::<i64>() == self.errands
        })
    }

    /// Has an errand run, which then is in stats and seals, and is removed.
    fn errand(&mut self) -> windlass::JobId {
        let job = self.runtime.block_on(async { self.client.enqueue(Errand {}).await.unwrap().id });
        self.errands += 1;
        until("the errand is run, counted and sealed", || self.is_read());
        // A rule that changes is acted on at once.
        std::thread::sleep(Duration::from_millis(1_200));
        let ms = 1_000 + self.errands;
        set(self.place, &format!(r#"retention=[{{"keep":"{ms}ms"}}]"#));
        until("the errand is removed", || {
            self.runtime.block_on(self.client.store().job(job, None)).unwrap().is_none()
        });
        job
    }
}

fn set(place: &Place, setting: &str) {
    let ran = place.command(&["settings", "set", setting]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

/// R4: whoever leads does all of it. A program that leads leaves the term to a server, which knows the archive and sends to
/// subscriptions; when the last server is killed the program leads again.
fn a_program_and_servers_lead_in_turn(place: &Place) {
    assert!(place.command(&["migrate"]).status().unwrap().success());
    set(place, "retention_archive=false");
    let program = Program::start(place);
    let mut inside = Inside::of(place);
    until("the program leads", || inside.holder().starts_with("program"));
    inside.errand();

    let (archive, receiver) = (place.folder().join("archive"), Receiver::start());
    std::fs::create_dir(&archive).unwrap();
    let serve = || {
        let (address, archive) = (free_address(), archive.display().to_string());
        let words = ["serve", "--unsafe", "--listen", &address, "--archive", &archive];
        Served::start(place.command(&words), place.folder(), &address)
    };
    let mut server = serve();
    until("the server leads", || leads(&server));
    assert!(inside.holder().starts_with("server"));
    set(place, "retention_archive=default");
    let hook = json!({ "url": &receiver.url, "secret": SECRET, "statuses": ["completed"], "from": "start" });
    server.client().send("PUT", "/v1/subscriptions/hook", "", &hook.to_string()).unwrap().is(200);
    let came = |job: windlass::JobId| {
        let came = receiver.came.lock().unwrap();
        came.iter().any(|(_, body)| body.to_string().contains(&job.to_string()))
    };
    let first = inside.errand();
    until("the webhook is told", || came(first));
    assert!(std::fs::read_dir(&archive).unwrap().count() > 0, "it was archived first");

    server.kill();
    set(place, "retention_archive=false");
    until("the program leads again", || inside.holder().starts_with("program"));
    let second = inside.errand();
    assert!(!came(second), "no program sends to subscriptions");
    let server = serve();
    until("the server leads again", || leads(&server));
    until("the webhook is told what happened meanwhile", || came(second));
    drop((server, program));
    place.is_sound();
}

#[test]
fn a_program_and_servers_lead_in_turn_on_a_file() {
    a_program_and_servers_lead_in_turn(&Place::sqlite());
}

#[test]
fn a_program_and_servers_lead_in_turn_on_postgresql() {
    a_program_and_servers_lead_in_turn(&Place::postgres());
}

/// R4, R7: the database's clock rules. A leader whose own jumps by an hour or a day, forward and back, goes on as it was.
#[test]
fn a_jumping_clock_of_the_leader_changes_nothing() {
    let place = Place::postgres();
    let (faketime, offset) = (wire::faketime(), place.folder().join("offset"));
    std::fs::write(&offset, "+0").unwrap();
    let address = free_address();
    let mut command = place.command(&["serve", "--unsafe", "--listen", &address]);
    command.env("LD_PRELOAD", faketime).env("FAKETIME_TIMESTAMP_FILE", &offset);
    command
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    let first = Served::start(command, place.folder(), &address);
    until("the first server leads", || leads(&first));
    let second = place.serve();
    let mut client = second.client();
    set_up(&mut client);
    goes_on(&mut client, 1);
    for jump in ["+1h", "-1h", "+1d", "-1d", "+0"] {
        std::fs::write(&offset, jump).unwrap();
        goes_on(&mut client, 2);
        assert!(leads(&first), "it goes on with a clock that is {jump}");
    }
    assert_eq!(epoch(&mut client), 1);
    drop((first, second));
    is_one_story(&place);
}

/// R4: the database restarts while the leader acts; then somebody leads again, and nothing is lost or doubled.
#[test]
fn a_database_that_restarts_is_led_again() {
    let mut place = Place::own_postgres();
    let (first, second) = two(&place);
    let mut client = second.client();
    set_up(&mut client);
    goes_on(&mut client, 2);
    for _ in 0..2 {
        place.restart();
        until("the server answers again", || {
            client = second.client();
            client.get("/readyz").is_ok_and(|reply| reply.status == 200)
        });
        goes_on(&mut client, 2);
    }
    assert!(leads(&first) != leads(&second), "one of them leads");
    drop((first, second));
    is_one_story(&place);
}
