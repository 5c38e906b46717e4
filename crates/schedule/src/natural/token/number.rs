//! Numbers and ordinals, in digits and in words.

pub(super) fn number(word: &str) -> Option<u32> {
    const WORDS: [(&str, &str); 21] = [
        ("zero", "null"),
        ("one", "eins"),
        ("two", "zwei"),
        ("three", "drei"),
        ("four", "vier"),
        ("five", "fünf"),
        ("six", "sechs"),
        ("seven", "sieben"),
        ("eight", "acht"),
        ("nine", "neun"),
        ("ten", "zehn"),
        ("eleven", "elf"),
        ("twelve", "zwölf"),
        ("thirteen", "dreizehn"),
        ("fourteen", "vierzehn"),
        ("fifteen", "fünfzehn"),
        ("sixteen", "sechzehn"),
        ("seventeen", "siebzehn"),
        ("eighteen", "achtzehn"),
        ("nineteen", "neunzehn"),
        ("twenty", "zwanzig"),
    ];
    if !word.is_empty() && word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.parse().ok();
    }
    if let Some(place) = WORDS.iter().position(|(english, german)| word == *english || word == *german) {
        return u32::try_from(place).ok();
    }
    Some(match word {
        "thirty" | "dreißig" | "dreissig" => 30,
        "forty" | "vierzig" => 40,
        "fifty" | "fünfzig" => 50,
        "sixty" | "sechzig" => 60,
        "ninety" | "neunzig" => 90,
        "zweiundzwanzig" => 22,
        "dreiundzwanzig" => 23,
        "fünfundvierzig" => 45,
        "fünfundzwanzig" => 25,
        "couple" => 2,
        _ => return None,
    })
}

/// "dreieinhalb", in hundredths.
pub(super) fn and_a_half(word: &str) -> Option<u32> {
    let whole = number(word.strip_suffix("einhalb")?)?;
    Some(whole.min(1000) * 100 + 50)
}

pub(super) fn ordinal(word: &str) -> Option<u32> {
    const WORDS: [(&str, &str); 12] = [
        ("first", "erste"),
        ("2nd", "zweite"),
        ("third", "dritte"),
        ("fourth", "vierte"),
        ("fifth", "fünfte"),
        ("sixth", "sechste"),
        ("seventh", "siebte"),
        ("eighth", "achte"),
        ("ninth", "neunte"),
        ("tenth", "zehnte"),
        ("eleventh", "elfte"),
        ("twelfth", "zwölfte"),
    ];
    for suffix in ["st", "nd", "rd", "th"] {
        if let Some(digits) = word.strip_suffix(suffix)
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            return digits.parse().ok().filter(|number| *number < 1000);
        }
    }
    let german = word.strip_suffix(['n', 'r', 's', 'm']).unwrap_or(word);
    if let Some(place) = WORDS.iter().position(|(english, stem)| word == *english || german == *stem) {
        return u32::try_from(place + 1).ok();
    }
    Some(match german {
        "fifteenth" | "fünfzehnte" => 15,
        "twentieth" | "zwanzigste" => 20,
        "thirtieth" | "dreißigste" => 30,
        _ => return None,
    })
}
