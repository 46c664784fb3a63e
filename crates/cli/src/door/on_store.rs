//! A store, asked directly.

use super::{Action, Door, Draft, KeyDraft, Pairs};
use crate::bulk::{self, Plan};
use crate::fail::{Exit, Failure, Outcome};
use crate::jobs::filter;
use crate::shape::{self, Doc, Reply};
use async_trait::async_trait;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use windlass::Client;
use windlass_core::lease::hex;
use windlass_core::registry::Queue;
use windlass_core::unique::Unique;
use windlass_core::wait::{ApprovalStatus, Decision, Voter};
use windlass_core::{
    Actor, ApprovalId, Count, Facts, JobId, Key, Name, NewJob, Payload, QueueDefaults, Refusal, RunAt, Who,
};
use windlass_engine::{Policies, Policy, repeat};
use windlass_store::{
    AtVersion, Cancel, CastVote, DrainWorker, Enqueue, Fork, Hints, List, ListApprovals, PauseQueue,
    PutAccessKey, PutQueue, QueueState, ReadAudit, ReadEvents, ReadLogs, Redrive, RevokeAccessKey, Signal,
    Store, StoreResult, fresh,
};

/// How long an answer is asked for again before the user is told.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where counting of due jobs stops.
const CAP: i64 = 10_000;
/// How long to wait for a hint before looking all the same.
const POLL: Duration = Duration::from_secs(1);

/// A store, asked directly.
#[derive(Debug)]
pub struct OnStore {
    client: Client,
    actor: Actor,
    /// Kept from the beginning, so that nothing which happens between two looks is missed.
    hints: Mutex<Hints>,
}

impl OnStore {
    /// Acts on the client's store in the name of `actor`.
    pub fn new(client: Client, actor: Actor) -> Self {
        let hints = Mutex::new(client.store().hints());
        Self { client, actor, hints }
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.client.store()
    }

    async fn shown(&self, id: JobId) -> Outcome<Reply> {
        let view = known(|| self.store().job(id, None)).await?.ok_or(Refusal::NotFound)?;
        one("job", &shape::job(&view))
    }

    async fn shown_queue(&self, name: Name) -> Outcome<Reply> {
        let states = known(|| self.store().queues(CAP, None)).await?;
        let found = states.into_iter().find(|state| state.queue.name == name);
        let state = found.unwrap_or_else(|| QueueState {
            queue: Queue { name, paused: None, defaults: QueueDefaults::default() },
            due: Count::default(),
            oldest_due_at: None,
        });
        one("queue", &shape::queue(&state))
    }

    /// What a job of this draft is, its queue's defaults included.
    async fn new_job(&self, draft: Draft) -> Outcome<NewJob> {
        let mut policies = Policies::new();
        let queues = known(|| self.store().queues(1, None)).await?;
        policies.set_queues(queues.into_iter().map(|state| (state.queue.name, state.queue.defaults)));
        let mut facts = Facts::new(draft.kind, draft.queue);
        facts.priority = draft.priority;
        facts.run_at = draft.run_at;
        facts.tags = draft.tags;
        facts.agent_id = draft.agent_id;
        facts.unique = draft.unique_key.map(|key| Unique::in_queue(facts.queue.clone(), key));
        let (max_retries, timeout_ms) = (draft.max_retries, draft.timeout_ms);
        policies.fill(&mut facts, &Policy { max_retries, timeout_ms, ..Policy::default() });
        Ok(NewJob { id: fresh::job_id(), facts, payload: draft.payload, parent_token: None })
    }
}

async fn known<T, F: Future<Output = StoreResult<T>>>(call: impl FnMut() -> F) -> StoreResult<T> {
    repeat(PATIENCE, call).await
}

fn one(name: &'static str, doc: &Doc) -> Outcome<Reply> {
    let mut around = Doc::default();
    around.put(name, doc);
    Reply::of(&around)
}

fn many(name: &'static str, docs: &[Doc]) -> Outcome<Reply> {
    let mut around = Doc::default();
    around.put(name, docs);
    Reply::of(&around)
}

fn fresh_key() -> Outcome<Key> {
    Ok(Key::parse("key", format!("cli:{}", hex(&fresh::random::<16>())))?)
}

#[async_trait]
impl Door for OnStore {
    async fn enqueue(&self, draft: Draft) -> Outcome<Reply> {
        let job = self.new_job(draft).await?;
        let request = Enqueue { jobs: vec![job], actor: self.actor.clone(), idempotency: None };
        let answers = known(|| self.store().enqueue(request.clone(), None)).await?.map_err(|e| e.refusal)?;
        let enqueued = answers.first().ok_or_else(|| Failure::failed("the store answered for no job"))?;
        let view = known(|| self.store().job(enqueued.id, None)).await?.ok_or(Refusal::NotFound)?;
        let mut doc = Doc::default();
        doc.put("job", shape::job(&view)).put("existed", enqueued.existed);
        doc.put("payload_differs", enqueued.payload_differs);
        Reply::of(&doc)
    }

