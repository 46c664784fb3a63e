//! Text of others made harmless for a terminal: a control character would be a command to it, and a character that turns the
//! direction of writing or is not seen would make the text read as something else.

use std::fmt::Write as _;
use std::io::{self, Write};
use windlass_core::limits::is_hidden;

/// One line of text: what is hidden becomes the replacement character.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c != '\t' && is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// The same for a text of several lines.
pub fn lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// The same for a text with the colours of this program in it.
pub fn coloured(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    each_part(text, |part| match part {
        Part::Colour(colour) => safe += colour,
        Part::Character(c) => safe.push(if is_unsafe(c) { '\u{fffd}' } else { c }),
    });
    safe
}

/// JSON in which nothing is hidden: `\u202e` in a text is the same text.
pub fn json(text: &str) -> String {
    escaped(text, |into, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing into a text does not fail.
            let _ = write!(into, "\\u{unit:04x}");
        }
    })
}

/// YAML in which nothing is hidden. It knows no pairs of units.
pub fn yaml(text: &str) -> String {
    escaped(text, |into, c| {
        let _ = if c > '\u{ffff}' {
            write!(into, "\\U{:08x}", u32::from(c))
        } else {
            write!(into, "\\u{:04x}", u32::from(c))
        };
    })
}

fn escaped(text: &str, escape: impl Fn(&mut String, char)) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) { escape(&mut safe, c) } else { safe.push(c) }
    }
    safe
}

fn is_unsafe(c: char) -> bool {
    !matches!(c, '\t' | '\n') && is_hidden(c)
}

enum Part<'a> {
    /// `ESC [ … m`: how the text behind it looks, and nothing else.
    Colour(&'a str),
    Character(char),
}

fn each_part<'a>(text: &'a str, mut take: impl FnMut(Part<'a>)) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match rest.strip_prefix("\x1b[") {
            Some(behind) => behind
                .find(|c: char| !c.is_ascii_digit() && c != ';')
                .filter(|end| behind[*end..].starts_with('m'))
                .map(|end| end + 3),
            None => None,
        };
        let (part, length) = match length {
            Some(length) => (Part::Colour(&rest[..length]), length),
            None => (Part::Character(c), c.len_utf8()),
        };
        take(part);
        rest = &rest[length..];
    }
}

/// What a log is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// Lines for people.
    Text,
    /// Lines for people, with colours.
    Coloured,
    /// A JSON document per line.
    Json,
}

/// Writes a log: errors in it may carry text of others.
#[derive(Debug)]
pub struct LogWriter<W> {
    form: LogForm,
    to: W,
}

impl<W> LogWriter<W> {
    /// Writes to `to`.
    pub fn new(form: LogForm, to: W) -> Self {
        Self { form, to }
    }
}

impl<W: Write> Write for LogWriter<W> {
    /// An event comes in one piece, so no character is cut.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let safe = match self.form {
            LogForm::Text => lines(&text),
            LogForm::Coloured => coloured(&text),
            LogForm::Json => json(&text),
        };
        self.to.write_all(safe.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const EVIL: &str = "exe.\u{202e}gpj\u{200b}\u{9b}2J\u{1b}[2J\u{e0041}";

    #[test]
    fn a_text_of_others_commands_no_terminal() {
        assert_eq!(plain("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(plain("exe.\u{202e}gpj\u{200b}\u{9b}2J"), "exe.\u{fffd}gpj\u{fffd}\u{fffd}2J");
        assert_eq!(plain("Grüße, 你好, ok"), "Grüße, 你好, ok");
        assert_eq!(
            coloured("\x1b[1;31mred\x1b[0m\n\x1b[2J\x1b[31"),
            "\x1b[1;31mred\x1b[0m\n\u{fffd}[2J\u{fffd}[31"
        );
    }

    #[test]
    fn what_is_escaped_is_the_same_value() {
        let value = json!({ EVIL: ["Grüße\n", EVIL] });
        let text = json(&value.to_string());
        assert!(text.is_ascii() || !text.chars().any(is_hidden), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(yaml("\"\u{202e}\u{e0041}\"\n"), "\"\\u202e\\U000e0041\"\n");
    }

    #[test]
    fn a_log_keeps_its_lines_and_nothing_hidden() {
        for (form, expected) in [
            (LogForm::Text, "WARN a\u{fffd}b\u{fffd}[31mc\n"),
            (LogForm::Coloured, "WARN a\u{fffd}b\u{1b}[31mc\n"),
            (LogForm::Json, "WARN a\\u202eb\\u001b[31mc\n"),
        ] {
            let mut log = LogWriter::new(form, Vec::new());
            log.write_all("WARN a\u{202e}b\u{1b}[31mc\n".as_bytes()).unwrap();
            assert_eq!(String::from_utf8(log.to).unwrap(), expected, "{form:?}");
        }
    }
}
