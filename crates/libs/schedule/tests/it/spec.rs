//! Serialized schedules: validation, error messages and round trips.

use agentd_base::Timestamp;
use agentd_schedule::{MAX_INTERVAL_SECONDS, Schedule, ScheduleSpec, Zone};
use proptest::prelude::*;
use serde_json::{Value, json};

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn berlin() -> Zone {
    Zone::parse("Europe/Berlin").unwrap()
}

fn check(body: Value) -> Result<Schedule, Vec<(String, String)>> {
    let spec: ScheduleSpec = serde_json::from_value(body).unwrap();
    spec.check(&berlin())
        .map_err(|problems| problems.into_iter().map(|problem| (problem.field, problem.message)).collect())
}

fn fields(body: Value) -> Vec<String> {
    check(body).unwrap_err().into_iter().map(|(field, _)| field).collect()
}

#[test]
fn specification_round_trips() {
    for body in [
        json!({"type": "cron", "expression": "0 9 * * 1-5", "timezone": "Europe/Berlin"}),
        json!({"type": "cron", "expression": "@daily", "timezone": "UTC"}),
        json!({"type": "every", "interval": 3600}),
        json!({"type": "every", "interval": 1, "timezone": "Asia/Tokyo"}),
        json!({"type": "at", "datetime": "2026-12-24T17:00:00.000Z"}),
    ] {
        assert_eq!(serde_json::to_value(check(body.clone()).unwrap()).unwrap(), body);
    }
    let canonical =
        check(json!({"type": "cron", "expression": " 0  9 * * * ", "timezone": "europe/berlin", "extra": 1}));
    assert_eq!(
        serde_json::to_value(canonical.unwrap()).unwrap(),
        json!({"type": "cron", "expression": "0 9 * * *", "timezone": "Europe/Berlin"})
    );
}

#[test]
fn every_invalid_field_is_reported_with_the_reason() {
    let problems = check(json!({"type": "cron", "expression": "0 25 * * *", "timezone": "Europe/Berln"})).unwrap_err();
    assert_eq!(problems.len(), 2);
    assert!(problems[0].1.contains("did you mean Europe/Berlin?"), "{problems:?}");
    assert!(problems[1].1.starts_with("hour: 25 is out of range; allowed are 0-23"), "{problems:?}");
    assert_eq!(fields(json!({"type": "cron"})), ["timezone", "expression"]);
    assert_eq!(fields(json!({"type": "cron", "expression": "0 9 * * *"})), ["timezone"]);
    assert_eq!(fields(json!({"type": "every"})), ["interval"]);
    assert_eq!(fields(json!({"type": "at"})), ["datetime"]);
    assert_eq!(fields(json!({"type": "at", "datetime": "soon", "timezone": "Moon"})), ["timezone", "datetime"]);
    assert_eq!(fields(json!({"type": "every", "interval": 60, "timezone": ""})), ["timezone"]);
}

#[test]
fn intervals_reach_from_a_second_to_ten_years() {
    for seconds in [1, 60, 86_400, 10 * 365 * 86_400, MAX_INTERVAL_SECONDS] {
        assert!(check(json!({"type": "every", "interval": seconds})).is_ok(), "{seconds}");
    }
    for seconds in [0, -1, i64::MIN, i64::MAX, MAX_INTERVAL_SECONDS + 1, 100 * 365 * 86_400] {
        let problems = check(json!({"type": "every", "interval": seconds})).unwrap_err();
        assert_eq!(problems[0].0, "interval");
        assert!(problems[0].1.contains("1 to 315619200 seconds"), "{problems:?}");
    }
}

#[test]
fn date_without_offset_uses_its_zone_or_the_default() {
    let instant = |body: Value| check(body).unwrap().next_after(at("2000-01-01T00:00:00Z"), at("2000-01-01T00:00:00Z"));
    let cases = [
        (json!({"type": "at", "datetime": "2026-06-01T12:00:00Z"}), "2026-06-01T12:00:00Z"),
        (json!({"type": "at", "datetime": "2026-06-01T12:00:00+05:30"}), "2026-06-01T06:30:00Z"),
        (json!({"type": "at", "datetime": "2026-06-01T12:00:00"}), "2026-06-01T10:00:00Z"),
        (json!({"type": "at", "datetime": "2026-06-01 12:00"}), "2026-06-01T10:00:00Z"),
        (json!({"type": "at", "datetime": "2026-06-01T12:00:00", "timezone": "Asia/Tokyo"}), "2026-06-01T03:00:00Z"),
        (json!({"type": "at", "datetime": "2026-06-01T12:00:00Z", "timezone": "Asia/Tokyo"}), "2026-06-01T12:00:00Z"),
        // A time in the gap is shifted by its length; of two passes the first counts.
        (json!({"type": "at", "datetime": "2026-03-29T02:30:00"}), "2026-03-29T01:30:00Z"),
        (json!({"type": "at", "datetime": "2026-10-25T02:30:00"}), "2026-10-25T00:30:00Z"),
        (json!({"type": "at", "datetime": "2026-10-25T02:30:00+01:00"}), "2026-10-25T01:30:00Z"),
        // More digits than the serialized form has would change the slot.
        (json!({"type": "at", "datetime": "2026-06-01T12:00:00.123456Z"}), "2026-06-01T12:00:00.123Z"),
    ];
    for (body, expected) in cases {
        assert_eq!(instant(body.clone()), Some(at(expected)), "{body}");
    }
}

