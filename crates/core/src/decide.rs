//! From a command to an event: pure decisions on one row that its store has locked.
//!
//! `decide` answers the event to append and the row after it, or why nothing may happen. What it needs beyond
//! the row (a kept signal, a recorded step) the store looks up under the same lock and passes in.

use crate::event::{self, Event, EventKind};
use crate::flow::{FLOW_KIND, child_wakes_flow};
use crate::ids::JobId;
use crate::job::{Job, Metadata, RunAt, Version, check_metadata};
use crate::lease::{LeaseHash, LeaseMs, Secret};
use crate::limits::{self, Invalid};
use crate::name::{Actor, Key, Name, Who};
use crate::outcome::{Outcome, settle};
use crate::payload::{Payload, fits};
use crate::refusal::Refusal;
use crate::status::Status;
use crate::time::Timestamp;
use crate::wait::{Approval, ApprovalStatus, Decision, WaitFor};

/// What is asked of one job.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// A worker takes a due job.
    Claim(Claim),
    /// A leader gives it to a worker.
    Assign(event::Assigned),
    /// The assigned worker starts it.
    Start {
        /// Who it is and for how long.
        claim: Claim,
        /// The version of the assignment it acts on.
        assignment: Version,
        /// The epoch of that assignment.
        epoch: i64,
    },
    /// Its holder ends the attempt.
    Settle(LeaseHash, Outcome),
    /// Somebody notes something in its log.
    Append(Append),
    /// Its holder reports.
    Progress(LeaseHash, Progress),
    /// Its holder records a step.
    Step(LeaseHash, Step),
    /// Its holder asks for an approval.
    Ask(LeaseHash, event::ApprovalAsked),
    /// Somebody votes on one of its approvals.
    Vote(Actor, event::ApprovalVoted, ApprovalStatus),
    /// Somebody signals it.
    Signal(Actor, Name, Option<Payload>),
    /// Its holder, or anybody, gives it children to wait for.
    AddChildren(Actor, Option<LeaseHash>, Vec<JobId>),
    /// One of its children finished.
    ChildFinished(JobId, Status),
    /// An open flow takes no more jobs.
    Seal(Actor),
    /// Somebody wants it stopped.
    Cancel(Cancel),
    /// An operator sends it back.
    Redrive(Actor, RunAt, bool, Option<Payload>),
    /// Its deadline has passed.
    Expire {
        /// For an assigned job: whether its worker is gone.
        worker_gone: bool,
    },
    /// It was handed out, but its first event is gone.
    LosePayload,
    /// It was handed out, but what is stored of it does not read back: why.
    Unreadable(String),
}

/// Who claims, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The claimer.
    pub worker: Who,
    /// Its secret; tokens are derived from it.
    pub secret: Secret,
    /// How long, unless the job has a lease of its own.
    pub lease_ms: LeaseMs,
}

/// A note in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// Its type.
    pub type_name: Name,
    /// Its bytes.
    pub payload: Option<Payload>,
    /// Who writes it, unless a lease says so.
    pub actor: Actor,
    /// The lease it is written under.
    pub lease: Option<LeaseHash>,
    /// The version the writer believes in.
    pub expected_version: Option<Version>,
}

/// A report of the holder: one change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// 0..100.
    pub progress: Option<i64>,
    /// Free text.
    pub stage: Option<String>,
    /// The whole metadata after the merge; see [`merge`].
    pub metadata: Option<Metadata>,
    /// The new checkpoint.
    pub checkpoint: Option<Payload>,
    /// Units of its rates that it cost beside those it was started for.
    pub charge: Option<i32>,
}

/// A step to record.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: Name,
    /// Whether it is a call of a tool, which may be in doubt.
    pub tool: bool,
    /// Whether it ended; else it began.
    pub finished: bool,
    /// Arguments when it began, value when it ended.
    pub payload: Option<Payload>,
    /// What the log already holds as this step's end.
    pub recorded: Option<Version>,
}

