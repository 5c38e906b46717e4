//! A schema, and what it must be like to be taken over.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::error::{MAX_IN_PLACE_DEPTH, MAX_SCHEMA_BYTES, MAX_UNFOLDED, SchemaError};
use super::keywords::{below, in_place};

/// Longer patterns are not asserted.
pub(super) const MAX_PATTERN_BYTES: usize = 1_000;
const MAX_PROBLEM_CHARACTERS: usize = 300;

/// A JSON Schema that can be validated with.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    root: Value,
    /// In drafts before 2019-09 nothing counts beside a reference.
    ref_stands_alone: bool,
}

impl Schema {
    /// # Errors
    /// What is wrong with the schema.
    pub fn new(root: Value) -> Result<Self, SchemaError> {
        if root.to_string().len() > MAX_SCHEMA_BYTES {
            return Err(SchemaError::TooLong);
        }
        if refers_outside(&root) {
            return Err(SchemaError::RefersOutside);
        }
        jsonschema::meta::options()
            .validate(&root)
            .map_err(|error| SchemaError::Invalid(error.to_string().chars().take(MAX_PROBLEM_CHARACTERS).collect()))?;
        let schema = Self::trusted(root);
        Unfolding { schema: &schema, parts: HashMap::new() }.look_through()?;
        Ok(schema)
    }

    /// One of our own, which is not looked through.
    #[must_use]
    pub fn trusted(root: Value) -> Self {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let ref_stands_alone = ["/draft-04/", "/draft-06/", "/draft-07/"].iter().any(|name| draft.contains(name));
        Self { root, ref_stands_alone }
    }

    #[must_use]
    pub fn value(&self) -> &Value {
        &self.root
    }

    pub(super) fn ref_stands_alone(&self) -> bool {
        self.ref_stands_alone
    }

    /// What a reference leads to: `#` or `#/a/json/pointer`.
    pub(super) fn resolve(&self, reference: &str) -> Option<&Value> {
        let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
        self.root.pointer(&pointer)
    }
}

/// Whether a schema refers to a document other than itself.
#[must_use]
pub fn refers_outside(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(refers_outside),
        Value::Object(members) => members.iter().any(|(key, value)| match value {
            Value::String(target) => matches!(key.as_str(), "$ref" | "$dynamicRef") && !target.starts_with('#'),
            _ => refers_outside(value),
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

/// Of the dialect that the standard names, or of those that servers in Python, Go and Rust write.
fn is_regular_expression(pattern: &str) -> bool {
    jsonschema_regex::is_valid_ecma_regex(pattern)
        || !matches!(regex::RegexBuilder::new(pattern).size_limit(1 << 16).build(), Err(regex::Error::Syntax(_)))
}

/// How much each part of a schema applies to one value. Parts are told apart by where they are in memory: the schema
/// is borrowed meanwhile.
struct Unfolding<'s> {
    schema: &'s Schema,
    /// `None`: being counted right now.
    parts: HashMap<*const Value, Option<Counted>>,
}

#[derive(Clone, Copy)]
struct Counted {
    parts: u64,
    depth: usize,
}

impl<'s> Unfolding<'s> {
    fn look_through(mut self) -> Result<(), SchemaError> {
        let mut waiting = vec![&self.schema.root];
        while let Some(part) = waiting.pop() {
            self.count(part, 0, &mut waiting)?;
        }
        Ok(())
    }

    /// What `part` and all that it applies in place come to; what it applies below is left `waiting`.
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
            if counted.parts > MAX_UNFOLDED || counted.depth > MAX_IN_PLACE_DEPTH {
                return Err(SchemaError::Unfolds);
            }
        }
        self.parts.insert(part, Some(counted));
        waiting.extend(below(keywords));
        Ok(counted)
    }

    fn require_supported(&self, part: &Value, keywords: &Map<String, Value>) -> Result<(), SchemaError> {
        // With an `$id` inside, what a pointer counts from would depend on where it stands.
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
                return Err(SchemaError::Invalid(format!("`{pattern}` is no regular expression")));
            }
        }
        Ok(())
    }
}
