//! A finished job as one line of JSON, whole: what is kept of it when it is removed.
//!
//! The row is a fold of the log, so the line holds the log and the log lines, and of the row what people look for. A payload
//! stands as it came: as JSON where that fits on a line, else as text, and as hex where it is no JSON.

use serde_json::{Value, json};
use std::fmt::Write;
use windlass_core::lease::hex;
use windlass_core::{Event, LogLine, LogPart, Payload};
use windlass_store::Archived;

/// The line of a job, without its end.
pub(crate) fn line(archived: &Archived) -> String {
    let Archived { job, events, logs, log_parts } = archived;
    let mut out = String::from("{\"format\":\"windlass.job.1\"");
    member(&mut out, "id", job.id.to_string().into());
    member(&mut out, "kind", job.kind.as_str().into());
    member(&mut out, "queue", job.queue.as_str().into());
    member(&mut out, "status", job.status.as_str().into());
    member(&mut out, "version", job.version.into());
    member(&mut out, "created_at", job.created_at.to_string().into());
    member(&mut out, "finished_at", job.finished_at.map(|at| at.to_string()).into());
    out.push_str(",\"events\":[");
    for (n, event) in events.iter().enumerate() {
        out.push_str(if n == 0 { "" } else { "," });
        write_event(&mut out, event);
    }
    out.push_str("],\"logs\":[");
    for (n, log) in logs.iter().enumerate() {
        out.push_str(if n == 0 { "" } else { "," });
        out.push_str(&log_entry(log).to_string());
    }
    out.push(']');
    if !log_parts.is_empty() {
        let part = |one: &LogPart| json!({ "first": one.first, "last": one.last, "part": one.part });
        member(&mut out, "log_parts", log_parts.iter().map(part).collect());
    }
    out.push('}');
    out
}

/// A log line.
pub(crate) fn log_entry(log: &LogLine) -> Value {
    json!({ "n": log.n, "at": log.at.to_string(), "attempt": log.attempt, "line": log.line })
}

fn write_event(out: &mut String, event: &Event) {
    // Writing to a text cannot fail.
    let _ = write!(out, "{{\"version\":{}", event.version);
    member(out, "at", event.at.to_string().into());
    member(out, "type", event.what.type_name().into());
    member(out, "actor", event.actor.as_str().into());
    member(out, "attempt", event.attempt.into());
    member(out, "generation", event.generation.into());
    if let Some(lease) = &event.lease {
        member(out, "lease", hex(&lease.0).into());
    }
    if let Some(key) = &event.key {
        member(out, "key", key.as_str().into());
    }
    if let Some(detail) = event.what.detail() {
        raw(out, "detail", &detail);
    }
    if let Some(payload) = &event.payload {
        write_payload(out, payload);
    }
    out.push('}');
}

fn write_payload(out: &mut String, payload: &Payload) {
    let text = std::str::from_utf8(payload.as_bytes()).ok().filter(|_| payload.is_json());
    match text {
        Some(text) => raw(out, "payload", text),
        None => member(out, "payload_hex", hex(payload.as_bytes()).into()),
    }
}

/// A member that is JSON already: as it stands if it is, on one line; else its text.
fn raw(out: &mut String, name: &str, text: &str) {
    if text.contains(['\n', '\r']) || serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return member(out, &format!("{name}_text"), text.into());
    }
    let _ = write!(out, ",\"{name}\":{text}");
}

fn member(out: &mut String, name: &str, value: Value) {
    let _ = write!(out, ",\"{name}\":{value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::{Actor, EventKind, Facts, Job, JobId, Key, Name, Timestamp};

    #[test]
    fn a_line_is_json_and_holds_everything_as_it_came() {
        let name = |text: &str| Name::parse("name", text).unwrap();
        let facts = Facts::new(name("work"), name("default"));
        let event = |version, what, payload| Event {
            job: JobId::from_bytes([7, 7, 7, 7, 7, 7, 0x70, 7, 0x80, 7, 7, 7, 7, 7, 7, 7]),
            version,
            at: Timestamp::from_micros(version),
            actor: Actor::api(),
            attempt: 0,
            generation: 0,
            lease: None,
            key: Some(Key::parse("key", "k\"1").unwrap()),
            what,
            payload,
        };
        let stored = |bytes: &[u8], is_json| Some(Payload::stored(bytes.to_vec(), is_json));
        let noted = |word| EventKind::Noted(name(word));
        let log = [
            event(1, EventKind::JobCreated(Box::new(facts)), stored(b"{\"b\":1, \"a\":2}", true)),
            event(2, noted("pretty"), stored(b"{\n \"n\": 1\n}", true)),
            event(3, noted("bytes"), stored(&[0, 255], false)),
            event(4, noted("broken"), stored(b"{\"half", true)),
            event(5, EventKind::unreadable("job_failed", Some("{no json"), "x".into()), None),
        ];
        let lines =
            [LogLine { n: 1, at: Timestamp::from_micros(9), attempt: 1, line: "a\n\"b\"".to_owned() }];
        let job = Job::created(&log[0]).unwrap();
        let moved = LogPart { first: 1, last: 4, part: "logs-1".to_owned() };
        let line = line(&Archived {
            job,
            events: log.to_vec(),
            logs: lines.to_vec(),
            log_parts: vec![moved.clone()],
        });
        assert!(!line.contains(['\n', '\r']), "{line}");
        assert!(line.contains("\"payload\":{\"b\":1, \"a\":2}"), "byte for byte: {line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["events"][1]["payload_text"], "{\n \"n\": 1\n}");
        assert_eq!(read["events"][2]["payload_hex"], "00ff");
        assert_eq!(read["events"][3]["payload_text"], "{\"half");
        assert_eq!(read["events"][4]["detail_text"], "{no json");
        assert_eq!(
            (&read["events"][0]["key"], &read["logs"][0]["line"]),
            (&json!("k\"1"), &json!("a\n\"b\""))
        );
        assert_eq!(read["events"][0]["detail"]["kind"], "work");
        let back = crate::archive::read::read(&line).unwrap();
        assert_eq!(back.events[..4], log[..4], "everything comes back");
        assert_eq!(back.events[4].what.detail().as_deref(), Some("{no json"));
        assert_eq!((back.logs, back.log_parts), (lines.to_vec(), vec![moved]));
    }
}
