//! Flows as callers ask for them and see them.

use super::new_job::{NewJobShape, job_id};
use super::object::two_way;
use super::raw::Raw;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use windlass_core::flow::{Before, Edge, Join, On};
use windlass_core::{Invalid, Name, Status};

two_way!(EdgeShape, FlowBody, NodesBody);

/// What a job waits for: a list of jobs, or an object with an end per name. In a flow a name is that of another of its
/// jobs; everywhere it may be the id of a job that exists.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = After)]
pub enum AfterShape {
    /// Jobs by their ids.
    Jobs(Vec<EdgeShape>),
    /// Ends by names or ids.
    Names(BTreeMap<String, OnWord>),
}

/// A job to wait for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Edge)]
pub struct EdgeShape {
    /// Its id.
    #[schema(format = "uuid")]
    pub job: String,
    /// Which end of it lets the job run; success unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<OnWord>,
    /// By which name the job reads its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Which end of a job lets one run that waits for it. Another end skips it.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = On)]
pub enum OnWord {
    /// It completed.
    #[default]
    Success,
    /// It ended in any other way.
    Failure,
    /// It ended.
    Finished,
}

impl From<OnWord> for On {
    fn from(word: OnWord) -> Self {
        match word {
            OnWord::Success => Self::Success,
            OnWord::Failure => Self::Failure,
            OnWord::Finished => Self::Finished,
        }
    }
}

impl From<On> for OnWord {
    fn from(on: On) -> Self {
        match on {
            On::Success => Self::Success,
            On::Failure => Self::Failure,
            On::Finished => Self::Finished,
        }
    }
}

/// When a flow ends, or its callback runs.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Join)]
pub enum JoinWord {
    /// When all jobs have ended.
    #[default]
    All,
    /// When all jobs have completed; the first that does not fails the flow.
    Success,
    /// With the first job that does not complete.
    FirstFailure,
}

impl From<JoinWord> for Join {
    fn from(word: JoinWord) -> Self {
        match word {
            JoinWord::All => Self::All,
            JoinWord::Success => Self::Success,
            JoinWord::FirstFailure => Self::FirstFailure,
        }
    }
}

impl AfterShape {
    /// The edges of a job that is enqueued by itself: every job by its id.
    pub(crate) fn edges(self) -> Result<Vec<Edge>, Invalid> {
        match self {
            Self::Jobs(edges) => edges.into_iter().map(EdgeShape::resolve).collect(),
            Self::Names(ends) => {
                let edge = |(id, on): (String, OnWord)| {
                    Ok(Edge { job: job_id("after", &id)?, on: on.into(), name: None })
                };
                ends.into_iter().map(edge).collect()
            }
        }
    }

    /// What a job of a flow waits for.
    pub(crate) fn before(self) -> Result<Vec<(Before, On)>, Invalid> {
        match self {
            Self::Jobs(edges) => {
                edges.into_iter().map(|edge| edge.resolve().map(|e| (Before::Job(e.job), e.on))).collect()
            }
            Self::Names(ends) => {
                let before = |(name, on): (String, OnWord)| match windlass_core::JobId::parse(&name) {
                    Ok(job) => Ok((Before::Job(job), on.into())),
                    Err(_) => Ok((Before::Node(Name::parse("after", &name)?), on.into())),
                };
                ends.into_iter().map(before).collect()
            }
        }
    }
}

impl EdgeShape {
    fn resolve(self) -> Result<Edge, Invalid> {
        Ok(Edge {
            job: job_id("after.job", &self.job)?,
            on: self.on.unwrap_or_default().into(),
            name: self.name.map(|name| Name::parse("after.name", &name)).transpose()?,
        })
    }
}

/// A flow to make: jobs by name, each with those it waits for.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewFlow)]
pub struct FlowBody {
    /// Its jobs by their names, at most 10,000. None is allowed: the flow is then over at once.
    #[serde(default)]
    pub nodes: BTreeMap<String, NewJobShape>,
    /// When it ends, or its callback runs; all unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<JoinWord>,
    /// Whether jobs may be added until it is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// The job that runs once the flow is joined. Without one the engine completes the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Box<NewJobShape>>,
}

/// Jobs to add to an open flow.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = NewNodes)]
pub struct NodesBody {
    /// Its jobs by their names, at most 10,000.
    pub nodes: BTreeMap<String, NewJobShape>,
}

/// A flow that was made, or grew.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = MadeFlow)]
pub struct MadeFlow {
    /// The flow: a job that waits for the others.
    pub id: String,
    /// The ids of its jobs by their names.
    pub nodes: BTreeMap<String, String>,
}

/// Jobs and who waits for whom.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Graph)]
pub struct GraphShape {
    /// Jobs, oldest first.
    pub nodes: Vec<NodeShape>,
    /// From a job to one that waits for it.
    pub edges: Vec<GraphEdge>,
    /// Whether there are more jobs than shown.
    pub truncated: bool,
}

/// A job of a graph.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = GraphNode)]
pub struct NodeShape {
    /// Its id.
    pub id: String,
    /// Its name in its flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What to do.
    pub kind: String,
    /// Which line it stands in.
    pub queue: String,
    /// Where it stands.
    #[schema(value_type = String)]
    pub status: Status,
    /// The code of its last error: `skipped` when it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

/// A job and one that waits for it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct GraphEdge {
    /// The upstream job.
    pub from: String,
    /// The job that waits.
    pub to: String,
    /// For which end.
    pub on: OnWord,
}

/// What came before a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Upstream)]
pub(crate) struct UpstreamPage {
    /// In the order in which the job names them, at most 1,000.
    pub(crate) upstream: Vec<UpstreamShape>,
}

/// A job that another waits or waited for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UpstreamJob)]
pub(crate) struct UpstreamShape {
    /// Its id.
    pub(crate) id: String,
    /// By which name the job knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Which end of it the job waits for.
    pub(crate) on: OnWord,
    /// Where it stands; none if it was removed.
    #[schema(value_type = Option<String>)]
    pub(crate) status: Option<Status>,
    /// What it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Raw>,
    /// What it gave, when that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result_base64: Option<String>,
}
