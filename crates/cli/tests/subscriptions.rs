//! Subscriptions to web services: the real server, and receivers that check signatures, hang, are slow,
//! never end their answer, refuse, or are gone.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_core::trigger::webhook::{Signed, WebhookSecret};
use windlass_store::fresh::wall_clock;
use wire::tamper::far_behind;
use wire::{Client, Place, Served, until};

/// How late a slow one answers.
const SLOW: Duration = Duration::from_millis(600);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// How a path answers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Ok,
    Gone,
    Busy,
    Hang,
    /// Takes the event and never says so.
    TakeAndHang,
    /// Takes the event, and says so late, but in time.
    Slow,
    /// Sends a byte of its answer's head now and then, for ever.
    Drip,
    /// Takes the event, and says so in an answer that never ends.
    Flood,
}

/// An event that came.
#[derive(Debug, Clone)]
struct Came {
    path: String,
    id: String,
    body: Value,
}

/// Web services, one per path.
#[derive(Clone)]
struct Receiver {
    address: String,
    ways: Arc<Mutex<HashMap<String, Way>>>,
    came: Arc<Mutex<Vec<Came>>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let receiver = Self { address, ways: Arc::default(), came: Arc::default() };
        let this = receiver.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let this = this.clone();
                std::thread::spawn(move || this.answer(stream.unwrap()));
            }
        });
        receiver
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    fn set(&self, path: &str, way: Way) {
        self.ways.lock().unwrap().insert(path.to_owned(), way);
    }

    fn came(&self, path: &str) -> Vec<Came> {
        self.came.lock().unwrap().iter().filter(|came| came.path == path).cloned().collect()
    }

    fn ids(&self, path: &str) -> Vec<String> {
        self.came(path).into_iter().map(|came| came.id).collect()
    }

    fn answer(&self, stream: TcpStream) {
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
        let mut headers = HashMap::new();
        loop {
            line.clear();
            lines.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        lines.read_exact(&mut body).unwrap();
        let signed =
            Signed { id: &headers["webhook-id"], timestamp: &headers["webhook-timestamp"], body: &body };
        let secret = WebhookSecret::parse(SECRET).unwrap();
        signed.verify(&headers["webhook-signature"], &[secret], 300_000, wall_clock()).unwrap();
        let way = self.ways.lock().unwrap().get(&path).copied().unwrap_or(Way::Ok);
        let answer = match way {
            Way::Ok => "200 OK",
            Way::Gone => "410 Gone",
            Way::Busy => "503 Service Unavailable\r\nRetry-After: 1",
            Way::Slow | Way::Flood => "200 OK",
            Way::Hang | Way::TakeAndHang | Way::Drip => "",
        };
        if [Way::Ok, Way::TakeAndHang, Way::Slow, Way::Flood].contains(&way) {
            let (id, body) = (headers["webhook-id"].clone(), serde_json::from_slice(&body).unwrap());
            self.came.lock().unwrap().push(Came { path, id, body });
        }
        let mut stream = stream;
        match way {
            Way::Slow => std::thread::sleep(SLOW),
            Way::Drip => return drips(stream),
            Way::Flood => return floods(stream),
            _ if answer.is_empty() => {
                // Until the one who asked is gone.
                let _ = lines.read(&mut [0; 1]);
                return;
            }
            _ => {}
        }
        let _ = write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
}

/// Until the one who asked is gone.
fn drips(mut stream: TcpStream) {
    let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\nX-More: ");
    while sent.is_ok() {
        std::thread::sleep(Duration::from_millis(50));
        sent = stream.write_all(b"x");
    }
}

/// As fast as it is taken, until the one who asked is gone.
fn floods(mut stream: TcpStream) {
    let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    while sent.is_ok() {
        sent = stream.write_all(&[b'x'; 65_536]);
    }
}

fn put(client: &mut Client, name: &str, body: &Value) -> Value {
    client.send("PUT", &format!("/v1/subscriptions/{name}"), "", &body.to_string()).unwrap().is(200)
}

fn show(client: &mut Client, name: &str) -> Value {
    client.get(&format!("/v1/subscriptions/{name}")).unwrap().is(200)
}

fn enqueue(client: &mut Client, queue: &str) -> String {
    let body = json!({ "kind": "k", "queue": queue }).to_string();
    client.send("POST", "/v1/jobs", "", &body).unwrap().is(201)["job"]["id"].as_str().unwrap().to_owned()
}

/// Takes every due job of a queue and completes it.
fn work(client: &mut Client, queue: &str) {
    loop {
        let secret = format!("{:064x}", rand());
        let body = json!({ "queues": [queue], "worker_id": "w", "secret": secret, "lease": "1m", "max": 50 });
        let claimed = client.send("POST", "/v1/claim", "", &body.to_string()).unwrap().is(200);
        let jobs = claimed["jobs"].as_array().unwrap().clone();
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            let body = json!({ "lease_token": job["lease"]["token"], "result": 1 }).to_string();
            let path = format!("/v1/jobs/{}/complete", job["id"].as_str().unwrap());
            client.send("POST", &path, "", &body).unwrap().is(200);
        }
    }
}

