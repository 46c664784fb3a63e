//! The cases: what is asked of a store, and the short words for it. A case knows the store only as
//! [`Store`]; its requests are built before the clock starts, so that only the store is measured.

use crate::Tried;
use crate::measure::{Meter, Sample};
use crate::peer::Ask;
use crate::raw::Limit;
use crate::subject::Subject;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_core::{Actor, Facts, Name, NewJob, Outcome, Payload, RunAt, Who};
use windlass_store::{ClaimMany, Claimed, Enqueue, Settle, SettleItem, Store, fresh};

/// Jobs per batch enqueue.
const BATCH: usize = 1_000;
/// Jobs per claim and settle.
const CLAIM: usize = 500;
/// Empty answers in a row after which a drain gives up. The other loops may hold everything that is left.
const EMPTY_MAX: usize = 10_000;

/// The queue everything happens in.
pub const QUEUE: &str = "default";
/// The kind that workers ask for.
pub const KIND: &str = "work";

/// One case.
pub struct Case {
    pub name: &'static str,
    pub about: &'static str,
    /// The raw limit it is compared with, and how many of its rows one job is.
    pub limit: Option<(Limit, f64)>,
    /// It gets this part of the jobs asked for: one by one takes longer.
    pub part: usize,
    run: Run,
}

enum Run {
    /// So many callers, one job per call.
    EnqueueOne(usize),
    EnqueueBatch,
    /// So many loops.
    Drain(usize),
    Life,
}

/// Every case but `growth`, in the order of a job's life.
pub const CASES: &[Case] = &[
    case("enqueue-1", "one caller, one job per call, each awaited", COMMIT, 10, Run::EnqueueOne(1)),
    case("enqueue-10", "10 callers, one job per call, each awaited", COMMIT, 2, Run::EnqueueOne(10)),
    case("enqueue-100", "100 callers, one job per call, each awaited", COMMIT, 1, Run::EnqueueOne(100)),
    case("enqueue-1000", "1,000 callers, one job per call, each awaited", COMMIT, 1, Run::EnqueueOne(1_000)),
    case(
        "enqueue-batch",
        "one caller, 1,000 jobs per call",
        Some((Limit::Insert, 2.0)),
        1,
        Run::EnqueueBatch,
    ),
    case("drain", "one loop: claim 500, complete 500", Some((Limit::Drain(1), 1.0)), 1, Run::Drain(1)),
    case("drain-2", "two such loops at once", Some((Limit::Drain(2), 1.0)), 1, Run::Drain(2)),
    case("life", "enqueue 1,000, claim 500, complete 500, in turns", None, 1, Run::Life),
];

const COMMIT: Option<(Limit, f64)> = Some((Limit::Commit, 1.0));

const fn case(
    name: &'static str,
    about: &'static str,
    limit: Option<(Limit, f64)>,
    part: usize,
    run: Run,
) -> Case {
    Case { name, about, limit, part, run }
}

impl Case {
    /// What a peer is asked beside it, if there is the like.
    pub fn of_peer(&self) -> Option<Ask> {
        match self.run {
            Run::EnqueueOne(callers) => Some(Ask::Enqueue(callers)),
            Run::EnqueueBatch => Some(Ask::Batch(BATCH)),
            Run::Drain(_) | Run::Life => None,
        }
    }

    /// Runs on an empty store.
    pub async fn run(&self, subject: &Subject, count: usize) -> Tried<Sample> {
        match self.run {
            Run::EnqueueOne(callers) => enqueue_one(subject, count, callers).await,
            Run::EnqueueBatch => enqueue_batch(subject, count).await,
            Run::Drain(loops) => drain(subject, count, loops).await,
            Run::Life => life(subject, count).await,
        }
    }
}

async fn enqueue_one(subject: &Subject, count: usize, callers: usize) -> Tried<Sample> {
    let each = count.div_ceil(callers);
    let shares: Vec<Vec<NewJob>> = (0..callers).map(|_| jobs(KIND, each)).collect::<Tried<_>>()?;
    let mut calling = JoinSet::new();
    let meter = Meter::start(subject.database.as_ref()).await?;
    for share in shares {
        let store = Arc::clone(&subject.store);
        calling.spawn(async move {
            for mut job in share {
                // An id is as old as the call that brings it.
                job.id = fresh::job_id();
                enqueue(&*store, vec![job]).await?;
            }
            Ok(())
        });
    }
    joined(calling).await?;
    meter.stop(subject.database.as_ref(), each * callers).await
}

async fn enqueue_batch(subject: &Subject, count: usize) -> Tried<Sample> {
    let batches = batches(count)?;
    let meter = Meter::start(subject.database.as_ref()).await?;
    for mut batch in batches {
        batch.iter_mut().for_each(|job| job.id = fresh::job_id());
        enqueue(&*subject.store, batch).await?;
    }
    meter.stop(subject.database.as_ref(), count).await
}

async fn drain(subject: &Subject, count: usize, loops: usize) -> Tried<Sample> {
    for batch in batches(count)? {
        enqueue(&*subject.store, batch).await?;
    }
    let done = Arc::new(AtomicUsize::new(0));
    let mut draining = JoinSet::new();
    let meter = Meter::start(subject.database.as_ref()).await?;
    for n in 0..loops {
        let (store, done) = (Arc::clone(&subject.store), Arc::clone(&done));
        draining.spawn(async move { drain_loop(&*store, &worker(n)?, count, &done).await });
    }
    joined(draining).await?;
    meter.stop(subject.database.as_ref(), count).await
}

