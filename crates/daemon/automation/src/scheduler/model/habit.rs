//! Activity by hour of the week, and schedule suggestions derived from it. Pure functions of the activity counts.

use std::collections::{BTreeMap, BTreeSet};

use agentd_base::Timestamp;
use agentd_schedule::{Language, ScheduleSpec, Zone};
use jiff::ToSpan;
use jiff::civil::Date;

use crate::scheduler::activity::Activity;

/// Number of days of activity that suggestions are based on.
pub(crate) const HABIT_DAYS: i64 = 28;
/// Number of days of activity in the heatmap.
pub(crate) const HEATMAP_DAYS: i64 = 90;
/// Minimum share of days with activity in an hour for it to be a habit.
const MIN_HABIT_SHARE: f64 = 0.5;
/// Minimum number of days with activity in an hour for it to be a habit.
const MIN_HABIT_DATES: usize = 3;
/// Minimum share of days with activity on each single weekday of a habit of several weekdays.
const MIN_WEEKDAY_SHARE: f64 = 0.25;
/// Maximum number of suggestions per group of weekdays.
const MAX_PER_GROUP: usize = 2;
/// Minimum length of a quiet period, in hours.
const MIN_QUIET_HOURS: u8 = 4;
/// Minimum number of active days for a quiet period to be suggested.
const MIN_ACTIVE_DATES: usize = 5;

const WEEKDAY_NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const WEEKDAYS_ENGLISH: [&str; 7] =
    ["Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays"];
const WEEKDAYS_GERMAN: [&str; 7] =
    ["Montage", "Dienstage", "Mittwoche", "Donnerstage", "Freitage", "Samstage", "Sonntage"];

/// Counts by hour (first index) and weekday, Monday first (second index).
pub type HourOfWeek = [[u64; 7]; 24];

/// A suggested schedule with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// Time of day as `HH:MM` in the profile's zone.
    pub time: String,
    /// Lowercase English weekday names, Monday first.
    pub days: Vec<&'static str>,
    pub reason: String,
    pub schedule: ScheduleSpec,
}

/// Counts activity by hour and weekday in `zone`.
pub(crate) fn hour_of_week(activity: &[Activity], zone: &Zone) -> HourOfWeek {
    let mut counts = [[0; 7]; 24];
    for item in activity {
        let (hour, weekday, _) = local_hour(item.at, zone);
        counts[hour][weekday] += item.count;
    }
    counts
}

/// Returns the hour, the weekday (0 is Monday) and the date of a time in `zone`.
fn local_hour(at: Timestamp, zone: &Zone) -> (usize, usize, Date) {
    let wall = zone.wall(at);
    let weekday = usize::from(wall.weekday().to_monday_zero_offset().unsigned_abs());
    (usize::from(wall.hour().unsigned_abs()) % 24, weekday % 7, wall.date())
}

/// Dates with activity, by weekday and hour.
struct Habits {
    dates: BTreeMap<(usize, usize), BTreeSet<Date>>,
    active: BTreeSet<Date>,
    /// Number of occurrences of each weekday since the first activity.
    possible: [usize; 7],
}

impl Habits {
    fn of(activity: &[Activity], now: Timestamp, zone: &Zone) -> Self {
        let today = zone.wall(now).date();
        let start = today.saturating_sub((HABIT_DAYS - 1).days());
        let mut dates: BTreeMap<(usize, usize), BTreeSet<Date>> = BTreeMap::new();
        let mut active = BTreeSet::new();
        for item in activity.iter().filter(|item| item.count > 0) {
            let (hour, weekday, date) = local_hour(item.at, zone);
            if date >= start && date <= today {
                dates.entry((weekday, hour)).or_default().insert(date);
                active.insert(date);
            }
        }
        let mut possible = [0; 7];
        if let Some(first) = active.first() {
            for date in first.series(1.day()).take_while(|date| *date <= today) {
                possible[usize::from(date.weekday().to_monday_zero_offset().unsigned_abs()) % 7] += 1;
            }
        }
        Self { dates, active, possible }
    }

    /// Returns the number of dates of these weekdays with activity in the hour, and the number of all such dates.
    fn count_dates(&self, weekdays: &[usize], hour: usize) -> (usize, usize) {
        let seen = weekdays.iter().filter_map(|weekday| self.dates.get(&(*weekday, hour))).map(BTreeSet::len).sum();
        (seen, weekdays.iter().map(|weekday| self.possible[*weekday]).sum())
    }

