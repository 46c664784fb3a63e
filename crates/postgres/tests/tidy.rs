//! The house rules for SQL: one statement per file, every file used, every parameter named, both stores alike.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The files of a folder with an ending, by name, with their text.
fn files(folder: &str, ending: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(here(folder)).unwrap_or_else(|e| panic!("{folder}: {e}")) {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == ending) {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            found.insert(name, std::fs::read_to_string(&path).expect("a text"));
        }
    }
    found
}

/// The comment at the top of a file and what follows it.
fn split(text: &str) -> (Vec<&str>, String) {
    let header: Vec<&str> = text.lines().take_while(|l| l.starts_with("--")).collect();
    let body = text.lines().skip(header.len()).collect::<Vec<_>>().join("\n");
    (header, body)
}

/// The numbers after a mark in a text.
fn parameters(text: &str, mark: char) -> Vec<u32> {
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
    text.split(mark).skip(1).filter_map(|part| digits(part).parse().ok()).collect()
}

#[test]
fn every_statement_is_used_and_every_use_has_its_file() {
    let there: BTreeSet<String> = files("sql", "sql").into_keys().collect();
    let mut used = BTreeSet::new();
    for text in files("src", "rs").values() {
        let listed =
            text.split("named![").skip(1).flat_map(|list| list.split(']').next().expect("an end").split('"'));
        used.extend(listed.skip(1).step_by(2).map(str::to_owned));
        for part in text.split("sql!(\"").skip(1).chain(text.split("include_str!(\"../sql/").skip(1)) {
            let name = part.split('"').next().expect("an end");
            used.insert(name.trim_end_matches(".sql").to_owned());
        }
    }
    assert_eq!(there, used, "left: files in sql/, right: statements named in src/");
}

#[test]
fn every_statement_says_what_it_is_for_and_names_its_parameters() {
    for (file, text) in files("sql", "sql") {
        let (header, body) = split(&text);
        let purpose = header.first().copied().unwrap_or_default();
        assert!(
            purpose.starts_with("-- ") && !purpose.starts_with("-- $"),
            "{file} begins with what it is for"
        );
        assert!(purpose.len() <= 120 && purpose.contains(' '), "{file}: {purpose}");
        let names: String = header[1..].join("\n");
        let mut named: BTreeSet<u32> = parameters(&names, '$').into_iter().collect();
        if let Some((before, after)) = names.split_once("..$") {
            let first = *parameters(before, '$').last().expect("from where");
            let last = *parameters(&format!("${after}"), '$').first().expect("to where");
            named.extend(first..=last);
        }
        let used: BTreeSet<u32> = parameters(&body, '$').into_iter().collect();
        assert_eq!(used, named, "{file}: parameters used, and named in its header");
        assert!(used.iter().copied().eq(1..=used.len() as u32), "{file}: numbered without a gap");
        let statement = body.trim();
        // What has no parameters may be several: they are sent as one text.
        assert!(
            !statement.is_empty() && (used.is_empty() || !statement.contains(';')),
            "{file} is one statement"
        );
        assert!(text.lines().all(|l| l.len() <= 125), "{file} has lines of at most 125 characters");
    }
    let written = files(".", "sql").into_iter().chain(files("migrations", "sql"));
    // What the tests make is as wide as it is.
    for (file, text) in written.filter(|(file, _)| file != "schema") {
        assert!(text.lines().all(|l| l.len() <= 125), "{file} has lines of at most 125 characters");
    }
}

/// The time is the caller's, or the database's at that moment where none is given: never a transaction's beginning.
#[test]
fn statements_have_no_clock_of_their_own() {
    let all = files("sql", "sql").into_iter().chain(files("migrations", "sql")).chain(files(".", "sql"));
    for (file, text) in all {
        let body: String =
            text.lines().filter(|l| !l.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
        let body = body.to_lowercase();
        for clock in [
            "now()",
            "'now'",
            "current_timestamp",
            "current_date",
            "localtime",
            "statement_timestamp",
            "timeofday",
        ] {
            assert!(!body.contains(clock), "{file} reads a clock: {clock}");
        }
        let people = ["guard", "api", "views", "clock", "record_migration"].contains(&&*file);
        for (before, _) in body.match_indices("clock_timestamp()").map(|(at, _)| body.split_at(at)) {
            let given = before.trim_end().ends_with("::timestamptz,") || people;
            assert!(given, "{file} reads the clock also where a time is given");
        }
    }
}

#[test]
fn there_is_no_sql_in_rust() {
    let words = [
        "SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "DROP ", "ALTER ", "WITH ", " FROM ",
        " WHERE ",
    ];
    for (file, text) in files("src", "rs") {
        for (n, line) in (1..).zip(text.lines().filter(|l| !l.trim_start().starts_with("//"))) {
            for text in line.split('"').skip(1).step_by(2) {
                let found = words.iter().find(|w| text.contains(**w));
                assert!(found.is_none(), "{file}, code line {n}: SQL belongs into sql/: {text}");
            }
        }
    }
}

/// The parameters of a statement as its header names them, in order.
fn named(text: &str, mark: char) -> Vec<String> {
    let (header, _) = split(text);
    let start = format!("-- {mark}");
    let lines = header.into_iter().filter(|line| line.starts_with(&start));
    lines.flat_map(|line| line[3..].split("  ")).map(|one| one.trim().replace(mark, "")).collect()
}

/// A statement that both stores have takes the same parameters, or says why not.
#[test]
fn both_stores_name_their_parameters_alike() {
    let sqlite = files("../sqlite/sql", "sql");
    let mut both = 0;
    for (file, text) in files("sql", "sql") {
        let Some(other) = sqlite.get(&file) else { continue };
        let differs = split(&text).0.iter().any(|line| line.starts_with("-- Differs"));
        if differs {
            continue;
        }
        both += 1;
        assert_eq!(named(&text, '$'), named(other, '?'), "{file}: PostgreSQL's and SQLite's");
    }
    assert!(both > 20, "{both} statements are compared");
}

/// What decides in SQL is a second copy of a rule of core, and says of which.
#[test]
fn second_copies_name_the_rule_they_mirror() {
    let all = files("sql", "sql");
    let mirrors = [
        "assign",
        "claim",
        "claim_new",
        "enqueue",
        "extend",
        "hand_out",
        "settle_complete",
        "void_approvals",
    ];
    for file in mirrors {
        let header = split(&all[file]).0;
        assert!(header.iter().any(|line| line.starts_with("-- Mirrors core's ")), "{file}: {header:?}");
    }
}
