//! Signals: durable before they wake anyone, kept when they come early.

use crate::state::State;
use windlass_core::decide::{Command, decide};
use windlass_core::{Answer, Done, Timestamp};
use windlass_store::Signal;

impl State {
    /// Signals a job: wakes it, or is kept until it waits.
    pub fn signal(&mut self, request: Signal, now: Timestamp) -> Answer {
        let entry = self.entry(request.job)?;
        if let Some(known) = entry.keyed(request.key.as_ref()) {
            return known.repeated_by("job_signalled", Some(&request.name)).map(Done::Already);
        }
        let command = Command::Signal(request.actor, request.name, request.payload);
        let step = decide(&entry.job, command, now)?.key(request.key);
        Ok(self.write(step))
    }
}
