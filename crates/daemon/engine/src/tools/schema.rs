//! Input schema of a tool, and validation of inputs.

use std::sync::{Arc, OnceLock};

use agentd_json_schema::{Schema, ValidationError};
use serde_json::{Map, Number, Value};

/// Maximum number of validation steps on a runtime thread, about one millisecond.
const INLINE_STEPS: u64 = 10_000;
/// Maximum number of validation steps on a blocking thread, about 100 milliseconds.
const MAX_STEPS: u64 = 1_000_000;

/// A JSON Schema of type `object`, with its form for models. Cheap to clone.
#[derive(Clone)]
pub struct InputSchema(Arc<Inner>);

struct Inner {
    schema: Schema,
    for_model: OnceLock<agentd_llm::Schema>,
}

/// Converts integral floats such as `2.0` to integers where the schema requires an integer. Models write them and JSON
/// Schema accepts them, but programs may not.
fn normalize_integers(schema: &Value, value: &mut Value) {
    match value {
        Value::Number(number) => {
            if wants_integer(schema)
                && let Some(exact_integer) = exact_integer(number)
            {
                *value = Value::from(exact_integer);
            }
        }
        Value::Object(fields) => {
            let properties = schema.get("properties");
            for (name, field) in fields.iter_mut() {
                if let Some(schema) = properties.and_then(|properties| properties.get(name.as_str())) {
                    normalize_integers(schema, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| normalize_integers(schema, item));
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

/// Returns the integer value of a float that represents it exactly.
fn exact_integer(number: &Number) -> Option<i64> {
    let is_exact = |float: &f64| float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|float| number.is_f64() && is_exact(float))?;
    #[allow(clippy::cast_possible_truncation, reason = "whole, and within 64 bits")]
    Some(float as i64)
}

impl std::fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InputSchema").field(self.value()).finish()
    }
}

impl InputSchema {
    /// Compiles a JSON Schema of type `object`.
    ///
    /// # Errors
    /// A sentence that describes the defect of the schema.
    pub fn new(value: Value) -> Result<Self, String> {
        if value.get("type").and_then(Value::as_str) != Some("object") {
            return Err("must be a JSON Schema with `\"type\": \"object\"`".to_owned());
        }
        Schema::new(value).map(Self::of).map_err(|error| error.to_string())
    }

    fn of(schema: Schema) -> Self {
        Self(Arc::new(Inner { schema, for_model: OnceLock::new() }))
    }

    /// Creates a schema that is part of the daemon, without checking it. Checking all of them would take a tenth of the
    /// daemon's start time; debug builds do.
    #[must_use]
    pub fn trusted(value: Value) -> Self {
        debug_assert_eq!(Self::new(value.clone()).err(), None, "{value}");
        Self::of(Schema::trusted(value))
    }

    #[must_use]
    pub fn value(&self) -> &Value {
        self.0.schema.value()
    }

    /// Returns the schema in the form for models.
    #[must_use]
    pub fn for_model(&self) -> &agentd_llm::Schema {
        self.0.for_model.get_or_init(|| agentd_llm::Schema::new(self.value()))
    }

    /// Validates an input of a model and converts integral floats to integers. Takes at most about 100 milliseconds for
    /// any schema and input, and blocks no runtime thread for more than one millisecond.
    ///
    /// # Errors
    /// A sentence for the model that describes the mismatch.
    pub async fn validate(&self, input: &Value) -> Result<Map<String, Value>, String> {
        match self.validate_within(input, INLINE_STEPS) {
            Err(InputError::Schema(ValidationError::TooCostly)) => {
                let (schema, input) = (self.clone(), input.clone());
                let validated = tokio::task::spawn_blocking(move || schema.validate_within(&input, MAX_STEPS)).await;
                validated.unwrap_or(Err(InputError::Schema(ValidationError::TooCostly)))
            }
            validated => validated,
        }
        .map_err(|error| error.to_string())
    }

    fn validate_within(&self, input: &Value, steps: u64) -> Result<Map<String, Value>, InputError> {
        // A model that calls a tool without arguments may send nothing.
        let nothing = Value::Object(Map::new());
        let input = match input {
            Value::Null => &nothing,
            Value::String(text) if text.trim().is_empty() => &nothing,
            other => other,
        };
        let Value::Object(object) = input else {
            // An input that is not valid JSON arrives as a string.
            if let Value::String(text) = input
                && let Err(error) = serde_json::from_str::<Value>(text)
            {
                return Err(InputError::InvalidJson(error));
            }
            return Err(InputError::NotAnObject);
        };
        self.0.schema.validate(input, steps)?;
        let mut object = object.clone();
        let properties = self.value().get("properties");
        for (name, field) in &mut object {
            if let Some(schema) = properties.and_then(|properties| properties.get(name.as_str())) {
                normalize_integers(schema, field);
            }
        }
        Ok(object)
    }
}

/// Reason why an input is rejected.
#[derive(Debug, thiserror::Error)]
enum InputError {
    #[error("the input is not valid JSON: {0}")]
    InvalidJson(serde_json::Error),
    #[error("the input must be a JSON object")]
    NotAnObject,
    #[error("the input does not match the tool's schema: {0}")]
    Schema(#[from] ValidationError),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn input_is_validated_against_the_schema() {
        let schema = InputSchema::new(json!({
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": false,
        }))
        .unwrap();
        assert_eq!(schema.validate(&json!({"path": "a"})).await.unwrap()["path"], "a");
        let broken = schema.validate(&json!("{\"path\": \"a\",\n \"b\": }")).await.unwrap_err();
        assert!(broken.contains("not valid JSON") && broken.contains("line 2 column"), "{broken}");
        for bad in [json!({}), json!({"path": 1}), json!({"path": "a", "b": 1}), json!([]), json!("{\"path\":")] {
            assert!(schema.validate(&bad).await.unwrap_err().starts_with("the input"));
        }
    }

    #[tokio::test]
    async fn integral_floats_become_integers() {
        let schema = InputSchema::new(json!({"type": "object", "properties": {
            "count": {"type": ["integer", "null"]},
            "share": {"type": "number"},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"line": {"type": "integer"}}}},
        }}))
        .unwrap();
        let given = json!({"count": 2.0, "share": 2.0, "rows": [{"line": 3.0}], "other": 4.0});
        let taken = Value::Object(schema.validate(&given).await.unwrap());
        assert_eq!(taken, json!({"count": 2, "share": 2.0, "rows": [{"line": 3}], "other": 4.0}));
        assert!(schema.validate(&json!({"count": 2.5})).await.is_err());
    }

    #[tokio::test]
    async fn missing_arguments_are_an_empty_object() {
        let schema = InputSchema::new(json!({"type": "object"})).unwrap();
        for nothing in [json!({}), json!(null), json!(""), json!(" ")] {
            assert!(schema.validate(&nothing).await.unwrap().is_empty());
        }
    }

    #[test]
    fn schema_that_is_not_an_object_is_rejected() {
        for bad in [json!({}), json!([]), json!({"type": "string"}), json!({"type": "object", "properties": 1})] {
            assert!(InputSchema::new(bad).is_err());
        }
        for url in ["https://example.com/schema.json", "file:///etc/hostname"] {
            let outside = json!({"type": "object", "properties": {"a": {"$ref": url}}});
            assert!(InputSchema::new(outside).unwrap_err().starts_with("refers to another document"), "{url}");
        }
        let long = json!({"type": "object", "description": "x".repeat(agentd_json_schema::MAX_SCHEMA_BYTES)});
        assert!(InputSchema::new(long).unwrap_err().contains("bytes"));
    }
}
