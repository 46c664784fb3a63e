//! The living parts that servers and workers run alike, each over a store and ignorant of the rest.

mod dispatcher;
mod endpoint_workers;
mod feed_tail;
mod follower;
mod idle_canceller;
mod leader;
mod live_settings;
mod publisher;
mod queue_policies;
mod receiver;
mod retention;
mod scheduler;
mod seals;
mod stats;
mod sweeper;
mod trigger_processor;

pub use dispatcher::Dispatcher;
pub use endpoint_workers::{EndpointWorkers, Endpoints};
pub use feed_tail::FeedTail;
pub use follower::{Follower, Reader, Start};
pub use idle_canceller::IdleCanceller;
pub use leader::{Leader, Leading, Reign};
pub use live_settings::LiveSettings;
pub use publisher::{Message, PublishError, Published, Publisher, Publishers, Publishing};
pub use queue_policies::QueuePolicies;
pub use receiver::{Received, Source};
pub use retention::Retention;
pub use scheduler::Scheduler;
pub use seals::SealReader;
pub use stats::StatsReader;
pub use sweeper::Sweeper;
pub use trigger_processor::TriggerProcessor;
