//! Telemetry destinations, from the daemon's own configuration and the standard `OTEL_*` variables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_base::Secret;
use http::HeaderMap;
use opentelemetry::KeyValue;
use opentelemetry_otlp::Compression;
use opentelemetry_sdk::Resource;
use url::Url;

use crate::batch::BatchLimits;
use crate::options::{Variables, milliseconds, number, parse_address, parse_attributes, parse_headers};

const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 100..=60_000;
const DEFAULT_METRIC_INTERVAL: Duration = Duration::from_secs(60);
const METRIC_INTERVAL_MS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;
const DEFAULT_SCHEDULE_DELAY: Duration = Duration::from_secs(1);
const SCHEDULE_DELAY_MS: std::ops::RangeInclusive<u64> = 10..=60_000;
const DEFAULT_QUEUE_ITEMS: u64 = 2_048;
const MAX_QUEUE_ITEMS: u64 = 65_536;
const DEFAULT_BATCH_ITEMS: u64 = 512;
const SERVICE_NAME: &str = "service.name";

/// Kind of telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    /// Returns the part of the variable names that identifies the signal.
    fn variable(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        }
    }

    /// Returns the path below the collector's base URL.
    fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
            Self::Logs => "v1/logs",
        }
    }

    /// Returns the name of the items in log messages.
    pub(crate) fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "metrics",
            Self::Logs => "log records",
        }
    }
}

/// Collector of one signal.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    pub(crate) signal: Signal,
    pub(crate) url: Url,
    /// Values are marked as sensitive, so `Debug` does not show them.
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) compression: Option<Compression>,
}

/// Values of the daemon's own configuration, which override the `OTEL_*` variables for all signals.
#[derive(Debug, Default)]
pub struct DaemonOptions<'a> {
    /// Value of `SVC_OTLP_ENDPOINT`. Enables only traces if set alone.
    pub endpoint: Option<&'a str>,
    /// Value of `SVC_OTLP_HEADERS`.
    pub headers: Option<&'a Secret>,
    /// Whether spans include the content of messages and of tool calls.
    pub includes_content: bool,
}

/// Valid configuration with at least one enabled signal.
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    pub(crate) traces: Option<Destination>,
    pub(crate) metrics: Option<Destination>,
    pub(crate) logs: Option<Destination>,
    pub(crate) includes_content: bool,
    pub(crate) span_batches: BatchLimits,
    pub(crate) log_batches: BatchLimits,
    pub(crate) metric_interval: Duration,
    attributes: BTreeMap<String, String>,
}

impl TelemetryConfig {
    /// Merges both sources; returns `None` if every signal is disabled.
    ///
    /// # Errors
    /// A message for each invalid value, with the name of its variable and without header values.
    pub fn parse(options: &DaemonOptions<'_>, variables: &Variables) -> Result<Option<Self>, Vec<String>> {
        let mut problems = Vec::new();
        if switch(variables, "OTEL_SDK_DISABLED", &mut problems) {
            return Ok(None);
        }
        let mut read = |signal| destination(signal, options, variables, &mut problems);
        let (traces, metrics, logs) = (read(Signal::Traces), read(Signal::Metrics), read(Signal::Logs));
        if problems.is_empty() && traces.is_none() && metrics.is_none() && logs.is_none() {
            return Ok(None);
        }
        let mut attributes = variables.get("OTEL_RESOURCE_ATTRIBUTES").map_or_else(BTreeMap::new, |text| {
            parse_attributes(text).unwrap_or_else(|problem| {
                problems.push(format!("OTEL_RESOURCE_ATTRIBUTES: {problem}"));
                BTreeMap::new()
            })
        });
        if let Some(name) = variables.get("OTEL_SERVICE_NAME") {
            attributes.insert(SERVICE_NAME.to_owned(), name.to_owned());
        }
        let config = Self {
            traces,
            metrics,
            logs,
            includes_content: options.includes_content,
            span_batches: batches("BSP", variables, &mut problems),
            log_batches: batches("BLRP", variables, &mut problems),
            metric_interval: milliseconds(
                variables,
                "OTEL_METRIC_EXPORT_INTERVAL",
                METRIC_INTERVAL_MS,
                DEFAULT_METRIC_INTERVAL,
                &mut problems,
            ),
            attributes,
        };
        if problems.is_empty() { Ok(Some(config)) } else { Err(unique(problems)) }
    }

