//! What the machine refuses: a port that is taken, a file that may not be written, a disk without room.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod machine;
mod wire;

use machine::{ENOSPC, EROFS, Machine};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use wire::{Client, Place, Served, free_address, until};

/// The file size limit of the small server, in KiB, and the payloads that fill it.
const ROOM_KIB: usize = 1_280;
const PAYLOAD: usize = 100_000;

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// (http) The second server on an address says so and ends; the first goes on.
#[test]
fn a_taken_port_is_said() {
    let (place, other) = (Place::sqlite(), Place::sqlite());
    let served = place.serve();
    let ran = other.command(&["serve", "--listen", &served.address]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains(&served.address) && said.contains("choose another address"), "{said}");
    served.client().post("/v1/jobs", &json!({ "kind": "a" })).unwrap().is(201);
}

/// (http) A store that may only be read is refused at the start, with what to do.
#[test]
fn a_read_only_store_is_said() {
    let place = Place::sqlite();
    assert!(place.command(&["enqueue", "a", "--create"]).output().unwrap().status.success());
    let file = place.folder().join("jobs.db");
    let address = free_address();
    let mut command = place.command(&["serve", "--listen", &address]);
    let elsewhere = tempfile::tempdir().unwrap();
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        // Root may write everywhere, so somebody else tries, who must be able to run the binary wherever it was built.
        let binary = elsewhere.path().join("windlass");
        std::fs::copy(env!("CARGO_BIN_EXE_windlass"), &binary).unwrap();
        allow(elsewhere.path(), 0o755);
        command = Command::new(binary);
        command.args(["serve", "--listen", &address]).env_clear().env("WINDLASS_STORE", &place.url);
        command.current_dir("/").uid(65_534).gid(65_534);
    }
    allow(&file, 0o444);
    allow(place.folder(), 0o555);
    let ran = command.output().unwrap();
    allow(place.folder(), 0o755);
    allow(&file, 0o644);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(5), "{said}");
    assert!(said.contains("writable") || said.contains("permissions"), "{said}");
    place.is_sound();
}

/// Starts a server whose files may not grow beyond [`ROOM_KIB`].
fn serve_small(place: &Place) -> Served {
    let address = free_address();
    // A write beyond the limit is to fail, as on a full disk, and not to end the process.
    let script = format!("trap '' XFSZ; ulimit -S -f {}; exec \"$@\"", ROOM_KIB * 2);
    let plain = place.command(&["serve", "--listen", &address]);
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("WINDLASS_STORE", &place.url);
    Served::start(command, place.folder(), &address)
}

