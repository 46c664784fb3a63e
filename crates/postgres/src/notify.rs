//! Wake-ups between processes: `NOTIFY` on a connection of its own, outside of every producer's transaction.
//!
//! Hints only. They are coalesced, they may be lost, and nothing is decided by them. The channel is named like the
//! schema, so that several stores in one database do not wake each other. What is sent is a mark and who sent it; what
//! has no mark comes from `windlass.enqueue(…, notify => true)` and means that a job is due.
//!
//! Whether notifications arrive is tried at the start of every connection, because a transaction-mode pooler takes
//! `LISTEN` without a word and delivers nothing. Where they do not, a cheap look once a second takes their place, and
//! more often after one that found something.

use crate::db::sql;
use crate::error::{Failure, Tried};
use crate::param::{Params, params};
use crate::pool::Connections;
use crate::tls::Route;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::{AsyncMessage, Client, Connection, Row};
use windlass_core::lease::hex;
use windlass_store::fresh::random;
use windlass_store::{Hinter, Hints};

/// The least time between two notifications of due jobs: others are woken at most so often.
const GAP: Duration = Duration::from_millis(2);
/// How long events that made no job due wait for company.
const COMPANY: Duration = Duration::from_millis(10);
/// How often a process that hears nothing looks for itself.
const POLL: Duration = Duration::from_secs(1);
/// How soon it looks again after it found something; then half as often each time.
const SOON: Duration = Duration::from_millis(50);
/// How often one that hears makes sure that its connection is alive and nothing was lost.
const CHECK: Duration = Duration::from_secs(5);
/// How long the connection may take for anything, the notification to itself included.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long after a failed try notifications are tried again.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// A job became due. No queue is named like a mark.
const DUE: char = '*';
/// Only events were written.
const EVENTS: char = '+';
/// Somebody tries whether notifications arrive.
const TRIAL: char = '?';

/// What this process has to tell, and what it is told.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    hinter: Hinter,
    /// What others are still to be told.
    due: AtomicBool,
    events: AtomicBool,
    told: Notify,
    listening: AtomicBool,
}

impl Wakeups {
    /// The receiving ends of this process.
    pub(crate) fn hints(&self) -> Hints {
        self.hinter.hints()
    }

    /// Whether notifications of others arrive.
    pub(crate) fn listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Says here and, a moment later, everywhere that events were written, and whether a job became due by them.
    pub(crate) fn hint(&self, due: bool) {
        self.hinter.hint(due);
        let mark = if due { &self.due } else { &self.events };
        if !mark.swap(true, Ordering::Relaxed) {
            self.told.notify_one();
        }
    }

    /// Waits until there is something to tell others, and takes it. A due job is told at once. Safe to drop: what is
    /// still to be told stays on record until it is taken.
    async fn news(&self) -> char {
        while !self.due.load(Ordering::Relaxed) && !self.events.load(Ordering::Relaxed) {
            self.told.notified().await;
        }
        let due = async {
            while !self.due.load(Ordering::Relaxed) {
                self.told.notified().await;
            }
        };
        let _company = timeout(COMPANY, due).await;
        // Both: who hears of a due job also hears of events.
        let due = self.due.swap(false, Ordering::Relaxed);
        self.events.store(false, Ordering::Relaxed);
        if due { DUE } else { EVENTS }
    }
}

/// The task that tells and hears, as long as its store lives.
pub(crate) struct Notifier {
    connections: Arc<Connections>,
    route: Route,
    channel: String,
    /// Who sends: what this process sends it does not listen to.
    name: String,
    looked: Option<i64>,
    /// Trouble is said once, until it is over.
    complained: bool,
}

impl Notifier {
    pub(crate) fn new(connections: Arc<Connections>, route: Route, schema: &str) -> Self {
        let name = hex(&random::<8>());
        Self { connections, route, channel: schema.to_owned(), name, looked: None, complained: false }
    }

    /// Never returns: whoever holds the task ends it.
    pub(crate) async fn run(mut self) {
        let connections = Arc::clone(&self.connections);
        loop {
            let end = self.live(&connections).await;
            connections.wakeups.listening.store(false, Ordering::Relaxed);
            if let Err(failure) = end {
                self.complain(&failure.reason());
            }
            sleep(POLL).await;
            self.poll(&connections).await;
        }
    }

    /// One connection, from its beginning to its end.
    async fn live(&mut self, connections: &Connections) -> Tried<()> {
        let Route { config, tls } = self.route.clone();
        let mut connecting = Box::pin(timeout(PATIENCE, config.connect(tls)));
        let connected = loop {
            tokio::select! {
                connected = &mut connecting => break connected,
                () = sleep(POLL) => self.poll(connections).await,
            }
        };
        let (client, connection) = connected.map_err(|_| slow("connecting"))??;
        let (wakeups, heard, name) = (&connections.wakeups, Notify::new(), self.name.clone());
        tokio::select! {
            end = hear(connection, wakeups, &name, &heard) => end,
            end = self.talk(&client, connections, &heard) => end,
        }
    }

