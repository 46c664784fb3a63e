//! Undoing: the job behind a job that begins something undoable, and what that job plays back when the other has failed.

use crate::attempt::Attempt;
use crate::error::HandlerError;
use crate::trace::carry_or;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use windlass_core::limits::PAGE_MAX;
use windlass_core::undo::{EndedJob, Undoes};
use windlass_core::{Actor, Invalid, JobId, Name, NewJob, Refusal};
use windlass_store::{Claimed, Enqueue, ReadEvents};

/// What a job that undoes another goes by.
#[derive(Debug, Clone)]
pub struct Replay {
    /// An attempt of the ended job that plays back its record. Its verbs answer from there; where something is not on record
    /// they never come back; reports are dropped. Nothing is done by it.
    pub attempt: Attempt,
    /// The steps that are on record and can be undone.
    pub undoable: BTreeSet<Name>,
}

impl Attempt {
    /// Sees to it that what this job does is undone should it end badly: enqueues the job that would. Asked before the first
    /// step that can be undone begins, so that no end comes too early; what was never done is not on record then.
    pub async fn plan_undo(&self) -> Result<(), HandlerError> {
        if self.is_replay() {
            return Err(self.stand_still().await);
        }
        self.undo_planned().get_or_try_init(|| self.enqueue_undo()).await.map(|_| ())
    }

    async fn enqueue_undo(&self) -> Result<(), HandlerError> {
        let invalid = |invalid: Invalid| HandlerError::permanent(invalid).code("invalid");
        let undoes = Undoes::of(self.job());
        let mut facts = undoes.facts(self.facts()).map_err(invalid)?;
        carry_or(&mut facts.metadata, self.metadata());
        let payload = Some(undoes.payload().map_err(invalid)?);
        let job = NewJob { id: self.undo_id(), facts, payload, parent_token: None };
        let actor = Actor::worker(self.worker());
        let request = Enqueue { jobs: vec![job], actor, idempotency: None };
        match self.call(|| self.source().enqueue(request.clone())).await? {
            Ok(_) => Ok(()),
            // An earlier attempt came this far.
            Err(refused) if refused.refusal == Refusal::JobExists => Ok(()),
            Err(refused) => self.held("the job that undoes this one", Err(refused.refusal)).await,
        }
    }

    /// The id of the job that undoes this one: the same in every attempt, another after a redrive.
    fn undo_id(&self) -> JobId {
        let mut hash = Sha256::new();
        hash.update(b"windlass undo");
        hash.update(self.job_id().as_bytes());
        hash.update(self.job().generation.to_be_bytes());
        let mut random = [0u8; 8];
        random.copy_from_slice(&hash.finalize()[..8]);
        JobId::from_parts(self.job().created_at, random)
    }

    /// For a job that undoes another: what to undo, and the other's record to play back.
    ///
    /// # Errors
    /// If it undoes nothing, or the other is gone (`undo_job_gone`) or has not ended (`undo_too_early`). All are for good.
    pub async fn replay(&self) -> Result<Replay, HandlerError> {
        let undoes = self.payload().and_then(|payload| payload.parse::<Undoes>().ok());
        let Some(undoes) = undoes else {
            let message = "this job does not say which job it undoes; such jobs are enqueued by workers only";
            return Err(HandlerError::permanent(message).code("invalid"));
        };
        let ended = self.read_ended(&undoes).await?;
        if !ended.has_ended(&undoes) {
            let message = format!("job {} has not ended; cancel it to undo what it did", undoes.undoes);
            return Err(HandlerError::permanent(message).code("undo_too_early"));
        }
        let undoable = if ended.failed() { ended.undoable() } else { BTreeSet::new() };
        Ok(Replay { attempt: self.of_ended(ended), undoable })
    }

    async fn read_ended(&self, undoes: &Undoes) -> Result<EndedJob, HandlerError> {
        let (mut ended, mut after): (Option<EndedJob>, _) = (None, 0);
        loop {
            let request = ReadEvents { job: undoes.undoes, after, limit: PAGE_MAX, newest_first: false };
            let page = self.call(|| self.source().events(request)).await?;
            let Some(last) = page.last().map(|event| event.version) else { break };
            after = last;
            for event in page {
                match &mut ended {
                    None => ended = EndedJob::begin(&event),
                    Some(ended) => ended.read(event, undoes),
                }
            }
            if ended.as_ref().is_some_and(|ended| ended.has_ended(undoes)) {
                break;
            }
        }
        ended.ok_or_else(|| {
            let message = format!(
                "job {} is gone, and with it what is on record of its steps: keep finished jobs longer than undoing takes",
                undoes.undoes
            );
            HandlerError::permanent(message).code("undo_job_gone")
        })
    }

    /// As if the other job ran once more, held by this one's worker, at this one's time.
    fn of_ended(&self, ended: EndedJob) -> Self {
        let (record, mut lease) = (ended.recorded().into(), self.claimed().lease.clone());
        let EndedJob { mut job, facts, payload, metadata, checkpoint, .. } = ended;
        // What is written under this fence outlives what the job wrote.
        lease.job = job.id;
        lease.attempt = lease.attempt.saturating_add(job.attempt);
        lease.fence = lease.fence.saturating_add(job.attempt.into());
        job.started_at = self.job().started_at;
        let claimed =
            Claimed { job, lease, facts, payload, checkpoint, metadata, wake: None, steps_recorded: 0 };
        Self::of_record(self.shared_source().clone(), claimed, self.known_since(), record)
    }

    /// A replay came to something that is not on record: it goes no further.
    pub async fn stand_still(&self) -> HandlerError {
        self.control().reach_end();
        self.ended().await
    }

    /// Waits until a replay has come to something that is not on record.
    pub async fn stood_still(&self) {
        self.control().until(|control| control.is_at_end().then_some(())).await;
    }

    /// A replay is over: its handler has been dropped. A task or thread that it left behind is told.
    pub fn end_replay(&self) {
        self.control().leave();
    }
}
