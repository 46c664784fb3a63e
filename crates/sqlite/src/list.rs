//! Reading jobs: one, a page, counts, the log.
//!
//! Every list is driven by an index that is there for another reason; what the index does not know is filtered
//! here. A page reads a bounded number of rows, so it may be short although more follows.

use crate::db::{Db, sql};
use crate::error::{Failure, Tried};
use crate::row::{self, Readable};
use std::cmp::Reverse;
use windlass_core::blocked::{Surroundings, blocked};
use windlass_core::limits::{self, PAGE_MAX, PRIORITY_MAX, PRIORITY_MIN};
use windlass_core::unique::{Hold, Scope};
use windlass_core::{
    Count, Cursor, Event, Facts, Filter, Job, JobId, Key, Order, Refusal, Status, Timestamp,
};
use windlass_store::{AtVersion, Counts, JobView, List, Listed, Page, ReadEvents};

/// Rows one page may look at.
const SCAN_MAX: usize = 10_000;
/// Rows fetched at a time while a page fills.
const CHUNK: i64 = 500;

/// A page's size, within the limits.
pub(crate) fn page(limit: usize) -> i64 {
    limit.clamp(1, PAGE_MAX) as i64
}

impl Db<'_> {
    pub(crate) fn view(&self, id: JobId, now: Timestamp) -> Tried<Option<JobView>> {
        let Some(job) = self.job(id)? else { return Ok(None) };
        let (facts, first) =
            self.created(id)?.unwrap_or_else(|| (Facts::new(job.kind.clone(), job.queue.clone()), None));
        let error = self.pointed(id, job.error_version)?.and_then(|e| Some((e.payload?, e.at)));
        let queue = self.queue(&job.queue)?;
        let flow = queue.as_ref().and_then(|queue| queue.flow.as_ref()).filter(|_| !job.takes_slot());
        let (broken, full) = match flow {
            Some(flow) => {
                let held = self.slots(&job.queue, flow)?;
                (flow.broken_at(&held, now), flow.full(facts.key.as_ref(), &held))
            }
            None => (None, None),
        };
        let rates = match flow {
            Some(flow) => self.rates(&job.queue, flow, now)?,
            None => None,
        };
        let around = Surroundings {
            broken,
            full,
            held: rates.as_ref().and_then(|rates| rates.held(facts.key.as_ref())),
            rated: rates.and_then(|rates| rates.behind(facts.key.as_ref(), facts.cost)),
            paused: queue.and_then(|q| q.paused).map(|(at, by)| (at, by.to_string())),
            has_worker: self.workers()?.iter().any(|w| w.takes(&job.queue, &job.kind, now)),
            upstream: facts.upstream(),
        };
        Ok(Some(JobView {
            result: self.pointed(id, job.result_version)?.and_then(|e| e.payload),
            checkpoint: self.pointed(id, job.checkpoint_version)?.and_then(|e| e.payload),
            metadata: self.metadata(&job)?,
            blocked: blocked(&job, &around, now),
            error,
            facts,
            payload: self.payload_now(&job, first)?,
            job,
        }))
    }

    pub(crate) fn jobs(&self, request: &List) -> Tried<Result<Page<Listed>, Refusal>> {
        let order = request.filter.order();
        let checked = limits::within("limit", request.limit as i64, 1, PAGE_MAX as i64)
            .and_then(|_| request.cursor.as_deref().map(|c| Cursor::parse(c, order)).transpose());
        let mut cursor = match checked {
            Ok(cursor) => cursor,
            Err(invalid) => return Ok(Err(invalid.into())),
        };
        let (mut items, mut scanned) = (Vec::new(), 0);
        loop {
            let chunk = self.chunk(&request.filter, order, cursor.as_ref())?;
            let last_chunk = (chunk.len() as i64) < CHUNK;
            for (job, wrong) in chunk {
                scanned += 1;
                cursor = Cursor::of(order, &job);
                // The filter was about facts in vain if the first event is gone or does not read back.
                let (facts, unread) = match self.created(job.id) {
                    Ok(created) => (created.map(|(facts, _)| facts), None),
                    Err(Failure::Corrupt { why, .. }) => (None, Some(why)),
                    Err(failure) => return Err(failure),
                };
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
        }
    }

    /// The next rows in the order of the list.
    fn chunk(&self, filter: &Filter, order: Order, after: Option<&Cursor>) -> Tried<Vec<Readable>> {
        match order {
            Order::Created => self.chunk_created(filter, after),
            Order::Finished => self.chunk_finished(filter, after),
            Order::Due => self.chunk_due(filter, after),
            Order::Worker => self.chunk_worker(filter, after),
            Order::Parked => self.chunk_parked(filter, after),
        }
    }

    fn chunk_created(&self, filter: &Filter, after: Option<&Cursor>) -> Tried<Vec<Readable>> {
        let before = match after {
            Some(Cursor::Created(Reverse(id))) => *id.as_bytes(),
            _ => [0xff; 16],
        };
        if let Some(parent) = filter.parent_id {
            self.all(sql!("list_by_parent"), (before, CHUNK, parent.as_bytes()), row::readable_job)
        } else if let Some(agent) = &filter.agent_id {
            self.all(sql!("list_by_agent"), (before, CHUNK, agent.as_str()), row::readable_job)
        } else if let Some(tag) = &filter.tag {
            self.all(sql!("list_by_tag"), (before, CHUNK, tag.as_str()), row::readable_job)
        } else if let Some(kind) = &filter.kind {
            self.all(sql!("list_by_kind"), (before, CHUNK, kind.as_str()), row::readable_job)
        } else {
            self.all(sql!("list_created"), (before, CHUNK), row::readable_job)
        }
    }

    fn chunk_finished(&self, filter: &Filter, after: Option<&Cursor>) -> Tried<Vec<Readable>> {
        let (at, id) = match after {
            Some(Cursor::Finished(Reverse((at, id)))) => (at.as_micros(), *id.as_bytes()),
            _ => (filter.finished_before.map_or(i64::MAX, Timestamp::as_micros), [0xff; 16]),
        };
        let mut merged = Vec::new();
        for status in &filter.statuses {
            merged.extend(self.all(
                sql!("list_finished"),
                (status.as_str(), at, id, CHUNK),
                row::readable_job,
            )?);
        }
        merged.sort_by_key(|(job, _): &Readable| Reverse((job.finished_at, job.id)));
        merged.dedup_by_key(|(job, _)| job.id);
        merged.truncate(CHUNK as usize);
        Ok(merged)
    }

    fn chunk_due(&self, filter: &Filter, after: Option<&Cursor>) -> Tried<Vec<Readable>> {
        let queues = match &filter.queue {
            Some(queue) => vec![queue.as_str().to_owned()],
            None => self.all(sql!("queue_names"), (), |r| Ok(r.get(0)?))?,
        };
        let mut chunk = Vec::new();
        for queue in queues {
            for priority in (PRIORITY_MIN..=PRIORITY_MAX).rev() {
                let (due, id) = match after {
                    Some(Cursor::Due(q, Reverse(p), due, id)) => {
                        let here = (q.as_str(), Reverse(i64::from(*p)));
                        match here.cmp(&(queue.as_str(), Reverse(priority))) {
                            std::cmp::Ordering::Greater => continue,
                            std::cmp::Ordering::Equal => (due.as_micros(), *id.as_bytes()),
                            std::cmp::Ordering::Less => (i64::MIN, [0; 16]),
                        }
                    }
                    _ => (i64::MIN, [0; 16]),
                };
                let left = CHUNK - chunk.len() as i64;
                let params = (queue.as_str(), priority, due, id, left);
                chunk.extend(self.all(sql!("list_due"), params, row::readable_job)?);
                if chunk.len() as i64 >= CHUNK {
                    return Ok(chunk);
                }
            }
        }
        Ok(chunk)
    }

    fn chunk_worker(&self, filter: &Filter, after: Option<&Cursor>) -> Tried<Vec<Readable>> {
        let (worker, id) = match (after, &filter.worker_id) {
            (Some(Cursor::Worker(worker, id)), _) => (worker.as_str(), *id.as_bytes()),
            (_, Some(worker)) => (worker.as_str(), [0; 16]),
            _ => ("", [0; 16]),
        };
        let statement = match filter.worker_id {
            Some(_) => sql!("list_of_worker"),
            None => sql!("list_by_worker"),
        };
        self.all(statement, (worker, id, CHUNK), row::readable_job)
    }

    fn chunk_parked(&self, filter: &Filter, after: Option<&Cursor>) -> Tried<Vec<Readable>> {
        let mut statuses = filter.statuses.clone();
        statuses.sort_unstable();
        statuses.dedup();
        let mut chunk = Vec::new();
        for status in statuses {
            let id = match after {
                Some(Cursor::Parked(s, _)) if *s > status => continue,
                Some(Cursor::Parked(s, id)) if *s == status => *id.as_bytes(),
                _ => [0; 16],
            };
            let left = CHUNK - chunk.len() as i64;
            chunk.extend(self.all(sql!("list_parked"), (status.as_str(), id, left), row::readable_job)?);
        }
        Ok(chunk)
    }

    pub(crate) fn counts(&self, cap: i64) -> Tried<Counts> {
        let cap = cap.clamp(0, 1_000_000);
        // One read serves all statuses, so it may have to look past many of one to find some of another.
        let scan = (cap * 10).max(10_000);
        let by_status = |r: &rusqlite::Row<'_>| Ok((r.get::<_, String>(0)?, r.get::<_, i64>(1)?));
        let due = self.all(sql!("count_due"), [scan + 1], by_status)?;
        let due_capped = due.iter().map(|(_, n)| n).sum::<i64>() > scan;
        let mut statuses = Vec::new();
        for status in Status::ALL {
            let counted = |statement| {
                self.one(statement, (cap + 1, status.as_str()), |r| Ok(r.get::<_, i64>(0)?))
                    .map(Option::unwrap_or_default)
            };
            let here = due.iter().find(|(s, _)| s == status.as_str()).map_or(0, |(_, n)| *n);
            let n = match status {
                s if s.is_terminal() => counted(sql!("count_finished"))?,
                Status::Waiting | Status::Assigned => here + counted(sql!("count_parked"))?,
                _ => here,
            };
            if n > 0 {
                let capped = n > cap || (due_capped && here > 0);
                statuses.push((status, Count { n: n.min(cap), capped }));
            }
        }
        Ok(Counts { statuses })
    }

    pub(crate) fn events(&self, request: &ReadEvents) -> Tried<Vec<Event>> {
        let limit = page(request.limit);
        if request.newest_first {
            let before = if request.after == 0 { i64::MAX } else { request.after };
            return self.all(
                sql!("events_newest"),
                (request.job.as_bytes(), before, limit),
                row::readable_event,
            );
        }
        self.all(sql!("events"), (request.job.as_bytes(), request.after, limit), row::readable_event)
    }

    pub(crate) fn at_version(&self, request: &AtVersion) -> Tried<Option<Job>> {
        if request.version < 1 {
            return Ok(None);
        }
        Ok(Job::fold(&self.log(request.job, request.version)?))
    }

    /// Who holds a key now.
    pub(crate) fn find_key(&self, scope: &Scope, key: &Key, now: Timestamp) -> Tried<Option<Hold>> {
        Ok(self.hold(scope, key)?.filter(|h| h.is_held(now)))
    }

    /// Who holds a unique key, or held it last.
    pub(crate) fn hold(&self, scope: &Scope, key: &Key) -> Tried<Option<Hold>> {
        self.one(sql!("find_key"), (scope.to_text(), key.as_str()), |r| {
            Ok(Hold {
                job: JobId::from_bytes(r.get(0)?),
                payload_hash: r.get(1)?,
                expires_at: r.get::<_, Option<i64>>(2)?.map(Timestamp::from_micros),
            })
        })
    }
}
