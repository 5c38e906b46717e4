//! Case and shape features of words. The embedder ignores case, so its vectors are the same for `Anna` and `anna`.
//!
//! `scripts/tagger/words.py` computes the same for the training.

use crate::tagger::words::{Word, is_apostrophe};

/// Number of features of one word by itself.
const BASE: usize = 30;
/// Features that are also used for the second word before and after.
const FAR: [usize; 6] = [0, 1, 2, 3, 4, 10];
/// Number of features of the whole text.
const WHOLE: usize = 3;
/// Features for the number of tokens: 1, 2, 3, more.
const TOKENS: usize = 4;
/// Number of features.
pub(crate) const SHAPES: usize = 3 * BASE + 2 * FAR.len() + WHOLE + TOKENS;

const LOWER: usize = 0;
const TITLE: usize = 1;
const UPPER: usize = 2;
const INITIAL: usize = 3;
const MIXED: usize = 4;
/// If more than this many of ten words with letters are capitalized, the text is a title or in capitals.
const MAX_CAPITALIZED_OF_TEN: usize = 6;

/// Returns the indices of the features of each word.
pub(crate) fn shapes(text: &str, words: &[Word]) -> Vec<Vec<usize>> {
    let base: Vec<Vec<usize>> = words
        .iter()
        .enumerate()
        .map(|(index, word)| {
            let is_first = index.checked_sub(1).map(|before| &words[before].range).is_none_or(|before| {
                matches!(&text[before.clone()], "." | "!" | "?" | "…")
                    || text[before.end..word.range.start].contains('\n')
            });
            base_shape(&text[word.range.clone()], is_first, index + 1 == words.len())
        })
        .collect();
    let cased: Vec<&Vec<usize>> = base.iter().filter(|on| on.iter().any(|position| *position <= MIXED)).collect();
    let share = |position: usize| cased.iter().filter(|on| on.contains(&position)).count();
    let are_most = |position: usize| 10 * share(position) > MAX_CAPITALIZED_OF_TEN * cased.len();
    let whole = [share(LOWER) == cased.len(), are_most(TITLE), are_most(UPPER)];
    (0..words.len())
        .map(|index| {
            let mut on = Vec::new();
            for slot in 0..3 {
                if let Some(near) = (index + slot).checked_sub(1).and_then(|at| base.get(at)) {
                    on.extend(near.iter().map(|position| slot * BASE + position));
                }
            }
            for (slot, at) in [index.checked_sub(2), Some(index + 2)].into_iter().enumerate() {
                if let Some(far) = at.and_then(|at| base.get(at)) {
                    let known = far.iter().filter_map(|position| FAR.iter().position(|counted| counted == position));
                    on.extend(known.map(|position| 3 * BASE + slot * FAR.len() + position));
                }
            }
            let first = 3 * BASE + 2 * FAR.len();
            on.extend(whole.iter().enumerate().filter(|(_, is_so)| **is_so).map(|(position, _)| first + position));
            on.push(first + WHOLE + words[index].tokens.len().clamp(1, TOKENS) - 1);
            on
        })
        .collect()
}

fn base_shape(word: &str, is_first: bool, is_last: bool) -> Vec<usize> {
    let alphanumeric: Vec<char> = word.chars().filter(|character| character.is_alphanumeric()).collect();
    let letters = || alphanumeric.iter().filter(|character| character.is_alphabetic());
    let upper = letters().filter(|character| character.is_uppercase()).count();
    let lower = letters().filter(|character| character.is_lowercase()).count();
    let digits = alphanumeric.iter().filter(|character| character.is_ascii_digit()).count();
    let mut on = Vec::new();
    if letters().next().is_some() {
        on.push(match upper {
            0 => LOWER,
            1 if alphanumeric.len() == 1 => INITIAL,
            1 if alphanumeric[0].is_uppercase() => TITLE,
            2.. if lower == 0 => UPPER,
            _ => MIXED,
        });
    }
    let holds = |is_one: fn(char) -> bool| word.contains(is_one);
    let mut rest = word.chars();
    let first = rest.next();
    let is_possessive = first.is_some_and(is_apostrophe) && matches!(rest.as_str(), "s" | "S");
    let is_word = !alphanumeric.is_empty();
    let length = match alphanumeric.len() {
        0 => None,
        1 => Some(16),
        2 => Some(17),
        3 => Some(18),
        4..=5 => Some(19),
        6..=8 => Some(20),
        9..=12 => Some(21),
        _ => Some(22),
    };
    let rules = [
        (5, digits > 0),
        (6, digits > 0 && digits == alphanumeric.len()),
        (7, holds(|character| character == '-')),
        (8, holds(|character| character == '.')),
        (9, holds(is_apostrophe)),
        (10, !is_word),
        (11, is_possessive),
        (12, is_word && first == Some('@')),
        (13, is_word && first == Some('#')),
        (14, is_first),
        (15, holds(|character| character == '&')),
        (23, letters().any(|character| !character.is_ascii())),
        (24, word == ","),
        (25, word == "."),
        (26, matches!(word, "\"" | "“" | "”" | "„")),
        (27, matches!(word, "(" | "[")),
        (28, word == ":"),
        (29, is_last),
    ];
    on.extend(rules.into_iter().filter(|(_, is_so)| *is_so).map(|(position, _)| position));
    on.extend(length);
    on
}
