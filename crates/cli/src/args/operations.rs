//! What is done to many jobs by the server, alerts, and marks in time.

use crate::span::Span;
use clap::{Args, Subcommand};

/// `windlass operations`
#[derive(Debug, Subcommand)]
pub enum OperationsCommand {
    /// List them, the latest first: how far each is
    #[command(after_help = "Examples:\n  windlass operations ls\n  windlass operations ls --watch")]
    Ls {
        /// At most so many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Stop one; what it did to jobs stays
    #[command(
        after_help = "One that is still held has done nothing: to stop it leaves every job as it was.\n\nExample:\n  windlass operations stop 0193a2f4-…"
    )]
    Stop {
        /// Its id, or a piece of it that no other has
        id: String,
    },
}

/// `windlass marks`
#[derive(Debug, Subcommand)]
pub enum MarksCommand {
    /// List them, the latest first
    #[command(after_help = "Examples:\n  windlass marks ls\n  windlass marks ls --since 1d")]
    Ls {
        /// Since then: so long ago (1h), or a moment
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Until then: so long ago (1h), or a moment
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Mark this moment, as a deploy does
    #[command(
        after_help = "The charts of the page show it as a line.\n\nExample:\n  windlass marks add \"deploy 4.2.0\""
    )]
    Add {
        /// What happened
        text: String,
    },
    /// Remove one
    #[command(after_help = "Example:\n  windlass marks rm 0193a2f4-…")]
    Rm {
        /// Its id, or a piece of it that no other has
        id: String,
    },
}

/// `windlass alerts`
#[derive(Debug, Subcommand)]
pub enum AlertsCommand {
    /// List them, with those that fire
    #[command(after_help = "Example:\n  windlass alerts ls --watch")]
    Ls,
    /// Watch something
    #[command(
        after_help = "Metrics: oldest_due, failure_rate, no_worker, approval_expires, schedule_missed. Each change is sent once, through\nthe address of a subscription and signed as it signs.\n\nExamples:\n  windlass alerts put late --metric oldest_due --longer-than 10m --for 1m --notify ops\n  windlass alerts put sick --metric failure_rate --percent 20 --queue mail"
    )]
    Put(NewAlert),
    /// Watch something no more
    #[command(after_help = "Example:\n  windlass alerts rm late")]
    Rm {
        /// Which
        name: String,
    },
}

/// `windlass alerts put`
#[derive(Debug, Args)]
pub struct NewAlert {
    /// Its name
    pub name: String,
    /// What is watched
    #[arg(long)]
    pub metric: String,
    /// In this queue; in all, each for itself
    #[arg(long)]
    pub queue: Option<String>,
    /// The length of time that it is measured against
    #[arg(long, value_name = "TIME")]
    pub longer_than: Option<Span>,
    /// The share that it is measured against
    #[arg(long, value_name = "N")]
    pub percent: Option<i64>,
    /// How long it must hold before it fires
    #[arg(long = "for", value_name = "TIME")]
    pub holds_for: Option<Span>,
    /// The subscription through whose address it is sent
    #[arg(long, value_name = "SUBSCRIPTION")]
    pub notify: Option<String>,
}
