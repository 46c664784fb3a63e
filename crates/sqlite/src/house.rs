//! Moving house: the tables of this file, row by row. Their statements are made from the list of tables.

use crate::SqliteStore;
use crate::db::{Db, Tx, sql};
use crate::error::{Failure, Tried};
use async_trait::async_trait;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, params_from_iter};
use windlass_core::decide::let_go;
use windlass_core::{Actor, Answer, Done, JobId, Refusal, Timestamp};
use windlass_store::house::{Cell, Closed, Holds, House, LOG, Standing, Table};
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

/// The columns that the table itself has.
fn own(table: &Table) -> impl Iterator<Item = &'static str> + '_ {
    table.columns.iter().filter(|(_, holds)| *holds != Holds::Tags).map(|(name, _)| *name)
}

fn key(table: &Table) -> String {
    table.columns[..table.key].iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn marks(n: usize) -> String {
    vec!["?"; n].join(", ")
}

/// What its columns are read as.
fn columns(table: &Table) -> String {
    let column = |(name, holds): &(&'static str, Holds)| match holds {
        Holds::Tags => made!("tags"),
        _ => (*name).to_owned(),
    };
    table.columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

fn cell(row: &Row<'_>, at: usize, holds: Holds) -> Tried<Cell> {
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).map_err(|e| Failure::Unreadable(format!("column {at}: {e}")))
    };
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(n) => Cell::Int(n),
        ValueRef::Real(n) => {
            return Err(Failure::Unreadable(format!("column {at} holds {n}, which is no whole number")));
        }
        ValueRef::Text(list) if holds == Holds::Tags => {
            let mut tags: Vec<String> = serde_json::from_slice(list)?;
            tags.sort();
            Cell::Texts(tags)
        }
        ValueRef::Text(bytes) => Cell::Text(text(bytes)?),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    })
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null | Cell::Texts(_) => Value::Null,
        Cell::Int(n) => Value::Integer(*n),
        Cell::Text(text) => Value::Text(text.clone()),
        Cell::Bytes(bytes) => Value::Blob(bytes.clone()),
    }
}

impl Db<'_> {
    fn rows(&self, table: &Table, after: Option<&[Cell]>, limit: usize) -> Tried<Vec<Vec<Cell>>> {
        let behind =
            after.map_or("true".to_owned(), |_| format!("({}) > ({})", key(table), marks(table.key)));
        let text =
            made!("rows", columns = columns(table), table = table.name, behind = behind, key = key(table));
        let limit = Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX));
        let params = after.unwrap_or_default().iter().map(value).chain([limit]);
        self.all(&text, params_from_iter(params), |row| {
            table.columns.iter().enumerate().map(|(n, (_, holds))| cell(row, n, *holds)).collect()
        })
    }

    fn last(&self, table: &Table) -> Tried<Option<Vec<Cell>>> {
        let backwards = format!("{} DESC", key(table).replace(", ", " DESC, "));
        let text = made!("last", key = key(table), table = table.name, backwards = backwards);
        self.one(&text, (), |row| {
            table.columns[..table.key]
                .iter()
                .enumerate()
                .map(|(n, (_, holds))| cell(row, n, *holds))
                .collect()
        })
    }
}

impl Tx<'_, '_> {
    fn put(&self, table: &Table, rows: &[Vec<Cell>]) -> Tried<()> {
        let columns: Vec<_> = own(table).collect();
        let values = marks(columns.len());
        let text = made!("add", table = table.name, columns = columns.join(", "), values = values);
        for row in rows {
            let own = row.iter().zip(table.columns).filter(|(_, (_, holds))| *holds != Holds::Tags);
            self.execute(&text, params_from_iter(own.map(|(cell, _)| value(cell))))?;
            for cell in row {
                let Cell::Texts(tags) = cell else { continue };
                let Some(job) = row.get(1) else { continue };
                for tag in tags {
                    self.execute(
                        sql!("insert_tag"),
                        params_from_iter([Value::Text(tag.clone()), value(job)]),
                    )?;
                }
            }
        }
        if table.name == LOG { self.logged_otherwise() } else { Ok(()) }
    }

    fn let_go(&self, jobs: &[JobId], actor: &Actor, now: Timestamp) -> Tried<Vec<Answer>> {
        let one = |id: &JobId| {
            let Some(job) = self.job(*id)? else { return Ok(Err(Refusal::NotFound)) };
            match let_go(&job, actor.clone(), now) {
                Some(step) => self.finish(&job, step),
                None => Ok(Ok(Done::Already(job.version))),
            }
        };
        jobs.iter().map(one).collect()
    }
}

/// The moment is the store's own.
const NOW: Now = None;

#[async_trait]
impl House for SqliteStore {
    async fn standing(&self) -> StoreResult<Standing> {
        let standing = |db: &Db<'_>| {
            let head = db.head()?;
            Ok(Standing { life: head.life, purged_seq: head.purged, closed: head.closed })
        };
        self.readers.read(standing).await
    }

    async fn close(&self, why: Closed) -> StoreResult<()> {
        self.writer
            .write(NOW, move |tx, _| {
                tx.execute(sql!("close"), [serde_json::to_string(&why)?])?;
                Ok(())
            })
            .await
    }

    async fn reopen(&self) -> StoreResult<()> {
        self.writer
            .write(NOW, |tx, _| {
                tx.execute(sql!("close"), [None::<String>])?;
                tx.hint();
                Ok(())
            })
            .await
    }

    async fn succeed(&self, other: Standing) -> StoreResult<()> {
        self.writer
            .write(NOW, move |tx, _| {
                tx.execute(sql!("succeed"), (other.life.incarnation + 1, other.purged_seq))?;
                Ok(())
            })
            .await
    }

    async fn rows(
        &self,
        table: &'static Table,
        after: Option<Vec<Cell>>,
        limit: usize,
    ) -> StoreResult<Vec<Vec<Cell>>> {
        self.readers.read(move |db| db.rows(table, after.as_deref(), limit)).await
    }

    async fn last(&self, table: &'static Table) -> StoreResult<Option<Vec<Cell>>> {
        self.readers.read(move |db| db.last(table)).await
    }

    async fn count(&self, table: &'static Table) -> StoreResult<u64> {
        let text = made!("count", table = table.name);
        let count = self.readers.read(move |db| db.one(&text, (), |row| Ok(row.get::<_, i64>(0)?)));
        Ok(count.await?.unwrap_or_default().unsigned_abs())
    }

    async fn put(&self, table: &'static Table, rows: Vec<Vec<Cell>>) -> StoreResult<()> {
        self.writer.write(NOW, move |tx, _| tx.put(table, &rows)).await
    }

    async fn derive(&self) -> StoreResult<()> {
        // Its indexes derive themselves.
        Ok(())
    }

    async fn let_go(&self, jobs: Vec<JobId>, actor: Actor) -> StoreResult<Vec<Answer>> {
        self.writer.write(NOW, move |tx, now| tx.let_go(&jobs, &actor, now)).await
    }
}
