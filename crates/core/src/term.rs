//! Terms: who leads, under an epoch that grows with every change of holder.
//!
//! A store reads the term under its lock, and puts down the term that comes back.

use crate::lease::LeaseMs;
use crate::limits::LEASE_MAX_MS;
use crate::name::{Name, Who};
use crate::refusal::Refusal;
use crate::span::within_ms;
use crate::time::Timestamp;

/// Leadership for a time: one holder, and an epoch that grows with every change of holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Of what.
    pub name: Name,
    /// Who leads.
    pub holder: Who,
    /// Which reign: every leader's write carries it.
    pub epoch: i64,
    /// When the reign is over.
    pub expires_at: Timestamp,
}

/// A wish to lead.
#[derive(Debug, Clone)]
pub struct AcquireTerm {
    /// What.
    pub name: Name,
    /// Who.
    pub holder: Who,
    /// For how long, in milliseconds.
    pub ttl_ms: LeaseMs,
}

/// A reign to prolong.
#[derive(Debug, Clone)]
pub struct RenewTerm {
    /// What.
    pub name: Name,
    /// Who.
    pub holder: Who,
    /// Which reign.
    pub epoch: i64,
    /// For how long, in milliseconds.
    pub ttl_ms: LeaseMs,
}

/// A reign to end.
#[derive(Debug, Clone)]
pub struct ResignTerm {
    /// What.
    pub name: Name,
    /// Who.
    pub holder: Who,
    /// Which reign.
    pub epoch: i64,
}

impl Term {
    /// Whether `epoch` may act at `now`.
    pub fn allows(&self, epoch: i64, now: Timestamp) -> bool {
        self.epoch == epoch && self.expires_at > now
    }
}

impl AcquireTerm {
    /// The term after this wish, or the one that somebody else holds.
    pub fn decide(&self, before: Option<Term>, now: Timestamp) -> Result<Term, Term> {
        let epoch = match before {
            None => 1,
            Some(over) if over.expires_at <= now => over.epoch + 1,
            Some(own) if own.holder == self.holder => own.epoch,
            Some(other) => return Err(other),
        };
        let expires_at = now.plus_ms(self.ttl_ms.get());
        Ok(Term { name: self.name.clone(), holder: self.holder.clone(), epoch, expires_at })
    }
}

impl RenewTerm {
    /// The holder's live term, prolonged.
    pub fn decide(&self, before: Option<Term>, now: Timestamp) -> Result<Term, Refusal> {
        let own = held(before, &self.holder, self.epoch, now)?;
        Ok(Term { expires_at: now.plus_ms(self.ttl_ms.get()), ..own })
    }
}

impl ResignTerm {
    /// The holder's live term, over.
    pub fn decide(&self, before: Option<Term>, now: Timestamp) -> Result<Term, Refusal> {
        let own = held(before, &self.holder, self.epoch, now)?;
        Ok(Term { expires_at: now, ..own })
    }
}

/// Whether a leader may assign under this epoch, with this time to start in milliseconds.
pub fn may_assign(term: Option<&Term>, epoch: i64, lapse_ms: i64, now: Timestamp) -> Result<(), Refusal> {
    within_ms("lapse", lapse_ms, 1, LEASE_MAX_MS)?;
    match term {
        Some(term) if term.allows(epoch, now) => Ok(()),
        other => Err(Refusal::StaleEpoch(other.map_or(0, |term| term.epoch))),
    }
}

fn held(term: Option<Term>, holder: &Who, epoch: i64, now: Timestamp) -> Result<Term, Refusal> {
    match term {
        Some(term) if term.holder == *holder && term.allows(epoch, now) => Ok(term),
        other => Err(Refusal::StaleEpoch(other.map_or(0, |term| term.epoch))),
    }
}
