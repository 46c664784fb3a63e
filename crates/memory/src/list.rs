//! Reading jobs: one with everything it points at, pages, counts, logs, time travel, unique keys.

use crate::index::id_of;
use crate::state::{State, page};
use windlass_core::blocked::{Surroundings, blocked};
use windlass_core::limits::{self, PAGE_MAX};
use windlass_core::unique::Hold;
use windlass_core::{Cursor, Event, Job, JobId, Refusal, Status, Timestamp};
use windlass_store::{AtVersion, Counts, FindKey, JobView, List, Listed, Page, ReadEvents};

impl State {
    /// One job with everything its pointers point at.
    pub fn job(&mut self, request: JobId, now: Timestamp) -> Option<JobView> {
        let entry = self.entries.get(&request)?;
        let job = &entry.job;
        let rates = self
            .flow(&job.queue)
            .filter(|_| !job.takes_slot())
            .and_then(|flow| self.rates(&job.queue, flow, now));
        let around = Surroundings {
            paused: self
                .queues
                .get(&job.queue)
                .and_then(|queue| queue.paused.as_ref().map(|(since, by)| (*since, by.as_str().to_owned()))),
            broken: self
                .flow(&job.queue)
                .filter(|_| !job.takes_slot())
                .and_then(|flow| flow.broken_at(&self.held_of(&job.queue, flow), now)),
            full: self
                .flow(&job.queue)
                .filter(|_| !job.takes_slot())
                .and_then(|flow| flow.full(entry.facts()?.key.as_ref(), &self.held_of(&job.queue, flow))),
            held: rates.as_ref().and_then(|rates| rates.held(entry.facts()?.key.as_ref())),
            rated: rates.and_then(|rates| rates.behind(entry.facts()?.key.as_ref(), entry.facts()?.cost)),
            has_worker: self.workers.values().any(|worker| worker.takes(&job.queue, &job.kind, now)),
            upstream: entry.facts()?.upstream(),
        };
        let error = job.error_version.and_then(|version| entry.event(version));
        Some(JobView {
            facts: entry.facts()?.clone(),
            payload: entry.payload_now(),
            result: entry.payload(job.result_version),
            error: error.and_then(|event| Some((event.payload.clone()?, event.at))),
            checkpoint: entry.payload(job.checkpoint_version),
            metadata: entry.metadata(),
            blocked: blocked(job, &around, now),
            job: job.clone(),
        })
    }

    /// A page of jobs, in the order that follows from the filter.
    pub fn jobs(&mut self, request: List, _now: Timestamp) -> Result<Page<Listed>, Refusal> {
        limits::within("limit", i64::try_from(request.limit).unwrap_or(i64::MAX), 1, PAGE_MAX as i64)?;
        let order = request.filter.order();
        let after = request.cursor.map(|text| Cursor::parse(&text, order)).transpose()?;
        let mut page = Page { items: Vec::new(), next: None };
        let mut last = None;
        for cursor in self.index.list(order, after.as_ref()) {
            let Some(entry) = self.entries.get(&id_of(cursor)) else { continue };
            if !request.filter.matches(&entry.job, || entry.facts().cloned()) {
                continue;
            }
            if page.items.len() == request.limit {
                page.next = last.map(Cursor::to_text);
                break;
            }
            let Some(facts) = entry.facts().cloned() else { continue };
            page.items.push(Listed { job: entry.job.clone(), facts, unreadable: None });
            last = Some(cursor);
        }
        Ok(page)
    }

    /// How many jobs stand where; each count stops at the cap.
    pub fn counts(&mut self, request: i64, _now: Timestamp) -> Counts {
        let count = |status: Status| (status, self.index.standing(status, request));
        let standing = Status::ALL.into_iter().map(count);
        Counts { statuses: standing.filter(|(_, count)| count.n > 0 || count.capped).collect() }
    }

    /// A stretch of a job's log.
    pub fn events(&mut self, request: ReadEvents, _now: Timestamp) -> Vec<Event> {
        let events = self.entries.get(&request.job).map_or(&[][..], |entry| &entry.events);
        let limit = page(request.limit);
        if request.newest_first {
            let older = |event: &&Event| request.after == 0 || event.version < request.after;
            return events.iter().rev().filter(older).take(limit).cloned().collect();
        }
        let start = events.partition_point(|event| event.version <= request.after);
        events[start..].iter().take(limit).cloned().collect()
    }

    /// A job as it stood at a version, folded from its log; beyond its end, as it stands now.
    pub fn at_version(&mut self, request: AtVersion, _now: Timestamp) -> Option<Job> {
        let entry = self.entries.get(&request.job)?;
        Job::fold(entry.events.iter().take_while(|event| event.version <= request.version))
    }

    /// Who holds a unique key now.
    pub fn find_key(&mut self, request: FindKey, now: Timestamp) -> Option<Hold> {
        self.holds.get(&(request.scope, request.key)).filter(|hold| hold.is_held(now)).cloned()
    }
}
