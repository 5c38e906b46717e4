//! Times of the day: "at 9", "half past seven", "um Viertel vor 8", "between 9 and 5", "in the evening".

use super::draft::ClockTime;
use super::grammar::Grammar;
use super::token::{Kind, Part, Unit};

impl Grammar<'_> {
    /// One time, or several: "at 9am, 1pm and 6pm".
    pub(super) fn times(&mut self) -> bool {
        let led = self.take(Kind::At)
            || (self.kind(0) == Kind::By
                && {
                    self.at += 1;
                    true
                }
                && self.is_certain_ahead());
        // "every Monday 10"
        let follows_day = self.end_of_phrase == Some(self.at)
            && (self.draft.has_day() || self.draft.repeats)
            && (self.at_end(1) || matches!(self.kind(1), Kind::And | Kind::Comma));
        let Some(first) = self.clock_time(led || follows_day) else { return false };
        let mut times = vec![first];
        loop {
            let more = self.attempt(|grammar| {
                if !grammar.take_any(&[Kind::Comma, Kind::And]) {
                    return false;
                }
                grammar.take(Kind::And);
                let led = grammar.take(Kind::At) || led || first.certain;
                // "at 9 and 3 people": a lone number must be the last of its phrase.
                let Some(time) = grammar.clock_time(led) else { return false };
                if !time.certain && !grammar.at_end(0) && matches!(grammar.kind(0), Kind::Unknown | Kind::Unit(_)) {
                    return false;
                }
                times.push(time);
                true
            });
            if !more {
                break;
            }
        }
        share_afternoon(&mut times);
        if let Some(part) = self.part() {
            self.draft.part.get_or_insert(part);
        }
        self.draft.times.extend(times);
        true
    }

    fn is_certain_ahead(&self) -> bool {
        matches!(self.kind(0), Kind::Clock(..) | Kind::Part { part: Part::Noon, .. } | Kind::Midnight)
            || matches!(self.kind(1), Kind::Am | Kind::Pm | Kind::OClock)
    }

    /// A time. `led` says that a word before announces one, so that a lone number is one too.
    pub(super) fn clock_time(&mut self, led: bool) -> Option<ClockTime> {
        self.find(Self::named_time)
            .or_else(|| self.find(Self::time_by_quarters))
            .or_else(|| self.find(|grammar| grammar.plain_time(led)))
    }

    /// What `phrase` finds; where it finds nothing, it stays where it was.
    fn find<T>(&mut self, phrase: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut found = None;
        self.attempt(|grammar| {
            found = phrase(grammar);
            found.is_some()
        });
        found
    }

    fn named_time(&mut self) -> Option<ClockTime> {
        let time = match self.kind(0) {
            Kind::Part { part: Part::Noon, repeats: false } => ClockTime::fixed(12, 0),
            Kind::Midnight => ClockTime::fixed(0, 0),
            _ => return None,
        };
        self.at += 1;
        Some(time)
    }

    /// "half past 7", "quarter to six", "ten past nine", "halb neun", "Viertel vor 8".
    fn time_by_quarters(&mut self) -> Option<ClockTime> {
        self.take(Kind::A);
        if self.take(Kind::HalfTo) {
            let hour = self.hour()?;
            return Some(self.finished(minutes_before(hour, 30)));
        }
        let minutes = match self.kind(0) {
            Kind::Half => 30,
            Kind::Quarter => 15,
            Kind::Number(minutes @ 1..=59) => minutes,
            _ => return None,
        };
        self.at += 1;
        if matches!(self.kind(0), Kind::Unit(Unit::Minute)) {
            self.at += 1;
        }
        let forward = match self.kind(0) {
            Kind::Past => true,
            Kind::To | Kind::Before => false,
            _ => return None,
        };
        self.at += 1;
        let named = self.named_time();
        let hour = match named {
            Some(time) => time.hour,
            None => self.hour()?,
        };
        let minutes = u8::try_from(minutes).ok()?;
        let time = if forward { ClockTime::uncertain(hour, minutes) } else { minutes_before(hour, minutes) };
        Some(if named.is_some() { ClockTime::fixed(time.hour, time.minute) } else { self.finished(time) })
    }

    /// "9", "9am", "17:30", "7 Uhr 30", "seven in the evening".
    fn plain_time(&mut self, led: bool) -> Option<ClockTime> {
        match self.kind(0) {
            Kind::Clock(hour, minute) => {
                self.at += 1;
                // Nobody writes minutes for the night who means the afternoon, unless words say so.
                let time = ClockTime::certain(hour % 24, minute);
                Some(self.finished(time))
            }
            Kind::Dotted(hour, minute) if led || matches!(self.kind(1), Kind::Am | Kind::Pm | Kind::OClock) => {
                self.at += 1;
                Some(self.finished(ClockTime::certain(hour % 24, minute)))
            }
            Kind::Number(number) => {
                let hour = u8::try_from(number).ok().filter(|hour| *hour <= 24)?;
                let announced = matches!(self.kind(1), Kind::Pm | Kind::OClock)
                    || (self.kind(1) == Kind::Am && !self.am_is_german(1))
                    || (matches!((self.kind(1), self.kind(2)), (Kind::In, Kind::The))
                        && matches!(self.kind(3), Kind::Part { .. }))
                    || matches!(self.kind(1), Kind::Part { repeats: true, .. });
                let is_amount = matches!(self.kind(1), Kind::Unit(_) | Kind::SecondWord | Kind::Times);
                if !(led || announced) || is_amount {
                    return None;
                }
                self.at += 1;
                let time = ClockTime { certain: hour > 12 || hour == 0, ..ClockTime::uncertain(hour % 24, 0) };
                Some(self.finished(time))
            }
            _ => None,
        }
    }

    fn hour(&mut self) -> Option<u8> {
        let Kind::Number(number) = self.kind(0) else { return None };
        let hour = u8::try_from(number).ok().filter(|hour| *hour <= 24)?;
        self.at += 1;
        Some(hour % 24)
    }

    /// What may follow a time: am, pm, o'clock, German minutes, a part of the day.
    fn finished(&mut self, mut time: ClockTime) -> ClockTime {
        if self.take(Kind::OClock) {
            time.certain |= time.hour > 12 || self.tokens_say_uhr();
            if time.minute == 0
                && let Kind::Number(minute @ 1..=59) = self.kind(0)
                && !matches!(self.kind(1), Kind::Unit(_) | Kind::Am | Kind::Pm | Kind::OClock)
            {
                self.at += 1;
                time.minute = u8::try_from(minute).unwrap_or(0);
            }
        }
        if self.kind(0) == Kind::Pm {
            self.at += 1;
            time = ClockTime::fixed(if time.hour < 12 { time.hour + 12 } else { time.hour }, time.minute);
        } else if self.kind(0) == Kind::Am && !self.at_end(0) && !self.am_is_german(0) {
            self.at += 1;
            time = ClockTime::fixed(time.hour % 12, time.minute);
        }
        if let Some(part) = self.part() {
            time = time.in_part(part);
        }
        time
    }

    fn tokens_say_uhr(&self) -> bool {
        self.previous() == Some(Kind::OClock)
    }

    /// "um 8 am Montag": the word before a German day is no hour of the morning.
    fn am_is_german(&self, ahead: usize) -> bool {
        let next = self.text(ahead + 1);
        next.ends_with("tag")
            || next.ends_with("abend")
            || next.ends_with("wochenende")
            || next == "mittwoch"
            || next == "morgen"
            || next.ends_with('.')
    }

    /// "in the morning", "at night", "abends", "am Abend", "in der Nacht", as a part of what came before.
    pub(super) fn part(&mut self) -> Option<Part> {
        let mut found = None;
        self.attempt(|grammar| {
            let led = grammar.take_any(&[Kind::In, Kind::At, Kind::Am]);
            grammar.take(Kind::The);
            match grammar.kind(0) {
                Kind::Part { part, .. } if led || part != Part::Noon => found = Some(part),
                Kind::MorgenWord if led => found = Some(Part::Morning),
                _ => return false,
            }
            grammar.at += 1;
            true
        });
        found
    }

    /// A part of the day by itself.
    pub(super) fn part_of_day(&mut self) -> bool {
        if ["good", "guten", "gute", "guter"].iter().any(|word| self.before_is(word)) {
            return false;
        }
        let led = self.take_any(&[Kind::In, Kind::At, Kind::Am]);
        self.take(Kind::The);
        match self.kind(0) {
            Kind::Part { part, repeats } => {
                self.draft.part.get_or_insert(part);
                self.draft.part_repeats |= repeats;
            }
            Kind::MorgenWord if led => {
                self.draft.part.get_or_insert(Part::Morning);
            }
            _ => return false,
        }
        self.at += 1;
        // "mornings at 7" is every day's, unless a day is named.
        true
    }

    fn before_is(&self, word: &str) -> bool {
        self.previous().is_some() && self.text_before() == word
    }

    /// "between 9am and 5pm", "from 9 to 5", "von 8 bis 18 Uhr".
    pub(super) fn window(&mut self) -> bool {
        if !self.take_any(&[Kind::Between, Kind::From]) {
            return false;
        }
        let Some(start) = self.end_of_window() else { return false };
        if !self.take_any(&[Kind::And, Kind::To, Kind::Until, Kind::Through]) {
            return false;
        }
        let Some(mut end) = self.end_of_window() else { return false };
        let mut start = start;
        if end.hour <= start.hour && !end.certain && end.hour < 12 {
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

/// "at 7 and 9pm": what is said once holds for both.
fn share_afternoon(times: &mut [ClockTime]) {
    let Some((last, rest)) = times.split_last_mut() else { return };
    if last.certain && last.hour > 12 {
        for time in rest {
            if !time.certain && time.hour < 12 && time.hour + 12 < last.hour {
                *time = ClockTime::fixed(time.hour + 12, time.minute);
            }
        }
    }
}

const fn minutes_before(hour: u8, minutes: u8) -> ClockTime {
    ClockTime::uncertain((hour + 23) % 24, 60 - minutes)
}
