//! OpenTelemetry: what this crate measures, as instruments of a meter (feature `otel`).
//!
//! Traces need nothing from here. With the feature on, a job carries the trace context of the span it was enqueued in, every
//! attempt has a span below it, every step one below the attempt, and children carry theirs on. All that a program does is
//! to install a layer of `tracing_opentelemetry`, as for any library that uses `tracing`.

use metrics::{CounterFn, GaugeFn, HistogramFn, Key, KeyName, SharedString, Unit};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bounds of the buckets of durations, in seconds.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 60.0];

/// A recorder of the `metrics` facade that gives what is counted to a meter of OpenTelemetry.
///
/// It takes everything that the program counts through `metrics`, not only what Windlass counts. Exemplars are not written:
/// the SDK for Rust does not collect any yet.
///
/// ```standalone_crate
/// use opentelemetry::metrics::MeterProvider;
///
/// let provider = opentelemetry_sdk::metrics::SdkMeterProvider::default(); // with a reader that exports, in a program
/// let recorder = windlass::otel::Recorder::new(provider.meter("windlass"));
/// metrics::set_global_recorder(recorder).expect("the first recorder of this process");
/// metrics::counter!("orders_total").increment(1);
/// ```
#[derive(Debug)]
pub struct Recorder {
    meter: Meter,
    /// A gauge may be changed by steps, so everybody who counts under one name and the same labels shares a value.
    gauges: Mutex<HashMap<Key, Arc<Level>>>,
}

impl Recorder {
    /// Gives to this meter.
    pub fn new(meter: Meter) -> Self {
        Self { meter, gauges: Mutex::default() }
    }
}

fn labels(key: &Key) -> Vec<KeyValue> {
    key.labels().map(|label| KeyValue::new(label.key().to_owned(), label.value().to_owned())).collect()
}

#[derive(Debug)]
struct Sum {
    instrument: Counter<u64>,
    labels: Vec<KeyValue>,
    /// How far it was counted.
    counted: AtomicU64,
}

impl CounterFn for Sum {
    fn increment(&self, value: u64) {
        self.counted.fetch_add(value, Ordering::Relaxed);
        self.instrument.add(value, &self.labels);
    }

    fn absolute(&self, value: u64) {
        let before = self.counted.fetch_max(value, Ordering::Relaxed);
        self.instrument.add(value.saturating_sub(before), &self.labels);
    }
}

#[derive(Debug)]
struct Level {
    instrument: Gauge<f64>,
    labels: Vec<KeyValue>,
    /// A blocking lock, held for an addition: what is told last is what stands.
    value: Mutex<f64>,
}

impl Level {
    fn change(&self, to: impl FnOnce(f64) -> f64) {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *value = to(*value);
        self.instrument.record(*value, &self.labels);
    }
}

impl GaugeFn for Level {
    fn increment(&self, value: f64) {
        self.change(|before| before + value);
    }

    fn decrement(&self, value: f64) {
        self.change(|before| before - value);
    }

    fn set(&self, value: f64) {
        self.change(|_| value);
    }
}

#[derive(Debug)]
struct Buckets {
    instrument: Histogram<f64>,
    labels: Vec<KeyValue>,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        self.instrument.record(value, &self.labels);
    }
}

impl metrics::Recorder for Recorder {
    // A meter takes descriptions when an instrument is made, the facade at any time: they are left out.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Counter {
        let instrument = self.meter.u64_counter(key.name().to_owned()).build();
        let counted = AtomicU64::new(0);
        metrics::Counter::from_arc(Arc::new(Sum { instrument, labels: labels(key), counted }))
    }

    fn register_gauge(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Gauge {
        let mut gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let instrument = self.meter.f64_gauge(key.name().to_owned()).build();
            Arc::new(Level { instrument, labels: labels(key), value: Mutex::default() })
        };
        metrics::Gauge::from_arc(Arc::clone(gauges.entry(key.clone()).or_insert_with(make)))
    }

    fn register_histogram(&self, key: &Key, _: &metrics::Metadata<'_>) -> metrics::Histogram {
        let mut made = self.meter.f64_histogram(key.name().to_owned());
        if key.name().ends_with("_seconds") {
            made = made.with_unit("s").with_boundaries(SECONDS.to_vec());
        }
        metrics::Histogram::from_arc(Arc::new(Buckets { instrument: made.build(), labels: labels(key) }))
    }
}
