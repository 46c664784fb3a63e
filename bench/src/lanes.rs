//! Lanes: what claims cost of a queue whose keys take turns, each with a limit, beside a plain queue of the same size.
//!
//! Both queues stand in one store and grow together. Then the keys of jobs that nobody may take yet are added, and last
//! one key with most of the jobs stands in front of many with one job each.

use crate::Tried;
use crate::cases::{self, KIND};
use crate::growth::{Cost, Costs, Growth, thousands};
use crate::measure::{clock, median, percentile};
use crate::retention::Numbers;
use crate::subject::Subject;
use std::collections::BTreeMap;
use std::time::Duration;
use windlass_core::lane::{LaneRule, Lanes};
use windlass_core::{Actor, Key, Name, NewJob, QueueLimits, RunAt, Who};
use windlass_store::{ClaimMany, Claimed, PutQueue, Store, fresh};

/// Jobs per enqueue.
const FILL: usize = 1_000;
/// Jobs per claim.
const CLAIM: usize = 100;
/// How many jobs of a key may run at once.
const PER_KEY: i32 = 2;
const CALLS: [&str; 4] = ["plain: claim 100", "plain: complete 100", "keys: claim 100", "keys: complete 100"];

const PLAIN: &str = "plain";
const KEYED: &str = "keyed";
const AFTER_ONE: &str = "after-one";
const WITHOUT_ONE: &str = "without-one";

/// How far to go.
pub struct Sizes {
    /// Pending jobs at the first level; there are three and ten times as many at the others.
    pub pending: usize,
    pub keys: usize,
    /// Claims per level and queue.
    pub rounds: usize,
}

/// Fills a store and measures; with what one key in front of others came to, and the ratios at each level.
pub async fn run(subject: &Subject, sizes: &Sizes, say: &dyn Fn(String)) -> Tried<(Growth, Vec<Numbers>)> {
    let store = &*subject.store;
    for queue in [KEYED, AFTER_ONE, WITHOUT_ONE] {
        limit(store, queue).await?;
    }
    let (mut levels, mut ratios, mut there) = (Vec::new(), Vec::new(), 0);
    for pending in [1, 3, 10].map(|by| by * sizes.pending) {
        say(format!("lanes: filling, {} pending in each queue", thousands(pending)));
        fill(store, PLAIN, there..pending, |_| None).await?;
        fill(store, KEYED, there..pending, |n| Some(format!("key-{}", n % sizes.keys))).await?;
        there = pending;
        let costs = measure(store, sizes, format!("{} pending", thousands(pending))).await?;
        ratios.push(costs.1);
        levels.push(costs.0);
    }
    let keys = sizes.keys * 10;
    say(format!("lanes: filling, {} keys of tomorrow", thousands(keys)));
    fill_with(store, KEYED, 0..keys, |n, job| {
        job.facts.run_at = RunAt::After(86_400_000);
        Some(format!("tomorrow-{n}"))
    })
    .await?;
    let costs = measure(store, sizes, format!("+ {} keys of tomorrow", thousands(keys))).await?;
    ratios.push(costs.1);
    levels.push(costs.0);
    ratios.push(one_in_front(store, sizes, say).await?);
    Ok((Growth { case: "lanes", calls: &CALLS, levels }, ratios))
}

async fn limit(store: &dyn Store, queue: &str) -> Tried<()> {
    let each = LaneRule { concurrency: Some(PER_KEY), ..LaneRule::default() };
    let lanes = Some(Lanes { each, keys: BTreeMap::new() });
    let flow = QueueLimits { lanes, ..QueueLimits::default() };
    let request = PutQueue { flow: Some(flow), ..PutQueue::new(Name::parse("queue", queue)?, Actor::api()) };
    store.put_queue(request, None).await??;
    Ok(())
}

async fn fill(
    store: &dyn Store,
    queue: &str,
    range: std::ops::Range<usize>,
    key: impl Fn(usize) -> Option<String>,
) -> Tried<()> {
    fill_with(store, queue, range, |n, _| key(n)).await
}

async fn fill_with(
    store: &dyn Store,
    queue: &str,
    range: std::ops::Range<usize>,
    make: impl Fn(usize, &mut NewJob) -> Option<String>,
) -> Tried<()> {
    for from in range.clone().step_by(FILL) {
        let mut jobs = cases::jobs(KIND, FILL.min(range.end - from))?;
        for (n, job) in (from..).zip(&mut jobs) {
            job.facts.queue = Name::parse("queue", queue)?;
            let key = make(n, job);
            job.facts.key = key.map(|key| Key::parse("key", key)).transpose()?;
        }
        cases::enqueue(store, jobs).await?;
    }
    Ok(())
}

