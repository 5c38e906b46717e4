//! Inspection of JSON-RPC messages before parsing.
//!
//! A parsed value takes up to a hundred times the memory of its text, so a text is measured before it is parsed. If a
//! message is too long or invalid, the request that it answers can usually be identified from its beginning or end, so
//! that the waiting caller fails immediately.

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

const MAX_VALUES: usize = 200_000;
const MAX_DEPTH: usize = 64;

/// Error codes that this crate substitutes for an unusable response. They lie outside the ranges that the protocol
/// assigns.
pub(crate) const TOO_LARGE: ErrorCode = ErrorCode(-32_890);
pub(crate) const MALFORMED: ErrorCode = ErrorCode(-32_891);

/// Number of values and nesting depth of a JSON text. For invalid JSON the numbers are meaningless but still bounded by
/// the text's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonSize {
    pub(crate) values: usize,
    pub(crate) depth: usize,
}

impl JsonSize {
    pub(crate) fn of(text: &[u8]) -> Self {
        let (mut values, mut depth, mut max_depth) = (1, 0usize, 0);
        let (mut in_string, mut escaped) = (false, false);
        for &byte in text {
            if in_string {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => in_string = true,
                b'{' | b'[' => {
                    depth += 1;
                    values += 1;
                    max_depth = max_depth.max(depth);
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => values += 1,
                _ => {}
            }
        }
        Self { values, depth: max_depth }
    }

    pub(crate) fn is_within_limits(self) -> bool {
        self.values <= MAX_VALUES && self.depth <= MAX_DEPTH
    }
}

/// Returns the numeric member `id` at the top level of an object whose text begins with `head`.
pub(crate) fn id_in_head(head: &[u8]) -> Option<i64> {
    let mut depth = 0usize;
    let mut at = 0;
    while at < head.len() {
        match head[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = end_of_string(head, at + 1)?;
                let key = &head[at + 1..end];
                at = end;
                if depth == 1 && key == b"id" {
                    let rest = head[end + 1..].trim_ascii_start();
                    if let Some(rest) = rest.strip_prefix(b":") {
                        return parse_complete_number(rest, false);
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the numeric member `id` if it is the last member of the object whose text ends with `tail`.
pub(crate) fn id_in_tail(tail: &[u8]) -> Option<i64> {
    const KEY: &[u8] = b"\"id\"";
    let tail = tail.trim_ascii_end().strip_suffix(b"}")?;
    let start = tail.windows(KEY.len()).rposition(|window| window == KEY)?;
    let rest = tail[start + KEY.len()..].trim_ascii_start().strip_prefix(b":")?;
    parse_complete_number(rest, true)
}

fn end_of_string(text: &[u8], from: usize) -> Option<usize> {
    let mut escaped = false;
    for (offset, &byte) in text[from..].iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(from + offset),
            _ => {}
        }
    }
    None
}

/// Parses the digits at the start of `text`. They must be followed by another character or, with `to_the_end`, by
/// nothing: truncated digits would identify another request.
fn parse_complete_number(text: &[u8], to_the_end: bool) -> Option<i64> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &text[digits..];
    let rest = if to_the_end { rest.strip_prefix(b"\"").unwrap_or(rest) } else { rest };
    if digits == 0 || to_the_end != rest.is_empty() {
        return None;
    }
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// Result of parsing a text.
#[derive(Debug)]
pub(crate) enum Parsed {
    Messages(Vec<ServerJsonRpcMessage>),
    /// Message that cannot be used, with the id of the request that it answers, if known.
    Invalid {
        id: Option<i64>,
        too_large: bool,
    },
    /// Not JSON, usually a log line.
    NotJson,
}

/// Parses one text: a message, or a batch of them as in protocol version 2025-03-26.
pub(crate) fn parse(text: &[u8]) -> Parsed {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text).trim_ascii();
    match text.first() {
        Some(b'{') => {}
        Some(b'[') => return parse_batch(text),
        _ => return Parsed::NotJson,
    }
    let id = || id_in_head(text).or_else(|| id_in_tail(text));
    if !JsonSize::of(text).is_within_limits() {
        return Parsed::Invalid { id: id(), too_large: true };
    }
    match serde_json::from_slice::<ServerJsonRpcMessage>(text) {
        Ok(message) => Parsed::Messages(vec![message]),
        Err(_) => Parsed::Invalid { id: id(), too_large: false },
    }
}

const MAX_BATCH: usize = 64;

fn parse_batch(text: &[u8]) -> Parsed {
    if !JsonSize::of(text).is_within_limits() {
        return Parsed::Invalid { id: None, too_large: true };
    }
    // Log lines may begin with a bracket too.
    let Ok(Value::Array(items)) = serde_json::from_slice(text) else { return Parsed::NotJson };
    let messages: Vec<ServerJsonRpcMessage> =
        items.into_iter().take(MAX_BATCH).filter_map(|item| serde_json::from_value(item).ok()).collect();
    if messages.is_empty() { Parsed::NotJson } else { Parsed::Messages(messages) }
}

/// Creates an error that replaces the response to request `id`.
pub(crate) fn substitute_error(id: i64, too_large: bool) -> ServerJsonRpcMessage {
    let (code, text) = if too_large {
        (TOO_LARGE, "the answer is too large")
    } else {
        (MALFORMED, "the answer is not valid JSON-RPC")
    };
    ServerJsonRpcMessage::error(ErrorData::new(code, text, None), Some(RequestId::Number(id)))
}

/// Returns the number of a request id of this client; some servers answer with it as a string.
pub(crate) fn numeric_id(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::arbitrary_json;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn id_is_found_at_either_end() {
        assert_eq!(id_in_head(br#"{"jsonrpc":"2.0","id":17,"result":{"id":3}"#), Some(17));
        assert_eq!(id_in_head(br#"{ "jsonrpc" : "2.0" , "id" : "17" , "result""#), Some(17));
        assert_eq!(id_in_head(br#"{"result":{"id":3},"jsonrpc":"2.0","id":4}"#), Some(4));
        assert_eq!(id_in_head(br#"{"result":{"id":3,"more"#), None);
        assert_eq!(id_in_tail(br#"more"}]},"jsonrpc":"2.0","id":40}"#), Some(40));
        assert_eq!(id_in_tail(br#"more"}]},"jsonrpc":"2.0","id":"40" } "#), Some(40));
        assert_eq!(id_in_tail(br#"{"id":40,"result":{}}"#), None);
    }

    #[test]
    fn truncated_number_is_not_an_id() {
        assert_eq!(id_in_head(br#"{"id":1"#), None);
        assert_eq!(id_in_head(br#"{"id":"#), None);
    }

    #[test]
    fn size_counts_values_and_depth() {
        assert_eq!(JsonSize::of(br#"{"a":[1,2,"],[\"{"]}"#), JsonSize { values: 5, depth: 2 });
        assert!(!JsonSize::of("[".repeat(100).as_bytes()).is_within_limits());
        assert!(!JsonSize::of(format!("[{}0]", "0,".repeat(300_000)).as_bytes()).is_within_limits());
    }

    #[test]
    fn messages_are_distinguished_from_other_output() {
        assert!(matches!(parse(b"[2026-01-01] server started"), Parsed::NotJson));
        assert!(matches!(parse(b"Listening on stdio"), Parsed::NotJson));
        assert!(matches!(parse(b""), Parsed::NotJson));
        assert!(matches!(parse(br#"{"jsonrpc":"2.0","id":3,"result":"#), Parsed::Invalid { id: Some(3), .. }));
        assert!(matches!(parse(br#"{"level":"info"}"#), Parsed::Invalid { id: None, too_large: false }));
        let batch = br#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]"#;
        assert!(matches!(parse(batch), Parsed::Messages(messages) if messages.len() == 2));
    }

    fn count(value: &Value) -> (usize, usize) {
        let children: Vec<_> = match value {
            Value::Array(items) => items.iter().map(count).collect(),
            Value::Object(members) => members.values().map(count).collect(),
            _ => return (1, 0),
        };
        let depth = children.iter().map(|(_, depth)| *depth).max().unwrap_or(0) + 1;
        (children.iter().map(|(values, _)| *values).sum::<usize>() + 1, depth)
    }

    proptest! {
        #[test]
        fn size_counts_every_value(value in arbitrary_json()) {
            let shape = JsonSize::of(value.to_string().as_bytes());
            let (values, depth) = count(&value);
            prop_assert_eq!(shape.depth, depth);
            prop_assert!(shape.values >= values && shape.values <= values + values + 1);
        }

        #[test]
        fn id_is_found_after_any_result(id in 0i64..1_000_000, result in arbitrary_json()) {
            let first = json!({ "jsonrpc": "2.0", "id": id }).to_string();
            let first = format!("{},\"result\":{result}}}", first.trim_end_matches('}'));
            prop_assert_eq!(id_in_head(first.as_bytes()), Some(id));
            let last = format!("{{\"result\":{result},\"jsonrpc\":\"2.0\",\"id\":{id}}}");
            prop_assert_eq!(id_in_tail(last.as_bytes()), Some(id));
            prop_assert_eq!(id_in_head(last.as_bytes()), Some(id));
        }

        #[test]
        fn parsing_never_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (JsonSize::of(&text), id_in_head(&text), id_in_tail(&text), parse(&text));
        }

        #[test]
        fn truncated_head_never_yields_another_id(id in 0i64..1_000_000, cut in 0usize..40) {
            let text = json!({ "id": id, "jsonrpc": "2.0", "result": {} }).to_string();
            let found = id_in_head(&text.as_bytes()[..cut.min(text.len())]);
            prop_assert!(found.is_none() || found == Some(id));
        }
    }
}
