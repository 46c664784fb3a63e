//! The living parts that servers and workers run alike, each over a store and ignorant of the rest.

mod queue_policies;
mod sweeper;

pub use queue_policies::QueuePolicies;
pub use sweeper::Sweeper;
