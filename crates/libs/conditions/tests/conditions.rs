//! Accepted conditions and their results.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use agentd_base::Timestamp;
use agentd_conditions::{Condition, ConditionError, Input, Values, Variable};
use proptest::prelude::*;
use serde_json::json;

const VARIABLES: &[Variable] = &[
    Variable { name: "now", max_size: 1 },
    Variable { name: "job", max_size: 2_000 },
    Variable { name: "last_run", max_size: 4_000 },
    Variable { name: "run_count", max_size: 1 },
    Variable { name: "latency_p95_ms", max_size: 1 },
];

fn values() -> Values {
    Values::new()
        .with("now", Input::Time(Timestamp::parse("2026-01-05T09:00:00Z").unwrap()))
        .with("job", Input::Json(json!({"name": "report", "tags": ["a", "b"], "last_run_at": "2026-01-04T09:00:00Z"})))
        .with("last_run", Input::Json(json!({"status": "failed", "output": "x".repeat(2_000)})))
        .with("run_count", Input::Json(json!(3)))
        .with("latency_p95_ms", Input::Json(json!(120.5)))
}

fn evaluate(text: &str) -> Result<bool, ConditionError> {
    Condition::compile(text, VARIABLES)?.evaluate(&values())
}

#[test]
fn typical_conditions_are_evaluated() {
    for (text, expected) in [
        ("true", true),
        ("run_count < 10", true),
        ("run_count % 2 == 0", false),
        ("run_count + 1 == 4 && !(run_count > 5)", true),
        ("last_run.status == 'success'", false),
        ("last_run == null || last_run.status != 'success'", true),
        ("last_run.status in ['failed', 'timeout']", true),
        ("job.name.startsWith('rep')", true),
        ("job.tags.exists(tag, tag == 'b')", true),
        ("job.tags.all(tag, tag == 'b')", false),
        ("size(job.tags) == 2", true),
        ("last_run.output.contains('error')", false),
        ("last_run.output.matches('^x+$')", true),
        ("now > timestamp('2026-01-01T00:00:00Z')", true),
        ("now - timestamp(job.last_run_at) > duration('23h')", true),
        ("now.getDayOfWeek() == 1", true),
        ("now.getHours() >= 9 && now.getHours() < 17", true),
        ("latency_p95_ms > 100.0", true),
        ("has(last_run.error)", false),
        ("run_count > 1 ? job.name == 'report' : false", true),
    ] {
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
}

#[test]
fn invalid_conditions_have_a_reason() {
    for (text, part) in [
        ("", "empty"),
        ("  \n ", "empty"),
        ("run_count >", "not valid CEL"),
        ("run_count = 3", "not valid CEL"),
        ("(((", "not valid CEL"),
        ("job['name'", "not valid CEL"),
        ("runs > 3", "unknown variable `runs`"),
        ("job.tags.exists(tag, tags == 'b')", "unknown variable `tags`"),
        ("__result__ == 1", "unknown variable"),
        ("run_count", "true or false"),
        ("'yes'", "true or false"),
        ("run_count + 'a' == 'b'", "cannot be evaluated"),
        ("1 / 0 == 1", "cannot be evaluated"),
        ("job.nothing == 1", "cannot be evaluated"),
        ("launch(run_count)", "cannot be evaluated"),
        ("9223372036854775807 + 1 > 0", "cannot be evaluated"),
    ] {
        let error = evaluate(text).expect_err(text);
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

#[test]
fn expensive_conditions_are_rejected_before_evaluation() {
    let doubling = "a".to_owned() + &".map(b, b + b)".repeat(30);
    let list = format!("[{}]", vec!["1"; 150].join(","));
    let nested = format!("{list}.all(a, [1,2,3].all(b, {list}.all(c, job.tags.all(d, last_run.output.contains(d)))))");
    let huge = "true && ".repeat(300) + "true";
    let long = format!("'{}' == 'a'", "a".repeat(1_000));
    let deep = "(".repeat(200) + "true" + &")".repeat(200);
    let signs = "!".repeat(900) + "true";
    let chained = format!("['{}']{} == []", "a".repeat(100), ".map(b, b + b + b + b + b + b + b + b)".repeat(20));
    let outputs = "last_run.output.matches(last_run.output)".to_owned();
    assert_eq!(evaluate(&signs), Ok(true), "repeated negations cancel out");
    for text in [doubling, nested, huge, long, deep, chained] {
        let error = Condition::compile(&text, VARIABLES).expect_err(&text);
        assert!(!matches!(error, ConditionError::NotBoolean { .. }), "{text}: {error}");
    }
    assert!(evaluate(&outputs).is_ok(), "a single pattern is not a loop");
}

#[test]
fn errors_do_not_expose_interpreter_internals() {
    let nested = format!("{}true{}", "(".repeat(60), ")".repeat(60));
    for (text, part) in [
        (nested.as_str(), "nested too deeply; 32 levels"),
        ("now - timestamp(job.last_run_at) > duration('')", "`duration` expects a string such as '24h'"),
        ("timestamp('soon') < now", "`timestamp` expects a string such as"),
        ("timestamp(last_run.nothing) < now", "unknown field `nothing`"),
        ("run_count + 'a' == 'b'", "values of type int and string"),
        ("job.last_run_at < now", "convert the string with `timestamp(…)`"),
        ("now.getHours('Nowhere/X') == 9", "unknown time zone `Nowhere/X`"),
        ("launch(run_count)", "unknown function `launch`"),
        ("last_run.output.matches('(')", "regular expression"),
        ("job.tags[7] == 'a'", "list index out of range"),
        ("job.tags.contains(1, 2)", ""),
        ("null.contains('a')", ""),
        ("run_count.startsWith('a')", ""),
        ("-job.name == 'a'", ""),
        ("[1, {'a': now}] < [2]", ""),
    ] {
        let error = evaluate(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
        for inside in ["OtherError", "ParseError", "Error {", "Parsing Error", "String(", "Int(", "Timestamp(", "Arc"] {
            assert!(!error.contains(inside), "{text}: {error}");
        }
    }
}

#[test]
fn unknown_field_is_found_in_later_terms() {
    let unknown = |text: &str| Condition::compile(text, VARIABLES).unwrap().unknown_field("job", &["name", "tags"]);
    for text in ["run_count > 2 || job.nothing == 1", "[1].all(one, job.nothing == one)", "-job.nothing.part > 0"] {
        assert_eq!(unknown(text).as_deref(), Some("nothing"), "{text}");
    }
    for text in ["job.name == 'report'", "has(job.nothing)", "last_run.nothing == 1", "job == null"] {
        assert_eq!(unknown(text), None, "{text}");
    }
}

#[test]
fn zones_have_the_same_rules_as_schedules() {
    // Since November 2026, Vancouver no longer sets its clocks back.
    assert_eq!(evaluate("timestamp('2026-12-15T06:30:00Z').getHours('America/Vancouver') == 23"), Ok(true));
    let zones = [
        "UTC",
        "Europe/Berlin",
        "Europe/London",
        "America/Vancouver",
        "America/New_York",
        "America/St_Johns",
        "Africa/Casablanca",
        "Asia/Kolkata",
        "Asia/Tokyo",
        "Australia/Lord_Howe",
        "Pacific/Kiritimati",
        "Pacific/Pago_Pago",
    ];
    let database = jiff::tz::TimeZoneDatabase::bundled();
    for at in ["2026-12-15T06:30:45.678Z", "2026-02-20T00:10:00Z", "2027-07-04T12:00:01Z", "2024-12-31T23:59:59.999Z"] {
        let instant: jiff::Timestamp = at.parse().unwrap();
        for zone in zones {
            let there = instant.to_zoned(database.get(zone).unwrap());
            let parts: [(&str, i64); 10] = [
                ("getFullYear", there.year().into()),
                ("getMonth", i64::from(there.month()) - 1),
                ("getDayOfYear", i64::from(there.day_of_year()) - 1),
                ("getDayOfMonth", i64::from(there.day()) - 1),
                ("getDate", there.day().into()),
                ("getDayOfWeek", there.weekday().to_sunday_zero_offset().into()),
                ("getHours", there.hour().into()),
                ("getMinutes", there.minute().into()),
                ("getSeconds", there.second().into()),
                ("getMilliseconds", there.millisecond().into()),
            ];
            for (part, expected) in parts {
                let text = format!("timestamp('{at}').{part}('{zone}') == {expected}");
                assert_eq!(evaluate(&text), Ok(true), "{text}");
            }
        }
    }
}

#[test]
fn time_parts_are_in_utc_or_at_an_offset() {
    for text in [
        "timestamp('2026-01-05T01:30:00+02:00').getHours() == 23",
        "timestamp('2026-01-05T01:30:00+02:00').getDate() == 4",
        "timestamp('2026-01-05T01:30:00+02:00').getDayOfMonth() == 3",
        "timestamp('2026-01-05T01:30:00+02:00').getDayOfWeek() == 0",
        "timestamp('2026-01-01T00:00:00Z').getMonth() == 0 && timestamp('2026-01-01T00:00:00Z').getDayOfYear() == 0",
        "timestamp('2026-01-01T00:00:00Z').getDayOfYear('-08:00') == 364",
        "timestamp('2026-01-01T00:00:00Z').getMinutes('-00:30') == 30",
        "timestamp('2026-01-01T00:00:00Z').getHours('05:30') == 5",
        "timestamp('9999-12-31T23:59:59Z').getHours('Asia/Tokyo') == 8",
        "timestamp('0001-01-01T00:00:00Z').getFullYear('-01:00') == 0",
        "duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90",
        "now.getHours('Europe/Berlin') == 10",
    ] {
        assert_eq!(evaluate(text), Ok(true), "{text}");
    }
    for zone in ["Mars/Base", "", "Local", "+2:00", "24:00", "+01:60", "ab:00", "+-1:00", ":", "../UTC"] {
        let error = evaluate(&format!("now.getHours('{zone}') == 1")).expect_err(zone).to_string();
        assert!(error.contains(&format!("unknown time zone `{zone}`; use an IANA name")), "{zone}: {error}");
    }
    for text in ["now.getHours(1) == 1", "duration('1h').getHours('UTC') == 1", "job.getDate() == 1"] {
        assert!(matches!(evaluate(text), Err(ConditionError::Evaluation { .. })), "{text}");
    }
}

#[test]
fn zones_in_loops_are_charged() {
    let loops = |body: &str| format!("[1, 2, 3, 4, 5].all(a, [1, 2, 3, 4, 5].all(b, {body} >= 0))");
    assert!(Condition::compile(&loops("now.getHours()"), VARIABLES).is_ok());
    let error = Condition::compile(&loops("now.getHours('Europe/Berlin')"), VARIABLES).expect_err("too much");
    assert_eq!(error, ConditionError::TooLarge);
}

#[test]
fn examples_decide_whether_a_condition_is_accepted() {
    let first = Values::new().with("last_run", Input::Json(json!(null)));
    let later = Values::new().with("last_run", Input::Json(json!({"status": "success"})));
    let variables = &[Variable { name: "last_run", max_size: 100 }];
    let condition = Condition::compile("last_run.status == 'success'", variables).unwrap();
    assert!(condition.evaluate(&first).is_err());
    assert_eq!(condition.check_with_examples(&[first.clone(), later.clone()]), Ok(()));
    let number = Condition::compile("size(last_run.status)", variables).unwrap();
    assert!(matches!(number.check_with_examples(&[first, later]), Err(ConditionError::NotBoolean { .. })));
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in "\\PC{0,200}") {
        let _ = evaluate(&text);
    }

    #[test]
    fn expression_like_text_does_not_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "job", "last_run", "now", "run_count", ".", ".status", "(", ")", "[", "]", "'a'", "\"b\"", "1", "2.5",
                "-", "!", "+", "*", "/", "%", "==", "<", "&&", "||", "?", ":", ",", "{", "}", "in", "true", "null",
                ".map(x, x)", ".all(y, y == 1)", "size(", "duration('1h')", "timestamp(", "has(job.x)", "u", "\\", "\n",
            ]),
            0..30,
        )
    ) {
        let _ = evaluate(&parts.concat());
        let _ = evaluate(&parts.join(" "));
    }
}

