//! Numbers and ordinals as digits and as words.

const ENGLISH: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const GERMAN: [&str; 20] = [
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
];
/// Tens, starting at twenty.
const ENGLISH_TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const GERMAN_TENS: [&str; 8] = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"];
/// English ordinals and German stems that are not derived from their number.
const IRREGULAR: [(&str, u32); 10] = [
    ("first", 1),
    ("third", 3),
    ("fifth", 5),
    ("eighth", 8),
    ("ninth", 9),
    ("twelfth", 12),
    ("erste", 1),
    ("dritte", 3),
    ("siebte", 7),
    ("achte", 8),
];

pub(super) fn number(word: &str) -> Option<u32> {
    if !word.is_empty() && word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.parse().ok();
    }
    if word == "couple" {
        return Some(2);
    }
    // Spelling without ß.
    let german = word.replace("dreissig", "dreißig");
    position(&ENGLISH, word)
        .or_else(|| position(&GERMAN, word))
        .or_else(|| tens(&ENGLISH_TENS, word))
        .or_else(|| tens(&GERMAN_TENS, &german))
        .or_else(|| {
            let (ten, one) = word.split_once('-')?;
            Some(tens(&ENGLISH_TENS, ten)? + one_to_nine(&ENGLISH, one)?)
        })
        .or_else(|| {
            let (one, ten) = german.split_once("und")?;
            let one = if one == "ein" { 1 } else { one_to_nine(&GERMAN, one)? };
            Some(tens(&GERMAN_TENS, ten)? + one)
        })
}

fn position(words: &[&str], word: &str) -> Option<u32> {
    words.iter().position(|known| *known == word).and_then(|position| u32::try_from(position).ok())
}

fn tens(words: &[&str], word: &str) -> Option<u32> {
    position(words, word).map(|position| 20 + 10 * position)
}

fn one_to_nine(words: &[&str], word: &str) -> Option<u32> {
    position(words, word).filter(|number| (1..=9).contains(number))
}

/// Parses "dreieinhalb", in hundredths.
pub(super) fn and_a_half(word: &str) -> Option<u32> {
    let whole = number(word.strip_suffix("einhalb")?)?;
    Some(whole.min(1000) * 100 + 50)
}

pub(super) fn ordinal(word: &str) -> Option<u32> {
    for suffix in ["st", "nd", "rd", "th"] {
        if let Some(digits) = word.strip_suffix(suffix)
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            return digits.parse().ok().filter(|number| *number < 1000);
        }
    }
    let german = word.strip_suffix(['n', 'r', 's', 'm']).unwrap_or(word);
    if let Some((_, number)) = IRREGULAR.iter().find(|(known, _)| *known == word || *known == german) {
        return Some(*number);
    }
    // "twenty-second", "twentieth", "sixth".
    if let Some((ten, one)) = word.split_once('-') {
        let one = if one == "second" { Some(2) } else { ordinal(one).filter(|one| (1..=9).contains(one)) };
        return Some(tens(&ENGLISH_TENS, ten)? + one?);
    }
    if let Some(ten) = word.strip_suffix("ieth") {
        return tens(&ENGLISH_TENS, &format!("{ten}y"));
    }
    if let Some(number) = word.strip_suffix("th").and_then(|cardinal| position(&ENGLISH, cardinal)) {
        return Some(number);
    }
    // "zwanzigste", "zehnte".
    match german.strip_suffix("ste").and_then(number).filter(|number| *number >= 20) {
        None => german.strip_suffix("te").and_then(|cardinal| position(&GERMAN, cardinal)),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_up_to_99_has_a_word() {
        for (english, german) in [(ENGLISH, ENGLISH_TENS), (GERMAN, GERMAN_TENS)] {
            let words: Vec<&str> = english.into_iter().chain(german).collect();
            let numbers: Vec<u32> = words.iter().filter_map(|word| number(word)).collect();
            assert_eq!(numbers, (0..20).chain((20..100).step_by(10)).collect::<Vec<_>>());
        }
        for ten in 0..8 {
            for one in 1..10 {
                let meant = Some(20 + 10 * u32::try_from(ten).unwrap() + u32::try_from(one).unwrap());
                assert_eq!(number(&format!("{}-{}", ENGLISH_TENS[ten], ENGLISH[one])), meant);
                let german = if one == 1 { "ein" } else { GERMAN[one] };
                let word = format!("{german}und{}", GERMAN_TENS[ten]);
                assert_eq!(number(&word), meant, "{word}");
                assert_eq!(number(&word.replace('ß', "ss")), meant, "{word}");
                assert_eq!(ordinal(&format!("{word}sten")), meant, "{word}");
            }
        }
        for word in ["nullunddreißig", "zehnundzwanzig", "twenty-ten", "undzwanzig", "und", "hund"] {
            assert_eq!(number(word), None, "{word}");
        }
    }

    #[test]
    fn ordinals_are_made_from_numbers() {
        for (word, meant) in [
            ("first", 1),
            ("13th", 13),
            ("thirteenth", 13),
            ("twentieth", 20),
            ("twenty-second", 22),
            ("thirty-first", 31),
            ("erster", 1),
            ("zweites", 2),
            ("siebenten", 7),
            ("dreizehnten", 13),
            ("einunddreißigsten", 31),
        ] {
            assert_eq!(ordinal(word), Some(meant), "{word}");
        }
        for word in ["month", "north", "elite", "gäste", "beste", "twenty-tenth", "th", "te"] {
            assert_eq!(ordinal(word), None, "{word}");
        }
    }
}
