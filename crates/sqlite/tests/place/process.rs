//! Real processes: a test binary starts itself again, as one test called `child` that plays a role.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const ROLE: &str = "WINDLASS_TEST_ROLE";
const FILE: &str = "WINDLASS_TEST_FILE";
/// What a child says begins with this, to be told from what the test harness prints.
const MARK: &str = "> ";
/// The longest that a child may keep silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// The role that this process was started to play, and on which file.
pub fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(FILE)?.into()))
}

/// Tells the parent something.
pub fn say(words: &str) {
    let line = format!("\n{MARK}{words}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the parent listens");
}

/// Waits for the parent's word; false when there is none any more.
pub fn listen() -> bool {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).is_ok_and(|n| n > 0)
}

/// A process of our own. It is killed when this is dropped.
pub struct Process {
    child: Child,
    tell: Option<ChildStdin>,
    said: Receiver<String>,
}

impl Process {
    /// Starts the test `child` of this binary in a role.
    pub fn start(role: &str, file: &Path) -> Self {
        let binary = std::env::current_exe().expect("this binary");
        Self::run(Command::new(binary), role, file)
    }

    /// As [`Process::start`], but with a command that runs this binary in another way.
    pub fn run(mut command: Command, role: &str, file: &Path) -> Self {
        command.args(["--exact", "child", "--nocapture"]).env(ROLE, role).env(FILE, file);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let out = child.stdout.take().expect("its output");
        let (sender, said) = channel();
        // Ends with the child's output. A line without its end was never said.
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = String::new();
            while out.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
                if let Some(words) = line.strip_prefix(MARK) {
                    let _ = sender.send(words.trim_end().to_owned());
                }
                line.clear();
            }
        });
        Self { tell: child.stdin.take(), child, said }
    }

    /// The next thing it says.
    pub fn hears(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("the process says something")
    }

    /// What it says within a time; none if it keeps silent.
    pub fn hears_within(&self, time: Duration) -> Option<String> {
        self.said.recv_timeout(time).ok()
    }

    /// Tells it to go on.
    pub fn tells(&mut self) {
        let tell = self.tell.as_mut().expect("it listens");
        tell.write_all(b"go\n").and_then(|()| tell.flush()).expect("it is told");
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without a warning; answers everything that it had said and nobody had heard.
    pub fn kills(mut self) -> Vec<String> {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
        self.said.iter().collect()
    }

    /// Waits until it ends by itself; answers how, and everything that nobody had heard.
    pub fn ends(mut self) -> (ExitStatus, Vec<String>) {
        drop(self.tell.take());
        let said = self.said.iter().collect();
        (self.child.wait().expect("gone"), said)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
