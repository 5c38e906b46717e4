//! Restart matrix: a daemon is stopped around a slot for minutes, hours and days, in three time zones, across
//! daylight
//! saving changes, and with a clock that is set forward and restarted. The results are a table in the guide, which this
//! test
//! checks. `AGENTD_TEST_WRITE_DOCS=1` updates the table.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{at, create, every, id, job, runs, with};
use crate::support::chat_fixture::ChatFixture;

const BEGIN: &str = "<!-- restart matrix: written by the test scheduler::matrix -->\n";
const END: &str = "<!-- end of the restart matrix -->";

/// Times at which the daemon is stopped and started again, in the zone of the job.
struct Case {
    name: &'static str,
    zone: &'static str,
    /// Cron expression with five fields.
    cron: &'static str,
    misfire: &'static str,
    /// Creation time of the job; the daemon runs from then on.
    made: &'static str,
    /// Times of the stop and the restart, with the zone offset.
    stopped: &'static str,
    restarted: &'static str,
    /// Times to which the clock is set one after the other while the daemon runs.
    clock_changes: &'static [&'static str],
}

const CASES: &[Case] = &[
    // Europe/Berlin, +01:00 in winter.
    case(
        "stopped for minutes before the slot",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:50:00+01:00",
        "2026-01-05T08:55:00+01:00",
        &["2026-01-05T09:00:00+01:00"],
    ),
    case(
        "stopped for minutes, started at the slot",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:55:00+01:00",
        "2026-01-05T09:00:00+01:00",
        &[],
    ),
    case(
        "stopped for minutes during the slot",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:58:00+01:00",
        "2026-01-05T09:10:00+01:00",
        &["2026-01-05T09:11:00+01:00"],
    ),
    case(
        "stopped for an hour after the run",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T09:01:00+01:00",
        "2026-01-05T10:01:00+01:00",
        &[],
    ),
    case(
        "stopped for hours during the slot",
        BERLIN,
        DAILY,
        "2026-01-05T05:00:00+01:00",
        "2026-01-05T06:00:00+01:00",
        "2026-01-05T13:00:00+01:00",
        &[],
    ),
    case(
        "stopped for hours during many slots",
        BERLIN,
        HALF_HOURLY,
        "2026-01-05T05:50:00+01:00",
        "2026-01-05T06:10:00+01:00",
        "2026-01-05T13:10:00+01:00",
        &["2026-01-05T13:30:00+01:00"],
    ),
    skipping(
        "stopped for hours during many slots, misfire `skip`",
        BERLIN,
        HALF_HOURLY,
        "2026-01-05T05:50:00+01:00",
        "2026-01-05T06:10:00+01:00",
        "2026-01-05T13:10:00+01:00",
        &["2026-01-05T13:30:00+01:00"],
    ),
    running_all(
        "stopped for hours during many slots, misfire `run_all`",
        BERLIN,
        HALF_HOURLY,
        "2026-01-05T05:50:00+01:00",
        "2026-01-05T06:10:00+01:00",
        "2026-01-05T13:10:00+01:00",
        &[],
    ),
    case(
        "stopped for two days during two slots",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:30:00+01:00",
        "2026-01-07T08:30:00+01:00",
        &["2026-01-07T09:00:00+01:00"],
    ),
    case(
        "stopped during the gap (02:00 to 03:00), fixed time in it",
        BERLIN,
        "15 2 * * *",
        "2026-03-28T12:00:00+01:00",
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T05:00:00+02:00",
        &[],
    ),
    case(
        "running during the gap, fixed time in it",
        BERLIN,
        "15 2 * * *",
        "2026-03-28T12:00:00+01:00",
        "2026-03-29T00:30:00+01:00",
        "2026-03-29T01:00:00+01:00",
        &["2026-03-29T03:00:00+02:00", "2026-03-29T03:15:00+02:00"],
    ),
    case(
        "stopped during the repeated hour (02:00 to 03:00), fixed time in it",
        BERLIN,
        "15 2 * * *",
        "2026-10-24T12:00:00+02:00",
        "2026-10-25T01:30:00+02:00",
        "2026-10-25T05:00:00+01:00",
        &[],
    ),
    case(
        "running during the repeated hour, fixed time in it",
        BERLIN,
        "15 2 * * *",
        "2026-10-24T12:00:00+02:00",
        "2026-10-25T01:00:00+02:00",
        "2026-10-25T01:30:00+02:00",
        &["2026-10-25T02:15:00+02:00", "2026-10-25T02:15:00+01:00"],
    ),
    case(
        "running during the repeated hour, interval pattern",
        BERLIN,
        HALF_HOURLY,
        "2026-10-25T01:40:00+02:00",
        "2026-10-25T01:45:00+02:00",
        "2026-10-25T01:50:00+02:00",
        &[
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00",
            "2026-10-25T03:00:00+01:00",
        ],
    ),
    case(
        "clock set back by an hour after the run",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:10:00+01:00",
        "2026-01-05T08:20:00+01:00",
        &[
            "2026-01-05T09:00:00+01:00",
            "2026-01-05T08:00:00+01:00",
            "2026-01-05T09:00:00+01:00",
            "2026-01-05T09:05:00+01:00",
        ],
    ),
    case(
        "clock set forward past the slot, and back",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:10:00+01:00",
        "2026-01-05T08:20:00+01:00",
        &["2026-01-05T09:20:00+01:00", "2026-01-05T08:20:00+01:00", "2026-01-05T09:00:00+01:00"],
    ),
    case(
        "stopped, and started with a clock one hour behind",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T09:01:00+01:00",
        "2026-01-05T08:10:00+01:00",
        &["2026-01-05T09:00:00+01:00"],
    ),
    // America/New_York, -05:00 in winter.
    case(
        "stopped for minutes during the slot",
        NEW_YORK,
        DAILY,
        "2026-01-05T08:00:00-05:00",
        "2026-01-05T08:58:00-05:00",
        "2026-01-05T09:10:00-05:00",
        &[],
    ),
    case(
        "stopped for two days during two slots",
        NEW_YORK,
        DAILY,
        "2026-01-05T08:00:00-05:00",
        "2026-01-05T08:30:00-05:00",
        "2026-01-07T08:30:00-05:00",
        &[],
    ),
    case(
        "stopped during the gap (02:00 to 03:00), fixed time in it",
        NEW_YORK,
        "15 2 * * *",
        "2026-03-07T12:00:00-05:00",
        "2026-03-08T01:30:00-05:00",
        "2026-03-08T05:00:00-04:00",
        &[],
    ),
    case(
        "stopped during the repeated hour (01:00 to 02:00), fixed time in it",
        NEW_YORK,
        "15 1 * * *",
        "2026-10-31T12:00:00-04:00",
        "2026-11-01T00:30:00-04:00",
        "2026-11-01T05:00:00-05:00",
        &[],
    ),
    case(
        "running during the repeated hour, fixed time in it",
        NEW_YORK,
        "15 1 * * *",
        "2026-10-31T12:00:00-04:00",
        "2026-11-01T00:00:00-04:00",
        "2026-11-01T00:30:00-04:00",
        &["2026-11-01T01:15:00-04:00", "2026-11-01T01:15:00-05:00"],
    ),
    // Australia/Lord_Howe, +11:00 in summer, +10:30 in winter.
    case(
        "stopped for minutes during the slot",
        LORD_HOWE,
        DAILY,
        "2026-01-05T08:00:00+11:00",
        "2026-01-05T08:58:00+11:00",
        "2026-01-05T09:10:00+11:00",
        &[],
    ),
    case(
        "stopped for two days during two slots",
        LORD_HOWE,
        DAILY,
        "2026-01-05T08:00:00+11:00",
        "2026-01-05T08:30:00+11:00",
        "2026-01-07T08:30:00+11:00",
        &[],
    ),
    case(
        "stopped during the repeated half hour (01:30 to 02:00), fixed time in it",
        LORD_HOWE,
        "45 1 * * *",
        "2026-04-04T12:00:00+11:00",
        "2026-04-05T01:00:00+11:00",
        "2026-04-05T05:00:00+10:30",
        &[],
    ),
    case(
        "stopped during the gap (02:00 to 02:30), fixed time in it",
        LORD_HOWE,
        "15 2 * * *",
        "2026-10-03T12:00:00+10:30",
        "2026-10-04T01:30:00+10:30",
        "2026-10-04T05:00:00+11:00",
        &[],
    ),
];

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";
const DAILY: &str = "0 9 * * *";
const HALF_HOURLY: &str = "*/30 * * * *";

