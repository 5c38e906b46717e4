//! Descriptions of built-in tools, and parsing of their inputs.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::tools::schema::InputSchema;
use crate::tools::tool::{Effect, ToolDescription, ToolError};

/// Creates the description of a built-in tool.
pub(super) fn describe(
    name: &str,
    description: &str,
    schema: Value,
    effect: Effect,
    time_limit: Duration,
) -> ToolDescription {
    let input_schema = InputSchema::trusted(schema);
    ToolDescription { name: name.to_owned(), description: description.to_owned(), input_schema, effect, time_limit }
}

/// Parses an input that matches its schema.
pub(super) fn parse<I: DeserializeOwned>(input: Map<String, Value>) -> Result<I, ToolError> {
    let input = Value::Object(input);
    serde_json::from_value(input.clone()).map_err(|error| {
        let field = find_invalid_field::<I>(&input, &error.to_string());
        ToolError::Invalid(match field {
            Some(field) => format!("the input is not valid: `{field}` has a value that this tool does not support"),
            None => "the input does not match the tool's schema".to_owned(),
        })
    })
}

/// Returns the field that caused a parse error: without it, the error differs or disappears.
fn find_invalid_field<'i, I: DeserializeOwned>(input: &'i Value, message: &str) -> Option<&'i str> {
    let fields = input.as_object()?;
    fields.keys().map(String::as_str).find(|field| {
        let mut rest = fields.clone();
        rest.remove(*field);
        serde_json::from_value::<I>(Value::Object(rest)).err().is_none_or(|error| error.to_string() != message)
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only read")]
    struct Input {
        path: String,
        #[serde(default)]
        line: usize,
    }

    #[test]
    fn parse_error_names_the_field() {
        let read = |input: Value| parse::<Input>(input.as_object().cloned().unwrap()).map(|_| ());
        assert!(read(json!({"path": "a", "line": 2})).is_ok());
        let problem = read(json!({"path": "a", "line": 1e30})).unwrap_err().to_string();
        assert!(problem.contains("`line`") && !problem.contains("usize"), "{problem}");
    }
}
