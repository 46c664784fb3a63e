//! The law of a store, on PostgreSQL.

mod support;

use std::sync::Arc;
use windlass_conformance::Made;
use windlass_postgres::Options;

async fn make() -> Made {
    let (url, database) = support::database().await;
    let store = Options::new(&url).pool(8).feed_steps(10, 20).open().await.expect("a store");
    Made { store: Arc::new(store), keep: Box::new(database) }
}

windlass_conformance::suite!(crate::make);
