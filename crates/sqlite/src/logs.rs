//! Log lines that move to the archive when they are old.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use windlass_core::{JobId, LogPart, Refusal, Timestamp};
use windlass_store::{LogRange, MoveLogs, ReadOldLogs};

impl Db<'_> {
    pub(crate) fn old_logs(&self, request: &ReadOldLogs) -> Tried<Vec<(Timestamp, JobId)>> {
        let first = (Timestamp::from_micros(i64::MIN), JobId::from_bytes([0; 16]));
        let (at, job) = request.after.unwrap_or(first);
        let limit = crate::list::page(request.limit);
        let params = (request.before.as_micros(), at.as_micros(), job.as_bytes(), limit);
        self.all(sql!("old_logs"), params, |r| {
            Ok((Timestamp::from_micros(r.get(0)?), JobId::from_bytes(r.get(1)?)))
        })
    }

    pub(crate) fn log_parts(&self, job: JobId) -> Tried<Vec<LogPart>> {
        self.all(sql!("log_parts"), [job.as_bytes()], |r| {
            Ok(LogPart { first: r.get(0)?, last: r.get(1)?, part: r.get(2)? })
        })
    }
}

impl Tx<'_, '_> {
    pub(crate) fn move_logs(
        &self,
        request: &MoveLogs,
        now: Timestamp,
    ) -> Tried<Result<Vec<Result<(), Refusal>>, Refusal>> {
        granted!(request.decide(self.term(&request.term)?.as_ref(), now));
        let moved = request.ranges.iter().map(|range| self.move_range(range, &request.part, now));
        moved.collect::<Tried<_>>().map(Ok)
    }

    fn move_range(&self, range: &LogRange, part: &str, now: Timestamp) -> Tried<Result<(), Refusal>> {
        let LogRange { job, first, last } = range;
        if self.job(*job)?.is_none() {
            return Ok(Err(Refusal::NotFound));
        }
        let lines = (job.as_bytes(), first, last);
        let here: i64 = self.one(sql!("count_logs"), lines, |r| Ok(r.get(0)?))?.unwrap_or(0);
        if granted!(range.decide(here, &self.log_parts(*job)?, part)) {
            self.execute(sql!("move_logs"), lines)?;
            let part = LogPart { first: *first, last: *last, part: part.to_owned() };
            self.put_log_part(*job, &part, now)?;
        }
        Ok(Ok(()))
    }

    pub(crate) fn put_log_part(&self, job: JobId, part: &LogPart, now: Timestamp) -> Tried<()> {
        let params = (job.as_bytes(), part.first, part.last, &part.part, now.as_micros());
        self.execute(sql!("put_log_part"), params)?;
        Ok(())
    }
}
