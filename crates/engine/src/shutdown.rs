//! Ending in two steps: first finish what runs, then end at once.

use std::future::Future;
use tokio::sync::watch;

/// How far an end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Work goes on.
    Working,
    /// Nothing new is taken; what runs may finish until the deadline.
    Graceful,
    /// Everything is given back at once.
    Now,
}

/// A handle that ends workers. Cheap to clone; all clones are one. It never goes back.
#[derive(Debug, Clone)]
pub struct Shutdown {
    level: watch::Sender<Level>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// Nothing ends yet.
    pub fn new() -> Self {
        Self { level: watch::Sender::new(Level::Working) }
    }

    /// Follows SIGTERM and SIGINT: the first one is graceful, the second ends at once. Call it inside a runtime, whose
    /// end ends the following.
    ///
    /// # Errors
    /// If the process cannot listen for signals.
    pub fn on_signals() -> std::io::Result<Self> {
        let shutdown = Self::new();
        let mut signals = Signals::new()?;
        let follower = shutdown.clone();
        crate::task::detach(async move {
            signals.next().await;
            tracing::info!("asked to end: finishing what runs; ask again to end at once");
            follower.graceful();
            signals.next().await;
            tracing::warn!("asked again: ending at once");
            follower.now();
        });
        Ok(shutdown)
    }

    /// Take nothing new; let finish what runs, until the worker's deadline.
    pub fn graceful(&self) {
        self.raise(Level::Graceful);
    }

    /// End at once: what runs is stopped and given back.
    pub fn now(&self) {
        self.raise(Level::Now);
    }

    /// How far the end has come.
    pub fn level(&self) -> Level {
        *self.level.borrow()
    }

    /// Waits until the end has come this far.
    pub fn reached(&self, level: Level) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut watched = self.level.subscribe();
        async move {
            // An error would mean that the sender is gone: then nobody can end it any more.
            if watched.wait_for(|now| *now >= level).await.is_err() {
                std::future::pending().await
            }
        }
    }

    fn raise(&self, level: Level) {
        self.level.send_if_modified(|now| {
            let raised = level > *now;
            *now = level.max(*now);
            raised
        });
    }
}

/// The end of one worker: by its caller's word, which may concern others too, or because nobody waits for it any more.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) asked: Shutdown,
    pub(crate) abandoned: Shutdown,
}

impl Ending {
    pub(crate) fn level(&self) -> Level {
        self.asked.level().max(self.abandoned.level())
    }

    /// Waits until the end has come this far.
    pub(crate) async fn reached(&self, level: Level) {
        tokio::select! {
            () = self.asked.reached(level) => {}
            () = self.abandoned.reached(level) => {}
        }
    }
}

#[cfg(unix)]
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_only_goes_on() {
        let shutdown = Shutdown::new();
        let ended = shutdown.reached(Level::Graceful);
        shutdown.clone().now();
        shutdown.graceful();
        assert_eq!(shutdown.level(), Level::Now);
        ended.await;
    }
}
