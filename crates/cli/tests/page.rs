//! The page in a real browser, on the real binary. The plays are in `browser/`; `scripts/test` installs what they need.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, free_port, program, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A server that can be killed and started again at the same address.
struct Serving {
    bed: Bed,
    address: String,
    number: usize,
}

impl Serving {
    fn start(command: &str) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let mut serving = Self { bed: Bed::new(), address, number: 0 };
        serving.again(command);
        serving
    }

    fn again(&mut self, command: &str) {
        self.number = self.bed.start(&[command, "--listen", &self.address]);
        wait_for(|| std::net::TcpStream::connect(&self.address).is_ok());
    }

    /// What a play asks for, and the answer to it.
    fn answer(&mut self, asked: &str) -> String {
        match asked {
            "kill" => {
                self.bed.signal(self.number, "KILL");
                self.bed.ended(self.number);
                String::new()
            }
            "start" => {
                self.again("serve");
                String::new()
            }
            "enqueue" => (0..3).map(|_| self.bed.enqueue(&["meanwhile"])).collect::<Vec<_>>().join(" "),
            other => panic!("a play asks for {other:?}, which nobody can do"),
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

/// Plays a script against a server, doing what it asks for.
fn play(serving: &mut Serving, script: &str, surroundings: &[(&str, &str)]) {
    let driver = folder().join("node_modules/playwright-core");
    assert!(
        driver.exists(),
        "{} is missing; run `npm install --no-save` in {}",
        driver.display(),
        folder().display()
    );
    let mut command = Command::new("node");
    command.env("PAGE_URL", format!("http://{}", serving.address));
    command.arg(folder().join(script)).envs(surroundings.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = child.stdin.take().unwrap();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        match line.strip_prefix("ask ") {
            Some(asked) => writeln!(answers, "{}", serving.answer(asked)).unwrap(),
            None => println!("{line}"),
        }
    }
    assert!(child.wait().unwrap().success(), "{script}: see its output above");
}

/// What is shipped is what the sources say, and the types are what the API's document says; the pure parts pass their own
/// tests. With `BLESS=1` types and page are built anew.
#[test]
fn the_built_page_is_what_its_sources_say() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/page");
    let tools = page.join("node_modules/vite");
    assert!(
        tools.exists(),
        "{} is missing; run `npm install --no-save` in {}",
        tools.display(),
        page.display()
    );
    let mut command = Command::new("node");
    command.arg(page.join("check.mjs")).stdin(Stdio::piped());
    if std::env::var_os("BLESS").is_some() {
        command.arg("--write");
    }
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(windlass_http::document().to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "see its output above; BLESS=1 builds types and page anew");
}

#[test]
fn the_list_is_live_filtered_and_paged() {
    play(&mut Serving::start("serve"), "watch.mjs", &[]);
}

#[test]
fn a_job_is_shown_and_acted_on() {
    play(&mut Serving::start("serve"), "acts.mjs", &[]);
}

#[test]
fn text_stays_text_and_fits_narrow_screens() {
    play(&mut Serving::start("serve"), "hostile.mjs", &[]);
}

#[test]
fn kinds_tail_and_compare_tell_why() {
    play(&mut Serving::start("serve"), "diagnose.mjs", &[]);
}

#[test]
fn everybody_can_read_every_view_at_every_width() {
    play(&mut Serving::start("serve"), "views.mjs", &[]);
}

#[test]
fn every_act_has_keys_and_many_jobs_take_one() {
    play(&mut Serving::start("serve"), "keys.mjs", &[]);
}

#[test]
fn limits_are_edited_and_what_they_stop_is_let_go() {
    play(&mut Serving::start("serve"), "limits.mjs", &[]);
}

#[test]
fn schedules_are_made_and_changed() {
    play(&mut Serving::start("serve"), "schedules.mjs", &[]);
}

#[test]
fn an_alert_fires_on_the_overview_and_resolves() {
    play(&mut Serving::start("serve"), "alerts.mjs", &[]);
}

#[test]
fn a_key_signs_in() {
    let mut serving = Serving::start("serve");
    let job = serving.bed.enqueue(&["guarded", "--delay", "1h"]);
    serving.bed.run(&["schedules", "put", "nightly", "--cron", "0 2 * * *", "--kind", "report.build"]).ok();
    let make = |name: &str, role: &str| {
        let made = serving.bed.json(&["keys", "create", name, "--role", role]);
        made["secret"].as_str().unwrap().to_owned()
    };
    let (admin, viewer) = (make("root", "admin"), make("looker", "viewer"));
    play(&mut serving, "sign.mjs", &[("PAGE_ADMIN", &admin), ("PAGE_VIEWER", &viewer), ("PAGE_JOB", &job)]);
}

#[test]
fn a_link_asks_one_question_on_a_phone() {
    play(&mut Serving::start("serve"), "approve.mjs", &[]);
}

#[test]
fn a_killed_server_is_waited_for_and_nothing_is_missed() {
    play(&mut Serving::start("serve"), "restart.mjs", &[]);
}

/// Under a path of a proxy everything is asked for below that path, the approval link too.
#[test]
fn it_works_under_a_path_of_nginx() {
    let mut serving = Serving::start("serve");
    let (folder, port) = (serving.bed.path(""), free_port());
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {}/{kind};\n", folder.display()))
        .collect();
    let site = format!(
        "daemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{ worker_connections 64; }}\n\
         http {{\naccess_log off;\n{temporary}server {{\nlisten 127.0.0.1:{port};\nlocation /x/y/ {{\n\
         proxy_pass http://{server}/;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n\
         proxy_set_header Host $http_host;\nproxy_buffering off;\n}}\n}}\n}}\n",
        folder = folder.display(),
        server = serving.address,
    );
    std::fs::write(serving.bed.path("nginx.conf"), site).unwrap();
    let mut proxy = program("nginx", "nginx");
    proxy.args(["-e", "stderr", "-c"]).arg(serving.bed.path("nginx.conf")).stdin(Stdio::null());
    serving.bed.spawn(proxy);
    wait_for(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let under = format!("http://127.0.0.1:{port}/x/y");
    play(&mut serving, "path.mjs", &[("PAGE_URL", &under)]);
}

/// With `BLESS=1` the picture becomes the one in the README, and others those of the documents.
#[test]
fn the_demo_is_worth_a_look() {
    let mut serving = Serving::start("demo");
    let picture = if std::env::var_os("BLESS").is_some() {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshot.png")
    } else {
        serving.bed.path("screenshot.png")
    };
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/pictures");
    let surroundings =
        [("PAGE_PICTURE", picture.to_str().unwrap()), ("PAGE_PICTURES", pictures.to_str().unwrap())];
    play(&mut serving, "demo.mjs", &surroundings);
}
