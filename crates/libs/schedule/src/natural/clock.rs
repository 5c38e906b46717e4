//! Times of day: "at 9", "half past seven", "um Viertel vor 8", "between 9 and 5", "in the evening".

use super::draft::ClockTime;
use super::grammar::Grammar;
use super::token::{Kind, Part, Unit};

impl Grammar<'_> {
    /// Parses one or several times: "at 9am, 1pm and 6pm".
    pub(super) fn times(&mut self) -> bool {
        if self.follows_unit() {
            return false;
        }
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
            && (self.at_end(1) || matches!(self.kind(1), Kind::And | Kind::Comma) || self.text(1) == "h");
        // "in November 2027"
        let is_year = !led && matches!((self.previous(), self.kind(0)), (Some(Kind::Month(_)), Kind::Number(1900..)));
        let Some(first) = self.clock_time(led || follows_day).filter(|_| !is_year) else { return false };
        let mut times = vec![first];
        loop {
            let more = self.attempt(|grammar| {
                if !grammar.take_any(&[Kind::Comma, Kind::And]) {
                    return false;
                }
                grammar.take(Kind::And);
                let led = grammar.take(Kind::At) || led || first.certain;
                // "at 9 and 3 people": a lone number must end its phrase.
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
        // "at 8 to 10": the time within that span is not specified.
        self.draft.limited |= self.attempt(|grammar| grammar.take(Kind::To) && grammar.clock_time(true).is_some());
        share_afternoon(&mut times);
        if let Some(part) = self.part() {
            self.draft.part.get_or_insert(part);
        }
        // "17 Uhr abends" combined with "morgens".
        self.draft.impossible |= !self.draft.more_parts.is_empty();
        self.draft.times.extend(times);
        true
    }

    fn is_certain_ahead(&self) -> bool {
        matches!(self.kind(0), Kind::Clock(..) | Kind::Part { part: Part::Noon, .. } | Kind::Midnight)
            || matches!(self.kind(1), Kind::Am | Kind::Pm | Kind::OClock)
    }

    /// Parses a time. `led` means that a preceding word announces a time, so that a lone number counts as one.
    pub(super) fn clock_time(&mut self, led: bool) -> Option<ClockTime> {
        self.find(Self::named_time)
            .or_else(|| self.find(|grammar| grammar.time_by_quarters(led)))
            .or_else(|| self.find(|grammar| grammar.plain_time(led)))
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
    fn time_by_quarters(&mut self, led: bool) -> Option<ClockTime> {
        self.take(Kind::A);
        if self.text(0) == "dreiviertel" {
            self.at += 1;
            let hour = self.hour()?;
            return Some(self.with_suffix(minutes_before(hour, 15)));
        }
        if self.take(Kind::HalfTo) {
            let hour = self.hour()?;
            return Some(self.with_suffix(minutes_before(hour, 30)));
        }
        let minutes = match self.kind(0) {
            Kind::Half => 30,
            Kind::Quarter => 15,
            // "nine to five" is not a time.
            Kind::Number(minutes @ 1..=59)
                if led || minutes % 5 == 0 || matches!(self.kind(1), Kind::Unit(Unit::Minute)) =>
            {
                minutes
            }
            _ => return None,
        };
        self.at += 1;
        let has_minutes_unit = matches!(self.kind(0), Kind::Unit(Unit::Minute));
        self.at += usize::from(has_minutes_unit);
        let forward = match self.kind(0) {
            Kind::Past => true,
            // "at 8 to 10" are two hours; single minutes are only meant if the text says so.
            Kind::To if minutes % 5 != 0 && !has_minutes_unit => return None,
            Kind::To | Kind::Before => false,
            // "half nine", as the British say it.
            Kind::Number(_) if led && minutes == 30 && self.text_before() == "half" => {
                let hour = self.hour()?;
                return Some(self.with_suffix(ClockTime::uncertain(hour, 30)));
            }
            _ => return None,
        };
        self.at += 1;
        // "fünf vor halb neun"
        if self.take(Kind::HalfTo) {
            let hour = self.hour()?;
            let minutes = u8::try_from(minutes).ok().filter(|minutes| *minutes < 30)?;
            return Some(self.with_suffix(minutes_before(hour, if forward { 30 - minutes } else { 30 + minutes })));
        }
        let named = self.named_time();
        let hour = match named {
            Some(time) => time.hour,
            None => self.hour()?,
        };
        let minutes = u8::try_from(minutes).ok()?;
        let time = if forward { ClockTime::uncertain(hour, minutes) } else { minutes_before(hour, minutes) };
        Some(if named.is_some() { ClockTime::fixed(time.hour, time.minute) } else { self.with_suffix(time) })
    }

    /// "9", "9am", "17:30", "7 Uhr 30", "seven in the evening".
    pub(super) fn plain_time(&mut self, led: bool) -> Option<ClockTime> {
        match self.kind(0) {
            Kind::Clock(hour, minute) => {
                self.at += 1;
                // Minutes without further words refer to daytime, not to the night.
                Some(self.with_suffix(ClockTime::on_clock(hour, minute)))
            }
            Kind::Dotted(hour, minute) if led || matches!(self.kind(1), Kind::Am | Kind::Pm | Kind::OClock) => {
                self.at += 1;
                Some(self.with_suffix(ClockTime::on_clock(hour, minute)))
            }
            Kind::Number(_) if self.text(0).len() >= 3 && self.text(0).starts_with(|c: char| c.is_ascii_digit()) => {
                self.unbroken_time(led)
            }
            Kind::Number(number) => {
                let hour = u8::try_from(number).ok().filter(|hour| *hour <= 24)?;
                let announced = matches!(self.kind(1), Kind::Pm | Kind::OClock)
                    || (self.kind(1) == Kind::Am && !self.am_is_german(1))
                    || (matches!((self.kind(1), self.kind(2)), (Kind::In, Kind::The))
                        && matches!(self.kind(3), Kind::Part { .. }))
                    || matches!(self.kind(1), Kind::Part { repeats: true, .. })
                    || (self.spoken_minute(1).is_some()
                        && (self.kind(2) == Kind::Pm || (self.kind(2) == Kind::Am && !self.am_is_german(2))));
                // "at 17h", "at 17 hrs".
                let is_hour = led && number <= 24 && matches!(self.text(1), "h" | "hrs");
                let is_amount = !is_hour && matches!(self.kind(1), Kind::Unit(_) | Kind::SecondWord | Kind::Times);
                if !(led || announced) || is_amount {
                    return None;
                }
                let minute = self.spoken_minute(1);
                self.at += if is_hour || minute.is_some() { 2 } else { 1 };
                let certain = hour > 12 || hour == 0 || is_hour;
                let time = ClockTime::on_clock(hour, minute.unwrap_or(0));
                Some(self.with_suffix(ClockTime { certain, ..time }))
            }
            _ => None,
        }
    }

    /// "0930", "1730", "2100 hours", "930pm".
    fn unbroken_time(&mut self, led: bool) -> Option<ClockTime> {
        let text = self.text(0);
        let number: u16 = text.parse().ok().filter(|_| text.len() <= 4)?;
        let (hour, minute) = (u8::try_from(number / 100).ok()?, u8::try_from(number % 100).ok()?);
        let has_hours_unit = matches!(self.text(1), "hours" | "hrs" | "h" | "hour");
        let announced = matches!(self.kind(1), Kind::Pm | Kind::OClock)
            || (self.kind(1) == Kind::Am && !self.am_is_german(1))
            || (has_hours_unit && text.starts_with('0'));
        let is_amount = match self.kind(1) {
            Kind::Number(_) => true,
            Kind::Unit(_) => !has_hours_unit,
            Kind::Unknown => text.len() == 3 && !self.at_end(1),
            _ => false,
        };
        if hour > 23 || minute > 59 || is_amount || !(led || announced) {
            return None;
        }
        self.at += if has_hours_unit { 2 } else { 1 };
        let certain = hour > 12 || text.starts_with('0') || has_hours_unit;
        Some(self.with_suffix(ClockTime { certain, ..ClockTime::uncertain(hour, minute) }))
    }

    /// Returns the minute in "nine thirty" and "9 30", `ahead` of the position.
    fn spoken_minute(&self, ahead: usize) -> Option<u8> {
        let Kind::Number(minute @ 1..=59) = self.kind(ahead) else { return None };
        let in_words = |text: &str| text.chars().all(|letter| letter.is_alphabetic() || letter == '-');
        let (hour_text, minute_text) = (self.text(ahead - 1), self.text(ahead));
        let fits = if in_words(hour_text) {
            in_words(minute_text) && minute >= 10
        } else {
            hour_text.len() <= 2 && minute_text.len() == 2 && !in_words(minute_text)
        };
        let next = self.kind(ahead + 1);
        let is_amount = matches!(next, Kind::Unit(_) | Kind::Times | Kind::OClock)
            || (next == Kind::Unknown && !in_words(hour_text));
        u8::try_from(minute).ok().filter(|_| fits && !is_amount)
    }

    fn hour(&mut self) -> Option<u8> {
        let Kind::Number(number) = self.kind(0) else { return None };
        let hour = u8::try_from(number).ok().filter(|hour| *hour <= 24)?;
        self.at += 1;
        Some(hour % 24)
    }

    /// Parses what may follow a time: am, pm, o'clock, German minutes, a part of the day.
    fn with_suffix(&mut self, mut time: ClockTime) -> ClockTime {
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
            self.draft.limited |= part.excludes(time.hour);
        }
        time
    }

    fn tokens_say_uhr(&self) -> bool {
        self.previous() == Some(Kind::OClock)
    }

    /// "um 8 am Montag": "am" before a German day does not mean the morning.
    fn am_is_german(&self, ahead: usize) -> bool {
        let next = self.text(ahead + 1);
        next.ends_with("tag")
            || next.ends_with("abend")
            || next.ends_with("wochenende")
            || next == "mittwoch"
            || next == "morgen"
            || next.ends_with('.')
    }

    /// Parses "in the morning", "at night", "abends", "am Abend", "in der Nacht" as a qualifier of what precedes.
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

    /// Parses a part of the day on its own.
    pub(super) fn part_of_day(&mut self) -> bool {
        if ["good", "guten", "gute", "guter"].iter().any(|word| self.before_is(word)) {
            return false;
        }
        let led = self.take_any(&[Kind::In, Kind::At, Kind::Am]);
        self.take(Kind::The);
        match self.kind(0) {
            Kind::Part { part, repeats } => {
                self.add_part(part);
                self.draft.part_repeats |= repeats;
            }
            Kind::MorgenWord if led => self.add_part(Part::Morning),
            // "at the end of the day".
            Kind::End if self.text(1) == "of" => {
                self.at += 2;
                self.take(Kind::The);
                self.add_part(Part::Evening);
                return self.unit() == Some(Unit::Day);
            }
            _ => return false,
        }
        self.at += 1;
        // "mornings at 7" repeats daily unless a day is named.
        true
    }

    /// Adds a part of the day, or another one: "every morning and evening".
    pub(super) fn add_part(&mut self, part: Part) {
        match self.draft.part {
            Some(known) if known != part => {
                self.draft.impossible |= !self.draft.times.is_empty();
                self.draft.more_parts.push(part);
            }
            _ => self.draft.part = Some(part),
        }
    }

    fn before_is(&self, word: &str) -> bool {
        self.previous().is_some() && self.text_before() == word
    }
}

/// Applies the half of the day to all times: "at 7 and 9pm".
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
