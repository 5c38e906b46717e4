//! Phrases of time, found one after the other. What is no such phrase is passed over and counted.

use super::draft::{Draft, Offset};
use super::lexer::Token;
use super::token::{Kind, Part, Unit};

/// Reads tokens from left to right.
pub(super) struct Grammar<'a> {
    tokens: &'a [Token],
    pub(super) at: usize,
    pub(super) draft: Draft,
    /// Words that say nothing about time and are not merely polite.
    pub(super) unknown: usize,
    /// Where the last phrase ended.
    pub(super) end_of_phrase: Option<usize>,
}

impl<'a> Grammar<'a> {
    pub(super) fn read(tokens: &'a [Token]) -> Self {
        let mut grammar = Self { tokens, at: 0, draft: Draft::default(), unknown: 0, end_of_phrase: None };
        let mut has_loose_every = false;
        while grammar.at < tokens.len() {
            let is_after_number =
                matches!(grammar.previous(), Some(Kind::Number(_))) && grammar.end_of_phrase != Some(grammar.at);
            if grammar.attempt(Self::phrase) {
                // "8 tomorrow": the number belongs to it, and nobody knows how.
                grammar.draft.limited |= is_after_number;
                grammar.end_of_phrase = Some(grammar.at);
                continue;
            }
            let kind = grammar.kind(0);
            has_loose_every |= kind == Kind::Every;
            grammar.draft.limited |= grammar.is_rest_of_list();
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
            grammar.draft.limited |= kind == Kind::Limit;
            grammar.at += 1;
        }
        // "tell each of them at 9": not what repeats, as far as anybody knows.
        grammar.draft.impossible |= has_loose_every && !grammar.draft.repeats;
        grammar
    }

    /// "on March 3 and 5": a number that goes on with a phrase, but not in a way that is understood.
    fn is_rest_of_list(&self) -> bool {
        let after_phrase = self.at.checked_sub(1).is_some_and(|before| self.end_of_phrase == Some(before));
        matches!(self.kind(0), Kind::Number(_))
            && after_phrase
            && matches!(self.previous(), Some(Kind::And | Kind::Comma))
    }

    /// The kind of the token `ahead` of the place; past the end it is `Filler`.
    pub(super) fn kind(&self, ahead: usize) -> Kind {
        self.tokens.get(self.at + ahead).map_or(Kind::Filler, |token| token.kind)
    }

