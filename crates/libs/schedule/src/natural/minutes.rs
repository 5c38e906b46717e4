//! Minutes of a recurring hour: "at minute 15", "at :15 and :45", "15 past every hour", "on the half hour", "zur vollen
//! Stunde".

use super::grammar::Grammar;
use super::token::{Kind, Unit};

impl Grammar<'_> {
    pub(super) fn minutes_of_hour(&mut self) -> bool {
        if self.times_of_hour() {
            return true;
        }
        self.take_any(&[Kind::At, Kind::On, Kind::In, Kind::Am, Kind::Past]);
        self.at += usize::from(matches!(self.text(0), "zu" | "bei" | "an"));
        self.take(Kind::The);
        let found = self.find(Self::named_minutes);
        let is_named = found.is_some();
        let Some(minutes) = found.or_else(|| self.find(Self::minutes_past)) else { return false };
        let of_hour = self.attempt(|grammar| {
            grammar.take_any(&[Kind::Of, Kind::Past, Kind::In]);
            grammar.take(Kind::The) && grammar.full_hour()
        }) || self.attempt(|grammar| grammar.text(0) == "voll" && grammar.take(Kind::Unknown));
        let with_interval = self.attempt(|grammar| {
            grammar.take_any(&[Kind::Of, Kind::Past, Kind::In]);
            grammar.interval()
        });
        // "10 to" and "quarter past" are minutes if hours are mentioned elsewhere; "quarter past 8" is a time.
        if !is_named && !of_hour && !with_interval && !self.repeats_by(&[Unit::Hour]) {
            return false;
        }
        self.draft.each_hour |= of_hour;
        self.draft.repeats |= of_hour;
        self.draft.minutes.extend(minutes);
        true
    }

    /// Parses "on the hour", "at the bottom of the hour", "zur halben Stunde"; "um halb" together with "jede Stunde".
    fn times_of_hour(&mut self) -> bool {
        let mut minute = 0;
        let found = self.attempt(|grammar| {
            if !grammar.take_any(&[Kind::On, Kind::At]) && !matches!(grammar.text(0), "top" | "bottom") {
                return false;
            }
            if grammar.take(Kind::HalfTo) {
                minute = 30;
                return !matches!(grammar.kind(0), Kind::Number(_)) && grammar.repeats_by(&[Unit::Hour]);
            }
            let the = grammar.take(Kind::The) || grammar.text_before() == "zur";
            if matches!(grammar.text(0), "top" | "bottom") && grammar.kind(1) == Kind::Of {
                minute = if grammar.text(0) == "top" { 0 } else { 30 };
                grammar.at += 2;
                return grammar.attempt(Self::interval) || (grammar.take(Kind::The) && grammar.full_hour());
            }
            minute = if grammar.take(Kind::Half) { 30 } else { 0 };
            the && grammar.full_hour()
        });
        if found {
            self.draft.each_hour = true;
            self.draft.minutes.push(minute);
        }
        found
    }

    /// Parses "hour", "vollen Stunde".
    fn full_hour(&mut self) -> bool {
        self.full();
        self.unit() == Some(Unit::Hour)
    }

    /// Parses "minute 15", ":15 and :45", "minutes 15 and 45", "the 15th minute".
    fn named_minutes(&mut self) -> Option<Vec<u8>> {
        let by_name = self.unit_of_minutes();
        let minutes = self.listed(|grammar| match grammar.kind(0) {
            Kind::MinutePast(minute) => Some(minute),
            Kind::Number(minute) if by_name && !matches!(grammar.kind(1), Kind::Unit(_) | Kind::SecondWord) => {
                u8::try_from(minute).ok()
            }
            Kind::Ordinal(minute) if !by_name => u8::try_from(minute).ok(),
            _ => None,
        });
        let is_ordinal = matches!(self.previous(), Some(Kind::Ordinal(_)));
        let is_named = by_name || !is_ordinal || self.unit_of_minutes();
        (is_named && !minutes.is_empty() && minutes.iter().all(|minute| *minute < 60)).then_some(minutes)
    }

    fn unit_of_minutes(&mut self) -> bool {
        self.take(Kind::Unit(Unit::Minute))
    }

    /// Parses "quarter past", "10 minutes to", "15 and 45 past"; not before an hour.
    fn minutes_past(&mut self) -> Option<Vec<u8>> {
        self.take(Kind::A);
        let minutes = self.listed(|grammar| match grammar.kind(0) {
            Kind::Half => Some(30),
            Kind::Quarter => Some(15),
            Kind::Number(minutes @ 0..=59) => u8::try_from(minutes).ok(),
            _ => None,
        });
        self.unit_of_minutes();
        let is_past = self.kind(0) == Kind::Past;
        let leads = !minutes.is_empty() && self.take_any(&[Kind::Past, Kind::To, Kind::Before]);
        let is_time = matches!(
            self.kind(0),
            Kind::Number(_) | Kind::Clock(..) | Kind::HalfTo | Kind::Midnight | Kind::Part { .. }
        );
        if !leads || is_time {
            return None;
        }
        Some(minutes.into_iter().map(|minute| if is_past { minute } else { (60 - minute) % 60 }).collect())
    }

    /// Parses one or several items: "15, 30 and 45".
    fn listed(&mut self, item: impl Fn(&Self) -> Option<u8>) -> Vec<u8> {
        let mut found = Vec::new();
        loop {
            let more = self.attempt(|grammar| {
                if !found.is_empty() {
                    if !grammar.take_any(&[Kind::Comma, Kind::And]) {
                        return false;
                    }
                    grammar.take(Kind::And);
                    grammar.take_any(&[Kind::At, Kind::On]);
                }
                let Some(number) = item(grammar) else { return false };
                grammar.at += 1;
                found.push(number);
                true
            });
            if !more {
                return found;
            }
        }
    }

    /// Whether any part recurs by one of these units: "every 2 hours", "hourly", "past the hour".
    pub(super) fn repeats_by(&self, units: &[Unit]) -> bool {
        self.tokens.iter().enumerate().any(|(index, token)| match token.kind {
            Kind::Adverb(_, unit) => units.contains(&unit),
            Kind::Unit(unit) if units.contains(&unit) => {
                self.tokens[index.saturating_sub(2)..index].iter().any(|lead| {
                    matches!(lead.kind, Kind::Every | Kind::The | Kind::Per | Kind::Count(_)) || lead.text == "zur"
                })
            }
            _ => false,
        })
    }
}
