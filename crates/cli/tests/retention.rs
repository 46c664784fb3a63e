//! A real server removes finished jobs as the settings say: killed between archive and removal, with a full archive, with
//! none at all, nothing is lost.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use ruzstd::decoding::StreamingDecoder;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use wire::{Client, Place, Served, free_address, until};

/// Jobs that were cancelled.
fn ended(client: &mut Client, n: usize, payload: &Value) -> Vec<String> {
    let mut one = || {
        let body = json!({ "kind": "old", "payload": payload });
        let job = client.post("/v1/jobs", &body).unwrap().is(201);
        let id = job["job"]["id"].as_str().unwrap().to_owned();
        client.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).unwrap().is(200);
        id
    };
    let mut ids: Vec<String> = (0..n).map(|_| one()).collect();
    ids.sort();
    ids
}

/// Changes how long finished jobs are kept, which is acted on at once.
fn keep(client: &mut Client, keep: &str) {
    let state = client.get("/v1/settings").unwrap().is(200);
    let settings = json!({ "retention": [{ "keep": keep }] });
    let body = json!({ "settings": settings, "expected_version": state["version"] });
    client.send("PUT", "/v1/settings", "", &body.to_string()).unwrap().is(200);
}

fn serve(place: &Place, archive: &Path) -> Served {
    let address = free_address();
    let archive = archive.display().to_string();
    let words = ["serve", "--unsafe", "--listen", &address, "--archive", &archive];
    Served::start(place.command(&words), place.folder(), &address)
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|e| e == ending)).collect()
}

/// The ids in an archive, in order.
fn archived(folder: &Path) -> Vec<String> {
    let mut ids = Vec::new();
    for path in files(folder, "zst") {
        let mut text = String::new();
        let file = std::fs::File::open(path).unwrap();
        StreamingDecoder::new(file).unwrap().read_to_string(&mut text).unwrap();
        let id = |line: &str| {
            let job: Value = serde_json::from_str(line).unwrap();
            job["id"].as_str().unwrap().to_owned()
        };
        ids.extend(text.lines().map(id));
    }
    ids.sort();
    ids
}

/// Whether a job is in the store.
fn is_here(client: &mut Client, id: &str) -> bool {
    let reply = client.get(&format!("/v1/jobs/{id}")).unwrap();
    reply.status == 200 && reply.body["archived"] != true
}

/// T9: a server that is killed between archive and removal loses nothing, and the next one archives nothing again. A job that
/// was redriven meanwhile stays.
#[test]
fn a_server_killed_between_archive_and_removal_loses_nothing() {
    let place = Place::postgres();
    let archive = place.folder().join("archive");
    let mut served = serve(&place, &archive);
    let ids = ended(&mut served.client(), 5, &json!({ "n": 1 }));
    let holds = place.hold_up_purges();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    keep(&mut served.client(), "1s");
    until("the jobs are archived", || files(&archive, "zst").len() == 1);
    served.kill();
    assert_eq!((archived(&archive), files(&archive, "pending").len()), (ids.clone(), 1));
    drop(holds);
    let redriven = place.command(&["jobs", "redrive", &ids[0]]).status().unwrap();
    assert!(redriven.success(), "nothing was removed");
    let served = serve(&place, &archive);
    let mut client = served.client();
    until("they are removed", || ids[1..].iter().all(|id| !is_here(&mut client, id)));
    until("the note is gone", || files(&archive, "pending").is_empty());
    assert!(is_here(&mut client, &ids[0]), "it lives");
    assert_eq!(archived(&archive), ids, "once each");
    place.is_sound();
}

