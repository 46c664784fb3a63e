//! Papers: what people keep beside the jobs. Locks: the leader's term, then the paper.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::{Columns, name};
use tokio_postgres::Row;
use windlass_core::{Name, Refusal, Term};
use windlass_store::{ListPapers, Now, Paper, PaperKind, PutPaper, RemovePaper};

/// A paper. One that does not read back says so in its place.
fn kept(kind: PaperKind, row: &Row) -> Tried<Paper> {
    let mut c = Columns::new(row, 0);
    let name = c.text_or(name, Name::unreadable)?;
    Ok(serde_json::from_str(c.get()?).unwrap_or_else(|why| Paper::unreadable(kind, name, why)))
}

impl Db<'_> {
    pub(crate) async fn paper(&self, (kind, name): &(PaperKind, Name), _: Now) -> Tried<Option<Paper>> {
        self.one(sql!("paper"), params![kind.as_str(), name.as_str()], |row| kept(*kind, row)).await
    }

    pub(crate) async fn papers(&self, request: &ListPapers, _: Now) -> Tried<Vec<Paper>> {
        let ListPapers { kind, before, limit } = request;
        let before = before.as_ref().map(Name::as_str);
        let limit = *limit as i64;
        self.all(sql!("papers"), params![kind.as_str(), before, limit], |row| kept(*kind, row)).await
    }
}

impl Tx<'_> {
    async fn share_asked_term(&self, asked: Option<&(Name, i64)>) -> Tried<Option<Term>> {
        match asked {
            Some((term, _)) => self.share_term(term).await,
            None => Ok(None),
        }
    }

    async fn lock_paper(&self, kind: PaperKind, name: &Name) -> Tried<Option<Paper>> {
        self.one(sql!("lock_paper"), params![kind.as_str(), name.as_str()], |row| kept(kind, row)).await
    }

    pub(crate) async fn put_paper(&self, request: &PutPaper) -> Tried<Result<Paper, Refusal>> {
        let PutPaper { kind, name, .. } = request;
        let term = self.share_asked_term(request.term.as_ref()).await?;
        let (before, now) = tokio::try_join!(biased; self.lock_paper(*kind, name), self.now())?;
        let Some((paper, audit)) = granted!(request.decide(term.as_ref(), before.as_ref(), now)) else {
            return Ok(before.ok_or_else(|| Refusal::PaperNotFound(kind.as_str(), name.to_string())));
        };
        let text = serde_json::to_string(&paper)?;
        let (word, was_there) = (kind.as_str(), before.is_some());
        let put = self.rows(sql!("put_paper"), params![word, name.as_str(), text, was_there]).await?;
        if put.is_empty() {
            return Err(Failure::Raced);
        }
        if let Some(audit) = audit {
            self.put_audit(&audit, now).await?;
        }
        Ok(Ok(paper))
    }

    pub(crate) async fn remove_paper(&self, request: &RemovePaper) -> Tried<Result<(), Refusal>> {
        let RemovePaper { kind, name, .. } = request;
        let term = self.share_asked_term(request.term.as_ref()).await?;
        let (before, now) = tokio::try_join!(biased; self.lock_paper(*kind, name), self.now())?;
        let audit = granted!(request.decide(term.as_ref(), before.as_ref(), now));
        self.execute(sql!("remove_paper"), params![kind.as_str(), name.as_str()]).await?;
        if let Some(audit) = audit {
            self.put_audit(&audit, now).await?;
        }
        Ok(Ok(()))
    }
}
