//! What can be typed. Every command has an example in its help.

mod flow;
mod jobs;
mod moving;
mod operations;
mod registry;
mod schedules;
mod stats;
mod subscriptions;
mod triggers;

pub use flow::FlowCommand;
pub use jobs::{
    Acting, Cancelling, EnqueueArgs, Erasing, Forking, JobsCommand, Listing, Logging, Reading, Redriving,
    Showing, Signalling, Tailing, Watching,
};
pub use moving::MoveArgs;
pub use operations::{AlertsCommand, MarksCommand, OperationsCommand};
pub use registry::{
    ApprovalsCommand, AuditCommand, Deciding, KeysCommand, LanesCommand, NewKey, QueueArg, QueueSettings,
    QueuesCommand, WorkersCommand,
};
pub use schedules::{ApplyArgs, BackfillArgs, NewSchedule, SchedulesCommand};
pub use stats::{ProblemsCommand, StatsArgs, StatsCommand};
pub use subscriptions::{NewSubscription, SubscriptionsCommand};
pub use triggers::{NewTrigger, SettingsCommand, TriggersCommand};

use crate::out::format::Format;
use crate::span::Span;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  windlass enqueue email.send --payload '{\"to\":\"ada@example.org\"}' --wait
  windlass work --queue default --exec ./send-email.sh
  windlass jobs ls --dead
  windlass jobs show 0193a2f4-…             why is it not running?
  windlass --store postgres://app@db/jobs queues ls

Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 refused, 5 unavailable.
Settings: flags, then WINDLASS_*, then windlass.toml, then defaults; `windlass config` shows what is in force.";

/// Durable background jobs in a database you already have.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, after_help = EXAMPLES)]
pub struct Cli {
    /// What every command knows.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command knows.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// Where jobs are kept: sqlite:PATH, postgres://… or memory: [env: WINDLASS_STORE]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
    /// A direct connection for wake-ups, beside a pooler (PostgreSQL) [env: WINDLASS_NOTIFY_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub notify_url: Option<String>,
    /// The schema in PostgreSQL [env: WINDLASS_SCHEMA] [default: windlass]
    #[arg(long, global = true, value_name = "NAME")]
    pub schema: Option<String>,
    /// Go through this server instead of a store [env: WINDLASS_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub url: Option<String>,
    /// The access key for the server; - reads it from standard input [env: WINDLASS_KEY]
    #[arg(long, global = true, value_name = "KEY", conflicts_with = "key_file")]
    pub key: Option<String>,
    /// A file with the access key, which other users of the machine cannot read off the list of processes [env: WINDLASS_KEY_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Read this file instead of windlass.toml [env: WINDLASS_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where finished jobs are kept once they left the store, packed with zstd: a folder, or s3://BUCKET/PREFIX [env: WINDLASS_ARCHIVE]
    #[arg(long, global = true, value_name = "PLACE")]
    pub archive: Option<String>,
    /// How serve, work and demo write their log: text or json [env: WINDLASS_LOG_FORMAT]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// The largest payload of a job, 1 to 16777216 [env: WINDLASS_PAYLOAD_MAX_BYTES] [default: 1048576]
    #[arg(long, global = true, value_name = "BYTES")]
    pub payload_max_bytes: Option<String>,
    /// The largest result, checkpoint or step value, 1 to 16777216 [env: WINDLASS_RESULT_MAX_BYTES] [default: 1048576]
    #[arg(long, global = true, value_name = "BYTES")]
    pub result_max_bytes: Option<String>,
    /// The most retries a job may ask for, 3 to 100 [env: WINDLASS_RETRIES_MAX] [default: 100]
    #[arg(long, global = true, value_name = "N")]
    pub retries_max: Option<String>,
    /// Create what the command is for and is not there: the store, or a queue that is paused or resumed
    #[arg(long, global = true)]
    pub create: bool,
    /// Print JSON, one document per line
    #[arg(long, global = true)]
    pub json: bool,
    /// Print a table, wide (nothing shortened), json, yaml, or template='{id} {status}' per row
    #[arg(short, long, global = true, value_name = "FORM", conflicts_with = "json")]
    pub output: Option<Format>,
    /// Run a command that only reads again and again, every 2 seconds unless said otherwise (--watch=10s)
    #[arg(long, global = true, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s")]
    pub watch: Option<Span>,
    /// How long a lease lasts when nobody says, as `work` and `serve` were told.
    #[arg(skip)]
    pub lease: Option<String>,
}

