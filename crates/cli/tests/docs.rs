//! The commands of the README and of the documents, run as they stand, in order, one folder per document.
//!
//! Every `sh` block is run, unless a comment right before it says `<!-- not run: why -->`. `<!-- first: commands -->` goes
//! before a block what its reader has already. The word `ID` is the newest job, dead ones first; `postgres://…@db/` is a
//! server of the tests; port 7070 is one that is free.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;
#[path = "bed/database.rs"]
mod database;

use bed::{Bed, free_port, kill, lives, ran, wait_for};
use database::Database;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Documents whose commands are tried elsewhere, and where.
const ELSEWHERE: &[(&str, &str)] = &[
    ("benchmarks.md", "measuring is no test"),
    ("dashboard.md", "the tests with a browser"),
    ("python-worker.md", "the test of the worker that it shows"),
];

/// A block of commands.
#[derive(Debug)]
struct Block {
    line: usize,
    text: String,
    first: String,
    not_run: bool,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut remark, mut open): (Vec<Block>, String, Option<Block>) = Default::default();
    for (n, line) in (1..).zip(text.lines()) {
        match &mut open {
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some(block) => block.text += &format!("{line}\n"),
            None if line == "```sh" => {
                let said = |word: &str| remark.strip_prefix(word).and_then(|rest| rest.strip_suffix(" -->"));
                let reason = said("<!-- not run: ");
                assert!(
                    remark.is_empty() || reason.is_some() || said("<!-- first: ").is_some(),
                    "line {n}: {remark}"
                );
                assert!(reason.is_none_or(|reason| reason.len() > 5), "line {n} says why it is not run");
                let first = said("<!-- first: ").unwrap_or_default().to_owned();
                open = Some(Block { line: n, text: String::new(), first, not_run: reason.is_some() });
            }
            None => remark = if line.starts_with("<!--") { line.to_owned() } else { String::new() },
        }
    }
    blocks
}

/// Where `psql`, `pg_dump` and their like are.
fn postgres_programs() -> String {
    static FOUND: OnceLock<String> = OnceLock::new();
    let ask =
        || ran(Command::new(repository().join("scripts/postgres")).arg("bin").output().unwrap()).ok().out;
    FOUND
        .get_or_init(|| std::env::var("WINDLASS_TEST_PG_BIN").unwrap_or_else(|_| ask().trim().to_owned()))
        .clone()
}

/// A document while its commands are run.
struct Reading {
    bed: Bed,
    port: u16,
    database: Option<Database>,
}

impl Reading {
    fn new() -> Self {
        let bed = Bed::empty();
        for folder in ["examples", "packaging"] {
            std::os::unix::fs::symlink(repository().join(folder), bed.path(folder)).unwrap();
        }
        Self { bed, port: free_port(), database: None }
    }

    /// A shell in the folder, as somebody has it who installed windlass and has configured nothing.
    fn shell(&self, script: &str) -> bed::Ran {
        let stand_ins = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/docs");
        let path =
            format!("{}:{}:{}", stand_ins.display(), std::env::var("PATH").unwrap(), postgres_programs());
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", script]).current_dir(self.bed.path("")).stdin(Stdio::null());
        shell.env_clear().env("PATH", path).env("HOME", self.bed.path("")).env("USER", "ada");
        shell.envs(std::env::var_os("LD_LIBRARY_PATH").map(|folders| ("LD_LIBRARY_PATH", folders)));
        shell.env("REAL_WINDLASS", env!("CARGO_BIN_EXE_windlass")).env("REPOSITORY", repository());
        shell.env("STARTED", self.bed.path("started")).env("FREE_PORT", self.port.to_string());
        ran(shell.output().unwrap())
    }

