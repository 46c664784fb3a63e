//! Random lives on two stores at once: every answer, every event and everything that is left must be the same.

mod act;
mod around;
mod compare;
mod draw;
mod plan;
mod sql;
mod twins;

use crate::Made;
use plan::{Plan, Turn};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner, contextualize_config};
use proptest_state_machine::ReferenceStateMachine;
pub use sql::SqlApi;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use twins::{Tally, Twins};
use windlass_core::EventKind;

/// Where the lives of the suite begin: the same ones in every run, so that a failure can be seen again.
/// `make hunt` lives others, of a new seed each time.
const SEED: u64 = 6;

/// From so many turns on, every verb must have been carried out and refused at least once.
const TURNS_FOR_ALL: u64 = 15_000;

/// Compares two stores over random lives: `cases` of them unless `PROPTEST_CASES` says otherwise, from a fixed seed
/// unless `PROPTEST_RNG_SEED` does.
///
/// # Panics
/// When the stores differ, with the shortest life found that shows it.
pub fn differential<Modelling, Making>(cases: u32, model: impl Fn() -> Modelling, store: impl Fn() -> Making)
where
    Modelling: Future<Output = Made>,
    Making: Future<Output = Made>,
{
    let store = || async { (store().await, None) };
    compare_lives(cases, model, store);
}

/// The same for a store with an SQL API: some turns go through that.
///
/// # Panics
/// When the stores differ, with the shortest life found that shows it.
pub fn differential_with_sql<Modelling, Making>(
    cases: u32,
    model: impl Fn() -> Modelling,
    store: impl Fn() -> Making,
) where
    Modelling: Future<Output = Made>,
    Making: Future<Output = (Made, Arc<dyn SqlApi>)>,
{
    let store = || async {
        let (made, sql) = store().await;
        (made, Some(sql))
    };
    compare_lives(cases, model, store);
}

/// Compares a store that moves house at the end of each life with a model that does not: what has moved is what lived.
/// What is each house's own, its workers and its leader, stays behind.
///
/// # Panics
/// When the stores differ, with the shortest life found that shows it.
pub fn differential_moved<House, Modelling, Making, Moving>(
    cases: u32,
    model: impl Fn() -> Modelling,
    store: impl Fn() -> Making,
    moves: impl Fn(House) -> Moving,
) where
    Modelling: Future<Output = Made>,
    Making: Future<Output = (Made, House)>,
    Moving: Future<Output = Made>,
{
    lives(cases, |turns, seen| {
        let (model, store, moves) = (model(), store(), &moves);
        async move {
            let (left, (right, house)) = (model.await, store.await);
            let mut twins = Twins::new(left.store.clone(), right.store.clone(), None);
            live(&mut twins, &turns, seen.as_deref()).await?;
            let moved = moves(house).await;
            twins.store = moved.store.clone();
            // The model's workers have no new house to report themselves at.
            for worker in left.store.workers((), twins.now()).await.unwrap_or_default() {
                let removed = left.store.remove_worker(worker.id, twins.now()).await;
                removed.map_err(|error| TestCaseError::fail(error.to_string()))?;
            }
            let end = compare::what_moves(&mut twins).await;
            drop((left.keep, right.keep, moved.keep));
            end
        }
    });
}

fn compare_lives<Modelling, Making>(cases: u32, model: impl Fn() -> Modelling, store: impl Fn() -> Making)
where
    Modelling: Future<Output = Made>,
    Making: Future<Output = (Made, Option<Arc<dyn SqlApi>>)>,
{
    let coverage = Mutex::new(Coverage::default());
    lives(cases, |turns, seen| {
        let (model, store, coverage) = (model(), store(), &coverage);
        async move {
            let (left, (right, sql)) = (model.await, store.await);
            let mut twins = Twins::new(left.store.clone(), right.store.clone(), sql);
            let lived = live(&mut twins, &turns, seen.as_deref()).await;
            coverage.lock().expect("no life panics").add(&twins);
            drop((left.keep, right.keep));
            lived
        }
    });
    coverage.into_inner().expect("no life panics").check();
}

/// Lives, each to its end.
fn lives<Living>(cases: u32, life: impl Fn(Vec<Turn>, Option<Arc<AtomicUsize>>) -> Living)
where
    Living: Future<Output = Result<(), TestCaseError>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let base = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        rng_seed: RngSeed::Fixed(SEED),
        ..Config::default()
    };
    let mut runner = TestRunner::new(contextualize_config(base));
    let lived = runner
        .run(&Plan::sequential_strategy(20..80), |(_, turns, seen)| runtime.block_on(life(turns, seen)));
    match lived {
        Ok(()) => {}
        Err(TestError::Abort(why)) => panic!("no lives could be made: {why}"),
        Err(TestError::Fail(why, (_, turns, _))) => {
            let turns: Vec<String> = turns.iter().map(|turn| format!("{turn:?}")).collect();
            panic!("{why}\nthe shortest life found that shows it:\n{}", turns.join("\n"));
        }
    }
}

async fn live(twins: &mut Twins, turns: &[Turn], seen: Option<&AtomicUsize>) -> Result<(), TestCaseError> {
    for (n, turn) in turns.iter().enumerate() {
        if let Some(seen) = seen {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        twins.now = twins.now.plus_ms(turn.wait_ms);
        let taken = twins.takes(turn).await;
        taken.map_err(|error| TestCaseError::fail(format!("turn {n} ({:?}): {error}", turn.act)))?;
        twins.tells("turns", true);
    }
    compare::everything(twins).await
}

/// What all lives together did: calls by verb, events by type.
#[derive(Debug, Default)]
struct Coverage {
    /// Whether the store has an SQL API.
    has_sql: bool,
    verbs: Tally,
    written: BTreeMap<String, u64>,
}

impl Coverage {
    fn add(&mut self, twins: &Twins) {
        self.has_sql |= twins.sql.is_some();
        for (verb, (done, refused)) in &twins.tally {
            let entry = self.verbs.entry(verb).or_default();
            entry.0 += done;
            entry.1 += refused;
        }
        for (type_name, n) in &twins.written {
            *self.written.entry(type_name.clone()).or_default() += n;
        }
    }

    /// Every verb was carried out and refused, and every type of event written, unless there were too few turns
    /// to ask for that.
    fn check(mut self) {
        let turns = self.verbs.remove("turns").map_or(0, |(n, _)| n);
        let by_sql = self.verbs.remove("a turn by SQL").map_or(0, |(n, _)| n);
        if turns < TURNS_FOR_ALL {
            return;
        }
        let rare = |(verb, (done, refused)): (&&str, &(u64, u64))| {
            (*done == 0 || *refused == 0).then(|| format!("{verb}: {done} done, {refused} refused"))
        };
        let rare: Vec<String> = self.verbs.iter().filter_map(rare).collect();
        assert!(rare.is_empty(), "{turns} turns must reach every answer: {rare:?}");
        let types: Vec<_> = EventKind::TYPES.iter().filter(|t| !self.written.contains_key(**t)).collect();
        assert!(types.is_empty(), "{turns} turns must write every type of event, but not {types:?}");
        assert!(!self.has_sql || by_sql > turns / 50, "only {by_sql} of {turns} turns went through SQL");
        assert!(
            self.verbs.len() >= VERBS,
            "only {} of {VERBS} verbs were called: {self:?}",
            self.verbs.len()
        );
    }
}

/// How many verbs are counted.
const VERBS: usize = 36;
