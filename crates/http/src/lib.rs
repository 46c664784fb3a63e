//! The JSON API of Windlass, its event stream and its page.
//!
//! | to learn about | read |
//! |---|---|
//! | the server: addresses, connections, ending | [`Server`] |
//! | every route, who may call it, what it takes and gives | [`routes`] |
//! | what is the same for every request | `dispatch`, `access`, `problem` |
//! | the stable codes of refusals | [`CODES`], [`explain`] |
//! | what JSON looks like | `shape` |
//! | the same without a network | [`Local`] |
//! | a job's life | `enqueue`, `claim`, `lease`, `append`, `settle`, `approve`, `operate`, `bulk`, `list` |
//! | what surrounds jobs | `queues`, `schedules`, `triggers`, `webhooks`, `settings`, `workers`, `keys` |
//! | how one reader of the feed serves all who listen | `feed` |
//!
//! A handler is a function from a `Call` to a reply. It asks the store's verbs and shows their answers; it decides nothing
//! about jobs. Any process can answer any request: what is kept here is only for a few seconds, and only to ask less.
//!
//! What is never known here: which store it is, what jobs do, a clock of its own.

mod access;
mod alerts;
mod app;
mod append;
mod approve;
mod archived;
mod background;
mod body;
mod bulk;
mod calendar;
mod call;
mod cause;
mod claim;
mod codes;
mod direct;
mod dispatch;
mod enqueue;
mod erase;
mod feed;
mod flows;
mod gate;
mod health;
mod idempotency;
mod keys;
mod lanes;
mod lease;
mod list;
mod local;
mod metrics;
mod metrics_listener;
mod now;
mod openapi;
mod operate;
mod operations;
mod origin;
mod pages;
mod papers;
mod pass;
mod presence;
mod problem;
mod problems;
mod query;
mod queues;
mod request_id;
mod route;
mod routes;
mod schedules;
mod schedules_bulk;
mod server;
mod session;
mod settings;
mod settle;
mod stall;
mod stats;
mod subscriptions;
mod throttle;
mod triggers;
mod webhooks;
pub mod wire;
mod workers;
mod writes;

pub use codes::{CODES, Code, explain};
pub use gate::KeyText;
pub use local::Local;
pub use metrics::record_also;
pub use openapi::document;
pub use route::{Access, ROLES, Route, role_word};
pub use routes::table as routes;
pub use server::{ListenError, Server};
pub use subscriptions::carried;
