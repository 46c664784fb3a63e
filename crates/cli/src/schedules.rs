//! `windlass schedules`: jobs by the clock.

use crate::api_client::ApiClient;
use crate::args::{NewSchedule, SchedulesCommand};
use crate::enqueue::payload;
use crate::fail::Outcome;
use crate::out::Out;
use crate::schedules_apply;
use crate::shape::{Doc, seconds};
use crate::show::{self, list, moment, text};
use serde_json::Value;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::{Invalid, Name, Payload};

/// Runs one of them.
pub async fn run(command: SchedulesCommand, door: &ApiClient, out: &Out) -> Outcome {
    let named = |name: &str| Name::parse("schedule", name);
    let reply = match command {
        SchedulesCommand::Ls => {
            let reply = door.schedules().await?;
            show::reply(out, &reply, |out, page| show_all(out, list(page, "schedules")));
            return Ok(());
        }
        SchedulesCommand::Show(which) => {
            let reply = door.schedule(&named(&which.name)?).await?;
            show::reply(out, &reply, |out, schedule| {
                out.line(serde_json::to_string_pretty(schedule).unwrap_or_default());
            });
            return Ok(());
        }
        SchedulesCommand::Next { name, n } => {
            let reply = door.next_slots(&named(&name)?, n).await?;
            show::reply(out, &reply, |out, page| {
                let slots = list(page, "next");
                slots.iter().for_each(|slot| out.line(text(slot)));
                if slots.is_empty() {
                    out.remark("windlass: it is paused, or does not fire again");
                }
            });
            return Ok(());
        }
        SchedulesCommand::Trigger(which) => {
            let reply = door.schedule_verb(&named(&which.name)?, "trigger").await?;
            show::reply(out, &reply, |out, made| out.line(text(&made["id"])));
            return Ok(());
        }
        SchedulesCommand::Rm(which) => {
            let reply = door.remove_schedule(&named(&which.name)?).await?;
            show::reply(out, &reply, |out, gone| out.line(format!("{} is removed", text(&gone["removed"]))));
            return Ok(());
        }
        SchedulesCommand::Put(new) => {
            let name = named(&new.name)?;
            door.put_schedule(&name, &body(*new)?).await?
        }
        SchedulesCommand::Apply(args) => return schedules_apply::apply(args, door, out).await,
        SchedulesCommand::Backfill(args) => return schedules_apply::backfill(args, door, out).await,
        SchedulesCommand::Pause(which) => door.schedule_verb(&named(&which.name)?, "pause").await?,
        SchedulesCommand::Resume(which) => door.schedule_verb(&named(&which.name)?, "resume").await?,
    };
    show::reply(out, &reply, |out, schedule| show_all(out, std::slice::from_ref(schedule)));
    Ok(())
}

fn body(new: NewSchedule) -> Outcome<Doc> {
    let mut job = Doc::default();
    job.put("kind", new.kind).put("queue", new.queue).put_some("priority", new.priority);
    job.put_some("max_retries", new.max_retries);
    job.put_some("timeout", new.timeout.map(|span| seconds(span.ms())));
    let payload = payload(new.payload.as_deref(), PAYLOAD_MAX_BYTES)?;
    let read = |payload: Payload| {
        let value: Result<Value, _> = serde_json::from_slice(payload.as_bytes());
        value.map_err(|_| Invalid::new("payload", "text", "a schedule's payload is JSON"))
    };
    job.put_some("payload", payload.map(read).transpose()?);
    let mut doc = Doc::default();
    doc.put_some("cron", new.cron).put_some("every", new.every.map(|span| seconds(span.ms())));
    doc.put("timezone", new.timezone).put("job", job);
    doc.put_some("missed", new.missed).put_some("missed_max", new.missed_max);
    doc.put_some("overlap", new.overlap).put_some("jitter", new.jitter.map(|span| seconds(span.ms())));
    doc.put_some("starts_at", new.starts_at.map(|at| at.0.to_string()));
    doc.put_some("ends_at", new.ends_at.map(|at| at.0.to_string()));
    Ok(doc)
}

fn show_all(out: &Out, schedules: &[Value]) {
    let row = |schedule: &Value| {
        let when = match schedule["cron"].as_str() {
            Some(cron) => format!("{cron} {}", text(&schedule["timezone"])),
            None => format!("every {}s", text(&schedule["every"])),
        };
        let status = match (&schedule["broken"], &schedule["paused"]) {
            (Value::String(why), _) => format!("broken: {why}"),
            (_, paused) if !paused.is_null() => format!("paused by {}", text(&paused["by"])),
            _ => "on".to_owned(),
        };
        let job = format!("{} in {}", text(&schedule["job"]["kind"]), text(&schedule["job"]["queue"]));
        let (next, last) = (moment(&schedule["next_at"]), moment(&schedule["last_slot"]));
        vec![text(&schedule["name"]), when, job, status, next, last]
    };
    let rows: Vec<_> = schedules.iter().map(row).collect();
    out.table(&["SCHEDULE", "WHEN", "JOB", "STATUS", "NEXT", "LAST"], &rows, "there is no schedule");
}
