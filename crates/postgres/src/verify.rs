//! What stands beside jobs and their logs, and is explained by neither.

use crate::PostgresStore;
use crate::db::{Db, sql, uuid};
use crate::error::Tried;
use crate::param::params;
use crate::row::{self, Columns};
use std::sync::Arc;
use tokio_postgres::Row;
use uuid::Uuid;
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Approval, Event, EventKind, Facts, JobId, explain};
use windlass_store::StoreResult;

/// A job, where it has one, and what is wrong.
type Found = Vec<(Option<JobId>, String)>;

/// Events per look at which jobs have a log.
const EVENTS: i64 = 10_000;
/// Approvals per look: each takes two statements more.
const APPROVALS: i64 = 100;
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

/// A page of what was looked at, and where the next one begins.
struct Looked<P> {
    found: Found,
    next: Option<P>,
}

impl PostgresStore {
    /// Unique keys and approvals that no event explains, logs without a row, and access keys without an entry in the audit:
    /// what somebody wrote by hand. Each with its job, where it has one, and what is wrong; at most about `limit`.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn unexplained(&self, limit: usize) -> StoreResult<Vec<(Option<JobId>, String)>> {
        let most = limit as i64;
        let names = self.connections.read(move |db| {
            let names = async move {
                db.all(sql!("unaudited_keys"), params![most], |r| Ok(r.try_get::<_, String>(0)?)).await
            };
            Box::pin(names)
        });
        let mut found: Found = names.await?.iter().map(|name| (None, unaudited(name))).collect();
        let mut after = Some(Uuid::nil());
        while let Some(job) = after.filter(|_| found.len() < limit) {
            let looked =
                self.connections.read(move |db| Box::pin(async move { db.logs_without_rows(job).await }));
            let looked = looked.await?;
            found.extend(looked.found);
            after = looked.next;
        }
        let mut after = Some(Arc::new((String::new(), String::new())));
        while let Some(key) = after.filter(|_| found.len() < limit) {
            let looked = self.connections.read(move |db| {
                let key = Arc::clone(&key);
                Box::pin(async move { db.unexplained_keys(&key).await })
            });
            let looked = looked.await?;
            found.extend(looked.found);
            after = looked.next.map(Arc::new);
        }
        let mut before = Some(Uuid::max());
        while let Some(approval) = before.filter(|_| found.len() < limit) {
            let looked = self
                .connections
                .read(move |db| Box::pin(async move { db.unexplained_approvals(approval).await }));
            let looked = looked.await?;
            found.extend(looked.found);
            before = looked.next;
        }
        Ok(found)
    }
}

impl Db<'_> {
    async fn logs_without_rows(&self, after: Uuid) -> Tried<Looked<Uuid>> {
        let read = |r: &Row| Ok((r.try_get::<_, Uuid>(0)?, r.try_get::<_, bool>(1)?));
        let page = self.all(sql!("logged_jobs"), params![after, EVENTS], read).await?;
        let stray = page.iter().filter(|(_, has_row)| !has_row);
        let found = stray.map(|(job, _)| (Some(JobId::from_bytes(job.into_bytes())), NO_ROW.to_owned()));
        Ok(Looked { found: found.collect(), next: page.last().map(|(job, _)| *job) })
    }

    async fn unexplained_keys(&self, (scope, key): &(String, String)) -> Tried<Looked<(String, String)>> {
        let read = |r: &Row| {
            let (scope, key): (String, String) = (r.try_get(0)?, r.try_get(1)?);
            Ok((scope, key, Columns::new(r, 2).job_id()?, r.try_get::<_, Option<String>>(3)?))
        };
        let (scope, key) = (scope.as_str(), key.as_str());
        let page = self.all(sql!("unique_keys"), params![scope, key, PAGE_MAX as i64], read).await?;
        let wrong = |(scope, key, job, detail): &(String, String, JobId, Option<String>)| {
            let facts = Facts::read(detail.as_deref()).ok();
            explain::unique_key(scope, key, facts.as_ref()).map(|why| (Some(*job), why))
        };
        let found = page.iter().filter_map(wrong).collect();
        Ok(Looked { found, next: page.into_iter().next_back().map(|(scope, key, ..)| (scope, key)) })
    }

    async fn unexplained_approvals(&self, before: Uuid) -> Tried<Looked<Uuid>> {
        let page = self.all(sql!("approvals"), params![before, APPROVALS], row::approval).await?;
        let mut found = Vec::new();
        for approval in &page {
            let job = uuid(approval.job);
            let votes = self.all(sql!("votes"), params![job], |r| row::readable_event(r, 0)).await?;
            let asked = params![job, approval.asked_version];
            let asked = self.one(sql!("event"), asked, |r| row::readable_event(r, 0)).await?;
            found.extend(wrong(approval, asked.as_ref(), &votes));
        }
        Ok(Looked { found, next: page.last().map(|approval| *approval.id.as_uuid()) })
    }
}
