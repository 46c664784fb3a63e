//! Approvals: asked by a holder, decided by people, denied by silence.

use crate::state::{Entry, State, page};
use windlass_core::approve::{self, Asking, Ballot, refused_vote};
use windlass_core::wait::Vote;
use windlass_core::{Answer, Approval, ApprovalId, Done, EventKind, Name, Refusal, Timestamp};
use windlass_store::{ApprovalView, Ask, Asked, CastVote, ListApprovals};

impl State {
    /// Asks for an approval. While it is open, asking again with another link replaces the link.
    pub fn ask(&mut self, request: Ask, now: Timestamp) -> Result<Asked, Refusal> {
        let entry = self.entry(request.job)?;
        let newest = self.newest_approval(entry, &request.name).cloned();
        let id_taken = self.approvals.contains_key(&request.id);
        let (approval, step) = match approve::ask(&entry.job, newest, id_taken, &request, now)? {
            Asking::Already(approval) => {
                return Ok(Asked { done: Done::Already(approval.asked_version), approval });
            }
            Asking::New(new) => *new,
        };
        let done = self.write(step);
        if self.approvals.insert(approval.id, approval.clone()).is_none()
            && let Some(entry) = self.entries.get_mut(&request.job)
        {
            entry.approvals.push(approval.id);
        }
        Ok(Asked { approval, done })
    }

    /// Votes. A refused vote changes nothing but is put on record.
    pub fn vote(&mut self, request: CastVote, now: Timestamp) -> Answer {
        let counted = match approve::vote(self.ballot(request.approval), &request, now) {
            Ok(counted) => counted,
            Err(refusal) => {
                self.write_audit(refused_vote(&request, &refusal), now);
                return Err(refusal);
            }
        };
        // Before the job ends by it, which voids every approval that is still open.
        self.approvals.insert(counted.approval.id, counted.approval);
        let done = self.write(counted.step);
        Ok(counted.end.map_or(done, |end| self.write(end)))
    }

    fn ballot(&self, id: ApprovalId) -> Option<Ballot<'_>> {
        let approval = self.approvals.get(&id)?;
        let entry = self.entries.get(&approval.job)?;
        let asked = &entry.event(approval.asked_version)?.what;
        Some(Ballot { job: &entry.job, approval, asked, votes: &entry.events })
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
        let votes = entry.events.iter().filter_map(|event| Vote::of(event, approval.id));
        Some(ApprovalView {
            approval: approval.clone(),
            prompt: asked.prompt.clone(),
            approvers: asked.approvers.clone(),
            asked_by: event.actor.clone(),
            votes: votes.collect(),
        })
    }
}
