//! The law of a store, executable.
//!
//! A law is a function in the module of its concern; its doc comment begins with the requirement ids it proves.
//! [`suite!`] expands every law into a test of one store, none skippable. After every law the invariants of
//! [`invariants`] are checked on everything the law left behind.

mod bed;
mod crowd;
mod differential;
mod fixtures;
pub mod invariants;

pub mod append;
pub mod approve;
pub mod assign;
pub mod backlog;
pub mod breaker;
pub mod claim;
pub mod debounce;
pub mod dispatch;
pub mod enqueue;
pub mod erase;
pub mod faults;
pub mod feed;
pub mod flow;
pub mod follow;
pub mod hand;
pub mod holds;
pub mod idle;
pub mod lanes;
pub mod lease;
pub mod limit;
pub mod list;
pub mod logs;
pub mod operate;
pub mod paper;
pub mod rates;
pub mod rearm;
pub mod registry;
pub mod retention;
pub mod schedule;
pub mod seals;
pub mod settings;
pub mod settle;
pub mod subscription;
pub mod sweep;
pub mod term;
pub mod trigger;
pub mod unreadable;
pub mod view;
pub mod vote;
pub mod wait;
pub mod wait_race;

pub use bed::*;
pub use crowd::a_crowd_of_keys;
pub use differential::{SqlApi, differential, differential_moved, differential_with_sql};
pub use fixtures::*;

use std::future::Future;
use std::pin::Pin;

/// A law on its way.
pub type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// Every law behind one type, so that it is compiled here once and not with every suite.
pub mod boxed {
    crate::suite!(boxed);
}

/// Runs one law on a fresh store, then the invariants.
pub fn run<Making, Lawful>(make: impl FnOnce() -> Making, law: impl FnOnce(Bed) -> Lawful)
where
    Making: Future<Output = Made>,
    Lawful: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let made = make().await;
        let bed = Bed::new(made.store.clone());
        law(bed.clone()).await;
        invariants::check(&bed).await;
        drop(made.keep);
    });
}

/// Every law as a test of the stores that `$make` makes: an `async fn() -> Made`.
#[macro_export]
macro_rules! suite {
    ($($make:tt)*) => {
        $crate::enqueue_laws!($($make)*);
        $crate::claim_laws!($($make)*);
        $crate::hand_laws!($($make)*);
        $crate::lanes_laws!($($make)*);
        $crate::rates_laws!($($make)*);
        $crate::holds_laws!($($make)*);
        $crate::debounce_laws!($($make)*);
        $crate::backlog_laws!($($make)*);
        $crate::breaker_laws!($($make)*);
        $crate::lease_laws!($($make)*);
        $crate::limit_laws!($($make)*);
        $crate::settle_laws!($($make)*);
        $crate::append_laws!($($make)*);
        $crate::operate_laws!($($make)*);
        $crate::wait_laws!($($make)*);
        $crate::wait_race_laws!($($make)*);
        $crate::flow_laws!($($make)*);
        $crate::rearm_laws!($($make)*);
        $crate::approve_laws!($($make)*);
        $crate::vote_laws!($($make)*);
        $crate::assign_laws!($($make)*);
        $crate::dispatch_laws!($($make)*);
        $crate::term_laws!($($make)*);
        $crate::schedule_laws!($($make)*);
        $crate::trigger_laws!($($make)*);
        $crate::subscription_laws!($($make)*);
        $crate::paper_laws!($($make)*);
        $crate::settings_laws!($($make)*);
        $crate::sweep_laws!($($make)*);
        $crate::list_laws!($($make)*);
        $crate::view_laws!($($make)*);
        $crate::feed_laws!($($make)*);
        $crate::follow_laws!($($make)*);
        $crate::retention_laws!($($make)*);
        $crate::logs_laws!($($make)*);
        $crate::erase_laws!($($make)*);
        $crate::seals_laws!($($make)*);
        $crate::idle_laws!($($make)*);
        $crate::registry_laws!($($make)*);
        $crate::faults_laws!($($make)*);
    };
}

/// The tests of one module's laws, or those laws behind one type.
#[macro_export]
macro_rules! law_tests {
    ([boxed], $module:ident: $($law:ident),* $(,)?) => {
        #[expect(missing_docs, reason = "said where the law is written")]
        pub mod $module {
            $(
                pub fn $law(bed: $crate::Bed) -> $crate::Boxed {
                    Box::pin($crate::$module::$law(bed))
                }
            )*
        }
    };
    ([$make:path], $module:ident: $($law:ident),* $(,)?) => {
        mod $module {
            $(
                #[test]
                fn $law() {
                    let law: fn($crate::Bed) -> $crate::Boxed = $crate::boxed::$module::$law;
                    $crate::run($make, law);
                }
            )*
        }
    };
}
