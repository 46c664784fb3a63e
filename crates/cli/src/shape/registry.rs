//! What surrounds jobs: approvals, queues, workers, audit entries, access keys.

use super::{Doc, seconds, time};
use windlass_core::wait::Decision;
use windlass_core::{AccessKey, AuditEntry, Backoff, Role, Timestamp, Worker};
use windlass_store::{ApprovalView, QueueState};

/// Every role.
pub const ROLES: [Role; 6] =
    [Role::Viewer, Role::Producer, Role::Worker, Role::Approver, Role::Operator, Role::Admin];

/// The word for a role.
pub const fn role_word(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Producer => "producer",
        Role::Worker => "worker",
        Role::Approver => "approver",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

/// An approval as it stands at `now`.
pub fn approval(view: &ApprovalView, now: Timestamp) -> Doc {
    let approval = &view.approval;
    let vote = |vote: &windlass_core::wait::Vote| {
        let mut doc = Doc::default();
        doc.put("decision", if vote.decision == Decision::Approve { "approve" } else { "deny" });
        doc.put("by", &vote.by).put("reason", &vote.reason).put("at", time(vote.at));
        doc
    };
    let mut doc = Doc::default();
    doc.put("id", approval.id.to_string())
        .put("job_id", approval.job.to_string())
        .put("name", &approval.name);
    doc.put("status", approval.status_at(now).as_str());
    doc.put("required", approval.required).put("approved", approval.approved);
    doc.put("prompt", &view.prompt).put("approvers", &view.approvers).put("asked_by", &view.asked_by);
    doc.put("asked_at", time(approval.asked_at)).put("expires_at", time(approval.expires_at));
    doc.put("decided_at", approval.decided_at.map(time));
    doc.put("decisions", view.votes.iter().map(vote).collect::<Vec<_>>());
    doc
}

/// A queue with what stands in it.
pub fn queue(state: &QueueState) -> Doc {
    let (queue, of) = (&state.queue, &state.queue.defaults);
    let mut doc = Doc::default();
    doc.put("name", &queue.name).put("due", state.due.n).put("due_capped", state.due.capped);
    doc.put("oldest_due_at", state.oldest_due_at.map(time));
    if let Some((at, by)) = &queue.paused {
        let mut paused = Doc::default();
        paused.put("at", time(*at)).put("by", by);
        doc.put("paused", paused);
    }
    let mut defaults = Doc::default();
    defaults.put_some("max_retries", of.max_retries).put_some("timeout", of.timeout_ms.map(seconds));
    defaults.put_some("lease", of.lease_ms.map(|ms| seconds(ms.get())));
    defaults.put_some("grace", of.grace_ms.map(seconds));
    defaults.put_some("backoff", of.backoff.map(backoff));
    doc.put("defaults", defaults);
    doc
}

/// How retries are spaced.
pub fn backoff(backoff: Backoff) -> Doc {
    let mut doc = Doc::default();
    doc.put("base", seconds(backoff.base_ms)).put("max", seconds(backoff.max_ms));
    doc.put("multiplier", backoff.multiplier).put("jitter", backoff.jitter);
    doc
}

/// A worker as it stands at `now`.
pub fn worker(worker: &Worker, now: Timestamp) -> Doc {
    let mut doc = Doc::default();
    doc.put("id", &worker.id).put("queues", &worker.queues).put("kinds", &worker.kinds);
    doc.put("capacity", worker.capacity).put("labels", &worker.labels).put("draining", worker.draining);
    doc.put("live", worker.expires_at > now).put("started_at", time(worker.started_at));
    doc.put("seen_at", time(worker.seen_at)).put("expires_at", time(worker.expires_at));
    doc
}

/// An action on record.
pub fn audit_entry(entry: &AuditEntry) -> Doc {
    let mut doc = Doc::default();
    doc.put("seq", entry.seq).put("at", time(entry.at)).put("actor", &entry.actor);
    doc.put("action", &entry.action).put("target", &entry.target).put("detail", &entry.detail);
    doc
}

/// An access key, without what proves it.
pub fn access_key(key: &AccessKey) -> Doc {
    let mut doc = Doc::default();
    doc.put("name", &key.name)
        .put("roles", key.roles.iter().map(|role| role_word(*role)).collect::<Vec<_>>());
    doc.put("queues", &key.queues).put("expires_at", key.expires_at.map(time));
    doc.put("created_at", time(key.created_at)).put("revoked_at", key.revoked_at.map(time));
    doc
}
