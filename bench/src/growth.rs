//! Growth: what one call costs in an empty store, and what the same call costs when millions of jobs lie around.
//!
//! One store is filled level by level, by its own verbs. At every level some jobs go through one call at a time,
//! and each call's cost is set against the same call's in the empty store.

use crate::Tried;
use crate::cases::{self, KIND};
use crate::measure::{Meter, clock, median};
use std::time::Duration;
use windlass_core::{Name, NewJob, Who};
use windlass_store::Store;

/// Jobs per call while filling: the most that one claim hands out.
const FILL: usize = 1_000;
/// Jobs per batch enqueue that is measured.
const BATCH: usize = 100;
/// Jobs per claim that is measured.
const CLAIM: usize = 10;
/// Kinds of the jobs that nobody asks for.
const OTHER_KINDS: usize = 10;
/// One call is measured no longer than this at one level.
const BUDGET: Duration = Duration::from_secs(20);

/// What is measured at every level.
pub const CALLS: [&str; 4] = ["enqueue 1", "enqueue 100", "claim 10 + settle", "claim 10 of a kind + settle"];

/// What a store was filled with, on top of the level before.
#[derive(Debug, Clone, Copy)]
enum Level {
    /// Finished jobs, so many in all.
    Finished(usize),
    /// Jobs that are due tomorrow, of every priority.
    Future(usize),
    /// Due jobs of kinds that no claim of a kind asks for, all before the measured ones.
    Others(usize),
}

/// The cost of each call at one level.
pub struct Costs {
    pub level: String,
    /// One for each of [`CALLS`].
    pub calls: [Cost; 4],
    /// Claims of a kind until one brought something, on average.
    pub claims_of_kind: f64,
}

/// What one call costs; nothing is known when none came back in time.
pub struct Cost {
    /// Median time.
    pub median_us: Option<f64>,
    /// Mean CPU time of the whole process. It tells more than the time when the machine is busy.
    pub cpu_us: Option<f64>,
}

/// How far to go.
pub struct Sizes {
    /// Finished jobs at the last of their levels.
    pub finished: usize,
    /// Future jobs, and then due jobs of other kinds.
    pub waiting: usize,
    /// Single enqueues per level; the other calls follow from it.
    pub rounds: usize,
}

/// Fills a store and measures at every level, with a word to `say` now and then.
pub async fn run(store: &dyn Store, sizes: &Sizes, say: &dyn Fn(String)) -> Tried<Vec<Costs>> {
    let (most, waiting) = (sizes.finished, sizes.waiting);
    let finished = [0, most / 50, most / 5, most].map(Level::Finished);
    let levels = finished.into_iter().chain([Level::Future(waiting), Level::Others(waiting)]);
    let (mut costs, mut finished) = (Vec::new(), 0);
    for level in levels {
        fill(store, level, &mut finished, say).await?;
        let level = match level {
            Level::Finished(n) => format!("{} finished", thousands(n)),
            Level::Future(n) => format!("+ {} future, every priority", thousands(n)),
            Level::Others(n) => format!("+ {} due of other kinds", thousands(n)),
        };
        say(format!("growth: measuring, {level}"));
        costs.push(measure(store, sizes.rounds, level).await?);
    }
    Ok(costs)
}

async fn fill(store: &dyn Store, level: Level, finished: &mut usize, say: &dyn Fn(String)) -> Tried<()> {
    let (from, to, what) = match level {
        Level::Finished(n) => (std::mem::replace(finished, n), n, "finished"),
        Level::Future(n) => (0, n, "future"),
        Level::Others(n) => (0, n, "of other kinds"),
    };
    let (worker, began) = (cases::worker(0)?, clock());
    for at in (from..to).step_by(FILL) {
        if (at - from).is_multiple_of(FILL * 100) {
            let (at, to, took) = (thousands(at), thousands(to), began.elapsed().as_secs());
            say(format!("growth: filling, {at} of {to} {what}, {took} s"));
        }
        let count = FILL.min(to - at);
        match level {
            Level::Finished(_) => {
                cases::enqueue(store, cases::jobs(KIND, count)?).await?;
                drain(store, &worker, count).await?;
            }
            Level::Future(_) => cases::enqueue(store, cases::future_jobs(count)?).await?,
            Level::Others(_) => cases::enqueue(store, jobs_of_other_kinds(count)?).await?,
        }
    }
    Ok(())
}

