//! The benchmark: how much the stores of Windlass do per second, beside what the machine allows.
//!
//! A case runs on a fresh store ([`cases`], [`growth`]); next to it, in the same run, stands what SQLite itself
//! does ([`raw`]), because only a ratio means the same on every machine. Nothing here fails for being slow.

mod args;
mod cases;
mod growth;
mod measure;
mod raw;
mod table;

use args::{Args, Kind};
use cases::Case;
use raw::Limit;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use table::{Line, Report};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use windlass_memory::MemoryStore;
use windlass_sqlite::SqliteStore;
use windlass_store::Store;

/// What can go wrong is shown to a person and ends the run.
type Tried<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> std::process::ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{}", args::help());
            return std::process::ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("windlass-bench: {why}; see windlass-bench --help");
            return std::process::ExitCode::from(2);
        }
    };
    match bench(&args) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("windlass-bench: {why}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> Tried<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::default();
    for kind in &args.stores {
        for case in &args.cases {
            run_case(args, &runtime, *kind, case, &mut report)?;
        }
        if args.growth {
            let costs = run_growth(args, &runtime, *kind)?;
            report.growth.push((*kind, costs));
        }
    }
    report.print();
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&report.to_json(args))?;
        std::fs::write(file, text + "\n").map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    Ok(())
}

/// Runs a case as often as asked, each time right after the raw limit it is compared with.
fn run_case(args: &Args, runtime: &Runtime, kind: Kind, case: &Case, report: &mut Report) -> Tried<()> {
    let count = (args.jobs / case.part).max(1);
    let mut line = Line::new(kind.name(), case.name);
    for repeat in 1..=args.repeat {
        eprintln!("{} {}: run {repeat} of {}", kind.name(), case.name, args.repeat);
        let limit = case.limit.filter(|_| kind.has_raw_limit());
        let limit = limit.map(|(limit, rows)| run_limit(limit, count, report).map(|raw| raw / rows));
        let limit = limit.transpose()?;
        let made = Made::open(runtime, kind)?;
        let sample = runtime.block_on(case.run(&made.store, count))?;
        line.ratios.extend(limit.map(|limit| sample.per_second() / limit));
        line.samples.push(sample);
    }
    report.lines.push(line);
    Ok(())
}

/// Runs a raw limit on a file of its own and answers its rows per second.
fn run_limit(limit: Limit, count: usize, report: &mut Report) -> Tried<f64> {
    let folder = folder()?;
    let sample = limit.run(folder.path(), count)?;
    report.raw(limit).samples.push(sample);
    Ok(sample.per_second())
}

fn run_growth(args: &Args, runtime: &Runtime, kind: Kind) -> Tried<Vec<growth::Costs>> {
    let made = Made::open(runtime, kind)?;
    let say = |text: String| eprintln!("{} {text}", kind.name());
    runtime.block_on(growth::run(&*made.store, &args.growth_sizes(kind), &say))
}

/// A fresh store. Fields drop in order: the store lets go of its file before the folder goes.
struct Made {
    store: Arc<dyn Store>,
    _folder: Option<TempDir>,
}

impl Made {
    fn open(runtime: &Runtime, kind: Kind) -> Tried<Self> {
        match kind {
            Kind::Memory => Ok(Self { store: Arc::new(MemoryStore::new()), _folder: None }),
            Kind::Sqlite => {
                let folder = folder()?;
                let store = runtime.block_on(SqliteStore::open(folder.path().join("windlass.db")))?;
                Ok(Self { store: Arc::new(store), _folder: Some(folder) })
            }
        }
    }
}

/// A folder that is removed after use: beside the program, that is on the disk with the build, since the
/// system's own folder for such things is often in memory, where a commit costs nothing.
fn folder() -> Tried<TempDir> {
    let beside: Option<PathBuf> =
        std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let make = || tempfile::Builder::new();
    let made = beside.and_then(|folder| make().prefix("bench-").tempdir_in(folder).ok());
    Ok(made.map_or_else(|| make().prefix("windlass-bench-").tempdir(), Ok)?)
}
