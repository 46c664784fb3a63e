//! Routes of finished jobs: what sends one back, and what erases one.

use super::{O, delete, post};
use crate::route::{Is, Route, param};
use crate::wire::operate::{OneJob, RedriveBody};
use crate::{erase, operate};

pub(super) fn redrive() -> Route {
    let about = "send a dead or cancelled job back, also with another `payload`";
    post("/v1/jobs/{id}/redrive", about, operate::redrive)
        .may(O)
        .takes::<RedriveBody>()
        .gives::<OneJob>(200)
        .creates()
        .refuses(&[
            "not_found",
            "job_not_finished",
            "job_completed",
            "job_erased",
            "unique_taken",
            "version_mismatch",
        ])
}

pub(super) fn erase() -> Route {
    let about = "erase what a finished job was given, found and printed; it cannot be undone";
    delete("/v1/jobs/{id}/payload", about, erase::payload)
        .asks([param("expected_version", Is::Number, "only while the job is at this version")])
        .gives::<erase::ErasedShape>(200)
        .refuses(&["not_found", "job_not_finished", "version_mismatch", "job_purged", "archive_unavailable"])
}
