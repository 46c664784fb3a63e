//! What is done to many jobs by the server, and marks in time.

use clap::Subcommand;

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
        /// Which
        id: String,
    },
}

/// `windlass marks`
#[derive(Debug, Subcommand)]
pub enum MarksCommand {
    /// List them, the latest first
    #[command(after_help = "Example:\n  windlass marks ls")]
    Ls {
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
        /// Which
        id: String,
    },
}
