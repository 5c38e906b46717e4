//! Words, and what makes two of them the same: a light stemmer and a small thesaurus.
//!
//! The thesaurus holds everyday words in groups of one meaning. It names no tool; it is what lets
//! "will it rain" meet a tool that says "weather forecast".
//!
//! Not the stemmer of the search index: the thesaurus was made, and the choice of tools measured, with this one.

use std::collections::HashMap;
use std::sync::LazyLock;

/// One word of a text, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) lower: String,
    pub(crate) stem: String,
    /// Written with a capital first letter.
    pub(crate) capital: bool,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The words of `text`: letters and digits, with apostrophes and hyphens inside.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        let inside = character.is_alphanumeric()
            || (matches!(character, '\'' | '’' | '-')
                && start.is_some()
                && text[at + character.len_utf8()..].chars().next().is_some_and(char::is_alphanumeric));
        match (inside, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found.push(word(&text[from..at], from));
                start = None;
            }
            _ => {}
        }
    }
    found
}

fn word(text: &str, start: usize) -> Word {
    let lower = text.to_lowercase().replace('’', "'");
    Word {
        stem: stem(&lower),
        capital: text.chars().next().is_some_and(char::is_uppercase),
        start,
        end: start + text.len(),
        lower,
    }
}

/// The stems of an identifier: `get_weather`, `getWeather` and `get-weather` give the same.
pub(crate) fn identifier_stems(name: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(name.len() + 4);
    let mut before_lower = false;
    for character in name.chars() {
        if character.is_uppercase() && before_lower {
            spaced.push(' ');
        }
        before_lower = character.is_lowercase();
        spaced.push(if character.is_alphanumeric() { character } else { ' ' });
    }
    spaced.to_lowercase().split_whitespace().map(stem).collect()
}

/// Cuts English endings. Wrong now and then, and the same way on both sides of a comparison.
pub(crate) fn stem(lower: &str) -> String {
    let mut stem = lower.strip_suffix("'s").or_else(|| lower.strip_suffix("n't")).unwrap_or(lower).to_owned();
    let long = |text: &str, than: usize| text.chars().count() > than;
    if !stem.is_ascii() {
        return stem;
    }
    if let Some(rest) = stem.strip_suffix("ies").filter(|rest| long(rest, 1)) {
        stem = format!("{rest}y");
    } else if stem.ends_with("sses") || stem.ends_with("ches") || stem.ends_with("shes") || stem.ends_with("xes") {
        stem.truncate(stem.len() - 2);
    } else if stem.ends_with('s')
        && !stem.ends_with("ss")
        && !stem.ends_with("us")
        && !stem.ends_with("is")
        && long(&stem, 3)
    {
        stem.pop();
    }
    for ending in ["ing", "ed"] {
        if let Some(rest) = stem.strip_suffix(ending)
            && long(rest, 2)
            && rest.contains(['a', 'e', 'i', 'o', 'u', 'y'])
        {
            stem = rest.to_owned();
            break;
        }
    }
    if stem.ends_with('e') && long(&stem, 3) {
        stem.pop();
    }
    let bytes = stem.as_bytes();
    if let [.., before, last] = bytes
        && before == last
        && long(&stem, 3)
        && !b"aeiou".contains(last)
    {
        stem.pop();
    }
    stem
}

/// Words that say nothing about what is wanted.
pub(crate) fn is_filler(lower: &str) -> bool {
    FILLERS.contains(&lower)
}

const FILLERS: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "did", "do", "does", "for", "from", "get", "give", "had", "has", "have", "he", "her", "hi", "him", "his",
    "how", "i", "i'd", "i'm", "if", "in", "into", "is", "it", "it's", "its", "just", "know", "let", "like", "me",
    "much", "my", "need", "of", "on", "one", "or", "our", "out", "over", "please", "she", "should", "so", "some",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "up", "us", "use",
    "using", "want", "was", "we", "were", "what", "what's", "when", "where", "which", "who", "why", "will", "with",
    "would", "you", "your", "return", "such", "not", "only", "piece", "another", "name", "number", "given", "make",
    "takes",
];

