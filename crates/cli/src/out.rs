//! What is printed: JSON for programs, aligned columns for people, colours only on a terminal.

pub mod format;
pub mod visible;

use crate::fail::{Exit, Failure};
use format::Format;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
pub use visible::{lines, plain};

/// Where a command prints.
#[derive(Debug)]
pub struct Out {
    /// Whether a program reads it.
    pub is_json: bool,
    format: Format,
    has_colour: bool,
}

impl Out {
    /// Prints to standard output.
    pub fn new(format: Format) -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_json = !matches!(format, Format::Table | Format::Wide);
        Self { is_json, format, has_colour: !is_json && is_wanted && io::stdout().is_terminal() }
    }

    /// Shortened to fit a column, unless everything is wanted.
    pub fn short(&self, text: &str, most: usize) -> String {
        if self.format == Format::Wide || text.chars().count() <= most {
            return text.to_owned();
        }
        text.chars().take(most - 1).chain(['…']).collect()
    }

    /// One line, with nothing hidden in it. A reader that went away, as `head` does, ends the command quietly.
    pub fn line(&self, text: impl AsRef<str>) {
        let text = if self.has_colour { visible::coloured(text.as_ref()) } else { lines(text.as_ref()) };
        if let Err(error) = writeln!(io::stdout().lock(), "{text}") {
            let is_gone = error.kind() == io::ErrorKind::BrokenPipe;
            std::process::exit(if is_gone { 0 } else { i32::from(Exit::Failed as u8) });
        }
    }

    /// A document for programs: its text as it came but for what is hidden, or the form that was asked for.
    pub fn document(&self, value: &Value, text: &str) {
        match &self.format {
            Format::Yaml => self.line(format::yaml(value)),
            Format::Template(template) => {
                for line in format::filled(template, value) {
                    self.line(line);
                }
            }
            _ => self.line(visible::json(text)),
        }
    }

    /// A document for people who want all of it.
    pub fn whole(&self, value: &Value) {
        self.line(visible::json(&format!("{value:#}")));
    }

    /// A document for programs, or what `people` makes of it.
    pub fn show(&self, value: &Value, people: impl FnOnce(&Self)) {
        if self.is_json { self.document(value, &value.to_string()) } else { people(self) }
    }

    /// Begins the screen anew, or leaves a line empty where there is no screen.
    pub fn clear(&self) {
        if io::stdout().is_terminal() {
            let _ = write!(io::stdout().lock(), "\x1b[H\x1b[2J\x1b[3J");
        } else if !self.is_json {
            self.line("");
        }
    }

    /// Columns, with a head. Says so when there is nothing.
    pub fn table(&self, head: &[&str], rows: &[Vec<String>], nothing: &str) {
        if rows.is_empty() {
            self.line(nothing);
            return;
        }
        let width = |column: usize| {
            let of = |row: &Vec<String>| row.get(column).map_or(0, |cell| cell.chars().count());
            rows.iter().map(of).chain([head[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let names: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
        self.line(self.bold(&aligned(&names, &widths, |_, cell| cell)));
        for row in rows {
            let paint = |column: usize, cell: String| {
                if head[column] == "STATUS" { self.status(&cell) } else { cell }
            };
            self.line(aligned(row, &widths, paint));
        }
    }

    /// `name  value` lines.
    pub fn fields(&self, fields: &[(&str, String)]) {
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in fields {
            let name = format!("{name:width$}");
            // The lines of a longer text stand below one another.
            let value = value.replace('\n', &format!("\n{:width$}  ", ""));
            self.line(format!("{}  {value}", self.dim(&name)));
        }
    }

    /// Tells what went wrong on standard error, and what the process ends with.
    pub fn fail(&self, failure: &Failure) -> ExitCode {
        if !failure.is_told {
            let told = if self.format == Format::Json {
                visible::json(&failure.to_json().to_string())
            } else {
                format!("windlass: {}", lines(&failure.detail))
            };
            // Nobody is left to be told that standard error is closed.
            let _ = writeln!(io::stderr().lock(), "{told}");
        }
        ExitCode::from(failure.exit as u8)
    }

    /// A remark beside the output, for people only.
    pub fn remark(&self, text: impl AsRef<str>) {
        if !self.is_json {
            let _ = writeln!(io::stderr().lock(), "{}", lines(text.as_ref()));
        }
    }

    /// How far long work is. It hides itself where standard error is no terminal.
    pub fn bar(&self, total: u64, what: &str) -> ProgressBar {
        if self.is_json {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(total);
        if let Ok(style) =
            ProgressStyle::with_template(&format!("{{bar:40}} {{pos}}/{{len}} {what}, {{eta}} left"))
        {
            bar.set_style(style);
        }
        bar
    }

    /// That long work of unknown length goes on, and what it says.
    pub fn spinner(&self) -> ProgressBar {
        if self.is_json {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    /// A status in its colour, padding included.
    pub fn status(&self, word: &str) -> String {
        let colour = match word.trim() {
            "completed" | "approved" | "ok" => "32",
            "failed" | "timed_out" | "denied" | "expired" | "problem" => "31",
            "running" | "assigned" => "36",
            "retry" | "orphaned" | "waiting" | "paused" | "warning" => "33",
            "cancelled" | "void" => "90",
            _ => return word.to_owned(),
        };
        self.paint(colour, word)
    }

    /// Bold text.
    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Faint text.
    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.has_colour { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn aligned(row: &[String], widths: &[usize], paint: impl Fn(usize, String) -> String) -> String {
    let last = row.len().saturating_sub(1);
    let cell = |(column, text): (usize, &String)| {
        let width = if column == last { 0 } else { widths[column] };
        paint(column, format!("{}{}", plain(text), " ".repeat(width.saturating_sub(text.chars().count()))))
    };
    row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ")
}
