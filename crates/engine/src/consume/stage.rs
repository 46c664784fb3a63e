//! How far a message has come, and what follows from how its job stands.

use std::time::Duration;
use tokio::time::Instant;
use windlass_core::decide::Claim;
use windlass_core::{JobId, Name, Refusal, Status, Timestamp};
use windlass_store::work::Stands;

/// How long a message waits for a free place before it is left to other workers.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lease as it was seen: of which attempt, and when it is over.
pub(super) type Seen = (i32, Option<Timestamp>);

/// How far a message has come.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// Its job is to be looked at.
    New {
        /// A claim was refused: what nobody holds is left to its turn.
        refused: bool,
    },
    /// Somebody holds its job under a lease like this: it is looked at again.
    Later(Seen),
    /// Its job may be claimed, under the same claim as before if there was one whose answer was lost.
    Ready { queue: Name, since: Instant, claim: Option<Claim> },
    /// Its job is being claimed.
    Claiming { queue: Name, since: Instant, claim: Claim },
    /// Its job was claimed: the attempt is under way.
    Claimed,
}

impl Stage {
    /// What may be claimed is being claimed, under this claim.
    pub(super) fn begin_claim(&mut self, fresh: impl FnOnce() -> Claim) -> Option<Claim> {
        let Self::Ready { queue, since, claim } = self.clone() else { return None };
        let claim = claim.unwrap_or_else(fresh);
        *self = Self::Claiming { queue, since, claim: claim.clone() };
        Some(claim)
    }

    /// Nobody knows what came of the claim: the same one is made again.
    pub(super) fn end_claim(&mut self) {
        if let Self::Claiming { queue, since, claim } = self.clone() {
            *self = Self::Ready { queue, since, claim: Some(claim) };
        }
    }

    /// Whether it has waited long enough for a place. What may be held already is waited for.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        matches!(self, Self::Ready { since, claim: None, .. } if *since + PATIENCE <= now)
    }
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    Keep(Stage),
    /// It has nothing to say any more, and why.
    Done(&'static str),
    /// It can never be dealt with, and why.
    Poison(String),
}

/// What follows from how the job stands that a message names. `seen` is the lease that it met before.
pub(super) fn judge(
    job: JobId,
    found: Result<Stands, Refusal>,
    (queues, kinds): (&[Name], &[Name]),
    stage: &Stage,
    now: Timestamp,
) -> Verdict {
    let stands = match found {
        Ok(stands) => stands,
        Err(Refusal::Purged(_) | Refusal::Finished(_)) => {
            return Verdict::Done("the job ended and was removed");
        }
        Err(Refusal::NotFound) => return Verdict::Poison(format!("there is no job {job}")),
        Err(refusal) => return Verdict::Poison(refusal.to_string()),
    };
    let Stands { queue, kind, status, attempt, due_at } = stands;
    if status.is_terminal() {
        return Verdict::Done("the job has ended");
    }
    if !queues.contains(&queue) || !(kinds.is_empty() || kinds.contains(&kind)) {
        return Verdict::Poison(format!(
            "job {job} is {kind} of queue {queue}, which this worker does not run"
        ));
    }
    let lease = (attempt, due_at);
    match (status, stage) {
        (Status::Running, Stage::Later(seen)) if *seen != lease => Verdict::Done("its holder lives"),
        (Status::Running, Stage::New { refused: true }) => Verdict::Keep(Stage::Later(lease)),
        (Status::Running, _) if due_at.is_none_or(|at| at > now) => Verdict::Keep(Stage::Later(lease)),
        (Status::Waiting | Status::Assigned, _) => Verdict::Done("it waits, or is another worker's"),
        (_, Stage::New { refused: true }) => Verdict::Done("it is left to its turn"),
        _ => Verdict::Keep(Stage::Ready { queue, since: Instant::now(), claim: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_store::fresh;

    fn name(text: &str) -> Name {
        Name::parse("name", text).unwrap()
    }

    fn judged(status: Status, due: i64, stage: &Stage) -> Verdict {
        let due_at = Some(Timestamp::from_micros(due));
        let stands = Stands { queue: name("q"), kind: name("k"), status, attempt: 2, due_at };
        judge(fresh::job_id(), Ok(stands), (&[name("q")], &[]), stage, Timestamp::from_micros(100))
    }

    fn seen(attempt: i32, due: i64) -> Stage {
        Stage::Later((attempt, Some(Timestamp::from_micros(due))))
    }

    const NEW: Stage = Stage::New { refused: false };
    const REFUSED: Stage = Stage::New { refused: true };

    /// T5: a message waits for a lease to end, and no longer than it takes to see that its holder lives.
    #[tokio::test]
    async fn a_held_job_is_waited_for_until_its_holder_gives_a_sign_of_life() {
        assert_eq!(judged(Status::Running, 200, &NEW), Verdict::Keep(seen(2, 200)));
        assert_eq!(judged(Status::Running, 200, &seen(2, 200)), Verdict::Keep(seen(2, 200)));
        assert_eq!(judged(Status::Running, 200, &seen(2, 150)), Verdict::Done("its holder lives"), "renewed");
        assert_eq!(judged(Status::Running, 200, &seen(1, 200)), Verdict::Done("its holder lives"), "another");
        let over = judged(Status::Running, 50, &seen(2, 50));
        assert!(matches!(over, Verdict::Keep(Stage::Ready { .. })), "{over:?}");
        assert_eq!(judged(Status::Running, 50, &REFUSED), Verdict::Keep(seen(2, 50)), "by the store's clock");
    }

    #[tokio::test]
    async fn what_cannot_be_claimed_now_is_left_to_its_turn() {
        let ready = judged(Status::Pending, 50, &NEW);
        assert!(matches!(ready, Verdict::Keep(Stage::Ready { .. })), "{ready:?}");
        assert_eq!(judged(Status::Retry, 200, &REFUSED), Verdict::Done("it is left to its turn"));
        assert!(matches!(judged(Status::Waiting, 200, &NEW), Verdict::Done(_)));
        assert!(matches!(judged(Status::Completed, 200, &NEW), Verdict::Done(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_finds_no_place_is_left_to_others_but_not_one_that_may_be_claimed() {
        let Verdict::Keep(mut ready) = judged(Status::Pending, 50, &NEW) else { panic!("it is ready") };
        let later = Instant::now() + PATIENCE;
        assert!(ready.is_late(later) && !ready.is_late(later - Duration::from_secs(1)));
        let worker = windlass_core::Who::parse("worker", "w").unwrap();
        let claim = Claim { worker, secret: fresh::secret(), lease_ms: windlass_core::LeaseMs::DEFAULT };
        let first = ready.begin_claim(|| claim.clone());
        assert_eq!(ready.begin_claim(|| claim.clone()), None, "twice at once");
        ready.end_claim();
        assert!(!ready.is_late(later));
        let again = Claim { secret: fresh::secret(), ..claim };
        assert_eq!(ready.begin_claim(|| again), first, "the same claim again");
    }
}
