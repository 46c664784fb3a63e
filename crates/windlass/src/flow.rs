//! Flows: jobs that wait for each other, made in one call, and what a job reads of those before it.

use crate::client::Client;
use crate::context::Context;
use crate::enqueue::{Enqueue, Request, finish_all};
use crate::error::Result;
use crate::value::read;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use windlass_core::flow::{Before, Edge, FLOW_KIND, Flow as FlowFacts, Graph, Join, Node, On, Seal, arrange};
use windlass_core::{Facts, JobId, Name, NewJob, Status};
use windlass_engine::HandlerError;
use windlass_store::{BatchRefusal, fresh};

/// A flow that is being put together. Made by [`Client::flow`].
#[derive(Debug)]
#[must_use = "nothing is written before it is started"]
pub struct Flow {
    client: Client,
    drafts: Mutex<Vec<Draft>>,
    callback: Option<Request>,
    join: Join,
    open: bool,
}

#[derive(Debug)]
struct Draft {
    name: String,
    request: Request,
    after: Vec<(Earlier, On)>,
}

/// What a draft waits for: another, by its place, or a job that exists.
#[derive(Debug, Clone, Copy)]
enum Earlier {
    Draft(usize),
    Job(JobId),
}

/// A job of a flow that is being put together. Made by [`Flow::add`].
#[derive(Debug, Clone, Copy)]
pub struct FlowJob<'f> {
    flow: &'f Flow,
    place: usize,
}

/// A flow that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartedFlow {
    /// The job that waits for the others: cancel it and they are cancelled, wait for it and they have ended.
    pub id: JobId,
    /// Its jobs by their names.
    pub jobs: BTreeMap<String, JobId>,
}

impl Client {
    /// Begins a flow: jobs that wait for each other, written together or not at all.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Context, HandlerError, Job, Worker};
    /// #[derive(Serialize, Deserialize)]
    /// struct Fetch { url: String }
    /// impl Job for Fetch {
    ///     const KIND: &str = "fetch";
    ///     type Output = String;
    /// }
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Count;
    /// impl Job for Count {
    ///     const KIND: &str = "count";
    ///     type Output = usize;
    /// }
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// let flow = client.flow();
    /// let fetch = flow.add("fetch", Fetch { url: "https://example.org".into() });
    /// flow.add("count", Count).after(&fetch);
    /// let started = flow.start().await?;
    ///
    /// let worker = Worker::new(client.clone())
    ///     .queue("default", 2)
    ///     .handle(|job: Fetch, _ctx: Context| async move { Ok(format!("page of {}", job.url)) })
    ///     .handle(|_job: Count, ctx: Context| async move {
    ///         let page: String = ctx.upstream("fetch").await?;
    ///         Ok::<_, HandlerError>(page.len())
    ///     });
    /// tokio::select! {
    ///     count = client.wait::<Count>(started.jobs["count"]) => assert_eq!(count?, 27),
    ///     end = worker.run_until(std::future::pending()) => panic!("{end:?}"),
    /// }
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub fn flow(&self) -> Flow {
        Flow { client: self.clone(), drafts: Mutex::default(), callback: None, join: Join::All, open: false }
    }

    /// Seals an open flow: no job is added any more, and it ends once those it has have ended.
    pub async fn seal(&self, flow: JobId) -> Result<()> {
        let request = Seal { job: flow, actor: self.actor() };
        self.repeat(|| self.store().seal(request.clone(), None)).await??;
        Ok(())
    }
}

