//! What `serve`, `work` and `demo` say about themselves: a log on standard error, and traces and metrics of OpenTelemetry if
//! the usual `OTEL_…` variables name where they go.

use crate::fail::{Failure, Outcome};
use crate::out::visible::{LogForm, LogWriter};
use crate::settings::Settings;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// What is to be sent before the process ends.
#[must_use = "what is not sent yet is sent by `end`"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    exports: otel::Exports,
}

/// Whether a server counts for itself, beside what is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// It does, under `/metrics`.
    Served,
    /// Nobody else does.
    Exported,
}

/// Begins to log to standard error; `RUST_LOG` says how much. And to export, if that is configured.
pub fn start(settings: &Settings, unless_said: &str, counts: Counts) -> Outcome<Telemetry> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(unless_said));
    let form = match settings.log_format.value.as_str() {
        "json" => LogForm::Json,
        _ if std::io::stderr().is_terminal() => LogForm::Coloured,
        _ => LogForm::Text,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || LogWriter::new(form, std::io::stderr()))
        .with_target(false);
    let lines = match form {
        LogForm::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
        _ => lines.with_ansi(form == LogForm::Coloured).with_filter(filter).boxed(),
    };
    let log = tracing_subscriber::registry().with(lines);
    #[cfg(feature = "otel")]
    {
        let exports = otel::Exports::from_env()?;
        // Nobody else sets one in this process.
        let _ = log.with(exports.layer()).try_init();
        exports.count(counts);
        Ok(Telemetry { exports })
    }
    #[cfg(not(feature = "otel"))]
    {
        let _ = (log.try_init(), counts);
        let asked =
            |(name, _): &(std::ffi::OsString, _)| name.to_string_lossy().starts_with("OTEL_EXPORTER_");
        if std::env::vars_os().any(|variable| asked(&variable)) {
            tracing::warn!(
                "this program was built without OpenTelemetry (feature otel): nothing is exported"
            );
        }
        Ok(Telemetry {})
    }
}

impl Telemetry {
    /// Sends what is still on its way, for a few seconds at most.
    pub async fn end(self) {
        #[cfg(feature = "otel")]
        self.exports.end().await;
    }
}

#[cfg(feature = "otel")]
mod otel {
    use super::{Counts, Failure, Outcome};
    use opentelemetry::KeyValue;
    use opentelemetry::metrics::MeterProvider;
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter};
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::metrics::SdkMeterProvider;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use std::time::Duration;
    use tracing::Subscriber;
    use tracing_subscriber::filter::filter_fn;
    use tracing_subscriber::layer::Layer;
    use tracing_subscriber::registry::LookupSpan;

    /// How long the end of the process waits for what is still on its way.
    const LAST: Duration = Duration::from_secs(5);
    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

    /// What is exported.
    pub(super) struct Exports {
        traces: Option<SdkTracerProvider>,
        metrics: Option<SdkMeterProvider>,
    }

    fn variable(name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    /// Whether a signal, `TRACES` or `METRICS`, is to be exported.
    fn is_exported(signal: &str) -> Outcome<bool> {
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(false);
        }
        let name = format!("OTEL_{signal}_EXPORTER");
        let asked = match variable(&name).as_deref() {
            Some("otlp") => true,
            Some("none") => return Ok(false),
            Some(other) => {
                return Err(Failure::usage(format!("{name} is {other}; this program has otlp and none")));
            }
            None => false,
        };
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        if !asked && variable(&own).is_none() && variable(ENDPOINT).is_none() {
            return Ok(false);
        }
        let name = format!("OTEL_EXPORTER_OTLP_{signal}_PROTOCOL");
        for name in [name.as_str(), PROTOCOL] {
            match variable(name).as_deref() {
                None => {}
                Some("http/protobuf") => return Ok(true),
                Some(other) => {
                    let told = format!(
                        "{name} is {other}; this program speaks http/protobuf: set it so and let {ENDPOINT} name the \
                         collector's port for HTTP, usually 4318"
                    );
                    return Err(Failure::usage(told));
                }
            }
        }
        Ok(true)
    }

    fn resource() -> Resource {
        let builder =
            Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let named = variable("OTEL_SERVICE_NAME").is_some()
            || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|list| list.contains("service.name="));
        if named { builder.build() } else { builder.with_service_name("windlass").build() }
    }

    impl Exports {
        pub(super) fn from_env() -> Outcome<Self> {
            // Nobody else installs one; a second time is no harm.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let wrong = |e: ExporterBuildError| {
                Failure::usage(format!(
                    "OpenTelemetry cannot be exported: {e}; check the OTEL_EXPORTER_OTLP_… variables"
                ))
            };
            let mut exports = Self { traces: None, metrics: None };
            if is_exported("TRACES")? {
                let exporter = SpanExporter::builder().with_http().build().map_err(wrong)?;
                let traces =
                    SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter);
                exports.traces = Some(traces.build());
            }
            if is_exported("METRICS")? {
                let exporter = MetricExporter::builder().with_http().build().map_err(wrong)?;
                let metrics =
                    SdkMeterProvider::builder().with_resource(resource()).with_periodic_exporter(exporter);
                exports.metrics = Some(metrics.build());
            }
            Ok(exports)
        }

        /// What turns spans of this program into spans of OpenTelemetry. Those of the exporter itself would never end.
        pub(super) fn layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
        where
            S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
        {
            let tracer = self.traces.as_ref()?.tracer("windlass");
            let own = filter_fn(|about| {
                *about.level() <= tracing::Level::INFO && about.target().starts_with("windlass")
            });
            Some(tracing_opentelemetry::layer().with_tracer(tracer).with_filter(own))
        }

        pub(super) fn count(&self, counts: Counts) {
            let Some(metrics) = &self.metrics else { return };
            let recorder = windlass::otel::Recorder::new(metrics.meter("windlass"));
            let is_counted = match counts {
                Counts::Served => windlass_http::record_also(recorder),
                Counts::Exported => metrics::set_global_recorder(recorder).is_ok(),
            };
            if !is_counted {
                tracing::warn!("metrics are not exported: something else records them already");
            }
        }

        pub(super) async fn end(self) {
            let Self { traces, metrics } = self;
            let send = move || {
                let sent = traces.map(|traces| traces.shutdown_with_timeout(LAST));
                let counted = metrics.map(|metrics| metrics.shutdown_with_timeout(LAST));
                for error in [sent, counted].into_iter().flatten().filter_map(Result::err) {
                    tracing::warn!(%error, "the last of the telemetry was not exported");
                }
            };
            // It blocks, and what does not end in time is left.
            let _ = tokio::time::timeout(2 * LAST, tokio::task::spawn_blocking(send)).await;
        }
    }
}
