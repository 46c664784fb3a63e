//! What the end of a job entails, in its transaction: its key, its approvals, its parent, the jobs that wait for it.
//!
//! Locks are taken from parent to child, from upstream to downstream, and by id among the dependents of one job. Ids begin
//! with their time and edges lead to newer jobs, so two transactions hardly ever meet in opposite order; where they do, the
//! server breaks the circle and the loser is tried again.

use crate::db::{Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, Ts};
use std::collections::{HashMap, VecDeque};
use uuid::Uuid;
use windlass_core::decide::Move;
use windlass_core::end::Ending;
use windlass_core::flow::{children, dependents};
use windlass_core::{Job, JobId, Timestamp};

impl Tx<'_> {
    /// Carries out what ends entail, one after the other: an end may bring about others, in a chain of any length.
    pub(crate) async fn follow_ends(&self, mut ended: VecDeque<Ending>, now: Timestamp) -> Tried<()> {
        while let Some(ending) = ended.pop_front() {
            self.end(&ending, &mut ended, now).await?;
        }
        Ok(())
    }

    async fn end(&self, ending: &Ending, ended: &mut VecDeque<Ending>, now: Timestamp) -> Tried<()> {
        if ending.frees_key {
            self.execute(sql!("free_keys"), params![uuid(ending.job)]).await?;
        }
        if ending.closes_approvals {
            self.execute(sql!("void_approvals"), params![uuid(ending.job), Ts(now)]).await?;
        }
        if let Some(id) = ending.parent {
            let parent = match self.one(sql!("lock"), params![uuid(id)], row::job).await {
                Err(Failure::Corrupt { job, why }) => {
                    tracing::error!(%job, %why, "a job does not read back and does not learn of another's end");
                    None
                }
                parent => parent?,
            };
            if let Some(parent) = parent {
                let steps = ending.told(&parent, now);
                self.learns(parent, steps, ended).await?;
            }
        }
        if !ending.has_dependents && !ending.cancels_children {
            return Ok(());
        }
        let log = self.graph_events(ending.job).await?;
        if ending.has_dependents {
            let waiting = dependents(&log);
            let mut rows = self.lock_all(waiting.iter().map(|dependent| dependent.job)).await?;
            for dependent in waiting {
                let Some(job) = rows.remove(&dependent.job) else { continue };
                let step = ending.reaches(&job, dependent.on, now);
                self.learns(job, step.into_iter().collect(), ended).await?;
            }
        }
        if ending.cancels_children {
            let nodes = children(&log);
            let mut rows = self.lock_all(nodes.iter().copied()).await?;
            for node in nodes {
                let Some(job) = rows.remove(&node) else { continue };
                let step = ending.cancels(&job, now);
                self.learns(job, step.into_iter().collect(), ended).await?;
            }
        }
        Ok(())
    }

    /// Locks jobs by id. One that does not read back learns of nothing.
    pub(crate) async fn lock_all(&self, ids: impl Iterator<Item = JobId>) -> Tried<HashMap<JobId, Job>> {
        let ids: Vec<Uuid> = ids.map(uuid).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let mut found = HashMap::new();
        for row in self.rows(sql!("lock_jobs"), params![ids]).await? {
            match row::readable_job(&row)? {
                (job, None) => {
                    found.insert(job.id, job);
                }
                (job, Some(why)) => {
                    tracing::error!(job = %job.id, %why, "a job does not read back and does not learn of another's end");
                }
            }
        }
        Ok(found)
    }

    /// Moves a job that learns of an end.
    async fn learns(&self, mut before: Job, steps: Vec<Move>, ended: &mut VecDeque<Ending>) -> Tried<()> {
        for step in steps {
            ended.extend(self.write_row(&before, &step, None).await?);
            before = step.job;
        }
        Ok(())
    }
}
