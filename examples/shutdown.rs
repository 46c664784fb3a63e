//! A worker is told to end while it works: the running job finishes, the others stay for the next worker.
//!
//! `cargo run -p windlass --example shutdown [STORE-URL]`

use serde::{Deserialize, Serialize};
use std::process::Command;
use std::time::Duration;
use windlass::{Context, HandlerError, Job, JobId, Shutdown, Worker};

#[derive(Serialize, Deserialize)]
struct Bake {
    cake: u32,
}

impl Job for Bake {
    const KIND: &str = "bake";
    type Output = u32;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/shutdown.db".into());
    let client = windlass::connect(&url).await?;
    let cakes = client.enqueue_many((1..=3).map(|cake| Bake { cake })).await?;

    let worker = Worker::new(client.clone())
        .queue("default", 1)
        .shutdown_deadline(Duration::from_secs(20)) // then a job is given back, without using a retry
        .handle(bake);
    // The first SIGTERM or Ctrl-C lets jobs finish, the second ends at once.
    worker.run(Shutdown::on_signals()?).await?;
    println!("the worker has ended");

    for sent in cakes {
        println!("cake {} is {}", cake(&client, sent.id).await?, status(&client, sent.id).await?);
    }
    Ok(())
}

async fn bake(job: Bake, ctx: Context) -> Result<u32, HandlerError> {
    println!("baking cake {}", job.cake);
    // Somebody ends this process in the middle of the first cake.
    Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status()?;
    ctx.stopping().await;
    println!("cake {} is finished before the end", job.cake);
    Ok(job.cake)
}

async fn cake(client: &windlass::Client, id: JobId) -> windlass::Result<u32> {
    let payload = client.job(id).await?.and_then(|view| view.payload);
    Ok(payload.and_then(|payload| payload.parse::<Bake>().ok()).map_or(0, |bake| bake.cake))
}

async fn status(client: &windlass::Client, id: JobId) -> windlass::Result<windlass::Status> {
    let view = client.job(id).await?.ok_or(windlass::Refusal::NotFound)?;
    Ok(view.job.status)
}
