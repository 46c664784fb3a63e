//! The smallest program: one job, one worker, one result.
//!
//! `cargo run -p windlass --example hello [STORE-URL]`

use serde::{Deserialize, Serialize};
use windlass::{Context, Job, Worker};

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Job for Greet {
    const KIND: &str = "greet";
    type Output = String;
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/hello.db".into());
    let client = windlass::connect(&url).await?;
    let sent = client.enqueue(Greet { name: "Ada".into() }).await?;
    println!("enqueued {}", sent.id);

    let worker = Worker::new(client.clone()).queue("default", 4).handle(greet);
    let greeted = async {
        match client.wait::<Greet>(sent.id).await {
            Ok(greeting) => println!("{greeting}"),
            Err(error) => println!("it did not work: {error}"),
        }
    };
    // The worker runs until the greeting is there.
    worker.run_until(greeted).await
}

async fn greet(job: Greet, ctx: Context) -> Result<String, windlass::HandlerError> {
    ctx.log(format!("greeting {}", job.name)).await?;
    Ok(format!("hello, {}", job.name))
}
