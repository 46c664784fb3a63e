//! Inside the caller's own PostgreSQL transaction: enqueue, complete, hold. What is written there and what Windlass does
//! commit together, or not at all.

use crate::client::Client;
use crate::context::Context;
use crate::enqueue::{Enqueue, EnqueueMany, Request, finish_all};
use crate::error::{Error, Result};
use crate::value::encode;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
#[cfg(feature = "sqlx")]
use sqlx::postgres::PgDatabaseError;
use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use windlass_core::enqueue::check_size;
use windlass_core::unique::{Policy, Scope};
use windlass_core::{Invalid, JobId, NewJob, Refusal, RunAt, Status};
use windlass_engine::HandlerError;
use windlass_store::fresh::wall_clock;
use windlass_store::{BatchRefusal, Enqueued};

const ENQUEUE_MANY: &str = include_str!("../sql/enqueue_many.sql");
const COMPLETE: &str = include_str!("../sql/complete.sql");
const ASSERT_LEASE: &str = include_str!("../sql/assert_lease.sql");

/// A transaction of a PostgreSQL driver, open on the database that the store is in: `tokio_postgres::Transaction`, and with
/// the feature `sqlx` also `sqlx::Transaction<Postgres>` and `sqlx::PgConnection`.
///
/// What wraps one of them (deadpool's, for instance) is given as `&mut *tx`.
pub trait Transaction: sealed::Ask {}

mod sealed {
    use super::{BoxFuture, Refused};

    /// One statement whose parameters are texts, and whose answer is one text.
    pub trait Ask: Send {
        fn ask<'a>(
            &'a mut self,
            sql: String,
            params: Vec<Option<String>>,
        ) -> BoxFuture<'a, Result<String, Refused>>;
    }
}

/// A statement that the database refused, or did not answer.
#[derive(Debug)]
pub struct Refused {
    /// None if there was no answer.
    sqlstate: Option<String>,
    message: String,
    /// JSON where the SQL API refused; see [`Reason`].
    detail: Option<String>,
}

impl Refused {
    fn silent(message: String) -> Self {
        Self { sqlstate: None, message, detail: None }
    }

    /// What the SQL API says about its refusal, if it was that which refused.
    fn reason(&self) -> Option<Reason> {
        self.sqlstate.as_ref().filter(|state| state.starts_with("WL"))?;
        serde_json::from_str(self.detail.as_ref()?).ok()
    }
}

impl From<Refused> for Error {
    fn from(Refused { sqlstate, message, .. }: Refused) -> Self {
        Self::Transaction { sqlstate, message }
    }
}

/// Why the SQL API refused: DETAIL of its errors, whose code is that of the engine's refusal.
#[derive(Deserialize)]
struct Reason {
    code: String,
    #[serde(default)]
    index: usize,
    id: JobId,
    status: Option<Status>,
    waiting: Option<i64>,
}

impl Reason {
    /// The engine's refusal; `jobs` are those of the request.
    fn refusal(&self, jobs: &[NewJob]) -> Option<Refusal> {
        Some(match self.code.as_str() {
            "not_found" => Refusal::NotFound,
            "job_finished" => Refusal::Finished(self.status?),
            "not_leased" => Refusal::NotLeased(self.status?),
            "lease_expired" => Refusal::Expired,
            "lease_mismatch" => Refusal::Mismatch,
            "job_exists" => Refusal::JobExists,
            "parent_not_found" => Refusal::ParentNotFound(self.id),
            "flow_not_open" => Refusal::FlowNotOpen,
            "lane_full" => {
                let facts = &jobs.get(self.index)?.facts;
                let (queue, key) = (facts.queue.clone(), facts.key.clone()?);
                Refusal::LaneFull { queue, key, waiting: self.waiting? }
            }
            _ => return None,
        })
    }
}

impl Transaction for tokio_postgres::Transaction<'_> {}

