//! Jobs: putting them in, looking at them, acting on them.

use crate::span::{Moment, Span, ago};
use clap::{Args, Subcommand};

const ENQUEUE: &str = "\
Examples:
  windlass enqueue email.send --payload '{\"to\":\"ada@example.org\"}'
  windlass enqueue report.build --queue reports --payload @order.json --delay 10m --timeout 5m
  echo '{\"n\":1}' | windlass enqueue sum --payload - --unique-key sum:1 --wait

With --wait the result is printed when the job completes; if it does not, the exit code is 1.";

/// `windlass enqueue`
#[derive(Debug, Args)]
#[command(after_help = ENQUEUE)]
pub struct EnqueueArgs {
    /// What to do; a worker finds its handler by this
    pub kind: String,
    /// The queue it goes into
    #[arg(long, default_value = "default")]
    pub queue: String,
    /// JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub payload: Option<String>,
    /// −5 to 5, higher first
    #[arg(long, allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Not before so long from now
    #[arg(long, value_name = "TIME", conflicts_with = "run_at")]
    pub delay: Option<Span>,
    /// Not before this moment, like 2026-01-31T12:00:00Z or 10m
    #[arg(long, value_name = "MOMENT")]
    pub run_at: Option<Moment>,
    /// The same key in the same queue is the same job, while it is live or has succeeded
    #[arg(long, value_name = "KEY")]
    pub unique_key: Option<String>,
    /// Failures allowed before it is dead; 3 unless its queue says otherwise
    #[arg(long, value_name = "N")]
    pub max_retries: Option<i32>,
    /// How long one attempt may take
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,
    /// A label to find it by; may be given more than once
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// The agent it belongs to
    #[arg(long, value_name = "ID")]
    pub agent_id: Option<String>,
    /// Its id, a UUIDv7 of the caller's own: the same id again is the same job
    #[arg(long, value_name = "UUID")]
    pub id: Option<String>,
    /// Small facts for people and filters: a JSON object
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// The pause before a retry, like base=2s,max=5m,multiplier=3,jitter=false; what is left out keeps its default
    #[arg(long, value_name = "LIST")]
    pub backoff: Option<String>,
    /// Whose job it is, such as a tenant: where the queue has limits for keys, jobs of one key share them and take turns
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Latest wins: a job of the same queue, kind and --key that still waits gets this payload, and its wait begins anew; like
    /// 30s or 30s,max=5m
    #[arg(long, value_name = "TIME[,max=TIME]", requires = "key", conflicts_with_all = ["delay", "run_at", "unique_key"])]
    pub debounce: Option<String>,
    /// How many units of its queue's rate one start takes; one
    #[arg(long, value_name = "N")]
    pub cost: Option<i32>,
    /// A label that its worker must have, in a queue in mode push; may be given more than once
    #[arg(long, value_name = "LABEL=VALUE")]
    pub require: Vec<String>,
    /// A job to wait for first, with success, failure or finished behind a colon; may be given more than once
    #[arg(long, value_name = "ID[:ON]")]
    pub after: Vec<String>,
    /// Wait until it has ended, and print its result
    #[arg(long)]
    pub wait: bool,
}

/// `windlass jobs`
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List jobs
    #[command(
        after_help = "Examples:\n  windlass jobs ls --dead --kind email.send\n  windlass jobs ls --status running,waiting --limit 20\n  windlass jobs ls --since 1h --output wide"
    )]
    Ls(Box<Listing>),
    /// One job with everything, and why it is not running
    #[command(
        after_help = "Examples:\n  windlass jobs show 0193a2f4-… --at-version 3\n  windlass jobs show --unique-key order-77 --queue mail"
    )]
    Show(Showing),
    /// A job's log, from the first event on
    #[command(after_help = "Example:\n  windlass jobs events 0193a2f4-… --after 10")]
    Events(Reading),
    /// Follow a job's log until the job has ended; exit code 1 if it did not complete
    #[command(after_help = "Example:\n  windlass jobs watch 0193a2f4-… && echo completed")]
    Watch(Watching),
    /// Follow what happens to all jobs, or to those that a filter matches, until Ctrl-C
    #[command(
        after_help = "Examples:\n  windlass jobs tail\n  windlass jobs tail --queue mail --status failed,timed_out"
    )]
    Tail(Box<Tailing>),
    /// What a job's handler wrote
    #[command(after_help = "Example:\n  windlass jobs logs 0193a2f4-…")]
    Logs(Logging),
    /// Cancel a job, or all that a filter matches
    #[command(
        after_help = "Examples:\n  windlass jobs cancel 0193a2f4-… --reason 'wrong address'\n  windlass jobs cancel --filter queue=mail --filter kind=email.send --dry-run"
    )]
    Cancel(Cancelling),
    /// Send a dead or cancelled job back, or all that a filter matches
    #[command(
        after_help = "Examples:\n  windlass jobs redrive 0193a2f4-…\n  windlass jobs redrive 0193a2f4-… --payload @fixed.json\n  windlass jobs redrive --filter error_code=smtp_down --spread 10m --dry-run"
    )]
    Redrive(Redriving),
    /// Erase what a finished job was given, found and printed, also in the archive
    #[command(
        after_help = "That it was erased, by whom and when stays on record. It cannot be undone.\n\nExample:\n  windlass jobs erase 0193a2f4-… --archive /var/lib/windlass/archive"
    )]
    Erase(Erasing),
    /// Make a new job that begins with another's log
    #[command(
        after_help = "Example:\n  windlass jobs fork 0193a2f4-… --from-version 4 --payload @fixed.json"
    )]
    Fork(Forking),
    /// Signal a job: wakes it, or is kept until it waits
    #[command(
        after_help = "Example:\n  windlass jobs signal 0193a2f4-… paid --payload '{\"amount\":3}' --signal-key payment-77"
    )]
    Signal(Signalling),
}

