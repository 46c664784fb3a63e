//! The feed: every event of every job, in one order, from a cursor.
//!
//! A cursor is a snapshot of the database: a read returns what a newer snapshot sees and the cursor's did not, in the order
//! of numbers. So a slow transaction that took its numbers early is not missed, and a foreign open one stalls nobody.
//! While a page does not reach the end of that difference, the cursor also holds the newer snapshot and the last number.
//!
//! The difference is found along the numbers, without an index on transactions, by marks: "every transaction after this
//! one numbers its events above that" (`feed.sql`). What the snapshot does not see was either running then, or is younger
//! than its newest mark and numbered above it. The running ones that have ended since are looked for once, from the mark
//! before the oldest of them on.
//!
//! Ids of transactions go back after a restore, a failover, even a crash. A cursor therefore names the server, its
//! timeline, the store's incarnation and the last event that was read, and holds no more of a snapshot than what was seen
//! ([`Place::behind`]). What does not fit any more is refused.

mod place;

use crate::db::{Db, Tx, sql};
use crate::error::{Failure, OpenError, Tried};
use crate::param::{Params, params};
use crate::pool::Connections;
use crate::row::{self, Columns, name};
use crate::statements::Texts;
use place::{Place, Reading, Server, Snapshot};
use std::sync::Arc;
use tokio_postgres::{Client, Row};
use windlass_core::{FeedCursor, LastRead, Life, Name, Refusal};
use windlass_store::{Adopt, FeedEvent, FeedPage, ReadFeed, StoreError, StoreResult};

/// How many statements one page takes to look for transactions that ended late.
const LATE_WINDOWS: usize = 20;
/// The columns of an event.
const EVENT_COLUMNS: usize = 13;

/// In which steps the feed is read. Small steps are for tests: few events are then enough for many of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    /// How far numbers may move before a reader marks them. Every page reads again what lies between the last mark and its
    /// cursor.
    pub(crate) mark_every: i64,
    /// How many events one statement looks at for transactions that ended late.
    pub(crate) late_window: i64,
}

impl Default for Steps {
    fn default() -> Self {
        Self { mark_every: 1_000, late_window: 50_000 }
    }
}

/// What a look at the feed found.
enum Look<T> {
    Found(T),
    /// The store has come to another server or timeline: a new incarnation must begin first.
    Moved,
}

/// Where the feed stands.
struct Head {
    life: Life,
    server: Server,
    /// Up to this number the transactions may be another server's.
    base: i64,
    purged: i64,
    newest: Snapshot,
    mark_tx: u64,
    /// The newest number that was given.
    given: i64,
    /// What the store has under the number of the cursor's last event.
    last: Option<LastRead>,
}

impl Head {
    fn is_unmarked(&self, steps: Steps) -> bool {
        self.given - self.newest.upto >= steps.mark_every
    }
}

/// Where the feed ends now.
pub(crate) async fn feed_head(connections: &Arc<Connections>) -> StoreResult<FeedCursor> {
    // Readers that begin here read on from the newest mark.
    let _without = connections.mark().await;
    look(connections, |db| Box::pin(async move { db.feed_end().await })).await
}

/// What came after a cursor.
pub(crate) async fn feed(
    connections: &Arc<Connections>,
    request: ReadFeed,
) -> StoreResult<Result<FeedPage, Refusal>> {
    let (request, steps) = (Arc::new(request), connections.feed_steps);
    let (answer, is_unmarked) = look(connections, move |db| {
        let request = Arc::clone(&request);
        Box::pin(async move { db.feed(&request, steps).await })
    })
    .await?;
    if is_unmarked {
        // Without it the next page only reads more.
        let _without = connections.mark().await;
    }
    Ok(answer)
}

/// Looks, and again after a new incarnation was begun where one must.
async fn look<T: Send + 'static>(
    connections: &Arc<Connections>,
    read: impl for<'c> Fn(&'c Db<'c>) -> crate::db::Boxed<'c, Tried<Look<T>>> + Send + Sync + Clone + 'static,
) -> StoreResult<T> {
    if let Look::Found(found) = connections.read(read.clone()).await? {
        return Ok(found);
    }
    connections.adopt().await?;
    match connections.read(read).await? {
        Look::Found(found) => Ok(found),
        Look::Moved => Err(StoreError::Unavailable("the server changes while the feed is read".into())),
    }
}

