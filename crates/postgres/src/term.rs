//! Who leads.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use crate::param::params;
use crate::row::{Columns, Ts, name, who};
use tokio_postgres::Row;
use windlass_core::{Name, Refusal, Term, Timestamp};
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
        let given = self.given().map(Ts);
        let of_other = params![name, holder, given];
        if let Some(term) = self.one(sql!("term_of_other"), of_other, term).await? {
            return Ok(Err(term));
        }
        let (open, lock) = (params![name, holder], params![name]);
        // Of two that want the first term, one makes the row and the other waits for it here.
        let (_, before, now) = tokio::try_join!(
            biased;
            self.execute(sql!("open_term"), open),
            self.one(sql!("lock_term"), lock, term),
            self.now()
        )?;
        let term = granted!(request.decide(before, now));
        self.put_term(term).await.map(Ok)
    }

    pub(crate) async fn renew_term(&self, request: &RenewTerm) -> Tried<Result<Term, Refusal>> {
        let (before, now) = self.lock_term(&request.name).await?;
        let term = granted!(request.decide(before, now));
        self.put_term(term).await.map(Ok)
    }

    pub(crate) async fn resign_term(&self, request: &ResignTerm) -> Tried<Result<(), Refusal>> {
        let (before, now) = self.lock_term(&request.name).await?;
        let term = granted!(request.decide(before, now));
        self.put_term(term).await.map(|_| Ok(()))
    }

    /// A term, locked, and the moment at which it was.
    async fn lock_term(&self, name: &Name) -> Tried<(Option<Term>, Timestamp)> {
        let name = name.as_str();
        let lock = params![name];
        tokio::try_join!(biased; self.one(sql!("lock_term"), lock, term), self.now())
    }
}
