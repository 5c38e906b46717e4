//! Search for time phrases. Other words are skipped and counted.

use super::draft::Draft;
use super::grammar::{Grammar, Mark};
use super::lexer::Token;
use super::token::{Kind, Unit};
use crate::zone::Zone;

impl<'a> Grammar<'a> {
    pub(super) fn read(tokens: &'a [Token]) -> Self {
        let mut grammar =
            Self { tokens, marks: Vec::new(), at: 0, draft: Draft::default(), unknown: 0, end_of_phrase: None };
        let mut has_loose_every = false;
        while grammar.at < tokens.len() {
            let is_after_number =
                matches!(grammar.previous(), Some(Kind::Number(_))) && grammar.end_of_phrase != Some(grammar.at);
            let (start, before) = (grammar.at, grammar.draft.clone());
            if grammar.attempt(Self::phrase) {
                // "8 tomorrow": the meaning of the number is unclear.
                grammar.draft.limited |= is_after_number;
                grammar.note(start, &before);
                grammar.end_of_phrase = Some(grammar.at);
                continue;
            }
            let kind = grammar.kind(0);
            has_loose_every |= kind == Kind::Every;
            grammar.unknown += usize::from(!matches!(
                kind,
                Kind::Filler
                    | Kind::Comma
                    | Kind::The
                    | Kind::A
                    | Kind::At
                    | Kind::On
                    | Kind::In
                    | Kind::And
                    | Kind::To
                    | Kind::Of
                    | Kind::By
                    | Kind::From
                    | Kind::For
                    | Kind::Am
                    | Kind::Now
            ));
            grammar.marks.push(Mark::Unread);
            grammar.at += 1;
        }
        // "tell each of them at 9": "each" does not mean a recurrence.
        grammar.draft.impossible |= has_loose_every && !grammar.draft.repeats;
        // "every morning at 5pm" is contradictory. "The morning news" is not a time.
        let mut pairs = grammar.tokens.windows(2);
        let has_every_part = pairs.any(|pair| pair[0].kind == Kind::Every && matches!(pair[1].kind, Kind::Part { .. }));
        if let Some(part) = grammar.draft.part.filter(|_| has_every_part) {
            let contradicts = grammar.draft.times.iter().any(|time| part.excludes(time.in_part(part).hour));
            grammar.draft.limited |= contradicts;
        }
        grammar.apply_leftover_words();
        grammar
    }

    /// Marks the words of a phrase that began at `start`. A text that needs two schedules cannot be expressed: "Mondays
    /// at 8 and Fridays at 10", "every day at 9 and every Friday".
    fn note(&mut self, start: usize, before: &Draft) {
        let draft = &self.draft;
        let is_time = draft.times.len() > before.times.len();
        let is_named_day = (draft.weekdays, draft.month_days.len(), draft.dates.len(), draft.weeks.len())
            != (before.weekdays, before.month_days.len(), before.dates.len(), before.weeks.len())
            || draft.last_day != before.last_day
            || draft.relative_day != before.relative_day;
        let is_day = is_named_day || draft.interval != before.interval || draft.part_repeats != before.part_repeats;
        let last_time = self.marks.iter().rposition(|mark| *mark == Mark::Time);
        let last_named_day =
            if before.has_day() { self.marks.iter().rposition(|mark| *mark == Mark::Day) } else { None };
        let last_day = self.marks.iter().rposition(|mark| *mark == Mark::Day);
        if is_time && let Some(last) = last_time {
            self.draft.impossible |= last_day.is_some_and(|day| day > last);
            // "at 9 … opens at 10": the second time belongs to the words in between.
            let joined = |index: usize| matches!(self.tokens[index].kind, Kind::And | Kind::Comma | Kind::Filler);
            self.draft.limited |= !(last + 1..start).all(joined) || last + 1 == start;
        }
        if is_named_day && let (Some(day), Some(time)) = (last_named_day, last_time) {
            self.draft.impossible |= day < time;
        }
        let after_and = start.checked_sub(1).is_some_and(|at| self.tokens[at].kind == Kind::And);
        let after_phrase = start.checked_sub(2).is_some_and(|at| self.marks[at] != Mark::Unread);
        let both_weekdays = before.weekdays != 0 && before.interval.is_none() && last_time.is_none();
        self.draft.impossible |= is_day && after_and && after_phrase && !both_weekdays && has_schedule(before);
        // "Monday or Tuesday".
        self.draft.limited |=
            self.tokens[start..self.at].iter().any(|token| matches!(token.text.as_str(), "or" | "oder"));
        let mark = match (is_time, is_day) {
            (true, _) => Mark::Time,
            (false, true) => Mark::Day,
            (false, false) => Mark::Other,
        };
        self.marks.resize(self.at, mark);
    }

    fn phrase(&mut self) -> bool {
        self.attempt(Self::exception)
            || self.attempt(Self::recurrence)
            || self.attempt(Self::zone)
            || self.attempt(Self::beginning)
            || self.attempt(Self::limit)
            || self.attempt(Self::count_per)
            || self.attempt(Self::offset)
            || self.attempt(Self::minutes_of_hour)
            || self.attempt(Self::window)
            || self.attempt(Self::weekday_of_month)
            || self.attempt(Self::end_of_month)
            || self.attempt(Self::dates)
            || self.attempt(Self::days_of_month)
            || self.attempt(Self::weekdays)
            || self.attempt(Self::interval)
            || self.attempt(Self::adverb)
            || self.attempt(Self::relative_day)
            || self.attempt(Self::every_month_by_name)
            || self.attempt(Self::times)
            || self.attempt(Self::part_of_day)
    }

