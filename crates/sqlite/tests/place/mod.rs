//! A place for one store: a file in a folder of its own, and the hand of a stranger on the same file.

#![allow(dead_code, reason = "each test takes from here what it needs")]

pub mod process;

use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use windlass_conformance::{Bed, invariants};
use windlass_sqlite::{OpenError, Options, SqliteStore};

/// A folder that is gone when this is dropped, and the file in it.
pub struct Place {
    folder: tempfile::TempDir,
    /// Where the store is, or will be.
    pub path: PathBuf,
}

impl Place {
    /// An empty folder.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("windlass.db");
        Self { folder, path }
    }

    /// The folder.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Opens the store and keeps what went wrong.
    pub fn try_open(&self) -> Result<SqliteStore, OpenError> {
        Options::new(&self.path).open()
    }

    /// Opens the store.
    pub fn open(&self) -> Arc<SqliteStore> {
        Arc::new(self.try_open().expect("a store"))
    }

    /// A bed around the opened store.
    pub fn bed(&self) -> Bed {
        Bed::new(self.open())
    }

    /// A connection as any program would open it: no functions of ours, no pragmas.
    pub fn hand(&self) -> Connection {
        Connection::open(&self.path).expect("the file opens")
    }

    /// Opens the store anew and checks SQLite's own integrity and the invariants of everything in it.
    pub async fn is_sound(&self) {
        let store = self.open();
        assert_eq!(store.integrity().await.expect("the store answers"), "ok", "SQLite finds no damage");
        invariants::check(&Bed::new(store)).await;
    }
}

/// Runs a test that waits, on as many threads as a server would have.
pub fn wait_for<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}
