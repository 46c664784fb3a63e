//! Moving house: the tables of this schema, row by row. Their statements are made from the list of tables.
//!
//! A store is closed by a trigger before each of its tables. To put them there waits for everybody who writes, so who
//! copies afterwards sees the last of it; and a store that is not closed pays nothing.

use crate::PostgresStore;
use crate::append::granted;
use crate::db::{Tx, sql};
use crate::error::{Failure, Tried};
use crate::row::Ts;
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;
use windlass_core::decide::let_go;
use windlass_core::{Actor, Answer, Done, JobId, Life, Refusal, Timestamp};
use windlass_store::house::{Cell, Closed, Holds, House, Standing, TABLES, Table};
use windlass_store::{Now, StoreResult};

/// A text of `house/` with its words put in: they are names from the list of tables, never what somebody wrote.
macro_rules! made {
    ($name:literal $(, $word:ident = $value:expr)* $(,)?) => {
        include_str!(concat!("../house/", $name, ".sql"))
            .trim_end()
            .to_owned()
            $(.replace(concat!("{", stringify!($word), "}"), &$value))*
    };
}

/// Tables beside those that move, which a closed store keeps as they are too.
const BESIDE: &[&str] = &["line", "holds", "slots", "workers", "terms", "readers"];
/// How often it is tried to have all tables to ourselves, and how long each time: others wait behind us, and wait for less
/// than they have patience.
const TRIES: usize = 150;
const PATIENCE: &str = "100ms";
const PAUSE: Duration = Duration::from_millis(400);

/// Columns of `jobs` that follow from others. Elsewhere the guard and the statement that inserts a job say the same.
/// A job that runs gets a claim of its own, so that it is in the holds.
const FOLLOWING: &str = ", parked, assigned_to, dead, dead_at, claim";
const FOLLOWED: &str = ", CASE WHEN status IN ('waiting', 'assigned') THEN status END, \
    CASE WHEN status = 'assigned' THEN worker_id END, \
    CASE WHEN status IN ('failed', 'timed_out', 'cancelled') THEN status END, \
    CASE WHEN status IN ('failed', 'timed_out', 'cancelled') THEN finished_at END, \
    CASE WHEN status = 'running' THEN ('x' || substr(md5(id::text), 1, 15))::bit(60)::bigint END";

fn all_tables() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name).chain(BESIDE.iter().copied())
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn key(table: &Table) -> Vec<String> {
    table.columns[..table.key].iter().map(|(name, _)| quoted(name)).collect()
}

/// What a column is read as.
fn read(name: &str, holds: Holds) -> String {
    match (name, holds) {
        // A row keeps who held it last, which means nothing.
        ("worker_id", _) => "CASE WHEN status IN ('running', 'assigned') THEN worker_id END".to_owned(),
        (_, Holds::Int) => format!("{}::bigint", quoted(name)),
        _ => quoted(name),
    }
}

/// The type of one value, and of many.
fn types(holds: Holds) -> (Type, Type, &'static str) {
    match holds {
        Holds::Int => (Type::INT8, Type::INT8_ARRAY, "bigint[]"),
        Holds::Time => (Type::TIMESTAMPTZ, Type::TIMESTAMPTZ_ARRAY, "timestamptz[]"),
        Holds::Truth => (Type::BOOL, Type::BOOL_ARRAY, "boolean[]"),
        Holds::Text | Holds::Tags => (Type::TEXT, Type::TEXT_ARRAY, "text[]"),
        Holds::Bytes => (Type::BYTEA, Type::BYTEA_ARRAY, "bytea[]"),
        Holds::Id => (Type::UUID, Type::UUID_ARRAY, "uuid[]"),
    }
}

