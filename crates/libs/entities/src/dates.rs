//! Dates: absolute ones with a canonical key, relative ones with their words.
//!
//! | text | key |
//! |---|---|
//! | 2023-05-08, 8 May 2023, May 8th, 2023, 08.05.2023, 05/08/2023 | `2023-05-08` |
//! | May 2023 | `2023-05` |
//! | May 8th | `--05-08` |
//! | in May | `--05` |
//! | in 2022 | `2022` |
//! | Q3 2024 | `2024-q3` |
//! | summer 2022 | `2022-summer` |
//! | the 1990s | `1990s` |
//! | last summer, two weeks ago, next Friday | `relative:last summer` … |
//!
//! With slashes the month comes first unless that is impossible; with points the day does. "Today" and "tonight" are
//! not significant enough. The meaning of a relative date depends on when it was said, which only the caller knows.

use crate::cues;
use crate::text::{Kind, Text};

/// Prefix of keys of dates that depend on the day on which they were said.
const RELATIVE_DATE_PREFIX: &str = "relative:";

/// Date from token `start` up to `end`, and up to byte `end_byte` if it ends inside a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) end: usize,
    pub(crate) end_byte: Option<usize>,
    pub(crate) key: String,
}

const MONTHS: [(&str, &str); 12] = [
    ("january", "jan"),
    ("february", "feb"),
    ("march", "mar"),
    ("april", "apr"),
    ("may", "may"),
    ("june", "jun"),
    ("july", "jul"),
    ("august", "aug"),
    ("september", "sep"),
    ("october", "oct"),
    ("november", "nov"),
    ("december", "dec"),
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const SEASONS: [&str; 5] = ["spring", "summer", "autumn", "fall", "winter"];
const PERIODS: [&str; 9] = ["week", "month", "year", "weekend", "night", "quarter", "decade", "semester", "sprint"];

pub(crate) fn month_of(word: &str) -> Option<u32> {
    let index = MONTHS
        .iter()
        .position(|(name, short)| word == *name || word == *short || *name == "september" && word == "sept")?;
    u32::try_from(index + 1).ok()
}

fn weekday_of(word: &str) -> Option<&'static str> {
    let singular = if word.len() > 4 { word.strip_suffix('s').unwrap_or(word) } else { word };
    WEEKDAYS.into_iter().find(|day| *day == singular)
}

const fn days_in(month: u32, year: Option<u32>) -> u32 {
    match month {
        2 => match year {
            Some(year) if !(year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))) => 28,
            _ => 29,
        },
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn full(year: u32, month: u32, day: u32) -> Option<String> {
    let fits =
        (1000..=2999).contains(&year) && (1..=12).contains(&month) && (1..=days_in(month, Some(year))).contains(&day);
    fits.then(|| format!("{year:04}-{month:02}-{day:02}"))
}

fn without_year(month: u32, day: u32) -> Option<String> {
    (1..=days_in(month, None)).contains(&day).then(|| format!("--{month:02}-{day:02}"))
}

/// Reads dates at one token of a text.
struct Reader<'t, 'a> {
    text: &'t Text<'a>,
    start: usize,
}

/// Returns the date that starts at token `start`.
pub(crate) fn date_at(text: &Text<'_>, start: usize) -> Option<Found> {
    let reader = Reader { text, start };
    match text.get(start)?.kind {
        Kind::Number => reader.by_number(),
        Kind::Word => reader.by_word(),
        _ => None,
    }
}

impl Reader<'_, '_> {
    fn word(&self, offset: usize) -> &str {
        self.text.word_at(self.start, self.start + offset)
    }

    fn found(&self, length: usize, key: Option<String>) -> Option<Found> {
        Some(Found { end: self.start + length, end_byte: None, key: key? })
    }

    /// Reads a token of `min` to `max` digits.
    fn digits(&self, offset: usize, min: usize, max: usize) -> Option<u32> {
        let word = self.word(offset);
        let fits = (min..=max).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
        if fits { word.parse().ok() } else { None }
    }

    fn year(&self, offset: usize) -> Option<u32> {
        self.digits(offset, 4, 4).filter(|year| (1000..=2999).contains(year))
    }

