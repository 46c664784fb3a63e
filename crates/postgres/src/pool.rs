//! Connections and transactions. A transaction runs in a task of its own: a caller that is dropped leaves none open,
//! and its answer is never half-known.

use crate::db::{Boxed, Db, Tx};
use crate::error::{Failure, OpenError, Tried};
use crate::texts::Texts;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_store::{Hinter, Now, StoreResult};

/// How often a deadlock or a race is tried again before the caller hears of it.
const TRIES: usize = 20;
/// How long a caller waits for a connection.
const WAIT: Duration = Duration::from_secs(10);

/// The pool of one store.
#[derive(Debug)]
pub(crate) struct Connections {
    pool: Pool,
    pub(crate) texts: Texts,
    pub(crate) hinter: Hinter,
    begin: String,
}

impl Connections {
    pub(crate) fn new(
        config: Config,
        size: usize,
        texts: Texts,
        timeout: Duration,
    ) -> Result<Self, OpenError> {
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, tls()?, manager);
        let pool = Pool::builder(manager)
            .max_size(size)
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(WAIT))
            .runtime(deadpool_postgres::Runtime::Tokio1)
            .build()
            .map_err(|e| OpenError::Failed(e.to_string()))?;
        let ms = timeout.as_millis();
        let begin = format!("BEGIN; SET LOCAL statement_timeout = {ms}; SET LOCAL lock_timeout = {}", ms / 3);
        Ok(Self { pool, texts, hinter: Hinter::default(), begin })
    }

    pub(crate) async fn get(&self) -> Tried<Object> {
        Ok(self.pool.get().await?)
    }

    /// Reads outside of a transaction.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move {
            let client = this.get().await?;
            read(&Db::new(&client, &this.texts)).await
        })
        .await
    }

    /// One statement in a transaction of its own, in one round trip: BEGIN, the statement and COMMIT go out
    /// together. A statement that fails makes the COMMIT a rollback; a connection that breaks leaves it unknown.
    pub(crate) async fn single<T: Send + 'static>(
        self: &Arc<Self>,
        statement: impl for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move {
            for _ in 1..TRIES {
                let mut lent = Lent(Some(this.get().await?));
                let client = lent.client()?;
                let db = Db::new(client, &this.texts);
                let (begun, done, ended) = tokio::join!(
                    biased;
                    client.batch_execute(&this.begin),
                    statement(&db),
                    client.batch_execute("COMMIT")
                );
                let end = begun.map_err(Failure::from).and(done).and_then(|t| Ok(ended.map(|()| t)?));
                match end {
                    Err(failure) if failure.is_lost() => return Err(Failure::Unknown),
                    Err(failure) => {
                        lent.give_back();
                        if !failure.is_passing() {
                            return Err(failure);
                        }
                    }
                    Ok(answer) => {
                        lent.give_back();
                        return Ok(answer);
                    }
                }
            }
            Err(Failure::Raced)
        })
        .await
    }

    /// Runs a verb in a transaction, again when it only lost a race.
    pub(crate) async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        now: Now,
        verb: impl for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move {
            for _ in 1..TRIES {
                match this.once(now, &verb).await {
                    Err(failure) if failure.is_passing() => {}
                    end => return end,
                }
            }
            Err(Failure::Raced)
        })
        .await
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
        let (begun, end) = tokio::join!(biased; client.batch_execute(&self.begin), verb(&tx));
        begun?;
        match end {
            Ok(answer) => {
                client.batch_execute("COMMIT").await.map_err(|e| {
                    let failure = Failure::from(e);
                    if failure.is_lost() { Failure::Unknown } else { failure }
                })?;
                let (wrote, due) = tx.hints();
                if wrote {
                    self.hinter.hint(due);
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
async fn spawned<T: Send + 'static>(work: impl Future<Output = Tried<T>> + Send + 'static) -> StoreResult<T> {
    match tokio::spawn(work).await {
        Ok(end) => end.map_err(|failure| failure.told()),
        Err(_) => Err(Failure::Unknown.told()),
    }
}

/// TLS by the system's certificates; whether it is used, the URL's `sslmode` says.
pub(crate) fn tls() -> Result<MakeRustlsConnect, OpenError> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in rustls_native_certs::load_native_certs().certs {
        // A certificate that rustls cannot read cannot sign our server's either.
        let _ = roots.add(certificate);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| OpenError::Failed(e.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
