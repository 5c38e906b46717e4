//! Traces, metrics and logs for a collector: OTLP over HTTP in binary form
//! (<https://opentelemetry.io/docs/specs/otlp/>), based on the OpenTelemetry SDK.
//!
//! Invariants
//! - Recording never blocks and never fails: an item is queued, limited by number and by bytes, or dropped and counted.
//! - A slow, unresponsive or unavailable collector affects only telemetry.
//! - A disabled signal costs one branch: the closure that builds a span is not called.
//! - Every request uses [`agentd_net::GuardedClient`]. The collector's credentials are only part of its requests.
//! - Exports run in tasks of the daemon's runtime; no thread is started.
//!
//! Deliberately absent: gRPC and a sampler. The `traceparent` of a request decides whether its trace is recorded; a
//! trace that starts here is always recorded.

mod batch;
mod config;
mod delivery;
mod export;
mod logs;
mod metrics;
mod options;
mod spans;

pub use batch::ItemCounts;
pub use config::{DaemonOptions, TelemetryConfig};
pub use logs::LogRecords;
pub use metrics::{Histogram, Meter, MetricFamily, MetricPoint};
pub use opentelemetry::KeyValue;
pub use opentelemetry::trace::SpanKind;
pub use opentelemetry_sdk::Resource;
pub use options::Variables;
pub use spans::{Span, Tracer, number, text_list};
