//! Connections and transactions. A transaction runs in a task of its own: a caller that is dropped leaves none open,
//! and its answer is never half-known.
//!
//! Three pools: for work, for reads and for renewals, so that none of these waits behind another. Nothing is waited for
//! without end: a lock for 250 ms at most, by few at a time, and an answer of the server for its statement timeout and a
//! little more.

mod lent;

use crate::connect::Connector;
use crate::db::{Boxed, Db, Tx};
use crate::error::{Failure, OpenError, Tried};
use crate::feed::Steps;
use crate::notify::Wakeups;
use crate::statements::Texts;
use crate::tls::Route;
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use lent::Lent;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Client;
use windlass_store::{Now, StoreResult};

/// How often a deadlock or a race is tried again before the caller hears of it.
const TRIES: usize = 20;
/// The longest that a verb waits for a row that another transaction holds.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_millis(250);
/// How long it waits at first, with whichever connection it has: most locks last for one short transaction.
const LOCK_AT_FIRST: Duration = Duration::from_millis(20);
/// How long a verb waits for its turn to wait for a lock, without a connection: many may queue for one busy row.
const TURN: Duration = Duration::from_secs(2);
/// How long a merged statement waits for a row that somebody else holds: its calls then go on without each other.
const LOCK_MERGED: Duration = Duration::from_millis(200);
/// The shortest that PostgreSQL can be told to wait for a lock.
const LOCK_NO_WAIT: Duration = Duration::from_millis(1);
/// How long a caller waits for a connection.
const WAIT: Duration = Duration::from_secs(10);
/// How much longer than its statement timeout the server may take to answer.
const SLACK: Duration = Duration::from_secs(2);
/// How long the server waits for the next statement of a transaction. One whose process was cut off or stopped in the middle
/// would keep its locks for hours, the leader's term among them, and no other could lead.
const IDLE: Duration = Duration::from_secs(5);
/// Connections for renewals.
const RENEWALS: usize = 2;
/// How long a renewal may take: a lease is short, and another connection may do better.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(5);

/// A renewal does not wait for a standby, so that a stuck one ends no lease. One that is lost in a failover is a lease, or a
/// term, that ends earlier than its holder was told; the attempt and the epoch fence its holder then, as ever.
const RENEWAL_COMMITS: &str = "; SET LOCAL synchronous_commit = local";
/// After a commit that no standby confirmed: makes a commit wait for the standby even if its transaction writes nothing. A
/// repeat that finds its work done would else be told that it is safe.
const WAITS_FOR_STANDBY: &str = include_str!("../sql/wait_for_standby.sql");

/// How a transaction begins.
struct Begin {
    sql: String,
    /// Commits that no standby had confirmed then.
    unconfirmed: u64,
}

/// A verb whose answer is kept for it. What runs transactions is made once, and not for each of a hundred verbs.
type Verb<'v> = dyn for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<()>> + Send + Sync + 'v;

/// What a verb answered, of the last time that it ran.
struct Answer<T>(Arc<Mutex<Option<T>>>);

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Send + 'static> Answer<T> {
    fn of<'t>(&self, work: Boxed<'t, Tried<T>>) -> Boxed<'t, Tried<()>> {
        let kept = Arc::clone(&self.0);
        Box::pin(async move {
            let answer = work.await?;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            Ok(())
        })
    }

    fn take(self) -> Tried<T> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.ok_or_else(|| Failure::Unknown("the verb ended without an answer; this is a bug".into()))
    }
}

/// The connections of one store.
#[derive(Debug)]
pub(crate) struct Connections {
    work: Pool,
    reads: Pool,
    renewals: Pool,
    /// Who may wait for a lock for longer than a moment, with a connection in hand: half of them.
    lock_waits: Semaphore,
    /// How many of them ended with what they waited for.
    lock_waits_ended: AtomicU64,
    /// How many commits no standby confirmed since one was confirmed.
    unconfirmed: Arc<AtomicU64>,
    timeout: Duration,
    pub(crate) texts: Arc<Texts>,
    pub(crate) wakeups: Wakeups,
    pub(crate) feed_steps: Steps,
}

/// What a transaction is for: which connection it gets, and how long it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A statement or a verb.
    Work,
    /// Several calls that go on without each other if a row is locked.
    Merged,
    /// A renewal.
    Renewal,
}

/// How long a transaction waits for rows that others hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Waits {
    /// Not at all.
    Never,
    /// So long. At most half of the connections wait so at any time; who is not among them waits for its turn without
    /// one, for two seconds at most.
    For(Duration),
}

