//! Children: spawned once, however often the attempt that spawns them is repeated.

use crate::attempt::Attempt;
use crate::error::HandlerError;
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
    /// its id is left as it is, also if an earlier attempt spawned it with another payload: give ids by
    /// [`Attempt::child_id`] and a child is spawned once.
    pub async fn spawn(&self, children: Vec<NewJob>) -> Result<Vec<Enqueued>, HandlerError> {
        let adopt = |mut child: NewJob| {
            child.facts.parent_id = Some(self.job_id());
            child.parent_token = Some(self.lease_token());
            child
        };
        let mut jobs: Vec<NewJob> = children.into_iter().map(adopt).collect();
        let mut known: Vec<(usize, Enqueued)> = Vec::new();
        let mut places: Vec<usize> = (0..jobs.len()).collect();
        let answers = loop {
            let request =
                Enqueue { jobs: jobs.clone(), actor: Actor::worker(self.worker()), idempotency: None };
            match self.call(|| self.store().enqueue(request.clone(), None)).await? {
                Ok(answers) => break answers,
                Err(refused) if refused.refusal == Refusal::JobExists && refused.index < jobs.len() => {
                    let (id, place) = (jobs.remove(refused.index).id, places.remove(refused.index));
                    known.push((place, Enqueued { id, existed: true, payload_differs: true }));
                }
                Err(refused) => self.held(&format!("child {}", refused.index), Err(refused.refusal)).await?,
            }
        };
        let mut all: Vec<(usize, Enqueued)> = places.into_iter().zip(answers).chain(known).collect();
        all.sort_by_key(|(place, _)| *place);
        Ok(all.into_iter().map(|(_, enqueued)| enqueued).collect())
    }
}
