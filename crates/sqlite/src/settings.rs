//! Settings of the store.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::Tried;
use windlass_core::{Refusal, Timestamp};
use windlass_store::{PutSettings, SettingsState};

impl Db<'_> {
    pub(crate) fn settings(&self) -> Tried<SettingsState> {
        let kept = self.one(sql!("settings"), (), |r| Ok(serde_json::from_str(&r.get::<_, String>(0)?)?))?;
        Ok(kept.unwrap_or_default())
    }
}

impl Tx<'_, '_> {
    pub(crate) fn put_settings(
        &self,
        request: &PutSettings,
        now: Timestamp,
    ) -> Tried<Result<SettingsState, Refusal>> {
        let before = self.settings()?;
        let Some((state, audit)) = granted!(request.decide(&before, now)) else { return Ok(Ok(before)) };
        self.execute(sql!("put_settings"), [serde_json::to_string(&state)?])?;
        self.write_audit(&audit, now)?;
        Ok(Ok(state))
    }
}
