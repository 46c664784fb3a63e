//! What statements take and give, for those that are also functions. The file is made by a test that asks the server.

use crate::db::sql;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::LazyLock;
use windlass_core::lease::hex;

/// Statements by their names.
macro_rules! named {
    ($($name:literal),* $(,)?) => {
        [$(($name, $crate::db::sql!($name))),*]
    };
}
pub(crate) use named;

/// A statement's parameters and result.
pub(crate) struct Signature {
    /// The types of its parameters, as a function lists them.
    pub(crate) takes: &'static str,
    /// What a function of it returns.
    pub(crate) gives: &'static str,
}

/// One line per statement: `name(types) -> result`.
static ALL: LazyLock<HashMap<&'static str, Signature>> = LazyLock::new(|| {
    let lines = include_str!("../signatures.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (head, gives) = line.split_once(") -> ")?;
            let (name, takes) = head.split_once('(')?;
            Some((name, Signature { takes, gives }))
        })
        .collect()
});

impl Signature {
    /// None for a statement that is newer than the file: a test says to make the file anew.
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        ALL.get(name)
    }

    /// The name of a statement's function. Named after its text: a binary of another version has its own, and neither
    /// replaces the other's.
    pub(crate) fn function(&self, prefix: &str, name: &str, text: &str) -> String {
        let shape = if prefix == "app" { sql!("app") } else { sql!("keep") };
        let hash = hex(&Sha256::digest([shape, text, self.takes, self.gives].concat()));
        format!("windlass.{prefix}_{name}_{}", &hash[..8])
    }

    /// The text that calls it.
    pub(crate) fn call(&self, prefix: &str, name: &str, text: &str) -> String {
        let takes = if self.takes.is_empty() { 0 } else { self.takes.split(", ").count() };
        let places: Vec<String> = (1..=takes).map(|n| format!("${n}")).collect();
        let call = format!("{}({})", self.function(prefix, name, text), places.join(", "));
        sql!("kept").replace("windlass.kept()", &call)
    }
}
