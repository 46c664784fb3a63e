//! Erasure of what a finished job was given, found and printed.

use crate::state::State;
use windlass_core::erase::Erasure;
use windlass_core::{Answer, Done, Event, LogPart, Refusal, Timestamp};
use windlass_store::{Erase, EventHash};

impl State {
    /// Erases, and leaves an event that says so.
    pub fn erase(&mut self, request: Erase, now: Timestamp) -> Answer {
        let entry = self.entries.get_mut(&request.job).ok_or(Refusal::NotFound)?;
        let moved = entry.log_parts.last().map_or(0, |part| part.last);
        let last = entry.lines.last().map_or(moved, |line| line.n);
        let has_lines = last > 0 && !entry.log_parts.iter().any(|part| part.is_erased() && part.last == last);
        let hashes: Vec<EventHash> = entry.events.iter().map(Event::hash).collect();
        let (changed, step) = match request.decide(&entry.job, &entry.events, &hashes, has_lines, now)? {
            Erasure::Already(version) => return Ok(Done::Already(version)),
            Erasure::Write { changed, step } => (changed, *step),
        };
        for less in changed {
            if let Some(event) = entry.events.iter_mut().find(|event| event.version == less.version) {
                *event = less;
            }
        }
        entry.lines.clear();
        entry.log_parts = if last > 0 { vec![LogPart::erased(last)] } else { Vec::new() };
        Ok(self.write(step))
    }
}
