//! A queue of RabbitMQ whose messages are taken in.

use super::amqp::{PATIENCE, answered, connected};
use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt};
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions,
    BasicQosOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, Connection, Consumer, ExchangeKind};
use std::collections::HashMap;
use windlass_engine::service::{PublishError, Received, Source};

/// How many messages the broker sends a subscription ahead.
pub const AHEAD: u16 = 50;
/// What the broker knows the consumer by, on its channel.
const TAG: &str = "windlass";
/// Persistent, as the protocol says it.
const PERSISTENT: u8 = 2;

/// A queue that is consumed. What it gave and was not acknowledged comes again once this is dropped.
pub struct Queue {
    /// Drops the connection with it.
    _connection: Connection,
    channel: Channel,
    consumer: Consumer,
    dead_letter: String,
    host: String,
    /// How messages came that are not dealt with: to set one aside as it was.
    came: HashMap<u64, (BasicProperties, String)>,
}

impl Queue {
    /// Consumes a queue that is there. The exchange for what can never be dealt with is declared, with a queue of its own.
    pub async fn open(
        uri: AMQPUri,
        queue: &str,
        dead_letter: &str,
        ahead: u16,
    ) -> Result<Self, PublishError> {
        let host = uri.authority.host.clone();
        let opened = async {
            let connection = connected(uri).await?;
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            channel.basic_qos(ahead, BasicQosOptions::default()).await?;
            let (none, dead) = (FieldTable::default, || dead_letter.into());
            let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            channel.exchange_declare(dead(), ExchangeKind::Topic, durable, none()).await?;
            channel.queue_declare(dead(), QueueDeclareOptions::durable(), none()).await?;
            channel.queue_bind(dead(), dead(), "#".into(), QueueBindOptions::default(), none()).await?;
            let options = BasicConsumeOptions::default();
            let consumer = channel.basic_consume(queue.into(), TAG.into(), options, none()).await?;
            lapin::Result::Ok((connection, channel, consumer))
        };
        let (connection, channel, consumer) = answered(&host, PATIENCE, opened).await?;
        let came = HashMap::new();
        Ok(Self {
            _connection: connection,
            channel,
            consumer,
            dead_letter: dead_letter.to_owned(),
            host,
            came,
        })
    }

    fn lost(&self, why: &str) -> PublishError {
        PublishError::Temporary(format!("RabbitMQ at {}: {why}", self.host), None)
    }
}

#[async_trait]
impl Source for Queue {
    async fn next(&mut self) -> Result<Received, PublishError> {
        match self.consumer.next().await {
            Some(Ok(delivery)) => {
                let id = delivery.properties.message_id().as_ref().map(ToString::to_string);
                let how = (delivery.properties, delivery.routing_key.to_string());
                self.came.insert(delivery.delivery_tag, how);
                Ok(Received { tag: delivery.delivery_tag, id, body: delivery.data })
            }
            Some(Err(error)) => Err(self.lost(&error.to_string())),
            None => Err(self.lost("the queue was removed, or the broker ended")),
        }
    }

    async fn done(&mut self, tag: u64) -> Result<(), PublishError> {
        self.came.remove(&tag);
        let acked = self.channel.basic_ack(tag, BasicAckOptions::default());
        answered(&self.host, PATIENCE, acked).await
    }

    async fn give_back(&mut self, tag: u64) -> Result<(), PublishError> {
        self.came.remove(&tag);
        let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        answered(&self.host, PATIENCE, self.channel.basic_nack(tag, options)).await
    }

    async fn stop(&mut self) -> Result<(), PublishError> {
        let cancelled = self.channel.basic_cancel(TAG.into(), BasicCancelOptions::default());
        answered(&self.host, PATIENCE, cancelled).await?;
        while let Some(Some(Ok(delivery))) = self.consumer.next().now_or_never() {
            self.give_back(delivery.delivery_tag).await?;
        }
        Ok(())
    }

    /// Published and confirmed elsewhere before it is acknowledged here: at no moment it is nowhere.
    async fn set_aside(&mut self, message: &Received, why: &str) -> Result<(), PublishError> {
        let (properties, key) = self.came.get(&message.tag).cloned().unwrap_or_default();
        let mut headers = properties.headers().clone().unwrap_or_default();
        headers.insert("x-windlass-why".into(), AMQPValue::LongString(LongString::from(why)));
        let properties = properties.with_headers(headers).with_delivery_mode(PERSISTENT);
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let published = async {
            let (exchange, key) = (self.dead_letter.as_str().into(), key.as_str().into());
            self.channel.basic_publish(exchange, key, options, &message.body, properties).await?.await
        };
        match answered(&self.host, PATIENCE, published).await? {
            Confirmation::Ack(None) => self.done(message.tag).await,
            _ => Err(self.lost("a message could not be set aside")),
        }
    }
}
