//! One leader at a time: the process that holds the term of that name.
//!
//! Nothing is safe because of what happens here. Every write of a leader carries its epoch, and the store refuses one that
//! is over, in the transaction that would write. What happens here makes that rare: a process that cannot renew its term
//! stops leading before another can take it.
//!
//! Servers come before workers: a server knows where the archive is and sends what subscriptions ask for, a worker does not. A
//! server that cannot lead holds a second term, that of the one who leads next, so that workers see it: they take the first
//! term only while nobody holds the second, and resign once somebody does.

use crate::repeat::jittered;
use crate::shutdown::{Level, Shutdown};
use metrics::{counter, gauge};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use windlass_core::registry::WriteAudit;
use windlass_core::{Actor, LeaseMs, Metadata, Name, Term, Who};
use windlass_store::{AcquireTerm, RenewTerm, ResignTerm, Store, StoreError};

/// The name of the term.
const TERM: &str = "leader";
/// The name of the term that a server holds while it waits.
const NEXT: &str = "next_leader";
/// How long a term lasts without being renewed, in milliseconds: so long nobody leads after a crash, at most.
const TTL_MS: i64 = 10_000;
/// How long before the end of its term one that could not renew it stops.
const MARGIN: Duration = Duration::from_secs(1);
/// How often others look whether the term is free, at most: so soon after the leader resigned, another leads.
const LOOK: Duration = Duration::from_millis(600);
/// How soon a renewal that failed is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// Keeps trying to lead, and leads.
#[derive(Debug)]
pub struct Leader {
    store: Arc<dyn Store>,
    holder: Who,
    ttl_ms: i64,
    /// Whether it leaves the term to servers.
    yields: bool,
    /// The epoch under which it waits to lead next, and when it said so last.
    waits: Option<(i64, Instant)>,
    told: watch::Sender<Option<i64>>,
}

/// Whether this process leads, and under which epoch.
#[derive(Debug, Clone)]
pub struct Leading(watch::Receiver<Option<i64>>);

impl Leading {
    /// The epoch under which this process leads; none while another does, or nobody.
    pub fn epoch(&self) -> Option<i64> {
        *self.0.borrow()
    }

