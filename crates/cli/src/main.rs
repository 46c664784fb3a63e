//! The command `windlass`: durable background jobs from a shell.
//!
//! | to learn about | read |
//! |---|---|
//! | what can be typed | [`args`] |
//! | where each setting comes from | [`settings`] |
//! | how a command reaches jobs, on a store or through a server | [`api_client`], [`wire`] |
//! | what is printed, and how a failure becomes an exit code | [`out`], [`fail`] |
//! | the log, and OpenTelemetry | [`telemetry`] |
//! | how a key leaves the environment | [`key_pipe`] |
//! | which job a piece of an id means | [`ids`] |
//! | any program or web service as a handler, on a store or through a server | [`work`], [`exec`], [`post`], [`remote_store`] |
//!
//! This is the only room that knows everything. It decides nothing about jobs: the store does.

mod adopt;
mod api_client;
mod args;
mod demo;
mod doctor;
mod enqueue;
mod exec;
mod fail;
mod flow;
mod ids;
mod jobs;
mod key_pipe;
mod lanes;
mod migrate;
mod moving;
mod operations;
mod out;
mod outbound;
mod post;
mod problems;
mod prune;
mod publish;
mod queue_show;
mod reap;
mod registry;
mod remote_store;
mod restore;
mod run;
mod s3;
mod schedules;
mod schedules_apply;
mod serve;
mod settings;
mod shape;
mod show;
mod span;
mod stats;
mod store_settings;
mod subscriptions;
mod telemetry;

mod triggers;
mod verify;
mod verify_seals;
mod wire;
mod work;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

/// `--key` is a job's key for `enqueue` and an access key for every command, and the parser gives one value to both. What begins
/// like an access key, or is to be read from standard input, is one.
fn separate_keys(cli: &mut Cli) {
    if let Command::Enqueue(args) = &mut cli.command {
        match args.key.as_deref() {
            Some(key) if key.starts_with("wl_") || key == "-" => args.key = None,
            Some(_) => cli.global.key = None,
            None => {}
        }
    }
}

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    separate_keys(&mut cli);
    let out = out::Out::new(cli.global.format());
    if let Err(error) = key_pipe::start_again_without_key(&cli.global) {
        out.remark(format!("windlass: the key stays readable for other processes of this user: {error}"));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return out.fail(&fail::Failure::failed(format!("no threads to run on: {error}"))),
    };
    let ran = match cli.global.watch {
        Some(every) => runtime.block_on(run::watch(every.duration(), &out)),
        None => runtime.block_on(run::run(cli, &out)),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => out.fail(&failure),
    }
}
