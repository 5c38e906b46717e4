//! Lexer: splits text into tokens with a kind.

use super::token::{Kind, corrected, kind_of, short_weekday, split_compound};
use crate::zone::Zone;

/// Token: the word in lower case, and its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) text: String,
    /// The word was corrected.
    pub(super) is_guess: bool,
}

/// Sets of weekdays written as one word.
const DAYS_IN_A_WORD: [(&str, &[&str]); 8] = [
    ("mwf", &["mon", "wed", "fri"]),
    ("m/w/f", &["mon", "wed", "fri"]),
    ("m-w-f", &["mon", "wed", "fri"]),
    ("tth", &["tue", "thu"]),
    ("t/th", &["tue", "thu"]),
    ("tuth", &["tue", "thu"]),
    ("tu/th", &["tue", "thu"]),
    ("m-f", &["mon", "-", "fri"]),
];

pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for chunk in text.to_lowercase().replace(['’', '‘'], "'").replace(['–', '—', '−'], "-").split_whitespace()
    {
        push_chunk(chunk, &mut found);
    }
    for index in 0..found.len() {
        if let Some(kind) = short_weekday(&found[index].text).filter(|_| is_short_weekday(&found, index)) {
            found[index].kind = kind;
        }
    }
    joined_numbers(found)
}

fn push_chunk(chunk: &str, found: &mut Vec<Token>) {
    let chunk = chunk.trim_start_matches(['"', '(', '[', '\'', '*', '„', '“', '«', '»']);
    let body = chunk.trim_end_matches(['"', ')', ']', '\'', '!', '?', ',', ';', '*', '“', '”', '…', '«', '»']);
    let comma = chunk.len() > body.len() && chunk[body.len()..].contains([',', ';']);
    if is_negative(body, found) {
        push(found, Kind::BeyondWords, body);
    } else {
        push_body(body, found);
    }
    if comma {
        push(found, Kind::Comma, ",");
    }
}

/// "every -5 minutes": after such a word a hyphen before a digit is a minus sign.
fn is_negative(body: &str, found: &[Token]) -> bool {
    let has_sign = body.strip_prefix('-').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
    let leads = |kind: Kind| {
        matches!(
            kind,
            Kind::At
                | Kind::Every
                | Kind::In
                | Kind::By
                | Kind::On
                | Kind::From
                | Kind::Between
                | Kind::And
                | Kind::To
                | Kind::Until
        )
    };
    has_sign && found.last().is_some_and(|last| leads(last.kind))
}

fn push(found: &mut Vec<Token>, kind: Kind, text: &str) {
    // "9 o clock".
    if text == "clock"
        && let Some(last) = found.last_mut().filter(|last| last.text == "o")
    {
        last.kind = Kind::OClock;
        return;
    }
    found.push(Token { kind, text: text.to_owned(), is_guess: false });
}

fn push_word(word: &str, found: &mut Vec<Token>) {
    if let Some((day, part)) = split_compound(word) {
        push(found, kind_of(day), day);
        // "Samstagmorgen" does not contain "tomorrow".
        let kind = if part == "morgen" { kind_of("vormittag") } else { kind_of(part) };
        push(found, kind, part);
        return;
    }
    let stem = word.strip_suffix("'s").unwrap_or(word);
    let kind = match kind_of(word) {
        Kind::Unknown => kind_of(stem),
        kind => kind,
    };
    if kind == Kind::Unknown
        && let Some(meant) = corrected(word)
    {
        push(found, kind_of(&meant), &meant);
        if let Some(last) = found.last_mut() {
            last.is_guess = true;
        }
        return;
    }
    push(found, kind, word);
}

