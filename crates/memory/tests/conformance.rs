//! The memory store under the law of stores.

use std::sync::Arc;
use windlass_conformance::Made;
use windlass_memory::MemoryStore;

async fn make() -> Made {
    Made { store: Arc::new(MemoryStore::new()), keep: Box::new(()) }
}

windlass_conformance::suite!(crate::make);
