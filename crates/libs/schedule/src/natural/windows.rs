//! Hours within which something recurs: "between 9 and 5".

use super::draft::ClockTime;
use super::grammar::Grammar;
use super::token::{Kind, Unit};

impl Grammar<'_> {
    /// Parses "between 9am and 5pm", "from 9 to 5", "von 8 bis 18 Uhr".
    pub(super) fn window(&mut self) -> bool {
        let between = self.take(Kind::Between);
        let led = between || self.take(Kind::From);
        // "every hour 9-17", "9-17 Uhr stündlich".
        let index = self.at;
        // "day 9 until 17" does not contain hours.
        let is_hour = matches!(self.kind(0), Kind::Number(_) | Kind::Clock(..)) && !self.follows_unit();
        if !led && !is_hour {
            return false;
        }
        let Some(start) = self.end_of_window() else { return false };
        let is_joined = self.take_any(&[Kind::To, Kind::Until, Kind::Through]) || (between && self.take(Kind::And));
        if !is_joined {
            return false;
        }
        let Some(mut end) = self.end_of_window() else { return false };
        let within_day = self.draft.interval_seconds.is_some()
            || matches!(self.draft.interval, Some((_, Unit::Minute | Unit::Hour)))
            || self.repeats_by(&[Unit::Minute, Unit::Hour]);
        let is_range = self.tokens[index..self.at].iter().any(|token| token.text == "-");
        let is_window = led || within_day || (is_range && end.certain);
        if !is_window {
            return false;
        }
        let mut start = start;
        // "between 22 and 6" uses the 24-hour clock, "10pm to 6" spans midnight; only "9 to 5" ends in the afternoon.
        let is_afternoon = (start.hour <= 12 || start.fixed) && end.hour + 12 > start.hour;
        if end.hour <= start.hour && !end.certain && end.hour < 12 && is_afternoon {
            end.hour += 12;
        }
        // "from 1 to 5pm".
        if !start.certain
            && end.fixed
            && end.hour > 12
            && start.hour < 12
            && start.hour + 12 < end.hour
            && start.hour < 6
        {
            start.hour += 12;
        }
        self.draft.impossible |= self.draft.window.is_some();
        self.draft.window = Some((start, end));
        true
    }

    /// In "from 9 to 5" the nine are not minutes.
    fn end_of_window(&mut self) -> Option<ClockTime> {
        self.find(|grammar| grammar.plain_time(true)).or_else(|| self.clock_time(true))
    }
}
