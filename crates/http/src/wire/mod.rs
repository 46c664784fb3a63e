//! The JSON contract, both ways: what comes in and goes out of a server, once, for the server, the command line and every
//! other client in Rust. The shapes know the core's types, never a store's.
//!
//! A body is an object with known fields and nothing else; an answer may gain fields, which a reader passes over.
//!
//! ```
//! use windlass_http::wire::new_job::NewJobShape;
//! use windlass_http::wire::time::Span;
//!
//! let job = NewJobShape { kind: "report".into(), timeout: Some(Span::from_ms(90_000)), ..Default::default() };
//! let text = serde_json::to_string(&job).unwrap();
//! assert_eq!(text, r#"{"kind":"report","timeout":90}"#);
//! let read: NewJobShape = serde_json::from_str(r#"{"kind":"report","timeout":"1m30s"}"#).unwrap();
//! assert_eq!(read.timeout, job.timeout);
//! assert!(serde_json::from_str::<NewJobShape>(r#"{"kind":"report","colour":"red"}"#).is_err());
//! ```

pub mod alert;
pub mod append;
pub mod approval;
pub mod claim;
pub mod control;
pub mod enqueue;
pub mod event;
pub mod filter;
pub mod flow;
pub mod job;
pub mod lane;
pub mod new_job;
pub(crate) mod object;
pub mod operate;
pub mod operation;
pub mod paper;
pub mod raw;
pub mod registry;
pub mod schedule;
pub mod settings;
pub mod settle;
pub mod stats;
pub mod subscription;
pub mod time;
pub mod trigger;
