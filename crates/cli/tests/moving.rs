//! `windlass move`: from a file to a server and on to another schema, as a person would; and what a server left there.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;
#[path = "bed/database.rs"]
mod database;
mod wire;

use bed::Bed;
use database::Database;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use windlass_store::house::{House, TABLES};
use wire::tamper::{Words, problems, tampers, until_sealed, verify, words};
use wire::{Client, Place, Reply, Served, until};

#[test]
fn a_file_moves_to_a_server_and_on() {
    let (bed, database) = (Bed::new(), Database::new());
    let id = bed.enqueue(&["sum", "--payload", "{\"n\":1}", "--tag", "blue"]);
    bed.run(&["jobs", "cancel", &id]).ok();
    let waits = bed.enqueue(&["sum", "--delay", "1h", "--unique-key", "once"]);
    bed.run(&["queues", "set", "default", "--limit", "3"]).ok();
    bed.run(&["schedules", "put", "nightly", "--cron", "0 3 * * *", "--kind", "report"]).ok();
    let to = ["move", "--from", &bed.url(), "--to", &database.url];
    let moved = bed.run(&to).ok();
    assert!(moved.out.contains("2 jobs and 3 events have moved"), "{}", moved.out);
    // The old store says where to go, to the command and to the doctor.
    let refused = bed.run(&["enqueue", "sum"]);
    assert_eq!(refused.code, 5, "{} {}", refused.out, refused.err);
    assert!(refused.err.contains("its jobs move or have moved"), "{}", refused.err);
    let doctor = bed.run(&["doctor"]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.out.contains("its jobs move to postgres"), "{}", doctor.out);
    // Everything is there, once.
    let there = ["--store", &database.url];
    let at = |words: &[&str]| bed.json(&[&there, words].concat());
    assert_eq!(at(&["jobs", "show", &id])["status"], json!("cancelled"));
    assert_eq!(at(&["jobs", "show", &waits])["status"], json!("pending"));
    assert_eq!(at(&["jobs", "ls", "--tag", "blue"])["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(at(&["verify"])["problems"], json!([]));
    let again = at(&["enqueue", "sum", "--delay", "1h", "--unique-key", "once"]);
    assert_eq!((&again["job"]["id"], &again["existed"]), (&json!(waits), &json!(true)));
    let done = bed.run(&to);
    assert_eq!(done.code, 4, "{} {}", done.out, done.err);
    assert!(done.err.contains("have moved to"), "{}", done.err);
    // On to another schema of the same database.
    let on = bed.json(&["move", "--from", &database.url, "--to", &database.url, "--to-schema", "other"]);
    assert_eq!(on["rows"]["jobs"], json!(2));
    let there = ["--store", &database.url, "--schema", "other"];
    let shown = bed.json(&[&there[..], &["jobs", "show", &id]].concat());
    assert_eq!(shown["status"], json!("cancelled"));
}

#[test]
fn what_cannot_be_moved_is_named() {
    let bed = Bed::new();
    bed.enqueue(&["sum"]);
    let into = format!("sqlite:{}", bed.path("new.db").display());
    let itself = bed.run(&["move", "--from", &bed.url(), "--to", &bed.url()]);
    assert_eq!(itself.code, 2, "{}", itself.err);
    assert!(itself.err.contains("the same store"), "{}", itself.err);
    let nowhere = bed.run(&["move", "--from", "sqlite:nothing.db", "--to", &into]);
    assert!(nowhere.err.contains("there is no store at"), "{}", nowhere.err);
    let memory = bed.run(&["move", "--from", &bed.url(), "--to", "memory:"]);
    assert_eq!(memory.code, 2, "{}", memory.err);
    let nothing = bed.run(&["move", "--from", &bed.url(), "--to", &into, "--give-up"]);
    assert!(nothing.code != 0, "{}", nothing.out);
    bed.run(&["--store", &into, "migrate"]).ok();
    bed.run(&["--store", &into, "enqueue", "other"]).ok();
    let full = bed.run(&["move", "--from", &bed.url(), "--to", &into]);
    assert!(full.err.contains("move into an empty store"), "{}", full.err);
    // Nothing was changed by all that.
    bed.enqueue(&["sum"]);
    bed.run(&["--store", &into, "enqueue", "other"]).ok();
}

/// Moves all of a place to another.
fn moves(from: &Place, to: &Place) -> Output {
    from.command(&["move", "--from", &from.url, "--to", &to.url, "--json"]).output().unwrap()
}

/// A job that was cancelled: two events.
fn ended(client: &mut Client, kind: &str) -> String {
    let job = client.post("/v1/jobs", &json!({ "kind": kind, "payload": [1] })).unwrap().is(201);
    let id = job["job"]["id"].as_str().unwrap().to_owned();
    client.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).unwrap().is(200);
    id
}

/// Everything is as its seals say, and these heads fit them.
fn fits(place: &Place, heads: &Path) -> Value {
    let (code, said) = verify(place, &["--heads", &heads.display().to_string()]);
    assert_eq!((code, problems(&said)), (0, vec![]), "{said}");
    said
}

/// Adds the last head to a file.
fn keeps_head(place: &Place, heads: &Path) {
    let (code, said) = verify(place, &["--write-heads", &heads.display().to_string()]);
    assert_eq!(code, 0, "{said}");
}

fn seals_move_along(from: &Place, to: &Place) {
    let heads = &from.folder().join("heads.jsonl");
    let mut served = from.serve();
    let client = &mut served.client();
    let (erased, gone, old) = (ended(client, "k"), ended(client, "gone"), ended(client, "k"));
    until_sealed(from, 6);
    keeps_head(from, heads);
    client.send("DELETE", &format!("/v1/jobs/{erased}/payload"), "", "{}").unwrap().is(200);
    until_sealed(from, 7);
    let prune = ["prune", "--older-than", "0s", "--kind", "gone", "--no-archive"];
    // What is not counted yet stays.
    until("it is removed", || run(from, &prune)["removed"] == 1);
    served.kill();
    keeps_head(from, heads);
    let moved = moves(from, to);
    assert!(moved.status.success(), "{moved:?}");
    // Heads of the old store fit, and so does one that is written before the new store has sealed anything.
    let said = fits(to, heads);
    let counts = (&said["seals"]["events"], &said["seals"]["removed"], &said["seals"]["erased"]);
    assert_eq!(counts, (&json!(7), &json!(2), &json!(1)), "{said}");
    keeps_head(to, heads);
    fits(to, heads);
    // The chain goes on there.
    let mut served = to.serve();
    let new = ended(&mut served.client(), "k");
    until_sealed(to, 9);
    served.kill();
    keeps_head(to, heads);
    fits(to, heads);
    let lines = std::fs::read_to_string(heads).unwrap();
    let stores: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["store"].clone()).collect();
    assert!(stores[..3].iter().all(|store| *store == stores[0]) && stores[3] != stores[0], "{lines}");
    // What is changed afterwards is named, be it of before or after the move; so is what went without a record.
    let Words { schema, id, .. } = words(to);
    let change = |job: &str| {
        format!("UPDATE {schema}job_events SET actor = 'eve' WHERE job_id = {} AND version = 2", id(job))
    };
    tampers(to, &[change(&old), change(&new), format!("DELETE FROM {schema}removals")]);
    let (code, said) = verify(to, &["--heads", &heads.display().to_string()]);
    let mut named: Vec<String> = problems(&said).into_iter().map(|one| one.0).collect();
    let mut expected = vec![old, new, gone.clone()];
    (named.sort(), expected.sort());
    assert_eq!((code, named), (1, expected), "{said}");
    assert!(problems(&said).iter().any(|one| one.0 == gone && one.1.contains("the whole job is gone")));
    // A head that fits no seal is named, also one that the old store gave; one of a third store is none of these.
    let first = lines.lines().next().unwrap();
    let mut other: Value = serde_json::from_str(first).unwrap();
    other["hash"] = json!("0".repeat(64));
    let anew = other.to_string();
    other["store"] = json!("0123456789abcdef");
    std::fs::write(heads, format!("{first}\n{anew}\n{other}\n")).unwrap();
    let (_, said) = verify(to, &["--heads", &heads.display().to_string()]);
    let of_heads = problems(&said).into_iter().filter(|one| one.0.is_empty()).map(|one| one.1);
    let of_heads: Vec<String> = of_heads.collect();
    assert!(of_heads.len() == 2 && of_heads.iter().any(|why| why.contains("made anew")), "{said}");
    assert!(of_heads.iter().any(|why| why.contains("another store")), "{said}");
}

