//! The command line: which stores, which cases, how many jobs.

use crate::cases::{CASES, Case};
use crate::growth::Sizes;
use crate::http;
use crate::lanes;
use crate::peer::Peer;
use crate::worker::WorkerCase;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// The cases that are run once and only when named: they take minutes and gigabytes.
const GROWTH: &str = "growth";
const PINNED: &str = "pinned";
const RETENTION: &str = "retention";
const LANES: &str = "lanes";
const ONCE: [&str; 4] = [GROWTH, PINNED, RETENTION, LANES];
/// Finished jobs of `retention`.
const FINISHED: usize = 1_000_000;
/// What `--quick` divides every size by.
const QUICK: usize = 50;
/// What the sizes of `growth` are divided by unless `--full` is asked for.
const PART: usize = 10;

/// How long a worker is left alone before it counts as idle, because a connection may take 10 s to tell of transactions
/// it had before, and how long it is watched.
const IDLE: (Duration, Duration) = (Duration::from_secs(12), Duration::from_secs(10));

/// A store that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
    Memory,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Memory => "memory",
        }
    }
}

/// What was asked for.
pub struct Args {
    pub stores: Vec<Kind>,
    pub cases: Vec<&'static Case>,
    pub workers: Vec<WorkerCase>,
    /// What PostgreSQL's cases run beside.
    pub peers: Vec<Peer>,
    pub growth: bool,
    pub pinned: bool,
    pub retention: bool,
    pub lanes: bool,
    /// Cases through a server, which are run only when named: they need the binary beside this one.
    pub http: Vec<http::Case>,
    /// A PostgreSQL to measure, instead of a private one.
    pub url: Option<String>,
    /// Jobs per case.
    pub jobs: usize,
    /// Finished jobs of `retention`.
    pub finished: usize,
    pub repeat: usize,
    pub json: Option<PathBuf>,
    pub quick: bool,
    pub full: bool,
}

impl Args {
    /// Reads the words after the program's name; none when help was asked for.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut stores, mut named, mut jobs) = (Kind::ALL.to_vec(), None, None);
        let (mut repeat, mut json, mut url) = (3, None, None);
        let (mut quick, mut full, mut peers) = (false, false, Vec::new());
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--quick" => quick = true,
                "--full" => full = true,
                "--peer" => peers = peers_of(&value()?)?,
                "--url" => url = Some(value()?),
                "--store" => stores = stores_of(&value()?)?,
                "--case" => named = Some(value()?),
                "--jobs" => jobs = Some(number("--jobs", &value()?)?),
                "--repeat" => repeat = number("--repeat", &value()?)?,
                "--json" => json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {word:?}")),
            }
        }
        let Picked { cases, workers, http, once } = match named {
            None => Picked {
                cases: CASES.iter().collect(),
                workers: WorkerCase::ALL.to_vec(),
                http: Vec::new(),
                once: if quick { ONCE.to_vec() } else { Vec::new() },
            },
            Some(names) => cases_of(&names)?,
        };
        let by = if quick { QUICK } else { 1 };
        let finished = jobs.unwrap_or(FINISHED / by);
        let jobs = jobs.unwrap_or(100_000 / by);
        Ok(Some(Self {
            stores,
            cases,
            workers,
            peers,
            growth: once.contains(&GROWTH),
            pinned: once.contains(&PINNED),
            retention: once.contains(&RETENTION),
            lanes: once.contains(&LANES),
            http,
            url,
            jobs,
            finished,
            repeat,
            json,
            quick,
            full,
        }))
    }

    /// How far `growth` goes. In memory a finished job takes about 2.5 kB, so a fifth must do.
    pub fn growth_sizes(&self, kind: Kind) -> Sizes {
        let finished = if kind == Kind::Memory { 1_000_000 } else { 5_000_000 };
        let (by, rounds) = match (self.quick, self.full) {
            (true, _) => (QUICK, 100),
            (false, false) => (PART, 1_000),
            (false, true) => (1, 1_000),
        };
        Sizes { finished: finished / by, waiting: 1_000_000 / by, rounds }
    }

    /// How many pickups are looked at.
    pub fn samples(&self) -> usize {
        if self.quick { 600 / QUICK } else { 600 }
    }

    /// How long a worker is left alone, and then watched, in `idle`.
    pub fn idle(&self) -> (Duration, Duration) {
        if self.quick { (IDLE.0 / 10, IDLE.1 / 10) } else { IDLE }
    }

    /// How long claims run alone in `retention`.
    pub fn alone(&self) -> Duration {
        Duration::from_secs(if self.quick { 1 } else { 20 })
    }

    /// How far `lanes` goes.
    pub fn lane_sizes(&self) -> lanes::Sizes {
        lanes::Sizes {
            pending: self.jobs,
            keys: 10_000.min(self.jobs / 4).max(1),
            rounds: (self.jobs / 400).clamp(1, 200),
        }
    }

    /// How many jobs pass in `pinned`.
    pub fn pinned_jobs(&self) -> usize {
        if self.quick { 200_000 / QUICK } else { 200_000 }
    }
}

fn stores_of(name: &str) -> Result<Vec<Kind>, String> {
    let found: Vec<Kind> = Kind::ALL.into_iter().filter(|k| name == "all" || name == k.name()).collect();
    if found.is_empty() { Err(format!("no store is called {name:?}")) } else { Ok(found) }
}

/// The cases that were named.
#[derive(Default)]
struct Picked {
    cases: Vec<&'static Case>,
    workers: Vec<WorkerCase>,
    http: Vec<http::Case>,
    once: Vec<&'static str>,
}

