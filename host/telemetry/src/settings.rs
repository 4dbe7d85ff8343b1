//! Settings from the OpenTelemetry environment variables, validated at startup.

use std::time::Duration;

use toolhost_contract::lifecycle::mask_text;
use toolhost_contract::text;
use ureq::http::Uri;

/// The signals to export and their endpoints.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TelemetrySettings {
    pub traces: Option<SignalSettings>,
    pub metrics: Option<SignalSettings>,
    /// Whether spans contain the masked preview of an input.
    pub include_contents: bool,
    /// Trace context headers of the process that started the host, which its spans continue.
    pub parent: Vec<(String, String)>,
    pub has_service_name: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SignalSettings {
    pub endpoint: String,
    pub protocol: OtlpProtocol,
    pub timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtlpProtocol {
    Protobuf,
    Json,
}

/// An invalid or unsupported environment variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TelemetrySettingsError {
    #[error(
        "{variable}: `grpc` is not supported; use `http/protobuf` or `http/json` with the collector's HTTP port (usually 4318)"
    )]
    Grpc { variable: String },
    #[error("{variable}: unknown protocol `{value}`; use `http/protobuf` or `http/json`")]
    Protocol { variable: String, value: String },
    #[error(
        "{variable}: `{value}` requires TLS, which is not supported; use an http:// collector on this machine or network that forwards over TLS"
    )]
    Tls { variable: String, value: String },
    #[error("{variable}: `{value}` is not an endpoint such as http://localhost:4318")]
    Endpoint { variable: String, value: String },
    #[error("{variable}: `{value}` is not a duration in milliseconds such as 10000")]
    Timeout { variable: String, value: String },
}

/// Default time limit of a request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

impl TelemetrySettings {
    /// Reads the settings. Returns `None` if telemetry is not configured.
    pub(crate) fn read(
        var: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<TelemetrySettings>, TelemetrySettingsError> {
        // The specification treats an empty variable as unset.
        let var = |name: &str| {
            let value = var(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let is = |name: &str, expected: &str| {
            var(name).is_some_and(|value| value.eq_ignore_ascii_case(expected))
        };
        if is("OTEL_SDK_DISABLED", "true") {
            return Ok(None);
        }
        let traces = read_signal(&var, "TRACES", "v1/traces")?;
        let metrics = read_signal(&var, "METRICS", "v1/metrics")?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let parent = ["traceparent", "tracestate"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), var(&name.to_uppercase())?)))
            .collect();
        Ok(Some(TelemetrySettings {
            traces,
            metrics,
            include_contents: is("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
            parent,
            has_service_name: var("OTEL_SERVICE_NAME").is_some()
                || var("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| {
                    all.split(',')
                        .any(|one| one.trim().starts_with("service.name="))
                }),
        }))
    }
}

fn read_signal(
    var: &impl Fn(&str) -> Option<String>,
    name: &str,
    path: &str,
) -> Result<Option<SignalSettings>, TelemetrySettingsError> {
    if var(&format!("OTEL_{name}_EXPORTER")).is_some_and(|exporter| exporter == "none") {
        return Ok(None);
    }
    // A variable for the signal takes precedence over the one for all signals.
    let either = |rest: &str| {
        [
            format!("OTEL_EXPORTER_OTLP_{name}_{rest}"),
            format!("OTEL_EXPORTER_OTLP_{rest}"),
        ]
        .into_iter()
        .enumerate()
        .find_map(|(position, variable)| {
            let value = var(&variable)?;
            Some((position == 0, variable, value))
        })
    };
    let Some((own, variable, value)) = either("ENDPOINT") else {
        return Ok(None);
    };
    let endpoint = parse_endpoint(variable, value, (!own).then_some(path))?;
    let protocol = match either("PROTOCOL") {
        None => OtlpProtocol::Protobuf,
        Some((_, variable, value)) => match value.as_str() {
            "http/protobuf" => OtlpProtocol::Protobuf,
            "http/json" => OtlpProtocol::Json,
            "grpc" => return Err(TelemetrySettingsError::Grpc { variable }),
            _ => {
                let value = text::escape_line(&value, 40);
                return Err(TelemetrySettingsError::Protocol { variable, value });
            }
        },
    };
    let timeout = match either("TIMEOUT") {
        None => DEFAULT_TIMEOUT,
        Some((_, variable, value)) => match value.parse() {
            Ok(millis) if millis > 0 => Duration::from_millis(millis),
            _ => {
                let value = text::escape_line(&value, 40);
                return Err(TelemetrySettingsError::Timeout { variable, value });
            }
        },
    };
    Ok(Some(SignalSettings {
        endpoint,
        protocol,
        timeout,
    }))
}

