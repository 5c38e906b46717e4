//! Hours within which something repeats, and minutes of every hour: "between 9 and 5", "at quarter past every hour".

use super::draft::ClockTime;
use super::grammar::Grammar;
use super::token::{Kind, Unit};

impl Grammar<'_> {
    /// "between 9am and 5pm", "from 9 to 5", "von 8 bis 18 Uhr".
    pub(super) fn window(&mut self) -> bool {
        let led = self.take_any(&[Kind::Between, Kind::From]);
        // "every hour 9-17", "9-17 Uhr stündlich"
        let place = self.at;
        if !led && !matches!(self.kind(0), Kind::Number(_) | Kind::Clock(..)) {
            return false;
        }
        let Some(start) = self.end_of_window() else { return false };
        if !self.take_any(&[Kind::And, Kind::To, Kind::Until, Kind::Through]) {
            return false;
        }
        let Some(mut end) = self.end_of_window() else { return false };
        let within_day = self.draft.interval_seconds.is_some()
            || matches!(self.draft.interval, Some((_, Unit::Minute | Unit::Hour)));
        let is_range = self.tokens[place..self.at].iter().any(|token| token.text == "-");
        let is_window = led || within_day || (is_range && end.certain);
        if !is_window {
            return false;
        }
        let mut start = start;
        // "between 22 and 6" is on the 24-hour clock, "10pm to 6" over midnight; only "9 to 5" ends in the afternoon.
        let is_afternoon = (start.hour <= 12 || start.fixed) && end.hour + 12 > start.hour;
        if end.hour <= start.hour && !end.certain && end.hour < 12 && is_afternoon {
            end.hour += 12;
        }
        // "from 1 to 5pm"
        if !start.certain
            && end.certain
            && end.hour > 12
            && start.hour < 12
            && start.hour + 12 < end.hour
            && start.hour < 6
        {
            start.hour += 12;
        }
        self.draft.window = Some((start, end));
        true
    }

    /// In "from 9 to 5" the nine are no minutes.
    fn end_of_window(&mut self) -> Option<ClockTime> {
        self.find(|grammar| grammar.plain_time(true)).or_else(|| self.clock_time(true))
    }

    /// "at quarter past every hour", "at 15 past the hour", "every hour at :15", "every hour at half past".
    pub(super) fn minute_of_every_hour(&mut self) -> bool {
        let each_hour = self.attempt(|grammar| grammar.take(Kind::Every) && grammar.unit() == Some(Unit::Hour));
        self.take_any(&[Kind::At, Kind::On]);
        let minute = match self.kind(0) {
            Kind::MinutePast(minute) => {
                self.at += 1;
                Some(minute)
            }
            _ => self.minutes_past(),
        };
        let Some(minute) = minute else { return false };
        let each_hour = each_hour
            || self.attempt(|grammar| {
                grammar.take_any(&[Kind::Every, Kind::The, Kind::Of]) && grammar.unit() == Some(Unit::Hour)
            });
        if !each_hour {
            return false;
        }
        self.draft.minute_past = Some(minute);
        self.draft.repeats = true;
        true
    }

    fn minutes_past(&mut self) -> Option<u8> {
        self.take(Kind::A);
        let minutes = match self.kind(0) {
            Kind::Half => 30,
            Kind::Quarter => 15,
            Kind::Number(minutes @ 0..=59) => u8::try_from(minutes).ok()?,
            _ => return None,
        };
        self.at += 1;
        if matches!(self.kind(0), Kind::Unit(Unit::Minute)) {
            self.at += 1;
        }
        match self.kind(0) {
            Kind::Past => self.at += 1,
            Kind::To | Kind::Before => {
                self.at += 1;
                return Some(60 - minutes.max(1));
            }
            _ => return None,
        }
        Some(minutes)
    }
}
