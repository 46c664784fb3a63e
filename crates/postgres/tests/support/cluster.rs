//! Servers of the tests' own: started, killed and started again.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What a server of ours runs as.
const USER: &str = "windlass";

/// A private server on a unix socket in a folder of its own, and on a port of the loopback where that was asked for.
pub struct Cluster {
    folder: PathBuf,
    bin: PathBuf,
    port: Option<u16>,
    keeper: Child,
}

impl Cluster {
    /// Starts one with these settings beside PostgreSQL's defaults: `name=value` each.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_in(folder(), None, settings)
    }

    /// Starts one that also listens on a port of the loopback.
    pub fn start_on_port(settings: &[&str]) -> Self {
        Self::start_on_port_in(folder(), settings)
    }

    /// The same, in a folder that holds what the settings name.
    pub fn start_on_port_in(folder: PathBuf, settings: &[&str]) -> Self {
        Self::start_in(folder, Some(free_port()), settings)
    }

    /// Starts a standby of this server, which follows it by streaming replication under this name.
    pub fn standby(&self, name: &str) -> Self {
        let folder = folder();
        let from = format!("host={} user={USER} application_name={name}", self.folder.display());
        let copy = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"];
        make(&folder, "pg_basebackup", &[&copy[..], &["-d", &from, "-D"]].concat());
        Self::run(folder, None, &[])
    }

    fn start_in(folder: PathBuf, port: Option<u16>, settings: &[&str]) -> Self {
        let initdb = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        make(&folder, "initdb", &initdb);
        Self::run(folder, port, settings)
    }

    /// Runs the server whose data is in the folder.
    fn run(folder: PathBuf, port: Option<u16>, settings: &[&str]) -> Self {
        let (bin, user) = (binaries(), owner(&folder));
        let listen = format!("unix_socket_directories={}", folder.display());
        let address = format!("listen_addresses={}", if port.is_some() { "127.0.0.1" } else { "" });
        let on_port = format!("port={}", port.unwrap_or(5432));
        let basics = [&address, &on_port, "max_connections=400", &listen];
        let settings: Vec<&str> = basics.iter().chain(settings).flat_map(|s| ["-c", s]).collect();
        // The shell reads until this process is gone, then ends the server and tidies up.
        let script = r#"
            run() { "$@" >>"$0/log" 2>&1 & server=$!; }
            run "$@"
            while read -r word pids; do
                case $word in
                    stop) kill -STOP "$server" ;;
                    kill) kill -KILL $pids; wait "$server" ;;
                    start) run "$@" ;;
                    *) break ;;
                esac
            done
            kill -INT "$server"; wait "$server"; rm -rf "$0""#;
        let mut keeper = as_user(Path::new("/bin/sh"), user);
        keeper
            .arg("-c")
            .arg(script)
            .arg(&folder)
            .arg(bin.join("postgres"))
            .arg("-D")
            .arg(folder.join("data"));
        let keeper = keeper.args(settings).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: what interrupts the tests must not end the tidying.
        let keeper = keeper.process_group(0).spawn().expect("a server");
        let cluster = Self { folder, bin, port, keeper };
        cluster.wait_until_ready();
        cluster
    }

    fn wait_until_ready(&self) {
        for _ in 0..600 {
            let mut ready = Command::new(self.bin.join("pg_isready"));
            ready.arg("-q").arg("-h").arg(&self.folder).args(["-p", &self.port.unwrap_or(5432).to_string()]);
            let ready = ready.status();
            if ready.expect("pg_isready runs").success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        panic!("PostgreSQL did not start within 30 s: {log}");
    }

    /// Where it is: the database `postgres`.
    pub fn url(&self) -> String {
        let host = self.folder.display().to_string().replace('/', "%2F");
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("postgres://{USER}@{host}{port}/postgres")
    }

    /// The folder of its own.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).expect("a log")
    }

    /// Its port on the loopback.
    pub fn port(&self) -> u16 {
        self.port.expect("it was started on a port")
    }

    /// Kills all its processes at once, as a power cut would.
    pub fn kill(&mut self) {
        let pid = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("a running server");
        let pid = pid.lines().next().expect("a process").to_owned();
        // Stopped first, so that it has no more children.
        self.say("stop");
        while stat(&pid).is_none_or(|(state, _)| state != "T") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let family = [vec![pid.clone()], children(&pid)].concat();
        self.say(&format!("kill {}", family.join(" ")));
        // Each holds a part of the server's memory until it is gone.
        while family.iter().any(|pid| stat(pid).is_some_and(|(state, _)| state != "Z")) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts it again where it was killed, and waits until it answers.
    pub fn restart(&mut self) {
        self.say("start");
        self.wait_until_ready();
    }

    fn say(&mut self, word: &str) {
        let keeper = self.keeper.stdin.as_mut().expect("a keeper that listens");
        writeln!(keeper, "{word}").expect("the keeper listens");
    }
}

