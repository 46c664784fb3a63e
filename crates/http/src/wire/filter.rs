//! Which jobs: the filters of lists, bulk actions and the feed.

use super::new_job::job_id;
use super::object::two_way;
use super::time::Time;
use crate::query::Query;
use crate::route::{Is, Param, param};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::{Filter, Invalid, Name, Status, Who};

two_way!(FilterShape);

/// The filters that lists and the feed share.
pub(crate) const STANDING: [Param; 9] = [
    Param {
        name: "status",
        is_a: Is::Text,
        about: "any of these, behind commas or given more than once",
        is_many: true,
    },
    param("dead", Is::Flag, "dead letters: failed and timed out"),
    param("queue", Is::Text, "in this queue"),
    param("kind", Is::Text, "of this kind"),
    param("agent_id", Is::Text, "of this agent"),
    param("tag", Is::Text, "with this tag"),
    param("parent_id", Is::Id, "spawned by this job"),
    param("worker_id", Is::Text, "held by this worker"),
    param("error_code", Is::Text, "with this last error"),
];

/// The filters of lists by time.
pub(crate) const DATED: [Param; 4] = [
    param("created_after", Is::Time, "enqueued at or after"),
    param("created_before", Is::Time, "enqueued before"),
    param("finished_after", Is::Time, "ended at or after"),
    param("finished_before", Is::Time, "ended before"),
];

/// Which jobs, as a body says it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Filter)]
pub struct FilterShape {
    /// One status, or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Words>,
    /// Dead letters: failed and timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<bool>,
    /// In this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// With this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Spawned by this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Held by this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// With this last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Enqueued at or after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Time>,
    /// Enqueued before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Time>,
    /// Ended at or after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_after: Option<Time>,
    /// Ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_before: Option<Time>,
}

/// One word, or several.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Words {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl FilterShape {
    /// The filter as it is shown.
    pub(crate) fn of(filter: &Filter) -> Self {
        let text = |name: &Option<Name>| name.as_ref().map(ToString::to_string);
        let who = |id: &Option<Who>| id.as_ref().map(ToString::to_string);
        let words = filter.statuses.iter().map(|status| status.as_str().to_owned());
        Self {
            status: (!filter.statuses.is_empty()).then(|| Words::Many(words.collect())),
            dead: None,
            queue: text(&filter.queue),
            kind: text(&filter.kind),
            agent_id: who(&filter.agent_id),
            tag: text(&filter.tag),
            parent_id: filter.parent_id.map(|id| id.to_string()),
            worker_id: who(&filter.worker_id),
            error_code: who(&filter.error_code),
            created_after: filter.created_after.map(Time),
            created_before: filter.created_before.map(Time),
            finished_after: filter.finished_after.map(Time),
            finished_before: filter.finished_before.map(Time),
        }
    }

    /// The filter as the store takes it.
    pub(crate) fn resolve(self) -> Result<Filter, Invalid> {
        let words = match self.status {
            None => Vec::new(),
            Some(Words::One(word)) => vec![word],
            Some(Words::Many(words)) => words,
        };
        Ok(Filter {
            statuses: statuses(words.iter().map(String::as_str), self.dead.unwrap_or_default())?,
            queue: self.queue.map(|name| Name::parse("queue", name)).transpose()?,
            kind: self.kind.map(|name| Name::parse("kind", name)).transpose()?,
            agent_id: self.agent_id.map(|id| Who::parse("agent_id", id)).transpose()?,
            tag: self.tag.map(|name| Name::parse("tag", name)).transpose()?,
            parent_id: self.parent_id.map(|id| job_id("parent_id", &id)).transpose()?,
            worker_id: self.worker_id.map(|id| Who::parse("worker_id", id)).transpose()?,
            error_code: self.error_code.map(|code| Who::parse("error_code", code)).transpose()?,
            created_after: self.created_after.map(|time| time.0),
            created_before: self.created_before.map(|time| time.0),
            finished_after: self.finished_after.map(|time| time.0),
            finished_before: self.finished_before.map(|time| time.0),
        })
    }
}

/// The filter that an address says.
pub(crate) fn from_query(query: &Query) -> Result<Filter, Invalid> {
    Ok(Filter {
        statuses: statuses(query.many("status"), query.flag("dead")?)?,
        queue: query.name("queue")?,
        kind: query.name("kind")?,
        agent_id: query.who("agent_id")?,
        tag: query.name("tag")?,
        parent_id: query.job("parent_id")?,
        worker_id: query.who("worker_id")?,
        error_code: query.who("error_code")?,
        created_after: query.time("created_after")?,
        created_before: query.time("created_before")?,
        finished_after: query.time("finished_after")?,
        finished_before: query.time("finished_before")?,
    })
}

fn statuses<'a>(words: impl IntoIterator<Item = &'a str>, dead: bool) -> Result<Vec<Status>, Invalid> {
    let parse = |word: &str| {
        Status::parse(word).ok_or_else(|| {
            let all: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
            Invalid::new("status", word, format!("must be one of {}", all.join(", ")))
        })
    };
    let mut statuses = words.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if dead {
        let is_asked = statuses.is_empty();
        statuses.retain(|status| status.is_dead());
        if is_asked {
            statuses = vec![Status::Failed, Status::TimedOut];
        } else if statuses.is_empty() {
            return Err(Invalid::new("dead", "true", "goes with status failed or timed_out only"));
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    Ok(statuses)
}
