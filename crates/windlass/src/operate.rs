//! What is done to a job from outside: cancel, redrive, fork, signal, decide. Each is a builder that acts when awaited.
//!
//! Whatever a store recognises a repeat by (a key, an id) is made here, once, so that a lost answer can be asked again.

use crate::client::Client;
use crate::enqueue::millis;
use crate::error::{Error, Result};
use serde::Serialize;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_core::lease::hex;
use windlass_core::limits::{
    EVENT_PAYLOAD_MAX_BYTES, FORCE_AFTER_DEFAULT_MS, GRACE_MAX_MS, HORIZON_MS, Invalid, PAYLOAD_MAX_BYTES,
};
use windlass_core::wait::{Decision, LinkToken, Vote, Voter};
use windlass_core::{ApprovalId, JobId};
use windlass_core::{Done, Key, Name, Payload, Refusal, RunAt, Status, Timestamp, Version, Who};
use windlass_store::{ApprovalView, CastVote, StoreError, fresh};

type Acting<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A key that nobody else uses, to be recognised by.
pub(crate) fn fresh_key() -> Result<Key, Invalid> {
    Key::parse("key", format!("client:{}", hex(&fresh::random::<16>())))
}

/// What became of a wish to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelling {
    /// It is cancelled.
    Cancelled,
    /// Its holder was asked to stop, and is stopped if it does not.
    Requested,
}

/// Cancels a job when awaited. Made by [`Client::cancel`].
#[derive(Debug)]
#[must_use = "nothing is cancelled before it is awaited"]
pub struct Cancel {
    client: Client,
    job: JobId,
    reason: Option<String>,
    force: bool,
    force_after_ms: i64,
    expected_version: Option<Version>,
}

impl Cancel {
    pub(crate) fn new(client: Client, job: JobId) -> Self {
        let force_after_ms = FORCE_AFTER_DEFAULT_MS;
        Self { client, job, reason: None, force: false, force_after_ms, expected_version: None }
    }

    /// Why, for the log.
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// Does not ask the holder: it is cancelled at once, and the holder finds its lease gone.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// How long the holder has to stop; 30 seconds unless said otherwise.
    pub fn force_after(mut self, time: Duration) -> Self {
        self.force_after_ms = millis(time, GRACE_MAX_MS);
        self
    }

    /// Acts only while the job is at this version; at another one it is refused with `version_mismatch`.
    pub fn expected_version(mut self, version: Version) -> Self {
        self.expected_version = Some(version);
        self
    }
}

impl IntoFuture for Cancel {
    type Output = Result<Cancelling>;
    type IntoFuture = Acting<Cancelling>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, job, reason, force, force_after_ms, expected_version } = self;
            let wish = windlass_core::decide::Cancel { actor: client.actor(), reason, force, force_after_ms };
            let request = windlass_store::Cancel { job, wish, expected_version };
            let done = client.repeat_on(job, || client.store().cancel(request.clone(), None)).await??;
            let status = match done {
                Done::Moved(_, status) => Some(status),
                Done::Already(_) => client.job(job).await?.map(|view| view.job.status),
            };
            let is_over = status.is_none_or(|s| s == Status::Cancelled);
            Ok(if is_over { Cancelling::Cancelled } else { Cancelling::Requested })
        })
    }
}

/// Sends a dead or cancelled job back when awaited. Made by [`Client::redrive`].
#[derive(Debug)]
#[must_use = "nothing is redriven before it is awaited"]
pub struct Redrive {
    client: Client,
    job: JobId,
    run_at: RunAt,
    from_start: bool,
    payload: Result<Option<Payload>, Invalid>,
    expected_version: Option<Version>,
}

impl Redrive {
    pub(crate) fn new(client: Client, job: JobId) -> Self {
        Self { client, job, run_at: RunAt::Now, from_start: false, payload: Ok(None), expected_version: None }
    }

    /// From when it may run, instead of at once.
    pub fn run_at(mut self, time: impl Into<Timestamp>) -> Self {
        self.run_at = RunAt::At(time.into());
        self
    }

    /// So long from now.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.run_at = RunAt::After(millis(delay, HORIZON_MS));
        self
    }

    /// Gives it another payload from now on; the old one stays in its history. Recorded steps stay too: see
    /// [`Redrive::from_start`].
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = Payload::from_value("payload", &payload, PAYLOAD_MAX_BYTES).map(Some);
        self
    }

    /// Forgets its recorded steps: everything is done again.
    pub fn from_start(mut self) -> Self {
        self.from_start = true;
        self
    }

    /// Acts only while the job is at this version; at another one it is refused with `version_mismatch`.
    pub fn expected_version(mut self, version: Version) -> Self {
        self.expected_version = Some(version);
        self
    }
}

impl IntoFuture for Redrive {
    type Output = Result<()>;
    type IntoFuture = Acting<()>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, job, run_at, from_start, payload, expected_version } = self;
            let (payload, actor, key) = (payload?, client.actor(), Some(fresh_key()?));
            let request =
                windlass_store::Redrive { job, run_at, from_start, payload, actor, key, expected_version };
            client.repeat_on(job, || client.store().redrive(request.clone(), None)).await??;
            Ok(())
        })
    }
}

/// Makes a new job that begins with another's log, when awaited. Made by [`Client::fork`].
#[derive(Debug)]
#[must_use = "nothing is forked before it is awaited"]
pub struct Fork {
    client: Client,
    from: JobId,
    from_version: Option<Version>,
    payload: Result<Option<Payload>, Invalid>,
    expected_version: Option<Version>,
}

