//! The SQLite store: one file on disk, nothing to install.
//!
//! Writes go through one thread that commits whatever is waiting in one transaction (`writer`); reads have their
//! own connections (`reader`). A verb loads the row, lets [`windlass_core`] decide, and writes row and event
//! together (`db`). Other processes on the same file take turns with ours; they are noticed by polling.
//!
//! What is never known here: workers, HTTP, schedules.

mod append;
mod approve;
mod assign;
mod bulk_insert;
mod claim;
mod connect;
mod db;
mod diagnostics;
mod end;
mod enqueue;
mod erase;
mod error;
mod feed;
mod follow;
mod house;
mod lanes;
mod lease;
mod list;
mod logs;
mod migrate;
mod operate;
mod paper;
mod poll;
mod rates;
mod reader;
mod registry;
mod retention;
mod row;
mod schedule;
mod seals;
mod settings;
mod settle;
mod subscription;
mod sweep;
mod term;
mod trigger;
mod verbs;
mod verify;
mod wait;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_store::{Hinter, StoreResult};

pub use diagnostics::Condition;
pub use error::OpenError;
pub use migrate::print as migrations_as_sql;

/// A store in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: writer::Writer,
    readers: Arc<reader::Readers>,
    positions: Arc<claim::Positions>,
    hinter: Arc<Hinter>,
    _poll: poll::Poll,
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct Options {
    path: PathBuf,
    create: bool,
    max_pages: Option<u32>,
    mover: bool,
}

impl Options {
    /// The file at `path`, created and migrated when needed.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), create: true, max_pages: None, mover: false }
    }

    /// Whether a missing file is created and an old one migrated. Commands that only read say no.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// The most pages of 8 KiB that the file may grow to; writes beyond are refused like on a full disk.
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// Opens it for moving: what it writes is taken also while the store is closed.
    #[must_use]
    pub fn mover(mut self) -> Self {
        self.mover = true;
        self
    }

    /// Opens the store. Blocks for as long as migrations take.
    pub fn open(self) -> Result<SqliteStore, OpenError> {
        let path = self.path;
        let failed = |why: String| OpenError::Failed { path: path.display().to_string(), why };
        let sql_failed = |e: rusqlite::Error| failed(error::Failure::from(e).undone().to_string());
        connect::refuse_network(&path)?;
        if self.create {
            if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
                connect::create_folder(folder)
                    .map_err(|e| failed(format!("cannot create its folder: {e}")))?;
            }
            connect::create_file(&path);
        } else if !path.exists() {
            return Err(OpenError::NoStore(path.display().to_string()));
        }
        let conn = connect::writer(&path, self.create).map_err(sql_failed)?;
        // Looked at before anything is written: what is refused stays as it is, to the byte.
        migrate::check(&conn).map_err(sql_failed)??;
        if !self.create {
            match migrate::found(&conn).map_err(sql_failed)? {
                None => return Err(OpenError::NoStore(path.display().to_string())),
                Some(found) if found < migrate::known() => {
                    return Err(OpenError::OldSchema { found, known: migrate::known() });
                }
                Some(_) => {}
            }
        }
        connect::settle_in(&conn, self.max_pages).map_err(sql_failed)?;
        if self.create {
            migrate::run(&conn, &path)?;
            feed::adopt_file(&conn, &path).map_err(sql_failed)?;
        }
        let hinter = Arc::new(Hinter::default());
        let start = |e: std::io::Error| failed(format!("cannot start a thread: {e}"));
        let writer = writer::Writer::start(conn, self.mover, Arc::clone(&hinter)).map_err(start)?;
        let readers = Arc::new(reader::Readers::new(path.clone()));
        let poll = poll::Poll::start(path.clone(), Arc::clone(&hinter)).map_err(start)?;
        Ok(SqliteStore { writer, readers, positions: Arc::default(), hinter, _poll: poll })
    }
}

impl SqliteStore {
    /// Opens the file at `path`, created and migrated when needed.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let options = Options::new(path);
        let stopped = |e: tokio::task::JoinError| OpenError::Failed {
            path: String::new(),
            why: format!("opening was interrupted: {e}"),
        };
        tokio::task::spawn_blocking(move || options.open()).await.map_err(stopped)?
    }

    /// Checks the file with SQLite's own means: `ok`, or what is wrong.
    pub async fn integrity(&self) -> StoreResult<String> {
        self.readers
            .read(|db| Ok(db.one("PRAGMA integrity_check", (), |r| Ok(r.get(0)?))?.unwrap_or_default()))
            .await
    }
}
