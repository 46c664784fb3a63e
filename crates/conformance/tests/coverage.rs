//! Requirements, laws and tests against each other: nothing that is due is unproven, nothing that is written is
//! left out of the suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A law or test with the requirement ids its doc comment begins with. What serves no requirement by itself names
/// its concern in brackets instead: `(registry)`.
#[derive(Debug)]
struct Proof {
    file: PathBuf,
    name: String,
    ids: Vec<String>,
    concern: bool,
    is_law: bool,
}

/// A law proves only what a store alone can prove; the floors above need tests of their own.
#[test]
fn every_due_requirement_is_proven() {
    let (floors, due) = requirements();
    let proofs = proofs();
    let is_proven = |id: &String, floor: &String| {
        proofs.iter().any(|proof| proof.ids.contains(id) && (!proof.is_law || floor == "store"))
    };
    let unproven: Vec<&String> = floors
        .iter()
        .filter(|(id, floor)| due.contains(*floor) && !is_proven(id, floor))
        .map(|(id, _)| id)
        .collect();
    assert!(unproven.is_empty(), "no law and no test names {unproven:?}");
}

#[test]
fn every_named_requirement_exists() {
    let (floors, _) = requirements();
    for proof in proofs() {
        for id in &proof.ids {
            assert!(floors.contains_key(id), "{} in {:?} names {id}, which is none", proof.name, proof.file);
        }
    }
}

#[test]
fn every_law_says_what_it_proves_and_is_run() {
    let source = crates().join("conformance/src");
    let lib = fs::read_to_string(source.join("lib.rs")).expect("lib.rs");
    let suite = between(&lib, "macro_rules! suite", "\n}").expect("the suite");
    let mut modules: BTreeMap<PathBuf, Vec<Proof>> = BTreeMap::new();
    for law in proofs().into_iter().filter(|p| p.is_law) {
        let says = !law.ids.is_empty() || law.concern;
        assert!(says, "{} in {:?} does not begin with what it proves", law.name, law.file);
        modules.entry(law.file.clone()).or_default().push(law);
    }
    assert!(modules.len() > 5, "the laws are found: {modules:?}");
    for (file, laws) in modules {
        let text = fs::read_to_string(&file).expect("a module of laws");
        let text: String = text.split_whitespace().collect();
        let module = file.file_stem().and_then(|s| s.to_str()).expect("a module's name").to_owned();
        let list = between(&text, &format!("law_tests!([$($make)*],{module}:"), ");")
            .unwrap_or_else(|| panic!("{file:?} has no list of its laws in {module}_laws!"));
        let listed: Vec<&str> = list.split(',').filter(|name| !name.is_empty()).collect();
        let written: Vec<&str> = laws.iter().map(|law| law.name.as_str()).collect();
        assert_eq!(sorted(&listed), sorted(&written), "the list in {file:?} is its laws, each once");
        assert!(
            suite.contains(&format!("$crate::{module}_laws!($($make)*);")),
            "suite! does not run the laws of {file:?}"
        );
    }
}

/// The floor of every requirement, and the floors that are due, as the page says.
fn requirements() -> (BTreeMap<String, String>, BTreeSet<String>) {
    let page = crates().join("../docs/requirements.md");
    let page = fs::read_to_string(page).expect("docs/requirements.md");
    let mut floors = BTreeMap::new();
    for line in page.lines().filter_map(|l| l.strip_prefix("- **")) {
        let (id, rest) = line.split_once("** (").unwrap_or_else(|| panic!("an id and its floor: {line}"));
        let (floor, _) = rest.split_once(')').unwrap_or_else(|| panic!("a floor: {line}"));
        assert!(is_id(id), "an id: {line}");
        assert!(floors.insert(id.to_owned(), floor.to_owned()).is_none(), "{id} stands there twice");
    }
    let due = page.lines().find_map(|l| l.strip_prefix("Due floors: ")).expect("the line of due floors");
    let due: BTreeSet<String> = due.split(',').map(|f| f.trim().to_owned()).collect();
    let known: BTreeSet<&String> = floors.values().collect();
    assert!(due.iter().all(|f| known.contains(f)), "due floors are floors: {due:?} of {known:?}");
    (floors, due)
}

/// Every law of this crate, and every test of all crates.
fn proofs() -> Vec<Proof> {
    let laws = crates().join("conformance/src");
    let mut files = Vec::new();
    for package in entries(&crates()) {
        for folder in ["src", "tests"] {
            rust_files(&package.join(folder), &mut files);
        }
    }
    files.iter().flat_map(|file| proofs_in(file, file.starts_with(&laws))).collect()
}

fn proofs_in(file: &Path, may_hold_laws: bool) -> Vec<Proof> {
    let text = fs::read_to_string(file).expect("a source file");
    let (mut found, mut docs, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.trim());
        } else if line.starts_with("#[") {
            attributes.push(line);
        } else {
            let is_law = may_hold_laws && line.starts_with("pub async fn ") && line.contains("bed: Bed)");
            let is_test =
                attributes.iter().any(|a| a.starts_with("#[test]") || a.starts_with("#[tokio::test"));
            if is_law || is_test {
                let name = line.split("fn ").nth(1).and_then(|l| l.split(['(', '<']).next());
                found.push(Proof {
                    file: file.to_owned(),
                    name: name.unwrap_or_default().to_owned(),
                    ids: docs.first().map(|doc| ids(doc)).unwrap_or_default(),
                    concern: docs.first().is_some_and(|doc| doc.starts_with('(')),
                    is_law,
                });
            }
            docs.clear();
            attributes.clear();
        }
    }
    found
}

/// The ids a doc comment begins with: `Q6, J6` or `Q6, J6: text`.
fn ids(doc: &str) -> Vec<String> {
    let head = doc.split(':').next().unwrap_or_default();
    let words: Vec<&str> = head.split(',').map(str::trim).collect();
    if words.iter().all(|w| is_id(w)) { words.into_iter().map(str::to_owned).collect() } else { Vec::new() }
}

fn is_id(word: &str) -> bool {
    let digits = word.strip_prefix(|c: char| c.is_ascii_uppercase());
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

fn crates() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the folder of all crates").to_owned()
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in entries(folder) {
        if entry.is_dir() {
            rust_files(&entry, into);
        } else if entry.extension().is_some_and(|e| e == "rs") {
            into.push(entry);
        }
    }
}

/// What lies in a folder, by name; nothing if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(inside, _)| inside)
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}
