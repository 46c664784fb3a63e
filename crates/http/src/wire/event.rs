//! An event of a job's log as users see it.

use super::raw::{Raw, Shown, present};
use super::time::{Span, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use windlass_core::unique::Policy;
use windlass_core::{Event, EventKind, Facts, LogLine, RunAt, Timestamp, Version};

/// An entry of a job's log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct EventShape {
    /// Whose. Only in the feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Its place in the job's log: 1, 2, 3 …
    pub version: i64,
    /// What happened.
    pub r#type: String,
    /// The queue of its job. Only in the feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The kind of its job. Only in the feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Who: `api`, `key:…`, `worker:…`, `engine`, `sql:…`.
    pub actor: String,
    /// The attempt it belongs to.
    pub attempt: i32,
    /// The generation it belongs to.
    pub generation: i32,
    /// What the engine says about it; `{"unreadable": why}` where what is stored does not read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub detail: Option<Value>,
    /// The caller's bytes: payload, result, error, checkpoint, step value, signal.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Raw>)]
    pub payload: Option<Option<Raw>>,
    /// The same, when that is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// When.
    pub at: Time,
}

impl EventShape {
    /// An event in its job's log.
    pub(crate) fn of(event: &Event) -> Self {
        let (payload, payload_base64) = Shown::of(event.payload.as_ref()).or_null();
        Self {
            job_id: None,
            version: event.version,
            r#type: event.what.type_name().to_owned(),
            queue: None,
            kind: None,
            actor: event.actor.to_string(),
            attempt: event.attempt,
            generation: event.generation,
            detail: detail(&event.what),
            payload,
            payload_base64,
            at: Time(event.at),
        }
    }
}

/// What the engine says about an event, in the contract's units.
fn detail(what: &EventKind) -> Option<Value> {
    if let EventKind::JobCreated(facts) = what {
        return Some(facts_shape(facts));
    }
    if let EventKind::Unreadable(stored) = what {
        return Some(json!({ "unreadable": stored.why }));
    }
    let mut value: Value = serde_json::from_str(&what.detail()?).ok()?;
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| !value.is_null());
        members.iter_mut().for_each(|(name, value)| date(name, value));
    }
    Some(value)
}

/// Times are kept as microseconds and shown in RFC 3339.
fn date(name: &str, value: &mut Value) {
    if name.ends_with("_at")
        && let Some(micros) = value.as_i64()
    {
        *value = Timestamp::from_micros(micros).to_string().into();
    }
}

fn facts_shape(facts: &Facts) -> Value {
    let span = |ms: i64| serde_json::to_value(Span::from_ms(ms)).unwrap_or_default();
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| {
        shown.insert(name.to_owned(), value);
    };
    put("kind", facts.kind.as_str().into());
    put("queue", facts.queue.as_str().into());
    put("priority", facts.priority.into());
    put("max_retries", facts.max_retries.into());
    match facts.run_at {
        RunAt::Now => {}
        RunAt::At(time) => put("run_at", time.to_string().into()),
        RunAt::After(ms) => put("delay", span(ms)),
    }
    if let Some(ms) = facts.timeout_ms {
        put("timeout", span(ms));
    }
    if let Some(ms) = facts.lease_ms {
        put("lease", span(ms.get()));
    }
    if facts.grace_ms != 0 {
        put("grace", span(facts.grace_ms));
    }
    if let Some(backoff) = facts.backoff {
        let (base, max) = (span(backoff.base_ms), span(backoff.max_ms));
        let (multiplier, jitter) = (backoff.multiplier, backoff.jitter);
        put("backoff", json!({ "base": base, "max": max, "multiplier": multiplier, "jitter": jitter }));
    }
    if let Some(agent) = &facts.agent_id {
        put("agent_id", agent.as_str().into());
    }
    if let Some(parent) = facts.parent_id {
        put("parent_id", parent.to_string().into());
    }
    if !facts.tags.is_empty() {
        put("tags", facts.tags.iter().map(|tag| Value::from(tag.as_str())).collect());
    }
    if !facts.metadata.is_empty() {
        put("metadata", Value::Object(facts.metadata.clone()));
    }
    if facts.erased {
        put("erased", true.into());
    }
    if let Some(unique) = &facts.unique {
        let scope = unique.scope.to_text();
        let (scope, of) = scope.split_once(':').unwrap_or((scope.as_str(), ""));
        let mut hold = json!({ "scope": scope, "of": of, "key": unique.key.as_str() });
        match unique.policy {
            Policy::Ttl(ms) => {
                hold["policy"] = "ttl".into();
                hold["ttl"] = span(ms);
            }
            Policy::Debounce(debounce) => {
                hold["policy"] = "debounce".into();
                hold["delay"] = span(debounce.delay_ms);
                hold["max"] = span(debounce.max_ms);
            }
            policy => hold["policy"] = policy.to_text().into(),
        }
        put("unique", hold);
    }
    Value::Object(shown)
}

/// A line of a job's log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = LogLine)]
pub struct LogLineShape {
    /// Its place among the job's lines.
    pub n: i64,
    /// When.
    pub at: Time,
    /// Which attempt wrote it.
    pub attempt: i32,
    /// The text.
    pub line: String,
}

impl From<LogLine> for LogLineShape {
    fn from(line: LogLine) -> Self {
        let LogLine { n, at, attempt, line } = line;
        Self { n, at: Time(at), attempt, line }
    }
}

/// A stretch of a job's log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Events)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct EventsPage {
    pub events: Vec<EventShape>,
    /// What to give as `after` to go on; none at the end.
    pub next_after: Option<Version>,
}

/// A stretch of a job's log lines.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Logs)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct LogsPage {
    pub lines: Vec<LogLineShape>,
    /// True if lines of the job were erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::event::{Progressed, Retried};
    use windlass_core::{Metadata, Who};

    #[test]
    fn times_are_texts_and_what_users_wrote_stays() {
        let due_at = Timestamp::from_micros(1_000_000);
        let retried = Retried { code: Who::parse("code", "down").unwrap(), retries: 1, due_at };
        let shown = detail(&EventKind::JobRetried(retried)).unwrap();
        assert_eq!(shown, json!({ "code": "down", "retries": 1, "due_at": "1970-01-01T00:00:01Z" }));
        let metadata = Metadata::from_iter([("seen_at".to_owned(), 5.into())]);
        let progressed = Progressed { progress: None, stage: None, metadata: Some(metadata), charged: None };
        assert_eq!(
            detail(&EventKind::JobProgressed(progressed)).unwrap(),
            json!({ "metadata": { "seen_at": 5 } })
        );
    }
}
