//! Arguments of `windlass subscriptions`.

use crate::span::Span;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `windlass subscriptions`
#[derive(Debug, Subcommand)]
pub enum SubscriptionsCommand {
    /// List subscriptions, with why one is failing or paused
    #[command(after_help = "Example:\n  windlass subscriptions ls")]
    Ls,
    /// Show one subscription
    #[command(after_help = "Example:\n  windlass subscriptions show billing")]
    Show(SubscriptionName),
    /// Make a subscription, or change it
    #[command(
        after_help = "A new webhook gets a secret, which is printed once; --secret-file brings one. For a broker the secret is its password. The server that leads delivers.\n\nExamples:\n  windlass subscriptions put billing --to https://billing.example.org/hook --queue billing --status completed\n  windlass subscriptions put bus --to amqp://windlass@rabbit.example.org/jobs --secret-file password --from start\n  windlass subscriptions put orders --to amqp://windlass@rabbit.example.org/jobs --secret-file password --consume orders --enqueue billing:invoice"
    )]
    Put(Box<NewSubscription>),
    /// Remove a subscription with its place in the feed
    #[command(after_help = "Example:\n  windlass subscriptions rm billing")]
    Rm(SubscriptionName),
    /// Deliver nothing until it is resumed
    #[command(after_help = "Example:\n  windlass subscriptions pause billing --reason 'they are moving'")]
    Pause {
        /// Which subscription
        name: String,
        /// Why, for those who look
        #[arg(long)]
        reason: Option<String>,
    },
    /// Deliver again, from where it stands
    #[command(after_help = "Example:\n  windlass subscriptions resume billing")]
    Resume(SubscriptionName),
}

/// Which one.
#[derive(Debug, Args)]
pub struct SubscriptionName {
    /// Which subscription
    pub name: String,
}

/// `windlass subscriptions put`
#[derive(Debug, Args)]
pub struct NewSubscription {
    /// Which subscription
    pub name: String,
    /// Where events go: https://… or amqp://USER@HOST/VHOST
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// A file with what webhooks are signed with (whsec_…), or with the broker's password
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Only events of jobs in this queue; several for several
    #[arg(long)]
    pub queue: Vec<String>,
    /// Only events of jobs of this kind; several for several
    #[arg(long)]
    pub kind: Vec<String>,
    /// Only events of this type, such as job_created; several for several
    #[arg(long, value_name = "TYPE")]
    pub r#type: Vec<String>,
    /// Only events by which a job came to stand here, such as completed; several for several
    #[arg(long)]
    pub status: Vec<String>,
    /// Where it begins, and begins again after a restore
    #[arg(long, value_name = "now|start")]
    pub from: Option<String>,
    /// How long a web service has to answer
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,
    /// How long deliveries fail before it is paused
    #[arg(long, value_name = "TIME")]
    pub give_up_after: Option<Span>,
    /// The broker's topic exchange
    #[arg(long)]
    pub exchange: Option<String>,
    /// The other way round: a queue of the broker whose messages are taken in
    #[arg(long, value_name = "QUEUE")]
    pub consume: Option<String>,
    /// The queue and kind of the job that each message becomes; without it messages name jobs
    #[arg(long, value_name = "QUEUE:KIND", requires = "consume")]
    pub enqueue: Option<String>,
    /// The exchange that takes messages that can never be dealt with
    #[arg(long, value_name = "EXCHANGE", requires = "consume")]
    pub dead_letter: Option<String>,
    /// Drop an event for which the broker has no queue, rather than keep it and try again
    #[arg(long)]
    pub drop_unroutable: bool,
}
