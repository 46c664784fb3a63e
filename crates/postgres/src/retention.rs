//! The end of a job's time here: read whole, then removed whole. The only place that deletes.

use crate::append::granted;
use crate::db::{Db, Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, Ts};
use uuid::Uuid;
use windlass_core::{Answer, Done, Job, JobId, LogLine, Refusal, Status, Version};
use windlass_store::{Archived, ForgetTombstones, Now, Purge, ReadArchive, ReadLogs, Restore, Tombstone};

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

    pub(crate) async fn purged(&self, id: &JobId, _: Now) -> Tried<Option<Tombstone>> {
        let tombstone = |r: &tokio_postgres::Row| {
            let mut c = row::Columns::new(r, 0);
            let status = c.text(Status::parse)?;
            let finished_at: Option<Ts> = c.get()?;
            Ok(Tombstone { status, finished_at: finished_at.map(|ts| ts.0), archive: c.get()? })
        };
        self.one(sql!("purged"), params![uuid(*id)], tombstone).await
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
        let log_parts = self.log_parts(&job.id, None).await?;
        Ok(Some(Archived { job, events, logs, log_parts }))
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
        let (archive, now) = (request.archive.as_deref(), Ts(self.now().await?));
        self.rows(sql!("purge"), params![going, versions, archive, now]).await?;
        Ok(answers)
    }

    pub(crate) async fn restore(&self, request: &Restore) -> Tried<Answer> {
        let Some(id) = request.job() else { return Ok(Err(Refusal::NotFound)) };
        if let Some(there) = self.job(id).await? {
            let log = self.log(there.id, there.version).await?;
            return Ok(request.made_before(&log).map(Done::Already));
        }
        let now = self.now().await?;
        let (_, step) = granted!(request.decide(now));
        // The row first: whoever made a job with this id meanwhile is found there and nowhere else.
        if !self.insert_job(&step.job, now).await? {
            return Err(Failure::Raced);
        }
        for event in request.events.iter().chain([&step.event]) {
            self.append_event(event).await?;
        }
        for log in &request.logs {
            let lines = vec![log.line.as_str()];
            self.execute(sql!("write_log"), params![uuid(id), log.n, Ts(log.at), log.attempt, lines]).await?;
        }
        for part in &request.log_parts {
            self.put_log_part(id, part, now).await?;
        }
        Ok(Ok(Done::Moved(step.job.version, step.job.status)))
    }

    pub(crate) async fn forget_tombstones(
        &self,
        request: &ForgetTombstones,
    ) -> Tried<Result<usize, Refusal>> {
        let term = self.share_term(&request.term).await?;
        granted!(request.decide(term.as_ref(), self.now().await?));
        let limit = i64::try_from(request.limit).unwrap_or(i64::MAX);
        let before = Ts(request.before);
        let count = |r: &tokio_postgres::Row| row::Columns::new(r, 0).get::<i64>();
        let gone = self.one(sql!("forget_tombstones"), params![before, limit], count).await?;
        Ok(Ok(usize::try_from(gone.unwrap_or_default()).unwrap_or_default()))
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
