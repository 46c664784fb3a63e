//! Values that do not read back, planted past the guard: each stops nothing but its own job, and is named.

mod support;

use async_trait::async_trait;
use std::sync::Arc;
use support::{database, hand, wait_for};
use tokio_postgres::Client;
use windlass_conformance::unreadable::{self, Planter};
use windlass_conformance::{Bed, paper, subscription};
use windlass_core::JobId;
use windlass_postgres::PostgresStore;

/// The owner at an SQL prompt, with the guard switched off.
struct Owner(Client);

impl Owner {
    async fn update(&self, sql: &str) {
        let unguarded = format!("BEGIN; SET LOCAL session_replication_role = replica; {sql}; COMMIT");
        self.0.batch_execute(&unguarded).await.expect("the owner means it");
    }
}

#[async_trait]
impl Planter for Owner {
    async fn detail(&self, job: JobId, version: i64, detail: &str) {
        let job = job.as_uuid();
        self.update(&format!(
            "UPDATE windlass.job_events SET detail = '{detail}' WHERE job_id = '{job}' AND version = {version}"
        ))
        .await;
    }

    async fn column(&self, job: JobId, column: &str, text: &str) {
        let job = job.as_uuid();
        self.update(&format!("UPDATE windlass.jobs SET {column} = '{text}' WHERE id = '{job}'")).await;
    }

    async fn state(&self, table: &str, name: &str, text: &str) {
        self.update(&format!("UPDATE windlass.{table} SET state = '{text}' WHERE name = '{name}'")).await;
    }
}

fn on_a_store(test: impl AsyncFnOnce(&Bed, &dyn Planter)) {
    wait_for(async {
        let (url, _database) = database().await;
        let bed = Bed::new(Arc::new(PostgresStore::open(&url).await.expect("a store")));
        test(&bed, &Owner(hand(&url).await)).await;
    });
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
