//! What is noted in a job's log while it lives: notes, progress, steps, log lines.

use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use windlass_core::decide::{self, Command, Move, check_lease, decide, merge, step_key};
use windlass_core::limits::{self, BATCH_MAX, LOG_LINE_MAX_BYTES};
use windlass_core::operate::Verdict;
use windlass_core::step::{Recorded, answered_before, recorded};
use windlass_core::{Answer, Done, Job, LogLine, Refusal, Timestamp, Version};
use windlass_store::{Append, HolderReply, Progress, ReadLogs, ReadSteps, RecordStep, WriteLogs};

/// What was decided; a refusal is returned as the answer of the verb. It is no failure of the store.
macro_rules! granted {
    ($decided:expr) => {
        match $decided {
            Ok(granted) => granted,
            Err(refusal) => return Ok(Err(refusal)),
        }
    };
}
pub(crate) use granted;

impl Tx<'_, '_> {
    /// Writes what was decided, and answers.
    pub(crate) fn carry(&self, job: &Job, verdict: Verdict) -> Tried<Answer> {
        match verdict {
            Verdict::Already(version) => Ok(Ok(Done::Already(version))),
            Verdict::Step(step) => self.finish(job, *step),
        }
    }

    pub(crate) fn finish(&self, job: &Job, step: Move) -> Tried<Answer> {
        self.write(job, &step)?;
        Ok(Ok(Done::Moved(step.job.version, step.job.status)))
    }

    pub(crate) fn append(&self, request: &Append, now: Timestamp) -> Tried<Result<HolderReply, Refusal>> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        match self.already(job.id, request.key.as_ref(), request.type_name.as_str(), None)? {
            Ok(None) => {}
            known => return Ok(repeated(&job, known)),
        }
        let note = decide::Append {
            type_name: request.type_name.clone(),
            payload: request.payload.clone(),
            actor: request.actor.clone(),
            lease: request.token.map(|t| t.hash()),
            expected_version: request.expected_version,
        };
        self.tell(&job, decide(&job, Command::Append(note), now).map(|m| m.key(request.key.clone())))
    }

    pub(crate) fn progress(&self, request: &Progress, now: Timestamp) -> Tried<Result<HolderReply, Refusal>> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        match self.already(job.id, request.key.as_ref(), "job_progressed", None)? {
            Ok(None) => {}
            known => return Ok(repeated(&job, known)),
        }
        let report = decide::Progress {
            progress: request.progress,
            stage: request.stage.clone(),
            metadata: match &request.metadata {
                Some(new) => Some(merge(self.metadata(&job)?, new.clone())),
                None => None,
            },
            checkpoint: request.checkpoint.clone(),
            charge: request.charge,
        };
        let command = Command::Progress(request.token.hash(), report);
        let told = self.tell(&job, decide(&job, command, now).map(|m| m.key(request.key.clone())))?;
        if let (Some(units), Ok(_)) = (request.charge, &told) {
            self.charge(&job, units, now)?;
        }
        Ok(told)
    }

    pub(crate) fn record_step(
        &self,
        request: &RecordStep,
        now: Timestamp,
    ) -> Tried<Result<HolderReply, Refusal>> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        let ended = self.event_by_key(job.id, &step_key(&job, &request.name))?;
        if let Some(event) = &ended
            && request.finished
            && event.payload == request.payload
        {
            return Ok(Ok(told(&job, Done::Already(event.version))));
        }
        let step = decide::Step {
            name: request.name.clone(),
            tool: request.tool,
            finished: request.finished,
            payload: request.payload.clone(),
            recorded: ended.map(|e| e.version),
        };
        self.tell(&job, decide(&job, Command::Step(request.token.hash(), step), now))
    }

    fn tell(&self, job: &Job, step: Result<Move, Refusal>) -> Tried<Result<HolderReply, Refusal>> {
        match step {
            Ok(step) => {
                self.write(job, &step)?;
                Ok(Ok(told(&step.job, Done::Moved(step.job.version, step.job.status))))
            }
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    pub(crate) fn write_logs(&self, request: &WriteLogs, now: Timestamp) -> Tried<Result<(), Refusal>> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        let checked = check_lease(&job, request.token.hash(), now)
            .and_then(|()| Ok(limits::count("lines", request.lines.len(), BATCH_MAX)?))
            .and_then(|()| {
                let line = |line: &String| limits::text("line", line, LOG_LINE_MAX_BYTES);
                Ok(request.lines.iter().try_for_each(line)?)
            });
        if let Err(refusal) = checked {
            return Ok(Err(refusal));
        }
        let last: i64 = self.one(sql!("last_log"), [job.id.as_bytes()], |r| Ok(r.get(0)?))?.unwrap_or(0);
        for (n, line) in (last + 1..).zip(&request.lines) {
            self.execute(sql!("write_log"), (job.id.as_bytes(), n, now.as_micros(), job.attempt, line))?;
        }
        Ok(Ok(()))
    }
}

impl Db<'_> {
    pub(crate) fn steps(&self, request: ReadSteps) -> Tried<Option<Recorded>> {
        let Some(job) = self.job(request.job)? else { return Ok(None) };
        let from = job.steps_from.max(request.after);
        let later = self.remembered(job.id, from)?;
        let mut events = Vec::new();
        for version in answered_before(&later, from) {
            events.extend(self.event(job.id, version)?);
        }
        events.extend(later);
        Ok(Some(recorded(&events, from)))
    }

    pub(crate) fn logs(&self, request: &ReadLogs) -> Tried<Vec<LogLine>> {
        let params = (request.job.as_bytes(), request.after, crate::list::page(request.limit));
        self.all(sql!("logs"), params, |r| {
            let at = Timestamp::from_micros(r.get(1)?);
            Ok(LogLine { n: r.get(0)?, at, attempt: r.get(2)?, line: r.get(3)? })
        })
    }
}

fn told(job: &Job, done: Done) -> HolderReply {
    HolderReply { done, cancel_requested: job.cancel_requested_at.is_some() }
}

fn repeated(job: &Job, known: Result<Option<Version>, Refusal>) -> Result<HolderReply, Refusal> {
    known.map(|version| told(job, Done::Already(version.unwrap_or(job.version))))
}
