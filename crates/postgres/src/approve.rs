//! Approvals: asked by a holder, decided by people, closed with their job.
//!
//! An approval changes only under the lock of its job.

use crate::append::granted;
use crate::db::{Db, Tx, sql, uuid};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{self, Ts};
use uuid::Uuid;
use windlass_core::approve::{self, Asking, Ballot, refused_vote};
use windlass_core::wait::{ApprovalStatus, Vote};
use windlass_core::{Answer, Approval, ApprovalId, Done, Event, EventKind, Job, JobId, Name, Refusal};
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
        let newest = self.approval_by_name(job.id, &request.name).await?;
        let id_taken = self.approval_row(request.id).await?.is_some();
        let (approval, step) = match granted!(approve::ask(&job, newest, id_taken, request, now)) {
            Asking::Already(approval) => {
                return Ok(Ok(Asked { done: Done::Already(approval.asked_version), approval }));
            }
            Asking::New(new) => *new,
        };
        self.put_approval(&approval).await?;
        self.write(&job, &step).await?;
        Ok(Ok(Asked { approval, done: Done::Moved(step.job.version, step.job.status) }))
    }

    pub(crate) async fn vote(&self, request: &CastVote) -> Tried<Answer> {
        // Whose it is never changes; where it stands is read again under the lock of that job.
        let (job, now) = match self.approval_row(request.approval).await? {
            Some(approval) => self.lock(approval.job).await?,
            None => (None, self.now().await?),
        };
        let found = self.ballot(job, request.approval).await?;
        let ballot =
            found.as_ref().map(|(job, approval, asked, votes)| Ballot { job, approval, asked, votes });
        let counted = match approve::vote(ballot, request, now) {
            Ok(counted) => counted,
            Err(refusal) => {
                self.put_audit(&refused_vote(request, &refusal), now).await?;
                return Ok(Err(refusal));
            }
        };
        let Some((job, ..)) = &found else { return Ok(Err(Refusal::ApprovalNotFound)) };
        self.put_approval(&counted.approval).await?;
        self.write(job, &counted.step).await?;
        match counted.end {
            Some(end) => self.finish(&counted.step.job, end).await,
            None => Ok(Ok(Done::Moved(counted.step.job.version, counted.step.job.status))),
        }
    }

    /// What a vote on an approval of a locked job is decided on.
    async fn ballot(
        &self,
        job: Option<Job>,
        id: ApprovalId,
    ) -> Tried<Option<(Job, Approval, EventKind, Vec<Event>)>> {
        let (Some(job), Some(approval)) = (job, self.approval_row(id).await?) else { return Ok(None) };
        let Some(asked) = self.event(job.id, approval.asked_version).await? else { return Ok(None) };
        let votes = self.all(sql!("votes"), params![uuid(job.id)], |r| row::event(r, 0)).await?;
        Ok(Some((job, approval, asked.what, votes)))
    }
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
        // The log was read after the row: what was voted in between is not counted there yet.
        let counted = approval.approved + i32::from(approval.status == ApprovalStatus::Denied);
        let votes = voted.iter().filter_map(|event| Vote::of(event, approval.id));
        let votes = votes.take(usize::try_from(counted).unwrap_or(0)).collect();
        let (prompt, approvers) = (detail.prompt, detail.approvers);
        Ok(Some(ApprovalView { approval, prompt, approvers, asked_by: actor, votes }))
    }
}
