//! Which schemas may become a grammar.
//!
//! The engine turns a JSON Schema into a grammar in native code, for which neither nesting nor size
//! nor references have a bound. So a schema is looked at here first, on the daemon's side of the
//! pipe: only keywords that are known to be harmless, only so much of everything. What is refused
//! fails its own request and nothing else.

use serde_json::{Map, Value};

use crate::{LocalError, LocalErrorCode};

const MAX_BYTES: usize = 64 * 1024;
const MAX_DEPTH: usize = 12;
const MAX_NODES: usize = 1024;
const MAX_PROPERTIES: usize = 64;
const MAX_CHOICES: usize = 512;
/// Of repetitions: characters of a text, items of a list. The engine's own limit is 2,000.
const MAX_REPETITIONS: u64 = 1000;

/// Says what is wrong with `schema`, if something is.
///
/// # Errors
/// `Invalid`, with a sentence.
pub fn check(schema: &Value) -> Result<(), LocalError> {
    let mut nodes = 0;
    visit(schema, 0, &mut nodes)?;
    // Counted only once it is known to be shallow.
    match serde_json::to_string(schema) {
        Ok(text) if text.len() <= MAX_BYTES => Ok(()),
        _ => refuse(format!("it has more than {MAX_BYTES} bytes")),
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, LocalError> {
    let why = why.into();
    Err(LocalError::new(LocalErrorCode::Invalid, format!("the JSON schema cannot be made into a grammar: {why}")))
}

fn visit(schema: &Value, depth: usize, nodes: &mut usize) -> Result<(), LocalError> {
    *nodes += 1;
    if depth > MAX_DEPTH || *nodes > MAX_NODES {
        return refuse("it is nested too deeply or has too many parts");
    }
    let Some(object) = schema.as_object() else { return refuse("a part of it is no object") };
    for (keyword, value) in object {
        match keyword.as_str() {
            "type" => kind(value)?,
            "properties" => {
                let Some(properties) = value.as_object() else { return refuse("`properties` is no object") };
                if properties.len() > MAX_PROPERTIES || properties.keys().any(|name| name.len() > 256) {
                    return refuse("it has too many properties, or one with too long a name");
                }
                for part in properties.values() {
                    visit(part, depth + 1, nodes)?;
                }
            }
            "required" => required(object, value)?,
            "additionalProperties" if *value == Value::Bool(false) => {}
            "items" => visit(value, depth + 1, nodes)?,
            "anyOf" | "oneOf" => {
                let alternatives = value.as_array().map(Vec::as_slice).unwrap_or_default();
                if alternatives.is_empty() {
                    return refuse(format!("`{keyword}` has no alternatives"));
                }
                for part in alternatives {
                    visit(part, depth + 1, nodes)?;
                }
            }
            "enum" => match value.as_array().map(Vec::len) {
                Some(1..=MAX_CHOICES) => {}
                _ => return refuse("an `enum` has no values or too many"),
            },
            "minLength" | "maxLength" | "minItems" | "maxItems" => {
                if value.as_u64().is_none_or(|count| count > MAX_REPETITIONS) {
                    return refuse(format!("`{keyword}` is no number up to {MAX_REPETITIONS}"));
                }
            }
            "minimum" | "maximum" => {
                if value.as_i64().is_none_or(|limit| limit.unsigned_abs() > 1_000_000_000_000_000) {
                    return refuse(format!("`{keyword}` is no whole number of at most 15 digits"));
                }
            }
            "const" | "title" | "description" | "default" | "examples" => {}
            other => {
                let name: String = other.chars().take(40).collect();
                return refuse(format!("`{name}` is not among the keywords that are understood"));
            }
        }
    }
    Ok(())
}

fn kind(value: &Value) -> Result<(), LocalError> {
    match value.as_str() {
        Some("string" | "integer" | "number" | "boolean" | "null" | "array" | "object") => Ok(()),
        _ => refuse("a `type` is not one of JSON's"),
    }
}

fn required(object: &Map<String, Value>, value: &Value) -> Result<(), LocalError> {
    let properties = object.get("properties").and_then(Value::as_object);
    let known = |name: &Value| {
        name.as_str().is_some_and(|name| properties.is_some_and(|properties| properties.contains_key(name)))
    };
    match value.as_array() {
        Some(names) if names.iter().all(known) => Ok(()),
        _ => refuse("`required` names something that is not described"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_bounded_and_known_passes() {
        check(&json!({"type": "object", "properties": {
            "a": {"type": "string", "minLength": 1, "maxLength": 600},
            "b": {"enum": ["x", 1, null]},
            "c": {"type": "array", "items": {"type": "integer", "minimum": -3, "maximum": 9}, "maxItems": 8},
            "d": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        }, "required": ["a"], "additionalProperties": false}))
        .unwrap();
    }

    #[test]
    fn what_native_code_could_choke_on_is_refused() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "array", "items": deep});
        }
        let wide: Map<String, Value> = (0..500).map(|at| (format!("p{at}"), json!({}))).collect();
        for schema in [
            deep,
            json!({"type": "object", "properties": wide}),
            json!({"$ref": "#"}),
            json!({"type": "string", "pattern": "((((a+)+)+)+)"}),
            json!({"type": "string", "maxLength": 4_000_000_000u64}),
            json!({"type": "no such type"}),
            json!({"type": "object", "required": ["ghost"]}),
            json!({"type": "integer", "minimum": 1e300}),
            json!({"enum": []}),
            json!({"const": "x".repeat(100_000)}),
            json!(true),
        ] {
            let error = check(&schema).unwrap_err();
            assert_eq!(error.code, LocalErrorCode::Invalid);
        }
    }
}
