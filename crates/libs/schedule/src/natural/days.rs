//! Days: weekdays, dates, today and tomorrow.

use super::grammar::Grammar;
use super::token::{Kind, Part, Unit};

const WORKDAYS: u8 = 0b011_1110;
const WEEKEND: u8 = 0b100_0001;

/// Set of weekdays as named in the text.
pub(super) struct WeekdaySet {
    pub(super) days: u8,
    pub(super) count: u32,
    /// Named in a form that repeats: several days, a range, a plural.
    pub(super) repeats: bool,
    pub(super) short: bool,
}

impl Grammar<'_> {
    /// "Monday, Wednesday and Friday", "Mon-Fri", "weekdays", "the weekend".
    pub(super) fn weekday_set(&mut self) -> Option<WeekdaySet> {
        self.take(Kind::The);
        let (working_word, is_working) = (self.text(0), matches!(self.text(1), "day" | "days"));
        if (working_word == "working" || working_word == "business" || working_word == "work") && is_working {
            let repeats = self.text(1) == "days";
            self.at += 2;
            return Some(WeekdaySet { days: WORKDAYS, count: 5, repeats, short: false });
        }
        if (self.text(0), self.text(1), self.text(2)) == ("unter", "der", "woche") {
            self.at += 3;
            return Some(WeekdaySet { days: WORKDAYS, count: 5, repeats: true, short: false });
        }
        let mut set = self.weekday_item()?;
        let mut latest = set.days;
        loop {
            let more = self.attempt(|grammar| {
                let through = grammar.take_any(&[Kind::Through, Kind::Until, Kind::To]);
                // "Mon Wed Fri".
                let follows =
                    matches!((grammar.previous(), grammar.kind(0)), (Some(Kind::Weekday { .. }), Kind::Weekday { .. }));
                if !through && !follows && !grammar.take_any(&[Kind::Comma, Kind::And]) {
                    return false;
                }
                grammar.take(Kind::And);
                grammar.take_any(&[Kind::On, Kind::Every, Kind::Am]);
                let Some(item) = grammar.weekday_item() else { return false };
                if through {
                    let Some(days) = range(latest, item.days) else { return false };
                    set.days |= days;
                } else {
                    set.days |= item.days;
                }
                latest = item.days;
                set.count = set.days.count_ones();
                set.repeats = true;
                set.short = false;
                true
            });
            if !more {
                return Some(set);
            }
        }
    }

    fn weekday_item(&mut self) -> Option<WeekdaySet> {
        let set = match self.kind(0) {
            Kind::Weekday { day, repeats, short } => WeekdaySet { days: 1 << day, count: 1, repeats, short },
            Kind::Workday { repeats } => WeekdaySet { days: WORKDAYS, count: 5, repeats, short: false },
            Kind::Weekend { repeats } => WeekdaySet { days: WEEKEND, count: 2, repeats, short: false },
            _ => return None,
        };
        self.at += 1;
        Some(set)
    }

    /// Parses weekdays as the day of the schedule.
    pub(super) fn weekdays(&mut self) -> bool {
        let led = self.take_any(&[Kind::On, Kind::By, Kind::Am, Kind::From, Kind::In, Kind::At]);
        // "between Monday and Friday".
        let between = !led && self.take(Kind::Between);
        let last_period = self.kind(0) == Kind::Last;
        let every = self.take(Kind::Every);
        if every && self.impossible_step() {
            self.draft.impossible = true;
            return self.weekday_set().is_some();
        }
        let next = !every && self.take(Kind::Next);
        let this = !every && !next && self.take(Kind::This);
        if last_period {
            return false;
        }
        let Some(mut set) = self.weekday_set() else { return false };
        if between {
            let (first, last) = (set.days & set.days.wrapping_neg(), set.days & (set.days - 1));
            let Some(days) = range(first, last).filter(|_| set.count == 2) else { return false };
            set.days = days;
        }
        let part = self.part();
        let plural_part = part.is_some() && self.text_before().ends_with('s');
        let named = led || every || next || this || set.repeats;
        if !named && !self.ends_like_a_day(set.short, part.is_some()) {
            return false;
        }
        if let Some(part) = part {
            self.draft.part.get_or_insert(part);
        }
        // A weekend without "this" repeats.
        let repeats = every || set.repeats || plural_part || (set.count > 1 && !next && !this);
        self.draft.repeats |= repeats;
        self.draft.next_weekday |= next;
        self.draft.weekdays |= set.days;
        self.draft.weekday_count += set.count;
        true
    }

    /// "every other Friday", "every 2nd Friday", "every 3 Fridays".
    fn impossible_step(&mut self) -> bool {
        let step = matches!(self.kind(0), Kind::Other | Kind::SecondWord | Kind::Number(_) | Kind::Ordinal(_));
        let is_day = matches!(self.kind(1), Kind::Weekday { .. } | Kind::Workday { .. } | Kind::Weekend { .. });
        if step && is_day {
            self.at += 1;
        }
        step && is_day
    }

    /// A weekday without an introductory word must be followed by a time or nothing; "sun" and "sat" by a time.
    fn ends_like_a_day(&self, short: bool, part: bool) -> bool {
        if part {
            return true;
        }
        // "have a nice weekend".
        let before = self.at.checked_sub(2).and_then(|at| self.tokens.get(at)).map(|token| token.kind);
        let is_idle_weekend =
            matches!(self.previous(), Some(Kind::Weekend { repeats: false })) && before == Some(Kind::Unknown);
        match self.kind(0) {
            Kind::At | Kind::Clock(..) | Kind::Number(_) | Kind::Part { .. } => true,
            _ if self.at_end(0) => !short && !is_idle_weekend,
            // "Monday next week", "Freitag in einer Woche", "Friday the 20th".
            Kind::Next => matches!(self.kind(1), Kind::Unit(_)),
            Kind::In => {
                matches!(self.kind(1), Kind::Number(_) | Kind::A) && matches!(self.kind(2), Kind::Unit(Unit::Week))
            }
            Kind::The => matches!(self.kind(1), Kind::Ordinal(_)),
            Kind::Ordinal(_) | Kind::Date { .. } | Kind::Month(_) => true,
            Kind::Comma => !short,
            _ => false,
        }
    }

    /// "tomorrow", "today", "the day after tomorrow", "tonight", "this evening", "next week", "heute Abend".
    pub(super) fn relative_day(&mut self) -> bool {
        self.take(Kind::The);
        let (days, own_part) = match self.kind(0) {
            Kind::Today => (0, None),
            Kind::Tonight => (0, Some(Part::Night)),
            Kind::Tomorrow => (1, None),
            Kind::Overmorrow => (2, None),
            Kind::MorgenWord if !matches!(self.text_before(), "guten" | "am" | "jeden") => (1, None),
            Kind::Unit(Unit::Day) if self.kind(1) == Kind::Past && self.kind(2) == Kind::Tomorrow => {
                self.at += 2;
                (2, None)
            }
            Kind::This if matches!(self.kind(1), Kind::Part { .. }) => (0, None),
            Kind::In if self.kind(1) == Kind::Next => {
                self.at += 1;
                return self.relative_day();
            }
            Kind::Next => {
                self.at += 1;
                return match self.unit() {
                    Some(unit @ (Unit::Week | Unit::Month)) => {
                        self.draft.next_period = Some(unit);
                        true
                    }
                    _ => false,
                };
            }
            _ => return false,
        };
        let tonight = self.kind(0) == Kind::Tonight;
        self.draft.tonight |= tonight;
        self.at += 1;
        self.draft.impossible |= self.draft.relative_day.is_some_and(|known| known != days);
        self.draft.relative_day = Some(days);
        let part = match self.kind(0) {
            Kind::MorgenWord if days == 0 => {
                self.at += 1;
                Some(Part::Morning)
            }
            Kind::Part { part, .. } if !tonight => {
                self.at += 1;
                Some(part)
            }
            _ => own_part,
        };
        if let Some(part) = part {
            self.draft.part = Some(part);
        }
        true
    }
}

/// Returns the weekdays of a range, which may extend past the end of the week.
fn range(from: u8, to: u8) -> Option<u8> {
    if from.count_ones() != 1 || to.count_ones() != 1 {
        return None;
    }
    let mut day = 7 - from.leading_zeros();
    let mut days = 1u8 << day;
    while days & to == 0 {
        day = (day + 1) % 7;
        days |= 1 << day;
    }
    Some(days)
}
