//! Settings of the store.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::row::Columns;
use tokio_postgres::Row;
use windlass_core::Refusal;
use windlass_store::{Now, PutSettings, SettingsState};

fn state(row: &Row) -> Tried<SettingsState> {
    Ok(serde_json::from_str(Columns::new(row, 0).get()?)?)
}

impl Db<'_> {
    pub(crate) async fn settings(&self, (): &(), _: Now) -> Tried<SettingsState> {
        Ok(self.one(sql!("settings"), params![], state).await?.unwrap_or_default())
    }
}

impl Tx<'_> {
    pub(crate) async fn put_settings(&self, request: &PutSettings) -> Tried<Result<SettingsState, Refusal>> {
        let lock = params![];
        let (kept, now) = tokio::try_join!(biased; self.one(sql!("lock_settings"), lock, state), self.now())?;
        let was_there = kept.is_some();
        let before = kept.unwrap_or_default();
        let Some((state, audit)) = granted!(request.decide(&before, now)) else { return Ok(Ok(before)) };
        let text = serde_json::to_string(&state)?;
        if self.rows(sql!("put_settings"), params![text, was_there]).await?.is_empty() {
            return Err(Failure::Raced);
        }
        self.put_audit(&audit, now).await?;
        Ok(Ok(state))
    }
}
