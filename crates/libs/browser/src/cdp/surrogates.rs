//! Replacement of unpaired UTF-16 surrogates. Scripts split strings inside a character, and Chromium writes the
//! remaining surrogate as a JSON escape, which no Rust string can hold.

use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Surrogate {
    High,
    Low,
}

/// Replaces each unpaired surrogate escape in a message by `\ufffd`, so that it can be parsed.
pub(super) fn replace_lone_surrogates(message: &[u8]) -> Cow<'_, [u8]> {
    let mut replaced = Cow::Borrowed(message);
    let mut at = 0;
    while let Some(found) = message.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += found;
        at += match (surrogate_at(message, at), surrogate_at(message, at + 6)) {
            (Some(Surrogate::High), Some(Surrogate::Low)) => 12,
            (Some(_), _) => {
                replaced.to_mut()[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            // Any other escape, including an escaped backslash.
            (None, _) => 2,
        };
    }
    replaced
}

/// Returns the surrogate whose escape begins at this offset.
fn surrogate_at(message: &[u8], at: usize) -> Option<Surrogate> {
    match message.get(at..at + 6)? {
        [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..] => Some(Surrogate::High),
        [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', ..] => Some(Surrogate::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lone_surrogates_are_replaced(
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
            let read: String = serde_json::from_slice(&replace_lone_surrogates(message.as_bytes())).unwrap();
            prop_assert_eq!(read, String::from_utf16_lossy(&units));
        }

        #[test]
        fn other_messages_are_unchanged(text in ".{0,50}", bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let message = serde_json::to_vec(&text).unwrap();
            prop_assert!(matches!(replace_lone_surrogates(&message), Cow::Borrowed(_)));
            let _ = replace_lone_surrogates(&bytes);
        }
    }
}
