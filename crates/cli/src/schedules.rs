//! `windlass schedules`: jobs by the clock.

use crate::api_client::ApiClient;
use crate::args::{NewSchedule, SchedulesCommand};
use crate::enqueue::payload;
use crate::fail::Outcome;
use crate::out::Out;
use crate::schedules_apply;
use crate::shape::word;
use crate::show::{self, list, moment, text};
use serde_json::Value;
use windlass_core::Name;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_http::wire::new_job::NewJobShape;
use windlass_http::wire::raw::fields;
use windlass_http::wire::schedule::ScheduleBody;
use windlass_http::wire::time::{Span, Time};

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
            show::reply(out, &reply, Out::whole);
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

fn body(new: NewSchedule) -> Outcome<ScheduleBody> {
    let span = |span: crate::span::Span| Span::from_ms(span.ms());
    let payload = payload(new.payload.as_deref(), PAYLOAD_MAX_BYTES)?;
    let (payload, payload_base64) = fields(payload.as_ref());
    let job = NewJobShape {
        kind: new.kind,
        queue: Some(new.queue),
        payload,
        payload_base64,
        priority: new.priority,
        max_retries: new.max_retries,
        timeout: new.timeout.map(span),
        ..NewJobShape::default()
    };
    Ok(ScheduleBody {
        cron: new.cron,
        every: new.every.map(span),
        timezone: Some(new.timezone),
        job,
        missed: new.missed.map(|text| word("missed", text)).transpose()?,
        missed_max: new.missed_max,
        overlap: new.overlap.map(|text| word("overlap", text)).transpose()?,
        jitter: new.jitter.map(span),
        starts_at: new.starts_at.map(|at| Time(at.0)),
        ends_at: new.ends_at.map(|at| Time(at.0)),
        expected_version: None,
    })
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