/// T9: while the archive is full nothing is removed; the metric, the log and the doctor say so, and it goes on once there is
/// room.
#[test]
fn nothing_is_removed_while_the_archive_is_full() {
    let place = Place::postgres();
    let archive = place.folder().join("archive");
    let letter = |n: u32| char::from(b'a' + (n.wrapping_mul(2_654_435_761) >> 24) as u8 % 26);
    let noise: String = (0..100_000u32).map(|n| letter(n ^ (n << 13))).collect();
    let address = free_address();
    // No file may grow beyond 64 KiB: as on a full disk, the write fails in the middle of the file.
    let limited = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let mut full = Command::new("sh");
    full.args(["-c", limited, env!("CARGO_BIN_EXE_windlass"), "serve", "--unsafe", "--listen", &address]);
    full.args(["--archive", "archive"]).current_dir(place.folder()).env("WINDLASS_STORE", &place.url);
    let served = Served::start(full, place.folder(), &address);
    let ids = ended(&mut served.client(), 3, &json!(noise));
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    keep(&mut served.client(), "1s");
    let failing = |served: &Served| {
        let text = served.client().get("/metrics").unwrap().text;
        text.lines().any(|line| line == "windlass_retention_failing 1")
    };
    until("it is said", || failing(&served));
    for id in &ids {
        assert!(is_here(&mut served.client(), id), "nothing is removed");
    }
    assert_eq!(archived(&archive), Vec::<String>::new());
    assert_eq!(files(&archive, "part"), Vec::<PathBuf>::new(), "half a file does not stay");
    assert!(served.log().contains("finished jobs stay in the store"), "{}", served.log());
    drop(served);
    let served = serve(&place, &archive);
    let mut client = served.client();
    until("they are removed", || ids.iter().all(|id| !is_here(&mut client, id)));
    assert_eq!(archived(&archive), ids);
    std::fs::write(place.folder().join("file"), "no folder").unwrap();
    let doctor = place.command(&["doctor", "--json", "--archive", "file/archive"]).output().unwrap();
    let found: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let archive = found["findings"].as_array().unwrap().iter().find(|one| one["check"] == "archive").unwrap();
    assert_eq!(archive["level"], "problem", "{found}");
}

/// T9: an archived job is answered from the archive while it can be read, and else named with its archive; it can be put back,
/// once, as it was.
#[test]
fn an_archived_job_is_shown_and_restored() {
    for place in [Place::sqlite(), Place::postgres()] {
        let archive = place.folder().join("archive").display().to_string();
        let run = |words: &[&str]| {
            let ran = place.command(words).output().unwrap();
            (
                ran.status.code().unwrap(),
                String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned(),
            )
        };
        let json = |words: &[&str]| -> Value {
            let (code, text) = run(&[words, &["--json"]].concat());
            assert_eq!(code, 0, "{text}");
            serde_json::from_str(&text).unwrap()
        };
        let served = serve(&place, Path::new(&archive));
        let mut client = served.client();
        let wish = json!({ "kind": "greet", "payload": { "to": "ann" }, "tags": ["x"] });
        let made = client.post("/v1/jobs", &wish).unwrap().is(201);
        let id = made["job"]["id"].as_str().unwrap().to_owned();
        let claim = json!({ "queues": ["default"], "worker_id": "w" });
        let token = client.post("/v1/claim", &claim).unwrap().is(200)["jobs"][0]["lease"]["token"].clone();
        let said = json!({ "lease_token": token, "lines": ["said"] });
        client.post(&format!("/v1/jobs/{id}/logs"), &said).unwrap();
        let result = json!({ "lease_token": token, "result": [1, 2] });
        client.post(&format!("/v1/jobs/{id}/complete"), &result).unwrap().is(200);
        let before = client.get(&format!("/v1/jobs/{id}")).unwrap().is(200);
        let events = client.get(&format!("/v1/jobs/{id}/events")).unwrap().is(200);
        assert_eq!(before["status"], "completed", "{before}");
        // Nothing goes before the reader that adds up stats has seen it.
        let prune = ["prune", "--older-than", "0s", "--archive", &archive];
        until("it is archived and removed", || json(&prune)["removed"] == 1);
        drop(served);
        let shown = json(&["jobs", "show", &id, "--archive", &archive]);
        assert_eq!(shown["archived"], true);
        let plain = |mut job: Value| {
            job.as_object_mut().unwrap().remove("archived");
            job
        };
        assert_eq!(plain(shown), before, "as it was");
        let (code, told) = run(&["jobs", "show", &id]);
        assert!(code == 3 && told.contains("was archived in jobs-"), "{told}");
        let served = serve(&place, Path::new(&archive));
        let through = served.client().get(&format!("/v1/jobs/{id}")).unwrap().is(200);
        assert_eq!((&through["archived"], &through["payload"]["to"]), (&json!(true), &json!("ann")));
        let early = served.client().get(&format!("/v1/jobs/{id}?at_version=1")).unwrap().is(200);
        assert_eq!((&early["status"], &early["archived"]), (&json!("pending"), &json!(true)));
        let path = |what: &str| format!("/v1/jobs/{id}/{what}");
        let log = served.client().get(&path("events")).unwrap().is(200);
        assert_eq!(log, events, "its log comes from the archive too");
        let newest = served.client().get(&path("events?order=desc&limit=1")).unwrap().is(200);
        assert_eq!((&newest["events"][0], &newest["next_after"]), (&events["events"][2], &json!(3)));
        let rest = served.client().get(&path("events?after=1&limit=1")).unwrap().is(200);
        assert_eq!((&rest["events"][0], &rest["next_after"]), (&events["events"][1], &json!(2)));
        let lines = served.client().get(&path("logs")).unwrap().is(200);
        assert_eq!(lines["lines"][0]["line"], "said", "{lines}");
        drop(served);
        for what in ["events", "logs"] {
            let (code, told) = run(&["jobs", what, &id]);
            assert!(code == 3 && told.contains("was archived in jobs-"), "without the archive: {told}");
            assert_eq!(run(&["jobs", what, &id, "--archive", &archive]).0, 0);
        }
        std::fs::rename(&archive, place.folder().join("away")).unwrap();
        let (code, told) = run(&["jobs", "show", &id, "--archive", &archive]);
        assert!(code == 3 && told.contains("was archived in jobs-"), "{told}");
        assert_eq!(run(&["restore", &id, "--archive", &archive]).0, 3);
        std::fs::rename(place.folder().join("away"), &archive).unwrap();
        let piece = &id[id.len() - 8..];
        let restored = json(&["restore", piece, "--archive", &archive]);
        assert_eq!(restored["id"], id.as_str());
        assert_eq!((&restored["status"], &restored["left_out"]), (&json!("completed"), &json!([])));
        let back = json(&["jobs", "show", &id]);
        for member in ["status", "payload", "result", "finished_at", "tags", "attempt"] {
            assert_eq!(back[member], before[member], "{member}");
        }
        let served = serve(&place, Path::new(&archive));
        let log = served.client().get(&format!("/v1/jobs/{id}/events")).unwrap().is(200);
        drop(served);
        let kept = |log: &Value| log["events"].as_array().map(|all| all[..3].to_vec());
        assert_eq!(kept(&log), kept(&events));
        assert_eq!(log["events"][3]["type"], "job_restored");
        assert!(run(&["jobs", "logs", &id]).1.contains("said"));
        let (code, told) = run(&["restore", &id, "--archive", &archive]);
        assert!(code == 0, "the same again changes nothing: {told}");
        place.is_sound();
        json(&["prune", "--older-than", "0s", "--archive", &archive]);
        assert_eq!(json(&["jobs", "show", &id, "--archive", &archive])["version"], json!(4));
    }
}

