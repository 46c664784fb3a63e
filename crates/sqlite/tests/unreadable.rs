//! Values that do not read back, planted past the guard: each stops nothing but its own job, and is named.

mod place;

use async_trait::async_trait;
use place::{Place, wait_for};
use rusqlite::Connection;
use std::path::PathBuf;
use windlass_conformance::unreadable::{self, Planter};
use windlass_conformance::{Bed, paper, subscription};
use windlass_core::JobId;

/// Somebody with the sqlite3 prompt who switched the guard off.
struct Owner(PathBuf);

impl Owner {
    fn update(&self, trigger: &str, sql: &str, values: impl rusqlite::Params) {
        let hand = Connection::open(&self.0).expect("the file opens");
        let kept: Vec<String> = {
            let find = "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name LIKE ?1";
            let mut triggers = hand.prepare(find).expect("a statement");
            let kept = triggers.query_map([trigger], |r| r.get(0)).expect("the guard");
            kept.collect::<Result<_, _>>().expect("the guard")
        };
        hand.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
        for text in &kept {
            let name = text.split_whitespace().nth(2).expect("a name");
            hand.execute_batch(&format!("DROP TRIGGER {name}")).expect("somebody who means it");
        }
        assert_eq!(hand.execute(sql, values).expect("changed"), 1);
        for text in &kept {
            hand.execute_batch(text).expect("the guard again");
        }
        hand.execute_batch("COMMIT").expect("committed");
    }
}

#[async_trait]
impl Planter for Owner {
    async fn detail(&self, job: JobId, version: i64, detail: &str) {
        let sql = "UPDATE job_events SET detail = ?3 WHERE job_id = ?1 AND version = ?2";
        self.update("job_events_%", sql, (job.as_bytes(), version, detail));
    }

    async fn column(&self, job: JobId, column: &str, text: &str) {
        let sql = format!("UPDATE jobs SET {column} = ?2 WHERE id = ?1");
        self.update("jobs_%", &sql, (job.as_bytes(), text));
    }

    async fn state(&self, table: &str, name: &str, text: &str) {
        self.update("none", &format!("UPDATE {table} SET state = ?2 WHERE name = ?1"), (name, text));
    }
}

fn on_a_store(test: impl AsyncFnOnce(&Bed, &dyn Planter)) {
    let place = Place::new();
    wait_for(async { test(&place.bed(), &Owner(place.path.clone())).await });
}

/// T11
#[test]
fn a_first_event_that_does_not_read_back_fails_alone() {
    on_a_store(async |bed, owner| unreadable::a_first_event_fails_alone(bed, owner).await);
}

/// T11
#[test]
fn a_later_event_that_does_not_read_back_fails_alone() {
    on_a_store(async |bed, owner| unreadable::a_later_event_fails_alone(bed, owner).await);
}

/// T11
#[test]
fn a_row_that_does_not_read_back_fails_alone() {
    on_a_store(async |bed, owner| unreadable::a_row_fails_alone(bed, owner).await);
}

/// T11
#[test]
fn a_batch_goes_on_without_a_row_that_does_not_read_back() {
    on_a_store(async |bed, owner| unreadable::a_batch_goes_on_without_it(bed, owner).await);
}

/// T11
#[test]
fn a_sweep_goes_on_without_a_row_that_does_not_read_back() {
    on_a_store(async |bed, owner| unreadable::a_sweep_goes_on_without_it(bed, owner).await);
}

/// R7, T11
#[test]
fn a_schedule_that_does_not_read_back_fails_alone() {
    on_a_store(async |bed, owner| unreadable::a_schedule_fails_alone(bed, owner).await);
}

/// R10, T11
#[test]
fn a_trigger_that_does_not_read_back_fails_alone() {
    on_a_store(async |bed, owner| unreadable::a_trigger_fails_alone(bed, owner).await);
}

/// T2, T11
#[test]
fn a_subscription_that_does_not_read_back_fails_alone() {
    on_a_store(async |bed, owner| subscription::a_subscription_fails_alone(bed, owner).await);
}

/// R10, T11
#[test]
fn a_paper_that_does_not_read_back_fails_alone() {
    on_a_store(async |bed, owner| paper::a_paper_fails_alone(bed, owner).await);
}
