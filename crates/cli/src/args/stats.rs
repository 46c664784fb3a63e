//! Numbers over time, and errors that are one thing.

use crate::span::{Moment, Span};
use clap::{Args, Subcommand};

/// `windlass stats`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct StatsArgs {
    /// What else to do with them
    #[command(subcommand)]
    pub command: Option<StatsCommand>,
    /// How much happened since then: a time, or how long ago
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Up to then; now when left out
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// In steps of whole minutes, or of whole hours where it is more than 48 hours ago
    #[arg(long, value_name = "TIME")]
    pub step: Option<Span>,
    /// A row for each queue, kind or outcome, or several behind commas
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pub by: Vec<String>,
    /// In this queue
    #[arg(long)]
    pub queue: Option<String>,
    /// Of this kind
    #[arg(long)]
    pub kind: Option<String>,
}

impl StatsArgs {
    /// Whether they ask for more than how it stands now.
    pub fn is_over_time(&self) -> bool {
        self.from.is_some()
            || self.to.is_some()
            || self.step.is_some()
            || !self.by.is_empty()
            || self.queue.is_some()
            || self.kind.is_some()
    }
}

/// `windlass stats rebuild`
#[derive(Debug, Subcommand)]
pub enum StatsCommand {
    /// Count again what is in the log: numbers and problems
    #[command(
        after_help = "The server that leads does it. Jobs that were removed are not counted again: with --since older numbers stay.\n\nExamples:\n  windlass stats rebuild\n  windlass stats rebuild --since -6h"
    )]
    Rebuild {
        /// From the beginning of this hour on; everything when left out
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<Moment>,
    },
}

/// `windlass problems`
#[derive(Debug, Subcommand)]
pub enum ProblemsCommand {
    /// List problems, last seen first
    #[command(after_help = "Examples:\n  windlass problems ls\n  windlass problems ls --state muted")]
    Ls {
        /// open, resolved or muted; all when left out
        #[arg(long)]
        state: Option<String>,
        /// Of this kind
        #[arg(long)]
        kind: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// One problem, with how often it was seen
    #[command(after_help = "Example:\n  windlass problems show 3f0c9a1be2d47758")]
    Show(ProblemArg),
    /// It is over; when it is seen again it is open again
    #[command(after_help = "Example:\n  windlass problems resolve 3f0c9a1be2d47758")]
    Resolve(ProblemArg),
    /// It is known and stays as it is
    #[command(after_help = "Example:\n  windlass problems mute 3f0c9a1be2d47758")]
    Mute(ProblemArg),
    /// It needs somebody after all
    #[command(after_help = "Example:\n  windlass problems open 3f0c9a1be2d47758")]
    Open(ProblemArg),
}

/// A problem.
#[derive(Debug, Args)]
pub struct ProblemArg {
    /// Its fingerprint, as the list shows it
    pub fingerprint: String,
}
