//! More short words: waits, sweeps, approvals, terms and races.

use crate::{Bed, json, name, who};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use windlass_core::outcome::Found;
use windlass_core::wait::{Decision, LinkToken, Voter};
use windlass_core::{
    Actor, Answer, ApprovalId, AuditEntry, JobId, LeaseMs, Outcome, Term, Timestamp, Wait, WaitFor,
};
use windlass_store::{
    AcquireTerm, Ask, Asked, Assign, CastVote, Claimed, Now, PutWorker, ReadAudit, Signal, Sweep, Swept,
};

/// Runs everything at once, each on a task of its own, and answers in the order given.
pub async fn together<F>(all: impl IntoIterator<Item = F>) -> Vec<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let all: Vec<F> = all.into_iter().collect();
    let start = Arc::new(Barrier::new(all.len()));
    let mut running = JoinSet::new();
    for (n, one) in all.into_iter().enumerate() {
        let start = start.clone();
        running.spawn(async move {
            start.wait().await;
            (n, one.await)
        });
    }
    let mut answers = running.join_all().await;
    answers.sort_by_key(|(n, _)| *n);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// A call that races others of its kind.
pub type Racer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A wait for a signal.
pub fn for_signal(signal: &str) -> Wait {
    Wait { waits_for: WaitFor::Signal, name: Some(name(signal)), until: None, expires_at: None }
}

/// A wait for a moment.
pub fn for_timer(until: Timestamp) -> Wait {
    Wait { waits_for: WaitFor::Timer, name: None, until: Some(until), expires_at: None }
}

/// A wait for all children.
pub fn for_children() -> Wait {
    Wait { waits_for: WaitFor::Children, name: None, until: None, expires_at: None }
}

/// A wait for an approval.
pub fn for_approval(gate: &str) -> Wait {
    Wait { waits_for: WaitFor::Approval, name: Some(name(gate)), until: None, expires_at: None }
}

/// A voter with a key and roles.
pub fn key_of(key: &str, roles: &[&str]) -> Voter {
    Voter::Key { name: who(key), roles: roles.iter().map(|r| (*r).to_owned()).collect() }
}

/// The code and message of a stored error.
pub fn error_of(error: &windlass_core::Payload) -> (String, String) {
    let error: serde_json::Value = error.parse().expect("an error is JSON");
    let text = |field: &str| error[field].as_str().expect("an error has code and message").to_owned();
    (text("code"), text("message"))
}

impl Bed {
    /// Settles into a wait.
    pub async fn waits(&self, held: &Claimed, wait: Wait, now: Now) -> Answer {
        self.settles(held, Outcome::Wait(wait, Found::default()), now).await
    }

    /// Sends a signal without a key; its payload says `from`.
    pub async fn signals(&self, job: JobId, signal: &str, from: &str, now: Now) -> Answer {
        let payload = Some(json(&format!("{{\"from\":\"{from}\"}}")));
        let request = Signal { job, name: name(signal), payload, actor: Actor::api(), key: None };
        self.store.signal(request, now).await.expect("the store answers")
    }

    /// Sweeps everything, and names what became of each job.
    pub async fn sweeps(&self, now: Now) -> Vec<Swept> {
        self.store.sweep(Sweep { limit: 10_000 }, now).await.expect("the store answers")
    }

    /// A question to anybody for one hour, with one vote needed. Change its public fields before asking.
    pub fn question(&self, held: &Claimed, gate: &str) -> (Ask, LinkToken) {
        let link = windlass_store::fresh::link_token();
        let id = ApprovalId::from_bytes(*self.id().as_bytes());
        let ask = Ask {
            job: held.job.id,
            token: held.lease.token,
            id,
            name: name(gate),
            prompt: "may it?".into(),
            approvers: vec![],
            required: 1,
            expires_ms: 3_600_000,
            link_hash: link.hash(),
        };
        (ask, link)
    }

    /// Asks a question that must be accepted.
    pub async fn asks(&self, ask: Ask, now: Now) -> Asked {
        self.store.ask(ask, now).await.expect("the store answers").expect("the question is accepted")
    }

    /// Votes.
    pub async fn votes(&self, approval: ApprovalId, decision: Decision, voter: Voter, now: Now) -> Answer {
        let reason = (decision == Decision::Deny).then(|| "too risky".to_owned());
        let vote = CastVote { approval, decision, voter, reason };
        self.store.vote(vote, now).await.expect("the store answers")
    }

    /// The whole audit, oldest first.
    pub async fn audit(&self) -> Vec<AuditEntry> {
        let mut all: Vec<AuditEntry> = Vec::new();
        loop {
            let before = all.last().map(|e| e.seq);
            let page = self.store.audit(ReadAudit { before, limit: 1_000 }, None).await;
            let page = page.expect("the store answers");
            if page.is_empty() {
                all.reverse();
                return all;
            }
            all.extend(page);
        }
    }

    /// Takes or renews the term `leader` for ten seconds.
    pub async fn leads(&self, holder: &str, now: Now) -> Result<Term, Term> {
        let ttl_ms = LeaseMs::new(10_000).expect("a lease");
        let request = AcquireTerm { name: name("leader"), holder: who(holder), ttl_ms };
        self.store.acquire_term(request, now).await.expect("the store answers")
    }

    /// Assigns one job under the term `leader`; the worker has five seconds to start it.
    pub async fn gives(&self, job: JobId, worker: &str, epoch: i64, now: Now) -> Answer {
        let items = vec![(job, who(worker))];
        let request = Assign { term: name("leader"), epoch, items, lapse_ms: 5_000 };
        self.store.assign(request, now).await.expect("the store answers").remove(0)
    }

    /// A worker that reports itself for the queue `default`, for thirty seconds.
    pub async fn registers(&self, worker: &str, now: Now) {
        let request = PutWorker {
            id: who(worker),
            queues: vec![name("default")],
            kinds: vec![],
            capacity: 4,
            labels: serde_json::Map::new(),
            draining: false,
            ttl_ms: LeaseMs::DEFAULT,
        };
        self.store.put_worker(request, now).await.expect("the store answers");
    }
}
