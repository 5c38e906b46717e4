//! API descriptions of the vendors: operations and schemas from `data`, whose README names their sources. Requests and
//! events of the fakes are validated against them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use http::Method;
use jsonschema::Validator;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub static DISCORD: LazyLock<ApiDescription> =
    LazyLock::new(|| ApiDescription::new(include_str!("../data/discord.json")));
pub static GOOGLE_CHAT: LazyLock<ApiDescription> =
    LazyLock::new(|| ApiDescription::new(include_str!("../data/google_chat.json")));
pub static SLACK: LazyLock<ApiDescription> = LazyLock::new(|| ApiDescription::new(include_str!("../data/slack.json")));
pub static TEAMS: LazyLock<ApiDescription> = LazyLock::new(|| ApiDescription::new(include_str!("../data/teams.json")));
pub static TELEGRAM: LazyLock<ApiDescription> =
    LazyLock::new(|| ApiDescription::new(include_str!("../data/telegram.json")));

/// Maximum length of a validation error, which may contain the whole body.
const MAX_ERROR_BYTES: usize = 1000;

/// API description of a vendor.
#[derive(Debug)]
pub struct ApiDescription {
    document: Value,
    /// Compiled validators by schema text.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl ApiDescription {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by its tests")]
    fn new(text: &str) -> Self {
        Self { document: serde_json::from_str(text).expect("a description is JSON"), validators: Mutex::default() }
    }

    /// Checks that a request conforms to the API.
    ///
    /// # Errors
    /// Returns the reason.
    pub fn check_request(&self, method: &Method, path: &str, query: &str, body: &Value) -> Result<(), String> {
        let request = format!("{method} {path}");
        let operations = self.document["operations"].as_object().into_iter().flatten();
        let matching = operations.filter(|(template, _)| matches_template(template, &request));
        // A literal path takes precedence over a template.
        let (_, operation) = matching
            .min_by_key(|(template, _)| template.matches('{').count())
            .ok_or_else(|| format!("the API has no operation {request}"))?;
        for (field, value) in form_urlencoded::parse(query.as_bytes()) {
            let schema = operation["query"].get(&*field).ok_or_else(|| format!("{request} takes no `{field}`"))?;
            // Query parameters are strings.
            let typed = match schema["type"].as_str() {
                Some("boolean" | "integer" | "number") => serde_json::from_str(&value).unwrap_or_default(),
                _ => Value::from(value),
            };
            self.check(schema, &typed).map_err(|error| format!("`{field}` of {request}: {error}"))?;
        }
        match operation.get("body") {
            Some(schema) => self.check(schema, body).map_err(|error| format!("the body of {request}: {error}")),
            None if body.is_null() => Ok(()),
            None => Err(format!("{request} takes no body")),
        }
    }

    /// Checks that an event or response conforms to the API.
    ///
    /// # Errors
    /// Returns the reason.
    pub fn check_event(&self, name: &str, event: &Value) -> Result<(), String> {
        let schema = self.document["events"].get(name).ok_or_else(|| format!("the API has no {name}"))?;
        self.check(schema, event).map_err(|error| format!("{name}: {error}"))
    }

    /// Returns the fields of a definition.
    #[must_use]
    pub fn properties(&self, name: &str) -> Vec<String> {
        let properties = self.document["definitions"][name]["properties"].as_object();
        properties.into_iter().flat_map(|fields| fields.keys().cloned()).collect()
    }

    /// Returns the enum values of a field of a definition.
    #[must_use]
    pub fn values(&self, name: &str, field: &str) -> Vec<String> {
        let values = self.document["definitions"][name]["properties"][field]["enum"].as_array();
        values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn check(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let errors: Vec<String> = self
            .validator(schema)
            .iter_errors(value)
            .map(|error| format!("at `{}`: {error}", error.instance_path()))
            .collect();
        let mut message = errors.join("; ");
        message.truncate(message.floor_char_boundary(MAX_ERROR_BYTES));
        if errors.is_empty() { Ok(()) } else { Err(message) }
    }

    #[allow(clippy::expect_used, reason = "schemas of this crate, compiled by its tests")]
    fn validator(&self, schema: &Value) -> Arc<Validator> {
        let mut validators = self.validators.lock();
        let compiled = validators.entry(schema.to_string()).or_insert_with(|| {
            let whole = json!({"allOf": [schema], "definitions": self.document["definitions"]});
            let validator = jsonschema::options().should_validate_formats(true).build(&whole);
            Arc::new(validator.expect("a description has valid schemas"))
        });
        Arc::clone(compiled)
    }
}

/// Whether a request matches a template such as `POST channels/{channel_id}/messages`.
fn matches_template(template: &str, request: &str) -> bool {
    let (mut places, mut segments) = (template.split('/'), request.split('/'));
    loop {
        match (places.next(), segments.next()) {
            (None, None) => return true,
            (Some(place), Some(segment)) if place == segment || (place.starts_with('{') && !segment.is_empty()) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_schemas_are_valid() {
        for description in [&DISCORD, &GOOGLE_CHAT, &SLACK, &TEAMS, &TELEGRAM] {
            let document = &description.document;
            let operations = document["operations"].as_object().unwrap().values();
            let bodies = operations.filter_map(|operation| operation.get("body"));
            for schema in bodies.chain(document["events"].as_object().unwrap().values()) {
                assert!(description.check(schema, &json!("no object")).is_err(), "{schema}");
            }
        }
    }

    #[test]
    fn unknown_requests_and_events_are_rejected() {
        let refused = |body: Value| TELEGRAM.check_request(&Method::POST, "sendMessage", "", &body).unwrap_err();
        assert!(refused(json!({"chat_id": 1})).contains("\"text\" is a required property"));
        assert!(refused(json!({"chat_id": 1, "text": 2})).contains("at `/text`"));
        assert!(refused(json!({"chat_id": 1, "text": "x", "silent": true})).contains("'silent'"));
        assert!(refused(json!({"chat_id": 1, "text": "x", "parse_mode": "HTM"})).contains("at `/parse_mode`"));
        assert_eq!(TELEGRAM.check_request(&Method::POST, "getMe", "", &json!({})), Ok(()));
        for (method, path) in [(Method::GET, "getMe"), (Method::POST, "getUs"), (Method::POST, "getMe/x")] {
            let error = TELEGRAM.check_request(&method, path, "", &json!({})).unwrap_err();
            assert_eq!(error, format!("the API has no operation {method} {path}"));
        }
        let post = |query: &str| {
            let path = "v1/spaces/A/messages";
            GOOGLE_CHAT.check_request(&Method::POST, path, query, &json!({"text": "x"}))
        };
        assert_eq!(post("messageReplyOption=REPLY_MESSAGE_OR_FAIL"), Ok(()));
        assert!(post("messageReplyOption=NO").is_err() && post("other=1").is_err());
        let long = json!({"content": "x".repeat(4001)});
        assert!(DISCORD.check_request(&Method::POST, "channels/1/messages", "", &long).is_err());
        assert!(TEAMS.check_event("Activity", &json!({"type": "message", "timestamp": "yesterday"})).is_err());
    }
}
