//! Erasure of what a finished job was given, found and printed. The only place that changes history.

use crate::append::granted;
use crate::db::{Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::{Columns, Ts};
use windlass_core::erase::Erasure;
use windlass_core::{Answer, Done, LogPart, Refusal};
use windlass_store::Erase;

impl Tx<'_> {
    pub(crate) async fn erase(&self, request: &Erase) -> Tried<Answer> {
        let (Some(job), now) = self.lock(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        let log = self.log(job.id, job.version).await?;
        let number = |r: &tokio_postgres::Row| Columns::new(r, 0).get::<i64>();
        let last = self.one(sql!("last_log"), params![uuid(job.id)], number).await?.unwrap_or_default();
        let is_erased = |part: &LogPart| part.is_erased() && part.last == last;
        let has_lines = last > 0 && !self.log_parts(&job.id, None).await?.iter().any(is_erased);
        let hashes = self.stored_hashes(&log).await?;
        let (changed, step) = match granted!(request.decide(&job, &log, &hashes, has_lines, now)) {
            Erasure::Already(version) => return Ok(Ok(Done::Already(version))),
            Erasure::Write { changed, step } => (changed, *step),
        };
        let versions: Vec<i64> = changed.iter().map(|event| event.version).collect();
        let details: Vec<Option<String>> = changed.iter().map(|event| event.what.detail()).collect();
        let (id, mark) = (uuid(job.id), LogPart::ERASED);
        // The owner's function: nobody else may change history.
        self.rows(sql!("erase"), params![id, job.version, versions, details, last, mark, Ts(now)]).await?;
        self.finish(&job, step).await
    }
}