    /// Reads `8` or `8th`.
    fn day(&self, offset: usize) -> Option<u32> {
        let word = self.word(offset);
        let digits = ["st", "nd", "rd", "th"].iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word);
        let fits = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        if fits { digits.parse().ok().filter(|day| (1..=31).contains(day)) } else { None }
    }

    /// Reads a year at `offset`, optionally after a comma; also returns its end. A continued number (`2023.5`, `10:30`)
    /// is not a year.
    fn following_year(&self, offset: usize) -> Option<(u32, usize)> {
        let at = if self.word(offset) == "," { offset + 1 } else { offset };
        Some((self.year(at)?, at + 1))
    }

    fn is_glued(&self, offset: usize) -> bool {
        self.text.get(self.start + offset).is_some_and(|token| !token.is_spaced)
    }

    fn by_number(&self) -> Option<Found> {
        if self.start > 0
            && self.is_glued(0)
            && matches!(self.text.folded(self.start - 1), "-" | "/" | "." | ":" | "$" | "€")
        {
            return None;
        }
        self.numeric().or_else(|| self.day_first()).or_else(|| self.relative()).or_else(|| self.lone_year())
    }

    /// Reads `2023-05-08`, with or without a time; `08.05.2023`; `05/08/2023`.
    fn numeric(&self) -> Option<Found> {
        let separator = self.word(1);
        if !matches!(separator, "-" | "/" | ".")
            || self.word(3) != separator
            || (1..5).any(|offset| !self.is_glued(offset))
        {
            return None;
        }
        if let Some(year) = self.year(0) {
            let last = self.word(4);
            let length = last.bytes().take_while(u8::is_ascii_digit).count();
            let is_time = last.as_bytes().get(length) == Some(&b't');
            let day: u32 = if (1..=2).contains(&length) && (is_time || last.len() == length) {
                last[..length].parse().ok()?
            } else {
                return None;
            };
            let mut found = self.found(5, full(year, self.digits(2, 1, 2)?, day))?;
            found.end_byte = is_time.then(|| self.text.tokens[self.start + 4].start + length);
            return Some(found);
        }
        let (first, second, year) = (self.digits(0, 1, 2)?, self.digits(2, 1, 2)?, self.year(4)?);
        let key = match separator {
            "/" if first <= 12 => full(year, first, second),
            _ => full(year, second, first),
        };
        self.found(5, key)
    }

    /// Reads `8 May 2023`, `8th of May`.
    fn day_first(&self) -> Option<Found> {
        let day = self.day(0)?;
        // `8. Mai`, with a full stop after an ordinal, belongs to other languages.
        let at = if self.word(1) == "of" { 2 } else { 1 };
        let month = month_of(self.word(at))?;
        let is_capital = self.text.get(self.start + at)?.is_capital();
        match self.following_year(at + 1) {
            Some((year, end)) => self.found(end, full(year, month, day)),
            None if is_capital => self.found(at + 1, without_year(month, day)),
            None => None,
        }
    }

    /// Reads `in 2022`, `summer of 2020`, `the 1990s`.
    fn lone_year(&self) -> Option<Found> {
        let word = self.word(0);
        if let Some(decade) = word.strip_suffix('s')
            && decade.len() == 4
            && decade.ends_with('0')
            && decade.bytes().all(|byte| byte.is_ascii_digit())
        {
            return self.found(1, Some(format!("{decade}s")));
        }
        let year = self.year(0).filter(|year| (1900..=2099).contains(year))?;
        let next = self.text.get(self.start + 1).filter(|_| self.text.same_sentence(self.start, self.start + 1));
        // A count, or a continued number.
        let is_counted = next.is_some_and(|token| {
            token.kind == Kind::Word && !token.has(cues::FUNCTION | cues::COPULA | cues::PERSON_VERB | cues::MOVEMENT)
                || token.kind == Kind::Number
                || matches!(self.word(1), "%" | "$" | "€" | "/" | ":" | "-")
                || self.word(1) == "." && self.is_glued(1) && self.digits(2, 1, 9).is_some() && self.is_glued(2)
        });
        let before = self.text.before(self.start, 1);
        let is_announced = before.is_some_and(|(_, token)| {
            token.has(cues::DATE_PREPOSITION)
                && !matches!(
                    self.text.word_before(self.start, 1),
                    "of" | "around" | "to" | "for" | "this" | "next" | "last"
                )
        });
        if is_announced && !is_counted { self.found(1, Some(year.to_string())) } else { None }
    }

    fn by_word(&self) -> Option<Found> {
        let word = self.word(0);
        if let Some(month) = month_of(word) {
            return self.by_month(month);
        }
        if let Some(quarter) = word.strip_prefix('q').filter(|quarter| matches!(*quarter, "1" | "2" | "3" | "4")) {
            let (year, end) = self.following_year(1)?;
            return self.found(end, Some(format!("{year}-q{quarter}")));
        }
        if SEASONS.contains(&word) {
            let at = if self.word(1) == "of" { 2 } else { 1 };
            let year = self.year(at)?;
            let season = if word == "fall" { "autumn" } else { word };
            return self.found(at + 1, Some(format!("{year}-{season}")));
        }
        self.relative()
    }

    fn by_month(&self, month: u32) -> Option<Found> {
        let token = self.text.get(self.start)?;
        if !token.is_capital() {
            return None;
        }
        // Full stop of `Aug. 3`.
        let dot = usize::from(self.word(0).len() <= 4 && self.word(1) == "." && self.is_glued(1));
        let of_month = usize::from(self.word(1 + dot) == "the");
        if let Some(day) = self.day(1 + dot + of_month) {
            let end = 2 + dot + of_month;
            if let Some((year, end)) = self.following_year(end) {
                return self.found(end, full(year, month, day));
            }
            return self.found(end, without_year(month, day));
        }
        if let Some((year, end)) = self.following_year(1 + dot) {
            return self.found(end, Some(format!("{year:04}-{month:02}")));
        }
        let is_abbreviation = self.word(0).len() <= 4 && month != 5 && !matches!(month, 6 | 7);
        let (before, token_before) = (self.text.word_before(self.start, 1), self.text.before(self.start, 1));
        let is_announced = token_before.is_some_and(|(_, token)| token.has(cues::DATE_PREPOSITION))
            && !matches!(before, "to" | "for" | "from" | "with")
            || matches!(before, "from" | "for" | "to") && !matches!(month, 4..=6 | 8)
            || matches!(before, "last" | "next" | "this");
        if matches!(before, "last" | "next" | "this") {
            return None;
        }
        (is_announced && !is_abbreviation).then_some(())?;
        self.found(1, Some(format!("--{month:02}")))
    }

    /// Reads `last summer`, `two weeks ago`, `in three days`, `Friday`, `yesterday`.
    fn relative(&self) -> Option<Found> {
        let words = |length: usize| {
            let key = self.text.key_of(self.start..self.start + length);
            self.found(length, Some(format!("{RELATIVE_DATE_PREFIX}{key}")))
        };
        let word = self.word(0);
        if matches!(word, "yesterday" | "tomorrow") {
            return words(1);
        }
        if word == "the" && matches!((self.word(1), self.word(2)), ("day", "before") | ("day", "after")) {
            return if matches!(self.word(3), "yesterday" | "tomorrow") { words(4) } else { None };
        }
        if let Some(day) = weekday_of(word) {
            let is_capital = self.text.get(self.start)?.is_capital();
            return if is_capital { self.found(1, Some(format!("{RELATIVE_DATE_PREFIX}{day}"))) } else { None };
        }
        if matches!(word, "last" | "next" | "this" | "past") {
            let next = self.word(1);
            let is_day = weekday_of(next).is_some() || month_of(next).is_some_and(|_| next.len() > 2);
            let is_period = PERIODS.contains(&next) || SEASONS.contains(&next);
            let fits = is_day || is_period && !(word == "this" && matches!(next, "night" | "decade"));
            return if fits { words(2) } else { None };
        }
        // An amount of time, followed by `ago`.
        let is_amount = self.digits(0, 1, 3).is_some()
            || matches!(
                word,
                "a" | "an"
                    | "one"
                    | "two"
                    | "three"
                    | "four"
                    | "five"
                    | "six"
                    | "seven"
                    | "eight"
                    | "nine"
                    | "ten"
                    | "few"
                    | "several"
            );
        if is_amount {
            let at = if matches!((word, self.word(1)), ("a", "few" | "couple")) { 2 } else { 1 };
            let at = if self.word(at) == "of" { at + 1 } else { at };
            let unit = self.word(at).trim_end_matches('s');
            if matches!(unit, "day" | "week" | "month" | "year" | "decade" | "weekend") && self.word(at + 1) == "ago" {
                return words(at + 2);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::date_at;
    use crate::text::Text;

    fn first(source: &str) -> Option<String> {
        let text = Text::new(source);
        (0..text.tokens.len()).find_map(|start| date_at(&text, start)).map(|found| found.key)
    }

    #[test]
    fn all_notations_of_a_day_have_the_same_key() {
        for text in [
            "2023-05-08",
            "2023-05-08T10:30:00Z",
            "8 May 2023",
            "8th of May, 2023",
            "May 8th, 2023",
            "May 8 2023",
            "08.05.2023",
            "5/8/2023",
            "on 8 May, 2023",
        ] {
            assert_eq!(first(text).as_deref(), Some("2023-05-08"), "{text}");
        }
        assert_eq!(first("13/12/2023").as_deref(), Some("2023-12-13"));
    }

    #[test]
    fn other_kinds_of_dates_are_recognized() {
        for (text, key) in [
            ("It was in May 2023.", "2023-05"),
            ("See you on May 8th.", "--05-08"),
            ("in May we rest", "--05"),
            ("since 2022", "2022"),
            ("Q3 2024 was good", "2024-q3"),
            ("in the summer of 2022", "2022-summer"),
            ("back in the 1990s", "1990s"),
            ("it was last summer", "relative:last summer"),
            ("two weeks ago", "relative:two weeks ago"),
            ("a couple of days ago", "relative:a couple of days ago"),
            ("on Monday", "relative:monday"),
            ("the day before yesterday", "relative:the day before yesterday"),
        ] {
            assert_eq!(first(text).as_deref(), Some(key), "{text}");
        }
    }

    #[test]
    fn lookalikes_are_not_dates() {
        for text in [
            "2023-13-45",
            "2023-02-29",
            "31 April 2023 x",
            "1.2.3",
            "it may 8 things",
            "We may rest.",
            "2022 screws",
            "call 555-2022",
            "in 2022 cases",
            "10.10.10.10",
            "the last straw",
            "a march to the sea",
            "99/99/2023",
            "",
        ] {
            let found = first(text);
            assert!(
                found.is_none() || text.starts_with("31") && found.as_deref() != Some("2023-04-31"),
                "{text}: {found:?}"
            );
        }
    }
}
