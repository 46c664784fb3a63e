//! What is measured: a fresh store, with whatever must live as long as it does.

use crate::Tried;
use crate::args::{Args, Kind};
use crate::postgres::{Database, Server};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use windlass_memory::MemoryStore;
use windlass_sqlite::SqliteStore;
use windlass_store::Store;

/// The database of SQLite's store.
const FILE: &str = "windlass.db";

/// A fresh store. Fields drop in order: the store lets go of its files before they go.
pub struct Subject {
    pub store: Arc<dyn Store>,
    /// Where it is, in PostgreSQL.
    pub database: Option<Database>,
    folder: Option<TempDir>,
}

impl Subject {
    pub async fn open(kind: Kind, server: Option<&Server>) -> Tried<Self> {
        match (kind, server) {
            (Kind::Memory, _) => Ok(Self::of(Arc::new(MemoryStore::new()))),
            (Kind::Sqlite, _) => {
                let folder = folder()?;
                let store = SqliteStore::open(folder.path().join(FILE)).await?;
                Ok(Self { store: Arc::new(store), database: None, folder: Some(folder) })
            }
            (Kind::Postgres, Some(server)) => {
                let database = server.database().await?;
                let store = windlass_postgres::PostgresStore::open(database.url()).await?;
                Ok(Self { store: Arc::new(store), database: Some(database), folder: None })
            }
            (Kind::Postgres, None) => Err("there is no PostgreSQL to measure".into()),
        }
    }

    /// A store with nothing around it.
    pub fn of(store: Arc<dyn Store>) -> Self {
        Self { store, database: None, folder: None }
    }

    /// How many bytes its tables and indexes take, where that is known.
    pub async fn bytes(&self) -> Tried<Option<u64>> {
        if let Some(database) = &self.database {
            return database.bytes().await.map(Some);
        }
        let Some(folder) = &self.folder else { return Ok(None) };
        Ok(Some(std::fs::metadata(folder.path().join(FILE))?.len()))
    }

    /// How many rows of jobs and their logs were removed, where that is known.
    pub async fn removed_rows(&self) -> Tried<Option<u64>> {
        match &self.database {
            Some(database) => database.removed_rows().await.map(Some),
            None => Ok(None),
        }
    }

    /// Closes the store and answers how many dead versions of rows it left behind, where that is known.
    pub async fn close(self) -> Tried<Option<u64>> {
        drop(self.store);
        match self.database {
            Some(database) => database.close().await.map(Some),
            None => Ok(None),
        }
    }
}

/// The server that PostgreSQL's stores are measured on, if they are.
pub async fn server(args: &Args) -> Tried<Option<Server>> {
    if !args.stores.contains(&Kind::Postgres) {
        return Ok(None);
    }
    match &args.url {
        Some(url) => Server::named(url).await.map(Some),
        None => Server::start(folder()?).map(Some),
    }
}

/// A folder that is removed after use: beside the program, that is on the disk with the build, since the
/// system's own folder for such things is often in memory, where a commit costs nothing.
pub fn folder() -> Tried<TempDir> {
    let beside: Option<PathBuf> =
        std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let make = || tempfile::Builder::new();
    let made = beside.and_then(|folder| make().prefix("bench-").tempdir_in(folder).ok());
    Ok(made.map_or_else(|| make().prefix("windlass-bench-").tempdir(), Ok)?)
}
