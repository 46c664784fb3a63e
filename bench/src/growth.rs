//! Growth: what one call costs in an empty store, and what the same call costs when millions of jobs lie around.
//!
//! One store is filled level by level, by its own verbs. At every level some jobs go through one call at a time,
//! and each call's cost is set against the same call's in the empty store.

use crate::Tried;
use crate::cases::{self, KIND};
use crate::measure::{Meter, clock, median};
use crate::subject::Subject;
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
const CALLS: [&str; 4] = ["enqueue 1", "enqueue 100", "claim 10 + settle", "claim 10 of a kind + settle"];

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

/// What calls cost while a store changes.
pub struct Growth {
    /// Of which case.
    pub case: &'static str,
    pub calls: &'static [&'static str],
    pub levels: Vec<Costs>,
}

/// The cost of each call at one level.
pub struct Costs {
    pub level: String,
    /// One for each of the calls.
    pub calls: Vec<Cost>,
    /// Claims of a kind until one brought something, on average.
    pub claims_of_kind: Option<f64>,
}

/// What one call costs; nothing is known when none came back in time.
pub struct Cost {
    /// Median time.
    pub median_us: Option<f64>,
    /// Mean time.
    pub mean_us: Option<f64>,
    /// Mean CPU time of the whole process. It tells more than the time when the machine is busy.
    pub cpu_us: Option<f64>,
    /// Mean CPU time of the database's server.
    pub server_cpu_us: Option<f64>,
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
pub async fn run(subject: &Subject, sizes: &Sizes, say: &dyn Fn(String)) -> Tried<Growth> {
    let (most, waiting) = (sizes.finished, sizes.waiting);
    let finished = [0, most / 50, most / 5, most].map(Level::Finished);
    let levels = finished.into_iter().chain([Level::Future(waiting), Level::Others(waiting)]);
    let (mut costs, mut finished) = (Vec::new(), 0);
    for level in levels {
        fill(&*subject.store, level, &mut finished, say).await?;
        let level = match level {
            Level::Finished(n) => format!("{} finished", thousands(n)),
            Level::Future(n) => format!("+ {} future, every priority", thousands(n)),
            Level::Others(n) => format!("+ {} due of other kinds", thousands(n)),
        };
        say(format!("growth: measuring, {level}"));
        costs.push(measure(subject, sizes.rounds, level).await?);
    }
    Ok(Growth { case: "growth", calls: &CALLS, levels: costs })
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

/// Claims and completes so many.
pub async fn drain(store: &dyn Store, worker: &Who, count: usize) -> Tried<()> {
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
async fn measure(subject: &Subject, rounds: usize, level: String) -> Tried<Costs> {
    let singles = cases::jobs(KIND, rounds)?.into_iter().map(|job| vec![job]).collect();
    let batches = (0..rounds.div_ceil(5)).map(|_| cases::jobs(KIND, BATCH)).collect::<Tried<Vec<_>>>()?;
    let claims = (rounds + BATCH * batches.len()) / CLAIM / 2;
    let single = enqueue_each(subject, singles).await?;
    let batch = enqueue_each(subject, batches).await?;
    let (of_any, _) = claim_each(subject, &[], claims).await?;
    let (of_kind, claims_of_kind) = claim_each(subject, &[Name::parse("kind", KIND)?], claims).await?;
    Ok(Costs { level, calls: vec![single, batch, of_any, of_kind], claims_of_kind: Some(claims_of_kind) })
}

async fn enqueue_each(subject: &Subject, requests: Vec<Vec<NewJob>>) -> Tried<Cost> {
    let (mut times, meter) = (Vec::new(), Meter::start(subject.database.as_ref()).await?);
    for jobs in requests {
        let began = clock();
        cases::enqueue(&*subject.store, jobs).await?;
        times.push(began.elapsed());
    }
    cost(&times, meter, subject).await
}

/// What it costs to get jobs and to complete them, empty answers included, and how many claims that needs.
async fn claim_each(subject: &Subject, kinds: &[Name], rounds: usize) -> Tried<(Cost, f64)> {
    let (worker, began) = (cases::worker(0)?, clock());
    let (mut times, mut claims) = (Vec::new(), 0);
    let meter = Meter::start(subject.database.as_ref()).await?;
    'rounds: for _ in 0..rounds {
        let round = clock();
        let claimed = loop {
            if began.elapsed() > BUDGET {
                break 'rounds;
            }
            claims += 1;
            let claimed = cases::claim(&*subject.store, &worker, kinds, CLAIM).await?;
            if !claimed.is_empty() {
                break claimed;
            }
        };
        cases::complete(&*subject.store, claimed).await?;
        times.push(round.elapsed());
    }
    let per_round = f64::from(claims) / times.len().max(1) as f64;
    Ok((cost(&times, meter, subject).await?, per_round))
}

async fn cost(times: &[Duration], meter: Meter, subject: &Subject) -> Tried<Cost> {
    let sample = meter.stop(subject.database.as_ref(), times.len()).await?;
    let some = |us: Option<f64>| us.filter(|_| !times.is_empty());
    Ok(Cost {
        cpu_us: some(sample.cpu_us()),
        server_cpu_us: some(sample.server_cpu_us()),
        ..Cost::of_times(times)
    })
}

impl Cost {
    /// Of how long each call took, and nothing else.
    pub fn of_times(times: &[Duration]) -> Self {
        let us = || times.iter().map(|t| t.as_secs_f64() * 1e6);
        let mean_us = (!times.is_empty()).then(|| us().sum::<f64>() / times.len() as f64);
        Self { median_us: median(us()), mean_us, cpu_us: None, server_cpu_us: None }
    }
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
    use std::sync::Arc;
    use windlass_core::Status;
    use windlass_memory::MemoryStore;
    use windlass_store::Jobs;

    #[tokio::test]
    async fn every_level_is_filled_and_measured() {
        let store = Arc::new(MemoryStore::new());
        let sizes = Sizes { finished: 2_000, waiting: 1_000, rounds: 10 };
        let costs = run(&Subject::of(store.clone()), &sizes, &|_| ()).await.unwrap().levels;
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
