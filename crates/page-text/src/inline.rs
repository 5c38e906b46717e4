//! Text as it flows: white space collapsed, invisible characters left out.

/// Characters that nobody sees, or that change how the others are seen: a favourite place for
/// words meant for a model alone.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// Appends `text`; a run of white space becomes one blank, and none at the start of a line.
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

/// Appends `text` as it is written, but for what is invisible.
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

/// One line of at most `limit` characters.
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
    fn what_nobody_sees_is_left_out() {
        let mut text = String::new();
        flow(" a\u{200b}b \n\t c\u{e0041}\u{202e}d\u{0}", &mut text);
        assert_eq!(text, "ab cd");
        let mut code = String::new();
        verbatim("a\r\n\tb\u{feff}\r", &mut code);
        assert_eq!(code, "a\n\tb\n");
    }
}