/// Looks at which server a new connection has come to. After a failover or a restore a new incarnation begins before the
/// connection is used: no claim hands out a fence that was given before.
pub(crate) async fn arrive(client: &Client, texts: &Texts) -> Result<(), tokio_postgres::Error> {
    // Before the store is made, and for a role that may only look, there is nothing to say.
    let Ok(rows) = client.query_typed(&texts.of(sql!("incarnation")), &[]).await else { return Ok(()) };
    let Some(row) = rows.first() else { return Ok(()) };
    let (mut incarnation, moved): (i32, bool) = (row.try_get(0)?, row.try_get(1)?);
    if moved {
        client.batch_execute("BEGIN; SET LOCAL lock_timeout = '1s'").await?;
        let adopted = client.query_typed(&texts.of(sql!("adopt")), params![false]).await;
        client.batch_execute(if adopted.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        incarnation = adopted?.first().map_or(Ok(incarnation), |row| row.try_get(0))?;
        if incarnation > 0 {
            tracing::warn!(
                incarnation,
                "the store has come to another server or timeline: a new incarnation begins"
            );
        }
    }
    texts.note_incarnation(incarnation.cast_unsigned());
    Ok(())
}

impl Connections {
    /// Marks how far numbers have come, if they have moved.
    pub(crate) async fn mark(self: &Arc<Self>) -> StoreResult<()> {
        let incarnation =
            self.single(|db| Box::pin(async move { db.incarnation(sql!("mark"), params![]).await }));
        self.texts.note_incarnation(incarnation.await?);
        Ok(())
    }

    /// What [`arrive`] does, for the connection that found no store yet.
    pub(crate) async fn arrive(&self) -> Result<(), OpenError> {
        let failed = |why: Failure| OpenError::Failed(why.told().to_string());
        let client = self.get().await.map_err(failed)?;
        arrive(&client, &self.texts).await.map_err(|e| failed(e.into()))
    }

    /// Begins a new incarnation if the store has come to another server or timeline.
    pub(crate) async fn adopt(self: &Arc<Self>) -> StoreResult<()> {
        let incarnation =
            self.single(|db| Box::pin(async move { db.incarnation(sql!("adopt"), params![false]).await }));
        self.texts.note_incarnation(incarnation.await?);
        tracing::warn!("the store has come to another server or timeline, as after a restore or a failover");
        Ok(())
    }
}

impl Tx<'_> {
    pub(crate) async fn adopt(&self, request: &Adopt) -> Tried<Life> {
        self.execute(sql!("adopt"), params![true]).await?;
        let changing = || Failure::Pool("the server changes while the store is adopted".into());
        let life = self.settled(0).await?.ok_or_else(changing)?.life;
        self.write_audit(&life.adopted(request.actor.clone())).await?;
        Ok(life)
    }
}

