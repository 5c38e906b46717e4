//! Protection of bare URLs, in which Markdown would find emphasis.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Parser options, also used for rendering.
pub(crate) const OPTIONS: Options =
    Options::ENABLE_STRIKETHROUGH.union(Options::ENABLE_TABLES).union(Options::ENABLE_TASKLISTS);
const SCHEMES: [&str; 3] = ["https://", "http://", "ftp://"];
const WWW: &str = "www.";

/// Wraps every bare URL in angle brackets, so that nothing in it is parsed as markup. URLs in code, links and HTML are
/// unchanged. The end of a URL follows GitHub Flavored Markdown, but unmatched trailing marks stay part of it.
#[must_use]
pub fn protect_bare_urls(markdown: &str) -> Cow<'_, str> {
    if !SCHEMES.iter().chain(&[WWW]).any(|start| markdown.contains(start)) {
        return Cow::Borrowed(markdown);
    }
    let (mut protected, mut copied) = (String::new(), 0);
    for text in plain_text(markdown) {
        let Range { mut start, end } = text.of;
        while let Some(found) = next_start(markdown, start.max(copied)..end) {
            start = found + 1;
            let line = markdown.get(..found).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
            let length = markdown.get(found..text.limit).map_or(0, |text| url_length(line, text));
            let Some(url) = markdown.get(found..found + length).filter(|url| has_host(url)) else { continue };
            protected.push_str(markdown.get(copied..found).unwrap_or_default());
            push_protected(&mut protected, url);
            copied = found + length;
        }
    }
    protected.push_str(markdown.get(copied..).unwrap_or_default());
    Cow::Owned(protected)
}

/// Text range of the source, and the end of the area that a URL in it may cover.
struct PlainText {
    of: Range<usize>,
    limit: usize,
}

fn plain_text(markdown: &str) -> impl Iterator<Item = PlainText> {
    let (mut excluded, mut cell_end) = (0_usize, None);
    Parser::new_ext(markdown, OPTIONS).into_offset_iter().filter_map(move |(event, range)| {
        match event {
            Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::CodeBlock(_)) => excluded += 1,
            Event::End(TagEnd::Link | TagEnd::Image | TagEnd::CodeBlock) => excluded = excluded.saturating_sub(1),
            Event::Start(Tag::TableCell) => cell_end = Some(range.end),
            Event::End(TagEnd::TableCell) => cell_end = None,
            Event::Text(_) if excluded == 0 => {
                return Some(PlainText { of: range, limit: cell_end.unwrap_or(markdown.len()) });
            }
            _ => {}
        }
        None
    })
}

/// Returns the start of the next URL in this range that is not within a word.
fn next_start(markdown: &str, range: Range<usize>) -> Option<usize> {
    let is_start = |at: usize| {
        let (before, rest) = (markdown.get(..at)?, markdown.get(at..)?);
        // After a backslash, a bracket would be escaped.
        let is_within = before.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '\\');
        (!is_within && SCHEMES.iter().chain(&[WWW]).any(|start| rest.starts_with(start))).then_some(at)
    };
    range.into_iter().find_map(is_start)
}

/// Returns the length of the URL at the start of `text`. `line` is the preceding text of its line.
fn url_length(line: &str, text: &str) -> usize {
    let is_end = |character: char| character.is_whitespace() || character.is_control() || "<>|".contains(character);
    let url = text.split(is_end).next().unwrap_or_default();
    // An escaped `|` belongs to a table.
    let mut url = if text.get(url.len()..).is_some_and(|rest| rest.starts_with('|')) {
        url.strip_suffix('\\').unwrap_or(url)
    } else {
        url
    };
    while let Some(last) = url.chars().next_back() {
        let shorter = url.strip_suffix(last).unwrap_or_default();
        url = match last {
            ')' if count(url, ')') > count(url, '(') => shorter,
            ']' if count(url, ']') > count(url, '[') => shorter,
            ';' => entity_start(url).and_then(|at| url.get(..at)).unwrap_or(shorter),
            '*' | '_' | '~' if !opens(line, last) => break,
            '?' | '!' | '.' | ',' | ':' | '*' | '_' | '~' | '\'' | '"' | '`' | '\\' => shorter,
            other if !other.is_ascii() && !other.is_alphanumeric() => shorter,
            _ => break,
        };
    }
    url.len()
}