/// R11, R15: log lines older than the setting are in the archive and read as before, through the API and the command line; a
/// server that cannot read the archive says so and shows no gap.
#[test]
fn old_log_lines_are_read_from_the_archive_as_before() {
    for place in [Place::sqlite(), Place::postgres()] {
        let archive = place.folder().join("archive");
        let served = serve(&place, &archive);
        let mut client = served.client();
        let made = client.post("/v1/jobs", &json!({ "kind": "prints" })).unwrap().is(201);
        let id = made["job"]["id"].as_str().unwrap().to_owned();
        let claim = json!({ "queues": ["default"], "worker_id": "w", "lease": "1h" });
        let token = client.post("/v1/claim", &claim).unwrap().is(200)["jobs"][0]["lease"]["token"].clone();
        let lines: Vec<String> = (1..=250).map(|n| format!("line {n}")).collect();
        let print = |client: &mut Client, lines: &[String]| {
            let body = json!({ "lease_token": token, "lines": lines });
            client.post(&format!("/v1/jobs/{id}/logs"), &body).unwrap().is(201);
        };
        print(&mut client, &lines);
        let page =
            |client: &mut Client, query: &str| client.get(&format!("/v1/jobs/{id}/logs{query}")).unwrap();
        let before = page(&mut client, "?limit=1000").is(200);
        assert_eq!(before["lines"].as_array().map(Vec::len), Some(250));
        let state = client.get("/v1/settings").unwrap().is(200);
        assert_eq!(state["settings"]["log_bodies_kept"], Value::Null, "for ever, unless it is set");
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        let wish = json!({ "settings": { "log_bodies_kept": "1s" }, "expected_version": state["version"] });
        let set = client.send("PUT", "/v1/settings", "", &wish.to_string()).unwrap().is(200);
        assert_eq!(set["settings"]["log_bodies_kept"], 1);
        until("they are archived", || {
            files(&archive, "zst").len() == 1 && files(&archive, "pending").is_empty()
        });
        assert_eq!(page(&mut client, "?limit=1000").is(200), before, "as before");
        let middle = page(&mut client, "?after=99&limit=3").is(200);
        assert_eq!(middle["lines"], json!(before["lines"].as_array().unwrap()[99..102]), "the same cursors");
        print(&mut client, &["last".to_owned()]);
        let end = page(&mut client, "?after=249").is(200);
        assert_eq!((&end["lines"][0]["n"], &end["lines"][1]["n"]), (&json!(250), &json!(251)));
        let metrics = client.get("/metrics").unwrap().text;
        assert!(metrics.contains("windlass_retention_log_lines_total 250"), "{metrics}");
        drop(served);
        let run = |words: &[&str]| {
            let ran = place.command(words).output().unwrap();
            let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
            (ran.status.code().unwrap(), text)
        };
        let folder = archive.display().to_string();
        let (code, shown) = run(&["jobs", "logs", &id, "--archive", &folder]);
        assert!(code == 0 && shown.contains("line 1\n") && shown.contains("line 250"), "{shown}");
        let (code, told) = run(&["jobs", "logs", &id]);
        assert!(code == 5 && told.contains("lines 1 to 250 are in logs-"), "{code}: {told}");
        let (_, found) = run(&["doctor", "--archive", &folder]);
        assert!(found.contains("files of jobs and 1 of log lines"), "{found}");
        let away = serve(&place, &place.folder().join("elsewhere"));
        let refused = page(&mut away.client(), "").refused(503, "archive_unavailable");
        assert_eq!((&refused["first"], &refused["last"]), (&json!(1), &json!(250)), "{refused}");
        let rest = page(&mut away.client(), "?after=250").is(200);
        assert_eq!(rest["lines"][0]["line"], "last", "what is in the database can be read");
        place.is_sound();
        drop(away);
        // A job whose older lines moved goes and comes back; without their file, they are named.
        place.command(&["jobs", "cancel", &id, "--force"]).status().unwrap();
        // Nothing goes before the reader that adds up stats has seen it.
        let served = serve(&place, &archive);
        let prune = ["prune", "--older-than", "0s", "--archive", &folder];
        until("it is removed", || run(&prune).1.contains("1 jobs were removed"));
        drop(served);
        let (code, shown) = run(&["jobs", "logs", &id, "--archive", &folder]);
        assert!(code == 0 && shown.contains("line 1\n") && shown.contains("last"), "{shown}");
        let is_of_lines = |path: &PathBuf| path.to_string_lossy().contains("logs-");
        for path in files(&archive, "zst").into_iter().filter(is_of_lines) {
            std::fs::remove_file(path).unwrap();
        }
        let (code, told) = run(&["restore", &id, "--archive", &folder]);
        assert!(code == 0 && told.contains("log lines 1 to 250 are in logs-"), "{told}");
    }
}

