//! URL patterns: `*` matches anything but a slash, `**` matches anything.

/// Parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlPattern {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    WithinSegment,
    Anything,
}

impl UrlPattern {
    pub(super) fn new(pattern: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = pattern;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('*') {
                let stars = 1 + after.len() - after.trim_start_matches('*').len();
                pieces.push(if stars == 1 { Piece::WithinSegment } else { Piece::Anything });
                rest = &rest[stars..];
            } else {
                let end = rest.find('*').unwrap_or(rest.len());
                pieces.push(Piece::Text(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        Self { pieces }
    }

    /// Whether the pattern matches the whole URL without its fragment, which is not sent to servers.
    pub(super) fn matches(&self, url: &str) -> bool {
        let url = url.split('#').next().unwrap_or_default();
        // Marks the byte positions where a match of the previous pieces can end. The cost is one step per byte and
        // piece, for any pattern.
        let mut ends = vec![false; url.len() + 1];
        ends[0] = true;
        for piece in &self.pieces {
            ends = match piece {
                Piece::Text(text) => after_text(&ends, url, text),
                Piece::WithinSegment => after_wildcard(&ends, url, |byte| byte != b'/'),
                Piece::Anything => after_wildcard(&ends, url, |_| true),
            };
        }
        ends[url.len()]
    }

    /// Returns a Chromium pattern, which has one kind of `*` and may match more URLs.
    pub(super) fn chromium_pattern(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.replace('\\', "\\\\").replace('?', "\\?"),
            Piece::WithinSegment | Piece::Anything => "*".to_owned(),
        });
        // Chromium includes the fragment.
        pieces.chain(["*".to_owned()]).collect()
    }
}

fn after_text(ends: &[bool], url: &str, text: &str) -> Vec<bool> {
    let mut after = vec![false; ends.len()];
    for start in (0..ends.len()).filter(|start| ends[*start]) {
        if url.as_bytes()[start..].starts_with(text.as_bytes()) {
            after[start + text.len()] = true;
        }
    }
    after
}

fn after_wildcard(ends: &[bool], url: &str, is_matched: impl Fn(u8) -> bool) -> Vec<bool> {
    let mut after = ends.to_vec();
    for (index, byte) in url.bytes().enumerate() {
        after[index + 1] |= after[index] && is_matched(byte);
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_matches_within_a_segment_and_two_across() {
        let cases = [
            ("**", "https://a.example/x/y?z", true),
            ("https://a.example/*", "https://a.example/x", true),
            ("https://a.example/*", "https://a.example/x/y", false),
            ("https://a.example/**", "https://a.example/x/y", true),
            ("**/api/*/items", "https://a.example/v1/api/7/items", true),
            ("**/api/*/items", "https://a.example/v1/api/7/8/items", false),
            ("*://a.example/x", "http://a.example/x", true),
            ("https://a.example/x", "https://a.example/x#part", true),
            ("https://a.example/x", "https://a.example/x?y", false),
            ("https://a.example/x?y=1", "https://a.example/x?y=1", true),
            ("https://a.example/x?y=1", "https://a.example/xxy=1", false),
            ("**/é*", "https://a.example/éa", true),
            ("", "", true),
        ];
        for (pattern, url, expected) in cases {
            assert_eq!(UrlPattern::new(pattern).matches(url), expected, "{pattern} {url}");
        }
    }

    #[test]
    fn matching_takes_linear_time_per_piece() {
        let pattern = UrlPattern::new(&"*a".repeat(500));
        assert!(!pattern.matches(&"a".repeat(499)) && pattern.matches(&"a".repeat(2_000)));
    }

    #[test]
    fn chromium_pattern_matches_at_least_as_much() {
        assert_eq!(UrlPattern::new("**/x?y\\*").chromium_pattern(), "*/x\\?y\\\\**");
    }
}
