//! A worker is killed with `kill -9` in the middle of a job. The step that was on record is not done again.
//!
//! `cargo run -p windlass --example steps [STORE-URL]`

use serde::{Deserialize, Serialize};
use std::process::Command;
use std::time::Duration;
use windlass::{Client, Context, HandlerError, Job, Worker};

#[derive(Serialize, Deserialize)]
struct Order {
    item: String,
}

impl Job for Order {
    const KIND: &str = "order";
    type Output = String;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "sqlite:windlass-data/steps.db".into());
    let client = windlass::connect(&url).await?;
    if args.next().as_deref() == Some("worker") {
        return Ok(work(client).await?);
    }

    let sent = client.enqueue(Order { item: "a windlass".into() }).await?;
    // Workers are processes of their own: this program, started again.
    let start = || Command::new(std::env::current_exe()?).args([&url, "worker"]).spawn();
    let killed = start()?.wait()?;
    println!("the first worker is gone ({killed})");

    let mut second = start()?;
    let outcome = client.wait::<Order>(sent.id).await;
    second.kill()?;
    second.wait()?;
    println!("{}", outcome?);
    Ok(())
}

async fn work(client: Client) -> windlass::Result<()> {
    Worker::new(client)
        .queue("default", 1)
        .lease(Duration::from_secs(1)) // so soon after its worker's death another takes the job
        .handle(order)
        .run_until(std::future::pending())
        .await
}

async fn order(job: Order, ctx: Context) -> Result<String, HandlerError> {
    println!("attempt {}", ctx.fence());
    let receipt = ctx.step("charge", || charge(&job.item)).await?;
    if ctx.fence() == 1 {
        println!("kill -9");
        Command::new("kill").args(["-9", &std::process::id().to_string()]).status()?;
    }
    let parcel = ctx.step("ship", || ship(&job.item)).await?;
    Ok(format!("{receipt}, {parcel}"))
}

async fn charge(item: &str) -> Result<String, std::io::Error> {
    println!("charging for {item}");
    Ok("receipt 1".into())
}

async fn ship(item: &str) -> Result<String, std::io::Error> {
    println!("shipping {item}");
    Ok("parcel 1".into())
}
