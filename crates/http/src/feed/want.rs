//! Which events a listener wants.

use super::item::Item;
use crate::call::Call;
use crate::problem::Problem;
use crate::wire::filter;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{Facts, Filter, Name};

/// What a listener asked for, and may see.
#[derive(Debug, Clone, Default)]
pub(crate) struct Want {
    filter: Filter,
    /// Only these types of events.
    types: Vec<Box<str>>,
    /// Only these queues, if the caller's key says so.
    queues: Option<Arc<[Name]>>,
    /// Whether events come without their payloads.
    pub(crate) is_lean: bool,
    /// Told at most so often, and then of each job only the newest event.
    pub(crate) every: Option<Duration>,
}

/// The longest pause of a stream that gathers: shorter than the silence after which it has to say something.
const EVERY_MAX_MS: i64 = 10_000;

impl Want {
    /// What a request asks for.
    pub(crate) fn of(call: &Call) -> Result<Self, Problem> {
        let filter = filter::from_query(&call.query)?;
        if let Some(queue) = &filter.queue {
            call.who.check_queue(queue)?;
        }
        let types = call.query.many("type").into_iter().map(Box::from).collect();
        let queues = match &call.who {
            crate::access::Principal::Key(key, _) => key.queues.as_ref().map(|queues| queues.clone().into()),
            _ => None,
        };
        let is_lean = call.query.text("payload").is_some() && !call.query.flag("payload")?;
        let every = call.query.span_ms("every", EVERY_MAX_MS)?;
        let every = every.filter(|ms| *ms > 0).map(|ms| Duration::from_millis(ms.unsigned_abs()));
        Ok(Self { filter, types, queues, is_lean, every })
    }

    /// Whether it asks about what only a job's first event tells.
    pub(crate) fn needs_facts(&self) -> bool {
        self.filter.agent_id.is_some() || self.filter.tag.is_some() || self.filter.parent_id.is_some()
    }

    /// Whether it wants this one, as far as the event itself tells.
    pub(crate) fn takes(&self, item: &Item) -> bool {
        let filter = &self.filter;
        (filter.statuses.is_empty() || item.moved.is_some_and(|to| filter.statuses.contains(&to)))
            && filter.queue.as_ref().is_none_or(|queue| *queue == item.queue)
            && filter.kind.as_ref().is_none_or(|kind| *kind == item.kind)
            && filter.worker_id.as_ref().is_none_or(|id| item.worker().as_ref() == Some(id))
            && filter.error_code.as_ref().is_none_or(|code| item.error_code().as_ref() == Some(code))
            && self.queues.as_ref().is_none_or(|queues| queues.contains(&item.queue))
            && (self.types.is_empty() || self.types.iter().any(|name| **name == *item.type_name()))
    }

    /// Whether it wants events of a job with these facts.
    pub(crate) fn takes_facts(&self, facts: &Facts) -> bool {
        let filter = &self.filter;
        filter.agent_id.as_ref().is_none_or(|agent| facts.agent_id.as_ref() == Some(agent))
            && filter.tag.as_ref().is_none_or(|tag| facts.tags.contains(tag))
            && filter.parent_id.is_none_or(|parent| facts.parent_id == Some(parent))
    }
}