impl Global {
    /// In which form to print.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output.clone().unwrap_or_default() }
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put a job into a queue
    Enqueue(Box<EnqueueArgs>),
    /// Run jobs with any program
    Work(WorkArgs),
    /// Look at jobs and act on them
    #[command(subcommand, disable_help_subcommand = true)]
    Jobs(JobsCommand),
    /// Jobs that wait for each other: make them, look at them
    #[command(subcommand, disable_help_subcommand = true)]
    Flow(FlowCommand),
    /// Decide what jobs ask of people
    #[command(subcommand, disable_help_subcommand = true)]
    Approvals(ApprovalsCommand),
    /// Look at queues, pause them, set what their jobs fall back to
    #[command(subcommand, disable_help_subcommand = true)]
    Queues(QueuesCommand),
    /// Look at the keys of a queue, let go what is held
    #[command(subcommand, disable_help_subcommand = true)]
    Lanes(LanesCommand),
    /// What is done to many jobs by the server: look, stop
    #[command(subcommand, disable_help_subcommand = true)]
    Operations(OperationsCommand),
    /// What should not last, watched by the server: look, put, remove
    #[command(subcommand, disable_help_subcommand = true)]
    Alerts(AlertsCommand),
    /// Moments that charts show, such as deploys: look, add, remove
    #[command(subcommand, disable_help_subcommand = true)]
    Marks(MarksCommand),
    /// Jobs by the clock: look, make, pause, trigger
    #[command(subcommand, disable_help_subcommand = true)]
    Schedules(SchedulesCommand),
    /// Events from outside that start jobs: look, make, send
    #[command(subcommand, disable_help_subcommand = true)]
    Triggers(TriggersCommand),
    /// Events carried to web services and brokers: look, make, resume
    #[command(subcommand, disable_help_subcommand = true)]
    Subscriptions(SubscriptionsCommand),
    /// Settings of the whole store, changed while it runs
    #[command(subcommand, disable_help_subcommand = true)]
    Settings(SettingsCommand),
    /// Look at workers, drain them
    #[command(subcommand, disable_help_subcommand = true)]
    Workers(WorkersCommand),
    /// How many jobs stand where, what is due, who works; or how much happened over time
    #[command(
        after_help = "Examples:\n  windlass stats\n  windlass stats --watch\n  windlass stats --from 6h --by queue\n  windlass stats rebuild"
    )]
    Stats(StatsArgs),
    /// Errors grouped by what they are: look, resolve, mute
    #[command(subcommand, disable_help_subcommand = true)]
    Problems(ProblemsCommand),
    /// The same with what runs, live, until Ctrl-C
    #[command(after_help = "Example:\n  windlass top --every 5s")]
    Top {
        /// How often it is drawn anew
        #[arg(long, default_value = "2s", value_name = "TIME")]
        every: Span,
    },
    /// What operators did
    #[command(subcommand, disable_help_subcommand = true)]
    Audit(AuditCommand),
    /// Access keys of the server
    #[command(subcommand, disable_help_subcommand = true)]
    Keys(KeysCommand),
    /// Create the store, or bring it to this version
    Migrate(MigrateArgs),
    /// Check that every job is what its log says
    Verify(VerifyArgs),
    /// Remove finished jobs that are old, archived first
    Prune(PruneArgs),
    /// Put removed jobs back from the archive, finished as they were
    #[command(
        after_help = "Works on a store itself, as its owner. Refused for a job that is in the store.\n\nExample:\n  windlass restore --archive /var/lib/windlass/archive 019e0000-0000-7000-8000-000000000000"
    )]
    Restore(RestoreArgs),
    /// Say that the store was restored in a way that it cannot notice by itself
    #[command(
        after_help = "Begins a new incarnation: every fence is higher than all before, and every cursor of the feed from before is refused.\n\nExample:\n  windlass adopt --yes"
    )]
    Adopt(AdoptArgs),
    /// Carry everything of a store into another, empty one
    #[command(
        after_help = "Both stores are closed: what is written meanwhile is refused. Everything is carried and compared, then the new store is opened; jobs that ran start again there, which counts as no failure. Interrupted, say the same again and it goes on. Stop servers and workers first, and start them with the new store.\n\nExamples:\n  windlass move --from sqlite:windlass.db --to postgres://owner@db/jobs\n  windlass move --from sqlite:windlass.db --to postgres://owner@db/jobs --give-up"
    )]
    Move(MoveArgs),
    /// Look for problems, and say how to fix each
    #[command(
        after_help = "Exit code 1 if there is a problem; warnings are no problem yet. Nothing is changed. With --url a server is looked at from outside.\n\nExamples:\n  windlass doctor\n  windlass doctor --url https://jobs.example.org --key-file key\n  windlass doctor --json | jq '.findings[] | select(.level != \"ok\")'"
    )]
    Doctor(DoctorArgs),
    /// Serve the JSON API over the store
    Serve(ServeArgs),
    /// A server, workers and sample jobs, to look around
    Demo(DemoArgs),
    /// Show what is in force and where it came from
    #[command(after_help = "Example:\n  windlass config --store postgres://app@db/jobs")]
    Config,
    /// Say what an error code means and what to do
    #[command(after_help = "Example:\n  windlass explain lease_expired")]
    Explain {
        /// Which code; all of them are listed when left out
        code: Option<String>,
    },
    /// Print the manual page, or write the pages of all commands into a folder
    #[command(after_help = "Examples:\n  windlass man | man -l -\n  windlass man /usr/local/share/man/man1")]
    Man {
        /// Where to write them
        folder: Option<PathBuf>,
    },
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  windlass completions bash > /etc/bash_completion.d/windlass")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

