//! The living parts: what claims jobs, runs handlers, renews leases and settles.
//!
//! | to learn about | read |
//! |---|---|
//! | a process that works: queues, handlers, shutdown | [`Worker`] |
//! | what a handler is and how it is wrapped | [`Handler`], [`Handlers`] |
//! | what a handler is given and may ask for | [`Attempt`] |
//! | how a handler says what went wrong | [`HandlerError`] |
//! | one claimed job, from start to outcome | [`run_once`] |
//! | what servers and workers run alike: deadlines, queues' policies, the leader and what it leads | [`service`] |
//! | where finished jobs go, and how they are removed | [`archive`], [`prune`] |
//! | all of a store carried into another | [`moving`] |
//! | ending in two steps | [`Shutdown`] |
//! | whether the worker works, for readiness | [`Health`] |
//! | what a job falls back to | [`Policies`] |
//! | a job put into the hands of a worker that waits | [`Offers`] |
//! | jobs that messages of a broker name | [`Deliveries`] |
//! | leases that others can read beside the store | [`LeaseMirror`] |
//! | asking again when an answer was lost | [`repeat`] |
//! | traces across processes | [`TraceContext`] |
//!
//! A worker has a thread of its own, `windlass-engine`, where it claims, renews, settles and sweeps. Handlers run on
//! the caller's runtime and nowhere else. What the store itself spawns, such as connections, lives on the caller's
//! runtime too, unless renewals are given a store of their own ([`Worker::renew_through`]): then a handler that
//! blocks its thread delays its neighbours, but never a renewal.
//!
//! What is never known here: which store it is, HTTP, the types of payloads.

pub mod archive;
mod attempt;
pub mod bulk;
mod cancels;
mod claim;
mod consume;
mod control;
mod due_timers;
mod engine;
pub mod erase;
mod error;
mod handler;
mod health;
mod heartbeat;
mod holdings;
mod lanes;
mod leases;
pub mod logs;
mod metrics;
mod mirror;
pub mod moving;
mod offer;
mod policy;
mod profile;
pub mod prune;
mod race;
mod reach;
mod recall;
mod record;
#[cfg(feature = "redis")]
mod redis_leases;
mod register;
mod repeat;
mod report;
mod run;
pub mod seal_check;
pub mod service;
mod settle;
mod shutdown;
mod spawn;
mod start;
mod task;
mod trace;
mod undo;
mod wait;
mod worker;

pub use attempt::Attempt;
pub use consume::Deliveries;
pub use error::{HandlerError, Then};
pub use handler::{BoxError, Handler, Handlers};
pub use health::Health;
pub use mirror::{LeaseMirror, LeaseNote};
pub use offer::{Offer, Offers};
pub use policy::{Policies, Policy};
pub use race::{Contender, Won};
pub use record::OpenStep;
#[cfg(feature = "redis")]
pub use redis_leases::RedisLeases;
pub use repeat::repeat;
pub use report::Report;
pub use run::run_once;
pub use shutdown::{Level, Shutdown};
pub use start::RunError;
pub use trace::{TraceContext, carry, carry_or};
pub use undo::Replay;
pub use wait::AskedFor;
pub use worker::Worker;