    pub(super) fn text(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text.as_str())
    }

    pub(super) fn text_at(&self, place: usize) -> &'a str {
        self.tokens.get(place).map_or("", |token| token.text.as_str())
    }

    pub(super) const fn at_end(&self, ahead: usize) -> bool {
        self.at + ahead >= self.tokens.len()
    }

    pub(super) fn previous(&self) -> Option<Kind> {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|token| token.kind)
    }

    /// Takes the token if it is of this kind.
    pub(super) fn take(&mut self, kind: Kind) -> bool {
        let found = !self.at_end(0) && self.kind(0) == kind;
        self.at += usize::from(found);
        found
    }

    pub(super) fn take_any(&mut self, kinds: &[Kind]) -> bool {
        kinds.iter().any(|kind| self.take(*kind))
    }

    /// Goes back to where it was, and forgets what was understood, when `phrase` is not there.
    pub(super) fn attempt(&mut self, phrase: impl FnOnce(&mut Self) -> bool) -> bool {
        let (at, draft) = (self.at, self.draft.clone());
        if phrase(self) && self.at > at {
            return true;
        }
        (self.at, self.draft) = (at, draft);
        false
    }

    fn phrase(&mut self) -> bool {
        self.attempt(Self::exception)
            || self.attempt(Self::limit)
            || self.attempt(Self::count_per)
            || self.attempt(Self::offset)
            || self.attempt(Self::minute_of_every_hour)
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

    /// A small whole number: digits, a word, or "a".
    pub(super) fn count(&mut self) -> Option<u32> {
        match self.kind(0) {
            Kind::Number(number) => {
                self.at += 1;
                // "a couple of hours"
                self.take(Kind::Of);
                Some(number)
            }
            Kind::A => {
                self.at += 1;
                if let Kind::Number(2) = self.kind(0)
                    && self.text(0) == "couple"
                {
                    self.at += 1;
                    self.take(Kind::Of);
                    return Some(2);
                }
                Some(1)
            }
            _ => None,
        }
    }

    pub(super) fn unit(&mut self) -> Option<Unit> {
        let unit = match self.kind(0) {
            Kind::Unit(unit) => unit,
            Kind::SecondWord => Unit::Second,
            Kind::Quarter if self.text(0) == "quarter" => Unit::Quarter,
            _ => return None,
        };
        self.at += 1;
        Some(unit)
    }

    /// "except Sundays", "außer am Sonntag". What cannot be left out limits.
    fn exception(&mut self) -> bool {
        if !self.take(Kind::Except) {
            return false;
        }
        let is_but = self.text_before() == "but";
        // "but not on Fridays"
        if matches!(self.text(0), "not" | "nicht") {
            self.at += 1;
        }
        while self.take_any(&[Kind::On, Kind::For, Kind::Am, Kind::In, Kind::The]) {}
        match self.weekday_set() {
            Some(set) => {
                self.draft.except |= set.days;
                true
            }
            None if is_but => false,
            None => {
                self.draft.limited = true;
                true
            }
        }
    }

    /// "for the next two weeks", "until Friday", "starting Monday": taken whole, so that its words are not read as
    /// more days.
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

    fn clock_without_at(&mut self) -> bool {
        self.clock_time(true).is_some()
    }

    /// "twice a day", "3 times per week", "einmal pro Woche", "once every 3 hours".
    fn count_per(&mut self) -> bool {
        let count = match self.kind(0) {
            Kind::Count(count) => {
                self.at += 1;
                count
            }
            Kind::Number(count) if matches!(self.kind(1), Kind::Times) => {
                self.at += 2;
                count
            }
            _ => return false,
        };
        if self.kind(0) == Kind::Every && (count == 1 || matches!(self.kind(1), Kind::Number(_))) {
            // "twice every 24 hours" is nothing that people agree on.
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
    fn offset(&mut self) -> bool {
        let led = self.take(Kind::In);
        let Some(offset) = self.length() else { return false };
        if !led {
            if !(self.take(Kind::From) && self.take(Kind::Now)) {
                return false;
            }
        } else if self.kind(0) == Kind::Past {
            return false;
        }
        self.draft.impossible |= self.draft.offset.is_some();
        self.draft.offset = Some(offset);
        true
    }

    /// A length of time.
    fn length(&mut self) -> Option<Offset> {
        if let Some(seconds) = self.odd_length() {
            return Some(Offset::Seconds(seconds));
        }
        let count = i64::from(self.count()?);
        // "2 and a half hours"
        let half = self.attempt(Self::and_a_half);
        let unit = self.unit()?;
        let length = match unit {
            Unit::Second => Offset::Seconds(count),
            Unit::Minute => Offset::Seconds(count * 60 + if half { 30 } else { 0 }),
            Unit::Hour => {
                // "an hour and a half", "one hour and 20 minutes"
                let half = half || self.attempt(Self::and_a_half);
                let mut minutes = if half { 30 } else { 0 };
                self.attempt(|grammar| {
                    grammar.take(Kind::And);
                    let Kind::Number(more @ 1..=59) = grammar.kind(0) else { return false };
                    grammar.at += 1;
                    minutes += i64::from(more);
                    grammar.unit() == Some(Unit::Minute)
                });
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

    fn and_a_half(&mut self) -> bool {
        self.take(Kind::And) && self.take(Kind::A) && self.take(Kind::Half)
    }

    /// "half an hour", "einer halben Stunde", "a quarter of an hour", "anderthalb Stunden", in seconds.
    fn odd_length(&mut self) -> Option<i64> {
        let mut found = None;
        self.attempt(|grammar| {
            grammar.take(Kind::A);
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
        if let Some(seconds) = self.odd_length() {
            self.draft.interval_seconds = Some(seconds);
            return true;
        }
        let mut count = match self.kind(0) {
            Kind::Other => {
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
            (self.draft.part, self.draft.part_repeats) = (Some(part), true);
            return true;
        }
        if self.kind(0) == Kind::MorgenWord {
            self.at += 1;
            (self.draft.part, self.draft.part_repeats) = (Some(Part::Morning), true);
            return true;
        }
        let Some(unit) = self.unit() else { return false };
        let half = half || (unit == Unit::Hour && self.attempt(Self::and_a_half));
        if half {
            self.draft.impossible |= unit != Unit::Hour;
            self.draft.interval_seconds = Some(i64::from(count) * 3600 + 1800);
            return true;
        }
        // "every hour on the hour"
        if unit == Unit::Hour
            && count == 1
            && self.attempt(|grammar| {
                grammar.take(Kind::On) && grammar.take(Kind::The) && grammar.unit() == Some(Unit::Hour)
            })
        {
            self.draft.minute_past = Some(0);
        }
        if unit == Unit::Quarter {
            count = count.saturating_mul(3);
        }
        let unit = if unit == Unit::Quarter { Unit::Month } else { unit };
        self.draft.impossible |= count == 0;
        // "every month" beside "the 3rd": one more word for the same.
        let again = self.draft.interval.is_some_and(|known| known != (count, unit));
        self.draft.impossible |= again;
        self.draft.interval = Some((count, unit));
        true
    }

    /// "daily", "weekly". Before a noun it is an adjective.
    fn adverb(&mut self) -> bool {
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
        self.draft.interval = Some((count, unit));
        true
    }
}