    /// Describes which signals are exported and where to, without paths and credentials.
    #[must_use]
    pub fn describe(&self) -> String {
        let signals = [("traces", &self.traces), ("metrics", &self.metrics), ("logs", &self.logs)];
        let exported = signals.iter().filter_map(|(name, destination)| {
            Some(format!("{name} to {}", destination.as_ref()?.url.origin().ascii_serialization()))
        });
        exported.collect::<Vec<_>>().join(", ")
    }

    /// Returns the telemetry resource: this program, its version, and `instance`, which identifies the process.
    #[must_use]
    pub fn resource(&self, instance: &str) -> Resource {
        let own = [
            (SERVICE_NAME, "agentd"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", instance),
        ];
        let own = own.map(|(key, value)| KeyValue::new(key, value.to_owned()));
        let named = self.attributes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        Resource::builder_empty().with_attributes(own.into_iter().chain(named)).build()
    }
}

/// Removes duplicates: a variable for all signals is read once per signal.
fn unique(problems: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    problems.into_iter().filter(|problem| seen.insert(problem.clone())).collect()
}

/// Returns the collector of a signal; `None` if the signal is disabled.
fn destination(
    signal: Signal,
    options: &DaemonOptions<'_>,
    variables: &Variables,
    problems: &mut Vec<String>,
) -> Option<Destination> {
    let own_variable = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.variable());
    let own = variables.get(&own_variable);
    let shared = variables.get("OTEL_EXPORTER_OTLP_ENDPOINT");
    let is_default = own.or(shared).is_some() || (options.endpoint.is_some() && signal == Signal::Traces);
    let switch = format!("OTEL_{}_EXPORTER", signal.variable());
    match variables.get(&switch) {
        None if is_default => {}
        None | Some("none") => return None,
        Some("otlp") => {}
        Some(other) => {
            problems.push(format!("{switch} is `{other}`; use otlp or none"));
            return None;
        }
    }
    let (name, text) = match (own, options.endpoint, shared) {
        (Some(own), ..) => (own_variable.as_str(), own),
        (None, Some(endpoint), _) => ("SVC_OTLP_ENDPOINT", endpoint),
        (None, None, shared) => ("OTEL_EXPORTER_OTLP_ENDPOINT", shared.unwrap_or(DEFAULT_ENDPOINT)),
    };
    let mut url = parse_address(text);
    if url.is_none() {
        problems.push(format!(
            "{name} must be the address of a collector such as {DEFAULT_ENDPOINT}, without credentials, query and \
             fragment; a key belongs in SVC_OTLP_HEADERS"
        ));
    }
    if own.is_none()
        && let Some(url) = &mut url
    {
        append_path(url, signal);
    }
    let headers = headers(signal, options, variables, problems);
    if let Some((name, protocol)) = variables.for_signal(signal.variable(), "PROTOCOL")
        && !protocol.eq_ignore_ascii_case("http/protobuf")
    {
        problems.push(format!("{name} is `{protocol}`; only http/protobuf is supported"));
    }
    let compression = match variables.for_signal(signal.variable(), "COMPRESSION") {
        Some((_, text)) if text.eq_ignore_ascii_case("gzip") => Some(Compression::Gzip),
        Some((name, text)) if !text.eq_ignore_ascii_case("none") => {
            problems.push(format!("{name} is `{text}`; use gzip or none"));
            None
        }
        _ => None,
    };
    let timeout = variables
        .for_signal(signal.variable(), "TIMEOUT")
        .map_or(DEFAULT_TIMEOUT, |(name, _)| milliseconds(variables, &name, TIMEOUT_MS, DEFAULT_TIMEOUT, problems));
    Some(Destination { signal, url: url?, headers, timeout, compression })
}

