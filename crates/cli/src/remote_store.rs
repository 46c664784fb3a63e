//! A server as a worker's store: the verbs that a worker needs, each one request of the public API.
//!
//! The engine works through it as on any store, so programs are claimed for, renewed, stopped and settled by the same code.
//! What only a server or an operator does is not asked for here: deadlines are kept by the server, which records a timeout
//! when it is shown the lease, and what a queue's jobs fall back to was filled in when they were enqueued.

mod claimed;
mod one;
mod verbs;

use crate::fail::{Exit, Failure, Outcome};
use crate::shape::{Reply, to_text};
use crate::wire::{Request, UNKNOWN, Wire, encoded};
use claimed::Hands;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_core::lease::hex;
use windlass_core::{
    Answer, Done, JobId, LeaseMs, Name, Outcome as End, Refusal, Secret, Token, Who, Worker,
};
use windlass_engine::{Level, Shutdown};
use windlass_http::wire::claim::{ClaimBody, Heartbeat, HeldLease, LogsBody, Renewed};
use windlass_http::wire::control::WorkerBody;
use windlass_http::wire::raw::Json;
use windlass_http::wire::settle::{ErrorBody, ItemBody, SettleBody, SettledMany};
use windlass_http::wire::time::Span;
use windlass_store::{
    ClaimMany, Claimed, Extend, Extended, Hinter, PutWorker, Settle, StoreError, StoreResult, WriteLogs,
    fresh,
};

/// How long the server looks for a job before it answers that there is none.
const WAIT: Duration = Duration::from_secs(20);
/// How long an answer may take, beyond what was asked to be waited.
const PATIENCE: Duration = Duration::from_secs(15);
/// A claim that took longer is renewed before its jobs begin: their leases count from when it was sent.
const QUICK: Duration = Duration::from_millis(100);
/// How often, and how long apart, a lease whose time is up is shown to the server.
const SHOWN: usize = 20;
const APART: Duration = Duration::from_millis(50);
/// The most bytes of one settle; the server takes 16 MiB.
const SETTLE_MAX_BYTES: usize = 8 << 20;
/// How long a worker that ended stands on the list of the living.
const GONE: i64 = 1_000;

