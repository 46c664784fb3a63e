//! Durable background jobs in a database you already have.
//!
//! A job is a type. A client enqueues it; a worker runs its handler, in this process or another. Jobs survive crashes,
//! restarts and deployments; steps that are on record are not run again; a job that waits for a time, a signal, a person or
//! other jobs holds no worker.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//!
//! #[derive(Serialize, Deserialize, windlass::Job)]
//! #[job(kind = "email.send", output = MessageId)]
//! struct SendEmail {
//!     to: String,
//! }
//!
//! # type MessageId = u64;
//! # type Draft = String;
//! # struct Smtp;
//! # impl Smtp { async fn send(&self, draft: &Draft) -> Result<MessageId, std::io::Error> { Ok(7) } }
//! # struct App { smtp: Smtp }
//! # async fn render(job: &SendEmail) -> Result<Draft, std::io::Error> { Ok(format!("to {}", job.to)) }
//! # async fn run(url: &str, to: String, smtp: Smtp, shutdown: impl Future<Output = ()> + Send) -> windlass::Result<()> {
//! let client = windlass::connect("sqlite:jobs.db").await?; // or postgres://…, memory:
//! # let client = windlass::connect(url).await?;
//! let sent = client.enqueue(SendEmail { to }).queue("mail").delay(Duration::from_secs(5)).await?; // Enqueued { id, existed }
//!
//! windlass::Worker::new(client)
//!     .state(App { smtp })
//!     .queue("mail", 32)
//!     .handle(|job: SendEmail, ctx: windlass::Context<App>| async move {
//!         let draft = ctx.step("render", || render(&job)).await?; // recorded once; later attempts get the record
//!         ctx.approval("send").prompt("send to all?").await?; // frees this worker meanwhile
//!         ctx.tool("smtp", &draft, || ctx.state().smtp.send(&draft)).await
//!     })
//!     .run_until(shutdown)
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! | to | see |
//! |---|---|
//! | open a store | [`connect()`], [`Client::builder`] |
//! | enqueue, cancel, signal, decide, watch, wait | [`Client`] |
//! | pause queues, act on many jobs, remove old ones | [`Client::queue`], [`Client::cancel_all`], [`Client::redrive_all`], [`Client::prune`] |
//! | erase what a finished job was given | [`Client::erase`] |
//! | run jobs by the clock | [`Client::schedule`], [`Worker::schedules`] |
//! | start jobs by events from outside | [`Client::trigger`] |
//! | let jobs wait for each other | [`Client::flow`], [`Enqueue::after`] |
//! | run handlers | [`Worker`] |
//! | do things once, wait, ask people, spawn children | [`Context`] |
//! | say what went wrong | [`HandlerError`] |
//! | write and enqueue, or write and complete, in one transaction | `Enqueue::in_tx`, `Context::complete_in` (feature `postgres`) |
//! | see jobs in traces and metrics of OpenTelemetry | `otel` (feature `otel`) |
//! | test without a database | [`testing`] |
//!
//! **What is promised.** An acknowledged job is not lost. A job runs *at least once*: a worker that dies is replaced after its
//! lease, and what it had not recorded is done again. A worker that lost its lease changes nothing through Windlass any
//! more; for your own writes use [`Context::fence`], or complete the job inside your own transaction.
//!
//! Features: `sqlite` (default), `postgres`, `sqlx` (its transactions; needs Rust 1.94), `otel` (OpenTelemetry), `redis`
//! (leases shown in Redis too). The memory store is always there.

mod approve;
mod batch;
mod bulk;
mod client;
mod connect;
mod context;
mod enqueue;
mod erase;
mod error;
mod events;
mod fallback;
mod flow;
mod job;
#[cfg(doctest)]
mod learn;
mod operate;
mod options;
#[cfg(feature = "otel")]
pub mod otel;
mod pause;
mod queues;
mod race;
mod repeat;
mod saga;
mod schedule;
mod spawn;
mod step;
mod tail;
pub mod testing;
mod tool;
mod trigger;
#[cfg(feature = "postgres")]
mod tx;
mod value;
mod wait;
mod watch;
mod worker;

pub use approve::{ApprovalGate, Ask};
pub use bulk::{Bulk, BulkDone, Prune};
pub use client::Client;
pub use connect::{Builder, connect};
pub use context::Context;
pub use enqueue::{Enqueue, EnqueueMany, Request, UniqueScope};
pub use erase::Erase;
pub use error::{Ended, Error, OpenError, Result};
pub use events::Events;
pub use flow::{Flow, FlowJob, StartedFlow};
pub use job::Job;
pub use operate::{Cancel, Cancelling, Decide, Fork, Redrive, Signal};
pub use pause::{WaitFor, WaitForUntil};
pub use queues::QueueHandle;
pub use race::{Race, Received, Winner};
pub use schedule::{NewSchedule, ScheduleHandle};
pub use serde_json;
pub use spawn::{Child, Spawn};
pub use step::Step;
pub use tool::{InDoubt, Tool};
pub use trigger::{Firing, NewTrigger, TriggerHandle};
#[cfg(feature = "postgres")]
pub use tx::{EnqueueIn, EnqueueManyIn, Transaction};
pub use watch::{Feed, Watch};
pub use windlass_derive::Job;
#[cfg(feature = "postgres")]
pub use windlass_postgres::OpenError as PostgresOpenError;
#[cfg(feature = "sqlite")]
pub use windlass_sqlite::OpenError as SqliteOpenError;
pub use worker::{HandlerEnd, OnUnreadable, Worker};

pub use windlass_core::breaker::{Attempts, Breaker, Broken};
pub use windlass_core::flow::{Join, On};
pub use windlass_core::hold::LaneState;
pub use windlass_core::lane::{Full, Lane, LaneMode, LaneRule, Lanes};
pub use windlass_core::limits::{self, Invalid};
pub use windlass_core::registry::SetEndpoint;
pub use windlass_core::schedule::{Missed, Overlap, Schedule, ScheduleState, Timing};
pub use windlass_core::trigger::webhook::WebhookSecret;
pub use windlass_core::trigger::{Ingested, TriggerEvent, TriggerState};
pub use windlass_core::unique::Policy as UniquePolicy;
pub use windlass_core::wait::{ApprovalStatus, Decision, LinkToken, WakeOutcome};
pub use windlass_core::{
    Actor, Approval, ApprovalId, Backoff, Event, EventKind, Facts, FeedCursor, Filter, JobId, LeaseMs,
    Metadata, Name, Payload, QueueDefaults, QueueLimits, QueueMode, Rate, Refusal, RunAt, Status, Timestamp,
    Token, Version, Wake, Who,
};
pub use windlass_engine::{
    AskedFor, Attempt, BoxError, Handler, HandlerError, Health, Level, Policy, RunError, Shutdown, Then,
    TraceContext,
};
pub use windlass_store::{
    ApprovalView, Archived, BatchRefusal, Enqueued, FeedEvent, JobView, Listed, Page, QueueState, Store,
    StoreError,
};

/// Everything that a type of this crate leads to has a name: what is not listed above is in one of these.
pub use {windlass_core as model, windlass_engine as engine, windlass_store as store};
