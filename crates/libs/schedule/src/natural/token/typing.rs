//! Correction of mistyped words.

use super::{Kind, kind_of};

/// Words long enough that a single typing error is unambiguous.
const OFTEN_MISTYPED: [&str; 62] = [
    "every",
    "weekday",
    "weekly",
    "daily",
    "jeden",
    "täglich",
    "stündlich",
    "wöchentlich",
    "monatlich",
    "hourly",
    "monthly",
    "morning",
    "evening",
    "afternoon",
    "midnight",
    "tomorrow",
    "tonight",
    "weekdays",
    "weekend",
    "weekends",
    "minutes",
    "minuten",
    "stunden",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "mondays",
    "tuesdays",
    "wednesdays",
    "thursdays",
    "fridays",
    "saturdays",
    "sundays",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonntag",
    "montags",
    "dienstags",
    "mittwochs",
    "donnerstags",
    "freitags",
    "samstags",
    "sonntags",
    "wochenende",
    "werktags",
    "übermorgen",
    "january",
    "february",
    "september",
    "october",
    "november",
    "december",
    "februar",
    "dezember",
];
/// Words of their own that differ by one letter from a corrected word.
const NOT_MISTYPED: [&str; 17] = [
    "ever", "jenen", "mourning", "moaning", "minuet", "minuets", "sundry", "montage", "weakly", "studen", "leaving",
    "mooring", "eventing", "dairy", "daisy", "dally", "doily",
];

/// Returns the intended word, if the word has no meaning of its own.
pub(in super::super) fn corrected(word: &str) -> Option<String> {
    let meant = match word {
        "dayly" | "dailly" | "dialy" | "dailey" => "daily",
        "tommorow" | "tommorrow" | "tomorow" | "tomorro" | "tomorrw" | "2morrow" => "tomorrow",
        "wensday" | "wendsday" | "wednsday" => "wednesday",
        "wensdays" | "wendsdays" | "wednsdays" => "wednesdays",
        "evry" | "evey" | "eveyr" | "ervery" => "every",
        "tuseday" => "tuesday",
        "noone" | "" => return None,
        _ => "",
    };
    if !meant.is_empty() {
        return Some(meant.to_owned());
    }
    // Spelling without umlauts.
    for (typed, letter) in [("ae", "ä"), ("oe", "ö"), ("ue", "ü"), ("a", "ä"), ("o", "ö"), ("u", "ü"), ("ss", "ß")]
    {
        if let Some(start) = word.find(typed) {
            let spelt = format!("{}{letter}{}", &word[..start], &word[start + typed.len()..]);
            if spelt.chars().count() > 3 && kind_of(&spelt) != Kind::Unknown {
                return Some(spelt);
            }
        }
    }
    if NOT_MISTYPED.contains(&word) || word.chars().count() < 4 {
        return None;
    }
    let found = OFTEN_MISTYPED.iter().find(|meant| differs_by_one_typo(word, meant))?;
    Some((*found).to_owned())
}

/// Whether the words differ by one inserted, missing, replaced or swapped letter; the first letter must match.
fn differs_by_one_typo(typed: &str, meant: &str) -> bool {
    let (typed, meant): (Vec<char>, Vec<char>) = (typed.chars().collect(), meant.chars().collect());
    if typed.first() != meant.first() || typed.len().abs_diff(meant.len()) > 1 {
        return false;
    }
    let same = typed.iter().zip(&meant).take_while(|(left, right)| left == right).count();
    let (rest_typed, rest_meant) = (&typed[same..], &meant[same..]);
    let without = |rest: &[char], letters: usize| rest.get(letters..).map(<[char]>::to_vec);
    match rest_typed.len().cmp(&rest_meant.len()) {
        std::cmp::Ordering::Less => without(rest_meant, 1).as_deref() == Some(rest_typed),
        std::cmp::Ordering::Greater => without(rest_typed, 1).as_deref() == Some(rest_meant),
        std::cmp::Ordering::Equal => {
            let swapped = rest_typed.len() >= 2
                && (rest_typed[0], rest_typed[1]) == (rest_meant[1], rest_meant[0])
                && rest_typed[2..] == rest_meant[2..];
            swapped || without(rest_typed, 1) == without(rest_meant, 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_corrected_and_other_words_unchanged() {
        for (typed, meant) in
            [("evrey", "every"), ("thrusday", "thursday"), ("wednesdy", "wednesday"), ("mornning", "morning")]
        {
            assert_eq!(corrected(typed).as_deref(), Some(meant), "{typed}");
        }
        assert_eq!(corrected("taeglich").as_deref(), Some("täglich"));
        assert_eq!(corrected("fuenf").as_deref(), Some("fünf"));
        for word in ["ever", "very", "mourning", "today's", "money", "summary", "mouth", "light", "möglich"] {
            assert_eq!(corrected(word), None, "{word}");
        }
    }
}
