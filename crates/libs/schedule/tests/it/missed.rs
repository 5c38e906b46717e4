//! Catching up after a pause.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_schedule::{CatchUp, MAX_SKIPPED, MisfirePolicy, Schedule, ScheduleSpec, Zone, catch_up, missed};
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn times<const N: usize>(texts: [&str; N]) -> Vec<Timestamp> {
    texts.map(at).to_vec()
}

fn daily_at_nine() -> Schedule {
    ScheduleSpec::cron("0 9 * * *", "Europe/Berlin").check(&Zone::UTC).unwrap()
}

#[test]
fn misfire_policy_decides_about_missed_slots() {
    let schedule = daily_at_nine();
    let (last, now) = (at("2026-03-27T08:00:00Z"), at("2026-03-29T12:00:00Z"));
    let next = Some(at("2026-03-30T07:00:00Z"));
    // The clocks changed on the 29th.
    let slots = ["2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z"];
    let found = missed(&schedule, last, now, MisfirePolicy::RunOnce, 10);
    let expected = CatchUp { run: times([slots[1]]), skipped: times([slots[0]]), has_more_skipped: false, next };
    assert_eq!(found, expected);
    let found = missed(&schedule, last, now, MisfirePolicy::Skip, 10);
    assert_eq!(found, CatchUp { run: Vec::new(), skipped: times(slots), ..expected.clone() });
    let found = missed(&schedule, last, now, MisfirePolicy::RunAll, 10);
    assert_eq!(found, CatchUp { run: times(slots), skipped: Vec::new(), ..expected.clone() });
    let found = missed(&schedule, last, now, MisfirePolicy::RunAll, 1);
    assert_eq!(found, expected, "the newest of all");
}

#[test]
fn slot_within_grace_is_on_time_for_every_policy() {
    let schedule = daily_at_nine();
    let now = at("2026-03-12T08:00:02Z");
    let slot = at("2026-03-12T08:00:00Z");
    for policy in [MisfirePolicy::RunOnce, MisfirePolicy::Skip, MisfirePolicy::RunAll] {
        let found = catch_up(&schedule, at("2026-03-11T08:00:00Z"), now, Duration::from_secs(60), policy, 10);
        assert_eq!((found.run, found.skipped), (vec![slot], vec![]), "{policy:?}");
    }
    // Yesterday's slot was missed as well: still one run.
    let last = at("2026-03-10T08:00:00Z");
    let found = catch_up(&schedule, last, now, Duration::from_secs(60), MisfirePolicy::RunOnce, 10);
    assert_eq!((found.run, found.skipped), (vec![slot], times(["2026-03-11T08:00:00Z"])));
    let found = catch_up(&schedule, last, now, Duration::from_secs(60), MisfirePolicy::Skip, 10);
    assert_eq!((found.run, found.skipped), (vec![slot], times(["2026-03-11T08:00:00Z"])));
}

#[test]
fn slot_followed_by_a_later_one_counts_as_missed() {
    let schedule = ScheduleSpec::every(5).check(&Zone::UTC).unwrap();
    let (last, now) = (at("2026-03-10T00:00:00Z"), at("2026-03-10T00:00:17Z"));
    let slots = ["2026-03-10T00:00:05Z", "2026-03-10T00:00:10Z", "2026-03-10T00:00:15Z"];
    for policy in [MisfirePolicy::RunOnce, MisfirePolicy::Skip] {
        let found = catch_up(&schedule, last, now, Duration::from_secs(60), policy, 10);
        assert_eq!((found.run, found.skipped), (times([slots[2]]), times([slots[0], slots[1]])), "{policy:?}");
    }
    let found = catch_up(&schedule, last, now, Duration::from_secs(60), MisfirePolicy::RunAll, 10);
    assert_eq!((found.run, found.skipped), (times(slots), vec![]));
}

