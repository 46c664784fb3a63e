//! Approvals: what it means to ask again, whose vote counts, and what a vote changes.
//!
//! A store loads what is asked for here under the lock of the job, and writes what comes back.

use crate::decide::{Command, Move, check_lease, count_vote, decide, deny};
use crate::event::{ApprovalAsked, ApprovalVoted, Event, EventKind};
use crate::ids::{ApprovalId, JobId};
use crate::job::{Job, Metadata};
use crate::lease::Token;
use crate::limits::Invalid;
use crate::name::{Actor, Name, Who};
use crate::refusal::{Done, Refusal};
use crate::registry::WriteAudit;
use crate::time::Timestamp;
use crate::wait::{Approval, ApprovalStatus, Decision, LinkToken, Vote, Voter};

/// An approval to ask for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// By which job.
    pub job: JobId,
    /// Its lease.
    pub token: Token,
    /// The approval's identity, if a new one is needed.
    pub id: ApprovalId,
    /// Its name within the job.
    pub name: Name,
    /// What is asked.
    pub prompt: String,
    /// Names or roles that may vote; anybody with the right to vote when empty.
    pub approvers: Vec<String>,
    /// Votes needed.
    pub required: i32,
    /// For how long, in milliseconds.
    pub expires_ms: i64,
    /// Hash of the link token. The link votes only where one yes of anybody is enough: see [`link_votes`].
    pub link_hash: [u8; 32],
    /// The access key under which the job asks, if it has one. That key does not vote on it.
    pub asker: Option<Who>,
}

/// An approval that was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The approval.
    pub approval: Approval,
    /// The event that asked; [`Done::Already`] when nothing new was asked.
    pub done: Done,
}

/// A vote.
#[derive(Debug, Clone)]
pub struct CastVote {
    /// On what.
    pub approval: ApprovalId,
    /// Yes or no.
    pub decision: Decision,
    /// Whose.
    pub voter: Voter,
    /// Why.
    pub reason: Option<String>,
}

/// Whether the link of an approval has a vote: only where one yes of anybody is enough. The job that asks is given the link,
/// and nothing shows who uses it, so it does not vote in the place of named approvers, nor as one of several people.
pub fn link_votes(approvers: &[String], required: i32) -> bool {
    approvers.is_empty() && required == 1
}

/// What asking comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Asking {
    /// Nothing new: it is approved already, or this very question is open.
    Already(Approval),
    /// To be written: the approval and the event that asks.
    New(Box<(Approval, Move)>),
}

/// Decides a question of a job. `newest` is the newest approval of this name in the job's life; `id_taken` says
/// whether an approval with the id of the request exists.
pub fn ask(
    job: &Job,
    newest: Option<Approval>,
    id_taken: bool,
    request: &Ask,
    now: Timestamp,
) -> Result<Asking, Refusal> {
    let hash = request.token.hash();
    check_lease(job, hash, now)?;
    let current = newest.filter(|approval| approval.counts_for(job));
    let standing = current.as_ref().map(|approval| approval.status_at(now));
    let open = match (current, standing) {
        (Some(approval), Some(ApprovalStatus::Approved)) => return Ok(Asking::Already(approval)),
        (Some(approval), Some(ApprovalStatus::Pending)) if approval.token_hash == request.link_hash => {
            return Ok(Asking::Already(approval));
        }
        (open, Some(ApprovalStatus::Pending)) => open,
        _ => None,
    };
    if open.is_none() && id_taken {
        return Err(Invalid::new("approval id", request.id, "is taken; use a new one").into());
    }
    let asked = ApprovalAsked {
        approval: open.as_ref().map_or(request.id, |approval| approval.id),
        name: request.name.clone(),
        prompt: request.prompt.clone(),
        approvers: request.approvers.clone(),
        required: request.required,
        expires_at: now.plus_ms(request.expires_ms),
        asker: request.asker.clone(),
    };
    let (id, expires_at) = (asked.approval, asked.expires_at);
    let step = decide(job, Command::Ask(hash, asked), now)?;
    let approval = Approval {
        id,
        job: job.id,
        name: request.name.clone(),
        status: ApprovalStatus::Pending,
        required: request.required,
        approved: open.as_ref().map_or(0, |approval| approval.approved),
        expires_at,
        token_hash: request.link_hash,
        token_used: open.as_ref().is_some_and(|approval| approval.token_used),
        asked_version: step.event.version,
        asked_at: open.as_ref().map_or(now, |approval| approval.asked_at),
        decided_at: None,
    };
    Ok(Asking::New(Box::new((approval, step))))
}

/// What a vote is decided on: the locked job, its approval, and what its log says of that.
#[derive(Debug, Clone, Copy)]
pub struct Ballot<'a> {
    /// The job.
    pub job: &'a Job,
    /// The approval, read under the job's lock.
    pub approval: &'a Approval,
    /// The event at the approval's `asked_version`.
    pub asked: &'a EventKind,
    /// The job's votes; those on other approvals count for nothing.
    pub votes: &'a [Event],
}

/// A vote that counts, to be written in this order: the approval, the vote, and the end of the job if it is denied.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// Where the approval stands now.
    pub approval: Approval,
    /// The vote.
    pub step: Move,
    /// The end of the job that waited for it, after a denial.
    pub end: Option<Move>,
}