/// Appends the path of the signal to the base URL of a collector. A URL that ends with the path of traces denotes the
/// same collector.
fn append_path(url: &mut Url, signal: Signal) {
    let base = url.path().trim_end_matches('/');
    let base = base.strip_suffix(Signal::Traces.path()).filter(|rest| rest.ends_with('/')).unwrap_or(base);
    let path = format!("{}/{}", base.trim_end_matches('/'), signal.path());
    url.set_path(&path);
}

/// Returns the headers of a signal: its own variable, the daemon's own option, or the variable for all signals.
fn headers(
    signal: Signal,
    options: &DaemonOptions<'_>,
    variables: &Variables,
    problems: &mut Vec<String>,
) -> HeaderMap {
    let own = format!("OTEL_EXPORTER_OTLP_{}_HEADERS", signal.variable());
    let (name, text) = match (variables.get(&own), options.headers) {
        (Some(text), _) => (own.as_str(), text),
        (None, Some(headers)) => ("SVC_OTLP_HEADERS", headers.expose()),
        (None, None) => {
            let name = "OTEL_EXPORTER_OTLP_HEADERS";
            (name, variables.get(name).unwrap_or_default())
        }
    };
    parse_headers(text).unwrap_or_else(|problem| {
        problems.push(format!("{name}: {problem}"));
        HeaderMap::new()
    })
}

/// Returns the batch limits of a signal; `processor` is the part of the variable names that identifies it.
fn batches(processor: &str, variables: &Variables, problems: &mut Vec<String>) -> BatchLimits {
    let name = |suffix: &str| format!("OTEL_{processor}_{suffix}");
    let queue = number(variables, &name("MAX_QUEUE_SIZE"), 1..=MAX_QUEUE_ITEMS, DEFAULT_QUEUE_ITEMS, problems);
    let most = DEFAULT_BATCH_ITEMS.min(queue);
    let batch = number(variables, &name("MAX_EXPORT_BATCH_SIZE"), 1..=queue, most, problems);
    let delay = milliseconds(variables, &name("SCHEDULE_DELAY"), SCHEDULE_DELAY_MS, DEFAULT_SCHEDULE_DELAY, problems);
    let size = |items: u64| usize::try_from(items).unwrap_or(usize::MAX);
    BatchLimits { queue_items: size(queue), batch_items: size(batch), delay }
}

