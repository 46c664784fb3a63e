//! A store within the limits that are settings: what is larger than they allow is refused before it reaches the store.
//!
//! The stores themselves know only the hard bounds. Every way to a store that users configure goes through here.

use crate::every_verb;
use crate::*;
use std::sync::Arc;
use windlass_core::limits::Limits;
use windlass_core::schedule::Schedule;
use windlass_core::{Invalid, NewJob, Outcome};

/// Wraps a store so that payloads, results and retries stay within [`Limits`].
#[derive(Debug, Clone)]
pub struct Limited {
    inner: Arc<dyn Store>,
    limits: Limits,
}

impl Limited {
    /// Keeps what goes into `inner` within `limits`.
    pub fn new(inner: Arc<dyn Store>, limits: Limits) -> Self {
        Self { inner, limits }
    }

    fn schedule(&self, name: &Name, schedule: &Schedule) -> Result<(), Invalid> {
        let one = schedule.job_now(name, fresh::job_id())?;
        self.limits.check_job(&one)
    }

    fn schedules(&self, request: &ApplySchedules) -> Result<(), Invalid> {
        request.schedules.iter().try_for_each(|(name, schedule)| self.schedule(name, schedule))
    }

    fn trigger(&self, request: &PutTrigger) -> Result<(), Invalid> {
        request.trigger.jobs.iter().try_for_each(|job| self.limits.check_retries(job.job.max_retries))
    }

    fn jobs(&self, jobs: &[NewJob]) -> Result<(), BatchRefusal> {
        let refused = |(index, job)| {
            let refusal = self.limits.check_job(job).err()?.into();
            Some(BatchRefusal { index, refusal })
        };
        jobs.iter().enumerate().find_map(refused).map_or(Ok(()), Err)
    }

    /// Settles what is within the limits; each other item is refused by itself.
    async fn settle_fitting(&self, request: Settle, now: Now) -> StoreResult<Vec<Answer>> {
        let checked: Vec<Result<(), Invalid>> = request
            .items
            .iter()
            .map(|item| match &item.outcome {
                Outcome::Complete(result) => self.limits.check_result("result", result.as_ref()),
                _ => Ok(()),
            })
            .collect();
        let fitting = request.items.into_iter().zip(&checked).filter(|(_, checked)| checked.is_ok());
        let items: Vec<SettleItem> = fitting.map(|(item, _)| item).collect();
        if items.is_empty() && !checked.is_empty() {
            return Ok(checked
                .into_iter()
                .filter_map(Result::err)
                .map(|invalid| Err(invalid.into()))
                .collect());
        }
        let mut answers = self.inner.settle(Settle { items }, now).await?.into_iter();
        let lost = || StoreError::Indeterminate("the store answered for fewer items than it was sent".into());
        let answer = |checked: Result<(), Invalid>| match checked {
            Err(invalid) => Ok(Err(invalid.into())),
            Ok(()) => answers.next().ok_or_else(lost),
        };
        checked.into_iter().map(answer).collect()
    }
}

/// Sends a request on, or answers its refusal.
macro_rules! admit {
    ($checked:expr, $sent:expr) => {
        match $checked {
            Err(refusal) => Ok(Err(refusal.into())),
            Ok(()) => $sent.await,
        }
    };
}

macro_rules! answer {
    (enqueue, $store:ident, $request:ident, $now:ident) => {
        admit!($store.jobs(&$request.jobs), $store.inner.enqueue($request, $now))
    };
    (enqueue_claimed, $store:ident, $request:ident, $now:ident) => {
        admit!($store.limits.check_job(&$request.job), $store.inner.enqueue_claimed($request, $now))
    };
    (progress, $store:ident, $request:ident, $now:ident) => {
        admit!(
            $store.limits.check_result("checkpoint", $request.checkpoint.as_ref()),
            $store.inner.progress($request, $now)
        )
    };
    (record_step, $store:ident, $request:ident, $now:ident) => {
        admit!(
            $store.limits.check_result("value", $request.payload.as_ref()),
            $store.inner.record_step($request, $now)
        )
    };
    (redrive, $store:ident, $request:ident, $now:ident) => {
        admit!(
            $store.limits.check_payload("payload", $request.payload.as_ref()),
            $store.inner.redrive($request, $now)
        )
    };
    (fork, $store:ident, $request:ident, $now:ident) => {
        admit!(
            $store.limits.check_payload("payload", $request.payload.as_ref()),
            $store.inner.fork($request, $now)
        )
    };
    (put_queue, $store:ident, $request:ident, $now:ident) => {
        admit!(
            $request
                .defaults
                .and_then(|defaults| defaults.max_retries)
                .map_or(Ok(()), |n| $store.limits.check_retries(n)),
            $store.inner.put_queue($request, $now)
        )
    };
    (put_schedule, $store:ident, $request:ident, $now:ident) => {
        admit!($store.schedule(&$request.name, &$request.schedule), $store.inner.put_schedule($request, $now))
    };
    (apply_schedules, $store:ident, $request:ident, $now:ident) => {
        admit!($store.schedules(&$request), $store.inner.apply_schedules($request, $now))
    };
    (put_trigger, $store:ident, $request:ident, $now:ident) => {
        admit!($store.trigger(&$request), $store.inner.put_trigger($request, $now))
    };
    (ingest, $store:ident, $request:ident, $now:ident) => {
        admit!(
            $store.limits.check_payload("payload", $request.payload.as_ref()),
            $store.inner.ingest($request, $now)
        )
    };
    (settle, $store:ident, $request:ident, $now:ident) => {
        $store.settle_fitting($request, $now).await
    };
    ($verb:ident, $store:ident, $request:ident, $now:ident) => {
        $store.inner.$verb($request, $now).await
    };
}

macro_rules! limited {
    ($($group:ident { $($verb:ident($request:ty) -> $answer:ty;)* $(; $($rest:item)*)? })*) => {
        $(
            #[async_trait]
            impl $group for Limited {
                $(
                    async fn $verb(&self, request: $request, now: Now) -> StoreResult<$answer> {
                        let store: &Limited = self;
                        answer!($verb, store, request, now)
                    }
                )*
                $($($rest)*)?
            }
        )*
    };
}

every_verb!(limited);
