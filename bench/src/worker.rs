//! A worker as programs embed it, in its default configuration, through the facade: how soon it begins, how fast it
//! drains, what it costs when there is nothing to do. Beside it peers, drained in the same run.

use crate::args::{Args, Kind};
use crate::measure::{Meter, Sample, clock, percentile};
use crate::peer::Beside;
use crate::postgres::{Database, Server};
use crate::subject::folder;
use crate::table::{Line, Report};
use crate::{Tried, raw};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc};
use windlass::{Client, Context, Filter, Health, Job, Shutdown, Status, Worker};

/// How many jobs at once: what the first example of the README says.
const CONCURRENCY: usize = 32;
/// Jobs per enqueue while a queue is filled.
const BATCH: usize = 1_000;

/// The cases of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCase {
    Pickup,
    Noop,
    Idle,
}

impl WorkerCase {
    pub const ALL: [Self; 3] = [Self::Pickup, Self::Noop, Self::Idle];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pickup => "pickup",
            Self::Noop => "noop",
            Self::Idle => "idle",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::Pickup => "an idle worker: from the acknowledged enqueue to the handler's first line",
            Self::Noop => "one worker with its defaults drains jobs that do nothing; see --peer",
            Self::Idle => "CPU and transactions per second of a worker with nothing to do, over 10 s",
        }
    }
}

/// A job that does nothing.
#[derive(Serialize, Deserialize)]
struct Noop {
    n: usize,
}

impl Job for Noop {
    const KIND: &str = "noop";
    type Output = ();
}

/// A fresh store behind a client. Fields drop in order.
struct Site {
    client: Client,
    url: String,
    database: Option<Database>,
    _folder: Option<TempDir>,
}

impl Site {
    async fn open(kind: Kind, server: Option<&Server>) -> Tried<Self> {
        let (mut database, mut kept) = (None, None);
        let url = match (kind, server) {
            (Kind::Memory, _) => "memory:".to_owned(),
            (Kind::Sqlite, _) => {
                let folder = kept.insert(folder()?);
                format!("sqlite:{}", folder.path().join("windlass.db").display())
            }
            (Kind::Postgres, Some(server)) => database.insert(server.database().await?).url().to_owned(),
            (Kind::Postgres, None) => return Err("there is no PostgreSQL to measure".into()),
        };
        Ok(Self { client: windlass::connect(&url).await?, url, database, _folder: kept })
    }

    async fn close(self) -> Tried<Option<u64>> {
        drop(self.client);
        match self.database {
            Some(database) => database.close().await.map(Some),
            None => Ok(None),
        }
    }
}

