//! Problems: errors that are one thing, and what operators say of them.

use crate::call::{Call, Reply, ok};
use crate::problem::Problem as Refused;
use crate::wire::stats::{ProblemBody, StateWord};
use crate::wire::time::Time;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::problem::Sighting;
use windlass_core::{Event, Fingerprint, Invalid, Refusal, Timestamp};
use windlass_store::{ListProblems, ProblemState, ProblemView, PutProblem, ReadEvents};

/// Problems of a page when nothing is said.
const PAGE: usize = 50;

impl From<StateWord> for ProblemState {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Open => Self::Open,
            StateWord::Resolved => Self::Resolved,
            StateWord::Muted => Self::Muted,
        }
    }
}

/// A problem.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProblemGroup)]
pub(crate) struct ProblemShape {
    /// What tells it from others.
    fingerprint: String,
    /// The kind of its jobs.
    kind: String,
    /// The error's code.
    code: String,
    /// The error's message, with `#` for numbers and ids.
    message: String,
    /// What an operator said of it.
    state: StateWord,
    /// Since when.
    state_at: Time,
    /// Who said so; null when it was seen first or again.
    state_by: Option<String>,
    /// How often it was seen again after it had been resolved.
    reopened: i64,
    /// When it was seen first.
    first_seen_at: Time,
    /// When it was seen last.
    last_seen_at: Time,
    /// The job that it was seen at last.
    last_job: String,
    /// Errors in 90 days; a job that is retried may have several.
    errors: i64,
    /// After how many of them the job gave up.
    dead: i64,
    /// By hour, oldest first; lists show the last 48 hours.
    hours: Vec<HourShape>,
}

/// How often a problem was seen in an hour.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProblemHour)]
struct HourShape {
    /// When it begins.
    at: Time,
    /// Errors in it.
    errors: i64,
    /// After how many of them the job gave up.
    dead: i64,
}

impl ProblemShape {
    fn of(view: ProblemView) -> Self {
        let ProblemView { problem, hours, errors, dead } = view;
        let hour = |(at, errors, dead)| HourShape { at: Time(at), errors, dead };
        Self {
            fingerprint: problem.fingerprint.to_string(),
            kind: problem.kind.to_string(),
            code: problem.code.to_string(),
            message: problem.message,
            state: match problem.state {
                ProblemState::Open => StateWord::Open,
                ProblemState::Resolved => StateWord::Resolved,
                ProblemState::Muted => StateWord::Muted,
            },
            state_at: Time(problem.state_at),
            state_by: problem.state_by.map(|by| by.to_string()),
            reopened: problem.reopened,
            first_seen_at: Time(problem.first_seen_at),
            last_seen_at: Time(problem.last_seen_at),
            last_job: problem.last_job.to_string(),
            errors,
            dead,
            hours: hours.into_iter().map(hour).collect(),
        }
    }
}

/// A page of problems, last seen first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problems)]
pub(crate) struct ProblemsPage {
    problems: Vec<ProblemShape>,
    /// Where to go on; none at the end.
    next_cursor: Option<String>,
}

/// Where a page ended: when its last problem was seen, and which it is.
fn cursor(text: &str) -> Result<(Timestamp, Fingerprint), Invalid> {
    let wrong =
        || Invalid::new("cursor", text.chars().take(80).collect::<String>(), "must come from this list");
    let (micros, fingerprint) = text.split_once('.').ok_or_else(wrong)?;
    let micros = micros.parse().map_err(|_| wrong())?;
    Ok((Timestamp::from_micros(micros), Fingerprint::parse(fingerprint).map_err(|_| wrong())?))
}

/// `GET /v1/problems`: of every queue, so for keys of every queue.
pub(crate) async fn problems(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let state = |word: &str| {
        ProblemState::parse(word)
            .ok_or_else(|| Invalid::new("state", word, "must be open, resolved or muted"))
    };
    let limit = call.query.limit(PAGE)?;
    let request = ListProblems {
        state: call.query.text("state").map(state).transpose()?,
        kind: call.query.name("kind")?,
        before: call.query.text("cursor").map(cursor).transpose()?,
        limit,
    };
    let found = call.store().problems(request, None).await?;
    let last = found.last().filter(|_| found.len() == limit).map(|view| &view.problem);
    let next_cursor =
        last.map(|problem| format!("{}.{}", problem.last_seen_at.as_micros(), problem.fingerprint));
    ok(&ProblemsPage { problems: found.into_iter().map(ProblemShape::of).collect(), next_cursor })
}

/// `GET /v1/problems/{fingerprint}`
pub(crate) async fn problem(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let fingerprint = Fingerprint::parse(call.segment("fingerprint"))?;
    ok(&ProblemShape::of(find(&call, fingerprint).await?))
}

async fn find(call: &Call, fingerprint: Fingerprint) -> Result<ProblemView, Refused> {
    let unknown = Refusal::ProblemNotFound(fingerprint.to_string());
    Ok(call.store().problem(fingerprint, None).await?.ok_or(unknown)?)
}

/// `PUT /v1/problems/{fingerprint}`
pub(crate) async fn put(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let body: ProblemBody = call.body()?;
    let fingerprint = Fingerprint::parse(call.segment("fingerprint"))?;
    let request = PutProblem { fingerprint, state: body.state.into(), actor: call.actor() };
    ok(&ProblemShape::of(call.store().put_problem(request, None).await??))
}

/// The problem that a list is narrowed to, if it is.
pub(crate) async fn wanted(call: &Call) -> Result<Option<ProblemView>, Refused> {
    let Some(text) = call.query.text("problem") else { return Ok(None) };
    find(call, Fingerprint::parse(text)?).await.map(Some)
}

/// Whether the error in an event is of this problem.
pub(crate) fn is_of(problem: &ProblemView, event: &Event) -> bool {
    let known = &problem.problem;
    Sighting::of(&known.kind, event).is_some_and(|seen| seen.fingerprint == known.fingerprint)
}

/// What reads the last error of a job.
pub(crate) fn error_of(job: &windlass_core::Job) -> Option<ReadEvents> {
    let version = job.error_version?;
    Some(ReadEvents { job: job.id, after: version - 1, limit: 1, newest_first: false })
}
