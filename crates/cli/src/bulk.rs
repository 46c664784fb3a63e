//! Cancelling or redriving everything that a filter matches, so much per call.

use crate::door::Action;
use crate::fail::Outcome;
use crate::shape::Doc;
use std::sync::Arc;
use windlass_core::limits::{FORCE_AFTER_DEFAULT_MS, PAGE_MAX};
use windlass_core::{Actor, Answer, Filter, Job, JobId, Key, Metadata, Name, RunAt, Status};
use windlass_store::{Cancel, List, Redrive, Store, StoreResult, WriteAudit};

/// Rows looked at per call.
const MOST: usize = 10_000;
/// Ids shown of what was met.
const SAMPLE: usize = 10;

/// What is done, by whom.
#[derive(Debug)]
pub struct Plan<'a> {
    /// What.
    pub action: &'a Action,
    /// By whom.
    pub actor: &'a Actor,
    /// Recognises a repeat after a lost answer.
    pub key: Key,
    /// Whether nothing is done.
    pub is_dry: bool,
}

#[derive(Debug, Default)]
struct Met {
    matched: usize,
    sample: Vec<String>,
    done: usize,
    skipped: usize,
}

/// Meets the jobs of a filter from a cursor on.
pub async fn carry_out(
    store: &Arc<dyn Store>,
    plan: &Plan<'_>,
    mut filter: Filter,
    mut cursor: Option<String>,
) -> Outcome<Doc> {
    if filter.statuses.is_empty() {
        filter.statuses = usual(plan.action);
    }
    let (mut met, mut looked) = (Met::default(), 0);
    loop {
        let page = store.jobs(List { filter: filter.clone(), cursor, limit: PAGE_MAX }, None).await??;
        looked += PAGE_MAX;
        for job in page.items.into_iter().map(|listed| listed.job) {
            if is_for(plan.action, job.status) {
                plan.meet(store, &job, &mut met).await?;
            }
        }
        cursor = page.next;
        if cursor.is_none() || looked >= MOST {
            break;
        }
    }
    if !plan.is_dry && met.done > 0 {
        plan.put_on_record(store, &filter, &met).await?;
    }
    let mut doc = Doc::default();
    doc.put("matched", met.matched).put("sample", met.sample).put("done", met.done);
    doc.put("skipped", met.skipped).put("next_cursor", cursor);
    Ok(doc)
}

fn is_for(action: &Action, status: Status) -> bool {
    match action {
        Action::Cancel { .. } => !status.is_terminal(),
        Action::Redrive { .. } => status.is_terminal() && status != Status::Completed,
    }
}

/// What is meant when no status is named.
fn usual(action: &Action) -> Vec<Status> {
    match action {
        Action::Cancel { .. } => Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect(),
        Action::Redrive { .. } => vec![Status::Failed, Status::TimedOut],
    }
}

impl Plan<'_> {
    async fn meet(&self, store: &Arc<dyn Store>, job: &Job, met: &mut Met) -> Outcome {
        met.matched += 1;
        if met.sample.len() < SAMPLE {
            met.sample.push(job.id.to_string());
        }
        if self.is_dry {
            return Ok(());
        }
        // One that moved on meanwhile is none of this action's business.
        if self.act(store, job.id).await?.is_ok() {
            met.done += 1
        } else {
            met.skipped += 1
        }
        Ok(())
    }

    async fn act(&self, store: &Arc<dyn Store>, job: JobId) -> StoreResult<Answer> {
        let actor = self.actor.clone();
        match self.action {
            Action::Cancel { reason } => {
                let (reason, force_after_ms) = (reason.clone(), FORCE_AFTER_DEFAULT_MS);
                let wish = windlass_core::decide::Cancel { actor, reason, force: false, force_after_ms };
                store.cancel(Cancel { job, wish }, None).await
            }
            Action::Redrive { run_at, spread_ms } => {
                let offset_ms = offset_ms(job, *spread_ms);
                let run_at = match run_at {
                    Some(time) => RunAt::At(time.plus_ms(offset_ms)),
                    None if offset_ms == 0 => RunAt::Now,
                    None => RunAt::After(offset_ms),
                };
                let request = Redrive { job, run_at, from_start: false, actor, key: Some(self.key.clone()) };
                store.redrive(request, None).await
            }
        }
    }

    async fn put_on_record(&self, store: &Arc<dyn Store>, filter: &Filter, met: &Met) -> Outcome {
        let action = match self.action {
            Action::Cancel { .. } => "bulk.cancel",
            Action::Redrive { .. } => "bulk.redrive",
        };
        let target = filter.queue.as_ref().map_or_else(|| "every queue".to_owned(), ToString::to_string);
        let detail = Metadata::from_iter([
            ("matched".to_owned(), met.matched.into()),
            ("done".to_owned(), met.done.into()),
        ]);
        let action = Name::parse("action", action)?;
        store.write_audit(WriteAudit { actor: self.actor.clone(), action, target, detail }, None).await?;
        Ok(())
    }
}

/// Where in the spread a job falls. Ids are random behind their date, so many jobs lie evenly.
fn offset_ms(job: JobId, spread_ms: i64) -> i64 {
    let mut random = [0u8; 8];
    random.copy_from_slice(&job.as_bytes()[8..]);
    // The first two bits say which kind of UUID it is.
    let share = u128::from(u64::from_be_bytes(random) << 2);
    ((share * spread_ms.unsigned_abs() as u128) >> 64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Timestamp;

    #[test]
    fn a_spread_reaches_from_now_to_its_end() {
        let id = |n: u64| JobId::from_parts(Timestamp::from_micros(1), n.to_be_bytes());
        assert_eq!(offset_ms(id(0), 10_000), 0);
        assert_eq!(offset_ms(id(u64::MAX), 10_000), 9_999);
    }
}
