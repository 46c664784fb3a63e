//! What the log must say of what stands beside it: keys and approvals that no event explains were made by hand.

use crate::event::{Event, EventKind};
use crate::job::Facts;
use crate::wait::{Approval, ApprovalStatus, Decision, Vote};

/// What is wrong with a unique key that a job holds; none if its first event asked for it. `facts` is none where the job or
/// its first event is gone.
pub fn unique_key(scope: &str, key: &str, facts: Option<&Facts>) -> Option<String> {
    let asked = facts.and_then(|facts| facts.unique.as_ref());
    let explained = asked.is_some_and(|u| u.scope.to_text() == scope && u.key.as_str() == key);
    (!explained).then(|| format!("it holds the unique key {key:?} of {scope}, and no event asked for that"))
}

/// What is wrong with an approval; none if the log of its job explains it. `asked` is the event at its `asked_version`,
/// `log` every vote of its job. Votes that were cast since the approval was read are no fault.
pub fn approval(approval: &Approval, asked: Option<&Event>, log: &[Event]) -> Option<String> {
    let is_asked = asked.is_some_and(
        |event| matches!(&event.what, EventKind::JobApprovalAsked(detail) if detail.approval == approval.id),
    );
    if !is_asked {
        return Some(format!("approval {} was never asked for", approval.id));
    }
    let votes = || log.iter().filter_map(|event| Vote::of(event, approval.id));
    let ayes = votes().filter(|vote| vote.decision == Decision::Approve).count() as i64;
    let nays = votes().filter(|vote| vote.decision == Decision::Deny).count();
    let explained = i64::from(approval.approved) <= ayes
        && match approval.status {
            ApprovalStatus::Approved => ayes >= i64::from(approval.required),
            ApprovalStatus::Denied => nays > 0,
            _ => true,
        };
    (!explained).then(|| {
        let (id, status, approved) = (approval.id, approval.status.as_str(), approval.approved);
        format!("approval {id} is {status} with {approved} votes, of which its log has {ayes}")
    })
}
