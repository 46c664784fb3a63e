//! What is measured. Names are contract. Counts go through the `metrics` facade; what a scrape asks of the store is
//! asked at most every few seconds, whoever scrapes.

use crate::app::App;
use axum::http::{Method, StatusCode};
use metrics::{
    Counter, Histogram, Recorder, counter, describe_counter, describe_gauge, describe_histogram, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_util::layers::FanoutBuilder;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::Refusal;
use windlass_store::fresh;

/// How long what the store said is shown again.
const SHOWN: Duration = Duration::from_secs(5);
/// Up to where jobs are counted.
const CAP: i64 = 10_000;
/// Seconds by which durations are told apart.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 60.0];

/// Who else is given every count.
type Also = Box<dyn Recorder + Send + Sync>;

/// Gives every count to another recorder too, beside `/metrics`. To be called before the first [`Server`](crate::Server) is
/// made; false if it came too late.
pub fn record_also(recorder: impl Recorder + Send + Sync + 'static) -> bool {
    handle(Some(Box::new(recorder))).1
}

fn recorder() -> Option<&'static PrometheusHandle> {
    handle(None).0
}

/// The recorder of this process, unless somebody installed another one: then that one is asked for the counts. And whether
/// it was installed just now.
fn handle(also: Option<Also>) -> (Option<&'static PrometheusHandle>, bool) {
    static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let mut fresh = false;
    let install = || {
        fresh = true;
        let builder = PrometheusBuilder::new();
        let builder =
            builder.set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS).ok()?;
        let own = builder.build_recorder();
        let handle = own.handle();
        match also {
            Some(also) => {
                let both = FanoutBuilder::default().add_recorder(own).add_recorder(also).build();
                metrics::set_global_recorder(both).ok()?;
            }
            None => metrics::set_global_recorder(own).ok()?,
        }
        describe_counter!("windlass_http_requests_total", "requests answered, by method, route and status");
        describe_histogram!("windlass_http_request_duration_seconds", "how long requests took");
        describe_counter!("windlass_lease_lost_total", "leases that were lost");
        describe_gauge!("windlass_leader", "whether this process leads: 1 or 0");
        describe_gauge!("windlass_leader_epoch", "the epoch under which this process led last");
        describe_counter!("windlass_leader_changes_total", "how often this process became leader");
        describe_counter!(
            "windlass_queue_breaks_total",
            "how often breakers of queues broke them or mended them"
        );
        describe_counter!("windlass_assigned_total", "jobs of push queues that this process assigned");
        describe_counter!("windlass_access_refused_total", "requests refused for want of a right, by code");
        describe_counter!(
            "windlass_refusals_unrecorded_total",
            "refused votes of strangers beyond those on record"
        );
        Some(handle)
    };
    let handle = HANDLE.get_or_init(install).as_ref();
    (handle, fresh && handle.is_some())
}

/// What is counted per route and status.
type Counted = (Counter, Histogram);

/// What the server counts.
pub(crate) struct Metrics {
    in_flight: AtomicU64,
    lease_lost: Counter,
    /// Handles are made once per route and status: to look one up by its labels costs more than to count.
    routes: Mutex<HashMap<(Method, &'static str, u16), Counted>>,
    /// What the store said, and when. An async lock: one asks, the others wait for the answer.
    shown: tokio::sync::Mutex<Option<(Instant, Arc<str>)>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        recorder();
        let lease_lost = counter!("windlass_lease_lost_total");
        lease_lost.increment(0);
        let in_flight = AtomicU64::new(0);
        Self { in_flight, lease_lost, routes: Mutex::default(), shown: tokio::sync::Mutex::default() }
    }

    /// A request began.
    pub(crate) fn began(&self) -> Request<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Request { metrics: self }
    }

    /// Access was refused.
    pub(crate) fn denied(&self, code: &'static str) {
        counter!("windlass_access_refused_total", "code" => code).increment(1);
    }

    /// A refusal of a stranger was counted instead of put on record.
    pub(crate) fn unrecorded(&self) {
        counter!("windlass_refusals_unrecorded_total").increment(1);
    }

    /// A holder was refused; it may have lost its lease.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        if matches!(refusal, Refusal::NotLeased(_) | Refusal::Expired | Refusal::Mismatch) {
            self.lease_lost.increment(1);
        }
    }

    /// Keeps what was measured from growing; to be called now and then.
    pub(crate) fn tidy(&self) {
        if let Some(handle) = recorder() {
            handle.run_upkeep();
        }
    }
}

