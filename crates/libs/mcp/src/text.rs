//! Cutting text of strangers to a bearable length.

use agentd_base::visible::strip_tags;

/// Cuts `text` to at most `limit` bytes, at a character's boundary; whether anything was cut.
pub(crate) fn cut(text: &mut String, limit: usize) -> bool {
    let end = text.floor_char_boundary(limit);
    let is_longer = end < text.len();
    text.truncate(end);
    is_longer
}

/// One line of at most `limit` bytes, without control characters and tags: fit to stand in a sentence.
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
    if cut(&mut line, limit) {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn makes_one_line_of_many() {
        assert_eq!(one_line("a\n\tb\u{1b}[0m  c", 40), "a b [0m c");
        assert_eq!(one_line("word word word", 7), "word wo…");
    }

    proptest! {
        #[test]
        fn cuts_within_the_limit(text in "\\PC{0,40}", limit in 0usize..50) {
            let mut shorter = text.clone();
            let was_cut = cut(&mut shorter, limit);
            prop_assert!(shorter.len() <= limit && text.starts_with(&shorter));
            prop_assert_eq!(was_cut, shorter != text);
        }
    }
}