/// A wish to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Whose.
    pub actor: Actor,
    /// Why.
    pub reason: Option<String>,
    /// Whether a holder is not even asked.
    pub force: bool,
    /// How long a holder has to stop, in milliseconds.
    pub force_after_ms: i64,
}

/// One step of a job: the row after it and the event that led there.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The row after.
    pub job: Job,
    /// The event to append.
    pub event: Event,
}

impl Move {
    /// Applies `what` to `job`.
    pub(crate) fn new(job: &Job, now: Timestamp, actor: Actor, what: EventKind) -> Self {
        Self::of(job.clone(), now, actor, what)
    }

    fn of(job: Job, now: Timestamp, actor: Actor, what: EventKind) -> Self {
        let event = Event {
            job: job.id,
            version: job.version + 1,
            at: now,
            actor,
            attempt: job.attempt,
            generation: job.generation,
            lease: None,
            key: None,
            what,
            payload: None,
        };
        Self { job, event }
    }

    pub(crate) fn lease(mut self, hash: LeaseHash) -> Self {
        self.event.lease = Some(hash);
        self
    }

    pub(crate) fn payload(mut self, payload: Option<Payload>) -> Self {
        self.event.payload = payload;
        self
    }

    /// Marks the event with the caller's key.
    #[must_use]
    pub fn key(mut self, key: Option<Key>) -> Self {
        self.event.key = key;
        self
    }

    pub(crate) fn done(mut self) -> Self {
        self.job.apply(&self.event);
        self
    }
}

/// Decides one command on one locked row.
pub fn decide(job: &Job, command: Command, now: Timestamp) -> Result<Move, Refusal> {
    match command {
        Command::Claim(by) => claim(job, &by, now),
        Command::Assign(to) => assign(job, to, now),
        Command::Start { claim, assignment, epoch } => start(job, &claim, assignment, epoch, now),
        Command::Settle(hash, outcome) => settle(job, hash, outcome, now),
        Command::Append(note) => append(job, note, now),
        Command::Progress(hash, report) => progress(job, hash, report, now),
        Command::Step(hash, step) => record(job, hash, step, now),
        Command::Ask(hash, asked) => ask(job, hash, asked, now),
        Command::Vote(actor, vote, status) => vote_on(job, actor, vote, status, now),
        Command::Signal(actor, name, payload) => signal(job, actor, name, payload, now),
        Command::AddChildren(actor, hash, children) => add_children(job, actor, hash, children, now),
        Command::ChildFinished(child, status) => Ok(child_finished(job, child, status, now)),
        Command::Seal(actor) => seal(job, actor, now),
        Command::Cancel(wish) => cancel(job, wish, now),
        Command::Redrive(actor, run_at, from_start, payload) => {
            redrive(job, actor, run_at, from_start, payload, now)
        }
        Command::Expire { worker_gone } => expire(job, worker_gone, now),
        Command::LosePayload => {
            let message = "the event that holds the payload is gone; restore it from a back-up";
            Ok(fail(job, Who::word("payload_missing"), message, now))
        }
        Command::Unreadable(why) => {
            let message = format!("what is stored of this job does not read back: {why}");
            Ok(fail(job, Who::word("unreadable"), &message, now))
        }
    }
}

/// Checks that `hash` is the live lease of the job. The order is law: finished, not leased, expired, mismatch.
pub fn check_lease(job: &Job, hash: LeaseHash, now: Timestamp) -> Result<(), Refusal> {
    if job.status == Status::Running && job.is_past_deadline(now) {
        return Err(Refusal::Expired);
    }
    check_holder(job, hash, now)
}

/// As [`check_lease`], but a passed deadline does not matter: for who records just that.
pub(crate) fn check_holder(job: &Job, hash: LeaseHash, now: Timestamp) -> Result<(), Refusal> {
    if job.status.is_terminal() {
        return Err(Refusal::Finished(job.status));
    }
    if job.status != Status::Running {
        return Err(Refusal::NotLeased(job.status));
    }
    if !job.is_held(now) {
        return Err(Refusal::Expired);
    }
    if job.lease_hash != Some(hash) {
        return Err(Refusal::Mismatch);
    }
    Ok(())
}