impl Flow {
    fn drafts(&self) -> MutexGuard<'_, Vec<Draft>> {
        self.drafts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job under a name: of a type, or as [`Client::enqueue`] makes it with options.
    pub fn add(&self, name: &str, job: impl Into<Request>) -> FlowJob<'_> {
        let mut drafts = self.drafts();
        drafts.push(Draft { name: name.to_owned(), request: job.into(), after: Vec::new() });
        FlowJob { flow: self, place: drafts.len() - 1 }
    }

    /// The callback: a job that runs once the flow is joined. Without one, the engine completes the flow.
    pub fn on_finish(mut self, job: impl Into<Request>) -> Self {
        self.callback = Some(job.into());
        self
    }

    /// When the flow ends, or its callback runs: [`Join::All`] unless said otherwise.
    pub fn join(mut self, join: Join) -> Self {
        self.join = join;
        self
    }

    /// Lets jobs be added with [`Enqueue::parent`] until [`Client::seal`].
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Writes all of it, or nothing. A circle and a name that is used twice are refused.
    pub async fn start(self) -> Result<StartedFlow> {
        let Self { client, drafts, callback, join, open } = self;
        let drafts = drafts.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut parent = match callback {
            Some(callback) => finish_all(&client, vec![callback]).await?.remove(0),
            None => NewJob {
                id: fresh::job_id(),
                facts: Facts::new(Name::parse("kind", FLOW_KIND)?, Name::parse("queue", "default")?),
                payload: None,
                parent_token: None,
            },
        };
        parent.facts.graph =
            Some(Box::new(Graph { flow: Some(FlowFacts { join, open }), ..Graph::default() }));
        let names = drafts.iter().map(|draft| Name::parse("nodes", &draft.name));
        let names: Vec<Name> = names.collect::<std::result::Result<_, _>>()?;
        let before = |before: Earlier| match before {
            Earlier::Draft(place) => Before::Node(names[place].clone()),
            Earlier::Job(job) => Before::Job(job),
        };
        let (mut requests, mut edges) = (Vec::new(), Vec::new());
        for draft in drafts {
            requests.push(draft.request);
            edges.push(draft.after.into_iter().map(|(job, on)| (before(job), on)).collect::<Vec<_>>());
        }
        let jobs = finish_all(&client, requests).await?;
        let named = names.iter().cloned().zip(jobs).zip(edges);
        let nodes = named.map(|((name, job), after)| Node { name, job, after }).collect();
        let nodes = arrange(parent.id, nodes, &BTreeSet::new(), fresh::job_id)?;
        let name = |job: &NewJob| job.facts.graph.as_ref()?.name.as_ref().map(ToString::to_string);
        let names: Vec<String> = nodes.iter().map(|job| name(job).unwrap_or_default()).collect();
        let id = parent.id;
        let jobs = [parent].into_iter().chain(nodes).collect();
        let request = windlass_store::Enqueue { jobs, actor: client.actor(), idempotency: None };
        let answers = client.repeat(|| client.store().enqueue(request.clone(), None)).await?;
        let answers = answers.map_err(|refused: BatchRefusal| refused)?;
        let ids = answers.iter().skip(1).map(|answer| answer.id);
        Ok(StartedFlow { id, jobs: names.into_iter().zip(ids).collect() })
    }
}

impl FlowJob<'_> {
    fn waits(self, before: Earlier, on: On) -> Self {
        self.flow.drafts()[self.place].after.push((before, on));
        self
    }

    /// Runs after another of the flow has completed, and is skipped if that ends otherwise.
    pub fn after(self, other: &Self) -> Self {
        self.waits(Earlier::Draft(other.place), On::Success)
    }

    /// Runs after another of the flow has failed, timed out, or was cancelled or skipped; and is skipped if that completes.
    pub fn after_failure(self, other: &Self) -> Self {
        self.waits(Earlier::Draft(other.place), On::Failure)
    }

    /// Runs after another of the flow has ended, in whatever way.
    pub fn after_finish(self, other: &Self) -> Self {
        self.waits(Earlier::Draft(other.place), On::Finished)
    }

    /// Runs after this end of a job that exists.
    pub fn after_job(self, job: JobId, on: On) -> Self {
        self.waits(Earlier::Job(job), on)
    }
}

impl Enqueue {
    /// Lets the job wait for this end of another, which exists. Another end skips it: it is cancelled with the code
    /// `skipped`. May be given more than once, for other jobs.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Step(u8);
    /// # impl windlass::Job for Step { const KIND: &str = "step"; type Output = (); }
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = windlass::connect("memory:").await?;
    /// use windlass::On;
    /// let first = client.enqueue(Step(1)).await?;
    /// let second = client.enqueue(Step(2)).after(first.id, On::Success).await?;
    /// let blocked = client.job(second.id).await?.and_then(|view| view.blocked);
    /// assert_eq!(blocked.unwrap().reason, "upstream");
    /// # Ok::<_, windlass::Error>(()) }).unwrap();
    /// ```
    pub fn after(mut self, job: JobId, on: On) -> Self {
        self.request.set(|new| {
            let graph = new.facts.graph.get_or_insert_default();
            graph.after.push(Edge { job, on, name: None });
            Ok(())
        });
        self
    }
}

impl<S: Send + Sync + 'static> Context<S> {
    /// The result of a job that this one waited for, by the name it has in their flow.
    ///
    /// # Errors
    /// For good: `upstream_unknown` if this job waited for none of that name, `upstream_missing` if that job did not
    /// complete or is gone, `unreadable` if its result is of another type.
    pub async fn upstream<T: DeserializeOwned>(&self, name: &str) -> std::result::Result<T, HandlerError> {
        let is_named = |edge: &&Edge| edge.name.as_ref().is_some_and(|known| known.as_str() == name);
        let Some(edge) = self.attempt.facts().after().iter().find(is_named) else {
            let message = format!("job {} waited for no job named {name}", self.id());
            return Err(HandlerError::permanent(message).code("upstream_unknown"));
        };
        let store = self.client.store();
        let view = self.attempt.call(|| store.job(edge.job, None)).await?;
        let Some(view) = view.filter(|view| view.job.status == Status::Completed) else {
            let message = format!("job {name} ({}) did not complete, or is gone: it has no result", edge.job);
            return Err(HandlerError::permanent(message).code("upstream_missing"));
        };
        read(&format!("the result of {name}"), view.result.as_ref())
    }
}
