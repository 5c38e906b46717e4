//! Calendar dates: "March 15", "24.12.2026", "Christmas Eve", "in June".

use super::draft::CalendarDate;
use super::grammar::Grammar;
use super::token::Kind;

/// Names with a common beginning are sorted by descending length.
const HOLIDAYS: [(&str, u8, u8); 31] = [
    ("christmas eve", 12, 24),
    ("christmas day", 12, 25),
    ("christmas", 12, 25),
    ("xmas eve", 12, 24),
    ("xmas", 12, 25),
    ("boxing day", 12, 26),
    ("new year's eve", 12, 31),
    ("new years eve", 12, 31),
    ("new year's day", 1, 1),
    ("new years day", 1, 1),
    ("new year's", 1, 1),
    ("nye", 12, 31),
    ("halloween", 10, 31),
    ("valentine's day", 2, 14),
    ("valentines day", 2, 14),
    ("independence day", 7, 4),
    ("ersten weihnachtstag", 12, 25),
    ("1. weihnachtstag", 12, 25),
    ("zweiten weihnachtstag", 12, 26),
    ("2. weihnachtstag", 12, 26),
    ("heiligabend", 12, 24),
    ("heiligen abend", 12, 24),
    ("weihnachten", 12, 25),
    ("silvester", 12, 31),
    ("neujahr", 1, 1),
    ("neujahrstag", 1, 1),
    ("nikolaus", 12, 6),
    ("nikolaustag", 12, 6),
    ("valentinstag", 2, 14),
    ("allerheiligen", 11, 1),
    ("reformationstag", 10, 31),
];

