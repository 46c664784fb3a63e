//! Random lives on this store and on the model in memory at once.

mod support;

use std::sync::Arc;
use windlass_conformance::{Made, differential};
use windlass_memory::MemoryStore;

/// J3, J5, J6, J7, J8, J11, M1, M2, M5, M7, Q5, Q6, Q7: whatever is done to both, both answer the same, write the
/// same log and are left the same.
#[test]
fn this_store_lives_like_the_model() {
    let model = || async { Made { store: Arc::new(MemoryStore::new()), keep: Box::new(()) } };
    let store = || async {
        let (url, database) = support::database().await;
        let store = windlass_postgres::Options::new(&url).pool(4).open().await.expect("a store");
        Made { store: Arc::new(store), keep: Box::new(database) }
    };
    differential(40, model, store);
}
