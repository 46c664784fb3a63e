//! Approvals: asked by a holder, decided by people, closed with their job.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::row;
use windlass_core::approve::{self, Asking, Ballot, refused_vote};
use windlass_core::wait::{ApprovalStatus, Vote};
use windlass_core::{
    Answer, Approval, ApprovalId, Done, Event, EventKind, Job, JobId, Name, Refusal, Timestamp,
};
use windlass_store::{ApprovalView, Ask, Asked, CastVote, ListApprovals};

/// The job, its approval, what was asked, and its log.
type Found = (Job, Approval, EventKind, Vec<Event>);

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
        let newest = self.approval_by_name(job.id, &request.name)?;
        let id_taken = self.approval_row(request.id)?.is_some();
        let (approval, step) = match granted!(approve::ask(&job, newest, id_taken, request, now)) {
            Asking::Already(approval) => {
                return Ok(Ok(Asked { done: Done::Already(approval.asked_version), approval }));
            }
            Asking::New(new) => *new,
        };
        self.put_approval(&approval)?;
        self.write(&job, &step)?;
        Ok(Ok(Asked { approval, done: Done::Moved(step.job.version, step.job.status) }))
    }

    pub(crate) fn vote(&self, request: &CastVote, now: Timestamp) -> Tried<Answer> {
        let found = self.ballot(request.approval)?;
        let ballot =
            found.as_ref().map(|(job, approval, asked, votes)| Ballot { job, approval, asked, votes });
        let counted = match approve::vote(ballot, request, now) {
            Ok(counted) => counted,
            Err(refusal) => {
                self.write_audit(&refused_vote(request, &refusal), now)?;
                return Ok(Err(refusal));
            }
        };
        let Some((job, ..)) = &found else { return Ok(Err(Refusal::ApprovalNotFound)) };
        self.put_approval(&counted.approval)?;
        self.write(job, &counted.step)?;
        match counted.end {
            Some(end) => self.finish(&counted.step.job, end),
            None => Ok(Ok(Done::Moved(counted.step.job.version, counted.step.job.status))),
        }
    }

    /// What a vote is decided on.
    fn ballot(&self, id: ApprovalId) -> Tried<Option<Found>> {
        let Some(approval) = self.approval_row(id)? else { return Ok(None) };
        let Some(job) = self.job(approval.job)? else { return Ok(None) };
        let Some(asked) = self.event(job.id, approval.asked_version)? else { return Ok(None) };
        let votes = self.all(sql!("votes"), [job.id.as_bytes()], row::event)?;
        Ok(Some((job, approval, asked.what, votes)))
    }
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
        let votes = votes.iter().filter_map(|event| Vote::of(event, approval.id)).collect();
        let (prompt, approvers) = (detail.prompt, detail.approvers);
        Ok(ApprovalView { approval, prompt, approvers, asked_by: asked.actor, votes })
    }
}