fn cell(row: &Row, at: usize, holds: Holds) -> Tried<Cell> {
    Ok(match holds {
        Holds::Int => row.try_get::<_, Option<i64>>(at)?.map_or(Cell::Null, Cell::Int),
        Holds::Time => row.try_get::<_, Option<Ts>>(at)?.map_or(Cell::Null, |ts| Cell::Int(ts.0.as_micros())),
        Holds::Truth => row.try_get::<_, Option<bool>>(at)?.map_or(Cell::Null, |is| Cell::Int(is.into())),
        Holds::Text => row.try_get::<_, Option<String>>(at)?.map_or(Cell::Null, Cell::Text),
        Holds::Bytes => row.try_get::<_, Option<Vec<u8>>>(at)?.map_or(Cell::Null, Cell::Bytes),
        Holds::Id => {
            row.try_get::<_, Option<Uuid>>(at)?.map_or(Cell::Null, |id| Cell::Bytes(id.into_bytes().into()))
        }
        Holds::Tags => row.try_get::<_, Option<Vec<String>>>(at)?.map_or(Cell::Null, |mut tags| {
            tags.sort();
            tags.dedup();
            if tags.is_empty() { Cell::Null } else { Cell::Texts(tags) }
        }),
    })
}

/// A value that can be sent.
type Sent = Box<dyn ToSql + Sync + Send>;

fn wrong(cell: &Cell, holds: Holds) -> Failure {
    Failure::Unreadable(format!("{cell:?} stands where {holds:?} was expected"))
}

fn int(cell: &Cell) -> Tried<Option<i64>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Int(n) => Ok(Some(*n)),
        other => Err(wrong(other, Holds::Int)),
    }
}

fn text(cell: &Cell) -> Tried<Option<String>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Text(text) => Ok(Some(text.clone())),
        Cell::Texts(texts) => Ok(Some(serde_json::to_string(texts)?)),
        other => Err(wrong(other, Holds::Text)),
    }
}

fn bytes(cell: &Cell) -> Tried<Option<Vec<u8>>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Bytes(bytes) => Ok(Some(bytes.clone())),
        other => Err(wrong(other, Holds::Bytes)),
    }
}

fn id(cell: &Cell) -> Tried<Option<Uuid>> {
    let Some(bytes) = bytes(cell)? else { return Ok(None) };
    Uuid::from_slice(&bytes).map(Some).map_err(|e| Failure::Unreadable(format!("an id: {e}")))
}

/// One column of many rows.
fn column<'r>(cells: impl Iterator<Item = &'r Cell>, holds: Holds) -> Tried<Sent> {
    let ts = |n: Option<i64>| n.map(|n| Ts(Timestamp::from_micros(n)));
    Ok(match holds {
        Holds::Int => Box::new(cells.map(int).collect::<Tried<Vec<_>>>()?),
        Holds::Time => Box::new(cells.map(|cell| Ok(ts(int(cell)?))).collect::<Tried<Vec<_>>>()?),
        Holds::Truth => {
            Box::new(cells.map(|cell| Ok(int(cell)?.map(|n| n != 0))).collect::<Tried<Vec<_>>>()?)
        }
        Holds::Text | Holds::Tags => Box::new(cells.map(text).collect::<Tried<Vec<_>>>()?),
        Holds::Bytes => Box::new(cells.map(bytes).collect::<Tried<Vec<_>>>()?),
        Holds::Id => Box::new(cells.map(id).collect::<Tried<Vec<_>>>()?),
    })
}

/// One value.
fn single(cell: &Cell, holds: Holds) -> Tried<Sent> {
    Ok(match holds {
        Holds::Int => Box::new(int(cell)?),
        Holds::Time => Box::new(int(cell)?.map(|n| Ts(Timestamp::from_micros(n)))),
        Holds::Truth => Box::new(int(cell)?.map(|n| n != 0)),
        Holds::Text | Holds::Tags => Box::new(text(cell)?),
        Holds::Bytes => Box::new(bytes(cell)?),
        Holds::Id => Box::new(id(cell)?),
    })
}

/// The text of a statement that adds rows.
fn insert(table: &Table) -> String {
    let names: Vec<_> = table.columns.iter().map(|(name, _)| quoted(name)).collect();
    let made = |(name, holds): &(&'static str, Holds)| match holds {
        Holds::Tags => made!("tags", column = quoted(name)),
        _ => quoted(name),
    };
    let made: Vec<_> = table.columns.iter().map(made).collect();
    let array = |(n, (_, holds)): (usize, &(&str, Holds))| format!("${}::{}", n + 1, types(*holds).2);
    let arrays: Vec<_> = table.columns.iter().enumerate().map(array).collect();
    let (following, followed) = if table.name == "jobs" { (FOLLOWING, FOLLOWED) } else { ("", "") };
    made!(
        "add",
        table = table.name,
        following = following,
        followed = followed,
        made = made.join(", "),
        arrays = arrays.join(", "),
        columns = names.join(", "),
    )
}

