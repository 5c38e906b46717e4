//! The restart matrix: a daemon that is stopped around a slot, for minutes, hours and days, in three zones, across
//! both changes of the clocks, and with a clock that is set back and forth. Its outcome is a table in the guide,
//! which this test holds against what happened. `AGENTD_TEST_WRITE_DOCS=1` writes the table anew.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{at, create, every, id, job, runs, with};
use crate::support::talk::Talk;

const BEGIN: &str = "<!-- restart matrix: written by the test scheduler::matrix -->\n";
const END: &str = "<!-- end of the restart matrix -->";

/// The daemon is stopped at one time and back at another; both in the zone of the job.
struct Case {
    what: &'static str,
    zone: &'static str,
    /// Five fields.
    cron: &'static str,
    misfire: &'static str,
    /// When the job is made; the daemon runs from then on.
    made: &'static str,
    /// When the daemon is stopped, and when it is back. With the same zone offset as written.
    stopped: &'static str,
    back: &'static str,
    /// The clock is set to these one after the other, while the daemon runs.
    then: &'static [&'static str],
}

const CASES: &[Case] = &[
    // Europe/Berlin, +01:00 in winter.
    case(
        "minutes, before the slot",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:50:00+01:00",
        "2026-01-05T08:55:00+01:00",
        &["2026-01-05T09:00:00+01:00"],
    ),
    case(
        "minutes, back at the slot",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:55:00+01:00",
        "2026-01-05T09:00:00+01:00",
        &[],
    ),
    case(
        "minutes, over the slot",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:58:00+01:00",
        "2026-01-05T09:10:00+01:00",
        &["2026-01-05T09:11:00+01:00"],
    ),
    case(
        "an hour, after the slot's run",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T09:01:00+01:00",
        "2026-01-05T10:01:00+01:00",
        &[],
    ),
    case(
        "hours, over the slot",
        BERLIN,
        DAILY,
        "2026-01-05T05:00:00+01:00",
        "2026-01-05T06:00:00+01:00",
        "2026-01-05T13:00:00+01:00",
        &[],
    ),
    case(
        "hours, over many slots",
        BERLIN,
        HALF_HOURLY,
        "2026-01-05T05:50:00+01:00",
        "2026-01-05T06:10:00+01:00",
        "2026-01-05T13:10:00+01:00",
        &["2026-01-05T13:30:00+01:00"],
    ),
    skipping(
        "hours, over many slots, misfire `skip`",
        BERLIN,
        HALF_HOURLY,
        "2026-01-05T05:50:00+01:00",
        "2026-01-05T06:10:00+01:00",
        "2026-01-05T13:10:00+01:00",
        &["2026-01-05T13:30:00+01:00"],
    ),
    making_up(
        "hours, over many slots, misfire `run_all`",
        BERLIN,
        HALF_HOURLY,
        "2026-01-05T05:50:00+01:00",
        "2026-01-05T06:10:00+01:00",
        "2026-01-05T13:10:00+01:00",
        &[],
    ),
    case(
        "two days, over two slots",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:30:00+01:00",
        "2026-01-07T08:30:00+01:00",
        &["2026-01-07T09:00:00+01:00"],
    ),
    case(
        "over the gap (02:00 to 03:00), a fixed time in it",
        BERLIN,
        "15 2 * * *",
        "2026-03-28T12:00:00+01:00",
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T05:00:00+02:00",
        &[],
    ),
    case(
        "running over the gap, a fixed time in it",
        BERLIN,
        "15 2 * * *",
        "2026-03-28T12:00:00+01:00",
        "2026-03-29T00:30:00+01:00",
        "2026-03-29T01:00:00+01:00",
        &["2026-03-29T03:00:00+02:00", "2026-03-29T03:15:00+02:00"],
    ),
    case(
        "over the doubled hour (02:00 to 03:00), a fixed time in it",
        BERLIN,
        "15 2 * * *",
        "2026-10-24T12:00:00+02:00",
        "2026-10-25T01:30:00+02:00",
        "2026-10-25T05:00:00+01:00",
        &[],
    ),
    case(
        "running over the doubled hour, a fixed time in it",
        BERLIN,
        "15 2 * * *",
        "2026-10-24T12:00:00+02:00",
        "2026-10-25T01:00:00+02:00",
        "2026-10-25T01:30:00+02:00",
        &["2026-10-25T02:15:00+02:00", "2026-10-25T02:15:00+01:00"],
    ),
    case(
        "running over the doubled hour, an interval pattern",
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
        "the clock set back by an hour after the run",
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
        "the clock set forth over the slot, and back",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T08:10:00+01:00",
        "2026-01-05T08:20:00+01:00",
        &["2026-01-05T09:20:00+01:00", "2026-01-05T08:20:00+01:00", "2026-01-05T09:00:00+01:00"],
    ),
    case(
        "stopped, and back with a clock an hour behind",
        BERLIN,
        DAILY,
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T09:01:00+01:00",
        "2026-01-05T08:10:00+01:00",
        &["2026-01-05T09:00:00+01:00"],
    ),
    // America/New_York, -05:00 in winter.
    case(
        "minutes, over the slot",
        NEW_YORK,
        DAILY,
        "2026-01-05T08:00:00-05:00",
        "2026-01-05T08:58:00-05:00",
        "2026-01-05T09:10:00-05:00",
        &[],
    ),
    case(
        "two days, over two slots",
        NEW_YORK,
        DAILY,
        "2026-01-05T08:00:00-05:00",
        "2026-01-05T08:30:00-05:00",
        "2026-01-07T08:30:00-05:00",
        &[],
    ),
    case(
        "over the gap (02:00 to 03:00), a fixed time in it",
        NEW_YORK,
        "15 2 * * *",
        "2026-03-07T12:00:00-05:00",
        "2026-03-08T01:30:00-05:00",
        "2026-03-08T05:00:00-04:00",
        &[],
    ),
    case(
        "over the doubled hour (01:00 to 02:00), a fixed time in it",
        NEW_YORK,
        "15 1 * * *",
        "2026-10-31T12:00:00-04:00",
        "2026-11-01T00:30:00-04:00",
        "2026-11-01T05:00:00-05:00",
        &[],
    ),
    case(
        "running over the doubled hour, a fixed time in it",
        NEW_YORK,
        "15 1 * * *",
        "2026-10-31T12:00:00-04:00",
        "2026-11-01T00:00:00-04:00",
        "2026-11-01T00:30:00-04:00",
        &["2026-11-01T01:15:00-04:00", "2026-11-01T01:15:00-05:00"],
    ),
    // Australia/Lord_Howe, +11:00 in summer, +10:30 in winter.
    case(
        "minutes, over the slot",
        LORD_HOWE,
        DAILY,
        "2026-01-05T08:00:00+11:00",
        "2026-01-05T08:58:00+11:00",
        "2026-01-05T09:10:00+11:00",
        &[],
    ),
    case(
        "two days, over two slots",
        LORD_HOWE,
        DAILY,
        "2026-01-05T08:00:00+11:00",
        "2026-01-05T08:30:00+11:00",
        "2026-01-07T08:30:00+11:00",
        &[],
    ),
    case(
        "over the doubled half hour (01:30 to 02:00), a fixed time in it",
        LORD_HOWE,
        "45 1 * * *",
        "2026-04-04T12:00:00+11:00",
        "2026-04-05T01:00:00+11:00",
        "2026-04-05T05:00:00+10:30",
        &[],
    ),
    case(
        "over the gap (02:00 to 02:30), a fixed time in it",
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
    what: &'static str,
    zone: &'static str,
    cron: &'static str,
    made: &'static str,
    stopped: &'static str,
    back: &'static str,
    then: &'static [&'static str],
) -> Case {
    Case { what, zone, cron, misfire: "run_once", made, stopped, back, then }
}