impl Fork {
    pub(crate) fn new(client: Client, from: JobId) -> Self {
        Self { client, from, from_version: None, payload: Ok(None), expected_version: None }
    }

    /// Up to which event; all of the log unless said otherwise.
    pub fn from_version(mut self, version: Version) -> Self {
        self.from_version = Some(version);
        self
    }

    /// Another payload than the first job's.
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = Payload::from_value("payload", &payload, PAYLOAD_MAX_BYTES).map(Some);
        self
    }

    /// Acts only while the job is at this version; at another one it is refused with `version_mismatch`.
    pub fn expected_version(mut self, version: Version) -> Self {
        self.expected_version = Some(version);
        self
    }
}

impl IntoFuture for Fork {
    type Output = Result<JobId>;
    type IntoFuture = Acting<JobId>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, from, from_version, payload, expected_version } = self;
            let (id, actor) = (fresh::job_id(), client.actor());
            let payload = payload?;
            let request = windlass_store::Fork { from, from_version, id, payload, actor, expected_version };
            client.repeat_on(from, || client.store().fork(request.clone(), None)).await??;
            Ok(id)
        })
    }
}

/// Signals a job when awaited, and answers whether its key came before. Made by [`Client::signal`].
#[derive(Debug)]
#[must_use = "nothing is sent before it is awaited"]
pub struct Signal {
    client: Client,
    job: JobId,
    name: String,
    payload: Result<Payload, Invalid>,
    key: Option<String>,
}

impl Signal {
    pub(crate) fn new(client: Client, job: JobId, name: &str, payload: &impl Serialize) -> Self {
        let payload = Payload::from_value("payload", payload, EVENT_PAYLOAD_MAX_BYTES);
        Self { client, job, name: name.to_owned(), payload, key: None }
    }

    /// A key to be recognised by: the same key again wakes nobody twice.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }
}

impl IntoFuture for Signal {
    type Output = Result<bool>;
    type IntoFuture = Acting<bool>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, job, name, payload, key } = self;
            let name = Name::parse("name", &name)?;
            let own_key = key.is_none();
            let key = Some(key.map_or_else(fresh_key, |key| Key::parse("key", key))?);
            let (payload, actor) = (Some(payload?), client.actor());
            let request = windlass_store::Signal { job, name, payload, actor, key };
            let done = client.repeat_on(job, || client.store().signal(request.clone(), None)).await??;
            // With a key of our own a repeat is only ours, after a lost answer.
            Ok(done.is_repeat() && !own_key)
        })
    }
}

/// Votes on an approval when awaited. Made by [`Client::decide`].
#[derive(Debug)]
#[must_use = "nothing is decided before it is awaited"]
pub struct Decide {
    client: Client,
    approval: ApprovalId,
    decision: Decision,
    by: String,
    roles: Vec<String>,
    link: Option<String>,
    reason: Option<String>,
}

impl Decide {
    pub(crate) fn new(client: Client, approval: ApprovalId, decision: Decision) -> Self {
        let by = client.actor().as_str().to_owned();
        Self { client, approval, decision, by, roles: Vec::new(), link: None, reason: None }
    }

    /// Who votes: the name that the approvers of the question are compared with, and that goes on record.
    pub fn by(mut self, name: &str) -> Self {
        name.clone_into(&mut self.by);
        self
    }

    /// A role of the voter, which the approvers of the question may name instead.
    pub fn role(mut self, role: &str) -> Self {
        self.roles.push(role.to_owned());
        self
    }

    /// Votes with the token of the mailed link instead of a name. It has one vote, where no approver is named and one yes is
    /// enough.
    pub fn link(mut self, token: &str) -> Self {
        self.link = Some(token.to_owned());
        self
    }

    /// Why, for the log; a denial tells it to the job.
    pub fn reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }
}

impl IntoFuture for Decide {
    type Output = Result<()>;
    type IntoFuture = Acting<()>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { client, approval, decision, by, roles, link, reason } = self;
            let voter = match link {
                Some(token) => Voter::Link { token, key: None },
                None => Voter::Key { name: Who::parse("by", by)?, roles },
            };
            let request = CastVote { approval, decision, voter, reason };
            let lost = &AtomicBool::new(false);
            let vote = async || {
                let answer = client.store().vote(request.clone(), None).await;
                lost.fetch_or(matches!(answer, Err(StoreError::Indeterminate(_))), Ordering::Relaxed);
                answer
            };
            match client.repeat(&vote).await? {
                Ok(_) => Ok(()),
                // A vote whose answer was lost is refused when it is repeated, for its work is done.
                Err(Refusal::ApprovalDecided)
                    if lost.load(Ordering::Relaxed) && is_on_record(&client, &request).await? =>
                {
                    Ok(())
                }
                Err(refusal) => Err(Error::from(refusal)),
            }
        })
    }
}

async fn is_on_record(client: &Client, vote: &CastVote) -> Result<bool> {
    let view: Option<ApprovalView> = client.repeat(|| client.store().approval(vote.approval, None)).await?;
    let Some(view) = view else { return Ok(false) };
    let by_link = |token: &String| {
        LinkToken::parse(token).is_some_and(|t| t.hash() == view.approval.token_hash)
            && view.approval.token_used
    };
    Ok(match &vote.voter {
        Voter::Link { token, .. } => by_link(token),
        Voter::Key { name, .. } => {
            let same = |v: &&Vote| v.by_key && v.by == *name && v.decision == vote.decision;
            view.votes.iter().filter(same).any(|v| v.reason == vote.reason)
        }
    })
}
