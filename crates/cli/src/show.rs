//! Documents of the API made readable for people.

use crate::fail::Outcome;
use crate::out::{Out, lines, plain};
use crate::shape::Reply;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_http::wire::job::{JobShape, JobsPage};
use windlass_http::wire::time::Time;

/// The document for programs, byte for byte, or what `people` makes of it.
pub fn reply(out: &Out, reply: &Reply, people: impl FnOnce(&Out, &Value)) {
    if out.is_json { out.document(&reply.value, &reply.text) } else { people(out, &reply.value) }
}

/// The same, with the answer read for people.
pub fn read<T: DeserializeOwned>(out: &Out, reply: &Reply, people: impl FnOnce(&Out, T)) -> Outcome {
    if out.is_json {
        out.document(&reply.value, &reply.text);
    } else {
        people(out, reply.read()?);
    }
    Ok(())
}

/// A member that is a list.
pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// A value as text: nothing for null, no quotes around texts, no control characters.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => plain(&other.to_string()),
    }
}

/// A text of several lines, each without control characters.
fn paragraph(value: &Value) -> String {
    value.as_str().map(lines).unwrap_or_default()
}

/// A text of several lines as one.
pub fn one_line(text: &str) -> String {
    plain(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A value as JSON: what was given must be told from what it looks like. Nothing for null.
fn raw(value: &Value) -> String {
    if value.is_null() { String::new() } else { plain(&value.to_string()) }
}

/// A moment without its fraction.
pub fn moment(value: &Value) -> String {
    let text = text(value);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// The same of a moment that was read; nothing for none.
pub fn at(time: impl Into<Option<Time>>) -> String {
    time.into().map(|time| moment(&Value::String(time.0.to_string()))).unwrap_or_default()
}

/// Names separated by commas.
pub fn names(value: &Value) -> String {
    value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(",")
}

/// A page of jobs.
pub fn jobs(out: &Out, page: JobsPage) {
    let row = |job: &JobShape| {
        let told = job.error.as_ref().map_or(job.stage.as_deref(), |error| Some(&error.code));
        vec![
            job.id.clone(),
            job.kind.clone(),
            job.queue.clone(),
            job.status.as_str().to_owned(),
            format!("{}/{}", job.retries, job.max_retries),
            at(job.created_at),
            out.short(told.unwrap_or_default(), 40),
        ]
    };
    let rows: Vec<Vec<String>> = page.jobs.iter().map(row).collect();
    let head = ["ID", "KIND", "QUEUE", "STATUS", "RETRIES", "CREATED", "SAYS"];
    out.table(&head, &rows, "no job matches");
    if let Some(cursor) = page.next_cursor {
        out.remark(format!("more: --cursor {cursor}"));
    }
}

/// One job with everything, and first of all why it is not running.
pub fn job(out: &Out, job: &Value) {
    let waits = [text(&job["waiting_for"]), text(&job["wait_name"])].join(" ");
    let status = out.status(&text(&job["status"]));
    out.line(format!(
        "{} {} in {}: {status} {}",
        text(&job["id"]),
        text(&job["kind"]),
        text(&job["queue"]),
        waits.trim()
    ));
    let blocked = &job["blocked"];
    if !blocked.is_null() {
        let reason = text(&blocked["reason"]).replace('_', " ");
        let since = moment(&blocked["since"]);
        out.line(format!(
            "not running: {reason}, by {}, since {since}; {}",
            text(&blocked["by"]),
            text(&blocked["fix"])
        ));
    }
    let mut fields: Vec<(&str, String)> = Vec::new();
    let mut put = |name: &'static str, value: String| {
        if !value.is_empty() && value != "{}" {
            fields.push((name, value));
        }
    };
    put(
        "attempt",
        format!(
            "{} (retries {} of {})",
            text(&job["attempt"]),
            text(&job["retries"]),
            text(&job["max_retries"])
        ),
    );
    put("priority", text(&job["priority"]));
    put("progress", format!("{} % {}", text(&job["progress"]), text(&job["stage"])));
    for (name, member) in [("created", "created_at"), ("due", "due_at"), ("deadline", "deadline_at")] {
        put(name, moment(&job[member]));
    }
    for (name, member) in [("started", "started_at"), ("updated", "updated_at"), ("finished", "finished_at")]
    {
        put(name, moment(&job[member]));
    }
    put("held by", text(&job["lease"]["worker_id"]));
    put("lease until", moment(&job["lease"]["expires_at"]));
    put("key", text(&job["key"]));
    put("cost", text(&job["cost"]));
    put("agent", text(&job["agent_id"]));
    put("parent", text(&job["parent_id"]));
    put("tags", names(&job["tags"]));
    put("metadata", text(&job["metadata"]));
    for name in ["payload", "payload_base64", "checkpoint", "result", "result_base64"] {
        put(name, out.short(&raw(&job[name]), 2_000));
    }
    let error = &job["error"];
    if !error.is_null() {
        put(
            "error",
            format!("{}: {}", text(&error["code"]), out.short(&paragraph(&error["message"]), 2_000)),
        );
    }
    put("version", text(&job["version"]));
    if job["archived"] == true {
        put("archived", "it left the store; `windlass restore` puts it back".to_owned());
    }
    if job["erased"] == true {
        put("erased", "what it was given, found and printed; `windlass jobs events` says by whom".to_owned());
    }
    out.fields(&fields);
}

/// One event.
pub fn event(out: &Out, event: &Value) {
    let mut told = vec![raw(&event["detail"]), raw(&event["payload"]), raw(&event["payload_base64"])];
    told.retain(|text| !text.is_empty());
    out.line(format!(
        "{:>4}  {}  {:<20}  {}  {}",
        text(&event["version"]),
        moment(&event["at"]),
        text(&event["type"]),
        out.dim(&text(&event["actor"])),
        out.short(&told.join(" "), 400)
    ));
}

/// One event of the feed: with whose it is.
pub fn fed(out: &Out, event: &Value) {
    let told = [raw(&event["detail"]), raw(&event["payload"])].join(" ");
    out.line(format!(
        "{}  {}  {:<20}  {:<24}  {}  {}",
        moment(&event["at"]),
        text(&event["job_id"]),
        text(&event["type"]),
        [text(&event["queue"]), text(&event["kind"])].join(" "),
        out.dim(&text(&event["actor"])),
        out.short(told.trim(), 200)
    ));
}

/// One line of a handler.
pub fn log_line(out: &Out, line: &Value) {
    let head = format!("{} #{}", moment(&line["at"]), text(&line["attempt"]));
    out.line(format!("{}  {}", out.dim(&head), text(&line["line"])));
}
