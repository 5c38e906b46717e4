//! What came: which headers are kept, and what shape a body has.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A request as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRequest {
    /// Lower-case names; values of a repeated one are joined by commas. Without what proves who sent it.
    pub headers: Map<String, Value>,
    pub body: Vec<u8>,
}

impl StoredRequest {
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(Value::as_str)
    }
}

/// How a body is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BodyFormat {
    /// As the value that it is.
    Json,
    Text,
    /// It is no text: as base64.
    Base64,
}

/// Parts of names of headers that carry what proves who sent a request.
const PROOFS: [&str; 7] = ["authorization", "cookie", "signature", "token", "secret", "api-key", "password"];

/// Whether a header is kept: not what proves who sent the request, since nobody needs that afterwards.
pub(crate) fn is_kept_header(name: &str) -> bool {
    !PROOFS.iter().any(|proof| name.contains(proof))
}

/// JSON that is nested deeper is shown as text: an event repeats the body within more levels, and must be readable.
const MAX_JSON_LEVELS: usize = 64;

/// The body as a value: JSON where it is some, else text, else base64. A body that does not say that it
/// is JSON is taken as such only when it is an object or a list.
pub(crate) fn read_body(content_type: Option<&str>, bytes: &[u8]) -> (BodyFormat, Value) {
    let essence = content_type.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase();
    let says_json = essence == "application/json" || essence.ends_with("+json");
    if let Ok(value) = serde_json::from_slice::<Value>(bytes)
        && (says_json || value.is_object() || value.is_array())
        && levels(&value) <= MAX_JSON_LEVELS
    {
        return (BodyFormat::Json, value);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => (BodyFormat::Text, Value::from(text)),
        Err(_) => (BodyFormat::Base64, Value::from(STANDARD.encode(bytes))),
    }
}

/// How deep lists and objects lie in each other. What was parsed is bounded, so this is too.
fn levels(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(levels).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_are_what_they_are() {
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
        for (levels, format) in [(64, BodyFormat::Json), (65, BodyFormat::Text), (127, BodyFormat::Text)] {
            let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            assert_eq!(read(None, nested.as_bytes()).0, format, "{levels}");
        }
    }

    #[test]
    fn proofs_are_not_kept() {
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
            assert!(!is_kept_header(name), "{name}");
        }
        for name in ["content-type", "user-agent", "webhook-id", "webhook-timestamp", "x-github-event"] {
            assert!(is_kept_header(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..200), content_type in ".{0,40}") {
            let (format, value) = read_body(Some(&content_type), &body);
            if format == BodyFormat::Base64 {
                prop_assert_eq!(STANDARD.decode(value.as_str().unwrap()).unwrap(), body);
            }
        }
    }
}