fn push_body(body: &str, found: &mut Vec<Token>) {
    if body.is_empty() {
        return;
    }
    if let Some(kind) = date(body) {
        return push(found, kind, body);
    }
    // "2026-12-24T18:00".
    if let Some((day, time)) = body.split_once('t')
        && let (Some(day_kind), Some(time_kind @ Kind::Clock(..))) = (date(day), numeric(time))
    {
        push(found, day_kind, day);
        return push(found, time_kind, time);
    }
    if body.contains('/') && Zone::parse(body).is_ok() {
        return push(found, Kind::ZoneName, body);
    }
    if let Some((_, days)) = DAYS_IN_A_WORD.iter().find(|(word, _)| *word == body) {
        return days.iter().for_each(|day| push(found, kind_of(day), day));
    }
    // "@10", "um8".
    for (lead, rest) in ["@", "at", "um"].iter().filter_map(|lead| Some((lead, body.strip_prefix(lead)?))) {
        if rest.starts_with(|letter: char| letter.is_ascii_digit()) {
            push(found, Kind::At, lead);
            return push_body(rest, found);
        }
    }
    if let "monatsersten" | "monatsletzten" = body {
        let words: &[&str] = if body == "monatsersten" { &["ersten"] } else { &["letzten", "tag"] };
        return words.iter().chain(&["des", "monats"]).for_each(|word| push(found, kind_of(word), word));
    }
    if body == "viertelstunde" {
        push(found, Kind::Quarter, "viertel");
        return push(found, kind_of("stunde"), "stunde");
    }
    if let Some(items) = unspaced_list(body) {
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                push(found, Kind::Comma, ",");
            }
            match weekday_in_list(item) {
                Some(kind) => push(found, kind, item),
                None => push_body(item, found),
            }
        }
        return;
    }
    // "15." is the German 15th; otherwise a full stop ends the sentence.
    if let Some(digits) = body.strip_suffix('.') {
        return match digits.parse::<u32>() {
            Ok(number) if digits.len() <= 2 => push(found, Kind::Ordinal(number), body),
            _ => push_body(digits, found),
        };
    }
    if let Some(minute) = body.strip_prefix(':').filter(|rest| rest.len() == 2).and_then(|rest| rest.parse().ok())
        && minute < 60
    {
        return push(found, Kind::MinutePast(minute), body);
    }
    if kind_of(body) != Kind::Unknown {
        return push_word(body, found);
    }
    for separator in ['/', '-'] {
        if let Some((left, right)) = body.split_once(separator) {
            push_body(left, found);
            // "Dienstag- und Donnerstagabend".
            if right.is_empty() {
                return;
            }
            if separator == '/' || left.bytes().next().is_some_and(|byte| byte.is_ascii_digit()) || is_day(found) {
                push(found, kind_of(&separator.to_string()), &separator.to_string());
            }
            return push_body(right, found);
        }
    }
    if body.as_bytes()[0].is_ascii_digit() {
        return push_numeric(body, found);
    }
    push_word(body, found);
}

/// "Mon,Tue,Wed", "Sa+So", "9,12,15", "1st,15th"; "1,5" and "1,000" are numbers.
fn unspaced_list(body: &str) -> Option<Vec<&str>> {
    let items: Vec<&str> = body.split([',', ';', '+', '&']).collect();
    let is_number = |item: &&str| item.bytes().all(|byte| byte.is_ascii_digit());
    let is_one_number = items.len() == 2 && items.iter().all(is_number) && items[1].len() != 2
        || items.iter().skip(1).all(|item| is_number(item) && item.len() == 3);
    let is_list = items.len() > 1 && !items.contains(&"") && !is_one_number;
    let joins_days = items.iter().all(|item| weekday_in_list(item).is_some());
    (is_list && (joins_days || !body.contains(['+', '&']))).then_some(items)
}

/// Two letters are a weekday next to others, including those of calendars ("MO,TU,WE").
fn weekday_in_list(item: &str) -> Option<Kind> {
    let full = match item {
        "we" => "wednesday",
        "su" => "sunday",
        other => other,
    };
    short_weekday(full).or_else(|| Some(kind_of(full)).filter(|kind| matches!(kind, Kind::Weekday { .. })))
}

