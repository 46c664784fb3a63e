//! The archive in an object store: moto from PyPI, which speaks like S3 and checks every signature, and real commands. Nothing is
//! lost, whatever the store refuses, and whether a server dies in between or two work at once.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod wire;

use ruzstd::decoding::StreamingDecoder;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use wire::{Client, Place, Served, free_address, until};

const BUCKET: &str = "jobs";
/// One request at a time, so that a condition and its write are one, as they are in what people run.
const SERVE: &str = "
import sys
from werkzeug.serving import run_simple
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
run_simple('127.0.0.1', int(sys.argv[1]), DomainDispatcherApplication(create_backend_app))
";
/// A user that may do everything in S3, made by another client than ours.
const ADD_USER: &str = "
import json, sys, boto3
iam = boto3.client('iam', endpoint_url=sys.argv[1], region_name='us-east-1', aws_access_key_id='root', aws_secret_access_key='root')
iam.create_user(UserName='archiver')
allowed = {'Version': '2012-10-17', 'Statement': [{'Effect': 'Allow', 'Action': 's3:*', 'Resource': '*'}]}
iam.put_user_policy(UserName='archiver', PolicyName='all', PolicyDocument=json.dumps(allowed))
key = iam.create_access_key(UserName='archiver')['AccessKey']
print(key['AccessKeyId'], key['SecretAccessKey'])
";