const WORK: &str = "\
The program gets the payload on standard input (null if there is none), and in its environment WINDLASS_JOB_ID,
WINDLASS_KIND, WINDLASS_ATTEMPT, WINDLASS_FENCE (for its own writes), WINDLASS_LEASE_TOKEN and, with --url, WINDLASS_URL:
the token is the bearer of its own job there. It gets no store and no key. The last line of its standard output is the result: JSON as it stands,
anything else as text. Its standard error goes to the job's log. What the worker does is said on its own standard error,
unless --quiet.

Exit codes of the program:
  0      done
  75     not now: again after the job's backoff, without using a retry
  65     failed for good
  other  failed: uses a retry

With --post the job is sent to a web service instead, signed (Standard Webhooks). 2xx completes it with the answer as its
result, 429 and 503 with Retry-After send it back for that time, any other 4xx fails it for good, anything else uses a
retry; after 202 the service settles it by its lease token at the server that --url names.

With --consume each message of a queue of RabbitMQ names a job ({\"job_id\": \"…\"}, or an event as subscriptions publish it).
It is taken by its id as soon as a place is free, however many stand before it, beside the jobs that are taken in turn, and
the message is acknowledged when its attempt has ended. Through a server the key must be a viewer's too.

When the job is cancelled, takes too long or its lease is lost, the program and its children get SIGTERM, and SIGKILL
after --kill-after.

Examples:
  windlass work --queue mail --kind email.send --concurrency 8 --exec ./send-email.sh
  windlass work --queue default --exec python3 handler.py --verbose
  windlass work --queue mail --consume amqp://windlass@rabbit.example.org/jobs/urgent --consume-secret-file password --exec ./send-email.sh
  windlass work --url https://jobs.example.org --key wl_… --queue mail --exec ./send-email.sh      through a server";

/// `windlass work`
#[derive(Debug, Args)]
#[command(after_help = WORK)]
pub struct WorkArgs {
    /// Take jobs of this queue; more than one is asked in order
    #[arg(long, required = true, value_name = "QUEUE")]
    pub queue: Vec<String>,
    /// Only jobs of this kind; all kinds when left out
    #[arg(long, value_name = "KIND")]
    pub kind: Vec<String>,
    /// How many jobs at once, per queue
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub concurrency: u16,
    /// A label of this worker, for jobs of push queues that require it; may be given more than once
    #[arg(long, value_name = "LABEL=VALUE")]
    pub label: Vec<String>,
    /// Show leases in this Redis too, as jobrun:lease:ID; the store alone decides, and goes on without it
    #[cfg(feature = "redis")]
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    #[cfg(feature = "amqp")]
    #[command(flatten)]
    pub named: ConsumeArgs,
    /// How long a lease lasts: a dead worker's jobs are taken over so long after its last sign of life
    /// [env: WINDLASS_LEASE] [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub lease: Option<String>,
    /// How long running jobs may go on after an end was asked for
    #[arg(long, default_value = "15s", value_name = "TIME")]
    pub shutdown_deadline: Span,
    /// How long after SIGTERM a program gets SIGKILL
    #[arg(long, default_value = "5s", value_name = "TIME")]
    pub kill_after: Span,
    /// Say nothing of single jobs, only what is wrong
    #[arg(short, long)]
    pub quiet: bool,
    /// POST jobs to this web service, signed (Standard Webhooks), instead of running a program
    #[arg(long, value_name = "URL", conflicts_with = "exec")]
    pub post: Option<String>,
    /// A file with the secret that signs, whsec_…; else WINDLASS_POST_SECRET
    #[arg(long, value_name = "FILE", requires = "post")]
    pub post_secret_file: Option<std::path::PathBuf>,
    /// The program and its arguments; everything behind it is the program's
    #[arg(long, required_unless_present = "post", num_args = 1.., allow_hyphen_values = true, value_name = "CMD")]
    pub exec: Vec<OsString>,
}

/// Messages of a broker that name jobs.
#[cfg(feature = "amqp")]
#[derive(Debug, Args)]
pub struct ConsumeArgs {
    /// Take jobs out of their turn, as messages of this queue of RabbitMQ name them; password: --consume-secret-file
    #[arg(long, value_name = "amqp://USER@HOST/VHOST/QUEUE")]
    pub consume: Option<String>,
    /// A file with the broker's password; else WINDLASS_CONSUME_SECRET
    #[arg(long, value_name = "FILE", requires = "consume")]
    pub consume_secret_file: Option<PathBuf>,
    /// The exchange that takes messages that can never be dealt with
    #[arg(long, value_name = "EXCHANGE", default_value = "windlass.dead", requires = "consume")]
    pub dead_letter: String,
}

const SERVE: &str = "\
Without a key only this machine is served. To listen elsewhere make a key first:
  windlass keys create ops --role admin
  windlass serve --listen 0.0.0.0:7070 --log-format json";

/// `windlass serve`
#[derive(Debug, Args)]
#[command(after_help = SERVE)]
pub struct ServeArgs {
    /// Where to listen; a port alone is one of this machine
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDRESS")]
    pub listen: String,
    /// Serve /metrics, /healthz and /readyz also there, without a key
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<String>,
    /// How long a lease lasts when a worker does not say [env: WINDLASS_LEASE] [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub lease: Option<String>,
    /// Serve also a PostgreSQL that may lose what it has confirmed (fsync=off)
    #[arg(long)]
    pub r#unsafe: bool,
}

/// `windlass demo`
#[derive(Debug, Args)]
#[command(
    after_help = "Ctrl-C ends it. Started again it goes on where it was.\n\nExample:\n  windlass demo --listen 127.0.0.1:8080"
)]
pub struct DemoArgs {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDRESS")]
    pub listen: String,
}

