//! Requirements, laws and tests against each other: nothing that is due is unproven, nothing that is written is
//! left out of the suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The stores; each runs every law.
const STORES: [&str; 3] = ["memory", "sqlite", "postgres"];

/// Tests that prove something of the control plane, beside the floor of their package: the leader, what fires and fetches
/// from outside, what leaves for an archive, brokers and subscriptions, each with real processes.
const CONTROL_PLANE: [&str; 10] = [
    "cli/tests/from_outside.rs",
    "cli/tests/leader.rs",
    "cli/tests/objects.rs",
    "cli/tests/prune.rs",
    "cli/tests/rabbit.rs",
    "cli/tests/rabbit_consume.rs",
    "cli/tests/retention.rs",
    "cli/tests/schedules.rs",
    "cli/tests/seals.rs",
    "cli/tests/subscriptions.rs",
];

/// A law or test with the requirement ids its doc comment begins with. What serves no requirement by itself names
/// its concern in brackets instead: `(registry)`.
#[derive(Debug)]
struct Proof {
    file: PathBuf,
    name: String,
    ids: Vec<String>,
    concern: bool,
    /// Where it proves what it names: floors, or one store. None for a test whose place proves no floor, as a unit
    /// test of `core`.
    floors: Vec<&'static str>,
}

impl Proof {
    fn is_law(&self) -> bool {
        self.floors == ["store"]
    }
}

/// Each id is proven in every place that its line names: by a law where it says `store`, by tests of the store's own
/// where it names a store, by tests of that floor where it names another.
#[test]
fn every_due_requirement_is_proven_wherever_it_says() {
    let Requirements { floors, due, not_built } = requirements();
    let proofs = proofs();
    let is_proven = |id: &String, floor: &String| {
        proofs.iter().any(|proof| proof.ids.contains(id) && proof.floors.contains(&floor.as_str()))
    };
    let mut unproven = Vec::new();
    for (id, floors) in floors.iter().filter(|(id, _)| !not_built.contains(*id)) {
        let missing = |floor: &&String| due.contains(*floor) && !is_proven(id, floor);
        unproven.extend(floors.iter().filter(missing).map(|floor| format!("{id} ({floor})")));
    }
    assert!(unproven.is_empty(), "no law and no test there names {unproven:?}");
}

/// A law proves something for every store only if every store runs the whole suite, in every build.
#[test]
fn every_store_runs_the_whole_suite() {
    for store in STORES {
        let file = crates().join(store).join("tests/conformance.rs");
        let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        let suites =
            text.lines().filter(|line| *line == "windlass_conformance::suite!(crate::make);").count();
        assert_eq!(suites, 1, "{file:?} runs the suite once");
        for condition in ["cfg", "ignore", "should_panic"] {
            assert!(!text.contains(condition), "{file:?} runs the suite without {condition}");
        }
    }
    let lib = fs::read_to_string(crates().join("conformance/src/lib.rs")).expect("lib.rs");
    let tests = between(&lib, "([$make:path], $module", "\n    };").expect("the arm that makes tests");
    let attributes: Vec<&str> = tests.lines().map(str::trim).filter(|l| l.starts_with("#[")).collect();
    assert_eq!(attributes, ["#[test]"], "a law is a test, and nothing skips it");
}

#[test]
fn every_named_requirement_exists() {
    let Requirements { floors, not_built, .. } = requirements();
    for proof in proofs() {
        let Proof { name, file, ids, .. } = &proof;
        for id in ids {
            assert!(floors.contains_key(id), "{name} in {file:?} names {id}, which is none");
            assert!(!not_built.contains(id), "{name} in {file:?} names {id}, which is not built");
        }
    }
}

/// What is said to prove the control plane is there.
#[test]
fn the_tests_of_the_control_plane_are_there() {
    let proofs = proofs();
    for file in CONTROL_PLANE {
        let named = |proof: &Proof| proof.file == crates().join(file) && !proof.ids.is_empty();
        assert!(proofs.iter().any(named), "{file} proves nothing");
    }
}

#[test]
fn every_law_says_what_it_proves_and_is_run() {
    let source = crates().join("conformance/src");
    let lib = fs::read_to_string(source.join("lib.rs")).expect("lib.rs");
    let suite = between(&lib, "macro_rules! suite", "\n}").expect("the suite");
    let mut modules: BTreeMap<PathBuf, Vec<Proof>> = BTreeMap::new();
    for law in proofs().into_iter().filter(Proof::is_law) {
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

/// What the page says.
struct Requirements {
    /// Where each must be proven.
    floors: BTreeMap<String, Vec<String>>,
    /// The places that are due.
    due: BTreeSet<String>,
    /// What is due nowhere yet, and claimed nowhere.
    not_built: BTreeSet<String>,
}

fn requirements() -> Requirements {
    let page = crates().join("../docs/requirements.md");
    let page = fs::read_to_string(page).expect("docs/requirements.md");
    let listed = |words: &str| words.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
    let (mut floors, mut known) = (BTreeMap::new(), BTreeSet::from(STORES.map(str::to_owned)));
    let mut not_built = BTreeSet::new();
    for line in page.lines().filter_map(|l| l.strip_prefix("- **")) {
        let (id, rest) = line.split_once("** (").unwrap_or_else(|| panic!("an id and its floor: {line}"));
        let (places, _) = rest.split_once(')').unwrap_or_else(|| panic!("a floor: {line}"));
        assert!(is_id(id), "an id: {line}");
        let places = listed(places);
        known.extend(places.iter().cloned());
        if places.iter().any(|place| place == "not built") {
            not_built.insert(id.to_owned());
        }
        assert!(floors.insert(id.to_owned(), places).is_none(), "{id} stands there twice");
    }
    let due = page.lines().find_map(|l| l.strip_prefix("Due floors: ")).expect("the line of due floors");
    let mut due: BTreeSet<String> = listed(due).into_iter().collect();
    assert!(due.is_subset(&known), "due floors are floors: {due:?} of {known:?}");
    due.extend(STORES.map(str::to_owned));
    let floors_known = BTreeSet::from(["store", "engine", "server", "control-plane", "not built"]);
    let strange =
        |place: &&String| !floors_known.contains(place.as_str()) && !STORES.contains(&place.as_str());
    assert_eq!(known.iter().filter(strange).count(), 0, "places are floors or stores: {known:?}");
    Requirements { floors, due, not_built }
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

/// What a test of a package proves. The tests of `engine` are written once for every store, with a bed.
fn floors_of(file: &Path, test: &str) -> Vec<&'static str> {
    let file = file.strip_prefix(crates()).expect("a file of a package");
    let package = file.iter().next().and_then(|package| package.to_str()).expect("a package");
    let floor = match package {
        "engine" => test.contains("(bed: Bed)").then_some("engine"),
        "http" | "cli" => Some("server"),
        _ => STORES.into_iter().find(|store| *store == package),
    };
    let is_control_plane = CONTROL_PLANE.iter().any(|path| file == Path::new(path));
    floor.into_iter().chain(is_control_plane.then_some("control-plane")).collect()
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
                    floors: if is_law { vec!["store"] } else { floors_of(file, line) },
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
