//! Turns messages of a broker into jobs, or into news about jobs that they name.
//!
//! A message is acknowledged once the store has committed what it asks for. A broker that does not hear of it sends it again,
//! perhaps to another server: its id is the unique key of the job, so it makes one job however often it comes.

use crate::policy::{Policies, Policy};
use crate::service::leader::Leading;
use crate::service::publisher::{PublishError, Publishers};
use crate::service::queue_policies::QueuePolicies;
use async_trait::async_trait;
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::enqueue::Enqueue;
use windlass_core::subscription::{Becomes, KEPT_MS, Subscription};
use windlass_core::unique::Policy as Hold;
use windlass_core::{Actor, Facts, Invalid, JobId, Key, Name, NewJob, Payload, Refusal, Unique};
use windlass_store::{Delivery, ReportSubscription, Store, StoreError, fresh};

/// How soon what failed is tried again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// How often one message is tried before it is set aside.
const TRIES: u32 = 5;

/// Why a message is set aside that should name a job.
pub(crate) const NO_JOB: &str = "it names no job: job_id is missing or not an id";

/// A message that came.
#[derive(Debug, Clone)]
pub struct Received {
    /// By which it is acknowledged.
    pub tag: u64,
    /// What its sender calls it.
    pub id: Option<String>,
    /// What it brings.
    pub body: Vec<u8>,
}

/// Gives messages of one queue of a broker, and sends each again until it hears what became of it.
#[async_trait]
pub trait Source: Send + Sync {
    /// The next message; waits for one.
    async fn next(&mut self) -> Result<Received, PublishError>;
    /// A message is dealt with.
    async fn done(&mut self, tag: u64) -> Result<(), PublishError>;
    /// A message can never be dealt with, and why: it goes where such messages are kept.
    async fn set_aside(&mut self, message: &Received, why: &str) -> Result<(), PublishError>;
    /// A message is left to others.
    async fn give_back(&mut self, tag: u64) -> Result<(), PublishError>;
    /// Takes no more messages. Those that it was sent and has not given are left to others.
    async fn stop(&mut self) -> Result<(), PublishError>;
}

/// What a message came to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Came {
    /// It is dealt with.
    Done(&'static str),
    /// It can never be.
    Poison(String),
}

/// Takes in what one subscription receives.
pub(crate) struct Receiving {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) name: Name,
    pub(crate) version: i64,
    pub(crate) epoch: i64,
    pub(crate) becomes: Becomes,
    pub(crate) fails: bool,
    pub(crate) policies: QueuePolicies,
}

impl Receiving {
    /// Receives, and connects again when that fails, until it is ended.
    pub(crate) async fn run(mut self, sources: Arc<dyn Publishers>, subscription: Subscription) {
        let mut tries = 0;
        loop {
            let failed = match self.open(&*sources, &subscription).await {
                Ok(mut source) => {
                    self.note_works().await;
                    tries = 0;
                    self.receive(&mut *source).await
                }
                Err(error) => error,
            };
            let (why, is_over) = match failed {
                PublishError::Temporary(why, _) => (why, false),
                PublishError::Permanent(why) => (why, true),
            };
            if !self.fails {
                tracing::warn!(subscription = %self.name, why, "nothing is received");
            }
            self.fails = true;
            counter!("windlass_publish_failures_total", "subscription" => self.name.to_string()).increment(1);
            let delivery = if is_over { Delivery::GivesUp(why) } else { Delivery::Fails(why) };
            if self.report(delivery).await {
                std::future::pending::<()>().await;
            }
            sleep(AGAIN.0.saturating_mul(1 << tries).min(AGAIN.1)).await;
            tries = (tries + 1).min(10);
        }
    }

    async fn open(
        &self,
        sources: &dyn Publishers,
        subscription: &Subscription,
    ) -> Result<Box<dyn Source>, PublishError> {
        let unavailable =
            |error: StoreError| PublishError::Temporary(format!("the store does not answer: {error}"), None);
        let credential = self.store.credential(self.name.clone(), None).await.map_err(unavailable)?;
        sources.source(subscription, credential).await
    }

    async fn note_works(&mut self) {
        if self.fails {
            tracing::info!(subscription = %self.name, "messages are received again");
            self.fails = false;
            self.report(Delivery::Works).await;
        }
    }

    async fn report(&self, delivery: Delivery) -> bool {
        let (term, epoch, name) = (Leading::term(), self.epoch, self.name.clone());
        let report = ReportSubscription { term, epoch, name, version: self.version, delivery };
        match self.store.report_subscription(report, None).await {
            Ok(Ok(state)) => state.paused.is_some(),
            Ok(Err(_)) => true,
            Err(_) => false,
        }
    }