fn python(script: &str, word: &str) -> Command {
    let folder = std::env::var_os("WINDLASS_TEST_PYTHON").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin"));
    let program = folder.join("python");
    let how = "`make test` installs it, or name the folder of another with WINDLASS_TEST_PYTHON";
    assert!(program.exists(), "there is no {}; {how}", program.display());
    let mut command = Command::new(program);
    command.args(["-c", script, word]).env("AWS_ACCESS_KEY_ID", "x").env("AWS_SECRET_ACCESS_KEY", "x");
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// An object store that runs, and a key for it. It is killed with this.
struct Objects {
    address: String,
    child: Child,
    key: (String, String),
}

impl Objects {
    /// Starts one with a bucket, which checks signatures.
    fn start() -> Self {
        Self::start_on(&free_address())
    }

    fn start_on(address: &str) -> Self {
        let port = address.rsplit(':').next().unwrap();
        let child = python(SERVE, port).stdout(Stdio::null()).spawn().unwrap();
        let mut objects = Self { address: address.to_owned(), child, key: (String::new(), String::new()) };
        until("the object store runs", || Client::new(address).get("/moto-api/").is_ok());
        Client::new(address).send("PUT", &format!("/{BUCKET}"), "", "").unwrap().is(200);
        let made = python(ADD_USER, &format!("http://{address}")).output().unwrap();
        let made = String::from_utf8(made.stdout).unwrap();
        let (id, secret) = made.trim().split_once(' ').expect("a key");
        objects.key = (id.to_owned(), secret.to_owned());
        objects.check_signatures(true);
        objects
    }

    /// Whether requests must be signed from now on. The tests look into the bucket without a key.
    fn check_signatures(&self, are_checked: bool) {
        let unchecked = if are_checked { "0" } else { "inf" };
        Client::new(&self.address).send("POST", "/moto-api/reset-auth", "", unchecked).unwrap().is(200);
    }

    fn archive(&self) -> String {
        format!("s3://{BUCKET}/of/us?endpoint=http://{}&timeout=20s", self.address)
    }

    /// A command with the key.
    fn with_key(&self, mut command: Command) -> Command {
        command.env("AWS_ACCESS_KEY_ID", &self.key.0).env("AWS_SECRET_ACCESS_KEY", &self.key.1);
        command
    }

    fn run(&self, place: &Place, words: &[&str]) -> (i32, String) {
        let mut command = self.with_key(place.command(words));
        said(&command.args(["--archive", &self.archive()]).output().unwrap())
    }

    fn json(&self, place: &Place, words: &[&str]) -> Value {
        let (code, text) = self.run(place, &[words, &["--json"]].concat());
        assert_eq!(code, 0, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    fn serve(&self, place: &Place) -> Served {
        let address = free_address();
        let words = ["serve", "--unsafe", "--listen", &address, "--archive", &self.archive()];
        Served::start(self.with_key(place.command(&words)), place.folder(), &address)
    }

    /// The names of all objects that end so.
    fn names(&self, ending: &str) -> Vec<String> {
        let text = Client::new(&self.address).get(&format!("/{BUCKET}?list-type=2")).unwrap().text;
        let keys = text.split("<Key>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned());
        keys.filter(|key| key.ends_with(ending)).collect()
    }

    /// The bytes of an object.
    fn bytes(&self, name: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // Whoever says nothing of a key is not shown an object, even while no signature is checked.
        let key =
            "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request,SignedHeaders=host,Signature=x";
        let head = format!("host: {}\r\nauthorization: {key}\r\n", self.address);
        write!(stream, "GET /{BUCKET}/{name} HTTP/1.0\r\n{head}\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        answer.split_off(end + 4)
    }

    /// The lines of all segments.
    fn lines(&self) -> Vec<Value> {
        self.check_signatures(false);
        let mut lines = Vec::new();
        for name in self.names(".zst") {
            assert!(name.starts_with("of/us/"), "{name}");
            let (packed, mut text) = (self.bytes(&name), String::new());
            StreamingDecoder::new(&packed[..]).unwrap().read_to_string(&mut text).unwrap();
            lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        self.check_signatures(true);
        lines
    }

    /// The ids of all archived jobs, in order.
    fn ids(&self) -> Vec<String> {
        let lines = self.lines();
        let mut ids: Vec<_> =
            lines.iter().filter_map(|line| line["id"].as_str()).map(str::to_owned).collect();
        ids.sort();
        ids
    }

    fn has_notes(&self) -> bool {
        self.check_signatures(false);
        let has_notes = !self.names(".pending").is_empty();
        self.check_signatures(true);
        has_notes
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(ran: &Output) -> (i32, String) {
    let text = [ran.stdout.clone(), ran.stderr.clone()].concat();
    (ran.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned())
}

/// Jobs that failed for good, with a line of log each.
fn ended(client: &mut Client, n: usize, payload: &Value) -> Vec<String> {
    let mut one = || {
        let made = client.post("/v1/jobs", &json!({ "kind": "old", "payload": payload })).unwrap().is(201);
        let id = made["job"]["id"].as_str().unwrap().to_owned();
        let claim = client.post(&format!("/v1/jobs/{id}/claim"), &json!({ "worker_id": "w" })).unwrap();
        let token = claim.is(200)["job"]["lease"]["token"].clone();
        let lines = json!({ "lease_token": token, "lines": [payload.to_string()] });
        client.post(&format!("/v1/jobs/{id}/logs"), &lines).unwrap().is(201);
        let error = json!({ "code": "broken", "message": "it broke" });
        let failed = json!({ "lease_token": token, "error": error, "permanent": true });
        client.post(&format!("/v1/jobs/{id}/fail"), &failed).unwrap().is(200);
        id
    };
    let mut ids: Vec<String> = (0..n).map(|_| one()).collect();
    ids.sort();
    ids
}

fn set(client: &mut Client, settings: &Value) {
    let state = client.get("/v1/settings").unwrap().is(200);
    let body = json!({ "settings": settings, "expected_version": state["version"] });
    client.send("PUT", "/v1/settings", "", &body.to_string()).unwrap().is(200);
}

/// Whether a job is in the store.
fn is_here(client: &mut Client, id: &str) -> bool {
    let reply = client.get(&format!("/v1/jobs/{id}")).unwrap();
    reply.status == 200 && reply.body["archived"] != true
}

/// What the doctor says of the archive: the level and the words.
fn diagnosis(text: &str) -> (String, String) {
    let found: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
    let all = found["findings"].as_array().unwrap();
    let archive = all.iter().find(|one| one["check"] == "archive").unwrap();
    (archive["level"].as_str().unwrap().to_owned(), archive["found"].as_str().unwrap().to_owned())
}

/// T9: jobs are archived in an object store, shown from there, put back, and erased there; every request is signed.
#[test]
fn jobs_are_archived_shown_restored_and_erased() {
    let secret = "ann@example.org";
    for place in [Place::sqlite(), Place::postgres()] {
        let objects = Objects::start();
        let served = objects.serve(&place);
        let mut client = served.client();
        let ids = ended(&mut client, 3, &json!({ "to": secret }));
        let before = client.get(&format!("/v1/jobs/{}", ids[0])).unwrap().is(200);
        // Nothing goes before the reader that adds up stats has seen it.
        let mut files = Vec::new();
        until("they are removed", || {
            let done = objects.json(&place, &["prune", "--older-than", "0s"]);
            files.extend(done["files"].as_array().unwrap().clone());
            ids.iter().all(|id| !is_here(&mut client, id))
        });
        assert_eq!((objects.ids(), objects.has_notes()), (ids.clone(), false), "once each");
        assert!(files[0].as_str().unwrap().starts_with("s3://jobs/of/us/jobs-"), "{files:?}");
        let mut shown = client.get(&format!("/v1/jobs/{}", ids[0])).unwrap().is(200);
        assert_eq!(shown.as_object_mut().unwrap().remove("archived"), Some(json!(true)));
        assert_eq!(shown, before, "as it was");
        let log = objects.json(&place, &["jobs", "logs", &ids[0]]);
        assert!(log.to_string().contains(secret), "{log}");
        let (code, told) = said(&place.command(&["jobs", "show", &ids[0]]).output().unwrap());
        assert!(code == 3 && told.contains("was archived in jobs-"), "{told}");
        let restored = objects.json(&place, &["restore", &ids[1]]);
        assert_eq!((&restored["status"], &restored["left_out"]), (&json!("failed"), &json!([])));
        assert!(is_here(&mut client, &ids[1]));
        for id in &ids[..2] {
            let path = format!("/v1/jobs/{id}/payload");
            let erased = client.send("DELETE", &path, "", "").unwrap().is(200);
            assert_eq!(
                (&erased["replayed"], &erased["archive_files"]),
                (&json!(false), &json!(1)),
                "{erased}"
            );
            let repeat = client.send("DELETE", &path, "", "").unwrap().is(200);
            assert_eq!(repeat["replayed"], true);
        }
        let left = objects.lines();
        let holds: Vec<_> = left.iter().filter(|line| line.to_string().contains(secret)).collect();
        assert_eq!(holds.len(), 1, "only the one that was not erased");
        assert_eq!(holds[0]["id"], json!(ids[2]));
        set(&mut client, &json!({ "retention": [{ "keep": "90d" }] }));
        let (level, words) = diagnosis(&objects.run(&place, &["doctor", "--json"]).1);
        let holds = format!("s3://jobs/of/us holds {} files of jobs and 0 of log lines", files.len());
        assert_eq!((level, words), ("ok".to_owned(), holds));
        drop(served);
        place.is_sound();
    }
}

/// R11: log lines older than the setting are in the object store, and read as before.
#[test]
fn log_lines_move_to_the_object_store_and_are_read_as_before() {
    let place = Place::sqlite();
    let objects = Objects::start();
    let served = objects.serve(&place);
    let mut client = served.client();
    let id = ended(&mut client, 1, &json!("a line")).remove(0);
    let page = |client: &mut Client| client.get(&format!("/v1/jobs/{id}/logs")).unwrap();
    let before = page(&mut client).is(200);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    set(&mut client, &json!({ "log_bodies_kept": "1s" }));
    until("they moved", || {
        client.get("/metrics").unwrap().text.contains("windlass_retention_log_lines_total 1")
    });
    assert_eq!(objects.lines()[0]["job"], json!(id));
    assert_eq!(page(&mut client).is(200), before, "as before");
    drop(served);
    let (code, shown) = objects.run(&place, &["jobs", "logs", &id]);
    assert!(code == 0 && shown.contains("a line"), "{shown}");
    drop(objects);
    let away = place.serve();
    page(&mut away.client()).refused(503, "archive_unavailable");
}

/// T9: a bucket that is not there, a key that is not valid, a server that is away or silent: nothing is removed, and the
/// command, the log, the metric and the doctor say why and what to do.
#[test]
fn nothing_is_removed_while_the_object_store_does_not_take_it() {
    let place = Place::sqlite();
    let objects = Objects::start();
    let gone = free_address();
    // Connections are accepted by the system, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (address, silent)).unwrap();
    let of = |bucket: &str, address: &str| format!("s3://{bucket}/x?endpoint=http://{address}&timeout=500ms");
    let served = place.serve();
    let id = ended(&mut served.client(), 1, &json!(1)).remove(0);
    until("its end was read", || {
        let ran = place.command(&["prune", "--older-than", "0s", "--dry-run", "--json"]).output().unwrap();
        let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
        found["matched"] == 1
    });
    set(&mut served.client(), &json!({ "retention": [{ "keep": "1s" }] }));
    drop(served);
    let (key, secret) = objects.key.clone();
    for (archive, secret, help) in [
        (
            of("nowhere", &objects.address),
            Some(&*secret),
            "(NoSuchBucket: The specified bucket does not exist): make the bucket",
        ),
        (of(BUCKET, &objects.address), Some("wrong"), "SignatureDoesNotMatch"),
        (of(BUCKET, &objects.address), None, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        (of(BUCKET, &gone), Some(&*secret), "did not answer"),
        (of(BUCKET, &silent.0.to_string()), Some(&*secret), "was silent for 0.5 s"),
    ] {
        let run = |words: &[&str]| {
            let mut command = place.command(words);
            if let Some(secret) = secret {
                command.env("AWS_ACCESS_KEY_ID", &key).env("AWS_SECRET_ACCESS_KEY", secret);
            }
            said(&command.args(["--archive", &archive]).output().unwrap())
        };
        let (code, told) = run(&["prune", "--older-than", "0s"]);
        assert!(code == 1 && told.contains(help) && told.contains("s3://"), "{code}: {told}");
        assert!(told.contains("what is not archived stays in the store"), "{told}");
        let (level, found) = diagnosis(&run(&["doctor", "--json"]).1);
        assert!(level == "problem" && found.contains(help), "{level}: {found}");
        let (code, shown) = run(&["jobs", "show", &id]);
        assert!(code == 0 && shown.contains("failed"), "nothing is removed: {shown}");
    }
    let address = free_address();
    let words = ["serve", "--unsafe", "--listen", &address, "--archive", &of(BUCKET, &gone)];
    let served = Served::start(objects.with_key(place.command(&words)), place.folder(), &address);
    let mut client = served.client();
    until("it is said", || client.get("/metrics").unwrap().text.contains("windlass_retention_failing 1\n"));
    assert!(served.log().contains("finished jobs stay in the store"), "{}", served.log());
    assert!(is_here(&mut client, &id));
    let (code, told) = said(&place.command(&["prune", "--archive", "gs://jobs"]).output().unwrap());
    assert!(code == 2 && told.contains("must be a folder, or s3://BUCKET/PREFIX"), "{told}");
    objects.json(&place, &["prune", "--older-than", "0s"]);
    assert_eq!(objects.ids(), [id]);
}

/// T9: a bucket that keeps versions keeps what is erased, which the doctor says.
#[test]
fn a_bucket_that_keeps_versions_is_named() {
    let place = Place::sqlite();
    let objects = Objects::start();
    objects.check_signatures(false);
    let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let path = format!("/{BUCKET}?versioning");
    Client::new(&objects.address).send("PUT", &path, "", on).unwrap().is(200);
    objects.check_signatures(true);
    let served = objects.serve(&place);
    set(&mut served.client(), &json!({ "retention": [{ "keep": "90d" }] }));
    let (level, found) = diagnosis(&objects.run(&place, &["doctor", "--json"]).1);
    assert!(level == "warning" && found.contains("keeps every version"), "{level}: {found}");
}

/// T9: a server that is killed between the object and the removal loses nothing, and the next one archives nothing again.
#[test]
fn a_server_killed_between_object_and_removal_loses_nothing() {
    let place = Place::postgres();
    let objects = Objects::start();
    let mut served = objects.serve(&place);
    let ids = ended(&mut served.client(), 5, &json!(1));
    let holds = place.hold_up_purges();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    set(&mut served.client(), &json!({ "retention": [{ "keep": "1s" }] }));
    until("the jobs are archived", || objects.ids() == ids);
    served.kill();
    assert!(objects.has_notes(), "that they are to be removed is known");
    drop(holds);
    let served = objects.serve(&place);
    let mut client = served.client();
    until("they are removed", || ids.iter().all(|id| !is_here(&mut client, id)));
    until("the note is gone", || !objects.has_notes());
    assert_eq!(objects.ids(), ids, "once each");
    drop(served);
    place.is_sound();
}

/// T9: two runs beside a server that removes too: each job is gone, and in the object store. Erased at once by three
/// commands, none undoes what another did in the same object.
#[test]
fn runs_and_erasures_at_once_lose_nothing() {
    let secret = "ann@example.org";
    let place = Place::postgres();
    let objects = Objects::start();
    let served = objects.serve(&place);
    let mut client = served.client();
    let ids = ended(&mut client, 60, &json!(secret));
    let spawn = |words: &[&str]| {
        let mut command = objects.with_key(place.command(words));
        command.args(["--archive", &objects.archive()]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    set(&mut client, &json!({ "retention": [{ "keep": "1s" }] }));
    until("all are removed", || {
        let runs = [(); 2].map(|()| spawn(&["prune", "--older-than", "0s"]));
        for run in runs {
            let (code, told) = said(&run.wait_with_output().unwrap());
            assert_eq!(code, 0, "{told}");
        }
        ids.iter().all(|id| !is_here(&mut client, id))
    });
    let mut found = objects.ids();
    found.dedup();
    assert_eq!(found, ids, "every job is there");
    for three in ids[..6].chunks(3) {
        let runs: Vec<_> = three.iter().map(|id| spawn(&["jobs", "erase", id])).collect();
        for run in runs {
            let (code, told) = said(&run.wait_with_output().unwrap());
            assert_eq!(code, 0, "{told}");
        }
    }
    let left = objects.lines();
    let holding = left.iter().filter(|line| line.to_string().contains(secret));
    let mut holding: Vec<_> = holding.filter_map(|line| line["id"].as_str().map(str::to_owned)).collect();
    holding.sort();
    holding.dedup();
    assert_eq!(holding, ids[6..], "what was erased is nowhere, the rest is there");
    drop(served);
    place.is_sound();
}
