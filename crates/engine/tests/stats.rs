//! Stats and problems from the feed: counted once, whoever leads, whatever dies, and the same when they are made again.

mod bed;

use bed::{Bed, DEADLINE, name, new_job, who};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_core::decide::Claim;
use windlass_core::follow::STATS;
use windlass_core::problem::{Sighting, Sightings};
use windlass_core::registry::Slots;
use windlass_core::stats::{Rollups, Standing, Tally};
use windlass_core::{Actor, Failure, Job, LeaseMs, Metadata, Outcome, RunAt, Timestamp};
use windlass_engine::Shutdown;
use windlass_engine::service::{Follower, Leader, Start, StatsReader};
use windlass_store::{
    Adopt, ClaimMany, Clocked, FeedEvent, Fork, ListProblems, ProblemView, Purge, PutWorker, ReadArchive,
    ReadAudit, ReadFeed, ReadGauges, ReadRollups, RebuildStats, Resolution, Restore, Rollup, Settle,
    SettleItem, Store, fresh,
};

/// How far a clock jumps.
const HOUR_MS: i64 = 3_600_000;

/// A process that leads and follows; it dies with the handle.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str) -> (Shutdown, tokio::task::AbortHandle) {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(4_000);
    let reader = StatsReader::new(Arc::clone(&bed.store));
    let follower = Follower::new(Arc::clone(&bed.store), leader.leading(), reader).expired(Start::Now);
    let shutdown = Shutdown::new();
    let ends = shutdown.clone();
    let handle = tasks.spawn(async move {
        tokio::join!(leader.run(ends.clone()), follower.run(ends));
    });
    (shutdown, handle)
}

/// Lives of every sort: done, failed, retried, released, cancelled, lost, forked.
async fn live(bed: &Bed, rounds: usize) {
    for round in 0..rounds {
        bed.put_all((0..6).map(|n| new_job(if n % 2 == 0 { "mail" } else { "sms" })).collect()).await;
        let lease_ms = LeaseMs::new(30_000).expect("a lease");
        let claim = Claim { worker: who("w"), secret: fresh::secret(), lease_ms };
        let many = ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max: 5, claim };
        let claimed = bed.store.claim(many, None).await.expect("the store");
        for (n, held) in claimed.iter().enumerate() {
            let error = Failure::new("smtp", &format!("order {round}{n} is lost")).expect("a failure");
            let outcome = match n {
                0 | 1 => Outcome::Complete(None),
                2 => Outcome::Fail { error, permanent: true, run_at: None },
                3 => Outcome::Fail { error, permanent: false, run_at: Some(RunAt::Now) },
                _ => Outcome::Release(RunAt::Now),
            };
            let item = SettleItem { job: held.job.id, token: held.lease.token, outcome };
            bed.store.settle(Settle { items: vec![item] }, None).await.expect("the store");
        }
        if let Some(dead) = claimed.get(2) {
            let (from, id) = (dead.job.id, fresh::job_id());
            let actor = Actor::engine();
            let fork = Fork { from, from_version: None, id, payload: None, actor, expected_version: None };
            bed.store.fork(fork, None).await.expect("the store").expect("forked");
        }
    }
}

/// The bed under a clock that is so many milliseconds ahead of this machine's.
fn clocked(bed: Bed) -> (Bed, Arc<AtomicI64>) {
    let ahead_ms = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&ahead_ms);
    let now = move || fresh::wall_clock().plus_ms(clock.load(Ordering::Acquire));
    (bed.around(|store| Clocked::new(store, now)).0, ahead_ms)
}

async fn whole_feed(store: &dyn Store) -> Vec<FeedEvent> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let request = ReadFeed { after, limit: 1_000, payloads: true };
        let page = store.feed(request, None).await.expect("the store").expect("a page");
        if page.events.is_empty() {
            return all;
        }
        all.extend(page.events);
        after = Some(page.next);
    }
}

/// What the log adds up to, without the engine: copies in a fork's log happened to another job.
async fn by_hand(bed: &Bed) -> (Vec<Rollup>, Vec<(String, i64, i64)>) {
    let feed = whole_feed(&*bed.store).await;
    let (mut rows, mut seen) = (Rollups::default(), Sightings::default());
    for fed in &feed {
        let log = bed.log(fed.event.job).await;
        let forked_at = log.iter().rfind(|e| e.what.type_name() == "job_forked").map_or(0, |e| e.version);
        if fed.event.version < forked_at {
            continue;
        }
        let before = Job::fold(&log[..fed.event.version as usize - 1]);
        let before = before.and_then(|job| Standing::of(&job).ok());
        rows.count(&fed.queue, &fed.kind, &fed.event, before, 1);
        if let Some(one) = Sighting::of(&fed.kind, &fed.event) {
            seen.add(one);
        }
    }
    let mut problems: Vec<(String, i64, i64)> = Vec::new();
    for one in seen.into_all() {
        match problems.iter_mut().find(|known| known.0 == one.fingerprint.as_str()) {
            Some(known) => (known.1, known.2) = (known.1 + one.errors, known.2 + one.dead),
            None => problems.push((one.fingerprint.to_string(), one.errors, one.dead)),
        }
    }
    problems.sort();
    (rows.into_rows(), problems)
}

