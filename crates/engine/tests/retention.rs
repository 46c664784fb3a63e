//! Finished jobs go when their time is over, archived first: whatever is full, away, killed or in a race, nothing is lost.

mod bed;

use async_trait::async_trait;
use bed::{Bed, DEADLINE, name, until, who};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use windlass_core::retention::RetentionRule;
use windlass_core::settings::Settings;
use windlass_core::{Actor, Filter, JobId, Refusal, Status};
use windlass_engine::Shutdown;
use windlass_engine::archive::{Archive, ArchiveError, Directory, Edit, read_segment};
use windlass_engine::prune::{Pruned, Pruner};
use windlass_engine::service::{Leader, LiveSettings, Retention};
use windlass_store::{Cancel, Clocked, PutSettings, Redrive, Store, fresh};

/// What happens when a segment is brought to the archive.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    /// The disk is full.
    Full,
    /// It is durable, and its process does nothing any more.
    Hang,
    /// It is durable, and an operator sends one of its jobs back.
    Redrive(JobId),
}

/// A folder with trouble.
#[derive(Debug)]
struct Trouble {
    inner: Directory,
    then: Mutex<Then>,
    store: Arc<dyn Store>,
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
            let full = io::Error::from(io::ErrorKind::StorageFull);
            return Err(ArchiveError::new(name, "written", full));
        }
        self.inner.put(name, bytes).await?;
        if !name.ends_with(".zst") {
            return Ok(());
        }
        if let Then::Redrive(job) = then {
            let redrive = Redrive {
                job,
                actor: Actor::engine(),
                run_at: windlass_core::RunAt::Now,
                from_start: false,
                payload: None,
                key: None,
                expected_version: None,
            };
            self.store.redrive(redrive, None).await.expect("the store").expect("redriven");
        }
        self.is_done.store(true, Ordering::Release);
        if then == Then::Hang {
            std::future::pending::<()>().await;
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

fn trouble(bed: &Bed, inner: &Directory, then: Then) -> Arc<Trouble> {
    let (then, store) = (Mutex::new(then), Arc::clone(&bed.store));
    Arc::new(Trouble {
        inner: inner.clone(),
        then,
        store,
        tries: AtomicUsize::default(),
        is_done: AtomicBool::default(),
    })
}

/// A process that leads and removes; it dies with the set.
fn process(bed: &Bed, tasks: &mut JoinSet<()>, holder: &str, archive: Option<Arc<dyn Archive>>) {
    let leader = Leader::new(Arc::clone(&bed.store), who(holder)).ttl_ms(2_000);
    let retention = Retention::new(
        Arc::clone(&bed.store),
        leader.leading(),
        LiveSettings::new(Arc::clone(&bed.store)),
        archive,
    );
    let shutdown = Shutdown::new();
    tasks.spawn(async move {
        tokio::join!(leader.run(shutdown.clone()), retention.run(shutdown));
    });
}

async fn cancel(bed: &Bed, job: JobId) {
    let cancel = Cancel::for_next_slot(job, Actor::engine());
    bed.store.cancel(cancel, None).await.expect("the store").expect("cancelled");
}

/// Jobs that were cancelled.
async fn ended(bed: &Bed, kind: &str, n: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..n {
        let job = bed.put(kind).await;
        cancel(bed, job).await;
        ids.push(job);
    }
    ids
}

fn rule(kind: Option<&str>, keep_ms: Option<i64>) -> RetentionRule {
    RetentionRule { kind: kind.map(name), keep_ms, ..RetentionRule::default() }
}

async fn set(bed: &Bed, retention: Vec<RetentionRule>) {
    let state = bed.store.settings((), None).await.expect("the store");
    let settings = Settings { retention, ..state.settings };
    let put = PutSettings { settings, expected_version: state.version, actor: Actor::engine() };
    bed.store.put_settings(put, None).await.expect("the store").expect("set");
}

async fn is_here(bed: &Bed, id: JobId) -> bool {
    bed.store.job(id, None).await.expect("the store").is_some()
}

async fn until_gone(bed: &Bed, ids: &[JobId]) {
    let looked = async {
        for id in ids {
            while is_here(bed, *id).await {
                sleep(Duration::from_millis(20)).await;
            }
        }
    };
    assert!(timeout(DEADLINE, looked).await.is_ok(), "they never went");
}

/// The ids and versions in an archive, in order.
async fn archived(archive: &dyn Archive) -> Vec<(String, i64)> {
    let mut found = Vec::new();
    for name in archive.list().await.expect("a list") {
        assert!(name.ends_with(".zst"), "nothing else is left: {name}");
        let lines = read_segment(archive, &name).await.expect("it reads").expect("it is there");
        for line in std::str::from_utf8(&lines).expect("text").lines() {
            let job: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let id = job["id"].as_str().expect("an id").to_owned();
            found.push((id, job["version"].as_i64().expect("a version")));
        }
    }
    found.sort();
    found
}

fn texts(ids: &[JobId], version: i64) -> Vec<(String, i64)> {
    let mut texts: Vec<_> = ids.iter().map(|id| (id.to_string(), version)).collect();
    texts.sort();
    texts
}

on_every_store! {
    /// T9: jobs go by the most specific rule, archived; without a rule, and while they live, they stay.
    #[test]
    async fn jobs_go_when_their_time_is_over(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path().join("archive"));
        let (old, kept, young) =
            (ended(&bed, "old", 3).await, ended(&bed, "kept", 2).await, ended(&bed, "young", 2).await);
        let alive = bed.put("old").await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "a", Some(Arc::new(archive.clone())));
        set(&bed, vec![
            rule(None, Some(1_000)),
            rule(Some("kept"), None),
            rule(Some("young"), Some(3_600_000)),
        ]).await;
        let last = ended(&bed, "last", 1).await;
        // The pass at the change of settings finds what is a second old; each change is another pass.
        sleep(Duration::from_millis(1_100)).await;
        set(&bed, vec![rule(None, Some(1_001)), rule(Some("kept"), None), rule(Some("young"), Some(3_600_000))]).await;
        until_gone(&bed, &[old.clone(), last.clone()].concat()).await;
        for id in [kept, young, vec![alive]].concat() {
            assert!(is_here(&bed, id).await, "it stays");
        }
        until("the notes are gone", || {
            let left = std::fs::read_dir(folder.path().join("archive")).unwrap();
            left.map(|entry| entry.unwrap().path()).all(|path| path.extension().unwrap() == "zst")
        }).await;
        assert_eq!(archived(&archive).await, texts(&[old, last].concat(), 2));
        tasks.shutdown().await;
    }

    /// T9: while the archive is full, or none is named, nothing is removed.
    #[test]
    async fn nothing_goes_while_the_archive_is_full(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let full = trouble(&bed, &archive, Then::Full);
        let old = ended(&bed, "old", 3).await;
        sleep(Duration::from_millis(1_100)).await;
        set(&bed, vec![rule(None, Some(1_000))]).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "unarchived", None);
        process(&bed, &mut tasks, "full", Some(Arc::clone(&full) as Arc<dyn Archive>));
        sleep(Duration::from_secs(1)).await;
        tasks.shutdown().await;
        process(&bed, &mut tasks, "full", Some(Arc::clone(&full) as Arc<dyn Archive>));
        until("it was tried", || full.tries.load(Ordering::Acquire) > 0).await;
        for id in &old {
            assert!(is_here(&bed, *id).await, "nothing is removed");
        }
        assert_eq!(archived(&archive).await, []);
        *full.then.lock().unwrap() = Then::Nothing;
        set(&bed, vec![rule(None, Some(1_001))]).await;
        until_gone(&bed, &old).await;
        tasks.shutdown().await;
    }

    /// T9: killed between archive and removal, nothing is lost and nothing is archived twice.
    #[test]
    async fn a_killed_pass_is_gone_on_with(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let hangs = trouble(&bed, &archive, Then::Hang);
        let old = ended(&bed, "old", 3).await;
        sleep(Duration::from_millis(1_100)).await;
        set(&bed, vec![rule(None, Some(1_000))]).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "dies", Some(Arc::clone(&hangs) as Arc<dyn Archive>));
        until("it is archived", || hangs.is_done.load(Ordering::Acquire)).await;
        tasks.shutdown().await;
        for id in &old {
            assert!(is_here(&bed, *id).await, "not removed yet");
        }
        let pruner = Pruner::new(Arc::clone(&bed.store), Some(Arc::new(archive.clone())));
        let mut done = Pruned::default();
        pruner.resume(&mut done).await.unwrap();
        assert_eq!((done.resumed, done.archived), (3, 0));
        assert_eq!(archived(&archive).await, texts(&old, 2), "once each");
    }

    /// T9: a job that an operator sent back between archive and removal stays, and is archived again when it goes.
    #[test]
    async fn a_job_that_is_redriven_meanwhile_stays(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let old = ended(&bed, "old", 2).await;
        let meddles = trouble(&bed, &archive, Then::Redrive(old[0]));
        let pruner = Pruner::new(Arc::clone(&bed.store), Some(meddles as Arc<dyn Archive>));
        let ended = || Filter { statuses: vec![Status::Cancelled], ..Filter::default() };
        let mut done = Pruned::default();
        pruner.remove(ended(), |_| true, |_| {}, &mut done).await.unwrap();
        assert_eq!((done.archived, done.removed, done.stayed.len()), (2, 1, 1));
        assert_eq!(done.stayed[0].0, old[0]);
        assert_eq!(bed.job(old[0]).await.job.status, Status::Pending);
        cancel(&bed, old[0]).await;
        let pruner = Pruner::new(Arc::clone(&bed.store), Some(Arc::new(archive.clone())));
        pruner.remove(ended(), |_| true, |_| {}, &mut done).await.unwrap();
        let mut twice = [texts(&old, 2), texts(&old[..1], 4)].concat();
        twice.sort();
        assert_eq!(archived(&archive).await, twice, "known by id and version");
    }

    /// T9, R7: a process whose clock runs an hour ahead of the store's removes nothing early; one whose clock is an hour behind
    /// removes late, and goes on with the rest.
    #[test]
    async fn a_wrong_clock_removes_nothing_early(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let ahead_ms = Arc::new(AtomicI64::new(-3_600_000));
        let clock = Arc::clone(&ahead_ms);
        let now = move || fresh::wall_clock().plus_ms(clock.load(Ordering::Acquire));
        let (bed, _) = bed.around(|store| Clocked::new(store, now));
        let (young, old) = (ended(&bed, "young", 2).await, ended(&bed, "old", 2).await);
        set(&bed, vec![rule(Some("young"), Some(1_800_000)), rule(None, Some(1_000))]).await;
        let mut tasks = JoinSet::new();
        process(&bed, &mut tasks, "ahead", Some(Arc::new(archive.clone())));
        // Rules are gone through in their order: when the last one has removed, the first one was looked at.
        until_gone(&bed, &old).await;
        for id in &young {
            assert!(is_here(&bed, *id).await, "half an hour has not passed where it ended");
        }
        ahead_ms.store(3_600_000, Ordering::Release);
        let late = ended(&bed, "late", 1).await;
        set(&bed, vec![rule(Some("late"), Some(1_000)), rule(None, Some(1_000))]).await;
        until_gone(&bed, &young).await;
        assert!(is_here(&bed, late[0]).await, "it ends an hour from now, as this process sees it");
        tasks.shutdown().await;
        assert_eq!(archived(&archive).await, texts(&[young, old].concat(), 2));
    }

    /// T9: of processes that remove at once, to one archive or to two, each job is removed by one and archived by that one.
    #[test]
    async fn racing_processes_lose_nothing(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let places = ["one", "one", "two"].map(|name| Directory::new(folder.path().join(name)));
        let old = ended(&bed, "old", 120).await;
        let mut tasks = JoinSet::new();
        for place in places.clone() {
            let pruner = Pruner::new(Arc::clone(&bed.store), Some(Arc::new(place)));
            tasks.spawn(async move {
                let filter = Filter { statuses: vec![Status::Cancelled], ..Filter::default() };
                let mut done = Pruned::default();
                pruner.resume(&mut done).await.unwrap();
                pruner.remove(filter, |_| true, |_| {}, &mut done).await.unwrap();
                done
            });
        }
        let all = tasks.join_all().await;
        assert_eq!(all.iter().map(|done| done.removed + done.resumed).sum::<usize>(), 120);
        until_gone(&bed, &old).await;
        let mut found = [archived(&places[0]).await, archived(&places[2]).await].concat();
        found.sort();
        found.dedup();
        assert_eq!(found, texts(&old, 2));
    }
}

