//! Jobs that nothing but their own id can be in the way of: one statement for all of them.

use crate::batch::Call;
use crate::db::{Db, sql, uuid};
use crate::enqueue::Answered;
use crate::error::Tried;
use crate::param::params;
use crate::pool::{Connections, Purpose};
use crate::row::{Columns, Ts};
use std::collections::HashSet;
use std::sync::Arc;
use tokio_postgres::error::SqlState;
use uuid::Uuid;
use windlass_core::unique::Policy;
use windlass_core::{Actor, EventKind, Facts, JobId, Lane, LeaseMs, NewJob, Payload, RunAt, Timestamp, Who};
use windlass_store::fresh::wall_clock;
use windlass_store::{Enqueue, Enqueued, Now, StoreResult};

/// Whether nothing but the jobs' own ids can be in the way of a request.
pub(crate) fn is_plain(request: &Enqueue) -> bool {
    let mut ids = HashSet::new();
    request.idempotency.is_none() && request.jobs.iter().all(|job| is_plain_job(job) && ids.insert(job.id))
}

/// Whether nothing but its own id can be in a job's way.
pub(crate) fn is_plain_job(job: &NewJob) -> bool {
    job.facts.unique.is_none() && job.facts.parent_id.is_none() && job.facts.graph.is_none()
}

/// A request of one plain job.
type One = Call<Arc<Enqueue>, Answered>;

/// Requests of one plain job each, in one statement and one round trip. One whose id is taken is looked at by itself, and
/// the others go out again; all of them are looked at by themselves if one made the statement fail otherwise.
pub(crate) async fn together(connections: Arc<Connections>, calls: Vec<One>) {
    let mut ids = HashSet::new();
    let (mut calls, mut alone): (Vec<One>, Vec<One>) =
        calls.into_iter().partition(|call| call.asked.jobs.iter().all(|job| ids.insert(job.id)));
    while !calls.is_empty() {
        let asked: Arc<Vec<Arc<Enqueue>>> = Arc::new(calls.iter().map(|c| Arc::clone(&c.asked)).collect());
        let sent = std::mem::take(&mut calls);
        match insert(&connections, &asked).await {
            Ok(true) => told(&connections, sent),
            Ok(false) => match taken(&connections, asked).await {
                // Where a look does not tell which it was, all of them are looked at by themselves.
                Ok(ids) if ids.is_empty() => alone.extend(sent),
                Ok(ids) => {
                    let is_taken = |call: &One| call.asked.jobs.iter().any(|job| ids.contains(&job.id));
                    let (others, free): (Vec<_>, Vec<_>) = sent.into_iter().partition(is_taken);
                    alone.extend(others);
                    calls = free;
                }
                Err(error) => sent.into_iter().for_each(|call| call.answer(Err(error.clone()))),
            },
            Err(failure) if sent.len() > 1 && failure.may_be_one_items() => alone.extend(sent),
            Err(failure) => sent.into_iter().for_each(|call| call.answer(Err(failure.told()))),
        }
    }
    for call in alone {
        let (connections, request) = (Arc::clone(&connections), Arc::clone(&call.asked));
        call.answer_later(async move {
            connections
                .try_transact(None, move |tx| {
                    let request = Arc::clone(&request);
                    Box::pin(async move { tx.enqueue(&request).await })
                })
                .await
        });
    }
}

/// Writes all of them; says no if an id is taken, and then nothing was written.
async fn insert(connections: &Connections, asked: &Arc<Vec<Arc<Enqueue>>>) -> Tried<bool> {
    let asked = Arc::clone(asked);
    connections
        .try_single(if asked.len() > 1 { Purpose::Merged } else { Purpose::Work }, move |db| {
            let asked = Arc::clone(&asked);
            Box::pin(async move { db.insert_jobs(&with_actors(&asked), None).await })
        })
        .await
}

/// The ids among them that are taken.
async fn taken(connections: &Arc<Connections>, asked: Arc<Vec<Arc<Enqueue>>>) -> StoreResult<HashSet<JobId>> {
    connections
        .read(move |db| {
            let asked = Arc::clone(&asked);
            Box::pin(async move {
                let jobs = asked.iter().flat_map(|r| &r.jobs).map(|job| job.id);
                Ok(db.jobs_of(jobs).await?.into_keys().collect())
            })
        })
        .await
}

