//! Signals: durable before they wake anyone, kept when they come early.

use crate::db::Tx;
use crate::error::Tried;
use windlass_core::decide::{Command, decide};
use windlass_core::{Answer, Done, Refusal};
use windlass_store::Signal;

impl Tx<'_> {
    pub(crate) async fn signal(&self, request: &Signal) -> Tried<Answer> {
        let (Some(job), now) = self.lock_row(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        match self.already(job.id, request.key.as_ref(), "job_signalled", Some(&request.name)).await? {
            Ok(None) => {}
            Ok(Some(version)) => return Ok(Ok(Done::Already(version))),
            Err(refusal) => return Ok(Err(refusal)),
        }
        let command = Command::Signal(request.actor.clone(), request.name.clone(), request.payload.clone());
        match decide(&job, command, now) {
            Ok(step) => self.finish(&job, step.key(request.key.clone())).await,
            Err(refusal) => Ok(Err(refusal)),
        }
    }
}