/// The row after a renewal: the one change without an event. It never passes a timeout or a forced cancel.
pub fn renew(job: &Job, hash: LeaseHash, extend_ms: LeaseMs, now: Timestamp) -> Result<Job, Refusal> {
    check_lease(job, hash, now)?;
    let mut renewed = job.clone();
    let until = now.plus_ms(extend_ms.get());
    renewed.lease_until(job.lease_expires_at.map_or(until, |t| t.max(until)));
    Ok(renewed)
}

/// The holder of a row that was checked, as an actor.
pub(crate) fn holder(job: &Job) -> Actor {
    job.worker_id.as_ref().map_or_else(Actor::engine, Actor::worker)
}

fn claim(job: &Job, by: &Claim, now: Timestamp) -> Result<Move, Refusal> {
    if !job.is_due(now) || job.status.is_terminal() {
        return Err(Refusal::NotClaimable(job.status));
    }
    if let Some(end) = end_lost(job, now) {
        return Ok(end);
    }
    Ok(hold(job.clone(), by, Actor::worker(&by.worker), EventKind::JobClaimed, now))
}

/// What becomes of a run whose lease is over, unless it is to be executed again.
fn end_lost(job: &Job, now: Timestamp) -> Option<Move> {
    if job.status != Status::Running {
        return None;
    }
    if job.cancel_requested_at.is_some() {
        return Some(cancelled(job, Actor::engine(), Some("the lease was lost".into()), now));
    }
    if job.is_past_deadline(now) {
        return Some(time_out(job, now));
    }
    let lost = job.crashes + 1;
    let message = || format!("{lost} leases were lost with nothing recorded between; it may kill its worker");
    (lost >= limits::CRASHES_MAX).then(|| fail(job, Who::word("crashed"), &message(), now))
}

/// A claim of a row that nobody holds, as [`decide`] decides it, for whoever hands out many: the row is given away, not
/// copied. `None` for every other row.
pub fn hand_out(job: Job, by: &Claim, actor: &Actor, now: Timestamp) -> Option<Move> {
    let free = job.is_due(now) && !job.status.is_terminal() && job.status != Status::Running;
    free.then(|| hold(job, by, actor.clone(), EventKind::JobClaimed, now))
}

/// Takes a running job from its holder, who cannot go on with it, as when the store moves. It counts as no failure and no
/// crash; a job that was to be cancelled is. `None` for a job that nobody holds.
pub fn let_go(job: &Job, actor: Actor, now: Timestamp) -> Option<Move> {
    if job.status != Status::Running {
        return None;
    }
    if job.cancel_requested_at.is_some() {
        return Some(cancelled(job, actor, None, now).done());
    }
    let released = event::Released { due_at: now, lost: false, held_until: None };
    Some(Move::new(job, now, actor, EventKind::JobReleased(released)).done())
}

fn hold(job: Job, by: &Claim, actor: Actor, what: EventKind, now: Timestamp) -> Move {
    let (attempt, lease_ms) = (job.attempt.saturating_add(1), job.lease_ms.unwrap_or(by.lease_ms));
    let hash = by.secret.token(job.id, attempt).hash();
    let mut step = Move::of(job, now, actor, what).lease(hash);
    step.event.attempt = attempt;
    let mut step = step.done();
    step.job.lease_until(now.plus_ms(lease_ms.get()));
    step
}

