//! Erasure of what a finished job was given, found and printed. The only place that changes history.

use crate::append::granted;
use crate::db::{Tx, sql};
use crate::error::Tried;
use windlass_core::erase::Erasure;
use windlass_core::{Answer, Done, LogPart, Refusal, Timestamp};
use windlass_store::Erase;

impl Tx<'_, '_> {
    pub(crate) fn erase(&self, request: &Erase, now: Timestamp) -> Tried<Answer> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        let (id, log) = (job.id.as_bytes(), self.log(job.id, job.version)?);
        let last: i64 = self.one(sql!("last_log"), [id], |r| Ok(r.get(0)?))?.unwrap_or(0);
        let is_erased = |part: &LogPart| part.is_erased() && part.last == last;
        let has_lines = last > 0 && !self.log_parts(job.id)?.iter().any(is_erased);
        let hashes = self.stored_hashes(&log)?;
        let (changed, step) = match granted!(request.decide(&job, &log, &hashes, has_lines, now)) {
            Erasure::Already(version) => return Ok(Ok(Done::Already(version))),
            Erasure::Write { changed, step } => (changed, *step),
        };
        for event in changed {
            self.execute(sql!("erase_event"), (id, event.version, event.what.detail()))?;
        }
        for statement in [sql!("purge_job_logs"), sql!("purge_job_log_parts")] {
            self.execute(statement, [id])?;
        }
        if last > 0 {
            self.put_log_part(job.id, &LogPart::erased(last), now)?;
        }
        self.finish(&job, step)
    }
}
