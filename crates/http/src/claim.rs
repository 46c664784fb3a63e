//! Handing out jobs: `POST /v1/claim`, `POST /v1/jobs/{id}/claim`, and the desk where claims wait in line.

use crate::access::revoked;
use crate::app::{App, known};
use crate::call::{Call, Reply, ok};
use crate::pass::Pass;
use crate::presence::{self, Sign};
use crate::problem::Problem;
use crate::wire::claim::{ClaimBody, ClaimOneBody, ClaimedJobs, StartBody};
use crate::wire::job::JobShape;
use crate::wire::new_job::lease_ms;
use crate::wire::operate::OneJob;
use crate::wire::time::Span;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::decide::Claim;
use windlass_core::lease::unhex;
use windlass_core::limits::{CLAIM_MAX, count, within};
use windlass_core::span::within_ms;
use windlass_core::{Invalid, Job, Name, Secret, Who};
use windlass_engine::Level;
use windlass_store::{ClaimMany, ClaimOne, Claimed, Start, Store, fresh};

/// The longest that a claim may wait, in milliseconds.
const WAIT_MAX_MS: i64 = 60_000;
/// The most queues and kinds of one claim.
const NAMES_MAX: usize = 1_000;
/// How often the first in line looks when no hint comes.
const POLL: Duration = Duration::from_secs(1);

async fn claim_of(
    app: &App,
    worker: &str,
    secret: Option<&str>,
    lease: Option<Span>,
) -> Result<Claim, Invalid> {
    let wrong = || Invalid::new("secret", "malformed", "must be 64 hex digits");
    let parse = |text| unhex(text).and_then(|bytes| bytes.try_into().ok()).map(Secret).ok_or_else(wrong);
    let lease = match lease_ms("lease", lease)? {
        Some(lease) => lease,
        None => app.lease_ms().await,
    };
    Ok(Claim {
        worker: Who::parse("worker_id", worker)?,
        secret: secret.map_or_else(|| Ok(fresh::secret()), parse)?,
        lease_ms: lease,
    })
}

fn names(field: &str, texts: &[String]) -> Result<Vec<Name>, Invalid> {
    count(field, texts.len(), NAMES_MAX)?;
    texts.iter().map(|text| Name::parse(field, text)).collect()
}

/// `POST /v1/claim`
pub(crate) async fn claim(call: Call) -> Reply {
    let body: ClaimBody = call.body()?;
    let queues = names("queues", &body.queues)?;
    if queues.is_empty() {
        return Err(Invalid::new("queues", "empty", "must name at least one queue").into());
    }
    for queue in &queues {
        call.who.check_queue(queue)?;
    }
    let request = ClaimMany {
        from: None,
        queues,
        kinds: names("kinds", &body.kinds.unwrap_or_default())?,
        max: within("max", body.max.unwrap_or(1), 1, CLAIM_MAX as i64)? as usize,
        claim: claim_of(&call.app, &body.worker_id, body.secret.as_deref(), body.lease).await?,
    };
    let wait_ms = within_ms("wait", body.wait.map_or(0, Span::ms), 0, WAIT_MAX_MS)?;
    let wait = Duration::from_millis(wait_ms as u64);
    let ClaimMany { queues, kinds, max, claim, .. } = &request;
    presence::saw(&call, Sign { worker: &claim.worker, queues, kinds, max: *max }).await;
    let pass = call.who.pass(&call.app);
    let claimed = call.app.desk.claim(&call.app, request, wait, body.secret.is_some(), pass).await?;
    ok(&ClaimedJobs { jobs: claimed.into_iter().map(JobShape::claimed).collect() })
}

/// `POST /v1/jobs/{id}/claim`
pub(crate) async fn claim_one(call: Call) -> Reply {
    let body: ClaimOneBody = call.body()?;
    let job = call.job_id()?;
    call.check_job(job).await?;
    let request = ClaimOne {
        job,
        claim: claim_of(&call.app, &body.worker_id, body.secret.as_deref(), body.lease).await?,
    };
    let claimed = known(|| call.app.store.claim_one(request.clone(), None)).await??;
    let Job { queue, kind, .. } = &claimed.job;
    let (queues, kinds) = (std::slice::from_ref(queue), std::slice::from_ref(kind));
    presence::saw(&call, Sign { worker: &request.claim.worker, queues, kinds, max: 1 }).await;
    ok(&OneJob { job: JobShape::claimed(claimed) })
}