    /// Returns the habitual hours on these weekdays, most frequent first. Adjacent hours are merged.
    fn habitual_hours(&self, weekdays: &[usize]) -> Vec<(usize, usize, usize)> {
        let mut found: Vec<(usize, usize, usize)> = (0..24)
            .map(|hour| (hour, self.count_dates(weekdays, hour)))
            .filter(|(hour, _)| {
                weekdays.iter().all(|weekday| {
                    let (seen, possible) = self.count_dates(&[*weekday], *hour);
                    share(seen, possible) >= MIN_WEEKDAY_SHARE
                })
            })
            .filter(|(_, (seen, possible))| *seen >= MIN_HABIT_DATES && share(*seen, *possible) >= MIN_HABIT_SHARE)
            .map(|(hour, (seen, possible))| (hour, seen, possible))
            .collect();
        found.sort_by_key(|(hour, seen, _)| (std::cmp::Reverse(*seen), *hour));
        let mut separate: Vec<(usize, usize, usize)> = Vec::new();
        for candidate in found {
            if separate.len() < MAX_PER_GROUP && separate.iter().all(|(hour, ..)| hour.abs_diff(candidate.0) > 1) {
                separate.push(candidate);
            }
        }
        separate
    }

    /// Returns the first hour and the length of the longest daily period without activity.
    fn longest_quiet_period(&self) -> Option<(u8, u8)> {
        if self.active.len() < MIN_ACTIVE_DATES {
            return None;
        }
        let is_quiet = |hour: u8| self.count_dates(&[0, 1, 2, 3, 4, 5, 6], usize::from(hour % 24)).0 == 0;
        let length = |start: u8| (0..24).take_while(|more| is_quiet(start + more)).count() as u8;
        let longest =
            (0..24).map(|start| (length(start), start)).max_by_key(|(length, start)| (*length, 24 - start))?;
        (longest.0 >= MIN_QUIET_HOURS && longest.0 < 24).then_some((longest.1, longest.0))
    }
}

#[allow(clippy::cast_precision_loss, reason = "small counts")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns suggestions for habitual hours and for the longest quiet period. Empty without sufficient activity.
pub(crate) fn suggestions(activity: &[Activity], now: Timestamp, zone: &Zone, language: Language) -> Vec<Suggestion> {
    let habits = Habits::of(activity, now, zone);
    let mut found = Vec::new();
    let mut covered: BTreeSet<(usize, usize)> = BTreeSet::new();
    let groups: [&[usize]; 9] = [&[0, 1, 2, 3, 4], &[5, 6], &[0], &[1], &[2], &[3], &[4], &[5], &[6]];
    for weekdays in groups {
        for (hour, seen, possible) in habits.habitual_hours(weekdays) {
            let is_covered = weekdays.iter().all(|weekday| (0..=2).any(|by| covered.contains(&(*weekday, hour + by))));
            if is_covered {
                continue;
            }
            // Marks the middle of the adjacent hours, so that neighbouring hours are not suggested again.
            covered.extend(weekdays.iter().map(|weekday| (*weekday, hour + 1)));
            let reason = habit_reason(weekdays, hour, seen, possible, language);
            found.push(suggestion(hour as u8, weekdays, reason, zone));
        }
    }
    if let Some((start, length)) = habits.longest_quiet_period() {
        let middle = (start + length / 2) % 24;
        let reason = quiet_reason(start, (start + length) % 24, language);
        found.push(suggestion(middle, &[0, 1, 2, 3, 4, 5, 6], reason, zone));
    }
    found
}

fn suggestion(hour: u8, weekdays: &[usize], reason: String, zone: &Zone) -> Suggestion {
    let numbers = match weekdays {
        [0, 1, 2, 3, 4] => "1-5".to_owned(),
        [0, 1, 2, 3, 4, 5, 6] => "*".to_owned(),
        some => some.iter().map(|weekday| ((weekday + 1) % 7).to_string()).collect::<Vec<_>>().join(","),
    };
    Suggestion {
        time: format!("{hour:02}:00"),
        days: weekdays.iter().map(|weekday| WEEKDAY_NAMES[*weekday]).collect(),
        reason,
        schedule: ScheduleSpec::cron(format!("0 {hour} * * {numbers}"), zone.name()),
    }
}

fn habit_reason(weekdays: &[usize], hour: usize, seen: usize, possible: usize, language: Language) -> String {
    let next = (hour + 1) % 24;
    match language {
        Language::English => {
            let days = match weekdays {
                [one] => WEEKDAYS_ENGLISH[*one],
                [5, 6] => "weekend days",
                _ => "weekdays",
            };
            format!("You were active between {hour:02}:00 and {next:02}:00 on {seen} of the last {possible} {days}")
        }
        Language::German => {
            let days = match weekdays {
                [one] => WEEKDAYS_GERMAN[*one],
                [5, 6] => "Tage am Wochenende",
                _ => "Werktage",
            };
            format!(
                "Zwischen {hour:02}:00 und {next:02}:00 Uhr waren Sie an {seen} der letzten {possible} {days} aktiv"
            )
        }
    }
}