fn rand() -> u128 {
    u128::from_be_bytes(windlass_store::fresh::random::<16>())
}

/// Of each job, the versions in the order in which they first came.
fn first_versions(ids: &[String]) -> HashMap<String, Vec<i64>> {
    let mut jobs: HashMap<String, Vec<i64>> = HashMap::new();
    for id in ids {
        let (job, version) = id.split_once('.').unwrap();
        let version = version.parse().unwrap();
        let versions = jobs.entry(job.to_owned()).or_default();
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    jobs
}

fn metric(served: &Served, name: &str) -> f64 {
    let text = served.client().get("/metrics").unwrap().text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

/// T2: what is selected arrives, signed and once while nothing fails, in the order of each job; nothing else does.
#[test]
fn what_is_selected_arrives_signed_and_in_order() {
    for place in [Place::sqlite(), Place::postgres()] {
        let (served, receiver) = (place.serve(), Receiver::start());
        let client = &mut served.client();
        let mail =
            json!({ "url": receiver.url("mail"), "secret": SECRET, "queues": ["mail"], "from": "start" });
        let ended = json!({ "url": receiver.url("ended"), "secret": SECRET, "statuses": ["completed"], "from": "start" });
        let made = put(client, "mail", &mail);
        assert_eq!((&made["version"], &made["status"]), (&json!(1), &json!("on")));
        put(client, "ended", &ended);
        let jobs: Vec<String> = (0..20).map(|_| enqueue(client, "mail")).collect();
        let others: Vec<String> = (0..5).map(|_| enqueue(client, "other")).collect();
        work(client, "mail");
        work(client, "other");
        until("all have arrived", || receiver.ids("mail").len() >= 60 && receiver.ids("ended").len() >= 25);
        let ids = receiver.ids("mail");
        assert_eq!(ids.len(), 60, "each once");
        let of = first_versions(&ids);
        assert!(jobs.iter().all(|job| of[job] == [1, 2, 3]), "in order: {of:?}");
        let ends = receiver.came("ended");
        assert!(ends.iter().all(|came| came.body["type"] == "job_completed"));
        let of = first_versions(&receiver.ids("ended"));
        assert!(jobs.iter().chain(&others).all(|job| of[job] == [3]));
        let body = &receiver.came("mail")[0].body;
        assert_eq!((&body["type"], &body["data"]["queue"]), (&json!("job_created"), &json!("mail")));
        assert!(jobs.iter().any(|job| body["data"]["job_id"] == job.as_str()));
    }
}

/// One that hangs, fails or is gone delays no other; one that is gone is paused and shown, and goes on from its place.
#[test]
fn one_that_hangs_or_is_gone_delays_no_other() {
    let (place, receiver) = (Place::sqlite(), Receiver::start());
    let served = place.serve();
    let client = &mut served.client();
    for (path, way) in [("hangs", Way::Hang), ("gone", Way::Gone), ("busy", Way::Busy), ("good", Way::Ok)] {
        receiver.set(path, way);
        let url = receiver.url(path);
        let body = json!({ "url": url, "secret": SECRET, "timeout": "1s", "types": ["job_created"], "from": "start" });
        put(client, path, &body);
    }
    let jobs: Vec<String> = (0..30).map(|_| enqueue(client, "q")).collect();
    let all: Vec<String> = jobs.iter().map(|job| format!("{job}.1")).collect();
    let has_all = |path: &str| {
        let ids = receiver.ids(path);
        all.iter().all(|id| ids.contains(id))
    };
    until("the good one has all", || has_all("good"));
    until("the one that is gone is paused", || show(client, "gone")["status"] == "paused");
    until("the one that hangs is failing", || show(client, "hangs")["status"] == "failing");
    let gone = show(client, "gone");
    assert!(gone["why"].as_str().unwrap().contains("410"), "{gone}");
    assert!(show(client, "hangs")["why"].as_str().unwrap().contains("no answer within 1 s"));
    let listed = place.command(&["subscriptions", "ls"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("410") && listed.contains("paused"), "{listed}");
    let doctor = place.command(&["doctor"]).output().unwrap();
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!doctor.status.success() && told.contains("windlass subscriptions resume gone"), "{told}");
    assert!(metric(&served, "windlass_subscription_up{subscription=\"good\"}") == 1.0);
    // The gauge follows with the next look at the subscriptions.
    until("the gauge of the one that is gone is down", || {
        metric(&served, "windlass_subscription_up{subscription=\"gone\"}") == 0.0
    });
    for path in ["hangs", "gone", "busy"] {
        assert!(receiver.ids(path).is_empty());
        receiver.set(path, Way::Ok);
    }
    client.send("POST", "/v1/subscriptions/gone/resume", "", "").unwrap().is(200);
    until("the others have all", || ["hangs", "gone", "busy"].into_iter().all(has_all));
    until("nothing fails any more", || show(client, "hangs")["status"] == "on");
}

/// T2: one that answers late, but in time, has each event once. One that drips its answer for ever is one that does not answer, and
/// what a receiver says after its 2xx is not read, however long it is: both bounded in time and memory.
#[test]
fn one_that_answers_slowly_or_without_end_takes_neither_time_nor_memory() {
    let (place, receiver) = (Place::sqlite(), Receiver::start());
    let served = place.serve();
    let client = &mut served.client();
    let first = enqueue(client, "q");
    let before = served.peak();
    for (path, way, timeout) in
        [("slow", Way::Slow, "5s"), ("drips", Way::Drip, "1s"), ("floods", Way::Flood, "5s")]
    {
        receiver.set(path, way);
        let url = receiver.url(path);
        let body = json!({ "url": url, "secret": SECRET, "timeout": timeout, "types": ["job_created"], "from": "start" });
        put(client, path, &body);
    }
    until("the one that drips is failing", || show(client, "drips")["status"] == "failing");
    assert!(show(client, "drips")["why"].as_str().unwrap().contains("no answer within 1 s"));
    let mut jobs = vec![first];
    jobs.extend((0..20).map(|_| enqueue(client, "q")));
    let want: Vec<String> = jobs.iter().map(|job| format!("{job}.1")).collect();
    let has_all = |path: &str| {
        let ids = receiver.ids(path);
        want.iter().all(|id| ids.contains(id))
    };
    until("the others have all", || has_all("slow") && has_all("floods"));
    // A page further, so that the place has moved behind all of these.
    let last = format!("{}.1", enqueue(client, "q"));
    until("they go on", || ["slow", "floods"].iter().all(|path| receiver.ids(path).contains(&last)));
    for path in ["slow", "floods"] {
        assert_eq!(receiver.ids(path).len(), want.len() + 1, "each once: {path}");
        assert_eq!(show(client, path)["status"], "on");
    }
    assert!(receiver.ids("drips").is_empty());
    let more = served.peak().saturating_sub(before);
    assert!(more < 64 << 20, "it took {more} bytes more to hear endless answers");
    receiver.set("drips", Way::Ok);
    until("it has all once it answers", || has_all("drips"));
}

/// A webhook that is far behind catches up within its memory, past a great many events that it passes over.
#[test]
fn a_long_way_is_caught_up_within_its_memory() {
    const JOBS: usize = 50;
    let (place, receiver) = (Place::sqlite(), Receiver::start());
    let mut served = place.serve();
    let client = &mut served.client();
    let noted = enqueue(client, "noted");
    let mut jobs: Vec<String> = (0..JOBS).map(|_| enqueue(client, "far")).collect();
    served.kill();
    let passed = far_behind(&place, &noted, 200_000);
    let served = place.serve();
    let (client, before) = (&mut served.client(), served.peak());
    let url = receiver.url("far");
    put(client, "far", &json!({ "url": url, "secret": SECRET, "queues": ["far"], "from": "start" }));
    jobs.extend((0..JOBS).map(|_| enqueue(client, "far")));
    let want: Vec<String> = jobs.iter().map(|job| format!("{job}.1")).collect();
    let last = want.last().unwrap();
    until("it has the last", || receiver.ids("far").contains(last));
    until("it has all", || want.iter().all(|id| receiver.ids("far").contains(id)));
    let more = served.peak().saturating_sub(before);
    assert!(more < 64 << 20, "it took {more} bytes more to pass over {passed} events");
}

/// One that refuses for as long as it was given is paused, whatever comes meanwhile; resumed, it has everything that it missed.
#[test]
fn one_that_refuses_for_too_long_is_given_up() {
    let (place, receiver) = (Place::sqlite(), Receiver::start());
    let served = place.serve();
    let client = &mut served.client();
    receiver.set("busy", Way::Busy);
    let body = json!({ "url": receiver.url("busy"), "secret": SECRET, "types": ["job_created"], "from": "start", "give_up_after": "1m" });
    put(client, "busy", &body);
    let mut jobs = vec![enqueue(client, "q")];
    until("it is failing", || show(client, "busy")["status"] == "failing");
    let began = std::time::Instant::now();
    until("it is paused", || show(client, "busy")["status"] == "paused");
    // The clock of the store began a little before this one.
    assert!(began.elapsed() > Duration::from_secs(50), "not before its time: {:?}", began.elapsed());
    let why = show(client, "busy")["why"].as_str().unwrap().to_owned();
    assert!(why.contains("503"), "{why}");
    assert!(receiver.ids("busy").is_empty());
    jobs.push(enqueue(client, "q"));
    receiver.set("busy", Way::Ok);
    client.send("POST", "/v1/subscriptions/busy/resume", "", "").unwrap().is(200);
    until("it has all", || receiver.ids("busy").len() == 2);
    assert_eq!(receiver.ids("busy"), jobs.iter().map(|job| format!("{job}.1")).collect::<Vec<_>>());
}

/// T2: killed between the delivery and the note that it was made, the event comes again, and none is lost.
#[test]
fn killed_before_its_place_moves_it_repeats_and_loses_nothing() {
    for place in [Place::sqlite(), Place::postgres()] {
        let receiver = Receiver::start();
        let mut first = place.serve();
        let client = &mut first.client();
        let body =
            json!({ "url": receiver.url("x"), "secret": SECRET, "types": ["job_created"], "from": "start" });
        put(client, "x", &body);
        let before = enqueue(client, "q");
        until("the first has arrived", || receiver.ids("x").len() == 1);
        until("and its place moved", || show(client, "x")["moved_at"] != Value::Null);
        receiver.set("x", Way::TakeAndHang);
        let during = enqueue(client, "q");
        until("the second has arrived, and is not confirmed", || receiver.ids("x").len() == 2);
        // Created and killed at once: it is published all the same.
        let after = enqueue(client, "q");
        first.kill();
        receiver.set("x", Way::Ok);
        let second = place.serve();
        let want = [&before, &during, &after].map(|job| format!("{job}.1"));
        until("the next server delivers what is left", || receiver.ids("x").contains(&want[2]));
        let ids = receiver.ids("x");
        let times = |id: &String| ids.iter().filter(|one| *one == id).count();
        assert!(times(&want[0]) >= 1 && times(&want[1]) == 2 && times(&want[2]) == 1, "{ids:?}");
        drop(second);
        place.is_sound();
    }
}

/// T2: a stranger's transaction that keeps the place and the row of one subscription locked delays that one alone; it goes on when
/// the lock is gone, and nothing is lost.
#[test]
fn a_strangers_lock_delays_its_own_subscription_only() {
    let (place, receiver) = (Place::postgres(), Receiver::start());
    let served = place.serve();
    let client = &mut served.client();
    for name in ["locked", "free"] {
        let url = receiver.url(name);
        put(
            client,
            name,
            &json!({ "url": url, "secret": SECRET, "types": ["job_created"], "from": "start" }),
        );
    }
    let mut jobs = vec![enqueue(client, "q")];
    let has_all = |path: &str, jobs: &[String]| {
        let ids = receiver.ids(path);
        jobs.iter().all(|job| ids.contains(&format!("{job}.1")))
    };
    until("both are on their way", || {
        ["locked", "free"]
            .into_iter()
            .all(|name| has_all(name, &jobs) && !show(client, name)["moved_at"].is_null())
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connected = runtime.block_on(tokio_postgres::connect(&place.url, tokio_postgres::NoTls));
    let (hand, connection) = connected.unwrap();
    runtime.spawn(connection);
    let lock = "BEGIN; SELECT 1 FROM windlass.readers WHERE name = 'subscription:locked' FOR UPDATE;
                SELECT 1 FROM windlass.subscriptions WHERE name = 'locked' FOR UPDATE";
    runtime.block_on(hand.batch_execute(lock)).unwrap();
    for _ in 0..10 {
        jobs.push(enqueue(client, "q"));
    }
    until("the free one has all", || has_all("free", &jobs));
    until("its place moves too", || {
        let sql = "SELECT count(*) FROM windlass.readers r, windlass.readers l
                   WHERE r.name = 'subscription:free' AND l.name = 'subscription:locked' AND r.moved_at > l.moved_at";
        runtime.block_on(hand.query_one(sql, &[])).unwrap().get::<_, i64>(0) == 1
    });
    runtime.block_on(hand.batch_execute("ROLLBACK")).unwrap();
    jobs.push(enqueue(client, "q"));
    until("the other one has all", || has_all("locked", &jobs));
    until("and is well", || show(client, "locked")["status"] == "on");
}

/// A place that is of no use after a restore is said, and the subscription begins where its setting says.
#[test]
fn after_a_restore_it_says_so_and_begins_where_it_is_set_to() {
    let (place, receiver) = (Place::sqlite(), Receiver::start());
    let served = place.serve();
    let client = &mut served.client();
    for from in ["start", "now"] {
        let body =
            json!({ "url": receiver.url(from), "secret": SECRET, "types": ["job_created"], "from": from });
        put(client, from, &body);
    }
    until("both have a place", || show(client, "now")["moved_at"] != Value::Null);
    let old = enqueue(client, "q");
    until("both have it", || receiver.ids("start").len() == 1 && receiver.ids("now").len() == 1);
    assert!(place.command(&["adopt", "--yes"]).status().unwrap().success());
    let restarts = |reader: &str| {
        metric(&served, &format!("windlass_reader_restarts_total{{reader=\"subscription:{reader}\"}}"))
    };
    until("both have begun again", || restarts("start") >= 1.0 && restarts("now") >= 1.0);
    std::thread::sleep(Duration::from_secs(1));
    let new = enqueue(client, "q");
    let arrived = |path: &str, job: &str| {
        let id = format!("{job}.1");
        receiver.ids(path).iter().filter(|one| **one == id).count()
    };
    until("both have the new one", || arrived("start", &new) == 1 && arrived("now", &new) == 1);
    assert_eq!((arrived("start", &old), arrived("now", &old)), (2, 1));
    assert!(served.log().contains("has lost its place and begins again"), "{}", served.log());
}

/// What is paused delivers nothing until it is resumed; a change is delivered under; what is removed is forgotten.
#[test]
fn it_is_paused_changed_and_removed_from_a_shell() {
    let (place, receiver) = (Place::sqlite(), Receiver::start());
    let served = place.serve();
    let client = &mut served.client();
    std::fs::write(place.folder().join("secret"), SECRET).unwrap();
    let run = |words: &[&str]| {
        let ran = place.command(words).output().unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{words:?}: {said}");
        said
    };
    let (one, two) = (receiver.url("one"), receiver.url("two"));
    let said =
        run(&["subscriptions", "put", "s", "--to", &one, "--secret-file", "secret", "--from", "start"]);
    assert!(!said.contains("whsec_"), "a secret that was given is not shown: {said}");
    let made = run(&["subscriptions", "put", "t", "--to", &two, "--status", "completed"]);
    assert!(made.contains("whsec_"), "one that was made is: {made}");
    assert!(!run(&["subscriptions", "show", "t"]).contains("whsec_"));
    run(&["subscriptions", "rm", "t"]);
    enqueue(client, "q");
    until("it arrives", || receiver.ids("one").len() == 1);
    run(&["subscriptions", "pause", "s", "--reason", "they move"]);
    assert!(run(&["subscriptions", "ls"]).contains("they move"));
    until("the server delivers no more", || {
        metric(&served, "windlass_subscription_up{subscription=\"s\"}") == 0.0
    });
    enqueue(client, "q");
    run(&["subscriptions", "put", "s", "--to", &two, "--from", "start"]);
    run(&["subscriptions", "resume", "s"]);
    until("what came meanwhile arrives where it is sent now", || receiver.ids("two").len() == 1);
    assert_eq!(receiver.ids("one").len(), 1);
    run(&["subscriptions", "rm", "s"]);
    let doctor = place.command(&["doctor", "--json"]).output().unwrap();
    let places = String::from_utf8(doctor.stdout).unwrap();
    assert!(places.contains("readers") && !places.contains("subscription:s"), "its place is gone: {places}");
}