impl PostgresStore {
    /// Runs a statement that was made here, without a limit on its time.
    async fn made(&self, text: &str, values: &[(Sent, Type)]) -> Tried<Vec<Row>> {
        let client = self.connections.get().await?;
        let values: Vec<_> =
            values.iter().map(|(value, of)| (&**value as &(dyn ToSql + Sync), of.clone())).collect();
        Ok(client.query_typed(&self.connections.texts.rewrite(text), &values).await?)
    }

    /// Runs statements with all tables to ourselves: nobody who writes is in the middle of it. Words in them that are none of
    /// SQL stand as `{name}`.
    async fn alone(&self, statements: &str, words: &[(&str, String)]) -> Tried<()> {
        let tables: Vec<_> = all_tables().map(|name| format!("windlass.{name}")).collect();
        let text = made!("alone", patience = PATIENCE, tables = tables.join(", "), statements = statements);
        let mut text = self.connections.texts.rewrite(&text).into_owned();
        for (name, word) in words {
            text = text.replace(name, &format!("'{}'", word.replace('\'', "''")));
        }
        let mut tries = 0;
        loop {
            let client = self.connections.get().await?;
            let Err(error) = client.batch_execute(&text).await else { return Ok(()) };
            client.batch_execute("ROLLBACK").await?;
            tries += 1;
            let failure = Failure::from(error);
            if tries == TRIES || !(failure.is_locked() || failure.is_passing()) {
                return Err(failure);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn read_rows(
        &self,
        table: &Table,
        after: Option<Vec<Cell>>,
        limit: usize,
    ) -> Tried<Vec<Vec<Cell>>> {
        let columns: Vec<_> = table.columns.iter().map(|(name, holds)| read(name, *holds)).collect();
        let key = key(table).join(", ");
        let mut values: Vec<(Sent, Type)> = Vec::new();
        for (cell, (_, holds)) in after.iter().flatten().zip(table.columns) {
            values.push((single(cell, *holds)?, types(*holds).0));
        }
        let marks: Vec<_> = (1..=values.len()).map(|n| format!("${n}")).collect();
        let behind =
            if marks.is_empty() { "true".to_owned() } else { format!("({key}) > ({})", marks.join(", ")) };
        let text = made!(
            "rows",
            columns = columns.join(", "),
            table = table.name,
            behind = behind,
            key = key,
            limit = limit.to_string(),
        );
        let rows = self.made(&text, &values).await?;
        let cells = |row: &Row| {
            table
                .columns
                .iter()
                .enumerate()
                .map(|(n, (_, holds))| cell(row, n, *holds))
                .collect::<Tried<Vec<_>>>()
        };
        rows.iter().map(cells).collect()
    }

    async fn last_key(&self, table: &Table) -> Tried<Option<Vec<Cell>>> {
        let columns = &table.columns[..table.key];
        let read: Vec<_> = columns.iter().map(|(name, holds)| read(name, *holds)).collect();
        let backwards: Vec<_> = key(table).into_iter().map(|name| format!("{name} DESC")).collect();
        let (read, backwards) = (read.join(", "), backwards.join(", "));
        let text = made!("last", columns = read, table = table.name, backwards = backwards);
        let rows = self.made(&text, &[]).await?;
        let cells = |row: &Row| {
            columns.iter().enumerate().map(|(n, (_, holds))| cell(row, n, *holds)).collect::<Tried<Vec<_>>>()
        };
        rows.first().map(cells).transpose()
    }

    async fn add(&self, table: &Table, rows: &[Vec<Cell>]) -> Tried<()> {
        let mut values: Vec<(Sent, Type)> = Vec::new();
        for (n, (_, holds)) in table.columns.iter().enumerate() {
            let cells = rows.iter().map(|row| row.get(n).unwrap_or(&Cell::Null));
            values.push((column(cells, *holds)?, types(*holds).1));
        }
        self.made(&insert(table), &values).await?;
        Ok(())
    }
}

impl Tx<'_> {
    async fn let_go(&self, jobs: &[JobId], actor: &Actor) -> Tried<Vec<Answer>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for id in jobs {
            answers.push(self.let_one_go(*id, actor).await?);
        }
        Ok(answers)
    }

    async fn let_one_go(&self, id: JobId, actor: &Actor) -> Tried<Answer> {
        let (job, now) = self.lock(id).await?;
        let job = granted!(job.ok_or(Refusal::NotFound));
        match let_go(&job, actor.clone(), now) {
            Some(step) => self.finish(&job, step).await,
            None => Ok(Ok(Done::Already(job.version))),
        }
    }
}

/// The moment is the database's own.
const NOW: Now = None;

#[async_trait]
impl House for PostgresStore {
    async fn standing(&self) -> StoreResult<Standing> {
        let standing = async {
            let rows = self.made(sql!("standing"), &[]).await?;
            let row = rows.first().ok_or_else(|| Failure::Unreadable("the table store is empty".into()))?;
            let store = row.try_get::<_, i64>(0)?.cast_unsigned();
            let incarnation = row.try_get::<_, i32>(1)?.cast_unsigned();
            let closed = row.try_get::<_, Option<String>>(3)?;
            Ok::<_, Failure>(Standing {
                life: Life { store, incarnation },
                purged_seq: row.try_get(2)?,
                closed: closed.as_deref().map(serde_json::from_str).transpose()?,
            })
        };
        standing.await.map_err(|failure| failure.told())
    }

