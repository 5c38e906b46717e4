//! Truncation of untrusted text.

use agentd_base::visible::strip_tags;

/// Truncates `text` to at most `limit` bytes, at a character boundary. Returns whether anything was removed.
pub(crate) fn truncate(text: &mut String, limit: usize) -> bool {
    let end = text.floor_char_boundary(limit);
    let is_longer = end < text.len();
    text.truncate(end);
    is_longer
}

/// Returns one line of at most `limit` bytes, without control characters and tags, for use within a sentence.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let text = strip_tags(text);
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if line.len() > limit {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if truncate(&mut line, limit) {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_line_joins_lines() {
        assert_eq!(one_line("a\n\tb\u{1b}[0m  c", 40), "a b [0m c");
        assert_eq!(one_line("word word word", 7), "word wo…");
    }

    proptest! {
        #[test]
        fn truncate_respects_the_limit(text in "\\PC{0,40}", limit in 0usize..50) {
            let mut shorter = text.clone();
            let was_truncated = truncate(&mut shorter, limit);
            prop_assert!(shorter.len() <= limit && text.starts_with(&shorter));
            prop_assert_eq!(was_truncated, shorter != text);
        }
    }
}
