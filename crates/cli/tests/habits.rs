//! What people are used to from other programs: short ids, relative times, forms of output, live views, help.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, free_port, post, ran, wait_for};
use serde_json::{Value, json};

fn ids(page: &Value) -> Vec<&str> {
    page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect()
}

/// The end of an id, as the page shows it, is enough wherever an id is asked for.
#[test]
fn a_piece_of_an_id_is_enough() {
    let bed = Bed::new();
    let (id, other) = (bed.enqueue(&["a", "--delay", "1h"]), bed.enqueue(&["b", "--delay", "1h"]));
    let end = &id[id.len() - 8..];
    assert_eq!(bed.json(&["jobs", "show", end])["id"], id.as_str());
    assert_eq!(bed.json(&["jobs", "show", &format!("…{}", end.to_uppercase())])["id"], id.as_str());
    bed.run(&["jobs", "events", end]).ok();
    bed.run(&["jobs", "logs", end]).ok();
    bed.run(&["jobs", "signal", end, "go"]).ok();
    bed.run(&["jobs", "cancel", end]).ok();
    bed.run(&["jobs", "redrive", end]).ok();
    bed.run(&["jobs", "fork", end]).ok();
    assert_eq!(bed.job(&other)["status"], "pending", "another job is left alone");
    let both = bed.run(&["jobs", "show", &id[..8]]);
    assert_eq!(both.code, 2, "{}", both.err);
    assert!(both.err.contains("type more of it") && both.err.contains(&other), "{}", both.err);
    let none = bed.run(&["jobs", "show", "ffffffff"]);
    assert_eq!(none.code, 3, "{}", none.err);
    assert_eq!(bed.run(&["jobs", "show", "not-an-id"]).code, 2);
}

/// So it is for flows, for the job that another waits for, for filters, operations, approvals and marks.
#[test]
fn a_piece_is_enough_for_whatever_has_an_id() {
    let mut bed = Bed::new();
    let (id, other) = (bed.enqueue(&["a", "--delay", "1h"]), bed.enqueue(&["b", "--delay", "1h"]));
    let end = &id[id.len() - 8..];
    let graph = bed.json(&["flow", "graph", end]);
    assert_eq!(graph["nodes"][0]["id"], id.as_str(), "{graph}");
    bed.enqueue(&["c", "--after", &format!("{end}:failure")]);
    let graph = bed.json(&["flow", "graph", end]);
    assert_eq!((&graph["edges"][0]["from"], &graph["edges"][0]["on"]), (&json!(id), &json!("failure")));

    let flow = json!({ "open": true, "nodes": { "one": { "kind": "n", "delay": "1h" } } }).to_string();
    std::fs::write(bed.path("flow.json"), flow).unwrap();
    let made = bed.json(&["flow", "run", "flow.json"]);
    let parent = made["id"].as_str().unwrap();
    let parent = &parent[parent.len() - 8..];
    let child = made["nodes"]["one"].as_str().unwrap();
    assert_eq!(ids(&bed.json(&["jobs", "ls", "--parent-id", parent])), [child]);
    let filter = format!("parent_id={parent}");
    assert_eq!(bed.json(&["jobs", "cancel", "--dry-run", "--filter", &filter])["sample"], json!([child]));
    assert_eq!(bed.json(&["flow", "seal", parent])["job"]["id"], made["id"]);
    assert_eq!(bed.run(&["jobs", "ls", "--parent-id", "ffffffff"]).code, 3);

    let held = bed.json(&["jobs", "cancel", "--filter", "kind=b", "--hold", "1h"]);
    let operation = held["id"].as_str().unwrap();
    let stopped = bed.json(&["operations", "stop", &operation[operation.len() - 8..]]);
    assert_eq!((&stopped["id"], &stopped["phase"]), (&held["id"], &json!("stopped")));
    assert_eq!(bed.job(&other)["status"], "pending", "nothing was done to it");
    assert_eq!(bed.run(&["operations", "stop", "ffffffff"]).code, 3);

    let mark = bed.json(&["marks", "add", "deploy 4.2.0"]);
    let mark = mark["id"].as_str().unwrap();
    bed.run(&["marks", "rm", &mark[mark.len() - 8..]]).ok();
    assert_eq!(bed.json(&["marks", "ls"])["marks"], json!([]));

    let (url, _) = bed.serve("serve");
    let held = post(&url, &format!("/v1/jobs/{}/claim", bed.enqueue(&["k"])), &json!({ "worker_id": "w" }));
    let ask = json!({ "lease_token": held["job"]["lease"]["token"], "name": "a", "prompt": "now?" });
    post(&url, &format!("/v1/jobs/{}/approvals", held["job"]["id"].as_str().unwrap()), &ask);
    let asked = bed.json(&["approvals", "ls"])["approvals"][0]["id"].as_str().unwrap().to_owned();
    bed.run(&["approvals", "approve", &asked[asked.len() - 8..]]).ok();
    assert_eq!(bed.json(&["approvals", "ls"])["approvals"][0]["status"], "approved");
}

