//! Field-by-field reader of a config that collects a problem for each invalid field.

use agentd_base::Problems;
use serde_json::{Map, Value, json};

use super::super::template::Template;

/// Reads a config field by field.
pub(super) struct Fields<'a> {
    pub(super) given: &'a Map<String, Value>,
    pub(super) problems: &'a mut Problems,
    pub(super) kept: Map<String, Value>,
}

impl Fields<'_> {
    pub(super) fn reject(&mut self, name: &str, message: impl Into<String>) {
        self.problems.add(format!("config.{name}"), message);
    }

    pub(super) fn value(&self, name: &str) -> Option<Value> {
        self.given.get(name).filter(|value| !value.is_null()).cloned()
    }

    pub(super) fn store(&mut self, name: &str, value: impl Into<Value>) {
        self.kept.insert(name.to_owned(), value.into());
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::String(text) if !text.trim().is_empty() => {
                self.store(name, text.clone());
                Some(text)
            }
            _ => {
                self.reject(name, "must be a string");
                None
            }
        }
    }

    pub(super) fn required_text(&mut self, name: &str) -> Option<String> {
        if self.value(name).is_none() {
            self.reject(name, "is required");
            return None;
        }
        self.text(name)
    }

    pub(super) fn template(&mut self, name: &str) -> Option<Template> {
        let text = self.required_text(name)?;
        Template::parse(&text).map_err(|message| self.reject(name, message)).ok()
    }

    pub(super) fn number(&mut self, name: &str, default: f64, min: f64, max: f64) -> Option<f64> {
        let number = match self.value(name) {
            None => Some(default),
            Some(value) => value.as_f64().filter(|number| (min..=max).contains(number)),
        };
        match number {
            Some(number) => {
                // A whole number is stored without a fraction.
                #[allow(clippy::cast_possible_truncation, reason = "bounded by `max`, and whole")]
                let shown = if number.fract() == 0.0 { json!(number as i64) } else { json!(number) };
                self.store(name, shown);
            }
            None => self.reject(name, format!("must be a number from {min} to {max}")),
        }
        number
    }

    pub(super) fn boolean(&mut self, name: &str, default: bool) -> Option<bool> {
        match self.value(name).unwrap_or(Value::Bool(default)) {
            Value::Bool(value) => {
                self.store(name, value);
                Some(value)
            }
            _ => {
                self.reject(name, "must be true or false");
                None
            }
        }
    }
}
