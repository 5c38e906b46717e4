//! `ExportTraceServiceRequest` as JSON: ids in hex, 64-bit integers as text, enumerations as numbers.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::span::{Attribute, Span, SpanKind};

/// Of `Status.code`.
const STATUS_ERROR: u8 = 2;
const SCOPE: &str = "agentd";

/// Everything that a batch says.
pub(crate) fn encode(resource: &[(&'static str, Attribute)], spans: &[Span]) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Request { resource_spans: [ResourceSpans { resource, spans }] })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'s> {
    resource_spans: [ResourceSpans<'s>; 1],
}

struct ResourceSpans<'s> {
    resource: &'s [(&'static str, Attribute)],
    spans: &'s [Span],
}

impl Serialize for ResourceSpans<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Resource<'s> {
            attributes: Attributes<'s>,
        }
        #[derive(Serialize)]
        struct Scope {
            name: &'static str,
            version: &'static str,
        }
        #[derive(Serialize)]
        struct ScopeSpans<'s> {
            scope: Scope,
            spans: Spans<'s>,
        }
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("resource", &Resource { attributes: Attributes(self.resource) })?;
        let scope = Scope { name: SCOPE, version: env!("CARGO_PKG_VERSION") };
        map.serialize_entry("scopeSpans", &[ScopeSpans { scope, spans: Spans(self.spans) }])?;
        map.end()
    }
}

struct Spans<'s>(&'s [Span]);

impl Serialize for Spans<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Wire))
    }
}

struct Wire<'s>(&'s Span);

#[derive(Serialize)]
struct Status<'s> {
    code: u8,
    message: &'s str,
}

impl Serialize for Wire<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let span = self.0;
        let nanoseconds = |micros: i64| u64::try_from(micros).unwrap_or(0).saturating_mul(1_000).to_string();
        let start = span.started_at.as_micros();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("traceId", &span.place.trace_id.to_string())?;
        map.serialize_entry("spanId", &span.place.span_id.to_string())?;
        if let Some(parent) = span.parent {
            map.serialize_entry("parentSpanId", &parent.to_string())?;
        }
        map.serialize_entry("flags", &u32::from(span.place.is_sampled))?;
        map.serialize_entry("name", &span.name)?;
        let kind: u8 = match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        };
        map.serialize_entry("kind", &kind)?;
        map.serialize_entry("startTimeUnixNano", &nanoseconds(start))?;
        // The machine's clock may have gone back meanwhile.
        map.serialize_entry("endTimeUnixNano", &nanoseconds(span.ended_at.as_micros().max(start)))?;
        map.serialize_entry("attributes", &Attributes(&span.attributes))?;
        if let Some(message) = &span.error {
            map.serialize_entry("status", &Status { code: STATUS_ERROR, message })?;
        }
        map.end()
    }
}

struct Attributes<'s>(&'s [(&'static str, Attribute)]);

impl Serialize for Attributes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct KeyValue<'s> {
            key: &'static str,
            value: AnyValue<'s>,
        }
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for (key, value) in self.0 {
            list.serialize_element(&KeyValue { key, value: AnyValue::of(value) })?;
        }
        list.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::enum_variant_names, reason = "the format has these names")]
enum AnyValue<'s> {
    StringValue(&'s str),
    /// 64 bits, so it is text.
    IntValue(String),
    DoubleValue(f64),
    ArrayValue {
        values: Vec<AnyValue<'s>>,
    },
}

impl<'s> AnyValue<'s> {
    fn of(attribute: &'s Attribute) -> Self {
        match attribute {
            Attribute::Text(text) => Self::StringValue(text),
            // The type on the wire is signed.
            Attribute::Number(number) => Self::IntValue(i64::try_from(*number).unwrap_or(i64::MAX).to_string()),
            Attribute::Float(number) => Self::DoubleValue(*number),
            Attribute::List(texts) => {
                Self::ArrayValue { values: texts.iter().map(|text| Self::StringValue(text)).collect() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_base::Timestamp;
    use agentd_base::trace::{SpanId, TraceContext};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_batch_has_the_form_that_collectors_read() {
        let place = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        let span = Span {
            place,
            parent: SpanId::parse("00000000000000ff"),
            name: "chat m".to_owned(),
            kind: SpanKind::Client,
            started_at: Timestamp::from_micros(1_700_000_000_000_001),
            ended_at: Timestamp::from_micros(1_700_000_000_500_000),
            attributes: vec![
                ("gen_ai.request.model", "m".into()),
                ("gen_ai.usage.input_tokens", 7_u64.into()),
                ("gen_ai.request.temperature", Attribute::Float(0.5)),
                ("gen_ai.response.finish_reasons", Attribute::List(vec!["stop".to_owned()])),
            ],
            error: Some("it was too slow".to_owned()),
        };
        let encoded = encode(&[("service.name", "agentd".into())], &[span]).unwrap();
        let read: Value = serde_json::from_slice(&encoded).unwrap();
        let expected = json!({"resourceSpans": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "agentd"}}]},
            "scopeSpans": [{
                "scope": {"name": "agentd", "version": env!("CARGO_PKG_VERSION")},
                "spans": [{
                    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
                    "spanId": "00f067aa0ba902b7",
                    "parentSpanId": "00000000000000ff",
                    "flags": 1,
                    "name": "chat m",
                    "kind": 3,
                    "startTimeUnixNano": "1700000000000001000",
                    "endTimeUnixNano": "1700000000500000000",
                    "attributes": [
                        {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
                        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
                        {"key": "gen_ai.request.temperature", "value": {"doubleValue": 0.5}},
                        {"key": "gen_ai.response.finish_reasons",
                         "value": {"arrayValue": {"values": [{"stringValue": "stop"}]}}},
                    ],
                    "status": {"code": 2, "message": "it was too slow"},
                }],
            }],
        }]});
        assert_eq!(read, expected);
    }

    #[test]
    fn a_span_does_not_end_before_it_begins() {
        let place = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00").unwrap();
        let span = Span {
            place,
            parent: None,
            name: String::new(),
            kind: SpanKind::Internal,
            started_at: Timestamp::from_micros(5),
            ended_at: Timestamp::from_micros(-3),
            attributes: Vec::new(),
            error: None,
        };
        let read: Value = serde_json::from_slice(&encode(&[], &[span]).unwrap()).unwrap();
        let span = &read["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!((&span["startTimeUnixNano"], &span["endTimeUnixNano"]), (&json!("5000"), &json!("5000")));
        assert!(span.get("parentSpanId").is_none() && span.get("status").is_none(), "{span}");
    }
}
