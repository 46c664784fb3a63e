//! The example of the README: enqueue, claim, complete.

use std::sync::Arc;
use windlass_core::{Actor, Facts, Name, NewJob, Outcome, Payload, Who};
use windlass_sqlite::SqliteStore;
use windlass_store::{ClaimMany, Enqueue, Settle, SettleItem, Store, fresh};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "jobs.db".into());
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).await?);

    let facts = Facts::new(Name::try_from("email.send")?, Name::try_from("mail")?);
    let payload = Some(Payload::json("payload", r#"{"to":"ada@example.org"}"#, 1 << 20)?);
    let job = NewJob { id: fresh::job_id(), facts, payload, parent_token: None };
    store.enqueue(Enqueue { jobs: vec![job], actor: Actor::api(), idempotency: None }, None).await??;

    let claim =
        ClaimMany::new(Who::try_from("worker-1")?, vec![Name::try_from("mail")?], 10, fresh::secret());
    for held in store.claim(claim, None).await? {
        let item = SettleItem { job: held.job.id, token: held.lease.token, outcome: Outcome::Complete(None) };
        let answers = store.settle(Settle { items: vec![item] }, None).await?;
        println!("{} {} attempt {}: {:?}", held.job.id, held.facts.kind, held.lease.attempt, answers[0]);
    }
    Ok(())
}
