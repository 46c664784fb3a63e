//! Operations on many jobs, as they are shown.

use super::filter::FilterShape;
use super::operate::Action;
use super::time::{Span, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::bulk::BulkAction;
use windlass_core::operation::{Operation, Phase, Which};
use windlass_store::Paper;

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = OperationPhase)]
pub enum PhaseWord {
    /// Nothing is done yet: it can be stopped as if it had never been.
    Held,
    /// It goes on.
    Running,
    /// Every job was looked at.
    Done,
    /// Somebody stopped it.
    Stopped,
}

impl From<Phase> for PhaseWord {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Held => Self::Held,
            Phase::Running => Self::Running,
            Phase::Done => Self::Done,
            Phase::Stopped => Self::Stopped,
        }
    }
}

/// Something that is done to many jobs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Operation)]
pub struct OperationShape {
    /// Its id.
    pub id: String,
    /// What is done.
    pub action: Action,
    /// How far it is.
    pub phase: PhaseWord,
    /// To jobs that this matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterShape>,
    /// To so many jobs that were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<usize>,
    /// From when redriven jobs may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// Over which period they are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Span>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who wants it.
    pub by: String,
    /// When it was asked for.
    pub created_at: Time,
    /// When it begins.
    pub begins_at: Time,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Who stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// Jobs that were looked at and that the action is for.
    pub matched: u64,
    /// Jobs that were acted on.
    pub done: u64,
    /// Jobs that had moved on, or that somebody kept locked.
    pub skipped: u64,
}

impl OperationShape {
    pub(crate) fn of(paper: &Paper, one: Operation) -> Self {
        let (filter, ids) = match one.which {
            Which::Filter(filter) => (Some(FilterShape::of(&filter)), None),
            Which::Ids(ids) => (None, Some(ids.len())),
        };
        Self {
            id: paper.name.to_string(),
            action: match one.action {
                BulkAction::Cancel => Action::Cancel,
                BulkAction::Redrive => Action::Redrive,
            },
            phase: one.phase.into(),
            filter,
            ids,
            run_at: one.run_at.map(Time),
            spread: (one.spread_ms > 0).then(|| Span::from_ms(one.spread_ms)),
            reason: one.reason,
            by: one.by.to_string(),
            created_at: Time(paper.created_at),
            begins_at: Time(one.begins_at),
            ended_at: one.ended_at.map(Time),
            stopped_by: one.stopped_by.map(|by| by.to_string()),
            matched: one.tally.matched,
            done: one.tally.done,
            skipped: one.tally.skipped,
        }
    }
}

/// Operations, the latest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Operations)]
#[allow(missing_docs, reason = "the names say it, in the document of the API too")]
pub struct OperationsPage {
    pub operations: Vec<OperationShape>,
    /// Where to go on; none at the end.
    pub next_cursor: Option<String>,
}
