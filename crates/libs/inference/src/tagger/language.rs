//! Language detection for the languages that have a tagger network.

/// Words that are frequent in one of the two languages and rare in the other, sorted.
const GERMAN: [&str; 48] = [
    "aber", "als", "am", "auch", "auf", "aus", "bei", "bin", "bis", "das", "dass", "dem", "den", "der", "des", "du",
    "ein", "eine", "einem", "einen", "einer", "er", "es", "für", "habe", "haben", "hat", "ich", "im", "ist", "mein",
    "meine", "mich", "mir", "mit", "nach", "nicht", "noch", "oder", "sie", "sind", "und", "von", "wie", "wir", "wird",
    "zu", "zum",
];
const ENGLISH: [&str; 48] = [
    "a", "about", "and", "are", "as", "at", "be", "but", "by", "for", "from", "had", "has", "have", "he", "her", "his",
    "i", "if", "is", "it", "my", "not", "of", "on", "or", "our", "she", "that", "the", "their", "there", "they",
    "this", "to", "us", "was", "we", "were", "what", "when", "which", "who", "will", "with", "would", "you", "your",
];

/// Whether a text has more German than English function words.
pub(crate) fn is_german(text: &str) -> bool {
    let mut lead = 0_i64;
    for word in text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        let holds = |list: &[&str]| i64::from(list.binary_search(&word.as_str()).is_ok());
        lead += holds(&GERMAN) - holds(&ENGLISH);
    }
    lead > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_words_determine_the_language() {
        assert!(GERMAN.is_sorted() && ENGLISH.is_sorted());
        for text in ["Ich wohne in Köln und arbeite bei Bosch.", "Anna ist nicht da", "WIR FAHREN NACH WIEN"] {
            assert!(is_german(text), "{text}");
        }
        for text in ["I live in Cologne.", "Anna works at Bosch", "", "東京", "The Volkswagen was in Berlin with us"]
        {
            assert!(!is_german(text), "{text}");
        }
    }
}
