//! Inside the caller's own PostgreSQL transaction: enqueue, complete, hold. What is written there and what Windlass does
//! commit together, or not at all.

use crate::client::Client;
use crate::context::Context;
use crate::enqueue::Enqueue;
use crate::error::{Error, Result};
use crate::value::encode;
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use windlass_core::unique::{Policy, Scope};
use windlass_core::{JobId, NewJob, RunAt, Status};
use windlass_engine::HandlerError;
use windlass_store::Enqueued;

const ENQUEUE: &str = include_str!("../sql/enqueue.sql");
const COMPLETE: &str = include_str!("../sql/complete.sql");
const ASSERT_LEASE: &str = include_str!("../sql/assert_lease.sql");

/// A transaction of a PostgreSQL driver, open on the database that the store is in: `tokio_postgres::Transaction`, and with
/// the feature `sqlx` also `sqlx::Transaction<Postgres>` and `sqlx::PgConnection`.
///
/// What wraps one of them (deadpool's, for instance) is given as `&mut *tx`.
pub trait Transaction: sealed::Ask {}

mod sealed {
    use super::{BoxFuture, Result};

    /// One statement whose parameters are texts, and whose answer is one text.
    pub trait Ask: Send {
        fn ask<'a>(&'a mut self, sql: String, params: Vec<Option<String>>) -> BoxFuture<'a, Result<String>>;
    }
}

impl Transaction for tokio_postgres::Transaction<'_> {}

impl sealed::Ask for tokio_postgres::Transaction<'_> {
    fn ask<'a>(&'a mut self, sql: String, params: Vec<Option<String>>) -> BoxFuture<'a, Result<String>> {
        use tokio_postgres::types::{ToSql, Type};
        Box::pin(async move {
            let typed: Vec<(&(dyn ToSql + Sync), Type)> =
                params.iter().map(|param| (param as &(dyn ToSql + Sync), Type::TEXT)).collect();
            let rows = self.query_typed(&sql, &typed).await.map_err(|e| Error::Transaction(told(&e)))?;
            rows.first().map(|row| row.get(0)).ok_or_else(nothing)
        })
    }
}

fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    }
}

fn nothing() -> Error {
    Error::Transaction("the database answered nothing".into())
}

#[cfg(feature = "sqlx")]
impl Transaction for sqlx::PgConnection {}

#[cfg(feature = "sqlx")]
impl sealed::Ask for sqlx::PgConnection {
    fn ask<'a>(&'a mut self, sql: String, params: Vec<Option<String>>) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            // The text is this crate's own; only the schema's name, which was checked, is put into it.
            let mut query = sqlx::query_scalar::<_, String>(sqlx::AssertSqlSafe(sql)).persistent(false);
            for param in params {
                query = query.bind(param);
            }
            query.fetch_one(self).await.map_err(|e| match e.as_database_error() {
                Some(said) => {
                    let code = said.code().unwrap_or_default();
                    Error::Transaction(format!("{} ({code})", said.message()))
                }
                None => Error::Transaction(e.to_string()),
            })
        })
    }
}

#[cfg(feature = "sqlx")]
impl Transaction for sqlx::Transaction<'_, sqlx::Postgres> {}

#[cfg(feature = "sqlx")]
impl sealed::Ask for sqlx::Transaction<'_, sqlx::Postgres> {
    fn ask<'a>(&'a mut self, sql: String, params: Vec<Option<String>>) -> BoxFuture<'a, Result<String>> {
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
    /// Enqueues inside the caller's own transaction: the job is there if and when that commits.
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
    /// # Ok(()) }
    /// ```
    pub fn in_tx<X: Transaction>(self, tx: &mut X) -> EnqueueIn<'_, X> {
        EnqueueIn { enqueue: self, tx, notify: false }
    }
}

/// Enqueues inside the caller's transaction when awaited. Made by [`Enqueue::in_tx`].
#[must_use = "nothing is enqueued before it is awaited"]
pub struct EnqueueIn<'t, X> {
    enqueue: Enqueue,
    tx: &'t mut X,
    notify: bool,
}