/// Tells callers that their jobs are there.
fn told(connections: &Connections, calls: Vec<One>) {
    let now = wall_clock();
    let due = |job: &NewJob| job.facts.run_at.resolve(now) <= now;
    connections.wakeups.hint(calls.iter().any(|c| c.asked.jobs.iter().any(due)));
    for call in calls {
        let answers = call.asked.jobs.iter().map(first).collect();
        call.answer(Ok(Ok(answers)));
    }
}

fn with_actors(requests: &[Arc<Enqueue>]) -> Vec<(&NewJob, &Actor)> {
    requests.iter().flat_map(|r| r.jobs.iter().map(|job| (job, &r.actor))).collect()
}

/// The answer for a job that is new.
pub(crate) fn first(job: &NewJob) -> Enqueued {
    Enqueued::new(job)
}

/// What is said of each job; nothing if it is said of none.
fn said<T>(of_each: impl IntoIterator<Item = Option<T>>) -> Vec<Option<T>> {
    let list: Vec<Option<T>> = of_each.into_iter().collect();
    if list.iter().any(Option::is_some) { list } else { Vec::new() }
}

/// What is said of each job; one word if it is the same of all.
fn said_once<T: PartialEq>(of_each: impl Iterator<Item = T>) -> Vec<T> {
    let mut list: Vec<T> = of_each.collect();
    if list.iter().all(|one| list.first() == Some(one)) {
        list.truncate(1);
    }
    list
}

impl Db<'_> {
    /// Writes rows and first events. Says no if an id is taken: the transaction has then failed.
    pub(crate) async fn insert_jobs(&self, jobs: &[(&NewJob, &Actor)], now: Now) -> Tried<bool> {
        Ok(jobs.is_empty() || self.inserted_at(jobs, now).await?.is_some())
    }

    /// The same, and tells the moment.
    pub(crate) async fn inserted_at(&self, jobs: &[(&NewJob, &Actor)], now: Now) -> Tried<Option<Timestamp>> {
        let facts = || jobs.iter().map(|(j, _)| &j.facts);
        let payloads = || jobs.iter().map(|(j, _)| j.payload.as_ref());
        let run_at = |f: &Facts| if let RunAt::At(t) = f.run_at { Some(Ts(t)) } else { None };
        let delay = |f: &Facts| if let RunAt::After(ms) = f.run_at { Some(ms) } else { None };
        let detail = |(j, _): &(&NewJob, _)| {
            EventKind::JobCreated(Box::new(j.facts.clone())).detail().unwrap_or_default()
        };
        let backoffs = facts().map(|f| f.backoff.map(|b| serde_json::to_string(&b)).transpose());
        let tags = |f: &Facts| {
            let tags: Vec<&str> = f.tags.iter().map(|t| t.as_str()).collect();
            (!tags.is_empty()).then(|| tags.join(","))
        };
        let written = self
            .rows_kept(
                sql!("enqueue"),
                params![
                    now.map(Ts),
                    said_once(jobs.iter().map(|(_, actor)| actor.as_str())),
                    jobs.iter().map(|(j, _)| uuid(j.id)).collect::<Vec<Uuid>>(),
                    said_once(facts().map(|f| f.queue.as_str())),
                    said_once(facts().map(|f| f.kind.as_str())),
                    said(facts().map(|f| Some(f.priority as i16).filter(|p| *p != 0))),
                    said(facts().map(run_at)),
                    said(facts().map(delay)),
                    said_once(facts().map(|f| f.max_retries)),
                    said(facts().map(|f| f.parent_id.map(uuid))),
                    said(facts().map(|f| f.unique.as_ref().map(|u| Policy::to_text(u.policy)))),
                    said(facts().map(|f| f.own_timeout_ms())),
                    said(facts().map(|f| f.lease_ms.map(LeaseMs::get))),
                    said(facts().map(|f| Some(f.grace_ms).filter(|ms| *ms != 0))),
                    said(backoffs.collect::<Result<Vec<_>, _>>()?),
                    said(facts().map(|f| (!f.metadata.is_empty()).then_some(true))),
                    jobs.iter().map(detail).collect::<Vec<String>>(),
                    said(payloads().map(|p| p.map(Payload::is_json))),
                    said(payloads().map(|p| p.map(Payload::as_bytes))),
                    said(facts().map(|f| f.agent_id.as_ref().map(Who::as_str))),
                    said(facts().map(tags)),
                    said(facts().map(|f| f.key.as_ref().map(|key| Lane::of(key).number()))),
                ],
            )
            .await;
        match written {
            Ok(rows) => rows.first().map(|row| Columns::new(row, 0).time()).transpose(),
            Err(failure) if failure.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}
