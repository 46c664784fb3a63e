//! The raw limit of PostgreSQL: two tables, the first with a primary key and a partial index like `jobs`, the second
//! with a primary key like `job_events`; statements prepared once, but where it says otherwise.

use super::{BATCH, BODY, CLAIM, Limit};
use crate::Tried;
use crate::measure::{Meter, Sample};
use crate::postgres::Database;
use tokio::task::JoinSet;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;
use windlass_store::fresh;

const TABLES: &str = "
    CREATE TABLE rows (id uuid PRIMARY KEY, due_at bigint, state int NOT NULL, body bytea NOT NULL) WITH (fillfactor = 70);
    CREATE INDEX rows_due ON rows (due_at, id) WHERE due_at IS NOT NULL;
    CREATE TABLE entries (id uuid, n int, body bytea NOT NULL, PRIMARY KEY (id, n))";
const INSERT_ARRAYS: &str = "
    WITH asked AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::bytea[]) a (id, body)),
    entered AS (INSERT INTO entries SELECT id, 1, body FROM asked)
    INSERT INTO rows SELECT id, 0, 0, body FROM asked";
const INSERT_ONE: &str = "INSERT INTO rows VALUES ($1, 0, 0, $2)";
const CLAIM_ROWS: &str = "
    UPDATE rows SET state = 1, due_at = 1
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM rows WHERE due_at <= 0 ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING id, body";
const FINISH_ROWS: &str = "UPDATE rows SET state = 2, due_at = NULL WHERE id = ANY ($1) AND state = 1";

/// One row, to be updated: the least that a commit is.
pub struct Row {
    client: Client,
    update: Statement,
}

impl Row {
    pub async fn insert(database: &Database) -> Tried<Self> {
        let client = database.connect().await?;
        client.batch_execute("CREATE TABLE one_row (n bigint); INSERT INTO one_row VALUES (0)").await?;
        let update = client.prepare("UPDATE one_row SET n = n + 1").await?;
        Ok(Self { client, update })
    }

    pub async fn update(&self) -> Tried<()> {
        self.client.execute(&self.update, &[]).await?;
        Ok(())
    }
}

/// Gets `count` rows through in a fresh database.
pub async fn run(limit: Limit, database: &Database, count: usize) -> Tried<Sample> {
    let client = database.connect().await?;
    client.batch_execute(TABLES).await?;
    match limit {
        Limit::Insert => insert(&client, database, count.div_ceil(2), true).await,
        Limit::Unprepared => insert(&client, database, count.div_ceil(2), false).await,
        Limit::Arrays => {
            let meter = Meter::start(Some(database)).await?;
            let rows = insert_arrays(&client, count.div_ceil(2)).await?;
            meter.stop(Some(database), rows).await
        }
        Limit::Commit => commit(&client, database, count).await,
        Limit::Drain(loops) => drain(&client, database, loops, count).await,
    }
}

/// So many rows into each of the two tables, one after the other, row by row in the statement; prepared once, or sent as text.
async fn insert(client: &Client, database: &Database, count: usize, prepared: bool) -> Tried<Sample> {
    let mut statements = Vec::new();
    for (table, between) in [("rows", "0, 0"), ("entries", "1")] {
        let value = |n| format!("(${}, {between}, ${})", 2 * n + 1, 2 * n + 2);
        let values: Vec<String> = (0..BATCH).map(value).collect();
        let text = format!("INSERT INTO {table} VALUES {}", values.join(", "));
        statements.push((client.prepare(&text).await?, text));
    }
    let (batches, body) = (count.div_ceil(BATCH), BODY.as_slice());
    let meter = Meter::start(Some(database)).await?;
    for _ in 0..batches {
        let ids: Vec<Uuid> = (0..BATCH).map(|_| *fresh::job_id().as_uuid()).collect();
        let values: Vec<&(dyn ToSql + Sync)> =
            ids.iter().flat_map(|id| [id as &(dyn ToSql + Sync), &body]).collect();
        for (statement, text) in &statements {
            if prepared {
                client.execute(statement, &values).await?;
            } else {
                let typed = values.iter().zip([Type::UUID, Type::BYTEA].into_iter().cycle());
                let typed: Vec<_> = typed.map(|(value, of)| (*value, of)).collect();
                client.query_typed(text, &typed).await?;
            }
        }
    }
    meter.stop(Some(database), 2 * batches * BATCH).await
}

/// So many rows into each of the two tables, by one statement that takes them as arrays; answers how many there are in both.
async fn insert_arrays(client: &Client, count: usize) -> Tried<usize> {
    let statement = client.prepare(INSERT_ARRAYS).await?;
    let bodies = vec![BODY.as_slice(); BATCH];
    let batches = count.div_ceil(BATCH);
    for _ in 0..batches {
        let ids: Vec<Uuid> = (0..BATCH).map(|_| *fresh::job_id().as_uuid()).collect();
        client.execute(&statement, &[&ids, &bodies]).await?;
    }
    Ok(2 * batches * BATCH)
}

async fn commit(client: &Client, database: &Database, count: usize) -> Tried<Sample> {
    let statement = client.prepare(INSERT_ONE).await?;
    let meter = Meter::start(Some(database)).await?;
    for _ in 0..count {
        client.execute(&statement, &[fresh::job_id().as_uuid(), &BODY.as_slice()]).await?;
    }
    meter.stop(Some(database), count).await
}

async fn drain(client: &Client, database: &Database, loops: usize, count: usize) -> Tried<Sample> {
    let filled = insert_arrays(client, count).await? / 2;
    let mut draining = JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..loops {
        clients.push(database.connect().await?);
    }
    let meter = Meter::start(Some(database)).await?;
    for client in clients {
        draining.spawn(async move { drain_loop(&client).await });
    }
    let mut drained = 0;
    while let Some(ended) = draining.join_next().await {
        drained += ended??;
    }
    if drained < filled {
        return Err(format!("{drained} of {filled} raw rows were found").into());
    }
    meter.stop(Some(database), drained).await
}

async fn drain_loop(client: &Client) -> Tried<usize> {
    let (claim, finish) = (client.prepare(CLAIM_ROWS).await?, client.prepare(FINISH_ROWS).await?);
    let mut drained = 0;
    loop {
        let claimed = client.query(&claim, &[&(CLAIM as i64)]).await?;
        if claimed.is_empty() {
            return Ok(drained);
        }
        let rows = claimed.iter().map(|r| Ok((r.try_get::<_, Uuid>(0)?, r.try_get::<_, &[u8]>(1)?)));
        let (ids, _): (Vec<Uuid>, Vec<&[u8]>) = rows.collect::<Result<_, tokio_postgres::Error>>()?;
        drained += client.execute(&finish, &[&ids]).await? as usize;
    }
}
