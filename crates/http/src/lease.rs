//! While a job is held: `POST /v1/heartbeat`, and progress and charges of one.

use crate::app::known;
use crate::append::Written;
use crate::call::{Call, Reply, ok};
use crate::wire::append::{ChargeBody, ProgressBody};
use crate::wire::claim::{Heartbeat, HeldLease, Renewed, RenewedLease};
use crate::wire::new_job::{job_id, lease_ms};
use crate::wire::raw::payload;
use crate::wire::time::Time;
use windlass_core::limits::{BATCH_MAX, PAYLOAD_MAX_BYTES, count};
use windlass_core::{Refusal, Token, Who};
use windlass_store::{Extend, Extended, Progress};

/// `POST /v1/heartbeat`
pub(crate) async fn heartbeat(call: Call) -> Reply {
    let body: Heartbeat = call.body()?;
    Who::parse("worker_id", &body.worker_id)?;
    count("leases", body.leases.len(), BATCH_MAX)?;
    let extend_ms = match lease_ms("extend", body.extend)? {
        Some(extend) => extend,
        None => call.app.lease_ms().await,
    };
    let mut leases = Vec::with_capacity(body.leases.len());
    for HeldLease { job_id: job, token } in &body.leases {
        leases.push((job_id("job_id", job)?, call.token(Some(token))?));
    }
    let request = Extend { leases, extend_ms };
    let answers = call.store().extend(request.clone(), None).await?;
    let lease = |(job_id, answer): (_, Result<Extended, Refusal>)| {
        let job_id = windlass_core::JobId::to_string(&job_id);
        match answer {
            Ok(Extended { expires_at, cancel_requested }) => RenewedLease {
                job_id,
                ok: true,
                expires_at: Some(Time(expires_at)),
                code: None,
                cancel_requested,
            },
            Err(refusal) => {
                call.refused(&refusal);
                let code = Some(refusal.code().to_owned());
                RenewedLease { job_id, ok: false, expires_at: None, code, cancel_requested: false }
            }
        }
    };
    let jobs = request.leases.into_iter().map(|(job, _): (_, Token)| job);
    ok(&Renewed { leases: jobs.zip(answers).map(lease).collect() })
}

/// `POST /v1/jobs/{id}/charge`
pub(crate) async fn charge(call: Call) -> Reply {
    let body: ChargeBody = call.body()?;
    let request = Progress {
        job: call.job_id()?,
        token: call.token(body.lease_token.as_deref())?,
        progress: None,
        stage: None,
        metadata: None,
        checkpoint: None,
        charge: Some(body.units),
        key: call.idempotency()?.map(|idempotency| idempotency.key),
    };
    let told = known(|| call.app.store.progress(request.clone(), None)).await?;
    ok(&Written::from(told.inspect_err(|refusal| call.refused(refusal))?))
}

/// `POST /v1/jobs/{id}/progress`
pub(crate) async fn progress(call: Call) -> Reply {
    let body: ProgressBody = call.body()?;
    let key = call.idempotency()?.map(|idempotency| idempotency.key);
    let request = Progress {
        job: call.job_id()?,
        token: call.token(body.lease_token.as_deref())?,
        progress: body.progress,
        stage: body.stage,
        metadata: body.metadata,
        checkpoint: payload("checkpoint", body.checkpoint, None, PAYLOAD_MAX_BYTES)?,
        charge: None,
        key,
    };
    let told = known(|| call.app.store.progress(request.clone(), None)).await?;
    ok(&Written::from(told.inspect_err(|refusal| call.refused(refusal))?))
}