/// Validates an endpoint. `path` is appended to an endpoint for all signals.
fn parse_endpoint(
    variable: String,
    value: String,
    path: Option<&str>,
) -> Result<String, TelemetrySettingsError> {
    // A password in the URL must not reach a log.
    let shown = || text::escape_line(&mask_text(&value), 200);
    let uri: Option<Uri> = value.parse().ok();
    match uri.as_ref().and_then(Uri::scheme_str) {
        Some("http") => {}
        Some("https") => {
            let value = shown();
            return Err(TelemetrySettingsError::Tls { variable, value });
        }
        _ => {
            let value = shown();
            return Err(TelemetrySettingsError::Endpoint { variable, value });
        }
    }
    Ok(match path {
        Some(path) => {
            let (base, query) = value.split_at(value.find('?').unwrap_or(value.len()));
            format!("{}/{path}{query}", base.trim_end_matches('/'))
        }
        None => value,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// `variables` has one `NAME=value` per line.
    fn check(variables: &str, expected: Expect) {
        let var = |name: &str| {
            variables.lines().find_map(|line| {
                let (known, value) = line.trim().split_once('=')?;
                (known == name).then(|| value.to_owned())
            })
        };
        let shown = match TelemetrySettings::read(var) {
            Err(error) => error.to_string(),
            Ok(None) => "off".to_owned(),
            Ok(Some(settings)) => {
                let signal = |name: &str, signal: &Option<SignalSettings>| match signal {
                    None => format!("{name}: off\n"),
                    Some(signal) => format!(
                        "{name}: {:?} to {} within {:?}\n",
                        signal.protocol, signal.endpoint, signal.timeout
                    ),
                };
                format!(
                    "{}{}contents: {}, named: {}, parent: {:?}",
                    signal("traces", &settings.traces),
                    signal("metrics", &settings.metrics),
                    settings.include_contents,
                    settings.has_service_name,
                    settings.parent,
                )
            }
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn telemetry_is_disabled_without_an_endpoint() {
        check("", expect!["off"]);
        check("OTEL_EXPORTER_OTLP_ENDPOINT=", expect!["off"]);
        check("OTEL_EXPORTER_OTLP_PROTOCOL=grpc", expect!["off"]);
        check(
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318
             OTEL_SDK_DISABLED=TRUE",
            expect!["off"],
        );
        check(
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318
             OTEL_TRACES_EXPORTER=none
             OTEL_METRICS_EXPORTER=none",
            expect!["off"],
        );
    }

    #[test]
    fn an_endpoint_applies_to_all_signals_unless_overridden() {
        check(
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318/
             OTEL_SERVICE_NAME=agent
             OTEL_SDK_DISABLED=false",
            expect![[r#"
                traces: Protobuf to http://localhost:4318/v1/traces within 10s
                metrics: Protobuf to http://localhost:4318/v1/metrics within 10s
                contents: false, named: true, parent: []"#]],
        );
        check(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://traces:4318/as/it/is
             OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=250
             OTEL_EXPORTER_OTLP_TIMEOUT=500
             OTEL_EXPORTER_OTLP_PROTOCOL=http/json
             OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true
             TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            expect![[r#"
                traces: Json to http://traces:4318/as/it/is within 250ms
                metrics: off
                contents: true, named: false, parent: [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]"#]],
        );
        check(
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318/x/?token=a/
             OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/json
             OTEL_RESOURCE_ATTRIBUTES=a=b, service.name=agent
             OTEL_TRACES_EXPORTER=none",
            expect![[r#"
                traces: off
                metrics: Json to http://localhost:4318/x/v1/metrics?token=a/ within 10s
                contents: false, named: true, parent: []"#]],
        );
    }

    #[test]
    fn unsupported_values_are_errors_with_a_remedy() {
        let with =
            |line: &str| format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318\n{line}");
        check(
            &with("OTEL_EXPORTER_OTLP_PROTOCOL=grpc"),
            expect![
                "OTEL_EXPORTER_OTLP_PROTOCOL: `grpc` is not supported; use `http/protobuf` or `http/json` with the collector's HTTP port (usually 4318)"
            ],
        );
        check(
            &with("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=carrier\u{7}pigeon"),
            expect![[
                r#"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: unknown protocol `carrier\u{7}pigeon`; use `http/protobuf` or `http/json`"#
            ]],
        );
        check(
            &with("OTEL_EXPORTER_OTLP_TIMEOUT=5s"),
            expect![
                "OTEL_EXPORTER_OTLP_TIMEOUT: `5s` is not a duration in milliseconds such as 10000"
            ],
        );
        check(
            "OTEL_EXPORTER_OTLP_ENDPOINT=https://me:hunter2@collector.example",
            expect![
                "OTEL_EXPORTER_OTLP_ENDPOINT: `https://me:***@collector.example` requires TLS, which is not supported; use an http:// collector on this machine or network that forwards over TLS"
            ],
        );
        check(
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=localhost:4318",
            expect![
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `localhost:4318` is not an endpoint such as http://localhost:4318"
            ],
        );
    }
}
