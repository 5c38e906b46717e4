//! Tool results, truncated to the configured limits.

use std::borrow::Cow;

use agentd_base::visible::strip_tags_in;
use serde::Serialize;
use serde_json::{Map, Value};

use super::base64;
use crate::text::{one_line, truncate};

const MAX_ATTACHMENTS: usize = 32;
const MAX_MIME_TYPE: usize = 100;
const MAX_ADDRESS: usize = 500;

/// Non-text content of a result. The content itself is discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attachment {
    /// `image`, `audio`, `resource` or `resource_link`.
    pub kind: &'static str,
    pub mime_type: String,
    /// Decoded size in bytes; 0 for a link.
    pub bytes: usize,
    /// URI of a resource.
    pub uri: Option<String>,
}

/// Result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToolOutput {
    /// All text blocks, in order, with a line in brackets in place of each attachment.
    pub text: String,
    pub structured: Option<Value>,
    /// Whether the tool reported a failure; `text` contains the reason.
    pub is_error: bool,
    pub attachments: Vec<Attachment>,
    /// Original size of the text in bytes, if it was truncated.
    pub text_cut_from_bytes: Option<usize>,
    /// Whether the structured content exceeded the limit and was dropped.
    pub structured_left_out: bool,
}

/// Parses a tool result.
///
/// # Errors
/// Returns a message if this is not a valid tool result.
pub(crate) fn read_output(mut result: Value, max_bytes: usize) -> Result<ToolOutput, String> {
    strip_tags_in(&mut result);
    let Value::Object(mut result) = result else { return Err("it is not a JSON object".to_owned()) };
    let content = result.remove("content").filter(|content| !content.is_null());
    let mut structured = result.remove("structuredContent").filter(|structured| !structured.is_null());
    let blocks = match content {
        Some(Value::Array(blocks)) => blocks,
        // Some servers omit the list around a single block.
        Some(block @ (Value::String(_) | Value::Object(_))) => vec![block],
        Some(_) => return Err("its content is not a list".to_owned()),
        None if structured.is_none() => return Err("it has no content".to_owned()),
        None => Vec::new(),
    };
    let mut output = ToolOutput {
        is_error: result.get("isError").and_then(Value::as_bool).unwrap_or(false),
        ..ToolOutput::default()
    };
    let mut text = BoundedText { retained: String::new(), limit: max_bytes, whole_bytes: 0 };
    for block in blocks {
        match read_block(&block) {
            Block::Text(block) => text.push(&base64::collapse(&block)),
            Block::Attachment(attachment) => {
                text.push(&attachment.note());
                if output.attachments.len() < MAX_ATTACHMENTS {
                    output.attachments.push(attachment);
                }
            }
            Block::Unknown(kind) => text.push(&format!("[content of the unknown kind `{kind}` left out]")),
        }
    }
    structured.iter_mut().for_each(base64::collapse_in);
    match structured {
        Some(structured) if structured.to_string().len() > max_bytes => output.structured_left_out = true,
        structured => output.structured = structured,
    }
    output.text_cut_from_bytes = (text.whole_bytes > text.retained.len()).then_some(text.whole_bytes);
    output.text = text.retained;
    Ok(output)
}

struct BoundedText {
    retained: String,
    limit: usize,
    whole_bytes: usize,
}

impl BoundedText {
    fn push(&mut self, block: &str) {
        if self.whole_bytes > 0 {
            self.append("\n");
        }
        self.append(block);
    }

    /// Nothing is appended after a truncation, since a gap would not be visible.
    fn append(&mut self, more: &str) {
        let was_whole = self.whole_bytes == self.retained.len();
        self.whole_bytes += more.len();
        if was_whole {
            let remaining = self.limit.saturating_sub(self.retained.len());
            self.retained.push_str(&more[..more.floor_char_boundary(remaining)]);
        }
    }
}

enum Block<'a> {
    Text(Cow<'a, str>),
    Attachment(Attachment),
    Unknown(String),
}

fn read_block(block: &Value) -> Block<'_> {
    let block = match block {
        Value::Object(block) => block,
        Value::String(text) => return Block::Text(Cow::Borrowed(text)),
        other => return Block::Text(Cow::Owned(other.to_string())),
    };
    let text = |member: &str| block.get(member).and_then(Value::as_str);
    let kind = text("type").unwrap_or_default();
    let attachment = |kind, of: &Map<String, Value>, content: Option<&str>| {
        let member = |name: &str| of.get(name).and_then(Value::as_str);
        let mut mime_type = one_line(member("mimeType").unwrap_or("application/octet-stream"), MAX_MIME_TYPE);
        truncate(&mut mime_type, MAX_MIME_TYPE);
        let uri = member("uri").map(|uri| one_line(uri, MAX_ADDRESS));
        Block::Attachment(Attachment { kind, mime_type, bytes: content.map_or(0, decoded_bytes), uri })
    };
    match kind {
        "text" => match block.get("text") {
            Some(Value::String(text)) => Block::Text(Cow::Borrowed(text)),
            Some(other) => Block::Text(Cow::Owned(other.to_string())),
            None => Block::Text(Cow::Borrowed("")),
        },
        "image" => attachment("image", block, text("data")),
        "audio" => attachment("audio", block, text("data")),
        "resource_link" => attachment("resource_link", block, None),
        "resource" => match block.get("resource") {
            Some(Value::Object(resource)) => match resource.get("text").and_then(Value::as_str) {
                Some(text) => Block::Text(Cow::Borrowed(text)),
                None => attachment("resource", resource, resource.get("blob").and_then(Value::as_str)),
            },
            _ => Block::Unknown("resource".to_owned()),
        },
        // A block of an unknown type that has text is treated as text.
        other => match text("text") {
            Some(text) => Block::Text(Cow::Borrowed(text)),
            None => Block::Unknown(one_line(other, 40)),
        },
    }
}

