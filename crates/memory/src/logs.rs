//! Log lines that move to the archive when they are old.

use crate::state::{State, page};
use std::collections::BTreeSet;
use windlass_core::{JobId, LogPart, Refusal, Timestamp};
use windlass_store::{LogRange, MoveLogs, ReadOldLogs};

impl State {
    /// Jobs with old lines.
    pub fn old_logs(&mut self, request: ReadOldLogs, _now: Timestamp) -> Vec<(Timestamp, JobId)> {
        let lines = self.entries.iter().flat_map(|(id, entry)| entry.lines.iter().map(|line| (line.at, *id)));
        let old = lines.filter(|place| place.0 < request.before && Some(*place) > request.after);
        let old: BTreeSet<(Timestamp, JobId)> = old.collect();
        old.into_iter().take(page(request.limit)).collect()
    }

    /// Removes lines that a part of the archive holds.
    pub fn move_logs(
        &mut self,
        request: MoveLogs,
        now: Timestamp,
    ) -> Result<Vec<Result<(), Refusal>>, Refusal> {
        request.decide(self.terms.get(&request.term), now)?;
        Ok(request.ranges.iter().map(|range| self.move_range(range, &request.part)).collect())
    }

    /// Where lines are that moved.
    pub fn log_parts(&mut self, request: JobId, _now: Timestamp) -> Vec<LogPart> {
        self.entries.get(&request).map(|entry| entry.log_parts.clone()).unwrap_or_default()
    }

    fn move_range(&mut self, range: &LogRange, part: &str) -> Result<(), Refusal> {
        let entry = self.entries.get_mut(&range.job).ok_or(Refusal::NotFound)?;
        let is_named = |n: i64| (range.first..=range.last).contains(&n);
        let here = entry.lines.iter().filter(|line| is_named(line.n)).count() as i64;
        if range.decide(here, &entry.log_parts, part)? {
            entry.lines.retain(|line| !is_named(line.n));
            let LogRange { first, last, .. } = *range;
            entry.log_parts.push(LogPart { first, last, part: part.to_owned() });
            entry.log_parts.sort_by_key(|part| part.first);
        }
        Ok(())
    }
}
