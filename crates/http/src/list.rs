//! Reading jobs: pages of them, one with everything, one as it stood, and the log of one.

use crate::archived;
use crate::call::{Call, Reply, ok};
use crate::cause;
use crate::problem::Problem;
use crate::problems;
use crate::wire::event::{EventShape, EventsPage};
use crate::wire::filter;
use crate::wire::job::{Around, JobShape, JobsPage};
use futures_util::{StreamExt, TryStreamExt, stream};
use windlass_core::limits::within;
use windlass_core::unique::Scope;
use windlass_core::{
    Event, EventKind, Facts, Filter, Invalid, Job, JobId, Key, Metadata, Name, Refusal, Version,
};
use windlass_store::{
    AtVersion, FindKey, JobView, List, Listed, ProblemView, ReadEvents, Store, StoreResult,
};

/// Rows of a page of jobs when nothing is said.
const PAGE: usize = 50;
/// How many errors are looked at side by side.
const LOOKS: usize = 8;
/// Events of a page when nothing is said.
const EVENTS: usize = 100;
/// Events of one look into the store: each may be a mebibyte.
const EVENTS_AT_ONCE: usize = 100;
/// Bytes after which a page of events ends early.
pub(crate) const EVENTS_MAX_BYTES: usize = 8 << 20;

/// `GET /v1/jobs`
pub(crate) async fn jobs(call: Call) -> Reply {
    let mut filter = filter::from_query(&call.query)?;
    if let Some(queue) = &filter.queue {
        call.who.check_queue(queue)?;
    }
    if let Some(key) = call.query.text("unique_key") {
        let jobs = holder(&call, Key::parse("unique_key", key)?, &filter).await?.into_iter().collect();
        return ok(&JobsPage { jobs, next_cursor: None });
    }
    let problem = problems::wanted(&call).await?;
    if let Some(ProblemView { problem, .. }) = &problem {
        let is_other = |kind: &Name| *kind != problem.kind;
        if filter.kind.as_ref().is_some_and(is_other) {
            return ok(&JobsPage { jobs: Vec::new(), next_cursor: None });
        }
        filter.kind = Some(problem.kind.clone());
        filter.error_code = Some(problem.code.clone());
    }
    let cursor = call.query.text("cursor").map(str::to_owned);
    let request = List { filter, cursor, limit: call.query.limit(PAGE)? };
    let mut page = call.store().jobs(request, None).await??;
    page.items.retain(|listed| call.who.sees(&listed.job.queue));
    if let Some(problem) = &problem {
        page.items = of_problem(call.store(), problem, page.items).await?;
    }
    ok(&JobsPage { jobs: page.items.iter().map(JobShape::listed).collect(), next_cursor: page.next })
}

/// Those jobs of a page whose last error is of a problem: each costs a look at its error.
async fn of_problem(
    store: &dyn Store,
    problem: &ProblemView,
    page: Vec<Listed>,
) -> Result<Vec<Listed>, Problem> {
    let looked = stream::iter(page).map(|listed| async move {
        let Some(read) = problems::error_of(&listed.job) else { return Ok(None) };
        let error = store.events(read, None).await?.pop();
        StoreResult::Ok(error.filter(|event| problems::is_of(problem, event)).map(|_| listed))
    });
    let kept: Vec<Option<Listed>> = looked.buffered(LOOKS).try_collect().await?;
    Ok(kept.into_iter().flatten().collect())
}

/// The job that holds a unique key among the jobs of a queue, or of a kind, if it matches the rest of the filter too.
async fn holder(call: &Call, key: Key, filter: &Filter) -> Result<Option<JobShape>, Problem> {
    let scope = match (&filter.queue, &filter.kind) {
        (Some(queue), _) => Scope::Queue(queue.clone()),
        (None, Some(kind)) => Scope::Kind(kind.clone()),
        (None, None) => {
            let told = "goes with queue, or with kind where the key is unique among the jobs of a kind";
            return Err(Invalid::new("unique_key", key, told).into());
        }
    };
    let Some(hold) = call.store().find_key(FindKey { scope, key }, None).await? else { return Ok(None) };
    // A key may outlive its job.
    let view = call.store().job(hold.job, None).await?;
    let is_meant = |view: &JobView| {
        call.who.sees(&view.job.queue) && filter.matches(&view.job, || Some(view.facts.clone()))
    };
    Ok(view.filter(is_meant).map(JobShape::view))
}