impl Grammar<'_> {
    /// "March 15", "every 4th of July", "31 December 2026", "January 1 and July 1", "am 24. Dezember".
    pub(super) fn dates(&mut self) -> bool {
        let led = self.take_any(&[Kind::On, Kind::Am, Kind::By])
            || self.attempt(|grammar| {
                let leads = matches!(grammar.text(0), "an" | "zu" | "at");
                grammar.at += 1;
                leads && grammar.holiday().is_some()
            });
        let every = self.take(Kind::Every);
        self.take(Kind::The);
        let is_at_edge = self.at == 0 || self.end_of_phrase == Some(self.at) || self.previous() == Some(Kind::Filler);
        let mut dates = Vec::new();
        // "Christmas cards" is not a day.
        if let Some((_, words)) = self.holiday()
            && !(led || every || (is_at_edge && (self.at_end(words) || self.kind(words) != Kind::Unknown)))
        {
            return false;
        }
        while let Some(date) = self.date() {
            dates.push(date);
            let more = self.attempt(|grammar| {
                grammar.take_any(&[Kind::And, Kind::Comma]) && {
                    grammar.take_any(&[Kind::On, Kind::Am]);
                    grammar.take(Kind::The);
                    let at = grammar.at;
                    let is_date = grammar.date().is_some();
                    grammar.at = at;
                    is_date
                }
            });
            if !more {
                break;
            }
        }
        if dates.is_empty() {
            return false;
        }
        self.draft.repeats |= every;
        self.draft.impossible |= every && dates.iter().any(|date| date.year.is_some());
        for date in dates {
            if !self.draft.dates.contains(&date) {
                self.draft.dates.push(date);
            }
        }
        true
    }

    /// Returns a holiday with a fixed date, and its number of words.
    fn holiday(&self) -> Option<(CalendarDate, usize)> {
        let is_here = |name: &str| name.split(' ').enumerate().all(|(ahead, word)| self.text(ahead) == word);
        let (name, month, day) = HOLIDAYS.iter().find(|(name, ..)| is_here(name))?;
        Some((CalendarDate { year: None, month: *month, day: *day }, name.split(' ').count()))
    }

    fn date(&mut self) -> Option<CalendarDate> {
        let mut found = None;
        self.attempt(|grammar| {
            found = grammar.date_at_place();
            found.is_some()
        });
        found
    }

    fn date_at_place(&mut self) -> Option<CalendarDate> {
        if let Kind::Date { year, month, day } = self.kind(0) {
            self.at += 1;
            self.attempt(|grammar| grammar.text(0) == "t" && grammar.take(Kind::Unknown));
            return Some(CalendarDate { year, month, day });
        }
        if let Some((date, words)) = self.holiday() {
            self.at += words;
            return Some(date);
        }
        // "am 3.12".
        if let Kind::Dotted(day @ 1.., month @ 1..=12) = self.kind(0)
            && matches!(self.previous(), Some(Kind::Am | Kind::On | Kind::The | Kind::Comma))
        {
            self.at += 1;
            return Some(CalendarDate { year: None, month, day });
        }
        let (month, day) = if let Kind::Month(month) = self.kind(0) {
            self.at += 1;
            self.take(Kind::The);
            (month, self.day_number()?)
        } else {
            let day = self.day_number()?;
            self.take(Kind::Of);
            let Kind::Month(month) = self.kind(0) else { return None };
            self.at += 1;
            (month, day)
        };
        let mut year = None;
        self.attempt(|grammar| {
            grammar.take(Kind::Comma);
            let Kind::Number(number @ 2000..=9999) = grammar.kind(0) else { return false };
            grammar.at += 1;
            year = i16::try_from(number).ok();
            true
        });
        let longest = year.unwrap_or(2024);
        let exists = jiff::civil::Date::new(longest, i8::try_from(month).ok()?, i8::try_from(day).ok()?).is_ok();
        self.draft.impossible |= !exists;
        Some(CalendarDate { year, month, day: u8::try_from(day).ok()? })
    }

    fn day_number(&mut self) -> Option<u32> {
        let number = match self.kind(0) {
            Kind::Ordinal(number) => number,
            Kind::SecondWord => 2,
            // "at 9 May" is not a date, "9 May" is.
            Kind::Number(number @ 1..=31)
                if !matches!(self.kind(1), Kind::Am | Kind::Pm | Kind::OClock | Kind::Unit(_)) =>
            {
                number
            }
            _ => return None,
        };
        self.at += 1;
        Some(number)
    }

    /// "in June", "every January".
    pub(super) fn every_month_by_name(&mut self) -> bool {
        let every = self.take(Kind::Every);
        let ranged = !every && self.take_any(&[Kind::From, Kind::Between]);
        if !every && !ranged && !self.take(Kind::In) {
            return false;
        }
        if ranged && !matches!(self.kind(1), Kind::Through | Kind::To | Kind::Until | Kind::And) {
            return false;
        }
        self.draft.repeats |= every;
        self.listed_months()
    }

    /// "in November", "of June and July".
    pub(super) fn months_by_name(&mut self) -> bool {
        self.take_any(&[Kind::In, Kind::Of]) && self.listed_months()
    }

    fn listed_months(&mut self) -> bool {
        if let Some(range) = self.range_of_months() {
            self.draft.months.extend(range);
            return true;
        }
        let before = self.draft.months.len();
        while let Kind::Month(month) = self.kind(0) {
            self.draft.months.push(month);
            self.at += 1;
            if !matches!(self.kind(1), Kind::Month(_)) || !self.take_any(&[Kind::And, Kind::Comma]) {
                break;
            }
        }
        self.draft.months.len() > before
    }

    /// Parses "June to August"; the range may extend past the end of the year.
    fn range_of_months(&mut self) -> Option<Vec<u8>> {
        let mut found = None;
        self.attempt(|grammar| {
            let Kind::Month(first) = grammar.kind(0) else { return false };
            grammar.at += 1;
            let between =
                grammar.tokens.get(grammar.at.saturating_sub(2)).map(|token| token.kind) == Some(Kind::Between);
            let leads =
                grammar.take_any(&[Kind::Through, Kind::To, Kind::Until]) || (between && grammar.take(Kind::And));
            if !leads {
                return false;
            }
            let Kind::Month(last) = grammar.kind(0) else { return false };
            grammar.at += 1;
            let mut months: Vec<u8> =
                (1..=12)
                    .filter(|month| {
                        if first <= last { (first..=last).contains(month) } else { *month >= first || *month <= last }
                    })
                    .collect();
            months.sort_unstable();
            found = Some(months);
            true
        });
        found
    }
}
