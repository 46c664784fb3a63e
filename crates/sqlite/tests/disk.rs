//! When the disk is full, the file read-only or damaged: a clear word, nothing half-written, and back to work.

mod place;

use place::process::{Process, role, say};
use place::{Place, wait_for};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use windlass_conformance::{Bed, at, completes, invariants, together};
use windlass_core::{Actor, NewJob, Payload, Refusal, Status};
use windlass_sqlite::{OpenError, Options, SqliteStore};
use windlass_store::{Enqueue, Enqueued, Jobs, ReadFeed, StoreError, StoreResult};

/// A store that may not grow beyond so many pages of 8 KiB.
fn small(place: &Place, pages: u32) -> Arc<SqliteStore> {
    Arc::new(Options::new(&place.path).max_pages(pages).open().expect("a store"))
}

fn with_bytes(bed: &Bed, len: usize) -> NewJob {
    NewJob {
        payload: Some(Payload::bytes("payload", vec![7; len], 1 << 21).expect("a payload")),
        ..bed.job("work")
    }
}

async fn enqueue(store: Arc<SqliteStore>, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
    let request = Enqueue { jobs, actor: Actor::api(), idempotency: None };
    store.enqueue(request, at(0)).await.map(|answer| answer.expect("accepted"))
}

fn is_full(error: &StoreError) {
    assert!(matches!(error, StoreError::Full(_)), "nothing happened: {error:?}");
    let said = error.to_string();
    assert!(said.contains("full") && said.contains("free some room"), "{said}");
}

/// J5: a full disk is a clear error; nothing is half-written, reads and renewals go on, and with room writes do
/// too.
#[test]
fn a_full_disk_is_said_and_harms_nothing() {
    let place = Place::new();
    wait_for(async {
        let store = small(&place, 150);
        let bed = Bed::new(store.clone());
        let held = bed.a_held_job("w", at(0)).await;
        let mut there = vec![held.job.id];
        let mut refused = 0;
        // Ever smaller ones, until really nothing fits.
        for len in [40_000, 8_000, 1_000, 100] {
            loop {
                let job = with_bytes(&bed, len);
                let id = job.id;
                match enqueue(store.clone(), vec![job]).await {
                    Ok(_) => there.push(id),
                    Err(error) => {
                        is_full(&error);
                        assert!(store.job(id, None).await.expect("reads go on").is_none());
                        refused += 1;
                        break;
                    }
                }
            }
        }
        assert_eq!(refused, 4);
        assert!(there.len() > 10, "there was some room: {}", there.len());
        for id in &there {
            assert!(store.job(*id, None).await.expect("reads go on").is_some());
        }
        bed.extends(&held, 60_000, at(1_000)).await.expect("a renewal needs no room");
        invariants::check(&bed).await;
        drop(bed);
        drop(store);

        let bed = place.bed();
        invariants::check(&bed).await;
        bed.settles(&held, completes(), at(2_000)).await.expect("with room, writes go on");
        let job = NewJob { id: windlass_store::fresh::job_id(), ..with_bytes(&bed, 40_000) };
        bed.enqueue(job, at(2_000)).await;
    });
    wait_for(place.is_sound());
}

/// J5: a batch that does not fit is not there at all.
#[test]
fn a_batch_that_does_not_fit_is_not_there_at_all() {
    let place = Place::new();
    wait_for(async {
        let store = small(&place, 150);
        let bed = Bed::new(store.clone());
        let jobs: Vec<NewJob> = (0..200).map(|_| with_bytes(&bed, 8_000)).collect();
        is_full(&enqueue(store.clone(), jobs).await.expect_err("it does not fit"));
        assert!(invariants::every_job(&bed).await.is_empty(), "all or none");
        bed.a_job(at(0)).await;
        invariants::check(&bed).await;
    });
}