fn is_day(found: &[Token]) -> bool {
    let Some(last) = found.last() else { return false };
    matches!(last.kind, Kind::Weekday { .. } | Kind::Month(_) | Kind::Am | Kind::Pm)
        || short_weekday(&last.text).is_some()
}

/// "do" and "so" are also words: two letters are a weekday only in a list, or where only a day is possible.
fn is_short_weekday(found: &[Token], index: usize) -> bool {
    let text =
        |index: Option<usize>| index.and_then(|at| found.get(at)).map_or("", |token: &Token| token.text.as_str());
    let is_word = |word: &str| matches!(word, "do" | "so");
    let own = found[index].text.as_str();
    let beside = |near: Option<usize>, far: Option<usize>| {
        let is_separated = near
            .and_then(|at| found.get(at))
            .is_some_and(|token| matches!(token.kind, Kind::And | Kind::Comma | Kind::Through | Kind::Until));
        let other = if is_separated { far } else { near };
        let is_day = other.and_then(|at| found.get(at)).is_some_and(|token| matches!(token.kind, Kind::Weekday { .. }));
        let is_short = short_weekday(text(other)).is_some();
        is_day || (is_short && (is_separated || !is_word(own) || !is_word(text(other))))
    };
    let (before, after) = (index.checked_sub(1), Some(index + 1));
    let announced = matches!(
        text(before),
        "jeden" | "jeder" | "nächsten" | "diesen" | "kommenden" | "am" | "bis" | "ab" | "außer" | "immer"
    );
    let kind_after = found.get(index + 1).map(|token| token.kind);
    let timed = !is_word(own)
        && (text(after) == "um"
            || matches!(kind_after, Some(Kind::Clock(..)))
            || (matches!(kind_after, Some(Kind::Number(_))) && text(Some(index + 2)) == "uhr"));
    announced || timed || beside(before, index.checked_sub(2)) || beside(after, Some(index + 2))
}

/// "9am", "8:30am", "9.15pm", "20min", "7uhr".
fn push_numeric(body: &str, found: &mut Vec<Token>) {
    let digits = body.bytes().take_while(|byte| byte.is_ascii_digit() || b":.".contains(byte)).count();
    let (number, suffix) = body.split_at(digits);
    // "1,5" and "1.5".
    if let Some((whole, part)) = body.split_once([',', '.'])
        && let (Ok(whole), Ok(tenths)) = (whole.parse::<u32>(), part.parse::<u32>())
        && part.len() == 1
        && whole < 1000
    {
        return push(found, Kind::Decimal(whole * 100 + tenths * 10), body);
    }
    // "9h30", "2h30m".
    if let Some((hour, minute)) = body.split_once('h')
        && let Some(kind) = numeric(&format!("{hour}:{}", minute.trim_end_matches(|letter| "min".contains(letter))))
        && hour.bytes().all(|byte| byte.is_ascii_digit())
    {
        return push(found, kind, body);
    }
    let number = number.trim_end_matches('.');
    // "am 24.12".
    if suffix.is_empty()
        && numeric(number).is_none()
        && let Some(Token { kind: Kind::On | Kind::Am | Kind::The | Kind::Comma, .. }) = found.last()
        && let Some(kind) = date(&format!("{number}."))
    {
        return push(found, kind, number);
    }
    let Some(kind) = numeric(number) else {
        return push(found, Kind::Unknown, body);
    };
    let follows = match suffix {
        "" | "ish" => None,
        "am" | "a" | "a.m" => Some(Kind::Am),
        "pm" | "p" | "p.m" => Some(Kind::Pm),
        "h" if matches!(kind, Kind::Clock(..) | Kind::Dotted(..)) => Some(Kind::OClock),
        "h" => Some(kind_of("hours")),
        "m" => Some(kind_of("minutes")),
        "s" => Some(kind_of("seconds")),
        "d" => Some(kind_of("days")),
        other => match kind_of(other) {
            unit @ (Kind::Unit(_) | Kind::OClock | Kind::Times) => Some(unit),
            _ => return push(found, Kind::Unknown, body),
        },
    };
    push(found, kind, number);
    if let Some(kind) = follows {
        push(found, kind, suffix);
    }
}