async fn drain(store: &dyn Store, worker: &Who, count: usize) -> Tried<()> {
    let mut done = 0;
    while done < count {
        match cases::complete(store, cases::claim(store, worker, &[], FILL).await?).await? {
            0 => return Err(format!("{done} of {count} jobs were found").into()),
            n => done += n,
        }
    }
    Ok(())
}

fn jobs_of_other_kinds(count: usize) -> Tried<Vec<NewJob>> {
    let mut jobs = cases::jobs(KIND, count)?;
    for (n, job) in jobs.iter_mut().enumerate() {
        job.facts.kind = Name::parse("kind", format!("other-{}", n % OTHER_KINDS))?;
    }
    Ok(jobs)
}

/// Measures every call. What is enqueued here is claimed here, except at the last level, where claims of any kind
/// find the other kinds first.
async fn measure(store: &dyn Store, rounds: usize, level: String) -> Tried<Costs> {
    let singles = cases::jobs(KIND, rounds)?.into_iter().map(|job| vec![job]).collect();
    let batches = (0..rounds.div_ceil(5)).map(|_| cases::jobs(KIND, BATCH)).collect::<Tried<Vec<_>>>()?;
    let claims = (rounds + BATCH * batches.len()) / CLAIM / 2;
    let single = enqueue_each(store, singles).await?;
    let batch = enqueue_each(store, batches).await?;
    let (of_any, _) = claim_each(store, &[], claims).await?;
    let (of_kind, claims_of_kind) = claim_each(store, &[Name::parse("kind", KIND)?], claims).await?;
    Ok(Costs { level, calls: [single, batch, of_any, of_kind], claims_of_kind })
}

async fn enqueue_each(store: &dyn Store, requests: Vec<Vec<NewJob>>) -> Tried<Cost> {
    let (mut times, meter) = (Vec::new(), Meter::start());
    for jobs in requests {
        let began = clock();
        cases::enqueue(store, jobs).await?;
        times.push(began.elapsed());
    }
    Ok(cost(&times, meter))
}

/// What it costs to get jobs and to complete them, empty answers included, and how many claims that needs.
async fn claim_each(store: &dyn Store, kinds: &[Name], rounds: usize) -> Tried<(Cost, f64)> {
    let (worker, began) = (cases::worker(0)?, clock());
    let (mut times, mut claims, meter) = (Vec::new(), 0, Meter::start());
    'rounds: for _ in 0..rounds {
        let round = clock();
        let claimed = loop {
            if began.elapsed() > BUDGET {
                break 'rounds;
            }
            claims += 1;
            let claimed = cases::claim(store, &worker, kinds, CLAIM).await?;
            if !claimed.is_empty() {
                break claimed;
            }
        };
        cases::complete(store, claimed).await?;
        times.push(round.elapsed());
    }
    let per_round = f64::from(claims) / times.len().max(1) as f64;
    Ok((cost(&times, meter), per_round))
}

fn cost(times: &[Duration], meter: Meter) -> Cost {
    let cpu_us = meter.stop(times.len()).cpu_us().filter(|_| !times.is_empty());
    Cost { median_us: median(times.iter().map(|t| t.as_secs_f64() * 1e6)), cpu_us }
}

/// A number with commas.
pub fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::Status;
    use windlass_memory::MemoryStore;
    use windlass_store::Jobs;

    #[tokio::test]
    async fn every_level_is_filled_and_measured() {
        let store = MemoryStore::new();
        let sizes = Sizes { finished: 2_000, waiting: 1_000, rounds: 10 };
        let costs = run(&store, &sizes, &|_| ()).await.unwrap();
        assert_eq!(costs.len(), 6);
        assert!(costs.iter().all(|c| c.calls.iter().all(|call| call.median_us.is_some())));
        let counts = store.counts(1_000_000, None).await.unwrap().statuses;
        let count = |status| counts.iter().find(|(s, _)| *s == status).map_or(0, |(_, count)| count.n);
        // 10 single jobs and 2 batches of 100 pass at each of 6 levels, and 10 claims of 10 take 10 fewer.
        assert!(count(Status::Completed) >= 2_000 + 6 * 200, "{counts:?}");
        assert!(count(Status::Pending) >= 1_000 + 1_000 - 6 * 200, "{counts:?}");
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!([0, 999, 1_000, 5_000_000].map(thousands), ["0", "999", "1,000", "5,000,000"]);
    }
}
