//! Schemas and values that attempt to exhaust resources.
#![allow(clippy::unwrap_used, clippy::panic)]

use agentd_json_schema::{MAX_SCHEMA_BYTES, Schema, SchemaError, ValidationError};
use serde_json::{Map, Value, json};

const STEPS: u64 = 100_000;

/// Builds a chain of definitions, each of which is derived from the next one.
fn chain(length: usize, link: impl Fn(Value) -> Value, last: Value) -> Value {
    let mut definitions = Map::new();
    for number in 0..length {
        definitions.insert(format!("a{number}"), link(json!({"$ref": format!("#/$defs/a{}", number + 1)})));
    }
    definitions.insert(format!("a{length}"), last);
    json!({"type": "object", "$defs": definitions, "$ref": "#/$defs/a0"})
}

#[test]
fn multiplying_references_are_rejected() {
    type Link = fn(Value) -> Value;
    let links: [(&str, Link); 9] = [
        ("allOf", |next| json!({"allOf": [next, next]})),
        ("anyOf", |next| json!({"anyOf": [next, next]})),
        ("oneOf", |next| json!({"oneOf": [next, next]})),
        ("not", |next| json!({"not": next, "if": next})),
        ("if", |next| json!({"if": next, "then": next, "else": next})),
        ("dependentSchemas", |next| json!({"dependentSchemas": {"a": next, "b": next}})),
        ("dependencies", |next| json!({"dependencies": {"a": next, "b": next}})),
        ("beside $ref", |next| json!({"$ref": next["$ref"], "allOf": [next]})),
        ("unevaluated", |next| json!({"allOf": [next, next], "unevaluatedProperties": false})),
    ];
    for (name, link) in links {
        let schema = chain(40, link, json!({"type": "string"}));
        assert!(schema.to_string().len() < 6_000);
        assert_eq!(Schema::new(schema).unwrap_err(), SchemaError::Unfolds, "{name}");
    }
    let long = chain(500, |next| next, json!({"type": "string"}));
    assert_eq!(Schema::new(long).unwrap_err(), SchemaError::Unfolds, "deeper than the stack should be");
}

#[test]
fn endless_references_are_rejected() {
    for endless in [
        json!({"type": "object", "$ref": "#"}),
        json!({"type": "object", "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}),
        json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/properties/a"}]}}}),
    ] {
        assert_eq!(Schema::new(endless.clone()).unwrap_err(), SchemaError::Endless, "{endless}");
    }
}

#[test]
fn multiplication_by_the_value_exhausts_the_steps() {
    // Each level of the value is validated twice, so the cost doubles with its depth.
    let node = json!({"$ref": "#/$defs/node"});
    let twice = json!({"type": "object", "$ref": "#/$defs/node", "$defs": {"node": {
        "allOf": [{"properties": {"a": node}}, {"properties": {"a": node}}],
    }}});
    let any = json!({"type": "object", "$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object",
        "anyOf": [{"properties": {"a": node}, "required": ["x"]}, {"properties": {"a": node}, "required": ["y"]}],
    }}});
    let unevaluated = json!({"type": "object", "$ref": "#/$defs/node", "$defs": {"node": {
        "anyOf": [{"properties": {"a": node}}, {"properties": {"a": node}}], "unevaluatedProperties": false,
    }}});
    let mut deep = json!({"x": 1});
    for _ in 0..60 {
        deep = json!({"a": deep});
    }
    for schema in [twice, any, unevaluated] {
        let schema = Schema::new(schema).unwrap();
        let verdict = schema.validate(&deep, STEPS);
        assert!(matches!(verdict, Err(ValidationError::TooCostly)), "{verdict:?}");
        assert!(!matches!(schema.validate(&json!({"a": {"a": {}}}), STEPS), Err(ValidationError::TooCostly)));
    }
}

#[test]
fn recursion_depth_is_bounded() {
    // 60 consecutive references at each of 120 levels.
    let mut schema = chain(55, |next| next, json!({"properties": {"a": {"$ref": "#/$defs/a0"}}}));
    let mut deep = json!({});
    for _ in 0..120 {
        deep = json!({"a": deep});
    }
    let taken = Schema::new(schema.clone()).unwrap();
    assert_eq!(taken.validate(&deep, STEPS), Err(ValidationError::TooCostly));
    schema["unevaluatedProperties"] = json!(false);
    assert_eq!(Schema::new(schema).unwrap().validate(&deep, STEPS), Err(ValidationError::TooCostly));
}

