//! Jobs that nothing but their own id can be in the way of: one statement for all of them.

use crate::batch::Call;
use crate::db::{Db, sql, uuid};
use crate::enqueue::Answered;
use crate::error::Tried;
use crate::param::params;
use crate::pool::Connections;
use crate::row::{self, Ts};
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;
use windlass_core::unique::Policy;
use windlass_core::{Actor, Facts, JobId, LeaseMs, NewJob, Payload, RunAt, What, Who};
use windlass_store::fresh::wall_clock;
use windlass_store::{Enqueue, Enqueued, Now};

/// Whether nothing but its own id can be in a job's way.
pub(crate) fn is_plain(request: &Enqueue) -> bool {
    let mut ids = HashSet::new();
    request.idempotency.is_none()
        && request
            .jobs
            .iter()
            .all(|j| j.facts.unique.is_none() && j.facts.parent_id.is_none() && ids.insert(j.id))
}

/// Requests of one plain job each, in one statement and one round trip. One whose id was taken is looked at by itself,
/// and all of them are if one of them made the statement fail.
pub(crate) async fn together(connections: Arc<Connections>, calls: Vec<Call<Arc<Enqueue>, Answered>>) {
    let mut ids = HashSet::new();
    let (calls, mut alone): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|call| call.asked.jobs.iter().all(|job| ids.insert(job.id)));
    let asked: Arc<Vec<Arc<Enqueue>>> = Arc::new(calls.iter().map(|c| Arc::clone(&c.asked)).collect());
    let merged = asked.len() > 1;
    let inserted = connections
        .try_single(merged, move |db| {
            let asked = Arc::clone(&asked);
            Box::pin(async move { db.insert_jobs(&with_actors(&asked), None).await })
        })
        .await;
    match inserted {
        Ok(inserted) => {
            let now = wall_clock();
            let fresh = |job: &NewJob| inserted.contains(&job.id);
            let (done, taken): (Vec<_>, Vec<_>) =
                calls.into_iter().partition(|c| c.asked.jobs.iter().all(fresh));
            let due = |job: &NewJob| job.facts.run_at.resolve(now) <= now;
            if !done.is_empty() {
                connections.wakeups.hint(done.iter().any(|c| c.asked.jobs.iter().any(due)));
            }
            for call in done {
                let answers = call.asked.jobs.iter().map(first).collect();
                call.answer(Ok(Ok(answers)));
            }
            alone.extend(taken);
        }
        Err(failure) if merged && failure.may_be_one_items() => alone.extend(calls),
        Err(failure) => calls.into_iter().for_each(|call| call.answer(Err(failure.told()))),
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

fn with_actors(requests: &[Arc<Enqueue>]) -> Vec<(&NewJob, &Actor)> {
    requests.iter().flat_map(|r| r.jobs.iter().map(|job| (job, &r.actor))).collect()
}

/// The answer for a job that is new.
pub(crate) fn first(job: &NewJob) -> Enqueued {
    Enqueued { id: job.id, existed: false, payload_differs: false }
}

impl Db<'_> {
    /// Writes rows and first events; answers which ids were free.
    pub(crate) async fn insert_jobs(&self, jobs: &[(&NewJob, &Actor)], now: Now) -> Tried<HashSet<JobId>> {
        if jobs.is_empty() {
            return Ok(HashSet::new());
        }
        let facts = || jobs.iter().map(|(j, _)| &j.facts);
        let run_at: Vec<Option<Ts>> =
            facts().map(|f| if let RunAt::At(t) = f.run_at { Some(Ts(t)) } else { None }).collect();
        let delay: Vec<Option<i64>> =
            facts().map(|f| if let RunAt::After(ms) = f.run_at { Some(ms) } else { None }).collect();
        let detail =
            |(j, _): &(&NewJob, _)| What::JobCreated(Box::new(j.facts.clone())).detail().unwrap_or_default();
        let backoff = |f: &Facts| f.backoff.map(|b| serde_json::to_string(&b)).transpose();
        let tags = |f: &Facts| {
            let tags: Vec<&str> = f.tags.iter().map(|t| t.as_str()).collect();
            (!tags.is_empty()).then(|| tags.join(","))
        };
        let rows = self
            .rows_kept(
                sql!("enqueue"),
                params![
                    now.map(Ts),
                    jobs.iter().map(|(_, actor)| actor.as_str()).collect::<Vec<&str>>(),
                    jobs.iter().map(|(j, _)| uuid(j.id)).collect::<Vec<Uuid>>(),
                    facts().map(|f| f.queue.as_str()).collect::<Vec<&str>>(),
                    facts().map(|f| f.kind.as_str()).collect::<Vec<&str>>(),
                    facts().map(|f| f.priority as i16).collect::<Vec<i16>>(),
                    run_at,
                    delay,
                    facts().map(|f| f.max_retries).collect::<Vec<i32>>(),
                    facts().map(|f| f.parent_id.map(uuid)).collect::<Vec<Option<Uuid>>>(),
                    facts()
                        .map(|f| f.unique.as_ref().map(|u| Policy::to_text(u.policy)))
                        .collect::<Vec<Option<String>>>(),
                    facts().map(|f| f.timeout_ms).collect::<Vec<Option<i64>>>(),
                    facts().map(|f| f.lease_ms.map(LeaseMs::get)).collect::<Vec<Option<i64>>>(),
                    facts().map(|f| f.grace_ms).collect::<Vec<i64>>(),
                    facts().map(backoff).collect::<Result<Vec<Option<String>>, _>>()?,
                    facts().map(|f| !f.metadata.is_empty()).collect::<Vec<bool>>(),
                    jobs.iter().map(detail).collect::<Vec<String>>(),
                    jobs.iter()
                        .map(|(j, _)| j.payload.as_ref().map(Payload::is_json))
                        .collect::<Vec<Option<bool>>>(),
                    jobs.iter()
                        .map(|(j, _)| j.payload.as_ref().map(Payload::as_bytes))
                        .collect::<Vec<Option<&[u8]>>>(),
                    facts().map(|f| f.agent_id.as_ref().map(Who::as_str)).collect::<Vec<Option<&str>>>(),
                    facts().map(tags).collect::<Vec<Option<String>>>(),
                ],
            )
            .await?;
        rows.iter().map(|row| row::Columns::new(row, 0).job_id()).collect()
    }
}
