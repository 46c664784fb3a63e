//! JSON with places that are filled in from an event.
//!
//! A place is `{{path}}` within a string: `{{payload}}`, `{{payload.user.id}}`, `{{payload.items.0}}`, `{{trigger}}`,
//! `{{event.id}}`, `{{event.dedupe_key}}`, `{{event.received_at}}`. A string that is one place becomes the value itself,
//! whatever it is; within other text it becomes text. A path that is not there is an error, unless it ends with `?`: then
//! it is null, and nothing within text.

use super::TriggerEvent;
use crate::limits::{Invalid, PAYLOAD_MAX_BYTES};
use crate::payload::Payload;
use serde_json::Value;

/// The largest template, in bytes.
pub const TEMPLATE_MAX_BYTES: usize = 64 << 10;

/// A piece of a text.
enum Piece<'t> {
    Text(&'t str),
    Place { path: Vec<&'t str>, whole: &'t str, optional: bool },
}

/// The pieces of a text; refused if a place is not well written.
fn pieces<'t>(field: &str, text: &'t str) -> Result<Vec<Piece<'t>>, Invalid> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let open = || Invalid::new(field, text, "a place that begins with {{ must end with }}");
        let (inside, after) = after.split_once("}}").ok_or_else(open)?;
        let whole = inside.trim();
        let (path, optional) = whole.strip_suffix('?').map_or((whole, false), |path| (path, true));
        let path: Vec<&str> = path.split('.').collect();
        let is_known = match path.as_slice() {
            ["payload", ..] => true,
            ["trigger"] => true,
            ["event", part] => ["id", "dedupe_key", "received_at"].contains(part),
            _ => false,
        };
        if !is_known || path.iter().any(|part| part.is_empty()) {
            let why = "a place must be {{payload}}, {{payload.some.path}}, {{trigger}}, {{event.id}}, \
                       {{event.dedupe_key}} or {{event.received_at}}";
            return Err(Invalid::new(field, format!("{{{{{whole}}}}}"), why));
        }
        if !before.is_empty() {
            found.push(Piece::Text(before));
        }
        found.push(Piece::Place { path, whole, optional });
        rest = after;
    }
    if !rest.is_empty() || found.is_empty() {
        found.push(Piece::Text(rest));
    }
    Ok(found)
}

/// Accepts a template whose places are well written.
pub fn check(field: &str, template: &Value) -> Result<(), Invalid> {
    Payload::from_value(field, template, TEMPLATE_MAX_BYTES)?;
    strings(template, &mut |text| pieces(field, text).map(|_| ()))
}

fn strings(value: &Value, see: &mut impl FnMut(&str) -> Result<(), Invalid>) -> Result<(), Invalid> {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().try_for_each(|item| strings(item, see)),
        Value::Object(members) => members.values().try_for_each(|member| strings(member, see)),
        _ => Ok(()),
    }
}

/// The payload of a job: the template, filled in.
pub fn fill(field: &str, template: &Value, event: &TriggerEvent) -> Result<Payload, Invalid> {
    let payload = match &event.payload {
        None => Value::Null,
        Some(payload) if payload.is_json() => payload.parse().map_err(|e| {
            Invalid::new(field, "not JSON", format!("the template needs a payload that is JSON: {e}"))
        })?,
        Some(_) => {
            return Err(Invalid::new(field, "bytes", "the template needs a payload that is JSON"));
        }
    };
    let mut filling = Filling { field, event, payload: &payload, room: PAYLOAD_MAX_BYTES };
    Payload::from_value(field, &filling.value(template)?, PAYLOAD_MAX_BYTES)
}

struct Filling<'e> {
    field: &'e str,
    event: &'e TriggerEvent,
    payload: &'e Value,
    /// How many bytes may still be filled in: many places for one large value would not fit into memory.
    room: usize,
}

impl Filling<'_> {
    fn value(&mut self, template: &Value) -> Result<Value, Invalid> {
        Ok(match template {
            Value::String(text) => self.text(text)?,
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let filled = members.iter().map(|(key, member)| Ok((key.clone(), self.value(member)?)));
                Value::Object(filled.collect::<Result<_, Invalid>>()?)
            }
            other => other.clone(),
        })
    }

    fn text(&mut self, text: &str) -> Result<Value, Invalid> {
        let pieces = pieces(self.field, text)?;
        if let [Piece::Place { path, whole, optional }] = pieces.as_slice() {
            return self.look_up(path, whole, *optional);
        }
        let mut filled = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Place { path, whole, optional } => match self.look_up(&path, whole, optional)? {
                    Value::Null if optional => {}
                    Value::String(text) => filled.push_str(&text),
                    other => filled.push_str(&other.to_string()),
                },
            }
        }
        Ok(Value::String(filled))
    }

    fn look_up(&mut self, path: &[&str], whole: &str, optional: bool) -> Result<Value, Invalid> {
        let own = |text: String| Some(Value::String(text));
        let event = self.event;
        let found = match path {
            ["payload", inside @ ..] => {
                let found = inside.iter().try_fold(self.payload, |value, part| match value {
                    Value::Array(items) => items.get(part.parse::<usize>().ok()?),
                    other => other.get(part),
                });
                self.spend(found)?;
                found.cloned()
            }
            ["trigger"] => own(event.trigger.to_string()),
            ["event", "id"] => own(event.id.to_string()),
            ["event", "received_at"] => own(event.received_at.to_string()),
            ["event", "dedupe_key"] => event.dedupe_key.as_ref().and_then(|key| own(key.to_string())),
            _ => None,
        };
        match found {
            Some(value) => Ok(value),
            None if optional => Ok(Value::Null),
            None => {
                let why = format!("is not in the event; send it, or write {{{{{whole}?}}}} in the template");
                Err(Invalid::new(self.field, format!("{{{{{whole}}}}}"), why))
            }
        }
    }

    fn spend(&mut self, value: Option<&Value>) -> Result<(), Invalid> {
        let size = value.map_or(0, |value| value.to_string().len());
        self.room = self.room.checked_sub(size).ok_or_else(|| {
            let limit = format!("at most {PAYLOAD_MAX_BYTES} bytes once it is filled in");
            Invalid::new(self.field, "a template that grows too large", limit)
        })?;
        Ok(())
    }
}