fn assign(job: &Job, to: event::Assigned, now: Timestamp) -> Result<Move, Refusal> {
    if job.status.is_terminal() {
        return Err(Refusal::Finished(job.status));
    }
    if !job.is_due(now) {
        return Err(Refusal::NotClaimable(job.status));
    }
    let leader = Actor::try_from(format!("leader:{}", to.epoch))?;
    if let Some(end) = end_lost(job, now) {
        return Ok(end);
    }
    if job.status == Status::Running {
        let released = event::Released { due_at: now, lost: true, held_until: None };
        return Ok(Move::new(job, now, leader, EventKind::JobReleased(released)).done());
    }
    Ok(Move::new(job, now, leader, EventKind::JobAssigned(to)).done())
}

fn start(job: &Job, by: &Claim, assignment: Version, epoch: i64, now: Timestamp) -> Result<Move, Refusal> {
    if job.status.is_terminal() {
        return Err(Refusal::Finished(job.status));
    }
    let mine = job.status == Status::Assigned
        && job.worker_id.as_ref() == Some(&by.worker)
        && job.epoch == Some(epoch)
        && job.assignment == Some(assignment);
    if !mine {
        return Err(Refusal::NotAssigned);
    }
    Ok(hold(job.clone(), by, Actor::worker(&by.worker), EventKind::JobStarted, now))
}

fn append(job: &Job, note: Append, now: Timestamp) -> Result<Move, Refusal> {
    let name = note.type_name.as_str();
    if name.starts_with("job_") {
        return Err(Refusal::EventTypeReserved(name.to_owned()));
    }
    if note.lease.is_none() && (name.starts_with("node_") || name.starts_with("tool_")) {
        return Err(Refusal::LeaseRequired(name.to_owned()));
    }
    let actor = match note.lease {
        Some(hash) => {
            check_lease(job, hash, now)?;
            holder(job)
        }
        None => note.actor,
    };
    if note.expected_version.is_some_and(|v| v != job.version) {
        return Err(Refusal::VersionMismatch(job.version));
    }
    fits("payload", note.payload.as_ref(), limits::EVENT_PAYLOAD_MAX_BYTES)?;
    let mut step = Move::new(job, now, actor, EventKind::Noted(note.type_name)).payload(note.payload);
    step.event.lease = note.lease;
    Ok(step.done())
}

fn progress(job: &Job, hash: LeaseHash, report: Progress, now: Timestamp) -> Result<Move, Refusal> {
    check_lease(job, hash, now)?;
    if report == Progress::default() {
        let limit = "must come with progress, stage, metadata, checkpoint or a charge";
        return Err(Invalid::new("progress", "empty", limit).into());
    }
    if let Some(progress) = report.progress {
        limits::within("progress", progress, 0, 100)?;
    }
    if let Some(units) = report.charge {
        limits::within("units", units.into(), 1, limits::FLOW_UNITS_MAX)?;
    }
    if let Some(stage) = &report.stage {
        limits::text("stage", stage, limits::TEXT_MAX_BYTES)?;
    }
    if let Some(metadata) = &report.metadata {
        check_metadata(metadata)?;
    }
    fits("checkpoint", report.checkpoint.as_ref(), limits::PAYLOAD_MAX_BYTES)?;
    let what = EventKind::JobProgressed(event::Progressed {
        progress: report.progress.map(|p| p as i32),
        stage: report.stage,
        metadata: report.metadata,
        charged: report.charge,
    });
    Ok(Move::new(job, now, holder(job), what).payload(report.checkpoint).lease(hash).done())
}

/// Merges new metadata into old, key by key.
pub fn merge(old: Metadata, new: Metadata) -> Metadata {
    let mut merged = old;
    merged.extend(new);
    merged
}

fn record(job: &Job, hash: LeaseHash, step: Step, now: Timestamp) -> Result<Move, Refusal> {
    check_lease(job, hash, now)?;
    if let Some(version) = step.recorded {
        return Err(Refusal::StepRecorded(version));
    }
    fits("value", step.payload.as_ref(), limits::PAYLOAD_MAX_BYTES)?;
    let key = step.finished.then(|| step_key(job, &step.name));
    let named = event::StepNamed { name: step.name };
    let what = match (step.tool, step.finished) {
        (false, false) => EventKind::NodeStarted(named),
        (false, true) => EventKind::NodeFinished(named),
        (true, false) => EventKind::ToolCalled(named),
        (true, true) => EventKind::ToolReturned(named),
    };
    Ok(Move::new(job, now, holder(job), what).payload(step.payload).lease(hash).key(key).done())
}