#[test]
fn marks_are_those_of_a_time() {
    let bed = Bed::new();
    bed.run(&["marks", "add", "deploy 4.2.0"]).ok();
    let n = |words: &[&str]| bed.json(&[&["marks", "ls"], words].concat())["marks"].as_array().unwrap().len();
    assert_eq!((n(&[]), n(&["--since", "1h"]), n(&["--since", "1h", "--until", "now"])), (1, 1, 1));
    assert_eq!((n(&["--until", "1h"]), n(&["--since", "2999-01-01T00:00:00Z"])), (0, 0));
    assert_eq!(bed.run(&["marks", "ls", "--since", "soon"]).code, 2);
}

#[test]
fn times_are_seen_from_now() {
    let bed = Bed::new();
    let id = bed.enqueue(&["k", "--run-at", "1h"]);
    let job = bed.job(&id);
    assert!(job["due_at"].as_str() > job["created_at"].as_str(), "{job}");
    assert_eq!(ids(&bed.json(&["jobs", "ls", "--since", "1h"])), [id.as_str()]);
    assert_eq!(ids(&bed.json(&["jobs", "ls", "--since", "1h", "--until", "now"])), [id.as_str()]);
    assert!(ids(&bed.json(&["jobs", "ls", "--until", "1h"])).is_empty());
    assert!(ids(&bed.json(&["jobs", "ls", "--created-before", "-1h"])).is_empty());
    assert_eq!(ids(&bed.json(&["jobs", "ls", "--created-after", "-1h"])), [id.as_str()]);
    let dry = ["jobs", "cancel", "--dry-run", "--filter"];
    assert_eq!(bed.json(&[&dry[..], &["created_after=-1h"]].concat())["matched"], 1);
    assert_eq!(bed.json(&[&dry[..], &["created_before=-1h"]].concat())["matched"], 0);
    assert_eq!(bed.run(&["jobs", "ls", "--since", "soon"]).code, 2);
}

