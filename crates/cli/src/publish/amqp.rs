//! RabbitMQ: each event is published to a topic exchange, persistent and confirmed.

use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::{FieldTable, LongString, ShortString};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::timeout;
use windlass_core::JobId;
use windlass_engine::service::{Message, PublishError, Published, Publisher};
use windlass_store::Credential;

/// How long the broker has to answer.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How often the connection is heard of, in seconds.
const HEARTBEAT: u16 = 10;
/// The longest routing key, in bytes.
const KEY_MAX: usize = 255;
/// Persistent, as the protocol says it.
const PERSISTENT: u8 = 2;

/// The address of a broker, with its password.
pub fn uri(url: &str, credential: Option<Credential>) -> Result<AMQPUri, PublishError> {
    let unusable = |why: String| PublishError::Temporary(format!("the address cannot be used: {why}"), None);
    let mut uri: AMQPUri = url.parse().map_err(unusable)?;
    if let Some(credential) = credential {
        uri.authority.userinfo.password = credential.reveal().to_owned();
    }
    uri.query.heartbeat.get_or_insert(HEARTBEAT);
    Ok(uri)
}

/// A connection to a broker.
pub async fn connected(uri: AMQPUri) -> lapin::Result<Connection> {
    let properties = ConnectionProperties::default().with_connection_name(LongString::from("windlass"));
    Connection::connect_uri(uri, properties).await
}

/// What a broker answers in time.
pub async fn answered<T>(
    host: &str,
    patience: Duration,
    asked: impl Future<Output = lapin::Result<T>>,
) -> Result<T, PublishError> {
    let why = match timeout(patience, asked).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", patience.as_secs()),
    };
    Err(PublishError::Temporary(format!("RabbitMQ at {host}: {why}"), None))
}

/// An exchange that is sent events.
pub struct Exchange {
    uri: AMQPUri,
    name: String,
    mandatory: bool,
    /// None after a failure: the next batch makes it anew.
    open: Option<(Connection, Channel)>,
}

impl Exchange {
    /// Connects, and declares the exchange.
    pub async fn open(uri: AMQPUri, name: &str, mandatory: bool) -> Result<Self, PublishError> {
        let mut exchange = Self { uri, name: name.to_owned(), mandatory, open: None };
        exchange.channel().await?;
        Ok(exchange)
    }

    async fn channel(&mut self) -> Result<Channel, PublishError> {
        if let Some((connection, channel)) = &self.open
            && connection.status().connected()
            && channel.status().connected()
        {
            return Ok(channel.clone());
        }
        self.open = None;
        let open = answered(&self.uri.authority.host, PATIENCE, self.connect()).await?;
        let channel = open.1.clone();
        self.open = Some(open);
        Ok(channel)
    }

    async fn connect(&self) -> lapin::Result<(Connection, Channel)> {
        let connection = connected(self.uri.clone()).await?;
        let channel = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let name = ShortString::from(self.name.as_str());
        channel.exchange_declare(name, ExchangeKind::Topic, durable, FieldTable::default()).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok((connection, channel))
    }

    /// Publishes messages of which no two are of one job, then waits for each to be confirmed.
    async fn wave(
        &self,
        channel: &Channel,
        wave: &[(usize, &Message)],
        arrived: &mut [bool],
    ) -> Result<(), String> {
        let mut sent = Vec::with_capacity(wave.len());
        for (at, message) in wave {
            let properties = BasicProperties::default()
                .with_content_type("application/json".into())
                .with_delivery_mode(PERSISTENT)
                .with_message_id(message.id.as_str().into())
                .with_type(message.type_name.as_str().into())
                .with_app_id("windlass".into());
            let key = routing_key(message);
            let options = BasicPublishOptions { mandatory: self.mandatory, ..BasicPublishOptions::default() };
            let published = channel
                .basic_publish(
                    self.name.as_str().into(),
                    key.as_str().into(),
                    options,
                    &message.body,
                    properties,
                )
                .await;
            sent.push((*at, key, published.map_err(|error| error.to_string())?));
        }
        for (at, key, confirm) in sent {
            match confirm.await.map_err(|error| error.to_string())? {
                Confirmation::Ack(None) => arrived[at] = true,
                Confirmation::Ack(Some(_)) => {
                    return Err(format!("no queue is bound to the exchange {} for {key}", self.name));
                }
                Confirmation::Nack(_) => return Err("the broker did not take a message".to_owned()),
                Confirmation::NotRequested => return Err("the broker confirms nothing".to_owned()),
            }
        }
        Ok(())
    }
}

/// QUEUE.KIND.TYPE. Dots within a name would add words, so they become dashes.
fn routing_key(message: &Message) -> String {
    let word = |text: &str| text.replace('.', "-");
    let (queue, kind) = (word(message.queue.as_str()), word(message.kind.as_str()));
    let mut key = format!("{queue}.{kind}.{}", word(&message.type_name));
    // Names are ASCII.
    key.truncate(KEY_MAX);
    key
}

#[async_trait]
impl Publisher for Exchange {
    /// In waves: the first event of each job, then the second of each, so that none overtakes one that is not confirmed.
    async fn publish(&mut self, messages: &[Message]) -> Published {
        let mut arrived = vec![false; messages.len()];
        let channel = match self.channel().await {
            Ok(channel) => channel,
            Err(error) => return Published { arrived, error: Some(error) },
        };
        let mut left: Vec<(usize, &Message)> = messages.iter().enumerate().collect();
        while !left.is_empty() {
            let mut jobs: HashSet<JobId> = HashSet::new();
            let (wave, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, m)| jobs.insert(m.job));
            let why = match timeout(PATIENCE, self.wave(&channel, &wave, &mut arrived)).await {
                Ok(Ok(())) => {
                    left = later;
                    continue;
                }
                Ok(Err(why)) => why,
                Err(_) => format!("a message was not confirmed within {} s", PATIENCE.as_secs()),
            };
            // What was not confirmed may still come: a new channel forgets it, and it is sent again.
            self.open = None;
            let why = format!("RabbitMQ at {}: {why}", self.uri.authority.host);
            return Published { arrived, error: Some(PublishError::Temporary(why, None)) };
        }
        Published { arrived, error: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Name;
    use windlass_store::fresh;

    #[test]
    fn a_routing_key_has_three_words() {
        let name = |text: &str| Name::parse("name", text).unwrap();
        let message = Message {
            id: String::new(),
            job: fresh::job_id(),
            version: 1,
            queue: name("mail.eu"),
            kind: name("send"),
            type_name: "job_created".to_owned(),
            body: vec![],
        };
        assert_eq!(routing_key(&message), "mail-eu.send.job_created");
        let long = Message { queue: name(&"q".repeat(128)), kind: name(&"k".repeat(128)), ..message };
        assert_eq!(routing_key(&long).len(), KEY_MAX);
    }
}
