//! Human-readable schedules.

use agentd_schedule::{ScheduleSpec, Zone};
use proptest::prelude::*;

fn cron(expression: &str, language: &str) -> String {
    let schedule = ScheduleSpec::cron(expression, "UTC").check(&Zone::UTC).unwrap();
    schedule.human_readable(language, &Zone::UTC).strip_suffix(" (UTC)").unwrap().to_owned()
}

#[test]
fn cron_is_described_in_both_languages() {
    for (expression, english, german) in [
        ("* * * * *", "Every minute", "Jede Minute"),
        ("*/15 * * * *", "Every 15 minutes", "Alle 15 Minuten"),
        ("*/7 * * * *", "Every 7 minutes from the full hour on", "Alle 7 Minuten ab der vollen Stunde"),
        ("0 * * * *", "Every hour", "Jede Stunde"),
        ("@hourly", "Every hour", "Jede Stunde"),
        ("5 * * * *", "Every hour at 05 past", "Jede Stunde 5 Minuten nach voll"),
        ("0 9 * * *", "At 09:00, every day", "Um 09:00 Uhr, jeden Tag"),
        ("0 9 * * 1-5", "At 09:00, Monday to Friday", "Um 09:00 Uhr, Montag bis Freitag"),
        ("30 8 * * 1,3", "At 08:30, on Monday and Wednesday", "Um 08:30 Uhr, jeden Montag und Mittwoch"),
        ("0 10 * * 0,6", "At 10:00, on Saturday and Sunday", "Um 10:00 Uhr, jeden Samstag und Sonntag"),
        ("0 10 * * 5-7", "At 10:00, Friday to Sunday", "Um 10:00 Uhr, Freitag bis Sonntag"),
        (
            "0 7 * * 1-5/2",
            "At 07:00, on Monday, Wednesday and Friday",
            "Um 07:00 Uhr, jeden Montag, Mittwoch und Freitag",
        ),
        ("0 9,21 * * *", "At 09:00 and 21:00, every day", "Um 09:00 und 21:00 Uhr, jeden Tag"),
        (
            "0 9-17 * * 1-5",
            "Every hour from 09:00 to 17:00, Monday to Friday",
            "Jede Stunde von 09:00 bis 17:00 Uhr, Montag bis Freitag",
        ),
        ("*/15 9-16 * * *", "Every 15 minutes between 09:00 and 16:59", "Alle 15 Minuten zwischen 09:00 und 16:59 Uhr"),
        ("0 */2 * * *", "Every 2 hours from 00:00 on", "Alle 2 Stunden ab 00:00 Uhr"),
        (
            "0 */5 * * *",
            "At 00:00, 05:00, 10:00, 15:00 and 20:00, every day",
            "Um 00:00, 05:00, 10:00, 15:00 und 20:00 Uhr, jeden Tag",
        ),
        ("0 0 1 * *", "At 00:00, on the 1st of the month", "Um 00:00 Uhr, am 1. des Monats"),
        ("0 0 1,15 * *", "At 00:00, on the 1st and 15th of the month", "Um 00:00 Uhr, am 1. und 15. des Monats"),
        ("0 0 22,23 * *", "At 00:00, on the 22nd and 23rd of the month", "Um 00:00 Uhr, am 22. und 23. des Monats"),
        ("0 0 11-13 * *", "At 00:00, on the 11th to 13th of the month", "Um 00:00 Uhr, vom 11. bis 13. des Monats"),
        (
            "0 0 */2 * *",
            "At 00:00, on every 2nd day of the month from the 1st on",
            "Um 00:00 Uhr, an jedem 2. Tag des Monats ab dem 1.",
        ),
        ("0 9 L * *", "At 09:00, on the last day of the month", "Um 09:00 Uhr, am letzten Tag des Monats"),
        (
            "0 9 15,L * *",
            "At 09:00, on the 15th of the month and the last day of the month",
            "Um 09:00 Uhr, am 15. des Monats und am letzten Tag des Monats",
        ),
        ("0 16 * * 5L", "At 16:00, on the last Friday of the month", "Um 16:00 Uhr, am letzten Freitag im Monat"),
        ("0 12 * * 1#1", "At 12:00, on the first Monday of the month", "Um 12:00 Uhr, am ersten Montag im Monat"),
        (
            "0 0 13 * 5",
            "At 00:00, on the 13th of the month or on Friday",
            "Um 00:00 Uhr, am 13. des Monats oder jeden Freitag",
        ),
        ("0 9 15 3 *", "At 09:00, on the 15th of the month, in March", "Um 09:00 Uhr, am 15. des Monats, im März"),
        (
            "0 9 1 */3 *",
            "At 09:00, on the 1st of the month, in January, April, July and October",
            "Um 09:00 Uhr, am 1. des Monats, im Januar, April, Juli und Oktober",
        ),
        ("0 9 * 6-8 *", "At 09:00, every day, from June to August", "Um 09:00 Uhr, jeden Tag, von Juni bis August"),
        (
            "10,20,30 8-20/2 * * *",
            "At 10, 20 and 30 past the hour, in the hours from 08:00, 10:00, 12:00, 14:00, 16:00, 18:00 and 20:00",
            "In Minute 10, 20 und 30 der Stunde, in den Stunden ab 08:00, 10:00, 12:00, 14:00, 16:00, 18:00 und 20:00 Uhr",
        ),
        ("0-10 * * * *", "Every minute from 0 to 10 past the hour", "Jede Minute von Minute 0 bis 10 der Stunde"),
        ("* 2 * * *", "Every minute, in the hour from 02:00", "Jede Minute, in der Stunde ab 02:00 Uhr"),
    ] {
        assert_eq!(cron(expression, "en"), english, "{expression}");
        assert_eq!(cron(expression, "de"), german, "{expression}");
        assert_eq!(cron(expression, "fr"), english);
    }
}

