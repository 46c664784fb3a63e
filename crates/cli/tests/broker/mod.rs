//! A real RabbitMQ for one test, and what the test does with it.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::wire::{PATIENCE, free_address};
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A broker of its own, which ends with this.
pub struct Rabbit {
    folder: TempDir,
    port: u16,
}

impl Rabbit {
    /// On ports that were free a moment ago.
    pub fn start() -> Self {
        let port = free_address().rsplit(':').next().unwrap().parse().unwrap();
        let rabbit = Self { folder: tempfile::tempdir().unwrap(), port };
        rabbit.again();
        rabbit
    }

    fn script(&self, verb: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/rabbitmq");
        let ran = Command::new(script).arg(verb).arg(self.folder.path()).arg(self.port.to_string()).output();
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    /// Starts it with what it had written.
    pub fn again(&self) {
        self.script("start");
    }

    /// Ends it as a crash does.
    pub fn kill(&self) {
        self.script("kill");
    }

    pub fn url(&self) -> String {
        format!("amqp://guest@127.0.0.1:{}/%2f", self.port)
    }

    fn channel(&self, runtime: &Runtime) -> (Connection, Channel) {
        let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port);
        runtime.block_on(async {
            let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
            let channel = connection.create_channel().await.unwrap();
            (connection, channel)
        })
    }

    /// Binds a durable queue to an exchange.
    pub fn bind(&self, runtime: &Runtime, exchange: &str, queue: &str, key: &str) {
        let (_connection, channel) = self.channel(runtime);
        runtime.block_on(async {
            let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let none = FieldTable::default;
            channel.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, none()).await.unwrap();
            channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), none()).await.unwrap();
            let options = QueueBindOptions::default();
            channel.queue_bind(queue.into(), exchange.into(), key.into(), options, none()).await.unwrap();
        });
    }

    /// Declares a durable queue.
    pub fn queue(&self, runtime: &Runtime, queue: &str) {
        let (_connection, channel) = self.channel(runtime);
        let declared =
            channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), FieldTable::default());
        runtime.block_on(declared).unwrap();
    }

    /// Puts messages into a queue: their ids, if they have one, and bodies.
    pub fn send(&self, runtime: &Runtime, queue: &str, messages: &[(Option<&str>, &str)]) {
        let (_connection, channel) = self.channel(runtime);
        runtime.block_on(async {
            channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
            for (id, body) in messages {
                let mut properties = BasicProperties::default().with_delivery_mode(2);
                if let Some(id) = id {
                    properties = properties.with_message_id((*id).into());
                }
                let options = BasicPublishOptions::default();
                let sent =
                    channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties);
                assert!(sent.await.unwrap().await.unwrap().is_ack());
            }
        });
    }

    /// How many messages stand in a queue that nobody has taken.
    pub fn left(&self, runtime: &Runtime, queue: &str) -> u32 {
        let (_connection, channel) = self.channel(runtime);
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(queue.into(), options, FieldTable::default());
        runtime.block_on(declared).unwrap().message_count()
    }

    /// Takes what is in a queue as it is: bodies, and why they were set aside.
    pub fn dead(&self, runtime: &Runtime, queue: &str) -> Vec<(String, String)> {
        let (_connection, channel) = self.channel(runtime);
        runtime.block_on(async {
            let mut taken = Vec::new();
            while let Some(got) = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap() {
                let headers = got.delivery.properties.headers().clone().unwrap();
                let why =
                    headers.inner().get("x-windlass-why").unwrap().as_long_string().unwrap().to_string();
                taken.push((String::from_utf8(got.delivery.data.clone()).unwrap(), why));
                got.delivery.ack(BasicAckOptions::default()).await.unwrap();
            }
            taken
        })
    }

    /// Takes messages as they come until it has so many of different ids.
    pub fn take(&self, runtime: &Runtime, queue: &str, count: usize) -> HashSet<String> {
        let (_connection, channel) = self.channel(runtime);
        runtime.block_on(async {
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            let tag = "taker".into();
            let consumed = channel.basic_consume(queue.into(), tag, options, FieldTable::default()).await;
            let (mut consumer, mut ids) = (consumed.unwrap(), HashSet::new());
            while ids.len() < count {
                let next = tokio::time::timeout(PATIENCE, consumer.next()).await;
                let message = next.unwrap_or_else(|_| panic!("no more than {} came", ids.len()));
                ids.insert(message.unwrap().unwrap().properties.message_id().clone().unwrap().to_string());
            }
            ids
        })
    }

    /// Takes what is in a queue: ids, types and bodies, in order.
    pub fn drain(&self, runtime: &Runtime, queue: &str) -> Vec<(String, String, Value)> {
        let (_connection, channel) = self.channel(runtime);
        runtime.block_on(async {
            let mut taken = Vec::new();
            while let Some(got) = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap() {
                let properties = &got.delivery.properties;
                let text = |text: &Option<ShortString>| text.as_ref().unwrap().to_string();
                assert_eq!(*properties.delivery_mode(), Some(2), "it is persistent");
                let (id, of_type) = (text(properties.message_id()), text(properties.kind()));
                taken.push((id, of_type, serde_json::from_slice(&got.delivery.data).unwrap()));
                got.delivery.ack(BasicAckOptions::default()).await.unwrap();
            }
            taken
        })
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        self.script("stop");
    }
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