    /// Subscribes, tries whether that works, then tells and looks until the connection ends.
    async fn talk(&mut self, client: &Client, connections: &Connections, heard: &Notify) -> Tried<()> {
        let wakeups = &connections.wakeups;
        let listen = format!("LISTEN \"{}\"", self.channel);
        timeout(PATIENCE, client.batch_execute(&listen)).await.map_err(|_| slow("LISTEN"))??;
        // By another connection: through a pooler one's own notification comes back with its answer, and others' do not.
        self.notify(&*connections.get().await?, TRIAL).await?;
        if timeout(PATIENCE, heard.notified()).await.is_err() {
            self.complain(
                "they do not arrive; behind a transaction-mode pooler name a direct URL for notify_url",
            );
        } else if std::mem::take(&mut self.complained) {
            tracing::info!(channel = %self.channel, "notifications arrive again");
            // Others may have missed what was to be told meanwhile.
            wakeups.hint(true);
        }
        // What was said before this connection was there.
        wakeups.hinter.hint(true);
        self.look(client, wakeups).await?;
        let (begun, mut looked, mut deaf) = (Instant::now(), Instant::now(), POLL);
        // Readers of the feed go from mark to mark; whoever writes sets one about once a second.
        let mut marked = Instant::now();
        loop {
            let pause = if wakeups.listening() { CHECK } else { deaf };
            tokio::select! {
                mark = wakeups.news() => {
                    self.notify(client, mark).await?;
                    if marked.elapsed() > POLL {
                        self.seen(&self.ask(client, sql!("mark"), params![]).await?, 0)?;
                        marked = Instant::now();
                    }
                    // Events have waited for company already.
                    if mark == DUE {
                        sleep(GAP).await;
                    }
                }
                () = sleep_until(looked + pause) => {
                    let looks = wakeups.listening() || wakeups.hinter.is_watched();
                    let found = looks && self.look(client, wakeups).await?;
                    deaf = if found { SOON } else { (deaf * 2).min(POLL) };
                    looked = Instant::now();
                    if !wakeups.listening() && looked - begun > TRY_AGAIN {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn notify(&self, client: &Client, mark: char) -> Tried<()> {
        let (channel, message) = (self.channel.as_str(), format!("{mark}{}", self.name));
        self.ask(client, sql!("notify"), params![channel, message]).await.map(drop)
    }

    /// Whether anybody wrote events since the last look, heard of or not.
    async fn look(&mut self, client: &Client, wakeups: &Wakeups) -> Tried<bool> {
        let rows = self.ask(client, sql!("last_seq"), params![]).await?;
        let found: Option<i64> = rows.first().map(|r| r.try_get(0)).transpose()?.flatten();
        let found = found.unwrap_or(0);
        self.seen(&rows, 1)?;
        let wrote = self.looked.replace(found).is_some_and(|before| found != before);
        if wrote {
            wakeups.hinter.hint(true);
        }
        Ok(wrote)
    }

    /// Notes the store's incarnation, which another process may have begun.
    fn seen(&self, rows: &[Row], column: usize) -> Tried<()> {
        let incarnation: Option<i32> = rows.first().map(|r| r.try_get(column)).transpose()?;
        self.connections.texts.note_incarnation(incarnation.unwrap_or_default().cast_unsigned());
        Ok(())
    }

    async fn ask(&self, client: &Client, sql: &'static str, params: &Params<'_>) -> Tried<Vec<Row>> {
        let text = self.connections.texts.of(sql);
        Ok(timeout(PATIENCE, client.query_typed(&text, params)).await.map_err(|_| slow("the server"))??)
    }

    /// A look without a connection of its own.
    async fn poll(&mut self, connections: &Connections) {
        if !connections.wakeups.hinter.is_watched() {
            return;
        }
        // Whoever works with this store hears of its trouble already.
        if let Ok(client) = connections.get().await {
            let _ = self.look(&client, &connections.wakeups).await;
        }
    }

    fn complain(&mut self, why: &str) {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(channel = %self.channel, "no notifications, looking once a second instead: {why}");
        }
    }
}

fn slow(what: &str) -> Failure {
    Failure::Pool(format!("{what} took longer than {} s", PATIENCE.as_secs()))
}

/// Drives the connection and hears what comes over it, until it ends.
async fn hear<S, T>(
    mut connection: Connection<S, T>,
    wakeups: &Wakeups,
    name: &str,
    heard: &Notify,
) -> Tried<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        let AsyncMessage::Notification(notification) = message? else { continue };
        let said = notification.payload();
        let (mark, from) = said.split_at(said.chars().next().map_or(0, char::len_utf8));
        let own = from == name;
        match mark.chars().next() {
            Some(TRIAL) if own => {
                wakeups.listening.store(true, Ordering::Relaxed);
                heard.notify_one();
            }
            Some(TRIAL) => {}
            Some(DUE | EVENTS) if own => {}
            Some(EVENTS) => wakeups.hinter.hint(false),
            _ => wakeups.hinter.hint(true),
        }
    }
    Err(Failure::Pool("the one for notifications ended".into()))
}