impl Connections {
    pub(crate) fn new(
        route: Route,
        size: usize,
        texts: Texts,
        timeout: Duration,
        feed_steps: Steps,
    ) -> Result<Self, OpenError> {
        let texts = Arc::new(texts);
        let unconfirmed = Arc::default();
        Ok(Self {
            work: pool(&route, size, &texts, &unconfirmed)?,
            reads: pool(&route, (size / 4).clamp(2, 8), &texts, &unconfirmed)?,
            renewals: pool(&route, RENEWALS, &texts, &unconfirmed)?,
            lock_waits: Semaphore::new((size / 2).max(1)),
            lock_waits_ended: AtomicU64::new(0),
            unconfirmed,
            timeout,
            texts,
            wakeups: Wakeups::default(),
            feed_steps,
        })
    }

    /// A connection for whatever lasts longer than a transaction.
    pub(crate) async fn get(&self) -> Tried<Object> {
        Ok(self.work.get().await?)
    }

    /// Begins a transaction that writes.
    fn begin(&self, purpose: Purpose, lock_timeout: Duration) -> Begin {
        let mut sql = self.begin_as("BEGIN", purpose, lock_timeout);
        let unconfirmed = self.unconfirmed.load(Ordering::Relaxed);
        if purpose == Purpose::Renewal {
            sql.push_str(RENEWAL_COMMITS);
        } else if unconfirmed > 0 {
            sql.push_str(";\n");
            sql.push_str(WAITS_FOR_STANDBY);
        }
        Begin { sql, unconfirmed }
    }

    /// A transaction has committed. If it waited for the standby, the standby is back.
    fn committed(&self, begin: &Begin, purpose: Purpose) {
        if begin.unconfirmed > 0 && purpose != Purpose::Renewal {
            // Not if another commit was left unconfirmed meanwhile.
            let (seen, none) = (begin.unconfirmed, 0);
            let _ = self.unconfirmed.compare_exchange(seen, none, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Statistics can make a claim look dear enough to be compiled, each time anew, which takes longer than to run it.
    fn begin_as(&self, begin: &str, purpose: Purpose, lock_timeout: Duration) -> String {
        let timeout =
            if purpose == Purpose::Renewal { self.timeout.min(RENEWAL_TIMEOUT) } else { self.timeout };
        let (ms, lock_ms) = (timeout.as_millis(), lock_timeout.min(timeout / 3).as_millis().max(1));
        let idle_ms = IDLE.as_millis();
        format!(
            "{begin}; SET LOCAL statement_timeout = {ms}; SET LOCAL lock_timeout = {lock_ms}; \
             SET LOCAL idle_in_transaction_session_timeout = {idle_ms}; SET LOCAL jit = off"
        )
    }

    async fn lend(&self, purpose: Purpose) -> Tried<Lent> {
        Lent::from(if purpose == Purpose::Renewal { &self.renewals } else { &self.work }).await
    }

    /// What can be read over a connection.
    pub(crate) fn on<'c>(&'c self, client: &'c Client) -> Db<'c> {
        Db::new(client, &self.texts, self.timeout + SLACK)
    }

    fn db<'c>(&'c self, lent: &'c Lent) -> Tried<Db<'c>> {
        Ok(self.on(lent.client()?))
    }

    /// Where the server was silent, connections that are as old are not to be trusted: new ones may work.
    fn noted(&self, failure: Failure, since: Instant) -> Failure {
        if failure.is_silent() {
            for pool in [&self.work, &self.reads, &self.renewals] {
                pool.retain(|_, metrics| metrics.created > since.into_std());
            }
        }
        failure
    }

    /// Reads, in a transaction that can neither write nor take for ever.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move {
            let answer = Answer::default();
            this.read_once(&|db| answer.of(read(db))).await?;
            answer.take()
        })
        .await
    }

    async fn read_once(
        &self,
        read: &(dyn for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<()>> + Send + Sync),
    ) -> Tried<()> {
        let mut lent = Lent::from(&self.reads).await?;
        let begin = self.begin_as("BEGIN READ ONLY", Purpose::Work, self.timeout);
        let db = self.db(&lent)?;
        let (begun, found) = tokio::join!(biased; db.send(&begin), read(&db));
        let end = begun.and(found);
        if !end.as_ref().is_err_and(Failure::is_silent) && db.send("COMMIT").await.is_ok() {
            lent.give_back();
        }
        end.map_err(|failure| self.noted(failure, lent.since))
    }

