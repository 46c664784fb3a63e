//! A collector that speaks OTLP over HTTP with protobuf, in this process.

#![allow(dead_code, reason = "each test takes from here what it needs")]

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// What was exported to it, and where it listens.
#[derive(Clone)]
pub struct Collector {
    pub url: String,
    received: Arc<Mutex<Received>>,
}

#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    metrics: Vec<Metric>,
}

impl Collector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Arc::<Mutex<Received>>::default();
        let kept = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(stream, &kept));
            }
        });
        Self { url, received }
    }

    /// The spans that have ended and came in.
    pub fn spans(&self) -> Vec<Span> {
        self.received.lock().expect("no panic").spans.clone()
    }

    /// The names of the metrics that came in.
    pub fn metrics(&self) -> Vec<String> {
        let received = self.received.lock().expect("no panic");
        let mut names: Vec<String> = received.metrics.iter().map(|metric| metric.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// A span of this name, as soon as it came in.
    pub fn span(&self, name: &str) -> Span {
        self.find(name, |span| span.name == name)
    }

    /// A span that is looked for, as soon as it came in.
    pub fn find(&self, what: &str, is_it: impl Fn(&Span) -> bool) -> Span {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(span) = self.spans().into_iter().find(&is_it) {
                return span;
            }
            let names: Vec<String> = self.spans().into_iter().map(|span| span.name).collect();
            assert!(Instant::now() < until, "no span {what} among {names:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The text of a span's attribute.
pub fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}

fn serve(stream: TcpStream, received: &Mutex<Received>) {
    let mut reader = BufReader::new(stream);
    // One connection is used for many exports.
    while let Some((path, body)) = request(&mut reader) {
        let mut received = received.lock().expect("no panic");
        match path.as_str() {
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(&*body).expect("spans in protobuf");
                let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
                received.spans.extend(scopes.flat_map(|scope| scope.spans));
            }
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(&*body).expect("metrics in protobuf");
                let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
                received.metrics.extend(scopes.flat_map(|scope| scope.metrics));
            }
            other => panic!("nothing is exported to {other}"),
        }
        drop(received);
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "content-type" => assert_eq!(value.trim(), "application/x-protobuf"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}