async fn stored(bed: &Bed) -> (Vec<Rollup>, Vec<(String, i64, i64)>) {
    let mut rows = Vec::new();
    for resolution in Resolution::ALL {
        let (from, to) = (Timestamp::from_micros(0), fresh::wall_clock().plus_ms(86_400_000));
        let request = ReadRollups { resolution, from, to, queue: None, kind: None, limit: 100_000 };
        rows.extend(bed.store.rollups(request, None).await.expect("the store"));
    }
    let list = ListProblems { limit: 100, ..ListProblems::default() };
    let problems = bed.store.problems(list, None).await.expect("the store");
    let said = |view: &ProblemView| (view.problem.fingerprint.to_string(), view.errors, view.dead);
    let mut problems: Vec<_> = problems.iter().map(said).collect();
    problems.sort();
    (rows, problems)
}

/// Waits until what is stored is what the log says.
async fn agrees(bed: &Bed) {
    let expected = by_hand(bed).await;
    let agreed = async {
        while stored(bed).await != expected {
            sleep(Duration::from_millis(100)).await;
        }
    };
    if timeout(DEADLINE, agreed).await.is_err() {
        let found = stored(bed).await;
        panic!("stored {found:#?}\nexpected {expected:#?}");
    }
    // It stays so: nothing is counted again.
    sleep(Duration::from_secs(3)).await;
    assert_eq!(stored(bed).await, expected);
}