#[test]
fn invalid_date_is_rejected() {
    for text in [
        "",
        "tomorrow",
        "2026-06-01",
        "12:00",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00",
        "2026-06-01T25:00:00Z",
        "2026-06-01T12:00:00[Europe/Berlin]",
        "2026-06-01T12:00:00+02:00[Europe/Berlin]",
        "2026-W10-1T00:00:00Z",
        "1780000000",
        "+012026-06-01T12:00:00Z",
        "2026-06-01T12:00:00 +0200 CEST",
        "20260601T120000Z",
        "2026-06-01T12:00:00Z and more text that goes on",
    ] {
        assert_eq!(fields(json!({"type": "at", "datetime": text})), ["datetime"], "{text}");
    }
}

#[test]
fn date_beyond_the_last_one_is_out_of_range() {
    for text in ["9999-12-31T23:59:59Z", "9999-12-31T00:00:00+01:00", "9999-12-31T23:59:59"] {
        let problems = check(json!({"type": "at", "datetime": text})).unwrap_err();
        assert!(problems[0].1.contains("is out of range") && problems[0].1.contains("9999-12-30T22"), "{problems:?}");
    }
    let problems = check(json!({"type": "at", "datetime": "9999-12-31T25:59:59Z"})).unwrap_err();
    assert!(problems[0].1.contains("must be a time such as"), "{problems:?}");
    assert!(check(json!({"type": "at", "datetime": "9999-12-30T21:00:00Z"})).is_ok());
}

#[test]
fn unknown_types_and_wrong_shapes_are_rejected() {
    for body in [json!({"type": "sometimes"}), json!({}), json!({"type": "every", "interval": "60"}), json!([])] {
        assert!(serde_json::from_value::<ScheduleSpec>(body.clone()).is_err(), "{body}");
        assert!(serde_json::from_value::<Schedule>(body).is_err());
    }
    let refused = serde_json::from_value::<Schedule>(json!({"type": "every", "interval": 0})).unwrap_err().to_string();
    assert!(refused.starts_with("interval must be 1 to"), "{refused}");
}

#[test]
fn interval_counts_from_its_anchor_without_drift() {
    let schedule = check(json!({"type": "every", "interval": 600})).unwrap();
    let anchor = at("2026-03-10T10:00:07Z");
    let next = |after: &str| schedule.next_after(at(after), anchor).unwrap().to_string();
    assert_eq!(next("2026-03-10T10:00:07Z"), "2026-03-10T10:10:07.000Z");
    assert_eq!(next("2026-03-10T10:10:06.999Z"), "2026-03-10T10:10:07.000Z");
    assert_eq!(next("2026-03-10T10:10:07Z"), "2026-03-10T10:20:07.000Z");
    assert_eq!(next("2046-03-10T10:10:30Z"), "2046-03-10T10:20:07.000Z");
    // A clock that was set back yields no slot before the anchor.
    assert_eq!(next("2026-03-10T09:00:00Z"), "2026-03-10T10:10:07.000Z");
    let end = Timestamp::from_micros(i64::MAX);
    assert_eq!(schedule.next_after(end, anchor), None);
    assert_eq!(schedule.next_after(end, end), None);
    let start = Timestamp::from_micros(i64::MIN);
    assert!(schedule.next_after(start, start).is_some());
}

#[test]
fn date_is_due_once() {
    let schedule = check(json!({"type": "at", "datetime": "2026-06-01T12:00:00Z"})).unwrap();
    let all: Vec<_> = schedule.occurrences(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z")).collect();
    assert_eq!(all, [at("2026-06-01T12:00:00Z")]);
    assert!(!schedule.recurs());
}

#[test]
fn range_of_slots_is_limited_and_includes_its_start() {
    let schedule = check(json!({"type": "cron", "expression": "0 * * * *", "timezone": "UTC"})).unwrap();
    let (from, until) = (at("2026-03-10T10:00:00Z"), at("2026-03-10T13:00:00Z"));
    let found = schedule.occurrences_between(from, until, from, 100);
    assert_eq!(found, ["2026-03-10T10:00:00Z", "2026-03-10T11:00:00Z", "2026-03-10T12:00:00Z"].map(at));
    assert_eq!(schedule.occurrences_between(from, until, from, 2).len(), 2);
    assert_eq!(schedule.occurrences_between(until, from, from, 2), []);
}

proptest! {
    #[test]
    fn date_parser_never_panics(text in "\\PC{0,50}") {
        let _ = ScheduleSpec::at(text).check(&Zone::UTC);
    }

    #[test]
    fn date_parser_never_panics_on_date_like_text(text in "[-+:.TZ0-9 ]{0,45}") {
        if let Ok(schedule) = ScheduleSpec::at(text).check(&Zone::UTC) {
            let again: Schedule = serde_json::from_value(serde_json::to_value(&schedule).unwrap()).unwrap();
            prop_assert_eq!(again, schedule);
        }
    }

    #[test]
    fn interval_slots_are_increasing_on_the_grid_without_gaps(
        interval in 1..=MAX_INTERVAL_SECONDS, anchor in 0..4_000_000_000_000_000i64, ahead in 0..400_000_000_000_000i64
    ) {
        let schedule = ScheduleSpec::every(interval).check(&Zone::UTC).unwrap();
        let (anchor, after) = (Timestamp::from_micros(anchor), Timestamp::from_micros(anchor + ahead));
        let slot = schedule.next_after(after, anchor).unwrap();
        let micros = interval * 1_000_000;
        prop_assert!(slot > after);
        prop_assert_eq!((slot.as_micros() - anchor.as_micros()) % micros, 0);
        prop_assert!(slot.as_micros() - micros <= after.as_micros());
        // Counting from a slot equals counting from the anchor.
        prop_assert_eq!(schedule.next_after(slot, slot), schedule.next_after(slot, anchor));
    }
}
