//! Approvals: asked by a holder, decided by people, denied by silence.

use crate::state::{Entry, State, page};
use windlass_core::decide::{Command, check_lease, count_vote, decide, deny};
use windlass_core::event::{ApprovalAsked, ApprovalVoted};
use windlass_core::limits::Invalid;
use windlass_core::wait::{ApprovalStatus, Decision, LinkToken, Vote, Voter};
use windlass_core::{
    Actor, Answer, Approval, ApprovalId, Done, EventKind, Metadata, Name, Refusal, Timestamp, Who,
};
use windlass_store::{ApprovalView, Ask, Asked, CastVote, ListApprovals};

impl State {
    /// Asks for an approval. While it is open, asking again with another link replaces the link.
    pub fn ask(&mut self, request: Ask, now: Timestamp) -> Result<Asked, Refusal> {
        let entry = self.entry(request.job)?;
        let hash = request.token.hash();
        check_lease(&entry.job, hash, now)?;
        let newest = self.newest_approval(entry, &request.name);
        let known = newest.filter(|approval| approval.asked_version > entry.job.steps_from).cloned();
        let open = match known.as_ref().map(|approval| (approval, approval.status_at(now))) {
            Some((approval, ApprovalStatus::Approved)) => return Ok(asked_before(approval)),
            Some((approval, ApprovalStatus::Pending)) if approval.token_hash == request.link_hash => {
                return Ok(asked_before(approval));
            }
            Some((approval, ApprovalStatus::Pending)) => Some(approval),
            _ => None,
        };
        if open.is_none() && self.approvals.contains_key(&request.id) {
            return Err(Invalid::new("approval id", request.id, "is taken; use a new one").into());
        }
        let asked = ApprovalAsked {
            approval: open.map_or(request.id, |approval| approval.id),
            name: request.name.clone(),
            prompt: request.prompt,
            approvers: request.approvers,
            required: request.required,
            expires_at: now.plus_ms(request.expires_ms),
        };
        let id = asked.approval;
        let expires_at = asked.expires_at;
        let step = decide(&entry.job, Command::Ask(hash, asked), now)?;
        let approval = Approval {
            id,
            job: request.job,
            name: request.name,
            status: ApprovalStatus::Pending,
            required: request.required,
            approved: open.map_or(0, |approval| approval.approved),
            expires_at,
            token_hash: request.link_hash,
            token_used: open.as_ref().is_some_and(|a| a.token_used),
            asked_version: step.event.version,
            asked_at: open.map_or(now, |approval| approval.asked_at),
            decided_at: None,
        };
        let done = self.write(step);
        if self.approvals.insert(id, approval.clone()).is_none()
            && let Some(entry) = self.entries.get_mut(&request.job)
        {
            entry.approvals.push(id);
        }
        Ok(Asked { approval, done })
    }

    /// Votes. A refused vote changes nothing but is put on record.
    pub fn vote(&mut self, request: CastVote, now: Timestamp) -> Answer {
        let (target, actor) = (request.approval, actor_of(&request.voter));
        let answer = self.count(request, actor.clone(), now);
        if let Err(refusal) = &answer {
            let detail = Metadata::from_iter([
                ("code".to_owned(), refusal.code().into()),
                ("reason".to_owned(), reason_of(refusal).into()),
            ]);
            self.note(actor, "approval.refused", target.to_string(), detail, now);
        }
        answer
    }

    fn count(&mut self, request: CastVote, actor: Actor, now: Timestamp) -> Answer {
        let mut approval = self.approvals.get(&request.approval).ok_or(Refusal::ApprovalNotFound)?.clone();
        let entry = self.entry(approval.job)?;
        check_voter(entry, &approval, &request.voter, &actor, now)?;
        let (approved, status) = count_vote(&approval, request.decision);
        let voted = ApprovalVoted {
            approval: approval.id,
            name: approval.name.clone(),
            decision: request.decision,
            by: name_of(&request.voter),
            reason: request.reason.clone(),
            woke: false,
        };
        let step = decide(&entry.job, Command::Vote(actor, voted, status), now)?;
        let denied = (request.decision == Decision::Deny)
            .then(|| deny(&step.job, &approval.name, request.reason.as_deref(), now))
            .flatten();
        approval.approved = approved;
        approval.status = status;
        approval.decided_at = (status != ApprovalStatus::Pending).then_some(now);
        approval.token_used |= matches!(request.voter, Voter::Link(_));
        // Before the job ends by it, which voids every approval that is still open.
        self.approvals.insert(approval.id, approval);
        let done = self.write(step);
        Ok(denied.map_or(done, |step| self.write(step)))
    }

