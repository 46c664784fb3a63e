//! Schedules: jobs by the clock, and who leads.

use crate::call::{Call, Reply, json, ok};
use crate::problem::Problem;
use crate::wire::schedule::{
    MissedWord, OverlapWord, PausedShape, ScheduleBody, ScheduleShape, ScheduledJob, SchedulesPage,
};
use crate::wire::time::{Span, Time};
use hyper::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::limits::{PAGE_MAX, within};
use windlass_core::schedule::{MISSED_DEFAULT, Missed, Overlap, Schedule, ScheduleState, Timing};
use windlass_core::{Invalid, Name, Refusal, Timestamp};
use windlass_engine::Policies;
use windlass_engine::service::Leading;
use windlass_store::{Enqueue, PauseSchedule, PutSchedule, RemoveSchedule, fresh};

/// Slots that are shown ahead when nothing is said.
const NEXT: i64 = 10;

impl ScheduleBody {
    /// The schedule as the store takes it.
    pub(crate) fn resolve(self, policies: &Policies) -> Result<Schedule, Invalid> {
        let timing = match (self.cron, self.every) {
            (Some(cron), None) => Timing::Cron(cron),
            (None, Some(every)) => Timing::Every(every.ms()),
            (None, None) => return Err(Invalid::new("cron", "none", "give `cron` or `every`")),
            (Some(_), Some(_)) => {
                return Err(Invalid::new("every", "given", "give `cron` or `every`, not both"));
            }
        };
        let job = self.job.resolve(policies)?;
        let payload =
            job.payload.as_ref().map(|payload| serde_json::from_slice(payload.as_bytes())).transpose();
        let unreadable = |_| Invalid::new("job.payload", "bytes", "a schedule's payload is JSON");
        Ok(Schedule {
            timing,
            timezone: self.timezone.unwrap_or_else(|| "UTC".into()),
            payload: payload.map_err(unreadable)?,
            job: job.facts,
            missed: match self.missed {
                None | Some(MissedWord::Once) => Missed::Once,
                Some(MissedWord::Skip) => Missed::Skip,
                Some(MissedWord::All) => Missed::All,
            },
            missed_max: self.missed_max.unwrap_or(MISSED_DEFAULT),
            overlap: match self.overlap {
                None | Some(OverlapWord::Allow) => Overlap::Allow,
                Some(OverlapWord::Skip) => Overlap::Skip,
                Some(OverlapWord::Cancel) => Overlap::Cancel,
            },
            jitter_ms: self.jitter.map_or(0, Span::ms),
            starts_at: self.starts_at.map(|at| at.0),
            ends_at: self.ends_at.map(|at| at.0),
        })
    }
}

impl ScheduleShape {
    pub(crate) fn of(state: ScheduleState) -> Self {
        let ScheduleState { name, schedule, version, paused, .. } = state;
        let (cron, every) = match schedule.timing {
            Timing::Cron(text) => (Some(text), None),
            Timing::Every(ms) => (None, Some(Span::from_ms(ms))),
        };
        Self {
            name: name.to_string(),
            cron,
            every,
            timezone: schedule.timezone,
            job: ScheduledJob { facts: schedule.job, payload: schedule.payload },
            missed: match schedule.missed {
                Missed::Once => MissedWord::Once,
                Missed::Skip => MissedWord::Skip,
                Missed::All => MissedWord::All,
            },
            missed_max: schedule.missed_max,
            overlap: match schedule.overlap {
                Overlap::Allow => OverlapWord::Allow,
                Overlap::Skip => OverlapWord::Skip,
                Overlap::Cancel => OverlapWord::Cancel,
            },
            jitter: Span::from_ms(schedule.jitter_ms),
            starts_at: schedule.starts_at.map(Time),
            ends_at: schedule.ends_at.map(Time),
            version,
            paused: paused.map(|(at, by)| PausedShape { at: Time(at), by: by.to_string() }),
            next_at: state.next_at.map(Time),
            last_slot: state.last_slot.map(Time),
            last_job: state.last_job.map(|job| job.to_string()),
            broken: state.broken,
            created_at: Time(state.created_at),
            updated_at: Time(state.updated_at),
        }
    }
}

/// `GET /v1/schedules`
pub(crate) async fn schedules(call: Call) -> Reply {
    let states = call.store().schedules((), None).await?.into_iter();
    let visible = states.filter(|state| call.who.sees(&state.schedule.job.queue));
    ok(&SchedulesPage { schedules: visible.map(ScheduleShape::of).collect() })
}

/// `GET /v1/schedules/{name}`
pub(crate) async fn schedule(call: Call) -> Reply {
    ok(&ScheduleShape::of(find(&call).await?))
}

/// The schedule of the path. One of another queue is as if it were not there.
pub(crate) async fn find(call: &Call) -> Result<ScheduleState, Problem> {
    let name = Name::parse("name", call.segment("name"))?;
    let state = call.store().schedule(name.clone(), None).await?;
    let visible = state.filter(|state| call.who.sees(&state.schedule.job.queue));
    Ok(visible.ok_or_else(|| Refusal::ScheduleNotFound(name.to_string()))?)
}

