//! Queues with an endpoint: whether a server sends their jobs there, and whether the service takes them.

use super::{Finding, ago, ok, problem, warning};
use crate::fail::Outcome;
use std::sync::Arc;
use windlass_core::stats::Tally;
use windlass_core::{Name, Timestamp, Worker};
use windlass_store::{QueueState, ROLLUPS_MAX, ReadRollups, Resolution, Rollup, Store, fresh};

/// What fails for longer than this is reported, in milliseconds.
const LONG_MS: i64 = 600_000;
/// So far back is looked for attempts, in milliseconds: the longest usual pause between two is five minutes.
const LOOKED_MS: i64 = 3 * LONG_MS;
/// What the identities of workers begin with that servers run for endpoints.
const WORKER: &str = "endpoint-";

/// Looks at every queue with an endpoint.
pub async fn look(store: &Arc<dyn Store>) -> Outcome<Vec<Finding>> {
    let (now, mut findings, mut looked_at) = (fresh::wall_clock(), Vec::new(), 0);
    let workers = store.workers((), None).await?;
    for state in store.queues(1, None).await? {
        if state.queue.endpoint.is_none() {
            continue;
        }
        looked_at += 1;
        findings.extend(of_server(&state, &workers, now));
        let read = ReadRollups {
            resolution: Resolution::Minute,
            from: now.plus_ms(-LOOKED_MS),
            to: now,
            queue: Some(state.queue.name.clone()),
            kind: None,
            limit: ROLLUPS_MAX,
        };
        findings.extend(of_attempts(&state.queue.name, &store.rollups(read, None).await?, now));
    }
    if findings.is_empty() {
        findings.push(ok("endpoints", format!("{looked_at} queues with one, each takes jobs")));
    }
    Ok(findings)
}

fn of_server(state: &QueueState, workers: &[Worker], now: Timestamp) -> Option<Finding> {
    let queue = &state.queue.name;
    let sends = |worker: &Worker| {
        worker.id.as_str().starts_with(WORKER) && worker.queues.contains(queue) && !worker.is_gone(now)
    };
    if workers.iter().any(sends) {
        return None;
    }
    let found = format!("{queue} has an endpoint, and no server sends its jobs there");
    Some(problem("endpoints", found, format!("windlass serve; or windlass queues set {queue} --no-endpoint")))
}

/// Attempts of which none came back well for long: they failed, took too long, or were given back because the service could not
/// be reached or took no more. Those of one minute are one row and one moment.
fn of_attempts(queue: &Name, rows: &[Rollup], now: Timestamp) -> Option<Finding> {
    let well = rows.iter().filter(|row| row.key.tally == Tally::Completed).map(|row| row.key.at).max();
    let bad = [Tally::Retried, Tally::Failed, Tally::TimedOut, Tally::Released];
    let is_bad = |row: &&Rollup| bad.contains(&row.key.tally);
    let bad = rows.iter().filter(is_bad).filter(|row| well.is_none_or(|well| row.key.at > well));
    let (n, since) = bad.fold((0, now), |(n, since), row| (n + row.count, since.min(row.key.at)));
    if since.plus_ms(LONG_MS) > now {
        return None;
    }
    let found = format!("the endpoint of {queue} took none of {n} attempts for {}", ago(since, now));
    let fix =
        format!("mend the service: the server's log says why, and so does windlass jobs ls --queue {queue}");
    Some(warning("endpoints", found, fix))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use windlass_core::stats::{Histogram, RollupKey};

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_micros(minutes * 60_000_000)
    }

    fn row(minute: i64, tally: Tally, count: i64) -> Rollup {
        let name = |text: &str| Name::parse("name", text).unwrap();
        let key = RollupKey {
            resolution: Resolution::Minute,
            at: at(minute),
            queue: name("calls"),
            kind: name("k"),
            tally,
        };
        Rollup { key, count, times: Histogram::default() }
    }

    #[test]
    fn an_endpoint_fails_for_long_when_nothing_came_back_well_since() {
        let queue = Name::parse("queue", "calls").unwrap();
        let of = |rows: &[Rollup]| of_attempts(&queue, rows, at(30));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[row(21, Tally::Failed, 3)]), None, "not for long");
        let found = of(&[row(12, Tally::Released, 3), row(28, Tally::TimedOut, 1)]).unwrap();
        assert!(
            found.level == Level::Warning && found.found.contains("none of 4 attempts for 18 min"),
            "{found:?}"
        );
        assert_eq!(of(&[row(12, Tally::Retried, 3), row(28, Tally::Completed, 1)]), None);
        assert_eq!(
            of(&[row(12, Tally::Retried, 3), row(15, Tally::Completed, 1), row(29, Tally::Failed, 9)]),
            None
        );
    }
}
