//! The demo's jobs: a small shop. An order is charged, packed and shipped, each a step that is never done twice; a mail goes
//! out for it, and every half minute a schedule builds a report. A customer gets one mail at a time. Now
//! and then the stock is taken: shelves are counted, each by a job, and one job more waits for all of them. Suppliers send events, and a trigger starts what they ask for. Banks are busy, addresses are wrong, and large orders ask a person.

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use windlass::{Client, Context, HandlerError, Job, Level, Shutdown, Worker};
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::wait::ApprovalStatus;
use windlass_core::{Actor, Filter, Name, QueueDefaults, QueueLimits, Rate, Status};
use windlass_store::{ListApprovals, PutQueue};

/// The pause between two orders.
const PACE: Duration = Duration::from_secs(2);
/// The number of the first order.
const FIRST: u64 = 1_001;
/// The pause between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(30);
/// The schedule of reports.
const REPORTS: &str = "reports";
/// The trigger that suppliers fire.
const DELIVERIES: &str = "delivery-arrived";
/// Every how many orders a delivery comes.
const DELIVERY_EVERY: u64 = 5;
/// Every how many orders the stock is taken.
const STOCK_EVERY: u64 = 6;
/// The shelves.
const SHELVES: [&str; 3] = ["tea", "rope", "lamps"];
/// The most orders that wait for a person: nobody should come back to thousands.
pub const ASKED_MOST: usize = 3;
/// The most dead letters that the shop makes.
const DEAD_MOST: i64 = 5;
/// Orders over this ask a person, in cents.
const LARGE: u64 = 50_000;

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "order.fulfil", queue = "orders", output = String)]
struct FulfilOrder {
    order: u64,
    cents: u64,
    address: String,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "email.send", queue = "mail", output = String)]
struct SendEmail {
    to: String,
    subject: String,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "report.build", queue = "reports", output = String)]
struct BuildReport {
    of: String,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "stock.count", queue = "reports", output = u64)]
struct CountShelf {
    shelf: String,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "stock.add-up", queue = "reports", output = u64)]
struct AddUpStock {
    order: u64,
}

/// A worker for all of them.
pub fn worker(client: Client) -> Worker {
    Worker::new(client)
        .identity("demo")
        .shutdown_deadline(Duration::from_secs(5))
        .queue("orders", 4)
        .queue("mail", 4)
        .queue("reports", 1)
        .handle(fulfil)
        .handle(send_email)
        .handle(report)
        .handle(count_shelf)
        .handle(add_up_stock)
}

/// Where orders come from.
#[derive(Debug)]
pub struct Shop<'a> {
    client: &'a Client,
    next: u64,
}

impl<'a> Shop<'a> {
    /// Opens the shop: numbers go on where they ended.
    pub async fn open(client: &'a Client) -> windlass::Result<Self> {
        let filter = Filter { kind: Some(Name::parse("kind", FulfilOrder::KIND)?), ..Filter::default() };
        let newest = client.jobs(filter, None).await?.items.into_iter().next();
        let newest = match newest {
            Some(listed) => client.job(listed.job.id).await?.and_then(|view| view.payload),
            None => None,
        };
        set_queues(client).await?;
        set_schedule_and_trigger(client).await?;
        let last = newest.and_then(|payload| payload.parse::<FulfilOrder>().ok()).map(|order| order.order);
        Ok(Self { client, next: last.map_or(FIRST, |last| last + 1) })
    }

    /// Takes orders until the end.
    pub async fn run(mut self, shutdown: &Shutdown) {
        while shutdown.level() == Level::Working {
            if let Err(error) = self.order_arrives().await {
                tracing::warn!(%error, "an order could not be enqueued");
            }
            self.next += 1;
            tokio::select! {
                () = tokio::time::sleep(PACE) => {}
                () = shutdown.reached(Level::Graceful) => {}
            }
        }
    }

    /// What an order is like depends on its number, so that there is always something of everything.
    async fn order_arrives(&self) -> windlass::Result<()> {
        let order = self.next;
        let mut wish =
            FulfilOrder { order, cents: 1_900 + order * 37 % 9_000, address: "12 Quay Street".into() };
        match order % 10 {
            1 if self.asked().await? < ASKED_MOST => wish.cents += LARGE,
            3 if self.dead().await? < DEAD_MOST => wish.address = "Atlantis".into(),
            _ => {}
        }
        self.client.enqueue(wish).unique(&format!("order:{order}")).tag("shop").await?;
        if order.is_multiple_of(STOCK_EVERY) {
            self.take_stock(order).await?;
        }
        if order.is_multiple_of(DELIVERY_EVERY) {
            let delivery = json!({ "supplier": "north", "parcels": order % 7 + 1 });
            // Suppliers are not sure that they were heard, and say everything twice.
            for _ in 0..2 {
                self.client
                    .trigger(DELIVERIES)
                    .fire(&delivery)
                    .dedupe_key(&format!("delivery:{order}"))
                    .await?;
            }
        }
        Ok(())
    }

    /// A flow: every shelf is counted by a job of its own, and what they found is added up.
    async fn take_stock(&self, order: u64) -> windlass::Result<()> {
        let flow = self.client.flow();
        let counted = SHELVES.map(|shelf| {
            let job = self.client.enqueue(CountShelf { shelf: shelf.to_owned() }).tag("shop");
            flow.add(shelf, job)
        });
        let sum = flow.add("sum", self.client.enqueue(AddUpStock { order }).tag("shop"));
        for shelf in &counted {
            sum.after(shelf);
        }
        flow.start().await.map(|_| ())
    }

