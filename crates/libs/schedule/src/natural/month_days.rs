//! Recurring days of a month: "the first Monday", "the 15th", "the end of the month".

use super::draft::Week;
use super::grammar::Grammar;
use super::token::{Kind, Unit};

impl Grammar<'_> {
    /// "first Monday of the month", "last Friday of every month", "am ersten Montag im Monat", "every last Friday".
    pub(super) fn weekday_of_month(&mut self) -> bool {
        let _ = self.take_any(&[Kind::On, Kind::Am, Kind::At]);
        self.take(Kind::The);
        let every = self.take(Kind::Every);
        let mut weeks = Vec::new();
        loop {
            let week = match self.kind(0) {
                Kind::Last => Week::Last,
                Kind::SecondWord => Week::Nth(2),
                Kind::Ordinal(week @ 1..=5) => Week::Nth(u8::try_from(week).unwrap_or(1)),
                _ => return false,
            };
            self.at += 1;
            weeks.push(week);
            if !self.take_any(&[Kind::And, Kind::Comma]) {
                break;
            }
            self.take(Kind::The);
        }
        let working = matches!(self.text(0), "business" | "working") && self.text(1) == "day";
        let Some(set) = self.weekday_set() else { return false };
        // "every month on the first Monday".
        let of_month = self.attempt(Self::of_every_month) || matches!(self.draft.interval, Some((_, Unit::Month)));
        // "in November": recurs yearly if another part says so.
        let of_named_month = !of_month && self.attempt(Self::months_by_name);
        // "every 1st and 3rd Monday" counts within the month; "every 3rd Monday" is ambiguous.
        let unambiguous = every && (weeks.len() > 1 || matches!(weeks.as_slice(), [Week::Last | Week::Nth(1)]));
        if !of_month && !of_named_month {
            // "every second Friday" may mean every other one, "last Friday" is in the past, "the first Monday in May"
            // is a single day.
            let other = matches!(self.kind(0), Kind::Of | Kind::In);
            if !unambiguous && !every && !other && !working {
                return false;
            }
            self.draft.impossible |= !unambiguous || other;
        }
        self.draft.impossible |= working || set.count != 1;
        self.draft.repeats |= of_month || every;
        let day = u8::try_from(set.days.trailing_zeros()).unwrap_or(0);
        self.draft.weeks.extend(weeks.into_iter().map(|week| (week, day)));
        if let Some(part) = self.part() {
            self.draft.part.get_or_insert(part);
        }
        true
    }

    /// "of the month", "of each month", "in the month", "im Monat", "des Monats", "jedes Monats", "every month".
    fn of_every_month(&mut self) -> bool {
        let of = self.take_any(&[Kind::Of, Kind::In]);
        let every = self.take_any(&[Kind::The, Kind::Every, Kind::A, Kind::Per]);
        (of || every) && self.unit() == Some(Unit::Month)
    }

    /// "the last day of the month", "the end of each month", "Monatsende", "the first day of the month".
    pub(super) fn end_of_month(&mut self) -> bool {
        let _ = self.take_any(&[Kind::On, Kind::Am, Kind::At, Kind::In]);
        self.take(Kind::The);
        self.take(Kind::Every);
        // "the second to last day".
        if matches!(self.kind(0), Kind::Ordinal(_) | Kind::SecondWord | Kind::Number(_))
            && (self.kind(1) == Kind::Last || (self.kind(1) == Kind::To && self.kind(2) == Kind::Last))
        {
            self.draft.impossible = true;
            self.at += 2;
            return true;
        }
        let (is_last, mut whole) = match (self.kind(0), self.text(0)) {
            (Kind::Last, _) => (true, false),
            (Kind::End, text) => (true, text == "monatsende"),
            (Kind::Beginning, text) => (false, text == "monatsanfang"),
            (Kind::Ordinal(1), _) => (false, false),
            _ => return false,
        };
        let needs_day = matches!(self.kind(0), Kind::Last | Kind::Ordinal(_));
        self.at += 1;
        if needs_day {
            // "the last business day" cannot be expressed, and must not be parsed as something else.
            let working = matches!(self.kind(0), Kind::Workday { .. } | Kind::Weekend { .. })
                || matches!(self.text(0), "business" | "working" | "work");
            if working {
                self.draft.impossible = true;
                self.draft.repeats = true;
                while !self.at_end(0) && self.kind(0) != Kind::Unit(Unit::Month) {
                    self.at += 1;
                }
                return true;
            }
            if self.unit() != Some(Unit::Day) {
                return false;
            }
        }
        whole |= self.attempt(Self::of_every_month);
        if !whole {
            let of_longer = self.take(Kind::Of);
            self.take_any(&[Kind::The, Kind::Every]);
            if of_longer && matches!(self.unit(), Some(Unit::Quarter | Unit::Year | Unit::Week)) {
                self.draft.impossible = true;
                return true;
            }
            return false;
        }
        self.draft.repeats = true;
        if is_last {
            self.draft.last_day = true;
        } else {
            self.draft.month_days.push(1);
        }
        true
    }

    /// "the 1st and 15th", "on the tenth of each month", "am 15. jedes Monats", "day 2 of every month", "the 1st and the
    /// last".
    pub(super) fn days_of_month(&mut self) -> bool {
        // "Monday the 30th".
        let follows_weekday =
            self.draft.weekdays != 0 && (self.end_of_phrase == Some(self.at) || self.previous() == Some(Kind::Comma));
        let led = self.take_any(&[Kind::On, Kind::Am, Kind::By]) || follows_weekday;
        let is_span = !led && matches!(self.kind(0), Kind::From | Kind::Between);
        let between = self.kind(0) == Kind::Between;
        self.at += usize::from(is_span);
        self.at += usize::from(self.text(0) == "an");
        self.take(Kind::The);
        let every = self.take(Kind::Every);
        let speaks_of_months = self
            .tokens
            .iter()
            .any(|token| matches!(token.kind, Kind::Unit(Unit::Month) | Kind::Adverb(_, Unit::Month)));
        let by_number = speaks_of_months && !every && self.take(Kind::Unit(Unit::Day));
        let mut days = Vec::new();
        let mut names_last = false;
        loop {
            if self.attempt(Self::last_of_month) {
                names_last = true;
            } else {
                let Some(day) = self.month_day(by_number) else { return false };
                days.push(day);
                let last = self.find(|grammar| {
                    let leads = grammar.take_any(&[Kind::Through, Kind::To, Kind::Until])
                        || (between && grammar.take(Kind::And));
                    grammar.take(Kind::The);
                    grammar.at += usize::from(grammar.text(0) == "zum");
                    grammar.month_day(by_number).filter(|_| leads)
                });
                if let Some(last) = last {
                    self.draft.impossible |= last <= day || last > 31;
                    days.extend((day + 1..=last.min(31)).filter(|_| last > day));
                    break;
                }
            }
            if is_span {
                return false;
            }
            let before = self.at;
            let joined = self.take_any(&[Kind::Comma, Kind::And]);
            self.take(Kind::And);
            self.take_any(&[Kind::On, Kind::Am]);
            self.take(Kind::The);
            self.at += usize::from(by_number && self.kind(0) == Kind::Unit(Unit::Day));
            let item = self.at;
            let goes_on = joined && (self.attempt(Self::last_of_month) || self.month_day(by_number).is_some());
            self.at = if goes_on { item } else { before };
            if !goes_on {
                break;
            }
        }
        // "the 3rd day of the month".
        self.attempt(|grammar| {
            grammar.unit() == Some(Unit::Day)
                && (matches!(grammar.kind(0), Kind::Of | Kind::Every | Kind::In) || speaks_of_months)
        });
        // "the 3rd of next month", "am 3. dieses Monats".
        let of_one_month = self.attempt(|grammar| {
            grammar.take_any(&[Kind::Of, Kind::In]);
            grammar.take(Kind::The);
            let next = grammar.kind(0) == Kind::Next;
            if next {
                grammar.draft.next_period = Some(Unit::Month);
            }
            grammar.take_any(&[Kind::Next, Kind::This]) && grammar.unit() == Some(Unit::Month)
        });
        let of_month = !of_one_month && self.attempt(Self::of_every_month);
        let is_last_word = self.at_end(0)
            || matches!(
                self.kind(0),
                Kind::At | Kind::Comma | Kind::Clock(..) | Kind::Every | Kind::In | Kind::Filler | Kind::Adverb(..)
            )
            || of_one_month
            || matches!(self.kind(0), Kind::By | Kind::The)
            || matches!(self.kind(1), Kind::OClock | Kind::Pm);
        let announced = led
            || by_number
            || of_one_month
            || every
            || of_month
            || self.draft.interval == Some((1, Unit::Month))
            || days.len() > 1;
        // "every 15th" is a day of the month; "every second" is not.
        let is_numbered = days.iter().all(|day| *day > 3) || self.text_before().ends_with('.') || days == [1];
        if !announced || (!of_month && !is_last_word) || (every && !of_month && !is_numbered) {
            return false;
        }
        // "on the last day" does not say of what.
        if days.is_empty() && !speaks_of_months {
            return false;
        }
        self.draft.impossible |= days.iter().any(|day| !(1..=31).contains(day)) || (names_last && of_one_month);
        self.draft.repeats |= every || of_month || days.len() > 1 || names_last;
        self.draft.last_day |= names_last;
        self.draft.month_days.extend(days.iter().filter_map(|day| u8::try_from(*day).ok()));
        true
    }

    /// Parses an ordinal, or any number preceded by "day".
    fn month_day(&mut self, by_number: bool) -> Option<u32> {
        let is_time = matches!(self.kind(1), Kind::Am | Kind::Pm | Kind::OClock | Kind::Unit(_));
        let number = match self.kind(0) {
            Kind::Ordinal(number) => number,
            Kind::SecondWord => 2,
            Kind::Number(number) if by_number && !is_time => number,
            _ => return None,
        };
        self.at += 1;
        Some(number)
    }

    /// Parses "last", "last day", but no other noun after "last".
    fn last_of_month(&mut self) -> bool {
        let is_other = matches!(
            self.kind(1),
            Kind::Unit(_)
                | Kind::Weekday { .. }
                | Kind::Workday { .. }
                | Kind::Weekend { .. }
                | Kind::Part { .. }
                | Kind::Unknown
                | Kind::Number(_)
                | Kind::Quarter
        ) && !self.at_end(1);
        let is_day = self.kind(1) == Kind::Unit(Unit::Day);
        self.take(Kind::Last) && {
            self.at += usize::from(is_day);
            is_day || !is_other
        }
    }
}
