//! Watches what alerts name, while this process leads, and sends each change to where the alert says.
//!
//! What was found is noted under the leader's epoch before it is sent: a message that was sent but not noted is sent again,
//! with the same id.

use crate::service::Leading;
use crate::service::publisher::{Message, PublishError, Publishers};
use crate::shutdown::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::alert::{AlertState, Metric};
use windlass_core::limits::PAGE_MAX;
use windlass_core::paper::KIND_MAX;
use windlass_core::stats::{Resolution, Tally};
use windlass_core::wait::ApprovalStatus;
use windlass_core::{Actor, Name, Refusal, Timestamp, Worker};
use windlass_store::{
    ListApprovals, ListPapers, Paper, PaperKind, PutPaper, QueueState, ReadRollups, Store, StoreError,
    StoreResult, fresh,
};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(10);
/// How far jobs of a queue are counted: whether there are any is enough.
const COUNTED: i64 = 100;
/// Over which time a share of bad ends is taken, in milliseconds, and of how many jobs at least.
const RATE_MS: i64 = 5 * 60_000;
const RATE_LEAST: i64 = 10;
/// How many are named in a reason.
const NAMED: usize = 5;

/// Watches alerts.
#[derive(Debug)]
pub struct Alerts {
    store: Arc<dyn Store>,
    leading: Leading,
    publishers: Option<Arc<dyn Publishers>>,
    every: Duration,
}

/// What was read of the store in one look, each at most once.
#[derive(Default)]
struct Seen {
    queues: Option<Vec<QueueState>>,
    workers: Option<Vec<Worker>>,
}

impl Alerts {
    /// Watches the alerts of this store while this process leads. Without publishers nothing is sent.
    pub fn new(store: Arc<dyn Store>, leading: Leading, publishers: Option<Arc<dyn Publishers>>) -> Self {
        Self { store, leading, publishers, every: EVERY }
    }

    /// Looks so often.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// Watches until it is to end.
    pub async fn run(mut self, shutdown: Shutdown) {
        while let Some(reign) = self.leading.reign(&shutdown).await {
            let epoch = reign.epoch();
            reign.during(self.keep_looking(epoch)).await;
        }
    }

    async fn keep_looking(&self, epoch: i64) {
        loop {
            if let Err(error) = self.look(epoch).await {
                tracing::warn!(%error, "alerts could not be looked at; they are looked at again soon");
            }
            sleep(self.every).await;
        }
    }

    async fn look(&self, epoch: i64) -> StoreResult<()> {
        let list = ListPapers { kind: PaperKind::Alert, before: None, limit: KIND_MAX };
        let mut seen = Seen::default();
        for paper in self.store.papers(list, None).await? {
            // One that does not read back stops no other; the list of alerts says so.
            let Ok(state) = AlertState::read(&paper) else { continue };
            let now = fresh::wall_clock();
            let found = self.found(&state, &mut seen, now).await?;
            let after = state.after_look(found.as_deref(), now);
            let (paper, state) = match after {
                Some(after) => match self.note(epoch, &paper, &after).await? {
                    Some(paper) => (paper, after),
                    None => continue,
                },
                None => (paper, state),
            };
            if state.is_unsent() {
                let after = self.send(&paper.name, state).await;
                self.note(epoch, &paper, &after).await?;
            }
        }
        Ok(())
    }

    /// Writes an alert down; none if somebody changed it meanwhile, or this process leads no more.
    async fn note(&self, epoch: i64, paper: &Paper, state: &AlertState) -> StoreResult<Option<Paper>> {
        let put = PutPaper {
            kind: PaperKind::Alert,
            name: paper.name.clone(),
            body: serde_json::to_value(state).unwrap_or_default(),
            expected_version: Some(paper.version),
            term: Some((Leading::term(), epoch)),
            action: None,
            actor: Actor::engine(),
        };
        match self.store.put_paper(put, None).await? {
            Ok(paper) => Ok(Some(paper)),
            Err(Refusal::VersionMismatch(_) | Refusal::StaleEpoch(_)) => Ok(None),
            Err(refusal) => Err(StoreError::Unavailable(refusal.to_string())),
        }
    }