fn numeric(text: &str) -> Option<Kind> {
    // Strips zero seconds.
    let text = text.strip_suffix(":00").filter(|rest| rest.contains(':')).unwrap_or(text);
    for (separator, dotted) in [(':', false), ('.', true)] {
        let Some((hour, minute)) = text.split_once(separator) else { continue };
        if hour.is_empty() || hour.len() > 2 || minute.len() != 2 {
            return None;
        }
        let (hour, minute): (u8, u8) = (hour.parse().ok()?, minute.parse().ok()?);
        if hour > 24 || minute > 59 || (hour == 24 && minute > 0) {
            return None;
        }
        return Some(if dotted { Kind::Dotted(hour, minute) } else { Kind::Clock(hour, minute) });
    }
    match kind_of(text) {
        kind @ Kind::Number(_) => Some(kind),
        _ => None,
    }
}

/// "2026-12-24", "24.12.2026" and "24.12.".
fn date(text: &str) -> Option<Kind> {
    let numbers = |parts: &[&str]| -> Option<Vec<u16>> {
        parts.iter().map(|part| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?).collect()
    };
    let dashed: Vec<&str> = text.split('-').collect();
    if dashed.len() == 3 && dashed[0].len() == 4 {
        let parts = numbers(&dashed)?;
        return valid_date(Some(i16::try_from(parts[0]).ok()?), parts[1], parts[2]);
    }
    let dotted: Vec<&str> = text.split('.').collect();
    if dotted.len() == 3 && dotted[0].len() <= 2 && dotted[1].len() <= 2 {
        let (year, rest) = if dotted[2].is_empty() { (None, &dotted[..2]) } else { (Some(dotted[2]), &dotted[..2]) };
        let parts = numbers(rest)?;
        let year = match year {
            None => None,
            Some(year) if year.len() == 4 => Some(year.parse().ok()?),
            Some(_) => return None,
        };
        return valid_date(year, parts[1], parts[0]);
    }
    None
}

fn valid_date(year: Option<i16>, month: u16, day: u16) -> Option<Kind> {
    let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    // 29 February is valid without a year.
    jiff::civil::Date::new(year.unwrap_or(2024), month, day).ok()?;
    Some(Kind::Date { year, month: month.unsigned_abs(), day: day.unsigned_abs() })
}

/// Joins numbers: "twenty five" is one number, "twenty first" one ordinal.
fn joined_numbers(tokens: Vec<Token>) -> Vec<Token> {
    let words = |token: &Token| token.text.chars().all(char::is_alphabetic);
    let mut joined: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        // "every twenty second" may be a duration, "the twenty second" is a day.
        let announces_day =
            joined.iter().nth_back(1).is_some_and(|last| matches!(last.kind, Kind::The | Kind::Month(_)));
        let tens = joined.last_mut().filter(|last| words(last) && words(&token));
        if let Some(Token { kind, .. }) = tens
            && let Kind::Number(tens @ (20 | 30 | 40 | 50 | 60 | 70 | 80 | 90)) = *kind
        {
            let whole = match token.kind {
                Kind::Number(ones @ 1..=9) => Some(Kind::Number(tens + ones)),
                Kind::Ordinal(ones @ 1..=9) => Some(Kind::Ordinal(tens + ones)),
                Kind::SecondWord if announces_day => Some(Kind::Ordinal(tens + 2)),
                _ => None,
            };
            if let Some(whole) = whole {
                *kind = whole;
                continue;
            }
        }
        joined.push(token);
    }
    joined
}
