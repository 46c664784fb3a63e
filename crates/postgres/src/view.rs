//! One job with everything: looks that come at once share their round trips.

use crate::batch::{Batcher, Call};
use crate::db::{Db, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::pool::Connections;
use crate::row;
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use windlass_core::blocked::{Surroundings, blocked};
use windlass_core::{Event, EventKind, Facts, Job, JobId, Metadata, Name, Queue, Timestamp};
use windlass_store::{JobView, Now, StoreResult};

/// Looks that can share their statements.
pub(crate) type Calls = Batcher<JobId, Option<JobView>>;

/// What a look weighs: a job may hold a mebibyte in each of four places, so only some thirty are in memory together.
const WEIGHT: usize = 32;

pub(crate) async fn view(
    connections: &Arc<Connections>,
    calls: &Calls,
    id: JobId,
    now: Now,
) -> StoreResult<Option<JobView>> {
    if now.is_none() {
        return calls.call(id, WEIGHT).await;
    }
    connections.read(move |db| Box::pin(async move { Ok(db.views(&[id], now).await?.remove(&id)) })).await
}

/// Several looks together. One row that does not read back does not hide the others: they go on one by one.
pub(crate) async fn together(connections: Arc<Connections>, calls: Vec<Call<JobId, Option<JobView>>>) {
    let ids: Vec<JobId> = calls.iter().map(|call| call.asked).collect();
    match look(&connections, &ids).await {
        Ok(views) => {
            for call in calls {
                let view = views.get(&call.asked).cloned();
                call.answer(Ok(view));
            }
        }
        Err(failure) if calls.len() > 1 && failure.may_be_one_items() => {
            for call in calls {
                let (connections, id) = (Arc::clone(&connections), call.asked);
                call.answer_later(async move { Ok(look(&connections, &[id]).await?.remove(&id)) });
            }
        }
        Err(failure) => calls.into_iter().for_each(|call| call.answer(Err(failure.told()))),
    }
}

async fn look(connections: &Connections, ids: &[JobId]) -> Tried<HashMap<JobId, JobView>> {
    let ids = ids.to_vec();
    connections.glance(|db| Box::pin(async move { db.views(&ids, None).await })).await
}

/// What a row points at.
struct Pointed {
    result: Option<Event>,
    error: Option<Event>,
    checkpoint: Option<Event>,
    redriven: Option<Event>,
    metadata: Option<Metadata>,
}

impl Db<'_> {
    /// The jobs that are there. Their rows and first events come in one round trip, and what the rows point at, which never
    /// changes, in a second.
    async fn views(&self, ids: &[JobId], now: Now) -> Tried<HashMap<JobId, JobView>> {
        let ids: Vec<Uuid> = ids.iter().copied().map(uuid).collect();
        let (of_rows, of_events) = (params![ids], params![ids]);
        let (jobs, created, workers, now) = tokio::try_join!(
            biased;
            self.all(sql!("jobs"), of_rows, row::job),
            self.all(sql!("created"), of_events, |r| row::event(r, 0)),
            self.workers(&(), now),
            self.clock(now)
        )?;
        let mut queues: Vec<&Name> = jobs.iter().map(|job| &job.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        let queues = try_join_all(queues.into_iter().map(|name| self.queue(name)));
        let (queues, pointed) =
            tokio::try_join!(queues, try_join_all(jobs.iter().map(|job| self.pointed_at(job))))?;
        let mut held = HashMap::new();
        for queue in queues.iter().flatten() {
            if let Some(flow) = &queue.flow {
                let slots = self.slots(&queue.name, flow).await?;
                let rates = self.rates(&queue.name, flow, now).await?;
                held.insert(queue.name.clone(), (flow.clone(), slots, rates));
            }
        }
        let by = |q: Queue| q.paused.map(|(at, by)| (q.name, (at, by.to_string())));
        let paused: HashMap<Name, (Timestamp, String)> =
            queues.into_iter().flatten().filter_map(by).collect();
        let mut created: HashMap<JobId, Event> = created.into_iter().map(|e| (e.job, e)).collect();
        let view = |(job, pointed): (Job, Pointed)| {
            let (facts, first) = match created.remove(&job.id).map(|e| (e.what, e.payload)) {
                Some((EventKind::JobCreated(facts), first)) => (*facts, first),
                _ => (Facts::new(job.kind.clone(), job.queue.clone()), None),
            };
            let limits = held.get(&job.queue).filter(|_| !job.takes_slot());
            let around = Surroundings {
                paused: paused.get(&job.queue).cloned(),
                broken: limits.and_then(|(flow, held, _)| flow.broken_at(held, now)),
                full: limits.and_then(|(flow, held, _)| flow.full(facts.key.as_ref(), held)),
                held: limits.and_then(|(_, _, rates)| rates.as_ref()?.held(facts.key.as_ref())),
                rated: limits
                    .and_then(|(_, _, rates)| rates.as_ref()?.behind(facts.key.as_ref(), facts.cost)),
                has_worker: workers.iter().any(|w| w.takes(&job.queue, &job.kind, now)),
                upstream: facts.upstream(),
            };
            let view = JobView {
                result: pointed.result.and_then(|e| e.payload),
                error: pointed.error.and_then(|e| Some((e.payload?, e.at))),
                checkpoint: pointed.checkpoint.and_then(|e| e.payload),
                blocked: blocked(&job, &around, now),
                metadata: pointed.metadata.unwrap_or_else(|| facts.metadata.clone()),
                facts,
                payload: pointed.redriven.map_or(first, |e| e.payload),
                job,
            };
            (view.job.id, view)
        };
        Ok(jobs.into_iter().zip(pointed).map(view).collect())
    }

    async fn pointed_at(&self, job: &Job) -> Tried<Pointed> {
        let (result, error, checkpoint, redriven, metadata) = tokio::try_join!(
            self.pointed(job.id, job.result_version),
            self.pointed(job.id, job.error_version),
            self.pointed(job.id, job.checkpoint_version),
            self.pointed(job.id, job.payload_version),
            self.later_metadata(job)
        )?;
        Ok(Pointed { result, error, checkpoint, redriven, metadata })
    }

    /// The metadata, unless it is that of the first event.
    async fn later_metadata(&self, job: &Job) -> Tried<Option<Metadata>> {
        match job.meta_version {
            Some(1) => Ok(None),
            _ => self.metadata(job).await.map(Some),
        }
    }
}
