//! Spans for a collector: OTLP over HTTP in its JSON form (<https://opentelemetry.io/docs/specs/otlp/>).
//!
//! Invariants
//! - Whoever records a span waits for nothing and never fails: it goes into a bounded queue, or is dropped and counted.
//! - A collector that is slow, hangs or is away costs spans alone.
//! - A tracer that is off makes no span: what makes one is a closure that is not called.
//! - The credentials of the collector stand in its requests and nowhere else.
//!
//! Deliberately absent: metrics and logs over OTLP, gRPC and the binary form, sampling of our own (whoever begins a
//! trace decides), and what the spans of the daemon say.

mod delivery;
mod encoding;
mod export;
mod options;
mod span;
mod tracer;

pub use options::{Collector, parse_collector};
pub use span::{Attribute, Span, SpanKind};
pub use tracer::{SpanCounts, Tracer};
