//! The pages of `docs/learn`, so that their code is compiled and run with the other doctests.

/// The program on the first page compiles as it is pasted.
#[doc = include_str!("../../../README.md")]
pub struct Readme;

#[doc = include_str!("../../../docs/learn/first-job.md")]
pub struct FirstJob;

#[doc = include_str!("../../../docs/learn/retries.md")]
pub struct Retries;

#[doc = include_str!("../../../docs/learn/handlers.md")]
pub struct Handlers;

#[doc = include_str!("../../../docs/learn/steps.md")]
pub struct Steps;

#[doc = include_str!("../../../docs/learn/waits-and-approvals.md")]
pub struct WaitsAndApprovals;

#[doc = include_str!("../../../docs/learn/flows.md")]
pub struct Flows;

#[doc = include_str!("../../../docs/learn/schedules.md")]
pub struct Schedules;

#[doc = include_str!("../../../docs/learn/triggers.md")]
pub struct Triggers;

#[doc = include_str!("../../../docs/learn/push-queues.md")]
pub struct PushQueues;

#[doc = include_str!("../../../docs/learn/limits.md")]
pub struct Limits;

#[doc = include_str!("../../../docs/learn/debounce.md")]
pub struct Debounce;

#[cfg(feature = "postgres")]
#[doc = include_str!("../../../docs/learn/transactions-and-fencing.md")]
pub struct TransactionsAndFencing;

#[doc = include_str!("../../../docs/learn/deployments.md")]
pub struct Deployments;

#[doc = include_str!("../../../docs/learn/operating.md")]
pub struct Operating;

#[doc = include_str!("../../../docs/learn/testing.md")]
pub struct Testing;

#[cfg(feature = "otel")]
#[doc = include_str!("../../../docs/learn/tracing.md")]
pub struct Tracing;

#[doc = include_str!("../../../docs/learn/old-jobs.md")]
pub struct OldJobs;

#[doc = include_str!("../../../docs/learn/events-out.md")]
pub struct EventsOut;

#[doc = include_str!("../../../docs/learn/trust-and-moving.md")]
pub struct TrustAndMoving;
