//! Queues with rates: how fast their jobs start.

use crate::db::{Db, Tx, array, sql};
use crate::error::Tried;
use std::collections::HashMap;
use windlass_core::rate::{Bucket, Rates};
use windlass_core::{Job, JobId, Lane, Name, QueueLimits, Timestamp};

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
        if !flow.has_rates() {
            return Ok(None);
        }
        let bucket = |r: &rusqlite::Row<'_>| {
            let paid_until = Timestamp::from_micros(r.get(1)?);
            Ok((Lane::from_number(r.get(0)?), Bucket { paid_until, cost: r.get(2)? }))
        };
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

impl Tx<'_, '_> {
    /// Keeps what was paid, and forgets buckets that mean nothing any more.
    pub(crate) fn keep_rates(&self, queue: &Name, rates: Option<Rates>, now: Timestamp) -> Tried<()> {
        let Some(rates) = rates else { return Ok(()) };
        self.execute(sql!("free_buckets"), (queue.as_str(), now.as_micros()))?;
        for (lane, Bucket { paid_until, cost }) in rates.changed() {
            let params = (queue.as_str(), lane.number(), paid_until.as_micros(), cost);
            self.execute(sql!("put_bucket"), params)?;
        }
        Ok(())
    }
}