fn quiet_reason(start: u8, end: u8, language: Language) -> String {
    match language {
        Language::English => format!(
            "No activity between {start:02}:00 and {end:02}:00 in the last {HABIT_DAYS} days: a good time for \
             long tasks"
        ),
        Language::German => format!(
            "Zwischen {start:02}:00 und {end:02}:00 Uhr gab es in den letzten {HABIT_DAYS} Tagen keine Aktivität: eine \
             gute Zeit für lange Aufgaben"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn berlin() -> Zone {
        Zone::parse("Europe/Berlin").unwrap()
    }

    /// A Friday evening.
    fn now() -> Timestamp {
        Timestamp::parse("2026-03-27T20:00:00Z").unwrap()
    }

    /// Returns activity at a Berlin time, before the clock change, on the given weekdays (0 is Monday) of the last four
    /// weeks.
    fn at(hour: i8, minute: i8, wanted: &[usize]) -> Vec<Activity> {
        let days = (0..28u64).map(|days| berlin().wall(now() - Duration::from_secs(days * 86_400)).date());
        days.filter(|date| wanted.contains(&usize::from(date.weekday().to_monday_zero_offset().unsigned_abs())))
            .filter_map(|date| berlin().instant(date.at(hour, minute, 0, 0)))
            .filter(|at| *at <= now())
            .map(|at| Activity { at, count: 2 })
            .collect()
    }

    #[test]
    fn heatmap_uses_the_profile_zone_across_clock_changes() {
        let at = |text: &str| Activity { at: Timestamp::parse(text).unwrap(), count: 3 };
        // The clocks changed on Sunday the 29th: 08:00 UTC is nine on Friday and ten on Monday.
        let counts = hour_of_week(&[at("2026-03-27T08:00:00Z"), at("2026-03-30T08:00:00Z")], &berlin());
        assert_eq!((counts[9][4], counts[10][0]), (3, 3));
        assert_eq!(counts.iter().flatten().sum::<u64>(), 6);
        // Half-hour zones have their own hours.
        let counts = hour_of_week(&[at("2026-03-27T08:15:00Z")], &Zone::parse("Asia/Kolkata").unwrap());
        assert_eq!(counts[13][4], 3);
    }

    #[test]
    fn weekday_habit_is_one_suggestion() {
        let found = suggestions(&at(9, 15, &[0, 1, 2, 3, 4]), now(), &berlin(), Language::English);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].time, "09:00");
        assert_eq!(found[0].days, ["monday", "tuesday", "wednesday", "thursday", "friday"]);
        assert_eq!(found[0].reason, "You were active between 09:00 and 10:00 on 20 of the last 20 weekdays");
        assert_eq!(found[0].schedule, ScheduleSpec::cron("0 9 * * 1-5", "Europe/Berlin"));
        // From ten in the morning to nine in the morning, 23 hours: the middle of it.
        assert!(found[1].reason.starts_with("No activity between 10:00 and 09:00"), "{}", found[1].reason);
        assert_eq!(found[1].schedule.expression.as_deref(), Some("0 21 * * *"));
    }

    #[test]
    fn single_weekday_habit_names_the_weekday() {
        let found = suggestions(&at(20, 0, &[6]), now(), &berlin(), Language::German);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].time.as_str(), found[0].days.as_slice()), ("20:00", ["sunday"].as_slice()));
        assert_eq!(found[0].reason, "Zwischen 20:00 und 21:00 Uhr waren Sie an 4 der letzten 4 Sonntage aktiv");
        assert_eq!(found[0].schedule.expression.as_deref(), Some("0 20 * * 0"));
    }

    #[test]
    fn insufficient_activity_yields_no_suggestions() {
        assert_eq!(suggestions(&[], now(), &berlin(), Language::English), []);
        let twice = &at(9, 0, &[0])[..2];
        assert_eq!(suggestions(twice, now(), &berlin(), Language::English), []);
        // Old activity is ignored.
        let old: Vec<Activity> = at(9, 0, &[0, 1, 2, 3, 4])
            .into_iter()
            .map(|item| Activity { at: item.at - Duration::from_secs(60 * 86_400), ..item })
            .collect();
        assert_eq!(suggestions(&old, now(), &berlin(), Language::English), []);
    }
}
