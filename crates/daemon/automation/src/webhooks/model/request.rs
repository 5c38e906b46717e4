//! Stored requests: selection of headers and interpretation of bodies.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A stored request.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRequest {
    /// Headers by lowercase name, without credentials. Values of a repeated header are joined with commas.
    pub headers: Map<String, Value>,
    pub body: Vec<u8>,
}

impl StoredRequest {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }
}

/// Representation of a request body: `json` (a JSON value), `text` or `base64` (binary data).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BodyFormat {
    /// JSON value.
    Json,
    Text,
    /// Base64 of binary data.
    Base64,
}

/// Name parts of headers that carry credentials or signatures.
const CREDENTIAL_PARTS: [&str; 7] = ["authorization", "cookie", "signature", "token", "secret", "api-key", "password"];

/// Whether a header is stored. Credentials and signatures are not, because they are not needed after verification.
pub(crate) fn is_stored_header(name: &str) -> bool {
    !CREDENTIAL_PARTS.iter().any(|part| name.contains(part))
}

/// Maximum nesting depth of JSON; deeper bodies are treated as text. An event nests the body further and must remain
/// parseable.
const MAX_JSON_DEPTH: usize = 64;

/// Parses a body as JSON, text or base64, in this order. Without a JSON content type, only objects and arrays are
/// parsed as JSON.
pub(crate) fn read_body(content_type: Option<&str>, bytes: &[u8]) -> (BodyFormat, Value) {
    let essence = content_type.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase();
    let is_declared_json = essence == "application/json" || essence.ends_with("+json");
    if let Ok(value) = serde_json::from_slice::<Value>(bytes)
        && (is_declared_json || value.is_object() || value.is_array())
        && depth(&value) <= MAX_JSON_DEPTH
    {
        return (BodyFormat::Json, value);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => (BodyFormat::Text, Value::from(text)),
        Err(_) => (BodyFormat::Base64, Value::from(STANDARD.encode(bytes))),
    }
}

/// Returns the nesting depth of a value. The parser bounds the depth, so the recursion is bounded.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_are_parsed_by_content() {
        let read = |content_type: Option<&str>, body: &[u8]| read_body(content_type, body);
        assert_eq!(read(Some("application/json; charset=utf-8"), b"{\"a\":1}"), (BodyFormat::Json, json!({"a": 1})));
        assert_eq!(read(Some("application/vnd.api+json"), b"7"), (BodyFormat::Json, json!(7)));
        assert_eq!(read(None, b"[1]"), (BodyFormat::Json, json!([1])));
        assert_eq!(read(None, b"7"), (BodyFormat::Text, json!("7")));
        assert_eq!(read(Some("application/json"), b"{"), (BodyFormat::Text, json!("{")));
        assert_eq!(read(Some("application/json"), b""), (BodyFormat::Text, json!("")));
        assert_eq!(read(Some("text/plain"), "a\0ä".as_bytes()), (BodyFormat::Text, json!("a\0ä")));
        assert_eq!(read(Some("image/png"), &[0x89, 0x50]), (BodyFormat::Base64, json!("iVA=")));
        let deep = "[".repeat(10_000);
        assert_eq!(read(Some("application/json"), deep.as_bytes()).0, BodyFormat::Text);
        for (depth, format) in [(64, BodyFormat::Json), (65, BodyFormat::Text), (127, BodyFormat::Text)] {
            let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(read(None, nested.as_bytes()).0, format, "{depth}");
        }
    }

    #[test]
    fn credential_headers_are_not_stored() {
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "set-cookie",
            "x-svc-signature",
            "webhook-signature",
            "x-hub-signature-256",
            "x-gitlab-token",
            "x-api-key",
        ] {
            assert!(!is_stored_header(name), "{name}");
        }
        for name in ["content-type", "user-agent", "webhook-id", "webhook-timestamp", "x-github-event"] {
            assert!(is_stored_header(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bodies_never_panic(body in prop::collection::vec(any::<u8>(), 0..200), content_type in ".{0,40}") {
            let (format, value) = read_body(Some(&content_type), &body);
            if format == BodyFormat::Base64 {
                prop_assert_eq!(STANDARD.decode(value.as_str().unwrap()).unwrap(), body);
            }
        }
    }
}
