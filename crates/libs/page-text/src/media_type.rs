//! What a body is, by its `Content-Type`, and by its first bytes where that says nothing.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageTextError {
    /// `media_type` is the type without parameters, `unknown` where the server named none.
    #[error("the answer is not text but {media_type}; only web pages and text can be read")]
    NotText { media_type: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Plain,
}

/// Types of text that do not start with `text/`.
const TEXT_TYPES: [&str; 14] = [
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/jsonlines",
    "application/ld+json",
    "application/ndjson",
    "application/rtf",
    "application/sql",
    "application/toml",
    "application/x-ndjson",
    "application/x-sh",
    "application/xml",
    "application/yaml",
];
/// How much of a body without a type is looked at.
const SNIFFED_BYTES: usize = 1024;

pub(crate) fn form_of(content_type: Option<&str>, body: &[u8]) -> Result<Form, PageTextError> {
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default();
    let media_type: String = media_type.trim().chars().take(100).collect::<String>().to_ascii_lowercase();
    match media_type.as_str() {
        "text/html" | "application/xhtml+xml" => Ok(Form::Html),
        // What a server says that does not know.
        "" | "application/octet-stream" | "unknown/unknown" | "application/unknown" | "*/*" => {
            sniff(body).ok_or(PageTextError::NotText { media_type: "unknown".to_owned() })
        }
        known if is_text(known) => Ok(Form::Plain),
        _ => Err(PageTextError::NotText { media_type }),
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || TEXT_TYPES.contains(&media_type)
        || ["+json", "+xml", "+yaml", "x-yaml"].iter().any(|suffix| media_type.ends_with(suffix))
            && !is_picture(media_type)
}

fn is_picture(media_type: &str) -> bool {
    media_type.starts_with("image/")
}

fn sniff(body: &[u8]) -> Option<Form> {
    let start = &body[..body.len().min(SNIFFED_BYTES)];
    let has_mark = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
    // No text holds these; pictures, archives and programs nearly always do.
    if !has_mark && start.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31)) {
        return None;
    }
    if start.starts_with(b"%PDF-") {
        return None;
    }
    let text = String::from_utf8_lossy(start).trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    let is_html = ["<!doctype html", "<html", "<head", "<body", "<!--", "<title", "<div", "<p>", "<h1", "<script"]
        .iter()
        .any(|opening| text.starts_with(opening));
    Some(if is_html { Form::Html } else { Form::Plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_decides_and_the_bytes_where_it_is_missing() {
        for (content_type, body, form) in [
            (Some("text/html; charset=utf-8"), "", Some(Form::Html)),
            (Some("APPLICATION/XHTML+XML"), "", Some(Form::Html)),
            (Some("application/json"), "<html>", Some(Form::Plain)),
            (Some("application/problem+json"), "", Some(Form::Plain)),
            (Some("application/atom+xml"), "", Some(Form::Plain)),
            (Some("text/csv"), "", Some(Form::Plain)),
            (Some("image/svg+xml"), "", None),
            (Some("image/png"), "", None),
            (Some("application/pdf"), "", None),
            (Some("application/zip"), "", None),
            (None, "\u{feff}  <!DOCTYPE html>", Some(Form::Html)),
            (None, "just words", Some(Form::Plain)),
            (Some("application/octet-stream"), "PK\u{3}\u{4}\0", None),
            (Some(""), "%PDF-1.7", None),
        ] {
            assert_eq!(form_of(content_type, body.as_bytes()).ok(), form, "{content_type:?} {body:?}");
        }
    }
}