    async fn job(&self, id: JobId, at_version: Option<i64>) -> Outcome<Reply> {
        let view = known(|| self.store().job(id, None)).await?.ok_or(Refusal::NotFound)?;
        let Some(version) = at_version else { return Reply::of(&shape::job(&view)) };
        windlass_core::limits::within("at_version", version, 1, view.job.version)?;
        let request = AtVersion { job: id, version };
        let job = known(|| self.store().at_version(request, None)).await?.ok_or(Refusal::NotFound)?;
        Reply::of(&shape::as_it_stood(&job, &view.facts, view.payload.as_ref()))
    }

    async fn jobs(&self, filter: &Pairs, cursor: Option<String>, limit: usize) -> Outcome<Reply> {
        let request = List { filter: filter::resolve(filter)?, cursor, limit };
        let page = known(|| self.store().jobs(request.clone(), None)).await??;
        let mut doc = Doc::default();
        doc.put("jobs", page.items.iter().map(shape::listed).collect::<Vec<_>>());
        doc.put("next_cursor", page.next);
        Reply::of(&doc)
    }

    async fn events(&self, id: JobId, after: i64, limit: usize) -> Outcome<Reply> {
        let request = ReadEvents { job: id, after, limit, newest_first: false };
        let events = known(|| self.store().events(request, None)).await?;
        if events.is_empty() && known(|| self.store().job(id, None)).await?.is_none() {
            return Err(Refusal::NotFound.into());
        }
        many("events", &events.iter().map(shape::event).collect::<Vec<_>>())
    }

    async fn logs(&self, id: JobId, after: i64, limit: usize) -> Outcome<Reply> {
        let lines = known(|| self.store().logs(ReadLogs { job: id, after, limit }, None)).await?;
        if lines.is_empty() && known(|| self.store().job(id, None)).await?.is_none() {
            return Err(Refusal::NotFound.into());
        }
        many("lines", &lines.iter().map(shape::log_line).collect::<Vec<_>>())
    }

    async fn cancel(
        &self,
        id: JobId,
        reason: Option<String>,
        force: bool,
        force_after_ms: i64,
    ) -> Outcome<Reply> {
        let wish = windlass_core::decide::Cancel { actor: self.actor.clone(), reason, force, force_after_ms };
        let request = Cancel { job: id, wish };
        known(|| self.store().cancel(request.clone(), None)).await??;
        self.shown(id).await
    }

    async fn redrive(&self, id: JobId, run_at: RunAt, from_start: bool) -> Outcome<Reply> {
        let key = Some(fresh_key()?);
        let request = Redrive { job: id, run_at, from_start, actor: self.actor.clone(), key };
        known(|| self.store().redrive(request.clone(), None)).await??;
        self.shown(id).await
    }

    async fn fork(&self, id: JobId, from_version: Option<i64>, payload: Option<Payload>) -> Outcome<Reply> {
        let request =
            Fork { from: id, from_version, id: fresh::job_id(), payload, actor: self.actor.clone() };
        known(|| self.store().fork(request.clone(), None)).await??;
        self.shown(request.id).await
    }

    async fn signal(
        &self,
        id: JobId,
        name: Name,
        payload: Option<Payload>,
        key: Option<Key>,
    ) -> Outcome<Reply> {
        let is_named = key.is_some();
        let key = Some(key.map_or_else(fresh_key, Ok)?);
        let request = Signal { job: id, name, payload, actor: self.actor.clone(), key };
        let done = known(|| self.store().signal(request.clone(), None)).await??;
        let mut doc = Doc::default();
        // With a key of our own a repeat is only ours, after a lost answer.
        doc.put("duplicate", done.is_repeat() && is_named).put("version", done.version());
        Reply::of(&doc)
    }

    async fn bulk(
        &self,
        filter: &Pairs,
        action: &Action,
        dry_run: bool,
        cursor: Option<String>,
    ) -> Outcome<Reply> {
        let filter = filter::resolve(filter)?;
        let plan = Plan { action, actor: &self.actor, key: fresh_key()?, is_dry: dry_run };
        Reply::of(&bulk::carry_out(self.store(), &plan, filter, cursor).await?)
    }

    async fn approvals(&self, job: Option<JobId>, status: Option<String>, limit: usize) -> Outcome<Reply> {
        let wrong = |word: &str| {
            let all = ApprovalStatus::ALL.map(ApprovalStatus::as_str).join(", ");
            Failure::usage(format!("status is {word:?}: must be one of {all}"))
        };
        let parse = |word: &String| ApprovalStatus::parse(word).ok_or_else(|| wrong(word));
        let status = status.as_ref().map(parse).transpose()?;
        let request = ListApprovals { job, status, before: None, limit };
        let (views, now) = (known(|| self.store().approvals(request, None)).await?, fresh::wall_clock());
        many("approvals", &views.iter().map(|view| shape::approval(view, now)).collect::<Vec<_>>())
    }

