//! What comes out: a table for people on standard output, JSON for programs.

use crate::args::{Args, Kind};
use crate::growth::{Cost, Costs, Growth, thousands};
use crate::measure::{Sample, median};
use crate::raw::Limit;
use crate::worker::Found;
use serde_json::{Value, json};

/// Everything that was measured.
#[derive(Default)]
pub struct Report {
    pub lines: Vec<Line>,
    pub growth: Vec<(Kind, Growth)>,
    pub workers: Vec<Found>,
    raw: Vec<Line>,
}

/// One case on one store, or one raw limit.
pub struct Line {
    pub store: &'static str,
    pub case: &'static str,
    pub samples: Vec<Sample>,
    /// Each run against the raw limit measured right before it.
    pub ratios: Vec<f64>,
    /// Each run against the fastest peer, run right before it.
    pub of_peer: Vec<f64>,
}

impl Line {
    pub fn new(store: &'static str, case: &'static str) -> Self {
        Self { store, case, samples: Vec::new(), ratios: Vec::new(), of_peer: Vec::new() }
    }

    fn per_second(&self) -> Option<f64> {
        median(self.samples.iter().map(Sample::per_second))
    }

    fn of_samples(&self, number: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        median(self.samples.iter().filter_map(number))
    }

    fn ratio(&self) -> Option<f64> {
        median(self.ratios.iter().copied())
    }

    fn of_peer(&self) -> Option<f64> {
        median(self.of_peer.iter().copied())
    }

    fn cells(&self) -> [String; 10] {
        [
            self.store.to_owned(),
            self.case.to_owned(),
            thousands(self.samples.first().map_or(0, |s| s.count)),
            cell(self.per_second(), |n| thousands(n.round() as usize)),
            cell(self.of_samples(Sample::cpu_us), |us| format!("{us:.1}")),
            cell(self.of_samples(Sample::server_cpu_us), |us| format!("{us:.1}")),
            cell(self.of_samples(Sample::wal_bytes), |bytes| thousands(bytes.round() as usize)),
            cell(self.of_samples(Sample::dead_rows), |rows| format!("{rows:.1}")),
            cell(self.ratio(), |ratio| format!("{ratio:.2}")),
            cell(self.of_peer(), |ratio| format!("{ratio:.2}")),
        ]
    }

    fn to_json(&self) -> Value {
        json!({
            "store": self.store,
            "case": self.case,
            "count": self.samples.first().map_or(0, |s| s.count),
            "per_second": self.per_second(),
            "per_second_of_runs": self.samples.iter().map(Sample::per_second).collect::<Vec<_>>(),
            "cpu_us": self.of_samples(Sample::cpu_us),
            "server_cpu_us": self.of_samples(Sample::server_cpu_us),
            "wal_bytes": self.of_samples(Sample::wal_bytes),
            "dead_rows": self.of_samples(Sample::dead_rows),
            "ratio_to_raw": self.ratio(),
            "ratio_to_peer": self.of_peer(),
        })
    }
}

impl Report {
    /// The line of a raw limit, shared by all cases that are compared with it.
    pub fn raw(&mut self, kind: Kind, limit: Limit) -> &mut Line {
        let is = |line: &Line| line.store == kind.name() && line.case == limit.name();
        let place = self.raw.iter().position(is).unwrap_or_else(|| {
            self.raw.push(Line::new(kind.name(), limit.name()));
            self.raw.len() - 1
        });
        &mut self.raw[place]
    }

    pub fn print(&self) {
        let lines: Vec<_> = self.raw.iter().chain(&self.lines).map(Line::cells).collect();
        if !lines.is_empty() {
            let head = [
                "store",
                "case",
                "jobs",
                "jobs/s",
                "CPU µs/job",
                "server µs/job",
                "WAL B/job",
                "dead rows/job",
                "of raw",
                "of peer",
            ];
            print_table(&head, 2, &lines);
        }
        for Found { store, case, numbers } in &self.workers {
            let numbers: Vec<String> = numbers.iter().map(|(name, n)| format!("{name} {n:.2}")).collect();
            println!("{store}  {case}: {}", numbers.join(", "));
        }
        for (kind, growth) in &self.growth {
            let print = |what, number: fn(&Cost) -> Option<f64>| print_growth(*kind, what, growth, number);
            print("median µs per call", |call| call.median_us);
            print("mean µs per call", |call| call.mean_us);
            print("CPU µs per call", |call| call.cpu_us);
            print("CPU µs per call of the database's server", |call| call.server_cpu_us);
        }
    }

    pub fn to_json(&self, args: &Args) -> Value {
        let growth = |(kind, growth): &(Kind, Growth)| {
            let level = |at: &Costs| {
                let mut level = json!({ "level": at.level, "claims_of_kind": at.claims_of_kind });
                for (name, call) in growth.calls.iter().zip(&at.calls) {
                    level[*name] = json!({
                        "median_us": call.median_us,
                        "mean_us": call.mean_us,
                        "cpu_us": call.cpu_us,
                        "server_cpu_us": call.server_cpu_us,
                    });
                }
                level
            };
            let levels: Vec<Value> = growth.levels.iter().map(level).collect();
            json!({ "store": kind.name(), "case": growth.case, "levels": levels })
        };
        json!({
            "jobs": args.jobs,
            "repeat": args.repeat,
            "quick": args.quick,
            "full": args.full,
            "cases": self.raw.iter().chain(&self.lines).map(Line::to_json).collect::<Vec<_>>(),
            "workers": self.workers.iter().map(of_worker).collect::<Vec<_>>(),
            "growth": self.growth.iter().map(growth).collect::<Vec<_>>(),
        })
    }
}

fn of_worker(found: &Found) -> Value {
    let mut value = json!({ "store": found.store, "case": found.case });
    for (name, number) in &found.numbers {
        value[*name] = json!(number);
    }
    value
}

/// One number of every call at every level, with its ratio to the first level; nothing where there is none.
fn print_growth(kind: Kind, what: &str, growth: &Growth, number: impl Fn(&Cost) -> Option<f64>) {
    let costs = &growth.levels;
    if costs.iter().all(|at| at.calls.iter().all(|call| number(call).is_none())) {
        return;
    }
    let show = |at: &Costs, call: usize| {
        let first = costs.first().and_then(|first| number(&first.calls[call])).filter(|us| *us > 0.0);
        match (number(&at.calls[call]), first) {
            (Some(us), Some(first)) => format!("{us:.0} ×{:.2}", us / first),
            (us, _) => cell(us, |us| format!("{us:.0}")),
        }
    };
    let of_kind = costs.iter().any(|at| at.claims_of_kind.is_some());
    let row = |at: &Costs| {
        let mut cells = vec![at.level.clone()];
        cells.extend((0..growth.calls.len()).map(|call| show(at, call)));
        cells.extend(of_kind.then(|| cell(at.claims_of_kind, |n| format!("{n:.1}"))));
        cells
    };
    println!("\n{}, {}: {what}, and its ratio to the first line", kind.name(), growth.case);
    let head: Vec<&str> = ["level"]
        .into_iter()
        .chain(growth.calls.iter().copied())
        .chain(of_kind.then_some("claims until found"))
        .collect();
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
