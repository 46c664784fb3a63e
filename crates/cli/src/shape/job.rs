//! A job, its log and its lines.

use super::{Doc, seconds, time};
use serde_json::Value;
use windlass_core::unique::Scope;
use windlass_core::{Event, Facts, Job, LogLine, Payload, Timestamp, What};
use windlass_store::{JobView, Listed};

/// A job with everything.
pub fn job(view: &JobView) -> Doc {
    let mut doc = row(&view.job, &view.facts, error(view.error.as_ref(), &view.job));
    given(&mut doc, view.payload.as_ref());
    doc.put_bytes("result", "result_base64", view.result.as_ref())
        .put_bytes("checkpoint", "checkpoint_base64", view.checkpoint.as_ref())
        .put("metadata", &view.metadata);
    if let Some(blocked) = &view.blocked {
        let mut why = Doc::default();
        why.put("reason", blocked.reason).put("since", time(blocked.since));
        why.put("by", &blocked.by).put("fix", &blocked.fix);
        doc.put("blocked", why);
    }
    doc
}

/// A row of a list.
pub fn listed(listed: &Listed) -> Doc {
    row(&listed.job, &listed.facts, error(None, &listed.job))
}

/// A job as it stood, with what it was given.
pub fn as_it_stood(job: &Job, facts: &Facts, payload: Option<&Payload>) -> Doc {
    let mut doc = row(job, facts, error(None, job));
    given(&mut doc, payload);
    doc
}

fn given(doc: &mut Doc, payload: Option<&Payload>) {
    match payload {
        None => doc.put("payload", Value::Null),
        some => doc.put_bytes("payload", "payload_base64", some),
    };
}

fn row(job: &Job, facts: &Facts, error: Option<Doc>) -> Doc {
    let mut doc = Doc::default();
    doc.put("id", job.id.to_string()).put("kind", &job.kind).put("queue", &job.queue);
    doc.put("status", job.status.as_str());
    doc.put_some("waiting_for", job.waiting_for.map(|wait| wait.as_str()));
    doc.put_some("wait_name", job.wait_name.as_ref());
    doc.put("stage", &job.stage).put("progress", job.progress).put("priority", job.priority);
    doc.put("attempt", job.attempt).put("retries", job.retries).put("max_retries", job.max_retries);
    doc.put("crashes", job.crashes).put("version", job.version).put("generation", job.generation);
    doc.put("due_at", job.due_at.map(time)).put("deadline_at", job.deadline_at.map(time));
    if let Some(worker) = job.lease_hash.and(job.worker_id.as_ref()) {
        let mut lease = Doc::default();
        lease.put("worker_id", worker).put("expires_at", job.lease_expires_at.map(time));
        doc.put("lease", lease);
    }
    doc.put_some("error", error);
    doc.put("tags", &facts.tags).put("agent_id", &facts.agent_id);
    doc.put("parent_id", facts.parent_id.map(|id| id.to_string()));
    if let Some(Scope::Schedule(name)) = facts.unique.as_ref().map(|unique| &unique.scope) {
        doc.put("schedule", name);
    }
    doc.put_some("timeout", job.timeout_ms.map(seconds)).put_some("backoff", job.backoff.map(super::backoff));
    doc.put_some("cancel_requested_at", job.cancel_requested_at.map(time));
    doc.put("created_at", time(job.created_at)).put("started_at", job.started_at.map(time));
    doc.put("updated_at", time(job.updated_at)).put("finished_at", job.finished_at.map(time));
    doc
}

fn error(told: Option<&(Payload, Timestamp)>, job: &Job) -> Option<Doc> {
    let mut doc = Doc::default();
    if let Some((payload, at)) = told {
        let said: Value = payload.parse().unwrap_or_default();
        doc.put_some("code", said.get("code")).put_some("message", said.get("message")).put("at", time(*at));
    } else {
        doc.put_some("code", job.error_code.as_ref());
    }
    (!doc.is_empty()).then_some(doc)
}

/// An entry of a job's log.
pub fn event(event: &Event) -> Doc {
    let mut doc = Doc::default();
    doc.put("version", event.version).put("type", event.what.type_name()).put("actor", &event.actor);
    doc.put("attempt", event.attempt).put("generation", event.generation);
    doc.put_some("detail", detail(&event.what));
    doc.put_bytes("payload", "payload_base64", event.payload.as_ref());
    doc.put("at", time(event.at));
    doc
}

/// What the engine says about an event; moments as texts, lengths of time in seconds.
fn detail(what: &What) -> Option<Value> {
    let mut value: Value = serde_json::from_str(&what.detail()?).ok()?;
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| !value.is_null());
        for (name, value) in members.iter_mut() {
            if name.ends_with("_at")
                && let Some(micros) = value.as_i64()
            {
                *value = time(Timestamp::from_micros(micros)).into();
            }
        }
    }
    Some(value)
}

/// A line that a handler wrote.
pub fn log_line(line: &LogLine) -> Doc {
    let mut doc = Doc::default();
    doc.put("n", line.n).put("at", time(line.at)).put("attempt", line.attempt).put("line", &line.line);
    doc
}
