//! `windlass enqueue`: a job from what was typed, and waiting for its end.

use crate::api_client::ApiClient;
use crate::args::EnqueueArgs;
use crate::exec::TRACEPARENT;
use crate::fail::{Failure, Outcome};
use crate::ids;
use crate::jobs::ended;
use crate::out::{Out, visible};
use crate::show;
use std::collections::BTreeMap;
use std::io::Read;
use windlass_core::flow::On;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::span::parse_ms;
use windlass_core::{JobId, Key, Metadata, Name, Payload, Who};
use windlass_engine::{TraceContext, carry_or};
use windlass_http::wire::flow::{AfterShape, EdgeShape};
use windlass_http::wire::new_job::{BackoffShape, DebounceShape, NewJobShape, UniqueShape};
use windlass_http::wire::raw::fields;
use windlass_http::wire::time::{Moment, Span};

/// Enqueues, and waits if asked to.
pub async fn run(args: Box<EnqueueArgs>, door: &ApiClient, out: &Out) -> Outcome {
    let is_waiting = args.wait;
    let after = after(&args.after, door).await?;
    let reply = door.enqueue(&NewJobShape { after, ..draft(*args)? }).await?;
    let id = show::text(&reply.value["job"]["id"]);
    let is_dropped = reply.value["dropped"] == true;
    if !is_waiting || is_dropped {
        show::reply(out, &reply, |out, value| {
            if is_dropped {
                out.remark("windlass: dropped, as many jobs of its key wait as may");
                return;
            }
            out.line(&id);
            if value["payload_differs"] == true {
                out.remark("windlass: a job with this key was there already, with another payload");
            } else if value["existed"] == true {
                out.remark("windlass: a job with this key was there already");
            }
        });
        return Ok(());
    }
    if !out.is_json {
        out.remark(format!("windlass: waiting for {id}"));
    }
    wait(JobId::parse(&id)?, door, out).await
}

/// Waits for the end of a job, and prints its result.
async fn wait(id: JobId, door: &ApiClient, out: &Out) -> Outcome {
    loop {
        let reply = door.job(id, None).await?;
        let job = &reply.value;
        if !ended(job) {
            door.changed().await;
            continue;
        }
        let is_completed = job["status"] == "completed";
        show::reply(out, &reply, |out, job| {
            if is_completed && !job["result"].is_null() {
                out.line(visible::json(&job["result"].to_string()));
            }
        });
        let why = show::text(&job["error"]["message"]);
        return match is_completed {
            true => Ok(()),
            false if out.is_json => Err(Failure::told()),
            false => Err(Failure::failed(format!("job {id} is {}: {why}", show::text(&job["status"])))),
        };
    }
}

/// The job in the words of the API. Names are checked here, so that a server and a store say the same about them.
fn draft(args: EnqueueArgs) -> Outcome<NewJobShape> {
    let (payload, payload_base64) = fields(payload(args.payload.as_deref(), PAYLOAD_MAX_BYTES)?.as_ref());
    let tags = args.tag.iter().map(|tag| Ok(Name::parse("tag", tag)?.to_string())).collect::<Outcome<_>>()?;
    let key = args.unique_key.map(|key| Key::parse("unique_key", key)).transpose()?;
    let lane = args.key.map(|key| Key::parse("key", key)).transpose()?;
    let agent_id = args.agent_id.map(|id| Who::parse("agent_id", id)).transpose()?;
    Ok(NewJobShape {
        kind: Name::parse("kind", &args.kind)?.to_string(),
        queue: Some(Name::parse("queue", &args.queue)?.to_string()),
        payload,
        payload_base64,
        id: args.id.map(|id| JobId::parse(&id)).transpose()?.map(|id| id.to_string()),
        priority: args.priority,
        run_at: args.run_at.map(|moment| Moment::At(moment.0)),
        delay: args.delay.filter(|_| args.run_at.is_none()).map(|delay| Span::from_ms(delay.ms())),
        max_retries: args.max_retries,
        timeout: args.timeout.map(|timeout| Span::from_ms(timeout.ms())),
        backoff: args.backoff.map(|text| backoff(&text)).transpose()?,
        requires: requires(&args.require)?,
        key: lane.map(|key| key.to_string()),
        debounce: args.debounce.map(|text| debounce(&text)).transpose()?,
        cost: args.cost,
        agent_id: agent_id.map(|id| id.to_string()),
        metadata: traced(args.metadata.map(|text| metadata(&text)).transpose()?),
        tags: Some(tags),
        unique: key.map(|key| UniqueShape { key: Some(key.to_string()), ..UniqueShape::default() }),
        ..NewJobShape::default()
    })
}

