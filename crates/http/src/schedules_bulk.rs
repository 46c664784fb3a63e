//! Many schedules at once, and many slots of one: a file that is applied, a stretch of the past that is made up for.

use crate::call::{Call, Reply, json, ok};
use crate::problem::Problem;
use crate::schedules::find;
use crate::wire::schedule::ScheduleShape;
use crate::wire::schedule::{ApplyBody, BackfillBody};
use crate::wire::time::Time;
use hyper::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::limits::Invalid;
use windlass_core::unique::Unique;
use windlass_core::{Metadata, Name, Timestamp};
use windlass_store::{Applied, ApplySchedules, Enqueue, FindKey, fresh};

/// What becomes of a schedule.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ScheduleChangeWord)]
enum ChangeWord {
    Added,
    Changed,
    Removed,
    Unchanged,
}

/// What becomes of one schedule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ScheduleChange)]
pub(crate) struct ChangeShape {
    name: String,
    change: ChangeWord,
    /// How it stood; null if it is new.
    before: Option<ScheduleShape>,
    /// How it stands afterwards; null if it is removed.
    after: Option<ScheduleShape>,
}

impl From<Applied> for ChangeShape {
    fn from(applied: Applied) -> Self {
        let change = match (&applied.before, &applied.after, &applied.audit) {
            (None, ..) => ChangeWord::Added,
            (_, None, _) => ChangeWord::Removed,
            (_, _, Some(_)) => ChangeWord::Changed,
            _ => ChangeWord::Unchanged,
        };
        Self {
            name: applied.name.to_string(),
            change,
            before: applied.before.map(ScheduleShape::of),
            after: applied.after.map(ScheduleShape::of),
        }
    }
}

/// What becomes of each schedule, by name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SchedulesApplied)]
pub(crate) struct AppliedPage {
    /// Whether nothing was written.
    dry_run: bool,
    changes: Vec<ChangeShape>,
}

/// `PUT /v1/schedules`
pub(crate) async fn apply(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let body: ApplyBody = call.body()?;
    let policies = call.app.policies().await?;
    let mut schedules = Vec::new();
    for (name, schedule) in body.schedules {
        if schedule.expected_version.is_some() {
            let why = "goes with one schedule, not with a file of them; leave it out";
            return Err(Invalid::new(&format!("{name}: expected_version"), "given", why).into());
        }
        let named = |invalid: Invalid| Invalid { field: format!("{name}: {}", invalid.field), ..invalid };
        let schedule = schedule.resolve(&policies).map_err(named)?;
        schedules.push((Name::parse("name", &name)?, schedule));
    }
    let dry_run = body.dry_run;
    let request = ApplySchedules { schedules, prune: body.prune, dry_run, actor: call.actor() };
    let applied = call.store().apply_schedules(request, None).await??;
    ok(&AppliedPage { dry_run, changes: applied.into_iter().map(ChangeShape::from).collect() })
}

/// A slot of the past.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackfilledSlot)]
pub(crate) struct SlotShape {
    slot: Time,
    /// The job that has it; null in a dry run if none has.
    job: Option<String>,
    /// Whether it was fired before: then it is not fired again.
    existed: bool,
}

/// What was made up for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Backfilled)]
pub(crate) struct Backfilled {
    /// Whether nothing was enqueued.
    dry_run: bool,
    /// Every slot, oldest first.
    slots: Vec<SlotShape>,
}

/// `POST /v1/schedules/{name}/backfill`
pub(crate) async fn backfill(call: Call) -> Reply {
    let body: BackfillBody = call.body()?;
    let state = find(&call).await?;
    let (from, to, now) = (body.from.resolve(), body.to.resolve(), fresh::wall_clock());
    if to > now {
        let why = "must not be in the future: what comes is fired when it comes";
        return Err(Invalid::new("to", to, why).into());
    }
    if from >= to {
        return Err(Invalid::new("from", from, "must be before `to`").into());
    }
    from.near("from", now)?;
    let slots = state.schedule.slots(state.created_at)?.between(from, to)?;
    if body.dry_run {
        let mut shown = Vec::new();
        for slot in slots {
            let Unique { scope, key, .. } = Unique::slot(state.name.clone(), slot)?;
            let hold = call.store().find_key(FindKey { scope, key }, None).await?;
            let job = hold.map(|hold| hold.job.to_string());
            shown.push(SlotShape { slot: Time(slot), existed: job.is_some(), job });
        }
        return ok(&Backfilled { dry_run: true, slots: shown });
    }
    let job = |slot: &Timestamp| state.schedule.job_of(&state.name, *slot, fresh::job_id());
    let jobs = slots.iter().map(job).collect::<Result<Vec<_>, _>>()?;
    if jobs.is_empty() {
        return ok(&Backfilled { dry_run: false, slots: vec![] });
    }
    let request = Enqueue { jobs, actor: call.actor(), idempotency: None };
    let made = call.store().enqueue(request, None).await?.map_err(Problem::from)?;
    let shown = slots.iter().zip(&made).map(|(slot, one)| SlotShape {
        slot: Time(*slot),
        job: Some(one.id.to_string()),
        existed: one.existed,
    });
    let shown: Vec<SlotShape> = shown.collect();
    let new = shown.iter().filter(|slot| !slot.existed).count();
    if new > 0 {
        let detail = Metadata::from_iter([
            ("from".to_owned(), from.to_string().into()),
            ("to".to_owned(), to.to_string().into()),
            ("jobs".to_owned(), new.into()),
        ]);
        call.audit(call.actor(), "schedule.backfill", state.name.to_string(), detail).await;
    }
    json(StatusCode::CREATED, &Backfilled { dry_run: false, slots: shown })
}