/// A server as a worker's store.
#[derive(Debug)]
pub struct RemoteStore {
    wire: Wire,
    /// Everything this worker takes from. Only a claim for all of it may wait: another queue's jobs would wait too.
    queues: usize,
    /// The worker's word to end, which cuts a waiting claim short.
    ending: Shutdown,
    /// It was drained: a waiting claim is cut short as well.
    drained: watch::Sender<bool>,
    /// Why it makes no sense to go on: the key is wrong, or this is no Windlass server.
    refused: OnceLock<Failure>,
    /// The claim whose answer was lost, and when it was first sent. A blocking lock: held for a look.
    unknown: Mutex<Option<(Secret, Instant)>>,
    /// Who claims.
    worker: OnceLock<Who>,
    /// The worker as it reported itself, for its last words.
    reported: Mutex<Option<PutWorker>>,
    inner: Hinter,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RemoteStore {
    /// A server that answers, and takes this key for a worker's.
    pub async fn open(wire: Wire, queues: usize, ending: Shutdown) -> Outcome<Self> {
        let worker_id = "windlass-work".to_owned();
        let body = to_text(&Heartbeat { worker_id, ..Heartbeat::default() })?;
        let path = "/v1/heartbeat";
        let request =
            Request { method: "POST", path, body: Some(&body), idempotency_key: None, patience: PATIENCE };
        wire.send(request).await?;
        Ok(Self {
            wire,
            queues,
            ending,
            drained: watch::Sender::new(false),
            refused: OnceLock::new(),
            unknown: Mutex::default(),
            worker: OnceLock::new(),
            reported: Mutex::default(),
            inner: Hinter::default(),
        })
    }

    /// Why the worker ended by itself, if it did.
    pub fn refused(&self) -> Option<Failure> {
        self.refused.get().cloned()
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
        patience: Duration,
    ) -> Outcome<Reply> {
        let body = to_text(body)?;
        let request = Request { method, path, body: Some(&body), idempotency_key: None, patience };
        self.wire.send(request).await
    }

    /// Sends a request that the server can only carry out or not: a refusal of the whole ends the worker.
    async fn ask(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
        patience: Duration,
    ) -> StoreResult<Reply> {
        self.send(method, path, body, patience).await.map_err(|failure| self.heard(failure))
    }

    /// What a failure means that is no answer about a job.
    fn heard(&self, failure: Failure) -> StoreError {
        if failure.exit == Exit::Unavailable {
            return away(failure);
        }
        tracing::error!(
            code = failure.code,
            reason = failure.detail,
            "the server refuses this worker; ending"
        );
        let told = StoreError::Unavailable(failure.detail.clone());
        let _ = self.refused.set(failure);
        self.ending.graceful();
        told
    }

    async fn take(&self, request: ClaimMany) -> StoreResult<Vec<Claimed>> {
        let secret = request.claim.secret;
        self.worker.get_or_init(|| request.claim.worker.clone());
        let lost = lock(&self.unknown).take().filter(|(of, _)| *of == secret);
        let sent = lost.map_or_else(Instant::now, |(_, sent)| sent);
        let answer = self.claim_since(&request, sent).await;
        let is_unknown = lost.is_some() || matches!(answer, Err(StoreError::Indeterminate(_)));
        *lock(&self.unknown) = (answer.is_err() && is_unknown).then_some((secret, sent));
        answer
    }

    async fn claim_since(&self, request: &ClaimMany, sent: Instant) -> StoreResult<Vec<Claimed>> {
        let is_all = request.queues.len() == self.queues && self.ending.level() == Level::Working;
        let wait = if is_all { WAIT } else { Duration::ZERO };
        let mut drained = self.drained.subscribe();
        let reply = tokio::select! {
            reply = self.claim_once(request, wait) => reply?,
            // The very same claim again, without waiting: it brings what the first one may have got.
            () = self.ending.reached(Level::Graceful) => self.claim_once(request, Duration::ZERO).await?,
            () = async { drop(drained.wait_for(|drained| *drained).await) } => self.claim_once(request, Duration::ZERO).await?,
        };
        let hands = Hands::read(&reply.text, &request.claim).map_err(unreadable)?;
        if sent.elapsed() < QUICK || hands.is_empty() {
            return Ok(hands.into_claimed());
        }
        // While it waited the leases did not run: they are renewed, and count from that.
        let renewed_at = Instant::now();
        let extend_ms = hands.shortest();
        let leases = hands.leases();
        let kept = self.extend(Extend { leases, extend_ms }, &request.claim.worker).await?;
        Ok(hands.renewed(&kept, extend_ms, renewed_at.duration_since(sent)))
    }

    async fn claim_once(&self, request: &ClaimMany, wait: Duration) -> StoreResult<Reply> {
        let claim = &request.claim;
        let names = |names: &[Name]| names.iter().map(ToString::to_string).collect();
        let body = ClaimBody {
            queues: names(&request.queues),
            kinds: Some(names(&request.kinds)),
            worker_id: claim.worker.to_string(),
            secret: Some(hex(&claim.secret.0)),
            max: i64::try_from(request.max).ok(),
            lease: Some(Span::from_ms(claim.lease_ms.get())),
            wait: i64::try_from(wait.as_millis()).ok().map(Span::from_ms),
        };
        self.ask("POST", "/v1/claim", &body, wait + PATIENCE).await
    }

    async fn extend(&self, request: Extend, worker: &Who) -> StoreResult<Vec<Result<Extended, Refusal>>> {
        let lease =
            |(job, token): &(JobId, Token)| HeldLease { job_id: job.to_string(), token: token.to_text() };
        let body = Heartbeat {
            worker_id: worker.to_string(),
            leases: request.leases.iter().map(lease).collect(),
            extend: Some(Span::from_ms(request.extend_ms.get())),
        };
        let reply = self.ask("POST", "/v1/heartbeat", &body, PATIENCE).await?;
        let Renewed { leases } = read(&reply)?;
        let answers = all_of(leases, request.leases.len())?;
        answers.iter().map(claimed::extended).collect::<Option<_>>().ok_or_else(|| unreadable("a lease"))
    }

    async fn renew(&self, request: Extend) -> StoreResult<Vec<Result<Extended, Refusal>>> {
        // Whoever holds a lease has claimed.
        match self.worker.get() {
            Some(worker) => self.extend(request, worker).await,
            None => Ok(vec![Err(Refusal::Mismatch); request.leases.len()]),
        }
    }

    async fn end(&self, request: Settle) -> StoreResult<Vec<Answer>> {
        let bodies: Vec<Option<ItemBody>> = request.items.iter().map(claimed::settled).collect();
        let is_told: Vec<bool> = bodies.iter().map(Option::is_some).collect();
        let mut rest: Vec<ItemBody> = bodies.into_iter().flatten().collect();
        let mut answered = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            let later = rest.split_off(fitting(&rest));
            let items = std::mem::replace(&mut rest, later);
            let expected = items.len();
            let reply = self.ask("POST", "/v1/settle", &SettleBody { items }, PATIENCE).await?;
            let SettledMany { items } = read(&reply)?;
            answered.extend(all_of(items, expected)?.into_iter().map(claimed::answer));
        }
        let timed_out = request.items.iter().filter(|item| item.outcome == End::TimeOut);
        self.show_over(timed_out.map(|item| (item.job, item.token)).collect()).await?;
        let mut answered = answered.into_iter();
        // What was not told the server does by itself.
        let of = |told: bool| if told { answered.next() } else { Some(Ok(Done::Already(0))) };
        is_told.into_iter().map(of).collect::<Option<_>>().ok_or_else(|| unreadable("an item"))
    }

