//! Cron compared with two independent implementations and with brute force, and invalid input.

use agentd_base::Timestamp;
use agentd_schedule::{CronExpression, Schedule, ScheduleSpec, Zone};
use proptest::prelude::*;

const CONFORMANCE: &str = include_str!("../data/conformance.tsv");
const REFUSED: &str = include_str!("../data/refused.tsv");
const MINUTE: i64 = 60_000_000;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn zone(name: &str) -> Zone {
    Zone::parse(name).unwrap()
}

fn cron(expression: &str, zone: &str) -> Schedule {
    ScheduleSpec::cron(expression, zone).check(&Zone::UTC).unwrap()
}

/// Returns the rows of a table, split into columns.
fn rows(table: &str, columns: usize) -> Vec<Vec<&str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == columns), "a row with other than {columns} columns");
    rows
}

#[test]
fn slots_match_independent_implementations() {
    let rows = rows(CONFORMANCE, 5);
    assert!(rows.len() >= 200);
    let alone = rows.iter().filter(|row| row[4] == "rule alone").count();
    assert!(alone * 20 < rows.len(), "{alone} cases without an implementation that agrees");
    let mut wrong = Vec::new();
    for row in &rows {
        let (zone, expression, after, expected) = (row[0], row[1], at(row[2]), row[3]);
        let schedule = cron(expression, zone);
        let expected: Vec<Timestamp> = expected.split(' ').map(at).collect();
        let found: Vec<Timestamp> = schedule.occurrences(after, after).take(expected.len()).collect();
        if found != expected {
            wrong.push(format!("{expression} in {zone} after {after}: {found:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), rows.len());
}

#[test]
fn invalid_expression_is_rejected_with_field_and_reason() {
    let rows = rows(REFUSED, 3);
    assert!(rows.len() >= 80);
    let mut wrong = Vec::new();
    for row in rows {
        let text = row[2].replace("\\n", "\n").replace("\\0", "\0").replace("{300 times 1}", &"1".repeat(300));
        let error = CronExpression::parse(&text).expect_err(&text);
        let field = error.field.map_or_else(|| "-".to_owned(), |field| field.to_string());
        assert_eq!(field, row[0], "{text}: {error}");
        if !error.reason.contains(row[1]) {
            wrong.push(format!("{text}: {error}, without `{}`", row[1]));
        }
        let problems = ScheduleSpec::cron(text, "UTC").check(&Zone::UTC).unwrap_err();
        assert_eq!((problems.len(), problems[0].field.as_str()), (1, "expression"));
        assert_eq!(problems[0].message, error.to_string());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unusual_valid_expressions_are_accepted() {
    for text in [
        "  0\t9  * *   1-5 ",
        "05 04 * * *",
        "*/59 * * * *",
        "0 0 * * 5-7",
        "0 0 * * FRI-SUN",
        "0 0 * * sun-7",
        "0 0 L,15 * 5L,1#1",
        "@Daily",
        "1,1,1 * * * *",
        "*,5 * * * *",
        "0-59 0-23 1-31 1-12 0-7",
        "0 0 29 2 *",
        "0 0 31 2 1",
        "0 0 31 * *",
        "*/1 * * * *",
        "0 0 1-31/31 * *",
        "0 0 * * fril",
    ] {
        CronExpression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert_eq!(CronExpression::parse("  0\t9  * *   1-5 ").unwrap().as_str(), "0 9 * * 1-5");
}

#[test]
fn rare_dates_are_found() {
    let next = |expression: &str, after: &str| cron(expression, "Europe/Berlin").next_after(at(after), at(after));
    // 2100 is not a leap year.
    assert_eq!(next("0 12 29 2 *", "2096-03-01T00:00:00Z"), Some(at("2104-02-29T11:00:00Z")));
    assert_eq!(next("*/30 12 29 2 *", "2096-03-01T00:00:00Z"), Some(at("2104-02-29T11:00:00Z")));
    // A fifth Monday in February needs a leap year that begins on the right weekday.
    assert_eq!(next("0 12 * 2 1#5", "2024-03-01T00:00:00Z"), Some(at("2044-02-29T11:00:00Z")));
    assert_eq!(next("0 12 * * *", "9999-12-30T20:00:00Z"), None);
    assert_eq!(next("*/5 * * * *", "9999-12-30T22:00:00Z"), None);
    let ancient = Timestamp::from_micros(i64::MIN);
    assert!(cron("0 12 * * *", "UTC").next_after(ancient, ancient).is_some());
    let distant = Timestamp::from_micros(i64::MAX);
    assert_eq!(cron("0 12 * * *", "UTC").next_after(distant, distant), None);
}

#[test]
fn time_in_a_gap_across_midnight_is_due_on_the_next_day() {
    // 30 December 2011 was skipped in Apia.
    let fixed: Vec<_> = cron("0 9 * * *", "Pacific/Apia")
        .occurrences(at("2011-12-29T00:00:00Z"), at("2011-12-29T00:00:00Z"))
        .take(4)
        .collect();
    assert_eq!(
        fixed,
        ["2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"].map(at)
    );
    // Midnight of the skipped day and of the following day are the same instant, which is due once.
    let start = at("2011-12-29T00:00:00Z");
    let midnight: Vec<_> = cron("0 0 * * *", "Pacific/Apia").occurrences(start, start).take(3).collect();
    assert_eq!(midnight, ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"].map(at));
}

/// Generates the text of a field.
fn field(low: u8, high: u8) -> impl Strategy<Value = String> {
    let value = low..=high;
    prop_oneof![
        3 => Just("*".to_owned()),
        3 => value.clone().prop_map(|v| v.to_string()),
        1 => (2..=high.max(2)).prop_map(|step| format!("*/{step}")),
        1 => (value.clone(), value.clone(), 1..=high.max(1)).prop_map(|(a, b, step)| {
            format!("{}-{}/{step}", a.min(b), a.max(b))
        }),
        1 => proptest::collection::vec(value, 1..4).prop_map(|values| {
            values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        }),
    ]
}

fn weekday_field() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => field(0, 7),
        1 => (0..=7u8).prop_map(|day| format!("{day}L")),
        1 => (0..=7u8, 1..=5u8).prop_map(|(day, week)| format!("{day}#{week}")),
    ]
}

fn day_field() -> impl Strategy<Value = String> {
    prop_oneof![4 => field(1, 31), 1 => Just("L".to_owned()), 1 => Just("15,L".to_owned())]
}

fn any_expression() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), day_field(), field(1, 12), weekday_field())
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

/// Whether a field matches a number, by a naive implementation.
fn field_matches(text: &str, low: u32, high: u32, number: u32) -> bool {
    text.split(',').any(|item| {
        let (range, step) = item.split_once('/').map_or((item, 1), |(range, step)| (range, step.parse().unwrap()));
        let (start, end) = match range {
            "*" => (low, high),
            _ => match range.split_once('-') {
                Some((start, end)) => (start.parse().unwrap(), end.parse().unwrap()),
                None => range.parse().map_or((1, 0), |value: u32| (value, value)),
            },
        };
        (start..=end).step_by(step).any(|value| value == number)
    })
}

/// Whether a local time matches the fields, by a naive implementation.
fn matches(expression: &str, wall: jiff::civil::DateTime) -> bool {
    let fields: Vec<&str> = expression.split(' ').collect();
    let (day, length) = (wall.day().unsigned_abs().into(), u32::from(wall.date().days_in_month().unsigned_abs()));
    let weekday = u32::from(wall.weekday().to_sunday_zero_offset().unsigned_abs());
    let by_day =
        field_matches(fields[2], 1, 31, day) || (fields[2].split(',').any(|item| item == "L") && day == length);
    let by_weekday = if let Some(last) = fields[4].strip_suffix('L') {
        last.parse::<u32>().unwrap() % 7 == weekday && day + 7 > length
    } else if let Some((which, week)) = fields[4].split_once('#') {
        which.parse::<u32>().unwrap() % 7 == weekday && day.div_ceil(7) == week.parse::<u32>().unwrap()
    } else {
        field_matches(fields[4], 0, 6, weekday)
            || (weekday == 0 && fields[4] != "*" && field_matches(fields[4], 0, 0, 7))
    };
    let on_day = match (fields[2] == "*", fields[4] == "*") {
        (true, true) => true,
        (false, true) => by_day,
        (true, false) => by_weekday,
        (false, false) => by_day || by_weekday,
    };
    on_day
        && field_matches(fields[0], 0, 59, wall.minute().unsigned_abs().into())
        && field_matches(fields[1], 0, 23, wall.hour().unsigned_abs().into())
        && field_matches(fields[3], 1, 12, wall.month().unsigned_abs().into())
        && wall.second() == 0
}

fn zones() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Santiago",
        "Asia/Kolkata",
        "Pacific/Apia",
        "Africa/Casablanca",
    ])
}

/// Generates instants within three years; half of them are near a clock change.
fn starts() -> impl Strategy<Value = Timestamp> {
    let day = 1440 * MINUTE;
    let year = at("2024-01-01T00:00:00Z").as_micros();
    let near = [
        "2024-03-30T20:00:00Z",
        "2025-10-25T20:00:00Z",
        "2025-03-08T20:00:00Z",
        "2024-11-02T20:00:00Z",
        "2025-04-05T08:00:00Z",
        "2025-10-04T08:00:00Z",
        "2025-09-06T20:00:00Z",
    ];
    prop_oneof![
        (0..3 * 365 * day).prop_map(move |offset| Timestamp::from_micros(year + offset)),
        (proptest::sample::select(near.to_vec()), 0..day)
            .prop_map(|(near, offset)| Timestamp::from_micros(at(near).as_micros() + offset)),
    ]
}

/// Whether the expression is a fixed time, whose rule brute force over minutes does not know.
fn is_fixed(expression: &str) -> bool {
    let mut fields = expression.split(' ');
    let (minute, hour) = (fields.next().unwrap(), fields.next().unwrap());
    let count = |text: &str, low, high| (low..=high).filter(|number| field_matches(text, low, high, *number)).count();
    count(minute, 0, 59) == 1 && count(hour, 0, 23) == 1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Brute force over two days: except for fixed times, the slots are exactly the minutes whose local time matches.
    #[test]
    fn no_slot_is_skipped(expression in any_expression(), zone_name in zones(), start in starts()) {
        let Ok(parsed) = CronExpression::parse(&expression) else { return Ok(()) };
        prop_assume!(!is_fixed(&expression));
        let zone = zone(zone_name);
        let first = start.as_micros().div_euclid(MINUTE) + 1;
        let expected: Vec<Timestamp> = (first..first + 2 * 1440)
            .map(|minute| Timestamp::from_micros(minute * MINUTE))
            .filter(|slot| matches(&expression, zone.wall(*slot)))
            .collect();
        let end = Timestamp::from_micros((first + 2 * 1440) * MINUTE);
        let mut found = Vec::new();
        let mut after = start;
        while let Some(slot) = parsed.next_after(after, &zone).filter(|slot| *slot < end) {
            prop_assert!(slot > after);
            found.push(slot);
            after = slot;
        }
        prop_assert_eq!(found, expected, "{} in {}", expression, zone_name);
    }

    /// A fixed time is due once on each matching calendar day, at the requested local time or at the end of a gap.
    #[test]
    fn fixed_time_is_due_once_a_day(
        minute in 0..60i8, hour in 0..24i8, weekday in weekday_field(), zone_name in zones(), start in starts()
    ) {
        let expression = format!("{minute} {hour} * * {weekday}");
        let zone = zone(zone_name);
        let schedule = cron(&expression, zone_name);
        let slots: Vec<Timestamp> = schedule.occurrences(start, start).take(8).collect();
        prop_assert_eq!(slots.len(), 8);
        for pair in slots.windows(2) {
            prop_assert!(pair[0] < pair[1]);
        }
        let mut days: Vec<_> = slots.iter().map(|slot| zone.wall(*slot).date()).collect();
        days.dedup();
        prop_assert_eq!(days.len(), 8, "{} in {}: {:?}", expression, zone_name, slots);
        for slot in slots {
            let wall = zone.wall(slot);
            let asked = wall.date().at(hour, minute, 0, 0);
            prop_assert!(matches(&expression, asked));
            if wall != asked {
                // Clamped to the end of a gap: the moment before shows an earlier time than requested.
                let before = zone.wall(Timestamp::from_micros(slot.as_micros() - 1));
                prop_assert!(before < asked && asked < wall, "{} in {} at {}", expression, zone_name, slot);
            }
        }
    }

    #[test]
    fn latest_slot_is_the_last_occurrence(expression in any_expression(), zone_name in zones(), start in starts(),
        minutes in 1..3000i64) {
        let Ok(_) = CronExpression::parse(&expression) else { return Ok(()) };
        let schedule = cron(&expression, zone_name);
        let until = Timestamp::from_micros(start.as_micros() + minutes * MINUTE);
        let all = schedule.occurrences(start, start).take_while(|slot| *slot <= until).last();
        prop_assert_eq!(schedule.latest_between(start, until, start), all, "{}", expression);
    }

    #[test]
    fn expression_round_trips(expression in any_expression()) {
        let Ok(parsed) = CronExpression::parse(&expression) else { return Ok(()) };
        prop_assert_eq!(CronExpression::parse(parsed.as_str()), Ok(parsed));
    }

    #[test]
    fn parser_never_panics(text in "\\PC{0,60}") {
        let _ = CronExpression::parse(&text);
        let _ = Zone::parse(&text);
    }

    #[test]
    fn parser_never_panics_on_cron_like_text(text in "[-0-9*,/LW#?@A-Fa-f ]{0,30}") {
        if let Ok(expression) = CronExpression::parse(&text) {
            prop_assert!(expression.next_after(at("2026-01-01T00:00:00Z"), &Zone::UTC).is_some());
        }
    }
}