impl<X> EnqueueIn<'_, X> {
    /// Wakes workers when the transaction commits, instead of leaving it to their next look, within a second. Every commit
    /// that notifies takes a lock on the whole server: not for many commits per second.
    pub fn notify(mut self) -> Self {
        self.notify = true;
        self
    }
}

impl<'t, X: Transaction> IntoFuture for EnqueueIn<'t, X> {
    type Output = Result<Enqueued>;
    type IntoFuture = BoxFuture<'t, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { enqueue: Enqueue { client, request }, tx, notify } = self;
            let job = request.finish(&*client.policies().await?)?;
            client.inner.limits.check_job(&job)?;
            let answer = tx.ask(client.sql(ENQUEUE), params(&job, notify)).await?;
            let id = JobId::parse(&answer)?;
            Ok(Enqueued { id, existed: id != job.id, payload_differs: false })
        })
    }
}

impl<X> std::fmt::Debug for EnqueueIn<'_, X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnqueueIn").field("enqueue", &self.enqueue).finish_non_exhaustive()
    }
}

/// In the order of `sql/enqueue.sql`.
fn params(job: &NewJob, notify: bool) -> Vec<Option<String>> {
    let facts = &job.facts;
    let text = |n: i64| n.to_string();
    let payload = job.payload.as_ref().map(|p| String::from_utf8_lossy(p.as_bytes()).into_owned());
    let (run_at, delay) = match facts.run_at {
        RunAt::Now => (None, None),
        RunAt::At(time) => (Some(text(time.as_micros())), None),
        RunAt::After(ms) => (None, Some(text(ms))),
    };
    let unique = facts.unique.as_ref();
    let policy = unique.map(|unique| unique.policy);
    let ttl = match policy {
        Some(Policy::Ttl(ms)) => Some(text(ms)),
        _ => None,
    };
    vec![
        Some(facts.kind.to_string()),
        payload,
        Some(facts.queue.to_string()),
        Some(facts.priority.to_string()),
        run_at,
        delay,
        Some(facts.max_retries.to_string()),
        facts.timeout_ms.map(text),
        facts.lease_ms.map(|ms| text(ms.get())),
        Some(text(facts.grace_ms)),
        facts.backoff.map(|backoff| json(&backoff)),
        facts.agent_id.as_ref().map(ToString::to_string),
        (!facts.metadata.is_empty()).then(|| json(&facts.metadata)),
        Some(json(&facts.tags)),
        unique.map(|unique| unique.key.to_string()),
        unique.map(|unique| if matches!(unique.scope, Scope::Kind(_)) { "kind" } else { "queue" }.to_owned()),
        policy.map(|policy| policy.to_text().split(':').next().unwrap_or_default().to_owned()),
        ttl,
        facts.parent_id.map(|parent| parent.to_string()),
        Some(job.id.to_string()),
        Some(notify.to_string()),
    ]
}

/// Facts always become JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl<S: Send + Sync + 'static> Context<S> {
    /// Completes the job inside the handler's own transaction: what the handler writes there and the completion commit
    /// together, so the effect happens exactly once. The lease is checked, and the job stays locked until the end of the
    /// transaction; a handler that lost its lease gets an error here, and rolls back.
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
        let result = encode("the result", output, self.client.inner.limits.result_bytes)?;
        let result = String::from_utf8_lossy(result.as_bytes()).into_owned();
        let params = vec![Some(self.id().to_string()), Some(self.lease_token().to_text()), Some(result)];
        tx.ask(self.client.sql(COMPLETE), params).await?;
        self.completed.store(true, Ordering::Release);
        Ok(())
    }

    /// Checks the lease inside the handler's own transaction, and keeps the job locked until its end: what is written there
    /// is written by the one who holds the job, or not at all. Answers the fence.
    pub async fn assert_lease<X: Transaction>(&self, tx: &mut X) -> Result<i64, HandlerError> {
        let params = vec![Some(self.id().to_string()), Some(self.lease_token().to_text())];
        tx.ask(self.client.sql(ASSERT_LEASE), params).await?;
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
