//! OpenTelemetry by the usual variables: a worker and a server export to a collector, and a trace goes on through programs,
//! the command line and HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and waits by its own clock"
)]

mod bed;
#[path = "../../windlass/tests/support/collector.rs"]
mod collector;

use bed::{Bed, ran};
use collector::{Collector, attribute};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn given() -> String {
    format!("00-{TRACE}-{SPAN}-01")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A POST with a trace context, as any HTTP client sends it.
fn post(url: &str, path: &str, body: &str) -> Value {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ntraceparent: {}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        given(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"))
}

/// (otel) The trace goes on from the shell that enqueues to the attempt, and into the program.
#[test]
fn a_worker_exports_and_its_programs_go_on_with_the_trace() {
    let (mut bed, collector) = (Bed::new(), Collector::start());
    let script = r#"echo "\"$TRACEPARENT\"""#;
    let mut work = bed.command(&["work", "--queue", "default", "--exec", "sh", "-c", script]);
    work.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url).env("TRACEPARENT", "not for the program");
    let worker = bed.spawn(work);
    let mut enqueue = bed.command(&["enqueue", "traced", "--metadata", "{\"order\":7}", "--wait"]);
    let result = ran(enqueue.env("TRACEPARENT", given()).output().unwrap()).ok().out;
    let inside: Vec<&str> = result.trim().trim_matches('"').split('-').collect();
    assert_eq!((inside[1], inside[2] == SPAN), (TRACE, false), "{result}");
    bed.signal(worker, "TERM");
    bed.ended(worker);
    let attempt = collector.span("attempt traced");
    assert_eq!((hex(&attempt.trace_id), hex(&attempt.parent_span_id)), (TRACE.into(), SPAN.into()));
    assert_eq!(hex(&attempt.span_id), inside[2], "the program is below the attempt");
    assert_eq!(attribute(&attempt, "outcome").as_deref(), Some("completed"));
    let metrics = collector.metrics();
    assert!(metrics.iter().any(|name| name == "windlass_attempts_finished_total"), "{metrics:?}");
}

/// (otel) A server continues the trace of a request, and its own metrics stay where they were.
#[test]
fn a_server_exports_and_hands_the_trace_on() {
    let (mut bed, collector) = (Bed::new(), Collector::start());
    let port = bed::free_port();
    let address = format!("127.0.0.1:{port}");
    let mut serve = bed.command(&["serve", "--listen", &address]);
    serve.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    let server = bed.spawn(serve);
    bed::wait_for(|| TcpStream::connect(&address).is_ok());
    let url = format!("http://{address}");
    let made = post(&url, "/v1/jobs", "{\"kind\":\"k\"}");
    let carried = made["job"]["metadata"]["traceparent"].as_str().unwrap().to_owned();
    let named = post(&url, "/v1/jobs", "{\"kind\":\"k\",\"metadata\":{\"traceparent\":\"mine\"}}");
    assert_eq!(named["job"]["metadata"]["traceparent"], "mine", "what the caller says stays");
    let counted = bed.run(&["--url", &url, "stats"]).ok();
    assert!(counted.out.contains("pending"), "{}", counted.out);
    bed.signal(server, "TERM");
    bed.ended(server);
    let request = collector.span("POST /v1/jobs");
    assert_eq!((hex(&request.trace_id), hex(&request.parent_span_id)), (TRACE.into(), SPAN.into()));
    let spans = collector.spans();
    let is_carried = spans.iter().any(|span| carried == format!("00-{TRACE}-{}-01", hex(&span.span_id)));
    assert!(is_carried, "{carried} is the span of a request");
    let metrics = collector.metrics();
    assert!(metrics.iter().any(|name| name == "windlass_http_requests_total"), "{metrics:?}");
}

/// (otel) What cannot be exported is said before anything begins.
#[test]
fn what_is_not_spoken_is_refused() {
    let bed = Bed::new();
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_METRICS_EXPORTER", "x"),
    ] {
        let mut work = bed.command(&["work", "--queue", "default", "--exec", "true"]);
        work.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1").env(name, value);
        let refused = ran(work.output().unwrap());
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(name) && refused.err.contains(value), "{}", refused.err);
    }
}
