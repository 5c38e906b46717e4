//! Every number in a text appears in the schedule, or the schedule is uncertain.

use agentd_schedule::{MIN_CONFIDENCE, Parsed, Schedule};
use proptest::prelude::*;
use proptest::sample::select;

use super::{parse, written};

/// Text with a number, and the numbers of which one must appear in the schedule.
#[derive(Debug, Clone)]
struct Said {
    words: String,
    stands_as: Vec<i64>,
}

/// Generates one of `templates` with one of `numbers`, which must appear in the schedule as is or plus `offset`.
fn said(
    numbers: impl Strategy<Value = i64> + 'static,
    templates: &'static [&'static str],
    offset: i64,
) -> BoxedStrategy<Said> {
    (numbers, select(templates))
        .prop_map(move |(number, template)| Said {
            words: template.replace("{}", &number.to_string()),
            stands_as: if template.contains("{}") { vec![number, number + offset] } else { Vec::new() },
        })
        .boxed()
}

/// No three of them are consecutive, because cron would write them as a range.
fn minute() -> impl Strategy<Value = i64> {
    (5..30i64).prop_map(|half| half * 2)
}

fn rhythm() -> impl Strategy<Value = Said> {
    let bare =
        ["every hour", "every day", "every weekday", "jeden Tag", "stündlich", "every month", "mondays", "tomorrow"];
    prop_oneof![
        4 => select(bare.to_vec()).prop_map(|words| Said { words: words.to_owned(), stands_as: Vec::new() }),
        1 => said(select(vec![5, 10, 15, 20, 30, 7, 90]), &["every {} minutes", "alle {} Minuten", "every {} mins"], 0),
        1 => said(select(vec![2, 3, 6, 12, 5, 36]), &["every {} hours", "alle {} Stunden", "{} times an hour"], 0),
        // Seven days are a week.
        1 => said(2..7i64, &["every {} days", "alle {} Tage", "every {} weeks", "every {} months"], 0),
        1 => said(minute(), &["hourly at :{}", "every hour at minute {}", "stündlich {} nach"], 0),
        // It is ten o'clock on the tenth.
        1 => said(11..31i64, &["on March {}", "every {} March", "am {}. März", "in {} minutes"], 0),
        1 => said(2..14i64, &["in {} hours", "in {} days", "in {} Tagen"], 10),
    ]
}

fn detail() -> impl Strategy<Value = Said> {
    prop_oneof![
        said(
            minute(),
            &["at minute {}", "at min {}", ", minute {}", "at :{}", "um Minute {}", "at {} past the hour"],
            0
        ),
        said(4..21i64, &["on day {}", "on the {}th", "am {}.", "am Tag {}", "day {}"], 0),
        said(0..24i64, &["at {}:00", "um {} Uhr", "at {}h"], 0),
        said(1..12i64, &["at {}pm"], 12),
        // The last slot may be in the preceding hour.
        said(13..24i64, &["until {}", "bis {} Uhr"], -1),
        said(10..24i64, &["with {}", "plus {}", "and {}", "for {} times", "{}", "at spot {}", "or {}"], 0),
        said(2..9i64, &["and {} minutes", "and {} seconds", "the {}th hour", "x{}"], 0),
    ]
}

fn sentence() -> impl Strategy<Value = Vec<Said>> {
    let window = prop_oneof![
        2 => Just(Vec::new()),
        1 => (said(1..11i64, &["between {}:00 and", "von {} bis"], 0), said(13..24i64, &["{}:00"], -1))
            .prop_map(|(start, end)| vec![start, end]),
    ];
    let days = select(vec!["", "on weekdays", "Monday through Friday", "werktags", "mon,wed,fri", "in june"]);
    let days = days.prop_map(|words| vec![Said { words: words.to_owned(), stands_as: Vec::new() }]);
    let details = proptest::collection::vec(detail(), 0..3);
    (rhythm(), details, window, days, any::<bool>()).prop_map(|(rhythm, details, window, days, turned)| {
        let mut parts: Vec<Said> = std::iter::once(rhythm).chain(details).collect();
        if turned {
            parts.reverse();
        }
        parts.into_iter().chain(window).chain(days).collect()
    })
}

/// Returns all numbers of the expression and the text, and those of an interval in each unit.
fn numbers(parsed: &Parsed) -> Vec<i64> {
    let text = format!("{} {}", written(&parsed.schedule), parsed.human_readable);
    let digits = text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    let mut found: Vec<i64> = digits.collect();
    if let Schedule::Every(every) = &parsed.schedule {
        let seconds = every.interval_seconds();
        // "an hour and 20 minutes", "5 times an hour".
        found.extend([seconds / 60, seconds / 3_600, seconds / 86_400, seconds / 60 % 60, 3_600 / seconds]);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn every_number_is_in_the_schedule_or_it_is_uncertain(parts in sentence()) {
        let text = parts.iter().map(|part| part.words.as_str()).collect::<Vec<_>>().join(" ");
        if let Some(parsed) = parse(&text).filter(|parsed| parsed.confidence >= MIN_CONFIDENCE) {
            let found = numbers(&parsed);
            let passed_over = parts.iter().find(|part| {
                !part.stands_as.is_empty() && !part.stands_as.iter().any(|number| found.contains(number))
            });
            prop_assert!(
                passed_over.is_none(),
                "{text:?}: {passed_over:?} is not in {} ({})",
                written(&parsed.schedule),
                parsed.confidence
            );
        }
    }
}

#[test]
fn complete_texts_are_certain_and_assumptions_reduce_confidence() {
    let certain = [
        ("every hour at min 11", "cron 11 * * * *"),
        ("every 12 hours at minute 50", "cron 50 */12 * * *"),
        ("every Mon,Tue,Wed,Thu,Fri at 18:00", "cron 0 18 * * 1-5"),
        ("every month on day 2 at 10:00", "cron 0 10 2 * *"),
        ("Run every 5 minutes Monday through Friday between 8:00 am and 5:55 pm", "cron */5 8-17 * * 1-5"),
        ("every weekday 8am to 5pm on the hour", "cron 0 8-17 * * 1-5"),
        ("every month on the 1st and the last at 12:00 pm", "cron 0 12 1,L * *"),
        ("alle zweiundzwanzig Minuten", "every 1320"),
    ];
    for (text, meant) in certain {
        let parsed = parse(text).unwrap();
        assert!(written(&parsed.schedule) == meant && parsed.confidence >= 0.9, "{text}: {parsed:?}");
    }
    let parsed = parse("every fourth thursday in november").unwrap();
    assert_eq!(written(&parsed.schedule), "cron 0 9 * 11 4#4");
    assert!((MIN_CONFIDENCE..0.9).contains(&parsed.confidence), "{}", parsed.confidence);
}