/// (seals): they move along, with what is on record as removed and erased; heads that were kept fit at the new place.
#[test]
fn seals_of_a_file_hold_in_a_server() {
    seals_move_along(&Place::sqlite(), &Place::postgres());
}

/// (seals): the same the other way round.
#[test]
fn seals_of_a_server_hold_in_a_file() {
    seals_move_along(&Place::postgres(), &Place::sqlite());
}

/// So many jobs that only stand there, beside one of every kind of thing.
const JOBS: usize = 4_000;

/// A caller with a key.
struct Caller {
    client: Client,
    secret: String,
}

impl Caller {
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Reply {
        self.ask_once("", method, path, body)
    }

    /// With an idempotency key, if there is one.
    fn ask_once(&mut self, once: &str, method: &str, path: &str, body: &Value) -> Reply {
        let mut headers = format!("authorization: Bearer {}\r\n", self.secret);
        if !once.is_empty() {
            headers += &format!("idempotency-key: {once}\r\n");
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.client.send(method, path, &headers, &body).unwrap()
    }

    fn get(&mut self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null).is(200)
    }

    fn enqueue(&mut self, job: &Value) -> String {
        text(&self.ask("POST", "/v1/jobs", job).is(201)["job"]["id"])
    }

    /// Enqueues a job and takes it: its id, and the token of its lease.
    fn hold(&mut self, queue: &str) -> (String, Value) {
        let id = self.enqueue(&json!({ "kind": "k", "queue": queue, "max_retries": 0 }));
        let body = json!({ "queues": [queue], "worker_id": "w", "lease": "1h" });
        let claimed = self.ask("POST", "/v1/claim", &body).is(200);
        assert_eq!(claimed["jobs"][0]["id"], json!(id), "{claimed}");
        (id, claimed["jobs"][0]["lease"]["token"].clone())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// What lived in the old store, to be found in the new one.
struct Lived {
    secret: String,
    archive: String,
    once: Value,
    asked: Value,
    asks: String,
    runs: (String, Value),
    archived: String,
    printed: String,
}

fn serve(place: &Place, archive: &str) -> Served {
    let address = wire::free_address();
    let words = ["serve", "--unsafe", "--listen", &address, "--archive", archive];
    Served::start(place.command(&words), place.folder(), &address)
}

fn run(place: &Place, words: &[&str]) -> Value {
    let ran = place.command(&[words, &["--json"]].concat()).output().unwrap();
    assert!(ran.status.success(), "{words:?}: {ran:?}");
    serde_json::from_slice(&ran.stdout).unwrap_or_default()
}

/// The one with the key `once`, enqueued again and again.
fn unique() -> Value {
    json!({ "kind": "k", "queue": "stands", "unique": { "key": "only", "policy": "forever" } })
}

/// Some thousand jobs, and at least one row in every table that moves.
fn lives(place: &Place, archive: &str) -> Lived {
    run(place, &["migrate"]);
    run(place, &["enqueue", "k", "--queue", "stands"]);
    let secret = text(&run(place, &["keys", "create", "boss", "--role", "admin"])["secret"]);
    run(place, &["queues", "set", "paid", "--limit", "3", "--rate", "100/h"]);
    run(place, &["schedules", "put", "nightly", "--cron", "0 3 * * *", "--kind", "report"]);
    let mut served = serve(place, archive);
    let caller = &mut Caller { client: served.client(), secret: secret.clone() };
    let job = json!({ "kind": "k", "queue": "stands", "tags": ["z", "a"], "payload": "x".repeat(1_000) });
    for _ in 0..JOBS / 500 {
        let jobs = json!({ "jobs": vec![job.clone(); 500] });
        caller.ask("POST", "/v1/jobs/batch", &jobs).is(201);
    }
    caller.ask("POST", "/v1/jobs", &unique()).is(201);
    let once = caller.ask_once("one", "POST", "/v1/jobs", &json!({ "kind": "once" })).is(201);
    caller.ask("PUT", "/v1/triggers/order", &json!({ "jobs": [{ "kind": "book" }] })).is(200);
    caller.ask("POST", "/v1/triggers/order/secret", &json!({})).is(201);
    caller.ask("POST", "/v1/triggers/order", &json!({ "payload": { "n": 1 } })).is(201);
    let hook = json!({ "url": "http://127.0.0.1:1/hook", "types": ["job_completed"] });
    caller.ask("PUT", "/v1/subscriptions/hook", &hook).is(200);
    caller.ask("PUT", "/v1/views/mine", &json!({ "filter": { "queue": "mail" } })).is(200);
    // One that runs, one that asks, one that failed.
    let runs = caller.hold("paid");
    let asks = caller.hold("asks");
    let question = json!({ "lease_token": asks.1, "name": "pay", "prompt": "pay?" });
    let asked = caller.ask_once("ask", "POST", &format!("/v1/jobs/{}/approvals", asks.0), &question).is(201);
    let wait = json!({ "lease_token": asks.1, "for": "approval", "name": "pay" });
    caller.ask("POST", &format!("/v1/jobs/{}/wait", asks.0), &wait).is(200);
    let (broke, token) = caller.hold("breaks");
    let error = json!({ "code": "broken", "message": "it broke" });
    let failed = json!({ "lease_token": token, "error": error });
    caller.ask("POST", &format!("/v1/jobs/{broke}/fail"), &failed).is(200);
    // One whose first line is in the archive, and one that is there as a whole.
    let (printed, token) = caller.hold("prints");
    let print = |caller: &mut Caller, line: &str| {
        let lines = json!({ "lease_token": token, "lines": [line] });
        caller.ask("POST", &format!("/v1/jobs/{printed}/logs"), &lines).is(201);
    };
    print(caller, "first");
    std::thread::sleep(Duration::from_millis(1_100));
    run(place, &["settings", "set", "log_bodies_kept=1s"]);
    let is_moved = |name: &str| name.starts_with("logs-") && name.ends_with(".zst");
    until("its line is archived", || {
        let files = std::fs::read_dir(archive).into_iter().flatten();
        let names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.iter().any(|name| is_moved(name)) && !names.iter().any(|name| name.ends_with(".pending"))
    });
    run(place, &["settings", "set", "log_bodies_kept=default"]);
    print(caller, "last");
    let archived = caller.enqueue(&json!({ "kind": "old" }));
    caller.ask("POST", &format!("/v1/jobs/{archived}/cancel"), &json!({})).is(200);
    until("it is archived", || {
        // What is not counted yet stays.
        run(place, &["prune", "--older-than", "0s", "--kind", "old", "--archive", archive]);
        caller.get(&format!("/v1/jobs/{archived}"))["archived"] == true
    });
    until("an error is a problem", || !caller.get("/v1/problems")["problems"].as_array().unwrap().is_empty());
    until_sealed(place, JOBS as u64 + 10);
    served.kill();
    let archive = archive.to_owned();
    Lived { secret, archive, once, asked, asks: asks.0, runs, archived, printed }
}

/// How many rows there are of each table; nothing where there is no store yet.
fn rows(runtime: &Runtime, place: &Place) -> BTreeMap<&'static str, u64> {
    let opened = match place.name {
        "sqlite" => {
            let path = place.url.strip_prefix("sqlite:").unwrap();
            let opened = windlass_sqlite::Options::new(path).create(false).mover().open();
            opened.ok().map(|store| Box::new(store) as Box<dyn House>)
        }
        _ => {
            let options = windlass_postgres::Options::new(&place.url).migrate(false).pool(1).mover();
            runtime.block_on(options.open()).ok().map(|store| Box::new(store) as Box<dyn House>)
        }
    };
    let Some(house) = opened else { return BTreeMap::new() };
    TABLES.iter().map(|table| (table.name, runtime.block_on(house.count(table)).unwrap())).collect()
}

/// Moves, killed again and again, each time a little later; answers how many rows stood in the new store whenever it was.
fn killed_until_moved(runtime: &Runtime, from: &Place, to: &Place) -> Vec<BTreeMap<&'static str, u64>> {
    let (mut after, mut kills) = (Duration::from_millis(20), Vec::new());
    loop {
        let mut command = from.command(&["move", "--from", &from.url, "--to", &to.url]);
        let mut moving = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let end = Instant::now() + after;
        while Instant::now() < end && moving.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_killed = moving.try_wait().unwrap().is_none();
        if is_killed {
            moving.kill().unwrap();
        }
        let ended = moving.wait_with_output().unwrap();
        // 4: it was killed when all was done, before it could say so.
        if let Some(code) = ended.status.code() {
            assert!([0, 4].contains(&code), "{ended:?}");
            return kills;
        }
        kills.push(rows(runtime, to));
        after = after.mul_f32(1.1);
    }
}

