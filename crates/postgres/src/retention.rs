//! The end of a job's time here: read whole, then removed whole. The only place that deletes.

use crate::db::{Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::{self, Ts};
use uuid::Uuid;
use windlass_core::{Job, JobId, LogLine, Refusal, Status, Version};
use windlass_store::{Archived, Now, Purge, ReadArchive, ReadLogs};

/// A finished job, also one of which something does not read back: it goes its way like others, its log as it is stored.
fn job_of(row: &tokio_postgres::Row) -> Tried<Job> {
    Ok(row::readable_job(row)?.0)
}

impl Db<'_> {
    pub(crate) async fn archive(&self, request: &ReadArchive, _: Now) -> Tried<Vec<Archived>> {
        let limit = crate::list::page(request.limit);
        let mut finished: Vec<Job> = Vec::new();
        for status in Status::ALL.into_iter().filter(|s| s.is_terminal()) {
            let before = Ts(request.finished_before);
            finished.extend(match status {
                Status::Completed => {
                    self.listed(sql!("archive_completed"), params![before, limit], job_of).await?
                }
                _ => self.listed(sql!("archive"), params![before, limit, status.as_str()], job_of).await?,
            });
        }
        finished.sort_by_key(|job| (job.finished_at, job.id));
        finished.truncate(limit as usize);
        let mut archived = Vec::with_capacity(finished.len());
        for job in finished {
            archived.extend(self.whole(job).await?);
        }
        Ok(archived)
    }

    pub(crate) async fn purged(&self, id: &JobId, _: Now) -> Tried<Option<Status>> {
        self.one(sql!("purged"), params![uuid(*id)], |r| row::Columns::new(r, 0).text(Status::parse)).await
    }

    /// A job with its log and its lines; none if it was removed since its row was read.
    async fn whole(&self, job: Job) -> Tried<Option<Archived>> {
        let mut logs: Vec<LogLine> = Vec::new();
        loop {
            let after = logs.last().map_or(0, |l| l.n);
            let page = self.logs(&ReadLogs { job: job.id, after, limit: usize::MAX }, None).await?;
            if page.is_empty() {
                break;
            }
            logs.extend(page);
        }
        let events = self.readable_log(job.id, job.version).await?;
        if (events.len() as i64) < job.version && self.job(job.id).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(Archived { job, events, logs }))
    }
}

impl Tx<'_> {
    pub(crate) async fn purge(&self, request: &Purge) -> Tried<Vec<Result<(), Refusal>>> {
        let ids: Vec<JobId> = request.jobs.iter().map(|(job, _)| *job).collect();
        let mut locked = self.lock_free_rows(&ids).await?;
        let (mut going, mut versions): (Vec<Uuid>, Vec<Version>) = (Vec::new(), Vec::new());
        let mut answers = Vec::with_capacity(ids.len());
        for (id, version) in &request.jobs {
            let answer = match locked.get(id) {
                Some(Err(busy)) => Err(busy.clone()),
                Some(Ok(job)) => may_go(job, *version),
                None => Err(Refusal::NotFound),
            };
            if answer.is_ok() {
                going.push(uuid(*id));
                versions.push(*version);
                // Named twice, it is gone the second time.
                locked.remove(id);
            }
            answers.push(answer);
        }
        if going.is_empty() {
            return Ok(answers);
        }
        // The owner's function: nobody else may delete.
        self.rows(sql!("purge"), params![going, versions]).await?;
        Ok(answers)
    }
}

fn may_go(job: &Job, version: Version) -> Result<(), Refusal> {
    if !job.status.is_terminal() {
        return Err(Refusal::NotFinished(job.status));
    }
    if job.version != version {
        return Err(Refusal::VersionMismatch(job.version));
    }
    Ok(())
}
