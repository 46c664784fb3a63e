//! The nouns and rules of Windlass.
//!
//! What is here decides; nothing here acts. There is no async, no I/O, no clock and no SQL: a moment, a row and
//! a command come in, an event and the row after it, or a refusal, come out.
//!
//! | to learn about | read |
//! |---|---|
//! | where a job can stand and how it moves | [`status`] |
//! | the narrow row and the immutable facts | [`job`] |
//! | the log | [`event`], and [`apply`](Job::apply) from event to row |
//! | commands, decided purely | [`decide`](mod@decide), [`outcome`] |
//! | how jobs enter | [`enqueue`](mod@enqueue) |
//! | who may act for a job | [`lease`] |
//! | keys that make two jobs the same | [`unique`] |
//! | what a job's end entails | [`end`] |
//! | waits and approvals | [`wait`], [`approve`] |
//! | what operators and leaders do | [`operate`], [`bulk`], [`term`] |
//! | which worker of a push queue gets which job | [`dispatch`] |
//! | jobs by the clock | [`schedule`] |
//! | queues, workers, access keys, the audit | [`registry`] |
//! | what the log must say of keys and approvals | [`explain`] |
//! | what a resumed run is given | [`step`] |
//! | undoing what a job did | [`undo`] |
//! | lists and cursors | [`list`] |
//! | places in the feed, incarnations | [`feed`] |
//! | readers that keep their place | [`follow`] |
//! | hashes over the log that show a change | [`seal`] |
//! | numbers over time, errors that are one thing | [`stats`], [`problem`] |
//! | lengths of time and moments as people write them | [`span`] |
//! | events from outside that start jobs | [`trigger`] |
//! | settings that change while the store runs | [`settings`] |
//! | how long finished jobs are kept | [`retention`] |
//! | limits and refusals | [`limits`], [`refusal`] |

pub mod alert;
mod apply;
pub mod approve;
pub mod backoff;
pub mod blocked;
pub mod breaker;
pub mod bulk;
mod canonical;
pub mod decide;
pub mod dispatch;
pub mod end;
pub mod enqueue;
pub mod erase;
pub mod event;
pub mod explain;
pub mod feed;
pub mod flow;
pub mod follow;
pub mod hold;
pub mod idle;
pub mod ids;
pub mod job;
pub mod lane;
pub mod lease;
pub mod limits;
pub mod list;
pub mod logs;
pub mod name;
pub mod operate;
pub mod operation;
pub mod outcome;
pub mod paper;
pub mod payload;
pub mod problem;
pub mod rate;
pub mod refusal;
pub mod registry;
pub mod retention;
pub mod schedule;
pub mod seal;
pub mod settings;
pub mod span;
pub mod stats;
pub mod status;
pub mod step;
pub mod subscription;
pub mod term;
pub mod time;
pub mod trigger;
pub mod undo;
pub mod unique;
pub mod wait;

pub use backoff::Backoff;
pub use blocked::Blocked;
pub use event::{Event, EventKind};
pub use feed::{FeedCursor, LastRead, Life};
pub use ids::{ApprovalId, JobId, TriggerEventId};
pub use job::{Facts, Job, Metadata, NewJob, RunAt, TRACE_KEYS, Version};
pub use lane::{Lane, QueueLimits};
pub use lease::{Lease, LeaseHash, LeaseMs, Secret, Token};
pub use limits::Invalid;
pub use list::{Count, Cursor, Filter, Order};
pub use logs::LogPart;
pub use name::{Actor, Key, Name, Who};
pub use outcome::{Failure, Outcome};
pub use payload::Payload;
pub use problem::{Fingerprint, Problem, ProblemState};
pub use rate::Rate;
pub use refusal::{Answer, Done, Refusal};
pub use registry::{AccessKey, AuditEntry, LogLine, Queue, QueueDefaults, QueueMode, Role, Worker};
pub use status::Status;
pub use term::Term;
pub use time::Timestamp;
pub use unique::Unique;
pub use wait::{Approval, Wait, WaitFor, Wake};
