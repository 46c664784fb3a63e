//! The HTTP API under load: the real server in a process of its own, and connections that each wait for every answer.

use crate::Tried;
use crate::args::Kind;
use crate::measure::{Gauge, Sample, clock, cpu_time};
use crate::postgres::Server;
use crate::subject::folder;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Connections that enqueue.
const CONNECTIONS: usize = 64;
/// Connections that claim and complete, and jobs per request.
const LOOPS: usize = 4;
const BATCH: usize = 100;
/// Jobs per request while a queue is filled, which is not measured.
const FILL: usize = 1_000;
/// How long the server may take to start.
const START: Duration = Duration::from_secs(60);

/// What can be asked of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// One job per request, answered with the job.
    Enqueue,
    /// The same, answered with the id alone.
    EnqueueShort,
    /// Claim 100, complete 100.
    Drain,
}

impl Case {
    pub const ALL: [Self; 3] = [Self::Enqueue, Self::EnqueueShort, Self::Drain];

    pub fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "http-enqueue",
            Self::EnqueueShort => "http-short",
            Self::Drain => "http-drain",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::Enqueue => "through a server: 64 connections, one job per request",
            Self::EnqueueShort => "the same with `Prefer: return=minimal`",
            Self::Drain => "through a server: 4 connections, claim 100, complete 100",
        }
    }
}

/// Runs a case on a fresh store. The CPU time of the server is that of its process, without the database's.
pub async fn run(case: Case, kind: Kind, server: Option<&Server>, count: usize) -> Tried<Sample> {
    let folder = folder()?;
    let database = match (kind, server) {
        (Kind::Postgres, Some(server)) => Some(server.database().await?),
        _ => None,
    };
    let url = match (&database, kind) {
        (Some(database), _) => database.url().to_owned(),
        (None, Kind::Memory) => "memory:".to_owned(),
        (None, _) => format!("sqlite:{}", folder.path().join("windlass.db").display()),
    };
    let served = Served::start(&url, folder.path()).await?;
    let sample = match case {
        Case::Enqueue => enqueue(&served, count, "").await,
        Case::EnqueueShort => enqueue(&served, count, "prefer: return=minimal\r\n").await,
        Case::Drain => drain(&served, count).await,
    };
    drop(served);
    if let Some(database) = database {
        database.close().await?;
    }
    sample
}

async fn enqueue(served: &Served, count: usize, headers: &'static str) -> Tried<Sample> {
    let each = count.div_ceil(CONNECTIONS);
    let mut calling = JoinSet::new();
    let mut callers = Vec::new();
    for _ in 0..CONNECTIONS {
        callers.push(Caller::connect(&served.address).await?);
    }
    let meter = Metered::start(served);
    for mut caller in callers {
        let body = new_job().to_string();
        calling.spawn(async move {
            for _ in 0..each {
                caller.post("/v1/jobs", headers, &body, 201).await?;
            }
            Tried::Ok(())
        });
    }
    while let Some(ended) = calling.join_next().await {
        ended??;
    }
    Ok(meter.stop(each * CONNECTIONS))
}

async fn drain(served: &Served, count: usize) -> Tried<Sample> {
    let mut caller = Caller::connect(&served.address).await?;
    let mut left = count;
    while left > 0 {
        let some = left.min(FILL);
        let body = json!({ "jobs": vec![new_job(); some] }).to_string();
        caller.post("/v1/jobs/batch", "", &body, 201).await?;
        left -= some;
    }
    let mut draining = JoinSet::new();
    let mut callers = Vec::new();
    for _ in 0..LOOPS {
        callers.push(Caller::connect(&served.address).await?);
    }
    let meter = Metered::start(served);
    for (n, mut caller) in callers.into_iter().enumerate() {
        draining.spawn(async move {
            let claim = json!({ "queues": ["default"], "worker_id": format!("w{n}"), "max": BATCH }).to_string();
            let mut done = 0;
            loop {
                let taken: Value =
                    serde_json::from_slice(caller.post("/v1/claim", "", &claim, 200).await?)?;
                let jobs = taken["jobs"].as_array().ok_or("a claim without jobs")?;
                if jobs.is_empty() {
                    return Tried::Ok(done);
                }
                let item = |job: &Value| {
                    json!({ "job_id": job["id"], "lease_token": job["lease"]["token"], "outcome": "complete" })
                };
                let items: Vec<Value> = jobs.iter().map(item).collect();
                done += items.len();
                caller.post("/v1/settle", "", &json!({ "items": items }).to_string(), 200).await?;
            }
        });
    }
    let mut done = 0;
    while let Some(ended) = draining.join_next().await {
        done += ended??;
    }
    if done != count {
        return Err(format!("{done} of {count} jobs were drained").into());
    }
    Ok(meter.stop(count))
}

fn new_job() -> Value {
    json!({ "kind": "work", "payload": { "to": "somebody@example.org", "text": "x".repeat(120) } })
}

/// Measures both processes.
struct Metered {
    began: std::time::Instant,
    own: Option<Duration>,
    server: String,
    of_server: Option<Duration>,
}

impl Metered {
    fn start(served: &Served) -> Self {
        let server = served.child.id().to_string();
        Self { of_server: cpu_time(&server), own: cpu_time("self"), server, began: clock() }
    }

    fn stop(self, count: usize) -> Sample {
        let wall = self.began.elapsed();
        let since = |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        let server = Gauge { cpu: since(cpu_time(&self.server), self.of_server), wal_bytes: 0 };
        let cpu = since(cpu_time("self"), self.own);
        Sample { count, wall, cpu, server: Some(server), dead_rows: None }
    }
}

/// A server that runs; it is ended with this.
struct Served {
    address: String,
    child: Child,
}

impl Served {
    async fn start(url: &str, folder: &Path) -> Tried<Self> {
        let binary = std::env::current_exe()?.with_file_name("windlass");
        if !binary.exists() {
            let how = "build it first: cargo build --release -p windlass-cli";
            return Err(format!("there is no {}; {how}", binary.display()).into());
        }
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mut command = Command::new(binary);
        command.args(["serve", "--store", url, "--listen", &address]).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        let served = Self { address, child: command.spawn()? };
        let until = clock() + START;
        while Caller::connect(&served.address).await.is_err() {
            if clock() > until {
                return Err(format!("the server does not listen on {}", served.address).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection, kept. It does as little as it can, for it shares the machine with the server.
struct Caller {
    stream: TcpStream,
    address: String,
    buffer: Vec<u8>,
}

impl Caller {
    async fn connect(address: &str) -> Tried<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address: address.to_owned(), buffer: Vec::new() })
    }

    /// Sends a request and answers the body of its answer, which must have this status.
    async fn post(&mut self, path: &str, headers: &str, body: &str, status: u16) -> Tried<&[u8]> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        let head = loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed a connection".into());
            }
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        if text.get(9..12) != Some(status.to_string().as_str()) {
            return Err(format!("{path} was answered {}", String::from_utf8_lossy(&self.buffer)).into());
        }
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let end = head + length.ok_or("an answer without a length")?.parse::<usize>()?;
        while self.buffer.len() < end {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed a connection".into());
            }
        }
        Ok(&self.buffer[head..end])
    }
}