    async fn decide(
        &self,
        id: ApprovalId,
        approve: bool,
        reason: Option<String>,
        token: Option<String>,
    ) -> Outcome<Reply> {
        let voter = match token {
            Some(token) => Voter::Link(token),
            // Whoever can open the store may everything.
            None => {
                let roles = shape::ROLES.iter().map(|role| shape::role_word(*role).to_owned()).collect();
                Voter::Key { name: Who::parse("actor", self.actor.as_str())?, roles }
            }
        };
        let decision = if approve { Decision::Approve } else { Decision::Deny };
        // Not repeated by itself: a vote that was cast is refused when it comes again.
        self.store().vote(CastVote { approval: id, decision, voter, reason }, None).await??;
        let view = known(|| self.store().approval(id, None)).await?.ok_or(Refusal::ApprovalNotFound)?;
        let now = fresh::wall_clock();
        let mut doc = Doc::default();
        doc.put("status", view.approval.status_at(now).as_str()).put("approval", shape::approval(&view, now));
        Reply::of(&doc)
    }

    async fn queues(&self) -> Outcome<Reply> {
        let states = known(|| self.store().queues(CAP, None)).await?;
        many("queues", &states.iter().map(shape::queue).collect::<Vec<_>>())
    }

    async fn set_queue(&self, name: Name, defaults: QueueDefaults) -> Outcome<Reply> {
        let request = PutQueue { name: name.clone(), defaults, actor: self.actor.clone() };
        known(|| self.store().put_queue(request.clone(), None)).await??;
        self.shown_queue(name).await
    }

    async fn pause(&self, name: Name, pause: bool) -> Outcome<Reply> {
        let request = PauseQueue { name: name.clone(), pause, actor: self.actor.clone() };
        known(|| self.store().pause_queue(request.clone(), None)).await?;
        self.shown_queue(name).await
    }

    async fn workers(&self) -> Outcome<Reply> {
        let (workers, now) = (known(|| self.store().workers((), None)).await?, fresh::wall_clock());
        many("workers", &workers.iter().map(|worker| shape::worker(worker, now)).collect::<Vec<_>>())
    }

    async fn drain(&self, id: Who) -> Outcome<Reply> {
        let request = DrainWorker { id: id.clone(), actor: self.actor.clone() };
        let drained = known(|| self.store().drain_worker(request.clone(), None)).await?;
        let gone =
            || Failure::not_found(format!("there is no worker {id}; it never reported, or was forgotten"));
        one("worker", &shape::worker(&drained.ok_or_else(gone)?, fresh::wall_clock()))
    }

    async fn audit(&self, limit: usize) -> Outcome<Reply> {
        let entries = known(|| self.store().audit(ReadAudit { before: None, limit }, None)).await?;
        many("entries", &entries.iter().map(shape::audit_entry).collect::<Vec<_>>())
    }

    async fn keys(&self) -> Outcome<Reply> {
        let keys = known(|| self.store().access_keys((), None)).await?;
        many("keys", &keys.iter().map(shape::access_key).collect::<Vec<_>>())
    }

    async fn create_key(&self, key: KeyDraft) -> Outcome<Reply> {
        // 256 random bits behind a prefix that people and scanners of secrets know. The store gets only its hash.
        let secret = format!("wl_{}", hex(&fresh::random::<32>()));
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let KeyDraft { name, roles, queues, expires_at } = key;
        let request =
            PutAccessKey { name: name.clone(), hash, roles, queues, expires_at, actor: self.actor.clone() };
        if !known(|| self.store().put_access_key(request.clone(), None)).await? {
            let taken =
                format!("there is a key {name}, perhaps a revoked one; a name is used once, take another");
            return Err(Failure::new(Exit::Refused, "key_exists", taken));
        }
        let made = known(|| self.store().access_key(hash, None)).await?;
        let made = made.ok_or_else(|| Failure::not_found(format!("there is no key {name}")))?;
        let mut doc = Doc::default();
        doc.put("key", shape::access_key(&made)).put("secret", secret);
        Reply::of(&doc)
    }

    async fn revoke_key(&self, name: Who) -> Outcome<Reply> {
        let request = RevokeAccessKey { name: name.clone(), actor: self.actor.clone() };
        let revoked = known(|| self.store().revoke_access_key(request.clone(), None)).await?;
        one(
            "key",
            &shape::access_key(
                &revoked.ok_or_else(|| Failure::not_found(format!("there is no key {name}")))?,
            ),
        )
    }

    async fn changed(&self) {
        // Hints may be lost, so it is looked all the same.
        let _ = tokio::time::timeout(POLL, self.hints.lock().await.feed.changed()).await;
    }
}
