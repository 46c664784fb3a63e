//! Traces and metrics of OpenTelemetry, sent where the usual variables say.
//!
//! `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run -p windlass --features otel --example otel [STORE-URL]`
//!
//! One trace holds the checkout, the attempt of the order below it, its step, and the attempt of the mail that it spawned.

use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde::{Deserialize, Serialize};
use tracing::Instrument;
use tracing_subscriber::prelude::*;
use windlass::{Context, HandlerError, Job, TraceContext, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order", output = String)]
struct Order {
    customer: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "mail", output = String)]
struct Mail {
    text: String,
}

async fn sell(order: Order, ctx: Context) -> Result<String, HandlerError> {
    let customer = &order.customer;
    let receipt = ctx.step("charge", || async { Ok::<_, HandlerError>(format!("{customer} paid")) }).await?;
    // The child carries the trace on.
    let mail = ctx.spawn("mail", Mail { text: receipt }).await?;
    let sent = ctx.join("sent", &[mail]).await?.remove(0).map_err(HandlerError::permanent)?;
    Ok(sent)
}

async fn send(mail: Mail, _ctx: Context) -> Result<String, HandlerError> {
    Ok(format!("sent: {}", mail.text))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Which cryptography the exporter's TLS uses is for the program to say.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let spans = SpanExporter::builder().with_http().build()?;
    let traces = SdkTracerProvider::builder().with_batch_exporter(spans).build();
    let counts = MetricExporter::builder().with_http().build()?;
    let metrics = SdkMeterProvider::builder().with_periodic_exporter(counts).build();
    tracing_subscriber::registry()
        .with(tracing_opentelemetry::layer().with_tracer(traces.tracer("shop")))
        .init();
    metrics::set_global_recorder(windlass::otel::Recorder::new(metrics.meter("windlass")))?;

    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/otel.db".into());
    let client = windlass::connect(&url).await?;
    let checkout = async {
        let order = client.enqueue(Order { customer: "Ada".into() }).await?;
        Ok::<_, windlass::Error>((order, TraceContext::current()))
    };
    let (order, context) = checkout.instrument(tracing::info_span!("checkout")).await?;

    let worker = Worker::new(client.clone()).queue("default", 4).handle(sell).handle(send);
    let ended = async {
        match client.wait::<Order>(order.id).await {
            Ok(said) => println!("{said}"),
            Err(error) => println!("{error}"),
        }
    };
    worker.run_until(ended).await?;
    println!("trace: {}", context.map_or_else(|| "none".to_owned(), |context| context.to_string()));
    // What is still on its way is sent; this waits for the network.
    tokio::task::spawn_blocking(move || traces.shutdown().and(metrics.shutdown())).await??;
    Ok(())
}