impl sealed::Ask for tokio_postgres::Transaction<'_> {
    fn ask<'a>(
        &'a mut self,
        sql: String,
        params: Vec<Option<String>>,
    ) -> BoxFuture<'a, Result<String, Refused>> {
        use tokio_postgres::types::{ToSql, Type};
        Box::pin(async move {
            let typed: Vec<(&(dyn ToSql + Sync), Type)> =
                params.iter().map(|param| (param as &(dyn ToSql + Sync), Type::TEXT)).collect();
            let rows = self.query_typed(&sql, &typed).await.map_err(|e| told(&e))?;
            rows.first().map(|row| row.get(0)).ok_or_else(|| Refused::silent(NOTHING.to_owned()))
        })
    }
}

const NOTHING: &str = "the database answered nothing";

fn told(error: &tokio_postgres::Error) -> Refused {
    match error.as_db_error() {
        Some(said) => Refused {
            sqlstate: Some(said.code().code().to_owned()),
            message: said.message().to_owned(),
            detail: said.detail().map(str::to_owned),
        },
        None => Refused::silent(error.to_string()),
    }
}

fn nothing() -> Error {
    Refused::silent(NOTHING.to_owned()).into()
}

#[cfg(feature = "sqlx")]
impl Transaction for sqlx::PgConnection {}

#[cfg(feature = "sqlx")]
impl sealed::Ask for sqlx::PgConnection {
    fn ask<'a>(
        &'a mut self,
        sql: String,
        params: Vec<Option<String>>,
    ) -> BoxFuture<'a, Result<String, Refused>> {
        Box::pin(async move {
            // The text is this crate's own; only the schema's name, which was checked, is put into it.
            let mut query = sqlx::query_scalar::<_, String>(sqlx::AssertSqlSafe(sql)).persistent(false);
            for param in params {
                query = query.bind(param);
            }
            query.fetch_one(self).await.map_err(|e| {
                let said = e.as_database_error().and_then(|e| e.try_downcast_ref::<PgDatabaseError>());
                match said {
                    Some(said) => Refused {
                        sqlstate: Some(said.code().to_owned()),
                        message: said.message().to_owned(),
                        detail: said.detail().map(str::to_owned),
                    },
                    None => Refused::silent(e.to_string()),
                }
            })
        })
    }
}

#[cfg(feature = "sqlx")]
impl Transaction for sqlx::Transaction<'_, sqlx::Postgres> {}

#[cfg(feature = "sqlx")]
impl sealed::Ask for sqlx::Transaction<'_, sqlx::Postgres> {
    fn ask<'a>(
        &'a mut self,
        sql: String,
        params: Vec<Option<String>>,
    ) -> BoxFuture<'a, Result<String, Refused>> {
        sealed::Ask::ask(&mut **self, sql, params)
    }
}

impl Client {
    /// A statement of this crate, for the schema in use.
    fn sql(&self, text: &str) -> String {
        text.replace("windlass.", &format!("{}.", self.inner.schema))
    }
}

impl Enqueue {
    /// Enqueues inside the caller's own transaction: the job is there if and when that commits. The answer is the same as
    /// without. What is refused aborts the transaction.
    ///
    /// Workers find the job at their next look, within a second. [`Client::nudge`] after the commit wakes them at once.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)] struct Ship { order: i64 }
    /// # impl windlass::Job for Ship { const KIND: &str = "ship"; type Output = (); }
    /// # async fn order(client: windlass::Client, db: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = db.transaction().await?;
    /// tx.execute("INSERT INTO orders (id) VALUES (7)", &[]).await?;
    /// client.enqueue(Ship { order: 7 }).in_tx(&mut tx).await?;
    /// tx.commit().await?; // both, or neither
    /// client.nudge();
    /// # Ok(()) }
    /// ```
    pub fn in_tx<X: Transaction>(self, tx: &mut X) -> EnqueueIn<'_, X> {
        EnqueueIn { enqueue: self, tx, notify: false }
    }
}