    /// Waits until this process leads.
    pub async fn leads(&mut self) -> i64 {
        loop {
            if let Some(epoch) = self.epoch() {
                return epoch;
            }
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until it does not lead under this epoch any more.
    pub async fn ends(&mut self, epoch: i64) {
        while self.epoch() == Some(epoch) {
            if self.0.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until this process leads, for work that it does only then; none when the process is to end.
    pub async fn reign(&mut self, shutdown: &Shutdown) -> Option<Reign> {
        let epoch = tokio::select! {
            () = shutdown.reached(Level::Graceful) => return None,
            epoch = self.leads() => epoch,
        };
        Some(Reign { epoch, leading: self.clone(), shutdown: shutdown.clone() })
    }

    /// The name of the term, for writes that carry its epoch.
    pub fn term() -> Name {
        term(TERM)
    }
}

fn term(name: &str) -> Name {
    Name::parse("term", name).unwrap_or_else(|_| unreachable!("it is a name"))
}

/// A time in which this process leads, under one epoch.
#[derive(Debug)]
pub struct Reign {
    epoch: i64,
    leading: Leading,
    shutdown: Shutdown,
}

impl Reign {
    /// What every write of this time carries.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Does this work until it is done. None if the time is over before: the work is then dropped where it stands.
    pub async fn during<T>(mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            () = self.shutdown.reached(Level::Graceful) => None,
            () = self.leading.ends(self.epoch) => None,
            done = work => Some(done),
        }
    }
}

impl Leader {
    /// One that wants to lead under this name.
    pub fn new(store: Arc<dyn Store>, holder: Who) -> Self {
        Self { store, holder, ttl_ms: TTL_MS, yields: false, waits: None, told: watch::Sender::new(None) }
    }

    /// Leads only while nobody waits who does not yield, and resigns for such a one: what workers do for servers.
    #[must_use]
    pub fn yields(mut self) -> Self {
        self.yields = true;
        self
    }

    /// Leads for so long without renewing, in milliseconds, instead of ten seconds.
    #[must_use]
    pub fn ttl_ms(mut self, ms: i64) -> Self {
        self.ttl_ms = ms;
        self
    }

    /// Says whether this process leads.
    pub fn leading(&self) -> Leading {
        Leading(self.told.subscribe())
    }

    /// Leads when it can, until it is to end; then another can at once.
    pub async fn run(mut self, shutdown: Shutdown) {
        tokio::select! {
            () = shutdown.reached(Level::Graceful) => {}
            () = self.lead() => {}
        }
        self.wait_no_more().await;
        if let Some(epoch) = self.say(None) {
            match self.resign(TERM, epoch).await {
                true => tracing::info!(epoch, "leads no more: it resigned"),
                false => tracing::warn!(epoch, "the term could not be resigned; it ends by itself"),
            }
        }
    }

    async fn lead(&mut self) {
        let ttl = Duration::from_millis(self.ttl_ms.unsigned_abs());
        let mut silent = false;
        loop {
            match self.acquire(ttl).await {
                Ok(Some((epoch, until))) => {
                    silent = false;
                    self.wait_no_more().await;
                    self.reign(epoch, until, ttl).await;
                }
                Ok(None) => silent = false,
                Err(error) if !silent => {
                    tracing::warn!(%error, "nobody can be made leader; it is tried again until the store answers");
                    silent = true;
                }
                Err(_) => {}
            }
            sleep(jittered(LOOK.min(ttl / 5))).await;
        }
    }

    /// Takes the term if it is free, and says until when it is surely held.
    async fn acquire(&mut self, ttl: Duration) -> Result<Option<(i64, Instant)>, StoreError> {
        let asked = Instant::now();
        match self.try_acquire(TERM).await? {
            Ok(taken) if self.yields && self.is_another_next(&taken).await? => {
                self.resign(TERM, taken.epoch).await;
                Ok(None)
            }
            Ok(taken) => Ok(Some((taken.epoch, asked + ttl.saturating_sub(MARGIN)))),
            Err(_) => {
                if !self.yields && self.waits.is_none_or(|(_, said)| said.elapsed() >= ttl / 3) {
                    let next = self.try_acquire(NEXT).await?;
                    self.waits = next.ok().map(|next| (next.epoch, asked));
                }
                Ok(None)
            }
        }
    }

    async fn try_acquire(&self, name: &str) -> Result<Result<Term, Term>, StoreError> {
        let ttl_ms = LeaseMs::new(self.ttl_ms).map_err(|e| StoreError::Unavailable(e.to_string()))?;
        let wish = AcquireTerm { name: term(name), holder: self.holder.clone(), ttl_ms };
        self.store.acquire_term(wish, None).await
    }

    /// Whether somebody waits who comes first. The moment is that at which this term was taken or renewed, by the store's clock.
    async fn is_another_next(&self, own: &Term) -> Result<bool, StoreError> {
        let now = own.expires_at.plus_ms(-self.ttl_ms);
        let next = self.store.term(term(NEXT), None).await?;
        Ok(next.is_some_and(|next| next.expires_at > now))
    }

    /// Ends the wait, so that no worker stands back for one that leads or ends.
    async fn wait_no_more(&mut self) {
        if let Some((epoch, _)) = self.waits.take() {
            self.resign(NEXT, epoch).await;
        }
    }

    /// Ends a term of this holder. Says whether the store did.
    async fn resign(&self, name: &str, epoch: i64) -> bool {
        let resign = ResignTerm { name: term(name), holder: self.holder.clone(), epoch };
        let ends = Instant::now() + MARGIN;
        matches!(timeout_at(ends, self.store.resign_term(resign, None)).await, Ok(Ok(Ok(()))))
    }

    /// Leads until the term cannot be renewed in time.
    async fn reign(&self, epoch: i64, mut until: Instant, ttl: Duration) {
        tracing::info!(holder = %self.holder, epoch, "leads");
        counter!("windlass_leader_changes_total").increment(1);
        gauge!("windlass_leader_epoch").set(epoch as f64);
        self.say(Some(epoch));
        let mut pause = ttl / 3;
        // The record may wait for the store; a renewal never waits for the record.
        let note = self.note(epoch);
        tokio::pin!(note);
        let mut noted = false;
        loop {
            let next = (Instant::now() + pause).min(until);
            if !noted {
                noted = timeout_at(next, &mut note).await.is_ok();
            }
            sleep_until(next).await;
            let asked = Instant::now();
            let Ok(ttl_ms) = LeaseMs::new(self.ttl_ms) else { break };
            let renew = RenewTerm { name: Leading::term(), holder: self.holder.clone(), epoch, ttl_ms };
            match timeout_at(until, self.store.renew_term(renew, None)).await {
                Ok(Ok(Ok(term))) => {
                    (until, pause) = (asked + ttl.saturating_sub(MARGIN), ttl / 3);
                    let looked = timeout_at(asked + MARGIN, self.is_another_next(&term));
                    // Who could not look does so with the next renewal.
                    if self.yields && matches!(looked.await, Ok(Ok(true))) {
                        self.say(None);
                        self.resign(TERM, epoch).await;
                        tracing::info!(epoch, "leads no more: it resigned for a server");
                        break;
                    }
                }
                Ok(Ok(Err(refusal))) => {
                    tracing::warn!(epoch, %refusal, "leads no more: another does");
                    break;
                }
                // The store may answer again before the term is over.
                Ok(Err(_)) if Instant::now() < until => pause = AGAIN,
                Ok(Err(_)) | Err(_) => {
                    tracing::warn!(epoch, "leads no more: the term could not be renewed in time");
                    break;
                }
            }
        }
        self.say(None);
    }

    /// Says whether this process leads, and under which epoch; answers what was said before.
    fn say(&self, epoch: Option<i64>) -> Option<i64> {
        gauge!("windlass_leader").set(if epoch.is_some() { 1.0 } else { 0.0 });
        self.told.send_replace(epoch)
    }

    /// Every change of leader is on record.
    async fn note(&self, epoch: i64) {
        let Ok(actor) = Actor::try_from(format!("worker:{}", self.holder)) else { return };
        let detail = Metadata::from_iter([("epoch".to_owned(), epoch.into())]);
        let Ok(action) = Name::parse("action", "leader.change") else { return };
        let audit = WriteAudit { actor, action, target: TERM.to_owned(), detail };
        if let Err(error) = self.store.write_audit(audit, None).await {
            tracing::warn!(epoch, %error, "the change of leader is not in the audit");
        }
    }
}
