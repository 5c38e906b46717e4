//! Measures the time to compute the next slot: `cargo run --release -p agentd-schedule --example next_slot`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people who measure")]

use std::hint::black_box;
use std::time::Instant;

use agentd_base::Timestamp;
use agentd_schedule::{MisfirePolicy, Schedule, ScheduleSpec, Zone, missed, parse_natural};

const ROUNDS: u32 = 20_000;

fn main() {
    let now = Timestamp::parse("2026-03-10T10:00:07Z").unwrap();
    for (zone, expression) in [
        ("UTC", "*/5 * * * *"),
        ("Europe/Berlin", "*/15 9-17 * * 1-5"),
        ("Europe/Berlin", "0 9 * * 1-5"),
        ("America/New_York", "30 2 * * *"),
        ("Australia/Lord_Howe", "0 0 L * *"),
        ("Europe/Berlin", "0 12 29 2 *"),
        ("Europe/Berlin", "*/5 12 29 2 *"),
    ] {
        let schedule = ScheduleSpec::cron(expression, zone).check(&Zone::UTC).unwrap();
        report(&format!("next slot of {expression} in {zone}"), || black_box(schedule.next_after(now, now)).is_some());
    }
    let spec = ScheduleSpec::cron("*/15 9-17 * * MON-FRI", "Europe/Berlin");
    report("check of a cron specification", || black_box(spec.check(&Zone::UTC)).is_ok());
    let every = ScheduleSpec::every(1).check(&Zone::UTC).unwrap();
    report("next slot of every second", || black_box(every.next_after(now, now)).is_some());
    let minutely: Schedule = ScheduleSpec::cron("* * * * *", "Europe/Berlin").check(&Zone::UTC).unwrap();
    let long_ago = Timestamp::parse("2024-03-10T10:00:00Z").unwrap();
    report("newest of a million slots", || black_box(minutely.latest_between(long_ago, now, long_ago)).is_some());
    report("catching up after two years", || {
        black_box(missed(&minutely, long_ago, now, MisfirePolicy::RunOnce, 10)).next.is_some()
    });
    let berlin = Zone::parse("Europe/Berlin").unwrap();
    report("a sentence", || black_box(parse_natural("every weekday at half past 9", now, &berlin, "en")).is_some());
}

fn report(what: &str, mut once: impl FnMut() -> bool) {
    assert!(once());
    let start = Instant::now();
    for _ in 0..ROUNDS {
        once();
    }
    let each = start.elapsed() / ROUNDS;
    println!("{:>10.2} µs  {what}", each.as_secs_f64() * 1e6);
}
