//! A small shop, as a program that embeds Windlass: typed jobs, a payload of last year's version, a saga, a race between a
//! payment and a timer, and labels that are printed many at once. With the feature `otel` it sends its traces where
//! `OTEL_EXPORTER_OTLP_ENDPOINT` says, if that is set.
//!
//! `cargo run -p windlass --example shop [STORE-URL]`

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tracing::Instrument;
use windlass::serde_json::{Value, json};
use windlass::{Context, Error, HandlerError, Job, Winner, Worker};

/// What the shop sells. An order that is not paid in time gives back what it reserved.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order", queue = "orders", output = String, version = 2, upgrade = from_one)]
struct Order {
    customer: String,
    items: u32,
}

/// Version 1 had one text, such as "Ada: 2".
fn from_one(_from: u32, value: Value) -> Result<Value, HandlerError> {
    let text = value["text"].as_str().ok_or("an order without a text")?;
    let (customer, items) = text.split_once(": ").ok_or("an order without items")?;
    Ok(json!({ "customer": customer, "items": items.parse::<u32>()? }))
}

/// What last year's program enqueues.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "order", queue = "orders", output = String)]
struct OldOrder {
    text: String,
}

/// One label on one parcel.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "label", queue = "labels", output = String)]
struct Label {
    customer: String,
    item: u32,
}

struct Shop {
    stock: AtomicU32,
}

async fn sell(order: Order, ctx: Context<Shop>) -> Result<String, HandlerError> {
    let Order { customer, items } = &order;
    // Recorded once; undone if the order ends badly.
    let shop = ctx.clone();
    ctx.step("reserve", || async {
        ctx.state().stock.fetch_sub(*items, Ordering::Relaxed);
        Ok::<_, HandlerError>(*items)
    })
    .undo("give-back", move |items| async move {
        shop.state().stock.fetch_add(items, Ordering::Relaxed);
        Ok::<_, HandlerError>(())
    })
    .await?;

    // No worker is held meanwhile, and every later attempt is told the same winner.
    let Winner::Signal(paid) = ctx.race().signal("paid").timer(Duration::from_millis(500)).await? else {
        return Err(HandlerError::permanent(format!("{customer} did not pay")).code("unpaid"));
    };
    let cents: u64 = paid.read()?;

    let labels = (0..*items).map(|item| Label { customer: customer.clone(), item });
    let labels = ctx.spawn_many("label", labels).await?;
    let printed = ctx.join("labels", &labels).await?;
    let printed: Vec<String> =
        printed.into_iter().collect::<Result<_, _>>().map_err(HandlerError::permanent)?;
    Ok(format!("{customer} paid {cents} cents: {}", printed.join(", ")))
}

/// A printer that takes a whole sheet at once.
async fn print_sheet(sheet: Vec<(Label, Context<Shop>)>) -> Vec<Result<String, HandlerError>> {
    sheet.into_iter().map(|(label, _)| Ok(format!("{} #{}", label.customer, label.item))).collect()
}

/// Traces of OpenTelemetry, if somebody wants them.
#[cfg(feature = "otel")]
fn exporter() -> Result<Option<opentelemetry_sdk::trace::SdkTracerProvider>, Box<dyn std::error::Error>> {
    use opentelemetry::trace::TracerProvider;
    use tracing_subscriber::prelude::*;
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_none() {
        return Ok(None);
    }
    // Which cryptography the exporter's TLS uses is for the program to say.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let spans = opentelemetry_otlp::SpanExporter::builder().with_http().build()?;
    let traces = opentelemetry_sdk::trace::SdkTracerProvider::builder().with_batch_exporter(spans).build();
    let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("shop"));
    tracing_subscriber::registry().with(layer).init();
    Ok(Some(traces))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(feature = "otel")]
    let traces = exporter()?;
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/shop.db".into());
    let client = windlass::connect(&url).await?;
    // What is enqueued inside a span is done below it, children included.
    let checkout = async {
        Ok::<_, Error>([
            client.enqueue(Order { customer: "Ada".into(), items: 2 }).await?,
            client.enqueue(Order { customer: "Bob".into(), items: 5 }).await?,
            client.enqueue(OldOrder { text: "Cleo: 1".into() }).await?,
        ])
    };
    let orders = checkout.instrument(tracing::info_span!("checkout")).await?;
    client.signal(orders[0].id, "paid", 900).await?;
    client.signal(orders[2].id, "paid", 450).await?;

    let stock = AtomicU32::new(10);
    let worker = Worker::new(client.clone())
        .state(Shop { stock })
        .queue("orders", 4)
        .queue("labels", 20)
        .handle(sell)
        .handle_batch(20, Duration::from_millis(20), print_sheet)
        .on_end(|attempt, end| {
            if let windlass::HandlerEnd::Failed(error) = end {
                println!("{} fails: {}", attempt.kind(), error.message());
            }
        });
    let ended = async {
        for order in orders {
            match client.wait::<Order>(order.id).await {
                Ok(sold) => println!("{sold}"),
                Err(Error::Ended(ended)) => println!("{}: {}", ended.code, ended.message),
                Err(error) => println!("{error}"),
            }
            if client.wait_undone(order.id).await.unwrap_or_default() {
                println!("what was reserved is given back");
            }
        }
    };
    worker.run_until(ended).await?;
    // What is still on its way is sent; this waits for the network.
    #[cfg(feature = "otel")]
    if let Some(traces) = traces {
        tokio::task::spawn_blocking(move || traces.shutdown()).await??;
    }
    Ok(())
}
