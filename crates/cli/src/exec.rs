//! Any program as a handler: payload in, result out, log lines beside, and an exit code that says how it went.
//!
//! What is never known here: which store it is.

mod pipes;

use crate::reap::{Group, Leave};
use crate::settings::DB_VARIABLES;
use pipes::{Said, feed, last_line, write_log};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Command;
use windlass_core::Payload;
use windlass_core::limits::PAYLOAD_MAX_BYTES;
use windlass_engine::{Attempt, HandlerError};

/// Not now: again later, without using a retry (`EX_TEMPFAIL`).
const NOT_NOW: i32 = 75;
/// Failed for good (`EX_DATAERR`).
const FOR_GOOD: i32 = 65;
/// How long pipes may stay open after the program has ended, because of something it started.
const LINGER: Duration = Duration::from_millis(500);

/// The variable by which a trace goes on from a program to one that it starts.
pub const TRACEPARENT: &str = "TRACEPARENT";

/// A program that handles jobs.
#[derive(Debug)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Where its server is, for programs that speak to one.
    pub url: Option<String>,
    /// How long after SIGTERM comes SIGKILL.
    pub kill_after: Duration,
    /// How long after an end was asked for it is stopped.
    pub patience: Duration,
    /// Where it is left when nobody waits for it any more.
    pub leave: Leave,
}

/// What made us stop looking at a program.
enum End {
    Exited(std::io::Result<ExitStatus>),
    Cancelled,
    GivenBack,
}

impl Program {
    /// Runs the program for one attempt.
    pub async fn run(&self, attempt: Attempt) -> Result<Option<Payload>, HandlerError> {
        let mut running = Running { group: Some(self.start(&attempt)?), leave: self.leave.clone() };
        let Some(group) = &mut running.group else { return Ok(None) };
        let child = group.child();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let pipes = async {
            let ((), last, said) =
                tokio::join!(feed(stdin, &attempt), last_line(stdout), write_log(stderr, &attempt));
            (last, said)
        };
        let mut pipes = std::pin::pin!(pipes);
        let mut given_back = std::pin::pin!(self.given_back(&attempt));
        let mut heard = None;
        let end = loop {
            tokio::select! {
                biased;
                status = group.child().wait() => break End::Exited(status),
                () = attempt.cancelled() => break End::Cancelled,
                () = &mut given_back => break End::GivenBack,
                said = &mut pipes, if heard.is_none() => heard = Some(said),
            }
        };
        if let End::Exited(_) = end {
            // What it started may still be writing the last words.
            if heard.is_none() {
                heard = tokio::time::timeout(LINGER, &mut pipes).await.ok();
            }
            group.kill();
        } else {
            // The pipes are emptied meanwhile, so that nobody is stuck in a write.
            tokio::select! {
                () = group.stop() => {}
                () = async { if heard.is_none() { heard = Some((&mut pipes).await) }; std::future::pending().await } => {}
            }
        }
        if heard.is_none() {
            heard = tokio::time::timeout(LINGER, &mut pipes).await.ok();
        }
        // It has ended, and everybody it started: nothing is left to be reaped.
        running.group = None;
        let (last, said) = heard.unwrap_or_default();
        let outcome = match end {
            End::Cancelled => Err(HandlerError::cancelled()),
            End::GivenBack => Err(HandlerError::snooze(Duration::ZERO)),
            End::Exited(status) => outcome(status?, last, &said, &attempt),
        };
        self.tell(&attempt, &outcome);
        outcome
    }

    /// Says what became of an attempt, for who watches the worker.
    fn tell(&self, attempt: &Attempt, outcome: &Result<Option<Payload>, HandlerError>) {
        let (job, kind) = (attempt.job_id(), attempt.kind());
        match outcome {
            Ok(_) => tracing::info!(%job, %kind, attempt = attempt.fence(), "job done"),
            Err(error) => {
                let (code, error) = (error.error_code(), error.message());
                tracing::warn!(%job, %kind, attempt = attempt.fence(), code, error, "job not done");
            }
        }
    }

