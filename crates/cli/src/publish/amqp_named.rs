//! A queue of RabbitMQ whose messages name the jobs that a worker takes next.

use super::amqp::uri;
use super::amqp_queue::Queue;
use crate::args::ConsumeArgs;
use crate::fail::{Failure, Outcome};
use async_trait::async_trait;
use windlass_core::subscription::{Becomes, Target};
use windlass_engine::Deliveries;
use windlass_engine::service::{PublishError, Source};
use windlass_store::Credential;

/// The variable that holds the broker's password.
const SECRET: &str = "WINDLASS_CONSUME_SECRET";

/// A queue that is consumed by a worker.
#[derive(Debug)]
pub struct NamedJobs {
    url: String,
    queue: String,
    dead_letter: String,
    password: Option<Credential>,
}

impl NamedJobs {
    /// The queue that the arguments name, if they name one.
    pub fn of(args: &ConsumeArgs) -> Outcome<Option<Self>> {
        let Some(address) = &args.consume else { return Ok(None) };
        let (url, queue) = split(address)?;
        let dead_letter = args.dead_letter.clone();
        let target = Target::AmqpQueue {
            url: url.clone(),
            queue: queue.clone(),
            dead_letter: dead_letter.clone(),
            becomes: Becomes::News,
        };
        target.check()?;
        let password = match &args.consume_secret_file {
            Some(path) => Some(std::fs::read_to_string(path).map_err(|e| {
                Failure::usage(format!("the secret's file {} cannot be read: {e}", path.display()))
            })?),
            None => std::env::var(SECRET).ok(),
        };
        let password = password.map(|text| Credential::parse(&target, text.trim())).transpose()?;
        Ok(Some(Self { url, queue, dead_letter, password }))
    }
}

/// The address of the broker, and the queue behind it.
fn split(address: &str) -> Outcome<(String, String)> {
    let parts: Vec<&str> = address.splitn(5, '/').collect();
    match parts[..] {
        [scheme, "", host, vhost, queue] if !vhost.is_empty() => {
            let decoded = percent_encoding::percent_decode_str(queue).decode_utf8();
            let queue = decoded.map_err(|e| Failure::usage(format!("--consume: {e}")))?;
            Ok((format!("{scheme}//{host}/{vhost}"), queue.into_owned()))
        }
        // The address itself may hold a password.
        _ => Err(Failure::usage(
            "--consume must be amqp://USER@HOST/VHOST/QUEUE; the first virtual host is %2f",
        )),
    }
}

#[async_trait]
impl Deliveries for NamedJobs {
    async fn open(&self, ahead: u16) -> Result<Box<dyn Source>, PublishError> {
        let uri = uri(&self.url, self.password.clone())?;
        Ok(Box::new(Queue::open(uri, &self.queue, &self.dead_letter, ahead).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_ends_with_its_queue() {
        let parts = |text| split(text).map_err(|failure| failure.detail);
        let (url, queue) = parts("amqp://guest@localhost:5672/%2f/news%2Feu").unwrap();
        assert_eq!((url.as_str(), queue.as_str()), ("amqp://guest@localhost:5672/%2f", "news/eu"));
        for wrong in ["amqp://guest@localhost/news", "amqp://guest@localhost//news", "news"] {
            assert!(parts(wrong).unwrap_err().contains("VHOST/QUEUE"), "{wrong}");
        }
        let address = |text: &str| ConsumeArgs {
            consume: Some(text.to_owned()),
            consume_secret_file: None,
            dead_letter: "windlass.dead".to_owned(),
        };
        for wrong in ["amqp://guest:hunter2@localhost/%2f/news", "http://localhost/%2f/news", "amqp://a/%2f/"]
        {
            let refused = NamedJobs::of(&address(wrong)).unwrap_err();
            assert_eq!(refused.exit, crate::fail::Exit::Usage, "{wrong}");
        }
        assert!(NamedJobs::of(&address("amqps://guest@localhost/%2f/news")).unwrap().is_some());
    }
}
