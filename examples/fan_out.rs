//! One job spawns many, waits for them without a worker, and adds up what they found.
//!
//! `cargo run -p windlass --example fan_out [STORE-URL]`

use serde::{Deserialize, Serialize};
use windlass::{Context, HandlerError, Job, Worker};

#[derive(Serialize, Deserialize)]
struct CountPrimes {
    below: u32,
}

impl Job for CountPrimes {
    const KIND: &str = "primes.count";
    type Output = u32;
}

#[derive(Serialize, Deserialize)]
struct CountRange {
    from: u32,
    to: u32,
}

impl Job for CountRange {
    const KIND: &str = "primes.range";
    type Output = u32;
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/fan_out.db".into());
    let client = windlass::connect(&url).await?;
    let sent = client.enqueue(CountPrimes { below: 1_000 }).await?;

    // One slot is enough: the parent holds none while its children run.
    let worker = Worker::new(client.clone()).queue("default", 1).handle(count_primes).handle(count_range);
    let mut found = None;
    worker.run_until(async { found = Some(client.wait::<CountPrimes>(sent.id).await) }).await?;
    if let Some(primes) = found {
        println!("{} primes below 1000", primes?);
    }
    Ok(())
}

async fn count_primes(job: CountPrimes, ctx: Context) -> Result<u32, HandlerError> {
    let ranges = (0..job.below).step_by(100).map(|from| CountRange { from, to: job.below.min(from + 100) });
    let children = ctx.spawn_many("range", ranges).await?;
    let counts = ctx.join("ranges", &children).await?;
    println!("{} children joined in attempt {}", counts.len(), ctx.fence());
    let mut sum = 0;
    for count in counts {
        // A child that failed stays failed: trying this job again would not help.
        sum += count.map_err(HandlerError::permanent)?;
    }
    Ok(sum)
}

async fn count_range(job: CountRange, _ctx: Context) -> Result<u32, HandlerError> {
    let is_prime = |n: &u32| *n > 1 && (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    Ok((job.from..job.to).filter(is_prime).map(|_| 1).sum())
}