/// What a case other than a drain came to, for people and programs.
pub struct Found {
    pub store: &'static str,
    pub case: &'static str,
    /// Names with their units, and values.
    pub numbers: Vec<(&'static str, f64)>,
}

/// Runs one case on one store.
pub async fn run(
    case: WorkerCase,
    args: &Args,
    kind: Kind,
    server: Option<&Server>,
    report: &mut Report,
) -> Tried<()> {
    match case {
        WorkerCase::Pickup => pickups(args, kind, server, report).await?,
        WorkerCase::Noop => noops(args, kind, server, report).await?,
        WorkerCase::Idle => report.workers.push(idle(kind, server, args.idle()).await?),
    }
    Ok(())
}

async fn noops(args: &Args, kind: Kind, server: Option<&Server>, report: &mut Report) -> Tried<()> {
    let mut line = Line::new(kind.name(), "noop");
    let mut beside = Beside::new(args, kind, server);
    for repeat in 1..=args.repeat {
        eprintln!("{} noop: run {repeat} of {}", kind.name(), args.repeat);
        let fastest = beside.drain(args.jobs).await?;
        let sample = noop(kind, server, args.jobs).await?;
        line.of_peer.extend(fastest.map(|fastest| sample.per_second() / fastest));
        line.samples.push(sample);
    }
    report.lines.extend(beside.lines);
    report.lines.push(line);
    Ok(())
}

/// Fills a queue, then drains it with one worker: from its start until it has ended with everything settled.
async fn noop(kind: Kind, server: Option<&Server>, count: usize) -> Tried<Sample> {
    let site = Site::open(kind, server).await?;
    for from in (0..count).step_by(BATCH) {
        site.client.enqueue_many((from..count.min(from + BATCH)).map(|n| Noop { n })).await?;
    }
    let (begun, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, told) = (Arc::clone(&begun), Arc::clone(&all));
    let worker =
        Worker::new(site.client.clone()).queue("default", CONCURRENCY).handle(move |_: Noop, _: Context| {
            if counted.fetch_add(1, Ordering::Relaxed) + 1 == count {
                told.notify_one();
            }
            async { Ok(()) }
        });
    let meter = Meter::start(site.database.as_ref()).await?;
    worker.run_until(all.notified()).await?;
    let mut sample = meter.stop(site.database.as_ref(), count).await?;
    let statuses = vec![Status::Pending, Status::Running, Status::Retry];
    let live = site.client.jobs(Filter { statuses, ..Filter::default() }, None).await?;
    if begun.load(Ordering::Relaxed) != count || !live.items.is_empty() {
        return Err("the worker ended, and not every job had".into());
    }
    sample.dead_rows = site.close().await?;
    Ok(sample)
}

/// How soon an idle worker begins: of a job of its own client and of another one's, beside the peer if asked for.
async fn pickups(args: &Args, kind: Kind, server: Option<&Server>, report: &mut Report) -> Tried<()> {
    for (peer, server) in Beside::new(args, kind, server).peers() {
        eprintln!("{} pickup: {} jobs", peer.name(), args.samples());
        let (took, whole) = peer.pickup(server, args.samples(), CONCURRENCY).await?;
        report.workers.push(Found { store: peer.name(), case: "pickup", numbers: spread(&took) });
        report.workers.push(Found { store: peer.name(), case: "whole-pickup", numbers: spread(&whole) });
    }
    // Memory belongs to one client.
    for other in [false, true].into_iter().take(if kind == Kind::Memory { 1 } else { 2 }) {
        let case = if other { "pickup, another client's" } else { "pickup" };
        eprintln!("{} {case}: {} jobs", kind.name(), args.samples());
        let Pickups { took, whole, raw } = pickup(kind, server, args.samples(), other).await?;
        if !raw.is_empty() {
            report.workers.push(Found { store: kind.name(), case: "raw-pickup", numbers: spread(&raw) });
        }
        report.workers.push(Found { store: kind.name(), case, numbers: spread(&took) });
        report.workers.push(Found { store: kind.name(), case: "whole-pickup", numbers: spread(&whole) });
    }
    Ok(())
}

fn spread(took: &[f64]) -> Vec<(&'static str, f64)> {
    let parts = [("p50 ms", 0.5), ("p90 ms", 0.9), ("p99 ms", 0.99), ("max ms", 1.0)];
    parts.map(|(name, part)| (name, percentile(took, part).unwrap_or(f64::NAN))).to_vec()
}

/// How long it took each time, in milliseconds.
#[derive(Default)]
struct Pickups {
    /// From the acknowledged enqueue to the handler's first line.
    took: Vec<f64>,
    /// From the call of enqueue.
    whole: Vec<f64>,
    /// An update and its commit.
    raw: Vec<f64>,
}

/// Enqueues one job at a time for an idle worker, through its own client or through another one. In turns with it, on
/// PostgreSQL, one row is updated twice, each time committed, and the second counts: the least that a claim after an
/// enqueue can take where server, disk and processor have slept as long.
async fn pickup(kind: Kind, server: Option<&Server>, samples: usize, other: bool) -> Tried<Pickups> {
    let site = Site::open(kind, server).await?;
    let producer = if other { windlass::connect(&site.url).await? } else { site.client.clone() };
    let row = match &site.database {
        Some(database) => Some(raw::postgres::Row::insert(database).await?),
        None => None,
    };
    let (tell, mut told) = mpsc::unbounded_channel::<Instant>();
    let worker =
        Worker::new(site.client.clone()).queue("default", CONCURRENCY).handle(move |_: Noop, _: Context| {
            let sent = tell.send(clock());
            async move { Ok(sent?) }
        });
    let (mut health, shutdown) = (worker.health(), Shutdown::new());
    let asked = async {
        health.wait_for(Health::is_ready).await?;
        let mut found = Pickups::default();
        // So long that the last job is settled and forgotten, and never in step with anybody's polls.
        let pause = |n| tokio::time::sleep(Duration::from_micros(8_000 + (n as u64 * 7_919) % 12_000));
        let ms = |took: Duration| took.as_secs_f64() * 1e3;
        for n in 0..samples {
            if let Some(row) = &row {
                pause(n).await;
                row.update().await?;
                let before = clock();
                row.update().await?;
                found.raw.push(ms(clock() - before));
            }
            pause(n).await;
            let called = clock();
            producer.enqueue(Noop { n }).await?;
            let acknowledged = clock();
            let begun = told.recv().await.ok_or("the worker is gone")?;
            // A handler may begin before its enqueuer has heard that the job is there.
            found.took.push(ms(begun.saturating_duration_since(acknowledged)));
            found.whole.push(ms(begun - called));
        }
        shutdown.graceful();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(found)
    };
    let (ran, found) = tokio::join!(worker.run(shutdown.clone()), asked);
    ran?;
    let found = found?;
    drop((producer, row));
    site.close().await?;
    Ok(found)
}

/// Watches a worker that has nothing to do.
async fn idle(
    kind: Kind,
    server: Option<&Server>,
    (alone, watched_for): (Duration, Duration),
) -> Tried<Found> {
    eprintln!("{} idle: {watched_for:?}", kind.name());
    let site = Site::open(kind, server).await?;
    let worker = Worker::new(site.client.clone())
        .queue("default", CONCURRENCY)
        .handle(|_: Noop, _: Context| async { Ok(()) });
    let mut numbers = Vec::new();
    let watched = async {
        tokio::time::sleep(alone).await;
        let database = site.database.as_ref();
        let before = transactions(database).await;
        let meter = Meter::start(database).await;
        tokio::time::sleep(watched_for).await;
        let sample = match meter {
            Ok(meter) => meter.stop(database, 1).await,
            Err(error) => Err(error),
        };
        (before, sample, transactions(database).await)
    };
    let mut seen = None;
    worker.run_until(async { seen = Some(watched.await) }).await?;
    let (before, sample, after) = seen.ok_or("the worker ended by itself")?;
    let (before, sample, after) = (before?, sample?, after?);
    let seconds = sample.wall.as_secs_f64();
    numbers.extend(sample.cpu_us().map(|us| ("CPU %", us / 1e4 / seconds)));
    numbers.extend(sample.server_cpu_us().map(|us| ("server CPU %", us / 1e4 / seconds)));
    numbers.extend(
        after.zip(before).map(|(after, before)| ("transactions/s", (after - before) as f64 / seconds)),
    );
    site.close().await?;
    Ok(Found { store: kind.name(), case: "idle", numbers })
}

/// Transactions of the database so far, without those that ask this.
async fn transactions(database: Option<&Database>) -> Tried<Option<i64>> {
    match database {
        Some(database) => database.transactions().await.map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_case_runs() {
        let words = ["--quick", "--store", "sqlite", "--repeat", "2"].map(str::to_owned);
        let args = Args::parse(words).unwrap().unwrap();
        let mut report = Report::default();
        for case in WorkerCase::ALL {
            run(case, &args, Kind::Sqlite, None, &mut report).await.unwrap();
        }
        let cases: Vec<_> = report.workers.iter().map(|found| found.case).collect();
        assert_eq!(cases, ["pickup", "whole-pickup", "pickup, another client's", "whole-pickup", "idle"]);
        assert_eq!(report.lines[0].samples.iter().map(|sample| sample.count).sum::<usize>(), 2 * args.jobs);
    }
}