/// T9: a job whose row a stranger's transaction keeps locked stays, and holds up nobody else; it goes when the lock does.
#[test]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
fn a_strangers_lock_keeps_its_own_job_only() {
    bed::wait_for(async {
        let bed = Bed::postgres().await;
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path());
        let old = ended(&bed, "old", 5).await;
        let connected = tokio_postgres::connect(bed.url.as_ref().unwrap(), tokio_postgres::NoTls).await;
        let (hand, connection) = connected.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ended = connection.await;
        });
        let lock = format!("BEGIN; SELECT 1 FROM windlass.jobs WHERE id = '{}' FOR UPDATE", old[2]);
        hand.batch_execute(&lock).await.unwrap();
        let pruner = Pruner::new(Arc::clone(&bed.store), Some(Arc::new(archive.clone())));
        let cancelled = || Filter { statuses: vec![Status::Cancelled], ..Filter::default() };
        let mut done = Pruned::default();
        pruner.remove(cancelled(), |_| true, |_| {}, &mut done).await.unwrap();
        assert_eq!((done.removed, &done.stayed[..]), (4, &[(old[2], Refusal::Busy)][..]));
        for (n, id) in old.iter().enumerate() {
            assert_eq!(is_here(&bed, *id).await, n == 2);
        }
        hand.batch_execute("ROLLBACK").await.unwrap();
        let mut done = Pruned::default();
        pruner.remove(cancelled(), |_| true, |_| {}, &mut done).await.unwrap();
        assert_eq!((done.removed, done.stayed.len()), (1, 0));
        let mut twice = [texts(&old, 2), texts(&old[2..3], 2)].concat();
        twice.sort();
        assert_eq!(archived(&archive).await, twice, "known by id and version");
    });
}
