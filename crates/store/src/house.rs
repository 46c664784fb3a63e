//! Moving house: a store's tables, as another store can take them over.
//!
//! SQLite and PostgreSQL keep the same tables with the same columns, so what moves is rows, not a second description of
//! them. [`TABLES`] names each table and column once. What only points at jobs, or is true of one database alone, is named in
//! [`STAYS`]: the other database makes its own.

use crate::{Store, StoreResult};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use windlass_core::{Actor, Answer, JobId, Life};

/// One value of a row, as both databases have it. A moment is microseconds since 1970 UTC, an id its 16 bytes, a truth 0 or 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A number, a moment or a truth.
    Int(i64),
    /// Text.
    Text(String),
    /// Bytes or an id.
    Bytes(Vec<u8>),
    /// Several texts, sorted; never none.
    Texts(Vec<String>),
}

impl Cell {
    /// About how many bytes it takes.
    pub fn len(&self) -> usize {
        match self {
            Self::Null => 1,
            Self::Int(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Texts(texts) => texts.iter().map(String::len).sum(),
        }
    }

    /// Whether it takes none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A number.
    Int,
    /// A moment.
    Time,
    /// A truth.
    Truth,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// An id.
    Id,
    /// Tags: a column of the first event in PostgreSQL, a table of its own in SQLite.
    Tags,
}

/// A table that moves.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// How many of its first columns name a row; rows are read in the order of these.
    pub key: usize,
    /// Its columns.
    pub columns: &'static [(&'static str, Holds)],
}

macro_rules! tables {
    ($($name:literal [$($key:ident $key_holds:ident),*] $($column:ident $holds:ident),*;)*) => {
        &[$(Table {
            name: $name,
            key: [$(stringify!($key)),*].len(),
            columns: &[$((stringify!($key), Holds::$key_holds),)* $((stringify!($column), Holds::$holds)),*],
        }),*]
    };
}

/// The name of the log, which moves in the order of its numbers.
pub const LOG: &str = "job_events";
/// Where readers of the log stand. A place means nothing in another store, so each is made anew there.
pub const PLACES: &Table =
    &tables! { "readers" [name Text] cursor Text, epoch Int, moved_at Time, since Time; }[0];

/// Every table that moves, in the order in which it does.
pub const TABLES: &[Table] = tables! {
    "settings" [one Int] state Text;
    "queues" [name Text] paused_at Time, paused_by Text, defaults Text, mode Text, flow Text, endpoint Text;
    "access_keys" [name Text] hash Bytes, roles Text, queues Text, expires_at Time, created_at Time, revoked_at Time;
    "schedules" [name Text] next_at Time, state Text;
    "triggers" [name Text] state Text, secrets Text;
    "trigger_events" [id Id] trigger_name Text, dedupe_key Text, payload Bytes, is_json Truth, actor Text,
        received_at Time, due_at Time, processed_at Time, detail Text;
    "subscriptions" [name Text] state Text, credential Text;
    "papers" [kind Text, name Text] state Text;
    "job_events" [seq Int] job_id Id, version Int, at Time, type Text, actor Text, attempt Int, generation Int, lease Bytes,
        key Text, detail Text, is_json Truth, payload Bytes, kind Text, agent_id Text, parent_id Id, tags Tags;
    "jobs" [id Id] queue Text, kind Text, priority Int, status Text, due_at Time, deadline_at Time, worker_id Text,
        lease_hash Bytes, lease_expires_at Time, epoch Int, assignment Int, attempt Int, retries Int, max_retries Int,
        crashes Int, version Int, generation Int, progress Int, stage Text, waiting_for Text, wait_name Text,
        wait_version Int, wake_version Int, signals Int, children Int, parent_id Id, cancel_requested_at Time,
        steps_from Int, unique_policy Text, timeout_ms Int, lease_ms Int, grace_ms Int, backoff Text, result_version Int,
        error_version Int, error_code Text, checkpoint_version Int, payload_version Int, meta_version Int,
        created_at Time, started_at Time, updated_at Time, finished_at Time, lane Int, dependents Int;
    "job_keys" [scope Text, key Text] job_id Id, payload_hash Bytes, expires_at Time, outcome Text;
    "approvals" [id Id] job_id Id, name Text, status Text, required Int, approved Int, expires_at Time,
        token_hash Bytes, token_used Truth, asked_version Int, asked_at Time, decided_at Time;
    "job_logs" [job_id Id, n Int] at Time, attempt Int, line Text;
    "job_log_parts" [job_id Id, first_n Int] last_n Int, part Text, moved_at Time;
    "tombstones" [job_id Id] status Text, finished_at Time, archive Text, purged_at Time;
    "removals" [job_id Id, version Int] removed_at Time;
    "seals" [number Int] at Time, store_id Int, incarnation Int, body Bytes, hash Bytes;
    "buckets" [queue Text, lane Int] paid_until Time, cost Int, held_until Time;
    "rollups" [resolution Text, at Time, queue Text, kind Text, tally Text] n Int, times Text;
    "gauges" [resolution Text, at Time, queue Text] depth Int, oldest_ms Int, busy Int, capacity Int;
    "problems" [fingerprint Text] state Text, kind Text, last_seen_at Time, body Text;
    "problem_hours" [fingerprint Text, at Time] errors Int, dead Int;
    "audit" [seq Int] at Time, actor Text, action Text, target Text, detail Text;
    "answers" [key Text] request_hash Bytes, body Bytes, expires_at Time;
};

