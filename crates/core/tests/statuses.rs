//! The page of statuses is made from the table, so it cannot lie. `BLESS=1` rewrites it.

use std::fmt::Write;
use windlass_core::Status;
use windlass_core::status::{TRANSITIONS, legal};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statuses.md");

fn words(statuses: &[Status]) -> String {
    statuses.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ")
}

fn page() -> String {
    let mut page = String::from(
        "# Statuses\n\nMade from the table in `crates/core/src/status.rs`; `make bless` rewrites it.\n\n\
         Live: `pending assigned running retry waiting orphaned`. Terminal: `completed failed timed_out cancelled`.\n\
         Dead letters are failed and timed_out.\n\n| command | from | to | notes |\n|---|---|---|---|\n",
    );
    page.push_str("| enqueue | – | pending | |\n");
    for t in TRANSITIONS {
        let _ = writeln!(page, "| {} | {} | {} | {} |", t.command, words(t.from), words(t.to), t.note);
    }
    page.push_str("\n```mermaid\nstateDiagram-v2\n  [*] --> pending\n");
    for from in Status::ALL {
        for to in Status::ALL.into_iter().filter(|to| legal(from, *to)) {
            let _ = writeln!(page, "  {from} --> {to}");
        }
    }
    page.push_str("  completed --> [*]\n```\n");
    page
}

/// M1, R2: one table; the docs follow it.
#[test]
fn the_page_of_statuses_is_the_table() {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PAGE, page()).expect("the page is writable");
    }
    let written = std::fs::read_to_string(PAGE).expect("docs/statuses.md is there");
    assert_eq!(written, page(), "run `make bless`");
}
