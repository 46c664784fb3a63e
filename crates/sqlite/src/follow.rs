//! Readers of the feed, and what the one for stats found.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::list::page;
use rusqlite::Row;
use windlass_core::stats::{Histogram, RollupKey, Tally};
use windlass_core::{FeedCursor, Fingerprint, Name, Refusal, Timestamp};
use windlass_store::{
    Advance, Findings, Gauge, ListProblems, Place, Problem, ProblemView, PutProblem, ROLLUPS_MAX, ReadGauges,
    ReadRollups, RebuildStats, Resolution, Rollup,
};

/// The most rows that are forgotten in one go.
const FORGOTTEN: i64 = 10_000;

fn read<T>(r: &Row<'_>, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Tried<T> {
    let text: String = r.get(column)?;
    parse(&text).ok_or_else(|| Failure::Unreadable(format!("column {column}: {text:?}")))
}

fn named(text: &str) -> Option<Name> {
    Name::try_from(text).ok()
}

fn time(r: &Row<'_>, column: usize) -> Tried<Timestamp> {
    Ok(Timestamp::from_micros(r.get(column)?))
}

fn place(r: &Row<'_>) -> Tried<Place> {
    let cursor: Option<String> = r.get(1)?;
    let cursor = cursor.map(|text| FeedCursor::parse(&text)).transpose();
    Ok(Place {
        reader: read(r, 0, named)?,
        cursor: cursor.map_err(|e| Failure::Unreadable(e.to_string()))?,
        epoch: r.get(2)?,
        moved_at: time(r, 3)?,
        since: r.get::<_, Option<i64>>(4)?.map(Timestamp::from_micros),
    })
}

fn rollup(r: &Row<'_>) -> Tried<Rollup> {
    let key = RollupKey {
        resolution: read(r, 0, Resolution::parse)?,
        at: time(r, 1)?,
        queue: read(r, 2, named)?,
        kind: read(r, 3, named)?,
        tally: read(r, 4, Tally::parse)?,
    };
    Ok(Rollup { key, count: r.get(5)?, times: read(r, 6, Histogram::parse)? })
}

fn gauge(r: &Row<'_>) -> Tried<Gauge> {
    Ok(Gauge {
        resolution: read(r, 0, Resolution::parse)?,
        at: time(r, 1)?,
        queue: read(r, 2, named)?,
        depth: r.get(3)?,
        oldest_ms: r.get(4)?,
        busy: r.get(5)?,
        capacity: r.get(6)?,
    })
}

fn problem(r: &Row<'_>) -> Tried<Problem> {
    Ok(serde_json::from_str(&r.get::<_, String>(0)?)?)
}

impl Db<'_> {
    pub(crate) fn place(&self, reader: &Name) -> Tried<Option<Place>> {
        self.one(sql!("place"), [reader.as_str()], place)
    }

    pub(crate) fn places(&self) -> Tried<Vec<Place>> {
        self.all(sql!("places"), (), place)
    }

    pub(crate) fn rollups(&self, request: &ReadRollups) -> Tried<Vec<Rollup>> {
        let (from, to) = (request.from.as_micros(), request.to.as_micros());
        let (queue, kind) =
            (request.queue.as_ref().map(Name::as_str), request.kind.as_ref().map(Name::as_str));
        let limit = request.limit.clamp(1, ROLLUPS_MAX) as i64;
        let mut rows =
            self.all(sql!("rollups"), (request.resolution.as_str(), from, to, queue, kind, limit), rollup)?;
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(rows)
    }

    pub(crate) fn gauges(&self, request: &ReadGauges) -> Tried<Vec<Gauge>> {
        let (from, to) = (request.from.as_micros(), request.to.as_micros());
        self.all(sql!("gauges"), (request.resolution.as_str(), from, to, ROLLUPS_MAX as i64), gauge)
    }

    pub(crate) fn problems(&self, request: &ListProblems, now: Timestamp) -> Tried<Vec<ProblemView>> {
        let (before, fingerprint) = match &request.before {
            Some((at, fingerprint)) => (at.as_micros(), fingerprint.as_str()),
            None => (i64::MAX, ""),
        };
        let (state, kind) =
            (request.state.map(|state| state.as_str()), request.kind.as_ref().map(Name::as_str));
        let params = (state, kind, before, fingerprint, page(request.limit));
        let found = self.all(sql!("problems"), params, problem)?;
        let since = now.plus_ms(-Resolution::Minute.kept_ms());
        found.into_iter().map(|problem| self.view_problem(problem, since)).collect()
    }

    pub(crate) fn problem(&self, fingerprint: &Fingerprint) -> Tried<Option<ProblemView>> {
        let found = self.one(sql!("problem"), [fingerprint.as_str()], problem)?;
        found.map(|one| self.view_problem(one, Timestamp::from_micros(i64::MIN))).transpose()
    }

    fn view_problem(&self, problem: Problem, since: Timestamp) -> Tried<ProblemView> {
        let of = problem.fingerprint.as_str();
        let hour = |r: &Row<'_>| Ok((time(r, 0)?, r.get(1)?, r.get(2)?));
        let hours = self.all(sql!("problem_hours"), (of, since.as_micros()), hour)?;
        let totals = self.one(sql!("problem_totals"), [of], |r| Ok((r.get(0)?, r.get(1)?)))?;
        let (errors, dead) = totals.unwrap_or_default();
        Ok(ProblemView { problem, hours, errors, dead })
    }
}

