//! Readers of the feed, and what the one for stats found.

use crate::append::granted;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use crate::list::page;
use crate::param::params;
use crate::row::{Columns, Ts, name};
use std::collections::HashMap;
use tokio_postgres::Row;
use windlass_core::stats::{Histogram, RollupKey, Rollups, Tally};
use windlass_core::{FeedCursor, Fingerprint, Name, Refusal, Timestamp};
use windlass_store::{
    Advance, Findings, Gauge, ListProblems, Now, Place, Problem, ProblemView, PutProblem, ROLLUPS_MAX,
    ReadGauges, ReadRollups, RebuildStats, Resolution, Rollup, Sighting,
};

/// The most rows that are forgotten in one go.
const FORGOTTEN: i64 = 10_000;
/// The end of the year 9999, behind everything.
const LATEST: Timestamp = Timestamp::from_micros(253_402_300_799_000_000);

fn place(row: &Row) -> Tried<Place> {
    let mut c = Columns::new(row, 0);
    Ok(Place {
        reader: c.text(name)?,
        cursor: c.opt_text(|text| FeedCursor::parse(text).ok())?,
        epoch: c.get()?,
        moved_at: c.time()?,
        since: c.get::<Option<Ts>>()?.map(|at| at.0),
    })
}

fn rollup(row: &Row) -> Tried<Rollup> {
    let mut c = Columns::new(row, 0);
    let key = RollupKey {
        resolution: c.text(Resolution::parse)?,
        at: c.time()?,
        queue: c.text(name)?,
        kind: c.text(name)?,
        tally: c.text(Tally::parse)?,
    };
    Ok(Rollup { key, count: c.get()?, times: c.text(Histogram::parse)? })
}

fn gauge(row: &Row) -> Tried<Gauge> {
    let mut c = Columns::new(row, 0);
    Ok(Gauge {
        resolution: c.text(Resolution::parse)?,
        at: c.time()?,
        queue: c.text(name)?,
        depth: c.get()?,
        oldest_ms: c.get()?,
        busy: c.get()?,
        capacity: c.get()?,
    })
}

fn problem(row: &Row) -> Tried<Problem> {
    Ok(serde_json::from_str(Columns::new(row, 0).get()?)?)
}

impl Db<'_> {
    pub(crate) async fn place(&self, reader: &Name, _: Now) -> Tried<Option<Place>> {
        self.one(sql!("place"), params![reader.as_str()], place).await
    }

    pub(crate) async fn places(&self, (): &(), _: Now) -> Tried<Vec<Place>> {
        self.all(sql!("places"), params![], place).await
    }

    pub(crate) async fn rollups(&self, request: &ReadRollups, _: Now) -> Tried<Vec<Rollup>> {
        let (queue, kind) =
            (request.queue.as_ref().map(Name::as_str), request.kind.as_ref().map(Name::as_str));
        let limit = request.limit.clamp(1, ROLLUPS_MAX) as i64;
        let (resolution, from, to) = (request.resolution.as_str(), Ts(request.from), Ts(request.to));
        let mut rows =
            self.all(sql!("rollups"), params![resolution, from, to, queue, kind, limit], rollup).await?;
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(rows)
    }

    pub(crate) async fn gauges(&self, request: &ReadGauges, _: Now) -> Tried<Vec<Gauge>> {
        let (resolution, from, to) = (request.resolution.as_str(), Ts(request.from), Ts(request.to));
        self.all(sql!("gauges"), params![resolution, from, to, ROLLUPS_MAX as i64], gauge).await
    }

    pub(crate) async fn problems(&self, request: &ListProblems, now: Now) -> Tried<Vec<ProblemView>> {
        let (before, fingerprint) = match &request.before {
            Some((at, fingerprint)) => (*at, fingerprint.as_str()),
            None => (LATEST, ""),
        };
        let (state, kind) =
            (request.state.map(|state| state.as_str()), request.kind.as_ref().map(Name::as_str));
        let (before, limit) = (Ts(before), page(request.limit));
        let params = params![state, kind, before, fingerprint, limit];
        let found = self.all(sql!("problems"), params, problem).await?;
        let since = self.clock(now).await?.plus_ms(-Resolution::Minute.kept_ms());
        self.view_problems(found, since).await
    }

    pub(crate) async fn problem(&self, fingerprint: &Fingerprint, _: Now) -> Tried<Option<ProblemView>> {
        let found = self.all(sql!("problem"), params![fingerprint.as_str()], problem).await?;
        Ok(self.view_problems(found, Timestamp::from_micros(i64::MIN)).await?.pop())
    }

    async fn view_problems(&self, found: Vec<Problem>, since: Timestamp) -> Tried<Vec<ProblemView>> {
        let of: Vec<&str> = found.iter().map(|problem| problem.fingerprint.as_str()).collect();
        let hour = |row: &Row| {
            let mut c = Columns::new(row, 0);
            Ok((c.get::<String>()?, (c.time()?, c.get::<i64>()?, c.get::<i64>()?)))
        };
        let hours = self.all(sql!("problem_hours"), params![of, Ts(since)], hour).await?;
        let total = |row: &Row| {
            let mut c = Columns::new(row, 0);
            Ok((c.get::<String>()?, (c.get::<i64>()?, c.get::<i64>()?)))
        };
        let totals = self.all(sql!("problem_totals"), params![of], total).await?;
        let totals: HashMap<String, (i64, i64)> = totals.into_iter().collect();
        let mut by_problem: HashMap<String, Vec<(Timestamp, i64, i64)>> = HashMap::new();
        for (fingerprint, hour) in hours {
            by_problem.entry(fingerprint).or_default().push(hour);
        }
        let view = |problem: Problem| {
            let of = problem.fingerprint.as_str();
            let (errors, dead) = totals.get(of).copied().unwrap_or_default();
            ProblemView { hours: by_problem.remove(of).unwrap_or_default(), problem, errors, dead }
        };
        Ok(found.into_iter().map(view).collect())
    }
}