#[test]
fn large_values_cost_steps() {
    let many: Vec<Value> = (0..STEPS).map(Value::from).collect();
    let long = "a".repeat(STEPS as usize * 2);
    for (schema, value) in [
        (json!({"uniqueItems": true}), json!(many)),
        (json!({"items": {"type": "integer"}}), json!(many)),
        (json!({"contains": {"type": "string"}}), json!(many)),
        (json!({"enum": [[1, 2]]}), json!(many)),
        (json!({"pattern": "^(a|aa)+$"}), json!(long)),
        (json!({"pattern": "([ab]{0,30}a){0,30}c"}), json!("a".repeat(STEPS as usize / 20))),
        (json!({"allOf": [{"pattern": "x$"}, {"pattern": "y$"}]}), json!("a".repeat(STEPS as usize * 2 / 3))),
    ] {
        let schema = json!({"type": "object", "properties": {"a": schema}});
        let verdict = Schema::new(schema.clone()).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert_eq!(verdict.validate(&json!({"a": value}), STEPS), Err(ValidationError::TooCostly), "{schema}");
    }
}

#[test]
fn patterns_cost_steps_and_never_backtrack() {
    let schema = Schema::new(json!({"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}})).unwrap();
    let almost = format!("{}!", "a".repeat(5_000));
    assert!(matches!(schema.validate(&json!({"a": almost}), STEPS), Err(ValidationError::DoesNotFit(_))));
    // Patterns are compiled on demand, so a schema cannot make the daemon hold thousands of them.
    let names: Map<String, Value> = (0..1_500).map(|number| (format!("^x{number}$"), json!(true))).collect();
    let many = Schema::new(json!({"type": "object", "patternProperties": names})).unwrap();
    assert_eq!(many.validate(&json!({"b": 1}), STEPS), Err(ValidationError::TooCostly));
    // Exceeds the size limit of compiled patterns, or requires backtracking: not asserted.
    for pattern in [r"^(\p{L}{1,500}){1,500}$", "^(?!a)b", r"^(.)\1$", &"a".repeat(1_001), &r"\S".repeat(400)] {
        let schema = Schema::new(json!({"type": "object", "properties": {"a": {"pattern": pattern}}})).unwrap();
        assert_eq!(schema.validate(&json!({"a": "a"}), STEPS), Ok(()), "{pattern}");
    }
}

#[test]
fn problems_are_short() {
    let names: Vec<String> = (0..2_000).map(|number| format!("name{number}")).collect();
    let schema = Schema::new(json!({"type": "object", "required": names, "additionalProperties": false})).unwrap();
    let value: Map<String, Value> =
        (0..2_000).map(|number| ("x".repeat(500) + &number.to_string(), json!(1))).collect();
    let Err(ValidationError::DoesNotFit(problems)) = schema.validate(&Value::Object(value), STEPS) else {
        panic!("it fits");
    };
    assert_eq!(problems.len(), 5);
    assert!(problems.iter().all(|problem| problem.chars().count() < 1_000), "{problems:?}");
}

#[test]
fn ambiguous_schemas_are_rejected() {
    for (schema, expected) in [
        (json!({"$ref": "https://example.com/schema"}), "another document"),
        (json!({"properties": {"a": {"$ref": "file:///etc/hostname"}}}), "another document"),
        (json!({"$dynamicRef": "#a"}), "$dynamicRef"),
        (json!({"$ref": "#name", "$defs": {"a": {"$anchor": "name"}}}), "#name"),
        (json!({"properties": {"a": {"$id": "https://example.com/", "$ref": "#/a"}}}), "$id"),
        (json!({"properties": {"a": {"$ref": "#/$defs/nobody"}}}), "#/$defs/nobody"),
        (json!({"properties": {"a": {"type": "strnig"}}}), "valid"),
        (json!({"properties": {"a": {"pattern": "("}}}), "regular expression"),
        (json!({"patternProperties": {"(": true}}), "regular expression"),
        (json!({"description": "x".repeat(MAX_SCHEMA_BYTES)}), "bytes"),
        (json!({"$schema": "https://example.com/my-own"}), "valid"),
        (json!(7), "valid"),
    ] {
        let error = Schema::new(schema.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{schema}: {error}");
    }
}
