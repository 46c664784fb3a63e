//! The memory store compared with itself: the random lives that other stores are compared by reach every verb.

use std::sync::Arc;
use windlass_conformance::Made;
use windlass_memory::MemoryStore;

async fn make() -> Made {
    Made { store: Arc::new(MemoryStore::new()), keep: Box::new(()) }
}

/// R1
#[test]
fn two_memory_stores_never_differ() {
    windlass_conformance::differential(400, make, make);
}

/// F5, F6
#[test]
fn a_free_one_of_a_hundred_thousand_keys_is_found() {
    windlass_conformance::a_crowd_of_keys(make);
}
