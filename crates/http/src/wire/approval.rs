//! Approvals: asked for, and as users see them.

use super::object::two_way;
use super::time::{Span, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::wait::Decision;
use windlass_core::{Approval, Timestamp};
use windlass_store::ApprovalView;

two_way!(AskBody, ByToken);

impl ApprovalShape {
    /// An approval as it stands at `now`.
    pub(crate) fn of(view: ApprovalView, now: Timestamp) -> Self {
        let ApprovalView { approval, prompt, approvers, asked_by, votes } = view;
        let vote = |vote: windlass_core::wait::Vote| VoteShape {
            decision: match vote.decision {
                Decision::Approve => "approve".to_owned(),
                Decision::Deny => "deny".to_owned(),
            },
            by: vote.by.to_string(),
            reason: vote.reason,
            at: Time(vote.at),
        };
        let status = approval.status_at(now).as_str().to_owned();
        let Approval { id, job, name, required, approved, expires_at, asked_at, decided_at, .. } = approval;
        Self {
            id: id.to_string(),
            job_id: job.to_string(),
            name: name.to_string(),
            status,
            required,
            approved,
            prompt,
            approvers,
            asked_by: asked_by.to_string(),
            asked_at: Time(asked_at),
            expires_at: Time(expires_at),
            decided_at: decided_at.map(Time),
            decisions: votes.into_iter().map(vote).collect(),
        }
    }
}

/// An approval to ask for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewApproval)]
pub struct AskBody {
    /// The job's lease; not needed when it is the bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_token: Option<String>,
    /// Its name within the job.
    pub name: String,
    /// What is asked of people.
    pub prompt: String,
    /// Names or roles of keys that may vote; anybody with the right to vote when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Vec<String>>,
    /// Votes needed; one. Two or more are votes of as many keys, and the link has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub required: Option<i32>,
    /// How long it may be decided; 24 hours, at most 7 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Span>,
}

/// Which link.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = ByToken)]
pub struct ByToken {
    /// What stands behind the `#` of the link: the approval's id, a dot, the token.
    pub token: String,
}

/// An approval that was asked.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Asked)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct AskedShape {
    pub approval: ApprovalShape,
    /// The token of its link: one vote. Shown once; asking again makes a fresh one. None when a link has no vote, which is when
    /// approvers are named or several people have to say yes, and when nothing is left to decide.
    pub token: Option<String>,
    /// Where the link leads on this server, from the first slash on: a page that asks the one question.
    pub link: Option<String>,
}

/// A page of approvals, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Approvals)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct ApprovalsPage {
    pub approvals: Vec<ApprovalShape>,
    /// Where to go on; none at the end.
    pub next_cursor: Option<String>,
}

/// An approval: what is asked, of whom, and how it stands.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Approval)]
pub struct ApprovalShape {
    /// Its identity.
    pub id: String,
    /// The job that asks.
    pub job_id: String,
    /// Its name within the job.
    pub name: String,
    /// `pending`, `approved`, `denied`, `expired`, `void`.
    pub status: String,
    /// Votes needed.
    pub required: i32,
    /// Votes in favour so far.
    pub approved: i32,
    /// What is asked.
    pub prompt: String,
    /// Names or roles that may vote; anybody with the right to vote when empty.
    pub approvers: Vec<String>,
    /// Who asks.
    pub asked_by: String,
    /// When it was asked first.
    pub asked_at: Time,
    /// When silence denies.
    pub expires_at: Time,
    /// When it was decided.
    pub decided_at: Option<Time>,
    /// The votes so far.
    pub decisions: Vec<VoteShape>,
}

/// One vote.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Vote)]
pub struct VoteShape {
    /// `approve` or `deny`.
    pub decision: String,
    /// Whose.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: Time,
}
