//! What stays open under a key: streams of events and waiting claims. Each ends within seconds of its key or its session,
//! on whichever server that was ended.

use crate::app::App;
use crate::session::SessionHash;
use std::collections::HashMap;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use windlass_store::fresh;

/// How often the store is asked about everything that is open: once per key, however much is open under it.
const EVERY: Duration = Duration::from_secs(2);

/// What lets a caller keep something open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bearer {
    /// No key at all, which is enough until the first one is made.
    NoKey,
    /// A key, by its hash.
    Key([u8; 32]),
    /// A session, by the hash of its id.
    Session(SessionHash),
}

/// Held by whatever stays open.
#[derive(Debug, Clone)]
pub(crate) struct Pass(Option<watch::Receiver<bool>>);

impl Pass {
    /// Whether it must end.
    pub(crate) fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|over| *over.borrow())
    }

    /// Waits until it must end.
    pub(crate) async fn over(&mut self) {
        match &mut self.0 {
            // The sender is dropped only when it has said so, or with the server.
            Some(over) => drop(over.wait_for(|over| *over).await),
            None => pending().await,
        }
    }
}

/// Everything that is open, by what lets it be so.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    /// A blocking lock: it is held for a look or an insertion.
    open: Mutex<HashMap<Bearer, watch::Sender<bool>>>,
    /// A key or a session was ended here: look now.
    now: Notify,
}

impl Passes {
    fn open(&self) -> MutexGuard<'_, HashMap<Bearer, watch::Sender<bool>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pass for whoever shows this; one that never ends for the owner of the store.
    pub(crate) fn give(&self, bearer: Option<Bearer>) -> Pass {
        Pass(bearer.map(|bearer| {
            let mut open = self.open();
            open.entry(bearer).or_insert_with(|| watch::Sender::new(false)).subscribe()
        }))
    }

    /// Looks at everything that is open as soon as possible.
    pub(crate) fn look_now(&self) {
        self.now.notify_one();
    }

    /// Ends what is open under a key or a session that has ended, for as long as it is polled.
    pub(crate) async fn watch(&self, app: &App) {
        loop {
            tokio::select! {
                () = sleep(EVERY) => {}
                () = self.now.notified() => {}
            }
            let bearers: Vec<Bearer> = {
                let mut open = self.open();
                open.retain(|_, over| over.receiver_count() > 0);
                open.keys().copied().collect()
            };
            for bearer in bearers {
                if is_good(app, bearer).await {
                    continue;
                }
                if let Some(over) = self.open().remove(&bearer) {
                    over.send_replace(true);
                }
            }
        }
    }
}

/// Whether somebody could still open something with this. While the store is away nothing new can be sent either, and
/// only what is known to have expired ends.
async fn is_good(app: &App, bearer: Bearer) -> bool {
    let key = match bearer {
        Bearer::NoKey => return !app.gate.is_keyed().await.unwrap_or(false),
        Bearer::Key(hash) => app.gate.ask(hash).await,
        Bearer::Session(session) => match app.sessions.ask(session).await {
            Ok(Some(hash)) => app.gate.ask(hash).await,
            Ok(None) => return false,
            Err(_) => return true,
        },
    };
    match key {
        Ok(key) => key.is_some_and(|key| key.is_valid(fresh::wall_clock())),
        Err(_) => true,
    }
}
