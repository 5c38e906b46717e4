//! Clock changes of many zones over three years, checked against the daylight saving rule.

use agentd_base::Timestamp;
use agentd_schedule::{Schedule, ScheduleSpec, Zone};
use jiff::SignedDuration;

const ZONES: [&str; 24] = [
    "Europe/Berlin",
    "Europe/London",
    "Europe/Lisbon",
    "Europe/Athens",
    "Europe/Dublin",
    "Europe/Chisinau",
    "America/New_York",
    "America/Chicago",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "America/Asuncion",
    "America/Nuuk",
    "America/Scoresbysund",
    "Atlantic/Azores",
    "Asia/Jerusalem",
    "Asia/Beirut",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
    "Antarctica/Troll",
];

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn cron(expression: &str, zone: &str) -> Schedule {
    ScheduleSpec::cron(expression, zone).check(&Zone::UTC).unwrap()
}

/// Returns the clock changes of a zone: time, and number of minutes the clocks are moved forward.
fn changes(name: &str) -> Vec<(Timestamp, i64)> {
    let zone = jiff::tz::TimeZoneDatabase::bundled().get(name).unwrap();
    let (start, end) = (at("2024-01-01T00:00:00Z").to_jiff(), at("2027-01-01T00:00:00Z").to_jiff());
    let mut before = zone.to_offset(start);
    let mut found = Vec::new();
    for transition in zone.following(start).take_while(|transition| transition.timestamp() < end) {
        let moved = i64::from(transition.offset().seconds() - before.seconds()) / 60;
        before = transition.offset();
        if moved != 0 {
            found.push((Timestamp::from(transition.timestamp()), moved));
        }
    }
    found
}

fn moved(instant: Timestamp, minutes: i64) -> Timestamp {
    instant.to_jiff().checked_add(SignedDuration::from_mins(minutes)).unwrap().into()
}

fn slots(schedule: &Schedule, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    schedule.occurrences_between(from, until, from, 10_000)
}

#[test]
fn fixed_time_is_due_at_the_end_of_a_gap_and_once_in_a_fold() {
    let mut seen = 0;
    for name in ZONES {
        let zone = Zone::parse(name).unwrap();
        for (change, minutes) in changes(name) {
            seen += 1;
            // A local time in the middle of the gap or of the fold.
            let last_before = zone.wall(moved(change, -1)).checked_add(SignedDuration::from_mins(1)).unwrap();
            let middle = last_before.checked_add(SignedDuration::from_mins(minutes / 2)).unwrap();
            let schedule = cron(&format!("{} {} * * *", middle.minute(), middle.hour()), name);
            let around = slots(&schedule, moved(change, -36 * 60), moved(change, 36 * 60));
            assert_eq!(around.len(), 3, "{name} at {change}: {around:?}");
            let expected = if minutes > 0 { change } else { moved(change, minutes / 2) };
            assert!(around.contains(&expected), "{name} at {change}: {around:?}, not {expected}");
        }
    }
    assert!(seen > 100, "only {seen} changes were seen");
}

#[test]
fn pattern_skips_the_gap_and_is_due_on_both_passes() {
    for name in ZONES {
        let zone = Zone::parse(name).unwrap();
        for (change, minutes) in changes(name) {
            let (from, until) = (moved(change, -180), moved(change, 180));
            let quarters = slots(&cron("*/15 * * * *", name), from, until);
            assert_eq!(quarters.len(), 24, "{name} at {change}: every 15 minutes goes on as if nothing was");
            assert!(quarters.windows(2).all(|pair| pair[1].since(pair[0]).as_secs() == 900));
            // The hour of the change: an hourly slot occurs twice in a fold.
            let wall = zone.wall(moved(change, -1)).checked_add(SignedDuration::from_mins(1 + minutes / 2)).unwrap();
            let pattern = cron(&format!("{} * * * *", wall.minute()), name);
            let doubled = slots(&pattern, from, until).iter().filter(|slot| zone.wall(**slot) == wall).count();
            assert_eq!(doubled, if minutes > 0 { 0 } else { 2 }, "{name} at {change}: {wall}");
        }
    }
}

#[test]
fn slots_of_three_years_have_the_requested_local_time() {
    for name in ZONES {
        let zone = Zone::parse(name).unwrap();
        let (start, end) = (at("2024-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
        let schedule = cron("30 2 * * *", name);
        let all: Vec<Timestamp> = schedule.occurrences(start, start).take_while(|slot| *slot < end).collect();
        assert!((1095..=1097).contains(&all.len()), "{name}: {}", all.len());
        let moved = all.iter().filter(|slot| zone.wall(**slot).time() != jiff::civil::time(2, 30, 0, 0)).count();
        assert!(moved <= 3, "{name}: {moved} days on which 02:30 was moved");
    }
}