/// Claims and completes in both queues in turn, and enqueues as many again.
async fn measure(store: &dyn Store, sizes: &Sizes, level: String) -> Tried<(Costs, Numbers)> {
    let mut times = CALLS.map(|_| Vec::new());
    for round in 0..sizes.rounds {
        for (n, queue) in [(0, PLAIN), (2, KEYED)] {
            let (claimed, took) = claim(store, queue).await?;
            if claimed.len() != CLAIM {
                return Err(format!("{} of {CLAIM} jobs were found in {queue}", claimed.len()).into());
            }
            times[n].push(took);
            let began = clock();
            cases::complete(store, claimed).await?;
            times[n + 1].push(began.elapsed());
            let key = |n: usize| (queue == KEYED).then(|| format!("key-{}", n % sizes.keys));
            fill(store, queue, round * CLAIM..(round + 1) * CLAIM, key).await?;
        }
    }
    let ms = |of: usize, part: f64| {
        let times: Vec<f64> = times[of].iter().map(|t| t.as_secs_f64() * 1e3).collect();
        percentile(&times, part).unwrap_or(f64::NAN)
    };
    let ratios = vec![
        ("claim of 100 keys/plain p50", ms(2, 0.5) / ms(0, 0.5)),
        ("p99", ms(2, 0.99) / ms(0, 0.99)),
        ("complete of 100 keys/plain p50", ms(3, 0.5) / ms(1, 0.5)),
    ];
    let calls = times.iter().map(|times| Cost::of_times(times)).collect();
    Ok((Costs { level, calls, claims_of_kind: None }, ratios))
}

async fn claim(store: &dyn Store, queue: &str) -> Tried<(Vec<Claimed>, Duration)> {
    let queue = Name::parse("queue", queue)?;
    let request = ClaimMany::new(Who::parse("worker", "bench")?, vec![queue], CLAIM, fresh::secret());
    let began = clock();
    let claimed = store.claim(request, None).await?;
    Ok((claimed, began.elapsed()))
}

/// One key with nine tenths of the jobs, all before those of many keys with one job each, and the same without it: what
/// claims cost until each of the many had its turn.
async fn one_in_front(store: &dyn Store, sizes: &Sizes, say: &dyn Fn(String)) -> Tried<Numbers> {
    let heavy = sizes.pending * 9;
    say(format!("lanes: filling, one key with {} jobs", thousands(heavy)));
    fill(store, AFTER_ONE, 0..heavy, |_| Some("heavy".to_owned())).await?;
    for queue in [AFTER_ONE, WITHOUT_ONE] {
        fill(store, queue, 0..sizes.keys, |n| Some(format!("key-{n}"))).await?;
    }
    let (mut times, mut claims, mut waiting) = ([Vec::new(), Vec::new()], 0, [sizes.keys; 2]);
    while waiting.iter().any(|waiting| *waiting > 0) {
        claims += 1;
        for (n, queue) in [WITHOUT_ONE, AFTER_ONE].into_iter().enumerate() {
            if waiting[n] == 0 {
                continue;
            }
            let (claimed, took) = claim(store, queue).await?;
            let of_others =
                |claimed: &&Claimed| claimed.facts.key.as_ref().is_some_and(|key| key.as_str() != "heavy");
            waiting[n] -= claimed.iter().filter(of_others).count();
            times[n].push(took.as_secs_f64() * 1e3);
            if claims > sizes.keys {
                return Err(format!("{waiting:?} keys had no turn in {claims} claims").into());
            }
            cases::complete(store, claimed).await?;
        }
    }
    let of = |n: usize| median(times[n].iter().copied()).unwrap_or(f64::NAN);
    Ok(vec![
        ("claim of 100 without the key p50 ms", of(0)),
        ("behind it p50 ms", of(1)),
        ("ratio", of(1) / of(0)),
        ("claims until all others had a turn", times[1].len() as f64),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use windlass_memory::MemoryStore;

    #[tokio::test]
    async fn every_level_is_filled_and_measured() {
        let subject = Subject::of(Arc::new(MemoryStore::new()));
        let sizes = Sizes { pending: 300, keys: 100, rounds: 2 };
        let (growth, ratios) = run(&subject, &sizes, &|_| ()).await.expect("a run");
        assert_eq!((growth.levels.len(), ratios.len()), (4, 5));
        assert!(growth.levels.iter().all(|at| at.calls.iter().all(|call| call.median_us.is_some())));
        let last = ratios.last().expect("one key in front");
        assert!(last.iter().any(|(name, n)| name.starts_with("claims until") && *n <= 4.0), "{last:?}");
    }
}
