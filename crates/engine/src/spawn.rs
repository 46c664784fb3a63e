//! Children: spawned once, however often the attempt that spawns them is repeated.

use crate::attempt::Attempt;
use crate::error::HandlerError;
use crate::trace::carry_or;
use sha2::{Digest, Sha256};
use windlass_core::{Actor, JobId, Name, NewJob, Refusal};
use windlass_store::{Enqueue, Enqueued};

impl Attempt {
    /// The id of the child of this name: the same in every attempt, another after a redrive from the start.
    pub fn child_id(&self, name: &Name) -> JobId {
        let mut hash = Sha256::new();
        hash.update(b"windlass child");
        hash.update(self.job_id().as_bytes());
        hash.update(self.job().steps_from.to_be_bytes());
        hash.update(name.as_str());
        let mut random = [0u8; 8];
        random.copy_from_slice(&hash.finalize()[..8]);
        JobId::from_parts(self.job().created_at, random)
    }

    /// Spawns children, all or none: enqueues the jobs with this one as their parent. A job that is there already by
    /// its id is left as it is: give ids by [`Attempt::take_child_name`] and a child is spawned once.
    ///
    /// # Errors
    /// If an earlier attempt spawned a child of the same id with another kind or payload: `child_differs`.
    pub async fn spawn(&self, children: Vec<NewJob>) -> Result<Vec<Enqueued>, HandlerError> {
        if self.is_replay() {
            return self.spawned(&children).await;
        }
        let adopt = |mut child: NewJob| {
            child.facts.parent_id = Some(self.job_id());
            child.parent_token = Some(self.lease_token());
            carry_or(&mut child.facts.metadata, self.metadata());
            child
        };
        let mut jobs: Vec<NewJob> = children.into_iter().map(adopt).collect();
        let mut known: Vec<(usize, Enqueued)> = Vec::new();
        let mut places: Vec<usize> = (0..jobs.len()).collect();
        let answers = loop {
            let request =
                Enqueue { jobs: jobs.clone(), actor: Actor::worker(self.worker()), idempotency: None };
            match self.call(|| self.source().enqueue(request.clone())).await? {
                Ok(answers) => break answers,
                Err(refused) if refused.refusal == Refusal::JobExists && refused.index < jobs.len() => {
                    let (child, place) = (jobs.remove(refused.index), places.remove(refused.index));
                    self.check_same(&child).await?;
                    known.push((place, Enqueued::there(child.id)));
                }
                Err(refused) => self.held(&format!("child {}", refused.index), Err(refused.refusal)).await?,
            }
        };
        if answers.iter().any(|enqueued| !enqueued.existed && !enqueued.dropped) {
            self.add_children();
        }
        let mut all: Vec<(usize, Enqueued)> = places.into_iter().zip(answers).chain(known).collect();
        all.sort_by_key(|(place, _)| *place);
        Ok(all.into_iter().map(|(_, enqueued)| enqueued).collect())
    }

    /// In a replay: children that are there. The first that is not was never spawned.
    async fn spawned(&self, children: &[NewJob]) -> Result<Vec<Enqueued>, HandlerError> {
        for child in children {
            if self.call(|| self.source().job(child.id)).await?.is_none() {
                return Err(self.stand_still().await);
            }
        }
        Ok(children.iter().map(|child| Enqueued::there(child.id)).collect())
    }

    /// A child that is there already is the same if it does the same work; what it falls back to may have changed since.
    async fn check_same(&self, child: &NewJob) -> Result<(), HandlerError> {
        let known = self.call(|| self.source().job(child.id)).await?;
        let is_same = known.is_some_and(|known| {
            known.facts.parent_id == Some(self.job_id())
                && known.job.kind == child.facts.kind
                && known.payload == child.payload
        });
        if is_same {
            return Ok(());
        }
        let message = format!(
            "child {} ({}) was spawned before with another kind or payload; give another child another name, and              compute payloads inside a step so that every attempt has the same",
            child.id, child.facts.kind
        );
        Err(HandlerError::permanent(message).code("child_differs"))
    }
}