impl Db<'_> {
    /// Runs one of the feed's functions, which answer the incarnation.
    async fn incarnation(&self, sql: &'static str, params: &Params<'_>) -> Tried<u32> {
        let found = self.one(sql, params, |r| Ok(r.try_get::<_, i32>(0)?.cast_unsigned())).await?;
        found.ok_or_else(|| Failure::Unreadable("the function answers no incarnation".into()))
    }

    async fn feed_end(&self) -> Tried<Look<FeedCursor>> {
        let Some(head) = self.settled(0).await? else { return Ok(Look::Moved) };
        let newest = head.newest.to_text();
        let end = self
            .listed(sql!("feed_end"), params![head.newest.upto, newest], |r| {
                let mut c = Columns::new(r, 0);
                let (seq, tx) = (c.get()?, c.text(|t| t.parse().ok())?);
                Ok((last_read(seq, c)?, tx))
            })
            .await?
            .into_iter()
            .next();
        let (last, last_tx) = end.unzip();
        let last_tx = last_tx.unwrap_or_default();
        let start = Place { server: head.server, seen: Snapshot::origin(), last_tx, reading: None };
        let reading = head.begin();
        let place = start.behind(&reading, &head.newest);
        if !place.fits() {
            return Err(too_many(&head));
        }
        Ok(Look::Found(FeedCursor { life: head.life, last, position: place.to_bytes() }))
    }

    /// The head, or none if the store must be adopted first.
    async fn settled(&self, last: i64) -> Tried<Option<Head>> {
        let (head, moved) = {
            let rows = self.rows(sql!("feed_head"), params![last]).await?;
            let row = rows.first();
            let row = row.ok_or_else(|| Failure::Unreadable("the table windlass.store is empty".into()))?;
            if row.try_get::<_, Option<i32>>(3)?.is_none() {
                return Err(Failure::Pool(
                    "this server is a standby; name the primary in the store's URL".into(),
                ));
            }
            (head(row, last)?, row.try_get::<_, bool>(4)?)
        };
        self.note_incarnation(head.life.incarnation);
        Ok((!moved).then_some(head))
    }

    /// A page, and whether numbers should be marked.
    async fn feed(&self, request: &ReadFeed, steps: Steps) -> Tried<Look<(Result<FeedPage, Refusal>, bool)>> {
        let mut after = request.after.clone();
        loop {
            let last = after.as_ref().and_then(|c| c.last).map_or(0, |last| last.seq);
            let Some(head) = self.settled(last).await? else { return Ok(Look::Moved) };
            let place = match checked(after.as_ref(), &head) {
                Ok(place) => place,
                Err(refusal) => return Ok(Look::Found((Err(refusal), false))),
            };
            let asked = (request.limit, request.payloads);
            let (page, is_end) = self.page(after.clone(), &place, &head, asked, steps).await?;
            // The rest of an older difference may be empty although there is more behind it.
            if page.events.is_empty() && place.reading.is_some() && is_end {
                after = Some(page.next);
                continue;
            }
            return Ok(Look::Found((Ok(page), head.is_unmarked(steps))));
        }
    }

    /// A page, and whether it reaches the end of its difference.
    async fn page(
        &self,
        after: Option<FeedCursor>,
        place: &Place,
        head: &Head,
        (limit, payloads): (usize, bool),
        steps: Steps,
    ) -> Tried<(FeedPage, bool)> {
        let mut reading = place.reading.clone().unwrap_or_else(|| head.begin());
        let mut place = Place { reading: Some(reading.clone()), ..place.clone() };
        if !place.fits() {
            // Too much is open for a cursor: what comes is read when less is.
            let next = after.ok_or_else(|| too_many(head))?;
            return Ok((FeedPage { events: Vec::new(), next }, false));
        }
        let limit = crate::list::page(limit);
        let (mut rows, is_looked) =
            self.late(&place.seen, &mut reading, (limit, payloads), steps.late_window).await?;
        let wanted = limit - rows.len() as i64;
        if is_looked && wanted > 0 {
            let (seen, newer) = (place.seen.to_text(), reading.newer.to_text());
            let from = reading.after.max(place.seen.upto);
            rows.extend(
                self.rows(sql!("feed"), params![seen, newer, from, wanted, head.base, payloads]).await?,
            );
        }
        let mut last = after.and_then(|cursor| cursor.last);
        let mut events = Vec::with_capacity(rows.len());
        for r in &rows {
            let mut c = Columns::new(r, EVENT_COLUMNS);
            let tx: u64 = c.text(|t| t.parse().ok())?;
            let (seq, event) = (r.try_get(0)?, row::readable_event(r, 0)?);
            if seq > head.base && tx >= place.last_tx {
                (place.last_tx, last) = (tx, Some(LastRead::of(seq, &event)));
            } else if last.is_none() || seq <= head.base {
                last = Some(LastRead::of(seq, &event));
            }
            place.reading = Some(Reading { after: seq, ..reading.clone() });
            let cursor = FeedCursor { life: head.life, last, position: place.to_bytes() };
            events.push(FeedEvent {
                cursor,
                event,
                queue: c.text_or(name, Name::unreadable)?,
                kind: c.text_or(name, Name::unreadable)?,
            });
        }
        let is_full = events.len() as i64 == limit;
        let position = match is_looked && !is_full {
            true => place.behind(&reading, &head.newest).to_bytes(),
            false if is_full => place.to_bytes(),
            false => Place { reading: Some(reading), ..place }.to_bytes(),
        };
        let next = FeedCursor { life: head.life, last, position };
        Ok((FeedPage { events, next }, is_looked && !is_full))
    }

    /// Events of transactions that ran when the older snapshot was taken and have ended for the newer one, among the numbers
    /// that it had passed. Also whether all of those were looked at; the reading goes on behind what was.
    async fn late(
        &self,
        seen: &Snapshot,
        reading: &mut Reading,
        (limit, payloads): (i64, bool),
        window: i64,
    ) -> Tried<(Vec<Row>, bool)> {
        let ended = seen.open.iter().filter(|tx| reading.newer.sees(**tx));
        let ended: Vec<String> = ended.map(u64::to_string).collect();
        reading.after = reading.after.max(if ended.is_empty() { seen.upto } else { seen.low });
        let (mut rows, mut windows) = (Vec::new(), 0);
        while reading.after < seen.upto {
            if windows == LATE_WINDOWS || rows.len() as i64 == limit {
                return Ok((rows, false));
            }
            windows += 1;
            let looked = params![reading.after, seen.upto, ended, window];
            let looked = self
                .listed(sql!("feed_late"), looked, |r| {
                    Ok((
                        r.try_get::<_, Vec<i64>>(0)?,
                        r.try_get::<_, Option<i64>>(1)?,
                        r.try_get::<_, i64>(2)?,
                    ))
                })
                .await?
                .into_iter()
                .next();
            let (mut numbers, to, count) = looked.unwrap_or_default();
            let to = to.filter(|_| count == window).unwrap_or(seen.upto);
            numbers.truncate((limit - rows.len() as i64) as usize);
            if !numbers.is_empty() {
                rows.extend(self.rows(sql!("feed_numbered"), params![numbers, payloads]).await?);
            }
            let is_full = rows.len() as i64 == limit;
            reading.after = numbers.last().copied().filter(|_| is_full).unwrap_or(to);
        }
        Ok((rows, true))
    }
}

