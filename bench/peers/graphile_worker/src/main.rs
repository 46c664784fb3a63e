//! Does with graphile_worker what the benchmark of Windlass does, in a database of its own:
//!
//! ```text
//! drain URL JOBS CONCURRENCY LOCAL_QUEUE DELAY_MS   fills the queue, then drains it
//! enqueue URL JOBS CALLERS                          so many callers, one job per call, each awaited
//! batch URL JOBS SIZE                               one caller, so many jobs per call
//! pickup URL SAMPLES CONCURRENCY                    how soon an idle worker begins a job
//! ```
//!
//! Each prints `ready`, waits for a line, works, and prints what it took as JSON. Its settings are documented at
//! <https://docs.rs/graphile_worker>; those that are not given are its defaults.

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

type Tried<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Jobs per call while a queue is filled.
const BATCH: usize = 1_000;
/// Linux counts CPU time in hundredths of a second.
const CPU_TICK: f64 = 0.01;

/// A job that does nothing but to say that it began.
#[derive(Serialize, Deserialize)]
struct Noop {
    n: usize,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        match context.get_ext::<Begun>() {
            Some(Begun::Counted { left, all }) => {
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    all.notify_one();
                }
            }
            Some(Begun::At(tell)) => drop(tell.send(Instant::now())),
            None => return Err("nobody counts".to_owned()),
        }
        Ok(())
    }
}

/// What a job does when it begins.
#[derive(Debug, Clone)]
enum Begun {
    Counted { left: Arc<AtomicUsize>, all: Arc<Notify> },
    At(mpsc::UnboundedSender<Instant>),
}

#[tokio::main]
async fn main() -> Tried<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<usize>();
    let said = match words[..] {
        ["drain", url, jobs, concurrency, local, delay] => {
            drain(url, number(jobs)?, number(concurrency)?, number(local)?, number(delay)?).await?
        }
        ["enqueue", url, jobs, callers] => enqueue(url, number(jobs)?, number(callers)?).await?,
        ["batch", url, jobs, size] => batch(url, number(jobs)?, number(size)?).await?,
        ["pickup", url, samples, concurrency] => pickup(url, number(samples)?, number(concurrency)?).await?,
        _ => return Err("say drain, enqueue, batch or pickup, with its numbers; see src/main.rs".into()),
    };
    println!("{said}");
    Ok(())
}

fn options(url: &str) -> WorkerOptions {
    WorkerOptions::default().database_url(url).listen_os_shutdown_signals(false).define_job::<Noop>()
}

/// The schema and what enqueues into it.
async fn utils(url: &str) -> Tried<WorkerUtils> {
    Ok(options(url).init().await?.create_utils())
}

/// Says that everything is there, and waits until the benchmark has its meters running.
async fn ready() -> Tried<()> {
    println!("ready");
    let told = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    match told.await?? {
        0 => Err("the benchmark is gone".into()),
        _ => Ok(()),
    }
}

/// What a stretch of work took.
struct Meter {
    began: Instant,
    cpu_s: f64,
}

impl Meter {
    fn start() -> Tried<Self> {
        Ok(Self { cpu_s: cpu_s()?, began: Instant::now() })
    }

    /// `left` is how many jobs are not as they should be.
    fn stop(self, left: usize) -> Tried<Value> {
        let wall_s = self.began.elapsed().as_secs_f64();
        Ok(json!({ "wall_s": wall_s, "cpu_s": cpu_s()? - self.cpu_s, "left": left }))
    }
}

/// CPU time of this process so far, user and system.
fn cpu_s() -> Tried<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let ticks = |n: usize| -> Tried<f64> { Ok(fields.get(n).ok_or("a short /proc/self/stat")?.parse()?) };
    Ok((ticks(11)? + ticks(12)?) * CPU_TICK)
}

