//! Papers: what people keep beside the jobs.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use rusqlite::Row;
use windlass_core::{Name, Refusal, Timestamp};
use windlass_store::{ListPapers, Paper, PaperKind, PutPaper, RemovePaper};

/// A paper. One that does not read back says so in its place.
fn kept(kind: PaperKind, r: &Row<'_>) -> Tried<Paper> {
    let name = Name::try_from(r.get::<_, String>(0)?).unwrap_or_else(|_| Name::unreadable());
    let paper = serde_json::from_str(&r.get::<_, String>(1)?);
    Ok(paper.unwrap_or_else(|why| Paper::unreadable(kind, name, why)))
}

impl Db<'_> {
    pub(crate) fn paper(&self, kind: PaperKind, name: &Name) -> Tried<Option<Paper>> {
        self.one(sql!("paper"), [kind.as_str(), name.as_str()], |r| kept(kind, r))
    }

    pub(crate) fn papers(&self, request: &ListPapers) -> Tried<Vec<Paper>> {
        let ListPapers { kind, before, limit } = request;
        let before = before.as_ref().map(Name::as_str);
        self.all(sql!("papers"), (kind.as_str(), before, *limit as i64), |r| kept(*kind, r))
    }
}

impl Tx<'_, '_> {
    pub(crate) fn put_paper(&self, request: &PutPaper, now: Timestamp) -> Tried<Result<Paper, Refusal>> {
        let PutPaper { kind, name, .. } = request;
        let term = request.term.as_ref().map(|(name, _)| self.term(name)).transpose()?.flatten();
        let before = self.paper(*kind, name)?;
        let Some((paper, audit)) = granted!(request.decide(term.as_ref(), before.as_ref(), now)) else {
            return Ok(before.ok_or_else(|| Refusal::PaperNotFound(kind.as_str(), name.to_string())));
        };
        self.execute(sql!("put_paper"), (kind.as_str(), name.as_str(), serde_json::to_string(&paper)?))?;
        if let Some(audit) = audit {
            self.write_audit(&audit, now)?;
        }
        Ok(Ok(paper))
    }

    pub(crate) fn remove_paper(&self, request: &RemovePaper, now: Timestamp) -> Tried<Result<(), Refusal>> {
        let RemovePaper { kind, name, .. } = request;
        let term = request.term.as_ref().map(|(name, _)| self.term(name)).transpose()?.flatten();
        let audit = granted!(request.decide(term.as_ref(), self.paper(*kind, name)?.as_ref(), now));
        self.execute(sql!("remove_paper"), [kind.as_str(), name.as_str()])?;
        if let Some(audit) = audit {
            self.write_audit(&audit, now)?;
        }
        Ok(Ok(()))
    }
}