/// Returns the decoded size of base64 data without decoding it.
fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

impl Attachment {
    fn note(&self) -> String {
        let Self { kind, mime_type, bytes, uri } = self;
        match (uri, *bytes) {
            (Some(uri), 0) => format!("[{} to {uri} ({mime_type})]", kind.replace('_', " ")),
            (Some(uri), bytes) => format!("[{kind} {uri}, {mime_type}, {bytes} bytes, left out]"),
            (None, bytes) => format!("[{kind}, {mime_type}, {bytes} bytes, left out]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn all_content_types_are_parsed() {
        let output = read_output(
            json!({ "isError": true, "structuredContent": { "n": 1 }, "content": [
                { "type": "text", "text": "one" },
                { "type": "image", "data": "AAAA", "mimeType": "image/png" },
                { "type": "resource", "resource": { "uri": "file:///a", "text": "two" } },
                { "type": "resource", "resource": { "uri": "file:///b", "blob": "AAA=" } },
                { "type": "resource_link", "uri": "https://example.com/c", "name": "c", "mimeType": "text/html" },
                { "type": "hologram", "data": 3 }, { "type": "markdown", "text": "three" }, 4, "five",
            ] }),
            1_000,
        )
        .expect("an answer");
        assert!(output.is_error);
        assert_eq!(output.structured, Some(json!({ "n": 1 })));
        let lines: Vec<_> = output.text.lines().collect();
        assert_eq!(
            lines,
            [
                "one",
                "[image, image/png, 3 bytes, left out]",
                "two",
                "[resource file:///b, application/octet-stream, 2 bytes, left out]",
                "[resource link to https://example.com/c (text/html)]",
                "[content of the unknown kind `hologram` left out]",
                "three",
                "4",
                "five",
            ]
        );
        assert_eq!(output.attachments.len(), 3);
        assert_eq!(output.text_cut_from_bytes, None);
    }

    #[test]
    fn tags_are_stripped_from_text_and_structured_content() {
        let result = json!({ "content": [{ "type": "text", "text": "a\u{e0041}\u{e007f}b" }], "structuredContent": { "n\u{e0042}": "c\u{e0043}" } });
        let output = read_output(result, 1_000).expect("an answer");
        assert_eq!((output.text.as_str(), output.structured), ("ab", Some(json!({ "n": "c" }))));
    }

    #[test]
    fn excessive_output_is_truncated_and_reported() {
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "x".repeat(10_000) });
        let output = read_output(json!({ "content": vec![image; 100], "structuredContent": "y".repeat(500) }), 300);
        let output = output.expect("an answer");
        assert_eq!(output.attachments.len(), MAX_ATTACHMENTS);
        assert!(output.attachments.iter().all(|image| image.mime_type.len() <= MAX_MIME_TYPE));
        assert!(output.text.len() <= 300 && output.text_cut_from_bytes.is_some_and(|bytes| bytes > 300));
        assert!(output.structured.is_none() && output.structured_left_out);
    }

    #[test]
    fn invalid_results_are_rejected() {
        for result in
            [json!({}), json!([]), json!({ "content": 4 }), json!({ "content": null }), json!({ "tools": [] })]
        {
            assert!(read_output(result.clone(), 100).is_err(), "{result}");
        }
        assert!(read_output(json!({ "content": [] }), 100).is_ok_and(|output| output.text.is_empty()));
    }

    #[test]
    fn single_blocks_and_numbers_are_accepted_as_text() {
        let text = |result: Value| read_output(result, 1_000).expect("an answer").text;
        assert_eq!(text(json!({ "content": "alone" })), "alone");
        assert_eq!(text(json!({ "content": { "type": "text", "text": "block" } })), "block");
        assert_eq!(text(json!({ "content": [{ "type": "text", "text": 7 }] })), "7");
        let structured = read_output(json!({ "structuredContent": { "n": 1 } }), 1_000).expect("an answer");
        assert_eq!((structured.text.as_str(), structured.structured), ("", Some(json!({ "n": 1 }))));
    }

    #[test]
    fn long_base64_is_removed_from_text_and_structured_content() {
        let blob = "iVBORw0KGgoAAAANSUhEUgAAAAUA".repeat(1_000);
        let result = json!({
            "content": [{ "type": "text", "text": format!("before data:image/png;base64,{blob} after") }],
            "structuredContent": { "picture": blob, "width": 5 },
        });
        let output = read_output(result, 1_000).expect("an answer");
        assert_eq!(output.text, "before data:image/png;base64,[21000 bytes in base64 left out] after");
        let expected = json!({ "picture": "[21000 bytes in base64 left out]", "width": 5 });
        assert_eq!(output.structured, Some(expected));
    }

    proptest! {
        #[test]
        fn truncated_text_is_a_prefix(blocks in prop::collection::vec("\\PC{0,20}", 0..8), limit in 0usize..80) {
            let content: Vec<Value> = blocks.iter().map(|text| json!({ "type": "text", "text": text })).collect();
            let whole = read_output(json!({ "content": content }), usize::MAX).expect("an answer").text;
            let cut = read_output(json!({ "content": content }), limit).expect("an answer");
            prop_assert!(cut.text.len() <= limit && whole.starts_with(&cut.text));
            prop_assert_eq!(cut.text_cut_from_bytes, (cut.text != whole).then_some(whole.len()));
        }
    }
}