    /// The server keeps deadlines by its own clock, and records one that has passed as soon as it is shown the lease. This
    /// worker counted from when it asked for the job, so that may be a moment from now.
    async fn show_over(&self, mut leases: Vec<(JobId, Token)>) -> StoreResult<()> {
        for shown in 0..SHOWN {
            if leases.is_empty() {
                break;
            }
            if shown > 0 {
                tokio::time::sleep(APART).await;
            }
            let extend = Extend { leases: leases.clone(), extend_ms: LeaseMs::DEFAULT };
            let mut kept = self.renew(extend).await?.into_iter();
            leases.retain(|_| kept.next().is_some_and(|kept| kept.is_ok()));
        }
        Ok(())
    }

    async fn log(&self, request: WriteLogs) -> StoreResult<Result<(), Refusal>> {
        let body = LogsBody { lease_token: Some(request.token.to_text()), lines: request.lines };
        let path = format!("/v1/jobs/{}/logs", request.job);
        match self.send("POST", &path, &body, PATIENCE).await {
            Ok(_) => Ok(Ok(())),
            Err(failure) if failure.exit == Exit::Unavailable => Err(away(failure)),
            Err(failure) => Ok(Err(claimed::refusal(&failure.code, &failure.detail))),
        }
    }

    async fn report_worker(&self, request: PutWorker) -> StoreResult<Worker> {
        *lock(&self.reported) = Some(request.clone());
        let worker = self.report(&request).await?;
        self.drained.send_replace(worker.draining);
        Ok(worker)
    }

    async fn report(&self, report: &PutWorker) -> StoreResult<Worker> {
        let names = |names: &[Name]| Some(names.iter().map(ToString::to_string).collect());
        let body = WorkerBody {
            queues: names(&report.queues),
            kinds: names(&report.kinds),
            capacity: Some(report.capacity.into()),
            slots: Some(
                report.slots.iter().map(|(queue, slots)| (queue.to_string(), i64::from(*slots))).collect(),
            ),
            labels: Some(report.labels.clone()),
            draining: Some(report.draining),
            ttl: Some(Span::from_ms(report.ttl_ms.get())),
        };
        let path = format!("/v1/workers/{}", encoded(report.id.as_str()));
        let reply = self.ask("PUT", &path, &body, PATIENCE).await?;
        let now = fresh::wall_clock();
        let PutWorker { id, queues, kinds, capacity, slots, labels, ttl_ms, .. } = report.clone();
        let draining = reply.value["worker"]["draining"] == true;
        let expires_at = now.plus_ms(ttl_ms.get());
        Ok(Worker {
            id,
            queues,
            kinds,
            capacity,
            slots,
            labels,
            draining,
            started_at: now,
            seen_at: now,
            expires_at,
        })
    }

