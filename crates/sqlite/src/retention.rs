//! The end of a job's time here: read whole, then removed whole. The only place that deletes.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use crate::row;
use windlass_core::{Answer, Done, EventKind, Job, JobId, LogLine, Refusal, Status, Timestamp, Version};
use windlass_store::{Archived, ForgetTombstones, Purge, ReadArchive, ReadLogs, Restore, Tombstone};

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

    pub(crate) fn purged(&self, id: JobId) -> Tried<Option<Tombstone>> {
        self.one(sql!("purged"), [id.as_bytes()], |r| {
            let finished_at = r.get::<_, Option<i64>>(1)?.map(Timestamp::from_micros);
            Ok(Tombstone { status: row::status(r)?, finished_at, archive: r.get(2)? })
        })
    }

    fn whole(&self, job: Job) -> Tried<Archived> {
        let mut logs: Vec<LogLine> = Vec::new();
        loop {
            let after = logs.last().map_or(0, |l| l.n);
            let page = self.logs(&ReadLogs { job: job.id, after, limit: usize::MAX })?;
            if page.is_empty() {
                let through = (job.id.as_bytes(), 0, job.version.max(0));
                let events = self.all(sql!("events"), through, row::readable_event)?;
                let log_parts = self.log_parts(job.id)?;
                return Ok(Archived { job, events, logs, log_parts });
            }
            logs.extend(page);
        }
    }
}

impl Tx<'_, '_> {
    pub(crate) fn purge(&self, request: &Purge, now: Timestamp) -> Tried<Vec<Result<(), Refusal>>> {
        self.keep_seq()?;
        let archive = request.archive.as_deref();
        let purge = |(job, version): &(JobId, Version)| self.purge_one(*job, *version, archive, now);
        let answers = request.jobs.iter().map(purge).collect();
        self.execute(sql!("purge_end"), ())?;
        answers
    }

    pub(crate) fn restore(&self, request: &Restore, now: Timestamp) -> Tried<Answer> {
        let Some(id) = request.job() else { return Ok(Err(Refusal::NotFound)) };
        if let Some(there) = self.job(id)? {
            let log = self.log(there.id, there.version)?;
            return Ok(request.made_before(&log).map(Done::Already));
        }
        let (_, step) = granted!(request.decide(now));
        for event in request.events.iter().chain([&step.event]) {
            self.append_event(event)?;
        }
        if let Some(EventKind::JobCreated(facts)) = request.events.first().map(|event| &event.what) {
            self.tag(id, facts)?;
        }
        for log in &request.logs {
            let line = (id.as_bytes(), log.n, log.at.as_micros(), log.attempt, &log.line);
            self.execute(sql!("write_log"), line)?;
        }
        for part in &request.log_parts {
            self.put_log_part(id, part, now)?;
        }
        self.insert_job(&step.job, now)?;
        Ok(Ok(Done::Moved(step.job.version, step.job.status)))
    }

    pub(crate) fn forget_tombstones(
        &self,
        request: &ForgetTombstones,
        now: Timestamp,
    ) -> Tried<Result<usize, Refusal>> {
        granted!(request.decide(self.term(&request.term)?.as_ref(), now));
        let old = (request.before.as_micros(), i64::try_from(request.limit).unwrap_or(i64::MAX));
        self.execute(sql!("forget_tombstones"), old).map(Ok)
    }

    fn purge_one(
        &self,
        id: JobId,
        version: Version,
        archive: Option<&str>,
        now: Timestamp,
    ) -> Tried<Result<(), Refusal>> {
        let Some(job) = self.job(id)? else { return Ok(Err(Refusal::NotFound)) };
        if !job.status.is_terminal() {
            return Ok(Err(Refusal::NotFinished(job.status)));
        }
        if job.version != version {
            return Ok(Err(Refusal::VersionMismatch(job.version)));
        }
        self.execute(sql!("purge_job_keys"), (id.as_bytes(), job.status.as_str()))?;
        self.execute(sql!("purge_tombstones"), [id.as_bytes()])?;
        if let Some(archive) = archive {
            let finished_at = job.finished_at.map(Timestamp::as_micros);
            let tombstone = (id.as_bytes(), job.status.as_str(), finished_at, archive, now.as_micros());
            self.execute(sql!("purge_to_tombstone"), tombstone)?;
        }
        let removal = (id.as_bytes(), version, now.as_micros());
        self.execute(sql!("purge_to_removal"), removal)?;
        self.execute(sql!("purge_begin"), [id.as_bytes()])?;
        for statement in [
            sql!("purge_job_events"),
            sql!("purge_job_logs"),
            sql!("purge_job_log_parts"),
            sql!("purge_job_tags"),
            sql!("purge_approvals"),
            sql!("purge_jobs"),
        ] {
            self.execute(statement, [id.as_bytes()])?;
        }
        Ok(Ok(()))
    }
}
