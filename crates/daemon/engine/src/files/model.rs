//! Ranges and media types of files.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Maximum size of an upload in bytes.
pub(super) const MAX_FILE_BYTES: usize = 1 << 30;

/// Characters that need no encoding in `filename*` (RFC 8187).
const ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Range of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) length: u64,
}

/// Part of a file that a `Range` header requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestedRange {
    /// The whole file; also if the header has several ranges or an unknown unit and is ignored.
    Whole,
    Part(Part),
    /// The range starts after the end.
    Unsatisfiable,
}

pub(super) fn parse_range(range: &str, bytes: u64) -> RequestedRange {
    let Some((first, last)) = range.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return RequestedRange::Whole;
    };
    let number = |text: &str| {
        let text = text.trim();
        if text.is_empty() { Ok(None) } else { text.parse::<u64>().map(Some) }
    };
    match (number(first), number(last)) {
        (Ok(None), Ok(Some(count))) => {
            let length = count.min(bytes);
            if length == 0 {
                RequestedRange::Unsatisfiable
            } else {
                RequestedRange::Part(Part { start: bytes - length, length })
            }
        }
        (Ok(Some(start)), Ok(last)) => {
            let last = last.unwrap_or(u64::MAX);
            if last < start {
                return RequestedRange::Whole;
            }
            if start >= bytes {
                return RequestedRange::Unsatisfiable;
            }
            RequestedRange::Part(Part { start, length: last.min(bytes - 1) - start + 1 })
        }
        _ => RequestedRange::Whole,
    }
}

/// Returns a `Content-Disposition` for download under the file's name.
pub(super) fn disposition(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '-' | '_' | '(' | ')' | '+');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(name, ATTRIBUTE))
}

/// Returns the media type: images are detected by their first bytes, everything else is binary. Browsers never receive
/// a type for pages, scripts, or SVG, which can contain scripts.
pub(super) fn media_type(beginning: &[u8]) -> &'static str {
    if beginning.starts_with(b"\x89PNG\r\n\x1a\n") {
        "image/png"
    } else if beginning.starts_with(&[0xff, 0xd8, 0xff]) {
        "image/jpeg"
    } else if beginning.starts_with(b"GIF87a") || beginning.starts_with(b"GIF89a") {
        "image/gif"
    } else if beginning.starts_with(b"RIFF") && beginning.get(8..12) == Some(b"WEBP") {
        "image/webp"
    } else {
        "application/octet-stream"
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_parsed() {
        let part = |start, length| RequestedRange::Part(Part { start, length });
        for (range, expected) in [
            ("bytes=0-", part(0, 10)),
            ("bytes=0-0", part(0, 1)),
            ("bytes=3-5", part(3, 3)),
            ("bytes=9-", part(9, 1)),
            ("bytes=3-99", part(3, 7)),
            ("bytes=-4", part(6, 4)),
            ("bytes=-40", part(0, 10)),
            ("bytes=-0", RequestedRange::Unsatisfiable),
            ("bytes=10-", RequestedRange::Unsatisfiable),
            ("bytes=5-3", RequestedRange::Whole),
            ("bytes=0-1,3-4", RequestedRange::Whole),
            ("bytes=-", RequestedRange::Whole),
            ("bytes=a-b", RequestedRange::Whole),
            ("lines=0-1", RequestedRange::Whole),
            ("", RequestedRange::Whole),
        ] {
            assert_eq!(parse_range(range, 10), expected, "{range}");
        }
        assert_eq!(parse_range("bytes=0-", 0), RequestedRange::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn range_is_within_the_file(range in "bytes=[0-9]{0,20}-[0-9]{0,20}", bytes in any::<u64>()) {
            if let RequestedRange::Part(part) = parse_range(&range, bytes) {
                prop_assert!(part.length > 0 && part.start.checked_add(part.length).is_some_and(|end| end <= bytes));
            }
        }

        #[test]
        fn file_name_cannot_leave_its_quotes(name in any::<String>()) {
            let value = disposition(&name);
            prop_assert!(HeaderValue::from_str(&value).is_ok());
            prop_assert_eq!(value.matches('"').count(), 2);
            prop_assert_eq!(value.matches(';').count(), 2);
            let encoded = value.rsplit_once("''").unwrap().1;
            let decoded = percent_encoding::percent_decode_str(encoded).decode_utf8().unwrap();
            prop_assert_eq!(decoded.as_ref(), name.as_str());
        }

        #[test]
        fn active_media_types_are_never_returned(beginning in any::<Vec<u8>>()) {
            let value = media_type(&beginning);
            let known = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/octet-stream"];
            prop_assert!(known.contains(&value));
        }
    }
}