const fn case(
    name: &'static str,
    zone: &'static str,
    cron: &'static str,
    made: &'static str,
    stopped: &'static str,
    restarted: &'static str,
    clock_changes: &'static [&'static str],
) -> Case {
    Case { name, zone, cron, misfire: "run_once", made, stopped, restarted, clock_changes }
}

const fn skipping(
    name: &'static str,
    zone: &'static str,
    cron: &'static str,
    made: &'static str,
    stopped: &'static str,
    restarted: &'static str,
    clock_changes: &'static [&'static str],
) -> Case {
    Case { misfire: "skip", ..case(name, zone, cron, made, stopped, restarted, clock_changes) }
}

const fn running_all(
    name: &'static str,
    zone: &'static str,
    cron: &'static str,
    made: &'static str,
    stopped: &'static str,
    restarted: &'static str,
    clock_changes: &'static [&'static str],
) -> Case {
    Case { misfire: "run_all", ..case(name, zone, cron, made, stopped, restarted, clock_changes) }
}

/// Formats a time in the zone, with the offset to distinguish repeated times.
fn local_time(time: &Value, zone: &str) -> String {
    let Some(time) = time.as_str() else { return "none".to_owned() };
    let zoned = at(time).to_jiff().in_tz(zone).expect("a zone");
    zoned.strftime("%m-%d %H:%M%:z").to_string()
}

