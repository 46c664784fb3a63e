//! Events from outside, and settings of the store.

use clap::{Args, Subcommand};

/// `windlass triggers`
#[derive(Debug, Subcommand)]
pub enum TriggersCommand {
    /// List triggers
    #[command(after_help = "Example:\n  windlass triggers ls")]
    Ls,
    /// One trigger, whole
    #[command(after_help = "Example:\n  windlass triggers show order-paid")]
    Show(TriggerArg),
    /// Make a trigger, or change one
    #[command(
        after_help = "Without --payload a job gets what the event brings, as it is. With it, {{payload.some.path}} is filled in; {{payload.some.path?}} may be missing.\n\nExamples:\n  windlass triggers put order-paid --kind invoice --queue billing\n  windlass triggers put order-paid --kind mail --payload '{\"to\": \"{{payload.customer.email}}\"}'\n  windlass triggers put order-paid --job '{\"kind\": \"invoice\"}' --job '{\"kind\": \"ship\", \"delay\": \"5m\"}'"
    )]
    Put(Box<NewTrigger>),
    /// Remove a trigger; its jobs stay
    #[command(after_help = "Example:\n  windlass triggers rm order-paid")]
    Rm(TriggerArg),
    /// Send an event
    #[command(
        after_help = "Prints the jobs that it started. An event with a known --dedupe-key starts nothing and prints those of the first.\n\nExample:\n  windlass triggers fire order-paid --dedupe-key order-42 --payload '{\"order\": 42}'"
    )]
    Fire {
        /// Which trigger
        name: String,
        /// Another event with this key is the same event
        #[arg(long, value_name = "KEY")]
        dedupe_key: Option<String>,
        /// JSON that it brings; @file reads a file, - reads stdin
        #[arg(long, value_name = "JSON")]
        payload: Option<String>,
    },
    /// Events that came, newest first
    #[command(after_help = "Example:\n  windlass triggers events order-paid --unprocessed")]
    Events {
        /// Which trigger
        name: String,
        /// Only what could not be processed yet, oldest first
        #[arg(long)]
        unprocessed: bool,
        /// At most so many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Make the secret that its webhooks are signed with; it is shown once
    #[command(
        after_help = "The secret of before opens for another day. Senders sign as Standard Webhooks says.\n\nExample:\n  windlass triggers secret order-paid"
    )]
    Secret(TriggerArg),
}

/// A trigger.
#[derive(Debug, Args)]
pub struct TriggerArg {
    /// Which trigger
    pub name: String,
}

/// `windlass triggers put`
#[derive(Debug, Args)]
pub struct NewTrigger {
    /// Which trigger
    pub name: String,
    /// What its job does
    #[arg(long, required_unless_present = "job", conflicts_with = "job")]
    pub kind: Option<String>,
    /// Which line its job stands in
    #[arg(long, default_value = "default", conflicts_with = "job")]
    pub queue: String,
    /// JSON with places to fill in, instead of what the event brings; @file reads a file, - reads stdin
    #[arg(long, value_name = "JSON", conflicts_with = "job")]
    pub payload: Option<String>,
    /// -5 to 5, higher first
    #[arg(long, allow_hyphen_values = true, conflicts_with = "job")]
    pub priority: Option<i32>,
    /// Failures allowed before a job is dead
    #[arg(long, value_name = "N", conflicts_with = "job")]
    pub max_retries: Option<i32>,
    /// A whole job, as the API takes it; several for several jobs
    #[arg(long, value_name = "JSON")]
    pub job: Vec<String>,
}

/// `windlass settings`
#[derive(Debug, Subcommand)]
pub enum SettingsCommand {
    /// What is in force in the whole store
    #[command(after_help = "Examples:\n  windlass settings get\n  windlass settings get missed_after")]
    Get {
        /// Only this one
        name: Option<String>,
    },
    /// Change settings; every server sees it within seconds
    #[command(
        after_help = "A value `default` puts one back. What others change meanwhile stays.\n\nExamples:\n  windlass settings set missed_after=30s\n  windlass settings set default_lease=2m webhooks_per_minute=60\n  windlass settings set missed_after=default"
    )]
    Set {
        /// What to change
        #[arg(required = true, value_name = "NAME=VALUE")]
        changes: Vec<String>,
    },
}
