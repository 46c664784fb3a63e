//! `windlass demo`: a server, workers and a believable workload on one SQLite file. A second start goes on where the first
//! one ended.

mod workload;

use crate::args::DemoArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::open;
use crate::serve::not_listening;
use crate::settings::Settings;
use crate::work::log_to_stderr;
use serde_json::json;
use std::sync::Arc;
use windlass_engine::Shutdown;
use windlass_http::Server;

/// Runs until Ctrl-C.
pub async fn run(args: DemoArgs, settings: &Settings, out: &Out) -> Outcome {
    log_to_stderr();
    let client = open(settings, true, None).await?;
    let server = Server::new(Arc::clone(client.store()));
    let listener = server.listen(args.listen.as_str()).await.map_err(not_listening)?;
    let address = listener.local_addr().map_err(|e| Failure::failed(e.to_string()))?;
    let url = format!("http://{address}");
    let store = crate::settings::masked(&settings.store.value);
    out.show(&json!({ "url": url, "store": store }), |out| {
        out.line(format!("{url}  the page and the API; jobs are kept in {store}"));
        out.line("in another terminal: windlass jobs ls; windlass approvals ls; windlass queues ls");
        out.line("Ctrl-C ends it; started again it goes on where it was");
    });
    let shutdown =
        Shutdown::on_signals().map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let serving = server.run(listener, shutdown.clone());
    let working = workload::worker(client.clone()).run(shutdown.clone());
    let (served, worked, ()) = tokio::join!(serving, working, workload::produce(&client, &shutdown));
    served.map_err(|e| Failure::failed(format!("the server ended: {e}")))?;
    Ok(worked?)
}
