//! The law of a store, on SQLite.

use std::sync::Arc;
use windlass_conformance::Made;
use windlass_sqlite::SqliteStore;

async fn make() -> Made {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("windlass.db")).await.expect("a store");
    Made { store: Arc::new(store), keep: Box::new(folder) }
}

windlass_conformance::suite!(crate::make);