/// The key under which the end of a step is on record: one per name, again after a redrive from the start.
pub fn step_key(job: &Job, name: &Name) -> Key {
    Key::engine(&format!("step:{}:{name}", job.steps_from))
}

fn ask(job: &Job, hash: LeaseHash, asked: event::ApprovalAsked, now: Timestamp) -> Result<Move, Refusal> {
    check_lease(job, hash, now)?;
    limits::text("prompt", &asked.prompt, limits::TEXT_MAX_BYTES)?;
    limits::within("required", asked.required.into(), 1, limits::APPROVAL_VOTES_MAX)?;
    limits::count("approvers", asked.approvers.len(), limits::APPROVERS_MAX)?;
    for approver in &asked.approvers {
        Who::parse("approvers", approver)?;
    }
    let ms = asked.expires_at.as_micros().saturating_sub(now.as_micros()) / 1_000;
    crate::span::within_ms("expires", ms, 1, limits::APPROVAL_EXPIRES_MAX_MS)?;
    Ok(Move::new(job, now, holder(job), EventKind::JobApprovalAsked(asked)).lease(hash).done())
}

/// `status` is where the approval stands after this vote.
fn vote_on(
    job: &Job,
    actor: Actor,
    mut vote: event::ApprovalVoted,
    status: ApprovalStatus,
    now: Timestamp,
) -> Result<Move, Refusal> {
    if let Some(reason) = &vote.reason {
        limits::text("reason", reason, limits::TEXT_MAX_BYTES)?;
    }
    vote.woke = status == ApprovalStatus::Approved && awaits(job, WaitFor::Approval, Some(&vote.name), now);
    Ok(Move::new(job, now, actor, EventKind::JobApprovalVoted(vote)).done())
}

/// How a vote changes an approval that is open.
pub fn count_vote(approval: &Approval, decision: Decision) -> (i32, ApprovalStatus) {
    match decision {
        Decision::Deny => (approval.approved, ApprovalStatus::Denied),
        Decision::Approve if approval.approved + 1 >= approval.required => {
            (approval.approved + 1, ApprovalStatus::Approved)
        }
        Decision::Approve => (approval.approved + 1, ApprovalStatus::Pending),
    }
}

/// The row after its approval was denied or expired while it waited for it.
pub fn deny(job: &Job, name: &Name, reason: Option<&str>, now: Timestamp) -> Option<Move> {
    if !awaits(job, WaitFor::Approval, Some(name), now) {
        return None;
    }
    Some(denied(job, reason, now))
}

pub(crate) fn denied(job: &Job, reason: Option<&str>, now: Timestamp) -> Move {
    fail(job, Who::word("approval_denied"), reason.unwrap_or("the approval was denied"), now)
}

fn awaits(job: &Job, what: WaitFor, name: Option<&Name>, now: Timestamp) -> bool {
    job.status == Status::Waiting
        && job.waiting_for == Some(what)
        && (name.is_none() || job.wait_name.as_ref() == name)
        && job.due_at.is_none()
        && !job.is_past_deadline(now)
}

fn signal(
    job: &Job,
    actor: Actor,
    name: Name,
    payload: Option<Payload>,
    now: Timestamp,
) -> Result<Move, Refusal> {
    if job.status.is_terminal() {
        return Err(Refusal::Finished(job.status));
    }
    fits("payload", payload.as_ref(), limits::EVENT_PAYLOAD_MAX_BYTES)?;
    let woke = awaits(job, WaitFor::Signal, Some(&name), now);
    let noticed = awaits(job, WaitFor::News, None, now);
    let what = EventKind::JobSignalled(event::Signalled { name, woke, noticed });
    Ok(Move::new(job, now, actor, what).payload(payload).done())
}

