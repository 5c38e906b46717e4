//! Parts of a file, and what a file is said to be.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The most that one upload takes.
pub(super) const MAX_FILE_BYTES: usize = 1 << 30;

/// What may stand in `filename*` as it is (RFC 8187).
const ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) length: u64,
}

/// What of a file of `bytes` bytes a `Range` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Also where the header asks for several parts, or is none that is known: then it does not count.
    Whole,
    Part(Part),
    /// It begins after the end.
    Nothing,
}

pub(super) fn wanted(range: &str, bytes: u64) -> Wanted {
    let Some((first, last)) = range.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Wanted::Whole;
    };
    let number = |text: &str| {
        let text = text.trim();
        if text.is_empty() { Ok(None) } else { text.parse::<u64>().map(Some) }
    };
    match (number(first), number(last)) {
        (Ok(None), Ok(Some(count))) => {
            let length = count.min(bytes);
            if length == 0 { Wanted::Nothing } else { Wanted::Part(Part { start: bytes - length, length }) }
        }
        (Ok(Some(start)), Ok(last)) => {
            let last = last.unwrap_or(u64::MAX);
            if last < start {
                return Wanted::Whole;
            }
            if start >= bytes {
                return Wanted::Nothing;
            }
            Wanted::Part(Part { start, length: last.min(bytes - 1) - start + 1 })
        }
        _ => Wanted::Whole,
    }
}

/// The file under its own name, to be kept and not to be shown.
pub(super) fn disposition(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '-' | '_' | '(' | ')' | '+');
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(name, ATTRIBUTE))
}

/// Of pictures what they are, by their first bytes; of anything else that it is bytes. A browser is never told that
/// something is a page, a script, or an SVG, which holds scripts.
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
    fn ranges_are_read() {
        let part = |start, length| Wanted::Part(Part { start, length });
        for (range, expected) in [
            ("bytes=0-", part(0, 10)),
            ("bytes=0-0", part(0, 1)),
            ("bytes=3-5", part(3, 3)),
            ("bytes=9-", part(9, 1)),
            ("bytes=3-99", part(3, 7)),
            ("bytes=-4", part(6, 4)),
            ("bytes=-40", part(0, 10)),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=5-3", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(wanted(range, 10), expected, "{range}");
        }
        assert_eq!(wanted("bytes=0-", 0), Wanted::Nothing);
    }

    proptest! {
        #[test]
        fn a_part_lies_in_the_file(range in "bytes=[0-9]{0,20}-[0-9]{0,20}", bytes in any::<u64>()) {
            if let Wanted::Part(part) = wanted(&range, bytes) {
                prop_assert!(part.length > 0 && part.start.checked_add(part.length).is_some_and(|end| end <= bytes));
            }
        }

        #[test]
        fn a_name_stays_in_its_quotes(name in any::<String>()) {
            let said = disposition(&name);
            prop_assert!(HeaderValue::from_str(&said).is_ok());
            prop_assert_eq!(said.matches('"').count(), 2);
            prop_assert_eq!(said.matches(';').count(), 2);
            let encoded = said.rsplit_once("''").unwrap().1;
            let decoded = percent_encoding::percent_decode_str(encoded).decode_utf8().unwrap();
            prop_assert_eq!(decoded.as_ref(), name.as_str());
        }

        #[test]
        fn nothing_is_said_to_be_a_page(beginning in any::<Vec<u8>>()) {
            let said = media_type(&beginning);
            let known = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/octet-stream"];
            prop_assert!(known.contains(&said));
        }
    }
}
