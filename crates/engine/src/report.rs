//! What an attempt says of itself while it runs.

use crate::attempt::Attempt;
use crate::error::HandlerError;
use windlass_core::lease::hex;
use windlass_core::{Actor, Key, Metadata, Name, Payload, Version};
use windlass_store::{Append, Progress, WriteLogs, fresh};

/// A report: one change of the job. What is left out stays as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// 0..100.
    pub progress: Option<i64>,
    /// Free text of where the handler is.
    pub stage: Option<String>,
    /// Merged into what is there, key by key.
    pub metadata: Option<Metadata>,
    /// Opaque JSON for the next attempt.
    pub checkpoint: Option<Payload>,
    /// Units of its rates that it cost beside those it was started for.
    pub charge: Option<i32>,
}

impl Attempt {
    /// Reports progress, stage, metadata and checkpoint in one change.
    pub async fn report(&self, report: Report) -> Result<(), HandlerError> {
        if self.is_replay() {
            return Ok(());
        }
        let checkpoint = report.checkpoint.clone();
        // Only a charge must not be written twice.
        let key = match report.charge {
            Some(_) => Some(Key::parse("key", format!("charge:{}", hex(&fresh::random::<16>())))?),
            None => None,
        };
        let request = Progress {
            job: self.job_id(),
            token: self.lease_token(),
            progress: report.progress,
            stage: report.stage,
            metadata: report.metadata,
            checkpoint: report.checkpoint,
            charge: report.charge,
            key,
        };
        let answer = self.call(|| self.source().progress(request.clone())).await?;
        self.told("report", answer).await?;
        if let Some(checkpoint) = checkpoint {
            self.keep_checkpoint(checkpoint);
        }
        Ok(())
    }

    /// Reports how far it is, 0..100, and where.
    pub async fn progress(&self, progress: i64, stage: Option<&str>) -> Result<(), HandlerError> {
        let stage = stage.map(str::to_owned);
        self.report(Report { progress: Some(progress), stage, ..Report::default() }).await
    }

    /// Keeps opaque JSON for the next attempt.
    pub async fn checkpoint(&self, checkpoint: Payload) -> Result<(), HandlerError> {
        self.report(Report { checkpoint: Some(checkpoint), ..Report::default() }).await
    }

    /// Charges units of the rates of its key and its queue beside those it was started for: what the work turned out to cost.
    /// Nothing of them starts before that is paid. Without rates it only stands in the log.
    pub async fn charge(&self, units: i32) -> Result<(), HandlerError> {
        self.report(Report { charge: Some(units), ..Report::default() }).await
    }

    /// Writes lines to the job's log.
    pub async fn log(&self, lines: Vec<String>) -> Result<(), HandlerError> {
        if self.is_replay() {
            return Ok(());
        }
        let request = WriteLogs { job: self.job_id(), token: self.lease_token(), lines };
        let answer = self.call(|| self.source().write_logs(request.clone())).await?;
        self.held("log lines", answer).await
    }

    /// Notes an event of the handler's own type, once, and answers its version.
    pub async fn note(&self, type_name: &Name, payload: Option<Payload>) -> Result<Version, HandlerError> {
        if self.is_replay() {
            return Ok(self.job().version);
        }
        // A key of its own, so that a repeat after a lost answer is recognised.
        let key = Key::parse("key", format!("note:{}", hex(&fresh::random::<16>())))?;
        let request = Append {
            job: self.job_id(),
            type_name: type_name.clone(),
            payload,
            actor: Actor::worker(self.worker()),
            token: Some(self.lease_token()),
            expected_version: None,
            key: Some(key),
        };
        let answer = self.call(|| self.source().append(request.clone())).await?;
        let told = self.told(&format!("note {type_name}"), answer).await?;
        Ok(told.done.version())
    }
}
