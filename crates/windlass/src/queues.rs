//! What operators do to queues and workers: look, pause, resume, set defaults, drain.

use crate::client::Client;
use crate::error::Result;
use windlass_core::limits::PAGE_MAX;
use windlass_core::registry::SetEndpoint;
use windlass_core::registry::Worker;
use windlass_core::wait::ApprovalStatus;
use windlass_core::{ApprovalId, Key, Lane, Name, QueueDefaults, QueueLimits, QueueMode, Who};
use windlass_store::{
    ApprovalView, DrainWorker, LaneState, ListApprovals, ListLanes, PauseQueue, PutQueue, QueueState,
    ReleaseLane,
};

/// Where the count of a queue's jobs stops.
const COUNTED: i64 = 10_000;

impl Client {
    /// Every queue that has a setting or a job that could be taken, with how many of those there are (at most 10,000 are
    /// counted) and since when the oldest is due.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// client.queue("mail").pause().await?;
    /// let queues = client.queues().await?;
    /// assert!(queues[0].queue.name.as_str() == "mail" && queues[0].queue.paused.is_some());
    /// client.queue("mail").resume().await?;
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub async fn queues(&self) -> Result<Vec<QueueState>> {
        Ok(self.repeat(|| self.inner.store.queues(COUNTED, None)).await?)
    }

    /// One queue, to be paused, resumed or given defaults.
    pub fn queue(&self, name: &str) -> QueueHandle {
        QueueHandle { client: self.clone(), name: name.to_owned() }
    }

    /// Every worker that was seen lately.
    pub async fn workers(&self) -> Result<Vec<Worker>> {
        Ok(self.repeat(|| self.inner.store.workers((), None)).await?)
    }

    /// Lets a worker finish what it has and take nothing more; false if there is no such worker.
    pub async fn drain_worker(&self, id: &str) -> Result<bool> {
        self.set_draining(id, true).await
    }

    /// Lets a drained worker take jobs again; false if there is no such worker.
    pub async fn resume_worker(&self, id: &str) -> Result<bool> {
        self.set_draining(id, false).await
    }

    async fn set_draining(&self, id: &str, drain: bool) -> Result<bool> {
        let request = DrainWorker { id: Who::parse("worker_id", id)?, drain, actor: self.actor() };
        let drained = self.repeat(|| self.inner.store.drain_worker(request.clone(), None)).await?;
        Ok(drained.is_some())
    }

    /// A page of the approvals of all jobs that wait for votes, newest first: those older than `before`, at most 1,000.
    /// [`Client::decide`] votes on one.
    pub async fn open_approvals(&self, before: Option<ApprovalId>) -> Result<Vec<ApprovalView>> {
        let status = Some(ApprovalStatus::Pending);
        let list = ListApprovals { job: None, status, before, limit: PAGE_MAX };
        Ok(self.repeat(|| self.inner.store.approvals(list, None)).await?)
    }
}

/// One queue. Made by [`Client::queue`].
#[derive(Debug, Clone)]
pub struct QueueHandle {
    client: Client,
    name: String,
}

impl QueueHandle {
    /// Nothing is taken from it until it is resumed. What runs goes on, and jobs can be enqueued.
    pub async fn pause(&self) -> Result<()> {
        self.set_paused(true).await
    }

    /// Its jobs are taken again.
    pub async fn resume(&self) -> Result<()> {
        self.set_paused(false).await
    }

    /// Lets a key that is held go at once, or the queue itself: neither a hold nor a debt keeps it any longer. Answers whether
    /// anything kept it.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// assert!(!client.queue("sync").release(Some("acme")).await?);
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub async fn release(&self, key: Option<&str>) -> Result<bool> {
        let (queue, actor) = (Name::parse("queue", &self.name)?, self.client.actor());
        let key = key.map(|key| Key::parse("key", key)).transpose()?;
        let request = ReleaseLane { queue, key, actor };
        Ok(self.client.repeat(|| self.client.store().release_lane(request.clone(), None)).await?)
    }

    /// The keys of the queue that take turns, with what runs, waits and is held of each: at most 1,000, behind a lane, which is
    /// the last one's of the page before, or `Lane::PLAIN` at the beginning.
    pub async fn lanes(&self, after: Lane) -> Result<Vec<LaneState>> {
        let request = ListLanes { queue: Name::parse("queue", &self.name)?, after, limit: PAGE_MAX };
        Ok(self.client.repeat(|| self.client.store().lanes(request.clone(), None)).await?)
    }

    async fn set_paused(&self, pause: bool) -> Result<()> {
        let (name, actor) = (Name::parse("queue", &self.name)?, self.client.actor());
        let request = PauseQueue { name, pause, actor };
        Ok(self.client.repeat(|| self.client.store().pause_queue(request.clone(), None)).await?)
    }

    /// What its jobs fall back to from now on, where neither they nor their kind or agent say it. Replaces what was said of
    /// the queue before. Clients and workers learn of it within seconds.
    pub async fn set_defaults(&self, defaults: QueueDefaults) -> Result<()> {
        self.put(|keep| PutQueue { defaults: Some(defaults), ..keep }).await
    }

    /// How its jobs reach workers from now on: they take them, or the leader assigns them. What it was given as defaults
    /// stays.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// client.queue("render").set_mode(windlass::QueueMode::Push).await?;
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub async fn set_mode(&self, mode: QueueMode) -> Result<()> {
        self.put(|keep| PutQueue { mode: Some(mode), ..keep }).await
    }

    /// How many of its jobs run at once and how fast they start from now on, as a whole and per key, and how keys take turns;
    /// no rule with [`QueueLimits::default`]. It holds across all workers and is in force with the next claim. What it was given as defaults stays.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// use windlass::{LaneRule, Lanes, QueueLimits, Rate};
    /// let each = LaneRule { concurrency: Some(2), ..LaneRule::default() };
    /// let lanes = Some(Lanes { each, ..Lanes::default() });
    /// let rate = Some(Rate { units: 100, per_ms: 1_000, burst: Some(20) });
    /// let flow = QueueLimits { concurrency: Some(40), rate, lanes, ..QueueLimits::default() };
    /// client.queue("sync").set_flow(flow).await?;
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub async fn set_flow(&self, flow: QueueLimits) -> Result<()> {
        self.put(|keep| PutQueue { flow: Some(flow), ..keep }).await
    }

    /// The web service that servers send its jobs to from now on, so that it needs no worker; none with
    /// [`SetEndpoint::Remove`]. A server must run for it, within seconds of which it begins. Everything else stays.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// use windlass::{SetEndpoint, WebhookSecret};
    /// let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
    /// let url = "https://jobs.example/run".to_owned();
    /// let endpoint = SetEndpoint::Put { url, secret: Some(secret), max: Some(20) };
    /// client.queue("thumbnails").set_endpoint(endpoint).await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn set_endpoint(&self, endpoint: SetEndpoint) -> Result<()> {
        self.put(|keep| PutQueue { endpoint, ..keep }).await
    }

    /// Says something of the queue; what is not said stays.
    async fn put(&self, say: impl FnOnce(PutQueue) -> PutQueue) -> Result<()> {
        let (name, actor) = (Name::parse("queue", &self.name)?, self.client.actor());
        let request = say(PutQueue::new(name, actor));
        Ok(self.client.repeat(|| self.client.store().put_queue(request.clone(), None)).await??)
    }
}
