//! Jobs by the clock.

use crate::span::{Moment, Span};
use clap::{Args, Subcommand};

/// `windlass schedules`
#[derive(Debug, Subcommand)]
pub enum SchedulesCommand {
    /// List schedules
    #[command(after_help = "Example:\n  windlass schedules ls")]
    Ls,
    /// One schedule, whole
    #[command(after_help = "Example:\n  windlass schedules show nightly")]
    Show(ScheduleArg),
    /// Make a schedule, or change one
    #[command(
        after_help = "Examples:\n  windlass schedules put nightly --cron '0 3 * * *' --timezone Europe/Berlin --kind report\n  windlass schedules put pulse --every 10m --kind ping --overlap skip"
    )]
    Put(Box<NewSchedule>),
    /// Remove a schedule; its jobs stay
    #[command(after_help = "Example:\n  windlass schedules rm nightly")]
    Rm(ScheduleArg),
    /// Fire nothing until it is resumed
    #[command(after_help = "Example:\n  windlass schedules pause nightly")]
    Pause(ScheduleArg),
    /// Fire again, from the next slot on
    #[command(after_help = "Example:\n  windlass schedules resume nightly")]
    Resume(ScheduleArg),
    /// Enqueue its job now, beside its slots
    #[command(after_help = "Example:\n  windlass schedules trigger nightly")]
    Trigger(ScheduleArg),
    /// The slots ahead
    #[command(after_help = "Example:\n  windlass schedules next nightly -n 5")]
    Next {
        /// Which schedule
        name: String,
        /// So many
        #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
        n: u16,
    },
    /// Make the schedules what a file says, all or none, and show the difference
    #[command(
        after_help = "Each schedule of the file is a table [schedules.NAME] with the fields of the API: cron or every, timezone, job = { kind = \"…\" }, missed, overlap, jitter, starts_at, ends_at.\n\nExamples:\n  windlass schedules apply -f schedules.toml --dry-run\n  windlass schedules apply -f schedules.toml --prune\n  windlass schedules apply -f schedules.toml --dry-run --exit-code  # 1 if something would change"
    )]
    Apply(ApplyArgs),
    /// Enqueue slots of the past that have no job yet
    #[command(
        after_help = "At most 1000 slots at once. A slot that was fired is not fired again, whatever became of its job.\n\nExamples:\n  windlass schedules backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run\n  windlass schedules backfill nightly --from -7d --to -1h"
    )]
    Backfill(BackfillArgs),
}

/// `windlass schedules apply`
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The file, in TOML; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    pub file: String,
    /// Remove every schedule that the file does not name
    #[arg(long)]
    pub prune: bool,
    /// Only show the difference
    #[arg(long)]
    pub dry_run: bool,
    /// End with 1 if something changed, or would
    #[arg(long)]
    pub exit_code: bool,
}

/// `windlass schedules backfill`
#[derive(Debug, Args)]
pub struct BackfillArgs {
    /// Which schedule
    pub name: String,
    /// From this moment on
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub from: Moment,
    /// Until before this moment, which is not in the future
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub to: Moment,
    /// Only show the slots
    #[arg(long)]
    pub dry_run: bool,
}

/// A schedule.
#[derive(Debug, Args)]
pub struct ScheduleArg {
    /// Which schedule
    pub name: String,
}

/// `windlass schedules put`
#[derive(Debug, Args)]
pub struct NewSchedule {
    /// Which schedule
    pub name: String,
    /// When: minute hour day month weekday; with seconds in front if there are six; or @hourly, @daily, @weekly, @monthly
    #[arg(long, value_name = "TEXT", required_unless_present = "every", conflicts_with = "every")]
    pub cron: Option<String>,
    /// When: in a fixed interval
    #[arg(long, value_name = "TIME")]
    pub every: Option<Span>,
    /// The time zone of --cron, like Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub timezone: String,
    /// What to do
    #[arg(long)]
    pub kind: String,
    /// Which line its jobs stand in
    #[arg(long, default_value = "default")]
    pub queue: String,
    /// JSON for the handler; @file reads a file, - reads stdin
    #[arg(long, value_name = "JSON")]
    pub payload: Option<String>,
    /// -5 to 5, higher first
    #[arg(long, allow_hyphen_values = true)]
    pub priority: Option<i32>,
    /// Failures allowed before a job is dead
    #[arg(long, value_name = "N")]
    pub max_retries: Option<i32>,
    /// How long one attempt may take
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,
    /// Slots that passed while nobody led: once, skip or all
    #[arg(long, value_parser = ["once", "skip", "all"])]
    pub missed: Option<String>,
    /// How many of them `all` makes up for
    #[arg(long, value_name = "N")]
    pub missed_max: Option<u32>,
    /// A slot while the last job lives: allow, skip or cancel (the last job)
    #[arg(long, value_parser = ["allow", "skip", "cancel"])]
    pub overlap: Option<String>,
    /// Jobs run up to so long after their slot, each its own while
    #[arg(long, value_name = "TIME")]
    pub jitter: Option<Span>,
    /// Nothing fires before
    #[arg(long, value_name = "WHEN")]
    pub starts_at: Option<Moment>,
    /// Nothing fires from then on
    #[arg(long, value_name = "WHEN")]
    pub ends_at: Option<Moment>,
}