#[test]
fn missing_values_are_unknown_rather_than_false() {
    let known =
        Values::new().with("run_count", Input::Json(json!(3.0))).with("latency_p95_ms", Input::Json(json!(120.5)));
    let texts = [
        ("run_count > 2", Some(true)),
        ("run_count == 3 && latency_p95_ms > 120", Some(true)),
        ("run_count + latency_p95_ms > 123.0", Some(true)),
        ("job > 2", None),
        ("job != 2", None),
        ("!(job > 2)", None),
        ("job > 2 || run_count > 2", Some(true)),
        ("run_count > 2 || job > 2", Some(true)),
        ("job > 2 || run_count > 5", None),
        ("job > 2 && run_count > 5", Some(false)),
        ("job > 2 && run_count > 2", None),
    ];
    let conditions: Vec<Condition> =
        texts.iter().map(|(text, _)| Condition::compile(text, VARIABLES).unwrap()).collect();
    let pairs: Vec<(&Condition, &Values)> = conditions.iter().map(|condition| (condition, &known)).collect();
    let found: Vec<Option<bool>> = Condition::evaluate_all(&pairs).into_iter().map(Result::ok).collect();
    for ((text, expected), found) in texts.into_iter().zip(found) {
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn names_returns_the_used_variables() {
    let names = |text: &str| -> Vec<&str> {
        Condition::compile(text, VARIABLES).unwrap().names(VARIABLES).iter().map(|variable| variable.name).collect()
    };
    assert_eq!(names("latency_p95_ms > 5.0 && run_count < 3 && run_count > 1"), ["latency_p95_ms", "run_count"]);
    assert_eq!(names("[1].exists(x, x > run_count)"), ["run_count"]);
    assert_eq!(names("true"), Vec::<&str>::new());
}
