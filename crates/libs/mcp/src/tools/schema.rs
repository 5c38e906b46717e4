//! Validation of a server's input schemas: objects of bounded size that compile.

use agentd_json_schema::Schema;
use serde_json::{Map, Value};

/// Validates the input schema of a tool.
///
/// # Errors
/// Returns a message if the schema is not usable.
pub(super) fn check(schema: Value, max_bytes: usize, max_depth: usize) -> Result<(Map<String, Value>, usize), String> {
    let Value::Object(mut schema) = schema else {
        return Err("its input schema is not a JSON object".to_owned());
    };
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        // Some servers omit it for tools without input.
        None => {
            schema.insert("type".to_owned(), Value::from("object"));
        }
        Some(_) => return Err("its input schema does not describe an object".to_owned()),
    }
    let schema = Value::Object(schema);
    if depth(&schema) > max_depth {
        return Err(format!("its input schema is nested deeper than {max_depth} levels"));
    }
    let bytes = schema.to_string().len();
    if bytes > max_bytes {
        return Err(format!("its input schema is longer than {max_bytes} bytes"));
    }
    if let Err(error) = Schema::new(schema.clone()) {
        return Err(format!("its input schema {}", crate::text::one_line(&error.to_string(), 300)));
    }
    match schema {
        Value::Object(schema) => Ok((schema, bytes)),
        _ => Err("its input schema is not a JSON object".to_owned()),
    }
}

/// Returns the nesting depth. Recursion is bounded: messages are nested at most 64 levels deep.
fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    deepest.unwrap_or(0) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::arbitrary_json;
    use agentd_json_schema::has_external_reference;
    use proptest::prelude::*;
    use serde_json::json;

    fn problem(schema: Value) -> Option<String> {
        check(schema, 1_000, 8).err()
    }

    #[test]
    fn schemas_of_real_servers_are_accepted() {
        assert_eq!(problem(json!({ "type": "object" })), None);
        assert_eq!(problem(json!({})), None);
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
            "properties": { "path": { "type": "string" }, "n": { "type": ["integer", "null"], "minimum": 1 } },
            "required": ["path"], "$defs": { "a": { "type": "string" } },
        });
        assert_eq!(problem(schema), None);
    }

    #[test]
    fn invalid_schemas_are_reported() {
        let mut deep = json!({});
        for _ in 0..10 {
            deep = json!({ "properties": { "a": deep } });
        }
        for (schema, expected) in [
            (json!("object"), "not a JSON object"),
            (json!(null), "not a JSON object"),
            (json!({ "type": "string" }), "describe an object"),
            (json!({ "type": ["object", "null"] }), "describe an object"),
            (json!({ "type": "object", "properties": { "a": { "type": "strnig" } } }), "not a valid"),
            (json!({ "type": "object", "properties": { "a": { "pattern": "(" } } }), "not a valid"),
            (json!({ "type": "object", "required": "a" }), "not a valid"),
            (
                json!({ "type": "object", "properties": { "a": { "$ref": "http://example.com/s" } } }),
                "another document",
            ),
            (json!({ "type": "object", "properties": { "a": { "$ref": "file:///etc/passwd" } } }), "another document"),
            (json!({ "type": "object", "description": "x".repeat(2_000) }), "longer than"),
            (doubling(14), "multiply"),
            (deep, "deeper than"),
        ] {
            let problem = problem(schema.clone()).unwrap_or_else(|| panic!("{schema} was taken"));
            assert!(problem.contains(expected), "{problem}");
        }
    }

    /// Definitions that each reference the next one twice.
    fn doubling(length: usize) -> Value {
        let link = |number: usize| {
            let next = json!({ "$ref": format!("#/$defs/{}", number + 1) });
            (number.to_string(), json!({ "not": next, "if": next }))
        };
        let definitions: Map<String, Value> =
            (0..length).map(link).chain([(length.to_string(), json!(true))]).collect();
        json!({ "properties": { "a": { "$ref": "#/$defs/0" } }, "$defs": definitions })
    }

    /// Valid, nearly valid and invalid schemas.
    fn schema_like() -> impl Strategy<Value = Value> {
        let word =
            prop_oneof![Just("type"), Just("properties"), Just("required"), Just("$ref"), Just("items"), Just("a")];
        let leaf = prop_oneof![
            Just(json!("object")),
            Just(json!("string")),
            Just(json!("#/properties/a")),
            Just(json!("https://example.com/schema")),
            arbitrary_json(),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop::collection::btree_map(word.clone(), inner, 0..4).prop_map(|map| {
                map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
            })
        })
    }

    proptest! {
        #[test]
        fn accepted_schemas_satisfy_the_invariants(schema in schema_like()) {
            if let Ok((taken, bytes)) = check(schema, 500, 5) {
                let taken = Value::Object(taken);
                prop_assert_eq!(&taken["type"], "object");
                prop_assert!(bytes <= 500 && depth(&taken) <= 5 && !has_external_reference(&taken));
                prop_assert!(Schema::new(taken).is_ok());
            }
        }
    }
}
