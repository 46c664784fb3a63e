//! Who leads.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use windlass_core::{Name, Refusal, Term, Timestamp, Who};
use windlass_store::{AcquireTerm, RenewTerm, ResignTerm};

impl Db<'_> {
    pub(crate) fn term(&self, name: &Name) -> Tried<Option<Term>> {
        self.one(sql!("term"), [name.as_str()], |r| {
            let holder =
                Who::try_from(r.get::<_, String>(1)?).map_err(|e| Failure::Unreadable(e.to_string()))?;
            let expires_at = Timestamp::from_micros(r.get(3)?);
            Ok(Term { name: name.clone(), holder, epoch: r.get(2)?, expires_at })
        })
    }
}

impl Tx<'_, '_> {
    fn put_term(&self, term: Term) -> Tried<Term> {
        let params = (term.name.as_str(), term.holder.as_str(), term.epoch, term.expires_at.as_micros());
        self.execute(sql!("put_term"), params)?;
        Ok(term)
    }

    pub(crate) fn acquire_term(&self, request: &AcquireTerm, now: Timestamp) -> Tried<Result<Term, Term>> {
        let term = granted!(request.decide(self.term(&request.name)?, now));
        self.put_term(term).map(Ok)
    }

    pub(crate) fn renew_term(&self, request: &RenewTerm, now: Timestamp) -> Tried<Result<Term, Refusal>> {
        let term = granted!(request.decide(self.term(&request.name)?, now));
        self.put_term(term).map(Ok)
    }

    pub(crate) fn resign_term(&self, request: &ResignTerm, now: Timestamp) -> Tried<Result<(), Refusal>> {
        let term = granted!(request.decide(self.term(&request.name)?, now));
        self.put_term(term).map(|_| Ok(()))
    }
}
