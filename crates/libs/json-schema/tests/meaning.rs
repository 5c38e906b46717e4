//! Semantics of schemas, compared with an independent implementation.
#![allow(clippy::unwrap_used, clippy::panic)]

use agentd_json_schema::{Schema, ValidationError};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const STEPS: u64 = 1_000_000;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3..6i64).prop_map(Value::from),
        prop_oneof![Just(json!(1.0)), Just(json!(2.5)), Just(json!(1e20)), Just(json!(-0.5))],
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]{1,2}", inner, 0..4).prop_map(object),
        ]
    })
}

fn object(members: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(members.into_iter().collect::<Map<_, _>>())
}

fn assertion() -> impl Strategy<Value = (String, Value)> {
    let types = prop_oneof![
        Just(json!("object")),
        Just(json!("integer")),
        Just(json!("number")),
        Just(json!(["string", "null"])),
        Just(json!(["array", "boolean"])),
    ];
    let small = 0..4u64;
    let names = prop::collection::btree_set("[abc]", 0..3).prop_map(|names| json!(names));
    prop_oneof![
        types.prop_map(|types| ("type", types)),
        value().prop_map(|value| ("const", value)),
        prop::collection::vec(value(), 1..4).prop_map(|values| ("enum", Value::from(values))),
        prop::sample::select(vec![
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "maxContains",
        ])
        .prop_flat_map(move |keyword| small.clone().prop_map(move |limit| (keyword, Value::from(limit)))),
        prop::sample::select(vec![json!(1), json!(2), json!(0.5), json!(0.1)]).prop_map(|step| ("multipleOf", step)),
        prop::sample::select(vec!["^a", "b$", "^[ab]+$", "^(?:ab)?$"]).prop_map(|pattern| ("pattern", json!(pattern))),
        any::<bool>().prop_map(|unique| ("uniqueItems", json!(unique))),
        names.clone().prop_map(|names| ("required", names)),
        names.prop_map(|names| ("dependentRequired", json!({"a": names}))),
        Just(("$ref", json!("#/$defs/d"))),
    ]
    .prop_map(|(keyword, argument)| (keyword.to_owned(), argument))
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::from),
        6 => prop::collection::vec(assertion(), 0..3).prop_map(object),
    ];
    leaf.prop_recursive(4, 30, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..3).prop_map(Value::from);
        let named = prop::collection::btree_map("[abc]{1,2}", inner.clone(), 0..3).prop_map(object);
        let matched = prop::collection::btree_map(prop::sample::select(vec!["^a", "b", "c$"]), inner.clone(), 1..3);
        let matched = matched.prop_map(|map| object(map.into_iter().map(|(name, schema)| (name.to_owned(), schema))));
        let applicator = prop_oneof![
            (prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]), list),
            (prop::sample::select(vec!["properties", "dependentSchemas"]), named),
            (Just("patternProperties"), matched),
            (
                prop::sample::select(vec![
                    "not",
                    "if",
                    "then",
                    "else",
                    "items",
                    "contains",
                    "additionalProperties",
                    "propertyNames",
                    "unevaluatedProperties",
                    "unevaluatedItems",
                ]),
                inner,
            ),
        ]
        .prop_map(|(keyword, argument)| (keyword.to_owned(), argument));
        let keyword = prop_oneof![applicator.clone(), applicator, assertion()];
        prop::collection::vec(keyword, 1..5).prop_map(object)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn verdicts_match_another_implementation(root in schema(), definition in schema(), values in prop::collection::vec(value(), 1..6)) {
        let Value::Object(mut root) = root else { return Ok(()) };
        root.insert("$defs".to_owned(), json!({"d": definition}));
        let root = Value::Object(root);
        let Ok(schema) = Schema::new(root.clone()) else { return Ok(()) };
        let other = jsonschema::validator_for(&root).unwrap();
        for value in values {
            let verdict = schema.validate(&value, STEPS);
            prop_assert_ne!(&verdict, &Err(ValidationError::TooCostly));
            prop_assert_eq!(verdict.is_ok(), other.is_valid(&value), "{} against {}: {:?}", value, root, verdict);
        }
    }
}

fn problems(schema: Value, value: Value) -> String {
    match Schema::new(schema).unwrap().validate(&value, STEPS) {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn problems_contain_location_and_reason() {
    let schema = json!({"type": "object", "required": ["path"], "additionalProperties": false, "properties": {
        "path": {"type": "string", "minLength": 2, "pattern": "^/"},
        "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "mode": {"enum": ["r", "w"]},
        "at": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["line"]}]},
    }});
    for (value, expected) in [
        (json!({}), "`path` is required"),
        (json!({"path": 1}), "`/path`: 1 is not of type string"),
        (json!({"path": "/"}), "`/path`: must have at least 2 characters, and has 1"),
        (json!({"path": "ab"}), "`/path`: \"ab\" does not match `^/`"),
        (json!({"path": "/a", "lines": [1, 0]}), "`/lines/1`: 0 must be at least 1"),
        (json!({"path": "/a", "mode": "x"}), "`/mode`: \"x\" is none of \"r\", \"w\""),
        (json!({"path": "/a", "at": {}}), "`/at`: `line` is required"),
        (json!({"path": "/a", "at": 1}), "`/at`: fits none of the alternatives"),
        (json!({"path": "/a", "b": 1}), "`b` is unexpected"),
        (json!({"b": 1, "path": 1}), "`/path`: 1 is not of type string; `b` is unexpected"),
    ] {
        let message = problems(schema.clone(), value.clone());
        let mut parts: Vec<&str> = message.split("; ").collect();
        let mut expected: Vec<&str> = expected.split("; ").collect();
        parts.sort_unstable();
        expected.sort_unstable();
        assert_eq!(parts, expected, "{value}");
    }
}

#[test]
fn older_drafts_are_interpreted_correctly() {
    let draft = |number: u8, schema: Value| {
        let Value::Object(mut schema) = schema else { panic!() };
        schema.insert("$schema".to_owned(), json!(format!("http://json-schema.org/draft-{number:02}/schema#")));
        Value::Object(schema)
    };
    let seven = draft(
        7,
        json!({"items": [{"type": "integer"}], "additionalItems": {"type": "string"}, "definitions": {
        "a": {"type": "integer"},
    }, "properties": {"a": {"$ref": "#/definitions/a", "minimum": 5}}, "dependencies": {"b": ["c"], "d": {"required": ["e"]}}}),
    );
    for (value, fits) in [
        (json!([1, "a"]), true),
        (json!([1, 2]), false),
        (json!(["a"]), false),
        (json!({"a": 1}), true),
        (json!({"a": "x"}), false),
        (json!({"b": 1}), false),
        (json!({"b": 1, "c": 1}), true),
        (json!({"d": 1}), false),
    ] {
        assert_eq!(problems(seven.clone(), value.clone()).is_empty(), fits, "{value}");
    }
    let four = draft(4, json!({"minimum": 1, "exclusiveMinimum": true}));
    assert!(problems(four.clone(), json!(2)).is_empty());
    assert!(!problems(four, json!(1)).is_empty());
}
