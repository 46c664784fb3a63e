//! Readers: connections of their own, each read in one snapshot, never in the writer's way.

use crate::connect;
use crate::db::Db;
use crate::error::{Failure, Tried};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;
use windlass_store::StoreResult;

/// Idle connections kept open.
const KEPT: usize = 8;

type Read<'r> = Box<dyn FnOnce(&Db<'_>) -> Tried<()> + 'r>;

/// The readers of one file.
#[derive(Debug)]
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default() }
    }

    /// Reads on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Db<'_>) -> Tried<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (tell, told) = oneshot::channel();
        let readers = Arc::clone(self);
        // In a box: what runs and waits is made once, and not for each of a hundred verbs.
        let work: Box<dyn FnOnce() + Send> = Box::new(move || {
            let mut found = None;
            let read = readers.snapshot(Box::new(|db| {
                found = Some(read(db)?);
                Ok(())
            }));
            // Nobody hears it who was dropped.
            let _unheard = tell.send(read.and(found.ok_or(Failure::Stopped)));
        });
        let ended = tokio::task::spawn_blocking(work).await.map_err(|_| Failure::Stopped);
        let found = ended.and(told.await.unwrap_or(Err(Failure::Stopped)));
        found.map_err(|f| f.undone())
    }

    fn snapshot(&self, read: Read<'_>) -> Tried<()> {
        let idle = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        let conn = match idle {
            Some(conn) => conn,
            None => connect::reader(&self.path)?,
        };
        conn.execute_batch("BEGIN")?;
        let found = read(&Db::new(&conn));
        conn.execute_batch("COMMIT")?;
        if let Ok(mut idle) = self.idle.lock()
            && idle.len() < KEPT
        {
            idle.push(conn);
        }
        found
    }
}
