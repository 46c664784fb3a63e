//! The law of a store, executable.
//!
//! A law is a function in the module of its concern; its doc comment begins with the requirement ids it proves.
//! [`suite!`] expands every law into a test of one store, none skippable. After every law the invariants of
//! [`invariants`] are checked on everything the law left behind.

mod bed;
pub mod invariants;

pub mod enqueue;

pub use bed::*;

use std::future::Future;

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
    ($make:path) => {
        $crate::enqueue_laws!($make);
    };
}

/// The tests of one module's laws.
#[macro_export]
macro_rules! law_tests {
    ($make:path, $module:ident: $($law:ident),* $(,)?) => {
        mod $module {
            $(
                #[test]
                fn $law() {
                    $crate::run($make, $crate::$module::$law);
                }
            )*
        }
    };
}
