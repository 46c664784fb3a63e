//! Readers of the feed, and what the one for stats found.

use crate::state::{State, page};
use std::collections::BTreeMap;
use windlass_core::stats::RollupKey;
use windlass_core::{Fingerprint, Name, Refusal, Timestamp};
use windlass_store::{
    Advance, Findings, Gauge, ListProblems, LogSeal, Place, Problem, ProblemView, PutProblem, ROLLUPS_MAX,
    ReadGauges, ReadRollups, RebuildStats, Resolution, Rollup,
};

/// What readers keep here.
#[derive(Default)]
pub(crate) struct Kept {
    places: BTreeMap<Name, Place>,
    rollups: BTreeMap<RollupKey, Rollup>,
    gauges: BTreeMap<(Resolution, Timestamp, Name), Gauge>,
    problems: BTreeMap<Fingerprint, Problem>,
    /// Errors and how many of them were the last of a job, by problem and hour.
    hours: BTreeMap<(Fingerprint, Timestamp), (i64, i64)>,
}

impl Kept {
    fn write(&mut self, findings: &Findings, now: Timestamp) {
        for found in &findings.rollups {
            match self.rollups.get_mut(&found.key) {
                Some(row) => row.merge(found),
                None => drop(self.rollups.insert(found.key.clone(), found.clone())),
            }
        }
        for found in &findings.gauges {
            let key = (found.resolution, found.at, found.queue.clone());
            match self.gauges.get_mut(&key) {
                Some(gauge) => gauge.merge(found),
                None => drop(self.gauges.insert(key, found.clone())),
            }
        }
        for seen in &findings.sightings {
            let before = self.problems.remove(&seen.fingerprint);
            self.problems.insert(seen.fingerprint.clone(), Problem::seen(before, seen));
            let hour = self.hours.entry((seen.fingerprint.clone(), seen.hour)).or_default();
            *hour = (hour.0 + seen.errors, hour.1 + seen.dead);
        }
        if findings.forget {
            self.forget(now);
        }
    }

    /// Forgets how far a reader has come.
    pub(crate) fn forget_place(&mut self, reader: &Name) {
        self.places.remove(reader);
    }

    fn forget(&mut self, now: Timestamp) {
        let kept = |resolution: Resolution, at: Timestamp| at >= now.plus_ms(-resolution.kept_ms());
        self.rollups.retain(|key, _| kept(key.resolution, key.at));
        self.gauges.retain(|(resolution, at, _), _| kept(*resolution, *at));
        self.hours.retain(|(_, at), _| kept(Resolution::Hour, *at));
        self.problems.retain(|_, problem| kept(Resolution::Hour, problem.last_seen_at));
    }

    fn view(&self, problem: &Problem, since: Option<Timestamp>) -> ProblemView {
        let of = &problem.fingerprint;
        let all =
            self.hours.iter().filter(|((one, _), (errors, dead))| one == of && (*errors, *dead) != (0, 0));
        let hours: Vec<_> = all.map(|((_, at), (errors, dead))| (*at, *errors, *dead)).collect();
        let (errors, dead) = hours.iter().fold((0, 0), |sum, hour| (sum.0 + hour.1, sum.1 + hour.2));
        let hours = hours.into_iter().filter(|hour| since.is_none_or(|since| hour.0 >= since)).collect();
        ProblemView { problem: problem.clone(), hours, errors, dead }
    }
}

impl State {
    /// How far a reader has come.
    pub fn place(&mut self, request: Name, _now: Timestamp) -> Option<Place> {
        self.kept.places.get(&request).cloned()
    }

    /// How far every reader has come, by name.
    pub fn places(&mut self, (): (), _now: Timestamp) -> Vec<Place> {
        self.kept.places.values().cloned().collect()
    }

    /// Moves a reader's place together with what it found.
    pub fn advance(&mut self, request: Advance, now: Timestamp) -> Result<Place, Refusal> {
        let before = self.kept.places.get(&request.reader);
        let Some(place) = request.decide(self.terms.get(&request.term), before, now)? else {
            return before.cloned().ok_or(Refusal::NotFound);
        };
        let last = self.sealed.chain.last().map(LogSeal::head);
        self.sealed.chain.extend(request.seal(last.as_ref(), now));
        self.kept.write(&request.findings, now);
        self.kept.places.insert(request.reader, place.clone());
        Ok(place)
    }

    /// Removes what was counted and begins again.
    pub fn rebuild_stats(&mut self, request: RebuildStats, now: Timestamp) -> Place {
        let (place, audit) = request.decide(now);
        self.write_audit(audit, now);
        let goes = |at: Timestamp| place.since.is_none_or(|since| at >= since);
        self.kept.rollups.retain(|key, _| !goes(key.at));
        self.kept.hours.retain(|(_, at), _| !goes(*at));
        self.kept.places.insert(place.reader.clone(), place.clone());
        place
    }

    /// Rows of numbers, by their keys.
    pub fn rollups(&mut self, request: ReadRollups, _now: Timestamp) -> Vec<Rollup> {
        let wanted = |row: &&Rollup| {
            row.key.resolution == request.resolution
                && (request.from..request.to).contains(&row.key.at)
                && request.queue.as_ref().is_none_or(|queue| *queue == row.key.queue)
                && request.kind.as_ref().is_none_or(|kind| *kind == row.key.kind)
                && row.count != 0
        };
        let limit = request.limit.clamp(1, ROLLUPS_MAX);
        self.kept.rollups.values().filter(wanted).take(limit).cloned().collect()
    }

    /// How queues stood, by time and queue.
    pub fn gauges(&mut self, request: ReadGauges, _now: Timestamp) -> Vec<Gauge> {
        let wanted = |gauge: &&Gauge| {
            gauge.resolution == request.resolution && (request.from..request.to).contains(&gauge.at)
        };
        self.kept.gauges.values().filter(wanted).take(ROLLUPS_MAX).cloned().collect()
    }

    /// A page of problems, last seen first.
    pub fn problems(&mut self, request: ListProblems, now: Timestamp) -> Vec<ProblemView> {
        let place = |problem: &Problem| (problem.last_seen_at, problem.fingerprint.clone());
        let wanted = |problem: &&Problem| {
            request.state.is_none_or(|state| state == problem.state)
                && request.kind.as_ref().is_none_or(|kind| *kind == problem.kind)
                && request.before.as_ref().is_none_or(|before| place(problem) < *before)
        };
        let mut found: Vec<&Problem> = self.kept.problems.values().filter(wanted).collect();
        found.sort_by_key(|problem| std::cmp::Reverse(place(problem)));
        let since = Some(now.plus_ms(-Resolution::Minute.kept_ms()));
        found.into_iter().take(page(request.limit)).map(|problem| self.kept.view(problem, since)).collect()
    }

    /// One problem.
    pub fn problem(&mut self, request: Fingerprint, _now: Timestamp) -> Option<ProblemView> {
        Some(self.kept.view(self.kept.problems.get(&request)?, None))
    }

    /// Opens, resolves or mutes a problem.
    pub fn put_problem(&mut self, request: PutProblem, now: Timestamp) -> Result<ProblemView, Refusal> {
        let before = self.kept.problems.get(&request.fingerprint);
        if let Some((problem, audit)) = request.decide(before, now)? {
            self.write_audit(audit, now);
            self.kept.problems.insert(request.fingerprint.clone(), problem);
        }
        self.problem(request.fingerprint, now).ok_or(Refusal::NotFound)
    }
}
