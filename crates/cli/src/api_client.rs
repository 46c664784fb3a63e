//! How a command reaches jobs: by the public API, over a network or in this process on a store. The answers are passed on as
//! they come, so they are the same either way.

mod papers;

use crate::fail::{Exit, Outcome};
use crate::shape::{Reply, to_text};
use crate::wire::{Request, Wire, encoded};
use serde::Serialize;
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::sync::Mutex;
use windlass_core::lease::hex;
use windlass_core::{ApprovalId, Fingerprint, JobId, Name, QueueDefaults, QueueMode, Who};
use windlass_http::wire::control::{DecideBody, DecisionWord, EndpointBody, NewKey, QueueBody, WorkerBody};
use windlass_http::wire::lane::LetGoBody;
use windlass_http::wire::lane::LimitsShape;
use windlass_http::wire::new_job::NewJobShape;
use windlass_http::wire::operate::{BulkBody, CancelBody, ForkBody, RedriveBody, SignalBody};
use windlass_http::wire::schedule::{ApplyBody, BackfillBody, ScheduleBody};
use windlass_http::wire::stats::{ProblemBody, RebuildBody};
use windlass_http::wire::subscription::{PauseBody, SubscriptionBody};
use windlass_http::wire::time::Span;
use windlass_http::wire::trigger::{EventBody, TriggerBody};
use windlass_store::{Hints, fresh};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a request is sent again when its answer was lost.
const TRIES: usize = 3;
/// The pause before.
const PAUSE: Duration = Duration::from_millis(200);
/// How often a watcher looks where nobody tells it to.
const POLL: Duration = Duration::from_millis(500);

/// Filters as they are typed: names and values.
pub type Pairs = Vec<(String, String)>;

/// Settings as they were read, with some changed: what a newer server has beside them goes back as it came.
#[derive(Debug, Serialize)]
struct SettingsAsRead<'a> {
    settings: &'a Map<String, Value>,
    expected_version: i64,
}

/// Everything a command may ask, answered in the words of the public API.
#[derive(Debug)]
pub struct ApiClient {
    wire: Wire,
    /// A store's, kept from the beginning, so that nothing which happens between two looks is missed.
    hints: Option<Mutex<Hints>>,
}

impl ApiClient {
    /// Through this wire; a store's hints say when to look again.
    pub fn new(wire: Wire, hints: Option<Hints>) -> Self {
        Self { wire, hints: hints.map(Mutex::new) }
    }