/// A port that was free a moment ago, and that nobody gets by chance.
fn free_port() -> u16 {
    // Below the range from which the system gives ports to connections and to whoever asks for any.
    (0..1_000)
        .map(|_| 10_000 + u16::from_be_bytes(windlass_store::fresh::random()) % 20_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// A folder for one server.
pub fn folder() -> PathBuf {
    tempfile::Builder::new().prefix("windlass-pg-").tempdir().expect("a folder").keep()
}

/// The processes that a process started.
fn children(parent: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|pid| stat(pid).is_some_and(|(_, of)| of == parent)).collect()
}

/// The state of a process and its parent.
fn stat(pid: &str) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned);
    Some((fields.next()?, fields.next()?))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut end) = self.keeper.stdin.take() {
            let _ = end.write_all(b"\n");
        }
        let _ = self.keeper.wait();
    }
}

/// Makes the data of a server in a folder, by a program that takes its path last.
fn make(folder: &Path, program: &str, args: &[&str]) {
    let user = ordinary_user(folder);
    if let Some((uid, gid)) = user {
        let there = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
        for path in there.chain([folder.to_owned()]) {
            chown(path, Some(uid), Some(gid)).expect("the folder changes hands");
        }
    }
    let made = as_user(&binaries().join(program), user).args(args).arg(folder.join("data")).output();
    let made = made.expect("it runs");
    assert!(made.status.success(), "{program}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Whose a folder is, where this process is root and it is not.
fn owner(folder: &Path) -> Option<(u32, u32)> {
    let found = std::fs::metadata(folder).expect("a folder");
    let own = std::fs::metadata("/proc/self").expect("this process").uid();
    (found.uid() != own).then(|| (found.uid(), found.gid()))
}

/// A command, as another user where root is asked, which PostgreSQL refuses to be.
fn as_user(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    // The caller's folder may be closed to that user.
    command.current_dir("/").env_remove("PGHOST").env_remove("PGPORT").env_remove("PGUSER");
    command
}

/// Who a server runs as when this process, the owner of `folder`, is root.
fn ordinary_user(folder: &Path) -> Option<(u32, u32)> {
    if std::fs::metadata(folder).expect("a folder").uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("a list of users");
    let of = |name: &str| {
        let mut fields =
            users.lines().map(|l| l.split(':')).find(|l| l.clone().next() == Some(name))?.skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = of("postgres").or_else(|| of("nobody"));
    Some(found.expect("a user postgres or nobody: PostgreSQL does not run as root"))
}

/// Where PostgreSQL's programs are.
pub fn binaries() -> PathBuf {
    if let Some(bin) = std::env::var_os("WINDLASS_TEST_PG_BIN") {
        return bin.into();
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions =
        debian.filter_map(|v| Some((v.file_name().to_str()?.parse::<u32>().ok()?, v.path().join("bin"))));
    let found = versions.filter(|(_, bin)| bin.join("initdb").exists()).max().map(|(_, bin)| bin);
    let configured = || {
        let told = Command::new("pg_config").arg("--bindir").output().ok()?;
        let bin = PathBuf::from(String::from_utf8(told.stdout).ok()?.trim());
        bin.join("initdb").exists().then_some(bin)
    };
    found.or_else(configured).expect(
        "PostgreSQL's programs: run `scripts/test`, which installs them as root; or install them (Debian: apt-get \
         install postgresql); or name their folder with WINDLASS_TEST_PG_BIN, or a server with TEST_PG_URL",
    )
}
