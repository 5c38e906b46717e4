//! Patterns of addresses: `*` is anything without a slash, `**` anything at all.

/// A pattern, in pieces.
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

    /// Whether it is the whole address, but for its fragment, which no server sees.
    pub(super) fn matches(&self, url: &str) -> bool {
        let url = url.split('#').next().unwrap_or_default();
        // The ends of what the pieces before can be; bytes, because pieces are whole characters. One step a byte and
        // piece, whatever the pattern is.
        let mut ends = vec![false; url.len() + 1];
        ends[0] = true;
        for piece in &self.pieces {
            ends = match piece {
                Piece::Text(text) => after_text(&ends, url, text),
                Piece::WithinSegment => spread(&ends, url, |byte| byte != b'/'),
                Piece::Anything => spread(&ends, url, |_| true),
            };
        }
        ends[url.len()]
    }

    /// Chromium's own form, which knows one kind of `*` and takes more than is meant.
    pub(super) fn coarse(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.replace('\\', "\\\\").replace('?', "\\?"),
            Piece::WithinSegment | Piece::Anything => "*".to_owned(),
        });
        // Chromium compares with the fragment.
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

fn spread(ends: &[bool], url: &str, passes: impl Fn(u8) -> bool) -> Vec<bool> {
    let mut after = ends.to_vec();
    for (index, byte) in url.bytes().enumerate() {
        after[index + 1] |= after[index] && passes(byte);
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_stays_within_a_segment_and_two_do_not() {
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
    fn a_pattern_of_stars_takes_no_longer_than_its_length() {
        let pattern = UrlPattern::new(&"*a".repeat(500));
        assert!(!pattern.matches(&"a".repeat(499)) && pattern.matches(&"a".repeat(2_000)));
    }

    #[test]
    fn chromium_is_told_a_pattern_that_takes_at_least_as_much() {
        assert_eq!(UrlPattern::new("**/x?y\\*").coarse(), "*/x\\?y\\\\**");
    }
}
