//! Retention: what claims cost while finished jobs are archived and removed beside them, and how fast that goes.
//!
//! The same claims run twice at the same pace: alone in a store full of finished jobs, then beside a [`Pruner`] that archives
//! all of these to a folder and removes them.

use crate::Tried;
use crate::cases::{self, KIND};
use crate::growth::{drain, thousands};
use crate::measure::{Meter, clock, percentile};
use crate::subject::{Subject, folder};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use windlass_core::{Filter, Status, Timestamp};
use windlass_engine::archive::{Archive, Directory};
use windlass_engine::prune::{Pruned, Pruner};
use windlass_store::fresh::wall_clock;

/// Jobs per call while filling.
const FILL: usize = 1_000;
/// Jobs per claim.
const CLAIM: usize = 10;
/// A claim begins this long after the one before, or when that has ended.
const PACE: Duration = Duration::from_millis(10);

/// Names with their units, and values.
pub type Numbers = Vec<(&'static str, f64)>;

/// Fills a store with finished jobs, claims for some time, and goes on while the finished ones are removed.
pub async fn run(
    subject: &Subject,
    count: usize,
    alone: Duration,
    say: &dyn Fn(String),
) -> Tried<(Numbers, Pruned)> {
    let (worker, store) = (cases::worker(0)?, &*subject.store);
    say(format!("retention: filling, {} finished jobs", thousands(count)));
    for from in (0..count).step_by(FILL) {
        let some = FILL.min(count - from);
        cases::enqueue(store, cases::jobs(KIND, some)?).await?;
        drain(store, &worker, some).await?;
    }
    let (full_bytes, filled_at) = (subject.bytes().await?, wall_clock());
    say("retention: claims alone".to_owned());
    let (stop, stopped) = watch::channel(false);
    let end = async {
        tokio::time::sleep(alone).await;
        stop.send_replace(true);
    };
    let meter = Meter::start(subject.database.as_ref()).await?;
    let (usual, ()) = tokio::join!(claims(subject, stopped.clone()), end);
    let usual = usual?;
    let of_claims = meter.stop(subject.database.as_ref(), usual.len()).await?;
    say("retention: claims beside the removal".to_owned());
    stop.send_replace(false);
    let kept = folder()?;
    let archive: Arc<dyn Archive> = Arc::new(Directory::new(kept.path()));
    let pruner = Pruner::new(Arc::clone(&subject.store), Some(archive));
    let removal = async {
        let removed = remove(&pruner, filled_at, say).await;
        stop.send_replace(true);
        removed
    };
    let meter = Meter::start(subject.database.as_ref()).await?;
    let (beside, removed) = tokio::join!(claims(subject, stopped), removal);
    let (beside, removed) = (beside?, removed?);
    let sample = meter.stop(subject.database.as_ref(), removed.removed).await?;
    if removed.removed != count || !removed.stayed.is_empty() {
        return Err(format!("{} of {count} jobs were removed: {removed:?}", removed.removed).into());
    }
    let mut numbers = vec![
        ("claim alone p50 ms", of(&usual, 0.5)),
        ("p99", of(&usual, 0.99)),
        ("claim beside p50 ms", of(&beside, 0.5)),
        ("its p99", of(&beside, 0.99)),
        ("ratio p50", of(&beside, 0.5) / of(&usual, 0.5)),
        ("ratio p99", of(&beside, 0.99) / of(&usual, 0.99)),
        ("removed/s", sample.per_second()),
    ];
    let per_claim = of_claims.wal_bytes().unwrap_or_default();
    numbers.extend(sample.wal_bytes().map(|bytes| {
        ("WAL B per removed job", bytes - per_claim * beside.len() as f64 / removed.removed as f64)
    }));
    let mb = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1e6);
    numbers.extend(mb(full_bytes).map(|mb| ("store before MB", mb)));
    numbers.extend(mb(subject.bytes().await?).map(|mb| ("store after MB", mb)));
    numbers.push(("archive MB", folder_bytes(kept.path())? as f64 / 1e6));
    Ok((numbers, removed))
}

fn of(times: &[f64], part: f64) -> f64 {
    percentile(times, part).unwrap_or(f64::NAN)
}

/// Claims a few jobs at a time, at a pace, until told to stop; answers how long each claim and settle took, in milliseconds.
async fn claims(subject: &Subject, stopped: watch::Receiver<bool>) -> Tried<Vec<f64>> {
    let (worker, store) = (cases::worker(1)?, &*subject.store);
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut times = Vec::new();
    while !*stopped.borrow() {
        pace.tick().await;
        cases::enqueue(store, cases::jobs(KIND, CLAIM)?).await?;
        let began = clock();
        let claimed = cases::claim(store, &worker, &[], CLAIM).await?;
        if cases::complete(store, claimed).await? != CLAIM {
            return Err("a claim did not find what was enqueued before it".into());
        }
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// Removes what was finished before the claims began.
async fn remove(pruner: &Pruner, before: Timestamp, say: &dyn Fn(String)) -> Tried<Pruned> {
    let mut done = Pruned::default();
    let statuses = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
    let filter = Filter { statuses, finished_before: Some(before), ..Filter::default() };
    let began = clock();
    let (send, mut said) = watch::channel(0);
    let removal = async {
        let report = |done: &Pruned| {
            send.send_replace(done.removed / 100_000);
        };
        let removed = pruner.remove(filter, |_| true, report, &mut done).await;
        drop(send);
        removed
    };
    let progress = async {
        while said.changed().await.is_ok() {
            let (parts, took) = (*said.borrow_and_update(), began.elapsed().as_secs());
            say(format!("retention: {} removed, {took} s", thousands(parts * 100_000)));
        }
    };
    let (removed, ()) = tokio::join!(removal, progress);
    removed?;
    Ok(done)
}

fn folder_bytes(folder: &std::path::Path) -> Tried<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        bytes += if is_folder { folder_bytes(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_memory::MemoryStore;

    #[tokio::test]
    async fn claims_are_measured_alone_and_beside_the_removal() {
        let subject = Subject::of(Arc::new(MemoryStore::new()));
        let (numbers, removed) =
            run(&subject, 1_500, Duration::from_millis(100), &|_| ()).await.expect("a run");
        assert_eq!((removed.matched, removed.archived, removed.removed), (1_500, 1_500, 1_500));
        let of = |name| numbers.iter().find(|(of, _)| *of == name).map(|(_, n)| *n).expect(name);
        assert!(of("ratio p50") > 0.0 && of("removed/s") > 0.0 && of("archive MB") > 0.0, "{numbers:?}");
    }
}