/// Decides a vote. Without a ballot there is no such approval.
pub fn vote(ballot: Option<Ballot<'_>>, request: &CastVote, now: Timestamp) -> Result<Counted, Refusal> {
    let ballot = ballot.ok_or(Refusal::ApprovalNotFound)?;
    admit(&ballot, &request.voter, now)?;
    let mut approval = ballot.approval.clone();
    (approval.approved, approval.status) = count_vote(&approval, request.decision);
    approval.decided_at = (approval.status != ApprovalStatus::Pending).then_some(now);
    approval.token_used |= matches!(request.voter, Voter::Link { .. });
    let voted = ApprovalVoted {
        approval: approval.id,
        name: approval.name.clone(),
        decision: request.decision,
        by: request.voter.key().cloned().unwrap_or_else(|| Who::word("link")),
        reason: request.reason.clone(),
        woke: false,
    };
    let step = decide(ballot.job, Command::Vote(request.voter.actor(), voted, approval.status), now)?;
    let end = match request.decision {
        Decision::Deny => deny(&step.job, &approval.name, request.reason.as_deref(), now),
        Decision::Approve => None,
    };
    Ok(Counted { approval, step, end })
}

/// Whether this voter may vote now. The order is law: the first reason that holds is returned.
fn admit(ballot: &Ballot<'_>, voter: &Voter, now: Timestamp) -> Result<(), Refusal> {
    let EventKind::JobApprovalAsked(asked) = ballot.asked else { return Err(Refusal::ApprovalNotFound) };
    let approval = ballot.approval;
    if let Voter::Link { token, .. } = voter {
        let token = LinkToken::parse(token).ok_or(Refusal::ApprovalTokenMalformed)?;
        if token.hash() != approval.token_hash {
            return Err(Refusal::ApprovalTokenWrong);
        }
    }
    if has_voted(ballot, voter) {
        return Err(Refusal::ApprovalDecided);
    }
    match approval.status_at(now) {
        ApprovalStatus::Pending => {}
        ApprovalStatus::Expired => return Err(Refusal::ApprovalExpired),
        _ => return Err(Refusal::ApprovalDecided),
    }
    let is_asker = voter.key().is_some() && voter.key() == asked.asker.as_ref();
    let may = match voter {
        Voter::Link { .. } if asked.approvers.is_empty() && !link_votes(&[], asked.required) => {
            return Err(Refusal::ApprovalNeedsKeys(asked.required));
        }
        Voter::Link { .. } => link_votes(&asked.approvers, asked.required),
        Voter::Key { name, roles } => {
            let named = |approver: &String| approver == name.as_str() || roles.contains(approver);
            asked.approvers.is_empty() || asked.approvers.iter().any(named)
        }
    };
    if is_asker || !may { Err(Refusal::ApprovalForbidden) } else { Ok(()) }
}

/// One person is one key. A link needs no look: its vote decides, so there is no second one.
fn has_voted(ballot: &Ballot<'_>, voter: &Voter) -> bool {
    // By the actor: a vote of the link without a key has the actor `link`, that of a key named link `key:link`.
    voter.key().is_some_and(|_| {
        let actor = voter.actor();
        let here = |event: &&Event| matches!(&event.what, EventKind::JobApprovalVoted(vote) if vote.approval == ballot.approval.id);
        ballot.votes.iter().filter(here).any(|event| event.actor == actor)
    })
}

/// The audit's entry for a vote that was refused.
pub fn refused_vote(request: &CastVote, refusal: &Refusal) -> WriteAudit {
    let reason = match refusal {
        Refusal::ApprovalTokenMalformed => "malformed",
        Refusal::ApprovalTokenWrong => "wrong",
        Refusal::ApprovalDecided => "used",
        Refusal::ApprovalExpired => "expired",
        Refusal::ApprovalForbidden | Refusal::ApprovalNeedsKeys(_) => "forbidden",
        Refusal::Invalid(_) => "invalid",
        _ => "unknown",
    };
    let detail = Metadata::from_iter([
        ("code".to_owned(), refusal.code().into()),
        ("reason".to_owned(), reason.into()),
    ]);
    WriteAudit::of(request.voter.actor(), "approval.refused", request.approval, detail)
}

impl Voter {
    /// The access key that votes, if one does.
    pub fn key(&self) -> Option<&Who> {
        match self {
            Self::Link { key, .. } => key.as_ref(),
            Self::Key { name, .. } => Some(name),
        }
    }

    /// Who votes, as logs and audit show it. A key's name is short enough for this always to be an actor.
    pub fn actor(&self) -> Actor {
        self.key().map_or_else(Actor::link, Actor::key)
    }
}

impl Approval {
    /// Whether it was asked in the job's present life: a redrive from the start forgets older ones.
    pub fn counts_for(&self, job: &Job) -> bool {
        self.asked_version > job.steps_from
    }

    /// How it stands once its job has ended at `now`: what was not decided never will be.
    #[must_use]
    pub fn closed(mut self, now: Timestamp) -> Self {
        if self.status == ApprovalStatus::Pending {
            self.status = match self.status_at(now) {
                ApprovalStatus::Expired => ApprovalStatus::Expired,
                _ => ApprovalStatus::Void,
            };
            self.decided_at = Some(now);
        }
        self
    }
}

impl Vote {
    /// The vote on an approval that an event records, if it is one.
    pub fn of(event: &Event, approval: ApprovalId) -> Option<Self> {
        let EventKind::JobApprovalVoted(vote) = &event.what else { return None };
        (vote.approval == approval).then(|| Self {
            decision: vote.decision,
            by: vote.by.clone(),
            by_key: event.actor != Actor::link(),
            reason: vote.reason.clone(),
            at: event.at,
        })
    }
}
