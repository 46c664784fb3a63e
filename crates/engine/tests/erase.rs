//! Erasure in the store and in the archive: whatever is archived, moves, comes back or is away meanwhile, nothing of what a job
//! was given is left once it is erased.

mod bed;

use async_trait::async_trait;
use bed::{Bed, who};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_core::decide::Claim;
use windlass_core::erase::is_erased;
use windlass_core::{Actor, Filter, JobId, LeaseMs, Outcome, Payload, Refusal, Status};
use windlass_engine::archive::{Archive, ArchiveError, Directory, Edit, find, read_segment, segments};
use windlass_engine::erase::{EraseError, Erased, erase};
use windlass_engine::logs::{LogMover, MovedLogs, read_logs};
use windlass_engine::prune::{Pruned, Pruner};
use windlass_engine::service::Leading;
use windlass_store::{
    AcquireTerm, ClaimOne, Erase, ReadAudit, ReadLogs, Restore, Settle, SettleItem, Store, WriteLogs, fresh,
};

/// What must not be found again.
const SECRET: &str = "ann@example.org";

/// A folder with trouble.
#[derive(Debug)]
struct Trouble {
    inner: Directory,
    store: Arc<dyn Store>,
    /// Erased in the store as soon as a segment is durable, before anything leaves the store for it.
    erases: Option<JobId>,
    /// Whether nothing can be written over.
    is_read_only: AtomicBool,
}

#[async_trait]
impl Archive for Trouble {
    fn place(&self) -> String {
        self.inner.place()
    }

