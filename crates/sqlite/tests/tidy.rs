//! The house rules for SQL: one statement per file, every file used, every parameter named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Lines a source file may have.
const LINES_MAX: usize = 500;
/// Longer ones, each because it is one list: of commands, of requests.
const LISTS: &[&str] = &["core/src/decide.rs", "store/src/requests.rs"];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The files under a folder with an ending, at any depth, with their text.
fn files(folder: &Path, ending: &str) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|e| e == ending) {
            let text = std::fs::read_to_string(&path).expect("a text");
            found.insert(path, text);
        }
    }
    found
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

/// The comment at the top of a file and what follows it.
fn split(text: &str) -> (Vec<&str>, String) {
    let header: Vec<&str> = text.lines().take_while(|l| l.starts_with("--")).collect();
    let body = text.lines().skip(header.len()).collect::<Vec<_>>().join("\n");
    (header, body)
}

/// The numbers after `?` in a text.
fn parameters(text: &str) -> Vec<u32> {
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
    text.split('?').skip(1).filter_map(|part| digits(part).parse().ok()).collect()
}

#[test]
fn every_statement_is_used_and_every_use_has_its_file() {
    let there: BTreeSet<String> = files(&here("sql"), "sql").keys().map(|p| stem(p)).collect();
    let mut used = BTreeSet::new();
    for text in files(&here("src"), "rs").values() {
        for part in text.split("sql!(\"").skip(1).chain(text.split("include_str!(\"../sql/").skip(1)) {
            let name = part.split('"').next().expect("an end");
            used.insert(name.trim_end_matches(".sql").to_owned());
        }
    }
    assert_eq!(there, used, "left: files in sql/, right: statements named in src/");
}

#[test]
fn every_statement_says_what_it_is_for_and_names_its_parameters() {
    for (path, text) in files(&here("sql"), "sql") {
        let file = stem(&path);
        let (header, body) = split(&text);
        let purpose = header.first().copied().unwrap_or_default();
        assert!(
            purpose.starts_with("-- ") && !purpose.starts_with("-- ?"),
            "{file} begins with what it is for"
        );
        assert!(purpose.len() <= 120 && purpose.contains(' '), "{file}: {purpose}");
        let names: String = header[1..].join("\n");
        let mut named: BTreeSet<u32> = parameters(&names).into_iter().collect();
        if let [(from, to)] = names.match_indices("..?").map(|(at, _)| (at, at + 3)).collect::<Vec<_>>()[..] {
            let first = *parameters(&names[..from]).last().expect("from where");
            let last: u32 = *parameters(&format!("?{}", &names[to..])).first().expect("to where");
            named.extend(first..=last);
        }
        let used: BTreeSet<u32> = parameters(&body).into_iter().collect();
        assert_eq!(used, named, "{file}: parameters used, and named in its header");
        assert_eq!(
            used.iter().copied().collect::<Vec<_>>(),
            (1..=used.len() as u32).collect::<Vec<_>>(),
            "{file}"
        );
        let statement = body.trim();
        assert!(!statement.is_empty() && !statement.contains(';'), "{file} is one statement");
        assert!(text.lines().all(|l| l.len() <= 125), "{file} has lines of at most 125 characters");
    }
}

#[test]
fn statements_have_no_clock_of_their_own() {
    let migrations = files(&here("migrations"), "sql");
    for (path, text) in files(&here("sql"), "sql").into_iter().chain(migrations) {
        let (_, body) = split(&text);
        let body = body.to_lowercase();
        for clock in ["now(", "'now'", "current_time", "current_date", "julianday", "unixepoch", "strftime"] {
            assert!(!body.contains(clock), "{} reads a clock: {clock}", path.display());
        }
    }
}

#[test]
fn there_is_no_sql_in_rust() {
    let allowed = ["BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"];
    let words = [
        "SELECT ", "INSERT ", "UPDATE ", "DELETE ", "CREATE ", "DROP ", "ALTER ", "WITH ", " FROM ",
        " WHERE ",
    ];
    for (path, text) in files(&here("src"), "rs") {
        for (n, line) in (1..).zip(text.lines().filter(|l| !l.trim_start().starts_with("//"))) {
            let quoted = line.split('"').skip(1).step_by(2);
            for text in quoted.filter(|q| !allowed.contains(q)) {
                let found = words.iter().find(|w| text.contains(**w));
                assert!(found.is_none(), "{}, code line {n}: SQL belongs into sql/: {text}", path.display());
            }
        }
    }
}

#[test]
fn files_are_short() {
    for room in std::fs::read_dir(here("..")).expect("crates") {
        let room = room.expect("a crate").path();
        // Laws are listed, not composed: a room of them is as long as the law.
        if !room.join("src").is_dir() || room.ends_with("conformance") {
            continue;
        }
        for (path, text) in files(&room.join("src"), "rs") {
            let lines = text.lines().count();
            let list = LISTS.iter().any(|l| path.ends_with(l));
            assert!(lines <= LINES_MAX || list, "{} has {lines} lines; split it", path.display());
        }
    }
}

/// What decides in SQL is a second copy of a rule of core, and says of which.
#[test]
fn second_copies_name_the_rule_they_mirror() {
    let all = files(&here("sql"), "sql");
    for file in [
        "claim",
        "claim_event",
        "create_jobs",
        "create_jobs_event",
        "settle_complete",
        "settle_complete_event",
        "void_approvals",
    ] {
        let header = split(&all[&here("sql").join(format!("{file}.sql"))]).0;
        assert!(header.iter().any(|line| line.starts_with("-- Mirrors core's ")), "{file}: {header:?}");
    }
}
