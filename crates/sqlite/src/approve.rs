//! Approvals: asked by a holder, decided by people, closed with their job.

use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::row;
use windlass_core::decide::{Command, check_lease, count_vote, decide, deny};
use windlass_core::event::{ApprovalAsked, ApprovalVoted};
use windlass_core::limits::{self, Invalid};
use windlass_core::wait::{ApprovalStatus, Decision, LinkToken, Vote, Voter};
use windlass_core::{
    Actor, Answer, Approval, ApprovalId, Done, EventKind, JobId, Metadata, Name, Refusal, Timestamp, Who,
};
use windlass_store::{ApprovalView, Ask, Asked, CastVote, ListApprovals};

impl Tx<'_, '_> {
    pub(crate) fn put_approval(&self, a: &Approval) -> Tried<()> {
        let params = rusqlite::params![
            a.id.as_bytes(),
            a.job.as_bytes(),
            a.name.as_str(),
            a.status.as_str(),
            a.required,
            a.approved,
            a.expires_at.as_micros(),
            a.token_hash,
            a.token_used,
            a.asked_version,
            a.asked_at.as_micros(),
            a.decided_at.map(Timestamp::as_micros),
        ];
        self.execute(sql!("put_approval"), params).map(|_| ())
    }

    pub(crate) fn ask(&self, request: &Ask, now: Timestamp) -> Tried<Result<Asked, Refusal>> {
        let Some(job) = self.job(request.job)? else { return Ok(Err(Refusal::NotFound)) };
        let hash = request.token.hash();
        if let Err(refusal) = check_lease(&job, hash, now) {
            return Ok(Err(refusal));
        }
        let before =
            self.approval_by_name(job.id, &request.name)?.filter(|a| a.asked_version > job.steps_from);
        let standing = before.as_ref().map(|a| a.status_at(now));
        let open = match (before, standing) {
            (Some(a), Some(ApprovalStatus::Approved)) => return Ok(Ok(asked_before(a))),
            (Some(a), Some(ApprovalStatus::Pending)) if a.token_hash == request.link_hash => {
                return Ok(Ok(asked_before(a)));
            }
            (open, Some(ApprovalStatus::Pending)) => open,
            _ => None,
        };
        if open.is_none() && self.approval_row(request.id)?.is_some() {
            let taken = Invalid::new("approval id", request.id, "is taken; use a new one");
            return Ok(Err(taken.into()));
        }
        let asked = ApprovalAsked {
            approval: open.as_ref().map_or(request.id, |a| a.id),
            name: request.name.clone(),
            prompt: request.prompt.clone(),
            approvers: request.approvers.clone(),
            required: request.required,
            expires_at: now.plus_ms(request.expires_ms),
        };
        let step = match decide(&job, Command::Ask(hash, asked.clone()), now) {
            Ok(step) => step,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let approval = Approval {
            id: asked.approval,
            job: job.id,
            name: asked.name,
            status: ApprovalStatus::Pending,
            required: asked.required,
            approved: open.as_ref().map_or(0, |a| a.approved),
            expires_at: asked.expires_at,
            token_hash: request.link_hash,
            token_used: open.as_ref().is_some_and(|a| a.token_used),
            asked_version: step.job.version,
            asked_at: open.as_ref().map_or(now, |a| a.asked_at),
            decided_at: None,
        };
        self.put_approval(&approval)?;
        self.write(&job, &step)?;
        Ok(Ok(Asked { approval, done: Done::Moved(step.job.version, step.job.status) }))
    }

    pub(crate) fn vote(&self, request: &CastVote, now: Timestamp) -> Tried<Answer> {
        let actor = actor_of(&request.voter);
        match self.admit(request, now)? {
            Ok((approval, by)) => self.count(request, approval, by, actor, now),
            Err((refusal, reason)) => {
                let mut detail = Metadata::new();
                detail.insert("code".into(), refusal.code().into());
                detail.insert("reason".into(), reason.into());
                self.put_audit(&actor, "approval.refused", &request.approval.to_string(), &detail, now)?;
                Ok(Err(refusal))
            }
        }
    }

    /// Whether this voter may vote now; else why not, with a word for the audit.
    #[expect(clippy::type_complexity, reason = "an approval and its voter, or a refusal and its word")]
    fn admit(
        &self,
        request: &CastVote,
        now: Timestamp,
    ) -> Tried<Result<(Approval, Who), (Refusal, &'static str)>> {
        let refuse = |refusal, word| Ok(Err((refusal, word)));
        let Some(approval) = self.approval_row(request.approval)? else {
            return refuse(Refusal::ApprovalNotFound, "unknown");
        };
        let by = match &request.voter {
            Voter::Key { name, .. } => name.clone(),
            Voter::Link(text) => match LinkToken::parse(text) {
                None => return refuse(Refusal::ApprovalTokenMalformed, "malformed"),
                Some(token) if token.hash() != approval.token_hash => {
                    return refuse(Refusal::ApprovalTokenWrong, "wrong");
                }
                Some(_) => Who::try_from("link").map_err(|e| Failure::Unreadable(e.to_string()))?,
            },
        };
        let view = self.approval_view(approval.clone())?;
        let has_voted = match &request.voter {
            Voter::Link(_) => approval.token_used,
            Voter::Key { name, .. } => view.votes.iter().any(|v| v.by == *name),
        };
        match approval.status_at(now) {
            ApprovalStatus::Pending | ApprovalStatus::Expired if has_voted => {
                return refuse(Refusal::ApprovalDecided, "used");
            }
            ApprovalStatus::Pending => {}
            ApprovalStatus::Expired => return refuse(Refusal::ApprovalExpired, "expired"),
            _ => return refuse(Refusal::ApprovalDecided, "used"),
        }
        if let Voter::Key { name, roles } = &request.voter {
            let named = |a: &String| a == name.as_str() || roles.contains(a);
            if !view.approvers.is_empty() && !view.approvers.iter().any(named) {
                return refuse(Refusal::ApprovalForbidden, "forbidden");
            }
        }
        if let Some(reason) = &request.reason
            && let Err(invalid) = limits::text("reason", reason, limits::TEXT_MAX_BYTES)
        {
            return refuse(invalid.into(), "invalid");
        }
        Ok(Ok((approval, by)))
    }

    fn count(
        &self,
        request: &CastVote,
        mut approval: Approval,
        by: Who,
        actor: Actor,
        now: Timestamp,
    ) -> Tried<Answer> {
        let Some(job) = self.job(approval.job)? else { return Ok(Err(Refusal::ApprovalNotFound)) };
        (approval.approved, approval.status) = count_vote(&approval, request.decision);
        approval.token_used |= matches!(request.voter, Voter::Link(_));
        if approval.status != ApprovalStatus::Pending {
            approval.decided_at = Some(now);
        }
        let vote = ApprovalVoted {
            approval: approval.id,
            name: approval.name.clone(),
            decision: request.decision,
            by,
            reason: request.reason.clone(),
            woke: false,
        };
        let step = match decide(&job, Command::Vote(actor, vote, approval.status), now) {
            Ok(step) => step,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.put_approval(&approval)?;
        self.write(&job, &step)?;
        let denied = match request.decision {
            Decision::Deny => deny(&step.job, &approval.name, request.reason.as_deref(), now),
            Decision::Approve => None,
        };
        match denied {
            Some(end) => self.finish(&step.job, end),
            None => Ok(Ok(Done::Moved(step.job.version, step.job.status))),
        }
    }
}

fn asked_before(approval: Approval) -> Asked {
    Asked { done: Done::Already(approval.asked_version), approval }
}

fn actor_of(voter: &Voter) -> Actor {
    let text = match voter {
        Voter::Link(_) => "link".to_owned(),
        Voter::Key { name, .. } => format!("key:{name}"),
    };
    Actor::try_from(text).unwrap_or_else(|_| Actor::api())
}

impl Db<'_> {
    pub(crate) fn approval_row(&self, id: ApprovalId) -> Tried<Option<Approval>> {
        self.one(sql!("approval"), [id.as_bytes()], row::approval)
    }

    pub(crate) fn approval_by_name(&self, job: JobId, name: &Name) -> Tried<Option<Approval>> {
        self.one(sql!("approval_by_name"), (job.as_bytes(), name.as_str()), row::approval)
    }

    pub(crate) fn approval(&self, id: ApprovalId) -> Tried<Option<ApprovalView>> {
        self.approval_row(id)?.map(|a| self.approval_view(a)).transpose()
    }

    pub(crate) fn approvals(&self, request: &ListApprovals, now: Timestamp) -> Tried<Vec<ApprovalView>> {
        let mut before = request.before.map_or([0xff; 16], |id| *id.as_bytes());
        let limit = crate::list::page(request.limit);
        let wanted = |a: &Approval| {
            request.status.is_none_or(|s| a.status_at(now) == s) && request.job.is_none_or(|j| a.job == j)
        };
        let mut found = Vec::new();
        loop {
            let page = self.approvals_page(request, before, limit)?;
            let short = (page.len() as i64) < limit;
            before = page.last().map_or(before, |a| *a.id.as_bytes());
            for approval in page.into_iter().filter(wanted).take(limit as usize - found.len()) {
                found.push(self.approval_view(approval)?);
            }
            if short || found.len() as i64 >= limit {
                return Ok(found);
            }
        }
    }

    /// Pending ones past their time have expired, so both are looked for among the pending.
    fn approvals_page(&self, request: &ListApprovals, before: [u8; 16], limit: i64) -> Tried<Vec<Approval>> {
        if let Some(job) = request.job {
            let params = (before, limit, job.as_bytes());
            return self.all(sql!("approvals_of_job"), params, row::approval);
        }
        match request.status {
            Some(ApprovalStatus::Expired) | None => {
                self.all(sql!("approvals"), (before, limit), row::approval)
            }
            Some(status) => {
                self.all(sql!("approvals_by_status"), (before, limit, status.as_str()), row::approval)
            }
        }
    }

    fn approval_view(&self, approval: Approval) -> Tried<ApprovalView> {
        let gone = || Failure::Unreadable(format!("approval {} has lost its event", approval.id));
        let asked = self.event(approval.job, approval.asked_version)?.ok_or_else(gone)?;
        let EventKind::JobApprovalAsked(detail) = asked.what else { return Err(gone()) };
        let votes = self.all(sql!("votes"), [approval.job.as_bytes()], row::event)?;
        let vote = |e: windlass_core::Event| match e.what {
            EventKind::JobApprovalVoted(v) if v.approval == approval.id => {
                Some(Vote { decision: v.decision, by: v.by, reason: v.reason, at: e.at })
            }
            _ => None,
        };
        let votes = votes.into_iter().filter_map(vote).collect();
        let (prompt, approvers) = (detail.prompt, detail.approvers);
        Ok(ApprovalView { approval, prompt, approvers, asked_by: asked.actor, votes })
    }
}
