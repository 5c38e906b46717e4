//! The schema of a tool's input, and how inputs are held against it.

use std::sync::{Arc, OnceLock};

use agentd_llm::Schema;
use agentd_mcp::refers_outside;
use serde_json::{Map, Number, Value};

/// Problems of an input that a model is told about at once.
const MAX_PROBLEMS: usize = 5;
const MAX_PROBLEM_CHARACTERS: usize = 300;
/// A schema is part of every prompt.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;

/// A JSON Schema of type `object`, ready to check with. Cheap to clone.
#[derive(Clone)]
pub struct InputSchema(Arc<Compiled>);

struct Compiled {
    value: Value,
    written: OnceLock<Schema>,
    validator: OnceLock<Result<jsonschema::Validator, String>>,
}

fn compile(value: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::validator_for(value).map_err(|error| {
        if refers_outside(value) {
            return "refers to another document, and none is fetched; put what it needs into its own `$defs`"
                .to_owned();
        }
        format!("is no valid JSON Schema: {}", clipped(&error.to_string()))
    })
}

/// Makes whole numbers that were written as fractions, `2.0`, whole numbers where the schema wants those: models write
/// them so, JSON Schema takes them, and programs do not.
fn settle(schema: &Value, value: &mut Value) {
    match value {
        Value::Number(number) => {
            if wants_integer(schema)
                && let Some(whole) = whole(number)
            {
                *value = Value::from(whole);
            }
        }
        Value::Object(fields) => {
            let properties = schema.get("properties");
            for (name, field) in fields.iter_mut() {
                if let Some(schema) = properties.and_then(|properties| properties.get(name.as_str())) {
                    settle(schema, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| settle(schema, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn wants_integer(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::Array(types)) => {
            types.iter().any(|name| name == "integer") && !types.iter().any(|name| name == "number")
        }
        Some(name) => name == "integer",
        None => false,
    }
}

/// The whole number that a fraction is, where a fraction can hold it exactly.
fn whole(number: &Number) -> Option<i64> {
    let is_exact = |float: &f64| float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|float| number.is_f64() && is_exact(float))?;
    #[allow(clippy::cast_possible_truncation, reason = "whole, and within 64 bits")]
    Some(float as i64)
}

impl std::fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InputSchema").field(&self.0.value).finish()
    }
}

impl InputSchema {
    /// # Errors
    /// A sentence on what is wrong with the schema.
    pub fn new(value: Value) -> Result<Self, String> {
        if value.get("type").and_then(Value::as_str) != Some("object") {
            return Err("must be a JSON Schema with `\"type\": \"object\"`".to_owned());
        }
        if value.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(format!("must be at most {MAX_SCHEMA_BYTES} bytes of JSON"));
        }
        let validator = OnceLock::from(Ok(compile(&value)?));
        Ok(Self(Arc::new(Compiled { value, written: OnceLock::new(), validator })))
    }

    /// A schema that is part of the daemon. It is compiled when an input is first held against it,
    /// because that would be a tenth of the daemon's start; a debug build looks at once whether it is
    /// valid.
    #[must_use]
    pub fn known(value: Value) -> Self {
        debug_assert_eq!(Self::new(value.clone()).err(), None, "{value}");
        Self(Arc::new(Compiled { value, written: OnceLock::new(), validator: OnceLock::new() }))
    }

    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// As models are told it.
    #[must_use]
    pub fn written(&self) -> &Schema {
        self.0.written.get_or_init(|| Schema::new(&self.0.value))
    }

    /// Holds what a model wrote against the schema; a whole number that was written as a fraction is one afterwards.
    ///
    /// # Errors
    /// A sentence for the model on what does not fit.
    pub fn check(&self, input: &Value) -> Result<Map<String, Value>, String> {
        // A model that calls a tool without arguments may write nothing at all.
        let nothing = Value::Object(Map::new());
        let input = match input {
            Value::Null => &nothing,
            Value::String(text) if text.trim().is_empty() => &nothing,
            other => other,
        };
        let Value::Object(object) = input else {
            // What a model wrote that is no JSON comes as it was written.
            if let Value::String(text) = input
                && let Err(error) = serde_json::from_str::<Value>(text)
            {
                return Err(format!("the input is not valid JSON: {error}"));
            }
            return Err("the input must be a JSON object".to_owned());
        };
        let validator = self.0.validator.get_or_init(|| compile(&self.0.value)).as_ref();
        let problems: Vec<String> = validator
            .map_err(|problem| format!("the tool's schema {problem}"))?
            .iter_errors(input)
            .take(MAX_PROBLEMS)
            .map(|error| match error.instance_path().to_string() {
                place if place.is_empty() => clipped(&error.to_string()),
                place => format!("`{place}`: {}", clipped(&error.to_string())),
            })
            .collect();
        if problems.is_empty() {
            let mut fitting = Value::Object(object.clone());
            settle(&self.0.value, &mut fitting);
            return match fitting {
                Value::Object(object) => Ok(object),
                _ => Ok(object.clone()),
            };
        }
        Err(format!("the input does not fit the tool's schema: {}", problems.join("; ")))
    }
}

fn clipped(text: &str) -> String {
    text.chars().take(MAX_PROBLEM_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_is_held_against_the_schema() {
        let schema = InputSchema::new(json!({
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": false,
        }))
        .unwrap();
        assert_eq!(schema.check(&json!({"path": "a"})).unwrap()["path"], "a");
        let broken = schema.check(&json!("{\"path\": \"a\",\n \"b\": }")).unwrap_err();
        assert!(broken.contains("not valid JSON") && broken.contains("line 2 column"), "{broken}");
        for bad in [json!({}), json!({"path": 1}), json!({"path": "a", "b": 1}), json!([]), json!("{\"path\":")] {
            assert!(schema.check(&bad).unwrap_err().starts_with("the input"));
        }
    }

    #[test]
    fn whole_numbers_may_be_written_as_fractions() {
        let schema = InputSchema::new(json!({"type": "object", "properties": {
            "count": {"type": ["integer", "null"]},
            "share": {"type": "number"},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"line": {"type": "integer"}}}},
        }}))
        .unwrap();
        let given = json!({"count": 2.0, "share": 2.0, "rows": [{"line": 3.0}], "other": 4.0});
        let taken = Value::Object(schema.check(&given).unwrap());
        assert_eq!(taken, json!({"count": 2, "share": 2.0, "rows": [{"line": 3}], "other": 4.0}));
        assert!(schema.check(&json!({"count": 2.5})).is_err());
    }

    #[test]
    fn no_arguments_may_be_written_in_any_way() {
        let schema = InputSchema::new(json!({"type": "object"})).unwrap();
        for nothing in [json!({}), json!(null), json!(""), json!(" ")] {
            assert!(schema.check(&nothing).unwrap().is_empty());
        }
    }

    #[test]
    fn what_is_no_schema_of_an_object_is_refused() {
        for bad in [json!({}), json!([]), json!({"type": "string"}), json!({"type": "object", "properties": 1})] {
            assert!(InputSchema::new(bad).is_err());
        }
        for place in ["https://example.com/schema.json", "file:///etc/hostname"] {
            let outside = json!({"type": "object", "properties": {"a": {"$ref": place}}});
            assert!(InputSchema::new(outside).unwrap_err().starts_with("refers to another document"), "{place}");
        }
        let long = json!({"type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES)});
        assert!(InputSchema::new(long).unwrap_err().contains("bytes"));
    }
}