impl EnqueueMany {
    /// Enqueues all of them inside the caller's own transaction, as [`Enqueue::in_tx`] does one.
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)] struct Ship { order: i64 }
    /// # impl windlass::Job for Ship { const KIND: &str = "ship"; type Output = (); }
    /// # async fn order(client: windlass::Client, db: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = db.transaction().await?;
    /// client.enqueue_many((0..10).map(|order| Ship { order })).in_tx(&mut tx).await?;
    /// tx.commit().await?;
    /// client.nudge();
    /// # Ok(()) }
    /// ```
    pub fn in_tx<X: Transaction>(self, tx: &mut X) -> EnqueueManyIn<'_, X> {
        EnqueueManyIn { enqueue: self, tx, notify: false }
    }
}

/// Enqueues inside the caller's transaction when awaited. Made by [`Enqueue::in_tx`].
#[must_use = "nothing is enqueued before it is awaited"]
pub struct EnqueueIn<'t, X> {
    enqueue: Enqueue,
    tx: &'t mut X,
    notify: bool,
}

/// Enqueues many inside the caller's transaction when awaited. Made by [`EnqueueMany::in_tx`].
#[must_use = "nothing is enqueued before it is awaited"]
pub struct EnqueueManyIn<'t, X> {
    enqueue: EnqueueMany,
    tx: &'t mut X,
    notify: bool,
}

/// Gives a builder with a field `notify` its option.
macro_rules! notifies {
    ($builder:ident) => {
        impl<X> $builder<'_, X> {
            /// Lets the database wake workers when the transaction commits, for a program that cannot call
            /// [`Client::nudge`] then. Every commit that notifies takes a lock on the whole server: not for many commits per
            /// second.
            pub fn notify(mut self) -> Self {
                self.notify = true;
                self
            }
        }

        impl<X> std::fmt::Debug for $builder<'_, X> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($builder)).field("enqueue", &self.enqueue).finish_non_exhaustive()
            }
        }
    };
}

notifies!(EnqueueIn);
notifies!(EnqueueManyIn);

impl<'t, X: Transaction> IntoFuture for EnqueueIn<'t, X> {
    type Output = Result<Enqueued>;
    type IntoFuture = BoxFuture<'t, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { enqueue: Enqueue { client, request }, tx, notify } = self;
            match send_in(&client, vec![request], tx, notify).await {
                Ok(answers) => answers.into_iter().next().ok_or_else(nothing),
                // One job is no batch.
                Err(Error::Batch(refused)) => Err(refused.refusal.into()),
                Err(error) => Err(error),
            }
        })
    }
}

impl<'t, X: Transaction> IntoFuture for EnqueueManyIn<'t, X> {
    type Output = Result<Vec<Enqueued>>;
    type IntoFuture = BoxFuture<'t, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { enqueue: EnqueueMany { client, requests }, tx, notify } = self;
            send_in(&client, requests, tx, notify).await
        })
    }
}

async fn send_in<X: Transaction>(
    client: &Client,
    requests: Vec<Request>,
    tx: &mut X,
    notify: bool,
) -> Result<Vec<Enqueued>> {
    check_size(requests.len())?;
    let jobs = finish_all(client, requests).await?;
    let now = wall_clock();
    for (index, job) in jobs.iter().enumerate() {
        let invalid = |invalid: Invalid| BatchRefusal { index, refusal: invalid.into() };
        if job.facts.graph.is_some() {
            let limit =
                "must be left out inside a transaction of your own; enqueue such jobs after its commit";
            return Err(invalid(Invalid::new("after", "given", limit)).into());
        }
        if job.debounce().is_some() {
            let limit = "cannot be given in a transaction of one's own; enqueue the job without in_tx";
            return Err(invalid(Invalid::new("debounce", "given", limit)).into());
        }
        // The horizon of a run time is ten years: any clock can tell.
        job.check(now).and_then(|()| client.inner.limits.check_job(job)).map_err(invalid)?;
    }
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let asked = serde_json::Value::Array(jobs.iter().map(asked).collect());
    let params =
        vec![Some(asked.to_string()), Some(client.actor().as_str().to_owned()), Some(notify.to_string())];
    let answer = match tx.ask(client.sql(ENQUEUE_MANY), params).await {
        Ok(answer) => answer,
        Err(refused) => return Err(refusal(&jobs, refused)),
    };
    serde_json::from_str(&answer).map_err(|_| nothing())
}

