//! Queues with rates: how fast their jobs start. Buckets are read and written under the lock of their queue.

use crate::db::{Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::{Columns, Ts};
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::hold::{LANE_DUE_CAP, LaneHold, ReleaseLane};
use windlass_core::rate::{Bucket, Rates};
use windlass_core::{Job, JobId, Key, Lane, Name, Queue, QueueLimits, Timestamp};
use windlass_store::{LaneState, ListLanes, Now};

/// The rates of a queue, and what the jobs cost that were looked at.
pub(crate) struct Paying {
    /// None if the queue has no rates.
    pub(crate) rates: Option<Rates>,
    /// Costs, where they are not one.
    costs: HashMap<JobId, i32>,
}

impl Paying {
    pub(crate) fn cost(&self, id: JobId) -> i32 {
        self.costs.get(&id).copied().unwrap_or(1)
    }

    /// Whether the rates allow a job to start.
    pub(crate) fn admits(&mut self, lane: Lane, id: JobId) -> bool {
        let cost = self.cost(id);
        self.rates.as_mut().is_none_or(|rates| rates.admits(lane, cost))
    }

    /// Pays for the start of a job.
    pub(crate) fn pay(&mut self, lane: Lane, id: JobId) {
        let cost = self.cost(id);
        if let Some(rates) = &mut self.rates {
            rates.pay(lane, cost);
        }
    }
}

impl Db<'_> {
    /// The rates of a queue; none if it has none.
    pub(crate) async fn rates(
        &self,
        queue: &Name,
        flow: &QueueLimits,
        now: Timestamp,
    ) -> Tried<Option<Rates>> {
        if !flow.has_rates() && !flow.held {
            return Ok(None);
        }
        let bucket = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            let lane = Lane::from_number(c.get()?);
            Ok((lane, bucket(&mut c)?))
        };
        let kept = self.all(sql!("buckets"), params![queue.as_str()], bucket).await?;
        Ok(Rates::new(flow, kept, now))
    }

    /// The keys of a queue that take turns.
    pub(crate) async fn lanes(&self, request: &ListLanes, now: Now) -> Tried<Vec<LaneState>> {
        let queue = &request.queue;
        let flow = self.queue(queue).await?.and_then(|queue| queue.flow).filter(QueueLimits::takes_turns);
        let Some(flow) = flow else { return Ok(Vec::new()) };
        let now = self.clock(now).await?;
        let (held, rates) = (self.slots(queue, &flow).await?, self.rates(queue, &flow, now).await?);
        let (after, limit) = (request.after.number(), crate::list::page(request.limit));
        let (of, at, cap) = (queue.as_str(), Ts(now), LANE_DUE_CAP + 1);
        let params = params![of, after, limit, at, cap];
        self.all(sql!("lanes"), params, |r| {
            let mut c = Columns::new(r, 0);
            let lane = Lane::from_number(c.get()?);
            let key = c.get::<Option<&str>>()?.and_then(|key| Key::try_from(key).ok());
            Ok(LaneState::of(lane, key, c.get()?, &held, rates.as_ref()))
        })
        .await
    }

    /// The rates of a queue, to pay for starts.
    pub(crate) async fn paying(&self, queue: &Name, flow: &QueueLimits, now: Timestamp) -> Tried<Paying> {
        Ok(Paying { rates: self.rates(queue, flow, now).await?, costs: HashMap::new() })
    }

    /// Learns what jobs cost. Nobody asks where nothing is paid.
    pub(crate) async fn learn_costs(
        &self,
        paying: &mut Paying,
        ids: impl IntoIterator<Item = JobId>,
    ) -> Tried<()> {
        let ids: Vec<Uuid> = ids.into_iter().map(uuid).collect();
        if paying.rates.is_none() || ids.is_empty() {
            return Ok(());
        }
        let cost = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            Ok((c.job_id()?, c.get::<i32>()?))
        };
        paying.costs.extend(self.all(sql!("costs"), params![ids], cost).await?);
        Ok(())
    }
}

