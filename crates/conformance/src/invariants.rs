//! What holds of everything in a store at any moment: checked after every law.

use crate::{Bed, at};
use windlass_core::{Filter, Job, Status};
use windlass_store::List;

/// Walks every job of the store and checks row and log against each other.
pub async fn check(bed: &Bed) {
    for job in every_job(bed).await {
        let log = bed.log(job.id).await;
        let versions: Vec<i64> = log.iter().map(|e| e.version).collect();
        assert_eq!(versions, (1..=job.version).collect::<Vec<_>>(), "versions are contiguous: {job:?}");
        let folded = Job::fold(&log).expect("a log begins with job_created");
        assert_eq!(folded.folded(), job.folded(), "the row is the fold of its log:\n{log:#?}");
        check_row(&job);
    }
}

/// Every row of the store, newest first.
pub async fn every_job(bed: &Bed) -> Vec<Job> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let request = List { filter: Filter::default(), cursor, limit: 1_000 };
        let page = bed.store.jobs(request, at(0)).await.expect("the store answers").expect("a page");
        all.extend(page.items.into_iter().map(|l| l.job));
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

fn check_row(job: &Job) {
    let running = job.status == Status::Running;
    assert_eq!(job.lease_hash.is_some(), running, "leased exactly while running: {job:?}");
    assert_eq!(job.lease_expires_at.is_some(), running, "a lease has an expiry: {job:?}");
    assert_eq!(
        job.finished_at.is_some(),
        job.status.is_terminal(),
        "finished exactly when terminal: {job:?}"
    );
    assert!(!(job.status.is_terminal() && job.due_at.is_some()), "terminal has no due time: {job:?}");
}
