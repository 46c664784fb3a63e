//! Reading jobs: a page, counts, the log.
//!
//! Every list is driven by an index that is there for another reason; what the index does not know is filtered
//! here. A page reads a bounded number of rows, so it may be short although more follows.

use crate::db::{Db, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::{self, Columns, Ts};
use std::cmp::Reverse;
use std::collections::HashMap;
use uuid::Uuid;
use windlass_core::limits::{self, PAGE_MAX, PRIORITY_MAX};
use windlass_core::unique::Hold;
use windlass_core::{
    Count, Cursor, Event, EventKind, Facts, Filter, Job, JobId, Order, Refusal, Status, Timestamp,
};
use windlass_store::{AtVersion, Counts, FindKey, List, Listed, Now, Page, ReadEvents};

/// Rows one page may look at.
const SCAN_MAX: usize = 10_000;
/// Rows fetched at a time while a page fills.
const CHUNK: i64 = 500;
/// Before every moment.
const EVER: Timestamp = Timestamp::from_micros(i64::MIN);
/// After every moment.
const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// A page's size, within the limits.
pub(crate) fn page(limit: usize) -> i64 {
    limit.clamp(1, PAGE_MAX) as i64
}

fn counted(row: &tokio_postgres::Row) -> Tried<i64> {
    Ok(row.try_get(0)?)
}

/// A row of `jobs`, and what of it does not read back.
type Row = (Job, Option<String>);

/// Why a first event says nothing of its job.
fn not_created(what: &EventKind) -> String {
    match what {
        EventKind::Unreadable(stored) => stored.to_string(),
        other => format!("it is {}, not job_created", other.type_name()),
    }
}

impl Db<'_> {
    pub(crate) async fn jobs(&self, request: &List, _: Now) -> Tried<Result<Page<Listed>, Refusal>> {
        let order = request.filter.order();
        let checked = limits::within("limit", request.limit as i64, 1, PAGE_MAX as i64)
            .and_then(|_| request.cursor.as_deref().map(|c| Cursor::parse(c, order)).transpose());
        let mut cursor = match checked {
            Ok(cursor) => cursor,
            Err(invalid) => return Ok(Err(invalid.into())),
        };
        let (mut items, mut scanned) = (Vec::new(), 0);
        // Most pages are full with the first rows looked at.
        let mut size = (request.limit as i64).min(CHUNK);
        loop {
            let chunk = self.chunk(&request.filter, order, cursor.as_ref(), size).await?;
            let last_chunk = (chunk.len() as i64) < size;
            let mut facts = self.facts(&chunk).await?;
            for (job, wrong) in chunk {
                scanned += 1;
                cursor = Cursor::of(order, &job);
                // The filter was about facts in vain if the first event is gone or does not read back.
                let (facts, unread) = facts.remove(&job.id).unzip();
                let (facts, unread) = (facts.flatten(), unread.flatten());
                if request.filter.matches(&job, || facts.clone()) {
                    let facts = facts.unwrap_or_else(|| Facts::new(job.kind.clone(), job.queue.clone()));
                    items.push(Listed { job, facts, unreadable: wrong.or(unread) });
                }
                if items.len() == request.limit || scanned == SCAN_MAX {
                    return Ok(Ok(Page { items, next: cursor.map(|c| c.to_text()) }));
                }
            }
            if last_chunk {
                return Ok(Ok(Page { items, next: None }));
            }
            size = CHUNK;
        }
    }

    /// The facts of jobs, without their payloads, or why they do not read back.
    async fn facts(&self, jobs: &[Row]) -> Tried<HashMap<JobId, (Option<Facts>, Option<String>)>> {
        let ids: Vec<Uuid> = jobs.iter().map(|(job, _)| uuid(job.id)).collect();
        let created = self.all(sql!("facts"), params![ids], |r| row::readable_event(r, 0)).await?;
        let facts = |e: Event| match e.what {
            EventKind::JobCreated(facts) => (e.job, (Some(*facts), None)),
            other => (e.job, (None, Some(format!("version 1: {}", not_created(&other))))),
        };
        Ok(created.into_iter().map(facts).collect())
    }

    /// The next rows in the order of the list, at most `size`; fewer only if there are no more.
    async fn chunk(
        &self,
        filter: &Filter,
        order: Order,
        after: Option<&Cursor>,
        size: i64,
    ) -> Tried<Vec<Row>> {
        match order {
            Order::Created => self.chunk_created(filter, after, size).await,
            Order::Finished => self.chunk_finished(filter, after, size).await,
            Order::Due => self.chunk_due(filter, after, size).await,
            Order::Worker => self.chunk_worker(filter, after, size).await,
            Order::Parked => self.chunk_parked(filter, after, size).await,
        }
    }

    async fn chunk_created(&self, filter: &Filter, after: Option<&Cursor>, size: i64) -> Tried<Vec<Row>> {
        let before = match after {
            Some(Cursor::Created(Reverse(id))) => uuid(*id),
            _ => Uuid::max(),
        };
        if let Some(parent) = filter.parent_id {
            self.all(sql!("list_by_parent"), params![before, size, uuid(parent)], row::readable_job).await
        } else if let Some(agent) = &filter.agent_id {
            self.all(sql!("list_by_agent"), params![before, size, agent.as_str()], row::readable_job).await
        } else if let Some(tag) = &filter.tag {
            self.all(sql!("list_by_tag"), params![before, size, tag.as_str()], row::readable_job).await
        } else if let Some(kind) = &filter.kind {
            self.all(sql!("list_by_kind"), params![before, size, kind.as_str()], row::readable_job).await
        } else {
            self.all(sql!("list_created"), params![before, size], row::readable_job).await
        }
    }

    async fn chunk_finished(&self, filter: &Filter, after: Option<&Cursor>, size: i64) -> Tried<Vec<Row>> {
        let (at, id) = match after {
            Some(Cursor::Finished(Reverse((at, id)))) => (*at, uuid(*id)),
            _ => (filter.finished_before.unwrap_or(NEVER), Uuid::max()),
        };
        let mut merged = Vec::new();
        for status in &filter.statuses {
            merged.extend(match status {
                Status::Completed => {
                    self.listed(sql!("list_completed"), params![Ts(at), id, size], row::readable_job).await?
                }
                _ => {
                    self.listed(
                        sql!("list_finished"),
                        params![status.as_str(), Ts(at), id, size],
                        row::readable_job,
                    )
                    .await?
                }
            });
        }
        merged.sort_by_key(|(job, _): &Row| Reverse((job.finished_at, job.id)));
        merged.dedup_by_key(|(job, _)| job.id);
        merged.truncate(size as usize);
        Ok(merged)
    }

    async fn chunk_due(&self, filter: &Filter, after: Option<&Cursor>, size: i64) -> Tried<Vec<Row>> {
        let mut queues = match &filter.queue {
            Some(queue) => vec![queue.as_str().to_owned()],
            None => self.queue_names().await?,
        };
        // By bytes, whatever the database's language.
        queues.sort_unstable();
        let mut chunk = Vec::new();
        for queue in queues {
            let (priority, due, id) = match after {
                Some(Cursor::Due(q, ..)) if q.as_str() > queue.as_str() => continue,
                Some(Cursor::Due(q, Reverse(priority), due, id)) if q.as_str() == queue => {
                    (*priority, *due, uuid(*id))
                }
                _ => (PRIORITY_MAX as i32, EVER, Uuid::nil()),
            };
            let left = size - chunk.len() as i64;
            chunk.extend(
                self.listed(
                    sql!("list_due"),
                    params![queue.as_str(), priority, Ts(due), id, left],
                    row::readable_job,
                )
                .await?,
            );
            if chunk.len() as i64 >= size {
                break;
            }
        }
        Ok(chunk)
    }

    async fn chunk_worker(&self, filter: &Filter, after: Option<&Cursor>, size: i64) -> Tried<Vec<Row>> {
        let (worker, id) = match (after, &filter.worker_id) {
            (Some(Cursor::Worker(worker, id)), _) => (worker.as_str(), uuid(*id)),
            (_, Some(worker)) => (worker.as_str(), Uuid::nil()),
            _ => ("", Uuid::nil()),
        };
        let statement = match filter.worker_id {
            Some(_) => sql!("list_of_worker"),
            None => sql!("list_by_worker"),
        };
        self.listed(statement, params![worker, id, size], row::readable_job).await
    }

    async fn chunk_parked(&self, filter: &Filter, after: Option<&Cursor>, size: i64) -> Tried<Vec<Row>> {
        let mut statuses = filter.statuses.clone();
        statuses.sort_unstable();
        statuses.dedup();
        let mut chunk = Vec::new();
        for status in statuses {
            let id = match after {
                Some(Cursor::Parked(s, _)) if *s > status => continue,
                Some(Cursor::Parked(s, id)) if *s == status => uuid(*id),
                _ => Uuid::nil(),
            };
            let left = size - chunk.len() as i64;
            chunk.extend(
                self.listed(sql!("list_parked"), params![status.as_str(), id, left], row::readable_job)
                    .await?,
            );
        }
        Ok(chunk)
    }

    /// Queues with a job that has a due time, in no order.
    pub(crate) async fn queue_names(&self) -> Tried<Vec<String>> {
        self.listed(sql!("queue_names"), params![], |r| Ok(r.try_get(0)?)).await
    }

    pub(crate) async fn counts(&self, request: &i64, _: Now) -> Tried<Counts> {
        let cap = (*request).clamp(0, 1_000_000);
        // One read serves all statuses, so it may have to look past many of one to find some of another.
        let scan = (cap * 10).max(10_000);
        let by_status = |r: &tokio_postgres::Row| Ok((r.try_get::<_, String>(0)?, r.try_get::<_, i64>(1)?));
        let due = self.listed(sql!("count_due"), params![scan + 1], by_status).await?;
        let due_capped = due.iter().map(|(_, n)| n).sum::<i64>() > scan;
        let mut statuses = Vec::new();
        for status in Status::ALL {
            let here = due.iter().find(|(s, _)| s == status.as_str()).map_or(0, |(_, n)| *n);
            let n = match status {
                Status::Completed => {
                    self.listed(sql!("count_completed"), params![cap + 1], counted).await?.into_iter().sum()
                }
                s if s.is_terminal() => self.counted(sql!("count_finished"), cap, s).await?,
                s @ (Status::Waiting | Status::Assigned) => {
                    here + self.counted(sql!("count_parked"), cap, s).await?
                }
                _ => here,
            };
            if n > 0 {
                let capped = n > cap || (due_capped && here > 0);
                statuses.push((status, Count { n: n.min(cap), capped }));
            }
        }
        Ok(Counts { statuses })
    }

    async fn counted(&self, statement: &'static str, cap: i64, status: Status) -> Tried<i64> {
        let n = self.listed(statement, params![cap + 1, status.as_str()], counted).await?;
        Ok(n.into_iter().sum())
    }

    pub(crate) async fn events(&self, request: &ReadEvents, _: Now) -> Tried<Vec<Event>> {
        let limit = page(request.limit);
        let job = uuid(request.job);
        if request.newest_first {
            let before = if request.after == 0 { i64::MAX } else { request.after };
            return self
                .all(sql!("events_newest"), params![job, before, limit], |r| row::readable_event(r, 0))
                .await;
        }
        self.all(sql!("events"), params![job, request.after, limit], |r| row::readable_event(r, 0)).await
    }

    pub(crate) async fn at_version(&self, request: &AtVersion, _: Now) -> Tried<Option<Job>> {
        if request.version < 1 {
            return Ok(None);
        }
        Ok(Job::fold(&self.log(request.job, request.version).await?))
    }

    /// Who holds a key now.
    pub(crate) async fn find_key(&self, request: &FindKey, now: Now) -> Tried<Option<Hold>> {
        let scope = request.scope.to_text();
        let (hold, now) = tokio::try_join!(self.hold(&scope, request.key.as_str()), self.clock(now))?;
        Ok(hold.filter(|h| h.is_held(now)))
    }

    /// Who holds a key or held it last.
    pub(crate) async fn hold(&self, scope: &str, key: &str) -> Tried<Option<Hold>> {
        self.one(sql!("find_key"), params![scope, key], |r| {
            let mut c = Columns::new(r, 0);
            Ok(Hold { job: c.job_id()?, payload_hash: c.hash()?, expires_at: c.opt_time()? })
        })
        .await
    }
}
