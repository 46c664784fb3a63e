//! The shapes of the contract: what JSON comes in and goes out. They know the core's types, never a store's.

pub(crate) mod approval;
pub(crate) mod event;
pub(crate) mod filter;
pub(crate) mod job;
pub(crate) mod new_job;
pub(crate) mod object;
pub(crate) mod raw;
pub(crate) mod registry;
pub(crate) mod time;