/// A request that is being answered, or was given up by its caller.
pub(crate) struct Request<'a> {
    metrics: &'a Metrics,
}

impl Request<'_> {
    /// It was answered.
    pub(crate) fn ended(self, method: &Method, route: &'static str, status: StatusCode, took: Duration) {
        let key = (method.clone(), route, status.as_u16());
        let mut routes = self.metrics.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, duration) = routes.entry(key).or_insert_with(|| {
            let labels = [("method", method.to_string()), ("route", route.to_owned()), ("status", status.as_str().to_owned())];
            (
                counter!("windlass_http_requests_total", &labels),
                histogram!("windlass_http_request_duration_seconds", "method" => method.to_string(), "route" => route),
            )
        });
        count.increment(1);
        duration.record(took.as_secs_f64());
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Everything, in Prometheus' text format.
pub(crate) async fn render(app: &App) -> String {
    let mut text = recorder().map(PrometheusHandle::render).unwrap_or_default();
    let shown = {
        let mut shown = app.metrics.shown.lock().await;
        match &*shown {
            Some((at, text)) if at.elapsed() < SHOWN => Arc::clone(text),
            _ => {
                let fresh: Arc<str> = ask(app).await.into();
                *shown = Some((Instant::now(), Arc::clone(&fresh)));
                fresh
            }
        }
    };
    text.push_str(&shown);
    let in_flight = app.metrics.in_flight.load(Ordering::Relaxed) as f64;
    one(&mut text, "windlass_http_requests_in_flight", "requests that are being answered", in_flight);
    one(
        &mut text,
        "windlass_feed_lag_seconds",
        "how far the reader of the feed is behind",
        app.hub.lag_seconds(),
    );
    one(&mut text, "windlass_feed_listeners", "streams of events that are open", app.hub.listeners() as f64);
    one(&mut text, "windlass_claims_waiting", "claims that wait for a job", app.desk.waiting() as f64);
    text
}

/// What only the store knows.
async fn ask(app: &App) -> String {
    let mut text = String::new();
    let answers = (app.store.queues(CAP, None).await, app.store.counts(CAP, None).await);
    let is_up = answers.0.is_ok() && answers.1.is_ok();
    one(&mut text, "windlass_store_up", "whether the store answers", f64::from(u8::from(is_up)));
    let (Ok(queues), Ok(counts)) = answers else { return text };
    let now = fresh::wall_clock().as_micros();
    head(
        &mut text,
        "windlass_queue_oldest_due_seconds",
        "how long the oldest due job of a queue has been due",
    );
    for state in &queues {
        let oldest = state.oldest_due_at.map_or(0, |at| now.saturating_sub(at.as_micros()).max(0));
        line(
            &mut text,
            "windlass_queue_oldest_due_seconds",
            "queue",
            state.queue.name.as_str(),
            oldest as f64 / 1e6,
        );
    }
    head(&mut text, "windlass_queue_due_jobs", "jobs that a worker could take now, counted up to 10000");
    for state in &queues {
        line(&mut text, "windlass_queue_due_jobs", "queue", state.queue.name.as_str(), state.due.n as f64);
    }
    head(&mut text, "windlass_queue_paused", "whether a queue is paused");
    for state in &queues {
        let paused = f64::from(u8::from(state.queue.paused.is_some()));
        line(&mut text, "windlass_queue_paused", "queue", state.queue.name.as_str(), paused);
    }
    head(&mut text, "windlass_jobs", "jobs by status, counted up to 10000");
    for (status, count) in counts.statuses {
        line(&mut text, "windlass_jobs", "status", status.as_str(), count.n as f64);
    }
    text
}

fn head(text: &mut String, name: &str, about: &str) {
    let _ = write!(text, "# HELP {name} {about}\n# TYPE {name} gauge\n");
}

/// Labels are names and words: nothing in them needs an escape.
fn line(text: &mut String, name: &str, label: &str, value: &str, number: f64) {
    let _ = writeln!(text, "{name}{{{label}=\"{value}\"}} {number}");
}

fn one(text: &mut String, name: &str, about: &str, number: f64) {
    head(text, name, about);
    let _ = writeln!(text, "{name} {number}");
}
