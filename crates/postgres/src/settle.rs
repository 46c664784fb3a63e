//! How attempts end, each for itself.

use crate::db::{Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::pool::Connections;
use crate::row::{self, Ts};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;
use windlass_core::decide::{Command, decide};
use windlass_core::limits::{self, BATCH_MAX, PAYLOAD_MAX_BYTES};
use windlass_core::outcome::Found;
use windlass_core::payload::fits;
use windlass_core::step::{denial, kept_signal};
use windlass_core::wait::{ApprovalStatus, Wait};
use windlass_core::{
    Answer, Done, Job, Outcome, Payload, Refusal, Status, Timestamp, Version, WaitFor, What,
};
use windlass_store::{Now, Settle, SettleItem, StoreResult};

/// Completions that can be made in one statement are; everything else is settled one by one.
pub(crate) async fn settle(
    connections: &Arc<Connections>,
    request: Settle,
    now: Now,
) -> StoreResult<Vec<Answer>> {
    let request = Arc::new(request);
    let mut completed = HashMap::new();
    for with_result in [true, false] {
        let items = completions(&request, with_result);
        if items.is_empty() {
            continue;
        }
        let (asked, items) = (Arc::clone(&request), Arc::new(items));
        let done = connections
            .single(move |db| {
                let (asked, items) = (Arc::clone(&asked), Arc::clone(&items));
                Box::pin(async move { db.complete(&asked, &items, with_result, now).await })
            })
            .await?;
        completed.extend(done);
    }
    if !completed.is_empty() {
        connections.hinter.hint(false);
    }
    let mut answers = Vec::with_capacity(request.items.len());
    for (n, item) in request.items.iter().enumerate() {
        let answer = match (limits::count("items", n + 1, BATCH_MAX), completed.get(&n)) {
            (Err(invalid), _) => Err(invalid.into()),
            (Ok(()), Some(version)) => Ok(Done::Moved(*version, Status::Completed)),
            (Ok(()), None) => settle_one(connections, item.clone(), now).await?,
        };
        answers.push(answer);
    }
    Ok(answers)
}

/// The first completion of each job, by whether it has a result.
fn completions(request: &Settle, with_result: bool) -> Vec<usize> {
    let mut seen = HashSet::new();
    let plain = |(_, item): &(usize, &SettleItem)| {
        let first = seen.insert(item.job);
        let small = |p: &Payload| fits("result", Some(p), PAYLOAD_MAX_BYTES).is_ok();
        first
            && matches!(&item.outcome, Outcome::Complete(r) if r.is_some() == with_result && r.as_ref().is_none_or(small))
    };
    request.items.iter().take(BATCH_MAX).enumerate().filter(plain).map(|(n, _)| n).collect()
}

async fn settle_one(connections: &Arc<Connections>, item: SettleItem, now: Now) -> StoreResult<Answer> {
    let item = Arc::new(item);
    connections
        .transact(now, move |tx| {
            let item = Arc::clone(&item);
            Box::pin(async move { tx.settle_one(&item).await })
        })
        .await
}

impl Db<'_> {
    /// Completes what is held and simple; answers the versions by the item's place.
    async fn complete(
        &self,
        request: &Settle,
        places: &[usize],
        with_result: bool,
        now: Now,
    ) -> Tried<HashMap<usize, Version>> {
        let items: Vec<&SettleItem> = places.iter().map(|n| &request.items[*n]).collect();
        let result = |item: &SettleItem| match &item.outcome {
            Outcome::Complete(result) => result.clone(),
            _ => None,
        };
        let results: Vec<Option<Payload>> = items.iter().map(|i| result(i)).collect();
        let ids: Vec<Uuid> = items.iter().map(|i| uuid(i.job)).collect();
        let hashes: Vec<[u8; 16]> = items.iter().map(|i| i.token.hash().0).collect();
        let hashes: Vec<&[u8]> = hashes.iter().map(<[u8; 16]>::as_slice).collect();
        let bytes: Vec<Option<&[u8]>> = results.iter().map(|r| r.as_ref().map(Payload::as_bytes)).collect();
        let json: Vec<Option<bool>> = results.iter().map(|r| r.as_ref().map(Payload::is_json)).collect();
        let moved = self
            .rows(sql!("settle_complete"), params![ids, hashes, bytes, json, now.map(Ts), with_result])
            .await?;
        let by_id: HashMap<Uuid, usize> = ids.iter().copied().zip(places.iter().copied()).collect();
        let place = |r: &tokio_postgres::Row| Ok((by_id[&r.try_get::<_, Uuid>(0)?], r.try_get(1)?));
        moved.iter().map(place).collect()
    }
}

impl Tx<'_> {
    async fn settle_one(&self, item: &SettleItem) -> Tried<Answer> {
        let (Some(job), now) = self.lock(item.job).await? else { return Ok(Err(Refusal::NotFound)) };
        let hash = item.token.hash();
        let outcome = match &item.outcome {
            Outcome::Wait(wait, _) => Outcome::Wait(wait.clone(), self.found(&job, wait).await?),
            other => other.clone(),
        };
        match decide(&job, Command::Settle(hash, outcome), now) {
            Ok(step) => {
                if let (Outcome::Wait(wait, _), What::JobFailed(_)) = (&item.outcome, &step.event.what) {
                    self.note_expiry(&job, wait, now).await?;
                }
                self.write(&job, &step).await?;
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
        let Some(name) = &wait.name else { return Ok(Found::default()) };
        let signal = if wait.waits_for == WaitFor::Signal && job.signals > 0 {
            kept_signal(&self.remembered(job.id).await?, name, job.steps_from)
        } else {
            None
        };
        let approval = match wait.waits_for {
            WaitFor::Approval => {
                self.approval_by_name(job.id, name).await?.filter(|a| a.asked_version > job.steps_from)
            }
            _ => None,
        };
        let denial = match &approval {
            Some(approval) if approval.status == ApprovalStatus::Denied => {
                denial(&self.remembered(job.id).await?, approval.id)
            }
            _ => None,
        };
        Ok(Found { signal, approval, denial })
    }

    /// A wait that finds its approval out of time puts that on the approval too.
    async fn note_expiry(&self, job: &Job, wait: &Wait, now: Timestamp) -> Tried<()> {
        let (WaitFor::Approval, Some(name)) = (wait.waits_for, &wait.name) else { return Ok(()) };
        let Some(mut approval) = self.approval_by_name(job.id, name).await? else { return Ok(()) };
        if approval.status == ApprovalStatus::Pending && approval.expires_at <= now {
            approval.status = ApprovalStatus::Expired;
            approval.decided_at = Some(now);
            self.put_approval(&approval).await?;
        }
        Ok(())
    }
}
