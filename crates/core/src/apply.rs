//! From an event to the row: the only way a row changes, and the way it is rebuilt from its log.

use crate::event::{Event, EventKind};
use crate::flow::Graph;
use crate::job::{Facts, Job};
use crate::lane::Lane;
use crate::name::Name;
use crate::status::Status;
use crate::time::Timestamp;
use crate::wait::WaitFor;

impl Job {
    /// The row of a job whose log begins with this event; none if it is not a `job_created`.
    pub fn created(event: &Event) -> Option<Self> {
        let EventKind::JobCreated(facts) = &event.what else { return None };
        Some(Self::from_facts(event, facts))
    }

    fn from_facts(event: &Event, facts: &Facts) -> Self {
        let graph = facts.graph.as_deref();
        let waiting_for = graph.and_then(Graph::waits_for);
        Self {
            id: event.job,
            queue: facts.queue.clone(),
            kind: facts.kind.clone(),
            priority: facts.priority,
            status: if waiting_for.is_some() { Status::Waiting } else { Status::Pending },
            due_at: waiting_for.is_none().then(|| facts.run_at.resolve(event.at)),
            deadline_at: None,
            worker_id: None,
            lease_hash: None,
            lease_expires_at: None,
            epoch: None,
            assignment: None,
            attempt: 0,
            retries: 0,
            max_retries: facts.max_retries,
            crashes: 0,
            version: event.version,
            generation: 0,
            progress: 0,
            stage: None,
            waiting_for,
            wait_name: facts.flow().map(|flow| Name::word(flow.join.as_str())),
            wait_version: waiting_for.map(|_| event.version),
            wake_version: None,
            signals: 0,
            children: graph.map_or(0, Graph::count),
            dependents: 0,
            parent_id: facts.parent_id,
            cancel_requested_at: None,
            steps_from: 0,
            unique_policy: facts.unique.as_ref().map(|u| u.policy.kept()),
            timeout_ms: facts.own_timeout_ms(),
            lease_ms: facts.lease_ms,
            grace_ms: facts.grace_ms,
            backoff: facts.backoff,
            lane: facts.key.as_ref().map(Lane::of),
            result_version: None,
            error_version: None,
            error_code: None,
            checkpoint_version: None,
            payload_version: None,
            meta_version: (!facts.metadata.is_empty()).then_some(event.version),
            created_at: event.at,
            started_at: None,
            updated_at: event.at,
            finished_at: None,
        }
    }

