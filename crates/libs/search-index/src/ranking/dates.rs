//! Date in a query that contains a month: `in May 2023`, `on 7 May`, `since June 3rd`. Uses the original words, because
//! terms are stemmed and overlap.

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Words after which `may` is a month.
const BEFORE_A_MONTH: [&str; 8] = ["in", "of", "on", "since", "by", "during", "until", "last"];
const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Maximum number of words of a query that are examined.
const MAX_WORDS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedDate {
    year: Option<i64>,
    month: u32,
    day: Option<u32>,
}

impl NamedDate {
    pub(crate) fn of_query(text: &str) -> Option<Self> {
        let words: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(MAX_WORDS)
            .map(str::to_lowercase)
            .collect();
        let at = |index: usize| words.get(index).map_or("", String::as_str);
        let (position, month) = words.iter().enumerate().find_map(|(index, word)| {
            let month = MONTHS.iter().position(|month| month == word)?;
            let before = if index > 0 { at(index - 1) } else { "" };
            let clear = word != "may"
                || day_number(before).is_some()
                || BEFORE_A_MONTH.contains(&before)
                || starts_with_digit(at(index + 1));
            clear.then_some((index, month as u32 + 1))
        })?;
        let before = match position {
            0 => "",
            1 => at(0),
            _ if at(position - 1) == "of" => at(position - 2),
            _ => at(position - 1),
        };
        let day = day_number(before).or_else(|| day_number(at(position + 1)));
        let year = words
            .iter()
            .find(|word| word.len() == 4 && (word.starts_with("19") || word.starts_with("20")))
            .and_then(|word| word.parse().ok());
        Some(Self { year, month, day })
    }

    /// Returns how well a time (UTC) matches: 1, less if the day differs, 0 if the month or the year differs.
    pub(crate) fn fit(&self, micros: i64) -> f32 {
        let (year, month, day) = civil(micros.div_euclid(MICROS_PER_DAY));
        if month != self.month || self.year.is_some_and(|named| named != year) {
            return 0.0;
        }
        if self.day.is_none_or(|named| named == day) { 1.0 } else { 0.6 }
    }
}

fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// Parses `7`, `7th`, `31`.
fn day_number(word: &str) -> Option<u32> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word);
    digits.parse().ok().filter(|day| (1..=31).contains(day) && digits.len() <= 2)
}

/// Returns year, month and day for a number of days since 1970 in the Gregorian calendar (Howard Hinnant's algorithm).
fn civil(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_queries_are_parsed() {
        let date = |year, month, day| Some(NamedDate { year, month, day });
        for (query, expected) in [
            ("What did Ada do in May 2023?", date(Some(2023), 5, None)),
            ("What may Ada do?", None),
            ("on 7 May", date(None, 5, Some(7))),
            ("the 7th of may", date(None, 5, Some(7))),
            ("May 7th, 2023", date(Some(2023), 5, Some(7))),
            ("since June", date(None, 6, None)),
            ("in December 2022 and 3 cats", date(Some(2022), 12, None)),
            ("march on", date(None, 3, None)),
            ("what happened in 2023", None),
            ("", None),
        ] {
            assert_eq!(NamedDate::of_query(query), expected, "{query}");
        }
    }

    #[test]
    fn fit_depends_on_month_and_day() {
        let date = NamedDate { year: Some(2024), month: 2, day: Some(29) };
        let moment = |text| agentd_base::Timestamp::parse(text).unwrap().as_micros();
        assert!((date.fit(moment("2024-02-29T23:59:59Z")) - 1.0).abs() < 1e-6);
        assert!((date.fit(moment("2024-02-28T00:00:00Z")) - 0.6).abs() < 1e-6);
        assert!(date.fit(moment("2023-02-28T00:00:00Z")).abs() < 1e-6);
        assert!(date.fit(moment("2024-03-01T00:00:00Z")).abs() < 1e-6);
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(-1), (1969, 12, 31));
    }
}
