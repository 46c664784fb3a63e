//! Signals: durable before they wake anyone, kept when they come early.

use crate::db::Tx;
use crate::error::Tried;
use windlass_core::decide::{Command, decide};
use windlass_core::{Answer, Done, Refusal, Timestamp};
use windlass_store::Signal;

impl Tx<'_, '_> {
    pub(crate) fn signal(&self, request: &Signal, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        match self.already(job.id, request.key.as_ref(), "job_signalled", Some(&request.name))? {
            Ok(None) => {}
            Ok(Some(version)) => return Ok(Ok(Done::Already(version))),
            Err(refusal) => return Ok(Err(refusal)),
        }
        let command = Command::Signal(request.actor.clone(), request.name.clone(), request.payload.clone());
        match decide(&job, command, now) {
            Ok(step) => self.finish(&job, step.key(request.key.clone())),
            Err(refusal) => Ok(Err(refusal)),
        }
    }
}
