//! The living parts that servers and workers run alike, each over a store and ignorant of the rest.

mod leader;
mod queue_policies;
mod scheduler;
mod sweeper;

pub use leader::{Leader, Leading};
pub use queue_policies::QueuePolicies;
pub use scheduler::Scheduler;
pub use sweeper::Sweeper;
