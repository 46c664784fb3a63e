//! What surrounds jobs: approvals, queues, workers, audit, keys.

use crate::span::{Moment, Span};
use clap::{Args, Subcommand};

/// `windlass approvals`
#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// List approvals, newest first
    #[command(after_help = "Example:\n  windlass approvals ls --status pending")]
    Ls {
        /// pending, approved, denied, expired or void; all when left out
        #[arg(long)]
        status: Option<String>,
        /// Of this job
        #[arg(long, value_name = "ID")]
        job: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Vote yes
    #[command(after_help = "Example:\n  windlass approvals approve 0193a2f4-… --reason 'checked with legal'")]
    Approve(Deciding),
    /// Vote no: the job fails with the reason
    #[command(after_help = "Example:\n  windlass approvals deny 0193a2f4-… --reason 'not this year'")]
    Deny(Deciding),
}

/// A vote.
#[derive(Debug, Args)]
pub struct Deciding {
    /// Which approval
    pub id: String,
    /// Why, for the log
    #[arg(long)]
    pub reason: Option<String>,
    /// Vote with the token of the link instead of one's own name
    #[arg(long)]
    pub token: Option<String>,
}

/// `windlass queues`
#[derive(Debug, Subcommand)]
pub enum QueuesCommand {
    /// List queues
    #[command(after_help = "Example:\n  windlass queues ls")]
    Ls,
    /// Show one queue: its rules, what runs, what holds it back, its busiest keys
    #[command(after_help = "Example:\n  windlass queues show mail")]
    Show(QueueArg),
    /// Hand out no more jobs of a queue
    #[command(after_help = "Example:\n  windlass queues pause mail")]
    Pause(QueueArg),
    /// Hand out jobs of a queue again
    #[command(after_help = "Example:\n  windlass queues resume mail")]
    Resume(QueueArg),
    /// Set limits and mode of a queue and the defaults of its jobs; defaults left out are unset
    #[command(
        after_help = "Examples:\n  windlass queues set mail --max-retries 10 --timeout 2m\n  windlass queues set render --mode push\n  windlass queues set sync --limit 40 --per-key 2 --weight acme=3\n  windlass queues set sync --rate 100/s --burst 20 --key-rate 10/m\n  windlass queues set mail --endpoint https://example.org/mail --limit 40"
    )]
    Set(Box<QueueSettings>),
}

/// `windlass lanes`
#[derive(Debug, Subcommand)]
pub enum LanesCommand {
    /// List the keys of a queue that take turns: what runs, waits and is held of each
    #[command(after_help = "Example:\n  windlass lanes ls sync --limit 20")]
    Ls {
        /// Of which queue
        queue: String,
        /// Where the last page ended
        #[arg(long)]
        cursor: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Let a held key go at once, or a held queue: neither a hold nor a debt keeps it any longer
    #[command(after_help = "Examples:\n  windlass lanes release sync acme\n  windlass lanes release sync")]
    Release {
        /// Of which queue
        queue: String,
        /// Which key; the queue itself when left out
        // Not named like the access key: the parser would take one for the other.
        #[arg(value_name = "KEY")]
        lane: Option<String>,
    },
}

/// A queue.
#[derive(Debug, Args)]
pub struct QueueArg {
    /// Which queue
    pub queue: String,
}

/// `windlass queues set`
#[derive(Debug, Args)]
pub struct QueueSettings {
    /// Which queue
    pub queue: String,
    /// Failures allowed before a job is dead
    #[arg(long, value_name = "N")]
    pub max_retries: Option<i32>,
    /// How long one attempt may take
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,
    /// How long a lease lasts
    #[arg(long, value_name = "TIME")]
    pub lease: Option<Span>,
    /// How long after its lease only the holder may still finish a job
    #[arg(long, value_name = "TIME")]
    pub grace: Option<Span>,
    /// pull: workers take its jobs; push: the leader assigns them. As it is when left out
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// How many of its jobs run at once. Limits given here replace those of before
    #[arg(long, value_name = "N")]
    pub limit: Option<i32>,
    /// How many jobs of one key run at once; keys take turns
    #[arg(long, value_name = "N")]
    pub per_key: Option<i32>,
    /// How many jobs of this key run at once, like acme=10; repeatable
    #[arg(long, value_name = "KEY=N")]
    pub key_limit: Vec<String>,
    /// How many jobs of this key a turn hands out, like acme=3; repeatable
    #[arg(long, value_name = "KEY=N")]
    pub weight: Vec<String>,
    /// How fast its jobs start, in units per time, like 100/s or 5/10s; a job takes one unit, or its cost
    #[arg(long, value_name = "N/TIME")]
    pub rate: Option<String>,
    /// How many units may start at once after a pause; as many as the rate has when left out, 1 spreads them evenly
    #[arg(long, value_name = "N", requires = "rate")]
    pub burst: Option<i32>,
    /// How fast jobs of one key start, like 10/m, or of this key, like acme=60/m; repeatable
    #[arg(long, value_name = "[KEY=]N/TIME")]
    pub key_rate: Vec<String>,
    /// How many units of one key may start at once after a pause
    #[arg(long, value_name = "N", requires = "key_rate")]
    pub key_burst: Option<i32>,
    /// How many jobs of one key may wait when another comes, up to 10000; further ones are refused, or what --full says
    #[arg(long, value_name = "N")]
    pub backlog: Option<i32>,
    /// refuse: a job that comes when so many wait is refused; drop: it is left out
    #[arg(long, value_name = "ANSWER", requires = "backlog")]
    pub full: Option<String>,
    /// The newest job of a key takes the place of those that wait, and the oldest that runs is asked to stop if there is no slot
    #[arg(long)]
    pub newest: bool,
    /// Let keys take turns, without a limit for them
    #[arg(long)]
    pub fair: bool,
    /// How much older a job must be to go before one of the next higher priority, like 5m; without it priority decides alone
    #[arg(long, value_name = "TIME")]
    pub aging: Option<Span>,
    /// Start nothing for a while when this many attempts of so many fail within a time, like 5/10,within=1m,pause=30s; then one
    /// job at a time until one succeeds
    #[arg(long, value_name = "N/OF,within=TIME,pause=TIME")]
    pub breaker: Option<String>,
    /// Remove all limits and rates
    #[arg(long, conflicts_with_all = [
        "limit", "per_key", "key_limit", "weight", "rate", "key_rate", "fair", "aging", "backlog", "full", "newest", "breaker",
    ])]
    pub no_limits: bool,
    /// Let the servers POST its jobs to this web service, as `work --post` does; without a secret one is made and shown once
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// A file with the secret that signs what the endpoint is sent, whsec_…
    #[arg(long, value_name = "FILE", requires = "endpoint")]
    pub endpoint_secret_file: Option<std::path::PathBuf>,
    /// How many jobs each server has with the endpoint at once, 1 to 1000 [default: 10]
    #[arg(long, value_name = "N", requires = "endpoint")]
    pub endpoint_max: Option<i64>,
    /// Send its jobs to no web service any more
    #[arg(long, conflicts_with = "endpoint")]
    pub no_endpoint: bool,
}

