//! `windlass serve`: the JSON API over the store that is in force.

use crate::args::ServeArgs;
use crate::fail::{Failure, Outcome};
use crate::out::Out;
use crate::run::open;
use crate::settings::Settings;
use crate::work::log_to_stderr;
use serde_json::json;
use std::sync::Arc;
use windlass_engine::Shutdown;
use windlass_http::{ListenError, Server};

/// Serves until SIGTERM or Ctrl-C, then lets requests end; a second one ends at once.
pub async fn run(args: ServeArgs, settings: &Settings, out: &Out) -> Outcome {
    log_to_stderr(settings, "info");
    let shutdown =
        Shutdown::on_signals().map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let client = open(settings, true, None).await?;
    let server = Server::new(Arc::clone(client.store()));
    let listener = server.listen(args.listen.as_str()).await.map_err(not_listening)?;
    let address = listener.local_addr().map_err(|e| Failure::failed(e.to_string()))?;
    let url = format!("http://{address}");
    out.show(&json!({ "url": url }), |out| out.line(format!("listening on {url}")));
    server.run(listener, shutdown).await.map_err(|e| Failure::failed(format!("the server ended: {e}")))
}

/// Why a server does not listen, with its exit code.
pub fn not_listening(error: ListenError) -> Failure {
    match error {
        ListenError::NoKey(_) => Failure::usage(error.to_string()),
        ListenError::Address(..) => Failure::failed(format!("{error} with --listen")),
        ListenError::Store(error) => error.into(),
    }
}
