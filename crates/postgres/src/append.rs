//! What is noted in a job's log while it lives: notes, progress, steps, log lines.

use crate::db::{Db, Tx, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::{Columns, Ts};
use windlass_core::decide::{self, Command, Move, check_lease, decide, merge, step_key};
use windlass_core::limits::{self, BATCH_MAX, LOG_LINE_MAX_BYTES};
use windlass_core::operate::Verdict;
use windlass_core::step::{Recorded, answered_before, recorded};
use windlass_core::{Answer, Done, Event, Job, Key, LogLine, Payload, Refusal, Version};
use windlass_store::{Append, HolderReply, Now, Progress, ReadLogs, ReadSteps, RecordStep, WriteLogs};

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

impl Tx<'_> {
    /// Appends to several logs, of which none begins here, in one statement.
    pub(crate) async fn append_events(&self, events: &[Event]) -> Tried<()> {
        match events {
            [] => return Ok(()),
            [event] => return self.append_event(event).await,
            _ => self.mark(false),
        }
        let details: Vec<_> = events.iter().map(|event| event.what.detail()).collect();
        let column = |of: fn(&Event) -> Option<&str>| events.iter().map(of).collect::<Vec<_>>();
        let (keys, types) = (
            column(|event| event.key.as_ref().map(Key::as_str)),
            column(|event| Some(event.what.type_name())),
        );
        self.execute(
            sql!("append_events"),
            params![
                events.iter().map(|event| uuid(event.job)).collect::<Vec<_>>(),
                events.iter().map(|event| event.version).collect::<Vec<_>>(),
                events.iter().map(|event| Ts(event.at)).collect::<Vec<_>>(),
                types,
                column(|event| Some(event.actor.as_str())),
                events.iter().map(|event| event.attempt).collect::<Vec<_>>(),
                events.iter().map(|event| event.generation).collect::<Vec<_>>(),
                events.iter().map(|event| event.lease.as_ref().map(|l| l.0.as_slice())).collect::<Vec<_>>(),
                keys,
                details.iter().map(|detail| detail.as_deref()).collect::<Vec<_>>(),
                events.iter().map(|event| event.payload.as_ref().map(Payload::is_json)).collect::<Vec<_>>(),
                events.iter().map(|event| event.payload.as_ref().map(Payload::as_bytes)).collect::<Vec<_>>(),
            ],
        )
        .await
    }

    /// Writes what was decided, and answers.
    pub(crate) async fn carry(&self, job: &Job, verdict: Verdict) -> Tried<Answer> {
        match verdict {
            Verdict::Already(version) => Ok(Ok(Done::Already(version))),
            Verdict::Step(step) => self.finish(job, *step).await,
        }
    }

    pub(crate) async fn finish(&self, job: &Job, step: Move) -> Tried<Answer> {
        self.write(job, &step).await?;
        Ok(Ok(Done::Moved(step.job.version, step.job.status)))
    }

    pub(crate) async fn append(&self, request: &Append) -> Tried<Result<HolderReply, Refusal>> {
        let (Some(job), now) = self.lock_row(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        match self.already(job.id, request.key.as_ref(), request.type_name.as_str(), None).await? {
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
        let step = decide(&job, Command::Append(note), now).map(|m| m.key(request.key.clone()));
        self.tell(&job, step).await
    }

    pub(crate) async fn progress(&self, request: &Progress) -> Tried<Result<HolderReply, Refusal>> {
        let (Some(job), now) = self.lock_row(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        match self.already(job.id, request.key.as_ref(), "job_progressed", None).await? {
            Ok(None) => {}
            known => return Ok(repeated(&job, known)),
        }
        let report = decide::Progress {
            progress: request.progress,
            stage: request.stage.clone(),
            metadata: match &request.metadata {
                Some(new) => Some(merge(self.metadata(&job).await?, new.clone())),
                None => None,
            },
            checkpoint: request.checkpoint.clone(),
            charge: request.charge,
        };
        let command = Command::Progress(request.token.hash(), report);
        let told = self.tell(&job, decide(&job, command, now).map(|m| m.key(request.key.clone()))).await?;
        if let (Some(units), Ok(_)) = (request.charge, &told) {
            self.charge(&job, units).await?;
        }
        Ok(told)
    }

    pub(crate) async fn record_step(&self, request: &RecordStep) -> Tried<Result<HolderReply, Refusal>> {
        let (Some(job), now) = self.lock_row(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        let ended = self.event_by_key(job.id, &step_key(&job, &request.name)).await?;
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
        self.tell(&job, decide(&job, Command::Step(request.token.hash(), step), now)).await
    }

    async fn tell(&self, job: &Job, step: Result<Move, Refusal>) -> Tried<Result<HolderReply, Refusal>> {
        match step {
            Ok(step) => {
                self.write(job, &step).await?;
                Ok(Ok(told(&step.job, Done::Moved(step.job.version, step.job.status))))
            }
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    pub(crate) async fn write_logs(&self, request: &WriteLogs) -> Tried<Result<(), Refusal>> {
        let (Some(job), now) = self.lock_row(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        let checked = check_lease(&job, request.token.hash(), now)
            .and_then(|()| Ok(limits::count("lines", request.lines.len(), BATCH_MAX)?))
            .and_then(|()| {
                let line = |line: &String| limits::text("line", line, LOG_LINE_MAX_BYTES);
                Ok(request.lines.iter().try_for_each(line)?)
            });
        if let Err(refusal) = checked {
            return Ok(Err(refusal));
        }
        // Lines are numbered under the job's lock.
        let last = self.one(sql!("last_log"), params![uuid(job.id)], |r| Ok(r.try_get::<_, i64>(0)?)).await?;
        let lines: Vec<&str> = request.lines.iter().map(String::as_str).collect();
        let first = last.unwrap_or(0) + 1;
        self.execute(sql!("write_log"), params![uuid(job.id), first, Ts(now), job.attempt, lines]).await?;
        Ok(Ok(()))
    }
}

impl Db<'_> {
    pub(crate) async fn steps(&self, request: &ReadSteps, _: Now) -> Tried<Option<Recorded>> {
        let Some(job) = self.job(request.job).await? else { return Ok(None) };
        let from = job.steps_from.max(request.after);
        let later = self.remembered(job.id, from).await?;
        let mut events = Vec::new();
        for version in answered_before(&later, from) {
            events.extend(self.event(job.id, version).await?);
        }
        events.extend(later);
        Ok(Some(recorded(&events, from)))
    }

    pub(crate) async fn logs(&self, request: &ReadLogs, _: Now) -> Tried<Vec<LogLine>> {
        self.all(
            sql!("logs"),
            params![uuid(request.job), request.after, crate::list::page(request.limit)],
            |r| {
                let mut c = Columns::new(r, 0);
                Ok(LogLine { n: c.get()?, at: c.time()?, attempt: c.get()?, line: c.get()? })
            },
        )
        .await
    }
}

fn told(job: &Job, done: Done) -> HolderReply {
    HolderReply { done, cancel_requested: job.cancel_requested_at.is_some() }
}

fn repeated(job: &Job, known: Result<Option<Version>, Refusal>) -> Result<HolderReply, Refusal> {
    known.map(|version| told(job, Done::Already(version.unwrap_or(job.version))))
}
