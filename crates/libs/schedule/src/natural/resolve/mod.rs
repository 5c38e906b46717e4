//! Resolves a draft to a schedule, or to nothing if it cannot be expressed: `days` handles recurrences by days, weeks,
//! months and years, `within_day` those within a day, `once` single dates.

mod days;
mod fields;
mod once;
mod within_day;

use agentd_base::Timestamp;

use super::draft::{Draft, Offset};
use super::token::Unit;
use crate::schedule::Schedule;
use crate::spec::ScheduleSpec;
use crate::zone::Zone;
pub(super) use fields::APPROXIMATION_DOUBT;
use fields::{Doubt, Resolver};

/// Returns the schedule and the doubt due to assumptions.
pub(super) fn resolve(draft: &Draft, now: Timestamp, zone: &Zone) -> Option<(Schedule, Doubt)> {
    if draft.impossible || draft.is_empty() {
        return None;
    }
    let zone = draft.zone.as_ref().unwrap_or(zone);
    let mut resolver = Resolver { draft, now, zone, doubt: Doubt::default() };
    let spec = resolver.spec()?;
    let schedule = spec.check(zone).ok()?;
    // A date in the past is not a schedule.
    schedule.next_after(now, now)?;
    Some((schedule, resolver.doubt))
}

impl Resolver<'_> {
    fn spec(&mut self) -> Option<ScheduleSpec> {
        let draft = self.draft;
        let names_minutes = draft.each_hour || !draft.minutes.is_empty();
        if let Some(offset) = draft.offset {
            if names_minutes || draft.window.is_some() || !draft.months.is_empty() {
                return None;
            }
            // "Monday in two weeks".
            if let (Offset::Days(days), false, true) = (offset, draft.repeats, draft.names_one_day())
                && draft.relative_day != Some(0)
            {
                return if days % 7 == 0 { self.once(days) } else { None };
            }
            return if draft.repeats || (draft.has_day() && draft.relative_day != Some(0)) {
                None
            } else {
                self.after(offset)
            };
        }
        // Two recurring durations would require ignoring one of them.
        let once_or_daily = matches!(draft.interval, None | Some((1, _)));
        if draft.further_days > 0 && draft.repeats
            || (draft.count_per.is_some() || draft.interval_seconds.is_some()) && !once_or_daily
            || draft.count_per.is_some() && draft.interval_seconds.is_some()
        {
            return None;
        }
        if names_minutes {
            return self.within_days(i64::from(self.step_hours()?) * 3600);
        }
        if let Some((count, unit)) = draft.count_per {
            return self.counted(count, unit);
        }
        if let Some(seconds) = draft.interval_seconds {
            return self.within_days(seconds);
        }
        // "daily" as an adjective counts only together with a time, if no other part recurs.
        let adjective = draft.adjective.filter(|_| !draft.repeats && (!draft.times.is_empty() || draft.part_repeats));
        match draft.interval.or(adjective) {
            Some((count, Unit::Second)) => self.within_days(i64::from(count)),
            Some((count, Unit::Minute)) => self.within_days(i64::from(count) * 60),
            // "every 24h at 9am".
            Some((count, Unit::Hour)) if count > 0 && count % 24 == 0 && !draft.times.is_empty() => {
                self.daily(count / 24)
            }
            Some((count, Unit::Hour)) => self.within_days(i64::from(count) * 3600),
            Some((count, Unit::Day)) => self.daily(count),
            Some((count, Unit::Week)) => self.weekly(count),
            Some((count, Unit::Month)) => self.monthly(count),
            Some((count, Unit::Quarter)) => self.monthly(count.saturating_mul(3)),
            Some((count, Unit::Year)) => self.yearly(count),
            None if draft.window.is_some() => None,
            None if draft.repeats || (draft.part_repeats && draft.relative_day.is_none()) => self.repeated(),
            None if draft.always => {
                if draft.has_day() || !draft.times.is_empty() || draft.part.is_some() {
                    self.repeated()
                } else {
                    None
                }
            }
            None => self.once(draft.further_days),
        }
    }
}
