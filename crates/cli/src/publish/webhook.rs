//! Webhooks: each event is POSTed, signed as Standard Webhooks says.

use crate::outbound::{retry_after, root};
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use reqwest::{Client, StatusCode, Url};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::trigger::webhook::{Signed, WebhookSecret};
use windlass_engine::service::{Message, PublishError, Published, Publisher};
use windlass_store::{Credential, fresh};

/// How many jobs' events are on their way at once.
const AT_ONCE: usize = 8;

/// A web service that is sent events.
pub struct Webhook {
    client: Client,
    url: Url,
    timeout: Duration,
    secret: WebhookSecret,
}

impl Webhook {
    /// The service at `url`.
    pub fn new(
        client: Client,
        url: &str,
        timeout_ms: i64,
        credential: Option<Credential>,
    ) -> Result<Self, PublishError> {
        let unusable = |why: String| PublishError::Temporary(why, None);
        let url = Url::parse(url).map_err(|e| unusable(format!("the address cannot be used: {e}")))?;
        let secret = credential.and_then(|credential| WebhookSecret::parse(credential.reveal()).ok());
        let secret = secret.ok_or_else(|| unusable("there is no secret to sign with".to_owned()))?;
        Ok(Self { client, url, timeout: Duration::from_millis(timeout_ms.unsigned_abs()), secret })
    }

    async fn send(&self, message: &Message) -> Result<(), PublishError> {
        let timestamp = (fresh::wall_clock().as_micros() / 1_000_000).to_string();
        let signed = Signed { id: &message.id, timestamp: &timestamp, body: &message.body };
        let request = self.client.post(self.url.clone()).timeout(self.timeout);
        let request = request
            .header("Content-Type", "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", &timestamp)
            .header("webhook-signature", self.secret.sign(&signed))
            .body(message.body.clone());
        let host = self.url.host_str().unwrap_or_default();
        let unanswered = |error: reqwest::Error| {
            let why = if error.is_timeout() {
                format!("no answer within {} s", self.timeout.as_secs_f32())
            } else {
                root(&error.without_url())
            };
            PublishError::Temporary(format!("{host} did not answer: {why}"), None)
        };
        let answer = request.send().await.map_err(unanswered)?;
        let (status, wait) = (answer.status(), retry_after(&answer));
        // What else it says is of no interest, and may be long.
        drop(answer);
        let why = format!("{host} answered {status}");
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::GONE => Err(PublishError::Permanent(why)),
            _ => Err(PublishError::Temporary(why, wait)),
        }
    }

    /// Sends the events of one job, one after the other, up to the first that does not arrive.
    async fn send_in_order(
        &self,
        messages: Vec<(usize, &Message)>,
        failed: &AtomicBool,
    ) -> (Vec<usize>, Option<PublishError>) {
        let mut arrived = Vec::new();
        for (at, message) in messages {
            // What fails once is likely to fail again, and each try may take as long as the timeout.
            if failed.load(Ordering::Relaxed) {
                break;
            }
            match self.send(message).await {
                Ok(()) => arrived.push(at),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    return (arrived, Some(error));
                }
            }
        }
        (arrived, None)
    }
}

#[async_trait]
impl Publisher for Webhook {
    async fn publish(&mut self, messages: &[Message]) -> Published {
        let mut jobs: Vec<(JobId, Vec<(usize, &Message)>)> = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            match jobs.iter_mut().find(|(job, _)| *job == message.job) {
                Some((_, of_job)) => of_job.push((at, message)),
                None => jobs.push((message.job, vec![(at, message)])),
            }
        }
        let mut arrived = vec![false; messages.len()];
        let (this, failed) = (&*self, AtomicBool::new(false));
        let sends: Vec<_> = jobs.into_iter().map(|(_, of_job)| this.send_in_order(of_job, &failed)).collect();
        let mut sends = stream::iter(sends).buffer_unordered(AT_ONCE);
        let mut error = None;
        while let Some((sent, why)) = sends.next().await {
            sent.into_iter().for_each(|at| arrived[at] = true);
            // That it is gone matters more than that it is slow.
            if !matches!(error, Some(PublishError::Permanent(_))) {
                error = why.or(error);
            }
        }
        Published { arrived, error }
    }
}
