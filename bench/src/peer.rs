//! Peers, each in its best documented configuration: programs of their own under `peers/`, at the versions of their lock
//! files. Each says `ready`, works when it is sent a line, and prints what it took as JSON.

use crate::Tried;
use crate::args::{Args, Kind};
use crate::measure::{Meter, Sample};
use crate::postgres::{Database, Server};
use crate::table::Line;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
/// Where its programs are built: beside those of the workspace.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers");

/// Another job queue on PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// graphile-worker from npm.
    Graphile,
    /// graphile_worker, the Rust crate.
    GraphileWorker,
}

/// What a peer can be asked to do.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    /// Drain no-op jobs, in the settings of this name.
    Drain(&'static str),
    /// So many callers, one job per call.
    Enqueue(usize),
    /// One caller, so many jobs per call.
    Batch(usize),
    /// Pick single jobs up, with so many handlers at once.
    Pickup(usize),
}

impl Peer {
    pub const ALL: [Self; 2] = [Self::Graphile, Self::GraphileWorker];

    pub fn name(self) -> &'static str {
        match self {
            Self::Graphile => "graphile",
            Self::GraphileWorker => "graphile_worker",
        }
    }

    /// The settings that drain fastest, as names of cases: concurrency, size of the local queue, delay of batches
    /// in ms. Which of them is faster depends on the machine, so all are run.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Graphile => &["noop 100 1000 0"],
            Self::GraphileWorker => &["noop 24 500 5", "noop 64 2000 1"],
        }
    }

    /// What it takes for `count` jobs in a database of its own; none where its program cannot do that.
    pub async fn run(self, ask: Ask, server: &Server, count: usize) -> Tried<Option<Sample>> {
        if self == Self::Graphile && matches!(ask, Ask::Enqueue(_) | Ask::Batch(_)) {
            return Ok(None);
        }
        // Each caller brings as many.
        let count = if let Ask::Enqueue(callers) = ask { count.div_ceil(callers) * callers } else { count };
        let database = server.database().await?;
        let mut program = Program::start(self, ask, &database, count)?;
        let meter = Meter::start(Some(&database)).await?;
        let took = program.go()?;
        let mut sample = meter.stop(Some(&database), count).await?;
        let jobs = "SELECT count(*) FROM graphile_worker.jobs";
        let there: i64 = database.connect().await?.query_one(jobs, &[]).await?.get(0);
        let expected = if matches!(ask, Ask::Drain(_)) { 0 } else { count as i64 };
        if took["left"] != 0 || there != expected {
            return Err(format!("{} has {there} jobs instead of {expected}: {took}", self.name()).into());
        }
        // Its own clock and its own CPU: this process only waited.
        let seconds = |key: &str| took[key].as_f64().map(Duration::from_secs_f64);
        sample.wall = seconds("wall_s").ok_or("the peer did not say how long it took")?;
        sample.cpu = seconds("cpu_s");
        drop(program);
        sample.dead_rows = Some(database.close().await?);
        Ok(Some(sample))
    }

    /// How long an idle worker of its takes to begin a job, in milliseconds, with its defaults but for the concurrency:
    /// from the acknowledged enqueue, and from its call.
    pub async fn pickup(
        self,
        server: &Server,
        samples: usize,
        concurrency: usize,
    ) -> Tried<(Vec<f64>, Vec<f64>)> {
        let database = server.database().await?;
        let mut program = Program::start(self, Ask::Pickup(concurrency), &database, samples)?;
        let took = program.go()?;
        drop(program);
        database.close().await?;
        Ok(serde_json::from_value(took)?)
    }

    /// The program that does it, installed or built when it is not there.
    fn command(self, ask: Ask, url: &str, count: usize) -> Tried<Command> {
        let (verb, numbers) = match ask {
            Ask::Drain(settings) => ("drain", settings.split(' ').skip(1).map(str::to_owned).collect()),
            Ask::Enqueue(callers) => ("enqueue", vec![callers.to_string()]),
            Ask::Batch(size) => ("batch", vec![size.to_string()]),
            Ask::Pickup(concurrency) => ("pickup", vec![concurrency.to_string()]),
        };
        let folder = Path::new(FOLDER).join(self.name());
        let mut command = match self {
            Self::Graphile => {
                install(&folder)?;
                let mut node = Command::new("node");
                node.arg(format!("{verb}.mjs"));
                node
            }
            Self::GraphileWorker => {
                let mut program = Command::new(build(&folder)?);
                program.arg(verb);
                program
            }
        };
        command.current_dir(folder).args([url, &count.to_string()]).args::<Vec<String>, _>(numbers);
        Ok(command)
    }
}

