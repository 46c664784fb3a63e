//! `windlass settings`: settings of the whole store, changed while everything runs.

use crate::api_client::ApiClient;
use crate::args::SettingsCommand;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::shape::Reply;
use crate::show::{self, text};
use serde_json::{Map, Value, json};

/// How often a change is made anew because somebody else was faster.
const TRIES: usize = 5;

/// Runs one of them.
pub async fn run(command: SettingsCommand, door: &ApiClient, out: &Out) -> Outcome {
    match command {
        SettingsCommand::Get { name: None } => show_all(out, &door.settings().await?),
        SettingsCommand::Get { name: Some(name) } => {
            let reply = door.settings().await?;
            let value = reply.value["settings"].get(&name).ok_or_else(|| unknown(&reply.value, &name))?;
            out.show(&json!({ &*name: value }), |out| out.line(shown(&name, value)));
        }
        SettingsCommand::Set { changes } => {
            let pair = |text: &String| {
                let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
                pair.ok_or_else(|| Failure::usage(format!("{text} is not NAME=VALUE, like missed_after=30s")))
            };
            let changes = changes.iter().map(pair).collect::<Outcome<Vec<_>>>()?;
            show_all(out, &set(&changes, door).await?);
        }
    }
    Ok(())
}

/// Changes only what was named: what others change meanwhile is read, and stays.
async fn set(changes: &[(String, String)], door: &ApiClient) -> Outcome<Reply> {
    let mut tries = 1;
    loop {
        let now = door.settings().await?.value;
        let mut settings = now["settings"].as_object().cloned().unwrap_or_default();
        for (name, value) in changes {
            if !settings.contains_key(name) {
                return Err(unknown(&now, name));
            }
            change(&mut settings, name, value);
        }
        let version = now["version"].as_i64().unwrap_or_default();
        match door.put_settings(&settings, version).await {
            Err(failure) if failure.code == "version_mismatch" && tries < TRIES => tries += 1,
            end => return end,
        }
    }
}

fn change(settings: &mut Map<String, Value>, name: &str, value: &str) {
    if value == "default" {
        settings.remove(name);
        return;
    }
    // A number is one, unless it is a time: `30` and `30s` are both seconds there. Lists and truth values are JSON.
    let is_json = value.starts_with('[') || ["true", "false"].contains(&value);
    let json = || serde_json::from_str(value).ok().filter(|_| is_json);
    let value = value.parse::<i64>().map_or_else(|_| json().unwrap_or_else(|| value.into()), Value::from);
    settings.insert(name.to_owned(), value);
}

fn unknown(state: &Value, name: &str) -> Failure {
    let names = state["settings"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
    Failure::usage(format!("there is no setting {name}; there are {}", names.unwrap_or_default().join(", ")))
}

/// A value for people: a time in seconds says so.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Null if name == "cancel_idle_after" => "never".to_owned(),
        Value::Null if ["tombstones_kept", "log_bodies_kept"].contains(&name) => "for ever".to_owned(),
        Value::Null => "as each server was started".to_owned(),
        Value::Number(_) if !["missed_max", "webhooks_per_minute"].contains(&name) => {
            let ms = value.as_f64().map(|seconds| seconds * 1_000.0).and_then(windlass_core::span::from_ms);
            ms.map_or_else(|| text(value), windlass_core::span::to_text)
        }
        other => text(other),
    }
}

fn show_all(out: &Out, reply: &Reply) {
    show::reply(out, reply, |out, state| {
        let all = state["settings"].as_object().cloned().unwrap_or_default();
        let rows: Vec<_> = all.iter().map(|(name, value)| vec![name.clone(), shown(name, value)]).collect();
        out.table(&["SETTING", "VALUE"], &rows, "there is no setting");
        let by = match &state["changed_by"] {
            Value::String(by) => {
                format!("version {}, by {by} at {}", state["version"], text(&state["changed_at"]))
            }
            _ => "nobody changed anything yet".to_owned(),
        };
        out.remark(format!("windlass: {by}"));
    });
}
