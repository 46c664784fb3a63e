//! `POST /v1/bulk`: cancel or redrive everything that a filter matches, so much per request, or as an operation.

use crate::app::known;
use crate::call::{Call, Reply, ok};
use crate::idempotency::once;
use crate::operations;
use crate::problem::Problem;
use crate::wire::operate::{Action, BulkBody, BulkDone};
use crate::wire::time::Span;
use futures_util::future::join_all;
use serde_json::Value;
use windlass_core::bulk::BulkAction;
use windlass_core::limits::{HORIZON_MS, PAGE_MAX, within};
use windlass_core::operation::{IDS_MAX, Operation, Which};
use windlass_core::span::within_ms;
use windlass_core::{Filter, Invalid, Job, JobId, Key, Metadata};
use windlass_engine::bulk::BulkPlan;
use windlass_store::{List, fresh};

/// The most jobs of one request; the answer's cursor goes on.
const MOST: usize = 10_000;
/// How many are acted on at once.
const AT_ONCE: usize = 32;
/// How many are shown as a sample.
const SAMPLE: usize = 10;

impl From<Action> for BulkAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Cancel => Self::Cancel,
            Action::Redrive => Self::Redrive,
        }
    }
}

/// `POST /v1/bulk`
pub(crate) async fn bulk(call: Call) -> Reply {
    let mut body: BulkBody = call.body()?;
    let spread_ms = body.spread.map_or(0, Span::ms);
    within_ms("spread", spread_ms, 0, HORIZON_MS)?;
    let action = BulkAction::from(body.action);
    let which = match (body.filter.take(), body.ids.take()) {
        (Some(filter), None) => Which::Filter(Box::new(allowed(&call, filter.resolve()?, action)?)),
        (None, Some(ids)) => Which::Ids(named(&call, &ids).await?),
        (None, None) => return Err(Invalid::new("filter", "none", "give `filter` or `ids`").into()),
        (Some(_), Some(_)) => {
            return Err(Invalid::new("ids", "given", "give `filter` or `ids`, not both").into());
        }
    };
    let plan = BulkPlan {
        action,
        run_at: body.run_at.map(|time| time.0),
        spread_ms,
        reason: body.reason,
        actor: call.actor(),
    };
    if let (Some(hold), false) = (body.hold, body.dry_run) {
        let one = Operation {
            run_at: plan.run_at,
            spread_ms,
            reason: plan.reason,
            ..Operation::new(action, which, plan.actor, hold.ms(), fresh::wall_clock())?
        };
        let (begun, _) = once(&call, async |_| operations::begin(&call, one).await).await?;
        return operations::begun(&begun);
    }
    let words = serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
    let work = Work { plan, is_dry: body.dry_run, words };
    let (done, _) = once(&call, async |key| match which {
        Which::Filter(filter) => work.carry_out(&call, *filter, body.cursor, &key).await,
        Which::Ids(ids) => work.carry_out_named(&call, &ids, &key).await,
    })
    .await?;
    ok(&done)
}

/// The filter with the statuses that are usual, if the caller may touch all that it matches.
fn allowed(call: &Call, mut filter: Filter, action: BulkAction) -> Result<Filter, Problem> {
    match &filter.queue {
        Some(queue) => call.who.check_queue(queue)?,
        None => call.who.check_all_queues()?,
    }
    if filter.statuses.is_empty() {
        filter.statuses = action.usual();
    }
    Ok(filter)
}

/// Jobs by their ids, each of which the caller may touch. One that is not there is refused before anything is done.
async fn named(call: &Call, ids: &[String]) -> Result<Vec<JobId>, Problem> {
    within("ids", ids.len() as i64, 1, IDS_MAX as i64)?;
    let mut jobs = Vec::with_capacity(ids.len());
    for id in ids {
        jobs.push(call.view(JobId::parse(id)?).await?.job.id);
    }
    Ok(jobs)
}

struct Work {
    plan: BulkPlan,
    is_dry: bool,
    /// The request as the caller wrote it.
    words: Value,
}

impl Work {
    async fn carry_out(
        &self,
        call: &Call,
        filter: Filter,
        mut cursor: Option<String>,
        key: &Key,
    ) -> Result<BulkDone, Problem> {
        let mut done = BulkDone::default();
        let mut looked = 0;
        loop {
            let limit = PAGE_MAX.min(MOST - looked);
            let page = call.store().jobs(List { filter: filter.clone(), cursor, limit }, None).await??;
            looked += limit;
            let matched = page.items.into_iter().map(|listed| listed.job);
            let matched: Vec<Job> =
                matched.filter(|job| self.plan.action.is_for_found(job, &filter)).collect();
            let matched: Vec<JobId> = matched.iter().map(|job| job.id).collect();
            self.act(call, &matched, key, &mut done).await?;
            cursor = page.next;
            if cursor.is_none() || looked >= MOST {
                done.next_cursor = cursor;
                break;
            }
        }
        if !self.is_dry && done.done > 0 {
            self.put_on_record(call, &filter, &done).await;
        }
        Ok(done)
    }

    async fn carry_out_named(&self, call: &Call, jobs: &[JobId], key: &Key) -> Result<BulkDone, Problem> {
        let mut matched = Vec::new();
        for id in jobs {
            let view = call.store().job(*id, None).await?;
            matched.extend(view.filter(|view| self.plan.action.is_for(view.job.status)).map(|_| *id));
        }
        let mut done = BulkDone::default();
        self.act(call, &matched, key, &mut done).await?;
        if !self.is_dry && done.done > 0 {
            self.put_on_record(call, &Filter::default(), &done).await;
        }
        Ok(done)
    }

    /// Acts on these jobs, and counts those that let themselves be acted on.
    async fn act(&self, call: &Call, jobs: &[JobId], key: &Key, done: &mut BulkDone) -> Result<(), Problem> {
        for some in jobs.chunks(AT_ONCE) {
            done.matched += some.len();
            let room = SAMPLE.saturating_sub(done.sample.len());
            done.sample.extend(some.iter().take(room).map(ToString::to_string));
            if !self.is_dry {
                let acts = some.iter().map(|job| known(|| self.plan.act(&*call.app.store, *job, key)));
                for acted in join_all(acts).await {
                    // One that moved on meanwhile is none of this action's business.
                    if acted?.is_ok() { done.done += 1 } else { done.skipped += 1 }
                }
            }
        }
        Ok(())
    }

    /// Operators' actions are on record; what became of each job is in the job's own log.
    async fn put_on_record(&self, call: &Call, filter: &Filter, done: &BulkDone) {
        let target = filter.queue.as_ref().map_or_else(|| "every queue".to_owned(), ToString::to_string);
        let detail = Metadata::from_iter([
            ("matched".to_owned(), done.matched.into()),
            ("done".to_owned(), done.done.into()),
            ("skipped".to_owned(), done.skipped.into()),
            ("filter".to_owned(), self.words["filter"].clone()),
            ("ids".to_owned(), self.words["ids"].clone()),
            ("statuses".to_owned(), filter.statuses.iter().map(|status| status.as_str()).collect()),
            ("reason".to_owned(), self.plan.reason.clone().into()),
        ]);
        call.audit(call.actor(), self.plan.action.as_str(), target, detail).await;
    }
}