/// J5: verbs that are committed together do not fail together: one that does not fit fails alone.
#[test]
fn one_that_does_not_fit_fails_alone() {
    let place = Place::new();
    wait_for(async {
        let store = small(&place, 140);
        let bed = Bed::new(store.clone());
        for huge_one in [0, 5, 19] {
            // While somebody else has the file, everybody queues up and becomes one group.
            let hand = place.hand();
            hand.execute_batch("BEGIN IMMEDIATE").expect("the lock");
            let calls: Vec<_> = (0..20)
                .map(|n| {
                    let job = with_bytes(&bed, if n == huge_one { 1 << 20 } else { 100 });
                    enqueue(store.clone(), vec![job])
                })
                .collect();
            let answers = tokio::join!(together(calls), async {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                hand.execute_batch("COMMIT").expect("given back");
            });
            for (n, answer) in answers.0.into_iter().enumerate() {
                match answer {
                    Ok(_) => assert_ne!(n, huge_one),
                    Err(error) => {
                        assert_eq!(n, huge_one, "a neighbour failed: {error}");
                        is_full(&error);
                    }
                }
            }
        }
        assert_eq!(invariants::every_job(&bed).await.len(), 57);
        invariants::check(&bed).await;
    });
}

/// The log is kept from the file while somebody reads; once nobody does, it goes back to the size of a checkpoint.
#[test]
fn the_log_shrinks_when_nobody_reads_any_more() {
    let place = Place::new();
    let log = || std::fs::metadata(place.path.with_extension("db-wal")).map_or(0, |file| file.len() >> 20);
    wait_for(async {
        let store = place.open();
        let bed = Bed::new(store.clone());
        bed.a_job(at(0)).await;
        let reader = place.hand();
        reader.execute_batch("BEGIN; SELECT count(*) FROM jobs").expect("a snapshot");
        for _ in 0..8 {
            let jobs = (0..8).map(|_| with_bytes(&bed, 1 << 20)).collect();
            enqueue(store.clone(), jobs).await.expect("written");
        }
        assert!(log() >= 64, "it cannot shrink: {} MiB", log());
        reader.execute_batch("COMMIT").expect("the snapshot is given back");
        // The first sees to it that everything is in the file, the second begins the log anew.
        bed.a_job(at(1)).await;
        bed.a_job(at(2)).await;
        assert!(log() <= 32, "{} MiB", log());
    });
}

/// T11: what a process without rights does in these tests; with no role, that nothing is read-only for us.
#[test]
fn child() {
    let Some((role, file)) = role() else {
        let place = Place::new();
        assert_eq!(try_all(&place.path), "written");
        return;
    };
    assert_eq!(role, "try");
    say(&try_all(&file));
}

/// Opens, writes; answers where it ended and what was said.
fn try_all(file: &Path) -> String {
    let store = match Options::new(file).open() {
        Ok(store) => Arc::new(store),
        Err(error) => return format!("open: {error}"),
    };
    wait_for(async {
        let bed = Bed::new(store.clone());
        let reads = store.counts(10, None).await.is_ok();
        match enqueue(store, vec![bed.job("work")]).await {
            Ok(_) => "written".to_owned(),
            Err(error) => format!("write, reads {reads}: {error}"),
        }
    })
}

/// Runs [`try_all`] as a user without rights: our own, unless we are root, who may write everywhere.
fn as_somebody(place: &Place) -> String {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if !root {
        return try_all(&place.path);
    }
    // Somebody must be able to run this binary, wherever it was built.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let binary = elsewhere.path().join("child");
    std::fs::copy(std::env::current_exe().expect("this binary"), &binary).expect("a copy");
    allow(elsewhere.path(), 0o755);
    allow(&binary, 0o755);
    let mut command = Command::new(&binary);
    command.uid(65_534).gid(65_534).current_dir("/");
    let process = Process::run(command, "try", &place.path);
    let said = process.hears();
    let (end, _) = process.ends();
    assert!(end.success());
    said
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours to change");
}

