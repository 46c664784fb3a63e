//! Log lines in two places: old ones move to the archive and are read as before, whatever is full, killed or locked.

mod bed;

use async_trait::async_trait;
use bed::{Bed, DEADLINE, until, who};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_core::decide::Claim;
use windlass_core::settings::Settings;
use windlass_core::{Actor, Filter, JobId, LeaseMs, LogLine, Refusal, Status, Timestamp};
use windlass_engine::Shutdown;
use windlass_engine::archive::{Archive, ArchiveError, Directory, Edit, find, segments};
use windlass_engine::logs::{LogMover, MovedLogs, ReadLogsError, read_logs, with_parts};
use windlass_engine::prune::{PruneError, Pruned, Pruner};
use windlass_engine::service::{Leader, Leading, LiveSettings, Retention};
use windlass_store::{
    AcquireTerm, Cancel, ClaimOne, Claimed, PutSettings, ReadLogs, Restore, WriteLogs, fresh,
};

/// What happens when a segment is brought to the archive.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    /// The disk is full.
    Full,
    /// It is durable, and its process does nothing any more.
    Hang,
}

/// A folder with trouble.
#[derive(Debug)]
struct Trouble {
    inner: Directory,
    then: Mutex<Then>,
    tries: AtomicUsize,
    is_done: AtomicBool,
}

#[async_trait]
impl Archive for Trouble {
    fn place(&self) -> String {
        self.inner.place()
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        self.tries.fetch_add(1, Ordering::AcqRel);
        let then = *self.then.lock().expect("a lock");
        if then == Then::Full {
            return Err(ArchiveError::new(name, "written", io::Error::from(io::ErrorKind::StorageFull)));
        }
        self.inner.put(name, bytes).await?;
        if name.ends_with(".zst") {
            self.is_done.store(true, Ordering::Release);
            if then == Then::Hang {
                std::future::pending::<()>().await;
            }
        }
        Ok(())
    }

    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        self.inner.get(name).await
    }

    async fn list(&self) -> Result<Vec<String>, ArchiveError> {
        self.inner.list().await
    }

    async fn rewrite(&self, name: &str, edit: Edit) -> Result<bool, ArchiveError> {
        self.inner.rewrite(name, edit).await
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        self.inner.remove(name).await
    }
}

fn trouble(inner: &Directory, then: Then) -> Arc<Trouble> {
    let (tries, is_done) = (AtomicUsize::default(), AtomicBool::default());
    Arc::new(Trouble { inner: inner.clone(), then: Mutex::new(then), tries, is_done })
}

async fn held(bed: &Bed) -> Claimed {
    let job = bed.put("prints").await;
    let lease_ms = LeaseMs::new(3_600_000).expect("a lease");
    let claim = Claim { worker: who("w"), secret: fresh::secret(), lease_ms };
    bed.store.claim_one(ClaimOne { job, claim }, None).await.expect("the store").expect("claimed")
}

async fn prints(bed: &Bed, held: &Claimed, lines: std::ops::Range<usize>) {
    let lines = lines.map(|n| format!("line {n}")).collect();
    let write = WriteLogs { job: held.job.id, token: held.lease.token, lines };
    bed.store.write_logs(write, None).await.expect("the store").expect("the holder may write");
}

/// Every line of a job, page by page, as a reader with a cursor gets them.
async fn all(bed: &Bed, archive: Option<&dyn Archive>, job: JobId, limit: usize) -> Vec<LogLine> {
    let mut lines: Vec<LogLine> = Vec::new();
    loop {
        let after = lines.last().map_or(0, |line| line.n);
        let page = read_logs(&*bed.store, archive, ReadLogs { job, after, limit }).await.expect("it reads");
        let is_end = page.len() < limit;
        lines.extend(page);
        if is_end {
            return lines;
        }
    }
}

/// How many lines of a job are in the store, up to 1,000.
async fn here(bed: &Bed, job: JobId) -> usize {
    let read = ReadLogs { job, after: 0, limit: 1_000 };
    bed.store.logs(read, None).await.expect("the store").len()
}

async fn leads(bed: &Bed) -> i64 {
    let ttl_ms = LeaseMs::new(600_000).expect("a length of time");
    let wish = AcquireTerm { name: Leading::term(), holder: who("a"), ttl_ms };
    bed.store.acquire_term(wish, None).await.expect("the store").expect("free").epoch
}

async fn moves(
    bed: &Bed,
    archive: &Directory,
    epoch: i64,
    before: Timestamp,
) -> Result<MovedLogs, PruneError> {
    let mover = LogMover::new(Arc::clone(&bed.store), Arc::new(archive.clone()), epoch);
    let mut done = MovedLogs::default();
    mover.run(before, &mut done).await.map(|()| done)
}

fn later() -> Timestamp {
    fresh::wall_clock().plus_ms(60_000)
}

/// A process that leads and moves; it dies with the set.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str, archive: Arc<dyn Archive>) {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(2_000);
    let retention = Retention::new(
        Arc::clone(&bed.store),
        leader.leading(),
        LiveSettings::new(Arc::clone(&bed.store)),
        Some(archive),
    );
    let shutdown = Shutdown::new();
    tasks.spawn(async move {
        tokio::join!(leader.run(shutdown.clone()), retention.run(shutdown));
    });
}

