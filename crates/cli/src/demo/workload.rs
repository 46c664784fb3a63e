//! The demo's jobs: a small shop. Mails that sometimes fail, reports in steps, refunds that ask a person, orders with children.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{Client, Context, HandlerError, Job, Level, Shutdown, Worker};
use windlass_store::fresh;

/// The pause between two orders.
const PACE: Duration = Duration::from_secs(2);
/// Every how many orders somebody wants money back, and the month's report is built.
const REFUND_EVERY: u64 = 15;
const REPORT_EVERY: u64 = 5;

#[derive(Debug, Serialize, Deserialize)]
struct SendEmail {
    to: String,
    subject: String,
}

impl Job for SendEmail {
    const KIND: &str = "email.send";
    const QUEUE: &str = "mail";
    type Output = String;
}

#[derive(Debug, Serialize, Deserialize)]
struct FulfilOrder {
    order: u64,
    items: u32,
}

impl Job for FulfilOrder {
    const KIND: &str = "order.fulfil";
    const QUEUE: &str = "orders";
    type Output = u32;
}

#[derive(Debug, Serialize, Deserialize)]
struct BuildReport {
    day: u64,
}

impl Job for BuildReport {
    const KIND: &str = "report.build";
    const QUEUE: &str = "reports";
    type Output = u64;
}

#[derive(Debug, Serialize, Deserialize)]
struct Refund {
    order: u64,
    cents: u64,
}

impl Job for Refund {
    const KIND: &str = "refund";
    const QUEUE: &str = "orders";
    type Output = String;
}

/// A worker for all of them.
pub fn worker(client: Client) -> Worker {
    Worker::new(client)
        .identity("demo")
        .shutdown_deadline(Duration::from_secs(5))
        .queue("mail", 4)
        .queue("orders", 4)
        .queue("reports", 2)
        .handle(send_email)
        .handle(fulfil)
        .handle(report)
        .handle(refund)
}

/// Makes work until the end.
pub async fn produce(client: &Client, shutdown: &Shutdown) {
    // Orders are numbered by the clock, so that a second start goes on.
    let mut order = fresh::wall_clock().as_micros().unsigned_abs() / 1_000_000;
    let mut made = 0u64;
    while shutdown.level() == Level::Working {
        if let Err(error) = order_arrives(client, order, made).await {
            tracing::warn!(%error, "an order could not be enqueued");
        }
        (order, made) = (order + 1, made + 1);
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            () = shutdown.reached(Level::Graceful) => {}
        }
    }
}

async fn order_arrives(client: &Client, order: u64, made: u64) -> windlass::Result<()> {
    let items = u32::try_from(order % 4).unwrap_or(0) + 1;
    client.enqueue(FulfilOrder { order, items }).unique(&format!("order:{order}")).tag("shop").await?;
    if made.is_multiple_of(REFUND_EVERY) {
        client.enqueue(Refund { order, cents: order % 90 * 100 + 900 }).tag("shop").await?;
    }
    if made.is_multiple_of(REPORT_EVERY) {
        client
            .enqueue(BuildReport { day: order / 86_400 })
            .priority(-1)
            .timeout(Duration::from_secs(60))
            .await?;
    }
    Ok(())
}

async fn pause(ms: u64) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(())
}

async fn send_email(job: SendEmail, ctx: Context) -> Result<String, HandlerError> {
    ctx.log(format!("sending {:?} to {}", job.subject, job.to)).await?;
    pause(300).await?;
    let chance = fresh::random::<1>()[0];
    match chance {
        0..=39 => Err(HandlerError::retry("the mail server said 451, try again later").code("smtp_busy")),
        40..=44 => Err(HandlerError::permanent("there is no such mailbox").code("no_mailbox")),
        _ => Ok(format!("message-{chance}")),
    }
}

async fn fulfil(job: FulfilOrder, ctx: Context) -> Result<u32, HandlerError> {
    let packed: u32 = ctx.step("pack", || async { pause(500).await.map(|()| job.items) }).await?;
    ctx.progress(50, "packed").await?;
    let shipped: bool = ctx.step("ship", || async { pause(700).await.map(|()| true) }).await?;
    ctx.progress(100, if shipped { "shipped" } else { "kept" }).await?;
    let to = format!("customer-{}@example.org", job.order % 50);
    let mail = SendEmail { to, subject: format!("your order {}", job.order) };
    // The key makes a repeated attempt send it once.
    ctx.client().enqueue(mail).unique(&format!("mail:{}", job.order)).tag("shop").await?;
    Ok(packed)
}

async fn report(job: BuildReport, ctx: Context) -> Result<u64, HandlerError> {
    for (n, stage) in ["collect", "sum", "draw", "store"].into_iter().enumerate() {
        ctx.step(stage, || pause(600)).await?;
        ctx.progress(u8::try_from(n + 1).unwrap_or(4) * 25, stage).await?;
    }
    Ok(job.day)
}

async fn refund(job: Refund, ctx: Context) -> Result<String, HandlerError> {
    let asked = format!("refund {}.{:02} for order {}?", job.cents / 100, job.cents % 100, job.order);
    ctx.approval("refund").prompt(&asked).await?;
    ctx.step("pay", || pause(400)).await?;
    Ok(format!("refunded {} cents", job.cents))
}
