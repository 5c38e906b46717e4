//! Decoding of bytes to text, with correction of wrong encoding declarations.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Number of bytes in which a page must declare its encoding, as defined by the HTML standard.
const PRESCANNED_BYTES: usize = 1024;

pub(crate) fn decode<'a>(body: &'a [u8], content_type: Option<&str>, is_html: bool) -> Cow<'a, str> {
    if let Some((marked, mark)) = Encoding::for_bom(body) {
        return marked.decode_without_bom_handling(&body[mark..]).0;
    }
    let declared = content_type.and_then(charset_of).and_then(|label| Encoding::for_label(label.as_bytes()));
    let in_page = is_html.then(|| prescan(body)).flatten();
    let encoding = match declared.or(in_page) {
        // Valid UTF-8 that is not plain ASCII is UTF-8, even if the server declares Windows-1252 by default.
        Some(declared_encoding) if declared_encoding == WINDOWS_1252 && is_utf8(body) => UTF_8,
        // The server declares UTF-8 by default, but the page declares another encoding.
        Some(declared_encoding) if declared_encoding == UTF_8 && !is_utf8(body) => {
            in_page.filter(|other| *other != UTF_8).unwrap_or(UTF_8)
        }
        Some(declared_encoding) => declared_encoding,
        None if is_utf8(body) => UTF_8,
        None => WINDOWS_1252,
    };
    encoding.decode_without_bom_handling(body).0
}

/// Whether the body is UTF-8 beyond ASCII. A character truncated by the end of the input is ignored.
fn is_utf8(body: &[u8]) -> bool {
    match std::str::from_utf8(body) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && error.valid_up_to() > 0,
    }
}

/// Returns the value of `charset=` in a header or a page.
fn charset_of(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let mut rest = lower.as_str();
    while let Some((_, behind)) = rest.split_once("charset") {
        rest = behind;
        let Some(value) = behind.trim_start().strip_prefix('=') else { continue };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
        let label: String = match quote {
            Some(quote) => value[1..].chars().take_while(|next| *next != quote).collect(),
            None => value
                .chars()
                .take_while(|next| !next.is_ascii_whitespace() && !matches!(next, ';' | '"' | '\'' | '>' | '/'))
                .collect(),
        };
        return Some(label.trim().to_owned());
    }
    None
}

/// Returns the encoding declared in the first bytes of a page: `<meta charset>`, `<meta http-equiv>`, or an XML
/// declaration.
fn prescan(body: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(&body[..body.len().min(PRESCANNED_BYTES)]).to_ascii_lowercase();
    if let Some(declaration) = start.strip_prefix("<?xml").and_then(|rest| rest.split("?>").next())
        && let Some((_, value)) = declaration.split_once("encoding=")
    {
        let label = value.trim_matches(['"', '\'', ' ']).split(['"', '\'', ' ']).next()?;
        return Encoding::for_label(label.as_bytes()).map(ascii_compatible);
    }
    start
        .split("<meta")
        .skip(1)
        .filter_map(|meta| charset_of(meta.split('>').next()?))
        .find_map(|label| Encoding::for_label(label.as_bytes()))
        .map(ascii_compatible)
}

/// Replaces UTF-16 by UTF-8, since a declaration that was readable as ASCII cannot be in UTF-16.
fn ascii_compatible(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(body: &[u8], content_type: Option<&str>) -> String {
        decode(body, content_type, true).into_owned()
    }

    #[test]
    fn encoding_is_taken_from_bom_header_page_then_detected() {
        assert_eq!(html(b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9fe", Some("text/html; charset=latin1")), "grüße");
        assert_eq!(html(b"\xff\xfeg\0r\0", Some("text/html; charset=utf-8")), "gr");
        assert_eq!(html(b"gr\xfc\xdfe", Some("text/html; charset=\"ISO-8859-1\"")), "grüße");
        assert_eq!(html(b"<meta charset=windows-1251>\xcf\xf0\xe8", None), "<meta charset=windows-1251>При");
        assert_eq!(html(b"\x83\x65\x83\x58\x83\x67", Some("text/html;charset=Shift_JIS")), "テスト");
        let equiv = b"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>\xf0";
        assert!(html(equiv, None).ends_with('П'));
        assert_eq!(html(b"<?xml version=\"1.0\" encoding=\"iso-8859-15\"?>\xa4", None).chars().last(), Some('€'));
        assert_eq!(html("grüße".as_bytes(), None), "grüße");
        assert_eq!(html(b"gr\xfc\xdfe \x80", None), "grüße €");
    }

    #[test]
    fn wrong_declarations_are_corrected() {
        assert_eq!(html("grüße".as_bytes(), Some("text/html; charset=iso-8859-1")), "grüße");
        assert!(html(b"<meta charset='iso-8859-2'>\xb1", Some("text/html; charset=utf-8")).ends_with('ą'));
        assert_eq!(html("<meta charset=utf-16>ü".as_bytes(), None), "<meta charset=utf-16>ü");
        assert_eq!(html(b"gr\xfc", Some("text/html; charset=utf-8")), "gr\u{fffd}");
        assert_eq!(html("ü".as_bytes(), Some("text/html; charset=nonsense")), "ü");
    }
}
