//! Terms: who leads, under an epoch that grows with every reign.

use crate::state::State;
use windlass_core::{Name, Refusal, Term, Timestamp, Who};
use windlass_store::{AcquireTerm, RenewTerm, ResignTerm};

impl State {
    /// Takes a term that is free or over, or prolongs one's own; else answers whose it is.
    pub fn acquire_term(&mut self, request: AcquireTerm, now: Timestamp) -> Result<Term, Term> {
        let expires_at = now.plus_ms(request.ttl_ms.get());
        let epoch = match self.terms.get(&request.name) {
            None => 1,
            Some(term) if term.expires_at <= now => term.epoch + 1,
            Some(term) if term.holder == request.holder => term.epoch,
            Some(term) => return Err(term.clone()),
        };
        let term = Term { name: request.name.clone(), holder: request.holder, epoch, expires_at };
        self.terms.insert(request.name, term.clone());
        Ok(term)
    }

    /// Prolongs one's own live term.
    pub fn renew_term(&mut self, request: RenewTerm, now: Timestamp) -> Result<Term, Refusal> {
        let term = self.own_term(&request.name, &request.holder, request.epoch, now)?;
        term.expires_at = now.plus_ms(request.ttl_ms.get());
        Ok(term.clone())
    }

    /// Ends one's own term, so that another can take it at once.
    pub fn resign_term(&mut self, request: ResignTerm, now: Timestamp) -> Result<(), Refusal> {
        self.own_term(&request.name, &request.holder, request.epoch, now)?.expires_at = now;
        Ok(())
    }

    /// Whose term it is or was last.
    pub fn term(&mut self, request: Name, _now: Timestamp) -> Option<Term> {
        self.terms.get(&request).cloned()
    }

    fn own_term(
        &mut self,
        name: &Name,
        holder: &Who,
        epoch: i64,
        now: Timestamp,
    ) -> Result<&mut Term, Refusal> {
        let term = self.terms.get_mut(name).ok_or(Refusal::StaleEpoch(0))?;
        if term.holder != *holder || !term.allows(epoch, now) {
            return Err(Refusal::StaleEpoch(term.epoch));
        }
        Ok(term)
    }
}
