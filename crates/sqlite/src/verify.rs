//! What stands beside jobs and their logs, and is explained by neither.

use crate::SqliteStore;
use crate::db::{Db, sql};
use crate::error::Tried;
use crate::row;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Approval, Event, EventKind, Facts, JobId, explain};
use windlass_store::StoreResult;

/// A job, where it has one, and what is wrong.
type Found = Vec<(Option<JobId>, String)>;

/// Events per look at which jobs have a log.
const EVENTS: i64 = 10_000;
const NO_ROW: &str = "it has a log and no row";

fn unaudited(name: &str) -> String {
    format!("access key {name} has no entry in the audit")
}

/// What is wrong with an approval. One that cannot be looked at for an event that does not read back is named elsewhere.
fn wrong(approval: &Approval, asked: Option<&Event>, votes: &[Event]) -> Option<(Option<JobId>, String)> {
    if asked.is_some_and(|event| matches!(event.what, EventKind::Unreadable(_))) {
        return None;
    }
    explain::approval(approval, asked, votes).map(|why| (Some(approval.job), why))
}

impl SqliteStore {
    /// Unique keys and approvals that no event explains, logs without a row, and access keys without an entry in the audit:
    /// what somebody wrote by hand. Each with its job, where it has one, and what is wrong; at most about `limit`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn unexplained(&self, limit: usize) -> StoreResult<Vec<(Option<JobId>, String)>> {
        self.readers
            .read(move |db| {
                let names = db.all(sql!("unaudited_keys"), [limit as i64], |r| Ok(r.get::<_, String>(0)?))?;
                let mut found: Found = names.iter().map(|name| (None, unaudited(name))).collect();
                db.logs_without_rows(limit, &mut found)?;
                db.unexplained_keys(limit, &mut found)?;
                db.unexplained_approvals(limit, &mut found)?;
                Ok(found)
            })
            .await
    }
}

impl Db<'_> {
    fn logs_without_rows(&self, limit: usize, found: &mut Found) -> Tried<()> {
        let mut after = [0; 16];
        while found.len() < limit {
            let page = self.all(sql!("logged_jobs"), (after, EVENTS), |r| {
                Ok((r.get::<_, [u8; 16]>(0)?, r.get::<_, bool>(1)?))
            })?;
            let stray = page.iter().filter(|(_, has_row)| !has_row);
            found.extend(stray.map(|(job, _)| (Some(JobId::from_bytes(*job)), NO_ROW.to_owned())));
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
        }
        Ok(())
    }

    fn unexplained_keys(&self, limit: usize, found: &mut Found) -> Tried<()> {
        let (mut scope, mut key) = (String::new(), String::new());
        while found.len() < limit {
            let page = self.all(sql!("unique_keys"), (&scope, &key, PAGE_MAX as i64), |r| {
                let (scope, key): (String, String) = (r.get(0)?, r.get(1)?);
                Ok((scope, key, JobId::from_bytes(r.get(2)?), r.get::<_, Option<String>>(3)?))
            })?;
            for (scope, key, job, detail) in &page {
                let facts = Facts::read(detail.as_deref()).ok();
                found.extend(explain::unique_key(scope, key, facts.as_ref()).map(|why| (Some(*job), why)));
            }
            let Some(last) = page.into_iter().next_back() else { return Ok(()) };
            (scope, key) = (last.0, last.1);
        }
        Ok(())
    }

    fn unexplained_approvals(&self, limit: usize, found: &mut Found) -> Tried<()> {
        let mut before = [0xff; 16];
        while found.len() < limit {
            let page = self.all(sql!("approvals"), (before, PAGE_MAX as i64), row::approval)?;
            for approval in &page {
                let votes = self.all(sql!("votes"), [approval.job.as_bytes()], row::readable_event)?;
                let asked = (approval.job.as_bytes(), approval.asked_version);
                let asked = self.one(sql!("event"), asked, row::readable_event)?;
                found.extend(wrong(approval, asked.as_ref(), &votes));
            }
            let Some(last) = page.last() else { return Ok(()) };
            before = *last.id.as_bytes();
        }
        Ok(())
    }
}
