//! Approvals: asked by a holder, decided by people, closed with their job.
//!
//! An approval changes only under the lock of its job.

use crate::db::{Db, Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, Ts};
use uuid::Uuid;
use windlass_core::decide::{Command, check_lease, count_vote, decide, deny};
use windlass_core::event::{ApprovalAsked, ApprovalVoted};
use windlass_core::limits::{self, Invalid};
use windlass_core::wait::{ApprovalStatus, Decision, LinkToken, Vote, Voter};
use windlass_core::{
    Actor, Answer, Approval, ApprovalId, Done, Event, EventKind, Job, JobId, Metadata, Name, Refusal,
    Timestamp, Who,
};
use windlass_store::{ApprovalView, Ask, Asked, CastVote, ListApprovals, Now};

/// An approval's id as PostgreSQL has it.
fn approval_uuid(id: ApprovalId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

impl Tx<'_> {
    /// Puts down where an approval stands. Races with another job that takes the same id.
    pub(crate) async fn put_approval(&self, a: &Approval) -> Tried<()> {
        let put = self
            .rows(
                sql!("put_approval"),
                params![
                    approval_uuid(a.id),
                    uuid(a.job),
                    a.name.as_str(),
                    a.status.as_str(),
                    a.required,
                    a.approved,
                    Ts(a.expires_at),
                    a.token_hash.as_slice(),
                    a.token_used,
                    a.asked_version,
                    Ts(a.asked_at),
                    a.decided_at.map(Ts),
                ],
            )
            .await?;
        if put.is_empty() { Err(Failure::Raced) } else { Ok(()) }
    }

    pub(crate) async fn ask(&self, request: &Ask) -> Tried<Result<Asked, Refusal>> {
        let (Some(job), now) = self.lock_row(request.job).await? else { return Ok(Err(Refusal::NotFound)) };
        let hash = request.token.hash();
        if let Err(refusal) = check_lease(&job, hash, now) {
            return Ok(Err(refusal));
        }
        let before = self.approval_by_name(job.id, &request.name).await?;
        let before = before.filter(|a| a.asked_version > job.steps_from);
        let standing = before.as_ref().map(|a| a.status_at(now));
        let open = match (before, standing) {
            (Some(a), Some(ApprovalStatus::Approved)) => return Ok(Ok(asked_before(a))),
            (Some(a), Some(ApprovalStatus::Pending)) if a.token_hash == request.link_hash => {
                return Ok(Ok(asked_before(a)));
            }
            (open, Some(ApprovalStatus::Pending)) => open,
            _ => None,
        };
        if open.is_none() && self.approval_row(request.id).await?.is_some() {
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
        self.put_approval(&approval).await?;
        self.write(&job, &step).await?;
        Ok(Ok(Asked { approval, done: Done::Moved(step.job.version, step.job.status) }))
    }

    pub(crate) async fn vote(&self, request: &CastVote) -> Tried<Answer> {
        let actor = actor_of(&request.voter);
        // Whose it is never changes; where it stands is read again under the lock of that job.
        let (job, now) = match self.approval_row(request.approval).await? {
            Some(approval) => self.lock(approval.job).await?,
            None => (None, self.now().await?),
        };
        match self.admit(request, now).await? {
            Ok((approval, by)) => match job {
                Some(job) => self.count(request, &job, approval, by, actor, now).await,
                None => Ok(Err(Refusal::ApprovalNotFound)),
            },
            Err((refusal, reason)) => {
                let mut detail = Metadata::new();
                detail.insert("code".into(), refusal.code().into());
                detail.insert("reason".into(), reason.into());
                let target = request.approval.to_string();
                self.put_audit(&actor, "approval.refused", &target, &detail, now).await?;
                Ok(Err(refusal))
            }
        }
    }

    /// Whether this voter may vote now; else why not, with a word for the audit.
    async fn admit(
        &self,
        request: &CastVote,
        now: Timestamp,
    ) -> Tried<Result<(Approval, Who), (Refusal, &'static str)>> {
        let refuse = |refusal, word| Ok(Err((refusal, word)));
        let Some(approval) = self.approval_row(request.approval).await? else {
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
        let Some(view) = self.approval_view(approval.clone()).await? else {
            return refuse(Refusal::ApprovalNotFound, "unknown");
        };
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

    async fn count(
        &self,
        request: &CastVote,
        job: &Job,
        mut approval: Approval,
        by: Who,
        actor: Actor,
        now: Timestamp,
    ) -> Tried<Answer> {
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
        let step = match decide(job, Command::Vote(actor, vote, approval.status), now) {
            Ok(step) => step,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.put_approval(&approval).await?;
        self.write(job, &step).await?;
        let denied = match request.decision {
            Decision::Deny => deny(&step.job, &approval.name, request.reason.as_deref(), now),
            Decision::Approve => None,
        };
        match denied {
            Some(end) => self.finish(&step.job, end).await,
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
    pub(crate) async fn approval_row(&self, id: ApprovalId) -> Tried<Option<Approval>> {
        self.one(sql!("approval"), params![approval_uuid(id)], row::approval).await
    }

    pub(crate) async fn approval_by_name(&self, job: JobId, name: &Name) -> Tried<Option<Approval>> {
        self.one(sql!("approval_by_name"), params![uuid(job), name.as_str()], row::approval).await
    }

    pub(crate) async fn approval(&self, request: &ApprovalId, _: Now) -> Tried<Option<ApprovalView>> {
        match self.approval_row(*request).await? {
            Some(approval) => self.approval_view(approval).await,
            None => Ok(None),
        }
    }

    pub(crate) async fn approvals(&self, request: &ListApprovals, now: Now) -> Tried<Vec<ApprovalView>> {
        let now = self.clock(now).await?;
        let mut before = request.before.map_or(Uuid::max(), approval_uuid);
        let limit = crate::list::page(request.limit);
        let wanted = |a: &Approval| {
            request.status.is_none_or(|s| a.status_at(now) == s) && request.job.is_none_or(|j| a.job == j)
        };
        let mut found = Vec::new();
        loop {
            let page = self.approvals_page(request, before, limit).await?;
            let short = (page.len() as i64) < limit;
            if let Some(last) = page.last() {
                before = approval_uuid(last.id);
            }
            for approval in page.into_iter().filter(wanted) {
                if found.len() as i64 == limit {
                    return Ok(found);
                }
                found.extend(self.approval_view(approval).await?);
            }
            if short || found.len() as i64 >= limit {
                return Ok(found);
            }
        }
    }

    /// Pending ones past their time have expired, so expired ones are looked for among all.
    async fn approvals_page(
        &self,
        request: &ListApprovals,
        before: Uuid,
        limit: i64,
    ) -> Tried<Vec<Approval>> {
        if let Some(job) = request.job {
            return self
                .all(sql!("approvals_of_job"), params![before, limit, uuid(job)], row::approval)
                .await;
        }
        match request.status {
            Some(ApprovalStatus::Expired) | None => {
                self.all(sql!("approvals"), params![before, limit], row::approval).await
            }
            Some(status) => {
                self.all(sql!("approvals_by_status"), params![before, limit, status.as_str()], row::approval)
                    .await
            }
        }
    }

    /// An approval with what the log says of it, as of the moment its row was read. None if it was removed since.
    async fn approval_view(&self, approval: Approval) -> Tried<Option<ApprovalView>> {
        let job = uuid(approval.job);
        let votes = params![job];
        let (asked, voted) = tokio::try_join!(
            self.event(approval.job, approval.asked_version),
            self.all(sql!("votes"), votes, |r| row::event(r, 0))
        )?;
        let (actor, detail) = match asked.map(|e| (e.actor, e.what)) {
            Some((actor, EventKind::JobApprovalAsked(detail))) => (actor, detail),
            _ if self.approval_row(approval.id).await?.is_none() => return Ok(None),
            _ => return Err(Failure::Unreadable(format!("approval {} has lost its event", approval.id))),
        };
        let vote = |e: Event| match e.what {
            EventKind::JobApprovalVoted(v) if v.approval == approval.id => {
                Some(Vote { decision: v.decision, by: v.by, reason: v.reason, at: e.at })
            }
            _ => None,
        };
        // The log was read after the row: what was voted in between is not counted there yet.
        let counted = approval.approved + i32::from(approval.status == ApprovalStatus::Denied);
        let votes = voted.into_iter().filter_map(vote).take(usize::try_from(counted).unwrap_or(0)).collect();
        let (prompt, approvers) = (detail.prompt, detail.approvers);
        Ok(Some(ApprovalView { approval, prompt, approvers, asked_by: actor, votes }))
    }
}
