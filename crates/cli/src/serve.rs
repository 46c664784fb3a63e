//! `windlass serve`: the JSON API over the store that is in force.

use crate::args::ServeArgs;
use crate::doctor;
use crate::fail::{Exit, Failure, Outcome};
use crate::out::Out;
use crate::publish::Targets;
use crate::run::open;
use crate::settings::Settings;
use crate::telemetry::{self, Counts};
use serde_json::json;
use std::sync::Arc;
use tokio::net::TcpListener;
use windlass_engine::Shutdown;
use windlass_http::{ListenError, Server};

/// Serves until SIGTERM or Ctrl-C, then lets requests end; a second one ends at once.
pub async fn run(args: ServeArgs, settings: &Settings, out: &Out) -> Outcome {
    let telemetry = telemetry::start(settings, "info", Counts::Served)?;
    let shutdown =
        Shutdown::on_signals().map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let client = open(settings, true, None).await?;
    if !args.r#unsafe && doctor::loses_commits(settings).await? {
        let told = "this PostgreSQL runs with fsync=off: a power cut loses or damages what was confirmed; set fsync = on, or \
                    serve it all the same with --unsafe";
        return Err(Failure::new(Exit::Refused, "not_durable", told));
    }
    let mut server =
        Server::new(Arc::clone(client.store())).default_lease(settings.lease_ms()).schedules(true);
    let targets = Arc::new(Targets::new()?);
    server = server.publishers(Arc::clone(&targets) as Arc<_>).endpoints(targets);
    if let Some(archive) = settings.archive()? {
        server = server.archive(archive);
    }
    let listener = server.listen(address_of(&args.listen).as_str()).await.map_err(not_listening)?;
    let url = url_of(&listener)?;
    let mut metrics_url = None;
    if let Some(address) = &args.metrics_listen {
        let address = address_of(address);
        let bound = TcpListener::bind(address.as_str()).await;
        let bound = bound.map_err(|e| {
            Failure::failed(format!("cannot listen on {address}: {e}; choose another with --metrics-listen"))
        })?;
        metrics_url = Some(format!("{}/metrics", url_of(&bound)?));
        server = server.metrics_on(bound);
    }
    out.show(&json!({ "url": url, "metrics_url": metrics_url }), |out| {
        out.line(format!("listening on {url}"));
        if let Some(metrics) = &metrics_url {
            out.line(format!("metrics without a key on {metrics}"));
        }
    });
    let served = server.run(listener, shutdown).await;
    telemetry.end().await;
    served.map_err(|e| Failure::failed(format!("the server ended: {e}")))
}

fn url_of(listener: &TcpListener) -> Outcome<String> {
    let address = listener.local_addr().map_err(|e| Failure::failed(e.to_string()))?;
    Ok(format!("http://{address}"))
}

/// An address as people write it: a port alone, with or without its colon, is one of this machine.
pub fn address_of(text: &str) -> String {
    let port = text.strip_prefix(':').unwrap_or(text);
    if port.parse::<u16>().is_ok() { format!("127.0.0.1:{port}") } else { text.to_owned() }
}

/// Why a server does not listen, with its exit code.
pub fn not_listening(error: ListenError) -> Failure {
    match error {
        ListenError::NoKey(_) => Failure::usage(error.to_string()),
        ListenError::Store(error) => error.into(),
        _ => Failure::failed(format!("{error} with --listen")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        assert_eq!(address_of(":7070"), "127.0.0.1:7070");
        assert_eq!(address_of("7070"), "127.0.0.1:7070");
        for text in ["0.0.0.0:7070", "[::1]:7070", "localhost:7070", "::1"] {
            assert_eq!(address_of(text), text);
        }
    }
}
