//! The fields of a configuration, read one after the other; each fault is kept under its field.

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
    pub(super) fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.problems.add(format!("config.{name}"), message);
    }

    pub(super) fn value(&self, name: &str) -> Option<Value> {
        self.given.get(name).filter(|value| !value.is_null()).cloned()
    }

    pub(super) fn keep(&mut self, name: &str, value: impl Into<Value>) {
        self.kept.insert(name.to_owned(), value.into());
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        match self.value(name)? {
            Value::String(text) if !text.trim().is_empty() => {
                self.keep(name, text.clone());
                Some(text)
            }
            _ => {
                self.refuse(name, "must be a text");
                None
            }
        }
    }

    pub(super) fn required_text(&mut self, name: &str) -> Option<String> {
        if self.value(name).is_none() {
            self.refuse(name, "is required");
            return None;
        }
        self.text(name)
    }

    pub(super) fn template(&mut self, name: &str) -> Option<Template> {
        let text = self.required_text(name)?;
        Template::parse(&text).map_err(|message| self.refuse(name, message)).ok()
    }

    pub(super) fn number(&mut self, name: &str, default: f64, least: f64, most: f64) -> Option<f64> {
        let number = match self.value(name) {
            None => Some(default),
            Some(value) => value.as_f64().filter(|number| (least..=most).contains(number)),
        };
        match number {
            Some(number) => {
                // A whole number is shown as one.
                #[allow(clippy::cast_possible_truncation, reason = "bounded by `most`, and whole")]
                let shown = if number.fract() == 0.0 { json!(number as i64) } else { json!(number) };
                self.keep(name, shown);
            }
            None => self.refuse(name, format!("must be a number from {least} to {most}")),
        }
        number
    }

    pub(super) fn boolean(&mut self, name: &str, default: bool) -> Option<bool> {
        match self.value(name).unwrap_or(Value::Bool(default)) {
            Value::Bool(value) => {
                self.keep(name, value);
                Some(value)
            }
            _ => {
                self.refuse(name, "must be true or false");
                None
            }
        }
    }
}