fn killed_and_continued(from: &Place, to: &Place) {
    let runtime = Runtime::new().unwrap();
    let archive = from.folder().join("archive").display().to_string();
    let lived = lives(from, &archive);
    let old = rows(&runtime, from);
    let empty: Vec<_> = old.iter().filter(|(_, rows)| **rows == 0).collect();
    assert_eq!(empty, [], "each table has a row to move");
    let kills = killed_until_moved(&runtime, from, to);
    // Where each one hits depends on the machine; that every row may be the last one before it is tested with the stores.
    assert!(kills.len() > 10, "{kills:?}");
    let new = rows(&runtime, to);
    // The job that ran was taken from its holder, and the move is on record. What was not counted there yet is counted here.
    let grown = TABLES.iter().map(|t| t.name).filter(|table| new[table] != old[table] && *table != "rollups");
    assert_eq!(grown.collect::<Vec<_>>(), ["job_events", "audit"], "{old:?} {new:?}");
    lives_on(to, &lived);
}

fn lives_on(to: &Place, lived: &Lived) {
    let (code, said) = verify(to, &[]);
    assert_eq!((code, problems(&said)), (0, vec![]), "{said}");
    let served = serve(to, &lived.archive);
    let caller = &mut Caller { client: served.client(), secret: lived.secret.clone() };
    // A link that was given there is a vote here.
    let (approval, link) = (text(&lived.asked["approval"]["id"]), &lived.asked["token"]);
    let vote = json!({ "decision": "approve", "token": link });
    let path = format!("/v1/approvals/{approval}/decide");
    let voted = served.client().post(&path, &vote).unwrap().is(200);
    assert_eq!(voted["status"], "approved");
    // What was asked once is answered, not done again.
    let again = caller.ask_once("one", "POST", "/v1/jobs", &json!({ "kind": "once" }));
    assert_eq!(again.body["job"]["id"], lived.once["job"]["id"], "{}", again.text);
    let woken = caller.ask("POST", &format!("/v1/jobs/{}/claim", lived.asks), &json!({ "worker_id": "w" }));
    assert_eq!(woken.is(200)["job"]["wake"]["outcome"], "approved");
    assert_eq!(caller.ask("POST", "/v1/jobs", &unique()).body["existed"], true);
    // The one that ran starts again, within the queue's limits; its holder is refused.
    let (id, token) = &lived.runs;
    let stale = caller.ask("POST", &format!("/v1/jobs/{id}/complete"), &json!({ "lease_token": token }));
    assert_eq!(stale.status, 409, "{}", stale.text);
    let job = caller.get(&format!("/v1/jobs/{id}"));
    assert_eq!((&job["status"], &job["retries"], &job["crashes"]), (&json!("retry"), &json!(0), &json!(0)));
    let queues = caller.get("/v1/queues").to_string();
    assert!(queues.contains("\"100/h\""), "{queues}");
    assert_eq!(caller.get("/v1/schedules/nightly")["job"]["kind"], "report");
    assert_eq!(caller.get("/v1/triggers/order")["signed"], true);
    assert_eq!(caller.get("/v1/triggers/order/events")["events"][0]["payload"], json!({ "n": 1 }));
    assert_eq!(caller.get("/v1/subscriptions/hook")["url"], "http://127.0.0.1:1/hook");
    assert_eq!(caller.get("/v1/views")["views"][0]["name"], "mine");
    assert_eq!(caller.get("/v1/problems")["problems"][0]["code"], "broken");
    // What is in the archive is found there as before.
    assert_eq!(caller.get(&format!("/v1/jobs/{}", lived.archived))["archived"], true);
    let lines = caller.get(&format!("/v1/jobs/{}/logs", lived.printed));
    let lines: Vec<_> = lines["lines"].as_array().unwrap().iter().map(|line| &line["line"]).collect();
    assert_eq!(lines, ["first", "last"]);
}

/// Killed at many moments and continued, a move brings everything: each table has at least one row.
#[test]
fn a_move_to_a_server_that_is_killed_again_and_again_brings_everything() {
    killed_and_continued(&Place::sqlite(), &Place::postgres());
}

/// The same the other way round.
#[test]
fn a_move_to_a_file_that_is_killed_again_and_again_brings_everything() {
    killed_and_continued(&Place::postgres(), &Place::sqlite());
}
