//! What is done to a job from outside: cancel, redrive, fork, signal.

use crate::app::known;
use crate::call::{Call, Reply, json as reply, ok};
use crate::idempotency::{once, reserved_id};
use crate::problem::Problem;
use crate::wire::job::JobShape;
use crate::wire::new_job::job_id;
use crate::wire::operate::{CancelBody, ForkBody, OneJob, RedriveBody, SignalBody, Signalled};
use crate::wire::raw::payload;
use crate::wire::time::{Span, run_at};
use axum::http::StatusCode;
use serde_json::{Value, json};
use windlass_core::limits::{EVENT_PAYLOAD_MAX_BYTES, FORCE_AFTER_DEFAULT_MS, PAYLOAD_MAX_BYTES};
use windlass_core::{Done, Job, Key, Metadata, Name, Refusal, RunAt, Status};
use windlass_store::{Cancel, Fork, Redrive, Signal};

/// Puts on record what was done to a job, with how it stood before and after.
async fn put_on_record<const N: usize>(
    call: &Call,
    action: &str,
    before: Option<&Job>,
    after: &Job,
    more: [(&str, Value); N],
) {
    if before.is_some_and(|job| job.version == after.version) {
        // A repeat changed nothing.
        return;
    }
    let standing = |job: &Job| json!({ "status": job.status.as_str(), "version": job.version, "generation": job.generation });
    let mut detail: Metadata = more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    detail.insert("before".to_owned(), before.map(standing).unwrap_or_default());
    detail.insert("after".to_owned(), standing(after));
    call.audit(call.actor(), action, after.id.to_string(), detail).await;
}

/// `POST /v1/jobs/{id}/cancel`
pub(crate) async fn cancel(call: Call) -> Reply {
    let body: CancelBody = call.body()?;
    let job = call.job_id()?;
    let before = call.view(job).await?.job;
    let reason = body.reason.clone();
    let wish = windlass_core::decide::Cancel {
        actor: call.actor(),
        reason: body.reason,
        force: body.force.unwrap_or_default(),
        force_after_ms: body.force_after.map_or(FORCE_AFTER_DEFAULT_MS, Span::ms),
    };
    let request = Cancel { job, wish, expected_version: body.expected_version };
    known(|| call.app.store.cancel(request.clone(), None)).await??;
    let view = call.store().job(job, None).await?.ok_or(Refusal::NotFound)?;
    let more = [("reason", reason.into()), ("force", request.wish.force.into())];
    put_on_record(&call, "job.cancel", Some(&before), &view.job, more).await;
    let is_over = view.job.status == Status::Cancelled;
    let status = if is_over { StatusCode::OK } else { StatusCode::ACCEPTED };
    reply(status, &OneJob { job: JobShape::view(view) })
}

/// `POST /v1/jobs/{id}/redrive`
pub(crate) async fn redrive(call: Call) -> Reply {
    let body: RedriveBody = call.body()?;
    let job = call.job_id()?;
    let before = call.view(job).await?.job;
    let run_at = run_at(body.run_at, body.delay)?.unwrap_or(RunAt::Now);
    let from_start = body.from_start.unwrap_or_default();
    let payload = payload("payload", body.payload, body.payload_base64, PAYLOAD_MAX_BYTES)?;
    let has_payload = payload.is_some();
    let ((), is_repeat) = once(&call, async |key| {
        let (actor, key, expected_version) = (call.actor(), Some(key), body.expected_version);
        let payload = payload.clone();
        let request = Redrive { job, run_at, from_start, payload, actor, key, expected_version };
        known(|| call.app.store.redrive(request.clone(), None)).await??;
        Ok(())
    })
    .await?;
    let view = call.store().job(job, None).await?.ok_or(Refusal::NotFound)?;
    if !is_repeat {
        let more = [("from_start", from_start.into()), ("other_payload", has_payload.into())];
        put_on_record(&call, "job.redrive", Some(&before), &view.job, more).await;
    }
    reply(StatusCode::OK, &OneJob { job: JobShape::view(view) })
}

/// `POST /v1/jobs/{id}/fork`
pub(crate) async fn fork(call: Call) -> Reply {
    let body: ForkBody = call.body()?;
    let from = call.job_id()?;
    let source = call.view(from).await?;
    let payload = payload("payload", body.payload, None, PAYLOAD_MAX_BYTES)?;
    let has_payload = payload.is_some();
    let (made, is_repeat) = once(&call, async |key| {
        let request = Fork {
            from,
            from_version: body.from_version,
            id: reserved_id(&call, &key).await?,
            payload: payload.clone(),
            actor: call.actor(),
            expected_version: body.expected_version,
        };
        known(|| call.app.store.fork(request.clone(), None)).await??;
        Ok(request.id.to_string())
    })
    .await?;
    let view = call.store().job(job_id("id", &made)?, None).await?.ok_or(Refusal::NotFound)?;
    if !is_repeat {
        let more = [
            ("from", from.to_string().into()),
            ("from_version", body.from_version.unwrap_or(source.job.version).into()),
            ("other_payload", has_payload.into()),
        ];
        put_on_record(&call, "job.fork", None, &view.job, more).await;
    }
    reply(StatusCode::CREATED, &OneJob { job: JobShape::view(view) })
}

/// `POST /v1/jobs/{id}/signal`
pub(crate) async fn signal(call: Call) -> Reply {
    let body: SignalBody = call.body()?;
    let job = call.job_id()?;
    call.check_job(job).await?;
    let own = body.key.map(|key| Key::parse("key", key)).transpose()?;
    let request = Signal {
        job,
        name: Name::parse("name", &body.name)?,
        payload: payload("payload", body.payload, None, EVENT_PAYLOAD_MAX_BYTES)?,
        actor: call.actor(),
        key: own,
    };
    let (mut signalled, is_repeat) = once(&call, async |key| send(&call, request, key).await).await?;
    signalled.duplicate |= is_repeat;
    ok(&signalled)
}

async fn send(call: &Call, mut request: Signal, key: Key) -> Result<Signalled, Problem> {
    request.key.get_or_insert(key);
    let done: Done = known(|| call.app.store.signal(request.clone(), None)).await??;
    Ok(Signalled { duplicate: done.is_repeat(), version: done.version() })
}