/// What a refusal of the database means, where the engine has a word for it.
fn refusal(jobs: &[NewJob], refused: Refused) -> Error {
    match refused.reason().and_then(|reason| Some((reason.index, reason.refusal(jobs)?))) {
        Some((index, refusal)) => BatchRefusal { index, refusal }.into(),
        None => refused.into(),
    }
}

/// What a handler is told of a refusal: a lease that is lost has the engine's code for it.
fn lost(refused: Refused) -> HandlerError {
    match refused.reason().and_then(|reason| reason.refusal(&[])) {
        Some(refusal) => HandlerError::retry(&refusal).code(refusal.code()),
        None => Error::from(refused).into(),
    }
}

/// A job as `windlass.enqueue_many` takes it. Payloads, backoff and metadata go as text, so that they stay as they are.
fn asked(job: &NewJob) -> serde_json::Value {
    let facts = &job.facts;
    let payload = job.payload.as_ref().map(|p| String::from_utf8_lossy(p.as_bytes()).into_owned());
    let (run_at, delay) = match facts.run_at {
        RunAt::Now => (None, None),
        RunAt::At(time) => (Some(time.as_micros()), None),
        RunAt::After(ms) => (None, Some(ms)),
    };
    let unique = facts.unique.as_ref();
    let policy = unique.map(|unique| unique.policy);
    let ttl = match policy {
        Some(Policy::Ttl(ms)) => Some(ms),
        _ => None,
    };
    serde_json::json!({
        "kind": facts.kind,
        "payload": payload,
        "queue": facts.queue,
        "priority": facts.priority,
        "run_at": run_at,
        "delay": delay,
        "max_retries": facts.max_retries,
        "timeout": facts.timeout_ms,
        "lease": facts.lease_ms.map(|ms| ms.get()),
        "grace": facts.grace_ms,
        "backoff": facts.backoff.map(|backoff| json(&backoff)),
        "agent_id": facts.agent_id,
        "metadata": (!facts.metadata.is_empty()).then(|| json(&facts.metadata)),
        "tags": facts.tags,
        "unique_key": unique.map(|unique| &unique.key),
        "unique_scope": unique.map(|unique| if matches!(unique.scope, Scope::Kind(_)) { "kind" } else { "queue" }),
        "unique_policy": policy.map(|policy| policy.to_text().split(':').next().unwrap_or_default().to_owned()),
        "unique_ttl": ttl,
        "parent_id": facts.parent_id,
        "id": job.id,
        "key": facts.key,
        "cost": facts.cost,
    })
}