    /// The row after a whole log; none for an empty one or one that does not begin with `job_created`.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Self> {
        let mut events = events.into_iter();
        let mut job = Self::created(events.next()?)?;
        events.for_each(|event| job.apply(event));
        Some(job)
    }

    /// Moves the row by one event.
    pub fn apply(&mut self, event: &Event) {
        self.version = event.version;
        self.updated_at = event.at;
        match &event.what {
            EventKind::JobCreated(facts) => *self = Self::from_facts(event, facts),
            EventKind::JobClaimed => {
                self.crashes += i32::from(self.status == Status::Running);
                self.epoch = None;
                self.assignment = None;
                self.worker_id = event.actor.worker_id();
                self.run(event);
            }
            EventKind::JobStarted => self.run(event),
            EventKind::JobAssigned(d) => {
                self.status = Status::Assigned;
                self.due_at = None;
                self.deadline_at = Some(d.deadline_at);
                self.worker_id = Some(d.worker.clone());
                self.epoch = Some(d.epoch);
                self.assignment = Some(event.version);
                self.waiting_for = None;
                self.wait_name = None;
            }
            EventKind::JobOrphaned => {
                self.let_go();
                self.status = Status::Orphaned;
                self.due_at = Some(event.at);
            }
            EventKind::JobCompleted => {
                self.finish(Status::Completed, event.at);
                self.progress = 100;
                self.error_version = None;
                self.error_code = None;
                self.result_version = event.payload.is_some().then_some(event.version);
            }
            EventKind::JobRetried(d) => {
                self.let_go();
                self.status = Status::Retry;
                self.due_at = Some(d.due_at);
                self.retries = d.retries;
                self.error_version = Some(event.version);
                self.error_code = Some(d.code.clone());
            }
            EventKind::JobReleased(d) => {
                self.crashes += i32::from(d.lost);
                self.let_go();
                self.status = Status::Retry;
                self.due_at = Some(d.due_at);
            }
            EventKind::JobFailed(d) => {
                self.finish(Status::Failed, event.at);
                self.error_version = Some(event.version);
                self.error_code = Some(d.code.clone());
            }
            EventKind::JobTimedOut(d) => {
                match d.due_at {
                    Some(due_at) => {
                        self.let_go();
                        self.status = Status::Retry;
                        self.due_at = Some(due_at);
                        self.retries += 1;
                    }
                    None => self.finish(Status::TimedOut, event.at),
                }
                self.error_version = Some(event.version);
                self.error_code = Some(crate::name::Who::word("timed_out"));
            }
            EventKind::JobWaiting(d) => {
                self.let_go();
                self.status = Status::Waiting;
                self.crashes = 0;
                self.waiting_for = Some(d.waits_for);
                self.wait_name = d.name.clone();
                self.wait_version = Some(event.version);
                self.wake_version = d.answered_by;
                self.due_at = d.due_at;
                self.deadline_at = d.deadline_at;
                self.signals -= i32::from(d.waits_for == WaitFor::Signal && d.answered_by.is_some());
            }
            EventKind::JobSignalled(d) if d.woke => self.wake(event),
            EventKind::JobSignalled(d) => {
                self.signals += 1;
                if d.noticed {
                    self.wake(event);
                }
            }
            EventKind::JobWoken(_) => self.wake(event),
            EventKind::JobChildrenAdded(d) => self.children += d.children.len() as i32,
            EventKind::JobChildFinished(d) => {
                self.children -= 1;
                if d.woke {
                    self.wake(event);
                }
            }
            EventKind::JobDependentsAdded(d) => self.dependents += d.dependents.len() as i32,
            EventKind::JobUpstreamFinished(d) => {
                self.children -= 1;
                if d.woke {
                    self.wake(event);
                }
            }
            EventKind::JobSkipped(_) => {
                self.finish(Status::Cancelled, event.at);
                self.error_version = Some(event.version);
                self.error_code = Some(crate::name::Who::word(crate::flow::SKIPPED));
            }
            EventKind::JobRearmed(d) => {
                self.restart(event.at);
                self.generation += 1;
                self.status = Status::Waiting;
                self.due_at = None;
                self.waiting_for = Some(WaitFor::Upstream);
                self.wait_version = Some(event.version);
                self.children = d.upstream.len() as i32;
            }
            EventKind::JobSealed => self.children -= 1,
            EventKind::JobCancelRequested(d) => {
                self.cancel_requested_at = Some(event.at);
                self.deadline_at = Some(self.deadline_at.map_or(d.force_at, |t| t.min(d.force_at)));
            }
            EventKind::JobCancelled(d) => {
                self.finish(Status::Cancelled, event.at);
                if d.code.is_some() {
                    self.error_version = Some(event.version);
                    self.error_code.clone_from(&d.code);
                }
            }
            EventKind::JobRedriven(d) => {
                self.restart(d.due_at);
                self.generation += 1;
                if event.payload.is_some() {
                    self.payload_version = Some(event.version);
                }
                if d.from_start {
                    self.steps_from = event.version;
                    self.checkpoint_version = None;
                    self.signals = 0;
                }
            }
            EventKind::JobReplaced(d) => {
                self.payload_version = Some(event.version);
                self.due_at = Some(d.due_at);
            }
            EventKind::JobForked(_) => {
                self.let_go();
                self.restart(event.at);
                self.created_at = event.at;
                self.started_at = None;
                self.children = 0;
                self.parent_id = None;
                self.unique_policy = None;
                self.result_version = None;
            }
            EventKind::JobProgressed(d) => {
                if let Some(progress) = d.progress {
                    self.progress = progress;
                }
                if d.stage.is_some() {
                    self.stage.clone_from(&d.stage);
                }
                if d.metadata.is_some() {
                    self.meta_version = Some(event.version);
                }
                if event.payload.is_some() {
                    self.checkpoint_version = Some(event.version);
                    self.crashes = 0;
                }
            }
            // As if nothing had ever been said: what is left of the log folds to the same row.
            EventKind::JobErased => {
                self.result_version = None;
                self.checkpoint_version = None;
                self.payload_version = None;
                self.meta_version = None;
                self.stage = None;
                self.steps_from = event.version;
                self.crashes = 0;
            }
            EventKind::JobApprovalVoted(d) if d.woke => self.wake(event),
            what if what.ends_step() => self.crashes = 0,
            _ => {}
        }
    }

    fn run(&mut self, event: &Event) {
        self.status = Status::Running;
        self.attempt = event.attempt;
        self.lease_hash = event.lease;
        let lease_ms = self.lease_ms.unwrap_or(crate::lease::LeaseMs::DEFAULT).get();
        self.deadline_at = self.timeout_ms.map(|ms| event.at.plus_ms(ms));
        self.lease_until(event.at.plus_ms(lease_ms));
        self.waiting_for = None;
        self.wait_name = None;
        self.cancel_requested_at = None;
        self.started_at = Some(event.at);
    }

    /// Sets when the lease ends: never past the attempt's timeout, and over only after the grace.
    pub(crate) fn lease_until(&mut self, expires_at: Timestamp) {
        let expires_at = self.deadline_at.map_or(expires_at, |d| d.min(expires_at));
        self.lease_expires_at = Some(expires_at);
        self.due_at = Some(expires_at.plus_ms(self.grace_ms));
    }

    fn let_go(&mut self) {
        self.epoch = None;
        self.assignment = None;
        self.worker_id = None;
        self.lease_hash = None;
        self.lease_expires_at = None;
        self.due_at = None;
        self.deadline_at = None;
        self.waiting_for = None;
        self.wait_name = None;
        self.cancel_requested_at = None;
    }

    fn finish(&mut self, status: Status, at: Timestamp) {
        // When a cancel was requested, and under which epoch it ran, stays to be seen.
        let (epoch, cancel_requested_at) = (self.epoch, self.cancel_requested_at);
        if self.waiting_for == Some(WaitFor::Upstream) {
            // It waits for no upstream job any more, also when it is redriven.
            self.children = 0;
        }
        self.let_go();
        (self.epoch, self.cancel_requested_at) = (epoch, cancel_requested_at);
        self.status = status;
        self.finished_at = Some(at);
    }

    fn wake(&mut self, event: &Event) {
        self.due_at = Some(event.at);
        self.deadline_at = None;
        self.wake_version = Some(event.version);
    }

    fn restart(&mut self, due_at: Timestamp) {
        self.status = Status::Pending;
        self.due_at = Some(due_at);
        self.retries = 0;
        self.crashes = 0;
        self.progress = 0;
        self.stage = None;
        self.dependents = 0;
        self.wait_version = None;
        self.wake_version = None;
        self.error_version = None;
        self.error_code = None;
        self.cancel_requested_at = None;
        self.finished_at = None;
        self.epoch = None;
    }
}