    /// The worker ends and has waited long enough: the program is stopped first, so that no other runs beside it.
    async fn given_back(&self, attempt: &Attempt) {
        attempt.stopping().await;
        tokio::time::sleep(self.patience).await;
    }

    fn start(&self, attempt: &Attempt) -> Result<Group, HandlerError> {
        let Some((program, arguments)) = self.words.split_first() else {
            return Err(HandlerError::permanent("there is no program to run").code("exec_failed"));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // It leads a group of its own, so that whatever it starts can be ended with it.
        command.process_group(0);
        let secrets = std::env::vars_os().map(|(name, _)| name);
        for name in secrets.filter(|name| name.to_string_lossy().starts_with("WINDLASS_")) {
            command.env_remove(name);
        }
        for name in DB_VARIABLES {
            command.env_remove(name);
        }
        command.env("WINDLASS_JOB_ID", attempt.job_id().to_string());
        command.env("WINDLASS_KIND", attempt.kind().as_str());
        command.env("WINDLASS_ATTEMPT", attempt.number().to_string());
        command.env("WINDLASS_FENCE", attempt.fence().to_string());
        command.env("WINDLASS_LEASE_TOKEN", attempt.lease_token().to_text());
        if let Some(url) = &self.url {
            command.env("WINDLASS_URL", url);
        }
        // The trace goes on in the program, not the one that this worker was started in.
        match attempt.trace_context() {
            Some(context) => command.env(TRACEPARENT, context.to_string()),
            None => command.env_remove(TRACEPARENT),
        };
        let child = command.spawn().map_err(|error| {
            let name = program.to_string_lossy();
            HandlerError::retry(format!("the program {name} could not be started: {error}"))
                .code("exec_failed")
        })?;
        Ok(Group::new(child, self.kill_after))
    }
}

/// A program that nobody waits for any more is left to the reaper: its attempt took too long, or its lease is lost.
struct Running {
    group: Option<Group>,
    leave: Leave,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            self.leave.behind(group);
        }
    }
}

/// What an exit code means.
fn outcome(
    status: ExitStatus,
    last: Said,
    said: &str,
    attempt: &Attempt,
) -> Result<Option<Payload>, HandlerError> {
    let because = |how: String| if said.is_empty() { how } else { format!("{how}: {said}") };
    match (status.code(), status.signal()) {
        (Some(0), _) => result(last),
        (Some(NOT_NOW), _) => {
            let backoff = attempt.facts().backoff.unwrap_or_default();
            let ms = backoff.delay_ms(attempt.number(), attempt.job_id(), attempt.number());
            Err(HandlerError::snooze(Duration::from_millis(ms.unsigned_abs())))
        }
        (Some(FOR_GOOD), _) => {
            Err(HandlerError::permanent(because(format!("exit code {FOR_GOOD}"))).code("exit_65"))
        }
        (Some(code), _) => {
            Err(HandlerError::retry(because(format!("exit code {code}"))).code(&format!("exit_{code}")))
        }
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            let how = because(format!("ended by signal {signal}"));
            Err(HandlerError::retry(how).code(&format!("signal_{signal}")))
        }
    }
}

/// The last line of standard output: JSON as it stands, anything else as text.
fn result(last: Said) -> Result<Option<Payload>, HandlerError> {
    let too_large = |why: String| HandlerError::permanent(why).code("result_too_large");
    match last {
        Said::Nothing => Ok(None),
        Said::TooLong => {
            Err(too_large(format!("the last line of output is longer than {PAYLOAD_MAX_BYTES} bytes")))
        }
        // Kept as text: what a program says last is worth more than nothing.
        Said::Line(line) if serde_json::from_slice::<serde::de::IgnoredAny>(&line).is_err() => {
            let text = String::from_utf8_lossy(&line).into_owned();
            tracing::info!(text, "the last line of output is no JSON and is kept as text");
            Payload::from_value("result", &text, PAYLOAD_MAX_BYTES)
                .map(Some)
                .map_err(|e| too_large(e.to_string()))
        }
        Said::Line(line) => {
            Payload::json("result", line, PAYLOAD_MAX_BYTES).map(Some).map_err(|e| too_large(e.to_string()))
        }
    }
}
