//! Log lines that move to the archive when they are old.

use crate::append::granted;
use crate::db::{Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::{Columns, Ts};
use std::collections::HashSet;
use uuid::Uuid;
use windlass_core::{JobId, LogPart, Refusal, Timestamp};
use windlass_store::{LogRange, MoveLogs, Now, ReadOldLogs};

impl Db<'_> {
    pub(crate) async fn old_logs(&self, request: &ReadOldLogs, _: Now) -> Tried<Vec<(Timestamp, JobId)>> {
        let first = (Timestamp::from_micros(0), JobId::from_bytes([0; 16]));
        let (at, job) = request.after.unwrap_or(first);
        let place = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            Ok((c.time()?, JobId::from_bytes(c.get::<Uuid>()?.into_bytes())))
        };
        let limit = crate::list::page(request.limit);
        self.all(sql!("old_logs"), params![Ts(request.before), Ts(at), uuid(job), limit], place).await
    }

    pub(crate) async fn log_parts(&self, job: &JobId, _: Now) -> Tried<Vec<LogPart>> {
        let part = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            Ok(LogPart { first: c.get()?, last: c.get()?, part: c.get()? })
        };
        self.all(sql!("log_parts"), params![uuid(*job)], part).await
    }
}

impl Tx<'_> {
    pub(crate) async fn move_logs(
        &self,
        request: &MoveLogs,
    ) -> Tried<Result<Vec<Result<(), Refusal>>, Refusal>> {
        let term = self.share_term(&request.term).await?;
        let now = self.now().await?;
        granted!(request.decide(term.as_ref(), now));
        let ids: Vec<JobId> = request.ranges.iter().map(|range| range.job).collect();
        // Lines are written under the job's lock.
        let locked = self.lock_free_rows(&ids).await?;
        let (mut jobs, mut firsts, mut lasts) = (Vec::new(), Vec::new(), Vec::new());
        let is_free =
            |range: &&LogRange| range.check().is_ok() && matches!(locked.get(&range.job), Some(Ok(_)));
        for range in request.ranges.iter().filter(is_free) {
            jobs.push(uuid(range.job));
            firsts.push(range.first);
            lasts.push(range.last);
        }
        let place = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            Ok((c.get::<Uuid>()?, c.get::<i64>()?))
        };
        let part = request.part.as_str();
        let moved = self.all(sql!("move_logs"), params![jobs, firsts, lasts, part, Ts(now)], place).await?;
        let moved: HashSet<(Uuid, i64)> = moved.into_iter().collect();
        let answer = |range: &LogRange| {
            range.check()?;
            match locked.get(&range.job) {
                Some(Err(busy)) => Err(busy.clone()),
                Some(Ok(_)) if moved.contains(&(uuid(range.job), range.first)) => Ok(()),
                _ => Err(Refusal::NotFound),
            }
        };
        Ok(Ok(request.ranges.iter().map(answer).collect()))
    }

    pub(crate) async fn put_log_part(&self, job: JobId, part: &LogPart, now: Timestamp) -> Tried<()> {
        let LogPart { first, last, part } = part;
        self.execute(sql!("put_log_part"), params![uuid(job), *first, *last, part.as_str(), Ts(now)]).await?;
        Ok(())
    }
}
