//! `POST /v1/bulk`: cancel or redrive everything that a filter matches, so much per request.

use crate::app::known;
use crate::call::{Call, Reply, ok};
use crate::idempotency::once;
use crate::problem::Problem;
use crate::shape::filter::FilterShape;
use crate::shape::object::objects;
use crate::shape::time::{Span, Time};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use windlass_core::limits::{FORCE_AFTER_DEFAULT_MS, HORIZON_MS, PAGE_MAX, within};
use windlass_core::{Filter, Job, JobId, Key, Metadata, RunAt, Status};
use windlass_store::{Cancel, List, Redrive};

objects!(BulkBody);

/// The most jobs of one request; the answer's cursor goes on.
const MOST: usize = 10_000;
/// How many are acted on at once.
const AT_ONCE: usize = 32;
/// How many are shown as a sample.
const SAMPLE: usize = 10;

/// What to do to everything that a filter matches.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schema(as = Bulk)]
pub(crate) struct BulkBody {
    /// Which jobs. Without a status: those that the action is for.
    filter: FilterShape,
    /// What to do.
    action: Action,
    /// Whether to count only.
    dry_run: bool,
    /// From when redriven jobs may run.
    #[serde(default)]
    run_at: Option<Time>,
    /// Over which period redriven jobs are spread.
    #[serde(default)]
    spread: Option<Span>,
    /// Where the last request ended.
    #[serde(default)]
    cursor: Option<String>,
    /// Why, for cancelled jobs.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Cancel,
    Redrive,
}

impl Action {
    /// The statuses it is for.
    fn is_for(self, status: Status) -> bool {
        match self {
            Self::Cancel => !status.is_terminal(),
            Self::Redrive => status.is_terminal() && status != Status::Completed,
        }
    }

    /// The statuses when the filter names none: nobody wants every cancelled job back by leaving something out.
    fn usual(self) -> Vec<Status> {
        match self {
            Self::Cancel => Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect(),
            Self::Redrive => vec![Status::Failed, Status::TimedOut],
        }
    }
}

/// What was found and done.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = BulkDone)]
pub(crate) struct BulkDone {
    /// Jobs that the filter matches and the action is for, as far as this request looked.
    matched: usize,
    /// Some of them.
    sample: Vec<String>,
    /// Jobs that were acted on.
    done: usize,
    /// Jobs that had moved on meanwhile.
    skipped: usize,
    /// Where to go on; none at the end.
    next_cursor: Option<String>,
}

/// `POST /v1/bulk`
pub(crate) async fn bulk(call: Call) -> Reply {
    let body: BulkBody = call.body()?;
    let spread_ms = body.spread.map_or(0, Span::ms);
    within("spread", spread_ms, 0, HORIZON_MS)?;
    let mut words = serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
    let words = words.get_mut("filter").map(Value::take).unwrap_or_default();
    let mut filter = body.filter.resolve()?;
    match &filter.queue {
        Some(queue) => call.who.check_queue(queue)?,
        None => call.who.check_all_queues()?,
    }
    if filter.statuses.is_empty() {
        filter.statuses = body.action.usual();
    }
    let plan = Plan {
        action: body.action,
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
    action: Action,
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
            Action::Cancel => {
                let wish = windlass_core::decide::Cancel {
                    actor: call.actor(),
                    reason: self.reason.clone(),
                    force: false,
                    force_after_ms: FORCE_AFTER_DEFAULT_MS,
                };
                let request = Cancel { job, wish, expected_version: None };
                known(|| call.app.store.cancel(request.clone(), None)).await?
            }
            Action::Redrive => {
                let (run_at, actor, key) = (self.run_at(job), call.actor(), Some(key.clone()));
                let request = Redrive { job, run_at, from_start: false, actor, key, expected_version: None };
                known(|| call.app.store.redrive(request.clone(), None)).await?
            }
        };
        Ok(answer.is_ok())
    }

    /// Spread evenly by the random part of the id, which needs no count and is the same for a repeat.
    fn run_at(&self, job: JobId) -> RunAt {
        let mut random = [0u8; 8];
        random.copy_from_slice(&job.as_bytes()[8..]);
        // The first two bits say which kind of UUID it is.
        let share = u64::from_be_bytes(random) << 2;
        let share = u128::from(share);
        let spread_ms = self.spread_ms.max(0) as u128;
        let offset_ms = ((share * spread_ms) >> 64) as i64;
        match self.run_at {
            Some(time) => RunAt::At(time.plus_ms(offset_ms)),
            None if offset_ms == 0 => RunAt::Now,
            None => RunAt::After(offset_ms),
        }
    }

    /// Operators' actions are on record; what became of each job is in the job's own log.
    async fn put_on_record(&self, call: &Call, filter: &Filter, done: &BulkDone) {
        let action = match self.action {
            Action::Cancel => "bulk.cancel",
            Action::Redrive => "bulk.redrive",
        };
        let target = filter.queue.as_ref().map_or_else(|| "every queue".to_owned(), ToString::to_string);
        let detail = Metadata::from_iter([
            ("matched".to_owned(), done.matched.into()),
            ("done".to_owned(), done.done.into()),
            ("skipped".to_owned(), done.skipped.into()),
            ("filter".to_owned(), self.words.clone()),
            ("statuses".to_owned(), filter.statuses.iter().map(|status| status.as_str()).collect()),
            ("reason".to_owned(), self.reason.clone().into()),
        ]);
        call.audit(call.actor(), action, target, detail).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Timestamp;

    #[test]
    fn spread_reaches_from_now_to_the_end() {
        let plan = Plan {
            action: Action::Redrive,
            run_at: None,
            spread_ms: 10_000,
            reason: None,
            is_dry: false,
            words: Value::Null,
        };
        let id = |n: u64| JobId::from_parts(Timestamp::from_micros(1), n.to_be_bytes());
        let ms = |n: u64| match plan.run_at(id(n)) {
            RunAt::Now => 0,
            RunAt::After(ms) => ms,
            RunAt::At(_) => unreachable!(),
        };
        assert_eq!(ms(0), 0);
        assert_eq!(ms(u64::MAX), 9_999);
        assert!((4_900..5_100).contains(&ms(u64::MAX >> 3)), "{}", ms(u64::MAX >> 3));
    }
}