/// T9: a mistyped archive is no new archive: nothing is removed, and the doctor names it.
#[test]
fn a_mistyped_archive_is_not_made() {
    let place = Place::sqlite();
    let typo = place.folder().join("archvie").join("jobs");
    let served = serve(&place, &typo);
    let ids = ended(&mut served.client(), 1, &json!(1));
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    keep(&mut served.client(), "1s");
    until("it is said", || served.log().contains("there is no folder"));
    assert!(is_here(&mut served.client(), &ids[0]) && !typo.parent().unwrap().exists(), "{}", served.log());
    drop(served);
    let doctor = |folder: &Path| {
        let folder = folder.display().to_string();
        let ran = place.command(&["doctor", "--json", "--archive", &folder]).output().unwrap();
        let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let all = found["findings"].as_array().unwrap();
        all.iter().find(|one| one["check"] == "archive").unwrap()["level"].clone()
    };
    assert_eq!(doctor(&typo), "problem");
    assert_eq!(doctor(&place.folder().join("new")), "warning");
}

/// T9: a finished job is erased through the API, in the database and in the archive: every reader answers that it was, and
/// nothing of what it was given is left in any file; what it is found by still finds it, and it does not run again.
#[test]
fn a_finished_job_is_erased_wherever_it_is() {
    let secret = "ann@example.org";
    for place in [Place::sqlite(), Place::postgres()] {
        let archive = place.folder().join("archive");
        let served = serve(&place, &archive);
        let mut client = served.client();
        let mut job = |key: &str| {
            let unique = json!({ "key": key, "policy": "forever" });
            let (payload, metadata) = (json!({ "to": secret }), json!({ "to": secret }));
            let body = json!({ "kind": "old", "payload": payload, "metadata": metadata, "unique": unique });
            let made = client.post("/v1/jobs", &body).unwrap().is(201);
            let id = made["job"]["id"].as_str().unwrap().to_owned();
            let path = format!("/v1/jobs/{id}/payload");
            let live = client.send("DELETE", &path, "", "").unwrap().is(409);
            assert_eq!((&live["code"], &live["job_status"]), (&json!("job_not_finished"), &json!("pending")));
            let claim =
                client.post(&format!("/v1/jobs/{id}/claim"), &json!({ "worker_id": "w" })).unwrap().is(200);
            let token = claim["job"]["lease"]["token"].clone();
            let lines = json!({ "lease_token": token, "lines": [secret] });
            client.post(&format!("/v1/jobs/{id}/logs"), &lines).unwrap().is(201);
            let error = json!({ "code": "broken", "message": secret });
            let failed = json!({ "lease_token": token, "error": error, "permanent": true });
            client.post(&format!("/v1/jobs/{id}/fail"), &failed).unwrap().is(200);
            (id, body)
        };
        let (here, again) = job("here");
        let (there, _) = job("there");
        let folder = archive.display().to_string();
        let does =
            |words: &[&str]| place.command(words).args(["--archive", &folder]).status().unwrap().success();
        // What the server's reader of the feed has not read yet stays.
        until("both are archived", || {
            let done = does(&["prune", "--older-than", "0s"]);
            done && [&here, &there].iter().all(|id| !is_here(&mut client, id))
        });
        assert!(does(&["restore", &here]), "it comes back");
        for id in [&here, &there] {
            let path = |what: &str| format!("/v1/jobs/{id}{what}");
            let stale = client.send("DELETE", &path("/payload?expected_version=1"), "", "").unwrap().is(409);
            assert_eq!(stale["code"], "version_mismatch");
            let erased = client.send("DELETE", &path("/payload"), "", "").unwrap().is(200);
            assert_eq!(
                (&erased["erased"], &erased["replayed"], &erased["archive_files"]),
                (&json!(true), &json!(false), &json!(1))
            );
            let repeat = client.send("DELETE", &path("/payload"), "", "").unwrap().is(200);
            assert_eq!((&repeat["replayed"], &repeat["version"]), (&json!(true), &erased["version"]));
            let shown = client.get(&path("")).unwrap().is(200);
            assert_eq!(
                (&shown["erased"], &shown["payload"], &shown["metadata"]),
                (&json!(true), &Value::Null, &json!({}))
            );
            assert_eq!(shown["error"], json!({ "code": "broken" }), "of an error its code stays");
            let lines = client.get(&path("/logs")).unwrap().is(200);
            assert_eq!(lines, json!({ "lines": [], "erased": true }));
            let log = client.get(&path("/events")).unwrap().is(200);
            let last = log["events"].as_array().unwrap().last().unwrap().clone();
            assert_eq!((&last["type"], &last["version"]), (&json!("job_erased"), &erased["version"]));
            for said in [shown.to_string(), log.to_string()] {
                assert!(!said.contains(secret), "{said}");
            }
        }
        let refused =
            client.post(&format!("/v1/jobs/{here}/redrive"), &json!({ "payload": 1 })).unwrap().is(409);
        assert_eq!(refused["code"], "job_erased");
        assert_eq!(
            client.post(&format!("/v1/jobs/{here}/fork"), &json!({})).unwrap().is(409)["code"],
            "job_erased"
        );
        let known = client.post("/v1/jobs", &again).unwrap().is(200);
        assert_eq!((&known["job"]["id"], &known["payload_differs"]), (&json!(here), &json!(false)));
        let audit = client.get("/v1/audit").unwrap().is(200);
        let erasures =
            audit["entries"].as_array().unwrap().iter().filter(|entry| entry["action"] == "job.erase");
        assert_eq!(erasures.count(), 2, "{audit}");
        drop(served);
        for path in files(&archive, "zst") {
            let mut text = String::new();
            let file = std::fs::File::open(path).unwrap();
            StreamingDecoder::new(file).unwrap().read_to_string(&mut text).unwrap();
            assert!(!text.contains(secret), "{text}");
        }
        let run = |words: &[&str]| place.command(words).output().unwrap();
        let unsure = run(&["jobs", "erase", &here]);
        assert_eq!(
            unsure.status.code(),
            Some(5),
            "it came back from an archive, which may hold a copy: {unsure:?}"
        );
        let told = run(&["jobs", "erase", &here, "--archive", &folder]);
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(told.contains("was erased before"), "{told}");
        place.is_sound();
    }
}
