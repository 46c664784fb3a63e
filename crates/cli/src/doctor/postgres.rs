//! A server: whether what it says is true after a power cut, what holds its past back, and whether wake-ups arrive.

use super::{Finding, ago, here, of_clock, of_closing, ok, problem, warning};
use crate::fail::{Failure, Outcome};
use crate::settings::Settings;
use std::time::Duration;
use windlass_core::Timestamp;
use windlass_postgres::{Condition, Options, PostgresStore, Table};

/// A transaction that is open so many times too long is forgotten.
const FORGOTTEN: i64 = 60;
/// Fewer dead rows than this are nothing.
const DEAD_ROWS: i64 = 50_000;
/// How long a notification to itself may take.
const ARRIVES: Duration = Duration::from_secs(6);

/// Whether the store is a PostgreSQL that may lose what it has confirmed.
pub async fn loses_commits(settings: &Settings) -> Outcome<bool> {
    if !settings.store.value.starts_with("postgres") {
        return Ok(false);
    }
    let mut options = Options::new(&settings.store.value).migrate(false).pool(2);
    if let Some(schema) = &settings.schema {
        options = options.schema(&schema.value);
    }
    let store = options.open().await.map_err(|e| Failure::unavailable(e.to_string()))?;
    Ok(!store.condition().await?.fsync)
}

/// Looks at the server of the store.
pub async fn look(settings: &Settings, late_ms: i64) -> Outcome<Vec<Finding>> {
    let mut options = Options::new(&settings.store.value).migrate(false).pool(3);
    if let Some(schema) = &settings.schema {
        options = options.schema(&schema.value);
    }
    if let Some(url) = &settings.notify_url {
        options = options.notify_url(&url.value);
    }
    let store = options.open().await.map_err(|e| Failure::unavailable(e.to_string()))?;
    let before = here();
    let condition = store.condition().await?;
    let after = here();
    let mut findings = vec![ok("store", format!("PostgreSQL {}", condition.version))];
    findings.extend(of_closing(&store).await?);
    // The look takes a moment of its own; half a second is far below what is told.
    findings.push(of_clock(before, condition.now, after));
    findings.push(of_durability(&condition));
    findings.push(of_pooler(&condition, settings.notify_url.is_some()));
    findings.push(of_wakeups(&store, condition.pooled && settings.notify_url.is_none()).await);
    findings.extend(of_transactions(&condition, late_ms));
    findings.extend(of_tables(&condition));
    Ok(findings)
}

fn of_durability(condition: &Condition) -> Finding {
    let commit = &condition.synchronous_commit;
    let mut wrong = Vec::new();
    if !condition.fsync {
        wrong.push("fsync = off");
    }
    if !condition.full_page_writes {
        wrong.push("full_page_writes = off");
    }
    if commit == "off" {
        wrong.push("synchronous_commit = off");
    }
    if wrong.is_empty() {
        let found = format!("fsync and full_page_writes are on, synchronous_commit is {commit}");
        return ok("durability", found);
    }
    let found = format!("a power cut loses or damages what was acknowledged: {}", wrong.join(", "));
    problem("durability", found, "set them back in postgresql.conf (or ALTER ROLE … RESET) and reload")
}

fn of_pooler(condition: &Condition, has_notify_url: bool) -> Finding {
    match (condition.pooled, has_notify_url) {
        (false, _) => ok("pooler", "none between, or one that lends for a session"),
        (true, true) => ok("pooler", "it lends for a transaction; wake-ups go beside it by notify_url"),
        (true, false) => {
            let fix = "name a direct connection with --notify-url (WINDLASS_NOTIFY_URL)";
            warning("pooler", "it lends for a transaction, so wake-ups are lost on their way", fix)
        }
    }
}

/// The store tries it on itself, as soon as it is open. Through a pooler that proves nothing: a quiet one may hand the
/// same server process to both ends, and another when it counts.
async fn of_wakeups(store: &PostgresStore, are_lost: bool) -> Finding {
    if are_lost {
        let fix = "name a direct connection beside the pooler with --notify-url";
        return warning("wake-ups", "they get lost in the pooler, so workers look once a second", fix);
    }
    let until = tokio::time::Instant::now() + ARRIVES;
    while !store.listening() {
        if tokio::time::Instant::now() >= until {
            let fix = "check --notify-url (or --store) and the server's log";
            return warning("wake-ups", "a NOTIFY did not come back, so workers look once a second", fix);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ok("wake-ups", "a NOTIFY comes back")
}

fn of_transactions(condition: &Condition, late_ms: i64) -> Vec<Finding> {
    let now = condition.now;
    let is_old = |since: Timestamp, ms: i64| since.plus_ms(ms) < now;
    let mut findings = Vec::new();
    match condition.oldest.as_ref().filter(|open| is_old(open.since, late_ms)) {
        None => findings.push(ok("transactions", "none is open for long")),
        Some(open) => {
            let (pid, who, state) = (open.pid, &open.who, &open.state);
            let found = format!(
                "one is open for {} (process {pid}, {who}, {state}): dead rows pile up since then",
                ago(open.since, now)
            );
            let fix = format!(
                "end it: SELECT pg_terminate_backend({pid}); set idle_in_transaction_session_timeout"
            );
            let is_forgotten = is_old(open.since, late_ms.saturating_mul(FORGOTTEN));
            findings.push(if is_forgotten {
                problem("transactions", found, fix)
            } else {
                warning("transactions", found, fix)
            });
        }
    }
    if let Some((since, name)) = condition.prepared.as_ref().filter(|(since, _)| is_old(*since, late_ms)) {
        let found = format!("the prepared transaction {name} is open for {}", ago(*since, now));
        findings.push(problem(
            "transactions",
            found,
            format!("COMMIT PREPARED or ROLLBACK PREPARED '{name}'"),
        ));
    }
    findings
}

fn of_tables(condition: &Condition) -> Vec<Finding> {
    if !condition.autovacuum {
        let fix = "set autovacuum = on in postgresql.conf and reload";
        return vec![problem("vacuum", "autovacuum is off: tables grow and claims get slower for ever", fix)];
    }
    condition.tables.iter().map(|table| of_table(table, condition.now)).collect()
}

/// Dead rows beyond a fifth of the live ones: autovacuum, set for these tables, comes at a fiftieth.
fn of_table(table: &Table, now: Timestamp) -> Finding {
    let Table { name, live, dead, vacuumed_at } = table;
    let last = vacuumed_at.map_or("never".to_owned(), |at| format!("{} ago", ago(at, now)));
    let found = format!("{name}: {live} rows, {dead} dead, autovacuum was there {last}");
    if *dead <= DEAD_ROWS.max(live / 5) {
        return ok("vacuum", found);
    }
    let fix = format!(
        "end old transactions (above), then VACUUM {name}; more autovacuum_max_workers if it comes too late"
    );
    warning("vacuum", found, fix)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn dead_rows_are_told_when_they_are_many() {
        let now = Timestamp::from_micros(1_000_000_000);
        let level = |live: i64, dead: i64| {
            of_table(&Table { name: "jobs".into(), live, dead, vacuumed_at: None }, now).level
        };
        assert_eq!(level(1_000, 900), Level::Ok, "a small table");
        assert_eq!(level(1_000_000, 150_000), Level::Ok);
        assert_eq!(level(1_000_000, 250_000), Level::Warning);
    }
}