fn add_children(
    job: &Job,
    actor: Actor,
    hash: Option<LeaseHash>,
    children: Vec<JobId>,
    now: Timestamp,
) -> Result<Move, Refusal> {
    let actor = match hash {
        Some(hash) => {
            check_lease(job, hash, now)?;
            holder(job)
        }
        None => actor,
    };
    let what = EventKind::JobChildrenAdded(event::ChildrenAdded { children });
    let mut step = Move::new(job, now, actor, what);
    step.event.lease = hash;
    Ok(step.done())
}

fn child_finished(job: &Job, child: JobId, status: Status, now: Timestamp) -> Move {
    let joins = |wait| awaits(job, wait, None, now);
    let is_last = job.children == 1 && (joins(WaitFor::Children) || joins(WaitFor::Upstream));
    let woke = is_last || joins(WaitFor::News) || child_wakes_flow(job, status);
    let what = EventKind::JobChildFinished(event::ChildFinished { child, status, woke });
    Move::new(job, now, Actor::engine(), what).done()
}

/// The key under which the seal of a flow is on record.
pub fn seal_key() -> Key {
    Key::engine("seal")
}

/// Whether it is a flow that is open is for the store to look up.
fn seal(job: &Job, actor: Actor, now: Timestamp) -> Result<Move, Refusal> {
    if job.status.is_terminal() {
        return Err(Refusal::Finished(job.status));
    }
    Ok(Move::new(job, now, actor, EventKind::JobSealed).key(Some(seal_key())).done())
}

fn cancel(job: &Job, wish: Cancel, now: Timestamp) -> Result<Move, Refusal> {
    if job.status.is_terminal() {
        return Err(Refusal::Finished(job.status));
    }
    if let Some(reason) = &wish.reason {
        limits::text("reason", reason, limits::TEXT_MAX_BYTES)?;
    }
    crate::span::within_ms("force_after", wish.force_after_ms, 0, limits::LEASE_MAX_MS)?;
    if job.is_held(now) && !wish.force && !job.is_past_deadline(now) {
        let force_at = now.plus_ms(wish.force_after_ms);
        let what = EventKind::JobCancelRequested(event::CancelRequested { reason: wish.reason, force_at });
        return Ok(Move::new(job, now, wish.actor, what).done());
    }
    Ok(cancelled(job, wish.actor, wish.reason, now))
}

/// Whether this wish is on record already, so that a repeat changes nothing.
pub fn cancel_is_on_record(job: &Job, wish: &Cancel, now: Timestamp) -> bool {
    let asked = job.cancel_requested_at.is_some() && job.is_held(now) && !job.is_past_deadline(now);
    job.status == Status::Cancelled || (asked && !wish.force)
}

fn redrive(
    job: &Job,
    actor: Actor,
    run_at: RunAt,
    from_start: bool,
    payload: Option<Payload>,
    now: Timestamp,
) -> Result<Move, Refusal> {
    match job.status {
        Status::Completed => return Err(Refusal::Completed),
        status if !status.is_terminal() => return Err(Refusal::NotFinished(status)),
        _ if job.kind.as_str() == FLOW_KIND => {
            let limit = "has no callback to run again; redrive its jobs instead";
            return Err(Invalid::new("job", "a flow", limit).into());
        }
        _ => {}
    }
    let due_at = run_at.check("run_at", now)?;
    fits("payload", payload.as_ref(), limits::PAYLOAD_MAX_BYTES)?;
    let what = EventKind::JobRedriven(event::Redriven { due_at, from_start });
    Ok(Move::new(job, now, actor, what).payload(payload).done())
}

