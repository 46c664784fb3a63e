//! OpenTelemetry: the trace travels from the enqueuer to attempts, steps and children, and reaches a collector.

#[path = "support/collector.rs"]
mod collector;
mod support;

use collector::{Collector, attribute};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use support::{Add, Task, places, task};
use tracing::Instrument;
use tracing_subscriber::prelude::*;
use windlass::{Client, Context, HandlerError, JobId, TraceContext, Worker};

/// The collector of this process, and what exports to it.
fn site() -> &'static (Collector, SdkTracerProvider) {
    static SITE: OnceLock<(Collector, SdkTracerProvider)> = OnceLock::new();
    SITE.get_or_init(|| {
        // Somebody else's TLS may be part of this build, and wants to know its cryptography.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let collector = Collector::start();
        let endpoint = format!("{}/v1/traces", collector.url);
        let exporter =
            SpanExporter::builder().with_http().with_endpoint(endpoint).build().expect("an exporter");
        let traces = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
        let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("test"));
        tracing_subscriber::registry().with(layer).try_init().expect("the first subscriber of this process");
        (collector, traces)
    })
}

async fn flushed() -> &'static Collector {
    let (collector, traces) = site();
    tokio::task::spawn_blocking(|| traces.force_flush()).await.expect("no panic").expect("exported");
    collector
}

fn of_job(id: JobId, name: &'static str) -> impl Fn(&Span) -> bool {
    move |span| span.name == name && attribute(span, "job") == Some(id.to_string())
}

/// What the enqueuer's span is known by elsewhere.
async fn in_span<W: IntoFuture>(name: &'static str, work: W) -> (W::Output, TraceContext) {
    let traced = async { (work.await, TraceContext::current().expect("a span that is recorded")) };
    traced.instrument(tracing::info_span!("caller", otel.name = name)).await
}

async fn work(client: &Client, worker: Worker, id: JobId) {
    let ended = async {
        if tokio::time::timeout(Duration::from_secs(30), client.wait::<Task>(id)).await.is_err() {
            let log = client.events(id).await.expect("a log");
            panic!(
                "it does not end: {:#?}",
                log.iter().map(|event| (&event.what, &event.payload)).collect::<Vec<_>>()
            );
        }
    };
    worker.run_until(ended).await.expect("the worker ends");
}

/// (otel) The example's trace, as a collector gets it from a process of its own.
#[test]
fn one_trace_from_enqueue_to_attempt_to_step_to_child() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let mut example = Command::new(support::built("otel"));
    let ran =
        example.arg(&url).env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.starts_with("sent: Ada paid\n"), "{said}");
    let trace = said.rsplit_once("trace: ").expect("a trace").1.trim();
    let caller = TraceContext::parse(trace).expect("a context");

    let checkout = collector.span("checkout");
    assert_eq!((&checkout.trace_id[..], &checkout.span_id[..]), (&caller.trace_id[..], &caller.span_id[..]));
    let step = collector.span("step charge");
    let order = collector.find("the attempt with the step", |span| span.span_id == step.parent_span_id);
    assert_eq!((order.name.as_str(), &order.parent_span_id), ("attempt order", &checkout.span_id));
    assert_eq!(order.kind, SpanKind::Consumer as i32);
    assert_eq!(order.links.len(), 1, "linked to where it was enqueued");
    assert_eq!(order.links[0].span_id, checkout.span_id);
    assert_eq!(attribute(&order, "outcome").as_deref(), Some("waiting"), "it waits for its child");
    let mail = collector.span("attempt mail");
    assert_eq!(mail.parent_span_id, order.span_id, "the attempt that spawned it");
    assert!(collector.spans().iter().all(|span| span.trace_id == checkout.trace_id), "one trace");
    let second =
        |span: &Span| span.name == "attempt order" && attribute(span, "attempt").as_deref() == Some("2");
    assert_eq!(collector.find("the second attempt", second).parent_span_id, checkout.span_id);

    let metrics = collector.metrics();
    for name in [
        "windlass_attempts_started_total",
        "windlass_attempts_finished_total",
        "windlass_attempt_duration_seconds",
        "windlass_attempts_in_flight",
    ] {
        assert!(metrics.iter().any(|metric| metric == name), "{name} is not among {metrics:?}");
    }
}

