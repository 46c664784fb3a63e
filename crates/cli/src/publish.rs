//! Where subscriptions carry events to: web services, and RabbitMQ.

#[cfg(feature = "amqp")]
mod amqp;
mod webhook;

use crate::outbound;
use async_trait::async_trait;
use reqwest::Client;
use windlass_core::subscription::{Subscription, Target};
use windlass_engine::service::{PublishError, Publisher, Publishers};
use windlass_http::carried;
use windlass_store::{Credential, FeedEvent};

/// Every kind of target that this program can carry events to.
#[derive(Debug)]
pub struct Targets {
    client: Client,
}

impl Targets {
    /// With one HTTP client for all.
    pub fn new() -> crate::fail::Outcome<Self> {
        Ok(Self { client: outbound::client()? })
    }
}

#[async_trait]
impl Publishers for Targets {
    async fn open(
        &self,
        subscription: &Subscription,
        credential: Option<Credential>,
    ) -> Result<Box<dyn Publisher>, PublishError> {
        match &subscription.target {
            Target::Webhook { url, timeout_ms } => {
                Ok(Box::new(webhook::Webhook::new(self.client.clone(), url, *timeout_ms, credential)?))
            }
            #[cfg(feature = "amqp")]
            Target::Amqp { url, exchange, mandatory } => {
                Ok(Box::new(amqp::Exchange::open(url, credential, exchange, *mandatory).await?))
            }
            #[cfg(not(feature = "amqp"))]
            Target::Amqp { .. } => {
                let why = "this windlass was built without the feature amqp";
                Err(PublishError::Temporary(why.to_owned(), None))
            }
        }
    }

    fn write(&self, event: &FeedEvent) -> Vec<u8> {
        carried(event)
    }
}