    /// Whether it holds, and why.
    async fn found(
        &self,
        state: &AlertState,
        seen: &mut Seen,
        now: Timestamp,
    ) -> StoreResult<Option<String>> {
        let alert = &state.alert;
        let than_ms = alert.than_ms();
        let found: Vec<String> = match alert.metric {
            Metric::OldestDue => {
                let late = |queue: &QueueState| {
                    let since = queue.oldest_due_at.filter(|at| at.plus_ms(than_ms) < now)?;
                    Some(format!("queue {}: a job is due since {since}", queue.queue.name))
                };
                self.queues(state, seen).await?.iter().filter_map(late).collect()
            }
            Metric::NoWorker => {
                let workers = match &seen.workers {
                    Some(workers) => workers.clone(),
                    None => seen.workers.insert(self.store.workers((), None).await?).clone(),
                };
                let queues = self.queues(state, seen).await?;
                let alone = queues.iter().filter(|queue| queue.due.n > 0 && queue.queue.paused.is_none());
                let alone = alone.filter(|queue| {
                    let serves =
                        |worker: &Worker| worker.queues.contains(&queue.queue.name) && !worker.is_gone(now);
                    !workers.iter().any(serves)
                });
                alone
                    .map(|queue| format!("queue {}: jobs are due and no worker serves it", queue.queue.name))
                    .collect()
            }
            Metric::FailureRate => {
                let percent = alert.percent.unwrap_or(100);
                self.failing(alert.queue.clone(), percent, now).await?
            }
            Metric::ApprovalExpires => {
                let pending = Some(ApprovalStatus::Pending);
                let list = ListApprovals { status: pending, limit: PAGE_MAX, ..ListApprovals::default() };
                let soon = now.plus_ms(than_ms);
                let asked = self.store.approvals(list, None).await?;
                let soon = asked.iter().filter(|asked| asked.approval.expires_at < soon);
                soon.map(|asked| {
                    format!("approval {} runs out at {}", asked.approval.id, asked.approval.expires_at)
                })
                .collect()
            }
            Metric::ScheduleMissed => {
                let late = now.plus_ms(-than_ms);
                let schedules = self.store.schedules((), None).await?;
                let fits = |queue: &Name| alert.queue.as_ref().is_none_or(|wanted| wanted == queue);
                let missed = schedules.iter().filter(|state| {
                    state.paused.is_none()
                        && fits(&state.schedule.job.queue)
                        && (state.broken.is_some() || state.next_at.is_some_and(|next| next < late))
                });
                missed.map(|state| format!("schedule {} did not fire", state.name)).collect()
            }
        };
        if found.is_empty() {
            return Ok(None);
        }
        let more = found.len().saturating_sub(NAMED);
        let named = found[..found.len().min(NAMED)].join("; ");
        Ok(Some(if more > 0 { format!("{named}; and {more} more") } else { named }))
    }

    /// The queues that an alert is about.
    async fn queues(&self, state: &AlertState, seen: &mut Seen) -> StoreResult<Vec<QueueState>> {
        if seen.queues.is_none() {
            seen.queues = Some(self.store.queues(COUNTED, None).await?);
        }
        let wanted = state.alert.queue.as_ref();
        let all = seen.queues.iter().flatten();
        Ok(all.filter(|queue| wanted.is_none_or(|name| *name == queue.queue.name)).cloned().collect())
    }

    /// Queues of which too large a share ended badly.
    async fn failing(&self, queue: Option<Name>, percent: i64, now: Timestamp) -> StoreResult<Vec<String>> {
        let read = ReadRollups {
            resolution: Resolution::Minute,
            from: now.plus_ms(-RATE_MS),
            to: now,
            queue,
            kind: None,
            limit: windlass_store::ROLLUPS_MAX,
        };
        let mut ends: std::collections::BTreeMap<Name, (i64, i64)> = std::collections::BTreeMap::new();
        for row in self.store.rollups(read, None).await? {
            let (bad, all) = match row.key.tally {
                Tally::Completed => (0, row.count),
                Tally::Failed | Tally::TimedOut => (row.count, row.count),
                _ => continue,
            };
            let sums = ends.entry(row.key.queue).or_default();
            *sums = (sums.0 + bad, sums.1 + all);
        }
        let high = ends.into_iter().filter(|(_, (bad, all))| *all >= RATE_LEAST && bad * 100 > all * percent);
        Ok(high
            .map(|(queue, (bad, all))| format!("queue {queue}: {bad} of {all} jobs ended badly"))
            .collect())
    }

    /// Sends the last change of an alert, and answers how it stands then.
    async fn send(&self, name: &Name, state: AlertState) -> AlertState {
        match self.try_send(name, &state).await {
            Ok(()) => AlertState { sent: state.changes, unsent: None, ..state },
            // Nobody will take it.
            Err(PublishError::Permanent(why)) => {
                AlertState { sent: state.changes, unsent: Some(why), ..state }
            }
            Err(PublishError::Temporary(why, _)) => AlertState { unsent: Some(why), ..state },
        }
    }

    async fn try_send(&self, name: &Name, state: &AlertState) -> Result<(), PublishError> {
        let later = |why: String| PublishError::Temporary(why, None);
        let (Some(publishers), Some(through)) = (&self.publishers, &state.alert.notify) else {
            return Err(later("this process sends nothing".to_owned()));
        };
        let lost = |error: StoreError| later(error.to_string());
        let subscription = self.store.subscription(through.clone(), None).await.map_err(lost)?;
        let subscription = subscription.and_then(|state| state.subscription);
        let subscription =
            subscription.ok_or_else(|| later(format!("there is no subscription {through}")))?;
        let credential = self.store.credential(through.clone(), None).await.map_err(lost)?;
        let word = if state.firing.is_some() { "firing" } else { "resolved" };
        let body = serde_json::json!({
            "type": format!("alert.{word}"),
            "alert": name,
            "metric": state.alert.metric,
            "queue": state.alert.queue,
            "since": state.firing.as_ref().map(|firing| firing.since),
            "why": state.firing.as_ref().map(|firing| &firing.why),
        });
        let message = Message {
            id: format!("alert-{name}-{}", state.changes),
            job: fresh::job_id(),
            version: state.changes,
            queue: state.alert.queue.clone().unwrap_or_else(Name::unreadable),
            kind: name.clone(),
            type_name: format!("alert_{word}"),
            body: body.to_string().into_bytes(),
        };
        let mut publisher = publishers.open(&subscription, credential).await?;
        match publisher.publish(std::slice::from_ref(&message)).await.error {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }
}
