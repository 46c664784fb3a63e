//! Where subscriptions carry events to: web services, and RabbitMQ.

#[cfg(feature = "amqp")]
mod amqp;
#[cfg(feature = "amqp")]
mod amqp_named;
#[cfg(feature = "amqp")]
mod amqp_queue;
mod webhook;

#[cfg(feature = "amqp")]
pub use amqp_named::NamedJobs;

use crate::outbound;
use crate::post::Service;
use async_trait::async_trait;
use reqwest::Client;
use std::sync::Arc;
use windlass_core::registry::Endpoint;
use windlass_core::subscription::{Subscription, Target};
use windlass_engine::Handler;
use windlass_engine::service::{Endpoints, PublishError, Publisher, Publishers, Source};
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

fn unknown() -> PublishError {
    PublishError::Temporary("this windlass was built without what that needs".to_owned(), None)
}

impl Endpoints for Targets {
    fn handler(&self, endpoint: &Endpoint) -> Result<Handler, String> {
        let service = Arc::new(Service::of(self.client.clone(), endpoint)?);
        Ok(Handler::from_fn(move |attempt| {
            let service = Arc::clone(&service);
            async move { service.run(attempt).await }
        }))
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
                let uri = amqp::uri(url, credential)?;
                Ok(Box::new(amqp::Exchange::open(uri, exchange, *mandatory).await?))
            }
            _ => Err(unknown()),
        }
    }

    async fn source(
        &self,
        subscription: &Subscription,
        credential: Option<Credential>,
    ) -> Result<Box<dyn Source>, PublishError> {
        match &subscription.target {
            #[cfg(feature = "amqp")]
            Target::AmqpQueue { url, queue, dead_letter, .. } => {
                let uri = amqp::uri(url, credential)?;
                Ok(Box::new(amqp_queue::Queue::open(uri, queue, dead_letter, amqp_queue::AHEAD).await?))
            }
            _ => {
                drop(credential);
                Err(unknown())
            }
        }
    }

    fn write(&self, event: &FeedEvent) -> Vec<u8> {
        carried(event)
    }
}
