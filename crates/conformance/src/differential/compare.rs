//! Everything that two stores hold, compared at the end of a life.

use super::twins::{Twins, both, same};
use crate::{name, time, who};
use proptest::test_runner::TestCaseError;
use windlass_core::{AuditEntry, Filter, Status};
use windlass_store::{
    List, ListApprovals, Listed, ReadArchive, ReadAudit, ReadEvents, ReadLogs, ReadSteps, Store,
};

/// Compares rows, logs, lists, approvals, audit and what surrounds them.
pub async fn everything(twins: &mut Twins) -> Result<(), TestCaseError> {
    what_moves(twins).await?;
    both!(twins, term, name("leader"));
    let (mut left, mut right) =
        (twins.model.workers((), twins.now()).await, twins.store.workers((), twins.now()).await);
    for workers in [&mut left, &mut right].into_iter().flatten() {
        workers.sort_by_key(|w| w.id.clone());
    }
    same("workers", &(), left, right).map(|_| ())
}

/// The same without what is each house's own.
pub async fn what_moves(twins: &mut Twins) -> Result<(), TestCaseError> {
    jobs(twins).await?;
    lists(twins).await?;
    both!(twins, queues, 3);
    both!(twins, queue_settings, ());
    both!(twins, counts, 3);
    both!(twins, access_keys, ());
    both!(twins, archive, ReadArchive { finished_before: twins.now.plus_ms(1), limit: 1_000 });
    both!(twins, approvals, ListApprovals { limit: 1_000, ..ListApprovals::default() });
    for status in windlass_core::wait::ApprovalStatus::ALL {
        both!(twins, approvals, ListApprovals { status: Some(status), limit: 2, ..ListApprovals::default() });
    }
    let (left, right) = (audit(&*twins.model).await, audit(&*twins.store).await);
    same("audit", &(), Ok(left), Ok(right)).map(|_| ())
}

async fn jobs(twins: &mut Twins) -> Result<(), TestCaseError> {
    let mut ids = twins.ids.clone();
    ids.sort_unstable();
    ids.dedup();
    for job in ids {
        both!(twins, job, job);
        both!(twins, events, ReadEvents { job, after: 0, limit: 1_000, newest_first: false });
        both!(twins, steps, ReadSteps::all(job));
        both!(twins, logs, ReadLogs { job, after: 0, limit: 1_000 });
        both!(twins, approvals, ListApprovals { job: Some(job), limit: 100, ..ListApprovals::default() });
    }
    Ok(())
}

/// Filters of every order.
fn filters(twins: &Twins) -> Vec<Filter> {
    let of = |statuses: &[Status]| Filter { statuses: statuses.to_vec(), ..Filter::default() };
    let mut filters = vec![
        Filter::default(),
        of(&[Status::Failed, Status::TimedOut]),
        of(&[Status::Completed, Status::Cancelled]),
        of(&[Status::Pending, Status::Retry, Status::Orphaned]),
        of(&[Status::Waiting, Status::Assigned]),
        of(&[Status::Running]),
        of(&[Status::Running, Status::Failed]),
        Filter { queue: Some(name("q0")), ..Filter::default() },
        Filter { kind: Some(name("red")), ..of(&[Status::Pending, Status::Retry]) },
        Filter { agent_id: Some(who("agent")), ..Filter::default() },
        Filter { tag: Some(name("y")), ..Filter::default() },
        Filter { worker_id: Some(who("w1")), ..Filter::default() },
        Filter { error_code: Some(who("broken")), ..of(&[Status::Failed]) },
        Filter { created_after: Some(time(500)), ..Filter::default() },
        Filter { finished_before: Some(time(20_000)), ..of(&[Status::Completed]) },
    ];
    let parents = twins.sent.iter().filter_map(|j| j.facts.parent_id).take(3);
    filters.extend(parents.map(|p| Filter { parent_id: Some(p), ..Filter::default() }));
    filters
}

async fn lists(twins: &mut Twins) -> Result<(), TestCaseError> {
    for filter in filters(twins) {
        for limit in [2, 1_000] {
            let left = paged(&*twins.model, &filter, limit, twins).await?;
            let right = paged(&*twins.store, &filter, limit, twins).await?;
            same("jobs", &filter, Ok(left), Ok(right))?;
        }
    }
    Ok(())
}

/// All pages of a list; where a page ends is each store's own.
async fn paged(
    store: &dyn Store,
    filter: &Filter,
    limit: usize,
    twins: &Twins,
) -> Result<Vec<Listed>, TestCaseError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    for _ in 0..1_000 {
        let page = store.jobs(List { filter: filter.clone(), cursor, limit }, twins.now()).await;
        let Ok(Ok(page)) = page else { return Err(TestCaseError::fail(format!("no page: {page:?}"))) };
        all.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(all);
        }
    }
    Err(TestCaseError::fail(format!("a list does not end: {filter:?}")))
}

/// The audit without what is each store's own: its numbers, and the detail of what is not a refused vote.
async fn audit(store: &dyn Store) -> Vec<AuditEntry> {
    let mut entries = store.audit(ReadAudit { before: None, limit: 1_000 }, None).await.unwrap_or_default();
    for entry in &mut entries {
        entry.seq = 0;
        if entry.action.as_str() != "approval.refused" {
            entry.detail.clear();
        }
    }
    entries
}
