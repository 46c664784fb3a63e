//! The writer: one thread, one connection, one transaction for whoever is waiting.
//!
//! A commit costs one sync of the disk however many verbs are in it. The thread takes what is queued, runs it
//! all in one transaction of at most 50 ms, commits once and then answers everybody. If one verb's content
//! breaks the transaction, all are run again, each in its own.

use crate::db::{Db, Tx};
use crate::error::{Failure, Tried};
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use windlass_core::Timestamp;
use windlass_store::{Hinter, Now, StoreError, StoreResult};

/// The longest a group keeps the file from other processes.
const GROUP_MAX: Duration = Duration::from_millis(50);
/// The longest a verb waits for others to share its commit: about what a commit takes.
const COMPANY: Duration = Duration::from_micros(150);
const NAP: Duration = Duration::from_micros(20);
/// Another process that waits for the file looks every half millisecond; this lets it in.
const YIELD: Duration = Duration::from_millis(1);

/// A verb that waits for its turn.
trait Task: Send {
    /// Runs it; again after a rollback.
    fn run(&mut self, tx: &Tx<'_, '_>) -> Tried<()>;
    /// Answers it.
    fn answer(self: Box<Self>, end: Result<(), StoreError>);
}

struct Verb<F, T> {
    now: Now,
    run: F,
    result: Option<T>,
    reply: oneshot::Sender<StoreResult<T>>,
}

impl<F, T> Task for Verb<F, T>
where
    F: FnMut(&Tx<'_, '_>, Timestamp) -> Tried<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &Tx<'_, '_>) -> Tried<()> {
        let now = tx.now(self.now);
        self.result = Some((self.run)(tx, now)?);
        Ok(())
    }

    fn answer(self: Box<Self>, end: Result<(), StoreError>) {
        let Self { result, reply, .. } = *self;
        // Nobody listens when the caller was dropped; the work is done all the same.
        let _ = reply.send(end.and_then(|()| result.ok_or_else(|| Failure::Stopped.undone())));
    }
}

/// Where verbs queue up. Dropping the last one ends the thread.
pub(crate) struct Writer {
    queue: Option<Sender<Box<dyn Task>>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    pub(crate) fn start(conn: Connection, mover: bool, hinter: Arc<Hinter>) -> std::io::Result<Self> {
        let (queue, waiting) = channel();
        let work = move || run(&conn, mover, &waiting, &hinter);
        let thread = std::thread::Builder::new().name("windlass-sqlite".into()).spawn(work)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Runs a verb in the next group and answers after its commit.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        now: Now,
        run: impl FnMut(&Tx<'_, '_>, Timestamp) -> Tried<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (reply, answer) = oneshot::channel();
        let verb = Verb { now, run, result: None, reply };
        let queue = self.queue.as_ref().ok_or_else(|| Failure::Stopped.undone())?;
        queue.send(Box::new(verb)).map_err(|_| Failure::Stopped.undone())?;
        answer.await.unwrap_or_else(|_| Err(Failure::Stopped.unknown()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // What is queued is still written before the thread ends.
            let _ = thread.join();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "measures how long the file was kept from other processes")]
fn run(conn: &Connection, mover: bool, waiting: &Receiver<Box<dyn Task>>, hinter: &Hinter) {
    let db = match Db::hot(conn, mover) {
        Ok(db) => db,
        Err(error) => return tracing::error!(%error, "the statements of this store do not compile"),
    };
    let (mut kept, mut callers) = (Duration::ZERO, 1);
    while let Some(first) = next(waiting, &mut kept) {
        let began = Instant::now();
        let more = |ran: usize| {
            if began.elapsed() >= GROUP_MAX {
                return None;
            }
            // Whoever was answered together is likely to be back at once: a sync of the disk is worth the wait.
            // Asleep rather than waiting: to be woken by each of them costs more than their verbs.
            let mut task = waiting.try_recv();
            while task.is_err() && ran < callers && began.elapsed() < COMPANY {
                std::thread::sleep(NAP);
                task = waiting.try_recv();
            }
            task.ok()
        };
        callers = group(conn, &db, first, more, hinter);
        kept += began.elapsed();
        if kept >= GROUP_MAX {
            kept = Duration::ZERO;
            std::thread::sleep(YIELD);
        }
    }
}

/// The next verb; none when nobody can send one any more. Having to wait for it counts as having yielded.
fn next(waiting: &Receiver<Box<dyn Task>>, kept: &mut Duration) -> Option<Box<dyn Task>> {
    if let Ok(task) = waiting.try_recv() {
        return Some(task);
    }
    *kept = Duration::ZERO;
    waiting.recv().ok()
}

/// Runs whoever is waiting in one transaction; if one of them fails, each in its own. Answers how many there were.
fn group(
    conn: &Connection,
    db: &Db<'_>,
    first: Box<dyn Task>,
    mut more: impl FnMut(usize) -> Option<Box<dyn Task>>,
    hinter: &Hinter,
) -> usize {
    let tx = match begin(conn, db) {
        Ok(tx) => tx,
        Err(failure) => {
            first.answer(Err(failure.undone()));
            return 1;
        }
    };
    let (mut ran, mut next, mut failed) = (Vec::new(), Some(first), None);
    while let Some(mut task) = next {
        failed = task.run(&tx).err();
        ran.push(task);
        next = if failed.is_some() { None } else { more(ran.len()) };
    }
    let verbs = ran.len();
    if let Some(failure) = failed {
        undo(conn);
        tracing::debug!(%failure, verbs, "a group failed and is run one by one");
        ran.into_iter().for_each(|task| alone(conn, db, task, hinter));
    } else {
        let end = commit(conn, &tx, hinter);
        ran.into_iter().for_each(|task| task.answer(end.clone()));
    }
    verbs
}

/// Runs one verb in a transaction of its own, so that its trouble is nobody else's.
fn alone(conn: &Connection, db: &Db<'_>, mut task: Box<dyn Task>, hinter: &Hinter) {
    let end = begin(conn, db).map_err(|f| f.undone()).and_then(|tx| match task.run(&tx) {
        Ok(()) => commit(conn, &tx, hinter),
        Err(failure) => {
            undo(conn);
            Err(failure.undone())
        }
    });
    task.answer(end);
}

fn begin<'w, 'c>(conn: &Connection, db: &'w Db<'c>) -> Tried<Tx<'w, 'c>> {
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
    Tx::new(db).inspect_err(|_| undo(conn))
}

fn commit(conn: &Connection, tx: &Tx<'_, '_>, hinter: &Hinter) -> Result<(), StoreError> {
    let committed = conn.prepare_cached("COMMIT").and_then(|mut s| s.execute(())).map_err(Failure::from);
    if let Err(failure) = committed {
        undo(conn);
        return Err(if failure.is_io() { failure.unknown() } else { failure.undone() });
    }
    let (wrote, due) = tx.hints();
    if wrote {
        hinter.hint(due);
    }
    Ok(())
}

fn undo(conn: &Connection) {
    // SQLite rolls back by itself on some errors, a full disk for one.
    if conn.is_autocommit() {
        return;
    }
    if let Err(error) = conn.execute_batch("ROLLBACK") {
        tracing::error!(%error, "a rollback failed");
    }
}
