//! The title that a conversation gets from its first message.

/// Of a conversation in which nothing was said yet.
pub(super) const UNTITLED: &str = "New conversation";
const MAX_CHARACTERS: usize = 60;

/// The first sentence, without line breaks, 60 characters at most, cut between words.
pub(super) fn title_from(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = words.join(" ");
    let sentence = first_sentence(&line);
    if sentence.is_empty() {
        return UNTITLED.to_owned();
    }
    if sentence.chars().count() <= MAX_CHARACTERS {
        return sentence.to_owned();
    }
    // Room for the ellipsis.
    let end = sentence.char_indices().nth(MAX_CHARACTERS - 1).map_or(sentence.len(), |(at, _)| at);
    let cut = &sentence[..end];
    let at_word = cut.rfind(' ').filter(|at| *at >= end / 2).map_or(cut, |at| &cut[..at]);
    format!("{}…", at_word.trim_end_matches([' ', ',', ';', ':', '-']))
}

fn first_sentence(line: &str) -> &str {
    let mut previous_end = None;
    for (at, character) in line.char_indices() {
        if matches!(character, '。' | '！' | '？') {
            return &line[..at + character.len_utf8()];
        }
        if character == ' '
            && let Some(end) = previous_end
        {
            return &line[..end];
        }
        previous_end = match character {
            '?' | '!' => Some(at + 1),
            // A full stop ends a title but does not belong to it.
            '.' => Some(at),
            _ => None,
        };
    }
    match line.strip_suffix('.') {
        Some(rest) if !rest.ends_with('.') => rest,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn takes_the_first_sentence() {
        assert_eq!(title_from("  What is Rust? Tell me\nall."), "What is Rust?");
        assert_eq!(title_from("Plan my week. Begin on Monday."), "Plan my week");
        assert_eq!(title_from("version 1.2.3 is out"), "version 1.2.3 is out");
        assert_eq!(title_from("今日は何曜日ですか？教えて"), "今日は何曜日ですか？");
        assert_eq!(title_from(" \n "), UNTITLED);
    }

    #[test]
    fn cuts_long_ones_between_words() {
        let long = "please write a very long and winding story about a lighthouse keeper, who lives alone";
        assert_eq!(title_from(long), "please write a very long and winding story about a…");
        assert_eq!(title_from(&"x".repeat(100)).chars().count(), MAX_CHARACTERS);
    }

    proptest! {
        #[test]
        fn is_one_short_line_whatever_was_said(message in "\\PC{0,300}|[ a-z.?!\n]{0,300}") {
            let title = title_from(&message);
            prop_assert!(!title.is_empty());
            prop_assert!(title.chars().count() <= MAX_CHARACTERS);
            prop_assert!(!title.contains('\n'));
        }
    }
}
