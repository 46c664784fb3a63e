//! Waits and approvals: a job that waits holds no worker.

use crate::ids::{ApprovalId, JobId};
use crate::lease::{hex, unhex};
use crate::name::{Name, Who};
use crate::payload::Payload;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// What a waiting job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WaitFor {
    /// The votes on an approval asked before.
    Approval,
    /// A signal by name.
    Signal,
    /// A moment.
    Timer,
    /// All its children to finish.
    Children,
    /// Any signal, which is kept, or the end of any child: for a holder that looks itself at what came first.
    News,
    /// Jobs that must end before it first runs. Only enqueueing begins such a wait.
    Upstream,
    /// The jobs of its flow. Only enqueueing begins such a wait.
    Flow,
}

impl WaitFor {
    /// Every kind of wait.
    pub const ALL: [Self; 7] =
        [Self::Approval, Self::Signal, Self::Timer, Self::Children, Self::News, Self::Upstream, Self::Flow];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Signal => "signal",
            Self::Timer => "timer",
            Self::Children => "children",
            Self::News => "news",
            Self::Upstream => "upstream",
            Self::Flow => "flow",
        }
    }

    /// The wait a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|w| w.as_str() == word)
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WakeOutcome {
    /// The approval was given.
    Approved,
    /// The signal came.
    Signalled,
    /// The moment came.
    Fired,
    /// The last child finished.
    Joined,
    /// Some signal came, or some child finished.
    News,
    /// It did not come in time.
    Expired,
}

impl WakeOutcome {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Signalled => "signalled",
            Self::Fired => "fired",
            Self::Joined => "joined",
            Self::News => "news",
            Self::Expired => "expired",
        }
    }
}

/// Why the next execution runs: how the job's last wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// What it waited for.
    pub waited_for: WaitFor,
    /// The name of the wait.
    pub name: Option<Name>,
    /// How it ended.
    pub outcome: WakeOutcome,
    /// What the signal brought.
    pub payload: Option<Payload>,
}

/// What a holder asks when it settles into waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// What to wait for.
    pub waits_for: WaitFor,
    /// Name of the signal or approval; optional for timers and children.
    pub name: Option<Name>,
    /// When a timer fires.
    pub until: Option<Timestamp>,
    /// When to stop waiting for a signal, children or news; an approval brings its own expiry.
    pub expires_at: Option<Timestamp>,
    /// For news: how much of the job's log its holder has seen.
    pub since: i64,
}

/// A decision by one voter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Yes.
    Approve,
    /// No; one is enough.
    Deny,
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Votes are missing.
    Pending,
    /// Enough votes.
    Approved,
    /// One denial.
    Denied,
    /// Not decided in time, which denies.
    Expired,
    /// Its job finished before it was decided.
    Void,
}

impl ApprovalStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Approved, Self::Denied, Self::Expired, Self::Void];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Void => "void",
        }
    }

    /// The status a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

/// The state of an approval. Its prompt, approvers and votes are events of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Its identity.
    pub id: ApprovalId,
    /// The job that asked.
    pub job: JobId,
    /// Its name within the job.
    pub name: Name,
    /// Where it stands. `Pending` past `expires_at` means expired; see [`Approval::status_at`].
    pub status: ApprovalStatus,
    /// Votes needed.
    pub required: i32,
    /// Votes in favour so far.
    pub approved: i32,
    /// When silence denies.
    pub expires_at: Timestamp,
    /// Hash of the link token.
    pub token_hash: [u8; 32],
    /// Whether the link has voted.
    pub token_used: bool,
    /// Version of the event that asked last: prompt and approvers are there.
    pub asked_version: i64,
    /// When it was asked first.
    pub asked_at: Timestamp,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
}

impl Approval {
    /// Where it stands at `now`, also when no sweep came by.
    pub fn status_at(&self, now: Timestamp) -> ApprovalStatus {
        match self.status {
            ApprovalStatus::Pending if self.expires_at <= now => ApprovalStatus::Expired,
            status => status,
        }
    }
}

/// One recorded vote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Yes or no.
    pub decision: Decision,
    /// The name of the key that voted; `link` for the link without a key.
    pub by: Who,
    /// Whether a key voted. A key may be named `link`, too.
    pub by_key: bool,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// Who votes, and how that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voter {
    /// The holder of the mailed link.
    Link {
        /// Its token, as it was typed.
        token: String,
        /// The access key that was sent beside it, if one was: key and link are one person.
        key: Option<Who>,
    },
    /// The holder of an access key.
    Key {
        /// The key's name.
        name: Who,
        /// The key's roles.
        roles: Vec<String>,
    },
}

/// The secret of an approval link: 256 bits, one vote, stored only as a hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LinkToken(pub [u8; 32]);

impl LinkToken {
    /// What the store keeps.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }

    /// The text in the link: 64 hex digits.
    pub fn to_text(&self) -> String {
        hex(&self.0)
    }

    /// Parses 64 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text)?.try_into().ok().map(Self)
    }
}

impl fmt::Debug for LinkToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkToken(…)")
    }
}
