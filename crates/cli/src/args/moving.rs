//! `windlass move`

use clap::Args;

/// `windlass move`
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// The old store: sqlite:PATH or postgres://…, as its owner
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// The new store, empty or not there yet
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// The old store's schema (PostgreSQL)
    #[arg(long, value_name = "NAME", default_value = "windlass")]
    pub from_schema: String,
    /// The new store's schema (PostgreSQL)
    #[arg(long, value_name = "NAME", default_value = "windlass")]
    pub to_schema: String,
    /// Give up a move that is not done: the old store takes writes again, the new one stays closed
    #[arg(long)]
    pub give_up: bool,
}
