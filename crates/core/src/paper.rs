//! Papers: what people keep beside the jobs. A saved view, a mark in time, an operation on many jobs: a kind, a name, a body.
//!
//! A paper is changed under its version, so nobody writes over what he has not read. What the engine notes on one, it notes
//! under the leader's epoch as well.

use crate::job::Metadata;
use crate::limits::Invalid;
use crate::name::{Actor, Name};
use crate::refusal::Refusal;
use crate::registry::WriteAudit;
use crate::term::Term;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most bytes of a body.
pub const BODY_MAX: usize = 64 << 10;
/// The most papers of a kind. Of marks and operations the oldest go; of views and alerts, one must be removed first.
pub const KIND_MAX: usize = 1_000;

/// What a paper is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PaperKind {
    /// A filter with a name.
    View,
    /// Something that happened outside, such as a deploy. Its name sorts by time.
    Mark,
    /// Something done to many jobs. Its name sorts by time.
    Operation,
    /// Something that should not last.
    Alert,
}

impl PaperKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::View, Self::Mark, Self::Operation, Self::Alert];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Mark => "mark",
            Self::Operation => "operation",
            Self::Alert => "alert",
        }
    }
}

/// A paper as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Paper {
    /// What it is.
    pub kind: PaperKind,
    /// Its name, once per kind.
    pub name: Name,
    /// Grows with every change. 0 is one that can no longer be read.
    pub version: i64,
    /// What it says.
    pub body: Value,
    /// Who made it.
    pub by: Actor,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

impl Paper {
    /// Stands for a row that does not read back, and says why.
    pub fn unreadable(kind: PaperKind, name: Name, why: impl std::fmt::Display) -> Self {
        let epoch = Timestamp::from_micros(0);
        let why = format!("what is stored does not read back: {why}; write it again, or remove it");
        let body = Value::from_iter([("unreadable", why)]);
        Self { kind, name, version: 0, body, by: Actor::engine(), created_at: epoch, updated_at: epoch }
    }
}

/// A paper to write.
#[derive(Debug, Clone)]
pub struct PutPaper {
    /// What it is.
    pub kind: PaperKind,
    /// Its name.
    pub name: Name,
    /// What it says from now on.
    pub body: Value,
    /// The version it must be at; 0 for one that must not be there.
    pub expected_version: Option<i64>,
    /// Under whose term and epoch, where the engine writes.
    pub term: Option<(Name, i64)>,
    /// The word for the audit; none for what the engine notes as it goes.
    pub action: Option<&'static str>,
    /// Who.
    pub actor: Actor,
}

impl PutPaper {
    /// The paper after this; none if it says so already.
    pub fn decide(
        &self,
        term: Option<&Term>,
        before: Option<&Paper>,
        now: Timestamp,
    ) -> Result<Option<(Paper, Option<WriteAudit>)>, Refusal> {
        check_term(self.term.as_ref(), term, now)?;
        let bytes = self.body.to_string().len();
        if bytes > BODY_MAX {
            return Err(Invalid::new(
                "body",
                format!("{bytes} bytes"),
                format!("must be at most {BODY_MAX} bytes"),
            )
            .into());
        }
        if !self.body.is_object() {
            return Err(Invalid::new("body", &self.body, "must be an object").into());
        }
        if before.is_some_and(|paper| paper.body == self.body && paper.version > 0) {
            return Ok(None);
        }
        let version = before.map_or(0, |paper| paper.version);
        if self.expected_version.is_some_and(|expected| expected != version) {
            return Err(Refusal::VersionMismatch(version));
        }
        let audit = self.action.map(|action| {
            let detail = Metadata::from_iter([
                ("before".to_owned(), before.map(|paper| paper.body.clone()).unwrap_or_default()),
                ("after".to_owned(), self.body.clone()),
            ]);
            WriteAudit::of(self.actor.clone(), action, &self.name, detail)
        });
        let readable = before.filter(|paper| paper.version > 0);
        let paper = Paper {
            kind: self.kind,
            name: self.name.clone(),
            version: version + 1,
            body: self.body.clone(),
            by: readable.map_or_else(|| self.actor.clone(), |paper| paper.by.clone()),
            created_at: readable.map_or(now, |paper| paper.created_at),
            updated_at: now,
        };
        Ok(Some((paper, audit)))
    }
}

/// A paper to remove.
#[derive(Debug, Clone)]
pub struct RemovePaper {
    /// What it is.
    pub kind: PaperKind,
    /// Its name.
    pub name: Name,
    /// Under whose term and epoch, where the engine removes.
    pub term: Option<(Name, i64)>,
    /// The word for the audit; none for what has become old.
    pub action: Option<&'static str>,
    /// Who.
    pub actor: Actor,
}

impl RemovePaper {
    /// What goes to the audit.
    pub fn decide(
        &self,
        term: Option<&Term>,
        before: Option<&Paper>,
        now: Timestamp,
    ) -> Result<Option<WriteAudit>, Refusal> {
        check_term(self.term.as_ref(), term, now)?;
        let Some(paper) = before else {
            return Err(Refusal::PaperNotFound(self.kind.as_str(), self.name.to_string()));
        };
        Ok(self.action.map(|action| {
            let detail = Metadata::from_iter([("before".to_owned(), paper.body.clone())]);
            WriteAudit::of(self.actor.clone(), action, &self.name, detail)
        }))
    }
}

fn check_term(asked: Option<&(Name, i64)>, term: Option<&Term>, now: Timestamp) -> Result<(), Refusal> {
    match asked {
        Some((_, epoch)) if !term.is_some_and(|term| term.allows(*epoch, now)) => {
            Err(Refusal::StaleEpoch(term.map_or(0, |term| term.epoch)))
        }
        _ => Ok(()),
    }
}

/// Papers of a kind to read, from the last name down.
#[derive(Debug, Clone)]
pub struct ListPapers {
    /// Of this kind.
    pub kind: PaperKind,
    /// With names before this one.
    pub before: Option<Name>,
    /// At most so many.
    pub limit: usize,
}