/// Verbs by meaning. A word may stand in several groups.
const ACTIONS: &[&[&str]] = &[
    &["read", "open", "show", "display", "view", "print", "look", "see", "load", "say", "says"],
    &["write", "save", "create", "store", "put", "record", "note", "make", "jot", "overwrite"],
    &["edit", "change", "replace", "modify", "update", "fix", "swap", "correct", "substitute", "rename"],
    &["list", "show", "enumerate", "browse"],
    &["search", "find", "grep", "look", "locate", "mention", "contain", "lookup", "used", "occur"],
    &["run", "execute", "launch", "start", "invoke", "evaluate"],
    &["fetch", "download", "get", "open", "visit", "browse", "retrieve", "load", "summarize", "read", "scrape"],
    &["send", "tell", "text", "message", "notify", "email", "mail", "write", "inform", "ping", "post", "let"],
    &["calculate", "compute", "evaluate", "add", "subtract", "multiply", "divide", "sum", "solve"],
    &["convert", "change", "turn", "transform"],
    &["append", "add"],
    &["delete", "remove", "erase", "drop", "clear"],
    &["copy", "duplicate", "clone"],
    &["move", "rename", "relocate"],
    &["remind", "schedule", "plan"],
    &["play", "listen", "start"],
    &["switch", "turn", "toggle", "dim", "set"],
    &["translate"],
    &["remember", "memorize", "store", "save", "note"],
    &["buy", "order", "purchase"],
    &["book", "reserve"],
    &["check", "get", "show", "query", "status"],
];

/// Things by meaning.
const THINGS: &[&[&str]] = &[
    &[
        "weather",
        "forecast",
        "cold",
        "warm",
        "hot",
        "cloudy",
        "temperature",
        "rain",
        "raining",
        "rainy",
        "sunny",
        "snow",
        "umbrella",
        "storm",
        "wind",
        "windy",
        "degrees",
    ],
    &["file", "document", "doc"],
    &["folder", "directory", "dir"],
    &["url", "link", "page", "webpage", "website", "site", "article", "web", "http", "https"],
    &["shell", "terminal", "bash", "console", "command"],
    &["python", "py"],
    &["code", "script", "snippet", "program"],
    &["message", "sms", "chat", "text"],
    &["email", "mail", "e-mail"],
    &["calculate", "calculator", "arithmetic", "math", "expression", "sum", "product"],
    &["unit", "measurement", "conversion", "convert"],
    &["time", "clock", "hour", "o'clock"],
    &["date", "day", "today", "calendar"],
    &["event", "meeting", "appointment", "calendar"],
    &["reminder", "alarm", "timer"],
    &["music", "song", "track", "playlist"],
    &["light", "lamp", "bulb"],
    &["image", "picture", "photo"],
    &["issue", "ticket", "bug"],
    &["task", "todo"],
    &["price", "stock", "quote", "share"],
    &["news", "headline"],
    &["translation", "translate"],
];

