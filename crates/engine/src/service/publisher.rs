//! Carries events out of the store: to web services, to brokers.
//!
//! The leader runs one task per subscription, each of which follows the feed from a place of its own. The place moves once
//! everything before it has arrived, so an event arrives at least once, and those of one job in their order. What cannot be
//! delivered is tried again and delays no other subscription.

use crate::repeat::jittered;
use crate::service::follower::{Follower, Reader, Start};
use crate::service::leader::Leading;
use crate::service::queue_policies::QueuePolicies;
use crate::service::receiver::{Receiving, Source};
use crate::shutdown::Shutdown;
use async_trait::async_trait;
use metrics::{counter, gauge};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;
use windlass_core::subscription::{Begin, Subscription, Target};
use windlass_core::{JobId, Name, Refusal, Version};
use windlass_store::{
    Credential, Delivery, FeedEvent, Findings, Place, ReportSubscription, Store, StoreResult,
    SubscriptionState,
};

/// How often it looks whether a subscription was made, changed, paused or removed.
const EVERY: Duration = Duration::from_secs(2);
/// How long events gather before they are sent.
const GATHER: Duration = Duration::from_millis(100);
/// How many events are read at once, and so in memory for a subscription.
const PAGE: usize = 200;
/// How soon what failed is tried again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// The longest that the other side may ask to wait.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// An event on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The same each time that it is sent: the job and the version of the event.
    pub id: String,
    /// Whose event.
    pub job: JobId,
    /// Its place in the job's log.
    pub version: Version,
    /// The job's queue.
    pub queue: Name,
    /// The job's kind.
    pub kind: Name,
    /// What happened.
    pub type_name: String,
    /// The event as JSON.
    pub body: Vec<u8>,
}

/// Why messages did not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishError {
    /// They may arrive later: why, and when to try again if the other side said so.
    Temporary(String, Option<Duration>),
    /// The other side says that it wants no more.
    Permanent(String),
}

/// What came of messages.
#[derive(Debug)]
pub struct Published {
    /// Which of them have arrived, each at its place.
    pub arrived: Vec<bool>,
    /// Why the others have not.
    pub error: Option<PublishError>,
}

/// Sends messages to one other side.
#[async_trait]
pub trait Publisher: Send + Sync {
    /// Sends messages and waits until each has surely arrived, or one did not. Of one job, none is sent before those ahead
    /// of it have arrived.
    async fn publish(&mut self, messages: &[Message]) -> Published;
}

/// Makes publishers, and says how events are written.
#[async_trait]
pub trait Publishers: Send + Sync + std::fmt::Debug {
    /// One for a subscription.
    async fn open(
        &self,
        subscription: &Subscription,
        credential: Option<Credential>,
    ) -> Result<Box<dyn Publisher>, PublishError>;

    /// Where messages come from, for a subscription that takes them in.
    async fn source(
        &self,
        subscription: &Subscription,
        credential: Option<Credential>,
    ) -> Result<Box<dyn Source>, PublishError>;

    /// An event as JSON.
    fn write(&self, event: &FeedEvent) -> Vec<u8>;
}

/// Runs what subscriptions ask for, while this process leads.
#[derive(Debug)]
pub struct Publishing {
    store: Arc<dyn Store>,
    leading: Leading,
    publishers: Arc<dyn Publishers>,
}

/// Tasks by subscription, each with the version that it delivers under. They end with it.
#[derive(Default)]
struct Running(HashMap<Name, (i64, JoinSet<()>)>);

impl Running {
    /// Whether one runs that delivers as the subscription stands. One that panicked does not.
    fn has(&mut self, state: &SubscriptionState) -> bool {
        let Some((version, task)) = self.0.get_mut(&state.name) else { return false };
        match task.try_join_next() {
            Some(ended) => {
                tracing::error!(subscription = %state.name, ?ended, "a publisher ended and begins again; this is a bug");
                false
            }
            None => *version == state.version,
        }
    }