    /// Deals with messages until the source fails.
    async fn receive(&mut self, source: &mut dyn Source) -> PublishError {
        loop {
            let message = match source.next().await {
                Ok(message) => message,
                Err(error) => return error,
            };
            let came = self.deal_with(&message).await;
            let answered = match &came {
                Came::Done(_) => source.done(message.tag).await,
                Came::Poison(why) => {
                    let (subscription, id) = (&self.name, message.id.as_deref());
                    tracing::warn!(%subscription, id, why, "a message cannot be dealt with and is set aside");
                    source.set_aside(&message, why).await
                }
            };
            let outcome = if let Came::Done(outcome) = came { outcome } else { "set_aside" };
            let name = self.name.to_string();
            counter!("windlass_received_total", "subscription" => name, "outcome" => outcome).increment(1);
            if let Err(error) = answered {
                return error;
            }
        }
    }

    /// Deals with one message, however long the store does not answer.
    async fn deal_with(&self, message: &Received) -> Came {
        let mut tries = 0;
        loop {
            let why = match self.try_once(message).await {
                Ok(Ok(came)) => return came,
                Ok(Err(refusal)) => {
                    tries += 1;
                    if tries >= TRIES {
                        return Came::Poison(refusal.to_string());
                    }
                    refusal.to_string()
                }
                // No message is given up because the store is away.
                Err(error) => error.to_string(),
            };
            tracing::debug!(subscription = %self.name, why, "a message is not dealt with yet");
            sleep(AGAIN.0.saturating_mul(1 << tries.min(5))).await;
        }
    }

    async fn try_once(&self, message: &Received) -> Result<Result<Came, Refusal>, StoreError> {
        match &self.becomes {
            Becomes::Jobs { queue, kind } => {
                let ask = async || self.store.queue_settings((), None).await;
                let policies = self.policies.now(ask).await?;
                match self.job(message, queue, kind, &policies) {
                    Ok(job) => self.enqueue(job).await,
                    Err(invalid) => Ok(Ok(Came::Poison(invalid.to_string()))),
                }
            }
            Becomes::News => match named(&message.body) {
                Some(job) => self.look_at(job).await.map(Ok),
                None => Ok(Ok(Came::Poison(NO_JOB.to_owned()))),
            },
        }
    }

    fn job(
        &self,
        message: &Received,
        queue: &Name,
        kind: &Name,
        policies: &Policies,
    ) -> Result<NewJob, Invalid> {
        let missing =
            || Invalid::new("message_id", "missing", "is what makes a message that comes twice one job");
        let id = message.id.as_deref().filter(|id| !id.is_empty()).ok_or_else(missing)?;
        let mut facts = Facts::new(kind.clone(), queue.clone());
        policies.fill(&mut facts, &Policy::default());
        let key = Key::parse("message_id", format!("{}:{id}", self.name))?;
        facts.unique = Some(Unique { policy: Hold::Ttl(KEPT_MS), ..Unique::in_queue(queue.clone(), key) });
        facts.metadata.insert("subscription".to_owned(), self.name.as_str().into());
        facts.metadata.insert("message_id".to_owned(), id.into());
        let max = windlass_core::limits::PAYLOAD_MAX_BYTES;
        let payload = match serde_json::from_slice::<serde::de::IgnoredAny>(&message.body) {
            Ok(_) => Some(Payload::json("payload", message.body.clone(), max)?),
            Err(_) if message.body.is_empty() => None,
            Err(_) => Some(Payload::bytes("payload", message.body.clone(), max)?),
        };
        Ok(NewJob { id: fresh::job_id(), facts, payload, parent_token: None })
    }

    async fn enqueue(&self, job: NewJob) -> Result<Result<Came, Refusal>, StoreError> {
        let Ok(actor) = Actor::parse("actor", format!("subscription:{}", self.name)) else {
            return Ok(Ok(Came::Poison("the subscription's name is no actor's".to_owned())));
        };
        let wish = Enqueue { jobs: vec![job], actor, idempotency: None };
        Ok(match self.store.enqueue(wish, None).await? {
            Ok(made) if made.iter().any(|made| made.existed) => Ok(Came::Done("repeated")),
            Ok(_) => Ok(Came::Done("enqueued")),
            Err(refused) => match refused.refusal {
                // Its job was made, ended and removed since.
                Refusal::Purged(_) => Ok(Came::Done("repeated")),
                Refusal::Invalid(invalid) => Ok(Came::Poison(invalid.to_string())),
                refusal => Err(refusal),
            },
        })
    }

    /// A job that has ended, or is gone, needs nobody; of any other those who wait for work hear.
    async fn look_at(&self, job: JobId) -> Result<Came, StoreError> {
        let view = self.store.job(job, None).await?;
        if view.is_none_or(|view| view.job.status.is_terminal()) {
            return Ok(Came::Done("ignored"));
        }
        self.store.nudge();
        Ok(Came::Done("nudged"))
    }
}

/// The job that a message names: as subscriptions send it, or in an object of one's own.
pub(crate) fn named(body: &[u8]) -> Option<JobId> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let places = [&body["data"]["job_id"], &body["job_id"], &body["id"]];
    places.into_iter().find_map(|place| JobId::parse(place.as_str()?).ok())
}