    /// Reads without a transaction.
    pub(crate) async fn glance<T>(
        &self,
        read: impl for<'c> FnOnce(&'c Db<'c>) -> Boxed<'c, Tried<T>>,
    ) -> Tried<T> {
        let mut lent = Lent::from(&self.reads).await?;
        let found = read(&self.db(&lent)?).await;
        if !found.as_ref().is_err_and(Failure::is_lost) {
            lent.give_back();
        }
        found.map_err(|failure| self.noted(failure, lent.since))
    }

    /// [`Connections::try_single`] in a task of its own.
    pub(crate) async fn single<T: Send + 'static>(
        self: &Arc<Self>,
        statement: impl for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move { this.try_single(Purpose::Work, statement).await }).await
    }

    /// Statements in a transaction of their own, in one round trip: BEGIN, whatever `statement` sends before it waits,
    /// and COMMIT go out together. A statement that fails makes the COMMIT a rollback; a connection that breaks
    /// leaves it unknown. Call it from a task that nobody drops.
    pub(crate) async fn try_single<T: Send>(
        &self,
        purpose: Purpose,
        statement: impl for<'c> Fn(&'c Db<'c>) -> Boxed<'c, Tried<T>> + Send + Sync,
    ) -> Tried<T> {
        let locks = match purpose {
            Purpose::Work => self.timeout,
            Purpose::Merged => LOCK_MERGED,
            Purpose::Renewal => LOCK_AT_FIRST,
        };
        let begin = self.begin(purpose, locks);
        for _ in 1..TRIES {
            let mut lent = self.lend(purpose).await?;
            let db = self.db(&lent)?;
            let (begun, done, ended) =
                tokio::join!(biased; db.send(&begin.sql), statement(&db), db.send("COMMIT"));
            let end = begun.map_err(Failure::without_begin).and(done).and_then(|t| ended.map(|()| t));
            match end.map_err(|failure| self.noted(failure, lent.since).after_commit()) {
                Err(lost @ Failure::Unknown(_)) => return Err(lost),
                end => {
                    lent.give_back();
                    match end {
                        Err(failure) if failure.is_passing() => {}
                        end => {
                            if end.is_ok() {
                                self.committed(&begin, purpose);
                            }
                            return end;
                        }
                    }
                }
            }
        }
        Err(Failure::Raced)
    }

    /// [`Connections::try_transact`] in a task of its own.
    pub(crate) async fn transact<T: Send + 'static>(
        self: &Arc<Self>,
        now: Now,
        verb: impl for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        spawned(async move { this.try_transact(now, verb).await }).await
    }

    /// The same for what must not wait behind work: on a connection for renewals.
    pub(crate) async fn transact_renewal<T: Send + 'static>(
        self: &Arc<Self>,
        now: Now,
        verb: impl for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<T>> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let this = Arc::clone(self);
        let waits = Waits::For(LOCK_PATIENCE);
        spawned(async move { this.try_transact_waiting(Purpose::Renewal, waits, now, verb).await }).await
    }

    /// Runs a verb in a transaction, again when it only lost a race. A row that another transaction holds is waited for,
    /// but not for long. Call it from a task that nobody drops.
    pub(crate) async fn try_transact<T: Send + 'static>(
        &self,
        now: Now,
        verb: impl for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<T>> + Send + Sync,
    ) -> Tried<T> {
        let answer = Answer::default();
        self.transact_work(now, &|tx| answer.of(verb(tx))).await?;
        answer.take()
    }

    async fn transact_work(&self, now: Now, verb: &Verb<'_>) -> Tried<()> {
        match self.transact_within(Purpose::Work, LOCK_AT_FIRST, now, verb).await {
            Err(failure) if failure.is_locked() => {
                self.transact_waiting(Purpose::Work, Waits::For(LOCK_PATIENCE), now, verb).await
            }
            end => end,
        }
    }

    /// The same, waiting for locks as it is said.
    pub(crate) async fn try_transact_waiting<T: Send + 'static>(
        &self,
        purpose: Purpose,
        waits: Waits,
        now: Now,
        verb: impl for<'t> Fn(&'t Tx<'t>) -> Boxed<'t, Tried<T>> + Send + Sync,
    ) -> Tried<T> {
        let answer = Answer::default();
        self.transact_waiting(purpose, waits, now, &|tx| answer.of(verb(tx))).await?;
        answer.take()
    }

    async fn transact_waiting(&self, purpose: Purpose, waits: Waits, now: Now, verb: &Verb<'_>) -> Tried<()> {
        let Waits::For(patience) = waits else {
            return self.transact_within(purpose, LOCK_NO_WAIT, now, verb).await;
        };
        // Renewals have few connections of their own, and no time.
        if purpose == Purpose::Renewal {
            return self.transact_within(purpose, patience, now, verb).await;
        }
        let until = Instant::now() + TURN;
        loop {
            let ended = self.lock_waits_ended.load(Ordering::Relaxed);
            let turn = timeout_at(until, self.lock_waits.acquire()).await;
            // Whose turn does not come looks once more: what it waited for may long be over.
            let locks = if turn.is_ok() { patience } else { LOCK_NO_WAIT };
            let end = self.transact_within(purpose, locks, now, verb).await;
            drop(turn);
            if !end.as_ref().is_err_and(Failure::is_locked) {
                self.lock_waits_ended.fetch_add(1, Ordering::Relaxed);
                return end;
            }
            // Where others of this process got what they waited for, it may be they who were in the way: verbs of many
            // callers on one job queue for it. A stranger's lock lets nobody through.
            let is_moving = ended != self.lock_waits_ended.load(Ordering::Relaxed);
            if !is_moving || Instant::now() >= until {
                return end;
            }
        }
    }

    async fn transact_within(
        &self,
        purpose: Purpose,
        locks: Duration,
        now: Now,
        verb: &Verb<'_>,
    ) -> Tried<()> {
        let begin = self.begin(purpose, locks);
        for _ in 1..TRIES {
            match self.once(purpose, &begin, now, verb).await {
                Err(failure) if failure.is_passing() => {}
                end => return end,
            }
        }
        Err(Failure::Raced)
    }

    async fn once(&self, purpose: Purpose, begin: &Begin, now: Now, verb: &Verb<'_>) -> Tried<()> {
        let mut lent = self.lend(purpose).await?;
        let tx = Tx::new(self.db(&lent)?, now);
        // The verb's first statements follow BEGIN in the same round trip. Without a transaction it gets no further.
        let begun = async { tx.send(&begin.sql).await.map_err(Failure::without_begin) };
        let verb = async { Ok(verb(&tx).await) };
        let end = tokio::try_join!(biased; begun, verb).and_then(|((), end)| end);
        match end {
            Ok(()) => {
                let committed = tx.send("COMMIT").await;
                committed.map_err(|failure| self.noted(failure, lent.since).after_commit())?;
                self.committed(begin, purpose);
                let (wrote, due) = tx.hints();
                if wrote {
                    self.wakeups.hint(due);
                }
                lent.give_back();
                Ok(())
            }
            Err(failure) => {
                if !failure.is_lost() && tx.send("ROLLBACK").await.is_ok() {
                    lent.give_back();
                }
                Err(self.noted(failure, lent.since))
            }
        }
    }
}

