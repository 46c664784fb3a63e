//! Who leads.

use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use crate::param::params;
use crate::row::{Columns, Ts, name, who};
use tokio_postgres::Row;
use windlass_core::{Name, Refusal, Term, Timestamp, Who};
use windlass_store::{AcquireTerm, Now, RenewTerm, ResignTerm};

fn term(row: &Row) -> Tried<Term> {
    let mut c = Columns::new(row, 0);
    Ok(Term { name: c.text(name)?, holder: c.text(who)?, epoch: c.get()?, expires_at: c.time()? })
}

impl Db<'_> {
    pub(crate) async fn term(&self, request: &Name, _: Now) -> Tried<Option<Term>> {
        self.one(sql!("term"), params![request.as_str()], term).await
    }
}

impl Tx<'_> {
    /// A term that cannot change before this transaction ends. Those who read it so do not wait for each other.
    pub(crate) async fn share_term(&self, name: &Name) -> Tried<Option<Term>> {
        self.one(sql!("share_term"), params![name.as_str()], term).await
    }

    async fn put_term(&self, term: Term) -> Tried<Term> {
        self.execute(
            sql!("put_term"),
            params![term.name.as_str(), term.holder.as_str(), term.epoch, Ts(term.expires_at)],
        )
        .await?;
        Ok(term)
    }

    pub(crate) async fn acquire_term(&self, request: &AcquireTerm) -> Tried<Result<Term, Term>> {
        let (name, holder) = (request.name.as_str(), request.holder.as_str());
        let (open, lock) = (params![name, holder], params![name]);
        // Of two that want the first term, one makes the row and the other waits for it here.
        let (_, before, now) = tokio::try_join!(
            biased;
            self.execute(sql!("open_term"), open),
            self.one(sql!("lock_term"), lock, term),
            self.now()
        )?;
        let epoch = match before {
            Some(term) if term.expires_at > now && term.holder != request.holder => return Ok(Err(term)),
            Some(term) if term.expires_at > now => term.epoch,
            before => before.map_or(0, |t| t.epoch) + 1,
        };
        let expires_at = now.plus_ms(request.ttl_ms.get());
        let term = Term { name: request.name.clone(), holder: request.holder.clone(), epoch, expires_at };
        self.put_term(term).await.map(Ok)
    }

    pub(crate) async fn renew_term(&self, request: &RenewTerm) -> Tried<Result<Term, Refusal>> {
        match self.own(&request.name, &request.holder, request.epoch).await? {
            Ok((term, now)) => {
                let expires_at = now.plus_ms(request.ttl_ms.get());
                self.put_term(Term { expires_at, ..term }).await.map(Ok)
            }
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    pub(crate) async fn resign_term(&self, request: &ResignTerm) -> Tried<Result<(), Refusal>> {
        match self.own(&request.name, &request.holder, request.epoch).await? {
            Ok((term, now)) => self.put_term(Term { expires_at: now, ..term }).await.map(|_| Ok(())),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// One's own live term, locked, and the moment at which it was.
    async fn own(&self, name: &Name, holder: &Who, epoch: i64) -> Tried<Result<(Term, Timestamp), Refusal>> {
        let name = name.as_str();
        let lock = params![name];
        let (found, now) = tokio::try_join!(biased; self.one(sql!("lock_term"), lock, term), self.now())?;
        Ok(match found {
            Some(term) if term.allows(epoch, now) && term.holder == *holder => Ok((term, now)),
            other => Err(Refusal::StaleEpoch(other.map_or(0, |t| t.epoch))),
        })
    }
}
