//! Papers: what people keep beside the jobs.

use crate::state::State;
use windlass_core::{Name, Refusal, Timestamp};
use windlass_store::{ListPapers, Paper, PaperKind, PutPaper, RemovePaper};

impl State {
    /// Writes a paper.
    pub fn put_paper(&mut self, request: PutPaper, now: Timestamp) -> Result<Paper, Refusal> {
        let which = (request.kind, request.name.clone());
        let term = request.term.as_ref().and_then(|(name, _)| self.terms.get(name));
        if let Some((paper, audit)) = request.decide(term, self.papers.get(&which), now)? {
            audit.into_iter().for_each(|audit| self.write_audit(audit, now));
            self.papers.insert(which.clone(), paper);
        }
        let (kind, name) = which.clone();
        self.papers
            .get(&which)
            .cloned()
            .ok_or_else(|| Refusal::PaperNotFound(kind.as_str(), name.to_string()))
    }

    /// Removes a paper.
    pub fn remove_paper(&mut self, request: RemovePaper, now: Timestamp) -> Result<(), Refusal> {
        let which = (request.kind, request.name.clone());
        let term = request.term.as_ref().and_then(|(name, _)| self.terms.get(name));
        let audit = request.decide(term, self.papers.get(&which), now)?;
        audit.into_iter().for_each(|audit| self.write_audit(audit, now));
        self.papers.remove(&which);
        Ok(())
    }

    /// One paper.
    pub fn paper(&mut self, request: (PaperKind, Name), _now: Timestamp) -> Option<Paper> {
        self.papers.get(&request).cloned()
    }

    /// Papers of a kind, from the last name down.
    pub fn papers(&mut self, request: ListPapers, _now: Timestamp) -> Vec<Paper> {
        let ListPapers { kind, before, limit } = request;
        let fits =
            |paper: &&Paper| paper.kind == kind && before.as_ref().is_none_or(|name| paper.name < *name);
        self.papers.values().rev().filter(fits).take(limit).cloned().collect()
    }
}
