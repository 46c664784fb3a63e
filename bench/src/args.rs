//! The command line: which stores, which cases, how many jobs.

use crate::cases::{CASES, Case};
use crate::growth::Sizes;
use std::fmt::Write;
use std::path::PathBuf;

/// The case that is run once and only when named: it takes minutes and gigabytes.
const GROWTH: &str = "growth";
/// What `--quick` divides every size by.
const QUICK: usize = 50;

/// A store that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Memory,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Sqlite, Self::Memory];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Memory => "memory",
        }
    }

    /// Whether the raw limit of SQLite says something about this store.
    pub fn has_raw_limit(self) -> bool {
        self == Self::Sqlite
    }
}

/// What was asked for.
pub struct Args {
    pub stores: Vec<Kind>,
    pub cases: Vec<&'static Case>,
    pub growth: bool,
    /// Jobs per case.
    pub jobs: usize,
    pub repeat: usize,
    pub json: Option<PathBuf>,
    pub quick: bool,
}

impl Args {
    /// Reads the words after the program's name; none when help was asked for.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut stores, mut named, mut jobs) = (Kind::ALL.to_vec(), None, None);
        let (mut repeat, mut json, mut quick) = (3, None, false);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--quick" => quick = true,
                "--store" => stores = stores_of(&value()?)?,
                "--case" => named = Some(value()?),
                "--jobs" => jobs = Some(number("--jobs", &value()?)?),
                "--repeat" => repeat = number("--repeat", &value()?)?,
                "--json" => json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {word:?}")),
            }
        }
        let (cases, growth) = match named {
            None => (CASES.iter().collect(), quick),
            Some(names) => cases_of(&names)?,
        };
        let jobs = jobs.unwrap_or(if quick { 100_000 / QUICK } else { 100_000 });
        Ok(Some(Self { stores, cases, growth, jobs, repeat, json, quick }))
    }

    /// How far `growth` goes. In memory a finished job takes about 2.5 kB, so a fifth must do.
    pub fn growth_sizes(&self, kind: Kind) -> Sizes {
        let finished = if kind == Kind::Memory { 1_000_000 } else { 5_000_000 };
        let (by, rounds) = if self.quick { (QUICK, 100) } else { (1, 1_000) };
        Sizes { finished: finished / by, waiting: 1_000_000 / by, rounds }
    }
}

fn stores_of(name: &str) -> Result<Vec<Kind>, String> {
    let found: Vec<Kind> = Kind::ALL.into_iter().filter(|k| name == "all" || name == k.name()).collect();
    if found.is_empty() { Err(format!("no store is called {name:?}")) } else { Ok(found) }
}

fn cases_of(names: &str) -> Result<(Vec<&'static Case>, bool), String> {
    let (mut cases, mut growth) = (Vec::new(), false);
    for name in names.split(',') {
        match CASES.iter().find(|c| c.name == name) {
            Some(case) => cases.push(case),
            None if name == GROWTH => growth = true,
            None => return Err(format!("no case is called {name:?}")),
        }
    }
    Ok((cases, growth))
}

fn number(option: &str, text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("{option} {text:?} is not a number above 0")),
    }
}

/// What `--help` prints.
pub fn help() -> String {
    let mut text = String::from(
        "Measures the stores of Windlass: jobs per second, CPU time per job, and the ratio to what SQLite\n\
         itself does in the same run.\n\n\
         Usage: windlass-bench [OPTIONS]\n\n\
         Options:\n\
         \x20 --store NAME        sqlite, memory or all [all]\n\
         \x20 --case NAME[,NAME]  only these cases [all but growth]\n\
         \x20 --jobs N            jobs per case; enqueue-1 gets a tenth, enqueue-10 half [100000]\n\
         \x20 --repeat N          runs per case; the median counts [3]\n\
         \x20 --json FILE         also write every number there\n\
         \x20 --quick             all sizes divided by 50, and growth too: shows that it works, not how fast\n\
         \x20 --help              this text\n\n\
         Cases:\n",
    );
    for case in CASES {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:<14}  {}", case.name, case.about);
    }
    text.push_str(
        "  growth          one call's cost from an empty store to 5 M finished, 1 M future and 1 M other jobs\n\n\
         Examples:\n\
         \x20 windlass-bench --quick\n\
         \x20 windlass-bench --store sqlite --case drain,life --jobs 200000\n\
         \x20 windlass-bench --store sqlite --case growth --json growth.json\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Args>, String> {
        Args::parse(line.split_ascii_whitespace().map(str::to_owned))
    }

    #[test]
    fn everything_has_a_default() {
        let args = parse("").unwrap().unwrap();
        assert_eq!((args.stores.len(), args.cases.len(), args.growth), (2, CASES.len(), false));
        assert_eq!((args.jobs, args.repeat), (100_000, 3));
    }

    #[test]
    fn quick_divides_every_size_and_says_so_for_growth() {
        let args = parse("--quick --store sqlite").unwrap().unwrap();
        assert_eq!(
            (args.jobs, args.growth, args.growth_sizes(Kind::Sqlite).finished),
            (2_000, true, 100_000)
        );
        assert_eq!(parse("--quick --jobs 7_000").unwrap().unwrap().jobs, 7_000);
    }

    #[test]
    fn cases_are_picked_by_name() {
        let args = parse("--case drain,growth --store memory").unwrap().unwrap();
        assert_eq!((args.cases[0].name, args.cases.len(), args.growth), ("drain", 1, true));
        assert_eq!(args.stores, [Kind::Memory]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for line in ["--case nothing", "--store nothing", "--jobs 0", "--jobs", "--nothing"] {
            assert!(parse(line).err().unwrap().contains(line.split(' ').next_back().unwrap()), "{line}");
        }
        assert!(parse("--help").unwrap().is_none());
        assert!(CASES.iter().all(|c| help().contains(c.name)));
    }
}