    async fn close(&self, why: Closed) -> StoreResult<()> {
        let close = async {
            let tables = all_tables().map(|name| made!("close_table", table = name));
            let statements: Vec<_> = [made!("close")].into_iter().chain(tables).collect();
            let words = [("{closed}", serde_json::to_string(&why)?), ("{why}", why.to_string())];
            self.alone(&statements.join(";\n"), &words).await
        };
        close.await.map_err(|failure| failure.told())
    }

    async fn reopen(&self) -> StoreResult<()> {
        let tables = all_tables().map(|name| made!("open_table", table = name));
        let statements: Vec<_> = tables.chain([made!("close")]).collect();
        let statements = statements.join(";\n").replace("{closed}", "NULL");
        self.alone(&statements, &[]).await.map_err(|failure| failure.told())
    }

    async fn succeed(&self, other: Standing) -> StoreResult<()> {
        let least = i64::from(other.life.incarnation) + 1;
        let values: [(Sent, Type); 2] =
            [(Box::new(least), Type::INT8), (Box::new(other.purged_seq), Type::INT8)];
        self.made(sql!("succeed"), &values).await.map_err(|failure| failure.told())?;
        let standing = self.standing().await?;
        self.connections.texts.note_incarnation(standing.life.incarnation);
        Ok(())
    }

    async fn rows(
        &self,
        table: &'static Table,
        after: Option<Vec<Cell>>,
        limit: usize,
    ) -> StoreResult<Vec<Vec<Cell>>> {
        self.read_rows(table, after, limit).await.map_err(|failure| failure.told())
    }

    async fn last(&self, table: &'static Table) -> StoreResult<Option<Vec<Cell>>> {
        self.last_key(table).await.map_err(|failure| failure.told())
    }

    async fn count(&self, table: &'static Table) -> StoreResult<u64> {
        let text = made!("count", table = table.name);
        let rows = self.made(&text, &[]).await.map_err(|failure| failure.told())?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
    }

    async fn put(&self, table: &'static Table, rows: Vec<Vec<Cell>>) -> StoreResult<()> {
        self.add(table, &rows).await.map_err(|failure| failure.told())
    }

    async fn derive(&self) -> StoreResult<()> {
        let derive = async {
            self.made(sql!("mend_line"), &[]).await?;
            let analyze = TABLES.iter().map(|table| format!("windlass.{}", table.name)).collect::<Vec<_>>();
            self.made(&format!("ANALYZE {}, windlass.line", analyze.join(", ")), &[]).await
        };
        derive.await.map(drop).map_err(|failure| failure.told())
    }

    async fn let_go(&self, jobs: Vec<JobId>, actor: Actor) -> StoreResult<Vec<Answer>> {
        let asked = Arc::new((jobs, actor));
        self.connections
            .transact(NOW, move |tx| {
                let asked = Arc::clone(&asked);
                Box::pin(async move { tx.let_go(&asked.0, &asked.1).await })
            })
            .await
    }
}
