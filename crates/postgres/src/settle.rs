//! How attempts end, each for itself.

use crate::batch::{self, Batcher, Call};
use crate::db::{Boxed, Db, Tx, sql, uuid};
use crate::end::Moves;
use crate::error::Tried;
use crate::one_by_one::{One, one_by_one, partly};
use crate::param::params;
use crate::pool::{Connections, LOCK_PATIENCE, Purpose, Waits, spawned};
use crate::row::{self, Ts};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;
use windlass_core::decide::{Command, decide};
use windlass_core::hold::LaneHold;
use windlass_core::limits::{self, BATCH_MAX, PAYLOAD_MAX_BYTES};
use windlass_core::outcome::Found;
use windlass_core::payload::fits;
use windlass_core::step::{denial, kept_signal, news};
use windlass_core::wait::{ApprovalStatus, Wait};
use windlass_core::{Answer, Done, Job, JobId, Outcome, Payload, Refusal, Status, Version, WaitFor};
use windlass_store::{Now, Settle, SettleItem, StoreResult};

/// Requests that can share a statement.
pub(crate) type Calls = Batcher<Arc<Settle>, Vec<Answer>>;
/// What of a request was completed by the set-based statement: the versions, by the item's place.
type Completed = HashMap<usize, Version>;

/// Completions that can be made in one statement are, together with those of other callers; everything else is
/// settled one by one.
pub(crate) async fn settle(
    connections: &Arc<Connections>,
    calls: &Calls,
    request: Settle,
    now: Now,
) -> StoreResult<Vec<Answer>> {
    let weight = |item: &SettleItem| 1 + result(item).map_or(0, |p| p.as_bytes().len() / 1_024);
    let weight = request.items.iter().map(weight).sum();
    let request = Arc::new(request);
    if now.is_none() && batch::is_small(weight) {
        return calls.call(request, weight).await;
    }
    let connections = Arc::clone(connections);
    spawned(async move { alone(&connections, &request, now).await }).await
}

