//! What is added to a job while it lives: notes, reports, steps, log lines.

use crate::state::{State, page};
use windlass_core::decide::{self, Command, check_lease, decide, merge, step_key};
use windlass_core::limits::{self, BATCH_MAX, LOG_LINE_MAX_BYTES};
use windlass_core::step::{Recorded, recorded};
use windlass_core::{Done, JobId, LogLine, Refusal, Timestamp};
use windlass_store::{Append, HolderReply, Progress, ReadLogs, ReadSteps, RecordStep, WriteLogs};

impl State {
    /// Appends a note.
    pub fn append(&mut self, request: Append, now: Timestamp) -> Result<HolderReply, Refusal> {
        let entry = self.entry(request.job)?;
        if let Some(known) = entry.keyed(request.key.as_ref()) {
            let version = known.repeated_by(request.type_name.as_str(), None)?;
            return self.told(request.job, Done::Already(version));
        }
        let note = decide::Append {
            type_name: request.type_name,
            payload: request.payload,
            actor: request.actor,
            lease: request.token.map(|token| token.hash()),
            expected_version: request.expected_version,
        };
        let step = decide(&entry.job, Command::Append(note), now)?.key(request.key);
        let done = self.write(step);
        self.told(request.job, done)
    }

    /// Reports progress, stage, metadata and checkpoint in one change.
    pub fn progress(&mut self, request: Progress, now: Timestamp) -> Result<HolderReply, Refusal> {
        let entry = self.entry(request.job)?;
        if let Some(known) = entry.keyed(request.key.as_ref()) {
            let version = known.repeated_by("job_progressed", None)?;
            return self.told(request.job, Done::Already(version));
        }
        let report = decide::Progress {
            progress: request.progress,
            stage: request.stage,
            metadata: request.metadata.map(|new| merge(entry.metadata(), new)),
            checkpoint: request.checkpoint,
            charge: request.charge,
        };
        let hash = request.token.hash();
        let step = decide(&entry.job, Command::Progress(hash, report), now)?.key(request.key);
        let done = self.write(step);
        if let Some(units) = request.charge {
            self.charge(request.job, units, now);
        }
        self.told(request.job, done)
    }

    /// Records that a step began or ended. The same end again changes nothing; another value is refused.
    pub fn record_step(&mut self, request: RecordStep, now: Timestamp) -> Result<HolderReply, Refusal> {
        let entry = self.entry(request.job)?;
        let ended = entry.keyed(Some(&step_key(&entry.job, &request.name)));
        if let Some(event) = ended
            && request.finished
            && event.payload == request.payload
        {
            let done = Done::Already(event.version);
            return self.told(request.job, done);
        }
        let step = decide::Step {
            name: request.name,
            tool: request.tool,
            finished: request.finished,
            payload: request.payload,
            recorded: ended.map(|event| event.version),
        };
        let step = decide(&entry.job, Command::Step(request.token.hash(), step), now)?;
        let done = self.write(step);
        self.told(request.job, done)
    }

    /// What a resumed run must not do again.
    pub fn steps(&mut self, request: ReadSteps, _now: Timestamp) -> Option<Recorded> {
        let entry = self.entries.get(&request.job)?;
        Some(recorded(&entry.events, entry.job.steps_from.max(request.after)))
    }

    /// Writes log lines under a lease. They are no events: the job's version stays.
    pub fn write_logs(&mut self, request: WriteLogs, now: Timestamp) -> Result<(), Refusal> {
        let entry = self.entries.get_mut(&request.job).ok_or(Refusal::NotFound)?;
        check_lease(&entry.job, request.token.hash(), now)?;
        limits::count("lines", request.lines.len(), BATCH_MAX)?;
        for line in &request.lines {
            limits::text("line", line, LOG_LINE_MAX_BYTES)?;
        }
        let moved = entry.log_parts.last().map_or(0, |part| part.last);
        let last = entry.lines.last().map_or(moved, |line| line.n);
        let (attempt, at) = (entry.job.attempt, now);
        let numbered = (last + 1..).zip(request.lines);
        entry.lines.extend(numbered.map(|(n, line)| LogLine { n, at, attempt, line }));
        Ok(())
    }

    /// Reads log lines.
    pub fn logs(&mut self, request: ReadLogs, _now: Timestamp) -> Vec<LogLine> {
        let lines = self.entries.get(&request.job).map_or(&[][..], |entry| &entry.lines);
        let start = lines.partition_point(|line| line.n <= request.after);
        lines[start..].iter().take(page(request.limit)).cloned().collect()
    }

    fn told(&self, id: JobId, done: Done) -> Result<HolderReply, Refusal> {
        Ok(HolderReply { done, cancel_requested: self.entry(id)?.job.cancel_requested_at.is_some() })
    }
}