/// Claims and completes until all loops together have done `count`.
async fn drain_loop(store: &dyn Store, worker: &Who, count: usize, done: &AtomicUsize) -> Tried<()> {
    let mut empty = 0;
    while done.load(Ordering::Relaxed) < count {
        let claimed = claim(store, worker, &[], CLAIM).await?;
        empty = if claimed.is_empty() { empty + 1 } else { 0 };
        if empty > EMPTY_MAX {
            return Err(format!("{} of {count} jobs were found", done.load(Ordering::Relaxed)).into());
        }
        done.fetch_add(complete(store, claimed).await?, Ordering::Relaxed);
    }
    Ok(())
}

async fn life(subject: &Subject, count: usize) -> Tried<Sample> {
    let (batches, worker) = (batches(count)?, worker(0)?);
    let meter = Meter::start(subject.database.as_ref()).await?;
    for batch in batches {
        let in_batch = batch.len();
        enqueue(&*subject.store, batch).await?;
        drain_loop(&*subject.store, &worker, in_batch, &AtomicUsize::new(0)).await?;
    }
    meter.stop(subject.database.as_ref(), count).await
}

/// Awaits tasks to their end; the first that failed is the answer.
async fn joined(mut tasks: JoinSet<Tried<()>>) -> Tried<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

fn batches(count: usize) -> Tried<Vec<Vec<NewJob>>> {
    (0..count).step_by(BATCH).map(|from| jobs(KIND, BATCH.min(count - from))).collect()
}

/// Jobs with a payload of 150 bytes.
pub fn jobs(kind: &str, count: usize) -> Tried<Vec<NewJob>> {
    let facts = Facts::new(Name::parse("kind", kind)?, Name::parse("queue", QUEUE)?);
    let job = |n| {
        let text = format!(
            r#"{{"order":"{n:06}","to":"someone@example.org","template":"order-received","locale":"en","items":[{{"sku":"A-1047","count":2}},{{"sku":"B-220","count":1}}]}}"#
        );
        let payload = Some(Payload::json("payload", text, PAYLOAD_MAX_BYTES)?);
        Ok(NewJob { id: fresh::job_id(), facts: facts.clone(), payload, parent_token: None })
    };
    (0..count).map(job).collect()
}

/// Jobs that are due tomorrow, spread over all priorities.
pub fn future_jobs(count: usize) -> Tried<Vec<NewJob>> {
    let mut jobs = jobs(KIND, count)?;
    for (job, priority) in jobs.iter_mut().zip((-5..=5).cycle()) {
        job.facts.run_at = RunAt::After(86_400_000);
        job.facts.priority = priority;
    }
    Ok(jobs)
}

/// The n-th worker.
pub fn worker(n: usize) -> Tried<Who> {
    Ok(Who::parse("worker", format!("bench-{n}"))?)
}

/// Enqueues new jobs, in one call.
pub async fn enqueue(store: &dyn Store, jobs: Vec<NewJob>) -> Tried<()> {
    let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
    let enqueued = store.enqueue(request, None).await??;
    match enqueued.iter().find(|e| e.existed) {
        Some(e) => Err(format!("job {} was there already", e.id).into()),
        None => Ok(()),
    }
}

/// Claims due jobs of some kinds, or of all when none are given.
pub async fn claim(store: &dyn Store, worker: &Who, kinds: &[Name], max: usize) -> Tried<Vec<Claimed>> {
    let queue = Name::parse("queue", QUEUE)?;
    let mut request = ClaimMany::new(worker.clone(), vec![queue], max, fresh::secret());
    request.kinds = kinds.to_vec();
    Ok(store.claim(request, None).await?)
}

/// Completes what was claimed, in one call, and answers how many there were.
pub async fn complete(store: &dyn Store, claimed: Vec<Claimed>) -> Tried<usize> {
    if claimed.is_empty() {
        return Ok(0);
    }
    let result = Payload::json("result", r#"{"ok":true}"#, PAYLOAD_MAX_BYTES)?;
    let item = |c: Claimed| {
        let outcome = Outcome::Complete(Some(result.clone()));
        SettleItem { job: c.job.id, token: c.lease.token, outcome }
    };
    let answers = store.settle(Settle { items: claimed.into_iter().map(item).collect() }, None).await?;
    let count = answers.len();
    answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_memory::MemoryStore;

    #[tokio::test]
    async fn every_case_gets_its_jobs_through() {
        for case in CASES {
            let subject = Subject::of(Arc::new(MemoryStore::new()));
            let sample = case.run(&subject, 2_000).await.unwrap();
            assert_eq!(sample.count, 2_000, "{}", case.name);
        }
    }

    #[test]
    fn payloads_have_150_bytes_and_names_are_unique() {
        let payload = jobs(KIND, 1).unwrap().remove(0).payload.unwrap();
        assert_eq!(payload.as_bytes().len(), 150);
        let names: std::collections::HashSet<_> = CASES.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), CASES.len());
    }
}