fn expire(job: &Job, worker_gone: bool, now: Timestamp) -> Result<Move, Refusal> {
    if !job.is_past_deadline(now) {
        return Err(Refusal::NotClaimable(job.status));
    }
    match (job.status, job.waiting_for) {
        (Status::Running, _) if job.cancel_requested_at.is_some() => {
            Ok(cancelled(job, Actor::engine(), Some("the holder did not stop in time".into()), now))
        }
        (Status::Running, _) => Ok(time_out(job, now)),
        (Status::Waiting, Some(WaitFor::Approval)) => {
            Ok(fail(job, Who::word("approval_expired"), "the approval was not decided in time", now))
        }
        (Status::Waiting, Some(waits_for)) => {
            Ok(Move::new(job, now, Actor::engine(), EventKind::JobWoken(event::Woken { waits_for })).done())
        }
        (Status::Assigned, _) if worker_gone => {
            Ok(Move::new(job, now, Actor::engine(), EventKind::JobOrphaned).done())
        }
        (status, _) => Err(Refusal::NotClaimable(status)),
    }
}

/// Whether a parent keeps count of its children: a completed one never waits again, any other may be redriven.
pub fn counts_children(parent: &Job) -> bool {
    parent.status != Status::Completed
}

/// The log of one job as the beginning of another's. The new job is nobody's child and holds no unique key.
pub fn copy_log(log: Vec<Event>, to: JobId, payload: Option<&Payload>) -> Vec<Event> {
    let copy = |mut event: Event| {
        event.job = to;
        if let EventKind::JobCreated(facts) = &mut event.what {
            facts.parent_id = None;
            facts.unique = None;
            event.payload = payload.cloned().or(event.payload);
        } else if matches!(event.what, EventKind::JobRedriven(_) | EventKind::JobReplaced(_))
            && payload.is_some()
        {
            // Another payload stands for every earlier one.
            event.payload = None;
        }
        event
    };
    log.into_iter().map(copy).collect()
}

/// A job that waits, with what a later request brought in its place.
pub(crate) fn replace(
    job: &Job,
    actor: &Actor,
    payload: Option<Payload>,
    due_at: Timestamp,
    now: Timestamp,
) -> Move {
    let what = EventKind::JobReplaced(event::Replaced { due_at });
    Move::new(job, now.max(job.updated_at), actor.clone(), what).payload(payload).done()
}

/// The row of a new job that began with another's log up to a version.
pub fn fork(copied: &Job, from: JobId, from_version: Version, actor: Actor, now: Timestamp) -> Move {
    Move::new(copied, now, actor, EventKind::JobForked(event::Forked { from, from_version })).done()
}

pub(crate) fn cancelled(job: &Job, actor: Actor, reason: Option<String>, now: Timestamp) -> Move {
    Move::new(job, now, actor, EventKind::JobCancelled(event::Cancelled { reason, code: None })).done()
}

pub(crate) fn time_out(job: &Job, now: Timestamp) -> Move {
    let left = job.retries < job.max_retries;
    let due_at = left.then(|| now.plus_ms(backoff_ms(job)));
    let message = match job.timeout_ms {
        Some(ms) => format!("the attempt took longer than {ms} ms"),
        None => "the attempt took longer than its worker allows".to_owned(),
    };
    let what = EventKind::JobTimedOut(event::TimedOut { due_at });
    Move::new(job, now, Actor::engine(), what).payload(Some(error_payload("timed_out", &message))).done()
}

pub(crate) fn fail(job: &Job, code: Who, message: &str, now: Timestamp) -> Move {
    let payload = error_payload(code.as_str(), message);
    Move::new(job, now, Actor::engine(), EventKind::JobFailed(event::Failed { code }))
        .payload(Some(payload))
        .done()
}

pub(crate) fn backoff_ms(job: &Job) -> i64 {
    job.backoff.unwrap_or_default().delay_ms(job.retries, job.id, job.attempt)
}

/// How an error stands in the log.
pub(crate) fn error_payload(code: &str, message: &str) -> Payload {
    let error = serde_json::json!({ "code": code, "message": message });
    Payload::stored(error.to_string().into_bytes(), true)
}
