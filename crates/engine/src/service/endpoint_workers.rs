//! Sends the jobs of queues with an endpoint to their web services: a worker for each, in every server.
//!
//! What a job comes to is decided as for any worker, by its lease. Several servers share a queue as several workers do.

use crate::handler::Handler;
use crate::shutdown::{Level, Shutdown};
use crate::worker::Worker;
use futures_util::FutureExt;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use windlass_core::Name;
use windlass_core::registry::Endpoint;
use windlass_store::{Store, StoreResult};

/// How often it looks which queues have an endpoint: so soon a change takes effect.
const LOOK: Duration = Duration::from_secs(4);
/// How long jobs that are with a service may go on when the endpoint goes or the server ends.
const ENDING: Duration = Duration::from_secs(20);

/// Makes handlers that send jobs to a web service.
pub trait Endpoints: fmt::Debug + Send + Sync {
    /// A handler for jobs of this endpoint, or why there can be none.
    fn handler(&self, endpoint: &Endpoint) -> Result<Handler, String>;
}

/// A worker for every queue with an endpoint.
#[derive(Debug)]
pub struct EndpointWorkers {
    store: Arc<dyn Store>,
    endpoints: Arc<dyn Endpoints>,
    lease: Duration,
}

impl EndpointWorkers {
    /// Workers on this store, which send jobs as `endpoints` does, each held under a lease of this length.
    pub fn new(store: Arc<dyn Store>, endpoints: Arc<dyn Endpoints>, lease: Duration) -> Self {
        Self { store, endpoints, lease }
    }

    /// Works until it is to end, then lets jobs that are with a service finish.
    pub async fn run(self, shutdown: Shutdown) {
        let (mut running, mut tasks) = (BTreeMap::<Name, Running>::new(), JoinSet::new());
        loop {
            match self.wanted().await {
                Ok(wanted) => self.adjust(wanted, &mut running, &mut tasks),
                // Workers go on with what they know, and ask the store themselves.
                Err(error) => tracing::debug!(%error, "which queues have an endpoint is not known"),
            }
            tokio::select! {
                () = shutdown.reached(Level::Graceful) => break,
                Some(ended) = tasks.join_next() => note_end(ended, &mut running),
                () = sleep(LOOK) => {}
            }
        }
        running.values().for_each(|one| one.shutdown.graceful());
        while let Some(ended) = tasks.join_next().await {
            note_end(ended, &mut running);
        }
    }

    async fn wanted(&self) -> StoreResult<BTreeMap<Name, Endpoint>> {
        let queues = self.store.queue_settings((), None).await?.into_iter();
        Ok(queues.filter_map(|queue| Some((queue.name, queue.endpoint?))).collect())
    }

    /// Ends workers whose endpoint is another by now or gone, and starts those that are missing.
    fn adjust(
        &self,
        wanted: BTreeMap<Name, Endpoint>,
        running: &mut BTreeMap<Name, Running>,
        tasks: &mut JoinSet<(Name, Result<(), String>)>,
    ) {
        for (queue, one) in running.iter() {
            if wanted.get(queue) != Some(&one.endpoint) {
                // The next one starts when this one has ended: no more are with the service than it may have.
                one.shutdown.graceful();
            }
        }
        for (queue, endpoint) in wanted {
            if running.contains_key(&queue) {
                continue;
            }
            let handler = match self.endpoints.handler(&endpoint) {
                Ok(handler) => handler,
                Err(why) => {
                    tracing::warn!(%queue, why, "the endpoint of a queue cannot be used");
                    continue;
                }
            };
            tracing::info!(%queue, url = endpoint.shown_url(), at_once = endpoint.max, "jobs of a queue are sent to its endpoint");
            let shutdown = Shutdown::new();
            let worker = Worker::new(Arc::clone(&self.store))
                .identity("endpoint")
                .lease(self.lease)
                .shutdown_deadline(ENDING)
                .queue(queue.as_str(), usize::try_from(endpoint.max).unwrap_or(1))
                .handle_any(handler);
            let (name, end) = (queue.clone(), shutdown.clone());
            tasks.spawn(async move {
                let ended = match AssertUnwindSafe(worker.run(end)).catch_unwind().await {
                    Ok(ended) => ended.map_err(|error| error.to_string()),
                    Err(_) => Err("it panicked; this is a bug".to_owned()),
                };
                (name, ended)
            });
            running.insert(queue, Running { endpoint, shutdown });
        }
    }
}

/// A worker that runs.
#[derive(Debug)]
struct Running {
    endpoint: Endpoint,
    shutdown: Shutdown,
}

/// A worker has ended; where it is still wanted, the next look starts another.
fn note_end(
    ended: Result<(Name, Result<(), String>), tokio::task::JoinError>,
    running: &mut BTreeMap<Name, Running>,
) {
    match ended {
        Ok((queue, outcome)) => {
            if let Err(error) = outcome {
                tracing::error!(%queue, error, "the worker of an endpoint ended; it begins again");
            }
            running.remove(&queue);
        }
        // It is aborted with this service only.
        Err(error) => tracing::debug!(%error, "a worker of an endpoint was aborted"),
    }
}
