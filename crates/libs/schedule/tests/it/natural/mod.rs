//! Plain language schedules: collection of phrases, confidence, and random text.

mod numbers;

use agentd_base::Timestamp;
use agentd_schedule::{MAX_TEXT_LENGTH, MIN_CONFIDENCE, Parsed, Schedule, ScheduleSpec, Zone, parse_natural};
use proptest::prelude::*;

const SETS: [&str; 6] = ["dev", "held", "fresh", "reported", "everyday", "unseen"];
const PHRASES: &str = include_str!("../../data/phrases.tsv");

fn berlin() -> Zone {
    Zone::parse("Europe/Berlin").unwrap()
}

/// Tuesday, ten in the morning.
fn now() -> Timestamp {
    Timestamp::parse("2026-03-10T10:00:00+01:00").unwrap()
}

fn parse(text: &str) -> Option<Parsed> {
    parse_natural(text, now(), &berlin(), "en")
}

/// Formats the schedule as in the collection.
fn written(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Cron(cron) if *cron.zone() == berlin() => format!("cron {}", cron.expression().as_str()),
        Schedule::Cron(cron) => format!("cron {} {}", cron.expression().as_str(), cron.zone()),
        Schedule::Every(every) => format!("every {}", every.interval_seconds()),
        Schedule::At(at) => format!("at {}", berlin().wall(at.instant()).strftime("%Y-%m-%dT%H:%M")),
    }
}

/// Returns the reason why a phrase was misunderstood, or `None`.
fn wrong(text: &str, meant: &str) -> Option<String> {
    let parsed = parse(text);
    let found = parsed.as_ref().map(|parsed| (written(&parsed.schedule), parsed.confidence));
    let right = match (meant, &found) {
        ("none", found) => found.is_none(),
        ("unsure", Some((_, confidence))) => *confidence < MIN_CONFIDENCE,
        ("unsure", None) => true,
        (_, Some((schedule, confidence))) => schedule == meant && *confidence >= MIN_CONFIDENCE,
        (_, None) => false,
    };
    (!right).then(|| format!("{text:?}: {found:?}, not {meant}"))
}

fn phrases(set: &str) -> Vec<(&'static str, &'static str)> {
    let rows = PHRASES.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split('\t').collect::<Vec<_>>())
        .filter(|columns| columns[0] == set)
        .map(|columns| (columns[1], columns[2]))
        .collect()
}

fn accuracy(set: &str) -> (f64, Vec<String>) {
    let meant: Vec<_> = phrases(set).into_iter().filter(|(meant, _)| !["none", "unsure"].contains(meant)).collect();
    let wrong: Vec<String> = meant.iter().filter_map(|(meant, text)| wrong(text, meant)).collect();
    (1.0 - wrong.len() as f64 / meant.len() as f64, wrong)
}

#[test]
fn development_phrases_are_understood() {
    let (share, wrong) = accuracy("dev");
    assert!(share >= 0.95, "{share}: {wrong:#?}");
}

#[test]
fn held_out_phrases_are_understood() {
    let (share, wrong) = accuracy("held");
    assert!(share >= 0.95, "{share}: {wrong:#?}");
}

#[test]
fn later_phrases_are_understood() {
    let (share, wrong) = accuracy("fresh");
    assert!(share >= 0.95, "{share}: {wrong:#?}");
}

