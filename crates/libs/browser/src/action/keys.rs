//! Keys of a US keyboard layout, as described by keyboard events.

use crate::BrowserError;

/// Key with the properties of its keyboard event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// `KeyboardEvent.key`.
    pub(super) key: String,
    /// `KeyboardEvent.code`, the physical key.
    pub(super) code: String,
    pub(super) virtual_code: u32,
    /// Text that the key inserts.
    pub(super) text: Option<String>,
}

/// Bits of the `modifiers` field of an input event.
pub(super) const ALT: u32 = 1;
pub(super) const CONTROL: u32 = 2;
pub(super) const META: u32 = 4;
pub(super) const SHIFT: u32 = 8;

/// Named keys: name, code, virtual code, text.
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

/// Punctuation keys: plain character, shifted character, code, virtual code.
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

/// Returns the key that produces a character and whether it needs Shift, or `None` if no key produces it.
pub(super) fn key_for_character(character: char) -> Option<(Key, bool)> {
    let key = |code: String, virtual_code: u32| Key {
        key: character.to_string(),
        code,
        virtual_code,
        text: Some(character.to_string()),
    };
    match character {
        '\n' | '\r' => key_by_name("Enter").map(|key| (key, false)),
        '\t' => key_by_name("Tab").map(|key| (key, false)),
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

fn key_by_name(name: &str) -> Option<Key> {
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

/// Parses a chord such as `Control+Shift+A` into the key and the modifiers.
pub(super) fn parse_chord(text: &str) -> Result<(Key, u32), BrowserError> {
    let unknown = || {
        BrowserError::Invalid(format!(
            "`{}` is not a key; use a character or a name such as `Enter`, `ArrowDown` or `F2`, optionally after \
             `Control+`, `Shift+`, `Alt+` or `Meta+`",
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
    let mut characters = rest.chars();
    let (mut key, shifted) = match (characters.next(), characters.next()) {
        (Some(character), None) => key_for_character(character).ok_or_else(unknown)?,
        _ => (key_by_name(rest).ok_or_else(unknown)?, false),
    };
    let is_command = modifiers & (ALT | CONTROL | META) != 0;
    if is_command && key.code.starts_with("Key") && modifiers & SHIFT == 0 {
        // `Control+A` conventionally means the key `a`.
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
    fn parse_chord_returns_key_and_modifiers() {
        let parse =
            |text: &str| parse_chord(text).map(|(key, modifiers)| (key.key, key.code, key.text, modifiers)).unwrap();
        assert_eq!(parse("a"), ("a".into(), "KeyA".into(), Some("a".into()), 0));
        assert_eq!(parse("Control+A"), ("a".into(), "KeyA".into(), None, CONTROL));
        assert_eq!(parse("Control+Shift+A"), ("A".into(), "KeyA".into(), None, CONTROL | SHIFT));
        assert_eq!(parse("Control+a"), ("a".into(), "KeyA".into(), None, CONTROL));
        assert_eq!(parse("Shift+b"), ("B".into(), "KeyB".into(), Some("B".into()), SHIFT));
        assert_eq!(parse("+"), ("+".into(), "Equal".into(), Some("+".into()), SHIFT));
        assert_eq!(parse("Control++"), ("+".into(), "Equal".into(), None, CONTROL | SHIFT));
        assert_eq!(parse("%").1, "Digit5");
        assert_eq!(parse("Enter").2.as_deref(), Some("\r"));
        assert_eq!(parse("F12").1, "F12");
        for text in ["", "Hyper+a", "Entr", "é", "F13", "Control+"] {
            assert_eq!(parse_chord(text).unwrap_err().code(), "invalid_action", "{text}");
        }
    }

    proptest! {
        #[test]
        fn parse_chord_never_panics(text in ".{0,40}") {
            let _ = parse_chord(&text);
        }
    }
}