/// `GET /v1/jobs/{id}`
pub(crate) async fn job(call: Call) -> Reply {
    let (id, at_version) = (call.job_id()?, call.query.number("at_version")?);
    let Some(mut view) = call.store().job(id, None).await? else {
        return archived::answer(&call, id, at_version).await;
    };
    call.who.check_sees(&view.job.queue)?;
    match at_version {
        None => {
            cause::follow(&call, &mut view).await?;
            ok(&JobShape::view(view))
        }
        Some(version) => {
            within("at_version", version, 1, view.job.version)?;
            ok(&as_it_stood(call.store(), view.job.id, version).await?)
        }
    }
}

/// A job at a version, with what its pointers pointed at then.
async fn as_it_stood(store: &dyn Store, id: JobId, version: Version) -> Result<JobShape, Problem> {
    let job: Job = store.at_version(AtVersion { job: id, version }, None).await?.ok_or(Refusal::NotFound)?;
    let first = event(store, id, Some(1)).await?.ok_or(Refusal::NotFound)?;
    let facts = facts(&first).ok_or(Refusal::NotFound)?;
    let redriven = event(store, id, job.payload_version).await?;
    let result = event(store, id, job.result_version).await?;
    let error = event(store, id, job.error_version).await?;
    let checkpoint = event(store, id, job.checkpoint_version).await?;
    let metadata = match event(store, id, job.meta_version).await?.map(|event| event.what) {
        Some(EventKind::JobCreated(facts)) => facts.metadata,
        Some(EventKind::JobProgressed(progressed)) => progressed.metadata.unwrap_or_default(),
        _ => Metadata::new(),
    };
    let around = Around {
        payload: redriven.as_ref().unwrap_or(&first).payload.as_ref(),
        result: result.as_ref().and_then(|event| event.payload.as_ref()),
        error: error.as_ref().and_then(|event| Some((event.payload.as_ref()?, event.at))),
        checkpoint: checkpoint.as_ref().and_then(|event| event.payload.as_ref()),
        metadata,
    };
    Ok(JobShape::whole(&job, facts, around))
}

fn facts(event: &Event) -> Option<&Facts> {
    if let EventKind::JobCreated(facts) = &event.what { Some(facts) } else { None }
}

async fn event(store: &dyn Store, job: JobId, version: Option<Version>) -> Result<Option<Event>, Problem> {
    let Some(version) = version else { return Ok(None) };
    let request = ReadEvents { job, after: version - 1, limit: 1, newest_first: false };
    Ok(store.events(request, None).await?.pop())
}

/// `GET /v1/jobs/{id}/events`
pub(crate) async fn events(call: Call) -> Reply {
    let job = call.job_id()?;
    let limit = call.query.limit(EVENTS)?;
    let newest_first = match call.query.text("order") {
        None | Some("asc") => false,
        Some("desc") => true,
        Some(other) => return Err(Invalid::new("order", other, "must be asc or desc").into()),
    };
    let mut after = call.query.number("after")?.unwrap_or_default();
    within("after", after, 0, i64::MAX)?;
    // Whether there is such a job, and whether it is the caller's to see.
    if call.seen(job).await?.is_none() {
        return archived::events(&call, ReadEvents { job, after, limit, newest_first }).await;
    }
    let mut shapes = Vec::new();
    let (mut bytes, mut is_end) = (0, false);
    while shapes.len() < limit && bytes < EVENTS_MAX_BYTES && !is_end {
        let wanted = (limit - shapes.len()).min(EVENTS_AT_ONCE);
        let read = ReadEvents { job, after, limit: wanted, newest_first };
        let events = call.store().events(read, None).await?;
        is_end = events.len() < wanted;
        for event in &events {
            bytes += event.payload.as_ref().map_or(0, |payload| payload.as_bytes().len());
            after = event.version;
            shapes.push(EventShape::of(event));
        }
        // Before the first there is nothing, and `after` 0 would begin anew.
        is_end |= newest_first && after <= 1;
    }
    ok(&EventsPage { events: shapes, next_after: (!is_end).then_some(after) })
}
