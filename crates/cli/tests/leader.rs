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
use std::time::Duration;
use wire::hole::Hole;
use wire::{Client, Place, Served, free_address, until};

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
    // What a start reads once is not meant, and a connection that rests tells the database's counts of it only after ten
    // seconds.
    std::thread::sleep(Duration::from_secs(12));
    place.on_database(
        "CREATE TABLE public.before AS SELECT xact_commit + xact_rollback AS n, clock_timestamp() AS at
         FROM pg_stat_database WHERE datname = current_database()",
    );
    std::thread::sleep(Duration::from_secs(15));
    place.on_database(
        "DO $$ DECLARE rate float; BEGIN
           SELECT (d.xact_commit + d.xact_rollback - b.n) / extract(epoch FROM clock_timestamp() - b.at) INTO rate
           FROM public.before b, pg_stat_database d WHERE d.datname = current_database();
           IF rate > 12 THEN RAISE EXCEPTION 'an idle server runs % transactions a second', rate; END IF;
           IF rate < 1 THEN RAISE EXCEPTION 'nothing was counted: % a second', rate; END IF;
         END $$",
    );
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
