//! Readers of the feed: whether they keep up, and whether their places are of use.

use super::{Finding, ago, ok, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_core::seal::SEALS;
use windlass_store::{ReadFeed, Store, fresh};

/// Looks at what each reader has not read yet.
pub async fn look(store: &Arc<dyn Store>, late_ms: i64) -> Outcome<Vec<Finding>> {
    let now = fresh::wall_clock();
    let mut findings = Vec::new();
    let seals = store.settings((), None).await?.settings.seals;
    for place in store.places((), None).await? {
        if place.reader.as_str() == SEALS && !seals {
            // It is switched off, and stands still.
            continue;
        }
        let reader = &place.reader;
        let read = ReadFeed { after: place.cursor, limit: 1, payloads: false };
        findings.push(match store.feed(read, None).await? {
            Err(refusal) => warning(
                "readers",
                format!("the place of {reader} in the feed is of no use: {refusal}"),
                "start `windlass serve`: the server that leads begins again, and says where in the audit",
            ),
            Ok(page) => match page.events.first().map(|fed| fed.event.at) {
                Some(at) if at.plus_ms(late_ms) < now => warning(
                    "readers",
                    format!("{reader} has not read what happened {} ago", ago(at, now)),
                    "start `windlass serve`, or see in its log why the server that leads does not read on",
                ),
                _ => ok("readers", format!("{reader} has read the feed to its end")),
            },
        });
    }
    if findings.is_empty() {
        findings.push(ok("readers", "no server has read the feed yet"));
    }
    Ok(findings)
}