/// The peers that a case on PostgreSQL runs beside, and what they came to.
pub struct Beside<'a> {
    peers: &'a [Peer],
    server: Option<&'a Server>,
    pub lines: Vec<Line>,
}

impl<'a> Beside<'a> {
    /// Those that were asked for; none beside another store.
    pub fn new(args: &'a Args, kind: Kind, server: Option<&'a Server>) -> Self {
        let server = server.filter(|_| kind == Kind::Postgres);
        Self { peers: &args.peers, server, lines: Vec::new() }
    }

    /// Each of them, with the server.
    pub fn peers(&self) -> impl Iterator<Item = (Peer, &'a Server)> + use<'a> {
        let server = self.server;
        self.peers.iter().copied().filter_map(move |peer| Some((peer, server?)))
    }

    /// Drains every peer in each of its settings; answers the jobs per second of the fastest.
    pub async fn drain(&mut self, count: usize) -> Tried<Option<f64>> {
        let mut fastest = None;
        for (peer, _) in self.peers() {
            for settings in peer.settings() {
                let drained = self.run(peer, settings, Ask::Drain(settings), count).await?;
                fastest = faster(fastest, drained);
            }
        }
        Ok(fastest)
    }

    /// Asks every peer for the same; answers the jobs per second of the fastest.
    pub async fn ask(&mut self, case: &'static str, ask: Ask, count: usize) -> Tried<Option<f64>> {
        let mut fastest = None;
        for (peer, _) in self.peers() {
            let asked = self.run(peer, case, ask, count).await?;
            fastest = faster(fastest, asked);
        }
        Ok(fastest)
    }

    async fn run(&mut self, peer: Peer, case: &'static str, ask: Ask, count: usize) -> Tried<Option<f64>> {
        let Some(server) = self.server else { return Ok(None) };
        let Some(sample) = peer.run(ask, server, count).await? else { return Ok(None) };
        let is = |line: &Line| line.store == peer.name() && line.case == case;
        let place = self.lines.iter().position(is).unwrap_or_else(|| {
            self.lines.push(Line::new(peer.name(), case));
            self.lines.len() - 1
        });
        self.lines[place].samples.push(sample);
        Ok(Some(sample.per_second()))
    }
}

fn faster(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().max_by(f64::total_cmp)
}

/// A peer that is ready, and killed when this is dropped.
struct Program {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Program {
    fn start(peer: Peer, ask: Ask, database: &Database, count: usize) -> Tried<Self> {
        let mut command = peer.command(ask, database.url(), count)?;
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started
            .map_err(|e| format!("cannot start {:?} ({e}); is it installed?", command.get_program()))?;
        let said = child.stdout.take().ok_or("the peer has no standard output")?;
        let mut program = Self { child, lines: BufReader::new(said).lines() };
        if program.line()? != "ready" {
            return Err("the peer could not prepare".into());
        }
        Ok(program)
    }

    /// Lets it work, and answers what it printed then.
    fn go(&mut self) -> Tried<serde_json::Value> {
        writeln!(self.child.stdin.as_mut().ok_or("the peer has no standard input")?, "go")?;
        Ok(serde_json::from_str(&self.line()?)?)
    }

    fn line(&mut self) -> Tried<String> {
        Ok(self.lines.next().ok_or("the peer ended early")??)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a Node program's lock file names, once.
fn install(folder: &Path) -> Tried<()> {
    if folder.join("node_modules/graphile-worker").exists() {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.current_dir(folder).args(["ci", "--no-audit", "--no-fund", "--silent"]);
    let installed =
        npm.status().map_err(|e| format!("no npm ({e}); install it (Debian: apt-get install npm)"))?;
    if installed.success() {
        Ok(())
    } else {
        Err(format!("npm ci in {} ended with {installed}", folder.display()).into())
    }
}

/// Builds a Rust program, which takes minutes the first time, and answers where it is.
fn build(folder: &Path) -> Tried<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(folder).args(["build", "--release", "--locked", "--quiet", "--target-dir", BUILT]);
    let built = cargo.status().map_err(|e| format!("no cargo ({e}) to build the peer with"))?;
    if built.success() {
        Ok(Path::new(BUILT).join("release/windlass-bench-graphile-worker"))
    } else {
        Err(format!("cargo build in {} ended with {built}", folder.display()).into())
    }
}