impl Head {
    /// The difference to the newest snapshot, from its beginning.
    fn begin(&self) -> Reading {
        Reading { newer: self.newest.clone(), mark_tx: self.mark_tx, after: 0 }
    }
}

/// The place of a cursor, if the store still is what the cursor rests on.
fn checked(cursor: Option<&FeedCursor>, head: &Head) -> Result<Place, Refusal> {
    let Some(cursor) = cursor else {
        return Ok(Place { server: head.server, seen: Snapshot::origin(), last_tx: 0, reading: None });
    };
    cursor.check_life(head.life)?;
    let place = Place::parse(&cursor.position).ok_or_else(|| cursor.malformed())?;
    if place.server != head.server {
        return Err(Refusal::CursorExpired("the store has come to another server or timeline since"));
    }
    cursor.check_last(head.last, head.purged)?;
    let newest = place.reading.as_ref().map_or(place.seen.xmax, |r| place.seen.xmax.max(r.mark_tx + 1));
    if newest > head.newest.xmax {
        return Err(Refusal::CursorExpired("the server has forgotten transactions: it was restored since"));
    }
    Ok(place)
}

/// Reads a row of `feed_head.sql`.
fn head(r: &Row, last: i64) -> Tried<Head> {
    let mut c = Columns::new(r, 0);
    let store = c.get::<i64>()?.cast_unsigned();
    let life = Life { store, incarnation: c.get::<i32>()?.cast_unsigned() };
    let system_id = c.get::<i64>()?.cast_unsigned();
    let server = Server { system_id, timeline: c.get::<Option<i32>>()?.unwrap_or_default().cast_unsigned() };
    let _moved: bool = c.get()?;
    let (base, purged): (i64, i64) = (c.get()?, c.get()?);
    let snapshot: &str = c.get()?;
    let mark_tx = c.text(|t| t.parse().ok())?;
    let (upto, low, given) = (c.get()?, c.get()?, c.get()?);
    let wrong = || Failure::Unreadable(format!("the snapshot {snapshot:?}"));
    let newest = Snapshot::read(snapshot, upto, low).ok_or_else(wrong)?;
    let is_there = r.try_get::<_, Option<i64>>(13)?.is_some();
    let last = is_there.then(|| last_read(last, c)).transpose()?;
    Ok(Head { life, server, base, purged, newest, mark_tx, given, last })
}

/// What a cursor recognises an event by, from the columns `job_id, version, at, type`.
fn last_read(seq: i64, mut c: Columns<'_>) -> Tried<LastRead> {
    Ok(LastRead::new(seq, c.job_id()?, c.get()?, c.time()?, c.get()?))
}

fn too_many(head: &Head) -> Failure {
    let open = head.newest.open.len();
    Failure::Pool(format!(
        "{open} transactions are open, too many for a cursor of the feed; end some of them"
    ))
}
