//! How connections are made: as the pool would make them, with an ear for one warning.

use crate::db::Boxed;
use deadpool_postgres::Connect;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The function of the server that warns when a commit no longer waits for its synchronous standby, as when
/// that wait was cancelled. The commit stands on this server only, and its answer says nothing of it.
const UNCONFIRMED: &str = "SyncRepWaitForLSN";

/// Connects, and ends a connection whose commit was not confirmed: to its caller the answer is lost then, which is what
/// it has to know.
pub(crate) struct Connector {
    pub(crate) tls: MakeRustlsConnect,
    /// How many commits were not confirmed since one was.
    pub(crate) unconfirmed: Arc<AtomicU64>,
}

impl Connect for Connector {
    #[expect(
        clippy::disallowed_methods,
        reason = "the pool holds the task's handle and ends it with its client"
    )]
    fn connect(&self, config: &Config) -> Boxed<'_, Result<(Client, JoinHandle<()>), Error>> {
        let (config, tls, unconfirmed) = (config.clone(), self.tls.clone(), Arc::clone(&self.unconfirmed));
        Box::pin(async move {
            let (client, mut connection) = config.connect(tls).await?;
            let driven = async move {
                while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                    match message {
                        Ok(AsyncMessage::Notice(notice)) if notice.routine() == Some(UNCONFIRMED) => {
                            unconfirmed.fetch_add(1, Ordering::Relaxed);
                            tracing::warn!(%notice, "a commit was not confirmed by the standby; its outcome is unknown");
                            return;
                        }
                        Ok(_) => {}
                        Err(error) => {
                            tracing::debug!(%error, "a connection ended");
                            return;
                        }
                    }
                }
            };
            Ok((client, tokio::spawn(driven)))
        })
    }
}
