//! Workers that report themselves, and the audit of what operators did.

use crate::access::forbidden;
use crate::call::{Call, Reply, ok};
use crate::codes;
use crate::presence;
use crate::problem::Problem;
use crate::wire::control::WorkerBody;
use crate::wire::new_job::lease_ms;
use crate::wire::registry::{AuditPage, AuditShape, OneWorker, WorkerShape, WorkersPage};
use std::collections::BTreeMap;
use windlass_core::limits::{PAGE_MAX, count, within};
use windlass_core::registry::Slots;
use windlass_core::{AuditEntry, Invalid, LeaseMs, Name, Role, Timestamp, Who, Worker};
use windlass_store::{DrainWorker, PutWorker, ReadAudit, fresh};

/// Audit entries of a page when nothing is said.
const PAGE: usize = 50;
/// Entries that are looked at for one answer when a filter takes few of them.
const LOOKED: usize = 10_000;
/// The most queues and kinds of one worker.
const NAMES_MAX: usize = 1_000;
/// The most jobs at once that a worker may claim to hold.
const CAPACITY_MAX: i64 = 1_000_000;

/// `GET /v1/workers`
pub(crate) async fn workers(call: Call) -> Reply {
    let (workers, now) = (call.store().workers((), None).await?, fresh::wall_clock());
    let visible = workers.into_iter().filter(|worker| {
        !call.who.is_for_some_queues() || worker.queues.iter().any(|queue| call.who.sees(queue))
    });
    ok(&WorkersPage { workers: visible.map(|worker| WorkerShape::of(worker, now)).collect() })
}

/// `PUT /v1/workers/{id}`
pub(crate) async fn put(call: Call) -> Reply {
    let body: WorkerBody = call.body()?;
    let id = Who::parse("id", call.segment("id"))?;
    let Some(queues) = &body.queues else { return drain(&call, id, &body).await };
    let names = |field: &str, texts: &[String]| -> Result<Vec<Name>, Invalid> {
        count(field, texts.len(), NAMES_MAX)?;
        texts.iter().map(|text| Name::parse(field, text)).collect()
    };
    let queues = names("queues", queues)?;
    for queue in &queues {
        call.who.check_queue(queue)?;
    }
    let known = find(&call, &id).await?;
    let was_draining = known.as_ref().is_some_and(|worker| worker.draining);
    if let Some(worker) = known {
        check_own(&call, &worker)?;
    }
    let mut labels = body.labels.unwrap_or_default();
    presence::put_key(&call, &mut labels);
    windlass_core::job::check_metadata(&labels).map_err(|e| Invalid { field: "labels".into(), ..e })?;
    let request = PutWorker {
        id: id.clone(),
        queues,
        kinds: names("kinds", &body.kinds.unwrap_or_default())?,
        capacity: within("capacity", body.capacity.unwrap_or(1), 0, CAPACITY_MAX)? as i32,
        slots: slots(body.slots.unwrap_or_default())?,
        labels,
        draining: false,
        ttl_ms: lease_ms("ttl", body.ttl)?.map_or_else(|| LeaseMs::new(60_000), Ok)?,
    };
    let mut worker = call.store().put_worker(request, None).await?;
    if body.draining == Some(true) && !was_draining {
        // The way that is put on record.
        let request = DrainWorker { id, drain: true, actor: call.actor() };
        worker = call.store().drain_worker(request, None).await?.unwrap_or(worker);
    }
    ok(&OneWorker { worker: WorkerShape::of(worker, fresh::wall_clock()) })
}

fn slots(given: BTreeMap<String, i64>) -> Result<Slots, Invalid> {
    count("slots", given.len(), NAMES_MAX)?;
    let one = |(queue, most): (String, i64)| -> Result<(Name, i32), Invalid> {
        Ok((Name::parse("slots", queue)?, within("slots", most, 0, CAPACITY_MAX)? as i32))
    };
    given.into_iter().map(one).collect()
}