    async fn asked(&self) -> windlass::Result<usize> {
        let status = Some(ApprovalStatus::Pending);
        let request = ListApprovals { job: None, status, before: None, limit: ASKED_MOST };
        Ok(self.client.store().approvals(request, None).await?.len())
    }

    async fn dead(&self) -> windlass::Result<i64> {
        let counts = self.client.store().counts(DEAD_MOST, None).await?;
        Ok(counts
            .statuses
            .iter()
            .filter(|(status, _)| *status == Status::Failed)
            .map(|(_, count)| count.n)
            .sum())
    }
}

/// The schedule and the trigger, unless somebody has changed or removed them meanwhile.
async fn set_schedule_and_trigger(client: &Client) -> windlass::Result<()> {
    if client.trigger(DELIVERIES).get().await?.is_some() {
        return Ok(());
    }
    let report = client.enqueue(BuildReport { of: "orders".into() }).priority(-1);
    let report = report.timeout(Duration::from_secs(60)).tag("shop");
    client.schedule(REPORTS).every(REPORT_EVERY).job(report).await?;
    let mail = json!({
        "to": "stock@example.org",
        "subject": "{{payload.parcels}} parcels from {{payload.supplier}}",
    });
    client.trigger(DELIVERIES).starts_with::<SendEmail>(mail).await?;
    Ok(())
}

/// What jobs of each queue fall back to, unless somebody has changed it meanwhile.
async fn set_queues(client: &Client) -> windlass::Result<()> {
    let known = client.store().queue_settings((), None).await?;
    for (queue, max_retries, timeout_ms) in
        [("orders", 5, 60_000), ("mail", 10, 30_000), ("reports", 3, 120_000)]
    {
        let name = Name::parse("queue", queue)?;
        if known.iter().any(|known| known.name == name && known.defaults != QueueDefaults::default()) {
            continue;
        }
        let (max_retries, timeout_ms) = (Some(max_retries), Some(timeout_ms));
        let defaults = QueueDefaults { max_retries, timeout_ms, ..QueueDefaults::default() };
        // A customer gets one mail at a time, and the mail server five in a second.
        let flow = (queue == "mail").then(|| QueueLimits {
            rate: Some(Rate { units: 5, per_ms: 1_000, burst: None }),
            lanes: Some(Lanes {
                each: LaneRule { concurrency: Some(1), ..LaneRule::default() },
                ..Lanes::default()
            }),
            ..QueueLimits::default()
        });
        let actor = Actor::api();
        client
            .store()
            .put_queue(PutQueue { defaults: Some(defaults), flow, ..PutQueue::new(name, actor) }, None)
            .await??;
    }
    Ok(())
}

/// Work that takes so long.
async fn toil(ms: u64) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(())
}

fn money(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

async fn fulfil(job: FulfilOrder, ctx: Context) -> Result<String, HandlerError> {
    let FulfilOrder { order, cents, address } = &job;
    ctx.log(format!("order {order}: {} to {address}", money(*cents))).await?;
    let charge = || async {
        toil(300).await?;
        // The bank has its moments: the next attempt succeeds.
        if order % 4 == 2 && ctx.fence() == 1 {
            return Err(HandlerError::retry("the bank says 503, try again later").code("bank_busy"));
        }
        Ok(format!("charge-{order}"))
    };
    let charged: String = ctx.step("charge", charge).await?;
    ctx.progress(25, "charged").await?;
    if *cents > LARGE {
        ctx.approval("ship").prompt(&format!("Order {order} is over {}: ship it?", money(*cents))).await?;
    }
    ctx.step("pack", || toil(900)).await?;
    ctx.progress(50, "packed").await?;
    if address == "Atlantis" {
        let message = format!("no carrier goes to {address}; change the address and redrive");
        return Err(HandlerError::permanent(message).code("address_unknown"));
    }
    ctx.step("ship", || toil(1_100)).await?;
    let to = format!("customer-{}@example.org", order % 50);
    let mail = SendEmail { to: to.clone(), subject: format!("your order {order}") };
    // The unique key makes a repeated attempt send it once; the other one says whose mail it is.
    ctx.client().enqueue(mail).key(&to).unique(&format!("mail:{order}")).tag("shop").await?;
    ctx.progress(100, "shipped").await?;
    Ok(charged)
}

async fn send_email(job: SendEmail, ctx: Context) -> Result<String, HandlerError> {
    ctx.log(format!("sending {:?} to {}", job.subject, job.to)).await?;
    toil(300).await?;
    if job.subject.ends_with('7') && ctx.fence() == 1 {
        return Err(HandlerError::retry("the mail server says 451, try again later").code("smtp_busy"));
    }
    Ok(format!("message-{}", ctx.id()))
}

async fn report(job: BuildReport, ctx: Context) -> Result<String, HandlerError> {
    for (n, stage) in ["collect", "sum", "draw", "store"].into_iter().enumerate() {
        ctx.step(stage, || toil(600)).await?;
        ctx.progress(u8::try_from(n + 1).unwrap_or(4) * 25, stage).await?;
    }
    Ok(format!("report of {}", job.of))
}

async fn count_shelf(job: CountShelf, ctx: Context) -> Result<u64, HandlerError> {
    toil(400).await?;
    let found = 10 + job.shelf.len() as u64;
    ctx.log(format!("{found} on the shelf of {}", job.shelf)).await?;
    Ok(found)
}

async fn add_up_stock(_job: AddUpStock, ctx: Context) -> Result<u64, HandlerError> {
    let mut all = 0;
    for shelf in SHELVES {
        all += ctx.upstream::<u64>(shelf).await?;
    }
    Ok(all)
}
