//! Pinned: what calls cost while an old transaction is open. It keeps every dead version of every row, and with them
//! the entries of the index that claims read, so a claim that starts at the head of the line wades through all of it.

use crate::Tried;
use crate::cases::{self, KIND};
use crate::growth::{Cost, Costs, Growth, thousands};
use crate::measure::clock;
use crate::subject::Subject;

/// Jobs per call.
const BATCH: usize = 500;
/// Stretches that the whole is cut into.
const PARTS: usize = 8;
const CALLS: [&str; 3] = ["enqueue 500", "claim 500", "complete 500"];

/// Lets `count` jobs pass while a transaction is open that began before them.
pub async fn run(subject: &Subject, count: usize, say: &dyn Fn(String)) -> Tried<Growth> {
    let Some(database) = &subject.database else { return Err("pinned is about PostgreSQL".into()) };
    let old = database.connect().await?;
    // A snapshot is taken with the first statement, and is kept to the end.
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM windlass.jobs").await?;
    let (worker, rounds) = (cases::worker(0)?, (count / BATCH / PARTS).max(1));
    let mut levels = Vec::new();
    for part in 0..PARTS {
        let (from, to) = (part * rounds * BATCH, (part + 1) * rounds * BATCH);
        say(format!("pinned: from {} to {} jobs", thousands(from), thousands(to)));
        let mut times = CALLS.map(|_| Vec::new());
        for _ in 0..rounds {
            let jobs = cases::jobs(KIND, BATCH)?;
            let began = clock();
            cases::enqueue(&*subject.store, jobs).await?;
            times[0].push(began.elapsed());
            let mut left = BATCH;
            while left > 0 {
                let began = clock();
                let claimed = cases::claim(&*subject.store, &worker, &[], left).await?;
                times[1].push(began.elapsed());
                let began = clock();
                match cases::complete(&*subject.store, claimed).await? {
                    0 => return Err(format!("{left} of {BATCH} jobs were not found").into()),
                    n => left -= n,
                }
                times[2].push(began.elapsed());
            }
        }
        let level = format!("{} to {} jobs", thousands(from), thousands(to));
        let calls = times.iter().map(|t| Cost::of_times(t)).collect();
        levels.push(Costs { level, calls, claims_of_kind: None });
    }
    old.batch_execute("COMMIT").await?;
    Ok(Growth { case: "pinned", calls: &CALLS, levels })
}
