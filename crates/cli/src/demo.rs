//! `windlass demo`: a server, workers and a small shop's orders on one SQLite file. A second start goes on where the first
//! one ended.

mod shop;

use crate::args::DemoArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::open;
use crate::serve::{address_of, not_listening};
use crate::settings::{Settings, Source, masked};
use crate::telemetry::{self, Counts};
use serde_json::json;
use shop::Shop;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass::Client;
use windlass_core::ApprovalId;
use windlass_core::wait::ApprovalStatus;
use windlass_engine::{Level, Shutdown};
use windlass_http::Server;
use windlass_store::ListApprovals;

/// How often it looks whether an order waits for a person.
const LOOK: Duration = Duration::from_millis(500);

/// Runs until Ctrl-C.
pub async fn run(args: DemoArgs, settings: &Settings, out: &Out) -> Outcome {
    let telemetry = telemetry::start(settings, "warn,windlass_engine=error", Counts::Served)?;
    let shutdown =
        Shutdown::on_signals().map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let client = open(settings, true, None).await?;
    let server = Server::new(Arc::clone(client.store())).default_lease(settings.lease_ms()).schedules(true);
    let listener = server.listen(address_of(&args.listen).as_str()).await.map_err(not_listening)?;
    let address = listener.local_addr().map_err(|e| Failure::failed(e.to_string()))?;
    let url = format!("http://{address}");
    let command = command(settings, &url);
    welcome(settings, out, &url, &command);
    let serving = server.run(listener, shutdown.clone());
    let shop = Shop::open(&client).await?;
    let working = shop::worker(client.clone()).run(shutdown.clone());
    let (served, worked, (), ()) = tokio::join!(
        serving,
        working,
        shop.run(&shutdown),
        tell_who_waits(&client, out, &command, &shutdown)
    );
    telemetry.end().await;
    served.map_err(|e| Failure::failed(format!("the server ended: {e}")))?;
    worked?;
    if !out.is_json {
        out.line("ended; started again it goes on where it was");
    }
    Ok(())
}

fn welcome(settings: &Settings, out: &Out, url: &str, command: &str) {
    let store = masked(&settings.store.value);
    out.show(&json!({ "url": url, "store": store }), |out| {
        out.line(format!("A small shop takes orders. Its page: {}", out.bold(url)));
        out.line(format!("Jobs are kept in {store}. In another terminal, in this folder, try:\n"));
        for (words, about) in [
            ("jobs ls", "orders, mails and reports, newest first"),
            ("jobs ls --dead", "what failed for good, and why"),
            ("approvals ls --status pending", "what waits for a person"),
            ("queues ls", "what is due"),
            ("lanes ls mail", "whose mails run or wait: one at a time for each customer"),
            ("schedules ls", "what runs by the clock"),
            ("triggers ls", "what runs when somebody sends an event"),
            ("workers ls", "who works"),
            ("doctor", "is anything wrong?"),
            ("stats", "how many jobs stand where"),
        ] {
            out.line(format!(
                "  {:<width$}  # {about}",
                format!("{command} {words}"),
                width = command.len() + 31
            ));
        }
        out.line("\nCtrl-C ends it; started again it goes on where it was.\n");
    });
}

/// Says of every order that waits for a person, once, how to let it go on.
async fn tell_who_waits(client: &Client, out: &Out, command: &str, shutdown: &Shutdown) {
    let mut told: Vec<ApprovalId> = Vec::new();
    while shutdown.level() == Level::Working {
        let request = ListApprovals {
            job: None,
            status: Some(ApprovalStatus::Pending),
            before: None,
            limit: shop::ASKED_MOST,
        };
        let pending = client.store().approvals(request, None).await.unwrap_or_default();
        for view in pending.iter().rev().filter(|view| !told.contains(&view.approval.id)) {
            out.show(&json!({ "approval": view.approval.id.to_string(), "prompt": view.prompt }), |out| {
                out.line(format!(
                    "{} Say yes:\n  {command} approvals approve {}",
                    view.prompt, view.approval.id
                ));
            });
        }
        told = pending.iter().map(|view| view.approval.id).collect();
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = shutdown.reached(Level::Graceful) => {}
        }
    }
}

/// How this very program is called from the same folder, so that it reaches the same jobs.
fn command(settings: &Settings, url: &str) -> String {
    let me = program(std::env::current_exe().ok().as_deref());
    // The default store needs no name.
    if settings.store.source == Source::Default { me } else { format!("{me} --url {url}") }
}

fn program(me: Option<&Path>) -> String {
    let Some(me) = me else { return "windlass".to_owned() };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join("windlass")).find(|path| path.is_file());
    if found.and_then(|path| path.canonicalize().ok()).as_deref() == Some(me) {
        return "windlass".to_owned();
    }
    let here = std::env::current_dir().ok();
    let near = here.and_then(|here| me.strip_prefix(here).ok().map(Path::to_owned));
    near.filter(|path| path.components().count() > 1).unwrap_or_else(|| me.to_owned()).display().to_string()
}