/// T11: a file or a folder that may not be written is said at the door or at the first write, with what to do.
#[test]
fn a_read_only_place_is_said() {
    for (folder, file) in [(0o555, 0o444), (0o777, 0o444), (0o555, 0o666)] {
        let place = Place::new();
        drop(place.open());
        allow(&place.path, file);
        allow(place.folder(), folder);
        let said = as_somebody(&place);
        allow(place.folder(), 0o755);
        let helps = said.contains("make both writable")
            || said.contains("make the file and its folder writable")
            || said.contains("check the path and its folder's permissions");
        assert!(said != "written" && helps, "folder {folder:o}, file {file:o}: {said}");
        allow(&place.path, 0o644);
        wait_for(place.is_sound());
    }
}

/// T11: a folder in which nothing can be created is said at the door.
#[test]
fn a_place_where_nothing_can_be_created_is_said() {
    let mut place = Place::new();
    allow(place.folder(), 0o555);
    let said = as_somebody(&place);
    assert!(said.starts_with("open: ") && said.contains("folder's permissions"), "{said}");
    place.path = place.folder().join("deep/er/windlass.db");
    let said = as_somebody(&place);
    assert!(said.starts_with("open: ") && said.contains("cannot create its folder"), "{said}");
    allow(place.folder(), 0o755);
}

/// What is created is for its owner alone; what is there keeps its permissions.
#[test]
fn what_is_created_is_for_its_owner_alone() {
    let mut place = Place::new();
    let folder = place.folder().join("deep/er");
    place.path = folder.join("windlass.db");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").mode() & 0o777;
    wait_for(async {
        let bed = place.bed();
        bed.a_job(at(0)).await;
        for file in ["windlass.db", "windlass.db-wal", "windlass.db-shm"] {
            assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
        }
        assert_eq!((mode(&folder), mode(&place.folder().join("deep"))), (0o700, 0o700));
    });
    allow(&place.path, 0o640);
    allow(&folder, 0o750);
    drop(place.open());
    assert_eq!((mode(&place.path), mode(&folder)), (0o640, 0o750));
}

/// T11: a damaged file is said at the door when its head is damaged, and found by the check when its body is.
#[test]
fn a_damaged_file_is_said() {
    let place = Place::new();
    let root: u32 = wait_for(async {
        let bed = place.bed();
        for _ in 0..50 {
            bed.a_job_that_is(Status::Completed, 0).await;
        }
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'job_events_version'";
        place.hand().query_row(sql, (), |r| r.get(0)).expect("a page")
    });
    let whole = std::fs::read(&place.path).expect("the file");

    let mut body = whole.clone();
    let end = root as usize * 8_192;
    body[end - 8_192..end].fill(0xa5);
    std::fs::write(&place.path, &body).expect("written");
    match place.try_open() {
        Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        Ok(store) => wait_for(async {
            match store.integrity().await {
                Ok(found) => assert_ne!(found, "ok", "the check finds it"),
                Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
            }
            let bed = Bed::new(Arc::new(store));
            let request = Enqueue { jobs: vec![bed.job("work")], actor: Actor::api(), idempotency: None };
            let error = bed.store.enqueue(request, None).await.expect_err("nothing is written to it");
            assert!(error.to_string().contains("restore a back-up"), "{error}");
        }),
    }

    let mut head = whole.clone();
    head[..100].fill(0xa5);
    std::fs::write(&place.path, &head).expect("written");
    let error = place.try_open().expect_err("no store");
    assert!(matches!(error, OpenError::Failed { .. }), "{error:?}");
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(std::fs::read(&place.path).expect("the file") == head, "it was not touched");

    std::fs::write(&place.path, &whole).expect("the back-up");
    wait_for(place.is_sound());
}

