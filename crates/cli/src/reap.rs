//! The end of processes whose attempt ended before them: SIGTERM to the group, SIGKILL after a while, and the body is taken
//! away.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustix::process::{Pid, Signal, kill_process_group};
use std::future::Future;
use std::time::Duration;
use tokio::process::Child;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A program and everything it started, as long as that stays in its process group.
#[derive(Debug)]
pub struct Group {
    child: Child,
    /// Its number is the number of the process that leads it.
    pid: Option<Pid>,
    kill_after: Duration,
}

impl Group {
    /// The group that `child` leads. It must have been started as the leader of one.
    pub fn new(child: Child, kill_after: Duration) -> Self {
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Self { child, pid, kill_after }
    }

    /// The program itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Signals everybody in the group. Nobody being left is no error.
    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid
            && let Err(error) = kill_process_group(pid, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(%error, pid = pid.as_raw_nonzero(), "a process group could not be signalled");
        }
    }

    /// Asks everybody to end.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends everybody.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Asks everybody to end, gives them time, and ends whoever is left.
    pub async fn stop(&mut self) {
        self.terminate();
        let _ = tokio::time::timeout(self.kill_after, self.child.wait()).await;
        self.kill();
        if let Err(error) = self.child.wait().await {
            tracing::warn!(%error, "the end of a program could not be awaited");
        }
    }
}

/// Where handlers leave groups when they are dropped.
#[derive(Debug, Clone)]
pub struct Leave(UnboundedSender<Group>);

impl Leave {
    /// Leaves a group to the reaper, which has been asked to end already.
    pub fn behind(&self, group: Group) {
        group.terminate();
        if let Err(unsent) = self.0.send(group) {
            unsent.0.kill();
        }
    }
}

/// Stops what was left behind.
#[derive(Debug)]
pub struct Reaper(UnboundedReceiver<Group>);

impl Reaper {
    /// A reaper, and where to leave groups for it.
    pub fn new() -> (Self, Leave) {
        let (leave, left) = unbounded_channel();
        (Self(left), Leave(leave))
    }

    /// Stops what is left behind until `end`, and then until nothing is left.
    pub async fn run(mut self, end: impl Future<Output = ()>) {
        let mut end = std::pin::pin!(end);
        let mut stopping = FuturesUnordered::new();
        let mut is_ending = false;
        loop {
            if is_ending {
                while let Ok(group) = self.0.try_recv() {
                    stopping.push(stop(group));
                }
                if stopping.is_empty() {
                    return;
                }
            }
            tokio::select! {
                Some(group) = self.0.recv() => stopping.push(stop(group)),
                Some(()) = stopping.next() => {}
                () = &mut end, if !is_ending => is_ending = true,
            }
        }
    }
}

async fn stop(mut group: Group) {
    group.stop().await;
}
