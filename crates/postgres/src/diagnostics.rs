//! How the server stands, for `windlass doctor`: its settings, what holds its past back, whether a pooler is between.

use crate::PostgresStore;
use crate::db::{Db, sql};
use crate::error::{Failure, Tried};
use crate::param::params;
use crate::pool::{Connections, spawned};
use crate::row::{Columns, Ts};
use std::sync::Arc;
use windlass_core::{JobId, Timestamp};
use windlass_store::StoreResult;

/// How often a pooler gets the chance to show itself: between two looks others may have used its connections.
const LOOKS: usize = 3;

/// How the server stands.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Condition {
    /// Its version, as it says it.
    pub version: String,
    /// Its clock.
    pub now: Timestamp,
    /// Whether commits survive a power cut.
    pub fsync: bool,
    /// Whether pages survive one.
    pub full_page_writes: bool,
    /// What a commit waits for: anything but `off` and it is on the disk.
    pub synchronous_commit: String,
    /// Whether dead rows are removed by themselves.
    pub autovacuum: bool,
    /// The transaction that is open longest: no row that died since it began can be removed.
    pub oldest: Option<Open>,
    /// The same of prepared ones, by their name; those are open until somebody ends them.
    pub prepared: Option<(Timestamp, String)>,
    /// The two large tables.
    pub tables: Vec<Table>,
    /// Whether a pooler gives every transaction another server process.
    pub pooled: bool,
}

/// An open transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Open {
    /// Since when.
    pub since: Timestamp,
    /// Its server process.
    pub pid: i32,
    /// Whose: user and application.
    pub who: String,
    /// What it does: `idle in transaction` is nothing.
    pub state: String,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Rows that are there, about.
    pub live: i64,
    /// Rows that died and still take room, about.
    pub dead: i64,
    /// When autovacuum was there last.
    pub vacuumed_at: Option<Timestamp>,
}

impl PostgresStore {
    /// How the server stands. Needs two connections.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn condition(&self) -> StoreResult<Condition> {
        let connections = Arc::clone(&self.connections);
        spawned(async move {
            let pooled = is_pooled(&connections).await?;
            let client = connections.get().await?;
            let db = connections.on(&client);
            let read = |row: &_| condition(&mut Columns::new(row, 0));
            let found = db.one(sql!("condition"), params![None::<Ts>], read).await?;
            let missing = || Failure::Unreadable("the server says nothing of itself".into());
            let tables =
                db.all(sql!("condition_tables"), params![], |row| table(&mut Columns::new(row, 0))).await?;
            Ok(Condition { tables, pooled, ..found.ok_or_else(missing)? })
        })
        .await
    }

    /// Jobs that the line or the holds lost or have twice, and entries of the line that point at nothing, each with what is
    /// wrong. These tables are derived from `jobs`; [`PostgresStore::mend_line`] derives them anew.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn out_of_line(&self, limit: i64) -> StoreResult<Vec<(JobId, String)>> {
        let read = |r: &tokio_postgres::Row| {
            let mut c = Columns::new(r, 0);
            Ok((c.job_id()?, c.get()?))
        };
        self.connections
            .read(move |db| Box::pin(async move { db.all(sql!("out_of_line"), params![limit], read).await }))
            .await
    }

    /// Puts right what [`PostgresStore::out_of_line`] finds, and returns how many entries changed.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn mend_line(&self) -> StoreResult<i64> {
        self.connections
            .transact(None, |tx| {
                Box::pin(async move {
                    let changed =
                        tx.one(sql!("mend_line"), params![], |r| Ok(r.try_get::<_, i64>(0)?)).await?;
                    tx.mark(true);
                    Ok(changed.unwrap_or_default())
                })
            })
            .await
    }
}

fn condition(row: &mut Columns<'_>) -> Tried<Condition> {
    let (version, now) = (row.get()?, row.time()?);
    let (fsync, full_page_writes, synchronous_commit) = (row.get()?, row.get()?, row.get()?);
    let autovacuum = row.get()?;
    let (since, pid) = (row.opt_time()?, row.get::<Option<i32>>()?);
    let (who, state) = (row.get::<Option<String>>()?, row.get::<Option<String>>()?);
    let oldest = since.zip(pid).map(|(since, pid)| Open {
        since,
        pid,
        who: who.unwrap_or_default(),
        state: state.unwrap_or_default(),
    });
    let prepared = row.opt_time()?.zip(row.get()?);
    Ok(Condition {
        version,
        now,
        fsync,
        full_page_writes,
        synchronous_commit,
        autovacuum,
        oldest,
        prepared,
        tables: Vec::new(),
        pooled: false,
    })
}

fn table(row: &mut Columns<'_>) -> Tried<Table> {
    Ok(Table { name: row.get()?, live: row.get()?, dead: row.get()?, vacuumed_at: row.opt_time()? })
}

/// Without a pooler, or with one that lends for a session, a connection has one server process for its life, and two
/// connections have two. One that lends for a transaction gives the second the first one's, and then the first another.
async fn is_pooled(connections: &Connections) -> Tried<bool> {
    let (one, other) = (connections.get().await?, connections.get().await?);
    for _ in 0..LOOKS {
        let first = backend(&connections.on(&one)).await?;
        other.batch_execute("BEGIN").await?;
        let second = backend(&connections.on(&other)).await;
        let again = backend(&connections.on(&one)).await;
        other.batch_execute("ROLLBACK").await?;
        if first == second? || first != again? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn backend(db: &Db<'_>) -> Tried<i32> {
    let pid = db.one(sql!("backend"), params![], |row| Columns::new(row, 0).get()).await?;
    pid.ok_or_else(|| Failure::Unreadable("no server process".into()))
}