async fn keep(bed: &Bed, log_bodies_kept_ms: Option<i64>) {
    let state = bed.store.settings((), None).await.expect("the store");
    let settings = Settings { log_bodies_kept_ms, ..state.settings };
    let put = PutSettings { settings, expected_version: state.version, actor: Actor::engine() };
    bed.store.put_settings(put, None).await.expect("the store").expect("set");
}

async fn until_moved(bed: &Bed, job: JobId, left: usize) {
    let looked = async {
        while here(bed, job).await != left {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(DEADLINE, looked).await.is_ok(), "its lines never moved");
}

on_every_store! {
    /// R11: what was in the store and what is in the archive read as one log: the same lines, numbers and cursors; of a job
    /// that runs the recent ones stay, and new ones go on from there.
    #[test]
    async fn lines_that_moved_are_read_as_before(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let epoch = leads(&bed).await;
        let (many, few) = (held(&bed).await, held(&bed).await);
        for part in 0..3 {
            prints(&bed, &many, part * 900..(part + 1) * 900).await;
        }
        prints(&bed, &few, 0..3).await;
        sleep(Duration::from_millis(5)).await;
        let cut = fresh::wall_clock();
        sleep(Duration::from_millis(5)).await;
        prints(&bed, &many, 2_700..2_750).await;
        let before = [all(&bed, None, many.job.id, 1_000).await, all(&bed, None, few.job.id, 1_000).await];
        assert_eq!((before[0].len(), before[1].len()), (2_750, 3));
        let done = moves(&bed, &archive, epoch, cut).await.unwrap();
        assert_eq!(done, MovedLogs { moved: 2_703, resumed: 0, waiting: 0 });
        assert_eq!((here(&bed, many.job.id).await, here(&bed, few.job.id).await), (50, 0), "the recent ones stay");
        for limit in [7, 999, 1_000] {
            assert_eq!(all(&bed, Some(&archive), many.job.id, limit).await, before[0]);
        }
        assert_eq!(all(&bed, Some(&archive), few.job.id, 2).await, before[1]);
        assert_eq!(moves(&bed, &archive, epoch, cut).await.unwrap(), MovedLogs::default(), "nothing is left to do");
        prints(&bed, &many, 2_750..2_751).await;
        assert_eq!(all(&bed, Some(&archive), many.job.id, 1_000).await.last().map(|line| line.n), Some(2_751));
        assert_eq!(moves(&bed, &archive, epoch, later()).await.unwrap().moved, 51);
        assert_eq!(all(&bed, Some(&archive), many.job.id, 1_000).await[..2_750], before[0]);
        let read = ReadLogs { job: many.job.id, after: 2_700, limit: 9 };
        let refused = read_logs(&*bed.store, None, read).await;
        let Err(ReadLogsError::Away { part, .. }) = refused else { panic!("a gap is not hidden: {refused:?}") };
        assert!(part.first > 2_700 && part.last == 2_751, "{part:?}");
        std::fs::remove_file(folder.path().join(&part.part)).unwrap();
        let refused = read_logs(&*bed.store, Some(&archive), read).await;
        assert!(matches!(refused, Err(ReadLogsError::Away { .. })), "{refused:?}");
    }

    /// R11, R15: the leader moves what is older than the setting says; killed between archive and removal, nothing is lost,
    /// shown twice or archived again.
    #[test]
    async fn a_killed_move_is_gone_on_with(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let job = held(&bed).await;
        prints(&bed, &job, 0..30).await;
        let before = all(&bed, None, job.job.id, 1_000).await;
        sleep(Duration::from_millis(1_100)).await;
        let hangs = trouble(&archive, Then::Hang);
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "dies", Arc::clone(&hangs) as Arc<dyn Archive>);
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(hangs.tries.load(Ordering::Acquire), 0, "without the setting nothing moves");
        keep(&bed, Some(1_000)).await;
        until("they are archived", || hangs.is_done.load(Ordering::Acquire)).await;
        tasks.shutdown().await;
        assert_eq!(here(&bed, job.job.id).await, 30, "not gone yet");
        assert_eq!(all(&bed, Some(&archive), job.job.id, 7).await, before, "each once");
        process(&bed, &mut tasks, "next", Arc::new(archive.clone()));
        until_moved(&bed, job.job.id, 0).await;
        assert_eq!(all(&bed, Some(&archive), job.job.id, 7).await, before, "each once");
        until("the note is gone", || {
            let left = std::fs::read_dir(folder.path()).unwrap();
            left.map(|entry| entry.unwrap().path()).all(|path| path.extension().unwrap() == "zst")
        }).await;
        tasks.shutdown().await;
        assert_eq!(archive.list().await.unwrap().len(), 1, "archived once");
    }

    /// R11: while the archive takes nothing, nothing leaves the store.
    #[test]
    async fn nothing_leaves_while_the_archive_is_full(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let job = held(&bed).await;
        prints(&bed, &job, 0..30).await;
        let before = all(&bed, None, job.job.id, 1_000).await;
        sleep(Duration::from_millis(1_100)).await;
        let full = trouble(&archive, Then::Full);
        keep(&bed, Some(1_000)).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "full", Arc::clone(&full) as Arc<dyn Archive>);
        until("it was tried", || full.tries.load(Ordering::Acquire) > 0).await;
        sleep(Duration::from_millis(200)).await;
        assert_eq!(all(&bed, None, job.job.id, 1_000).await, before);
        *full.then.lock().unwrap() = Then::Nothing;
        keep(&bed, Some(1_001)).await;
        until_moved(&bed, job.job.id, 0).await;
        assert_eq!(all(&bed, Some(&*full), job.job.id, 1_000).await, before);
        tasks.shutdown().await;
    }

    /// R4, R11: who does not lead any more moves nothing; what it had archived is gone on with by who does.
    #[test]
    async fn an_old_leader_moves_nothing(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let epoch = leads(&bed).await;
        let job = held(&bed).await;
        prints(&bed, &job, 0..3).await;
        let refused = moves(&bed, &archive, epoch - 1, later()).await;
        assert!(matches!(refused, Err(PruneError::Refused(Refusal::StaleEpoch(_)))), "{refused:?}");
        assert_eq!(here(&bed, job.job.id).await, 3);
        let done = moves(&bed, &archive, epoch, later()).await.unwrap();
        assert_eq!(done, MovedLogs { moved: 3, resumed: 3, waiting: 0 });
        assert_eq!(archive.list().await.unwrap().len(), 1, "archived once");
    }

    /// R11, T9: a job whose older lines moved goes with a reference to them, is read whole in the archive, and comes back so.
    #[test]
    async fn a_removed_job_keeps_the_way_to_its_older_lines(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let epoch = leads(&bed).await;
        let job = held(&bed).await;
        let id = job.job.id;
        prints(&bed, &job, 0..4).await;
        moves(&bed, &archive, epoch, later()).await.unwrap();
        prints(&bed, &job, 4..6).await;
        let before = all(&bed, Some(&archive), id, 1_000).await;
        let mut force = Cancel::for_next_slot(id, Actor::engine());
        force.wish.force = true;
        bed.store.cancel(force, None).await.unwrap().unwrap();
        let pruner = Pruner::new(Arc::clone(&bed.store), Some(Arc::new(archive.clone())));
        let filter = Filter { statuses: vec![Status::Cancelled], ..Filter::default() };
        let mut done = Pruned::default();
        pruner.remove(filter, |_| true, |_| {}, &mut done).await.unwrap();
        assert_eq!(done.removed, 1);
        let part = segments(&archive).await.unwrap().remove(0);
        let gone = find(&archive, &part, id).await.unwrap().unwrap();
        assert_eq!((gone.logs.len(), gone.log_parts.len()), (2, 1), "no line is archived twice");
        let read = ReadLogs { job: id, after: 0, limit: 1_000 };
        let lines = with_parts(Some(&archive), gone.logs.clone(), &gone.log_parts, read).await.unwrap();
        assert_eq!(lines, before);
        let restore = Restore { events: gone.events, logs: gone.logs, log_parts: gone.log_parts, actor: Actor::engine() };
        bed.store.restore(restore, None).await.unwrap().unwrap();
        assert_eq!(all(&bed, Some(&archive), id, 1_000).await, before);
    }
}