/// Facts always become JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl<S: Send + Sync + 'static> Context<S> {
    /// Completes the job inside the handler's own transaction: what the handler writes there and the completion commit
    /// together, so the effect happens exactly once. The lease is checked, and the job stays locked until the end of the
    /// transaction; a handler that lost its lease gets an error here, and rolls back. Its code says why: `lease_expired`,
    /// `lease_mismatch`, `not_leased`, `job_finished` or `not_found`.
    ///
    /// Commit, then return the same output. A handler that returns without having committed is tried again.
    ///
    /// ```no_run
    /// # use windlass::{Context, HandlerError};
    /// # struct App { db: tokio::sync::Mutex<tokio_postgres::Client> }
    /// async fn handle(ctx: Context<App>, cents: i64) -> Result<i64, HandlerError> {
    ///     let mut db = ctx.state().db.lock().await;
    ///     let mut tx = db.transaction().await?;
    ///     let row = tx.query_one("UPDATE account SET cents = cents + $1 RETURNING cents", &[&cents]).await?;
    ///     let balance: i64 = row.get(0);
    ///     ctx.complete_in(&mut tx, &balance).await?;
    ///     tx.commit().await?; // the money and the end of the job, or neither
    ///     Ok(balance)
    /// }
    /// ```
    pub async fn complete_in<X: Transaction>(
        &self,
        tx: &mut X,
        output: &(impl Serialize + Sync),
    ) -> Result<(), HandlerError> {
        if self.attempt.is_replay() {
            return Err(self.attempt.stand_still().await);
        }
        let result = encode("the result", output, self.client.inner.limits.result_bytes)?;
        let result = String::from_utf8_lossy(result.as_bytes()).into_owned();
        let params = vec![Some(self.id().to_string()), Some(self.lease_token().to_text()), Some(result)];
        self.attempt.lock_by_handler();
        tx.ask(self.client.sql(COMPLETE), params).await.map_err(lost)?;
        self.completed.store(true, Ordering::Release);
        Ok(())
    }

    /// Checks the lease inside the handler's own transaction, and keeps the job locked until its end: what is written there
    /// is written by the one who holds the job, or not at all. Answers the fence; refuses with the codes of
    /// [`complete_in`](Context::complete_in).
    pub async fn assert_lease<X: Transaction>(&self, tx: &mut X) -> Result<i64, HandlerError> {
        if self.attempt.is_replay() {
            return Err(self.attempt.stand_still().await);
        }
        let params = vec![Some(self.id().to_string()), Some(self.lease_token().to_text())];
        self.attempt.lock_by_handler();
        tx.ask(self.client.sql(ASSERT_LEASE), params).await.map_err(lost)?;
        Ok(self.fence())
    }
}

/// Refuses a success whose transaction was never committed: the handler's writes are gone, so it is done again.
pub(crate) async fn check_committed<S>(ctx: &Context<S>) -> Result<(), HandlerError> {
    if !ctx.completed.load(Ordering::Acquire) {
        return Ok(());
    }
    let view = ctx.client.job(ctx.id()).await?;
    if view.is_some_and(|view| view.job.status == Status::Completed) {
        return Ok(());
    }
    let message = "the handler returned, and the transaction that complete_in was given is not committed; commit it before \
                   you return";
    Err(HandlerError::retry(message).code("not_committed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DETAIL of the SQL API becomes the refusal with that code; what another trigger raises does not.
    #[test]
    fn a_refusal_of_the_sql_api_is_the_engines() {
        let id = windlass_store::fresh::job_id();
        let refused = |state: &str, detail: serde_json::Value| Refused {
            sqlstate: Some(state.to_owned()),
            message: "no".to_owned(),
            detail: Some(detail.to_string()),
        };
        for code in [
            "not_found",
            "job_finished",
            "not_leased",
            "lease_expired",
            "lease_mismatch",
            "job_exists",
            "parent_not_found",
            "flow_not_open",
        ] {
            let detail = serde_json::json!({ "code": code, "id": id, "status": "failed" });
            let reason = refused("WL005", detail.clone()).reason().unwrap();
            assert_eq!(reason.refusal(&[]).unwrap().code(), code);
            assert_eq!(lost(refused("WL005", detail.clone())).error_code(), code);
            assert_eq!(lost(refused("P0001", detail)).error_code(), "failed");
        }
        let told = refusal(&[], refused("23505", serde_json::json!("Key (id)=(1) already exists.")));
        assert_eq!(told, Error::Transaction { sqlstate: Some("23505".to_owned()), message: "no".to_owned() });
    }
}