    /// Parses "except Sundays", "außer am Sonntag". An exception that cannot be expressed limits the schedule.
    fn exception(&mut self) -> bool {
        // "every day at 9, not on Mondays".
        let denied = matches!(self.text(0), "not" | "nicht") && self.at > 0;
        if !denied && !self.take(Kind::Except) {
            return false;
        }
        let is_but = self.text_before() == "but";
        // "but not on Fridays".
        if matches!(self.text(0), "not" | "nicht") {
            self.at += 1;
        }
        while self.take_any(&[Kind::On, Kind::For, Kind::Am, Kind::In, Kind::The]) {}
        match self.weekday_set() {
            Some(set) => {
                self.draft.except |= set.days;
                true
            }
            None if is_but || denied => false,
            None => {
                self.draft.limited = true;
                true
            }
        }
    }

    /// Parses "from Monday every day at 9", a start that schedules cannot express. "from Monday to Friday" is a range.
    fn beginning(&mut self) -> bool {
        let is_daily =
            self.tokens.windows(2).any(|pair| (pair[0].kind, pair[1].kind) == (Kind::Every, Kind::Unit(Unit::Day)))
                || self.tokens.iter().any(|token| token.kind == Kind::Adverb(1, Unit::Day));
        let is_range = match self.kind(2) {
            Kind::Through | Kind::Until | Kind::To => true,
            Kind::And | Kind::Comma => matches!(self.kind(3), Kind::Weekday { .. }),
            _ => false,
        };
        if !is_daily || is_range || !self.take(Kind::From) || !matches!(self.kind(0), Kind::Weekday { .. }) {
            return false;
        }
        self.at += 1;
        self.draft.limited = true;
        true
    }

    /// Parses "for the next two weeks", "until Friday", "starting Monday" as a whole, so that the words are not parsed
    /// as days.
    fn limit(&mut self) -> bool {
        if self.take(Kind::Until) || self.take(Kind::Limit) {
            if self.take(Kind::Now) || self.take(Kind::Today) {
                return true;
            }
        } else if self.take(Kind::For) {
            self.take(Kind::The);
            self.take_any(&[Kind::Next, Kind::Last]);
            if self.count().is_none() || self.unit().is_none() {
                return false;
            }
        } else {
            return false;
        }
        self.draft.limited = true;
        let before = self.draft.clone();
        let _ = self.attempt(Self::weekdays)
            || self.attempt(Self::dates)
            || self.attempt(Self::relative_day)
            || self.attempt(Self::times)
            || self.attempt(Self::clock_without_at);
        self.draft = before;
        true
    }

    /// Parses "immer um 9", "jeweils am 15.": the following part recurs.
    fn recurrence(&mut self) -> bool {
        let is_before_time = matches!(
            self.kind(1),
            Kind::At | Kind::On | Kind::Am | Kind::In | Kind::Clock(..) | Kind::Weekday { .. } | Kind::Part { .. }
        );
        self.draft.always = true;
        self.take(Kind::Always) && is_before_time
    }

    /// Parses "9am Europe/London", "9:00 UTC", "at 9 in New York", "9 Uhr New Yorker Zeit"; only after a time.
    fn zone(&mut self) -> bool {
        if self.end_of_phrase != Some(self.at) || self.marks.last() != Some(&Mark::Time) {
            return false;
        }
        let is_in = self.take(Kind::In);
        let found = match self.kind(0) {
            Kind::ZoneName => Zone::parse(self.text(0)).ok().map(|zone| (zone, 1)),
            Kind::ZoneWord if matches!(self.text(0), "utc" | "gmt") && !is_in => Some((Zone::UTC, 1)),
            _ => (1..=3).rev().find_map(|words| self.city(words, is_in).map(|zone| (zone, words))),
        };
        let Some((zone, words)) = found else { return false };
        self.at += words;
        if matches!(self.text(0), "time" | "zeit") {
            self.at += 1;
        }
        self.draft.zone = Some(zone);
        true
    }

    /// Parses a city after "in", or before "time" and "Zeit".
    fn city(&self, words: usize, is_in: bool) -> Option<Zone> {
        if self.at_end(words - 1) {
            return None;
        }
        let name = (0..words).map(|ahead| self.text(ahead)).collect::<Vec<_>>().join("_");
        match self.text(words) {
            "zeit" | "time" => Zone::of_city(&name)
                .or_else(|| Zone::of_city(name.strip_suffix("er")?))
                .or_else(|| Zone::of_city(&format!("{}en", name.strip_suffix("er")?))),
            _ if is_in => Zone::of_city(&name),
            _ => None,
        }
    }

    fn clock_without_at(&mut self) -> bool {
        self.clock_time(true).is_some()
    }
}

/// Whether the phrases before already contain a day, interval or time, so that "and" would start a second schedule.
fn has_schedule(before: &Draft) -> bool {
    before.has_day() || before.interval.is_some() || !before.times.is_empty()
}