/// T11: a job whose first event is gone fails and says so; it neither stops the line nor comes round again.
#[test]
fn a_job_that_lost_its_payload_fails_and_its_neighbours_run() {
    let place = Place::new();
    wait_for(async {
        let bed = place.bed();
        let ids = [bed.a_job(at(0)).await, bed.a_job(at(0)).await, bed.a_job(at(0)).await];
        let alone = bed.enqueue(bed.job_in("work", "other"), at(0)).await.id;
        let hand = place.hand();
        hand.execute_batch("DROP TRIGGER job_events_kept").expect("a hand that means it");
        for id in [ids[1], alone] {
            let sql = "DELETE FROM job_events WHERE job_id = ?1 AND version = 1";
            assert_eq!(hand.execute(sql, [id.as_bytes()]).expect("deleted"), 1);
        }
        let claimed = bed.claims("w", 10, at(1)).await;
        assert_eq!(claimed.iter().map(|c| c.job.id).collect::<Vec<_>>(), [ids[0], ids[2]], "many at once");
        assert!(bed.claims_by_id("w", alone, at(1)).await.is_err(), "by id");
        for id in [ids[1], alone] {
            let sql = "SELECT status || ' ' || error_code FROM jobs WHERE id = ?1";
            let stands: String = hand.query_row(sql, [id.as_bytes()], |r| r.get(0)).expect("a row");
            assert_eq!(stands, "failed payload_missing");
        }
        assert!(bed.claims_from("w2", &["default", "other"], 10, at(2)).await.is_empty());
    });
}

/// J9, J7: a back-up that is put in the place of the file is noticed when it is opened. Every cursor of before is refused, be
/// it from before the back-up or after; whoever begins anew sees everything once; and every fence is higher than all of
/// before. A copy over the file, which stays the same file, is noticed by the cursors of after the back-up.
#[test]
fn a_restored_file_is_another_incarnation() {
    for is_same_file in [false, true] {
        let place = Place::new();
        let backup = place.folder().join("backup.db");
        wait_for(async {
            let bed = place.bed();
            for _ in 0..3 {
                bed.a_job(at(0)).await;
            }
            let early = bed.store.feed_head((), at(0)).await.expect("the store answers");
            let copy = format!("VACUUM INTO '{}'", backup.display());
            place.hand().execute_batch(&copy).expect("a back-up");
            let held = bed.claims("w", 3, at(1)).await;
            let mut late = vec![bed.store.feed_head((), at(1)).await.expect("the store answers")];
            let request = ReadFeed { after: Some(early.clone()), limit: 10, payloads: true };
            let page = bed.store.feed(request, at(1)).await.expect("the store answers").expect("a page");
            late.extend(page.events.into_iter().map(|fed| fed.cursor));
            drop(bed);

            for ending in ["-wal", "-shm"] {
                let _gone = std::fs::remove_file(format!("{}{ending}", place.path.display()));
            }
            if is_same_file {
                std::fs::copy(&backup, &place.path).expect("restored");
            } else {
                std::fs::rename(&backup, &place.path).expect("restored");
            }
            let bed = place.bed();
            let read = async |after| {
                bed.store.feed(ReadFeed { after, limit: 10, payloads: true }, at(2)).await.expect("an answer")
            };
            for cursor in late {
                let refused = read(Some(cursor)).await;
                assert!(matches!(refused, Err(Refusal::CursorExpired(_))), "{refused:?}");
            }
            assert_eq!(read(None).await.expect("a page").events.len(), 3, "everything, once");
            if !is_same_file {
                let refused = read(Some(early)).await;
                assert!(matches!(refused, Err(Refusal::CursorExpired(_))), "{refused:?}");
                let highest = held.iter().map(|c| c.lease.fence).max().expect("some were held");
                for again in bed.claims("w", 3, at(2)).await {
                    assert!(again.lease.fence > highest, "{} after {highest}", again.lease.fence);
                }
            } else {
                assert_eq!(read(Some(early)).await.expect("a page").events.len(), 0, "nothing is missed");
            }
        });
        wait_for(place.is_sound());
    }
}