/// Several requests: one statement for all of them, then each goes on by itself.
pub(crate) async fn together(connections: Arc<Connections>, calls: Vec<Call<Arc<Settle>, Vec<Answer>>>) {
    let asked: Vec<Arc<Settle>> = calls.iter().map(|c| Arc::clone(&c.asked)).collect();
    match complete(&connections, asked, None).await {
        Ok(completed) => {
            for (call, completed) in calls.into_iter().zip(completed) {
                if completed.len() == call.asked.items.len() {
                    let places = 0..call.asked.items.len();
                    let answers = places.map(|n| Ok(Done::Moved(completed[&n], Status::Completed)));
                    let answers = answers.collect();
                    call.answer(Ok(answers));
                    continue;
                }
                let (connections, request) = (Arc::clone(&connections), Arc::clone(&call.asked));
                call.answer_later(async move { rest(&connections, &request, completed, None).await });
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

/// One request by itself. An item that makes the statement fail does not fail the others: they go one by one.
async fn alone(connections: &Arc<Connections>, request: &Arc<Settle>, now: Now) -> Tried<Vec<Answer>> {
    let completed = match complete(connections, vec![Arc::clone(request)], now).await {
        Ok(mut completed) => completed.pop().unwrap_or_default(),
        Err(failure) if failure.may_be_one_items() => Completed::new(),
        Err(failure) => return Err(failure),
    };
    rest(connections, request, completed, now).await
}

/// Completes what is held and simple, in one round trip. It waits for locked rows a moment: a claim that raced another holds
/// rows of it locked until it ends. Where one stays locked, the others are completed without it.
async fn complete(
    connections: &Arc<Connections>,
    requests: Vec<Arc<Settle>>,
    now: Now,
) -> Tried<Vec<Completed>> {
    let mut completed = vec![Completed::new(); requests.len()];
    let places = completions(&requests);
    if places.is_empty() {
        return Ok(completed);
    }
    let asked = Arc::new((requests, places));
    let waited = Arc::clone(&asked);
    let found = connections
        .try_single(Purpose::Merged, move |db| {
            let waited = Arc::clone(&waited);
            Box::pin(async move { db.complete(&waited.0, &waited.1, now).await })
        })
        .await;
    let found = match found {
        Err(failure) if failure.is_locked() => {
            connections
                .try_transact(now, move |tx| {
                    let asked = Arc::clone(&asked);
                    Box::pin(async move { tx.complete_free(&asked.0, &asked.1, now).await })
                })
                .await?
        }
        found => found?,
    };
    if !found.is_empty() {
        connections.wakeups.hint(false);
    }
    for (place, version) in found {
        completed[place.request].insert(place.item, version);
    }
    Ok(completed)
}

/// Where an item stands among several requests.
#[derive(Debug, Clone, Copy)]
struct Place {
    request: usize,
    item: usize,
}

/// The first completion of each job.
fn completions(requests: &[Arc<Settle>]) -> Vec<Place> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for (request, asked) in requests.iter().enumerate() {
        for (item, settled) in asked.items.iter().take(BATCH_MAX).enumerate() {
            let first = seen.insert(settled.job);
            let small = |p: &Payload| fits("result", Some(p), PAYLOAD_MAX_BYTES).is_ok();
            let plain = matches!(&settled.outcome, Outcome::Complete(r) if r.as_ref().is_none_or(small));
            if first && plain {
                found.push(Place { request, item });
            }
        }
    }
    found
}

fn result(item: &SettleItem) -> Option<&Payload> {
    match &item.outcome {
        Outcome::Complete(result) => result.as_ref(),
        _ => None,
    }
}

/// An item that is left, by its place.
type Left = (usize, Arc<SettleItem>);

/// Settles in one transaction what can be: a parent of many that end here is written once. First what nobody else holds,
/// then what waits for parents that others hold. What is refused or comes after a wait is left, and so is everything if one
/// of them is in the way of the others.
async fn settle_together(
    connections: &Connections,
    items: &mut [One<Arc<SettleItem>, Done>],
    now: Now,
) -> Tried<()> {
    let mut seen = HashSet::new();
    // A wait comes before the ends that follow it: one of them may be what it waits for.
    let is_wait = |item: &SettleItem| matches!(item.outcome, Outcome::Wait(..));
    let before = items.iter().enumerate().take_while(|(_, one)| !matches!(one, One::Left(i) if is_wait(i)));
    let mut left: Vec<Left> = before
        .filter_map(|(n, one)| match one {
            // What holds a lane locks a queue, and goes by itself.
            One::Left(item) if matches!(item.outcome, Outcome::RateLimited(_)) => {
                seen.insert(item.job);
                None
            }
            One::Left(item) if seen.insert(item.job) => Some((n, Arc::clone(item))),
            _ => None,
        })
        .collect();
    for waits in [Waits::Never, Waits::For(LOCK_PATIENCE)] {
        if left.len() < 2 {
            break;
        }
        let asked = Arc::new(std::mem::take(&mut left));
        let settled = connections
            .try_transact_waiting(Purpose::Work, waits, now, move |tx| {
                let asked = Arc::clone(&asked);
                Box::pin(async move { tx.settle_many(&asked, waits).await })
            })
            .await;
        match settled {
            Ok((settled, held)) => {
                for (n, done) in settled {
                    items[n] = One::Answered(Ok(done));
                }
                left = held;
            }
            Err(failure) if failure.is_locked() || failure.may_be_one_items() => break,
            Err(failure) => return Err(partly(items, failure)),
        }
    }
    Ok(())
}

/// Settles what is left of a request, one by one. One item's trouble does not stop the others: a job that another
/// transaction holds is answered for itself.
async fn rest(
    connections: &Arc<Connections>,
    request: &Settle,
    completed: Completed,
    now: Now,
) -> Tried<Vec<Answer>> {
    let answer =
        |(n, item): (usize, &SettleItem)| match (limits::count("items", n + 1, BATCH_MAX), completed.get(&n))
        {
            (Err(invalid), _) => One::Answered(Err(invalid.into())),
            (Ok(()), Some(version)) => One::Answered(Ok(Done::Moved(*version, Status::Completed))),
            (Ok(()), None) => One::Left(Arc::new(item.clone())),
        };
    let mut items: Vec<One<Arc<SettleItem>, Done>> = request.items.iter().enumerate().map(answer).collect();
    settle_together(connections, &mut items, now).await?;
    let one = |item: Arc<SettleItem>, waits: Waits| {
        let connections = Arc::clone(connections);
        let settle = async move {
            connections
                .try_transact_waiting(Purpose::Work, waits, now, move |tx| {
                    let item = Arc::clone(&item);
                    Box::pin(async move { tx.settle_one(&item).await })
                })
                .await
        };
        Box::pin(settle) as Boxed<'static, _>
    };
    one_by_one(items, LOCK_PATIENCE, one).await
}

impl Db<'_> {
    /// Completes what is held and simple; answers the versions by the item's place.
    async fn complete(
        &self,
        requests: &[Arc<Settle>],
        places: &[Place],
        now: Now,
    ) -> Tried<Vec<(Place, Version)>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let mut places = places.to_vec();
        // All lock in one order.
        places.sort_by_key(|p| requests[p.request].items[p.item].job);
        let items: Vec<&SettleItem> = places.iter().map(|p| &requests[p.request].items[p.item]).collect();
        let ids: Vec<Uuid> = items.iter().map(|i| uuid(i.job)).collect();
        let hashes: Vec<[u8; 16]> = items.iter().map(|i| i.token.hash().0).collect();
        let hashes: Vec<&[u8]> = hashes.iter().map(<[u8; 16]>::as_slice).collect();
        let bytes: Vec<Option<&[u8]>> = items.iter().map(|i| result(i).map(Payload::as_bytes)).collect();
        let json: Vec<Option<bool>> = items.iter().map(|i| result(i).map(Payload::is_json)).collect();
        let now = now.map(Ts);
        let params = params![ids, hashes, bytes, json, now];
        let moved = self.rows_kept(sql!("settle_complete"), params).await?;
        let by_id: HashMap<Uuid, Place> = ids.iter().copied().zip(places.iter().copied()).collect();
        let place = |r: &tokio_postgres::Row| Ok((by_id[&r.try_get::<_, Uuid>(0)?], r.try_get(1)?));
        moved.iter().map(place).collect()
    }
}

impl Tx<'_> {
    /// The same for those whose rows nobody has locked.
    async fn complete_free(
        &self,
        requests: &[Arc<Settle>],
        places: &[Place],
        now: Now,
    ) -> Tried<Vec<(Place, Version)>> {
        let job = |p: &Place| uuid(requests[p.request].items[p.item].job);
        let ids: Vec<Uuid> = places.iter().map(job).collect();
        let free = self.lock_free(ids).await?;
        let places: Vec<Place> = places.iter().copied().filter(|p| free.contains(&job(p))).collect();
        self.complete(requests, &places, now).await
    }

    /// Settles those whose rows nobody else holds, and whose parents nobody does unless they are waited for. Answers what
    /// was settled, and what somebody holds; what is in neither is refused.
    async fn settle_many(&self, items: &[Left], waits: Waits) -> Tried<(Vec<(usize, Done)>, Vec<Left>)> {
        let mut moves = Moves::new(self);
        let ids: Vec<JobId> = items.iter().map(|(_, item)| item.job).collect();
        // Who the parent is never changes; parents come first in the order of locks.
        let known = self.jobs_of(ids.iter().copied()).await?;
        let parents: BTreeSet<JobId> = known.values().filter_map(|job| job.parent_id).collect();
        let parents: Vec<JobId> = parents.into_iter().collect();
        let mut held = HashSet::new();
        if matches!(waits, Waits::For(_)) {
            moves.load(parents.into_iter()).await?;
        } else {
            for (id, parent) in self.lock_free_rows(&parents).await? {
                match parent {
                    Ok(parent) => moves.knows(parent),
                    Err(_) => _ = held.insert(id),
                }
            }
        }
        for (id, row) in self.lock_free_rows(&ids).await? {
            match row {
                Ok(job) if !job.parent_id.is_some_and(|parent| held.contains(&parent)) => moves.knows(job),
                _ => _ = held.insert(id),
            }
        }
        let now = self.now().await?;
        let (mut settled, mut left) = (Vec::new(), Vec::new());
        for (n, item) in items {
            if held.contains(&item.job) {
                left.push((*n, Arc::clone(item)));
                continue;
            }
            let Some(job) = moves.row(item.job) else { continue };
            let command = Command::Settle(item.token.hash(), item.outcome.clone());
            let Ok(step) = decide(job, command, now.max(job.updated_at)) else { continue };
            settled.push((*n, Done::Moved(step.job.version, step.job.status)));
            let at = step.event.at;
            let ended = moves.moves(step);
            moves.follow(ended.into_iter().collect(), at).await?;
        }
        moves.write().await?;
        Ok((settled, left))
    }

    async fn settle_one(&self, item: &SettleItem) -> Tried<Answer> {
        let (Some(job), mut now) = self.lock(item.job).await? else { return Ok(Err(Refusal::NotFound)) };
        if matches!(item.outcome, Outcome::RateLimited(_)) {
            // From the moment of the hold on, nothing is handed out: claims that were under way are over by then.
            self.lock_queue(&job.queue).await?;
            now = self.now().await?.max(now);
        }
        let hash = item.token.hash();
        let outcome = match &item.outcome {
            Outcome::Wait(wait, _) => Outcome::Wait(wait.clone(), self.found(&job, wait).await?),
            other => other.clone(),
        };
        match decide(&job, Command::Settle(hash, outcome), now) {
            Ok(step) => {
                self.write(&job, &step).await?;
                if let Some(hold) = LaneHold::of(&step) {
                    self.hold_lane(&job.queue, hold, step.event.at).await?;
                }
                Ok(Ok(Done::Moved(step.job.version, step.job.status)))
            }
            Err(refusal) => {
                let written = self
                    .all(sql!("settled"), params![uuid(job.id), hash.0.as_slice()], |r| row::event(r, 0))
                    .await?;
                Ok(item.outcome.settled_in(hash, written.iter()).map(Done::Already).ok_or(refusal))
            }
        }
    }

    /// What already answers a wait.
    async fn found(&self, job: &Job, wait: &Wait) -> Tried<Found> {
        if wait.waits_for == WaitFor::News {
            let since = self.remembered(job.id, wait.since).await?;
            return Ok(Found { news: news(&since, wait.since), ..Found::default() });
        }
        let Some(name) = &wait.name else { return Ok(Found::default()) };
        let signal = if wait.waits_for == WaitFor::Signal && job.signals > 0 {
            kept_signal(&self.remembered(job.id, 0).await?, name, job.steps_from)
        } else {
            None
        };
        let approval = match wait.waits_for {
            WaitFor::Approval => self.approval_by_name(job.id, name).await?.filter(|a| a.counts_for(job)),
            _ => None,
        };
        let denial = match &approval {
            Some(approval) if approval.status == ApprovalStatus::Denied => {
                denial(&self.remembered(job.id, 0).await?, approval.id)
            }
            _ => None,
        };
        Ok(Found { signal, approval, denial, news: None })
    }
}
