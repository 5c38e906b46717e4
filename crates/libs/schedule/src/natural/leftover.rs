//! Words that belong to no phrase. Words about time are never ignored: they limit the confidence or invalidate the
//! schedule.

use super::grammar::{Grammar, Mark};
use super::token::{Kind, Unit};

/// Effect of an unparsed word on the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Nothing,
    Limits,
    Refuses,
}

/// Words after a number that are not counted by it.
const NO_NOUNS: [&str; 6] = ["with", "plus", "minus", "mit", "zuzüglich", "x"];

/// Verbs after which "if" starts the content of the task.
const ASKS: [&str; 13] =
    ["tell", "check", "know", "see", "look", "ask", "notify", "alert", "warn", "verify", "test", "ping", "message"];

/// Events that can also be the content of a task at the beginning of a sentence.
const MEALS: [&str; 9] =
    ["breakfast", "dinner", "frühstück", "mittagessen", "abendessen", "birthday", "geburtstag", "spring", "holiday"];

impl Grammar<'_> {
    pub(super) fn apply_leftover_words(&mut self) {
        for index in 0..self.tokens.len() {
            if self.marks[index] != Mark::Unread {
                continue;
            }
            match self.effect(index) {
                Effect::Nothing => {}
                Effect::Limits => self.draft.limited = true,
                Effect::Refuses => self.draft.impossible = true,
            }
        }
    }

    fn kind_at(&self, index: Option<usize>) -> Kind {
        index.and_then(|at| self.tokens.get(at)).map_or(Kind::Filler, |token| token.kind)
    }

    fn mark_at(&self, index: Option<usize>) -> Mark {
        index.and_then(|at| self.marks.get(at)).copied().unwrap_or(Mark::Unread)
    }

    /// Returns the nearest earlier position that is not skipped.
    fn before(&self, index: usize, passed: &[Kind]) -> Option<usize> {
        (0..index).rev().find(|at| self.marks[*at] != Mark::Unread || !passed.contains(&self.tokens[*at].kind))
    }

    fn effect(&self, index: usize) -> Effect {
        let limits = |limits: bool| if limits { Effect::Limits } else { Effect::Nothing };
        let text = self.text_at(index);
        let previous = index.checked_sub(1);
        let next = self.kind_at(Some(index + 1));
        let after_phrase =
            self.mark_at(self.before(index, &[Kind::Comma, Kind::And, Kind::The, Kind::On, Kind::Am])) != Mark::Unread;
        // "the Monday meeting", "my 9:30 train".
        let is_adjective = next == Kind::Unknown
            && self.mark_at(previous) == Mark::Unread
            && !matches!(self.kind_at(previous), Kind::At | Kind::On | Kind::Am | Kind::Every);
        match self.tokens[index].kind {
            Kind::Limit | Kind::Vague | Kind::ZoneName | Kind::Between | Kind::Until => Effect::Limits,
            Kind::BeyondWords => Effect::Refuses,
            Kind::Except => limits(text != "but"),
            Kind::Event => limits(self.is_when(index)),
            Kind::ZoneWord => limits(
                self.mark_at(previous) == Mark::Time
                    || matches!(self.kind_at(previous), Kind::Number(_))
                    || matches!(self.text_at(index + 1), "time" | "zeit"),
            ),
            Kind::Weekday { short: true, .. } => limits(after_phrase && !is_adjective),
            Kind::Weekday { .. }
            | Kind::Workday { .. }
            | Kind::Weekend { .. }
            | Kind::Clock(..)
            | Kind::Date { .. }
            | Kind::MinutePast(_)
            | Kind::Midnight
            | Kind::Today
            | Kind::Tomorrow
            | Kind::Tonight
            | Kind::Overmorrow => limits(!is_adjective),
            Kind::Month(_) => limits(!is_adjective && (after_phrase || !matches!(text, "may" | "march" | "mar"))),
            Kind::Count(count) => limits(count > 1),
            Kind::Other => {
                let is_day = matches!(
                    next,
                    Kind::Unit(_) | Kind::Weekday { .. } | Kind::Workday { .. } | Kind::Weekend { .. } | Kind::Month(_)
                );
                if is_day { Effect::Refuses } else { Effect::Nothing }
            }
            Kind::OClock | Kind::Pm if self.mark_at(previous) == Mark::Time => Effect::Limits,
            // "25 o'clock".
            Kind::OClock | Kind::Pm => {
                let is_number = matches!(self.kind_at(previous), Kind::Number(_))
                    || previous.is_some_and(|at| self.text_at(at).starts_with(|letter: char| letter.is_ascii_digit()));
                if is_number && self.mark_at(previous) == Mark::Unread { Effect::Refuses } else { Effect::Nothing }
            }
            Kind::Past | Kind::Before => {
                let ends_with_it = self.mark_at(previous) == Mark::Time && index + 1 == self.tokens.len();
                // "every 15 minutes past the hour" is one minute of the hour, or a quarter of it.
                let of_hour = (next, self.kind_at(Some(index + 2))) == (Kind::The, Kind::Unit(Unit::Hour));
                limits(ends_with_it || of_hour || self.is_relative(index))
            }
            // "jeden Tag um die gleiche Zeit".
            Kind::At if text == "um" && next == Kind::The && self.mark_at(previous) != Mark::Unread => Effect::Refuses,
            // "on Labor Day".
            Kind::Unit(Unit::Day) => limits(self.kind_at(previous) == Kind::Unknown && self.is_when(index)),
            // "on the last day" does not say of what.
            Kind::Last if next == Kind::Unit(Unit::Day) => {
                limits(matches!(self.kind_at(self.before(index, &[Kind::The])), Kind::On | Kind::Am))
            }
            Kind::Ordinal(_) if self.is_unknown_day(index) => Effect::Limits,
            Kind::End | Kind::Beginning => limits(matches!(next, Kind::Of | Kind::Unit(_))),
            Kind::This => limits(
                (!self.draft.repeats || self.mark_at(previous) != Mark::Unread)
                    && matches!(next, Kind::Unit(Unit::Week | Unit::Month | Unit::Year)),
            ),
            Kind::Ordinal(_) | Kind::SecondWord
                if matches!(next, Kind::Quarter | Kind::Unit(Unit::Week | Unit::Month | Unit::Quarter)) =>
            {
                Effect::Limits
            }
            Kind::Ordinal(_) if matches!(next, Kind::To) && self.kind_at(Some(index + 2)) == Kind::Last => {
                Effect::Refuses
            }
            Kind::HalfTo => limits(matches!(next, Kind::Number(_)) || after_phrase),
            Kind::Number(_)
            | Kind::Decimal(_)
            | Kind::Dotted(..)
            | Kind::Ordinal(_)
            | Kind::Half
            | Kind::Quarter
            | Kind::OneAndAHalf => self.effect_of_number(index),
            // "every hour x3".
            Kind::Unknown if text.strip_prefix('x').is_some_and(|count| count.parse::<u32>().is_ok()) => Effect::Limits,
            Kind::Unknown if text.contains(|letter: char| letter.is_ascii_digit()) => self.effect_of_number(index),
            // "am Muttertag".
            Kind::Unknown if text.len() > 5 && ["tag", "day"].iter().any(|day| text.ends_with(day)) => {
                limits(self.is_when(index))
            }
            // "every day at 9 if it rains" is a condition; "check if it rains" is the task.
            Kind::Unknown if text == "if" => {
                limits(!self.tokens.iter().any(|token| ASKS.contains(&token.text.as_str())))
            }
            Kind::Unknown => limits(["gmt+", "gmt-", "utc+", "utc-"].iter().any(|zone| text.starts_with(zone))),
            _ => Effect::Nothing,
        }
    }

    /// A number belongs to the task only if it counts or names something there: "send 5 jokes", "older than 7 days".
    /// Any other number may specify a time.
    fn effect_of_number(&self, index: usize) -> Effect {
        let text = self.text_at(index);
        let before = self.before(index, &[Kind::Comma, Kind::And, Kind::The]);
        let follows_phrase = self.mark_at(before) != Mark::Unread;
        let directly = index.checked_sub(1);
        let is_led = |at: Option<usize>| {
            self.mark_at(at) == Mark::Unread
                && matches!(
                    self.kind_at(at),
                    Kind::At | Kind::On | Kind::By | Kind::From | Kind::Between | Kind::Until | Kind::Am
                )
        };
        let at = is_led(before) && self.kind_at(before) == Kind::At;
        // "at 25:00" is not a time.
        if (at || follows_phrase) && text.contains(':') && text.starts_with(|letter: char| letter.is_ascii_digit()) {
            return Effect::Refuses;
        }
        let is_noun = |at: usize| {
            self.tokens
                .get(at)
                .is_some_and(|word| word.kind == Kind::Unknown && !NO_NOUNS.contains(&word.text.as_str()))
        };
        let after_unit = matches!(self.kind_at(directly), Kind::Unit(_)) && self.mark_at(directly) == Mark::Unread;
        let counts = is_noun(index + 1) && !after_unit;
        // "every hour at tick 15" may specify a time, "look at page 15" does not.
        let is_preposition = is_led(index.checked_sub(2));
        let beside_phrase = match index.checked_sub(if is_preposition { 3 } else { 2 }) {
            Some(lead) => self.marks[lead] != Mark::Unread,
            None => is_preposition,
        };
        // "the past 7 days".
        let is_span = |at: usize| self.tokens[at].kind == Kind::Past && self.kind_at(at.checked_sub(1)) == Kind::The;
        let names = self.mark_at(directly) == Mark::Unread
            && directly.is_some_and(|at| is_noun(at) || self.tokens[at].kind == Kind::Last || is_span(at))
            && !beside_phrase;
        let is_whole =
            matches!(self.tokens[index].kind, Kind::Half | Kind::Quarter | Kind::OneAndAHalf | Kind::Unknown);
        let is_of_time = (is_led(before) || follows_phrase) && !counts;
        let may_say_when = if is_whole { is_of_time } else { !(counts || names) };
        if at || self.mark_at(directly) == Mark::Time || may_say_when { Effect::Limits } else { Effect::Nothing }
    }

    /// "am zweiten Advent", if no other part specifies the day.
    fn is_unknown_day(&self, index: usize) -> bool {
        let lead = self.kind_at(self.before(index, &[Kind::The]));
        matches!(lead, Kind::On | Kind::Am) && !self.draft.has_day() && !self.draft.repeats
    }

    /// "at sunset", "on my birthday", "an Feiertagen".
    fn is_when(&self, index: usize) -> bool {
        for at in (index.saturating_sub(3)..index).rev() {
            if self.marks[at] != Mark::Unread {
                return false;
            }
            let text = self.text_at(at);
            let leads = matches!(
                self.tokens[at].kind,
                Kind::At
                    | Kind::On
                    | Kind::By
                    | Kind::Before
                    | Kind::Past
                    | Kind::Except
                    | Kind::Every
                    | Kind::Am
                    | Kind::In
            ) || matches!(text, "zu" | "zum" | "an" | "bei" | "beim");
            if leads {
                return true;
            }
            if !matches!(self.tokens[at].kind, Kind::The | Kind::A | Kind::Filler | Kind::Unknown) {
                return false;
            }
        }
        index == 0 && !MEALS.contains(&self.text_at(index))
    }

    /// "after I wake up", "before noon", "nach dem Essen"; combined with a time it belongs to the task, as in "look
    /// after".
    fn is_relative(&self, index: usize) -> bool {
        let before_phrase = self.mark_at(Some(index + 1)) != Mark::Unread;
        let at_edge = index == 0 || self.mark_at(index.checked_sub(1)) != Mark::Unread;
        let within_day = self.draft.interval_seconds.is_some()
            || matches!(self.draft.interval, Some((_, Unit::Second | Unit::Minute | Unit::Hour)));
        let german = matches!(self.text_at(index), "nach" | "vor");
        let names_something = !german || matches!(self.kind_at(Some(index + 1)), Kind::The | Kind::Filler | Kind::A);
        before_phrase || (at_edge && names_something && self.draft.times.is_empty() && !within_day)
    }
}
