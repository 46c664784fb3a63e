//! Limits and fairness: a queue runs two jobs at once and one of each customer, whatever the number of workers. A customer with many
//! jobs does not keep another waiting.
//!
//! `cargo run -p windlass --example limits [STORE-URL]`

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use windlass::{Context, HandlerError, Job, LaneRule, Lanes, QueueLimits, Worker};

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "sync", queue = "sync", output = usize)]
struct SyncShop {
    shop: String,
}

/// How many run now, and the most there were, by shop and in all (the empty name).
#[derive(Default)]
struct Seen {
    now: HashMap<String, usize>,
    most: HashMap<String, usize>,
    ended: usize,
}

impl Seen {
    fn begin(&mut self, name: &str) {
        let now = self.now.entry(name.to_owned()).or_default();
        *now += 1;
        let most = self.most.entry(name.to_owned()).or_default();
        *most = (*most).max(*now);
    }

    fn end(&mut self, name: &str) {
        *self.now.entry(name.to_owned()).or_default() -= 1;
    }
}

type Shared = Arc<Mutex<Seen>>;

/// Answers after how many others it ended.
async fn sync(job: SyncShop, ctx: Context<Shared>) -> Result<usize, HandlerError> {
    let seen = || ctx.state().lock().unwrap_or_else(PoisonError::into_inner);
    ["", job.shop.as_str()].iter().for_each(|name| seen().begin(name));
    tokio::time::sleep(Duration::from_millis(20)).await;
    ["", job.shop.as_str()].iter().for_each(|name| seen().end(name));
    let mut seen = seen();
    seen.ended += 1;
    Ok(seen.ended)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:windlass-data/limits.db".into());
    let client = windlass::connect(&url).await?;
    let each = LaneRule { concurrency: Some(1), ..LaneRule::default() };
    let lanes = Lanes { each, ..Lanes::default() };
    let limits = QueueLimits { concurrency: Some(2), lanes: Some(lanes), ..QueueLimits::default() };
    client.queue("sync").set_flow(limits).await?;

    let sync_of = |shop: &str| client.enqueue(SyncShop { shop: shop.to_owned() }).key(shop);
    let many = client.enqueue_many((0..10).map(|_| sync_of("acme"))).await?;
    // It came last, and does not wait for those.
    let late = sync_of("globex").await?;

    let seen = Shared::default();
    let worker = || {
        Worker::new(client.clone())
            .state(Arc::clone(&seen))
            .queue("sync", 8)
            .poll_every(Duration::from_millis(50))
            .handle(sync)
    };
    let ended = async {
        let place = client.wait::<SyncShop>(late.id).await;
        for job in &many {
            client.wait::<SyncShop>(job.id).await?;
        }
        place
    };
    let mut place = None;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let first = worker().run_until(async {
        place = Some(ended.await);
        drop(stop);
    });
    let second = worker().run_until(async move { drop(stopped.await) });
    tokio::try_join!(first, second)?;

    let place = place.ok_or("the workers ended early")??;
    println!("globex, which came last of 11, was {}", if place < 6 { "among the first" } else { "late" });
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let most = |name: &str| seen.most.get(name).copied().unwrap_or_default();
    println!("at once: acme {}, globex {}, in all {}", most("acme"), most("globex"), most(""));
    Ok(())
}