/// All jobs, by id.
fn listed(client: &mut Client) -> Vec<String> {
    let page = client.get("/v1/jobs?limit=1000").unwrap().is(200);
    let mut ids: Vec<String> =
        page["jobs"].as_array().unwrap().iter().map(|j| j["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

/// (http) Without room a write is refused and nothing of it is there, reads go on, readiness is red; with room again it is
/// green, without a word from anybody.
#[test]
fn a_full_disk_is_said_and_recovered_from() {
    let place = Place::sqlite();
    let served = serve_small(&place);
    let mut client = served.client();
    let large = json!({ "kind": "large", "payload": "x".repeat(PAYLOAD) });
    let (mut taken, mut refused) = (Vec::new(), None);
    for _ in 0..10 * ROOM_KIB * 1_024 / PAYLOAD {
        let reply = client.post("/v1/jobs", &large).unwrap();
        if reply.status != 201 {
            refused = Some(reply);
            break;
        }
        taken.push(reply.body["job"]["id"].as_str().unwrap().to_owned());
    }
    let refused = refused.expect("the limit is reached");
    assert_eq!(refused.status, 503, "{}", refused.text);
    let code = refused.body["code"].as_str().unwrap();
    assert!(["unavailable", "outcome_unknown"].contains(&code), "{}", refused.text);
    assert!(taken.len() > 2, "there was some room: {}", taken.len());
    taken.sort();
    assert_eq!(listed(&mut client), taken, "what was taken is there, and nothing else");
    until("readiness is red", || client.get("/readyz").unwrap().status == 503);
    client.get("/healthz").unwrap().is(200);
    assert!(served.log().contains("the store"), "the log says what is the matter: {}", served.log());

    let pid = served.pid().to_string();
    let raised =
        Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:unlimited"]).status().unwrap();
    assert!(raised.success());
    until("readiness is green again", || client.get("/readyz").unwrap().status == 200);
    for _ in 0..20 {
        let made = client.post("/v1/jobs", &large).unwrap().is(201);
        taken.push(made["job"]["id"].as_str().unwrap().to_owned());
    }
    taken.sort();
    assert_eq!(listed(&mut client), taken);
    drop(served);
    place.is_sound();
}

/// (http) While the store takes no writes, whatever writes is refused with what to do, reads go on and readiness says it;
/// afterwards all goes on by itself, and what was acknowledged is there and nothing else.
fn is_said_and_recovered_from(
    place: &Place,
    served: &Served,
    said: &str,
    fails: impl Fn(),
    heals: impl Fn(),
) {
    let mut client = served.client();
    let small = json!({ "kind": "a", "payload": { "n": 1 } });
    let mut taken: Vec<String> = Vec::new();
    let take = |client: &mut Client, taken: &mut Vec<String>| {
        let made = client.post("/v1/jobs", &small).unwrap().is(201);
        taken.push(made["job"]["id"].as_str().unwrap().to_owned());
    };
    take(&mut client, &mut taken);
    take(&mut client, &mut taken);
    let claim = json!({ "queues": ["default"], "worker_id": "w" });
    let held = client.post("/v1/claim", &claim).unwrap().is(200)["jobs"][0].clone();
    let complete = format!("/v1/jobs/{}/complete", held["id"].as_str().unwrap());
    let token = json!({ "lease_token": held["lease"]["token"] });
    fails();
    // A connection that broke at that moment is a reason of its own.
    until("it is refused", || client.post("/v1/jobs", &small).unwrap().text.contains(said));
    for (path, body) in [("/v1/jobs", &small), ("/v1/claim", &claim), (complete.as_str(), &token)] {
        let refused = client.post(path, body).unwrap();
        assert_eq!((refused.status, &refused.body["code"]), (503, &json!("unavailable")), "{}", refused.text);
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("nothing was changed") && detail.contains(said), "{detail}");
    }
    assert_eq!(listed(&mut client), taken, "reads go on");
    let ready = client.get("/readyz").unwrap();
    assert_eq!(ready.status, 503, "{}", ready.text);
    assert!(ready.body["detail"].as_str().unwrap().contains(said), "{}", ready.text);
    client.get("/healthz").unwrap().is(200);
    heals();
    until("readiness is green again", || client.get("/readyz").unwrap().status == 200);
    assert_eq!(
        client.post(&complete, &token).unwrap().is(200)["job"]["status"],
        "completed",
        "it is still held"
    );
    take(&mut client, &mut taken);
    taken.sort();
    assert_eq!(listed(&mut client), taken);
    place.is_sound();
}

fn on_sqlite(error: i32, said: &str) {
    let place = Place::sqlite();
    let machine = Machine::new(place.folder());
    let address = free_address();
    let mut command = place.command(&["serve", "--listen", &address]);
    machine.under(&mut command);
    let served = Served::start(command, place.folder(), &address);
    is_said_and_recovered_from(&place, &served, said, || machine.disk_fails(error), || machine.disk_heals());
}

#[test]
fn a_store_without_room_is_said_and_recovered_from_on_sqlite() {
    on_sqlite(ENOSPC, "the store is full: free some room");
}

#[test]
fn a_store_that_becomes_read_only_is_said_and_recovered_from_on_sqlite() {
    on_sqlite(EROFS, "takes no writes");
}

#[test]
fn a_store_that_becomes_read_only_is_said_and_recovered_from_on_postgres() {
    let place = Place::postgres();
    let served = place.serve();
    // Of new sessions only: the old ones end, as when a server becomes a standby.
    let set = |read_only: &str| {
        place.on_database(&format!(
            "BEGIN READ WRITE;
             DO $$ BEGIN
               EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = {read_only}', current_database());
             END $$;
             COMMIT;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ));
    };
    let said = "the store is read-only: make it writable";
    is_said_and_recovered_from(&place, &served, said, || set("on"), || set("off"));
}