    /// There is no verb to be forgotten: its last words are that it takes no more, and is gone in a second.
    async fn leave(&self) -> StoreResult<()> {
        let Some(mut report) = lock(&self.reported).take() else { return Ok(()) };
        report.draining = true;
        report.ttl_ms = LeaseMs::new(GONE).unwrap_or(LeaseMs::DEFAULT);
        self.report(&report).await.map(|_| ())
    }
}

/// How many of them go at once, so that what is sent is small enough; never none.
fn fitting(items: &[ItemBody]) -> usize {
    let mut bytes = 0;
    let too_many = items.iter().position(|item| {
        let result = item.result.as_ref().map_or(0, Json::len);
        let error = match &item.error {
            Some(ErrorBody::Parts(parts)) => parts.message.as_ref().map_or(0, String::len),
            Some(ErrorBody::Text(text)) => text.len(),
            None => 0,
        };
        // A text may double when it is quoted; names and tokens take less than the rest.
        bytes += result + item.result_base64.as_ref().map_or(0, String::len) + 2 * error + 500;
        bytes > SETTLE_MAX_BYTES
    });
    too_many.map_or(items.len(), |n| n.max(1))
}

fn away(failure: Failure) -> StoreError {
    if failure.code == UNKNOWN || failure.code == "internal" {
        StoreError::Indeterminate(failure.detail)
    } else {
        StoreError::Unavailable(failure.detail)
    }
}

/// The change was made and what was said about it cannot be read: the repeat says it again.
fn unreadable(what: impl std::fmt::Display) -> StoreError {
    StoreError::Indeterminate(format!(
        "the server's answer is not understood: {what}; is it of this version?"
    ))
}

fn read<T: DeserializeOwned>(reply: &Reply) -> StoreResult<T> {
    serde_json::from_str(&reply.text).map_err(unreadable)
}

/// As many answers as there were items.
fn all_of<T>(answers: Vec<T>, expected: usize) -> StoreResult<Vec<T>> {
    if answers.len() == expected { Ok(answers) } else { Err(unreadable("another number of items")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::sync::Arc;
    use windlass_core::{Actor, Facts, NewJob, Status};
    use windlass_http::Server;
    use windlass_store::work::Work;
    use windlass_store::{Enqueue, SettleItem};

    /// The server looks at no deadline by itself here: only the worker can have told it.
    #[tokio::test]
    async fn a_timeout_is_on_record_as_soon_as_it_is_settled() {
        let client = windlass::connect("memory:").await.unwrap();
        let store = Arc::clone(client.store());
        let server = Server::new(Arc::clone(&store)).sweeps(false);
        let listener = server.listen("127.0.0.1:0").await.unwrap();
        let wire = Wire::to(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
        let worked = async {
            let through = RemoteStore::open(wire, 1, Shutdown::new()).await.unwrap();
            let queue = Name::parse("queue", "default").unwrap();
            let mut facts = Facts::new(Name::parse("kind", "slow").unwrap(), queue.clone());
            (facts.timeout_ms, facts.max_retries) = (Some(200), 0);
            let job = NewJob { id: fresh::job_id(), facts, payload: None, parent_token: None };
            let id = job.id;
            let request = Enqueue { jobs: vec![job], actor: Actor::api(), idempotency: None };
            store.enqueue(request, None).await.unwrap().unwrap();
            let who = Who::parse("worker", "w").unwrap();
            let request = ClaimMany::new(who, vec![queue], 1, fresh::secret());
            let held = Work::claim(&through, request).await.unwrap().pop().unwrap();
            // A worker's clock may be a little early.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let item = SettleItem { job: id, token: held.lease.token, outcome: End::TimeOut };
            Work::settle(&through, Settle { items: vec![item] }).await.unwrap().pop().unwrap().unwrap();
            while store.job(id, None).await.unwrap().unwrap().job.status != Status::TimedOut {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            ended = server.run_until(listener, pending()) => panic!("the server ended: {ended:?}"),
            worked = tokio::time::timeout(Duration::from_secs(60), worked) => worked.expect("it is on record"),
        }
    }
}
