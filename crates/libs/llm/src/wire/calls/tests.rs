//! Assignment of fragments to calls.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Takes index, id, name and arguments of each fragment; returns name and input of each call.
fn read(fragments: &[(u64, &str, &str, &str)]) -> Vec<(String, Value)> {
    let mut calls = Calls::new(1);
    for &(index, id, name, arguments) in fragments {
        calls.add(Fragment { index, id, name, arguments }).unwrap();
    }
    calls.take().into_iter().map(|finished| (finished.call.name, finished.call.input)).collect()
}

/// Description, fragments and expected calls.
type Case<'a> = (&'a str, &'a [(u64, &'a str, &'a str, &'a str)], &'a [(&'a str, Value)]);

#[test]
fn fragments_are_assigned_to_their_calls() {
    let (oslo, rome) = (r#"{"city":"Oslo"}"#, r#"{"city":"Rome"}"#);
    let both = [("weather", json!({"city": "Oslo"})), ("weather", json!({"city": "Rome"}))];
    let one = &both[..1];
    let cases: &[Case<'_>] = &[
        ("standard", &[(0, "a", "weather", ""), (0, "", "", oslo), (1, "b", "weather", ""), (1, "", "", rome)], &both),
        ("one index, ids", &[(0, "a", "weather", oslo), (0, "b", "weather", rome)], &both),
        ("one index, no ids", &[(0, "", "weather", oslo), (0, "", "weather", rome)], &both),
        (
            "one index, no ids, arguments after the name",
            &[(0, "", "weather", ""), (0, "", "", oslo), (0, "", "weather", ""), (0, "", "", rome)],
            &both,
        ),
        ("one index, one name", &[(0, "a", "weather", oslo), (0, "", "", rome)], &both),
        ("one fragment", &[(0, "a", "weather", r#"{"city":"Oslo"}{"city":"Rome"}"#)], &both),
        (
            "interleaved by id",
            &[
                (0, "a", "weather", "{\"city\":"),
                (0, "b", "weather", "{\"city\":"),
                (0, "a", "weather", "\"Oslo\"}"),
                (0, "b", "weather", "\"Rome\"}"),
            ],
            &both,
        ),
        ("name in each fragment", &[(0, "", "weather", "{\"city\":"), (0, "", "weather", "\"Oslo\"}")], one),
        ("new id in each fragment", &[(0, "a", "weather", "{\"city\":"), (0, "b", "", "\"Oslo\"}")], one),
        ("empty object first", &[(0, "a", "weather", "{}"), (0, "", "", oslo)], one),
        ("empty object last", &[(0, "a", "weather", oslo), (0, "", "", "{}")], one),
        ("arguments repeated", &[(0, "a", "weather", oslo), (0, "a", "weather", oslo)], one),
        ("arguments repeated without an id", &[(0, "a", "weather", oslo), (0, "", "weather", oslo)], one),
        ("closing fragment", &[(0, "a", "weather", oslo), (0, "", "weather", ""), (0, "", "", "")], one),
        ("name last", &[(0, "", "", ""), (0, "a", "weather", ""), (0, "", "", oslo)], one),
        ("nothing", &[(0, "", "", "")], &[]),
    ];
    for (case, fragments, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|(name, input)| ((*name).to_owned(), input.clone())).collect();
        assert_eq!(read(fragments), expected, "{case}");
    }
    let other = [("weather".to_owned(), json!({"city": "Oslo"})), ("clock".to_owned(), json!({}))];
    assert_eq!(read(&[(0, "", "weather", oslo), (0, "", "clock", "{}")]), other);
    assert_eq!(read(&[(0, "", "weather", oslo), (0, "", "clock", "")]), other);
}

#[test]
fn initial_input_is_used_if_no_arguments_follow() {
    for (initial, arguments, expected) in [
        (json!({"city": "Oslo"}), "", json!({"city": "Oslo"})),
        (json!({"city": "Oslo"}), "{}", json!({"city": "Oslo"})),
        (json!({"city": "Oslo"}), r#"{"city":"Oslo"}"#, json!({"city": "Oslo"})),
        (json!({}), r#"{"city":"Oslo"}"#, json!({"city": "Oslo"})),
        (json!(r#"{"city":"Oslo"}"#), "", json!({"city": "Oslo"})),
        (json!({}), "", json!({})),
    ] {
        let mut calls = Calls::new(1);
        calls.begin(0, "a", "weather", Some(initial.clone())).unwrap();
        calls.extend(0, arguments).unwrap();
        let inputs: Vec<_> = calls.take().into_iter().map(|finished| finished.call.input).collect();
        assert_eq!(inputs, [expected], "{initial} {arguments}");
    }
}

#[test]
fn malformed_arguments_stay_text() {
    for text in ["{\"x\": ", "{} {\"x\"", "1 2", "look", "{\"a\":1} 5"] {
        assert_eq!(read_arguments(text), [json!(text)], "{text}");
    }
    assert_eq!(read_arguments(" "), [json!({})]);
    assert_eq!(read_arguments("[1]"), [json!([1])]);
}

#[test]
fn generated_call_ids_are_unique() {
    let mut calls = Calls::new(4);
    calls.add(Fragment { name: "f", arguments: "{\"a\":1}{\"a\":2}", ..Fragment::default() }).unwrap();
    calls.add(Fragment { index: 1, id: "x", name: "g", arguments: "{}" }).unwrap();
    let ids: Vec<_> = calls.take().into_iter().map(|finished| finished.call.id).collect();
    assert_eq!(ids, ["call_4_0", "call_4_1", "x"]);
}

proptest! {
    /// For any fragmentation of the arguments, whether or not the name is repeated.
    #[test]
    fn arguments_are_joined_for_any_fragmentation(
        text in "[a-z\"\\\\{}\\[\\]é]{0,12}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        repeats_name in any::<bool>(),
    ) {
        let input = json!({"text": text, "deep": [{}, {"x": null}]});
        let arguments = input.to_string();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(arguments.len())).collect();
        ends.retain(|end| *end > 0 && arguments.is_char_boundary(*end));
        ends.push(arguments.len());
        ends.sort_unstable();
        ends.dedup();
        let (mut begin, mut calls) = (0, Calls::new(1));
        for end in ends {
            let name = if begin == 0 || repeats_name { "f" } else { "" };
            calls.add(Fragment { name, arguments: &arguments[begin..end], ..Fragment::default() }).unwrap();
            begin = end;
        }
        let inputs: Vec<_> = calls.take().into_iter().map(|finished| finished.call.input).collect();
        prop_assert_eq!(inputs, [input]);
    }
}
