use proptest::prelude::*;
use serde_json::json;

use super::*;

fn event() -> Value {
    json!({
        "id": "evt_1", "type": "memory.stored", "timestamp": "2026-01-05T09:00:00.000Z",
        "data": {"agent_id": "a", "importance": 0.5, "n": 3, "topics": ["garden", "tea"], "deep": {"x": [1, {"y": 2}]}, "none": null},
    })
}

fn passes(filter: &Value) -> bool {
    Filter::parse(filter).unwrap().passes(&event())
}

#[test]
fn pattern_matches_only_the_prefix_of_a_long_text() {
    let filter = Filter::parse(&json!({"field": "data.text", "op": "matches", "value": "x"})).unwrap();
    let event = |before: usize| json!({"data": {"text": format!("{}x", "é".repeat(before))}});
    assert!(filter.passes(&event(MAX_MATCHED_BYTES / 2 - 1)) && !filter.passes(&event(MAX_MATCHED_BYTES / 2)));
}

#[test]
fn operators_compare_as_documented() {
    for (field, op, value) in [
        ("data.agent_id", "eq", json!("a")),
        ("agent_id", "eq", json!("a")),
        ("data.n", "eq", json!(3.0)),
        ("data.missing", "eq", json!(null)),
        ("data.missing", "ne", json!("a")),
        ("data.n", "gt", json!(2)),
        ("data.n", "gte", json!(3)),
        ("data.importance", "lt", json!(0.6)),
        ("data.n", "lte", json!(3)),
        ("timestamp", "gt", json!("2026-01-01")),
        ("data.topics", "contains", json!("tea")),
        ("data.agent_id", "contains", json!("a")),
        ("data.deep", "contains", json!("x")),
        ("type", "starts_with", json!("memory.")),
        ("type", "ends_with", json!("stored")),
        ("data.agent_id", "in", json!(["b", "a"])),
        ("data.none", "exists", json!(true)),
        ("data.missing", "exists", json!(false)),
        ("data.topics.0", "matches", json!("^gar.en$")),
        ("data.deep.x.1.y", "eq", json!(2)),
    ] {
        let filter = json!({"field": field, "op": op, "value": value});
        assert!(passes(&filter), "{filter}");
        assert!(!passes(&json!({"not": filter})), "not {filter}");
    }
    for (field, op, value) in [
        ("data.missing", "gt", json!(0)),
        ("data.agent_id", "gt", json!(0)),
        ("data.n", "contains", json!(3)),
        ("data.n", "matches", json!("3")),
        ("data.deep.x.9.y", "exists", json!(true)),
        ("data.topics.-1", "exists", json!(true)),
    ] {
        let filter = json!({"field": field, "op": op, "value": value});
        assert!(!passes(&filter), "{filter}");
    }
}

#[test]
fn filters_combine_with_all_any_and_not() {
    let (yes, no) =
        (json!({"field": "data.n", "op": "eq", "value": 3}), json!({"field": "data.n", "op": "eq", "value": 4}));
    assert!(passes(&json!({"any": [no, yes]})));
    assert!(!passes(&json!({"all": [yes, no]})));
    assert!(passes(&json!({"all": [yes, {"not": {"any": [no]}}]})));
}

#[test]
fn invalid_filters_are_reported_with_their_path() {
    let deep = (0..9).fold(json!({"field": "data.n", "op": "exists"}), |inner, _| json!({"not": inner}));
    let wide = json!({"all": vec![json!({"field": "data.n", "op": "exists"}); 101]});
    for (filter, path) in [
        (json!("x"), ""),
        (json!({}), ""),
        (json!({"every": []}), ""),
        (json!({"all": [], "any": []}), ""),
        (json!({"all": []}), "all"),
        (json!({"any": [{"field": "data.n", "op": "exists"}, 5]}), "any[1]"),
        (json!({"not": {"field": "data.n", "op": "is", "value": 1}}), "not.op"),
        (json!({"field": "data..n", "op": "eq", "value": 1}), "field"),
        (json!({"field": "", "op": "eq", "value": 1}), "field"),
        (json!({"field": "data.n", "op": "eq"}), "value"),
        (json!({"field": "data.n", "op": "eq", "valu": 1}), "valu"),
        (json!({"field": "data.n", "op": "in", "value": "a"}), "value"),
        (json!({"field": "data.n", "op": "gt", "value": [1]}), "value"),
        (json!({"field": "data.n", "op": "exists", "value": 1}), "value"),
        (json!({"field": "data.n", "op": "matches", "value": "("}), "value"),
        (json!({"field": "data.n", "op": "matches", "value": "x{1000}{1000}"}), "value"),
        (json!({"field": "data.n", "op": "matches", "value": "x".repeat(501)}), "value"),
        (json!({"field": "data.n", "op": "eq", "value": "x".repeat(20_000)}), ""),
    ] {
        assert_eq!(Filter::parse(&filter).map_err(|problem| problem.path), Err(path.to_owned()), "{filter}");
    }
    assert!(Filter::parse(&deep).is_err() && Filter::parse(&wide).is_err());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z.(*+\\\\\\[{]{0,8}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("field".to_owned()),
        Just("op".to_owned()),
        Just("value".to_owned()),
        Just("all".to_owned()),
        Just("any".to_owned()),
        Just("not".to_owned()),
        Just("data".to_owned()),
        "[a-z]{1,3}",
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn parse_and_match_never_panic(filter in any_json(), event in any_json()) {
        if let Ok(filter) = Filter::parse(&filter) {
            let _ = filter.passes(&event);
        }
    }

    #[test]
    fn negated_comparison_has_the_opposite_result(
        at in 0..Op::ALL.len(), value in any_json(), there in any_json(), field in "[a-z]{1,3}(\\.[a-z0-9]{1,2}){0,2}",
    ) {
        let comparison = json!({"field": field, "op": Op::ALL[at].1, "value": value});
        let event = json!({"data": there});
        if let Ok(filter) = Filter::parse(&comparison) {
            let not = Filter::parse(&json!({"not": comparison})).unwrap();
            prop_assert_ne!(filter.passes(&event), not.passes(&event));
            prop_assert_eq!(Filter::parse(filter.source()).unwrap(), filter);
        }
    }

    #[test]
    fn value_equals_itself(value in any_json()) {
        let filter = json!({"field": "data.x", "op": "eq", "value": value});
        if let Ok(filter) = Filter::parse(&filter) {
            let passes = filter.passes(&json!({"data": {"x": value}}));
            prop_assert!(passes);
        }
    }
}
