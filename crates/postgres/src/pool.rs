//! Connections and transactions. A transaction runs in a task of its own: a caller that is dropped leaves none open,
//! and its answer is never half-known.

use crate::db::{Boxed, Db, Tx};
use crate::error::{Failure, OpenError, Tried};
use crate::notify::Wakeups;
use crate::statements::Texts;
use crate::tls::Route;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use windlass_store::{Now, StoreResult};

/// How often a deadlock or a race is tried again before the caller hears of it.
const TRIES: usize = 20;
/// How long a merged statement waits for a row that somebody else holds: its calls then go on without each other.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long a caller waits for a connection.
const WAIT: Duration = Duration::from_secs(10);

/// The pool of one store.
#[derive(Debug)]
pub(crate) struct Connections {
    pool: Pool,
    pub(crate) texts: Texts,
    pub(crate) wakeups: Wakeups,
    begin: String,
    begin_merged: String,
    begin_read: String,
}

impl Connections {
    pub(crate) fn new(route: Route, size: usize, texts: Texts, timeout: Duration) -> Result<Self, OpenError> {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(route.config, route.tls, manager);
        let pool = Pool::builder(manager)
            .max_size(size)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(WAIT))
            .runtime(deadpool_postgres::Runtime::Tokio1)
            // Whoever has just worked has its plans at hand; keepalives look after those that rest.
            .queue_mode(deadpool_postgres::QueueMode::Lifo)
            .build()
            .map_err(|e| OpenError::Failed(e.to_string()))?;
        // Statistics can make a claim look dear enough to be compiled, each time anew, which takes longer than to run it.
        let begin = |begin: &str, lock_timeout: Duration| {
            let (ms, lock_ms) = (timeout.as_millis(), lock_timeout.as_millis());
            format!(
                "{begin}; SET LOCAL statement_timeout = {ms}; SET LOCAL lock_timeout = {lock_ms}; SET LOCAL jit = off"
            )
        };
        Ok(Self {
            pool,
            texts,
            wakeups: Wakeups::default(),
            begin: begin("BEGIN", timeout / 3),
            begin_merged: begin("BEGIN", PATIENCE.min(timeout / 3)),
            begin_read: begin("BEGIN READ ONLY", timeout / 3),
        })
    }

    pub(crate) async fn get(&self) -> Tried<Object> {
        Ok(self.pool.get().await?)
    }

    /// Reads, in a transaction that can neither write nor take for ever.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move {
            let mut lent = Lent(Some(this.get().await?));
            let client = lent.client()?;
            let db = Db::new(client, &this.texts);
            let (begun, found) = tokio::join!(biased; client.batch_execute(&this.begin_read), read(&db));
            if client.batch_execute("COMMIT").await.is_ok() {
                lent.give_back();
            }
            begun?;
            found
        })
        .await
    }

    /// [`Connections::try_single`] in a task of its own.
    pub(crate) async fn single<T: Send + 'static>(
        self: &Arc<Self>,
        statement: impl for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move { this.try_single(false, statement).await }).await
    }

    /// Statements in a transaction of their own, in one round trip: BEGIN, whatever `statement` sends before it waits,
    /// and COMMIT go out together. A statement that fails makes the COMMIT a rollback; a connection that breaks
    /// leaves it unknown. A merged one waits for locks only briefly. Call it from a task that nobody drops.
    pub(crate) async fn try_single<T: Send>(
        &self,
        merged: bool,
        statement: impl for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<T>> + Send + Sync,
    ) -> Tried<T> {
        let begin = if merged { &self.begin_merged } else { &self.begin };
        for _ in 1..TRIES {
            let mut lent = Lent(Some(self.get().await?));
            let client = lent.client()?;
            let db = Db::new(client, &self.texts);
            let (begun, done, ended) = tokio::join!(
                biased;
                client.batch_execute(begin),
                statement(&db),
                client.batch_execute("COMMIT")
            );
            let begun = begun.map_err(|e| Failure::from(e).without_begin());
            let end = begun.and(done).and_then(|t| Ok(ended.map(|()| t)?));
            match end.map_err(Failure::after_commit) {
                Err(lost @ Failure::Unknown(_)) => return Err(lost),
                end => {
                    lent.give_back();
                    match end {
                        Err(failure) if failure.is_passing() => {}
                        end => return end,
                    }
                }
            }
        }
        Err(Failure::Raced)
    }

    /// [`Connections::try_transact`] in a task of its own.
    pub(crate) async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        now: Now,
        verb: impl for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move { this.try_transact(now, verb).await }).await
    }

    /// Runs a verb in a transaction, again when it only lost a race. Call it from a task that nobody drops.
    pub(crate) async fn try_transact<T: Send>(
        &self,
        now: Now,
        verb: impl for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<T>> + Send + Sync,
    ) -> Tried<T> {
        for _ in 1..TRIES {
            match self.once(now, &verb).await {
                Err(failure) if failure.is_passing() => {}
                end => return end,
            }
        }
        Err(Failure::Raced)
    }

    async fn once<T>(
        &self,
        now: Now,
        verb: &(impl for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<T>> + Send + Sync),
    ) -> Tried<T> {
        let mut lent = Lent(Some(self.get().await?));
        let client = lent.client()?;
        let tx = Tx::new(Db::new(client, &self.texts), now);
        // The verb's first statements follow BEGIN in the same round trip.
        let begin = async {
            let begun = client.batch_execute(&self.begin).await;
            begun.map_err(|e| Failure::from(e).without_begin())
        };
        // Without a transaction the verb gets no further than those.
        let verb = async { Ok(verb(&tx).await) };
        let ((), end) = tokio::try_join!(biased; begin, verb)?;
        match end {
            Ok(answer) => {
                client.batch_execute("COMMIT").await.map_err(|e| Failure::from(e).after_commit())?;
                let (wrote, due) = tx.hints();
                if wrote {
                    self.wakeups.hint(due);
                }
                lent.give_back();
                Ok(answer)
            }
            Err(failure) => {
                if client.batch_execute("ROLLBACK").await.is_ok() {
                    lent.give_back();
                }
                Err(failure)
            }
        }
    }
}

/// A connection that goes back to the pool only when it was said to be clean: not after a panic, not half-way.
struct Lent(Option<Object>);

impl Lent {
    fn client(&self) -> Tried<&tokio_postgres::Client> {
        self.0.as_ref().map(|o| &***o).ok_or_else(|| Failure::Pool("the connection was given back".into()))
    }

    fn give_back(&mut self) {
        drop(self.0.take());
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// Runs to its end even if nobody waits for it any more.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place: awaited at once, panics are told as an unknown outcome"
)]
pub(crate) async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Tried<T>> + Send + 'static,
) -> StoreResult<T> {
    match tokio::spawn(work).await {
        Ok(end) => end.map_err(|failure| failure.told()),
        Err(panicked) => Err(Failure::Unknown(panicked.to_string()).told()),
    }
}