/// `POST /v1/jobs/{id}/start`
pub(crate) async fn start(call: Call) -> Reply {
    let body: StartBody = call.body()?;
    let job = call.job_id()?;
    call.check_job(job).await?;
    let claim = claim_of(&call.app, &body.worker_id, body.secret.as_deref(), body.lease).await?;
    let request = Start { job, assignment: body.assignment, epoch: body.epoch, claim };
    let claimed = known(|| call.app.store.start(request.clone(), None)).await??;
    ok(&OneJob { job: JobShape::claimed(claimed) })
}

/// What waiting claims have in common when one's finding nothing means that the others would not either: queues, kinds and,
/// where a queue is in mode push, the worker.
type Wish = (Vec<Name>, Vec<Name>, Option<Who>);
/// Those who wait for the same, in the order they came; the first one looks.
type Lines = HashMap<Wish, VecDeque<Arc<Notify>>>;

/// Where claims wait: in one line per wish, first come first served. Only the first of a line asks the store, on every
/// hint and every second; so a thousand waiting claims cost as much as one, hold no connection, and each gets its turn.
pub(crate) struct ClaimQueue {
    store: Arc<dyn Store>,
    lines: Mutex<Lines>,
}

/// A place in a line. Whoever leaves from the front lets the next one look.
struct Place<'a> {
    desk: &'a ClaimQueue,
    wish: Wish,
    turn: Arc<Notify>,
}

impl ClaimQueue {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, lines: Mutex::default() }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Nothing panics while it is held.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lines().values().map(VecDeque::len).sum()
    }

    /// Claims, and waits its turn if there is nothing. `may_hold` says that the claim may be a repeat, whose jobs must
    /// not wait in any line.
    async fn claim(
        &self,
        app: &App,
        request: ClaimMany,
        wait: Duration,
        may_hold: bool,
        mut pass: Pass,
    ) -> Result<Vec<Claimed>, Problem> {
        let until = Instant::now() + wait;
        let ask = || known(|| self.store.claim(request.clone(), None));
        if wait.is_zero() || may_hold {
            let claimed = ask().await?;
            if wait.is_zero() || !claimed.is_empty() {
                return Ok(claimed);
            }
        }
        let ending = app.ending.reached(Level::Graceful);
        tokio::pin!(ending);
        let policies = app.policies().await?;
        let is_own = request.queues.iter().any(|queue| policies.is_pushed(queue));
        let own = is_own.then(|| request.claim.worker.clone());
        let place = self.stand((request.queues.clone(), request.kinds.clone(), own));
        tokio::select! {
            () = place.turn.notified() => {}
            () = sleep_until(until) => return Ok(Vec::new()),
            () = &mut ending => return Ok(Vec::new()),
            () = pass.over() => return Err(revoked()),
        }
        let mut due = self.store.hints().due;
        loop {
            due.mark_unchanged();
            if pass.is_over() {
                return Err(revoked());
            }
            let claimed = ask().await?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            tokio::select! {
                changed = due.changed() => if changed.is_err() { sleep(POLL).await },
                () = sleep(POLL) => {}
                () = sleep_until(until) => return Ok(Vec::new()),
                () = &mut ending => return Ok(Vec::new()),
                () = pass.over() => {}
            }
        }
    }

    /// Takes a place at the end of a line.
    fn stand(&self, wish: Wish) -> Place<'_> {
        let turn = Arc::new(Notify::new());
        let mut lines = self.lines();
        let line = lines.entry(wish.clone()).or_default();
        if line.is_empty() {
            turn.notify_one();
        }
        line.push_back(Arc::clone(&turn));
        Place { desk: self, wish, turn }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.desk.lines();
        let Some(line) = lines.get_mut(&self.wish) else { return };
        let place = line.iter().position(|turn| Arc::ptr_eq(turn, &self.turn));
        if let Some(place) = place {
            line.remove(place);
            if place == 0
                && let Some(next) = line.front()
            {
                next.notify_one();
            }
        }
        if line.is_empty() {
            lines.remove(&self.wish);
        }
    }
}
