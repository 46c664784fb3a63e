//! The benchmark: how much the stores of Windlass do per second, beside what the machine allows.
//!
//! A case runs on a fresh store ([`cases`], [`growth`], [`pinned`], [`retention`], [`lanes`], [`worker`], [`http`]); next to it stands what the
//! database itself does ([`raw`]), because only a ratio means the same on every machine. Nothing here fails for being slow.

mod args;
mod cases;
mod growth;
mod http;
mod lanes;
mod measure;
mod peer;
mod pinned;
mod postgres;
mod raw;
mod retention;
mod subject;
mod table;
mod worker;

use args::{Args, Kind};
use cases::Case;
use peer::Beside;
use postgres::Server;
use raw::Limit;
use subject::Subject;
use table::{Line, Report};
use worker::Found;

/// Rows of the limit that commits them one by one.
const COMMITS: usize = 5_000;

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
    let server = runtime.block_on(subject::server(args))?;
    let report = runtime.block_on(measure_all(args, server.as_ref()))?;
    report.print();
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&report.to_json(args))?;
        std::fs::write(file, text + "\n").map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    Ok(())
}

async fn measure_all(args: &Args, server: Option<&Server>) -> Tried<Report> {
    let mut report = Report::default();
    for kind in args.stores.iter().copied() {
        for case in &args.cases {
            run_case(args, kind, server, case, &mut report).await?;
        }
        for case in args.workers.iter().copied() {
            worker::run(case, args, kind, server, &mut report).await?;
        }
        for case in &args.http {
            let mut line = Line::new(kind.name(), case.name());
            for repeat in 1..=args.repeat {
                eprintln!("{} {}: run {repeat} of {}", kind.name(), case.name(), args.repeat);
                line.samples.push(http::run(*case, kind, server, args.jobs).await?);
            }
            report.lines.push(line);
        }
        let say = |text: String| eprintln!("{} {text}", kind.name());
        if args.growth {
            let subject = Subject::open(kind, server).await?;
            let growth = growth::run(&subject, &args.growth_sizes(kind), &say).await?;
            subject.close().await?;
            report.growth.push((kind, growth));
        }
        if args.pinned && kind == Kind::Postgres {
            let subject = Subject::open(kind, server).await?;
            let growth = pinned::run(&subject, args.pinned_jobs(), &say).await?;
            subject.close().await?;
            report.growth.push((kind, growth));
        }
        if args.retention {
            let subject = Subject::open(kind, server).await?;
            let (numbers, removed) = retention::run(&subject, args.finished, args.alone(), &say).await?;
            let mut found = Found { store: kind.name(), case: "retention", numbers };
            let dead = subject.removed_rows().await?;
            found
                .numbers
                .extend(dead.map(|rows| ("dead rows per removed job", rows as f64 / removed.removed as f64)));
            subject.close().await?;
            report.workers.push(found);
        }
        if args.lanes {
            let subject = Subject::open(kind, server).await?;
            let (growth, ratios) = lanes::run(&subject, &args.lane_sizes(), &say).await?;
            subject.close().await?;
            let found = |numbers| Found { store: kind.name(), case: "lanes", numbers };
            report.workers.extend(ratios.into_iter().map(found));
            report.growth.push((kind, growth));
        }
    }
    Ok(report)
}

/// Runs a case as often as asked, each time right after the raw limit and the peers it is compared with.
async fn run_case(
    args: &Args,
    kind: Kind,
    server: Option<&Server>,
    case: &Case,
    report: &mut Report,
) -> Tried<()> {
    let count = (args.jobs / case.part).max(1);
    let mut line = Line::new(kind.name(), case.name);
    let mut beside = Beside::new(args, kind, server);
    for repeat in 1..=args.repeat {
        eprintln!("{} {}: run {repeat} of {}", kind.name(), case.name, args.repeat);
        let mut raw = None;
        if let Some((limit, rows)) = case.limit {
            raw = run_limit(limit, kind, server, count, report).await?.map(|raw| raw / rows);
            if (limit, kind) == (Limit::Insert, Kind::Postgres) {
                run_limit(Limit::Unprepared, kind, server, count, report).await?;
                run_limit(Limit::Arrays, kind, server, count, report).await?;
            }
        }
        let fastest = match case.of_peer() {
            Some(ask) => beside.ask(case.name, ask, count).await?,
            None => None,
        };
        let subject = Subject::open(kind, server).await?;
        let mut sample = case.run(&subject, count).await?;
        sample.dead_rows = subject.close().await?;
        line.ratios.extend(raw.map(|raw| sample.per_second() / raw));
        line.of_peer.extend(fastest.map(|fastest| sample.per_second() / fastest));
        line.samples.push(sample);
    }
    report.lines.extend(beside.lines);
    report.lines.push(line);
    Ok(())
}

/// Runs a raw limit in a database of its own and answers its rows per second; nothing where there is no database.
async fn run_limit(
    limit: Limit,
    kind: Kind,
    server: Option<&Server>,
    count: usize,
    report: &mut Report,
) -> Tried<Option<f64>> {
    // One by one takes long, and says as much of fewer.
    let count = if limit == Limit::Commit { count.min(COMMITS) } else { count };
    let sample = match (kind, server) {
        (Kind::Sqlite, _) => raw::sqlite::run(limit, subject::folder()?.path(), count).await?,
        (Kind::Postgres, Some(server)) => {
            let database = server.database().await?;
            let mut sample = raw::postgres::run(limit, &database, count).await?;
            sample.dead_rows = Some(database.close().await?);
            sample
        }
        _ => return Ok(None),
    };
    report.raw(kind, limit).samples.push(sample);
    Ok(Some(sample.per_second()))
}