    /// One approval, with what the log says of it.
    pub fn approval(&mut self, request: ApprovalId, _now: Timestamp) -> Option<ApprovalView> {
        self.view(self.approvals.get(&request)?)
    }

    /// A page of approvals, newest first.
    pub fn approvals(&mut self, request: ListApprovals, now: Timestamp) -> Vec<ApprovalView> {
        let older = self.approvals.values().rev().filter(|a| request.before.is_none_or(|id| a.id < id));
        let wanted = older
            .filter(|approval| request.job.is_none_or(|job| approval.job == job))
            .filter(|approval| request.status.is_none_or(|status| approval.status_at(now) == status));
        wanted.filter_map(|approval| self.view(approval)).take(page(request.limit)).collect()
    }

    /// The approval of this name that the job asked for last.
    pub fn newest_approval(&self, entry: &Entry, name: &Name) -> Option<&Approval> {
        let mine = entry.approvals.iter().filter_map(|id| self.approvals.get(id));
        mine.filter(|approval| approval.name == *name).max_by_key(|approval| approval.asked_version)
    }

    fn view(&self, approval: &Approval) -> Option<ApprovalView> {
        let entry = self.entries.get(&approval.job)?;
        let event = entry.event(approval.asked_version)?;
        let EventKind::JobApprovalAsked(asked) = &event.what else { return None };
        let votes = entry.events.iter().filter_map(|event| match &event.what {
            EventKind::JobApprovalVoted(vote) if vote.approval == approval.id => Some(Vote {
                decision: vote.decision,
                by: vote.by.clone(),
                reason: vote.reason.clone(),
                at: event.at,
            }),
            _ => None,
        });
        Some(ApprovalView {
            approval: approval.clone(),
            prompt: asked.prompt.clone(),
            approvers: asked.approvers.clone(),
            asked_by: event.actor.clone(),
            votes: votes.collect(),
        })
    }
}

fn asked_before(approval: &Approval) -> Asked {
    Asked { approval: approval.clone(), done: Done::Already(approval.asked_version) }
}

/// Whether this voter may vote on it now. The order is law: the first reason that holds is told.
fn check_voter(
    entry: &Entry,
    approval: &Approval,
    voter: &Voter,
    actor: &Actor,
    now: Timestamp,
) -> Result<(), Refusal> {
    if let Voter::Link(text) = voter {
        let token = LinkToken::parse(text).ok_or(Refusal::ApprovalTokenMalformed)?;
        if token.hash() != approval.token_hash {
            return Err(Refusal::ApprovalTokenWrong);
        }
    }
    let status = approval.status_at(now);
    let voted = match voter {
        Voter::Link(_) => approval.token_used,
        Voter::Key { .. } => entry.events.iter().any(|event| {
            let here =
                matches!(&event.what, EventKind::JobApprovalVoted(vote) if vote.approval == approval.id);
            here && event.actor == *actor
        }),
    };
    if voted || matches!(status, ApprovalStatus::Approved | ApprovalStatus::Denied | ApprovalStatus::Void) {
        return Err(Refusal::ApprovalDecided);
    }
    if status == ApprovalStatus::Expired {
        return Err(Refusal::ApprovalExpired);
    }
    let Voter::Key { name, roles } = voter else { return Ok(()) };
    let asked = entry.event(approval.asked_version).map(|event| &event.what);
    let Some(EventKind::JobApprovalAsked(asked)) = asked else { return Err(Refusal::ApprovalNotFound) };
    let named = |approver: &String| approver == name.as_str() || roles.contains(approver);
    if !asked.approvers.is_empty() && !asked.approvers.iter().any(named) {
        return Err(Refusal::ApprovalForbidden);
    }
    Ok(())
}

/// Who votes, as logs and audit show it.
fn actor_of(voter: &Voter) -> Actor {
    let actor = match voter {
        Voter::Link(_) => Actor::parse("voter", "link"),
        Voter::Key { name, .. } => Actor::parse("voter", format!("key:{name}")),
    };
    actor.expect("a key's name is shorter than an actor may be")
}

fn name_of(voter: &Voter) -> Who {
    match voter {
        Voter::Link(_) => Who::parse("voter", "link").expect("a plain word"),
        Voter::Key { name, .. } => name.clone(),
    }
}

/// One word for the audit.
fn reason_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::ApprovalTokenMalformed => "malformed",
        Refusal::ApprovalTokenWrong => "wrong",
        Refusal::ApprovalDecided => "used",
        Refusal::ApprovalExpired => "expired",
        Refusal::ApprovalForbidden => "forbidden",
        Refusal::Invalid(_) => "invalid",
        _ => "unknown",
    }
}