async fn drain(call: &Call, id: Who, body: &WorkerBody) -> Reply {
    let Some(drain) = body.draining else {
        return Err(Invalid::new("queues", "missing", "is required, or draining and nothing else").into());
    };
    let gone = || {
        Problem::new(
            codes::NOT_FOUND,
            format!("there is no worker {id}; it never reported, or was forgotten"),
        )
    };
    check_own(call, &find(call, &id).await?.ok_or_else(gone)?)?;
    let request = DrainWorker { id: id.clone(), drain, actor: call.actor() };
    let worker = call.store().drain_worker(request, None).await?.ok_or_else(gone)?;
    ok(&OneWorker { worker: WorkerShape::of(worker, fresh::wall_clock()) })
}

async fn find(call: &Call, id: &Who) -> Result<Option<Worker>, Problem> {
    Ok(call.store().workers((), None).await?.into_iter().find(|worker| worker.id == *id))
}

/// Refuses a worker of a queue that is not the caller's, and one that was made with another key unless it is an
/// operator's to tell.
fn check_own(call: &Call, worker: &Worker) -> Result<(), Problem> {
    for queue in &worker.queues {
        call.who.check_sees(queue)?;
    }
    if call.who.has(&[Role::Operator]) || presence::is_made_by(call, worker) {
        return Ok(());
    }
    Err(forbidden("a worker that was registered with another key", "operator"))
}

/// `GET /v1/audit`
pub(crate) async fn audit(call: Call) -> Reply {
    call.who.check_all_queues()?;
    let before = call.query.text("cursor").map(|text| {
        let wrong = || Invalid::new("cursor", text, "must come from a page of the same list");
        text.strip_prefix("u1").and_then(|seq| seq.parse().ok()).ok_or_else(wrong)
    });
    let (limit, wanted) = (call.query.limit(PAGE)?, Wanted::of(&call)?);
    let (mut before, mut entries, mut looked) = (before.transpose()?, Vec::new(), 0);
    let at_once = if wanted.is_all() { limit } else { PAGE_MAX };
    let is_end = loop {
        let page = call.store().audit(ReadAudit { before, limit: at_once }, None).await?;
        looked += page.len();
        let is_end = page.len() < at_once || page.last().is_some_and(|entry| wanted.is_before(entry));
        for entry in page {
            before = Some(entry.seq);
            if wanted.is(&entry) {
                entries.push(AuditShape::from(entry));
            }
            if entries.len() == limit {
                break;
            }
        }
        if entries.len() == limit {
            break false;
        }
        if is_end || looked >= LOOKED {
            break is_end;
        }
    };
    let next_cursor = before.filter(|_| !is_end).map(|seq| format!("u1{seq}"));
    ok(&AuditPage { entries, next_cursor })
}

/// Which entries of the audit.
struct Wanted<'a> {
    actor: Option<&'a str>,
    action: Option<&'a str>,
    target: Option<&'a str>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl<'a> Wanted<'a> {
    fn of(call: &'a Call) -> Result<Self, Invalid> {
        let query = &call.query;
        let (actor, action, target) = (query.text("actor"), query.text("action"), query.text("target"));
        Ok(Self { actor, action, target, since: query.time("since")?, until: query.time("until")? })
    }

    fn is_all(&self) -> bool {
        [self.actor, self.action, self.target] == [None; 3] && self.since.is_none() && self.until.is_none()
    }

    fn is(&self, entry: &AuditEntry) -> bool {
        self.actor.is_none_or(|actor| entry.actor.as_str() == actor)
            && self.action.is_none_or(|action| entry.action.as_str() == action)
            && self.target.is_none_or(|target| entry.target == target)
            && !self.is_before(entry)
            && self.until.is_none_or(|until| entry.at < until)
    }

    /// Whether it is older than what is wanted, as all behind it are.
    fn is_before(&self, entry: &AuditEntry) -> bool {
        self.since.is_some_and(|since| entry.at < since)
    }
}
