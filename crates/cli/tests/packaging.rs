//! What is shipped beside the binary: units, alert rules, the proxy's configuration, the Debian package. Each is given to the
//! program it is for.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;

use bed::{Bed, Ran, free_port, program, ran, wait_for};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WINDLASS: &str = env!("CARGO_BIN_EXE_windlass");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn shipped(name: &str) -> String {
    std::fs::read_to_string(repository().join("packaging").join(name)).unwrap()
}

#[test]
fn the_units_are_what_systemd_takes() {
    let bed = Bed::new();
    // The binary of the tests stands in for the installed one, which systemd looks for.
    for (unit, name) in
        [("windlass.service", "windlass.service"), ("windlass-work@.service", "windlass-work@mail.service")]
    {
        let text =
            shipped(unit).replace("/usr/bin/windlass", WINDLASS).replace("/etc/windlass/work/%i", WINDLASS);
        std::fs::write(bed.path(name), text).unwrap();
        let mut analyze = Command::new("systemd-analyze");
        let said = ran(analyze.args(["verify", "--man=no"]).arg(bed.path(name)).output().unwrap());
        let ours: Vec<&str> = said.err.lines().filter(|line| line.contains("windlass")).collect();
        assert!(said.code == 0 && ours.is_empty(), "{unit}: {}", said.err);
    }
    std::fs::write(bed.path("wrong.service"), "[Service]\nExecStart=nothing\nFoo=bar\n").unwrap();
    let mut analyze = Command::new("systemd-analyze");
    let said = ran(analyze.args(["verify", "--man=no"]).arg(bed.path("wrong.service")).output().unwrap());
    assert!(said.err.contains("wrong.service"), "what is wrong would be told: {}", said.err);
}

#[test]
fn the_alerts_are_what_prometheus_takes_and_name_what_is_measured() {
    let rules = repository().join("packaging/alerts.yml");
    let said = ran(program("prometheus", "promtool").args(["check", "rules"]).arg(rules).output().unwrap());
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let mut bed = Bed::new();
    let (url, _) = bed.serve("serve");
    // Something to read, to deliver and to remove, for what is measured while that is done.
    let subscription = r#"{"url":"http://127.0.0.1:1","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#;
    let put = ["-X", "PUT", "--json", subscription, &format!("{url}/v1/subscriptions/ops")];
    assert!(curl(&put).ok().out.contains("ops"));
    bed.enqueue(&["k"]);
    let text = shipped("alerts.yml");
    let names =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| w.starts_with("windlass_"));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 10, "{names:?} are watched");
    wait_for(|| {
        let metrics = curl(&[&format!("{url}/metrics")]).ok().out;
        let unknown = names.iter().filter(|name| !metrics.contains(&format!("# TYPE {name} ")));
        let unknown: Vec<_> = unknown.collect();
        println!("not measured yet: {unknown:?}");
        unknown.is_empty()
    });
}

fn curl(words: &[&str]) -> Ran {
    ran(Command::new("curl").args(["-sS", "--max-time", "60"]).args(words).output().unwrap())
}

/// The shipped configuration with what belongs to a machine replaced: ports, and no certificate.
fn nginx(bed: &Bed, server: &str, port: u16) -> String {
    let site = shipped("nginx.conf").replace("127.0.0.1:7070", server);
    let site = site.replace("listen 443 ssl;", &format!("listen 127.0.0.1:{port};"));
    let is_machines = |line: &&str| !line.trim_start().starts_with("ssl_");
    let site: Vec<&str> = site.lines().filter(is_machines).collect();
    let folder = bed.path("");
    let folder = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {folder}/{kind};\n"))
        .collect();
    format!(
        "daemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{ worker_connections 64; }}\n\
         http {{\naccess_log off;\n{temporary}{}\n}}\n",
        site.join("\n")
    )
}