#[test]
fn reported_phrases_are_understood() {
    let (_, wrong) = accuracy("reported");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn informally_typed_phrases_are_understood() {
    for set in ["everyday", "unseen"] {
        let (share, wrong) = accuracy(set);
        assert!(share >= 0.95, "{set}: {share}: {wrong:#?}");
    }
}

#[test]
fn collection_has_the_minimum_size() {
    let all: Vec<_> = SETS.into_iter().flat_map(phrases).collect();
    assert!(all.iter().filter(|(meant, _)| !["none", "unsure"].contains(meant)).count() >= 150);
    assert!(all.iter().filter(|(meant, _)| *meant == "none").count() >= 30);
    assert_eq!(all.len() + PHRASES.lines().filter(|line| line.starts_with('#')).count(), PHRASES.lines().count());
}

#[test]
fn text_without_schedule_is_rejected() {
    let all = SETS.into_iter().flat_map(phrases).filter(|(meant, _)| ["none", "unsure"].contains(meant));
    let wrong: Vec<String> = all.filter_map(|(meant, text)| wrong(text, meant)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn confidence_decreases_with_assumptions_and_unknown_words() {
    let confidence = |text: &str| parse(text).unwrap().confidence;
    for text in ["every weekday at 9", "every 5 minutes", "in 20 minutes", "tomorrow at 5pm", "jeden Tag um 7 Uhr"] {
        assert!(confidence(text) >= 0.9, "{text}: {}", confidence(text));
    }
    // The time of day is missing.
    assert!(confidence("every Monday") < confidence("every Monday at 9am"));
    // The half of the day is ambiguous.
    assert!(confidence("every day at 5") < confidence("every day at 5pm"));
    // 9 in the morning has passed; the evening may be meant.
    assert!(confidence("today at 9") < confidence("today at 9pm"));
    // The text is contradictory, or specifies no time within the span.
    for text in ["every morning at 5pm", "every afternoon at 11", "from monday every day at 9", "every day at 8 to 10"]
    {
        assert!(confidence(text) < MIN_CONFIDENCE, "{text}: {}", confidence(text));
    }
    // Unknown words.
    assert!(confidence("water the plants every day at 9am") < confidence("every day at 9am"));
    // Every second day of the month is only approximately every other day.
    assert!(confidence("every other day at 6pm") < 0.9);
    // A hint of a time among many words.
    assert!(parse("meeting notes from the big room about Friday").is_none_or(|parsed| parsed.confidence < 0.5));
}

#[test]
fn approximation_beyond_a_month_is_uncertain() {
    for text in ["every 10 days at 9am", "every 5 days at 6pm", "alle 10 Tage um 9 Uhr"] {
        assert!(parse(text).is_some_and(|parsed| parsed.confidence < MIN_CONFIDENCE), "{text}");
    }
    // Seven days are a week that starts on the day of the next such time; now is Tuesday, ten in the morning.
    for (text, meant) in [
        ("every 7 days at 11am", "cron 0 11 * * 2"),
        ("every 7 days at 9am", "cron 0 9 * * 3"),
        ("alle 7 Tage um 11 Uhr", "cron 0 11 * * 2"),
    ] {
        assert_eq!(wrong(text, meant), None);
    }
}

#[test]
fn description_uses_the_requested_language() {
    let text = |language: &str| parse_natural("every weekday at 9", now(), &berlin(), language).unwrap().human_readable;
    assert_eq!(text("en"), "At 09:00, Monday to Friday (Europe/Berlin)");
    assert_eq!(text("de-DE"), "Um 09:00 Uhr, Montag bis Freitag (Europe/Berlin)");
}

#[test]
fn letter_case_and_white_space_do_not_matter() {
    for text in ["EVERY WEEKDAY AT 9", "  every\tweekday \n at 9 ", "Every weekday at 9.", "“Every weekday at 9!”"]
    {
        assert_eq!(parse(text).map(|parsed| written(&parsed.schedule)).as_deref(), Some("cron 0 9 * * 1-5"), "{text}");
    }
}

#[test]
fn dates_depend_on_the_clock_and_the_zone() {
    let at = |text: &str, now: &str, zone: &str| {
        let parsed = parse_natural(text, Timestamp::parse(now).unwrap(), &Zone::parse(zone).unwrap(), "en").unwrap();
        parsed.schedule.next_after(Timestamp::from_micros(0), Timestamp::from_micros(0)).unwrap().to_string()
    };
    assert_eq!(at("at 5pm", "2026-03-10T10:00:00Z", "Asia/Tokyo"), "2026-03-11T08:00:00.000Z");
    assert_eq!(at("tomorrow at 9am", "2026-03-10T16:00:00Z", "Asia/Tokyo"), "2026-03-12T00:00:00.000Z");
    // One day later, across a clock change: the same local time.
    assert_eq!(at("in 1 day", "2026-03-28T08:00:00Z", "Europe/Berlin"), "2026-03-29T07:00:00.000Z");
    assert_eq!(at("in 24 hours", "2026-03-28T08:00:00Z", "Europe/Berlin"), "2026-03-29T08:00:00.000Z");
    assert_eq!(at("on the 31st at noon", "2026-04-02T08:00:00Z", "UTC"), "2026-05-31T12:00:00.000Z");
    assert_eq!(at("on February 29", "2026-04-02T08:00:00Z", "UTC"), "2028-02-29T09:00:00.000Z");
}

#[test]
fn too_long_text_is_rejected() {
    let padded = format!("every weekday at 9{}", " ".repeat(MAX_TEXT_LENGTH));
    assert_eq!(parse(&padded), None);
}

proptest! {
    #[test]
    fn parser_never_panics(text in "\\PC{0,120}") {
        let _ = parse(&text);
    }

    /// Known words in any order result in a valid schedule with a next slot, or none.
    #[test]
    fn known_words_in_any_order_make_valid_schedules_or_none(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "every", "other", "day", "week", "month", "at", "on", "the", "of", "in", "a", "an", "half", "quarter", "past",
            "to", "between", "and", "from", "until", "except", "monday", "friday", "weekdays", "weekend", "first", "second",
            "last", "31st", "15.", "march", "february", "noon", "midnight", "morning", "tonight", "tomorrow", "next",
            "twice", "3", "times", "9", "24", "0", "99999", "17:30", "9.15", "am", "pm", "uhr", "halb", "viertel", "vor",
            "nach", "jeden", "alle", "montags", "morgen", "abend", "um", "stunden", "hour", "minutes", "daily", "hourly",
            "2026-12-24", "24.12.", ":15", ",", "year", "starting", "for", "freitagabend", "mon-fri", "9-17", "-", "/", ".",
        ]), 0..9)
    ) {
        if let Some(parsed) = parse(&words.join(" ")) {
            prop_assert!((0.0..=1.0).contains(&parsed.confidence));
            prop_assert!(parsed.schedule.next_after(now(), now()).is_some());
            let spec: ScheduleSpec = parsed.schedule.spec();
            prop_assert_eq!(spec.check(&Zone::UTC).unwrap(), parsed.schedule);
            prop_assert!(!parsed.human_readable.is_empty());
        }
    }
}