    /// Ends one, and waits until it sends no more.
    async fn end(&mut self, name: &Name) {
        if let Some((_, mut task)) = self.0.remove(name) {
            task.shutdown().await;
        }
    }
}

impl Publishing {
    /// Publishes what happens in this store while this process leads.
    pub fn new(store: Arc<dyn Store>, leading: Leading, publishers: Arc<dyn Publishers>) -> Self {
        Self { store, leading, publishers }
    }

    /// Publishes until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.keep(epoch)).await;
        }
    }

    async fn keep(&self, epoch: i64) {
        let mut running = Running::default();
        let mut is_silent = false;
        loop {
            match self.store.subscriptions((), None).await {
                Ok(states) => {
                    is_silent = false;
                    self.fit(epoch, &mut running, states).await;
                }
                Err(error) if !is_silent => {
                    tracing::warn!(%error, "subscriptions cannot be looked at; it is tried again until they can");
                    is_silent = true;
                }
                Err(_) => {}
            }
            sleep(EVERY).await;
        }
    }

    /// Makes what runs what there is.
    async fn fit(&self, epoch: i64, running: &mut Running, states: Vec<SubscriptionState>) {
        let is_wanted =
            |name: &Name| states.iter().any(|state| state.name == *name && state.paused.is_none());
        let gone: Vec<Name> = running.0.keys().filter(|name| !is_wanted(name)).cloned().collect();
        for name in gone {
            running.end(&name).await;
        }
        for state in states {
            let works = state.paused.is_none() && state.failing.is_none();
            gauge!("windlass_subscription_up", "subscription" => state.name.to_string()).set(if works {
                1.0
            } else {
                0.0
            });
            if state.paused.is_some() || running.has(&state) {
                continue;
            }
            running.end(&state.name).await;
            let (name, version) = (state.name.clone(), state.version);
            if let Some(task) = self.start(epoch, state) {
                running.0.insert(name, (version, task));
            }
        }
    }

    fn start(&self, epoch: i64, state: SubscriptionState) -> Option<JoinSet<()>> {
        let subscription = state.subscription?;
        let mut task = JoinSet::new();
        if let Target::AmqpQueue { becomes, .. } = &subscription.target {
            let receiving = Receiving {
                store: Arc::clone(&self.store),
                name: state.name,
                version: state.version,
                epoch,
                becomes: becomes.clone(),
                fails: state.failing.is_some(),
                policies: QueuePolicies::default(),
            };
            task.spawn(receiving.run(Arc::clone(&self.publishers), subscription));
            return Some(task);
        }
        let start = match subscription.from {
            Begin::Start => Start::Beginning,
            Begin::Now => Start::Now,
        };
        let reader = Sender {
            store: Arc::clone(&self.store),
            publishers: Arc::clone(&self.publishers),
            publisher: None,
            subscription,
            name: state.name,
            version: state.version,
            epoch,
            fails: state.failing.is_some(),
            tries: 0,
        };
        let follower = Follower::new(Arc::clone(&self.store), self.leading.clone(), reader);
        let follower = follower.first(start).expired(start).gather(GATHER).page(PAGE);
        task.spawn(follower.run(Shutdown::new()));
        Some(task)
    }
}

/// Reads the feed for one subscription, and sends what it selects.
struct Sender {
    store: Arc<dyn Store>,
    publishers: Arc<dyn Publishers>,
    publisher: Option<Box<dyn Publisher>>,
    subscription: Subscription,
    name: Name,
    version: i64,
    epoch: i64,
    /// Whether the store says that deliveries fail.
    fails: bool,
    /// How often it was tried in vain.
    tries: u32,
}

impl Sender {
    fn message(&self, fed: &FeedEvent) -> Message {
        Message {
            id: format!("{}.{}", fed.event.job, fed.event.version),
            job: fed.event.job,
            version: fed.event.version,
            queue: fed.queue.clone(),
            kind: fed.kind.clone(),
            type_name: fed.event.what.type_name().to_owned(),
            body: self.publishers.write(fed),
        }
    }

