//! Queues with rates: how fast their jobs start. Buckets are read and written under the lock of their queue.

use crate::db::{Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::{Columns, Ts};
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::rate::{Bucket, Rates};
use windlass_core::{Job, JobId, Lane, Name, QueueLimits, Timestamp};

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
        if !flow.has_rates() {
            return Ok(None);
        }
        let bucket = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            let lane = Lane::from_number(c.get()?);
            Ok((lane, Bucket { paid_until: c.time()?, cost: c.get()? }))
        };
        let kept = self.all(sql!("buckets"), params![queue.as_str()], bucket).await?;
        Ok(Rates::new(flow, kept, now))
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

impl Tx<'_> {
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
