//! What the end of a job entails, in its transaction: its key, its approvals, its parent, the jobs that wait for it.

use crate::db::{Tx, sql};
use crate::error::{Failure, Tried};
use std::collections::VecDeque;
use windlass_core::decide::Move;
use windlass_core::end::Ending;
use windlass_core::flow::{children, dependents};
use windlass_core::{Job, JobId, Timestamp};

impl Tx<'_, '_> {
    /// Carries out what ends entail, one after the other: an end may bring about others, in a chain of any length.
    pub(crate) fn follow_ends(&self, mut ended: VecDeque<Ending>, now: Timestamp) -> Tried<()> {
        while let Some(ending) = ended.pop_front() {
            self.end(&ending, &mut ended, now)?;
        }
        Ok(())
    }

    fn end(&self, ending: &Ending, ended: &mut VecDeque<Ending>, now: Timestamp) -> Tried<()> {
        if ending.frees_key {
            self.execute(sql!("free_keys"), [ending.job.as_bytes()])?;
        }
        if ending.closes_approvals {
            self.execute(sql!("void_approvals"), (ending.job.as_bytes(), now.as_micros()))?;
        }
        if let Some(id) = ending.parent {
            self.learns(id, ended, |parent| ending.told(parent, now))?;
        }
        if ending.has_dependents {
            for dependent in dependents(&self.graph_events(ending.job)?) {
                let reached = |job: &Job| ending.reaches(job, dependent.on, now).into_iter().collect();
                self.learns(dependent.job, ended, reached)?;
            }
        }
        if ending.cancels_children {
            for child in children(&self.graph_events(ending.job)?) {
                self.learns(child, ended, |job| ending.cancels(job, now).into_iter().collect())?;
            }
        }
        Ok(())
    }

    /// Moves a job that learns of an end.
    pub(crate) fn learns(
        &self,
        id: JobId,
        ended: &mut VecDeque<Ending>,
        steps: impl FnOnce(&Job) -> Vec<Move>,
    ) -> Tried<()> {
        let job = match self.job(id) {
            Err(Failure::Corrupt { job, why }) => {
                tracing::error!(%job, %why, "a job does not read back and does not learn of another's end");
                return Ok(());
            }
            job => job?,
        };
        let Some(mut before) = job else { return Ok(()) };
        for step in steps(&before) {
            ended.extend(self.write_row(&before, &step)?);
            before = step.job;
        }
        Ok(())
    }
}