/// With the trace that this command was started in, if it was in one and names no other.
fn traced(metadata: Option<Metadata>) -> Option<Metadata> {
    let started_in = std::env::var(TRACEPARENT).ok().and_then(|text| TraceContext::parse(&text));
    let Some(context) = started_in else { return metadata };
    let (mut given, mut carried) = (Metadata::new(), metadata.unwrap_or_default());
    context.put(&mut given);
    carry_or(&mut carried, &given);
    Some(carried)
}

/// `30s` or `30s,max=5m`
fn debounce(text: &str) -> Outcome<DebounceShape> {
    let (delay, max) = match text.split_once(',') {
        Some((delay, rest)) => (
            delay,
            Some(rest.trim().strip_prefix("max=").ok_or_else(|| {
                Failure::usage(format!("--debounce has {text}; it takes a time and a bound, like 30s,max=5m"))
            })?),
        ),
        None => (text, None),
    };
    let ms = |text: &str| Ok::<_, Failure>(Span::from_ms(parse_ms("--debounce", text.trim())?));
    Ok(DebounceShape { delay: ms(delay)?, max: max.map(ms).transpose()? })
}

/// `ID` or `ID:failure`
async fn after(typed: &[String], door: &ApiClient) -> Outcome<Option<AfterShape>> {
    let mut edges = Vec::new();
    for text in typed {
        let (id, on) = text.split_once(':').unwrap_or((text, "success"));
        let on = On::parse(on).ok_or_else(|| {
            Failure::usage(format!("--after has {text}; behind the colon comes success, failure or finished"))
        })?;
        edges.push(EdgeShape { job: ids::job(id, door).await?.to_string(), on: Some(on.into()), name: None });
    }
    Ok(Some(edges).filter(|edges| !edges.is_empty()).map(AfterShape::Jobs))
}

/// Labels that the worker must have, if there are any.
fn requires(labels: &[String]) -> Outcome<Option<BTreeMap<String, String>>> {
    let read = |text: &String| label("--require", text).map(|(name, value)| (name.to_string(), value));
    let all: BTreeMap<_, _> = labels.iter().map(read).collect::<Outcome<_>>()?;
    Ok(Some(all).filter(|all| !all.is_empty()))
}

/// `gpu=a100`
pub fn label(flag: &str, text: &str) -> Outcome<(Name, String)> {
    let wrong =
        || Failure::usage(format!("{flag} has {text}; it takes a label and its value, like gpu=a100"));
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((Name::parse("label", name)?, value.to_owned()))
}

fn metadata(text: &str) -> Outcome<Metadata> {
    let read = serde_json::from_str(text);
    read.map_err(|e| Failure::usage(format!("--metadata must be a JSON object like {{\"order\":7}}: {e}")))
}

/// `base=2s,max=5m,multiplier=3,jitter=false`
fn backoff(text: &str) -> Outcome<BackoffShape> {
    let wrong = |part: &str| {
        Failure::usage(format!("--backoff has {part}; it takes base=2s,max=5m,multiplier=3,jitter=false"))
    };
    let mut backoff = BackoffShape::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
        match name.trim() {
            "base" => backoff.base = Some(Span::parse("backoff.base", value)?),
            "max" => backoff.max = Some(Span::parse("backoff.max", value)?),
            "multiplier" => backoff.multiplier = Some(value.parse().map_err(|_| wrong(part))?),
            "jitter" => backoff.jitter = Some(value.parse().map_err(|_| wrong(part))?),
            _ => return Err(wrong(part)),
        }
    }
    Ok(backoff)
}

/// The payload that `JSON`, `@FILE` or `-` means.
pub fn payload(typed: Option<&str>, max: usize) -> Outcome<Option<Payload>> {
    let Some(typed) = typed else { return Ok(None) };
    let bytes = if typed == "-" {
        read("standard input", std::io::stdin().lock(), max)?
    } else if let Some(path) = typed.strip_prefix('@') {
        let unreadable = |e| Failure::usage(format!("the payload's file {path} cannot be read: {e}"));
        read(path, std::fs::File::open(path).map_err(unreadable)?, max)?
    } else {
        typed.as_bytes().to_vec()
    };
    // The line end of an editor or of `echo` is not part of the JSON.
    let end = bytes.iter().rposition(|b| !b.is_ascii_whitespace()).map_or(0, |last| last + 1);
    Ok(Some(Payload::json("payload", &bytes[..end], max)?))
}

/// Not more than is allowed and one byte, so that too much is noticed and not swallowed.
pub fn read(from: &str, source: impl Read, max: usize) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = max as u64 + 2;
    source
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::usage(format!("the payload cannot be read from {from}: {e}")))?;
    Ok(bytes)
}
