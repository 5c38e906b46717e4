//! Detection of the body format, by `Content-Type` or, without one, by the first bytes.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageTextError {
    /// `media_type` is the type without parameters, or `unknown` if the server sent none.
    #[error("the response is {media_type}, not text; only web pages and text can be read")]
    NotText { media_type: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Html,
    Plain,
}

/// Text types that do not start with `text/`.
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
/// Number of bytes examined in a body without a type.
const SNIFFED_BYTES: usize = 1024;

pub(crate) fn body_format(content_type: Option<&str>, body: &[u8]) -> Result<BodyFormat, PageTextError> {
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default();
    let media_type: String = media_type.trim().chars().take(100).collect::<String>().to_ascii_lowercase();
    match media_type.as_str() {
        "text/html" | "application/xhtml+xml" => Ok(BodyFormat::Html),
        // Types that mean unknown.
        "" | "application/octet-stream" | "unknown/unknown" | "application/unknown" | "*/*" => {
            sniff(body).ok_or(PageTextError::NotText { media_type: "unknown".to_owned() })
        }
        known if is_text(known) => Ok(BodyFormat::Plain),
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

fn sniff(body: &[u8]) -> Option<BodyFormat> {
    let start = &body[..body.len().min(SNIFFED_BYTES)];
    let has_mark = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
    // Control characters that text never contains, but images, archives and programs almost always do.
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
    Some(if is_html { BodyFormat::Html } else { BodyFormat::Plain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_follows_the_type_or_else_the_bytes() {
        for (content_type, body, form) in [
            (Some("text/html; charset=utf-8"), "", Some(BodyFormat::Html)),
            (Some("APPLICATION/XHTML+XML"), "", Some(BodyFormat::Html)),
            (Some("application/json"), "<html>", Some(BodyFormat::Plain)),
            (Some("application/problem+json"), "", Some(BodyFormat::Plain)),
            (Some("application/atom+xml"), "", Some(BodyFormat::Plain)),
            (Some("text/csv"), "", Some(BodyFormat::Plain)),
            (Some("image/svg+xml"), "", None),
            (Some("image/png"), "", None),
            (Some("application/pdf"), "", None),
            (Some("application/zip"), "", None),
            (None, "\u{feff}  <!DOCTYPE html>", Some(BodyFormat::Html)),
            (None, "just words", Some(BodyFormat::Plain)),
            (Some("application/octet-stream"), "PK\u{3}\u{4}\0", None),
            (Some(""), "%PDF-1.7", None),
        ] {
            assert_eq!(body_format(content_type, body.as_bytes()).ok(), form, "{content_type:?} {body:?}");
        }
    }
}
