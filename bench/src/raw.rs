//! The raw limit: what the database itself does with this disk and processor, without jobs, log, leases or guard.
//!
//! Each limit runs on a fresh database, in the same run as the cases it is compared with, because a busy machine
//! slows both alike.

pub mod postgres;
pub mod sqlite;

/// Rows per insert and commit.
const BATCH: usize = 1_000;
/// Rows per claim and per update.
const CLAIM: usize = 500;
/// About what the row of a job takes.
const BODY: [u8; 200] = [b'x'; 200];

/// What the database is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Rows per second, 1,000 rows of 200 bytes per statement and commit.
    Insert,
    /// The same with PostgreSQL when nothing is prepared, as behind a transaction-mode pooler, and as Windlass does.
    Unprepared,
    /// The same with PostgreSQL when the rows come as arrays, which is the fastest that one statement can be.
    Arrays,
    /// Commits per second, one row each.
    Commit,
    /// Rows per second through claim 500, commit, update 500, commit, over a partial index, so many loops at once.
    Drain(usize),
}

impl Limit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "raw-insert",
            Self::Unprepared => "raw-unprepared",
            Self::Arrays => "raw-arrays",
            Self::Commit => "raw-commit",
            Self::Drain(1) => "raw-drain",
            Self::Drain(_) => "raw-drain-2",
        }
    }
}
