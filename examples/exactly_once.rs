//! A handler's own write and the end of its job are one PostgreSQL transaction: whatever dies when, money moves once.
//!
//! `cargo run -p windlass --features postgres --example exactly_once postgres://USER@HOST/DATABASE`

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio_postgres::NoTls;
use windlass::{Backoff, Context, HandlerError, Job, Worker};

#[derive(Serialize, Deserialize)]
struct Deposit {
    cents: i64,
}

impl Job for Deposit {
    const KIND: &str = "deposit";
    type Output = i64;
}

struct App {
    db: Mutex<tokio_postgres::Client>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the URL of a PostgreSQL database")?;
    let client = windlass::connect(&url).await?;
    let (db, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let mut connections = tokio::task::JoinSet::new();
    connections.spawn(connection);
    db.batch_execute("CREATE TABLE IF NOT EXISTS account (cents bigint); TRUNCATE account").await?;
    db.batch_execute("INSERT INTO account VALUES (0)").await?;

    let soon = Backoff { base_ms: 10, ..Backoff::default() };
    let sent = client.enqueue(Deposit { cents: 500 }).backoff(soon).await?;
    let app = App { db: Mutex::new(db) };
    let worker = Worker::new(client.clone()).state(app).queue("default", 1).handle(deposit);
    let mut balance = None;
    worker.run_until(async { balance = Some(client.wait::<Deposit>(sent.id).await) }).await?;
    if let Some(balance) = balance {
        println!("the balance is {}", balance?);
    }
    Ok(())
}

async fn deposit(job: Deposit, ctx: Context<App>) -> Result<i64, HandlerError> {
    let mut db = ctx.state().db.lock().await;
    let mut tx = db.transaction().await?;
    let row = tx.query_one("UPDATE account SET cents = cents + $1 RETURNING cents", &[&job.cents]).await?;
    let balance: i64 = row.get(0);
    ctx.complete_in(&mut tx, &balance).await?;
    println!("attempt {}: {balance} cents, not committed yet", ctx.fence());
    if ctx.fence() == 1 {
        return Err(HandlerError::retry("the first attempt does not come as far as the commit"));
    }
    tx.commit().await?; // the money and the end of the job, or neither
    Ok(balance)
}