/// (otel) What fails is an error in the trace, with its code; what is tried again has the same parent.
#[tokio::test(flavor = "multi_thread")]
async fn failures_are_marked() {
    site();
    for place in places().await {
        let client = &place.client;
        let handler = |_: Task, ctx: Context| async move {
            let number = ctx.attempt().number();
            ctx.step("try", || async move {
                let busy = HandlerError::retry_after(Duration::ZERO, "busy").code("smtp_busy");
                if number == 1 { Err(busy) } else { Ok(number) }
            })
            .await?;
            Err::<String, _>(HandlerError::permanent("no such address").code("bounced"))
        };
        let (sent, caller) = in_span("send", client.enqueue(task("a"))).await;
        let id = sent.expect("enqueued").id;
        work(client, Worker::new(client.clone()).queue("tasks", 1).handle(handler), id).await;
        let collector = flushed().await;
        let attempt = |n: &'static str| {
            let is_it = move |span: &Span| {
                of_job(id, "attempt task")(span) && attribute(span, "attempt").as_deref() == Some(n)
            };
            collector.find("the attempt", is_it)
        };
        for (n, outcome, code) in [("1", "retried", "smtp_busy"), ("2", "failed", "bounced")] {
            let span = attempt(n);
            assert_eq!(span.parent_span_id, caller.span_id, "{}", place.what);
            assert_eq!(attribute(&span, "outcome").as_deref(), Some(outcome));
            assert_eq!(attribute(&span, "error.type").as_deref(), Some(code));
            assert_eq!(span.status.expect("a status").code, StatusCode::Error as i32);
        }
        let first = attempt("1").span_id;
        let step = collector.find("the failed step", |span| span.parent_span_id == first);
        let status = step.status.expect("a status");
        assert_eq!((step.name.as_str(), status.message.as_str()), ("step try", "busy"));
    }
}

/// (otel) A handler that blocks is in its attempt's span too.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_handler_is_in_its_span() {
    site();
    let [memory, _] = places().await;
    let client = memory.client;
    let (sent, caller) = in_span("block", client.enqueue(task("b"))).await;
    let id = sent.expect("enqueued").id;
    let worker = Worker::new(client.clone()).queue("tasks", 1).handle_blocking(|_: Task, _: Context| {
        tracing::info_span!("inside").in_scope(|| Ok("done".to_owned()))
    });
    work(&client, worker, id).await;
    let collector = flushed().await;
    let attempt = collector.find("the attempt", of_job(id, "attempt task"));
    assert_eq!(attempt.trace_id, caller.trace_id);
    assert_eq!(collector.span("inside").parent_span_id, attempt.span_id);
}

/// (otel) A trace is never a reason to refuse a job, and never replaces what a caller said.
#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_carried_where_there_is_room_and_none_was_given() {
    site();
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for place in places().await {
        let client = &place.client;
        let parent = async |id: JobId| {
            let view = client.job(id).await.expect("read").expect("there");
            view.facts.metadata.get("traceparent").map(|value| value.as_str().unwrap_or_default().to_owned())
        };
        let outside = client.enqueue(Add(1, 2)).await.expect("enqueued");
        assert_eq!(parent(outside.id).await, None, "no span, no context");
        let traced = async {
            let own = client.enqueue(Add(1, 2)).metadata("traceparent", given).await.expect("enqueued");
            assert_eq!(parent(own.id).await.as_deref(), Some(given));
            let long = "x".repeat(windlass::limits::METADATA_MAX_BYTES - 20);
            let full = client.enqueue(Add(1, 2)).metadata("long", long).await.expect("enqueued");
            assert_eq!(parent(full.id).await, None, "there is no room");
            // The same id from another span is the same job.
            let first = client.enqueue(Add(1, 2)).await.expect("enqueued");
            let again = in_span("again", client.enqueue(Add(1, 2)).id(first.id)).await.0.expect("the same");
            assert!(again.existed);
            first.id
        };
        let (id, caller) = in_span("carry", traced).await;
        assert_eq!(parent(id).await, Some(caller.to_string()), "{}", place.what);
    }
}
