//! Ending attempts: `POST /v1/settle` for many, and complete, fail, release and wait for one.

use crate::app::known;
use crate::call::{Call, Reply, lease_token, ok};
use crate::wire::job::JobShape;
use crate::wire::new_job::job_id;
use crate::wire::raw::payload;
use crate::wire::settle::{
    CompleteBody, ErrorBody, ErrorParts, FailBody, ItemBody, OutcomeWord, ReleaseBody, SettleBody, Settled,
    SettledItem, SettledMany, WaitBody, WaitWord,
};
use crate::wire::time::{Moment, Span, run_at};
use windlass_core::limits::{BATCH_MAX, PAYLOAD_MAX_BYTES, count};
use windlass_core::outcome::Found;
use windlass_core::{Done, Failure, Invalid, JobId, Name, Outcome, Refusal, RunAt, Token, Wait, WaitFor};
use windlass_store::{Settle, SettleItem};

fn failure(error: Option<ErrorBody>) -> Result<Failure, Invalid> {
    match error {
        None => Failure::new("", ""),
        Some(ErrorBody::Text(message)) => Failure::new("", &message),
        Some(ErrorBody::Parts(ErrorParts { code, message })) => {
            Failure::new(code.as_deref().unwrap_or_default(), message.as_deref().unwrap_or_default())
        }
    }
}

/// A job that is given back, for later or with its key held.
fn released(again: Option<RunAt>, hold: Option<Span>) -> Result<Outcome, Invalid> {
    match (again, hold) {
        (again, None) => Ok(Outcome::Release(again.unwrap_or(RunAt::Now))),
        (None, Some(hold)) => Ok(Outcome::RateLimited(hold.ms())),
        (Some(_), Some(_)) => {
            Err(Invalid::new("hold", "given", "says when by itself; leave out run_at and delay"))
        }
    }
}

impl ItemBody {
    fn resolve(self) -> Result<SettleItem, Invalid> {
        let again = run_at(self.run_at, self.delay)?;
        let result = payload("result", self.result, self.result_base64, PAYLOAD_MAX_BYTES)?;
        let outcome = match self.outcome {
            OutcomeWord::Complete => Outcome::Complete(result),
            OutcomeWord::Fail => Outcome::Fail {
                error: failure(self.error)?,
                permanent: self.permanent.unwrap_or_default(),
                run_at: again,
            },
            OutcomeWord::Release => released(again, self.hold)?,
            OutcomeWord::Cancelled => Outcome::Cancelled { reason: None },
        };
        Ok(SettleItem {
            job: job_id("job_id", &self.job_id)?,
            token: lease_token(&self.lease_token)?,
            outcome,
        })
    }
}

impl SettledItem {
    fn of(job_id: String, answer: Result<Done, Refusal>) -> Self {
        let mut item = Self {
            job_id,
            ok: answer.is_ok(),
            status: None,
            version: None,
            replayed: None,
            code: None,
            detail: None,
        };
        match answer {
            Ok(done) => {
                item.version = Some(done.version());
                item.replayed = Some(done.is_repeat());
                item.status = if let Done::Moved(_, status) = done { Some(status) } else { None };
            }
            Err(refusal) => {
                item.code = Some(refusal.code().to_owned());
                item.detail = Some(refusal.to_string());
            }
        }
        item
    }
}

/// `POST /v1/settle`
pub(crate) async fn settle(call: Call) -> Reply {
    let SettleBody { items } = call.body()?;
    count("items", items.len(), BATCH_MAX)?;
    let ids: Vec<String> = items.iter().map(|item| item.job_id.clone()).collect();
    let resolved: Vec<Result<SettleItem, Invalid>> = items.into_iter().map(ItemBody::resolve).collect();
    let good = resolved.iter().filter_map(|item| item.as_ref().ok()).cloned().collect();
    let request = Settle { items: good };
    let mut answers = known(|| call.app.store.settle(request.clone(), None)).await?.into_iter();
    let mut settled = Vec::with_capacity(ids.len());
    for (id, item) in ids.into_iter().zip(resolved) {
        let answer = match item {
            Ok(_) => answers.next().ok_or_else(|| {
                windlass_store::StoreError::Indeterminate("the store answered for fewer items".into())
            })?,
            Err(invalid) => Err(invalid.into()),
        };
        if let Err(refusal) = &answer {
            call.refused(refusal);
        }
        settled.push(SettledItem::of(id, answer));
    }
    ok(&SettledMany { items: settled })
}

/// Ends one attempt, and shows the job after it.
async fn one(call: &Call, job: JobId, token: Token, outcome: Outcome) -> Reply {
    let request = Settle { items: vec![SettleItem { job, token, outcome }] };
    let answer = known(|| call.app.store.settle(request.clone(), None)).await?.pop();
    let answer = answer
        .ok_or_else(|| windlass_store::StoreError::Indeterminate("the store answered for no item".into()))?;
    let done = answer.inspect_err(|refusal| call.refused(refusal))?;
    let view = call.store().job(job, None).await?.ok_or(Refusal::NotFound)?;
    ok(&Settled { job: JobShape::view(view), replayed: done.is_repeat() })
}

/// `POST /v1/jobs/{id}/complete`
pub(crate) async fn complete(call: Call) -> Reply {
    let body: CompleteBody = call.body()?;
    let (job, token) = (call.job_id()?, call.token(body.lease_token.as_deref())?);
    let result = payload("result", body.result, body.result_base64, PAYLOAD_MAX_BYTES)?;
    one(&call, job, token, Outcome::Complete(result)).await
}

/// `POST /v1/jobs/{id}/fail`
pub(crate) async fn fail(call: Call) -> Reply {
    let body: FailBody = call.body()?;
    let (job, token) = (call.job_id()?, call.token(body.lease_token.as_deref())?);
    let outcome = Outcome::Fail {
        error: failure(body.error)?,
        permanent: body.permanent.unwrap_or_default(),
        run_at: run_at(body.run_at, body.delay)?,
    };
    one(&call, job, token, outcome).await
}

/// `POST /v1/jobs/{id}/release`
pub(crate) async fn release(call: Call) -> Reply {
    let body: ReleaseBody = call.body()?;
    let (job, token) = (call.job_id()?, call.token(body.lease_token.as_deref())?);
    let outcome = released(run_at(None, body.delay)?, body.hold)?;
    one(&call, job, token, outcome).await
}

/// `POST /v1/jobs/{id}/wait`
pub(crate) async fn wait(call: Call) -> Reply {
    let body: WaitBody = call.body()?;
    let (job, token) = (call.job_id()?, call.token(body.lease_token.as_deref())?);
    let waits_for = match body.r#for {
        WaitWord::Approval => WaitFor::Approval,
        WaitWord::Signal => WaitFor::Signal,
        WaitWord::Timer => WaitFor::Timer,
        WaitWord::Children => WaitFor::Children,
    };
    let wait = Wait {
        waits_for,
        name: body.name.map(|name| Name::parse("name", name)).transpose()?,
        until: body.until.map(Moment::resolve),
        expires_at: body.expires.map(Moment::resolve),
        since: 0,
    };
    one(&call, job, token, Outcome::Wait(wait, Found::default())).await
}
