//! Random lives on this store and on the model in memory at once.

mod place;

use place::Place;
use std::sync::Arc;
use windlass_conformance::{Made, differential};
use windlass_memory::MemoryStore;

/// J3, J5, J6, J7, J8, J11, M1, M2, M5, M7, Q5, Q6, Q7: whatever is done to both, both answer the same, write the
/// same log and are left the same.
#[test]
fn this_store_lives_like_the_model() {
    let model = || async { Made { store: Arc::new(MemoryStore::new()), keep: Box::new(()) } };
    let store = || async {
        let place = Place::new();
        Made { store: place.open(), keep: Box::new(place) }
    };
    differential(100, model, store);
}

/// F5, F6
#[test]
fn a_free_one_of_a_hundred_thousand_keys_is_found() {
    windlass_conformance::a_crowd_of_keys(|| async {
        let place = Place::new();
        Made { store: place.open(), keep: Box::new(place) }
    });
}
