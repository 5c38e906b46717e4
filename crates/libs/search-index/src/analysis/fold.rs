//! Folding maps letters that readers consider equal to the same letter: lower case, compatibility decomposition (NFKD:
//! width, ligatures), removal of diacritics, and Latin letters that do not decompose.

use unicode_normalization::UnicodeNormalization as _;

/// Appends the folded form of `word` to `out`.
pub(super) fn fold_into(word: &str, out: &mut String) {
    if word.is_ascii() {
        out.extend(word.chars().map(|c| c.to_ascii_lowercase()));
        return;
    }
    // Lower-cased again after decomposition: some compatibility forms decompose to capitals.
    for c in word.chars().flat_map(char::to_lowercase).nfkd().flat_map(char::to_lowercase) {
        match c {
            _ if is_dropped(c) => {}
            'ß' => out.push_str("ss"),
            'æ' => out.push_str("ae"),
            'œ' => out.push_str("oe"),
            'þ' => out.push_str("th"),
            'ø' => out.push('o'),
            'ł' => out.push('l'),
            'đ' | 'ð' => out.push('d'),
            'ħ' => out.push('h'),
            'ı' => out.push('i'),
            'ς' => out.push('σ'),
            _ => out.push(c),
        }
    }
}

/// Whether this is a diacritic or mark that does not change the word. Vowel signs of Indic scripts do, and are
/// retained.
fn is_dropped(c: char) -> bool {
    matches!(c,
        '\u{0300}'..='\u{036f}' | '\u{0483}'..='\u{0487}' | '\u{0591}'..='\u{05c7}' | '\u{0610}'..='\u{061a}'
        | '\u{0640}' | '\u{064b}'..='\u{065f}' | '\u{0670}' | '\u{06d6}'..='\u{06dc}' | '\u{06df}'..='\u{06e8}'
        | '\u{06ea}'..='\u{06ed}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}')
        || is_invisible(c)
}

/// Whether this is an invisible character within words: soft hyphen, joiners, direction marks.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{00ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    fn fold(word: &str) -> String {
        let mut out = String::new();
        super::fold_into(word, &mut out);
        out
    }

    #[test]
    fn equivalent_spellings_fold_to_the_same_form() {
        for (word, folded) in [
            ("Straße", "strasse"),
            ("CAFÉ", "cafe"),
            ("Ｆｕｌｌｗｉｄｔｈ", "fullwidth"),
            ("ﬁne", "fine"),
            ("İstanbul", "istanbul"),
            ("Łódź", "lodz"),
            ("ΟΔΟΣ", "οδοσ"),
            ("co\u{ad}operate", "cooperate"),
            ("हिन्दी", "हिन्दी"),
            ("שָׁלוֹם", "שלום"),
        ] {
            assert_eq!(fold(word), folded);
        }
    }
}