fn pool(
    route: &Route,
    size: usize,
    texts: &Arc<Texts>,
    unconfirmed: &Arc<AtomicU64>,
) -> Result<Pool, OpenError> {
    let Route { config, tls } = route.clone();
    let fast = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager =
        Manager::from_connect(config, Connector { tls, unconfirmed: Arc::clone(unconfirmed) }, fast);
    let arrived = Arc::clone(texts);
    Pool::builder(manager)
        .post_create(Hook::async_fn(move |client, _| {
            let texts = Arc::clone(&arrived);
            Box::pin(async move { crate::feed::arrive(client, &texts).await.map_err(HookError::Backend) })
        }))
        .max_size(size)
        .wait_timeout(Some(WAIT))
        .create_timeout(Some(WAIT))
        .runtime(deadpool_postgres::Runtime::Tokio1)
        // Whoever has just worked has its plans at hand; keepalives look after those that rest.
        .queue_mode(deadpool_postgres::QueueMode::Lifo)
        .build()
        .map_err(|e| OpenError::Failed(e.to_string()))
}

/// Runs to its end even if nobody waits for it any more.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place: awaited at once, panics are told as an unknown outcome"
)]
pub(crate) async fn spawned<T: Send + 'static>(
    work: impl Future<Output = Tried<T>> + Send + 'static,
) -> StoreResult<T> {
    let answer = Answer::default();
    let work = answer.of(Box::pin(work));
    match tokio::spawn(work).await {
        Ok(end) => end.and_then(|()| answer.take()).map_err(|failure| failure.told()),
        Err(panicked) => Err(Failure::Unknown(panicked.to_string()).told()),
    }
}
