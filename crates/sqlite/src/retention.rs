//! The end of a job's time here: read whole, then removed whole. The only place that deletes.

use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use crate::row;
use windlass_core::{Job, JobId, LogLine, Refusal, Status, Timestamp, Version};
use windlass_store::{Archived, Purge, ReadArchive, ReadLogs};

impl Db<'_> {
    pub(crate) fn archive(&self, request: ReadArchive) -> Tried<Vec<Archived>> {
        let limit = crate::list::page(request.limit);
        let mut finished: Vec<Job> = Vec::new();
        for status in Status::ALL.into_iter().filter(|s| s.is_terminal()) {
            let params = (request.finished_before.as_micros(), limit, status.as_str());
            // Also one of which something does not read back: it goes its way like others, its log as it is stored.
            finished.extend(self.all(sql!("archive"), params, |r| Ok(row::readable_job(r)?.0))?);
        }
        finished.sort_by_key(|job| (job.finished_at, job.id));
        finished.truncate(limit as usize);
        finished.into_iter().map(|job| self.whole(job)).collect()
    }

    pub(crate) fn purged(&self, id: JobId) -> Tried<Option<Status>> {
        self.one(sql!("purged"), [id.as_bytes()], row::status)
    }

    fn whole(&self, job: Job) -> Tried<Archived> {
        let mut logs: Vec<LogLine> = Vec::new();
        loop {
            let after = logs.last().map_or(0, |l| l.n);
            let page = self.logs(&ReadLogs { job: job.id, after, limit: usize::MAX })?;
            if page.is_empty() {
                let through = (job.id.as_bytes(), 0, job.version.max(0));
                let events = self.all(sql!("events"), through, row::readable_event)?;
                return Ok(Archived { job, events, logs });
            }
            logs.extend(page);
        }
    }
}

impl Tx<'_, '_> {
    pub(crate) fn purge(&self, request: &Purge, _: Timestamp) -> Tried<Vec<Result<(), Refusal>>> {
        self.keep_seq()?;
        let answers = request.jobs.iter().map(|(job, version)| self.purge_one(*job, *version)).collect();
        self.execute(sql!("purge_end"), ())?;
        answers
    }

    fn purge_one(&self, id: JobId, version: Version) -> Tried<Result<(), Refusal>> {
        let Some(job) = self.job(id)? else { return Ok(Err(Refusal::NotFound)) };
        if !job.status.is_terminal() {
            return Ok(Err(Refusal::NotFinished(job.status)));
        }
        if job.version != version {
            return Ok(Err(Refusal::VersionMismatch(job.version)));
        }
        self.execute(sql!("purge_job_keys"), (id.as_bytes(), job.status.as_str()))?;
        self.execute(sql!("purge_begin"), [id.as_bytes()])?;
        for statement in [
            sql!("purge_job_events"),
            sql!("purge_job_logs"),
            sql!("purge_job_tags"),
            sql!("purge_approvals"),
            sql!("purge_jobs"),
        ] {
            self.execute(statement, [id.as_bytes()])?;
        }
        Ok(Ok(()))
    }
}
