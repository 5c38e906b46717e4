//! Halves of characters: scripts cut texts in the middle of one, JSON as Chromium writes it has what is left, and no text
//! can hold it.

use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

/// A message with `\ufffd` in place of each half that has lost the other; it could not be read otherwise.
pub(super) fn without_halves(message: &[u8]) -> Cow<'_, [u8]> {
    let mut repaired = Cow::Borrowed(message);
    let mut at = 0;
    while let Some(found) = message.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += found;
        at += match (half(message, at), half(message, at + 6)) {
            (Some(Half::First), Some(Half::Second)) => 12,
            (Some(_), _) => {
                repaired.to_mut()[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            // Whatever else is escaped, a backslash among others.
            (None, _) => 2,
        };
    }
    repaired
}

/// What is escaped here, if it is one.
fn half(message: &[u8], at: usize) -> Option<Half> {
    match message.get(at..at + 6)? {
        [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..] => Some(Half::First),
        [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_read_with_what_is_left_of_it(
            units in prop::collection::vec(prop_oneof![any::<u16>(), 0xd700_u16..0xe100, Just(0x5c), Just(0x22)], 0..20),
            is_upper in any::<bool>(),
        ) {
            let escaped = |unit: &u16| match unit {
                0x5c => "\\\\".to_owned(),
                0x22 => "\\\"".to_owned(),
                unit if is_upper => format!("\\u{unit:04X}"),
                unit => format!("\\u{unit:04x}"),
            };
            let message = format!("\"{}\"", units.iter().map(escaped).collect::<String>());
            let read: String = serde_json::from_slice(&without_halves(message.as_bytes())).unwrap();
            prop_assert_eq!(read, String::from_utf16_lossy(&units));
        }

        #[test]
        fn nothing_else_is_changed(text in ".{0,50}", bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let message = serde_json::to_vec(&text).unwrap();
            prop_assert!(matches!(without_halves(&message), Cow::Borrowed(_)));
            let _ = without_halves(&bytes);
        }
    }
}
