//! Terms: who leads, under an epoch that grows with every reign.

use crate::state::State;
use windlass_core::{Name, Refusal, Term, Timestamp};
use windlass_store::{AcquireTerm, RenewTerm, ResignTerm};

impl State {
    /// Takes a term that is free or over, or prolongs one's own; else answers whose it is.
    pub fn acquire_term(&mut self, request: AcquireTerm, now: Timestamp) -> Result<Term, Term> {
        let term = request.decide(self.terms.get(&request.name).cloned(), now)?;
        self.terms.insert(request.name, term.clone());
        Ok(term)
    }

    /// Prolongs one's own live term.
    pub fn renew_term(&mut self, request: RenewTerm, now: Timestamp) -> Result<Term, Refusal> {
        let term = request.decide(self.terms.get(&request.name).cloned(), now)?;
        self.terms.insert(request.name, term.clone());
        Ok(term)
    }

    /// Ends one's own term, so that another can take it at once.
    pub fn resign_term(&mut self, request: ResignTerm, now: Timestamp) -> Result<(), Refusal> {
        let term = request.decide(self.terms.get(&request.name).cloned(), now)?;
        self.terms.insert(request.name, term);
        Ok(())
    }

    /// Whose term it is or was last.
    pub fn term(&mut self, request: Name, _now: Timestamp) -> Option<Term> {
        self.terms.get(&request).cloned()
    }
}
