//! An order and the job that ships it are written in one PostgreSQL transaction: both, or neither.
//!
//! `cargo run -p windlass --features postgres --example transactional_enqueue postgres://USER@HOST/DATABASE`

use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;
use windlass::{Context, HandlerError, Job, Worker};

#[derive(Serialize, Deserialize)]
struct Ship {
    order: i64,
}

impl Job for Ship {
    const KIND: &str = "ship";
    type Output = String;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the URL of a PostgreSQL database")?;
    let client = windlass::connect(&url).await?;
    let (mut db, connection) = tokio_postgres::connect(&url, NoTls).await?;
    let mut connections = tokio::task::JoinSet::new();
    connections.spawn(connection);
    db.batch_execute("CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY)").await?;

    let mut tx = db.transaction().await?;
    tx.execute("INSERT INTO orders VALUES (1)", &[]).await?;
    let never = client.enqueue(Ship { order: 1 }).in_tx(&mut tx).await?;
    tx.rollback().await?;
    println!("after the rollback: job {}", there(&client, never.id).await?);

    let mut tx = db.transaction().await?;
    tx.execute("INSERT INTO orders VALUES (2)", &[]).await?;
    let sent = client.enqueue(Ship { order: 2 }).in_tx(&mut tx).await?;
    println!("before the commit: job {}", there(&client, sent.id).await?);
    tx.commit().await?;
    println!("after the commit: job {}", there(&client, sent.id).await?);

    let worker = Worker::new(client.clone()).queue("default", 1).handle(ship);
    let mut shipped = None;
    worker.run_until(async { shipped = Some(client.wait::<Ship>(sent.id).await) }).await?;
    if let Some(shipped) = shipped {
        println!("{}", shipped?);
    }
    Ok(())
}

async fn there(client: &windlass::Client, id: windlass::JobId) -> windlass::Result<&'static str> {
    Ok(if client.job(id).await?.is_some() { "is there" } else { "is not there" })
}

async fn ship(job: Ship, _ctx: Context) -> Result<String, HandlerError> {
    Ok(format!("order {} is shipped", job.order))
}