/// Tables that do not move as they are. `readers` get new places; workers and leaders report themselves at the new house.
pub const STAYS: &[&str] = &[
    "store",
    "windlass_store",
    "windlass_migrations",
    "migrations",
    "guard",
    "marks",
    "owed",
    "purging",
    "line",
    "holds",
    "slots",
    "workers",
    "terms",
    "readers",
    "job_tags",
];

/// Columns that do not move: what PostgreSQL derives.
pub const DERIVED: &[(&str, &str)] = &[
    ("jobs", "parked"),
    ("jobs", "assigned_to"),
    ("jobs", "dead"),
    ("jobs", "dead_at"),
    ("jobs", "claim"),
    ("job_events", "tx"),
];

/// Why a store takes no writes: its jobs move, or have moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Whether they move away from here; else they move in.
    pub away: bool,
    /// The store at the other end.
    pub other: u64,
    /// Where that is, without a password.
    pub place: String,
    /// Whether everything has arrived here, and was compared.
    #[serde(default)]
    pub arrived: bool,
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.away {
            write!(f, "the store is closed: its jobs move to {}, or have moved; use that one", self.place)
        } else {
            write!(
                f,
                "the store is closed: jobs move in from {}; wait until `windlass move` is done",
                self.place
            )
        }
    }
}

/// How a store stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Which store it is, and which of its lives.
    pub life: Life,
    /// No event with a higher number was ever purged.
    pub purged_seq: i64,
    /// Why it takes no writes; none while it does.
    pub closed: Option<Closed>,
}

/// A store as a house that can be moved out of and into. Opened for moving, it can be written while it is closed.
#[async_trait]
pub trait House: Store {
    /// How it stands.
    async fn standing(&self) -> StoreResult<Standing>;

    /// Refuses every write from now on. Returns when what was being written is committed or undone.
    async fn close(&self, why: Closed) -> StoreResult<()>;

    /// Takes writes again.
    async fn reopen(&self) -> StoreResult<()>;

    /// Becomes the later life of another store, which stood so: fences and numbers that are given here from now on are higher
    /// than any that were given there. Called while there is nothing here yet, and again when all is here.
    async fn succeed(&self, other: Standing) -> StoreResult<()>;

    /// Rows behind a key, in the order of keys.
    async fn rows(
        &self,
        table: &'static Table,
        after: Option<Vec<Cell>>,
        limit: usize,
    ) -> StoreResult<Vec<Vec<Cell>>>;

    /// The highest key.
    async fn last(&self, table: &'static Table) -> StoreResult<Option<Vec<Cell>>>;

    /// How many rows there are, for a bar.
    async fn count(&self, table: &'static Table) -> StoreResult<u64>;

    /// Adds rows, all or none.
    async fn put(&self, table: &'static Table, rows: Vec<Vec<Cell>>) -> StoreResult<()>;

    /// Derives what only points at jobs.
    async fn derive(&self) -> StoreResult<()>;

    /// Takes running jobs from their holders, as [`windlass_core::decide::let_go`] says.
    async fn let_go(&self, jobs: Vec<JobId>, actor: Actor) -> StoreResult<Vec<Answer>>;
}
