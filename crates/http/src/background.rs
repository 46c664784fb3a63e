//! What a server does besides answering: it reads the feed, looks at deadlines, tries whether the store takes writes
//! again, and tidies what it measured.

use crate::app::App;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use windlass_store::{Sweep, fresh};

/// How often deadlines are looked at; workers do the same.
const SWEEP: Duration = Duration::from_secs(5);
/// The most of one sweep.
const SWEPT: usize = 1_000;
/// How often what was measured is tidied.
const TIDY: Duration = Duration::from_secs(5);

/// Starts the parts. They end with the set.
pub(crate) fn start(app: &Arc<App>, sweeps: bool) -> JoinSet<()> {
    let mut parts = JoinSet::new();
    let (reader, sweeper, tidier, writer) =
        (Arc::clone(app), Arc::clone(app), Arc::clone(app), Arc::clone(app));
    parts.spawn(keep("feed", move || follow(Arc::clone(&reader))));
    parts.spawn(keep("metrics", move || tidy(Arc::clone(&tidier))));
    parts.spawn(keep("writes", move || watch_writes(Arc::clone(&writer))));
    if sweeps {
        parts.spawn(keep("sweep", move || sweep(Arc::clone(&sweeper))));
    }
    parts
}

/// Begins a part again when it panicked, so that a bug costs a moment and not the server.
async fn keep<F: Future<Output = ()>>(name: &'static str, begin: impl Fn() -> F) {
    loop {
        if AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
            tracing::error!(part = name, "a part of the server panicked and begins again; this is a bug");
        }
        sleep(Duration::from_secs(1)).await;
    }
}

async fn follow(app: Arc<App>) {
    app.hub.run().await;
}

async fn watch_writes(app: Arc<App>) {
    app.writes.watch(&*app.store).await;
}

async fn tidy(app: Arc<App>) {
    loop {
        sleep(TIDY).await;
        app.metrics.tidy();
    }
}

async fn sweep(app: Arc<App>) {
    loop {
        let [chance] = fresh::random::<1>();
        sleep(SWEEP.mul_f64(0.75 + f64::from(chance) / 1_024.0)).await;
        loop {
            match app.store.sweep(Sweep { limit: SWEPT }, None).await {
                Ok(swept) if swept.len() >= SWEPT => tokio::task::yield_now().await,
                Ok(_) => break,
                // The reader of the feed has said so already.
                Err(error) => {
                    tracing::debug!(%error, "deadlines could not be looked at");
                    break;
                }
            }
        }
    }
}
