//! Carries out operations on many jobs while this process leads, page by page.
//!
//! Each page is noted before the next begins, under the leader's epoch and the version that was read: a leader that lost its
//! term notes nothing, and one that was killed is followed by one that goes on. A job that was acted on in a page that was
//! never noted does not match any more, or answers the same key.

use crate::bulk::BulkPlan;
use crate::repeat::repeat;
use crate::service::Leading;
use crate::shutdown::Shutdown;
use futures_util::future::join_all;
use metrics::counter;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use windlass_core::operation::{Operation, Tally, Which};
use windlass_core::paper::KIND_MAX;
use windlass_core::{Actor, JobId, Key, Name, Refusal, Timestamp};
use windlass_store::{List, ListPapers, Paper, PaperKind, PutPaper, RemovePaper, Store, StoreError, fresh};

/// How often it looks for new operations of other processes; its own says so.
const LOOK: Duration = Duration::from_secs(3);
/// How often it forgets the oldest of what there is too much of.
const TIDY: Duration = Duration::from_secs(600);
/// How many of the newest it looks at each time. At the start of a term it looks at all.
const NEWEST: usize = 50;
/// Jobs of one page.
const PAGE: usize = 100;
/// Jobs that are acted on at once.
const AT_ONCE: usize = 16;
/// How long one job is tried before the page ends without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Carries out operations.
#[derive(Debug)]
pub struct Operations {
    store: Arc<dyn Store>,
    leading: Leading,
    news: Arc<Notify>,
}

/// Why a look ended early.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What became of a page.
struct Page {
    found: Tally,
    next: Option<String>,
    failed: Option<LookError>,
}

impl Operations {
    /// Carries out operations of this store while this process leads. `news` says that there is a new one.
    pub fn new(store: Arc<dyn Store>, leading: Leading, news: Arc<Notify>) -> Self {
        Self { store, leading, news }
    }

