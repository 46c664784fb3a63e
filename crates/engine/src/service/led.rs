//! What one process does for all while it leads: the one list of it, for servers and workers alike.

use crate::archive::Archive;
use crate::service::{
    Alerts, Dispatcher, Follower, IdleCanceller, Leader, LiveSettings, Operations, Publishers, Publishing,
    QueueBreaker, Retention, Scheduler, SealReader, StatsReader, TriggerProcessor,
};
use crate::shutdown::Shutdown;
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::sync::Arc;
use tokio::sync::Notify;
use windlass_store::Store;

/// Fires schedules, assigns jobs of push queues, processes kept events of triggers, adds up the feed and seals it, carries
/// events to where subscriptions say, removes finished jobs whose time is over, cancels idle ones, carries out operations,
/// watches alerts and breaks queues whose jobs fail, all while its leader leads.
#[derive(Debug)]
pub struct LedServices {
    store: Arc<dyn Store>,
    leader: Leader,
    settings: LiveSettings,
    publishers: Option<Arc<dyn Publishers>>,
    archive: Option<Arc<dyn Archive>>,
    operations: Arc<Notify>,
}

impl LedServices {
    /// The services over this store, for the time in which `leader` leads.
    pub fn new(store: Arc<dyn Store>, leader: Leader, settings: LiveSettings) -> Self {
        Self { store, leader, settings, publishers: None, archive: None, operations: Arc::default() }
    }

    /// Sends what subscriptions and alerts ask for through these. Without, subscriptions stand still and alerts are only noted.
    #[must_use]
    pub fn publishers(mut self, publishers: Option<Arc<dyn Publishers>>) -> Self {
        self.publishers = publishers;
        self
    }

    /// Archives here what it removes. Without, nothing is removed that the settings want archived.
    #[must_use]
    pub fn archive(mut self, archive: Option<Arc<dyn Archive>>) -> Self {
        self.archive = archive;
        self
    }

    /// Whoever makes an operation notifies this.
    #[must_use]
    pub fn operations(mut self, news: Arc<Notify>) -> Self {
        self.operations = news;
        self
    }

    /// Runs until it is to end, and then resigns.
    pub async fn run(self, shutdown: Shutdown) {
        let Self { store, leader, settings, publishers, archive, operations } = self;
        let (store, leads) = (|| Arc::clone(&store), || leader.leading());
        let scheduler = Scheduler::new(store(), leads(), settings.clone());
        let dispatcher = Dispatcher::new(store(), leads(), settings.clone());
        let triggers = TriggerProcessor::new(store(), leads(), settings.clone());
        let stats = Follower::new(store(), leads(), StatsReader::new(store()));
        let seals = SealReader::new(store(), settings.clone()).follow(leads());
        let alerts = Alerts::new(store(), leads(), publishers.clone());
        let publishing = publishers.map(|made| Publishing::new(store(), leads(), made));
        let retention = Retention::new(store(), leads(), settings.clone(), archive);
        let idle = IdleCanceller::new(store(), leads(), settings);
        let operations = Operations::new(store(), leads(), operations);
        let breaker = QueueBreaker::new(store(), leads());
        let ends = || shutdown.clone();
        // Each in a box of its own: together they are more than a thread's stack should hold.
        let mut services = vec![
            leader.run(ends()).boxed(),
            scheduler.run(ends()).boxed(),
            dispatcher.run(ends()).boxed(),
            triggers.run(ends()).boxed(),
            stats.run(ends()).boxed(),
            seals.run(ends()).boxed(),
            retention.run(ends()).boxed(),
            idle.run(ends()).boxed(),
            operations.run(ends()).boxed(),
            alerts.run(ends()).boxed(),
            breaker.run(ends()).boxed(),
        ];
        services.extend(publishing.map(|publishing| publishing.run(ends()).boxed()));
        join_all(services).await;
    }
}
