//! How jobs enter.

use crate::{Bed, at};
use windlass_core::Status;

/// This module's laws, as tests.
#[macro_export]
macro_rules! enqueue_laws {
    ($make:path) => {
        $crate::law_tests!($make, enqueue: a_new_job_is_pending_and_due_at_once);
    };
}

/// J2, J10, M3, Q3
pub async fn a_new_job_is_pending_and_due_at_once(bed: Bed) {
    let id = bed.a_job(at(0)).await;
    let row = bed.row(id).await;
    assert_eq!((row.status, row.version, row.due_at), (Status::Pending, 1, at(0)));
    assert_eq!(bed.types(id).await, ["job_created"]);
}