#[test]
fn short_interval_after_a_long_pause_is_fast() {
    let schedule = ScheduleSpec::every(1).check(&Zone::UTC).unwrap();
    let (last, now) = (at("2024-03-10T00:00:00Z"), at("2026-03-10T00:00:00.500Z"));
    let found = missed(&schedule, last, now, MisfirePolicy::RunOnce, 10);
    assert_eq!(found.run, times(["2026-03-10T00:00:00Z"]));
    assert_eq!(found.skipped.len(), MAX_SKIPPED);
    assert!(found.has_more_skipped);
    assert_eq!(found.next, Some(at("2026-03-10T00:00:01Z")));
}

#[test]
fn no_slot_is_returned_twice_after_the_clock_is_set_back() {
    for schedule in [daily_at_nine(), ScheduleSpec::every(3600).check(&Zone::UTC).unwrap()] {
        let (last, now) = (at("2026-03-12T08:00:00Z"), at("2026-03-12T07:30:00Z"));
        for policy in [MisfirePolicy::RunOnce, MisfirePolicy::Skip, MisfirePolicy::RunAll] {
            let found = catch_up(&schedule, last, now, Duration::from_secs(60), policy, 10);
            assert!(found.run.is_empty() && found.skipped.is_empty());
            assert!(found.next > Some(last));
        }
    }
}

fn any_schedule() -> impl Strategy<Value = Schedule> {
    let expressions = ["*/5 * * * *", "0 * * * *", "30 2 * * *", "0 9 * * 1-5", "0 0 1 * *", "0,30 1-3 * * *"];
    let zones = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];
    prop_oneof![
        (proptest::sample::select(expressions.to_vec()), proptest::sample::select(zones.to_vec()))
            .prop_map(|(expression, zone)| ScheduleSpec::cron(expression, zone)),
        (1..200_000i64).prop_map(ScheduleSpec::every),
        (0..90_000_000i64).prop_map(|offset| {
            let micros = at("2026-01-01T00:00:00Z").as_micros() + offset * 100_000;
            ScheduleSpec::at(Timestamp::from_micros(micros).to_string())
        }),
    ]
    .prop_map(|spec| spec.check(&Zone::UTC).unwrap())
}

proptest! {
    /// Compared with the complete list of slots.
    #[test]
    fn every_slot_is_run_or_skipped_exactly_once(
        schedule in any_schedule(),
        start_seconds in 0..8_000_000i64,
        pause_seconds in 0..40_000i64,
        grace_seconds in prop_oneof![Just(0u64), 1..5000u64],
        policy in proptest::sample::select(vec![MisfirePolicy::RunOnce, MisfirePolicy::Skip, MisfirePolicy::RunAll]),
        cap in 1..20usize,
    ) {
        let last = Timestamp::from_micros(at("2026-01-01T00:00:00Z").as_micros() + start_seconds * 1_000_000);
        let now = Timestamp::from_micros(last.as_micros() + pause_seconds * 1_000_000);
        let grace = Duration::from_secs(grace_seconds);
        let found = catch_up(&schedule, last, now, grace, policy, cap);
        let all: Vec<Timestamp> =
            schedule.occurrences(last, last).take_while(|slot| *slot <= now).take(50_000).collect();

        prop_assert_eq!(found.next, schedule.next_after(now, last));
        let mut seen: Vec<Timestamp> = found.run.iter().chain(&found.skipped).copied().collect();
        seen.sort();
        let newest = &all[all.len() - seen.len()..];
        prop_assert_eq!(&seen[..], newest, "the newest slots, each once");
        prop_assert_eq!(found.has_more_skipped, seen.len() < all.len());
        prop_assert!(seen.len() == all.len() || found.skipped.len() == MAX_SKIPPED);
        prop_assert!(found.run.is_sorted() && found.skipped.is_sorted());

        let is_newest_on_time = all.last().is_some_and(|slot| now.since(*slot) < grace);
        let expected = match policy {
            MisfirePolicy::RunAll => all.len().min(cap),
            MisfirePolicy::Skip => usize::from(is_newest_on_time),
            MisfirePolicy::RunOnce => all.len().min(1),
        };
        prop_assert_eq!(found.run.len(), expected);
        if let Some(newest_run) = found.run.last() {
            prop_assert_eq!(Some(newest_run), all.last());
        }
    }
}
