//! Pages of the feed as JSON: the same feed for who does not want a stream.

use super::hub::Taken;
use super::item::Item;
use super::listen::expired;
use super::sse;
use super::want::Want;
use crate::access::{Principal, revoked};
use crate::app::App;
use crate::call::{Call, Reply, json_bytes};
use crate::problem::Problem;
use crate::wire::event::EventShape;
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;
use windlass_core::FeedCursor;
use windlass_engine::Level;

/// Events of a page when nothing is said.
const PAGE: usize = 100;
/// Events that are looked at for one answer when a filter takes few of them.
const LOOKED: usize = 10_000;
/// Bytes after which a page ends early.
const MAX_BYTES: usize = 8 << 20;
/// The longest that a page is waited for, in milliseconds.
const WAIT_MAX_MS: i64 = 60_000;

/// A page of the feed. It may be empty: the cursor goes on all the same.
#[derive(ToSchema)]
#[schema(as = FeedPage)]
#[allow(
    dead_code,
    reason = "the shape for the document; pages are put together from what is written already"
)]
pub(crate) struct FeedPageShape {
    events: Vec<EventShape>,
    /// Where to go on.
    next_cursor: String,
}

/// A stretch of the feed.
struct Stretch {
    items: Vec<Arc<Item>>,
    next: Arc<FeedCursor>,
    is_full: bool,
}

/// `GET /v1/feed`, as a page.
pub(crate) async fn page(call: Call) -> Reply {
    let want = Want::of(&call)?;
    let limit = call.query.limit(PAGE)?;
    let wait_ms = call.query.span_ms("wait", WAIT_MAX_MS)?.unwrap_or_default();
    let until = Instant::now() + Duration::from_millis(wait_ms as u64);
    let mut pass = call.who.pass(&call.app);
    let app = &call.app;
    let _counted = app.hub.counted();
    let mut cursor = match sse::resume_from(&call) {
        // Where there is no server, nobody reads the feed for all.
        None if matches!(call.who, Principal::Owner(_)) => Arc::new(call.store().feed_head((), None).await?),
        None => app.hub.now().await?.1,
        Some(text) => Arc::new(FeedCursor::parse(&text)?),
    };
    let (mut wanted, mut looked) = (Vec::new(), 0);
    loop {
        let mut news = app.hub.news();
        news.mark_unchanged();
        let stretch = read(app, &cursor, limit).await?;
        looked += stretch.items.len();
        for item in stretch.items {
            if app.hub.is_wanted(&want, &item).await {
                wanted.push(item);
            }
        }
        cursor = stretch.next;
        if !wanted.is_empty() || app.is_ending() || looked >= LOOKED {
            break;
        }
        if stretch.is_full {
            continue;
        }
        if Instant::now() >= until {
            break;
        }
        tokio::select! {
            _ = news.changed() => {}
            () = app.ending.reached(Level::Graceful) => {}
            () = pass.over() => return Err(revoked()),
            () = sleep_until(until) => {}
        }
    }
    Ok(json_bytes(StatusCode::OK, written(&wanted, want.is_lean, &cursor)))
}

/// The next stretch: from what the reader keeps, else from the store.
async fn read(app: &App, cursor: &Arc<FeedCursor>, limit: usize) -> Result<Stretch, Problem> {
    if let Some((place, epoch)) = app.hub.find(cursor) {
        match app.hub.take(place, epoch, limit) {
            Taken::Items(items) => return Ok(shorten(items, cursor, limit)),
            Taken::Nothing(_) => {
                return Ok(Stretch { items: Vec::new(), next: Arc::clone(cursor), is_full: false });
            }
            Taken::Lagged | Taken::Gone => {}
        }
    }
    let page = app.hub.behind(cursor, limit.min(PAGE)).await?.map_err(expired)?;
    let is_full = page.events.len() >= limit.min(PAGE);
    let items: Vec<_> = page.events.into_iter().map(|event| Arc::new(Item::new(event))).collect();
    let next = Arc::new(page.next);
    let stretch = shorten(items, cursor, limit);
    Ok(if stretch.is_full { stretch } else { Stretch { next, is_full, ..stretch } })
}

/// Ends a stretch where it becomes too large.
fn shorten(mut items: Vec<Arc<Item>>, cursor: &Arc<FeedCursor>, limit: usize) -> Stretch {
    let mut bytes = 0;
    let fit = items.iter().take_while(|item| {
        bytes += item.json(false).len();
        bytes <= MAX_BYTES
    });
    let fit = fit.count().max(1);
    let is_full = items.len() > fit || items.len() >= limit;
    items.truncate(fit);
    let next = items.last().map_or_else(|| Arc::clone(cursor), |item| Arc::clone(&item.cursor));
    Stretch { items, next, is_full }
}

fn written(items: &[Arc<Item>], is_lean: bool, next: &FeedCursor) -> Vec<u8> {
    let mut body = b"{\"events\":[".to_vec();
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        body.extend_from_slice(item.json(is_lean));
    }
    // A cursor is letters and digits.
    body.extend_from_slice(format!("],\"next_cursor\":\"{}\"}}", next.to_text()).as_bytes());
    body
}