async fn drain(url: &str, count: usize, concurrency: usize, local: usize, delay_ms: usize) -> Tried<Value> {
    let utils = utils(url).await?;
    for from in (0..count).step_by(BATCH) {
        let jobs: Vec<RawJobSpec> =
            (from..count.min(from + BATCH)).map(|n| spec(json!({ "n": n }))).collect();
        utils.add_raw_jobs(&jobs).await?;
    }
    ready().await?;
    let (left, all) = (Arc::new(AtomicUsize::new(count)), Arc::new(Notify::new()));
    let delay = Duration::from_millis(delay_ms as u64);
    let meter = Meter::start()?;
    let worker = options(url)
        .concurrency(concurrency)
        .local_queue(LocalQueueConfig::default().with_size(local))
        .complete_job_batch_delay(delay)
        .fail_job_batch_delay(delay)
        .add_extension(Begun::Counted { left: Arc::clone(&left), all: Arc::clone(&all) })
        .init()
        .await?;
    // Running ends when what is still to be written is: until then nothing is durable.
    let (ran, ()) = tokio::join!(worker.run(), async {
        all.notified().await;
        worker.request_shutdown();
    });
    ran?;
    let took = meter.stop(left.load(Ordering::Relaxed))?;
    Ok(took)
}

/// One job of the payload that the benchmark of Windlass enqueues.
fn spec(payload: Value) -> RawJobSpec {
    RawJobSpec { identifier: Noop::IDENTIFIER.into(), payload, spec: JobSpec::default() }
}

fn payload(n: usize) -> Value {
    json!({
        "order": format!("{n:06}"), "to": "someone@example.org", "template": "order-received", "locale": "en",
        "items": [{ "sku": "A-1047", "count": 2 }, { "sku": "B-220", "count": 1 }],
    })
}

async fn enqueue(url: &str, count: usize, callers: usize) -> Tried<Value> {
    let utils = Arc::new(utils(url).await?);
    ready().await?;
    let each = count.div_ceil(callers);
    let mut calling = tokio::task::JoinSet::new();
    let meter = Meter::start()?;
    for _ in 0..callers {
        let utils = Arc::clone(&utils);
        calling.spawn(async move {
            for n in 0..each {
                utils.add_raw_job(Noop::IDENTIFIER, payload(n), JobSpec::default()).await?;
            }
            Tried::Ok(())
        });
    }
    while let Some(called) = calling.join_next().await {
        called??;
    }
    meter.stop(0)
}

async fn batch(url: &str, count: usize, size: usize) -> Tried<Value> {
    let utils = utils(url).await?;
    let jobs: Vec<RawJobSpec> = (0..count).map(|n| spec(payload(n))).collect();
    ready().await?;
    let meter = Meter::start()?;
    let mut added = 0;
    for batch in jobs.chunks(size) {
        added += utils.add_raw_jobs(batch).await?.len();
    }
    meter.stop(count - added)
}

/// From the acknowledged enqueue to the handler's first line, and from the call of enqueue, in milliseconds. What
/// enqueues shares nothing with the worker but the database.
async fn pickup(url: &str, samples: usize, concurrency: usize) -> Tried<Value> {
    let utils = utils(url).await?;
    let (tell, mut told) = mpsc::unbounded_channel();
    let worker = options(url).concurrency(concurrency).add_extension(Begun::At(tell)).init().await?;
    ready().await?;
    let asked = async {
        // It listens before long.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (mut took, mut whole) = (Vec::new(), Vec::new());
        let ms = |took: Duration| took.as_secs_f64() * 1e3;
        for n in 0..samples {
            // The rhythm in which Windlass is asked.
            tokio::time::sleep(Duration::from_micros(8_000 + (n as u64 * 7_919) % 12_000)).await;
            let called = Instant::now();
            utils.add_raw_job(Noop::IDENTIFIER, json!({ "n": n }), JobSpec::default()).await?;
            let acknowledged = Instant::now();
            let begun = told.recv().await.ok_or("the worker is gone")?;
            took.push(ms(begun.saturating_duration_since(acknowledged)));
            whole.push(ms(begun - called));
        }
        worker.request_shutdown();
        Tried::Ok(json!([took, whole]))
    };
    let (ran, found) = tokio::join!(worker.run(), asked);
    ran?;
    found
}
