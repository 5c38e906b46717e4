//! Validates every JSON response against the OpenAPI document.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use agentd::config::{Config, ConfigSource};
use agentd::lifecycle::Offline;
use agentd_base::{Clock, Entropy};
use jsonschema::Validator;
use serde_json::{Value, json};

use super::{TestFolder, TestResponse};

/// The OpenAPI document of a daemon without additions, as `agentd openapi` prints it.
pub static TEXT: LazyLock<String> = LazyLock::new(|| {
    // A separate thread and runtime, because the runtime of the calling test must not be blocked.
    let made = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let folder = TestFolder::create();
            let source = ConfigSource { data_dir: Some(folder.path().join("data")), ..ConfigSource::default() };
            let config = Config::from_source(source).expect("a valid configuration");
            let offline = Offline::open(config, Clock::system(), Entropy::seeded(0)).await.expect("compose the daemon");
            let text = serde_json::to_string_pretty(&offline.document()).expect("the document is JSON");
            offline.close().await;
            text + "\n"
        })
    });
    made.join().expect("build the document")
});

pub static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(&TEXT).expect("JSON"));

static VALIDATORS: LazyLock<Mutex<HashMap<String, &'static Validator>>> = LazyLock::new(Mutex::default);

/// One operation of the document.
#[derive(Debug, Clone)]
pub struct Operation {
    pub method: String,
    /// Path template with its variables in braces.
    pub path: String,
    pub id: String,
    pub value: Value,
}

impl Operation {
    /// Authentication requirement: `required`, `public`, or `until_first_key` (required once a key exists).
    pub fn access(&self) -> &'static str {
        let requirements = self.value["security"].as_array().cloned().unwrap_or_default();
        match requirements.first() {
            None => "public",
            Some(first) if first.as_object().is_some_and(serde_json::Map::is_empty) => "until_first_key",
            Some(_) => "required",
        }
    }
}

static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let mut operations = Vec::new();
    for (path, item) in DOCUMENT["paths"].as_object().expect("paths") {
        for method in ["get", "put", "post", "delete", "patch"] {
            if let Some(value) = item.get(method) {
                operations.push(Operation {
                    method: method.to_owned(),
                    path: path.clone(),
                    id: value["operationId"].as_str().unwrap_or_default().to_owned(),
                    value: value.clone(),
                });
            }
        }
    }
    operations
});

pub fn operations() -> &'static [Operation] {
    &OPERATIONS
}

/// Returns the operation that a concrete path belongs to; templates with fewer variables take precedence.
pub fn find(method: &str, path: &str) -> Option<&'static Operation> {
    let path = path.split('?').next().unwrap_or_default();
    operations()
        .iter()
        .filter(|operation| operation.method.eq_ignore_ascii_case(method) && matches(&operation.path, path))
        .min_by_key(|operation| operation.path.matches('{').count())
}

/// Returns the schemas that this one refers to, directly or transitively, under their positions in the document.
fn components_of(schema: &Value) -> Value {
    fn collect(value: &Value, found: &mut serde_json::Map<String, Value>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            Value::Object(fields) => {
                let named = fields.get("$ref").and_then(Value::as_str);
                if let Some(name) = named.and_then(|named| named.strip_prefix("#/components/schemas/"))
                    && !found.contains_key(name)
                {
                    let schema = &DOCUMENT["components"]["schemas"][name];
                    found.insert(name.to_owned(), schema.clone());
                    collect(schema, found);
                }
                fields.values().for_each(|value| collect(value, found));
            }
            _ => {}
        }
    }
    let mut found = serde_json::Map::new();
    collect(schema, &mut found);
    json!({"schemas": found})
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(&path).all(|(part, given)| part.starts_with('{') && !given.is_empty() || part == given)
}

/// Returns the validator of a schema of the document, which is compiled once per name.
pub fn validator_for(name: &str, schema: &Value) -> &'static Validator {
    let mut validators = VALIDATORS.lock().expect("no test panicked here");
    validators.entry(name.to_owned()).or_insert_with(|| {
        let root = json!({"allOf": [schema], "components": components_of(schema)});
        Box::leak(Box::new(jsonschema::validator_for(&root).expect("the document's schemas are valid")))
    })
}

pub fn validate(answer: &TestResponse) {
    if answer.method == reqwest::Method::OPTIONS {
        // Preflights are answered by the middleware, not by an operation.
        return;
    }
    let Some(operation) = find(answer.method.as_str(), &answer.path) else {
        // Unknown paths and methods are not in the document; their responses have the format of errors.
        assert!(
            answer.status.is_client_error()
                || !answer.path.starts_with("/api/")
                || answer.path.starts_with("/api/docs"),
            "{} {} returned {} and is not in the document",
            answer.method,
            answer.path,
            answer.status
        );
        return;
    };
    let status = answer.status.as_str();
    let name = format!("{} {}", operation.method.to_uppercase(), operation.path);
    let described = &operation.value["responses"][status];
    assert!(!described.is_null(), "{name} returned {status}, which the document does not list: {}", answer.text());
    let schema = &described["content"]["application/json"]["schema"];
    if schema.is_null() {
        return;
    }
    let validator = validator_for(&format!("{name} {status}"), schema);
    let value = answer.json();
    let problems: Vec<String> =
        validator.iter_errors(&value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(
        problems.is_empty(),
        "{name} returned {status} with {value}, which does not match the schema: {problems:?}"
    );
}