    /// Sends what is left of the messages, once, and keeps what did not arrive.
    async fn send(&mut self, left: &mut Vec<Message>) -> Result<(), PublishError> {
        let publisher = match &mut self.publisher {
            Some(publisher) => publisher,
            None => {
                let unavailable = |error: windlass_store::StoreError| {
                    PublishError::Temporary(format!("the store does not answer: {error}"), None)
                };
                let credential = self.store.credential(self.name.clone(), None).await.map_err(unavailable)?;
                let opened = self.publishers.open(&self.subscription, credential).await?;
                self.publisher.insert(opened)
            }
        };
        let Published { arrived, error } = publisher.publish(left).await;
        let before = left.len();
        let mut arrived = arrived.into_iter();
        left.retain(|_| !arrived.next().unwrap_or_default());
        let sent = before - left.len();
        counter!("windlass_published_total", "subscription" => self.name.to_string()).increment(sent as u64);
        if sent > 0 {
            self.tries = 0;
        }
        match error {
            Some(error) => Err(error),
            None if !left.is_empty() => {
                Err(PublishError::Temporary("it is not known whether they arrived".to_owned(), None))
            }
            None => Ok(()),
        }
    }

    /// Notes a failure and waits until it is to be tried again. Does not come back from one that is for good.
    async fn fail(&mut self, error: PublishError) {
        counter!("windlass_publish_failures_total", "subscription" => self.name.to_string()).increment(1);
        let (delivery, wait) = match error {
            PublishError::Temporary(why, wait) => (Delivery::Fails(why), wait),
            PublishError::Permanent(why) => (Delivery::GivesUp(why), None),
        };
        if !self.fails {
            tracing::warn!(subscription = %self.name, ?delivery, "events are not delivered");
        }
        self.fails = true;
        let is_over = matches!(delivery, Delivery::GivesUp(_));
        let stopped = self.report(delivery).await;
        if stopped {
            tracing::warn!(subscription = %self.name, "delivers no more until it is resumed");
            // Who started this ends it.
            std::future::pending::<()>().await;
        }
        let again = AGAIN.0.saturating_mul(1 << self.tries.min(10)).min(AGAIN.1);
        self.tries += 1;
        let again = if is_over { AGAIN.1 } else { again };
        sleep(jittered(again).max(wait.unwrap_or_default().min(WAIT_MAX))).await;
    }

    /// Reports how deliveries go. Says whether there is nothing more to deliver for this task.
    async fn report(&self, delivery: Delivery) -> bool {
        let (term, epoch, name) = (Leading::term(), self.epoch, self.name.clone());
        let report = ReportSubscription { term, epoch, name, version: self.version, delivery };
        match self.store.report_subscription(report, None).await {
            Ok(Ok(state)) => state.paused.is_some(),
            // Led by another, changed or removed.
            Ok(Err(
                Refusal::StaleEpoch(_) | Refusal::VersionMismatch(_) | Refusal::SubscriptionNotFound(_),
            )) => true,
            Ok(Err(refusal)) => {
                tracing::warn!(subscription = %self.name, %refusal, "how deliveries go is not noted");
                false
            }
            // It is said again with the next try.
            Err(_) => false,
        }
    }
}

impl Reader for Sender {
    fn name(&self) -> Name {
        SubscriptionState::reader(&self.name)
    }

    fn begin(&mut self, _: Option<&Place>) {}

    async fn read(&mut self, events: &[FeedEvent]) -> StoreResult<Findings> {
        let select = &self.subscription.select;
        let wanted = events.iter().filter(|fed| select.takes(&fed.queue, &fed.kind, &fed.event));
        let mut left: Vec<Message> = wanted.map(|fed| self.message(fed)).collect();
        while !left.is_empty() {
            match self.send(&mut left).await {
                Ok(()) if self.fails => {
                    tracing::info!(subscription = %self.name, "events are delivered again");
                    self.fails = false;
                    self.report(Delivery::Works).await;
                }
                Ok(()) => {}
                Err(error) => self.fail(error).await,
            }
        }
        Ok(Findings::default())
    }
}
