//! Traces, metrics and logs for a collector: OTLP over HTTP in its binary form
//! (<https://opentelemetry.io/docs/specs/otlp/>), by the OpenTelemetry SDK.
//!
//! Invariants
//! - Recording never blocks and never fails: an item goes into a queue that is bounded by number and by bytes, or is
//!   dropped and counted.
//! - A collector that is slow, hangs or is unavailable costs telemetry alone.
//! - A signal that is off costs one branch. Spans are made by a closure that is then not called.
//! - Every request goes through [`agentd_net::GuardedClient`]. The credentials of the collector are in its requests and
//!   nowhere else.
//! - Exports run in tasks of the daemon's runtime; no thread is started.
//!
//! Deliberately absent: gRPC, and a sampler. The `traceparent` of a request decides whether its trace is recorded; a
//! trace that begins here is recorded.

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
