//! Leases beside the store, in Redis: `jobrun:lease:{id}` says who holds a job, for whoever looks there.
//!
//! Nothing waits for Redis and nothing depends on it. What cannot be written is counted and told once; the next renewal
//! writes it again, and a key whose worker died goes by itself when its lease is over.

use crate::mirror::{LeaseMirror, LeaseNote};
use crate::task;
use metrics::counter;
use redis::aio::MultiplexedConnection;
use redis::{Client, Pipeline, RedisResult};
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver, Sender, error::TrySendError};
use tokio::time::timeout;
use windlass_core::{Invalid, JobId};

/// How long Redis may take for a batch, its connection included.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much is written at once.
const BATCH: usize = 256;
/// How much may wait to be written.
const WAITING: usize = 10_000;

/// Shows a lease, unless a newer one of the job is shown: KEYS the key, ARGV fence, text, milliseconds.
const HOLDS: &str = "local there = redis.call('GET', KEYS[1])
if there and cjson.decode(there).fence > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1";
/// Removes a lease, unless another one of the job is shown: KEYS the key, ARGV fence.
const LET_GO: &str = "local there = redis.call('GET', KEYS[1])
if there and cjson.decode(there).fence == tonumber(ARGV[1]) then return redis.call('DEL', KEYS[1]) end return 0";

/// Where leases are shown in Redis.
#[derive(Debug)]
pub struct RedisLeases {
    notes: Sender<Note>,
}

#[derive(Debug)]
enum Note {
    Holds(LeaseNote),
    LetGo(JobId, i64),
}

impl RedisLeases {
    /// In the Redis of this URL, such as `redis://localhost/0`. It may be away, now or later. Must be called inside of a
    /// runtime, on which it then lives.
    ///
    /// # Errors
    /// If the URL is none.
    pub fn new(url: &str) -> Result<Self, Invalid> {
        let wrong = |_| Invalid::new("redis", "malformed", "must be a URL like redis://localhost:6379/0");
        let client = Client::open(url).map_err(wrong)?;
        let (notes, waiting) = mpsc::channel(WAITING);
        task::detach(write_all(client, waiting));
        Ok(Self { notes })
    }

    fn note(&self, note: Note) {
        if let Err(TrySendError::Full(_)) = self.notes.try_send(note) {
            failed(1);
        }
    }
}

impl LeaseMirror for RedisLeases {
    fn holds(&self, lease: LeaseNote) {
        self.note(Note::Holds(lease));
    }

    fn let_go(&self, job: JobId, fence: i64) {
        self.note(Note::LetGo(job, fence));
    }
}

fn failed(leases: usize) {
    counter!("windlass_redis_lease_failed_total").increment(leases as u64);
}

/// Writes what comes until nobody is left who could say more.
async fn write_all(client: Client, mut notes: Receiver<Note>) {
    let (mut connection, mut batch, mut is_away) = (None, Vec::new(), false);
    while notes.recv_many(&mut batch, BATCH).await > 0 {
        let written = timeout(PATIENCE, write(&client, &mut connection, &batch)).await;
        let why = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it does not answer".to_owned()),
        };
        if let Some(why) = &why {
            failed(batch.len());
            connection = None;
            if !is_away {
                tracing::warn!(
                    why,
                    "leases are not shown in Redis; the store alone knows them, as it decides them"
                );
            }
        } else if is_away {
            tracing::info!("leases are shown in Redis again");
        }
        is_away = why.is_some();
        batch.clear();
    }
}

async fn write(
    client: &Client,
    connection: &mut Option<MultiplexedConnection>,
    notes: &[Note],
) -> RedisResult<()> {
    let connection = match connection {
        Some(open) => open,
        none => none.insert(client.get_multiplexed_async_connection().await?),
    };
    let mut pipeline = redis::pipe();
    for note in notes {
        command(&mut pipeline, note);
    }
    pipeline.query_async(connection).await
}

fn command(pipeline: &mut Pipeline, note: &Note) {
    let (script, job, fence) = match note {
        Note::Holds(lease) => (HOLDS, lease.job, lease.fence),
        Note::LetGo(job, fence) => (LET_GO, *job, *fence),
    };
    pipeline.cmd("EVAL").arg(script).arg(1).arg(format!("jobrun:lease:{job}")).arg(fence);
    if let Note::Holds(LeaseNote { worker, attempt, fence, lasts, .. }) = note {
        let text = serde_json::json!({ "worker_id": worker, "attempt": attempt, "fence": fence }).to_string();
        pipeline.arg(text).arg(lasts.as_millis().max(1) as u64);
    }
    pipeline.ignore();
}