/// `PUT /v1/schedules/{name}`
pub(crate) async fn put(call: Call) -> Reply {
    let (request, _) = wanted(&call).await?;
    ok(&ScheduleShape::of(call.store().put_schedule(request, None).await??))
}

/// The schedule that a request asks for, and how the one of that name stands. Both are of queues that the caller may touch.
async fn wanted(call: &Call) -> Result<(PutSchedule, Option<ScheduleState>), Problem> {
    let body: ScheduleBody = call.body()?;
    let name = Name::parse("name", call.segment("name"))?;
    let expected_version = body.expected_version;
    let schedule = body.resolve(&*call.app.policies().await?)?;
    call.who.check_queue(&schedule.job.queue)?;
    let before = call.store().schedule(name.clone(), None).await?;
    if let Some(state) = &before {
        call.who.check_sees(&state.schedule.job.queue)?;
    }
    Ok((PutSchedule { name, schedule, expected_version, actor: call.actor() }, before))
}

/// `POST /v1/schedules/{name}/preview`: what `PUT` would accept and refuse, and when it would fire then. Nothing is written.
pub(crate) async fn preview(call: Call) -> Reply {
    let n = within("n", call.query.number("n")?.unwrap_or(NEXT), 1, PAGE_MAX as i64)?;
    let (request, before) = wanted(&call).await?;
    let now = fresh::wall_clock();
    let changed = request.decide(before.as_ref(), now)?;
    let Some(state) = changed.map(|(state, _)| state).or(before) else {
        return ok(&NextSlots { next: Vec::new() });
    };
    // While it is paused no slot comes next; these are the ones it would have.
    let first = match state.next_at {
        Some(next) => Some(next),
        None => state.schedule.slots(state.created_at)?.after(now),
    };
    ok(&NextSlots { next: ahead(&state, first, n)? })
}

/// A slot and those that follow it.
fn ahead(state: &ScheduleState, first: Option<Timestamp>, n: i64) -> Result<Vec<Time>, Invalid> {
    let slots = state.schedule.slots(state.created_at)?;
    let mut next: Vec<Time> = first.map(Time).into_iter().collect();
    while (next.len() as i64) < n
        && let Some(slot) = next.last().and_then(|last| slots.after(last.0))
    {
        next.push(Time(slot));
    }
    Ok(next)
}

/// That it is gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ScheduleRemoved)]
pub(crate) struct Removed {
    removed: String,
}

/// `DELETE /v1/schedules/{name}`
pub(crate) async fn remove(call: Call) -> Reply {
    let name = find(&call).await?.name;
    call.store().remove_schedule(RemoveSchedule { name: name.clone(), actor: call.actor() }, None).await??;
    ok(&Removed { removed: name.to_string() })
}

/// `POST /v1/schedules/{name}/pause`
pub(crate) async fn pause(call: Call) -> Reply {
    set_paused(&call, true).await
}

/// `POST /v1/schedules/{name}/resume`
pub(crate) async fn resume(call: Call) -> Reply {
    set_paused(&call, false).await
}

async fn set_paused(call: &Call, pause: bool) -> Reply {
    let request = PauseSchedule { name: find(call).await?.name, pause, actor: call.actor() };
    ok(&ScheduleShape::of(call.store().pause_schedule(request, None).await??))
}

/// The slots ahead.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NextSlots)]
pub(crate) struct NextSlots {
    next: Vec<Time>,
}

/// `GET /v1/schedules/{name}/next`
pub(crate) async fn next(call: Call) -> Reply {
    let n = within("n", call.query.number("n")?.unwrap_or(NEXT), 1, PAGE_MAX as i64)?;
    let state = find(&call).await?;
    ok(&NextSlots { next: ahead(&state, state.next_at, n)? })
}

/// A job that a schedule enqueued because somebody asked.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Triggered)]
pub(crate) struct Triggered {
    id: String,
}

/// `POST /v1/schedules/{name}/trigger`
pub(crate) async fn trigger(call: Call) -> Reply {
    let state = find(&call).await?;
    let job = state.schedule.job_now(&state.name, fresh::job_id())?;
    let id = job.id.to_string();
    let request = Enqueue { jobs: vec![job], actor: call.actor(), idempotency: None };
    call.store().enqueue(request, None).await?.map_err(|refused| Problem::from(refused.refusal))?;
    json(StatusCode::CREATED, &Triggered { id })
}

/// Who leads: whose services run that one process runs for all.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Leader)]
pub(crate) struct LeaderShape {
    /// Who leads, or led last; null if nobody ever did.
    holder: Option<String>,
    /// Grows with every change of leader.
    epoch: i64,
    /// Until when, if it is not renewed.
    expires_at: Option<Time>,
    /// Whether it leads now.
    leads: bool,
}

/// `GET /v1/leader`
pub(crate) async fn leader(call: Call) -> Reply {
    let term = call.store().term(Leading::term(), None).await?;
    let now = fresh::wall_clock();
    ok(&LeaderShape {
        leads: term.as_ref().is_some_and(|term| term.expires_at > now),
        epoch: term.as_ref().map_or(0, |term| term.epoch),
        expires_at: term.as_ref().map(|term| Time(term.expires_at)),
        holder: term.map(|term| term.holder.to_string()),
    })
}