/// Whether this mark can open emphasis in the line.
fn opens(line: &str, mark: char) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        before.is_none_or(|before| before.is_whitespace() || "*_~([\"'".contains(before))
    })
}

fn count(text: &str, character: char) -> usize {
    text.matches(character).count()
}

/// Returns the start of an entity such as `&lt;` at the end of the text.
fn entity_start(text: &str) -> Option<usize> {
    let (at, name) = text.strip_suffix(';')?.rsplit_once('&').map(|(before, name)| (before.len(), name))?;
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'#')).then_some(at)
}

fn has_host(url: &str) -> bool {
    let prefix = SCHEMES.iter().chain(&[WWW]).find_map(|start| url.strip_prefix(start));
    prefix.is_some_and(|rest| rest.starts_with(|first: char| first.is_alphanumeric() || first == '['))
}

/// Appends a URL with a scheme as an autolink. Markdown has no autolinks without a scheme, so others are escaped.
fn push_protected(protected: &mut String, url: &str) {
    let plain = unescaped(url);
    if url.starts_with(WWW) {
        for character in plain.chars() {
            if character.is_ascii_punctuation() {
                protected.push('\\');
            }
            protected.push(character);
        }
    } else {
        protected.push('<');
        protected.push_str(&plain);
        protected.push('>');
    }
}

/// Returns the URL as parsed outside an autolink, since models escape characters that look like markup.
fn unescaped(url: &str) -> String {
    let url = url.replace("&amp;", "&");
    let mut plain = String::with_capacity(url.len());
    let mut characters = url.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\\' || !characters.peek().is_some_and(char::is_ascii_punctuation) {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bare_urls_are_wrapped_in_angle_brackets() {
        for (text, protected) in [
            ("see https://a.b/x/__init__.py.", "see <https://a.b/x/__init__.py>."),
            ("**https://a.b/_c_**", "**<https://a.b/_c_>**"),
            ("_https://a.b/c_d_", "_<https://a.b/c_d>_"),
            ("(https://a.b/c_(d)_e)", "(<https://a.b/c_(d)_e>)"),
            ("\"https://a.b/*c*\", https://a.b/*d*x", "\"<https://a.b/*c*>\", <https://a.b/*d*x>"),
            ("_see https://a.b/c_", "_see <https://a.b/c>_"),
            ("\\https://a.b/_c_ https://a.b/_c__", "\\https://a.b/_c_ <https://a.b/_c__>"),
            ("https://a.b/c\\_d\\_?e=1&amp;f=_2_g&lt;", "<https://a.b/c_d_?e=1&f=_2_g>&lt;"),
            ("https://a.b/`c`d https://e.f/_g_，", "<https://a.b/`c`d> <https://e.f/_g_>，"),
            ("|a|b|\n|-|-|\n|https://a.b/_c_|d|", "|a|b|\n|-|-|\n|<https://a.b/_c_>|d|"),
            ("www.a.b/__c__d", "www\\.a\\.b\\/\\_\\_c\\_\\_d"),
            ("> - ftp://a.b/_c_d", "> - <ftp://a.b/_c_d>"),
        ] {
            assert_eq!(protect_bare_urls(text), protected);
        }
    }

    #[test]
    fn other_urls_are_unchanged() {
        for text in [
            "[https://a.b/_c_d](https://e.f/_g_h)",
            "<https://a.b/_c_d>",
            "`https://a.b/_c_d`",
            "    https://a.b/_c_d",
            "```\nhttps://a.b/_c_d\n```",
            "[a]\n\n[a]: https://a.b/_c_d",
            "![https://a.b/_c_d](https://e.f/_g_h)",
            "<a href=\"https://a.b/_c_d\">",
            "xhttps://a.b/_c_d https:// https://*a* www.",
        ] {
            assert_eq!(protect_bare_urls(text), text);
        }
    }

    proptest! {
        #[test]
        fn protection_is_idempotent(text in "([a-z_*()&;|`<>\\[\\]\\\\\n -]|https://a\\.|www\\.){0,60}") {
            let once = protect_bare_urls(&text).into_owned();
            if !once.contains('`') && !once.contains("www\\.") {
                prop_assert_eq!(protect_bare_urls(&once), once.as_str());
            }
        }
    }
}
