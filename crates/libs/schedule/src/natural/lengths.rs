//! Durations and frequencies: "every 5 minutes", "in an hour and a half", "twice a day", "weekly".

use super::draft::{ClockTime, Offset};
use super::grammar::Grammar;
use super::token::{Kind, Part, Unit};

impl Grammar<'_> {
    /// "twice a day", "3 times per week", "einmal pro Woche", "once every 3 hours".
    pub(super) fn count_per(&mut self) -> bool {
        let count = match self.kind(0) {
            Kind::Count(count) => {
                self.at += 1;
                count
            }
            // "for 12 times" is an end.
            Kind::Number(count) if self.kind(1) == Kind::Times && self.previous() != Some(Kind::For) => {
                self.at += 2;
                count
            }
            _ => return false,
        };
        if self.kind(0) == Kind::Every && (count == 1 || matches!(self.kind(1), Kind::Number(_))) {
            // "twice every 24 hours" is ambiguous.
            self.draft.impossible |= count != 1;
            return self.interval();
        }
        if let Kind::Adverb(1, unit) = self.kind(0) {
            self.at += 1;
            self.draft.count_per = Some((count, unit));
            self.draft.repeats = true;
            return true;
        }
        let _ = self.take_any(&[Kind::A, Kind::Per, Kind::Every, Kind::Am, Kind::In]);
        self.take_any(&[Kind::The, Kind::A]);
        let Some(unit) = self.unit() else { return false };
        self.draft.count_per = Some((count, unit));
        self.draft.repeats = true;
        true
    }

    /// "in 20 minutes", "in an hour and a half", "a week from now".
    pub(super) fn offset(&mut self) -> bool {
        let led = self.take(Kind::In);
        let Some(offset) = self.length() else { return false };
        if !led {
            if !self.take(Kind::From) {
                return false;
            }
            if !self.take(Kind::Now) {
                // "a week from tomorrow", "two weeks from Monday".
                let Offset::Days(days) = offset else { return false };
                self.draft.further_days += days;
                return self.relative_day() || self.weekdays();
            }
        } else if self.kind(0) == Kind::Past {
            return false;
        }
        self.draft.impossible |= self.draft.offset.is_some();
        self.draft.offset = Some(offset);
        true
    }

    /// Parses a duration.
    fn length(&mut self) -> Option<Offset> {
        if let Some(seconds) = self.odd_length() {
            return Some(Offset::Seconds(seconds));
        }
        if let Kind::Decimal(hundredths) = self.kind(0) {
            self.at += 1;
            let hours = self.unit() == Some(Unit::Hour);
            return hours.then_some(Offset::Seconds(i64::from(hundredths) * 36));
        }
        if let Some(seconds) = self.hours_and_minutes() {
            return Some(Offset::Seconds(seconds));
        }
        let count = i64::from(self.count()?);
        // "2 and a half hours".
        let half = self.attempt(Self::and_a_half);
        let unit = self.unit()?;
        let length = match unit {
            Unit::Second => Offset::Seconds(count),
            Unit::Minute => Offset::Seconds(count * 60 + if half { 30 } else { 0 }),
            Unit::Hour => {
                // "an hour and a half", "one hour and 20 minutes".
                let half = half || self.attempt(Self::and_a_half);
                let minutes = if half { 30 } else { 0 } + self.further_minutes().unwrap_or(0);
                Offset::Seconds(count * 3600 + minutes * 60)
            }
            Unit::Day => Offset::Days(count),
            Unit::Week => Offset::Days(count * 7),
            Unit::Month => Offset::Months(count),
            Unit::Quarter => Offset::Months(count * 3),
            Unit::Year => Offset::Months(count * 12),
        };
        let is_whole = matches!(unit, Unit::Minute | Unit::Hour) || !half;
        (count > 0 && is_whole).then_some(length)
    }

    /// Parses "and 20 minutes" after hours.
    fn further_minutes(&mut self) -> Option<i64> {
        self.find(|grammar| {
            grammar.take(Kind::And);
            let Kind::Number(minutes @ 1..=59) = grammar.kind(0) else { return None };
            grammar.at += 1;
            let ends = grammar.unit() == Some(Unit::Minute)
                && !matches!(grammar.kind(0), Kind::Past | Kind::To | Kind::Before);
            ends.then_some(i64::from(minutes))
        })
    }

    /// Parses "2h30m", which has the form of a time of day.
    fn hours_and_minutes(&mut self) -> Option<i64> {
        let Kind::Clock(hours, minutes) = self.kind(0) else { return None };
        if !self.text(0).contains('h') {
            return None;
        }
        let seconds = i64::from(hours) * 3600 + i64::from(minutes) * 60;
        self.at += usize::from(seconds > 0);
        (seconds > 0).then_some(seconds)
    }

    fn and_a_half(&mut self) -> bool {
        self.take(Kind::And) && self.take(Kind::A) && self.take(Kind::Half)
    }

    /// Parses "half an hour", "einer halben Stunde", "a quarter of an hour", "anderthalb Stunden", in seconds.
    fn odd_length(&mut self) -> Option<i64> {
        let mut found = None;
        self.attempt(|grammar| {
            grammar.take(Kind::A);
            if grammar.take(Kind::ThreeQuarterHour) {
                found = Some(2700);
                return true;
            }
            let seconds = match grammar.kind(0) {
                Kind::Half => 1800,
                Kind::OneAndAHalf => 5400,
                Kind::Quarter => 900,
                _ => return false,
            };
            grammar.at += 1;
            grammar.take(Kind::Through);
            grammar.take(Kind::Of);
            grammar.take(Kind::A);
            found = Some(seconds);
            grammar.unit() == Some(Unit::Hour)
        })
        .then_some(found)?
    }

    /// "every 5 minutes", "every other day", "every half hour", "alle zwei Stunden", "each month".
    pub(super) fn interval(&mut self) -> bool {
        let _ = self.take_any(&[Kind::On, Kind::In, Kind::Am]);
        if !self.take(Kind::Every) {
            return false;
        }
        while self.text(0) == "single" {
            self.at += 1;
        }
        self.draft.repeats = true;
        if let Some(seconds) = self.odd_length().or_else(|| self.hours_and_minutes()) {
            self.repeats_after(seconds);
            return true;
        }
        if let Kind::Decimal(hundredths) = self.kind(0) {
            self.at += 1;
            self.repeats_after(i64::from(hundredths) * 36);
            return hundredths > 0 && self.unit() == Some(Unit::Hour);
        }
        if self.take(Kind::Midnight) {
            self.draft.interval = Some((1, Unit::Day));
            self.draft.times.push(ClockTime::fixed(0, 0));
            return true;
        }
        let is_counted = matches!(self.kind(0), Kind::Ordinal(_) | Kind::SecondWord);
        let mut count = match self.kind(0) {
            Kind::Other => {
                self.draft.impossible |= !matches!(self.text(0), "other" | "alternate" | "alternating");
                self.at += 1;
                2
            }
            Kind::Ordinal(number) => {
                self.at += 1;
                number
            }
            Kind::SecondWord if matches!(self.kind(1), Kind::Unit(_)) => {
                self.at += 1;
                2
            }
            Kind::Number(_) => self.count().unwrap_or(0),
            _ => 1,
        };
        let half = self.attempt(Self::and_a_half);
        if let Kind::Part { part, .. } = self.kind(0)
            && count == 1
        {
            self.at += 1;
            self.add_part(part);
            self.draft.part_repeats = true;
            return true;
        }
        if self.kind(0) == Kind::MorgenWord {
            self.at += 1;
            self.add_part(Part::Morning);
            self.draft.part_repeats = true;
            return true;
        }
        // "alle Jahre wieder" is a song title.
        let is_song = self.text_before() == "alle" && self.text(0) == "jahre";
        let is_full = self.full();
        let Some(unit) = self.unit().filter(|unit| !is_song && (!is_full || *unit == Unit::Hour)) else {
            return false;
        };
        self.draft.each_hour |= is_full;
        let half = half || (unit == Unit::Hour && self.attempt(Self::and_a_half));
        let minutes = if unit == Unit::Hour && !half { self.further_minutes() } else { None };
        if half || minutes.is_some() {
            self.draft.impossible |= unit != Unit::Hour;
            self.repeats_after(i64::from(count) * 3600 + minutes.unwrap_or(30) * 60);
            return true;
        }
        // "every first week of the month" recurs monthly, which cron cannot express.
        self.draft.impossible |= is_counted
            && self.attempt(|grammar| {
                grammar.take_any(&[Kind::Of, Kind::In]) && {
                    grammar.take_any(&[Kind::The, Kind::Every]);
                    matches!(grammar.unit(), Some(Unit::Month | Unit::Quarter | Unit::Year))
                }
            });
        if unit == Unit::Quarter {
            count = count.saturating_mul(3);
        }
        let unit = if unit == Unit::Quarter { Unit::Month } else { unit };
        self.draft.impossible |= count == 0;
        // "every month" combined with "the 3rd" is redundant.
        let within_day = matches!(unit, Unit::Second | Unit::Minute | Unit::Hour);
        let again =
            self.draft.interval.is_some_and(|known| known != (count, unit) && !(within_day && known == (1, Unit::Day)));
        self.draft.impossible |= again;
        self.draft.interval = Some((count, unit));
        true
    }

    /// "full", "volle".
    pub(super) fn full(&mut self) -> bool {
        let found = matches!(self.text(0), "full" | "volle" | "vollen" | "voller");
        self.at += usize::from(found);
        found
    }

    fn repeats_after(&mut self, seconds: i64) {
        self.draft.impossible |= self.draft.interval_seconds.is_some_and(|known| known != seconds);
        self.draft.interval_seconds = Some(seconds);
    }

    /// Parses "daily", "weekly". Before a noun they are adjectives.
    pub(super) fn adverb(&mut self) -> bool {
        let Kind::Adverb(count, unit) = self.kind(0) else { return false };
        let after_article = matches!(self.previous(), Some(Kind::The | Kind::A | Kind::This)) || {
            self.at > 0 && ["my", "our", "your"].contains(&self.tokens[self.at - 1].text.as_str())
        };
        self.at += 1;
        if after_article || (!self.at_end(0) && self.kind(0) == Kind::Unknown) {
            self.draft.adjective = Some((count, unit));
            self.unknown += 1;
            return true;
        }
        self.draft.repeats = true;
        // "daily every 2 hours".
        match self.draft.interval {
            Some((_, Unit::Second | Unit::Minute | Unit::Hour)) if (count, unit) == (1, Unit::Day) => {}
            Some(known) => self.draft.impossible |= known != (count, unit),
            None => self.draft.interval = Some((count, unit)),
        }
        true
    }
}