async fn outcome(fixture: &mut ChatFixture, case: &Case) -> String {
    fixture.app.clock.set(at(case.made));
    let fields = json!({"misfire": case.misfire,
        "schedule": {"type": "cron", "expression": case.cron, "timezone": case.zone}});
    let made = id(&create(&fixture.app, &with(every(60), &fields)).await);
    // The daemon runs until the stop.
    let mut passed = at(case.made);
    while passed < at(case.stopped) {
        passed = (passed + std::time::Duration::from_secs(300)).min(at(case.stopped));
        fixture.app.clock.set(passed);
        fixture.app.run_workers().await;
    }
    fixture.app.stop().await;
    fixture.app.clock.set(at(case.restarted));
    fixture.app.try_start().await.expect("start the daemon");
    fixture.app.run_workers().await;
    for time in case.clock_changes {
        fixture.app.clock.set(at(time));
        fixture.app.run_workers().await;
    }
    let mut list = runs(&fixture.app, &made).await;
    list.sort_by_key(|run| run["scheduled_for"].to_string());
    let slots = |status: &str| -> Vec<String> {
        let with_status = list.iter().filter(|run| run["status"] == status);
        with_status.map(|run| local_time(&run["scheduled_for"], case.zone)).collect()
    };
    assert!(list.iter().all(|run| ["success", "skipped"].contains(&run["status"].as_str().expect("a status"))));
    let shown = |slots: Vec<String>| match slots.as_slice() {
        [] => "—".to_owned(),
        [one] => one.clone(),
        [one, two] => format!("{one}, {two}"),
        [first, .., last] => format!("{} slots, {first} to {last}", slots.len()),
    };
    let next = local_time(&job(&fixture.app, &made).await["next_run_at"], case.zone);
    fixture.app.delete(&format!("/api/scheduler/jobs/{made}")).send().await.expect_status(200);
    format!("{} | {} | {next}", shown(slots("success")), shown(slots("skipped")))
}

#[tokio::test]
async fn stop_around_a_slot_neither_loses_nor_repeats_runs() {
    let mut fixture = ChatFixture::saying(&["Fine."]).await;
    let mut table = String::from("| zone | cron | scenario | runs | skipped | next run |\n|---|---|---|---|---|---|\n");
    for case in CASES {
        let outcome = outcome(&mut fixture, case).await;
        let _ = writeln!(table, "| {} | `{}` | {} | {outcome} |", case.zone, case.cron, case.name);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/missed-runs.md");
    let guide = std::fs::read_to_string(&path).expect("the guide");
    let (before, rest) = guide.split_once(BEGIN).expect("the start marker");
    let (written, after) = rest.split_once(END).expect("the end marker");
    if std::env::var_os("AGENTD_TEST_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).expect("written");
        return;
    }
    assert_eq!(written, table, "docs/reference/missed-runs.md is out of date; run with AGENTD_TEST_WRITE_DOCS=1");
}