#[test]
fn a_job_is_enqueued_with_everything() {
    let bed = Bed::new();
    let own = "01890000-0000-7000-8000-0000000000aa";
    let words = ["enqueue", "k", "--id", own, "--metadata", r#"{"order":7}"#, "--tag", "a", "--tag", "b"];
    let backoff = ["--backoff", "base=2s,max=5m,multiplier=3,jitter=false"];
    let first = bed.json(&[&words[..], &backoff].concat());
    assert_eq!((&first["existed"], &first["job"]["id"]), (&json!(false), &json!(own)));
    assert_eq!(bed.json(&[&words[..], &backoff].concat())["existed"], true, "the same id is the same job");
    let job = bed.job(own);
    assert_eq!((&job["metadata"], &job["tags"]), (&json!({ "order": 7 }), &json!(["a", "b"])));
    assert_eq!(job["backoff"], json!({ "base": 2, "max": 300, "multiplier": 3.0, "jitter": false }));
    for wrong in [
        &["--metadata", "[1]"][..],
        &["--backoff", "base"],
        &["--backoff", "first=2s"],
        &["--backoff", "multiplier=x"],
        &["--id", "7"],
    ] {
        assert_eq!(bed.run(&[&["enqueue", "k"], wrong].concat()).code, 2, "{wrong:?}");
    }
}

#[test]
fn output_has_a_form() {
    let bed = Bed::new();
    let id = bed.enqueue(&["k", "--tag", "t", "--payload", &format!("{:?}", "y".repeat(2_500))]);
    let template = bed.run(&["jobs", "ls", "-o", "template={id}\\t{kind}\\t{tags.0}"]).ok();
    assert_eq!(template.out, format!("{id}\tk\tt\n"));
    let yaml = bed.run(&["jobs", "show", &id, "--output", "yaml"]).ok().out;
    assert!(yaml.starts_with(&format!("---\nid: \"{id}\"\nkind: k\n")), "{yaml}");
    let (narrow, wide) =
        (bed.run(&["jobs", "show", &id]).ok().out, bed.run(&["jobs", "show", &id, "-o", "wide"]).ok().out);
    let whole = "y".repeat(2_500);
    assert!(!narrow.contains(&whole) && wide.contains(&whole), "wide shortens nothing");
    assert_eq!(bed.run(&["jobs", "ls", "-o", "json"]).ok().json(), bed.json(&["jobs", "ls"]));
    assert_eq!(bed.run(&["jobs", "ls", "-o", "xml"]).code, 2);
    let failed = bed.run(&["jobs", "show", "nothing", "-o", "yaml"]);
    assert!(failed.err.starts_with("windlass: "), "a failure is for people: {}", failed.err);
}

#[test]
fn stats_and_top_say_how_it_stands() {
    let mut bed = Bed::new();
    bed.enqueue(&["k", "--queue", "mail"]);
    bed.enqueue(&["k", "--queue", "mail"]);
    let stats = bed.json(&["stats"]);
    assert_eq!(
        (&stats["statuses"]["pending"], &stats["queues"][0]["due"]),
        (&json!(2), &json!(2)),
        "{stats}"
    );
    assert_eq!(stats["workers"], json!({ "live": 0, "draining": 0, "gone": 0, "capacity": 0 }));
    let told = bed.run(&["stats"]).ok().out;
    assert!(told.contains("pending") && told.contains("mail") && told.contains("workers: 0 live"), "{told}");
    let top = bed.start(&["top", "--every", "100ms"]);
    wait_for(|| bed.printed(top).matches("nothing runs").count() >= 2);
    bed.signal(top, "INT");
    assert_eq!(bed.ended(top), 0);
    let (url, _) = bed.serve("serve");
    let through =
        ran(bed.command(&["stats", "--json", "--url", &url]).env_remove("WINDLASS_STORE").output().unwrap());
    assert_eq!(through.ok().json()["statuses"]["pending"], 2);
}

#[test]
fn a_command_that_reads_is_watched() {
    let mut bed = Bed::new();
    let watching = bed.start(&["jobs", "ls", "--watch=100ms"]);
    wait_for(|| bed.printed(watching).contains("no job matches"));
    let id = bed.enqueue(&["k"]);
    wait_for(|| bed.printed(watching).contains(&id));
    bed.signal(watching, "INT");
    assert_eq!(bed.ended(watching), 0);
    let writes = bed.run(&["enqueue", "k", "--watch"]);
    assert_eq!(writes.code, 2, "{}", writes.err);
}

/// On a store and through a server: what comes is told once, in order, and a filter holds.
#[test]
fn the_feed_is_followed() {
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    let words = ["jobs", "tail", "--queue", "mail", "--most", "2", "--json"];
    let on_store = bed.start(&words);
    let mut command = bed.command(&[&words[..], &["--url", &url]].concat());
    command.env_remove("WINDLASS_STORE");
    let through = bed.spawn(command);
    // A tail begins when it begins: enqueued is until both have seen two.
    let mut made = Vec::new();
    wait_for(|| {
        bed.enqueue(&["other"]);
        made.push(bed.enqueue(&["k", "--queue", "mail"]));
        [on_store, through].iter().all(|tail| bed.printed(*tail).lines().count() >= 2)
    });
    for tail in [on_store, through] {
        assert_eq!(bed.ended(tail), 0);
        let printed = bed.printed(tail);
        let events: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let seen: Vec<usize> = events
            .iter()
            .map(|event| made.iter().position(|id| event["job_id"] == id.as_str()).expect("of queue mail"))
            .collect();
        assert!(events.len() == 2 && seen[1] == seen[0] + 1, "{printed}");
    }
}

#[test]
fn help_and_manual_are_there() {
    let bed = Bed::new();
    assert!(bed.run(&["help", "jobs", "ls"]).ok().out.contains("--since"), "help CMD");
    let page = bed.run(&["man"]).ok().out;
    assert!(page.contains(".TH windlass 1") && page.contains("enqueue"), "{page}");
    bed.run(&["man", "pages"]).ok();
    let one = std::fs::read_to_string(bed.path("pages/windlass-jobs-ls.1")).unwrap();
    assert!(one.contains("since"), "{one}");
}

#[test]
fn the_audit_is_filtered() {
    let bed = Bed::new();
    let id = bed.enqueue(&["k", "--queue", "mail"]);
    bed.run(&["jobs", "cancel", &id]).ok();
    bed.run(&["queues", "pause", "mail"]).ok();
    let actions = |words: &[&str]| -> Vec<String> {
        let page = bed.json(&[&["audit", "ls"], words].concat());
        page["entries"].as_array().unwrap().iter().map(|e| e["action"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(actions(&[]), ["queue.pause", "job.cancel"]);
    assert_eq!(actions(&["--action", "job.cancel"]), ["job.cancel"]);
    assert_eq!(actions(&["--target", &id]), ["job.cancel"]);
    assert_eq!(actions(&["--actor", &bed::cli_user()]).len(), 2);
    assert!(actions(&["--actor", "key:nobody"]).is_empty());
    assert_eq!(actions(&["--since", "1h"]).len(), 2);
    assert!(actions(&["--until", "1h"]).is_empty());
}

#[test]
fn a_server_is_looked_at_from_outside() {
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    let look = |words: &[&str]| {
        let words = [&["doctor", "--url", &url, "--json"], words].concat();
        ran(bed.command(&words).env_remove("WINDLASS_STORE").output().unwrap())
    };
    wait_for(|| look(&[]).code == 0);
    let id = bed.enqueue(&["k", "--queue", "mail"]);
    let found = look(&[]);
    assert_eq!(found.code, 1, "{}", found.out);
    assert!(found.out.contains("windlass work --queue mail --exec"), "{}", found.out);
    // A claim over HTTP is a sign of life: whoever made it serves the queue, although it took nothing.
    let claim = json!({ "queues": ["mail"], "kinds": ["other"], "worker_id": "plain" });
    assert_eq!(post(&url, "/v1/claim", &claim)["jobs"], json!([]));
    wait_for(|| !look(&[]).out.contains("windlass work --queue mail --exec"));
    bed.run(&["jobs", "cancel", &id]).ok();
    let key =
        bed.json(&["keys", "create", "looker", "--role", "viewer"])["secret"].as_str().unwrap().to_owned();
    wait_for(|| look(&[]).out.contains("windlass keys create"));
    std::fs::write(bed.path("key"), key).unwrap();
    let found = look(&["--key-file", "key"]);
    assert_eq!(found.code, 0, "{}", found.out);
    assert!(found.out.contains("it is looker, with viewer"), "{}", found.out);
}

/// An error of several lines, as programs write them, is read line by line.
#[test]
fn newlines_survive() {
    let mut bed = Bed::new();
    let id = bed.enqueue(&["k", "--max-retries", "0"]);
    let (url, _) = bed.serve("serve");
    let held = post(&url, &format!("/v1/jobs/{id}/claim"), &json!({ "worker_id": "w" }));
    let token = held["job"]["lease"]["token"].clone();
    let ask = json!({ "lease_token": token, "name": "a", "prompt": "first\nsecond" });
    post(&url, &format!("/v1/jobs/{id}/approvals"), &ask);
    let error = json!({ "code": "broken", "message": "it broke:\n  in line 7\u{1b}[2J\n  of main" });
    post(&url, &format!("/v1/jobs/{id}/fail"), &json!({ "lease_token": token, "error": error }));
    let shown = bed.run(&["jobs", "show", &id]).ok().out;
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines.iter().position(|line| line.ends_with("broken: it broke:")).expect(&shown);
    assert!(
        lines[at + 1].ends_with("  in line 7\u{fffd}[2J") && lines[at + 2].ends_with("  of main"),
        "{shown}"
    );
    assert!(bed.run(&["approvals", "ls"]).ok().out.contains("first second"));
}

#[test]
fn nobody_listening_is_said_as_such() {
    let bed = Bed::new();
    let url = format!("http://127.0.0.1:{}", free_port());
    let mut command = bed.command(&["jobs", "ls", "--url", &url]);
    let ran = ran(command.env_remove("WINDLASS_STORE").output().unwrap());
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(ran.err.contains("connection refused") && ran.err.contains(&url), "{}", ran.err);
}

/// A port alone is one of this machine, and metrics have an address of their own.
#[test]
fn a_server_listens_where_it_is_told_in_few_words() {
    let mut bed = Bed::new();
    let (port, metrics) = (free_port(), free_port());
    let (listen, beside) = (format!(":{port}"), format!("{metrics}"));
    let server = bed.start(&["serve", "--listen", &listen, "--metrics-listen", &beside, "--json"]);
    wait_for(|| bed.printed(server).ends_with('\n'));
    let said: Value = serde_json::from_str(&bed.printed(server)).unwrap();
    assert_eq!(said["url"], format!("http://127.0.0.1:{port}"));
    assert_eq!(said["metrics_url"], format!("http://127.0.0.1:{metrics}/metrics"));
}