const fn skipping(
    what: &'static str,
    zone: &'static str,
    cron: &'static str,
    made: &'static str,
    stopped: &'static str,
    back: &'static str,
    then: &'static [&'static str],
) -> Case {
    Case { misfire: "skip", ..case(what, zone, cron, made, stopped, back, then) }
}

const fn making_up(
    what: &'static str,
    zone: &'static str,
    cron: &'static str,
    made: &'static str,
    stopped: &'static str,
    back: &'static str,
    then: &'static [&'static str],
) -> Case {
    Case { misfire: "run_all", ..case(what, zone, cron, made, stopped, back, then) }
}

/// Day and time on a wall in that zone, with the offset where two would look the same.
fn wall(time: &Value, zone: &str) -> String {
    let Some(time) = time.as_str() else { return "none".to_owned() };
    let zoned = at(time).to_jiff().in_tz(zone).expect("a zone");
    zoned.strftime("%m-%d %H:%M%:z").to_string()
}

async fn outcome(talk: &mut Talk, case: &Case) -> String {
    talk.app.clock.set(at(case.made));
    let fields = json!({"misfire": case.misfire,
        "schedule": {"type": "cron", "expression": case.cron, "timezone": case.zone}});
    let made = id(&create(&talk.app, &with(every(60), &fields)).await);
    // It runs to the moment at which it is stopped.
    let mut passed = at(case.made);
    while passed < at(case.stopped) {
        passed = (passed + std::time::Duration::from_secs(300)).min(at(case.stopped));
        talk.app.clock.set(passed);
        talk.app.run_workers().await;
    }
    talk.app.stop().await;
    talk.app.clock.set(at(case.back));
    talk.app.try_start().await.expect("it starts");
    talk.app.run_workers().await;
    for time in case.then {
        talk.app.clock.set(at(time));
        talk.app.run_workers().await;
    }
    let mut list = runs(&talk.app, &made).await;
    list.sort_by_key(|run| run["scheduled_for"].to_string());
    let slots = |status: &str| -> Vec<String> {
        let of = list.iter().filter(|run| run["status"] == status);
        of.map(|run| wall(&run["scheduled_for"], case.zone)).collect()
    };
    assert!(list.iter().all(|run| ["success", "skipped"].contains(&run["status"].as_str().expect("a status"))));
    let shown = |slots: Vec<String>| match slots.as_slice() {
        [] => "—".to_owned(),
        [one] => one.clone(),
        [one, two] => format!("{one}, {two}"),
        [first, .., last] => format!("{} slots, {first} to {last}", slots.len()),
    };
    let next = wall(&job(&talk.app, &made).await["next_run_at"], case.zone);
    talk.app.delete(&format!("/api/scheduler/jobs/{made}")).send().await.expect_status(200);
    format!("{} | {} | {next}", shown(slots("success")), shown(slots("skipped")))
}

#[tokio::test]
async fn a_stop_anywhere_around_a_slot_loses_none_and_runs_none_twice() {
    let mut talk = Talk::saying(&["Fine."]).await;
    let mut table = String::from(
        "| zone | cron | the daemon is stopped | runs | left out, visible as skipped | next |\n|---|---|---|---|---|---|\n",
    );
    for case in CASES {
        let outcome = outcome(&mut talk, case).await;
        let _ = writeln!(table, "| {} | `{}` | {} | {outcome} |", case.zone, case.cron, case.what);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide/scheduler.md");
    let guide = std::fs::read_to_string(&path).expect("the guide");
    let (before, rest) = guide.split_once(BEGIN).expect("the table's beginning");
    let (written, after) = rest.split_once(END).expect("the table's end");
    if std::env::var_os("AGENTD_TEST_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).expect("written");
        return;
    }
    assert_eq!(written, table, "docs/guide/scheduler.md does not say what happens");
}