/// Which jobs.
#[derive(Debug, Default, Args)]
pub struct Filters {
    /// Any of these, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    pub status: Vec<String>,
    /// Dead letters: failed and timed out
    #[arg(long)]
    pub dead: bool,
    /// In this queue
    #[arg(long)]
    pub queue: Option<String>,
    /// Of this kind
    #[arg(long)]
    pub kind: Option<String>,
    /// Of this agent
    #[arg(long, value_name = "ID")]
    pub agent_id: Option<String>,
    /// With this tag
    #[arg(long)]
    pub tag: Option<String>,
    /// Spawned by this job
    #[arg(long, value_name = "JOB")]
    pub parent_id: Option<String>,
    /// Held by this worker
    #[arg(long, value_name = "WORKER")]
    pub worker_id: Option<String>,
    /// With this last error
    #[arg(long, value_name = "CODE")]
    pub error_code: Option<String>,
    /// Enqueued since then: so long ago (1h), or a moment
    #[arg(long, value_name = "TIME", conflicts_with = "created_after")]
    pub since: Option<String>,
    /// Enqueued until then: so long ago (1h), or a moment
    #[arg(long, value_name = "TIME", conflicts_with = "created_before")]
    pub until: Option<String>,
    /// Enqueued at or after
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    pub created_after: Option<String>,
    /// Enqueued before
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    pub created_before: Option<String>,
    /// Ended at or after
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    pub finished_after: Option<String>,
    /// Ended before
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    pub finished_before: Option<String>,
}

impl Filters {
    /// The filters as `name=value`, as they are typed behind `--filter` too.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs: Vec<(String, String)> =
            self.status.iter().map(|s| ("status".to_owned(), s.clone())).collect();
        if self.dead {
            pairs.push(("dead".to_owned(), "true".to_owned()));
        }
        for (name, value) in [
            ("queue", &self.queue),
            ("kind", &self.kind),
            ("agent_id", &self.agent_id),
            ("tag", &self.tag),
            ("parent_id", &self.parent_id),
            ("worker_id", &self.worker_id),
            ("error_code", &self.error_code),
            ("created_after", &self.created_after),
            ("created_before", &self.created_before),
            ("finished_after", &self.finished_after),
            ("finished_before", &self.finished_before),
        ] {
            pairs.extend(value.iter().map(|value| (name.to_owned(), value.clone())));
        }
        for (name, value) in [("created_after", &self.since), ("created_before", &self.until)] {
            pairs.extend(value.iter().map(|value| (name.to_owned(), ago(value))));
        }
        pairs
    }
}

/// `windlass jobs ls`
#[derive(Debug, Args)]
pub struct Listing {
    /// Which.
    #[command(flatten)]
    pub filters: Filters,
    /// Rows of a page
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Go on where a page ended
    #[arg(long)]
    pub cursor: Option<String>,
}

/// `windlass jobs show`
#[derive(Debug, Args)]
pub struct Showing {
    /// Which job
    #[arg(required_unless_present = "unique_key", conflicts_with = "unique_key")]
    pub id: Option<String>,
    /// The job that holds this unique key
    #[arg(long, value_name = "KEY")]
    pub unique_key: Option<String>,
    /// The queue in which the key is unique
    #[arg(long, default_value = "default", requires = "unique_key")]
    pub queue: String,
    /// The kind among whose jobs the key is unique, instead of a queue
    #[arg(long, requires = "unique_key", conflicts_with = "queue")]
    pub kind: Option<String>,
    /// As it stood at this version
    #[arg(long, value_name = "N")]
    pub at_version: Option<i64>,
}

