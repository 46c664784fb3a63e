//! The keys of a queue: what runs and waits of each, and letting go what is held.

use crate::call::{Call, Reply, ok};
use crate::wire::lane::{LaneStateShape, LanesPage, LetGo, LetGoBody};
use windlass_core::{Invalid, Key, Lane};
use windlass_store::{ListLanes, ReleaseLane};

/// How many lanes a page has when nothing is said.
const PAGE: usize = 100;

/// `GET /v1/queues/{queue}/lanes`
pub(crate) async fn lanes(call: Call) -> Reply {
    let queue = call.queue()?;
    let wrong = |text: &str| Invalid::new("cursor", text, "must be what the last page answered");
    let after = match call.query.text("cursor") {
        Some(text) => Lane::from_number(text.parse().ok().filter(|n| *n >= 0).ok_or_else(|| wrong(text))?),
        None => Lane::PLAIN,
    };
    let limit = call.query.limit(PAGE)?;
    let lanes = call.store().lanes(ListLanes { queue, after, limit }, None).await?;
    let next_cursor =
        lanes.last().filter(|_| lanes.len() == limit).map(|last| last.lane.number().to_string());
    ok(&LanesPage { lanes: lanes.into_iter().map(LaneStateShape::from).collect(), next_cursor })
}

/// `POST /v1/queues/{queue}/lanes/release`
pub(crate) async fn release(call: Call) -> Reply {
    let body: LetGoBody = call.body()?;
    let key = body.key.map(|key| Key::parse("key", key)).transpose()?;
    let request = ReleaseLane { queue: call.queue()?, key, actor: call.actor() };
    ok(&LetGo { released: call.store().release_lane(request, None).await? })
}