fn cases_of(names: &str) -> Result<Picked, String> {
    let mut picked = Picked::default();
    for name in names.split(',') {
        let of_store = CASES.iter().find(|case| case.name == name);
        let of_worker = WorkerCase::ALL.into_iter().find(|case| case.name() == name);
        let of_server = http::Case::ALL.into_iter().find(|case| case.name() == name);
        let once = ONCE.into_iter().find(|once| *once == name);
        if of_store.is_none() && of_worker.is_none() && of_server.is_none() && once.is_none() {
            return Err(format!("no case is called {name:?}"));
        }
        picked.cases.extend(of_store);
        picked.workers.extend(of_worker);
        picked.http.extend(of_server);
        picked.once.extend(once);
    }
    Ok(picked)
}

fn peers_of(names: &str) -> Result<Vec<Peer>, String> {
    let peer = |name: &str| Peer::ALL.into_iter().find(|peer| peer.name() == name);
    names.split(',').map(|name| peer(name).ok_or_else(|| format!("no peer is called {name:?}"))).collect()
}

fn number(option: &str, text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("{option} {text:?} is not a number above 0")),
    }
}

/// What `--help` prints.
pub fn help() -> String {
    let mut text = String::from(
        "Measures the stores of Windlass: jobs per second, CPU time per job, and the ratio to what the\n\
         database itself does in the same run.\n\n\
         Usage: windlass-bench [OPTIONS]\n\n\
         Options:\n\
         \x20 --store NAME        sqlite, postgres, memory or all [all]\n\
         \x20 --url URL           a PostgreSQL with durable commits, a database is made there [a private server]\n\
         \x20 --case NAME[,NAME]  only these cases [all but growth, pinned, retention, lanes and http-…]\n\
         \x20 --jobs N            jobs per case; enqueue-1 gets a tenth, enqueue-10 half [100000; retention: 1000000]\n\
         \x20 --repeat N          runs per case; the median counts [3]\n\
         \x20 --json FILE         also write every number there\n\
         \x20 --quick             all sizes divided by 50, and growth, pinned, retention and lanes too: shows that it works\n\
         \x20 --peer NAME[,NAME]  on PostgreSQL, in turns with enqueue-…, noop and pickup: graphile_worker (the Rust crate),\n\
         \x20                     graphile (graphile-worker from npm; noop and pickup only)\n\
         \x20 --full              growth with 5 M finished jobs instead of a tenth of everything\n\
         \x20 --help              this text\n\n\
         Cases:\n",
    );
    for case in CASES {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:<14}  {}", case.name, case.about);
    }
    for case in http::Case::ALL {
        let _ = writeln!(text, "  {:<14}  {}", case.name(), case.about());
    }
    for case in WorkerCase::ALL {
        let _ = writeln!(text, "  {:<14}  {}", case.name(), case.about());
    }
    text.push_str(
        "  growth          one call's cost from an empty store to 500 k finished, 100 k future and 100 k other jobs\n\
         \x20 pinned          calls while an old transaction is open and 200 k jobs pass; PostgreSQL only\n\
         \x20 retention       claims alone and beside the archiving and removal of a million finished jobs\n\
         \x20 lanes           claims of a queue with a limit per key beside a plain one, as both grow to ten times --jobs\n\n\
         Examples:\n\
         \x20 windlass-bench --quick\n\
         \x20 windlass-bench --store sqlite --case drain,life --jobs 200000\n\
         \x20 windlass-bench --store sqlite --case growth --full --json growth.json\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Args>, String> {
        Args::parse(line.split_ascii_whitespace().map(str::to_owned))
    }

    #[test]
    fn everything_has_a_default() {
        let args = parse("").unwrap().unwrap();
        assert_eq!((args.stores.len(), args.cases.len(), args.growth), (3, CASES.len(), false));
        assert_eq!((args.pinned, args.full, args.url), (false, false, None));
        assert_eq!((args.retention, args.lanes), (false, false));
        assert_eq!((args.jobs, args.finished, args.repeat), (100_000, 1_000_000, 3));
    }

    #[test]
    fn quick_divides_every_size_and_says_so_for_growth() {
        let args = parse("--quick --store sqlite").unwrap().unwrap();
        assert_eq!(
            (args.jobs, args.growth, args.growth_sizes(Kind::Sqlite).finished),
            (2_000, true, 100_000)
        );
        assert_eq!((args.pinned, args.pinned_jobs()), (true, 4_000));
        assert_eq!((args.retention, args.finished), (true, 20_000));
        assert_eq!((args.lanes, args.lane_sizes().keys), (true, 500));
        let full = parse("--full --case growth").unwrap().unwrap();
        assert_eq!((full.growth_sizes(Kind::Postgres).finished, full.pinned_jobs()), (5_000_000, 200_000));
        assert_eq!(parse("--quick --jobs 7_000").unwrap().unwrap().jobs, 7_000);
    }

    #[test]
    fn cases_are_picked_by_name() {
        let args = parse("--case drain,growth --store memory").unwrap().unwrap();
        assert_eq!((args.cases[0].name, args.cases.len(), args.growth), ("drain", 1, true));
        assert!(args.workers.is_empty() && args.peers.is_empty());
        let of_worker = parse("--case idle,noop --peer graphile").unwrap().unwrap();
        assert_eq!(of_worker.workers, [WorkerCase::Idle, WorkerCase::Noop]);
        assert!(of_worker.cases.is_empty() && of_worker.peers == [Peer::Graphile]);
        assert_eq!(args.stores, [Kind::Memory]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for line in ["--case nothing", "--peer nothing", "--store nothing", "--jobs 0", "--jobs", "--nothing"]
        {
            assert!(parse(line).err().unwrap().contains(line.split(' ').next_back().unwrap()), "{line}");
        }
        assert!(parse("--help").unwrap().is_none());
        assert!(CASES.iter().all(|c| help().contains(c.name)));
    }
}
