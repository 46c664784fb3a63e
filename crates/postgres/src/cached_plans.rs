//! Statements whose plans the server keeps.
//!
//! Planning a hot statement costs as much as running it for one job, and a tenth of running it for five hundred.
//! Preparing is no way out, for a transaction-mode pooler hands every transaction another server. So such a statement is
//! also the body of a function, made with the guard: each server process plans it once, whomever it serves.
//!
//! A kept plan knows nothing of how many items a call brings or how large a table has become, so nothing is left for it
//! to choose: [`PINNED`] allows no plan but the one that goes from row to row by an index.

use crate::db::sql;
use crate::signatures::{Signature, named};

/// What a transaction says before such a statement where its function is not there: another version made the guard.
pub(crate) const PINNED: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; \
     SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off";

/// The hot statements.
const KEPT: &[(&str, &str)] =
    &named!["enqueue", "claim", "claim_new", "hand_out", "settle_complete", "recover", "extend"];

/// Their functions, to be made by the owner.
pub(crate) fn definitions() -> String {
    KEPT.iter().filter_map(|(name, text)| Some(definition(name, text, Signature::of(name)?))).collect()
}

fn definition(name: &str, text: &str, signature: &Signature) -> String {
    let made = sql!("keep")
        .replace(
            "windlass.kept(takes)",
            &format!("{}({})", signature.function("kept", name, text), signature.takes),
        )
        .replace("RETURNS gives", &format!("RETURNS {}", signature.gives))
        .replace("statement;", &format!("{};", text.trim_end()));
    format!("{};\n", made.trim_end())
}

/// The names of their functions.
pub(crate) fn names() -> impl Iterator<Item = String> {
    KEPT.iter().filter_map(|(name, text)| Some(Signature::of(name)?.function("kept", name, text)))
}

/// The statements that are kept, each with the text that calls its function.
pub(crate) fn calls() -> impl Iterator<Item = (&'static str, String)> {
    KEPT.iter().filter_map(|(name, text)| Some((*text, Signature::of(name)?.call("kept", name, text))))
}
