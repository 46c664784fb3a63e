//! Queues with rates: how fast their jobs start.

use crate::db::{Db, Tx, array, sql};
use crate::error::Tried;
use std::collections::HashMap;
use windlass_core::hold::{LaneHold, ReleaseLane};
use windlass_core::rate::{Bucket, Rates};
use windlass_core::{Job, JobId, Lane, Name, Queue, QueueLimits, Timestamp};

/// What jobs cost, where that is not one.
#[derive(Default)]
pub(crate) struct Costs(HashMap<JobId, i32>);

impl Costs {
    pub(crate) fn of(&self, id: JobId) -> i32 {
        self.0.get(&id).copied().unwrap_or(1)
    }
}

impl Db<'_> {
    /// The rates of a queue; none if it has none.
    pub(crate) fn rates(&self, queue: &Name, flow: &QueueLimits, now: Timestamp) -> Tried<Option<Rates>> {
        if !flow.has_rates() && !flow.held {
            return Ok(None);
        }
        let bucket = |r: &rusqlite::Row<'_>| Ok((Lane::from_number(r.get(0)?), bucket(r, 1)?));
        Ok(Rates::new(flow, self.all(sql!("buckets"), [queue.as_str()], bucket)?, now))
    }

    /// Learns what jobs cost. Nobody asks where nothing is paid.
    pub(crate) fn costs(
        &self,
        rates: Option<&Rates>,
        ids: impl IntoIterator<Item = JobId>,
        costs: &mut Costs,
    ) -> Tried<()> {
        if rates.is_none() {
            return Ok(());
        }
        let cost = |r: &rusqlite::Row<'_>| Ok((JobId::from_bytes(r.get(0)?), r.get(1)?));
        let ids = array(ids.into_iter().map(|id| id.as_bytes().to_vec()));
        costs.0.extend(self.all(sql!("costs"), [ids], cost)?);
        Ok(())
    }

    /// What one job costs.
    pub(crate) fn cost(&self, rates: Option<&Rates>, job: &Job) -> Tried<i32> {
        let mut costs = Costs::default();
        self.costs(rates, [job.id], &mut costs)?;
        Ok(costs.of(job.id))
    }
}

fn bucket(r: &rusqlite::Row<'_>, from: usize) -> Tried<Bucket> {
    let held_until = r.get::<_, Option<i64>>(from + 2)?.map(Timestamp::from_micros);
    Ok(Bucket { paid_until: Timestamp::from_micros(r.get(from)?), cost: r.get(from + 1)?, held_until })
}

impl Tx<'_, '_> {
    /// Holds a lane, and says of its queue that something of it is held.
    pub(crate) fn hold_lane(&self, queue: &Name, hold: LaneHold, now: Timestamp) -> Tried<()> {
        if let Some(held) = Queue::with_hold(self.queue(queue)?.as_ref(), queue) {
            self.save_queue(&held)?;
        }
        let params = (queue.as_str(), hold.lane.number(), now.as_micros(), hold.until.as_micros());
        self.execute(sql!("hold_lane"), params).map(|_| ())
    }

    /// The rules of a queue that is claimed from; what says that something is held goes when nothing is.
    pub(crate) fn settled_flow(&self, set: Queue, now: Timestamp) -> Tried<Option<QueueLimits>> {
        let Some(flow) = set.flow.as_ref().filter(|flow| flow.held) else { return Ok(set.flow) };
        if self.rates(&set.name, flow, now)?.is_some_and(|rates| rates.has_holds()) {
            return Ok(set.flow);
        }
        self.execute(sql!("free_buckets"), (set.name.as_str(), now.as_micros()))?;
        let set = set.without_holds();
        self.save_queue(&set)?;
        Ok(set.flow)
    }

    /// Lets a lane go; false if there was nothing to let go.
    pub(crate) fn release_lane(&self, request: &ReleaseLane, now: Timestamp) -> Tried<bool> {
        let params = (request.queue.as_str(), request.lane().number());
        let kept = self.one(sql!("release_lane"), params, |r| bucket(r, 0))?;
        let Some(kept) = kept.filter(|kept| kept.counts_at(now)) else { return Ok(false) };
        self.write_audit(&request.audit(kept), now)?;
        self.hint();
        Ok(true)
    }

    /// Adds units that a job turned out to cost, where its queue has rates.
    pub(crate) fn charge(&self, job: &Job, units: i32, now: Timestamp) -> Tried<()> {
        let Some(flow) = self.queue(&job.queue)?.and_then(|queue| queue.flow) else { return Ok(()) };
        let mut rates = self.rates(&job.queue, &flow, now)?;
        if let Some(rates) = &mut rates {
            rates.charge(flow.lane(job.lane), units);
        }
        self.keep_rates(&job.queue, rates, now)
    }

    /// Keeps what was paid, and forgets buckets that mean nothing any more.
    pub(crate) fn keep_rates(&self, queue: &Name, rates: Option<Rates>, now: Timestamp) -> Tried<()> {
        let Some(rates) = rates else { return Ok(()) };
        self.execute(sql!("free_buckets"), (queue.as_str(), now.as_micros()))?;
        for (lane, Bucket { paid_until, cost, .. }) in rates.changed() {
            let params = (queue.as_str(), lane.number(), paid_until.as_micros(), cost);
            self.execute(sql!("put_bucket"), params)?;
        }
        Ok(())
    }
}