fn bucket(c: &mut Columns<'_>) -> Tried<Bucket> {
    Ok(Bucket { paid_until: c.time()?, cost: c.get()?, held_until: c.opt_time()? })
}

impl Tx<'_> {
    /// Holds a lane, and says of its queue that something of it is held. Locks the queue.
    pub(crate) async fn hold_lane(&self, queue: &Name, hold: LaneHold, now: Timestamp) -> Tried<()> {
        let before = self.lock_queue(queue).await?;
        if let Some(held) = Queue::with_hold(before.as_ref(), queue) {
            self.save_queue(&held, before.as_ref()).await?;
        }
        let (of, lane, now, until) = (queue.as_str(), hold.lane.number(), Ts(now), Ts(hold.until));
        self.execute(sql!("hold_lane"), params![of, lane, now, until]).await
    }

    /// A locked queue that is claimed from; what says that something is held goes when nothing is.
    pub(crate) async fn without_old_holds(&self, set: Queue, now: Timestamp) -> Tried<Queue> {
        let Some(flow) = set.flow.as_ref().filter(|flow| flow.held) else { return Ok(set) };
        if self.rates(&set.name, flow, now).await?.is_some_and(|rates| rates.has_holds()) {
            return Ok(set);
        }
        self.execute(sql!("free_buckets"), params![set.name.as_str(), Ts(now)]).await?;
        let settled = set.without_holds();
        self.save_queue(&settled, Some(&set)).await?;
        Ok(settled)
    }

    /// Lets a lane go; false if there was nothing to let go.
    pub(crate) async fn release_lane(&self, request: &ReleaseLane) -> Tried<bool> {
        self.lock_queue(&request.queue).await?;
        let now = self.now().await?;
        let (of, lane) = (request.queue.as_str(), request.lane().number());
        let params = params![of, lane];
        let kept = self.one(sql!("release_lane"), params, |r| bucket(&mut Columns::new(r, 0))).await?;
        let Some(kept) = kept.filter(|kept| kept.counts_at(now)) else { return Ok(false) };
        self.mark(true);
        self.put_audit(&request.audit(kept), now).await?;
        Ok(true)
    }

    /// Adds units that a job turned out to cost, where its queue has rates. Locks the queue.
    pub(crate) async fn charge(&self, job: &Job, units: i32) -> Tried<()> {
        let Some(flow) = self.lock_queue(&job.queue).await?.and_then(|queue| queue.flow) else {
            return Ok(());
        };
        let now = self.now().await?;
        let mut paying = self.paying(&job.queue, &flow, now).await?;
        if let Some(rates) = &mut paying.rates {
            rates.charge(flow.lane(job.lane), units);
        }
        self.keep_rates(&job.queue, &paying, now).await
    }

    /// Pays for the start of one job by itself, and says whether the rates allow it. Its queue is locked.
    pub(crate) async fn pay_for(&self, job: &Job, flow: &QueueLimits, now: Timestamp) -> Tried<bool> {
        let mut paying = self.paying(&job.queue, flow, now).await?;
        self.learn_costs(&mut paying, [job.id]).await?;
        let lane = flow.lane(job.lane);
        let admits = paying.admits(lane, job.id);
        if admits {
            paying.pay(lane, job.id);
        }
        self.keep_rates(&job.queue, &paying, now).await?;
        Ok(admits)
    }

    /// Keeps what was paid, and forgets buckets that mean nothing any more.
    pub(crate) async fn keep_rates(&self, queue: &Name, paying: &Paying, now: Timestamp) -> Tried<()> {
        let Some(rates) = &paying.rates else { return Ok(()) };
        let queue = queue.as_str();
        self.execute(sql!("free_buckets"), params![queue, Ts(now)]).await?;
        let (mut lanes, mut paid_until, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        for (lane, bucket) in rates.changed() {
            lanes.push(lane.number());
            paid_until.push(Ts(bucket.paid_until));
            costs.push(bucket.cost);
        }
        if lanes.is_empty() {
            return Ok(());
        }
        self.execute(sql!("put_buckets"), params![queue, lanes, paid_until, costs]).await
    }
}
