//! `POST /v1/bulk`: cancel or redrive everything that a filter matches, so much per request.

use crate::app::known;
use crate::call::{Call, Reply, ok};
use crate::idempotency::once;
use crate::problem::Problem;
use crate::wire::operate::{Action, BulkBody, BulkDone};
use crate::wire::time::Span;
use futures_util::future::join_all;
use serde_json::Value;
use windlass_core::bulk::{BulkAction, spread};
use windlass_core::limits::{FORCE_AFTER_DEFAULT_MS, HORIZON_MS, PAGE_MAX};
use windlass_core::span::within_ms;
use windlass_core::{Filter, Job, JobId, Key, Metadata};
use windlass_store::{Cancel, List, Redrive};

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
    let body: BulkBody = call.body()?;
    let spread_ms = body.spread.map_or(0, Span::ms);
    within_ms("spread", spread_ms, 0, HORIZON_MS)?;
    let mut words = serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
    let words = words.get_mut("filter").map(Value::take).unwrap_or_default();
    let mut filter = body.filter.resolve()?;
    match &filter.queue {
        Some(queue) => call.who.check_queue(queue)?,
        None => call.who.check_all_queues()?,
    }
    if filter.statuses.is_empty() {
        filter.statuses = BulkAction::from(body.action).usual();
    }
    let plan = Plan {
        action: body.action.into(),
        run_at: body.run_at.map(|time| time.0),
        spread_ms,
        reason: body.reason,
        is_dry: body.dry_run,
        words,
    };
    let (done, _) = once(&call, async |key| plan.carry_out(&call, filter, body.cursor, &key).await).await?;
    ok(&done)
}

struct Plan {
    action: BulkAction,
    run_at: Option<windlass_core::Timestamp>,
    spread_ms: i64,
    reason: Option<String>,
    is_dry: bool,
    /// The filter as the caller wrote it.
    words: Value,
}

impl Plan {
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
            let matched: Vec<Job> = matched.filter(|job| self.action.is_for(job.status)).collect();
            for some in matched.chunks(AT_ONCE) {
                done.matched += some.len();
                let room = SAMPLE.saturating_sub(done.sample.len());
                done.sample.extend(some.iter().take(room).map(|job| job.id.to_string()));
                if !self.is_dry {
                    for acted in join_all(some.iter().map(|job| self.act(call, job.id, key))).await {
                        // One that moved on meanwhile is none of this action's business.
                        if acted? { done.done += 1 } else { done.skipped += 1 }
                    }
                }
            }
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

    /// Acts on one job, and answers whether it let itself be acted on.
    async fn act(&self, call: &Call, job: JobId, key: &Key) -> Result<bool, Problem> {
        let answer = match self.action {
            BulkAction::Cancel => {
                let wish = windlass_core::decide::Cancel {
                    actor: call.actor(),
                    reason: self.reason.clone(),
                    force: false,
                    force_after_ms: FORCE_AFTER_DEFAULT_MS,
                };
                let request = Cancel { job, wish, expected_version: None };
                known(|| call.app.store.cancel(request.clone(), None)).await?
            }
            BulkAction::Redrive => {
                let run_at = spread(job, self.run_at, self.spread_ms);
                let (actor, key) = (call.actor(), Some(key.clone()));
                let request = Redrive {
                    job,
                    run_at,
                    from_start: false,
                    payload: None,
                    actor,
                    key,
                    expected_version: None,
                };
                known(|| call.app.store.redrive(request.clone(), None)).await?
            }
        };
        Ok(answer.is_ok())
    }

    /// Operators' actions are on record; what became of each job is in the job's own log.
    async fn put_on_record(&self, call: &Call, filter: &Filter, done: &BulkDone) {
        let target = filter.queue.as_ref().map_or_else(|| "every queue".to_owned(), ToString::to_string);
        let detail = Metadata::from_iter([
            ("matched".to_owned(), done.matched.into()),
            ("done".to_owned(), done.done.into()),
            ("skipped".to_owned(), done.skipped.into()),
            ("filter".to_owned(), self.words.clone()),
            ("statuses".to_owned(), filter.statuses.iter().map(|status| status.as_str()).collect()),
            ("reason".to_owned(), self.reason.clone().into()),
        ]);
        call.audit(call.actor(), self.action.as_str(), target, detail).await;
    }
}
