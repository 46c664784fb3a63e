//! A connection of a pool, lent for one transaction.

use crate::error::{Failure, Tried};
use deadpool_postgres::{Object, Pool};
use tokio::time::Instant;
use tokio_postgres::Client;

/// A connection that goes back to the pool only when it was said to be clean: not after a panic, not half-way.
pub(super) struct Lent {
    object: Option<Object>,
    /// Since when.
    pub(super) since: Instant,
}

impl Lent {
    pub(super) async fn from(pool: &Pool) -> Tried<Self> {
        let object = pool.get().await?;
        Ok(Self { object: Some(object), since: Instant::now() })
    }

    pub(super) fn client(&self) -> Tried<&Client> {
        self.object
            .as_ref()
            .map(|o| &***o)
            .ok_or_else(|| Failure::Pool("the connection was given back".into()))
    }

    pub(super) fn give_back(&mut self) {
        drop(self.object.take());
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}
