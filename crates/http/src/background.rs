//! What a server does besides answering: it reads the feed, looks at deadlines, tries whether the store takes writes
//! again, and tidies what it measured.

use crate::app::App;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use windlass_core::Who;
use windlass_engine::Shutdown;
use windlass_engine::service::{EndpointWorkers, Endpoints, Leader, LedServices, Publishers, Sweeper};
use windlass_store::fresh;

/// How often what was measured is tidied.
const TIDY: Duration = Duration::from_secs(5);

/// Starts the parts. They end with the set.
pub(crate) fn start(
    app: &Arc<App>,
    sweeps: bool,
    schedules: bool,
    publishers: Option<Arc<dyn Publishers>>,
    endpoints: Option<Arc<dyn Endpoints>>,
) -> JoinSet<()> {
    let mut parts = JoinSet::new();
    let (reader, sweeper, tidier, writer, keeper) =
        (Arc::clone(app), Arc::clone(app), Arc::clone(app), Arc::clone(app), Arc::clone(app));
    parts.spawn(keep("feed", move || follow(Arc::clone(&reader))));
    parts.spawn(keep("passes", move || watch_passes(Arc::clone(&keeper))));
    parts.spawn(keep("metrics", move || tidy(Arc::clone(&tidier))));
    parts.spawn(keep("writes", move || watch_writes(Arc::clone(&writer))));
    if schedules {
        let leads = Arc::clone(app);
        parts.spawn(keep("schedules", move || schedule(Arc::clone(&leads), publishers.clone())));
    }
    if let Some(endpoints) = endpoints {
        let sender = Arc::clone(app);
        parts.spawn(keep("endpoints", move || send(Arc::clone(&sender), Arc::clone(&endpoints))));
    }
    parts.spawn(keep("sweep", move || sweep(Arc::clone(&sweeper), sweeps)));
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

async fn watch_passes(app: Arc<App>) {
    app.passes.watch(&app).await;
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

/// Does what one process does for all, while this server leads.
async fn schedule(app: Arc<App>, publishers: Option<Arc<dyn Publishers>>) {
    let name: String = fresh::random::<8>().iter().map(|byte| format!("{byte:02x}")).collect();
    let Ok(holder) = Who::try_from(format!("server-{name}")) else { return };
    let leader = Leader::new(Arc::clone(&app.store), holder);
    LedServices::new(Arc::clone(&app.store), leader, app.settings.clone())
        .publishers(publishers)
        .archive(app.archive.clone())
        .operations(Arc::clone(&app.operations))
        .run(app.ending.clone())
        .await;
    app.resigned.notify_one();
    std::future::pending().await
}

/// Sends jobs of queues with an endpoint there, until the server ends and those that are on their way have come back.
async fn send(app: Arc<App>, endpoints: Arc<dyn Endpoints>) {
    let lease = Duration::from_millis(app.lease_ms().await.get().unsigned_abs());
    EndpointWorkers::new(Arc::clone(&app.store), endpoints, lease).run(app.ending.clone()).await;
    app.drained.notify_one();
    std::future::pending().await
}

/// Looks at deadlines: now and then, unless that is left to others, and when somebody showed a lease that is over.
async fn sweep(app: Arc<App>, now_and_then: bool) {
    let sweeper = Sweeper::new(Arc::clone(&app.store)).overdue(Arc::clone(&app.overdue));
    let sweeper = if now_and_then { sweeper } else { sweeper.only_when_notified() };
    let sweeper = sweeper.heard(move |looked| {
        // The reader of the feed, or whoever tries whether writes are taken, says so.
        if let Err(error) = looked {
            tracing::debug!(%error, "deadlines could not be looked at");
            app.writes.failed(&error);
        }
    });
    sweeper.run(Shutdown::new()).await;
}
