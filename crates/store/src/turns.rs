//! Whose turn it is: where the last claims of this process ended among the lanes of each queue.

use crate::fresh;
use std::collections::HashMap;
use std::sync::Mutex;
use windlass_core::{Lane, Name};

/// The lane that was served last, per queue. It is a hint of this process: many fair shares are fair together, and a process
/// that knows nothing begins anywhere, where nobody is preferred because lanes stand in the order of a hash.
#[derive(Debug, Default)]
pub struct LanePlaces(Mutex<HashMap<Name, Lane>>);

impl LanePlaces {
    /// Behind which lane a claim begins.
    pub fn begin(&self, queue: &Name) -> Lane {
        let anywhere = || Lane::from_number(i64::from_be_bytes(fresh::random()) & i64::MAX);
        let Ok(mut places) = self.0.lock() else { return anywhere() };
        *places.entry(queue.clone()).or_insert_with(anywhere)
    }

    /// Notes which lane a claim served last.
    pub fn end(&self, queue: &Name, lane: Lane) {
        if let Ok(mut places) = self.0.lock() {
            places.insert(queue.clone(), lane);
        }
    }
}
