//! Examples of the API document: one request and response per operation, recorded by the tests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::{Content, OpenApi, RefOr};

/// Rewritten by `make api-examples`.
const RECORDED: &str = include_str!("examples.json");

/// Recorded call of one operation.
#[derive(Debug, Deserialize)]
struct Example {
    /// Path and query.
    target: String,
    /// JSON body of the request.
    request: Option<Value>,
    status: u16,
    /// Body of the response: JSON, or the beginning of a text.
    response: Option<Value>,
}

/// Adds the recorded examples to their operations. A test validates each of them against its schema.
pub(super) fn add_examples(document: &mut OpenApi) {
    let Ok(examples) = serde_json::from_str::<BTreeMap<String, Example>>(RECORDED) else { return };
    for (path, item) in &mut document.paths.paths {
        for operation in [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch] {
            if let Some(operation) = operation
                && let Some(example) = operation.operation_id.as_deref().and_then(|id| examples.get(id))
            {
                add_example(path, operation, example);
            }
        }
    }
}

fn add_example(path: &str, operation: &mut Operation, example: &Example) {
    let target = example.target.split('?').next().unwrap_or_default();
    let variables: BTreeMap<&str, &str> = path
        .split('/')
        .zip(target.split('/'))
        .filter_map(|(part, value)| Some((part.strip_prefix('{')?.strip_suffix('}')?, value)))
        .collect();
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter
            && matches!(parameter.parameter_in, ParameterIn::Path)
            && let Some(value) = variables.get(parameter.name.as_str())
        {
            *parameter = ParameterBuilder::from(parameter.clone()).example(Some(Value::from(*value))).build();
        }
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body
        && let Some(request) = &example.request
    {
        set_example(body.content.get_mut("application/json"), request);
    }
    if let Some(RefOr::T(response)) = operation.responses.responses.get_mut(&example.status.to_string())
        && let Some(body) = &example.response
    {
        set_example(response.content.values_mut().next(), body);
    }
}

fn set_example(content: Option<&mut RefOr<Content>>, value: &Value) {
    if let Some(RefOr::T(content)) = content {
        content.example = Some(value.clone());
    }
}