on_every_store! {
    /// R4: two leaders and a crash in the middle count every event once; made again from the log it is the same.
    #[test]
    async fn stats_are_those_of_the_log_whoever_leads(bed: Bed) {
        let mut tasks = JoinSet::new();
        live(&bed, 8).await;
        let (_, first) = process(&bed, &mut tasks, "a");
        live(&bed, 8).await;
        let (second, _) = process(&bed, &mut tasks, "b");
        first.abort();
        live(&bed, 8).await;
        agrees(&bed).await;
        let (rows, problems) = stored(&bed).await;
        let started = rows.iter().filter(|row| row.key.tally == Tally::Started && row.key.resolution == Resolution::Hour);
        assert_eq!(started.map(|row| row.count).sum::<i64>(), 120);
        assert_eq!(problems.len(), 2, "one message whatever its numbers, of two kinds: {problems:?}");
        bed.store.rebuild_stats(RebuildStats { since: None, actor: Actor::engine() }, None).await.expect("the store");
        agrees(&bed).await;
        second.graceful();
        live(&bed, 5).await;
        let (_third, _) = process(&bed, &mut tasks, "c");
        agrees(&bed).await;
    }

    /// R4: so it is with a clock that jumps an hour ahead and back between leaders, and is wrong when all is made again.
    #[test]
    async fn a_clock_that_jumps_counts_nothing_twice_and_leaves_nothing_out(bed: Bed) {
        let (bed, clock) = clocked(bed);
        let jump = |ms: i64| clock.store(ms, Ordering::Release);
        let mut tasks = JoinSet::new();
        let (_, first) = process(&bed, &mut tasks, "a");
        live(&bed, 4).await;
        agrees(&bed).await;
        // Its term is over by this clock; it leads anew, and then dies.
        jump(HOUR_MS);
        live(&bed, 4).await;
        let (second, _) = process(&bed, &mut tasks, "b");
        first.abort();
        live(&bed, 4).await;
        agrees(&bed).await;
        jump(-HOUR_MS);
        live(&bed, 4).await;
        agrees(&bed).await;
        let (rows, _) = stored(&bed).await;
        let hours = rows.iter().filter(|row| row.key.tally == Tally::Started && row.key.resolution == Resolution::Hour);
        let by_hour = hours.fold(BTreeMap::<Timestamp, i64>::new(), |mut sums, row| {
            *sums.entry(row.key.at).or_default() += row.count;
            sums
        });
        assert_eq!(by_hour.values().sum::<i64>(), 80, "{by_hour:?}");
        assert!(by_hour.len() >= 2, "some of it happened an hour later, as the clock said: {by_hour:?}");
        bed.store.rebuild_stats(RebuildStats { since: None, actor: Actor::engine() }, None).await.expect("the store");
        agrees(&bed).await;
        second.graceful();
        jump(HOUR_MS);
        live(&bed, 4).await;
        let (_third, _) = process(&bed, &mut tasks, "c");
        agrees(&bed).await;
        jump(0);
        live(&bed, 4).await;
        agrees(&bed).await;
    }

    /// (stats) The leader samples how many jobs of a queue are due, since when, how many run, and how many live workers could run.
    #[test]
    async fn the_leader_samples_how_queues_stand(bed: Bed) {
        let (bed, clock) = clocked(bed);
        clock.store(-HOUR_MS / 6, Ordering::Release);
        bed.put_all((0..3).map(|_| new_job("mail")).collect()).await;
        bed.put_with("mail", |facts| facts.queue = name("other")).await;
        clock.store(0, Ordering::Release);
        let claim = Claim { worker: who("w"), secret: fresh::secret(), lease_ms: LeaseMs::DEFAULT };
        let many = ClaimMany { from: None, queues: vec![name("default")], kinds: vec![], max: 1, claim };
        assert_eq!(bed.store.claim(many, None).await.expect("the store").len(), 1);
        // Not due.
        bed.put_with("mail", |facts| facts.run_at = RunAt::After(60_000)).await;
        for (id, queues, capacity, draining) in
            [("a", vec!["default"], 4, false), ("b", vec!["default", "idle"], 2, false), ("c", vec!["default"], 8, true)]
        {
            let put = PutWorker {
                id: who(id),
                queues: queues.into_iter().map(name).collect(),
                kinds: Vec::new(),
                capacity,
                slots: Slots::new(),
                labels: Metadata::new(),
                draining,
                ttl_ms: LeaseMs::new(60_000).expect("a lease"),
            };
            bed.store.put_worker(put, None).await.expect("the store");
        }
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a");
        for resolution in Resolution::ALL {
            let (from, to) = (Timestamp::from_micros(0), fresh::wall_clock().plus_ms(HOUR_MS));
            let sampled = async {
                loop {
                    let all = bed.store.gauges(ReadGauges { resolution, from, to }, None).await.expect("the store");
                    if !all.is_empty() {
                        return all;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            };
            let all = timeout(DEADLINE, sampled).await.expect("a sample");
            let stands = |queue: &str| {
                let of = all.iter().find(|gauge| gauge.queue.as_str() == queue).unwrap_or_else(|| panic!("{queue}: {all:?}"));
                (of.depth, of.busy, of.capacity)
            };
            assert_eq!([stands("default"), stands("idle"), stands("other")], [(2, 1, 6), (0, 0, 2), (1, 0, 0)]);
            for gauge in &all {
                let since_ms = if gauge.queue.as_str() == "idle" { 0..=0 } else { HOUR_MS / 6..=HOUR_MS / 6 + 60_000 };
                assert!(since_ms.contains(&gauge.oldest_ms), "{gauge:?}");
            }
        }
    }

    /// R4, T9: a job that comes back from the archive is not counted again.
    #[test]
    async fn a_restored_job_is_counted_once(bed: Bed) {
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a");
        live(&bed, 3).await;
        agrees(&bed).await;
        let before = stored(&bed).await;
        let finished_before = fresh::wall_clock().plus_ms(60_000);
        let ended = bed.store.archive(ReadArchive { finished_before, limit: 100 }, None).await.unwrap();
        assert_eq!(ended.len(), 9, "two done and one failed, three times");
        for one in ended {
            let (jobs, archive) = (vec![(one.job.id, one.job.version)], Some("part".to_owned()));
            assert_eq!(bed.store.purge(Purge { jobs, archive }, None).await, Ok(vec![Ok(())]));
            let restore = Restore { events: one.events, logs: one.logs, log_parts: one.log_parts, actor: Actor::engine() };
            bed.store.restore(restore, None).await.unwrap().unwrap();
        }
        agrees(&bed).await;
        assert_eq!(stored(&bed).await, before);
        live(&bed, 1).await;
        agrees(&bed).await;
    }

    /// J9, R4: a place of before a restore is said to be lost, in the audit too, and the reader goes on from now.
    #[test]
    async fn a_reader_that_lost_its_place_says_so_and_begins_again(bed: Bed) {
        let mut tasks = JoinSet::new();
        let (_, first) = process(&bed, &mut tasks, "a");
        live(&bed, 2).await;
        agrees(&bed).await;
        first.abort();
        bed.store.adopt(Adopt { actor: Actor::engine() }, None).await.expect("the store");
        let before = stored(&bed).await;
        let (_, _second) = process(&bed, &mut tasks, "b");
        let restarted = async {
            loop {
                let audit = bed.store.audit(ReadAudit { before: None, limit: 100 }, None).await.expect("the store");
                if audit.iter().any(|entry| entry.action.as_str() == "reader.restart" && entry.target == STATS) {
                    break;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(DEADLINE, restarted).await.expect("it is said");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(stored(&bed).await, before, "what was counted stays");
        live(&bed, 2).await;
        agrees(&bed).await;
    }
}
