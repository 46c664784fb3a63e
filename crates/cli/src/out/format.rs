//! In which form documents are printed: columns, JSON, YAML, or a text of the caller's own.

use super::visible;
use serde_json::Value;
use std::fmt::Write;
use std::str::FromStr;

/// The members that hold the rows of a document.
const ROWS: [&str; 10] =
    ["jobs", "events", "lines", "queues", "workers", "entries", "keys", "approvals", "findings", "codes"];
/// Words that YAML would not read as text.
const NOT_TEXT: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// A form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Format {
    /// Columns, shortened to be read.
    #[default]
    Table,
    /// Columns with everything in them.
    Wide,
    /// One document per line.
    Json,
    /// One document after the other.
    Yaml,
    /// A line per row: text with `{field}` and `{field.of.field}` in it.
    Template(String),
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "wide" => Ok(Self::Wide),
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            _ => match text.strip_prefix("template=") {
                Some(template) => Ok(Self::Template(template.replace("\\n", "\n").replace("\\t", "\t"))),
                None => Err("must be table, wide, json, yaml or template='{id} {status}'".to_owned()),
            },
        }
    }
}

/// A document as YAML.
pub fn yaml(value: &Value) -> String {
    let mut text = String::from("---");
    write_yaml(value, 0, &mut text);
    visible::yaml(&text)
}

/// Behind a colon or a dash, or at the beginning.
fn write_yaml(value: &Value, depth: usize, into: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                // Writing into a text does not fail.
                let _ = write!(into, "\n{indent}{}:", scalar(&Value::String(name.clone())));
                write_yaml(member, depth + 1, into);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(into, "\n{indent}-");
                write_yaml(item, depth + 1, into);
            }
        }
        other => {
            let _ = write!(into, " {}", scalar(other));
        }
    }
}

/// Text that nothing else could be as it stands, anything else as JSON, which is YAML too.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c))
        && !NOT_TEXT.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.clone() } else { value.to_string() }
}

/// The lines of a template: one per row of a document that has rows, else one.
pub fn filled(template: &str, value: &Value) -> Vec<String> {
    let rows = ROWS.iter().find_map(|name| value.get(name)?.as_array());
    match rows {
        Some(rows) => rows.iter().map(|row| fill(template, row)).collect(),
        None => vec![fill(template, value)],
    }
}

fn fill(template: &str, value: &Value) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, behind)) = rest.split_once('{') {
        text += before;
        let Some((path, after)) = behind.split_once('}') else { return text + "{" + behind };
        let found = path.split('.').try_fold(value, |value, name| match value {
            Value::Array(items) => name.parse::<usize>().ok().and_then(|n| items.get(n)),
            other => other.get(name),
        });
        text += &found.map(crate::show::text).unwrap_or_default();
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_is_read_back_as_what_it_was() {
        let value = json!({ "id": "0193", "kind": "email.send", "on": true, "n": 7, "nothing": null, "tags": ["a", "no"],
            "lease": { "worker": "w-1", "text": "a: b\n\"c\"" }, "none": [], "of": [{ "x": 1, "y": [2] }] });
        let expected = "---\nid: \"0193\"\nkind: email.send\n\"on\": true\n\"n\": 7\nnothing: null\ntags:\n  - a\n  - \"no\"\n\
                        lease:\n  worker: w-1\n  text: \"a: b\\n\\\"c\\\"\"\nnone: []\nof:\n  -\n    x: 1\n    \"y\":\n      - 2";
        assert_eq!(yaml(&value), expected);
    }

    #[test]
    fn a_template_takes_fields_of_each_row() {
        let page = json!({ "jobs": [{ "id": "a", "error": { "code": "x" } }, { "id": "b", "tags": ["t"] }] });
        assert_eq!(filled("{id} {error.code}|{tags.0}", &page), ["a x|", "b |t"]);
        assert_eq!(filled("{id}{", &json!({ "id": 7 })), ["7{"]);
        let Ok(Format::Template(tabbed)) = "template={a}\\t{b}".parse() else { panic!("a template") };
        assert_eq!(tabbed, "{a}\t{b}");
        assert!("xml".parse::<Format>().is_err());
    }
}
