//! Renewals: the one change without an event.

use crate::batch::{self, Batcher, Call};
use crate::db::{Boxed, Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::one_by_one::{One, one_by_one};
use crate::param::params;
use crate::pool::{Connections, Purpose, Waits, spawned};
use crate::row::Ts;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use windlass_core::decide::renew;
use windlass_core::limits::{self, BATCH_MAX};
use windlass_core::{JobId, LeaseMs, Refusal, Token};
use windlass_store::{Extend, Extended, Now, StoreResult};

/// How long rows that others hold are waited for: all other answers wait with them, and a lease may be a second long.
const LOCKED_PATIENCE: Duration = Duration::from_millis(50);

/// Requests that can share a statement.
pub(crate) type Calls = Batcher<Arc<Extend>, Answers>;
type Answers = Vec<Result<Extended, Refusal>>;
/// What the set-based statement renewed, and under which lease.
type Renewed = HashMap<JobId, ([u8; 16], Extended)>;

/// Renews what can be renewed in one statement, together with other callers, then looks at the others one by one.
pub(crate) async fn extend(
    connections: &Arc<Connections>,
    calls: &Calls,
    request: Extend,
    now: Now,
) -> StoreResult<Answers> {
    let (weight, request) = (request.leases.len(), Arc::new(request));
    if now.is_none() && batch::is_small(weight) {
        return calls.call(request, weight).await;
    }
    let connections = Arc::clone(connections);
    spawned(async move { alone(&connections, &request, now).await }).await
}

/// Several requests: one statement for those that ask for the same time, then each goes on by itself.
pub(crate) async fn together(connections: Arc<Connections>, calls: Vec<Call<Arc<Extend>, Answers>>) {
    let mut by_time: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    for call in calls {
        by_time.entry(call.asked.extend_ms.get()).or_default().push(call);
    }
    for calls in by_time.into_values() {
        let asked = calls.iter().map(|c| Arc::clone(&c.asked)).collect();
        match renew_many(&connections, asked, None).await {
            Ok(renewed) => {
                let renewed = Arc::new(renewed);
                for call in calls {
                    if let Some(answers) = answered(&call.asked, &renewed) {
                        call.answer(Ok(answers));
                        continue;
                    }
                    let (connections, renewed) = (Arc::clone(&connections), Arc::clone(&renewed));
                    let request = Arc::clone(&call.asked);
                    call.answer_later(async move { rest(&connections, &request, &renewed, None).await });
                }
            }
            Err(failure) if failure.may_be_one_items() => {
                for call in calls {
                    let (connections, request) = (Arc::clone(&connections), Arc::clone(&call.asked));
                    call.answer_later(async move { alone(&connections, &request, None).await });
                }
            }
            Err(failure) => calls.into_iter().for_each(|call| call.answer(Err(failure.told()))),
        }
    }
}

async fn alone(connections: &Arc<Connections>, request: &Arc<Extend>, now: Now) -> Tried<Answers> {
    let renewed = match renew_many(connections, vec![Arc::clone(request)], now).await {
        Err(failure) if failure.may_be_one_items() => Renewed::new(),
        renewed => renewed?,
    };
    rest(connections, request, &renewed, now).await
}

/// Renews whatever needs no closer look.
async fn renew_many(connections: &Arc<Connections>, requests: Vec<Arc<Extend>>, now: Now) -> Tried<Renewed> {
    let requests = Arc::new(requests);
    connections
        .try_single(Purpose::Renewal, move |db| {
            let requests = Arc::clone(&requests);
            Box::pin(async move { db.extend(&requests, now).await })
        })
        .await
}

/// The answers of a request that was renewed as a whole.
fn answered(request: &Extend, renewed: &Renewed) -> Option<Answers> {
    let answer = |(job, token): &(JobId, Token)| match renewed.get(job) {
        Some((hash, extended)) if *hash == token.hash().0 => Some(Ok(*extended)),
        _ => None,
    };
    request.leases.iter().map(answer).collect()
}

/// Looks at what is left of a request, one by one. A renewal that was made is no harm when the request is repeated.
async fn rest(
    connections: &Arc<Connections>,
    request: &Extend,
    renewed: &Renewed,
    now: Now,
) -> Tried<Answers> {
    let answer = |(n, lease): (usize, &(JobId, Token))| match (
        limits::count("leases", n + 1, BATCH_MAX),
        renewed.get(&lease.0),
    ) {
        (Err(invalid), _) => One::Answered(Err(invalid.into())),
        (Ok(()), Some((hash, extended))) if *hash == lease.1.hash().0 => One::Answered(Ok(*extended)),
        (Ok(()), _) => One::Left(*lease),
    };
    let leases = request.leases.iter().enumerate().map(answer).collect();
    let extend_ms = request.extend_ms;
    let one = |(job, token): (JobId, Token), waits: Waits| {
        let connections = Arc::clone(connections);
        let extend = async move {
            connections
                .try_transact_waiting(Purpose::Renewal, waits, now, move |tx| {
                    Box::pin(tx.extend_one(job, token, extend_ms))
                })
                .await
        };
        Box::pin(extend) as Boxed<'static, _>
    };
    one_by_one(leases, LOCKED_PATIENCE, one).await
}

impl Db<'_> {
    /// Renews under leases that all ask for the same time.
    async fn extend(&self, requests: &[Arc<Extend>], now: Now) -> Tried<Renewed> {
        // One lease per job: two tokens for one job are looked at one by one.
        let mut first: HashMap<JobId, [u8; 16]> = HashMap::new();
        for (job, token) in requests.iter().flat_map(|r| r.leases.iter().take(BATCH_MAX)) {
            first.entry(*job).or_insert_with(|| token.hash().0);
        }
        let extend_ms = requests.first().map_or(0, |r| r.extend_ms.get());
        let ids: Vec<Uuid> = first.keys().map(|job| uuid(*job)).collect();
        let hashes: Vec<&[u8]> = first.values().map(<[u8; 16]>::as_slice).collect();
        let now = now.map(Ts);
        let params = params![ids, hashes, extend_ms, now];
        let mut renewed = Renewed::new();
        for row in self.rows_kept(sql!("extend"), params).await? {
            let job = JobId::from_bytes(row.try_get::<_, Uuid>(0)?.into_bytes());
            let expires_at = row.try_get::<_, Ts>(1)?.0;
            if let Some(hash) = first.get(&job) {
                renewed.insert(job, (*hash, Extended { expires_at, cancel_requested: row.try_get(2)? }));
            }
        }
        Ok(renewed)
    }
}

impl Tx<'_> {
    async fn extend_one(
        &self,
        id: JobId,
        token: Token,
        extend_ms: LeaseMs,
    ) -> Tried<Result<Extended, Refusal>> {
        // It never ends the job, so the parent is not needed.
        let (Some(job), now) = self.lock_row(id).await? else { return Ok(Err(Refusal::NotFound)) };
        let renewed = match renew(&job, token.hash(), extend_ms, now) {
            Ok(renewed) => renewed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let expires_at = renewed.lease_expires_at.unwrap_or(now);
        let hash = job.lease_hash.map(|h| h.0).unwrap_or_default();
        self.execute(
            sql!("renew_job"),
            params![uuid(id), hash.as_slice(), Ts(expires_at), renewed.due_at.map(Ts)],
        )
        .await?;
        Ok(Ok(Extended { expires_at, cancel_requested: job.cancel_requested_at.is_some() }))
    }
}