/// The groups of each stem, as bits.
fn groups(of: &'static [&'static [&'static str]]) -> HashMap<String, u32> {
    let mut bits: HashMap<String, u32> = HashMap::new();
    for (at, group) in of.iter().enumerate() {
        for word in *group {
            *bits.entry(stem(word)).or_default() |= 1 << at;
        }
    }
    bits
}

static ACTION_GROUPS: LazyLock<HashMap<String, u32>> = LazyLock::new(|| groups(ACTIONS));
static THING_GROUPS: LazyLock<HashMap<String, u32>> = LazyLock::new(|| groups(THINGS));
const _: () = assert!(ACTIONS.len() <= 32 && THINGS.len() <= 32, "a bit for each group");

/// How well a word of a message meets a word of a tool: 1 the same, less of the same meaning, 0 none.
pub(crate) fn likeness(ours: &str, theirs: &str) -> f32 {
    let things = |word: &str| THING_GROUPS.get(word).copied().unwrap_or_default();
    if ours == theirs {
        1.0
    } else if things(ours) & things(theirs) != 0 {
        0.85
    } else {
        0.0
    }
}

/// The groups of [`ACTIONS`] that a stem belongs to, as bits.
pub(crate) fn actions(stem: &str) -> u32 {
    ACTION_GROUPS.get(stem).copied().unwrap_or_default()
}

/// Small numbers as words.
pub(crate) fn number_word(lower: &str) -> Option<i64> {
    const NAMES: &[&str] =
        &["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    match lower {
        "fifteen" => Some(15),
        "twenty" => Some(20),
        "thirty" => Some(30),
        "fifty" => Some(50),
        "hundred" => Some(100),
        _ => NAMES.iter().position(|name| *name == lower).and_then(|at| i64::try_from(at).ok()),
    }
}

/// The group of names of one unit of measurement that `lower` belongs to.
pub(crate) fn unit(lower: &str) -> Option<usize> {
    let singular = stem(lower);
    UNITS.iter().position(|names| names.iter().any(|name| *name == lower || stem(name) == singular))
}

const UNITS: &[&[&str]] = &[
    &["km", "kilometer", "kilometre", "kms"],
    &["mile", "mi"],
    &["m", "meter", "metre"],
    &["foot", "feet", "ft"],
    &["cm", "centimeter", "centimetre"],
    &["mm", "millimeter", "millimetre"],
    &["inch", "inches", "in"],
    &["yard", "yd"],
    &["kg", "kilogram", "kilo", "kilos"],
    &["g", "gram"],
    &["pound", "lb", "lbs"],
    &["ounce", "oz"],
    &["stone"],
    &["celsius", "c", "°c", "centigrade"],
    &["fahrenheit", "f", "°f"],
    &["kelvin", "k"],
    &["liter", "litre", "l"],
    &["milliliter", "millilitre", "ml"],
    &["gallon", "gal"],
    &["cup"],
    &["pint"],
    &["second", "sec", "s"],
    &["minute", "min"],
    &["hour", "h", "hr"],
    &["day"],
    &["week"],
    &["usd", "dollar"],
    &["eur", "euro"],
    &["gbp"],
    &["byte"],
    &["kb", "kilobyte"],
    &["mb", "megabyte"],
    &["gb", "gigabyte"],
    &["kmh", "kph"],
    &["mph"],
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms_of_one_word_have_one_stem() {
        for forms in [
            &["write", "writes", "writing"][..],
            &["run", "running", "runs"],
            &["search", "searching", "searched", "searches"],
            &["file", "files"],
            &["directory", "directories"],
            &["call", "calls", "calling", "called"],
            &["today", "today's"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.windows(2).all(|pair| pair[0] == pair[1]), "{forms:?} {stems:?}");
        }
        assert_eq!(identifier_stems("getWeather"), identifier_stems("get_weather"));
    }

    #[test]
    fn words_of_one_meaning_meet() {
        assert!(likeness(&stem("umbrella"), &stem("weather")) > 0.5);
        assert!(likeness("cat", "weather") < 0.1);
        assert_ne!(actions(&stem("saving")) & actions(&stem("write")), 0);
        assert_eq!(actions(&stem("fetch")) & actions(&stem("edit")), 0);
        assert_eq!(unit("kilometers"), unit("km"));
        assert_eq!(unit("feet"), unit("foot"));
        assert_eq!(unit("banana"), None);
    }

    proptest! {
        #[test]
        fn words_lie_where_they_say(text in any::<String>()) {
            let mut last = 0;
            for word in words(&text) {
                prop_assert!(word.start >= last && word.start < word.end);
                prop_assert_eq!(text[word.start..word.end].to_lowercase().replace('’', "'"), word.lower);
                last = word.end;
            }
        }

        #[test]
        fn any_text_has_a_stem(text in any::<String>()) {
            let _ = (stem(&text), identifier_stems(&text), actions(&text), unit(&text));
        }
    }
}