    /// Carries out until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.keep_going(epoch)).await;
        }
    }

    async fn keep_going(&self, epoch: i64) {
        let mut open: BTreeMap<Name, Paper> = BTreeMap::new();
        let (mut is_first, mut tidied) = (true, None::<Instant>);
        loop {
            match self.look(epoch, &mut open, is_first).await {
                Ok(()) => is_first = false,
                Err(error) => tracing::warn!(%error, "operations could not go on; they are tried again"),
            }
            if tidied.is_none_or(|at| at.elapsed() >= TIDY) {
                tidied = Some(Instant::now());
                for kind in [PaperKind::Operation, PaperKind::Mark] {
                    if let Err(error) = self.forget(epoch, kind).await {
                        tracing::debug!(%error, "old papers could not be removed");
                    }
                }
            }
            // One that is under way goes on at once, one that is held when its hold is over.
            let begins = open.values().filter_map(|paper| Some(Operation::read(paper).ok()?.begins_at)).min();
            let left_ms = begins.map(|at| (at.as_micros() - now().as_micros()).max(0).unsigned_abs() / 1_000);
            match left_ms {
                // A store that never lets one wait would let nobody else run.
                Some(0) => tokio::task::yield_now().await,
                left_ms => {
                    let left = left_ms.map_or(LOOK, Duration::from_millis);
                    let _ = timeout(left.min(LOOK), self.news.notified()).await;
                }
            }
        }
    }

    /// Takes up what is new, and does a page of each that is due.
    async fn look(
        &self,
        epoch: i64,
        open: &mut BTreeMap<Name, Paper>,
        is_first: bool,
    ) -> Result<(), LookError> {
        let limit = if is_first { KIND_MAX * 2 } else { NEWEST };
        let list = ListPapers { kind: PaperKind::Operation, before: None, limit };
        for paper in self.store.papers(list, None).await? {
            match Operation::read(&paper) {
                Ok(one) if !one.phase.is_over() => drop(open.insert(paper.name.clone(), paper)),
                Ok(_) => drop(open.remove(&paper.name)),
                // One that does not read back stops nobody else.
                Err(why) => tracing::debug!(%why, "an operation is passed over"),
            }
        }
        let names: Vec<Name> = open.keys().cloned().collect();
        for name in names {
            // Read again: somebody may have stopped it.
            let paper = self.store.paper((PaperKind::Operation, name.clone()), None).await?;
            let read = paper.and_then(|paper| Operation::read(&paper).ok().map(|one| (paper, one)));
            let Some((paper, one)) = read.filter(|(_, one)| !one.phase.is_over()) else {
                open.remove(&name);
                continue;
            };
            if !is_due(&one) {
                open.insert(name, paper);
                continue;
            }
            let page = self.act(&paper.name, &one).await;
            let noted = self.note(epoch, paper, one, &page).await?;
            match Operation::read(&noted) {
                Ok(one) if !one.phase.is_over() => drop(open.insert(name, noted)),
                _ => drop(open.remove(&name)),
            }
            if let Some(error) = page.failed {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Does a page: finds its jobs and acts on them.
    async fn act(&self, name: &Name, one: &Operation) -> Page {
        // The same page again: what was done in it does not match any more.
        let again = Some(one.cursor.clone().unwrap_or_default());
        let mut page = Page { found: Tally::default(), next: again, failed: None };
        let (jobs, next) = match self.jobs(one).await {
            Ok(found) => found,
            Err(error) => return Page { failed: Some(error), ..page },
        };
        let plan = BulkPlan {
            action: one.action,
            run_at: one.run_at,
            spread_ms: one.spread_ms,
            reason: one.reason.clone(),
            actor: one.by.clone(),
        };
        let Ok(key) = Key::parse("key", format!("operation:{name}")) else { return page };
        for some in jobs.chunks(AT_ONCE) {
            let acts = some.iter().map(|job| repeat(PATIENCE, || plan.act(&*self.store, *job, &key)));
            for answer in join_all(acts).await {
                match answer {
                    // One that moved on meanwhile, or that somebody keeps locked, is none of its business.
                    Ok(answer) => {
                        page.found.matched += 1;
                        if answer.is_ok() { page.found.done += 1 } else { page.found.skipped += 1 }
                    }
                    Err(error) => page.failed = Some(error.into()),
                }
            }
            if page.failed.is_some() {
                return page;
            }
        }
        counter!("windlass_operation_jobs_total", "action" => one.action.as_str()).increment(page.found.done);
        Page { next, ..page }
    }

    /// The jobs of the next page that the action is for, and where the one behind it begins.
    async fn jobs(&self, one: &Operation) -> Result<(Vec<JobId>, Option<String>), LookError> {
        match &one.which {
            Which::Filter(filter) => {
                let cursor = one.cursor.clone().filter(|cursor| !cursor.is_empty());
                let list = List { filter: (**filter).clone(), cursor, limit: PAGE };
                let page = self.store.jobs(list, None).await??;
                let fits = page.items.iter().filter(|listed| one.action.is_for_found(&listed.job, filter));
                Ok((fits.map(|listed| listed.job.id).collect(), page.next))
            }
            Which::Ids(ids) => {
                let from = one.cursor.as_deref().and_then(|cursor| cursor.parse().ok()).unwrap_or(0usize);
                let mut fits = Vec::new();
                for id in ids.iter().skip(from).take(PAGE) {
                    let view = self.store.job(*id, None).await?;
                    fits.extend(view.filter(|view| one.action.is_for(view.job.status)).map(|_| *id));
                }
                let next = (from + PAGE).min(ids.len());
                Ok((fits, (next < ids.len()).then(|| next.to_string())))
            }
        }
    }

    /// Notes a page. Where somebody stopped it meanwhile, what was done is added to what they wrote.
    async fn note(
        &self,
        epoch: i64,
        mut paper: Paper,
        mut one: Operation,
        page: &Page,
    ) -> Result<Paper, LookError> {
        loop {
            let after = one.after_page(page.found, page.next.clone(), now());
            let put = PutPaper {
                kind: PaperKind::Operation,
                name: paper.name.clone(),
                body: serde_json::to_value(&after).unwrap_or_default(),
                expected_version: Some(paper.version),
                term: Some((Leading::term(), epoch)),
                action: None,
                actor: Actor::engine(),
            };
            match repeat(PATIENCE, || self.store.put_paper(put.clone(), None)).await? {
                Err(Refusal::VersionMismatch(_)) => {
                    let which = (PaperKind::Operation, paper.name.clone());
                    let Some(now) = self.store.paper(which, None).await? else { return Ok(paper) };
                    (one, paper) = (Operation::read(&now)?, now);
                }
                answer => return Ok(answer?),
            }
        }
    }

    /// Removes the oldest papers of a kind beyond so many.
    async fn forget(&self, epoch: i64, kind: PaperKind) -> Result<(), LookError> {
        let all = self.store.papers(ListPapers { kind, before: None, limit: KIND_MAX * 2 }, None).await?;
        for old in all.into_iter().skip(KIND_MAX) {
            let is_open =
                kind == PaperKind::Operation && Operation::read(&old).is_ok_and(|one| !one.phase.is_over());
            if !is_open {
                let remove = RemovePaper {
                    kind,
                    name: old.name,
                    term: Some((Leading::term(), epoch)),
                    action: None,
                    actor: Actor::engine(),
                };
                self.store.remove_paper(remove, None).await??;
            }
        }
        Ok(())
    }
}

fn now() -> Timestamp {
    fresh::wall_clock()
}

fn is_due(one: &Operation) -> bool {
    one.begins_at <= now()
}
