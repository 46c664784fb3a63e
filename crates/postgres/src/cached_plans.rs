//! Statements whose plans the server keeps.
//!
//! Planning a hot statement costs as much as running it for one job, and a tenth of running it for five hundred.
//! Preparing is no way out, for a transaction-mode pooler hands every transaction another server. So such a statement is
//! also the body of a function, made with the guard: each server process plans it once, whomever it serves.
//!
//! A kept plan knows nothing of how many items a call brings or how large a table has become, so nothing is left for it
//! to choose: [`PINNED`] allows no plan but the one that goes from row to row by an index.

use crate::db::sql;
use sha2::{Digest, Sha256};
use windlass_core::lease::hex;

/// What a transaction says before such a statement where its function is not there: another version made the guard.
pub(crate) const PINNED: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; \
     SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off";

/// A statement as a function.
struct Kept {
    name: &'static str,
    sql: &'static str,
    /// The types of its parameters.
    takes: &'static [&'static str],
    /// The types of its columns.
    gives: &'static [&'static str],
}

const KEPT: [Kept; 6] = [
    Kept {
        name: "enqueue",
        sql: sql!("enqueue"),
        takes: &[
            "timestamptz",
            "text[]",
            "uuid[]",
            "text[]",
            "text[]",
            "smallint[]",
            "timestamptz[]",
            "bigint[]",
            "int[]",
            "uuid[]",
            "text[]",
            "bigint[]",
            "bigint[]",
            "bigint[]",
            "text[]",
            "boolean[]",
            "text[]",
            "boolean[]",
            "bytea[]",
            "text[]",
            "text[]",
        ],
        gives: &["timestamptz"],
    },
    Kept {
        name: "claim",
        sql: sql!("claim"),
        takes: &[
            "text[]",
            "bigint",
            "text",
            "bytea",
            "bigint",
            "timestamptz",
            "text[]",
            "timestamptz[]",
            "uuid[]",
            "bigint",
            "bigint",
            "boolean",
        ],
        gives: &[
            "text",
            "uuid",
            "int",
            "timestamptz",
            "bigint",
            "timestamptz",
            "timestamptz",
            "text",
            "boolean",
            "bytea",
        ],
    },
    Kept {
        name: "claim_new",
        sql: sql!("claim_new"),
        takes: &["uuid", "text", "bytea", "bigint", "bigint", "timestamptz"],
        gives: &["timestamptz"],
    },
    Kept {
        name: "settle_complete",
        sql: sql!("settle_complete"),
        takes: &["uuid[]", "bytea[]", "bytea[]", "boolean[]", "timestamptz"],
        gives: &["uuid", "bigint"],
    },
    Kept { name: "recover", sql: sql!("recover"), takes: &["timestamptz", "bigint"], gives: &["bigint"] },
    Kept {
        name: "extend",
        sql: sql!("extend"),
        takes: &["uuid[]", "bytea[]", "bigint", "timestamptz"],
        gives: &["uuid", "timestamptz", "boolean"],
    },
];

impl Kept {
    /// Named after its text: a binary of another version has its own, and neither replaces the other's.
    fn function(&self) -> String {
        format!("windlass.kept_{}_{}", self.name, &hex(&Sha256::digest(self.sql))[..8])
    }

    fn definition(&self) -> String {
        let gives: Vec<String> = (1..).zip(self.gives).map(|(n, of)| format!("c{n} {of}")).collect();
        sql!("keep")
            .replace("windlass.kept(takes)", &format!("{}({})", self.function(), self.takes.join(", ")))
            .replace("(gives)", &format!("({})", gives.join(", ")))
            .replace("statement;", &format!("{};", self.sql.trim_end()))
    }
}

/// All of them, to be made with the guard.
pub(crate) fn definitions() -> String {
    KEPT.iter().map(|kept| format!("{};\n", kept.definition().trim_end())).collect()
}

/// The names of their functions.
pub(crate) fn names() -> impl Iterator<Item = String> {
    KEPT.iter().map(Kept::function)
}

/// The statements that are kept, each with the text that calls its function.
pub(crate) fn calls() -> impl Iterator<Item = (&'static str, String)> {
    KEPT.iter().map(|kept| {
        let places: Vec<String> = (1..=kept.takes.len()).map(|n| format!("${n}")).collect();
        (
            kept.sql,
            sql!("kept").replace("windlass.kept()", &format!("{}({})", kept.function(), places.join(", "))),
        )
    })
}
