//! Leases shown in a real Redis, beside the store that decides: `jobrun:lease:{id}`.

#![cfg(feature = "redis")]

mod bed;

use bed::{Bed, Gate, Running, handler, until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{JobId, Status};
use windlass_engine::{LeaseMirror, LeaseNote, RedisLeases};

/// A server of this test's own. It ends with this.
struct Redis {
    port: u16,
    child: Child,
}

impl Redis {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        Self::start_on(port)
    }

    fn start_on(port: u16) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/program");
        let port_text = port.to_string();
        let words =
            ["redis-server", "redis-server", "--port", &port_text, "--bind", "127.0.0.1", "--save", ""];
        let child = Command::new(script).args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let redis = Self { port, child: child.expect("a redis-server") };
        for _ in 0..2_000 {
            if redis.try_ask(&["PING"]).is_some_and(|answer| answer.contains("PONG")) {
                return redis;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the redis-server does not answer");
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// What it answers to a command, as it comes over the wire.
    fn try_ask(&self, words: &[&str]) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let line: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        stream.write_all(format!("*{}\r\n{line}", words.len()).as_bytes()).ok()?;
        let mut bytes = [0; 4_096];
        let read = stream.read(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..read]).into_owned())
    }

    /// What is shown of a job's lease; none if nothing is.
    fn lease(&self, job: JobId) -> Option<serde_json::Value> {
        let answer = self.try_ask(&["GET", &format!("jobrun:lease:{job}")]).expect("Redis answers");
        answer.lines().nth(1).map(|text| serde_json::from_str(text).expect("JSON"))
    }

    fn lasts_ms(&self, job: JobId) -> i64 {
        let answer = self.try_ask(&["PTTL", &format!("jobrun:lease:{job}")]).expect("Redis answers");
        answer.trim().trim_start_matches(':').parse().expect("a number")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

on_every_store! {
    /// R9: a lease is shown from claim to settle, with the fence of its attempt, and is gone with it.
    #[test]
    async fn leases_are_shown_while_they_are_held(bed: Bed) {
        let redis = Redis::start();
        let gate = Gate::new();
        let mirror = Arc::new(RedisLeases::new(&redis.url()).expect("a URL"));
        let worker = bed.worker().lease(Duration::from_secs(6)).leases_in(mirror).handle("work", gate.handler());
        let worker = Running::start(worker);
        let id = bed.put("work").await;
        gate.has_one().await;
        until("the lease is shown", || redis.lease(id).is_some()).await;
        let held = bed.job(id).await.job;
        let shown = redis.lease(id).expect("a lease");
        assert_eq!(shown["worker_id"], held.worker_id.expect("a holder").as_str());
        assert_eq!((&shown["attempt"], shown["fence"].as_i64()), (&1.into(), Some(1)));
        assert!((1..=6_000).contains(&redis.lasts_ms(id)), "{}", redis.lasts_ms(id));
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert!(redis.lasts_ms(id) > 0, "it is renewed past its first end");
        gate.open.add_permits(1);
        bed.until_is(id, Status::Completed).await;
        until("the lease is gone", || redis.lease(id).is_none()).await;
        worker.stop().await;
    }

    /// R9: with Redis away from the beginning, or gone in between, jobs run as without it; when it is back, leases are
    /// shown again.
    #[test]
    async fn with_redis_away_everything_goes_on(bed: Bed) {
        let redis = Redis::start();
        let (port, url) = (redis.port, redis.url());
        drop(redis);
        let mirror = Arc::new(RedisLeases::new(&url).expect("a URL"));
        let gate = Gate::new();
        let worker = bed.worker().lease(Duration::from_secs(6)).leases_in(mirror);
        let worker = Running::start(worker.handle("quick", handler(|_| async { Ok(None) })).handle("slow", gate.handler()));
        for _ in 0..20 {
            let id = bed.put("quick").await;
            bed.until_is(id, Status::Completed).await;
        }
        let slow = bed.put("slow").await;
        gate.has_one().await;
        let redis = Redis::start_on(port);
        until("the lease is shown again", || redis.lease(slow).is_some()).await;
        drop(redis);
        gate.open.add_permits(1);
        let done = bed.until_is(slow, Status::Completed).await;
        assert_eq!(done.job.attempt, 1, "no lease was lost by it");
        worker.stop().await;
    }
}

/// R9: an older lease of a job neither hides nor removes a newer one.
#[test]
fn a_newer_lease_is_not_hidden_by_an_older() {
    bed::wait_for(async {
        let redis = Redis::start();
        let mirror = RedisLeases::new(&redis.url()).expect("a URL");
        let job = windlass_store::fresh::job_id();
        let note = |fence: i64| LeaseNote {
            job,
            worker: bed::who("w"),
            attempt: fence as i32,
            fence,
            lasts: Duration::from_secs(60),
        };
        let fence = || redis.lease(job).and_then(|lease| lease["fence"].as_i64());
        mirror.holds(note(2));
        until("it is shown", || fence() == Some(2)).await;
        mirror.holds(note(1));
        mirror.let_go(job, 1);
        mirror.holds(note(3));
        until("the newest is shown", || fence() == Some(3)).await;
        mirror.let_go(job, 2);
        mirror.let_go(job, 3);
        until("it is gone", || fence().is_none()).await;
        assert!(RedisLeases::new("no url").is_err());
    });
}
