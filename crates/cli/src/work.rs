//! `windlass work`: a worker whose handler is any program, or any web service.

use crate::args::WorkArgs;
use crate::exec::Program;
use crate::fail::{Failure, Outcome};
use crate::post::Service;
use crate::reap::Reaper;
use crate::remote_store::RemoteStore;
use crate::run::open;
use crate::settings::Settings;
use crate::telemetry::{self, Counts};
use crate::wire::Wire;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{LeaseMs, Metadata};
use windlass_engine::{BoxError, Handler, RunError, Shutdown, Worker};
use windlass_store::work::Work;

/// Beyond what a program has to end by itself, so that it is we who stop it and not the engine.
const MARGIN: Duration = Duration::from_secs(5);
/// Connections that renewals go through, apart from all others.
const RENEWING: usize = 2;

/// Works until SIGTERM or Ctrl-C, then lets running programs finish; a second one ends at once.
pub async fn run(args: WorkArgs, settings: &Settings) -> Outcome {
    let server_url = settings.url.as_ref().map(|url| url.value.clone());
    let service = args.post.as_deref();
    let service = service
        .map(|url| Service::new(url, args.post_secret_file.as_deref(), server_url.clone()))
        .transpose()?;
    if service.is_none() {
        check_program(&args.exec)?;
    }
    let telemetry = telemetry::start(settings, if args.quiet { "warn" } else { "info" }, Counts::Exported)?;
    let shutdown =
        Shutdown::on_signals().map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let (reaper, leave) = Reaper::new();
    let program = Program {
        words: args.exec.clone(),
        url: server_url,
        kill_after: args.kill_after.duration(),
        patience: args.shutdown_deadline.duration(),
        leave,
    };
    let server = through_server(&args, settings, &shutdown).await?;
    let worker = match &server {
        Some(server) => Worker::through(Arc::clone(server) as Arc<dyn Work>),
        None => on_store(settings).await?,
    };
    let worker = worker.labels(labels(&args.label)?);
    #[cfg(feature = "redis")]
    let worker = match &args.redis {
        Some(url) => worker.leases_in(Arc::new(windlass_engine::RedisLeases::new(url)?)),
        None => worker,
    };
    #[cfg(feature = "amqp")]
    let worker = match crate::publish::NamedJobs::of(&args.named)? {
        Some(named) => worker.consume(Arc::new(named)),
        None => worker,
    };
    let (kill_after, deadline) = (program.kill_after, program.patience);
    let handler = match service {
        Some(service) => {
            let service = Arc::new(service);
            Handler::from_fn(move |attempt| {
                let service = Arc::clone(&service);
                async move { service.run(attempt).await }
            })
        }
        None => {
            let program = Arc::new(program);
            Handler::from_fn(move |attempt| {
                let program = Arc::clone(&program);
                async move { program.run(attempt).await }
            })
        }
    };
    let worker = configured(worker, &args, settings.lease_ms(), handler)
        .cancel_grace(kill_after + MARGIN)
        .shutdown_deadline(deadline + kill_after + MARGIN);
    let kinds = if args.kind.is_empty() { "all".to_owned() } else { args.kind.join(", ") };
    tracing::info!(
        queues = args.queue.join(", "),
        kinds,
        at_once = args.concurrency,
        "working; Ctrl-C ends it"
    );
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let working = async {
        let end = worker.run(shutdown).await;
        drop(ended);
        end
    };
    let (worked, ()) = tokio::join!(working, reaper.run(async { drop(end.await) }));
    telemetry.end().await;
    worked.map_err(|error| match error {
        RunError::Invalid(invalid) => invalid.into(),
        other => Failure::failed(other.to_string()),
    })?;
    server.and_then(|server| server.refused()).map_or(Ok(()), Err)
}

/// The server to work through, if one is named more strongly than a store. Named beside a store, it is for the programs.
async fn through_server(
    args: &WorkArgs,
    settings: &Settings,
    shutdown: &Shutdown,
) -> Outcome<Option<Arc<RemoteStore>>> {
    let Some(url) = settings.url.as_ref().filter(|url| url.source < settings.store.source) else {
        return Ok(None);
    };
    let wire = Wire::to(&url.value, settings.key.as_ref().map(|key| key.value.clone()))?;
    let mut queues = args.queue.clone();
    queues.sort();
    queues.dedup();
    Ok(Some(Arc::new(RemoteStore::open(wire, queues.len(), shutdown.clone()).await?)))
}

/// A worker on the store that is in force. Renewals of PostgreSQL go through connections of their own.
async fn on_store(settings: &Settings) -> Outcome<Worker> {
    let client = open(settings, true, None).await?;
    let worker = Worker::new(Arc::clone(client.store()));
    if !settings.store.value.starts_with("postgres") {
        return Ok(worker);
    }
    let settings = settings.clone();
    Ok(worker.renew_through(move || {
        let settings = settings.clone();
        async move {
            let client = open(&settings, false, Some(RENEWING)).await;
            client.map(|client| Arc::clone(client.store())).map_err(|failure| BoxError::from(failure.detail))
        }
    }))
}

fn labels(given: &[String]) -> Outcome<Metadata> {
    let label = |text: &String| {
        crate::enqueue::label("--label", text).map(|(name, value)| (name.to_string(), value.into()))
    };
    given.iter().map(label).collect()
}

fn configured(worker: Worker, args: &WorkArgs, lease_ms: LeaseMs, handler: Handler) -> Worker {
    let mut worker = worker.identity(&identity()).lease(Duration::from_millis(lease_ms.get().unsigned_abs()));
    for queue in &args.queue {
        worker = worker.queue(queue, args.concurrency.into());
    }
    for kind in &args.kind {
        worker = worker.handle(kind, handler.clone());
    }
    if args.kind.is_empty() {
        worker = worker.handle_any(handler);
    }
    worker
}

/// What its identity begins with, for people.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String =
        host.trim().chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).take(60).collect();
    if host.is_empty() {
        format!("exec-{}", std::process::id())
    } else {
        format!("{host}-{}", std::process::id())
    }
}

/// A program that is not there is told before any job is taken for it.
fn check_program(words: &[OsString]) -> Outcome {
    let program = words.first().map(OsString::as_os_str).unwrap_or_default();
    let is_path = program.to_string_lossy().contains('/');
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = if is_path { is_program(Path::new(program)) } else { finds(&folders, program) };
    if is_there {
        return Ok(());
    }
    let name = program.to_string_lossy();
    Err(Failure::usage(format!(
        "there is no program {name}; give its path, or make it executable with chmod +x"
    )))
}

fn finds(folders: &OsStr, program: &OsStr) -> bool {
    std::env::split_paths(folders).any(|folder: PathBuf| is_program(&folder.join(program)))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
