//! The command as users meet it: help, settings, exit codes, bad input.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, sent, wait_for};
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn help_names_every_command_and_shows_examples() {
    let bed = Bed::new();
    let help = bed.run(&["--help"]).ok().out;
    for word in [
        "enqueue",
        "work",
        "jobs",
        "approvals",
        "queues",
        "workers",
        "audit",
        "keys",
        "migrate",
        "verify",
        "adopt",
        "doctor",
        "config",
        "completions",
        "Examples:",
        "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 refused, 5 unavailable",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    for command in ["enqueue", "work", "migrate", "verify", "adopt", "completions"] {
        let help = bed.run(&[command, "--help"]).ok().out;
        assert!(help.contains("Usage:") && help.contains("--json"), "{command}: {help}");
    }
    let work = bed.run(&["work", "--help"]).ok().out;
    for word in ["75", "65", "WINDLASS_LEASE_TOKEN", "SIGTERM"] {
        assert!(work.contains(word), "{word}: {work}");
    }
    let jobs = bed.run(&["jobs", "--help"]).ok().out;
    for word in ["ls", "show", "events", "watch", "logs", "cancel", "redrive", "fork", "signal"] {
        assert!(jobs.contains(word), "{word}: {jobs}");
    }
    assert!(bed.run(&["completions", "bash"]).ok().out.contains("_windlass"));
}

#[test]
fn the_strongest_setting_is_in_force_and_secrets_are_masked() {
    let bed = Bed::new();
    std::fs::write(
        bed.path("windlass.toml"),
        "notify_url = \"postgres://app:hunter2@db/jobs\"\nkey = \"wl_hunter2\"\n",
    )
    .unwrap();
    let config = bed.json(&["config"]);
    assert_eq!(config["store"]["source"], "environment");
    assert_eq!(config["notify_url"]["value"], "postgres://app:***@db/jobs");
    assert_eq!(config["notify_url"]["source"], "file");
    let shown = bed.run(&["config", "--store", "postgres://app:hunter2@db/other"]).ok().out;
    assert!(shown.contains("postgres://app:***@db/other") && shown.contains("flag"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    std::fs::write(bed.path("windlass.toml"), "stor = \"x\"\n").unwrap();
    let wrong = bed.run(&["config"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("windlass.toml, line 1") && wrong.err.contains("stor"), "{}", wrong.err);
}

#[test]
fn the_database_variables_name_a_store() {
    let bed = Bed::new();
    let mut command = bed.command(&["config", "--json"]);
    command.env_remove("WINDLASS_STORE").envs([
        ("DB_HOST", "db"),
        ("DB_USER", "app"),
        ("DB_PASSWORD", "s3cret"),
    ]);
    let ran = bed::ran(command.output().unwrap()).ok();
    assert_eq!(ran.json()["store"]["value"], "postgres://app:***@db:5432/");
    assert_eq!(ran.json()["store"]["source"], "DB_* variables");
}

/// Only `migrate`, `serve`, `demo` and `work` create a store by themselves; others create it when told.
#[test]
fn a_typo_creates_no_store() {
    let bed = Bed::empty();
    for words in [
        &["jobs", "ls"][..],
        &["queues", "ls"],
        &["workers", "ls"],
        &["audit", "ls"],
        &["keys", "ls"],
        &["approvals", "ls"],
        &["verify"],
        &["adopt", "--yes"],
        &["enqueue", "k"],
        &["keys", "create", "ops", "--role", "admin"],
        &["queues", "set", "mail", "--max-retries", "1"],
        &[
            "queues",
            "set",
            "mail",
            "--limit",
            "40",
            "--per-key",
            "2",
            "--weight",
            "acme=3",
            "--key-limit",
            "acme=9",
        ],
        &["queues", "pause", "mail"],
        &["jobs", "show", "0193a2f4-0000-7000-8000-000000000000"],
    ] {
        let ran = bed.run(words);
        assert_eq!(ran.code, 5, "{words:?}: {}", ran.err);
        let told = ran.err.contains("windlass migrate") && ran.err.contains("--create");
        assert!(told, "{words:?}: {}", ran.err);
    }
    assert_eq!(bed.run(&["doctor"]).code, 1);
    assert!(!bed.path("jobs.db").exists());
    bed.run(&["enqueue", "k", "--create"]).ok();
    assert!(bed.path("jobs.db").exists());
    let bed = Bed::empty();
    bed.run(&["migrate"]).ok();
    assert!(bed.path("jobs.db").exists());
    assert_eq!(bed.json(&["jobs", "ls"])["jobs"], serde_json::json!([]));
    assert!(bed.run(&["jobs", "ls"]).ok().out.contains("no job matches"));
}

#[test]
fn what_cannot_be_right_is_a_usage_error() {
    let bed = Bed::new();
    bed.run(&["migrate"]).ok();
    for words in [
        &["enqueue"][..],
        &["frobnicate"],
        &["enqueue", "a b"],
        &["enqueue", "k", "--payload", "{"],
        &["enqueue", "k", "--payload", "@no-such-file.json"],
        &["enqueue", "k", "--priority", "9"],
        &["enqueue", "k", "--delay", "soon"],
        &["enqueue", "k", "--delay", "1s", "--run-at", "2026-01-01T00:00:00Z"],
        &["enqueue", "k", "--max-retries", "101"],
        &["jobs", "show", "7"],
        &["jobs", "ls", "--status", "done"],
        &["jobs", "ls", "--limit", "0"],
        &["jobs", "cancel"],
        &["jobs", "cancel", "--filter", "colour=red"],
        &["jobs", "redrive", "0193a2f4-0000-7000-8000-000000000000", "--filter", "queue=a"],
        &["approvals", "ls", "--status", "maybe"],
        &["keys", "create", "ci", "--role", "king"],
        &["work", "--queue", "q", "--exec", "no-such-program-anywhere"],
        &["migrate", "--print", "--store", "memory:"],
        &["jobs", "ls", "--store", "mysql://root:hunter2@db/x"],
    ] {
        let ran = bed.run(words);
        assert_eq!(ran.code, 2, "{words:?}: {} {}", ran.out, ran.err);
        assert!(!ran.err.is_empty() && !ran.err.contains("hunter2"), "{words:?}: {}", ran.err);
    }
    assert_eq!(bed.json(&["jobs", "ls"])["jobs"], serde_json::json!([]), "nothing was written");
}

#[test]
fn each_kind_of_failure_has_its_exit_code() {
    let bed = Bed::new();
    let id = bed.enqueue(&["sum"]);
    let nobody = "0193a2f4-0000-7000-8000-000000000000";
    for words in [
        &["jobs", "show", nobody][..],
        &["jobs", "events", nobody],
        &["jobs", "logs", nobody],
        &["jobs", "watch", nobody],
        &["jobs", "cancel", nobody],
        &["jobs", "redrive", nobody],
        &["jobs", "fork", nobody],
        &["jobs", "signal", nobody, "go"],
        &["approvals", "approve", nobody],
        &["workers", "drain", "nobody"],
        &["keys", "revoke", "nobody"],
    ] {
        let ran = bed.run(words);
        assert_eq!(ran.code, 3, "{words:?}: {} {}", ran.out, ran.err);
    }
    let refused = bed.run(&["jobs", "redrive", &id, "--json"]);
    assert_eq!(refused.code, 4);
    let told: serde_json::Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!((&told["code"], &told["exit"]), (&"job_not_finished".into(), &4.into()));
    let away = bed.run(&["jobs", "ls", "--store", "postgres://nobody@127.0.0.1:1/none"]);
    assert_eq!(away.code, 5, "{}", away.err);
    let folder = bed.run(&["jobs", "ls", "--store", "sqlite:/proc/none/x.db"]);
    assert_eq!(folder.code, 5, "{}", folder.err);
}

/// J1: the URL picks the store, and one that names none is told so, with what to write instead.
#[test]
fn the_url_picks_the_store() {
    let bed = Bed::new();
    bed.enqueue(&["sum"]);
    assert_eq!(bed.json(&["jobs", "ls"])["jobs"].as_array().unwrap().len(), 1);
    let another = format!("sqlite:{}", bed.path("another.db").display());
    for url in ["memory:", &another] {
        bed.run(&["migrate", "--store", url]).ok();
        assert_eq!(bed.json(&["jobs", "ls", "--store", url])["jobs"], serde_json::json!([]), "{url}");
    }
    for (url, code, said) in [
        ("nonsense", 2, "no scheme; use sqlite:PATH"),
        ("mysql://db/x", 2, "\"mysql:\", which no store knows; use sqlite:PATH"),
        ("sqlite:", 2, "names no file; use sqlite:PATH"),
        ("postgres://", 5, "malformed: it names no host; write postgres://"),
    ] {
        let ran = bed.run(&["jobs", "ls", "--store", url]);
        assert_eq!(ran.code, code, "{url}: {}", ran.err);
        assert!(ran.err.contains(said), "{url}: {}", ran.err);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let bed = Bed::new();
    for _ in 0..3 {
        bed.enqueue(&["sum"]);
    }
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let script = format!("{windlass} migrate --print | head -n 1; echo ${{PIPESTATUS[0]}}");
    let mut shell = std::process::Command::new("bash");
    let ran = bed::ran(shell.args(["-c", &script]).env("WINDLASS_STORE", bed.url()).output().unwrap());
    assert!(ran.out.ends_with("\n0\n") && ran.err.is_empty(), "{} {}", ran.out, ran.err);
}

#[test]
fn every_command_shows_an_example() {
    let bed = Bed::new();
    let commands = |help: &str| -> Vec<String> {
        let listed =
            help.split("Commands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap_or_default();
        listed.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    };
    let all = commands(&bed.run(&["--help"]).ok().out);
    assert!(all.len() >= 16, "{all:?}");
    for command in all.into_iter().filter(|command| command != "help") {
        let help = bed.run(&[&command, "--help"]).ok().out;
        let below = commands(&help);
        if below.is_empty() {
            assert!(
                help.contains(&format!("windlass {command}")) && help.contains("\n  windlass "),
                "{command}: {help}"
            );
        }
        for verb in below {
            let help = bed.run(&[&command, &verb, "--help"]).ok().out;
            assert!(help.contains(&format!("  windlass {command} {verb}")), "{command} {verb}: {help}");
        }
    }
}

#[test]
fn logs_are_text_or_json() {
    let mut bed = Bed::new();
    let worker = bed.work(&["--log-format", "json", "--exec", "true"]);
    let id = bed.enqueue(&["k"]);
    bed.until_status(&id, "completed");
    bed.signal(worker, "TERM");
    assert_eq!(bed.ended(worker), 0);
    let log = std::fs::read_to_string(bed.path("log-0")).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["level"] == "INFO" && line["message"].is_string()), "{log}");
    assert_eq!(bed.run(&["serve", "--log-format", "xml"]).code, 2);
}

/// What a store holds is its owner's alone to read.
#[test]
fn a_new_store_is_its_owners() {
    use std::os::unix::fs::PermissionsExt;
    let bed = Bed::new();
    let url = format!("sqlite:{}", bed.path("new/deep/jobs.db").display());
    bed.run(&["--store", &url, "enqueue", "secret", "--payload", "1", "--create"]).ok();
    let mode = |name: &str| std::fs::metadata(bed.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("new"), mode("new/deep"), mode("new/deep/jobs.db")), (0o700, 0o700, 0o600));
    for entry in std::fs::read_dir(bed.path("new/deep")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
}

/// Nobody is at that address, and the error says so.
#[test]
fn a_refused_connection_is_told_as_such() {
    let bed = Bed::new();
    let mut command = bed.command(&["--url", "http://127.0.0.1:1", "jobs", "ls"]);
    let ran = bed::ran(command.env_remove("WINDLASS_STORE").output().unwrap());
    assert_eq!(ran.code, 5);
    assert!(ran.err.to_lowercase().contains("connection refused"), "{}", ran.err);
}

/// Characters that turn the direction of writing, or command a terminal, do not reach it.
/// Values stand as they were typed: in their unit, without quotes that escape them, and with what was meant.
#[test]
fn an_error_shows_what_was_given() {
    let bed = Bed::new();
    for (words, told) in [
        (&["enqueue", "k", "--timeout", "4000d"][..], "timeout is 4000d: must be between 0s and 30d"),
        (
            &["work", "--queue", "q", "--lease", "500ms", "--exec", "true"],
            "lease is 500ms: must be between 1 s and 24 h",
        ),
        (&["queues", "set", "q", "--grace", "400d"], "grace is 400d: must be between 0s and 1d"),
        (&["jobs", "ls", "--queue", r#"a"b\c"#], r#"queue is "a"b\c": must be"#),
        (&["jobs", "cancel", "--filter", r#"col"our=x"#], r#"there is no filter col"our; the names are"#),
        (&["jobs", "cancel", "--filter", r#"a"b"#], r#"--filter a"b must be name=value"#),
        (&["enqueue", "k", "--backoff", r#"x"y"#], r#"--backoff has x"y; it takes"#),
        (&["settings", "set", r#"a"b"#], r#"a"b is not NAME=VALUE"#),
        (&["--log-format", r#"x"y"#, "jobs", "ls"], r#"the log format is x"y: must be"#),
        (&["explain", r#"a"b"#], r#"there is no code a"b;"#),
    ] {
        let ran = bed.run(words);
        assert!([2, 3].contains(&ran.code) && ran.err.contains(told), "{words:?}: {}", ran.err);
    }
}

/// What a terminal would obey, what turns the direction of writing, and what nobody sees.
const EVIL: &str = "a\u{202e}b\u{1b}[2Jc\u{9b}d\u{200b}\u{e0041}e";

fn is_harmless(text: &str) -> bool {
    !text.chars().any(|c| (c.is_control() && c != '\n') || EVIL.contains(c) && !c.is_ascii())
}

/// Fills a store with it, through a server, wherever it takes free text, and answers two jobs.
fn plant(bed: &mut Bed) -> [String; 2] {
    let (url, _) = bed.serve("serve");
    let send = |method: &str, path: &str, body: &Value| -> Value {
        let answer = sent(&url, method, path, body).ok().json();
        assert!(answer["status"].as_u64().is_none(), "{method} {path}: {answer}");
        answer
    };
    let post = |path: &str, body: Value| send("POST", path, &body);
    let taken = |more: Value| {
        let mut body = json!({ "kind": "evil", "max_retries": 0, "payload": { "name": EVIL }, "metadata": { "note": EVIL } });
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        let id = post("/v1/jobs", body)["job"]["id"].as_str().unwrap().to_owned();
        let held = post(&format!("/v1/jobs/{id}/claim"), json!({ "worker_id": "w" }));
        (id, held["job"]["lease"]["token"].clone())
    };
    let (failed, token) = taken(json!({ "key": EVIL, "unique": { "key": EVIL } }));
    let act = |verb: &str, mut body: Value| {
        body["lease_token"] = token.clone();
        post(&format!("/v1/jobs/{failed}/{verb}"), body)
    };
    act("logs", json!({ "lines": [EVIL] }));
    act("progress", json!({ "stage": EVIL, "checkpoint": { "at": EVIL }, "metadata": { "lot": EVIL } }));
    let asked = act("approvals", json!({ "name": "ask", "prompt": EVIL }));
    let decide = format!("/v1/approvals/{}/decide", asked["approval"]["id"].as_str().unwrap());
    post(&decide, json!({ "decision": "deny", "reason": EVIL }));
    post(&format!("/v1/jobs/{failed}/signal"), json!({ "name": "s", "payload": EVIL, "key": EVIL }));
    let message = format!("{EVIL}\nof two lines {EVIL}");
    act("fail", json!({ "error": { "code": "broken", "message": message } }));
    let (done, token) = taken(json!({}));
    post(&format!("/v1/jobs/{done}/complete"), json!({ "lease_token": token, "result": { "said": EVIL } }));
    let cancelled = bed.enqueue(&["evil"]);
    post(&format!("/v1/jobs/{cancelled}/cancel"), json!({ "reason": EVIL }));
    post("/v1/jobs", json!({ "kind": "evil", "delay": "1h", "key": EVIL }));

    let job = json!({ "kind": "evil", "payload": { "name": EVIL }, "metadata": { "note": EVIL } });
    send("PUT", "/v1/schedules/evil", &json!({ "every": "1d", "job": job }));
    send("PUT", "/v1/triggers/evil", &json!({ "jobs": [job] }));
    post("/v1/triggers/evil", json!({ "dedupe_key": EVIL, "payload": { "name": EVIL } }));
    let lanes = json!({ "concurrency": 2, "keys": { EVIL: { "concurrency": 1 } } });
    send("PUT", "/v1/queues/default", &json!({ "flow": { "lanes": lanes } }));
    wait_for(|| bed.json(&["problems", "ls"])["problems"] != json!([]));
    [failed, done]
}

#[test]
fn no_text_of_others_commands_the_terminal() {
    let mut bed = Bed::new();
    let [failed, done] = plant(&mut bed);
    let problem = bed.json(&["problems", "ls"])["problems"][0]["fingerprint"].as_str().unwrap().to_owned();
    let reading = [
        &["jobs", "ls"][..],
        &["jobs", "show", &failed],
        &["jobs", "show", &done],
        &["jobs", "events", &failed],
        &["jobs", "watch", &done],
        &["jobs", "logs", &failed],
        &["flow", "graph", &failed],
        &["flow", "graph", &failed, "--dot"],
        &["approvals", "ls"],
        &["queues", "ls"],
        &["lanes", "ls", "default"],
        &["schedules", "ls"],
        &["schedules", "show", "evil"],
        &["triggers", "ls"],
        &["triggers", "show", "evil"],
        &["triggers", "events", "evil"],
        &["problems", "ls"],
        &["problems", "show", &problem],
        &["audit", "ls"],
        &["workers", "ls"],
        &["settings", "get"],
        &["stats"],
        &["verify"],
        &[
            "enqueue",
            "evil",
            "--id",
            &done,
            "--payload",
            &json!({ "name": EVIL }).to_string(),
            "--metadata",
            &json!({ "note": EVIL }).to_string(),
            "--max-retries",
            "0",
            "--wait",
        ],
    ];
    let template =
        "template={id} {payload.name} {metadata.note} {stage} {error.message} {detail} {line} {prompt} {key}";
    for words in reading {
        for form in ["table", "wide", "json", "yaml", template] {
            let ran = bed.run(&[words, &["-o", form]].concat()).ok();
            assert!(
                is_harmless(&ran.out) && is_harmless(&ran.err),
                "{words:?} {form}: {:?} {}",
                ran.out,
                ran.err
            );
        }
    }
    for words in [&["jobs", "show", EVIL][..], &["jobs", "ls", "--queue", EVIL], &["schedules", "show", EVIL]]
    {
        for form in ["table", "json"] {
            let ran = bed.run(&[words, &["-o", form]].concat());
            assert!(ran.code == 2 && is_harmless(&ran.err), "{words:?} {form}: {:?}", ran.err);
        }
    }
    // What is not shown is written out, and is the same value.
    assert_eq!(bed.job(&failed)["payload"]["name"], EVIL);
    assert_eq!(bed.json(&["schedules", "show", "evil"])["job"]["payload"]["name"], EVIL);
    let yaml = bed.run(&["jobs", "show", &failed, "-o", "yaml"]).ok().out;
    assert!(yaml.contains(r#"name: "a\u202eb\u001b[2Jc\u009bd\u200b\U000e0041e""#), "{yaml}");
}

/// So it is with the log of a worker, whose handlers fail with texts of others.
#[test]
fn no_text_of_others_commands_the_terminal_through_a_log() {
    let mut bed = Bed::new();
    let fails = bed.script("fails", &format!("#!/bin/sh\nprintf '%s\\n' '{EVIL}' >&2\nexit 1\n"));
    for form in ["text", "json"] {
        let id = bed.enqueue(&["k", "--max-retries", "0"]);
        let worker = bed.work(&["--log-format", form, "--exec", &fails]);
        bed.until_status(&id, "failed");
        bed.signal(worker, "TERM");
        assert_eq!(bed.ended(worker), 0);
        let log = std::fs::read_to_string(bed.path(&format!("log-{worker}"))).unwrap();
        assert!(log.contains("job not done") && is_harmless(&log), "{form}: {log:?}");
    }
}

/// A body that is sent is a shape of the contract, which the server reads; what a file says is passed on as it stands, and so are
/// settings that were read.
#[test]
fn no_body_is_written_by_hand() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![source.join("api_client.rs")];
    files.extend(std::fs::read_dir(source.join("api_client")).unwrap().map(|entry| entry.unwrap().path()));
    assert!(files.len() > 1);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("json!"), "{} writes JSON by hand", file.display());
        for signature in text.split("pub async fn ").skip(1).filter_map(|rest| rest.split('{').next()) {
            let is_passed_on = ["make_flow", "put_settings"].iter().any(|name| signature.starts_with(name));
            assert!(is_passed_on || !signature.contains("Value"), "{}: {signature}", file.display());
        }
    }
}