    async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), ArchiveError> {
        self.inner.put(name, bytes).await?;
        if let Some(job) = self.erases.filter(|_| name.ends_with(".zst")) {
            self.store.erase(wish(job), None).await.expect("the store").expect("it is finished");
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
        if self.is_read_only.load(Ordering::Acquire) {
            let error = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
            return Err(ArchiveError::new(name, "rewritten", error));
        }
        self.inner.rewrite(name, edit).await
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveError> {
        self.inner.remove(name).await
    }
}

fn trouble(bed: &Bed, inner: &Directory, erases: Option<JobId>) -> Arc<Trouble> {
    let store = Arc::clone(&bed.store);
    Arc::new(Trouble { inner: inner.clone(), store, erases, is_read_only: AtomicBool::default() })
}

fn wish(job: JobId) -> Erase {
    Erase { job, actor: Actor::engine(), expected_version: None }
}

fn secret() -> Payload {
    Payload::stored(format!("\"{SECRET}\"").into_bytes(), true)
}

/// A job that printed and completed.
async fn finished(bed: &Bed) -> JobId {
    let job = bed.put("speaks").await;
    let lease_ms = LeaseMs::new(3_600_000).expect("a lease");
    let claim = Claim { worker: who("w"), secret: fresh::secret(), lease_ms };
    let held = bed.store.claim_one(ClaimOne { job, claim }, None).await.expect("the store").expect("claimed");
    let token = held.lease.token;
    let lines = vec![format!("to {SECRET}"), "done".to_owned()];
    bed.store.write_logs(WriteLogs { job, token, lines }, None).await.expect("the store").expect("printed");
    let outcome = Outcome::Complete(Some(secret()));
    let settle = Settle { items: vec![SettleItem { job, token, outcome }] };
    bed.store.settle(settle, None).await.expect("the store")[0].clone().expect("completed");
    job
}

/// Whether something in the archive says it.
async fn is_said(archive: &dyn Archive) -> bool {
    for name in archive.list().await.expect("a list") {
        let Some(lines) = read_segment(archive, &name).await.ok().flatten() else { continue };
        if String::from_utf8_lossy(&lines).contains(SECRET) {
            return true;
        }
    }
    false
}

/// Archives and removes every finished job.
async fn prunes(bed: &Bed, archive: Arc<dyn Archive>) -> Pruned {
    let pruner = Pruner::new(Arc::clone(&bed.store), Some(archive));
    let mut done = Pruned::default();
    let filter = Filter { statuses: vec![Status::Completed], ..Filter::default() };
    pruner.remove(filter, |_| true, |_| {}, &mut done).await.expect("it is archived");
    done
}

/// Moves every log line to the archive.
async fn moves(bed: &Bed, archive: Arc<dyn Archive>) -> MovedLogs {
    let ttl_ms = LeaseMs::new(600_000).expect("a length of time");
    let term = AcquireTerm { name: Leading::term(), holder: who("a"), ttl_ms };
    let epoch = bed.store.acquire_term(term, None).await.expect("the store").expect("its own").epoch;
    let mut done = MovedLogs::default();
    let before = fresh::wall_clock().plus_ms(60_000);
    LogMover::new(Arc::clone(&bed.store), archive, epoch).run(before, &mut done).await.expect("moved");
    done
}

async fn lines(bed: &Bed, archive: &dyn Archive, job: JobId) -> usize {
    let read = ReadLogs { job, after: 0, limit: 9 };
    read_logs(&*bed.store, Some(archive), read).await.expect("it reads").len()
}

on_every_store! {
    /// T9: a job that is archived is erased there, and says so; its neighbours in the same file stay as they are. Repeated, it
    /// changes nothing; it is on record once.
    #[test]
    async fn a_job_in_the_archive_is_erased_there(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Arc::new(Directory::new(folder.path()));
        let (job, neighbour) = (finished(&bed).await, finished(&bed).await);
        assert_eq!(prunes(&bed, archive.clone()).await.removed, 2);
        let part = segments(&*archive).await.expect("a list").pop().expect("a segment");
        let before = find(&*archive, &part, job).await.expect("it reads").expect("it is there");
        let beside = find(&*archive, &part, neighbour).await.expect("it reads").expect("it is there");
        let stale = Erase { expected_version: Some(before.job.version - 1), ..wish(job) };
        let refused = erase(&*bed.store, Some(&*archive), stale).await;
        let version = before.job.version;
        assert!(matches!(refused, Err(EraseError::Refused(Refusal::VersionMismatch(v))) if v == version));
        let erased = erase(&*bed.store, Some(&*archive), wish(job)).await.expect("erased");
        assert_eq!(erased, Erased { version: version + 1, is_repeat: false, files: 1 });
        let after = find(&*archive, &part, job).await.expect("it reads").expect("it is there");
        assert!(is_erased(&after.events) && after.logs.is_empty() && !format!("{after:?}").contains(SECRET));
        assert_eq!((after.job.status, after.events.len() as i64), (Status::Completed, version + 1));
        let still = find(&*archive, &part, neighbour).await.expect("it reads").expect("it is there");
        assert_eq!((still.events, still.logs), (beside.events, beside.logs));
        let again = erase(&*bed.store, Some(&*archive), wish(job)).await.expect("erased");
        assert_eq!(again, Erased { version: version + 1, is_repeat: true, files: 0 });
        let audit = bed.store.audit(ReadAudit { before: None, limit: 100 }, None).await.expect("the store");
        assert_eq!(audit.iter().filter(|entry| entry.action.as_str() == "job.erase").count(), 1);
        let (events, logs, log_parts) = (after.events, after.logs, after.log_parts);
        let restore = Restore { events, logs, log_parts, actor: Actor::engine() };
        bed.store.restore(restore, None).await.expect("the store").expect("it comes back");
        let view = bed.job(job).await;
        assert!(view.facts.erased && view.payload.is_none() && view.result.is_none());
    }

    /// T9, R11: lines that moved to the archive go with the rest, those of other jobs stay.
    #[test]
    async fn lines_in_the_archive_are_erased(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Arc::new(Directory::new(folder.path()));
        let (job, neighbour) = (finished(&bed).await, finished(&bed).await);
        assert_eq!(moves(&bed, archive.clone()).await.moved, 4);
        assert_eq!((lines(&bed, &*archive, job).await, lines(&bed, &*archive, neighbour).await), (2, 2));
        let erased = erase(&*bed.store, Some(&*archive), wish(job)).await.expect("erased");
        assert_eq!((erased.is_repeat, erased.files), (false, 1));
        assert_eq!((lines(&bed, &*archive, job).await, lines(&bed, &*archive, neighbour).await), (0, 2));
        erase(&*bed.store, Some(&*archive), wish(neighbour)).await.expect("erased");
        assert!(!is_said(&*archive).await);
    }

    /// T9: a job that is erased while it is archived stays in the store, erased, and the copy goes; the next run takes it.
    #[test]
    async fn a_job_erased_while_it_is_archived_leaves_no_copy(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let inner = Directory::new(folder.path());
        let job = finished(&bed).await;
        let done = prunes(&bed, trouble(&bed, &inner, Some(job))).await;
        assert_eq!((done.archived, done.removed, done.stayed.len()), (1, 0, 1));
        assert!(bed.job(job).await.facts.erased);
        assert!(!is_said(&inner).await);
        assert_eq!(prunes(&bed, Arc::new(inner.clone())).await.removed, 1);
        assert!(!is_said(&inner).await);
    }

    /// T9, R11: the same for log lines on their way.
    #[test]
    async fn a_job_erased_while_its_lines_move_leaves_no_line(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let inner = Directory::new(folder.path());
        let job = finished(&bed).await;
        let moved = moves(&bed, trouble(&bed, &inner, Some(job))).await;
        assert_eq!((moved.moved, moved.waiting), (0, 0));
        assert!(!is_said(&inner).await);
        assert_eq!(lines(&bed, &inner, job).await, 0);
    }

    /// T9: a job that came back from the archive is in two places, and is erased in both.
    #[test]
    async fn a_job_that_came_back_is_erased_in_both_places(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = Arc::new(Directory::new(folder.path()));
        let job = finished(&bed).await;
        prunes(&bed, archive.clone()).await;
        let part = segments(&*archive).await.expect("a list").pop().expect("a segment");
        let found = find(&*archive, &part, job).await.expect("it reads").expect("it is there");
        let (events, logs, log_parts) = (found.events, found.logs, found.log_parts);
        let restore = Restore { events, logs, log_parts, actor: Actor::engine() };
        bed.store.restore(restore, None).await.expect("the store").expect("it comes back");
        let refused = erase(&*bed.store, None, wish(job)).await;
        assert!(matches!(refused, Err(EraseError::Archive(_))), "{refused:?}");
        assert!(!bed.job(job).await.facts.erased, "not the half of it");
        erase(&*bed.store, Some(&*archive), wish(job)).await.expect("erased");
        assert!(bed.job(job).await.facts.erased && !is_said(&*archive).await);
    }

    /// T9: where the archive cannot be written, the erasure says so, and the same again finishes it.
    #[test]
    async fn an_erasure_that_the_archive_refused_is_finished_by_the_next(bed: Bed) {
        let folder = tempfile::tempdir().unwrap();
        let archive = trouble(&bed, &Directory::new(folder.path()), None);
        let (job, gone) = (finished(&bed).await, finished(&bed).await);
        moves(&bed, archive.clone()).await;
        archive.is_read_only.store(true, Ordering::Release);
        let refused = erase(&*bed.store, Some(&*archive), wish(job)).await;
        assert!(matches!(refused, Err(EraseError::Archive(_))), "{refused:?}");
        assert!(is_said(&*archive).await);
        archive.is_read_only.store(false, Ordering::Release);
        let erased = erase(&*bed.store, Some(&*archive), wish(job)).await.expect("erased");
        assert_eq!((erased.is_repeat, erased.files), (false, 1));
        prunes(&bed, archive.clone()).await;
        let refused = erase(&*bed.store, None, wish(gone)).await;
        assert!(matches!(refused, Err(EraseError::Archive(_))), "it is only there: {refused:?}");
        erase(&*bed.store, Some(&*archive), wish(gone)).await.expect("erased");
        assert!(!is_said(&*archive).await);
        let unknown = erase(&*bed.store, Some(&*archive), wish(fresh::job_id())).await;
        assert!(matches!(unknown, Err(EraseError::Refused(Refusal::NotFound))), "{unknown:?}");
    }
}