/// `windlass jobs events`
#[derive(Debug, Args)]
pub struct Reading {
    /// Which job
    pub id: String,
    /// Only what came after this version
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub after: i64,
    /// At most so many
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
}

/// `windlass jobs watch`
#[derive(Debug, Args)]
pub struct Watching {
    /// Which job
    pub id: String,
    /// Only what comes after this version
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub after: i64,
}

/// `windlass jobs tail`
#[derive(Debug, Args)]
pub struct Tailing {
    /// Which.
    #[command(flatten)]
    pub filters: Filters,
    /// Go on after this cursor of the feed; without it only what comes from now on
    #[arg(long, value_name = "CURSOR")]
    pub after: Option<String>,
    /// End after so many events
    #[arg(long, value_name = "N")]
    pub most: Option<u64>,
}

/// `windlass jobs logs`
#[derive(Debug, Args)]
pub struct Logging {
    /// Which job
    pub id: String,
    /// Only what came after this line
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub after: i64,
}

/// One job, or many by a filter.
#[derive(Debug, Args)]
pub struct Acting {
    /// Which job
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    pub id: Option<String>,
    /// All that match, as name=value; the names are those of `jobs ls`
    #[arg(long, value_name = "NAME=VALUE")]
    pub filter: Vec<String>,
    /// Report what would be changed, and change nothing
    #[arg(long, requires = "filter")]
    pub dry_run: bool,
    /// Leave it to a server, which begins after so long; until then `windlass operations stop` leaves every job as it was
    #[arg(long, value_name = "TIME", requires = "filter")]
    pub hold: Option<Span>,
}

/// `windlass jobs cancel`
#[derive(Debug, Args)]
pub struct Cancelling {
    /// Which.
    #[command(flatten)]
    pub which: Acting,
    /// Why, for the log
    #[arg(long)]
    pub reason: Option<String>,
    /// Do not ask the holder: cancelled at once
    #[arg(long, conflicts_with = "filter")]
    pub force: bool,
    /// How long the holder has to stop
    #[arg(long, default_value = "30s", value_name = "TIME", conflicts_with = "filter")]
    pub force_after: Span,
    /// Only while the job is at this version; at another one nothing is changed
    #[arg(long, value_name = "N", conflicts_with = "filter")]
    pub expected_version: Option<i64>,
}

/// `windlass jobs erase`
#[derive(Debug, Args)]
pub struct Erasing {
    /// Its id, or the beginning of it
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only while the job is at this version; at another one nothing is changed
    #[arg(long, value_name = "N")]
    pub expected_version: Option<i64>,
}

/// `windlass jobs redrive`
#[derive(Debug, Args)]
pub struct Redriving {
    /// Which.
    #[command(flatten)]
    pub which: Acting,
    /// Not before this moment
    #[arg(long, value_name = "MOMENT")]
    pub run_at: Option<Moment>,
    /// Run from the start: recorded steps are run again
    #[arg(long, conflicts_with = "filter")]
    pub from_start: bool,
    /// Another payload from now on: JSON, @FILE, or - for standard input; the old one stays in its history
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true, conflicts_with = "filter")]
    pub payload: Option<String>,
    /// Spread them evenly over so long
    #[arg(long, value_name = "TIME", requires = "filter")]
    pub spread: Option<Span>,
    /// Only while the job is at this version; at another one nothing is changed
    #[arg(long, value_name = "N", conflicts_with = "filter")]
    pub expected_version: Option<i64>,
}

/// `windlass jobs fork`
#[derive(Debug, Args)]
pub struct Forking {
    /// Which job
    pub id: String,
    /// With its log up to this version; all of it when left out
    #[arg(long, value_name = "N")]
    pub from_version: Option<i64>,
    /// Another payload: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub payload: Option<String>,
    /// Only while the job is at this version; at another one nothing is changed
    #[arg(long, value_name = "N")]
    pub expected_version: Option<i64>,
}

/// `windlass jobs signal`
#[derive(Debug, Args)]
pub struct Signalling {
    /// Which job
    pub id: String,
    /// The signal's name
    pub name: String,
    /// What it brings: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub payload: Option<String>,
    /// Recognises a repeat: the same key is sent once
    #[arg(long, value_name = "KEY")]
    pub signal_key: Option<String>,
}
