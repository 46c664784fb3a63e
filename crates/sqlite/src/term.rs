//! Who leads.

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
        let epoch = match self.term(&request.name)? {
            Some(term) if term.expires_at > now && term.holder != request.holder => return Ok(Err(term)),
            Some(term) if term.expires_at > now => term.epoch,
            before => before.map_or(0, |t| t.epoch) + 1,
        };
        let expires_at = now.plus_ms(request.ttl_ms.get());
        let term = Term { name: request.name.clone(), holder: request.holder.clone(), epoch, expires_at };
        self.put_term(term).map(Ok)
    }

    pub(crate) fn renew_term(&self, request: &RenewTerm, now: Timestamp) -> Tried<Result<Term, Refusal>> {
        match self.own(&request.name, &request.holder, request.epoch, now)? {
            Ok(term) => self.put_term(Term { expires_at: now.plus_ms(request.ttl_ms.get()), ..term }).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    pub(crate) fn resign_term(&self, request: &ResignTerm, now: Timestamp) -> Tried<Result<(), Refusal>> {
        match self.own(&request.name, &request.holder, request.epoch, now)? {
            Ok(term) => self.put_term(Term { expires_at: now, ..term }).map(|_| Ok(())),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn own(&self, name: &Name, holder: &Who, epoch: i64, now: Timestamp) -> Tried<Result<Term, Refusal>> {
        Ok(match self.term(name)? {
            Some(term) if term.allows(epoch, now) && term.holder == *holder => Ok(term),
            other => Err(Refusal::StaleEpoch(other.map_or(0, |t| t.epoch))),
        })
    }
}