/// R11: a job that a stranger's transaction keeps locked holds up nobody else; its lines are archived once, stay readable, and go
/// when the lock does.
#[test]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
fn a_strangers_lock_stops_its_own_lines_only() {
    bed::wait_for(async {
        let bed = Bed::postgres().await;
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let epoch = leads(&bed).await;
        let (locked, free) = (held(&bed).await, held(&bed).await);
        prints(&bed, &locked, 0..3).await;
        prints(&bed, &free, 0..2).await;
        let before = all(&bed, None, locked.job.id, 9).await;
        let connected = tokio_postgres::connect(bed.url.as_ref().unwrap(), tokio_postgres::NoTls).await;
        let (hand, connection) = connected.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ended = connection.await;
        });
        let lock = format!("BEGIN; SELECT 1 FROM windlass.jobs WHERE id = '{}' FOR UPDATE", locked.job.id);
        hand.batch_execute(&lock).await.unwrap();
        for moved in [2, 0] {
            let done = moves(&bed, &archive, epoch, later()).await.unwrap();
            assert_eq!(done, MovedLogs { moved, resumed: 0, waiting: 3 });
        }
        assert_eq!((here(&bed, locked.job.id).await, here(&bed, free.job.id).await), (3, 0));
        assert_eq!(all(&bed, Some(&archive), locked.job.id, 9).await, before);
        hand.batch_execute("ROLLBACK").await.unwrap();
        let done = moves(&bed, &archive, epoch, later()).await.unwrap();
        assert_eq!(done, MovedLogs { moved: 3, resumed: 3, waiting: 0 });
        assert_eq!(all(&bed, Some(&archive), locked.job.id, 9).await, before);
        assert_eq!(archive.list().await.unwrap().len(), 1, "archived once");
    });
}
