//! `windlass triggers`: events from outside that start jobs.

use crate::api_client::ApiClient;
use crate::args::{NewTrigger, TriggersCommand};
use crate::enqueue::payload;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::show::{self, list, moment, text};
use serde_json::Value;
use windlass_core::Name;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_http::wire::new_job::NewJobShape;
use windlass_http::wire::raw::fields;
use windlass_http::wire::trigger::{EventBody, TriggerBody};

/// Runs one of them.
pub async fn run(command: TriggersCommand, door: &ApiClient, out: &Out) -> Outcome {
    let named = |name: &str| Name::parse("trigger", name);
    match command {
        TriggersCommand::Ls => {
            let reply = door.triggers().await?;
            show::reply(out, &reply, |out, page| show_all(out, list(page, "triggers")));
        }
        TriggersCommand::Show(which) => {
            let reply = door.trigger(&named(&which.name)?).await?;
            show::reply(out, &reply, Out::whole);
        }
        TriggersCommand::Put(new) => {
            let name = named(&new.name)?;
            let reply = door.put_trigger(&name, &body(*new)?).await?;
            show::reply(out, &reply, |out, trigger| show_all(out, std::slice::from_ref(trigger)));
        }
        TriggersCommand::Rm(which) => {
            let reply = door.remove_trigger(&named(&which.name)?).await?;
            show::reply(out, &reply, |out, gone| out.line(format!("{} is removed", text(&gone["removed"]))));
        }
        TriggersCommand::Fire { name, dedupe_key, payload: typed } => {
            let brought = payload(typed.as_deref(), PAYLOAD_MAX_BYTES)?;
            let (payload, payload_base64) = fields(brought.as_ref());
            let reply =
                door.fire_trigger(&named(&name)?, &EventBody { dedupe_key, payload, payload_base64 }).await?;
            show::reply(out, &reply, |out, fired| {
                list(fired, "jobs").iter().for_each(|job| out.line(text(job)));
                if fired["payload_differs"] == true {
                    out.remark("windlass: an event with this key came before, with another payload");
                } else if fired["deduped"] == true {
                    out.remark("windlass: an event with this key came before");
                }
                if let Value::String(why) = &fired["problem"] {
                    out.remark(format!("windlass: the event is kept and started nothing: {why}"));
                }
            });
        }
        TriggersCommand::Events { name, unprocessed, limit } => {
            let reply = door.trigger_events(&named(&name)?, unprocessed, limit).await?;
            show::reply(out, &reply, |out, page| show_events(out, list(page, "events")));
        }
        TriggersCommand::Secret(which) => {
            let reply = door.trigger_secret(&named(&which.name)?).await?;
            show::reply(out, &reply, |out, made| {
                out.line(text(&made["secret"]));
                out.remark(format!(
                    "windlass: this is shown once; webhooks are sent to {} of a server, and the secret of before opens for another day",
                    text(&made["webhook"])
                ));
            });
        }
    }
    Ok(())
}

fn body(new: NewTrigger) -> Outcome<TriggerBody> {
    let read = |text: &String| {
        let read = serde_json::from_str(text);
        read.map_err(|error| Failure::usage(format!("--job {text} is not a job as JSON: {error}")))
    };
    let jobs = match new.kind {
        None => new.job.iter().map(read).collect::<Outcome<Vec<NewJobShape>>>()?,
        Some(kind) => {
            let template = payload(new.payload.as_deref(), PAYLOAD_MAX_BYTES)?;
            let (payload, payload_base64) = fields(template.as_ref());
            let (priority, max_retries) = (new.priority, new.max_retries);
            let queue = Some(new.queue);
            let job = NewJobShape {
                kind,
                queue,
                payload,
                payload_base64,
                priority,
                max_retries,
                ..Default::default()
            };
            vec![job]
        }
    };
    Ok(TriggerBody { jobs, expected_version: None })
}

fn show_all(out: &Out, triggers: &[Value]) {
    let row = |trigger: &Value| {
        let jobs = list(trigger, "jobs").iter();
        let jobs: Vec<String> =
            jobs.map(|job| format!("{} in {}", text(&job["kind"]), text(&job["queue"]))).collect();
        let status = match &trigger["broken"] {
            Value::String(why) => format!("broken: {why}"),
            _ => "on".to_owned(),
        };
        let signed = if trigger["signed"] == true { text(&trigger["webhook"]) } else { String::new() };
        vec![text(&trigger["name"]), jobs.join(", "), status, signed, moment(&trigger["updated_at"])]
    };
    let rows: Vec<_> = triggers.iter().map(row).collect();
    out.table(&["TRIGGER", "JOBS", "STATUS", "SIGNED WEBHOOKS", "CHANGED"], &rows, "there is no trigger");
}

fn show_events(out: &Out, events: &[Value]) {
    let row = |event: &Value| {
        let came_of = match &event["problem"] {
            Value::String(why) => why.clone(),
            _ => list(event, "jobs").iter().map(text).collect::<Vec<_>>().join(" "),
        };
        let (received, processed) = (moment(&event["received_at"]), moment(&event["processed_at"]));
        vec![
            text(&event["id"]),
            text(&event["dedupe_key"]),
            text(&event["actor"]),
            received,
            processed,
            came_of,
        ]
    };
    let rows: Vec<_> = events.iter().map(row).collect();
    let head = ["EVENT", "KEY", "FROM", "RECEIVED", "PROCESSED", "JOBS OR PROBLEM"];
    out.table(&head, &rows, "no event came");
}