#[test]
fn intervals_use_the_largest_unit() {
    for (seconds, english, german) in [
        (1, "Every second", "Jede Sekunde"),
        (45, "Every 45 seconds", "Alle 45 Sekunden"),
        (60, "Every minute", "Jede Minute"),
        (5400, "Every 90 minutes", "Alle 90 Minuten"),
        (7200, "Every 2 hours", "Alle 2 Stunden"),
        (86_400, "Every day", "Alle 24 Stunden"),
        (172_800, "Every 2 days", "Alle 2 Tage"),
        (604_800, "Every week", "Jede Woche"),
        (1_209_600, "Every 2 weeks", "Alle 2 Wochen"),
        (3661, "Every 3661 seconds", "Alle 3661 Sekunden"),
    ] {
        let schedule = ScheduleSpec::every(seconds).check(&Zone::UTC).unwrap();
        assert_eq!(schedule.human_readable("en", &Zone::UTC), english);
        assert_eq!(schedule.human_readable("de", &Zone::UTC), german);
    }
}

#[test]
fn date_is_shown_in_its_own_zone() {
    let berlin = Zone::parse("Europe/Berlin").unwrap();
    let schedule = ScheduleSpec::at("2026-12-24T18:00:00").check(&berlin).unwrap();
    let tokyo = Zone::parse("Asia/Tokyo").unwrap();
    let (english, german) = (schedule.human_readable("en", &tokyo), schedule.human_readable("de", &tokyo));
    assert_eq!(english, "Once, on Thursday, 24 December 2026 at 18:00 (Europe/Berlin)");
    assert_eq!(german, "Einmal, am Donnerstag, 24. Dezember 2026 um 18:00 Uhr (Europe/Berlin)");
    let schedule = ScheduleSpec::at("2026-12-24T18:00:05+01:00").check(&berlin).unwrap();
    let shown = schedule.human_readable("en", &tokyo);
    assert_eq!(shown, "Once, on Friday, 25 December 2026 at 02:00:05 (Asia/Tokyo)", "of no zone, so in the owner's");
}

proptest! {
    /// Expressions with different minutes or hours never have the same text.
    #[test]
    fn different_times_have_different_texts(
        minutes in proptest::collection::btree_set(0..60u8, 1..6), hours in proptest::collection::btree_set(0..24u8, 1..6),
        others in proptest::collection::btree_set(0..60u8, 1..6)
    ) {
        prop_assume!(minutes != others);
        let list = |set: &std::collections::BTreeSet<u8>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (one, other) = (format!("{} {} * * *", list(&minutes), list(&hours)), format!("{} {} * * *", list(&others), list(&hours)));
        for language in ["en", "de"] {
            prop_assert_ne!(cron(&one, language), cron(&other, language));
        }
    }
}
