//! Children: jobs that a handler spawns and may wait for, without a worker.

use crate::context::Context;
use crate::enqueue::Request;
use crate::error::{Ended, Error};
use crate::job::Job;
use crate::options::options;
use crate::value::named;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::future::IntoFuture;
use std::marker::PhantomData;
use windlass_core::limits::ENQUEUE_MAX;
use windlass_core::{JobId, Name, NewJob, Status, WaitFor};
use windlass_engine::{HandlerError, Policies};
use windlass_store::JobView;

/// How many children's results are read at once.
const READ_AT_ONCE: usize = 16;

/// A spawned job, by whose type [`Context::join`] knows what it gives back.
pub struct Child<J> {
    id: JobId,
    of: PhantomData<fn() -> J>,
}

impl<J> Child<J> {
    fn new(id: JobId) -> Self {
        Self { id, of: PhantomData }
    }

    /// Its identity.
    pub fn id(&self) -> JobId {
        self.id
    }
}

impl<J> Clone for Child<J> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<J> Copy for Child<J> {}

impl<J> std::fmt::Debug for Child<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Child({})", self.id)
    }
}

impl<S: Send + Sync + 'static> Context<S> {
    /// Spawns a child when awaited: a job with this one as its parent. It is spawned once under its name, however often
    /// attempts of this job come past here. A name used twice in one attempt is an error: for a list there is
    /// [`Context::spawn_many`]. So is a child that an earlier attempt spawned with another payload (`child_differs`):
    /// compute what may change, such as the time, inside a [`Context::step`].
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Context, HandlerError, Job};
    /// #[derive(Serialize, Deserialize)]
    /// struct Resize { width: u32 }
    /// impl Job for Resize {
    ///     const KIND: &str = "resize";
    ///     type Output = String;
    /// }
    ///
    /// async fn handle(ctx: Context) -> Result<Vec<String>, HandlerError> {
    ///     let small = ctx.spawn("small", Resize { width: 100 }).priority(3).await?;
    ///     let large = ctx.spawn("large", Resize { width: 900 }).await?;
    ///     let files = ctx.join("sizes", &[small, large]).await?;
    ///     // One failed child fails this job for good: trying again would find the same children.
    ///     files.into_iter().collect::<Result<_, _>>().map_err(HandlerError::permanent)
    /// }
    /// ```
    pub fn spawn<'a, J: Job>(&'a self, name: &'a str, job: J) -> Spawn<'a, S, J> {
        Spawn { ctx: self, name, request: Request::from(job), of: PhantomData }
    }

    /// Spawns many children, all or none, under `name` and a number each: `name-0`, `name-1` … The same jobs must come in the
    /// same order in every attempt.
    pub async fn spawn_many<J: Job>(
        &self,
        name: &str,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<Child<J>>, HandlerError> {
        let policies = self.client.policies().await?;
        let numbered = |(n, job): (usize, J)| {
            let name = named("child", &format!("{name}-{n}"))?;
            child(self, &name, Request::from(job), &policies)
        };
        let mut children = Vec::new();
        for job in jobs.into_iter().enumerate().map(numbered) {
            children.push(job?);
        }
        let mut spawned = Vec::with_capacity(children.len());
        while !children.is_empty() {
            // More than one request is not all or none, but each child is spawned once, so the next attempt makes it whole.
            let rest = children.split_off(children.len().min(ENQUEUE_MAX));
            spawned.extend(self.attempt.spawn(std::mem::replace(&mut children, rest)).await?);
        }
        Ok(spawned.into_iter().map(|enqueued| Child::new(enqueued.id)).collect())
    }

    /// Waits until every child of this job has ended, without a worker, and gives the results of those named, in that order.
    /// One that failed, timed out or was cancelled is an `Err`, and the others still count. A child that was added since an
    /// earlier attempt waited here is waited for too.
    pub async fn join<J: Job>(
        &self,
        name: &str,
        children: &[Child<J>],
    ) -> Result<Vec<Result<J::Output, Ended>>, HandlerError> {
        let name = named("join", name)?;
        self.attempt.take_join_name(&name)?;
        // What is on record of the wait says nothing about these children: they say it themselves.
        let ids: Vec<JobId> = children.iter().map(Child::id).collect();
        let read = stream::iter(ids.into_iter().map(|id| self.view(id)));
        let ended = read.buffered(READ_AT_ONCE).and_then(|view| async move {
            view.job.status.is_terminal().then_some(view).ok_or_else(unfinished)
        });
        match ended.map(|view| result::<J>(&view?)).try_collect().await {
            Err(error) if error == unfinished() => {}
            results => return results,
        }
        if self.attempt.job().children == 0
            && !self.attempt.has_added_children()
            && self.attempt.ended_wait(WaitFor::Children, &name).await?.is_some()
        {
            let message =
                format!("join {name} names a job that is no child of {}; name what it spawned", self.id());
            return Err(HandlerError::permanent(message).code("not_a_child"));
        }
        Err(self.attempt.wait_anew(self.attempt.children(&name, None)).await)
    }

    async fn view(&self, id: JobId) -> Result<JobView, HandlerError> {
        let store = self.client.store();
        self.attempt.call(|| store.job(id, None)).await?.ok_or_else(|| {
            HandlerError::permanent(format!(
                "child {id} is gone; keep finished jobs longer than their parents wait"
            ))
            .code("child_gone")
        })
    }
}

fn result<J: Job>(view: &JobView) -> Result<Result<J::Output, Ended>, HandlerError> {
    match crate::wait::result::<J>(view) {
        Ok(output) => Ok(Ok(output)),
        Err(Error::Ended(ended)) => Ok(Err(ended)),
        Err(other) if view.job.status == Status::Completed => {
            Err(HandlerError::permanent(other).code("unreadable"))
        }
        Err(other) => Err(other.into()),
    }
}

/// That a child has not ended, on its way out of the stream.
fn unfinished() -> HandlerError {
    HandlerError::retry("a child has not ended").code("child_unfinished")
}

/// A request as the child of this name.
fn child<S>(
    ctx: &Context<S>,
    name: &Name,
    request: Request,
    policies: &Policies,
) -> Result<NewJob, HandlerError> {
    let mut job = request.finish(policies).map_err(|e| HandlerError::permanent(e).code("invalid"))?;
    job.id = ctx.attempt.take_child_name(name)?;
    Ok(job)
}

/// Spawns a child when awaited. Made by [`Context::spawn`].
#[derive(Debug)]
#[must_use = "nothing is spawned before it is awaited"]
pub struct Spawn<'a, S, J> {
    ctx: &'a Context<S>,
    name: &'a str,
    request: Request,
    of: PhantomData<fn() -> J>,
}

options!(impl<S, J> Spawn<'_, S, J>);

impl<'a, S: Send + Sync + 'static, J: Job> IntoFuture for Spawn<'a, S, J> {
    type Output = Result<Child<J>, HandlerError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let policies = self.ctx.client.policies().await?;
            let job = child(self.ctx, &named("child", self.name)?, self.request, &policies)?;
            let id = job.id;
            self.ctx.attempt.spawn(vec![job]).await?;
            Ok(Child::new(id))
        })
    }
}
