//! OpenTelemetry export: a span for each call and each batch, and metrics.
//!
//! Disabled unless the environment configures a collector. Telemetry subscribes to the kernel's event bus: it does not
//! delay calls, only has access to snapshots, and exports no inputs or results.

mod bounded_map;
mod call_attributes;
mod call_metrics;
mod call_spans;
mod client;
mod settings;

use std::time::Duration;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use toolhost_kernel::{MissedEvents, Subscription};

use crate::call_metrics::CallMetrics;
use crate::call_spans::CallSpans;
use crate::client::{ExportClient, ExportLog};
use crate::settings::{OtlpProtocol, SignalSettings, TelemetrySettings};

pub use crate::settings::TelemetrySettingsError;

/// How long the host waits for a collector at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
const SCOPE: &str = "toolhost";

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error(transparent)]
    Settings(#[from] TelemetrySettingsError),
    #[error("telemetry cannot start: {0}")]
    Exporter(#[from] ExporterBuildError),
    #[error("telemetry was not delivered: {0}")]
    Delivery(String),
    #[error("telemetry was not delivered within {} seconds", FLUSH_TIMEOUT.as_secs())]
    Timeout,
    #[error("telemetry stopped because of an internal error")]
    Internal,
}

/// Configured telemetry that is not running yet.
pub struct Telemetry {
    calls: CallSpans,
    tracers: Option<SdkTracerProvider>,
    meters: Option<SdkMeterProvider>,
    exports: Vec<ExportLog>,
}

impl Telemetry {
    /// Reads the configuration from the environment. Returns `None` if it configures no telemetry. `var` looks up a
    /// variable.
    ///
    /// The exporters themselves read headers, the sampler, resource attributes and export intervals from the process
    /// environment.
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, TelemetryError> {
        TelemetrySettings::read(var)?.map(Self::new).transpose()
    }

    fn new(settings: TelemetrySettings) -> Result<Self, TelemetryError> {
        let mut resource =
            Resource::builder().with_attribute(KeyValue::new("service.version", VERSION));
        if !settings.has_service_name {
            resource = resource.with_service_name("toolhost");
        }
        let resource = resource.build();
        let mut exports = Vec::new();
        let mut client = |signal: &SignalSettings| {
            let shared = ExportLog::default();
            exports.push(shared.clone());
            ExportClient::new(signal.timeout, shared)
        };
        let tracers = match &settings.traces {
            None => None,
            Some(signal) => {
                let exporter = SpanExporter::builder()
                    .with_http()
                    .with_http_client(client(signal))
                    .with_endpoint(&signal.endpoint)
                    .with_protocol(protocol(signal))
                    .with_timeout(signal.timeout)
                    .build()?;
                let builder = SdkTracerProvider::builder().with_resource(resource.clone());
                Some(builder.with_batch_exporter(exporter).build())
            }
        };
        let meters = match &settings.metrics {
            None => None,
            Some(signal) => {
                let exporter = MetricExporter::builder()
                    .with_http()
                    .with_http_client(client(signal))
                    .with_endpoint(&signal.endpoint)
                    .with_protocol(protocol(signal))
                    .with_timeout(signal.timeout)
                    .build()?;
                let builder = SdkMeterProvider::builder().with_resource(resource);
                Some(builder.with_periodic_exporter(exporter).build())
            }
        };
        let headers: std::collections::HashMap<String, String> =
            settings.parent.into_iter().collect();
        let root = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
        let calls = CallSpans::new(
            tracers.as_ref().map(|tracers| tracers.tracer(SCOPE)),
            meters
                .as_ref()
                .map(|meters| CallMetrics::new(&meters.meter(SCOPE))),
            settings.include_contents,
            root,
        );
        Ok(Self {
            calls,
            tracers,
            meters,
            exports,
        })
    }

    /// Exports the events of the subscription in a background task until [`Following::shutdown`].
    ///
    /// Must be called within a Tokio runtime.
    pub fn spawn(mut self, mut subscription: Subscription) -> TelemetryTask {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = subscription.next() => self.on_event(event),
                    // Also if `Following` is dropped.
                    _ = &mut stopped => break,
                }
            }
            // Processes pending events.
            while let Some(event) = subscription.try_next() {
                self.on_event(event);
            }
            self.calls.finish();
            self
        });
        TelemetryTask { stop, task }
    }

    fn on_event(
        &mut self,
        received: Result<std::sync::Arc<toolhost_contract::bus::BusEvent>, MissedEvents>,
    ) {
        match received {
            Ok(event) => self.calls.on_event(&event),
            Err(MissedEvents { from, to }) => self.calls.on_missed(to.saturating_sub(from) + 1),
        }
    }

    async fn flush(self) -> Result<(), TelemetryError> {
        // On separate threads, because a runtime would wait indefinitely for a task that a collector blocks.
        let (traces_sent, traces) = oneshot::channel();
        let (metrics_sent, metrics) = oneshot::channel();
        let Self {
            calls,
            tracers,
            meters,
            exports,
        } = self;
        drop(calls);
        let start = Instant::now();
        std::thread::spawn(move || {
            let _ = traces_sent
                .send(tracers.map(|tracers| tracers.shutdown_with_timeout(FLUSH_TIMEOUT)));
        });
        std::thread::spawn(move || {
            let _ =
                metrics_sent.send(meters.map(|meters| meters.shutdown_with_timeout(FLUSH_TIMEOUT)));
        });
        let both = async { tokio::join!(traces, metrics) };
        let ended = timeout(FLUSH_TIMEOUT, both).await;
        // Errors of the client are more specific than those of the exporters.
        let errors: Vec<String> = exports.iter().filter_map(ExportLog::failures).collect();
        if !errors.is_empty() {
            return Err(TelemetryError::Delivery(errors.join("; ")));
        }
        let Ok((traces, metrics)) = ended else {
            return Err(TelemetryError::Timeout);
        };
        for ended in [traces, metrics] {
            match ended {
                Ok(None | Some(Ok(()))) => {}
                // The exporters have the same time limit, and can notice it first.
                Ok(Some(Err(_))) if start.elapsed() >= FLUSH_TIMEOUT => {
                    return Err(TelemetryError::Timeout);
                }
                Ok(Some(Err(error))) => return Err(TelemetryError::Delivery(error.to_string())),
                Err(_) => return Err(TelemetryError::Internal),
            }
        }
        Ok(())
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn protocol(signal: &SignalSettings) -> opentelemetry_otlp::Protocol {
    match signal.protocol {
        OtlpProtocol::Protobuf => opentelemetry_otlp::Protocol::HttpBinary,
        OtlpProtocol::Json => opentelemetry_otlp::Protocol::HttpJson,
    }
}

/// Running telemetry.
pub struct TelemetryTask {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Telemetry>,
}

impl TelemetryTask {
    /// Processes pending events and sends them. Takes at most five seconds.
    pub async fn shutdown(self) -> Result<(), TelemetryError> {
        let _ = self.stop.send(());
        let telemetry = self.task.await.map_err(|_| TelemetryError::Internal)?;
        telemetry.flush().await
    }
}
