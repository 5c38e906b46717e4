//! Inline text: collapses white space and drops invisible characters.

/// Marks the start of a link text. Pages cannot contain these three characters, since they are dropped as invisible.
pub(crate) const LINK_START: char = '\u{fff9}';
/// Marks the end of a link text; the number of the target follows.
pub(crate) const LINK_END: char = '\u{fffa}';
/// Marks the end of the number.
pub(crate) const LINK_CLOSE: char = '\u{fffb}';

/// Renders `text` with links as `[text](address)`. `address` returns the URL of a number; links without one are plain.
pub(crate) fn with_links<'a>(text: &str, mut address: impl FnMut(usize) -> Option<&'a str>) -> String {
    if !text.contains([LINK_START, LINK_END, LINK_CLOSE]) {
        return text.to_owned();
    }
    let mut written = String::with_capacity(text.len());
    let mut start = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            LINK_START => start = Some(written.len()),
            LINK_END => {
                let mut number = 0_usize;
                while let Some(digit) = characters.peek().and_then(|digit| digit.to_digit(10)) {
                    number = number.saturating_mul(10).saturating_add(digit as usize);
                    characters.next();
                }
                // Truncated text may lack the end marker.
                let is_whole = characters.next_if_eq(&LINK_CLOSE).is_some();
                if let Some(start) = start.take().filter(|_| is_whole)
                    && let Some(address) = address(number)
                {
                    written.insert(start, '[');
                    written.push_str("](");
                    for character in address.chars() {
                        match character {
                            '(' => written.push_str("%28"),
                            ')' => written.push_str("%29"),
                            '|' => written.push_str("%7C"),
                            _ => written.push(character),
                        }
                    }
                    written.push(')');
                }
            }
            LINK_CLOSE => {}
            _ => written.push(character),
        }
    }
    written
}

/// Whether a character is invisible or changes the display of others. Such characters often hide text that targets
/// models.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// Appends `text`, collapsing runs of white space to one space and dropping leading white space of a line.
pub(crate) fn flow(text: &str, into: &mut String) {
    for character in text.chars() {
        if character.is_whitespace() {
            if !into.is_empty() && !into.ends_with([' ', '\n']) {
                into.push(' ');
            }
        } else if !is_invisible(character) {
            into.push(character);
        }
    }
}

/// Appends `text` verbatim except for invisible characters.
pub(crate) fn verbatim(text: &str, into: &mut String) {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => into.push('\n'),
            _ if is_invisible(character) => {}
            _ => into.push(character),
        }
    }
}

/// Returns one line of at most `limit` characters.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > limit * 4 {
            break;
        }
    }
    line.chars().take(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_rendered_completely_or_not_at_all() {
        let address = |number: usize| [Some("https://a.example/x_(y)"), None].get(number).copied().flatten();
        for (text, written) in [
            ("see \u{fff9}this\u{fffa}0\u{fffb}, now", "see [this](https://a.example/x_%28y%29), now"),
            ("see \u{fff9}this\u{fffa}1\u{fffb}", "see this"),
            ("see \u{fff9}this\u{fffa}7\u{fffb}", "see this"),
            ("see \u{fff9}th", "see th"),
            ("see \u{fff9}this\u{fffa}", "see this"),
        ] {
            assert_eq!(with_links(text, address), written);
        }
    }

    #[test]
    fn invisible_characters_are_dropped() {
        let mut text = String::new();
        flow(" a\u{200b}b \n\t c\u{e0041}\u{202e}d\u{0}", &mut text);
        assert_eq!(text, "ab cd");
        let mut code = String::new();
        verbatim("a\r\n\tb\u{feff}\r", &mut code);
        assert_eq!(code, "a\n\tb\n");
    }
}
