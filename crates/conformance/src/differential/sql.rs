//! Turns that a store with an SQL API is asked through it, while the model is asked by its verbs.

use super::act::Turned;
use super::plan::{Act, End, Spec};
use super::twins::Twins;
use crate::{completes, key, name};
use async_trait::async_trait;
use proptest::test_runner::TestCaseError;
use std::fmt::Debug;
use windlass_core::decide::Cancel as Wish;
use windlass_core::limits::LEASE_MAX_MS;
use windlass_core::{
    Actor, Done, JobId, Name, NewJob, Outcome, Payload, QueueLimits, Refusal, Status, Timestamp, Token,
    Version,
};
use windlass_store::{Cancel, Enqueue, Enqueued, Settle, SettleItem, Signal};

/// The SQL API of a store. A refusal is the SQLSTATE that was raised.
#[async_trait]
pub trait SqlApi: Send + Sync {
    /// Who acts through it, as logs show it.
    fn actor(&self) -> Actor;
    /// `windlass.enqueue`: the id of the new job, or of the one that has its unique key; none if it was dropped.
    async fn enqueue(&self, job: &NewJob, now: Timestamp) -> Result<Option<JobId>, String>;
    /// `windlass.cancel`: `cancelled`, `requested` or `already`.
    async fn cancel(&self, job: JobId, wish: &Wish, now: Timestamp) -> Result<String, String>;
    /// `windlass.signal`: whether the key was sent before.
    async fn signal(&self, signal: &Signal, now: Timestamp) -> Result<bool, String>;
    /// `windlass.complete`: the version.
    async fn complete(
        &self,
        job: JobId,
        token: &Token,
        result: Option<&Payload>,
        now: Timestamp,
    ) -> Result<Version, String>;
}

/// The SQLSTATE that a refusal is raised with.
fn state(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Invalid(_) | Refusal::FlowNotOpen => "WL005",
        Refusal::NotFound | Refusal::ParentNotFound(_) => "WL006",
        Refusal::Finished(_) => "WL007",
        Refusal::NotLeased(_) => "WL008",
        Refusal::Expired => "WL009",
        Refusal::Mismatch => "WL010",
        Refusal::KeyReused(_) => "WL011",
        Refusal::JobExists => "WL012",
        Refusal::LaneFull { .. } => "WL015",
        other => other.code(),
    }
    .to_owned()
}

fn same<T: PartialEq + Debug>(act: &impl Debug, model: T, store: T) -> Turned {
    if model == store {
        return Ok(());
    }
    let differ =
        format!("SQL differs for {act:#?}\nthe model answers {model:?}\nthe store answers {store:?}");
    Err(TestCaseError::fail(differ))
}

impl Twins {
    /// Takes a turn through SQL; says no if there is no SQL for it.
    pub async fn takes_by_sql(&mut self, act: &Act) -> Result<bool, TestCaseError> {
        let lost = |error| TestCaseError::fail(format!("the model failed: {error}"));
        let Some(sql) = self.sql.clone() else { return Ok(false) };
        let (now, actor) = (self.now, sql.actor());
        match act {
            // The SQL API knows no debounce.
            Act::Enqueue { jobs, promise: None }
                if jobs.iter().all(|spec| spec.unique.is_none_or(|(_, policy)| policy < 5)) =>
            {
                for spec in jobs {
                    self.enqueues_by_sql(spec).await?;
                }
            }
            Act::Cancel { job, force, force_after_ms, behind: None } => {
                let job = self.job(*job);
                let force_after_ms = (*force_after_ms).clamp(0, LEASE_MAX_MS);
                let wish = Wish { actor, reason: Some("by SQL".into()), force: *force, force_after_ms };
                let request = Cancel { job, wish: wish.clone(), expected_version: None };
                let model = self.model.cancel(request, self.now()).await.map_err(lost)?;
                let word = |done| match done {
                    Done::Moved(_, Status::Cancelled) => "cancelled".to_owned(),
                    Done::Moved(..) => "requested".to_owned(),
                    Done::Already(_) => "already".to_owned(),
                };
                same(act, model.map(word).map_err(|r| state(&r)), sql.cancel(job, &wish, now).await)?;
            }
            Act::Signal { job, name: n, key: k } => {
                let (job, key) = (self.job(*job), k.map(|k| key(["e0", "e1", "e2"][k])));
                let (name, payload) = (name(["s0", "s1"][*n]), Some(crate::json("{\"s\":1}")));
                let request = Signal { job, name, payload, actor, key };
                let model = self.model.signal(request.clone(), self.now()).await.map_err(lost)?;
                let model = model.map(Done::is_repeat).map_err(|r| state(&r));
                same(act, model, sql.signal(&request, now).await)?;
            }
            Act::Settle(ends) => {
                let [(shown, End::Complete)] = &**ends else { return Ok(false) };
                let ((job, token), outcome) = (self.lease(*shown), completes());
                let Outcome::Complete(result) = outcome.clone() else { return Ok(false) };
                let request = Settle { items: vec![SettleItem { job, token, outcome }] };
                let model = self.model.settle(request, self.now()).await.map_err(lost)?.remove(0);
                let store = sql.complete(job, &token, result.as_ref(), now).await;
                match model {
                    // A repeat is raised, for in the caller's own transaction nothing of it may be done twice.
                    Ok(Done::Already(_)) => same(act, true, store.is_err())?,
                    model => same(act, model.map(Done::version).map_err(|r| state(&r)), store)?,
                }
                self.rests(job);
            }
            _ => return Ok(false),
        }
        self.tells("a turn by SQL", true);
        Ok(true)
    }

    async fn enqueues_by_sql(&mut self, spec: &Spec) -> Turned {
        let Some(sql) = self.sql.clone() else { return Ok(()) };
        // In SQL nobody shows a lease of the parent.
        // Nor does SQL make graphs.
        let spec = &Spec { graph: None, ..spec.clone() };
        let mut job = NewJob { parent_token: None, ..self.new_job(spec) };
        let flow = self.flow_of(&job.facts.queue).await?;
        // Nor does it let the newest of a key take the place of the others.
        job.facts.key = job.facts.key.filter(|key| {
            let entry = flow.as_ref().and_then(|flow| flow.entry(key));
            !entry.is_some_and(|entry| entry.newest)
        });
        let request = Enqueue { jobs: vec![job.clone()], actor: sql.actor(), idempotency: None };
        let model = self.model.enqueue(request, self.now()).await;
        let model = model.map_err(|error| TestCaseError::fail(format!("the model failed: {error}")))?;
        let made = |answers: Vec<Enqueued>| (!answers[0].dropped).then_some(answers[0].id);
        let model = model.map(made).map_err(|refused| state(&refused.refusal));
        self.ids.extend(model.iter().flatten());
        self.sent.push(job.clone());
        same(spec, model, sql.enqueue(&job, self.now).await)
    }

    /// The rules of a queue.
    async fn flow_of(&self, queue: &Name) -> Result<Option<QueueLimits>, TestCaseError> {
        let queues = self.model.queue_settings((), self.now()).await;
        let queues = queues.map_err(|error| TestCaseError::fail(format!("the model failed: {error}")))?;
        Ok(queues.into_iter().find(|found| found.name == *queue).and_then(|found| found.flow))
    }
}
