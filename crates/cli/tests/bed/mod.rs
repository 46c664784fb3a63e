//! A folder, a store in it, and the real binary.
#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything awaited may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a store of its own. What was started in it ends with it.
pub struct Bed {
    folder: TempDir,
    started: Vec<Child>,
}

/// How a command ended.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// What it printed, as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {} {}", self.out, self.err))
    }

    /// Fails the test unless it ended well.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{} {}", self.out, self.err);
        self
    }
}

/// What the log calls a command of this user.
pub fn cli_user() -> String {
    let name = Command::new("id").arg("-un").output().unwrap().stdout;
    format!("cli:{}", String::from_utf8(name).unwrap().trim())
}

impl Bed {
    /// With a store in which nothing is yet.
    pub fn new() -> Self {
        let bed = Self::empty();
        bed.run(&["migrate"]).ok();
        bed
    }

    /// With nothing in its folder.
    pub fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), started: Vec::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.path("jobs.db").display())
    }

    /// The binary in the folder, with an environment of its own.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(words).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("USER", "ada");
        command.env("WINDLASS_STORE", self.url()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, words: &[&str]) -> Ran {
        ran(self.command(words).output().unwrap())
    }

    /// Runs a command that must end well, and reads its JSON.
    pub fn json(&self, words: &[&str]) -> Value {
        self.run(&[words, &["--json"]].concat()).ok().json()
    }

    /// A job's id, freshly enqueued.
    pub fn enqueue(&self, words: &[&str]) -> String {
        let id = &self.json(&[&["enqueue"], words].concat())["job"]["id"];
        id.as_str().unwrap().to_owned()
    }

    pub fn job(&self, id: &str) -> Value {
        self.json(&["jobs", "show", id])
    }

    /// Waits until a job stands so.
    pub fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut job = Value::Null;
        wait_for(|| {
            job = self.job(id);
            is_so(&job)
        });
        job
    }

    pub fn until_status(&self, id: &str, status: &str) -> Value {
        self.until(id, |job| job["status"] == status)
    }

    /// An executable file.
    pub fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// Starts a worker, and answers its number among the started.
    pub fn work(&mut self, words: &[&str]) -> usize {
        self.start(&[&["work", "--queue", "default"], words].concat())
    }

    /// Starts a command.
    pub fn start(&mut self, words: &[&str]) -> usize {
        let log = std::fs::File::create(self.path(&format!("log-{}", self.started.len()))).unwrap();
        let mut command = self.command(words);
        command.stderr(log);
        self.spawn(command)
    }

    /// Starts `serve` or `demo` on a port of its own, and answers its URL and number.
    pub fn serve(&mut self, command: &str) -> (String, usize) {
        let address = format!("127.0.0.1:{}", free_port());
        let server = self.serve_at(command, &address);
        (format!("http://{address}"), server)
    }

    /// Starts `serve` or `demo` there, and waits until it answers.
    pub fn serve_at(&mut self, command: &str, address: &str) -> usize {
        let server = self.start(&[command, "--listen", address]);
        wait_for(|| std::net::TcpStream::connect(address).is_ok());
        server
    }

    /// Starts a worker that goes through a server and knows no store.
    pub fn work_through(&mut self, url: &str, words: &[&str]) -> usize {
        let log = std::fs::File::create(self.path(&format!("log-{}", self.started.len()))).unwrap();
        let mut command = self.command(&[&["work", "--queue", "default", "--url", url], words].concat());
        command.env_remove("WINDLASS_STORE").stderr(log);
        self.spawn(command)
    }

    /// Starts a command, whose output goes to the file `out-N`.
    pub fn spawn(&mut self, mut command: Command) -> usize {
        let out = std::fs::File::create(self.path(&format!("out-{}", self.started.len()))).unwrap();
        self.started.push(command.stdout(out).spawn().unwrap());
        self.started.len() - 1
    }

    /// What was printed by what was started.
    pub fn printed(&self, started: usize) -> String {
        std::fs::read_to_string(self.path(&format!("out-{started}"))).unwrap()
    }

    pub fn pid(&self, started: usize) -> u32 {
        self.started[started].id()
    }

    /// Sends a signal to what was started.
    pub fn signal(&self, started: usize, signal: &str) {
        kill(signal, self.pid(started).cast_signed());
    }

    /// Waits for the end of what was started.
    pub fn ended(&mut self, started: usize) -> i32 {
        let mut code = None;
        wait_for(|| {
            code = self.started[started].try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|status| status.code()).unwrap_or(-1)
    }

    /// What a file says, once it says something.
    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        wait_for(|| std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        std::fs::read_to_string(path).unwrap().trim().to_owned()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for child in &mut self.started {
            if child.try_wait().is_ok_and(|ended| ended.is_none()) {
                kill("TERM", child.id().cast_signed());
                let until = Instant::now() + Duration::from_secs(15);
                while Instant::now() < until && child.try_wait().is_ok_and(|ended| ended.is_none()) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What a server answers to a body.
pub fn post(url: &str, path: &str, body: &Value) -> Value {
    sent(url, "POST", path, body).ok().json()
}

/// What a server answers, whatever it thinks of it.
pub fn sent(url: &str, method: &str, path: &str, body: &Value) -> Ran {
    let (body, to) = (body.to_string(), format!("{url}{path}"));
    let words = ["-sS", "-X", method, "-H", "content-type: application/json", "-d", &body, &to];
    ran(Command::new("curl").args(words).output().unwrap())
}

/// Waits for a condition, and fails the test when it does not come.
#[track_caller]
pub fn wait_for(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "it did not come within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that was free a moment ago, and that nobody gets by chance.
pub fn free_port() -> u16 {
    // Below the range from which the system gives ports to connections and to whoever asks for any.
    (0..1_000)
        .map(|_| 10_000 + u16::from_be_bytes(windlass_store::fresh::random()) % 20_000)
        .find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// Sends a signal with the shell's own means.
pub fn kill(signal: &str, pid: i32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap();
    assert!(sent.success(), "kill -{signal} {pid}");
}

/// Whether a process is there, and not only its remains.
pub fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// A program of one of Debian's packages.
pub fn program(package: &str, name: &str) -> Command {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(repository.join("scripts/program"));
    command.args([package, name]);
    command
}
