//! The document, the pages and the table of routes against each other. `BLESS=1` writes the table anew.

mod bed;

use bed::Place;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use windlass_core::Refusal;
use windlass_http::{CODES, document, explain, routes};

const BEGIN: &str = "<!-- routes: begin -->\n";
const END: &str = "<!-- routes: end -->";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn table() -> String {
    let mut table = "| call | who may | what it does |\n|---|---|---|\n".to_owned();
    for route in routes() {
        table.push_str(&format!(
            "| `{} {}` | {} | {} |\n",
            route.method,
            route.path,
            route.who(),
            route.about
        ));
    }
    table
}

/// (http) The page lists every route with its roles.
#[test]
fn the_page_lists_every_route() {
    let path = docs().join("api.md");
    let page = fs::read_to_string(&path).expect("docs/api.md");
    let (before, rest) = page.split_once(BEGIN).expect("where the table begins");
    let (written, after) = rest.split_once(END).expect("where the table ends");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table())).expect("docs/api.md is written");
        return;
    }
    assert_eq!(written, table(), "run `BLESS=1 cargo test -p windlass-http --test document`");
}

/// (http) Every code has a page of its own, and every page a code.
#[test]
fn every_code_has_a_page() {
    let files = fs::read_dir(docs().join("errors")).expect("docs/errors");
    let pages: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let codes: BTreeSet<String> = CODES.iter().map(|code| format!("{}.md", code.code)).collect();
    assert_eq!(pages, codes);
    for code in CODES {
        let page = explain(code.code).unwrap();
        assert!(
            page.starts_with(&format!("# {}\n\nHTTP status {}.\n", code.code, code.status)),
            "{}",
            code.code
        );
        for part in ["## What it means", "## Why", "## What to do"] {
            assert!(page.contains(part), "{}: {part}", code.code);
        }
        assert!(page.len() < 1_500, "{} is short", code.code);
    }
}

/// (http) Every refusal of the core has a code with a page.
#[test]
fn every_refusal_has_a_code() {
    use windlass_core::Status::Failed;
    let id = windlass_core::JobId::from_bytes([7; 16]);
    let invalid = windlass_core::Invalid::new("a", "b", "c");
    let all = [
        Refusal::NotFound,
        Refusal::Finished(Failed),
        Refusal::NotLeased(Failed),
        Refusal::Expired,
        Refusal::Mismatch,
        Refusal::KeyReused(1),
        Refusal::VersionMismatch(1),
        Refusal::Invalid(invalid),
        Refusal::JobExists,
        Refusal::ParentNotFound(id),
        Refusal::IdempotencyKeyReused,
        Refusal::EventTypeReserved(String::new()),
        Refusal::LeaseRequired(String::new()),
        Refusal::StepRecorded(1),
        Refusal::NotFinished(Failed),
        Refusal::Completed,
        Refusal::UniqueTaken(id),
        Refusal::NotClaimable(Failed),
        Refusal::NotAssigned,
        Refusal::StaleEpoch(1),
        Refusal::ApprovalNotFound,
        Refusal::ApprovalTokenWrong,
        Refusal::ApprovalTokenMalformed,
        Refusal::ApprovalDecided,
        Refusal::ApprovalExpired,
        Refusal::ApprovalForbidden,
        Refusal::ApprovalNeedsKeys(2),
    ];
    for refusal in all {
        assert!(explain(refusal.code()).is_some(), "{}", refusal.code());
    }
}

/// (http) The document is served, names every route with its roles, and refers to nothing that is not there.
#[tokio::test]
async fn the_document_is_whole() {
    let bed = Place::memory().serve().await;
    let served = bed.get("/openapi.json").await.is(200);
    let document = document();
    assert_eq!(served, document);
    assert_eq!(document["openapi"], "3.1.0");
    for route in routes() {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        assert_eq!(operation["summary"], route.about, "{route:?}");
        assert!(operation["x-roles"].as_array().is_some_and(|roles| !roles.is_empty()), "{route:?}");
        assert!(
            operation["responses"].as_object().is_some_and(|r| r.keys().any(|s| s.starts_with('2'))),
            "{route:?}"
        );
    }
    let mut ids = BTreeSet::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            assert!(ids.insert(operation["operationId"].to_string()), "{}", operation["operationId"]);
        }
    }
    let mut wanted = BTreeSet::new();
    references(&document, &mut wanted);
    assert!(wanted.len() > 30, "{wanted:?}");
    for name in wanted {
        assert!(document["components"]["schemas"].get(&name).is_some(), "nothing says what {name} is");
    }
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value.as_str()) {
                    ("$ref", Some(path)) => {
                        into.insert(path.trim_start_matches("#/components/schemas/").to_owned());
                    }
                    _ => references(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

/// (http) What a method that is not there is answered names those that are, of the route that the path leads to.
#[tokio::test]
async fn allowed_methods_are_those_of_the_route() {
    let bed = Place::memory().serve().await;
    for (path, allowed) in [
        ("/v1/jobs/batch", "POST"),
        ("/v1/jobs", "POST, GET"),
        ("/v1/jobs/01890000-0000-7000-8000-000000000009/events", "GET, POST"),
        ("/v1/session", "GET, POST, DELETE"),
    ] {
        let answer = bed.request(reqwest::Method::OPTIONS, path).send().await.unwrap();
        let answer = bed::Answer::of(answer).await;
        assert_eq!(answer.headers["allow"], allowed, "{path}");
        answer.refused(405, "method_not_allowed");
    }
}

/// (http) A body is required exactly where it has fields that are; ids and names say what they look like.
#[test]
fn the_document_is_exact() {
    let document = document();
    let required = |path: &str| document["paths"][path]["post"]["requestBody"]["required"].clone();
    assert_eq!((required("/v1/jobs"), required("/v1/jobs/{id}/complete")), (true.into(), false.into()));
    let schemas = &document["components"]["schemas"];
    for (schema, field) in [("NewJob", "kind"), ("NewJob", "parent_id"), ("Complete", "lease_token")] {
        assert!(schemas[schema]["properties"][field]["pattern"].is_string(), "{schema}.{field}");
    }
    assert!(document["paths"]["/v1/jobs/{id}"]["get"]["parameters"][0]["schema"]["pattern"].is_string());
    assert_eq!(
        schemas["Job"]["properties"]["payload"]["$ref"], "#/components/schemas/Raw",
        "null is any JSON too"
    );
}
