//! The living parts that servers and workers run alike, each over a store and ignorant of the rest.

mod dispatcher;
mod follower;
mod leader;
mod live_settings;
mod queue_policies;
mod retention;
mod scheduler;
mod stats;
mod sweeper;
mod trigger_processor;

pub use dispatcher::Dispatcher;
pub use follower::{Follower, Reader, Start};
pub use leader::{Leader, Leading};
pub use live_settings::LiveSettings;
pub use queue_policies::QueuePolicies;
pub use retention::Retention;
pub use scheduler::Scheduler;
pub use stats::StatsReader;
pub use sweeper::Sweeper;
pub use trigger_processor::TriggerProcessor;