impl Tx<'_, '_> {
    fn put_place(&self, place: &Place) -> Tried<()> {
        let cursor = place.cursor.as_ref().map(FeedCursor::to_text);
        let since = place.since.map(Timestamp::as_micros);
        let params = (place.reader.as_str(), cursor, place.epoch, place.moved_at.as_micros(), since);
        self.execute(sql!("put_place"), params).map(|_| ())
    }

    pub(crate) fn advance(&self, request: &Advance, now: Timestamp) -> Tried<Result<Place, Refusal>> {
        let (term, before) = (self.term(&request.term)?, self.place(&request.reader)?);
        let Some(place) = granted!(request.decide(term.as_ref(), before.as_ref(), now)) else {
            return Ok(before.ok_or(Refusal::NotFound));
        };
        self.put_seal(request, now)?;
        self.write_findings(&request.findings, now)?;
        self.put_place(&place)?;
        Ok(Ok(place))
    }

    fn write_findings(&self, findings: &Findings, now: Timestamp) -> Tried<()> {
        for found in &findings.rollups {
            let key = &found.key;
            let (resolution, at) = (key.resolution.as_str(), key.at.as_micros());
            let named = (resolution, at, key.queue.as_str(), key.kind.as_str(), key.tally.as_str());
            let mut row = found.clone();
            if let Some(before) = self.one(sql!("rollup"), named, rollup)? {
                row.merge(&before);
            }
            let params = (named.0, named.1, named.2, named.3, named.4, row.count, row.times.to_text());
            self.execute(sql!("put_rollup"), params)?;
        }
        for g in &findings.gauges {
            let (resolution, at) = (g.resolution.as_str(), g.at.as_micros());
            let params = (resolution, at, g.queue.as_str(), g.depth, g.oldest_ms, g.busy, g.capacity);
            self.execute(sql!("put_gauge"), params)?;
        }
        for seen in &findings.sightings {
            let before = self.one(sql!("problem"), [seen.fingerprint.as_str()], problem)?;
            self.save_problem(&Problem::seen(before, seen))?;
            let params = (seen.fingerprint.as_str(), seen.hour.as_micros(), seen.errors, seen.dead);
            self.execute(sql!("add_problem_hour"), params)?;
        }
        if findings.forget { self.forget_stats(now) } else { Ok(()) }
    }

    fn forget_stats(&self, now: Timestamp) -> Tried<()> {
        for resolution in Resolution::ALL {
            let before = now.plus_ms(-resolution.kept_ms()).as_micros();
            let params = (resolution.as_str(), before, FORGOTTEN);
            self.execute(sql!("forget_rollups"), params)?;
            self.execute(sql!("forget_gauges"), params)?;
        }
        let before = now.plus_ms(-Resolution::Hour.kept_ms()).as_micros();
        self.execute(sql!("forget_problem_hours"), (before, FORGOTTEN))?;
        self.execute(sql!("forget_problems"), (before, FORGOTTEN))?;
        Ok(())
    }

    fn save_problem(&self, problem: &Problem) -> Tried<()> {
        let (state, kind) = (problem.state.as_str(), problem.kind.as_str());
        let (seen, body) = (problem.last_seen_at.as_micros(), serde_json::to_string(problem)?);
        let params = (problem.fingerprint.as_str(), state, kind, seen, body);
        self.execute(sql!("put_problem"), params).map(|_| ())
    }

    pub(crate) fn rebuild_stats(&self, request: &RebuildStats, now: Timestamp) -> Tried<Place> {
        let (place, audit) = request.decide(now);
        let since = place.since.map(Timestamp::as_micros);
        self.execute(sql!("clear_rollups"), [since])?;
        self.execute(sql!("clear_problem_hours"), [since])?;
        self.put_place(&place)?;
        self.write_audit(&audit, now)?;
        Ok(place)
    }

    pub(crate) fn put_problem(
        &self,
        request: &PutProblem,
        now: Timestamp,
    ) -> Tried<Result<ProblemView, Refusal>> {
        let before = self.one(sql!("problem"), [request.fingerprint.as_str()], problem)?;
        if let Some((after, audit)) = granted!(request.decide(before.as_ref(), now)) {
            self.save_problem(&after)?;
            self.write_audit(&audit, now)?;
        }
        Ok(self.problem(&request.fingerprint)?.ok_or(Refusal::NotFound))
    }
}
