//! Keys of a keyboard with the US layout, as events describe them.

use crate::BrowserError;

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// What the page reads.
    pub(super) key: String,
    /// Where it is on the keyboard.
    pub(super) code: String,
    pub(super) virtual_code: u32,
    /// What it writes.
    pub(super) text: Option<String>,
}

/// Bits of `modifiers`.
pub(super) const ALT: u32 = 1;
pub(super) const CONTROL: u32 = 2;
pub(super) const META: u32 = 4;
pub(super) const SHIFT: u32 = 8;

/// Name, code, virtual code, text.
const NAMED: &[(&str, &str, u32, &str)] = &[
    ("Enter", "Enter", 13, "\r"),
    ("Tab", "Tab", 9, ""),
    ("Escape", "Escape", 27, ""),
    ("Backspace", "Backspace", 8, ""),
    ("Delete", "Delete", 46, ""),
    ("Insert", "Insert", 45, ""),
    ("Home", "Home", 36, ""),
    ("End", "End", 35, ""),
    ("PageUp", "PageUp", 33, ""),
    ("PageDown", "PageDown", 34, ""),
    ("ArrowLeft", "ArrowLeft", 37, ""),
    ("ArrowUp", "ArrowUp", 38, ""),
    ("ArrowRight", "ArrowRight", 39, ""),
    ("ArrowDown", "ArrowDown", 40, ""),
    ("Control", "ControlLeft", 17, ""),
    ("Shift", "ShiftLeft", 16, ""),
    ("Alt", "AltLeft", 18, ""),
    ("Meta", "MetaLeft", 91, ""),
    ("CapsLock", "CapsLock", 20, ""),
    ("ContextMenu", "ContextMenu", 93, ""),
    ("Space", "Space", 32, " "),
];

/// Plain and shifted characters with their codes.
const PUNCTUATION: &[(char, char, &str, u32)] = &[
    ('`', '~', "Backquote", 192),
    ('-', '_', "Minus", 189),
    ('=', '+', "Equal", 187),
    ('[', '{', "BracketLeft", 219),
    (']', '}', "BracketRight", 221),
    ('\\', '|', "Backslash", 220),
    (';', ':', "Semicolon", 186),
    ('\'', '"', "Quote", 222),
    (',', '<', "Comma", 188),
    ('.', '>', "Period", 190),
    ('/', '?', "Slash", 191),
];
const SHIFTED_DIGITS: &str = ")!@#$%^&*(";

/// The key that writes a character, and whether with Shift; none where no key does.
pub(super) fn of_character(character: char) -> Option<(Key, bool)> {
    let key = |code: String, virtual_code: u32| Key {
        key: character.to_string(),
        code,
        virtual_code,
        text: Some(character.to_string()),
    };
    match character {
        '\n' | '\r' => of_name("Enter").map(|key| (key, false)),
        '\t' => of_name("Tab").map(|key| (key, false)),
        ' ' => Some((key("Space".to_owned(), 32), false)),
        'a'..='z' | 'A'..='Z' => {
            let upper = character.to_ascii_uppercase();
            Some((key(format!("Key{upper}"), upper.into()), character.is_ascii_uppercase()))
        }
        '0'..='9' => Some((key(format!("Digit{character}"), character.into()), false)),
        _ => {
            if let Some(digit) = SHIFTED_DIGITS.find(character) {
                let virtual_code = u32::try_from(digit).unwrap_or(0) + u32::from('0');
                return Some((key(format!("Digit{digit}"), virtual_code), true));
            }
            let (_, shifted, code, virtual_code) =
                PUNCTUATION.iter().find(|(plain, shifted, ..)| *plain == character || *shifted == character)?;
            Some((key((*code).to_owned(), *virtual_code), *shifted == character))
        }
    }
}

fn of_name(name: &str) -> Option<Key> {
    if let Some(number) = name.strip_prefix('F').and_then(|number| number.parse::<u32>().ok())
        && (1..=12).contains(&number)
    {
        return Some(Key { key: name.to_owned(), code: name.to_owned(), virtual_code: 111 + number, text: None });
    }
    let (name, code, virtual_code, text) = NAMED.iter().find(|(known, ..)| *known == name)?;
    let key = if *name == "Space" { " " } else { name };
    Some(Key {
        key: key.to_owned(),
        code: (*code).to_owned(),
        virtual_code: *virtual_code,
        text: (!text.is_empty()).then(|| (*text).to_owned()),
    })
}

/// `Control+Shift+A`: the key and the modifiers that are held.
pub(super) fn chord(text: &str) -> Result<(Key, u32), BrowserError> {
    let unknown = || {
        BrowserError::Invalid(format!(
            "`{}` is no key; keys are characters, names as `Enter`, `ArrowDown`, `F2`, and these after `Control+`, \
             `Shift+`, `Alt+` or `Meta+`",
            crate::selector::shortened(text)
        ))
    };
    let mut modifiers = 0;
    let mut rest = text;
    while let Some((first, then)) = rest.split_once('+').filter(|(first, then)| !first.is_empty() && !then.is_empty()) {
        modifiers |= match first {
            "Alt" => ALT,
            "Control" => CONTROL,
            "Meta" => META,
            "Shift" => SHIFT,
            _ => return Err(unknown()),
        };
        rest = then;
    }
    let mut letters = rest.chars();
    let (mut key, shifted) = match (letters.next(), letters.next()) {
        (Some(character), None) => of_character(character).ok_or_else(unknown)?,
        _ => (of_name(rest).ok_or_else(unknown)?, false),
    };
    let is_command = modifiers & (ALT | CONTROL | META) != 0;
    if is_command && key.code.starts_with("Key") && modifiers & SHIFT == 0 {
        // `Control+A` is how people write the key that is `a`.
        key.key = key.key.to_ascii_lowercase();
    } else if shifted {
        modifiers |= SHIFT;
    }
    if is_command {
        key.text = None;
    } else if modifiers & SHIFT != 0
        && !shifted
        && key.text.as_ref().is_some_and(|text| text.len() == 1 && text != "\r")
    {
        key.key = key.key.to_ascii_uppercase();
        key.text = Some(key.key.clone());
    }
    Ok((key, modifiers))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chords_are_read_as_they_are_written() {
        let read = |text: &str| chord(text).map(|(key, modifiers)| (key.key, key.code, key.text, modifiers)).unwrap();
        assert_eq!(read("a"), ("a".into(), "KeyA".into(), Some("a".into()), 0));
        assert_eq!(read("Control+A"), ("a".into(), "KeyA".into(), None, CONTROL));
        assert_eq!(read("Control+Shift+A"), ("A".into(), "KeyA".into(), None, CONTROL | SHIFT));
        assert_eq!(read("Control+a"), ("a".into(), "KeyA".into(), None, CONTROL));
        assert_eq!(read("Shift+b"), ("B".into(), "KeyB".into(), Some("B".into()), SHIFT));
        assert_eq!(read("+"), ("+".into(), "Equal".into(), Some("+".into()), SHIFT));
        assert_eq!(read("Control++"), ("+".into(), "Equal".into(), None, CONTROL | SHIFT));
        assert_eq!(read("%").1, "Digit5");
        assert_eq!(read("Enter").2.as_deref(), Some("\r"));
        assert_eq!(read("F12").1, "F12");
        for text in ["", "Hyper+a", "Entr", "é", "F13", "Control+"] {
            assert_eq!(chord(text).unwrap_err().code(), "invalid_action", "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_written_panics(text in ".{0,40}") {
            let _ = chord(&text);
        }
    }
}
