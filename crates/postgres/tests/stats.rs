//! How PostgreSQL goes about the numbers over time: a read or a write touches the rows of its slots, however many there are.

mod support;

use support::{empty_database, hand, wait_for};
use tokio_postgres::Client;
use windlass_postgres::PostgresStore;

/// A statement, the types of its parameters, values for them, and the index that its plan must show.
type Planned = (&'static str, &'static str, &'static str, &'static str);

const SLOTS: &str = "'{minute,hour}', '{2026-01-01Z,2026-01-01Z}', '{q1,q2}'";
const PLANNED: &[Planned] = &[
    (
        "rollups",
        "text, timestamptz, timestamptz, text, text, bigint",
        "'minute', '2026-01-02Z', '2026-01-02T06:00Z', NULL, NULL, 10000",
        "rollups_pkey",
    ),
    (
        "rollups",
        "text, timestamptz, timestamptz, text, text, bigint",
        "'minute', '2026-01-02Z', '2026-01-02T06:00Z', 'q1', 'k1', 10000",
        "rollups_pkey",
    ),
    (
        "rollups_of",
        "text[], timestamptz[], text[], text[], text[]",
        "SLOTS, '{k1,k2}', '{started,started}'",
        "rollups_pkey",
    ),
    ("forget_rollups", "text, timestamptz, bigint", "'minute', '2026-01-01T02:00Z', 1000", "rollups_pkey"),
    (
        "gauges",
        "text, timestamptz, timestamptz, bigint",
        "'minute', '2026-01-02Z', '2026-01-02T06:00Z', 10000",
        "gauges_pkey",
    ),
    ("forget_gauges", "text, timestamptz, bigint", "'minute', '2026-01-01T02:00Z', 1000", "gauges_pkey"),
    ("problems", "text, text, timestamptz, text, bigint", "NULL, NULL, 'infinity', '', 100", "problems_seen"),
    ("lock_problems", "text[]", "'{p1,p2}'", "problems_pkey"),
    ("problem", "text", "'p1'", "problems_pkey"),
    ("problem_hours", "text[], timestamptz", "'{p1,p2}', '2026-01-02Z'", "problem_hours_pkey"),
    ("problem_totals", "text[]", "'{p1,p2}'", "problem_hours_pkey"),
    ("forget_problem_hours", "timestamptz, bigint", "'2026-01-01T02:00Z', 1000", "problem_hours_at"),
];

/// Two days of minutes of ten queues with three kinds each, and twenty thousand problems.
const FILL: &str = "
    INSERT INTO windlass.rollups
      SELECT 'minute', timestamptz '2026-01-01Z' + n * interval '1 minute', 'q' || q, 'k' || k, t, 1, ''
      FROM generate_series(0, 2879) n, generate_series(1, 10) q, generate_series(1, 3) k,
        unnest('{started,completed}'::text[]) t;
    INSERT INTO windlass.gauges
      SELECT 'minute', timestamptz '2026-01-01Z' + n * interval '1 minute', 'q' || q, 1, 1, 1, 1
      FROM generate_series(0, 2879) n, generate_series(1, 10) q;
    INSERT INTO windlass.problems
      SELECT 'p' || n, 'open', 'k1', timestamptz '2026-01-01Z' + n * interval '1 second', '{}'
      FROM generate_series(1, 20000) n;
    INSERT INTO windlass.problem_hours
      SELECT 'p' || n, timestamptz '2026-01-01Z' + h * interval '1 hour', 1, 0
      FROM generate_series(1, 2000) n, generate_series(0, 47) h";

async fn plan(hand: &Client, (statement, types, values, _): &Planned) -> String {
    let file = format!("{}/sql/{statement}.sql", env!("CARGO_MANIFEST_DIR"));
    let sql = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
    let values = values.replace("SLOTS", SLOTS);
    let prepare = format!("PREPARE planned ({types}) AS {sql}");
    hand.batch_execute(&prepare).await.unwrap_or_else(|e| panic!("{file}: {e:?}"));
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE planned ({values})");
    let rows = hand.query(&explain, &[]).await.unwrap_or_else(|e| panic!("{file}: {e:?}"));
    hand.batch_execute("DEALLOCATE planned").await.expect("forgotten");
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

/// Stats stay cheap when there is much: every statement of the reader that keeps them, and of those who ask for them,
/// finds its rows by an index, before and after statistics were gathered.
#[test]
fn numbers_over_time_are_read_and_written_by_their_slots() {
    wait_for(async {
        let (url, _database) = empty_database().await;
        drop(PostgresStore::open(&url).await.expect("a store"));
        let hand = hand(&url).await;
        hand.batch_execute(FILL).await.expect("filled");
        let mut wrong = Vec::new();
        for statistics in ["none", "right"] {
            if statistics == "right" {
                hand.batch_execute("VACUUM ANALYZE").await.expect("statistics");
            }
            for planned in PLANNED {
                let shown = plan(&hand, planned).await;
                if !shown.contains(planned.3) || shown.contains("Seq Scan") {
                    wrong.push(format!("statistics {statistics}: {}: no {}\n{shown}", planned.0, planned.3));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    });
}
