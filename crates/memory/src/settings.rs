//! Settings of the store.

use crate::state::State;
use windlass_core::{Refusal, Timestamp};
use windlass_store::{PutSettings, SettingsState};

impl State {
    /// The settings.
    pub fn settings(&mut self, _request: (), _now: Timestamp) -> SettingsState {
        self.settings.clone()
    }

    /// Puts settings in force.
    pub fn put_settings(&mut self, request: PutSettings, now: Timestamp) -> Result<SettingsState, Refusal> {
        if let Some((state, audit)) = request.decide(&self.settings, now)? {
            self.write_audit(audit, now);
            self.settings = state;
        }
        Ok(self.settings.clone())
    }
}