/// `windlass migrate`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass migrate\n  windlass --store postgres://owner@db/jobs migrate --print | psql …"
)]
pub struct MigrateArgs {
    /// Print the SQL instead of running it
    #[arg(long)]
    pub print: bool,
}

/// `windlass doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Report open transactions, expired leases and passed deadlines that nobody acted on for longer than this
    #[arg(long, default_value = "1m", value_name = "TIME")]
    pub late: Span,
    /// Report a disk of an SQLite store with less free space than this
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    pub room: u64,
    /// Report unfinished jobs that nothing has happened to for longer than this
    #[arg(long, default_value = "30d", value_name = "TIME")]
    pub idle: Span,
}

/// `windlass adopt`
#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// Do it: everybody who follows the feed has to begin anew
    #[arg(long)]
    pub yes: bool,
}

/// `windlass restore`
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Which
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
}

/// `windlass prune`
#[derive(Debug, Args)]
#[command(
    after_help = "Works on a store itself, as its owner. A run that was interrupted is gone on with by the next one.\n\nExamples:\n  windlass prune --dry-run\n  windlass prune --older-than 90d --status completed --archive /var/lib/windlass/archive\n  zstdcat /var/lib/windlass/archive/*.zst | jq 'select(.kind == \"email.send\")'"
)]
pub struct PruneArgs {
    /// Only jobs that ended so long ago
    #[arg(long, value_name = "TIME", default_value = "30d")]
    pub older_than: Span,
    /// Only jobs that ended so: completed, failed, timed_out or cancelled, or several behind commas
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    pub status: Vec<String>,
    /// Only jobs of this queue
    #[arg(long)]
    pub queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long)]
    pub kind: Option<String>,
    /// Keep nothing of them, not even in the archive
    #[arg(long)]
    pub no_archive: bool,
    /// Count them, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// `windlass verify`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 1 if any job is not what its log says, or the log is not what was sealed. Jobs may change meanwhile.\n\nExamples:\n  windlass --store sqlite:backup/windlass.db verify\n  windlass verify --heads heads.jsonl --write-heads heads.jsonl"
)]
pub struct VerifyArgs {
    /// Repair what is derived from the rows of jobs: who stands in line and what is held (PostgreSQL)
    #[arg(long)]
    pub mend: bool,
    /// Compare the seals over the log with heads that were written to this file before
    #[arg(long, value_name = "FILE")]
    pub heads: Option<std::path::PathBuf>,
    /// Add the head of the last seal to this file, if nothing is wrong; keep it on another machine
    #[arg(long, value_name = "FILE")]
    pub write_heads: Option<std::path::PathBuf>,
    /// Stop after so many problems
    #[arg(long, default_value_t = 100)]
    pub most: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_behind_exec_is_the_programs() {
        let typed = ["windlass", "work", "--queue", "q", "--exec", "sh", "-c", "echo", "--json"];
        let cli = Cli::try_parse_from(typed).unwrap();
        let Command::Work(work) = cli.command else { panic!("work") };
        assert_eq!(work.exec, ["sh", "-c", "echo", "--json"]);
        assert!(!cli.global.json);
    }
}
