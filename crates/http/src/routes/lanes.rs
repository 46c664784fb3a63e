//! Routes of keys and what they may take: the lanes of a queue, and charges.

use super::{CURSOR, HELD, LIMIT, O, V, W, get, post};
use crate::route::Route;
use crate::wire::lane::{LanesPage, LetGo, LetGoBody};
use crate::{append, lanes, lease};

pub(super) fn routes() -> Vec<Route> {
    vec![
        post("/v1/jobs/{id}/charge", "charge units that a job turned out to cost", lease::charge)
            .may(W)
            .or_lease()
            .takes::<crate::wire::append::ChargeBody>()
            .gives::<append::Written>(200)
            .refuses(HELD),
        get(
            "/v1/queues/{queue}/lanes",
            "the keys of a queue: what runs, waits and is held of each",
            lanes::lanes,
        )
        .may(V)
        .asks([LIMIT, CURSOR])
        .gives::<LanesPage>(200),
        post("/v1/queues/{queue}/lanes/release", "let a held key, or queue, go at once", lanes::release)
            .may(O)
            .takes::<LetGoBody>()
            .gives::<LetGo>(200),
    ]
}
