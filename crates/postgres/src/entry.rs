//! Lanes whose rules look at jobs that come: how many wait there, and whose place the newest takes.
//!
//! Whoever adds to such a lane locks it until it commits, and looks in a later statement: so no two see the same. Claims lock
//! other things and never wait for it. A job that is being handed out meanwhile is locked by its claim: the newest waits for
//! that, and then finds it among those that run.

use crate::db::{Tx, sql, uuid};
use crate::error::Tried;
use crate::lanes::Lanes;
use crate::param::params;
use crate::pool::Connections;
use crate::row::{self, Columns};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use windlass_core::enqueue::Ahead;
use windlass_core::lane::Entry;
use windlass_core::limits::SUPERSEDED_MAX;
use windlass_core::{Job, JobId, Key, Lane, Name, NewJob, QueueLimits};
use windlass_store::{Enqueue, Now, StoreResult};

/// What the rules of lanes ask.
pub(crate) type Entries = BTreeMap<(Name, Key), Entry>;

/// Whether a job comes to a queue whose rules look at it, as far as this process knows. Jobs without a key cost no look.
pub(crate) async fn is_guarded(
    connections: &Arc<Connections>,
    lanes: &Lanes,
    jobs: &[NewJob],
    now: Now,
) -> StoreResult<bool> {
    let has_key = |job: &&NewJob| job.facts.key.is_some();
    let keyed: HashSet<&Name> = jobs.iter().filter(has_key).map(|job| &job.facts.queue).collect();
    if keyed.is_empty() {
        return Ok(false);
    }
    let ruled = lanes.known(connections, now).await?;
    Ok(keyed.into_iter().any(|queue| ruled.guarded.contains(queue)))
}

impl Tx<'_> {
    /// Locks the lanes of a request whose rules look at jobs that come.
    pub(crate) async fn lock_lanes(&self, request: &Enqueue) -> Tried<Entries> {
        let mut flows: HashMap<&Name, Option<QueueLimits>> = HashMap::new();
        let mut entries = Entries::new();
        for facts in request.jobs.iter().map(|job| &job.facts) {
            let Some(key) = &facts.key else { continue };
            if !flows.contains_key(&facts.queue) {
                let flow = self.queue(&facts.queue).await?.and_then(|queue| queue.flow);
                flows.insert(&facts.queue, flow);
            }
            let entry = flows.get(&facts.queue).and_then(|flow| flow.as_ref()?.entry(key));
            entries.extend(entry.map(|entry| ((facts.queue.clone(), key.clone()), entry)));
        }
        if entries.is_empty() {
            return Ok(entries);
        }
        let (queues, lanes): (Vec<&str>, Vec<i64>) =
            entries.keys().map(|(queue, key)| (queue.as_str(), Lane::of(key).number())).unzip();
        self.execute(sql!("lock_lanes"), params![queues, lanes]).await?;
        Ok(entries)
    }

    /// Lanes that are locked, as far as their rules ask.
    pub(crate) async fn ahead(&self, entries: Entries) -> Tried<HashMap<(Name, Key), Ahead>> {
        let mut lanes = HashMap::new();
        for (lane, entry) in entries {
            let (queue, number) = (lane.0.as_str(), Lane::of(&lane.1).number());
            let most = entry.backlog.unwrap_or(SUPERSEDED_MAX as i64);
            let id = |r: &tokio_postgres::Row| Columns::new(r, 0).job_id();
            let waiting = self.all(sql!("lane_waiting"), params![queue, number, most], id).await?;
            let mut others = Vec::new();
            if entry.newest {
                others = self.lock_readable(&waiting).await?;
                // A later statement: it sees what was handed out before those locks were given.
                let running = self.all(sql!("lane_running"), params![queue, number], id).await?;
                others.retain(|job| !running.contains(&job.id));
                others.extend(self.lock_readable(&running).await?);
            }
            lanes.insert(lane, Ahead::new(entry, waiting.len() as i64, others));
        }
        Ok(lanes)
    }

    /// Locks jobs and reads them; one that does not read back is set aside by the next claim.
    async fn lock_readable(&self, ids: &[JobId]) -> Tried<Vec<Job>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<uuid::Uuid> = ids.iter().copied().map(uuid).collect();
        let rows = self.all(sql!("lock_jobs"), params![ids], row::readable_job).await?;
        Ok(rows.into_iter().filter(|(_, wrong)| wrong.is_none()).map(|(job, _)| job).collect())
    }
}