/// `windlass workers`
#[derive(Debug, Subcommand)]
pub enum WorkersCommand {
    /// List workers
    #[command(after_help = "Example:\n  windlass workers ls")]
    Ls,
    /// Tell a worker to take no more jobs
    #[command(after_help = "Example:\n  windlass workers drain web-3-4711-a1b2c3d4e5f6")]
    Drain {
        /// Which worker
        id: String,
    },
    /// Tell a drained worker to take jobs again
    #[command(after_help = "Example:\n  windlass workers undrain web-3-4711-a1b2c3d4e5f6")]
    Undrain {
        /// Which worker
        id: String,
    },
}

/// `windlass audit`
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List what operators did, newest first
    #[command(
        after_help = "Examples:\n  windlass audit ls --limit 20\n  windlass audit ls --actor key:ops --since 1d"
    )]
    Ls {
        /// By this actor, like cli:ada or key:ops
        #[arg(long)]
        actor: Option<String>,
        /// Only this action, like job.cancel or queue.pause
        #[arg(long)]
        action: Option<String>,
        /// Done to this job, queue, worker or key
        #[arg(long)]
        target: Option<String>,
        /// Since then: so long ago (1h), or a moment
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Until then: so long ago (1h), or a moment
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// At most so many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
}

/// `windlass keys`
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key; it is shown once
    #[command(
        after_help = "Example:\n  windlass keys create ci --role producer --role viewer --queue mail --expires 90d"
    )]
    Create(NewKey),
    /// List keys, without what proves them
    #[command(after_help = "Example:\n  windlass keys ls")]
    Ls,
    /// Take a key back
    #[command(after_help = "Example:\n  windlass keys revoke ci")]
    Revoke {
        /// Which key
        name: String,
    },
}

/// `windlass keys create`
#[derive(Debug, Args)]
pub struct NewKey {
    /// Its name: who it stands for in logs and audit
    pub name: String,
    /// viewer, producer, worker, approver, operator or admin; may be given more than once
    #[arg(long, required = true)]
    pub role: Vec<String>,
    /// Only for this queue; may be given more than once
    #[arg(long)]
    pub queue: Vec<String>,
    /// Valid for so long
    #[arg(long, value_name = "TIME", conflicts_with = "expires_at")]
    pub expires: Option<Span>,
    /// Valid until this moment
    #[arg(long, value_name = "MOMENT")]
    pub expires_at: Option<Moment>,
}