impl Tx<'_> {
    async fn lock_place(&self, reader: &Name) -> Tried<(Option<Place>, Timestamp)> {
        let reader = reader.as_str();
        let lock = params![reader];
        tokio::try_join!(biased; self.one(sql!("lock_place"), lock, place), self.now())
    }

    async fn put_place(&self, place: &Place, was_there: bool) -> Tried<()> {
        let cursor = place.cursor.as_ref().map(FeedCursor::to_text);
        let (name, since) = (place.reader.as_str(), place.since.map(Ts));
        let moved_at = Ts(place.moved_at);
        let params = params![name, cursor, place.epoch, moved_at, since, was_there];
        let put = self.rows(sql!("put_place"), params).await?;
        if put.is_empty() { Err(Failure::Raced) } else { Ok(()) }
    }

    /// The leader's term first, then the reader's place, then problems.
    pub(crate) async fn advance(&self, request: &Advance) -> Tried<Result<Place, Refusal>> {
        let term = self.share_term(&request.term).await?;
        let (before, now) = self.lock_place(&request.reader).await?;
        let Some(place) = granted!(request.decide(term.as_ref(), before.as_ref(), now)) else {
            return Ok(before.ok_or(Refusal::NotFound));
        };
        self.write_findings(&request.findings, now).await?;
        self.put_place(&place, before.is_some()).await?;
        // Behind the place: a reader's first move has nothing to lock, and the second one fails there.
        self.put_seal(request, now).await?;
        Ok(Ok(place))
    }

    async fn write_findings(&self, findings: &Findings, now: Timestamp) -> Tried<()> {
        if !findings.rollups.is_empty() {
            self.add_rollups(&findings.rollups).await?;
        }
        if !findings.gauges.is_empty() {
            self.add_gauges(&findings.gauges).await?;
        }
        if !findings.sightings.is_empty() {
            self.add_sightings(&findings.sightings).await?;
        }
        if findings.forget { self.forget_stats(now).await } else { Ok(()) }
    }

    async fn add_rollups(&self, found: &[Rollup]) -> Tried<()> {
        let text = |of: fn(&RollupKey) -> &str| found.iter().map(|row| of(&row.key)).collect::<Vec<&str>>();
        let resolutions = text(|key| key.resolution.as_str());
        let slots: Vec<Ts> = found.iter().map(|row| Ts(row.key.at)).collect();
        let (queues, kinds) = (text(|key| key.queue.as_str()), text(|key| key.kind.as_str()));
        let tallies = text(|key| key.tally.as_str());
        let keys = params![resolutions, slots, queues, kinds, tallies];
        let before = self.all(sql!("rollups_of"), keys, rollup).await?;
        // By key, and each key once, as the statement asks.
        let mut rows = Rollups::default();
        rows.merge(found.iter().cloned());
        rows.merge(before);
        let rows = rows.into_all();
        let text = |of: fn(&RollupKey) -> &str| rows.iter().map(|row| of(&row.key)).collect::<Vec<&str>>();
        let resolutions = text(|key| key.resolution.as_str());
        let slots: Vec<Ts> = rows.iter().map(|row| Ts(row.key.at)).collect();
        let (queues, kinds) = (text(|key| key.queue.as_str()), text(|key| key.kind.as_str()));
        let tallies = text(|key| key.tally.as_str());
        let counts: Vec<i64> = rows.iter().map(|row| row.count).collect();
        let times: Vec<String> = rows.iter().map(|row| row.times.to_text()).collect();
        let put = params![resolutions, slots, queues, kinds, tallies, counts, times];
        self.execute(sql!("put_rollups"), put).await
    }

    async fn add_gauges(&self, found: &[Gauge]) -> Tried<()> {
        let numbers = |of: fn(&Gauge) -> i64| found.iter().map(of).collect::<Vec<i64>>();
        let resolutions: Vec<&str> = found.iter().map(|gauge| gauge.resolution.as_str()).collect();
        let slots: Vec<Ts> = found.iter().map(|gauge| Ts(gauge.at)).collect();
        let queues: Vec<&str> = found.iter().map(|gauge| gauge.queue.as_str()).collect();
        let (depths, oldest) = (numbers(|gauge| gauge.depth), numbers(|gauge| gauge.oldest_ms));
        let (busy, capacities) = (numbers(|gauge| gauge.busy), numbers(|gauge| gauge.capacity));
        let put = params![resolutions, slots, queues, depths, oldest, busy, capacities];
        self.execute(sql!("put_gauges"), put).await
    }

    async fn lock_problems(&self, of: Vec<&str>) -> Tried<HashMap<Fingerprint, Problem>> {
        let locked = self.all(sql!("lock_problems"), params![of], problem).await?;
        Ok(locked.into_iter().map(|problem| (problem.fingerprint.clone(), problem)).collect())
    }

    async fn put_problems(&self, problems: &[Problem]) -> Tried<()> {
        let text = |of: fn(&Problem) -> &str| problems.iter().map(of).collect::<Vec<&str>>();
        let fingerprints = text(|problem| problem.fingerprint.as_str());
        let (states, kinds) = (text(|problem| problem.state.as_str()), text(|problem| problem.kind.as_str()));
        let seen: Vec<Ts> = problems.iter().map(|problem| Ts(problem.last_seen_at)).collect();
        let bodies: Result<Vec<String>, _> = problems.iter().map(serde_json::to_string).collect();
        self.execute(sql!("put_problems"), params![fingerprints, states, kinds, seen, bodies?]).await
    }

    async fn add_sightings(&self, seen: &[Sighting]) -> Tried<()> {
        let of: Vec<&str> = seen.iter().map(|one| one.fingerprint.as_str()).collect();
        let mut problems = self.lock_problems(of.clone()).await?;
        for one in seen {
            let before = problems.remove(&one.fingerprint);
            problems.insert(one.fingerprint.clone(), Problem::seen(before, one));
        }
        let problems: Vec<Problem> = problems.into_values().collect();
        self.put_problems(&problems).await?;
        let hours: Vec<Ts> = seen.iter().map(|one| Ts(one.hour)).collect();
        let errors: Vec<i64> = seen.iter().map(|one| one.errors).collect();
        let dead: Vec<i64> = seen.iter().map(|one| one.dead).collect();
        self.execute(sql!("add_problem_hours"), params![of, hours, errors, dead]).await
    }

    async fn forget_stats(&self, now: Timestamp) -> Tried<()> {
        for resolution in Resolution::ALL {
            let before = Ts(now.plus_ms(-resolution.kept_ms()));
            let resolution = resolution.as_str();
            self.execute(sql!("forget_rollups"), params![resolution, before, FORGOTTEN]).await?;
            self.execute(sql!("forget_gauges"), params![resolution, before, FORGOTTEN]).await?;
        }
        let before = Ts(now.plus_ms(-Resolution::Hour.kept_ms()));
        self.execute(sql!("forget_problem_hours"), params![before, FORGOTTEN]).await?;
        self.execute(sql!("forget_problems"), params![before, FORGOTTEN]).await
    }

    pub(crate) async fn rebuild_stats(&self, request: &RebuildStats) -> Tried<Place> {
        let (before, now) = self.lock_place(&request.decide(Timestamp::default()).0.reader).await?;
        let (place, audit) = request.decide(now);
        let since = place.since.map(Ts);
        self.execute(sql!("clear_rollups"), params![since]).await?;
        self.execute(sql!("clear_problem_hours"), params![since]).await?;
        self.put_place(&place, before.is_some()).await?;
        self.put_audit(&audit, now).await?;
        Ok(place)
    }

    pub(crate) async fn put_problem(&self, request: &PutProblem) -> Tried<Result<ProblemView, Refusal>> {
        let locked = self.lock_problems(vec![request.fingerprint.as_str()]).await?;
        let now = self.now().await?;
        if let Some((after, audit)) = granted!(request.decide(locked.get(&request.fingerprint), now)) {
            self.put_problems(&[after]).await?;
            self.put_audit(&audit, now).await?;
        }
        Ok(self.problem(&request.fingerprint, None).await?.ok_or(Refusal::NotFound))
    }
}
