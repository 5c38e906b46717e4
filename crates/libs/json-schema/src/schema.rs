//! JSON Schema, and its admission checks.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::error::{MAX_EXPANDED, MAX_IN_PLACE_DEPTH, MAX_SCHEMA_BYTES, SchemaError};
use super::keywords::{below, in_place};

/// Maximum length of an asserted pattern.
pub(super) const MAX_PATTERN_BYTES: usize = 1_000;
const MAX_PROBLEM_CHARACTERS: usize = 300;

/// Accepted JSON Schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    root: Value,
    /// In drafts before 2019-09, keywords next to a reference are ignored.
    ref_overrides_siblings: bool,
}

impl Schema {
    /// Accepts a schema.
    ///
    /// # Errors
    /// Returns the reason if the schema is rejected.
    pub fn new(root: Value) -> Result<Self, SchemaError> {
        if root.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLong);
        }
        if has_external_reference(&root) {
            return Err(SchemaError::RefersOutside);
        }
        jsonschema::meta::options()
            .validate(&root)
            .map_err(|error| SchemaError::Invalid(error.to_string().chars().take(MAX_PROBLEM_CHARACTERS).collect()))?;
        let schema = Self::trusted(root);
        ReferenceExpansion { schema: &schema, parts: HashMap::new() }.check()?;
        Ok(schema)
    }

    /// Creates a schema of our own without checks.
    #[must_use]
    pub fn trusted(root: Value) -> Self {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let ref_overrides_siblings = ["/draft-04/", "/draft-06/", "/draft-07/"].iter().any(|name| draft.contains(name));
        Self { root, ref_overrides_siblings }
    }

    #[must_use]
    pub fn value(&self) -> &Value {
        &self.root
    }

    pub(super) fn ref_overrides_siblings(&self) -> bool {
        self.ref_overrides_siblings
    }

    /// Resolves a reference: `#` or `#/a/json/pointer`.
    pub(super) fn resolve(&self, reference: &str) -> Option<&Value> {
        let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        self.root.pointer(&pointer)
    }
}

/// Whether a schema references another document.
#[must_use]
pub fn has_external_reference(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_external_reference),
        Value::Object(members) => members.iter().any(|(key, value)| match value {
            Value::String(target) => matches!(key.as_str(), "$ref" | "$dynamicRef") && !target.starts_with('#'),
            _ => has_external_reference(value),
        }),
        _ => false,
    }
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(members) => members.contains_key("$ref") || members.values().any(has_reference),
        _ => false,
    }
}

/// Whether a pattern is valid in the standard's dialect, or in those of servers in Python, Go and Rust.
fn is_regular_expression(pattern: &str) -> bool {
    jsonschema_regex::is_valid_ecma_regex(pattern)
        || !matches!(regex::RegexBuilder::new(pattern).size_limit(1 << 16).build(), Err(regex::Error::Syntax(_)))
}

/// Counts the schemas that each part applies to one value. Parts are identified by their address, since the schema is
/// borrowed meanwhile.
struct ReferenceExpansion<'s> {
    schema: &'s Schema,
    /// `None` while a part is being counted.
    parts: HashMap<*const Value, Option<Counted>>,
}

#[derive(Clone, Copy)]
struct Counted {
    parts: u64,
    depth: usize,
}

impl<'s> ReferenceExpansion<'s> {
    fn check(mut self) -> Result<(), SchemaError> {
        let mut waiting = vec![&self.schema.root];
        while let Some(part) = waiting.pop() {
            self.count(part, 0, &mut waiting)?;
        }
        Ok(())
    }

    /// Counts `part` and everything that it applies in place; its subschemas for parts of the value are added to
    /// `waiting`.
    fn count(&mut self, part: &'s Value, depth: usize, waiting: &mut Vec<&'s Value>) -> Result<Counted, SchemaError> {
        let mut counted = Counted { parts: 1, depth: 1 };
        let Value::Object(keywords) = part else { return Ok(counted) };
        match self.parts.get(&std::ptr::from_ref(part)) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => return Err(SchemaError::Endless),
            None => {}
        }
        if depth > MAX_IN_PLACE_DEPTH {
            return Err(SchemaError::Unfolds);
        }
        self.require_supported(part, keywords)?;
        self.parts.insert(part, None);
        let target = match keywords.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let nothing = || SchemaError::NothingThere(reference.chars().take(100).collect());
                Some(self.schema.resolve(reference).ok_or_else(nothing)?)
            }
            None => None,
        };
        for applied in in_place(keywords).chain(target) {
            let inner = self.count(applied, depth + 1, waiting)?;
            counted.parts += inner.parts;
            counted.depth = counted.depth.max(inner.depth + 1);
            if counted.parts > MAX_EXPANDED || counted.depth > MAX_IN_PLACE_DEPTH {
                return Err(SchemaError::Unfolds);
            }
        }
        self.parts.insert(part, Some(counted));
        waiting.extend(below(keywords));
        Ok(counted)
    }

    fn require_supported(&self, part: &Value, keywords: &Map<String, Value>) -> Result<(), SchemaError> {
        // With a nested `$id`, the base of a pointer would depend on its position.
        let is_root = std::ptr::eq(part, &self.schema.root);
        if !is_root && keywords.get("$id").is_some_and(Value::is_string) && has_reference(part) {
            return Err(SchemaError::NotSupported("$id".to_owned()));
        }
        if let Some(keyword) = ["$dynamicRef", "$recursiveRef"].into_iter().find(|name| keywords.contains_key(*name)) {
            return Err(SchemaError::NotSupported(keyword.to_owned()));
        }
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str)
            && !matches!(reference.as_bytes(), [b'#'] | [b'#', b'/', ..])
        {
            return Err(SchemaError::NotSupported(format!(
                "$ref: {}",
                reference.chars().take(100).collect::<String>()
            )));
        }
        let patterns = keywords.get("pattern").and_then(Value::as_str).into_iter();
        let names = keywords.get("patternProperties").and_then(Value::as_object).into_iter();
        for pattern in patterns.chain(names.flat_map(Map::keys).map(String::as_str)) {
            if pattern.len() <= MAX_PATTERN_BYTES && !is_regular_expression(pattern) {
                let pattern: String = pattern.chars().take(100).collect();
                return Err(SchemaError::Invalid(format!("`{pattern}` is not a valid regular expression")));
            }
        }
        Ok(())
    }
}
