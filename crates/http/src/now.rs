//! `/v1/now`: how everything stands at this moment.

use crate::call::{Call, Reply, ok};
use crate::problem::Problem;
use crate::wire::registry::QueueShape;
use crate::wire::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::ToSchema;
use windlass_core::wait::ApprovalStatus;
use windlass_store::{ListApprovals, ListProblems, ProblemState, fresh};

/// Up to where jobs are counted.
const COUNT_MAX: i64 = 100_000;
/// How long how everything stands is shared by all who ask.
const SHARED: Duration = Duration::from_secs(1);

/// How everything stands at one moment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Now)]
pub(crate) struct NowShape {
    /// The moment.
    as_of: Time,
    /// Jobs by status, each counted up to 100,000.
    statuses: BTreeMap<&'static str, CountShape>,
    /// Queues that have a setting or a job that may run, now or later, or runs, or in which something happened in the last day.
    queues: Vec<QueueShape>,
    /// Workers.
    workers: WorkersNow,
    /// Approvals that nobody has decided, up to 1,000.
    approvals: CountShape,
    /// Problems that are open, up to 1,000.
    problems: CountShape,
}

/// A count that may have stopped.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Count)]
struct CountShape {
    /// How many.
    count: i64,
    /// Whether there are more than were counted.
    capped: bool,
}

/// Workers at one moment.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = WorkersNow)]
struct WorkersNow {
    /// Those that take jobs.
    live: i64,
    /// Those that take no more.
    draining: i64,
    /// Those that stopped without a word.
    gone: i64,
    /// Jobs that the live ones can run at once.
    capacity: i64,
}

/// What was answered last, and when it was looked at. Every open page asks once a second or so, and the counts are the dearest
/// that a viewer can ask for: all who ask within a second share one look.
#[derive(Default)]
pub(crate) struct LastLook(tokio::sync::Mutex<Option<(Instant, Arc<NowShape>)>>);

impl LastLook {
    /// What was answered within the last second; else what `look` finds. One looks at a time, and the others wait for it.
    async fn share<E>(&self, look: impl AsyncFnOnce() -> Result<NowShape, E>) -> Result<Arc<NowShape>, E> {
        let mut last = self.0.lock().await;
        if let Some((_, shape)) = last.as_ref().filter(|(at, _)| at.elapsed() < SHARED) {
            return Ok(Arc::clone(shape));
        }
        let began = Instant::now();
        let shape = Arc::new(look().await?);
        *last = Some((began, Arc::clone(&shape)));
        Ok(shape)
    }
}

/// `GET /v1/now`: counts of every queue, so for keys of every queue. All of them see the same, and nobody else comes this far.
pub(crate) async fn now(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let shape = call.app.last_look.share(async || stands(&call).await).await?;
    ok(&*shape)
}

async fn stands(call: &Call) -> Result<NowShape, Problem> {
    const PAGE: usize = windlass_core::limits::PAGE_MAX;
    let (store, as_of) = (call.store(), fresh::wall_clock());
    let counts = store.counts(COUNT_MAX, None).await?;
    let statuses = counts
        .statuses
        .iter()
        .map(|(status, count)| (status.as_str(), CountShape { count: count.n, capped: count.capped }));
    let mut workers = WorkersNow::default();
    for worker in store.workers((), None).await? {
        match (worker.expires_at > as_of, worker.draining) {
            (false, _) => workers.gone += 1,
            (true, true) => workers.draining += 1,
            (true, false) => {
                workers.live += 1;
                workers.capacity += i64::from(worker.capacity);
            }
        }
    }
    let paged = |n: usize| CountShape { count: n as i64, capped: n == PAGE };
    let pending = Some(ApprovalStatus::Pending);
    let approvals = ListApprovals { status: pending, limit: PAGE, ..ListApprovals::default() };
    let open = ListProblems { state: Some(ProblemState::Open), limit: PAGE, ..ListProblems::default() };
    Ok(NowShape {
        as_of: Time(as_of),
        statuses: statuses.collect(),
        queues: crate::queues::standing(call, COUNT_MAX).await?,
        workers,
        approvals: paged(store.approvals(approvals, None).await?.len()),
        problems: paged(store.problems(open, None).await?.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use windlass_core::Timestamp;

    /// (stats) Of a hundred that ask within a second one looks; a look that failed is not shared, and an old one neither.
    #[tokio::test(start_paused = true)]
    async fn one_look_is_shared_for_a_second() {
        let (last, looks) = (LastLook::default(), AtomicUsize::new(0));
        let shape = || NowShape {
            as_of: Time(Timestamp::from_micros(0)),
            statuses: BTreeMap::new(),
            queues: Vec::new(),
            workers: WorkersNow::default(),
            approvals: CountShape { count: 0, capped: false },
            problems: CountShape { count: 0, capped: false },
        };
        let look = async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            looks.fetch_add(1, Ordering::AcqRel);
            Ok::<_, ()>(shape())
        };
        assert!(last.share(async || Err(())).await.is_err());
        let asks = (0..100).map(|_| last.share(&look));
        assert!(futures_util::future::join_all(asks).await.iter().all(Result::is_ok));
        assert_eq!(looks.load(Ordering::Acquire), 1);
        tokio::time::advance(Duration::from_millis(899)).await;
        assert!(last.share(&look).await.is_ok());
        assert_eq!(looks.load(Ordering::Acquire), 1, "a second from when it began");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(last.share(&look).await.is_ok());
        assert_eq!(looks.load(Ordering::Acquire), 2);
    }
}