/// Reads a boolean variable according to the OpenTelemetry specification.
fn switch(variables: &Variables, name: &str, problems: &mut Vec<String>) -> bool {
    match variables.get(name) {
        None => false,
        Some(text) if text.eq_ignore_ascii_case("false") => false,
        Some(text) if text.eq_ignore_ascii_case("true") => true,
        Some(text) => {
            problems.push(format!("{name} is `{text}`; it must be true or false"));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(
        endpoint: Option<&str>,
        headers: &str,
        variables: &[(&str, &str)],
    ) -> Result<Option<TelemetryConfig>, Vec<String>> {
        let headers = Secret::new(headers.to_owned());
        let headers = (!headers.is_empty()).then_some(&headers);
        let options = DaemonOptions { endpoint, headers, includes_content: false };
        TelemetryConfig::parse(&options, &variables.iter().copied().collect())
    }

    fn urls(config: &TelemetryConfig) -> [Option<&str>; 3] {
        [&config.traces, &config.metrics, &config.logs].map(|signal| signal.as_ref().map(|found| found.url.as_str()))
    }

    #[test]
    fn own_endpoint_enables_only_traces() {
        for (endpoint, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otel.example/otlp/", "https://otel.example/otlp/v1/traces"),
            (" https://otel.example/v1/traces ", "https://otel.example/v1/traces"),
        ] {
            let config = parse(Some(endpoint), "", &[]).unwrap().unwrap();
            assert_eq!(urls(&config), [Some(url), None, None], "{endpoint}");
        }
        let both = [("OTEL_METRICS_EXPORTER", "otlp"), ("OTEL_TRACES_EXPORTER", "none")];
        let config = parse(Some("https://otel.example/v1/traces"), "", &both).unwrap().unwrap();
        assert_eq!(urls(&config), [None, Some("https://otel.example/v1/metrics"), None]);
    }

    #[test]
    fn standard_endpoint_enables_every_signal() {
        let all = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base")];
        let config = parse(None, "", &all).unwrap().unwrap();
        assert_eq!(
            urls(&config),
            [
                Some("http://c:4318/base/v1/traces"),
                Some("http://c:4318/base/v1/metrics"),
                Some("http://c:4318/base/v1/logs")
            ]
        );
        // A variable for one signal is used as is, and the daemon's own option overrides the shared variable.
        let own = [all[0], ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://logs/in"), ("OTEL_METRICS_EXPORTER", "none")];
        let config = parse(Some("http://own"), "", &own).unwrap().unwrap();
        assert_eq!(urls(&config), [Some("http://own/v1/traces"), None, Some("http://logs/in")]);
        let named = [("OTEL_LOGS_EXPORTER", "otlp")];
        let config = parse(None, "", &named).unwrap().unwrap();
        assert_eq!(urls(&config), [None, None, Some("http://localhost:4318/v1/logs")]);
    }

    #[test]
    fn telemetry_is_disabled_by_default() {
        assert!(parse(None, "x=y", &[]).unwrap().is_none());
        assert!(parse(None, "", &[("OTEL_SERVICE_NAME", "x")]).unwrap().is_none());
        let off = [("OTEL_SDK_DISABLED", "true"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")];
        assert!(parse(Some("http://c"), "", &off).unwrap().is_none());
    }

    #[test]
    fn signal_headers_override_shared_headers() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x=shared"),
            ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "x=logs"),
        ];
        let header = |config: &TelemetryConfig| {
            [&config.traces, &config.logs]
                .map(|signal| signal.as_ref().unwrap().headers["x"].to_str().unwrap().to_owned())
        };
        assert_eq!(header(&parse(None, "", &variables).unwrap().unwrap()), ["shared", "logs"]);
        let own = parse(None, "x=s3cret", &variables).unwrap().unwrap();
        assert_eq!(header(&own), ["s3cret", "logs"]);
        assert!(!format!("{own:?}").contains("s3cret"), "{own:?}");
    }

    #[test]
    fn every_problem_is_reported_without_secrets() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "nowhere"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zip"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_LOGS_EXPORTER", "console"),
            ("OTEL_RESOURCE_ATTRIBUTES", "nothing"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "0"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1"),
        ];
        let problems = parse(Some("collector:4318"), "", &variables).unwrap_err();
        for name in ["SVC_OTLP_ENDPOINT must"].into_iter().chain(variables.iter().map(|(name, _)| *name)) {
            assert!(problems.iter().any(|problem| problem.contains(name)), "{name} in {problems:?}");
        }
        assert!(!problems.iter().any(|problem| problem.contains("s3cret")), "{problems:?}");
        let problems = parse(Some("http://c"), "s3cret", &[]).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with("SVC_OTLP_HEADERS: "), "{problems:?}");
        assert!(parse(None, "", &[("OTEL_SDK_DISABLED", "perhaps")]).is_err());
    }

    #[test]
    fn resource_names_the_service() {
        let variables = [
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=first,deployment.environment.name=the%20lab"),
            ("OTEL_SERVICE_NAME", "ada"),
        ];
        let resource = parse(Some("http://c"), "", &variables).unwrap().unwrap().resource("one");
        let read = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
        assert_eq!(read("service.name").as_deref(), Some("ada"));
        assert_eq!(read("service.instance.id").as_deref(), Some("one"));
        assert_eq!(read("deployment.environment.name").as_deref(), Some("the lab"));
    }

    #[test]
    fn batch_size_is_limited_by_the_queue_size() {
        let variables = [("OTEL_BSP_MAX_QUEUE_SIZE", "100"), ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "7")];
        let config = parse(Some("http://c"), "", &variables).unwrap().unwrap();
        assert_eq!((config.span_batches.queue_items, config.span_batches.batch_items), (100, 100));
        assert_eq!((config.log_batches.queue_items, config.log_batches.batch_items), (2_048, 7));
        assert!(parse(Some("http://c"), "", &[("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096")]).is_err());
    }
}
