//! What can be seen from outside: metrics by their names, a span per attempt, layers around handlers.

mod bed;

use bed::{Bed, Running, error_of, handler, new_job};
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder};
use metrics::{SharedString, Unit};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::timeout::TimeoutLayer;
use tracing::field::{Field, Visit};
use tracing::span;
use windlass_core::Status;
use windlass_engine::{HandlerError, TraceContext};

/// Everything that was counted, by name and labels.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<BTreeMap<String, f64>>>);

impl Book {
    fn entry(&self, key: &Key) -> Arc<Entry> {
        let labels: Vec<String> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        Arc::new(Entry { book: self.clone(), name: format!("{} {}", key.name(), labels.join(" ")) })
    }

    fn get(&self, name: &str) -> f64 {
        self.0.lock().expect("no panic").get(name).copied().unwrap_or(0.0)
    }
}

struct Entry {
    book: Book,
    name: String,
}

impl Entry {
    fn add(&self, value: f64) {
        *self.book.0.lock().expect("no panic").entry(self.name.clone()).or_default() += value;
    }
}

impl CounterFn for Entry {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Entry {
    fn increment(&self, value: f64) {
        self.add(value);
    }
    fn decrement(&self, value: f64) {
        self.add(-value);
    }
    fn set(&self, _: f64) {}
}

impl HistogramFn for Entry {
    /// How often is enough to know.
    fn record(&self, _: f64) {
        self.add(1.0);
    }
}

impl Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.entry(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.entry(key))
    }
}

/// (metrics) What is counted, under the names that are contract.
#[test]
fn attempts_are_counted() {
    let book = Book::default();
    metrics::set_global_recorder(book.clone())
        .unwrap_or_else(|_| panic!("the first recorder of this process"));
    bed::wait_for(async {
        let bed = Bed::memory().await;
        let store = Arc::clone(&bed.store);
        let acts = handler(move |attempt| {
            let store = Arc::clone(&store);
            async move {
                match attempt.payload().map(|p| p.as_bytes().to_vec()).as_deref() {
                    Some(b"0") => Err(HandlerError::permanent("no")),
                    // Without a retry left it is not retried.
                    Some(b"2") => Err(HandlerError::retry("again")),
                    Some(b"1") => {
                        let wish = windlass_core::decide::Cancel {
                            actor: windlass_core::Actor::api(),
                            reason: None,
                            force: true,
                            force_after_ms: 0,
                        };
                        let cancel =
                            windlass_store::Cancel { job: attempt.job_id(), wish, expected_version: None };
                        store.cancel(cancel, None).await?.expect("cancelled");
                        attempt.progress(1, None).await?;
                        Ok(None)
                    }
                    _ => Ok(None),
                }
            }
        });
        let running = Running::start(bed.worker().handle("counted", acts));
        let jobs: Vec<_> = (0..10)
            .map(|n| {
                let mut job = new_job("counted");
                job.payload = Some(bed::json(&n.to_string()));
                job.facts.max_retries = 0;
                job
            })
            .collect();
        let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
        bed.put_all(jobs).await;
        for id in ids {
            bed.until(id, "ended", |view| view.job.status.is_terminal()).await;
        }
        running.stop().await;
        let of = "queue=default kind=counted";
        let finished =
            |outcome: &str| book.get(&format!("windlass_attempts_finished_total {of} outcome={outcome}"));
        assert_eq!(book.get(&format!("windlass_attempts_started_total {of}")), 10.0);
        assert_eq!((finished("completed"), finished("failed"), finished("lost")), (7.0, 2.0, 1.0));
        assert_eq!(book.get(&format!("windlass_attempt_duration_seconds {of}")), 10.0);
        assert_eq!(book.get(&format!("windlass_attempt_wait_seconds {of}")), 10.0);
        assert_eq!(book.get(&format!("windlass_attempts_in_flight {of}")), 0.0);
        assert_eq!(book.get("windlass_lease_lost_total "), 1.0);
        assert!(book.get("windlass_claim_batch_size ") >= 1.0);
        assert!(book.get("windlass_settle_batch_size ") >= 1.0);
    });
}

/// Notes the fields of every attempt's span.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "attempt"
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut spans = self.0.lock().expect("no panic");
        let mut fields = BTreeMap::new();
        span.record(&mut Fields(&mut fields));
        spans.push(fields);
        span::Id::from_u64(spans.len() as u64)
    }
    fn record(&self, span: &span::Id, values: &span::Record<'_>) {
        let mut spans = self.0.lock().expect("no panic");
        values.record(&mut Fields(&mut spans[span.into_u64() as usize - 1]));
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// (trace) Every attempt has a span that says whose it is and where the job came from.
#[test]
fn attempts_have_spans() {
    let spans = Spans::default();
    tracing::subscriber::set_global_default(spans.clone()).expect("the first subscriber of this process");
    bed::wait_for(async {
        let bed = Bed::memory().await;
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let running = Running::start(bed.worker().handle("job", handler(async |_| Ok(None))));
        let context = TraceContext::parse(text).expect("a context");
        let id = bed.put_with("job", |facts| context.put(&mut facts.metadata)).await;
        bed.until_is(id, Status::Completed).await;
        running.stop().await;
        // Other tests of this process have spans of their own.
        let mut spans = spans.0.lock().expect("no panic").clone();
        spans.retain(|fields| fields.get("job") == Some(&id.to_string()));
        assert_eq!(spans.len(), 1);
        let of = |field: &str| spans[0].get(field).cloned().unwrap_or_default();
        assert_eq!(of("attempt"), "1");
        assert_eq!((of("kind"), of("queue")), ("job".into(), "default".into()));
        assert_eq!((of("traceparent"), of("outcome")), (text.into(), "completed".into()));
    });
}

/// (layers) A layer wraps every handler; a handler's own word comes through it unchanged.
#[test]
fn layers_wrap_handlers() {
    bed::wait_for(async {
        let bed = Bed::memory().await;
        let hangs = handler(async |_| std::future::pending().await);
        let fails = handler(async |_| Err(HandlerError::permanent("no").code("never")));
        let worker = bed.worker().handle("hangs", hangs).handle("fails", fails);
        let running = Running::start(worker.layer(TimeoutLayer::new(Duration::from_millis(20))));
        let hangs = bed.put_with("hangs", |facts| facts.max_retries = 0).await;
        let fails = bed.put("fails").await;
        let view = bed.until_is(hangs, Status::Failed).await;
        assert!(error_of(&view).1.contains("timed out"), "{:?}", view.error);
        let view = bed.until_is(fails, Status::Failed).await;
        assert_eq!((error_of(&view), view.job.attempt), (("never".into(), "no".into()), 1));
        running.stop().await;
    });
}
