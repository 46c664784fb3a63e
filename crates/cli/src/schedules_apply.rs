//! `windlass schedules apply` and `backfill`: many schedules from a file, many slots of the past.

use crate::api_client::ApiClient;
use crate::args::{ApplyArgs, BackfillArgs};
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::show::{self, list, text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use windlass_core::Name;
use windlass_http::wire::schedule::{ApplyBody, BackfillBody, ScheduleBody};
use windlass_http::wire::time::Moment;

/// What of a schedule a person wrote.
const WRITTEN: [&str; 9] =
    ["cron", "every", "timezone", "missed", "missed_max", "overlap", "jitter", "starts_at", "ends_at"];
/// The largest file, in bytes.
const FILE_MAX_BYTES: u64 = 16 << 20;

/// Makes the schedules what a file says, all or none, and shows the difference.
pub async fn apply(args: ApplyArgs, door: &ApiClient, out: &Out) -> Outcome {
    let schedules = declared(&args.file)?;
    let body = ApplyBody { schedules, prune: args.prune, dry_run: args.dry_run };
    let reply = door.apply_schedules(&body).await?;
    let changes = list(&reply.value, "changes");
    let changing = changes.iter().filter(|change| change["change"] != "unchanged").count();
    show::reply(out, &reply, |out, _| {
        changes.iter().flat_map(difference).for_each(|line| out.line(line));
        let same = changes.len() - changing;
        let done = if args.dry_run { "would change" } else { "changed" };
        out.line(format!("{changing} {done}, {same} as they are"));
    });
    if args.exit_code && changing > 0 { Err(Failure::told()) } else { Ok(()) }
}

/// The schedules of a file, by name.
fn declared(path: &str) -> Outcome<BTreeMap<String, ScheduleBody>> {
    let mut text = String::new();
    let read = if path == "-" {
        std::io::stdin().lock().take(FILE_MAX_BYTES).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(FILE_MAX_BYTES).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::usage(format!("{path} cannot be read: {error}")))?;
    let table: toml::Table =
        toml::from_str(&text).map_err(|error| Failure::usage(format!("{path} is not TOML: {error}")))?;
    let mut schedules = BTreeMap::new();
    for (name, value) in table {
        match (name.as_str(), value) {
            ("schedules", toml::Value::Table(all)) => {
                let one = |(name, schedule)| match serde_json::from_value(as_json(schedule)) {
                    Ok(schedule) => Ok((name, schedule)),
                    Err(error) => Err(Failure::usage(format!("{path} has [schedules.{name}] with {error}"))),
                };
                schedules = all.into_iter().map(one).collect::<Outcome<_>>()?;
            }
            (other, _) => {
                let told = format!("{path} has [{other}]; each schedule is a table [schedules.NAME]");
                return Err(Failure::usage(told));
            }
        }
    }
    Ok(schedules)
}

fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(n) => n.into(),
        toml::Value::Float(n) => n.into(),
        toml::Value::Boolean(yes) => yes.into(),
        toml::Value::Datetime(at) => at.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(as_json).collect(),
        toml::Value::Table(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (key, as_json(value))).collect())
        }
    }
}

/// What becomes of one schedule, as lines of a diff.
fn difference(change: &Value) -> Vec<String> {
    let name = text(&change["name"]);
    match change["change"].as_str() {
        Some("added") => {
            let lines =
                fields(&change["after"]).into_iter().map(|(field, value)| format!("+   {field} = {value}"));
            [format!("+ {name}")].into_iter().chain(lines).collect()
        }
        Some("removed") => vec![format!("- {name}")],
        Some("changed") => {
            let (before, after) = (fields(&change["before"]), fields(&change["after"]));
            let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
            names.sort();
            names.dedup();
            let mut lines = vec![format!("~ {name}")];
            for field in names.into_iter().filter(|field| before.get(*field) != after.get(*field)) {
                lines.extend(before.get(field).map(|value| format!("-   {field} = {value}")));
                lines.extend(after.get(field).map(|value| format!("+   {field} = {value}")));
            }
            lines
        }
        _ => vec![],
    }
}

/// What a person wrote of a schedule, with the members of its job.
fn fields(schedule: &Value) -> Map<String, Value> {
    let own = WRITTEN.iter().filter_map(|field| Some((*field, schedule.get(field)?)));
    let own =
        own.filter(|(_, value)| !value.is_null()).map(|(field, value)| (field.to_owned(), value.clone()));
    let job = schedule["job"].as_object().into_iter().flatten();
    own.chain(job.map(|(field, value)| (format!("job.{field}"), value.clone()))).collect()
}

/// Enqueues slots of the past that have no job yet.
pub async fn backfill(args: BackfillArgs, door: &ApiClient, out: &Out) -> Outcome {
    let name = Name::parse("schedule", &args.name)?;
    let (from, to) = (Moment::At(args.from.0), Moment::At(args.to.0));
    let body = BackfillBody { from, to, dry_run: args.dry_run };
    let reply = door.backfill(&name, &body).await?;
    show::reply(out, &reply, |out, page| {
        let slots = list(page, "slots");
        for slot in slots {
            let job = match (slot["existed"] == true, args.dry_run) {
                (true, _) => format!("{} was there", text(&slot["job"])),
                (false, true) => "would be enqueued".to_owned(),
                (false, false) => text(&slot["job"]),
            };
            out.line(format!("{}  {job}", text(&slot["slot"])));
        }
        if slots.is_empty() {
            out.remark("windlass: the schedule has no slot there; an interval begins when it was made, or at starts_at");
        }
    });
    Ok(())
}