    async fn get(&self, path: &str, query: &[(&str, String)]) -> Outcome<Reply> {
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let path = if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) };
        self.send("GET", &path, None).await
    }

    async fn post(&self, path: &str, body: &impl Serialize) -> Outcome<Reply> {
        self.send("POST", path, Some(to_text(body)?)).await
    }

    async fn put(&self, path: &str, body: &impl Serialize) -> Outcome<Reply> {
        self.send("PUT", path, Some(to_text(body)?)).await
    }

    /// Posts to a verb that takes nothing but its name.
    async fn act(&self, path: &str) -> Outcome<Reply> {
        self.send("POST", path, Some("{}".to_owned())).await
    }

    /// Sends a request, and the very same again when its answer was lost: its key makes it the same.
    async fn send(&self, method: &str, path: &str, body: Option<String>) -> Outcome<Reply> {
        let key = hex(&fresh::random::<16>());
        let idempotency_key = (method == "POST").then_some(key.as_str());
        let request = Request { method, path, body: body.as_deref(), idempotency_key, patience: PATIENCE };
        let mut tries = 1;
        loop {
            let failure = match self.wire.send(request).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            if failure.exit != Exit::Unavailable || tries == TRIES {
                return Err(failure);
            }
            tries += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// `{job, existed, payload_differs}`
    pub async fn enqueue(&self, job: &NewJobShape) -> Outcome<Reply> {
        self.post("/v1/jobs", job).await
    }

    /// `{id, nodes}`
    pub async fn make_flow(&self, flow: &Value) -> Outcome<Reply> {
        self.post("/v1/flows", flow).await
    }

    /// `{job}`
    pub async fn seal(&self, flow: JobId) -> Outcome<Reply> {
        self.send("POST", &format!("/v1/jobs/{flow}/seal"), None).await
    }

    /// `{nodes, edges, truncated}`
    pub async fn graph(&self, id: JobId) -> Outcome<Reply> {
        self.get(&format!("/v1/jobs/{id}/graph"), &[]).await
    }

    /// The job, now or as it stood.
    pub async fn job(&self, id: JobId, at_version: Option<i64>) -> Outcome<Reply> {
        let query: Vec<_> = at_version.iter().map(|version| ("at_version", version.to_string())).collect();
        self.get(&format!("/v1/jobs/{id}"), &query).await
    }

    /// `{jobs, next_cursor}`
    pub async fn jobs(&self, filter: &Pairs, cursor: Option<String>, limit: usize) -> Outcome<Reply> {
        let mut query: Vec<(&str, String)> = filter.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        query.push(("limit", limit.to_string()));
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        self.get("/v1/jobs", &query).await
    }

    /// `{events}`
    pub async fn events(&self, id: JobId, after: i64, limit: usize) -> Outcome<Reply> {
        let query = [("after", after.to_string()), ("limit", limit.to_string())];
        self.get(&format!("/v1/jobs/{id}/events"), &query).await
    }

    /// `{lines}`
    pub async fn logs(&self, id: JobId, after: i64, limit: usize) -> Outcome<Reply> {
        let query = [("after", after.to_string()), ("limit", limit.to_string())];
        self.get(&format!("/v1/jobs/{id}/logs"), &query).await
    }

    /// `{job}`
    pub async fn cancel(&self, id: JobId, body: &CancelBody) -> Outcome<Reply> {
        self.post(&format!("/v1/jobs/{id}/cancel"), body).await
    }

    /// `{id, version, replayed, archive_files}`
    pub async fn erase(&self, id: JobId, expected_version: Option<i64>) -> Outcome<Reply> {
        let query =
            expected_version.map(|version| format!("?expected_version={version}")).unwrap_or_default();
        self.send("DELETE", &format!("/v1/jobs/{id}/payload{query}"), None).await
    }

    /// `{job}`
    pub async fn redrive(&self, id: JobId, body: &RedriveBody) -> Outcome<Reply> {
        self.post(&format!("/v1/jobs/{id}/redrive"), body).await
    }

    /// `{job}`
    pub async fn fork(&self, id: JobId, body: &ForkBody) -> Outcome<Reply> {
        self.post(&format!("/v1/jobs/{id}/fork"), body).await
    }

    /// `{duplicate, version}`
    pub async fn signal(&self, id: JobId, body: &SignalBody) -> Outcome<Reply> {
        self.post(&format!("/v1/jobs/{id}/signal"), body).await
    }

    /// `{matched, sample, done, skipped, next_cursor}`; so much per call.
    pub async fn bulk(&self, body: &BulkBody) -> Outcome<Reply> {
        self.post("/v1/bulk", body).await
    }

    /// `{approvals}`
    pub async fn approvals(
        &self,
        job: Option<JobId>,
        status: Option<String>,
        limit: usize,
    ) -> Outcome<Reply> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(job.map(|job| ("job_id", job.to_string())));
        query.extend(status.map(|status| ("status", status)));
        self.get("/v1/approvals", &query).await
    }

    /// `{status, approval}`
    pub async fn decide(
        &self,
        id: ApprovalId,
        approve: bool,
        reason: Option<String>,
        token: Option<String>,
    ) -> Outcome<Reply> {
        let decision = if approve { DecisionWord::Approve } else { DecisionWord::Deny };
        self.post(&format!("/v1/approvals/{id}/decide"), &DecideBody { decision, token, reason }).await
    }

    /// `{queues}`
    pub async fn queues(&self) -> Outcome<Reply> {
        self.get("/v1/queues", &[]).await
    }

    /// `{queue}`
    pub async fn set_queue(
        &self,
        name: Name,
        defaults: QueueDefaults,
        mode: Option<QueueMode>,
        flow: Option<LimitsShape>,
        endpoint: Option<EndpointBody>,
    ) -> Outcome<Reply> {
        let body = QueueBody {
            max_retries: defaults.max_retries,
            timeout: defaults.timeout_ms.map(Span::from_ms),
            lease: defaults.lease_ms.map(|ms| Span::from_ms(ms.get())),
            grace: defaults.grace_ms.map(Span::from_ms),
            backoff: None,
            mode: mode.map(|mode| mode.as_str().to_owned()),
            flow,
            endpoint,
        };
        self.put(&format!("/v1/queues/{}", encoded(name.as_str())), &body).await
    }

    /// `{queue}`
    pub async fn pause(&self, name: Name, pause: bool) -> Outcome<Reply> {
        let verb = if pause { "pause" } else { "resume" };
        self.act(&format!("/v1/queues/{}/{verb}", encoded(name.as_str()))).await
    }

    /// `{lanes, next_cursor}`
    pub async fn lanes(&self, queue: &Name, cursor: Option<String>, limit: u16) -> Outcome<Reply> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        self.get(&format!("/v1/queues/{}/lanes", encoded(queue.as_str())), &query).await
    }

    /// `{released}`
    pub async fn release_lane(&self, queue: &Name, key: Option<String>) -> Outcome<Reply> {
        let path = format!("/v1/queues/{}/lanes/release", encoded(queue.as_str()));
        self.post(&path, &LetGoBody { key }).await
    }

    /// `{schedules}`
    pub async fn schedules(&self) -> Outcome<Reply> {
        self.get("/v1/schedules", &[]).await
    }

    /// One schedule.
    pub async fn schedule(&self, name: &Name) -> Outcome<Reply> {
        self.get(&format!("/v1/schedules/{}", encoded(name.as_str())), &[]).await
    }

    /// The schedule as it is then.
    pub async fn put_schedule(&self, name: &Name, body: &ScheduleBody) -> Outcome<Reply> {
        self.put(&format!("/v1/schedules/{}", encoded(name.as_str())), body).await
    }

    /// `{removed}`
    pub async fn remove_schedule(&self, name: &Name) -> Outcome<Reply> {
        self.send("DELETE", &format!("/v1/schedules/{}", encoded(name.as_str())), None).await
    }

    /// `pause`, `resume`, `trigger`.
    pub async fn schedule_verb(&self, name: &Name, verb: &str) -> Outcome<Reply> {
        self.act(&format!("/v1/schedules/{}/{verb}", encoded(name.as_str()))).await
    }

    /// `{next}`
    pub async fn next_slots(&self, name: &Name, n: u16) -> Outcome<Reply> {
        let path = format!("/v1/schedules/{}/next", encoded(name.as_str()));
        self.get(&path, &[("n", n.to_string())]).await
    }

    /// `{dry_run, changes}`
    pub async fn apply_schedules(&self, body: &ApplyBody) -> Outcome<Reply> {
        self.put("/v1/schedules", body).await
    }

    /// `{dry_run, slots}`
    pub async fn backfill(&self, name: &Name, body: &BackfillBody) -> Outcome<Reply> {
        self.post(&format!("/v1/schedules/{}/backfill", encoded(name.as_str())), body).await
    }

    /// `{subscriptions}`
    pub async fn subscriptions(&self) -> Outcome<Reply> {
        self.get("/v1/subscriptions", &[]).await
    }

    /// One subscription.
    pub async fn subscription(&self, name: &Name) -> Outcome<Reply> {
        self.get(&format!("/v1/subscriptions/{}", encoded(name.as_str())), &[]).await
    }

    /// The subscription as it is then.
    pub async fn put_subscription(&self, name: &Name, body: &SubscriptionBody) -> Outcome<Reply> {
        self.put(&format!("/v1/subscriptions/{}", encoded(name.as_str())), body).await
    }

    /// `{removed}`
    pub async fn remove_subscription(&self, name: &Name) -> Outcome<Reply> {
        self.send("DELETE", &format!("/v1/subscriptions/{}", encoded(name.as_str())), None).await
    }

    /// The subscription as it is then.
    pub async fn pause_subscription(&self, name: &Name, reason: Option<String>) -> Outcome<Reply> {
        self.post(&format!("/v1/subscriptions/{}/pause", encoded(name.as_str())), &PauseBody { reason }).await
    }

    /// The subscription as it is then.
    pub async fn resume_subscription(&self, name: &Name) -> Outcome<Reply> {
        self.act(&format!("/v1/subscriptions/{}/resume", encoded(name.as_str()))).await
    }

    /// `{triggers}`
    pub async fn triggers(&self) -> Outcome<Reply> {
        self.get("/v1/triggers", &[]).await
    }

    /// One trigger.
    pub async fn trigger(&self, name: &Name) -> Outcome<Reply> {
        self.get(&format!("/v1/triggers/{}", encoded(name.as_str())), &[]).await
    }

    /// The trigger as it is then.
    pub async fn put_trigger(&self, name: &Name, body: &TriggerBody) -> Outcome<Reply> {
        self.put(&format!("/v1/triggers/{}", encoded(name.as_str())), body).await
    }

    /// `{removed}`
    pub async fn remove_trigger(&self, name: &Name) -> Outcome<Reply> {
        self.send("DELETE", &format!("/v1/triggers/{}", encoded(name.as_str())), None).await
    }

    /// `{event, deduped, payload_differs, jobs, problem}`
    pub async fn fire_trigger(&self, name: &Name, event: &EventBody) -> Outcome<Reply> {
        self.post(&format!("/v1/triggers/{}", encoded(name.as_str())), event).await
    }

    /// `{events}`
    pub async fn trigger_events(&self, name: &Name, unprocessed: bool, limit: u16) -> Outcome<Reply> {
        let path = format!("/v1/triggers/{}/events", encoded(name.as_str()));
        let query = [("unprocessed", unprocessed.to_string()), ("limit", limit.to_string())];
        self.get(&path, &query).await
    }

    /// `{secret, webhook}`
    pub async fn trigger_secret(&self, name: &Name) -> Outcome<Reply> {
        self.act(&format!("/v1/triggers/{}/secret", encoded(name.as_str()))).await
    }

    /// `{settings, version, changed_at, changed_by}`
    pub async fn settings(&self) -> Outcome<Reply> {
        self.get("/v1/settings", &[]).await
    }

    /// The settings as they are then.
    pub async fn put_settings(&self, settings: &Map<String, Value>, expected_version: i64) -> Outcome<Reply> {
        self.put("/v1/settings", &SettingsAsRead { settings, expected_version }).await
    }

    /// `{workers}`
    pub async fn workers(&self) -> Outcome<Reply> {
        self.get("/v1/workers", &[]).await
    }

    /// `{worker}`
    pub async fn drain(&self, id: Who, draining: bool) -> Outcome<Reply> {
        let body = WorkerBody { draining: Some(draining), ..WorkerBody::default() };
        self.put(&format!("/v1/workers/{}", encoded(id.as_str())), &body).await
    }

    /// `{entries}`
    pub async fn audit(&self, filter: &Pairs, limit: usize) -> Outcome<Reply> {
        let mut query: Vec<(&str, String)> = filter.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        query.push(("limit", limit.to_string()));
        self.get("/v1/audit", &query).await
    }

    /// `{events, next_cursor}` of the feed: what came after a cursor, or where it ends now.
    pub async fn feed(&self, filter: &Pairs, after: Option<&str>) -> Outcome<Reply> {
        let mut query: Vec<(&str, String)> = filter.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        query.extend(after.map(|cursor| ("after", cursor.to_owned())));
        self.get("/v1/feed", &query).await
    }

    /// `{as_of, statuses, queues, workers, approvals, problems}`
    pub async fn now(&self) -> Outcome<Reply> {
        self.get("/v1/now", &[]).await
    }

    /// `{from, to, step, series}`
    pub async fn stats(&self, query: &Pairs) -> Outcome<Reply> {
        let query: Vec<(&str, String)> = query.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        self.get("/v1/stats", &query).await
    }

    /// `{since}`
    pub async fn rebuild_stats(&self, body: &RebuildBody) -> Outcome<Reply> {
        self.post("/v1/stats/rebuild", body).await
    }

    /// `{problems, next_cursor}`
    pub async fn problems(&self, filter: &Pairs, limit: usize) -> Outcome<Reply> {
        let mut query: Vec<(&str, String)> = filter.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
        query.push(("limit", limit.to_string()));
        self.get("/v1/problems", &query).await
    }

    /// One problem.
    pub async fn problem(&self, fingerprint: &Fingerprint) -> Outcome<Reply> {
        self.get(&format!("/v1/problems/{fingerprint}"), &[]).await
    }

    /// The problem as it is then.
    pub async fn put_problem(&self, fingerprint: &Fingerprint, body: &ProblemBody) -> Outcome<Reply> {
        self.put(&format!("/v1/problems/{fingerprint}"), body).await
    }

    /// Whether the server is ready: 200, or the problem.
    pub async fn ready(&self) -> Outcome<Reply> {
        self.get("/readyz", &[]).await
    }

    /// Who the key is.
    pub async fn session(&self) -> Outcome<Reply> {
        self.get("/v1/session", &[]).await
    }

    /// `{keys}`
    pub async fn keys(&self) -> Outcome<Reply> {
        self.get("/v1/keys", &[]).await
    }

    /// `{key, secret}`
    pub async fn create_key(&self, key: &NewKey) -> Outcome<Reply> {
        self.post("/v1/keys", key).await
    }

    /// `{key}`
    pub async fn revoke_key(&self, name: Who) -> Outcome<Reply> {
        self.send("DELETE", &format!("/v1/keys/{}", encoded(name.as_str())), None).await
    }

    /// Waits until there may be something new; also when there is not.
    pub async fn changed(&self) {
        match &self.hints {
            None => tokio::time::sleep(POLL).await,
            // Hints may be lost, so it is looked all the same.
            Some(hints) => drop(tokio::time::timeout(2 * POLL, hints.lock().await.feed.changed()).await),
        }
    }
}