#[test]
fn the_server_works_behind_nginx() {
    let mut bed = Bed::new();
    let key = bed.json(&["keys", "create", "ops", "--role", "admin"])["secret"].as_str().unwrap().to_owned();
    let (url, _) = bed.serve("serve");
    let port = free_port();
    std::fs::write(bed.path("nginx.conf"), nginx(&bed, url.strip_prefix("http://").unwrap(), port)).unwrap();
    let mut proxy = program("nginx", "nginx");
    proxy
        .args(["-e", "stderr", "-c"])
        .arg(bed.path("nginx.conf"))
        .stderr(Stdio::inherit())
        .stdin(Stdio::null());
    bed.spawn(proxy);
    // The package may have to come first.
    wait_for(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let through = format!("http://127.0.0.1:{port}");
    assert!(curl(&[&format!("{through}/v1/jobs")]).ok().out.contains("unauthorized"));

    // Events come as they happen: the stream is open while the job runs.
    let bearer = format!("authorization: Bearer {key}");
    let mut stream = Command::new("curl");
    stream.args(["-sSN", "--max-time", "120", "-H", &bearer, &format!("{through}/v1/feed")]);
    let stream = bed.spawn(stream);
    bed.work_through(&through, &["--key", &key, "--exec", "sh", "-c", "cat >&2; echo '{\"ok\":true}'"]);
    let words = ["enqueue", "k", "--payload", "1", "--wait", "--url", &through, "--key", &key, "--json"];
    wait_for(|| {
        let done = ran(bed.command(&words).env_remove("WINDLASS_STORE").output().unwrap()).ok();
        assert_eq!(done.json()["result"]["ok"], true);
        bed.printed(stream).contains("job_completed")
    });
    // Larger than nginx takes by itself, and allowed here.
    std::fs::write(bed.path("large.json"), format!("\"{}\"", "x".repeat(1_000_000))).unwrap();
    let words = ["enqueue", "k", "--payload", "@large.json", "--wait", "--url", &through, "--key", &key];
    ran(bed.command(&words).env_remove("WINDLASS_STORE").output().unwrap()).ok();
}

/// What `cargo deb` would put into the package, put there by hand: the files must be there and the scripts run.
#[test]
fn the_debian_package_can_be_built() {
    let bed = Bed::new();
    let manifest: toml::Table = include_str!("../Cargo.toml").parse().unwrap();
    let deb = manifest["package"]["metadata"]["deb"].as_table().unwrap();
    let stage = bed.path("stage");
    for asset in deb["assets"].as_array().unwrap() {
        let word = |n: usize| asset[n].as_str().unwrap();
        if word(0) == "../../target/man/*.1" {
            let pages = stage.join(word(1));
            bed.run(&["man", pages.to_str().unwrap()]).ok();
            continue;
        }
        let source = if word(0).starts_with("target/") {
            PathBuf::from(WINDLASS)
        } else {
            Path::new(env!("CARGO_MANIFEST_DIR")).join(word(0))
        };
        let folder = stage.join(word(1));
        std::fs::create_dir_all(&folder).unwrap();
        let target = folder.join(Path::new(word(0)).file_name().unwrap());
        // A link is packed like the file, and a debug build is large.
        std::os::unix::fs::symlink(source.canonicalize().unwrap(), &target).unwrap();
    }
    std::fs::create_dir(stage.join("DEBIAN")).unwrap();
    let (name, maintainer) = (deb["name"].as_str().unwrap(), deb["maintainer"].as_str().unwrap());
    let (section, about) = (deb["section"].as_str().unwrap(), deb["extended-description"].as_str().unwrap());
    let control = format!(
        "Package: {name}\nVersion: {}\nArchitecture: all\nMaintainer: {maintainer} <nobody@example.org>\n\
         Section: {section}\nDepends: passwd\nDescription: durable background jobs\n {about}\n",
        env!("CARGO_PKG_VERSION")
    );
    std::fs::write(stage.join("DEBIAN/control"), control).unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join(deb["maintainer-scripts"].as_str().unwrap());
    let postinst = std::fs::read_to_string(scripts.join("postinst")).unwrap().replace("#DEBHELPER#", "");
    bed.script("stage/DEBIAN/postinst", &postinst);
    let mut shell = Command::new("sh");
    assert_eq!(ran(shell.arg("-n").arg(stage.join("DEBIAN/postinst")).output().unwrap()).ok().err, "");
    let package = bed.path("windlass.deb");
    let mut build = Command::new("dpkg-deb");
    ran(build.args(["--root-owner-group", "-Znone", "--build"]).arg(&stage).arg(&package).output().unwrap())
        .ok();
    let contents = ran(Command::new("dpkg-deb").arg("--contents").arg(&package).output().unwrap()).ok().out;
    for file in [
        "./usr/bin/windlass",
        "windlass.service",
        "windlass-work@.service",
        "alerts.yml",
        "nginx.conf",
        "windlass-jobs-ls.1",
    ] {
        assert!(contents.contains(file), "{file}: {contents}");
    }
}

/// The program runs without its debug symbols, and they are in a package of their own, under the same build id.
#[test]
fn debug_symbols_have_a_package_of_their_own() {
    let bed = Bed::new();
    let mut split = Command::new(repository().join("packaging/symbols"));
    let (programs, packages) = (bed.path("target/release"), bed.path("target/debian"));
    ran(split.arg(WINDLASS).args([&programs, &packages]).output().unwrap()).ok();
    let stripped = programs.join("windlass");
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&stripped) < size(Path::new(WINDLASS)), "it is smaller");
    ran(Command::new(&stripped).arg("--version").output().unwrap()).ok();
    let id = |path: &Path| {
        let notes = ran(Command::new("readelf").arg("-n").arg(path).output().unwrap()).ok().out;
        notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap().to_owned()
    };
    let id = (id(&stripped), id(Path::new(WINDLASS)));
    assert_eq!(id.0, id.1);
    let package = std::fs::read_dir(&packages).unwrap().next().unwrap().unwrap().path();
    let contents = ran(Command::new("dpkg-deb").arg("--contents").arg(&package).output().unwrap()).ok().out;
    assert!(contents.contains(&format!("/.build-id/{}/{}.debug", &id.0[..2], &id.0[2..])), "{contents}");
    assert!(bed.path("target/man/windlass.1").exists(), "the manual is written beside them");
}
