//! A job asks a person and waits for the answer without a worker.
//!
//! `cargo run -p windlass --example approval [STORE-URL]`

use serde::{Deserialize, Serialize};
use windlass::{Client, Context, Decision, HandlerError, Job, JobId, Status, Worker};

#[derive(Serialize, Deserialize)]
struct Refund {
    cents: u64,
}

impl Job for Refund {
    const KIND: &str = "refund";
    type Output = String;
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/approval.db".into());
    let client = windlass::connect(&url).await?;
    let yes = client.enqueue(Refund { cents: 900 }).await?.id;
    let no = client.enqueue(Refund { cents: 90_000 }).await?.id;

    let worker = Worker::new(client.clone()).queue("default", 1).handle(refund);
    let decided = async {
        decide(&client, yes, Decision::Approve, "it was broken").await?;
        decide(&client, no, Decision::Deny, "too much").await?;
        println!("approved: {}", client.wait::<Refund>(yes).await?);
        match client.wait::<Refund>(no).await {
            Err(windlass::Error::Ended(ended)) => println!("denied: {} ({})", ended.message, ended.code),
            other => println!("unexpected: {other:?}"),
        }
        windlass::Result::Ok(())
    };
    let mut end = Ok(());
    worker.run_until(async { end = decided.await }).await?;
    end
}

async fn refund(job: Refund, ctx: Context) -> Result<String, HandlerError> {
    ctx.approval("refund").prompt(&format!("refund {} cents?", job.cents)).approver("ada").await?;
    // Only a yes comes here, in another attempt; a no fails the job.
    Ok(format!("refunded {} cents in attempt {}", job.cents, ctx.fence()))
}

/// What a page with a button would do.
async fn decide(client: &Client, job: JobId, decision: Decision, why: &str) -> windlass::Result<()> {
    let mut events = client.watch(job);
    while let Some(event) = futures_util::StreamExt::next(&mut events).await {
        if event?.what.type_name() == "job_waiting" {
            break;
        }
    }
    let status = client.job(job).await?.map(|view| view.job.status);
    assert_eq!(status, Some(Status::Waiting), "it holds no worker");
    for asked in client.approvals(job).await? {
        println!("{} {decision:?}", asked.prompt);
        client.decide(asked.approval.id, decision).by("ada").reason(why).await?;
    }
    Ok(())
}
