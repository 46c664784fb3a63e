//! An approval as users see it.

use super::time::Time;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::wait::Decision;
use windlass_core::{Approval, Timestamp};
use windlass_store::ApprovalView;

/// An approval: what is asked, of whom, and how it stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Approval)]
pub(crate) struct ApprovalShape {
    /// Its identity.
    id: String,
    /// The job that asks.
    job_id: String,
    /// Its name within the job.
    name: String,
    /// `pending`, `approved`, `denied`, `expired`, `void`.
    status: &'static str,
    /// Votes needed.
    required: i32,
    /// Votes in favour so far.
    approved: i32,
    /// What is asked.
    prompt: String,
    /// Names or roles that may vote; anybody with the right to vote when empty.
    approvers: Vec<String>,
    /// Who asks.
    asked_by: String,
    /// When it was asked first.
    asked_at: Time,
    /// When silence denies.
    expires_at: Time,
    /// When it was decided.
    decided_at: Option<Time>,
    /// The votes so far.
    decisions: Vec<VoteShape>,
}

/// One vote.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Vote)]
struct VoteShape {
    /// `approve` or `deny`.
    decision: &'static str,
    /// Whose.
    by: String,
    /// Why.
    reason: Option<String>,
    /// When.
    at: Time,
}

impl ApprovalShape {
    /// An approval as it stands at `now`.
    pub(crate) fn of(view: ApprovalView, now: Timestamp) -> Self {
        let ApprovalView { approval, prompt, approvers, asked_by, votes } = view;
        let vote = |vote: windlass_core::wait::Vote| VoteShape {
            decision: match vote.decision {
                Decision::Approve => "approve",
                Decision::Deny => "deny",
            },
            by: vote.by.to_string(),
            reason: vote.reason,
            at: Time(vote.at),
        };
        let status = approval.status_at(now).as_str();
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
