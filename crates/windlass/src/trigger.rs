//! Events from outside that start jobs.

use crate::client::Client;
use crate::enqueue::Request;
use crate::error::Result;
use serde::Serialize;
use serde_json::Value;
use std::future::IntoFuture;
use std::pin::Pin;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::trigger::{JOBS_MAX, Passed, Trigger, TriggerJob};
use windlass_core::{Invalid, Key, Name, Payload};
use windlass_store::{
    EventsOf, Ingest, Ingested, PutTrigger, PutTriggerSecret, ReadTriggerEvents, RemoveTrigger, TriggerEvent,
    TriggerState, WebhookSecret, fresh,
};

impl Client {
    /// One trigger, to be made, changed or sent events.
    ///
    /// An event starts one job of each that the trigger names, once: another event with the same dedupe key starts none.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Invoice { order: u64 }
    /// # impl windlass::Job for Invoice { const KIND: &str = "invoice"; type Output = (); }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// client.trigger("order-paid").starts::<Invoice>().await?;
    /// let fired = client.trigger("order-paid").fire(&Invoice { order: 7 }).dedupe_key("order-7").await?;
    /// assert_eq!(fired.event.detail.jobs.len(), 1);
    /// let again = client.trigger("order-paid").fire(&Invoice { order: 7 }).dedupe_key("order-7").await?;
    /// assert!(again.deduped);
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub fn trigger(&self, name: &str) -> TriggerHandle {
        TriggerHandle { client: self.clone(), name: name.to_owned() }
    }

    /// Every trigger, by name.
    pub async fn triggers(&self) -> Result<Vec<TriggerState>> {
        Ok(self.repeat(|| self.store().triggers((), None)).await?)
    }
}

/// One trigger. Made by [`Client::trigger`].
#[derive(Debug, Clone)]
pub struct TriggerHandle {
    client: Client,
    name: String,
}

impl TriggerHandle {
    fn name(&self) -> Result<Name, Invalid> {
        Name::parse("trigger", &self.name)
    }

    /// Each event starts a job of this kind, with what the event brings.
    pub fn starts<J: crate::Job>(&self) -> NewTrigger {
        self.empty().and::<J>()
    }

    /// Each event starts a job of this kind with this payload, in which `{{payload.some.path}}` is filled in from the event.
    pub fn starts_with<J: crate::Job>(&self, template: Value) -> NewTrigger {
        self.empty().and_with::<J>(template)
    }

    fn empty(&self) -> NewTrigger {
        NewTrigger { handle: self.clone(), jobs: vec![], expected_version: None }
    }

    /// The trigger as it stands; none if there is no such.
    pub async fn get(&self) -> Result<Option<TriggerState>> {
        let name = self.name()?;
        Ok(self.client.repeat(|| self.client.store().trigger(name.clone(), None)).await?)
    }

    /// Removes it. Its jobs stay.
    pub async fn remove(&self) -> Result<()> {
        let request = RemoveTrigger { name: self.name()?, actor: self.client.actor() };
        Ok(self.client.repeat(|| self.client.store().remove_trigger(request.clone(), None)).await??)
    }

    /// Makes a new secret for its webhooks; the one before opens for another day.
    pub async fn new_secret(&self) -> Result<WebhookSecret> {
        let secret = WebhookSecret::from_bytes(fresh::random::<32>())?;
        let request =
            PutTriggerSecret { name: self.name()?, secret: secret.clone(), actor: self.client.actor() };
        self.client.repeat(|| self.client.store().put_trigger_secret(request.clone(), None)).await??;
        Ok(secret)
    }

    /// Sends it an event that brings this.
    pub fn fire(&self, payload: &impl Serialize) -> Firing {
        let payload = Payload::from_value("payload", payload, PAYLOAD_MAX_BYTES);
        Firing { handle: self.clone(), payload, dedupe_key: None }
    }

    /// Its events, newest first, at most 1,000.
    pub async fn events(&self, limit: usize) -> Result<Vec<TriggerEvent>> {
        let request = ReadTriggerEvents { of: EventsOf::Trigger(self.name()?), limit };
        Ok(self.client.repeat(|| self.client.store().trigger_events(request.clone(), None)).await?)
    }
}

/// A trigger on its way into the store: made or changed when awaited. Made by [`TriggerHandle::starts`].
#[derive(Debug)]
#[must_use = "nothing is made before it is awaited"]
pub struct NewTrigger {
    handle: TriggerHandle,
    /// What is asked for, with its template.
    jobs: Vec<(Request, Passed)>,
    expected_version: Option<i64>,
}

impl NewTrigger {
    /// Each event starts a job of this kind too, with what the event brings.
    pub fn and<J: crate::Job>(mut self) -> Self {
        self.jobs.push((Request::of_kind::<J>(Ok(None)), Passed::Whole));
        self
    }

    /// Each event starts a job of this kind too, with this payload once it is filled in.
    pub fn and_with<J: crate::Job>(mut self, template: Value) -> Self {
        self.jobs.push((Request::of_kind::<J>(Ok(None)), Passed::Template(template)));
        self
    }

    /// Only if it is at this version; 0 if it must not be there.
    pub fn expected_version(mut self, version: i64) -> Self {
        self.expected_version = Some(version);
        self
    }

    async fn put(self) -> Result<TriggerState> {
        let Self { handle, jobs: wanted, expected_version } = self;
        let policies = handle.client.policies().await?;
        let job = |(request, payload): (Request, Passed)| {
            Ok(TriggerJob { job: request.finish(&policies)?.facts, payload })
        };
        let jobs = wanted.into_iter().map(job).collect::<Result<Vec<_>, Invalid>>()?;
        let (name, actor) = (handle.name()?, handle.client.actor());
        let request = PutTrigger { name, trigger: Trigger { jobs }, expected_version, actor };
        Ok(handle.client.repeat(|| handle.client.store().put_trigger(request.clone(), None)).await??)
    }
}

impl IntoFuture for NewTrigger {
    type Output = Result<TriggerState>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.put())
    }
}

/// An event on its way: sent when awaited. Made by [`TriggerHandle::fire`].
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Firing {
    handle: TriggerHandle,
    payload: Result<Payload, Invalid>,
    dedupe_key: Option<String>,
}

impl Firing {
    /// Another event of the trigger with this key is the same one: it starts nothing.
    pub fn dedupe_key(mut self, key: &str) -> Self {
        self.dedupe_key = Some(key.to_owned());
        self
    }

    async fn send(self) -> Result<Ingested> {
        let Self { handle, payload, dedupe_key } = self;
        let request = Ingest {
            id: fresh::trigger_event_id(),
            trigger: handle.name()?,
            dedupe_key: dedupe_key.map(|key| Key::parse("dedupe_key", key)).transpose()?,
            payload: Some(payload?),
            actor: handle.client.actor(),
            ids: (0..JOBS_MAX).map(|_| fresh::job_id()).collect(),
        };
        Ok(handle.client.repeat(|| handle.client.store().ingest(request.clone(), None)).await??)
    }
}

impl IntoFuture for Firing {
    type Output = Result<Ingested>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
