//! What comes out: a table for people on standard output, JSON for programs.

use crate::args::{Args, Kind};
use crate::growth::{CALLS, Cost, Costs, thousands};
use crate::measure::{Sample, median};
use crate::raw::Limit;
use serde_json::{Value, json};

/// Everything that was measured.
#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
    pub growth: Vec<(Kind, Vec<Costs>)>,
    raw: Vec<Line>,
}

/// One case on one store, or one raw limit.
pub struct Line {
    pub store: &'static str,
    pub case: &'static str,
    pub samples: Vec<Sample>,
    /// Each run against the raw limit measured right before it.
    pub ratios: Vec<f64>,
}

impl Line {
    pub fn new(store: &'static str, case: &'static str) -> Self {
        Self { store, case, samples: Vec::new(), ratios: Vec::new() }
    }

    fn per_second(&self) -> Option<f64> {
        median(self.samples.iter().map(Sample::per_second))
    }

    fn cpu_us(&self) -> Option<f64> {
        median(self.samples.iter().filter_map(Sample::cpu_us))
    }

    fn ratio(&self) -> Option<f64> {
        median(self.ratios.iter().copied())
    }

    fn cells(&self) -> [String; 6] {
        [
            self.store.to_owned(),
            self.case.to_owned(),
            thousands(self.samples.first().map_or(0, |s| s.count)),
            cell(self.per_second(), |n| thousands(n.round() as usize)),
            cell(self.cpu_us(), |us| format!("{us:.1}")),
            cell(self.ratio(), |ratio| format!("{ratio:.2}")),
        ]
    }

    fn to_json(&self) -> Value {
        json!({
            "store": self.store,
            "case": self.case,
            "count": self.samples.first().map_or(0, |s| s.count),
            "per_second": self.per_second(),
            "per_second_of_runs": self.samples.iter().map(Sample::per_second).collect::<Vec<_>>(),
            "cpu_us": self.cpu_us(),
            "ratio_to_raw": self.ratio(),
        })
    }
}

impl Report {
    /// The line of a raw limit, shared by all cases that are compared with it.
    pub fn raw(&mut self, limit: Limit) -> &mut Line {
        let place = self.raw.iter().position(|line| line.case == limit.name()).unwrap_or_else(|| {
            self.raw.push(Line::new("sqlite", limit.name()));
            self.raw.len() - 1
        });
        &mut self.raw[place]
    }

    pub fn print(&self) {
        let lines: Vec<_> = self.raw.iter().chain(&self.lines).map(Line::cells).collect();
        if !lines.is_empty() {
            let head = ["store", "case", "jobs", "jobs/s", "CPU µs/job", "of raw"];
            print_table(&head, 2, &lines);
        }
        for (kind, costs) in &self.growth {
            print_growth(kind.name(), "median µs per call", costs, |call| call.median_us);
            print_growth(kind.name(), "CPU µs per call", costs, |call| call.cpu_us);
        }
    }

    pub fn to_json(&self, args: &Args) -> Value {
        let growth = |(kind, costs): &(Kind, Vec<Costs>)| {
            let level = |at: &Costs| {
                let mut level = json!({ "level": at.level, "claims_of_kind": at.claims_of_kind });
                for (name, call) in CALLS.iter().zip(&at.calls) {
                    level[*name] = json!({ "median_us": call.median_us, "cpu_us": call.cpu_us });
                }
                level
            };
            json!({ "store": kind.name(), "levels": costs.iter().map(level).collect::<Vec<_>>() })
        };
        json!({
            "jobs": args.jobs,
            "repeat": args.repeat,
            "quick": args.quick,
            "cases": self.raw.iter().chain(&self.lines).map(Line::to_json).collect::<Vec<_>>(),
            "growth": self.growth.iter().map(growth).collect::<Vec<_>>(),
        })
    }
}

/// One number of every call at every level, with its ratio to the first level.
fn print_growth(store: &str, what: &str, costs: &[Costs], number: impl Fn(&Cost) -> Option<f64>) {
    let show = |at: &Costs, call: usize| {
        let empty = costs.first().and_then(|empty| number(&empty.calls[call])).filter(|us| *us > 0.0);
        match (number(&at.calls[call]), empty) {
            (Some(us), Some(empty)) => format!("{us:.0} ×{:.2}", us / empty),
            (us, _) => cell(us, |us| format!("{us:.0}")),
        }
    };
    let row = |at: &Costs| {
        let mut cells = vec![at.level.clone()];
        cells.extend((0..CALLS.len()).map(|call| show(at, call)));
        cells.push(format!("{:.1}", at.claims_of_kind));
        cells
    };
    println!("\n{store}, {what}, and its ratio to the empty store");
    let head: Vec<&str> = ["level"].into_iter().chain(CALLS).chain(["claims until found"]).collect();
    print_table(&head, 1, &costs.iter().map(row).collect::<Vec<_>>());
}

/// A number, or a dash where there is none.
fn cell(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// Columns as wide as their widest cell: the first `words` of them to the left, numbers to the right.
fn print_table<R: AsRef<[String]>>(head: &[&str], words: usize, rows: &[R]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row.as_ref()[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let print = |cells: &mut dyn Iterator<Item = &str>| {
        for (column, text) in cells.enumerate() {
            let gap = " ".repeat(width(column) - text.chars().count());
            if column < words { print!("{text}{gap}  ") } else { print!("{gap}{text}  ") }
        }
        println!();
    };
    print(&mut head.iter().copied());
    for row in rows {
        print(&mut row.as_ref().iter().map(String::as_str));
    }
}