    /// The commands with what is a placeholder in them replaced.
    fn real(&mut self, text: &str) -> String {
        let mut text = text.replace("127.0.0.1:7070", &format!("127.0.0.1:{}", self.port));
        if text.contains("@db/") {
            let database = self.database.get_or_insert_with(Database::new);
            let url = database.url.clone();
            let (server, name) = url.rsplit_once('/').unwrap();
            let restored = format!("{name}_restored");
            text = text.replace("postgres://app@db/jobs restored", &format!("{url} {restored}"));
            text = text.replace("postgres://app@db/restored", &format!("{server}/{restored}"));
            text = text.replace("postgres://app@db/jobs", &url);
        }
        if text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "ID") {
            let newest =
                "(windlass jobs ls --dead --json; windlass jobs ls --json) | jq -r '.jobs[].id' | head -n 1";
            let id = self.shell(&format!("set +o pipefail; {newest}")).ok().out;
            assert!(!id.trim().is_empty(), "there is no job to be ID");
            text = text.replace(" ID", &format!(" {}", id.trim()));
        }
        text
    }

    /// What was started in the background still runs, and ends when it is told to.
    fn end(&self) {
        let Ok(started) = std::fs::read_dir(self.bed.path("started")) else { return };
        let started: Vec<PathBuf> = started.map(|entry| entry.unwrap().path()).collect();
        let pids = started.iter().filter(|path| path.extension().is_some_and(|e| e == "pid"));
        for pid in pids.map(|path| std::fs::read_to_string(path).unwrap().trim().to_owned()) {
            assert!(lives(&pid), "it ended by itself: {}", self.logs());
            let signal = std::fs::read_to_string(self.bed.path(&format!("started/{pid}.signal")));
            kill(signal.as_ref().map_or("INT", |signal| signal.trim()), pid.parse().unwrap());
            wait_for(|| !lives(&pid));
        }
    }

    fn logs(&self) -> String {
        self.shell("cat started/*.log").out
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(database) = &self.database {
            database.on("DROP DATABASE IF EXISTS {}_restored WITH (FORCE)");
        }
        // A test that failed leaves nothing running either.
        let _ = self.shell("cat started/*.pid | xargs -r kill -9");
    }
}

fn read(path: &Path) -> (usize, usize) {
    let (mut reading, mut ran, mut left) = (Reading::new(), 0, 0);
    let shown = path.strip_prefix(repository()).unwrap().display().to_string();
    for block in blocks(&std::fs::read_to_string(path).unwrap()) {
        if block.not_run {
            left += 1;
            continue;
        }
        let first = reading.real(&block.first);
        let done = reading.shell(&first);
        assert_eq!(done.code, 0, "{shown}, line {}, first: {first}\n{} {}", block.line, done.out, done.err);
        let text = reading.real(&block.text);
        let done = reading.shell(&text);
        assert_eq!(done.code, 0, "{shown}, line {}:\n{text}\n{} {}", block.line, done.out, done.err);
        ran += 1;
    }
    reading.end();
    (ran, left)
}

fn read_all(folder: &str) -> usize {
    let mut ran = 0;
    for entry in std::fs::read_dir(repository().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".md") && !ELSEWHERE.iter().any(|(other, _)| *other == name) {
            ran += read(&path).0;
        }
    }
    ran
}

#[test]
fn the_readmes_commands() {
    assert_eq!(read(&repository().join("README.md")), (2, 0), "blocks run, and left out");
}

#[test]
fn the_commands_of_docs_operate() {
    assert!(read_all("docs/operate") >= 5);
}

#[test]
fn the_commands_of_docs_learn() {
    assert!(read_all("docs/learn") >= 8);
}

#[test]
fn the_commands_of_docs_recipes() {
    assert!(read_all("docs/recipes") >= 10);
}

#[test]
fn a_block_says_what_comes_first_and_why_it_is_not_run() {
    let text = "a\n<!-- not run: no docker -->\n```sh\ndocker\n```\n<!-- first: mkdir x -->\n```sh\nls x\nls\n```\n```rust\nno\n```\n";
    let found = blocks(text);
    assert_eq!(found.len(), 2);
    assert!(found[0].not_run && !found[1].not_run);
    assert_eq!(
        (found[1].first.as_str(), found[1].text.as_str(), found[1].line),
        ("mkdir x", "ls x\nls\n", 7)
    );
}
