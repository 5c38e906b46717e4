//! Removal of invalid parts of a value, so that the domain can validate the rest. Runs only for requests that are
//! rejected anyway; the result is never stored.

use serde_json::{Map, Value};

use super::{CompiledSchema, array, has_type, property, type_names};

/// Recursion limit for schemas that refer to themselves.
const MAX_PLACEHOLDER_DEPTH: usize = 8;

impl CompiledSchema {
    /// Returns a value that satisfies the schema: invalid fields are removed, or replaced by placeholders if required.
    pub(crate) fn sanitized(&self, value: Value) -> Value {
        let mut sanitized = self.sanitize_value(&self.root, value);
        self.normalize_integers(&mut sanitized);
        sanitized
    }

    /// Returns a value that satisfies the schema, for a field whose value is invalid or missing.
    pub(crate) fn placeholder(&self) -> Value {
        self.placeholder_for(&self.root, MAX_PLACEHOLDER_DEPTH)
    }

    fn sanitize_value(&self, schema: &Value, value: Value) -> Value {
        if self.is_valid(schema, &value) {
            return value;
        }
        let Some(resolved) = self.resolve(schema) else { return value };
        let mut value = value;
        for part in array(resolved, "allOf") {
            value = self.sanitize_value(part, value);
        }
        for union in ["oneOf", "anyOf"] {
            value = self.sanitize_union(array(resolved, union), value);
        }
        let types = type_names(resolved);
        let takes = |name: &str| types.is_empty() || types.contains(&name);
        let sanitized = match value {
            Value::Object(members) if takes("object") => Value::Object(self.sanitize_object(resolved, members)),
            Value::Array(items) if takes("array") => Value::Array(self.sanitize_array(resolved, items)),
            other => other,
        };
        if self.is_valid(schema, &sanitized) { sanitized } else { self.placeholder_for(schema, MAX_PLACEHOLDER_DEPTH) }
    }

    /// Selects the intended alternative: of those with a matching type, the one that retains most of the value.
    fn sanitize_union(&self, alternatives: &[Value], value: Value) -> Value {
        if alternatives.is_empty() || alternatives.iter().any(|alternative| self.is_valid(alternative, &value)) {
            return value;
        }
        let is_of_type = |schema: &&Value| {
            self.resolve(schema).is_some_and(|schema| {
                let types = type_names(schema);
                types.is_empty() || types.iter().any(|name| has_type(&value, name))
            })
        };
        let meant =
            alternatives.iter().filter(is_of_type).map(|alternative| self.sanitize_value(alternative, value.clone()));
        meant.max_by_key(|sanitized| sanitized.to_string().len()).unwrap_or(value)
    }

    fn sanitize_object(&self, schema: &Map<String, Value>, members: Map<String, Value>) -> Map<String, Value> {
        let required = || array(schema, "required").iter().filter_map(Value::as_str);
        let mut retained = Map::new();
        for (name, member) in members {
            match property(schema, &name) {
                Some(property) if !self.is_valid(property, &member) => {
                    // A container with an invalid part is retained without it; an invalid scalar is treated as absent.
                    let is_outside = member.is_object() || member.is_array();
                    let sanitized = self.sanitize_value(property, member);
                    if required().any(|required| required == name)
                        || (is_outside && (sanitized.is_object() || sanitized.is_array()))
                    {
                        retained.insert(name, sanitized);
                    }
                }
                None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {}
                _ => {
                    retained.insert(name, member);
                }
            }
        }
        for name in required() {
            if !retained.contains_key(name)
                && let Some(property) = property(schema, name)
            {
                retained.insert(name.to_owned(), self.placeholder_for(property, MAX_PLACEHOLDER_DEPTH));
            }
        }
        retained
    }

    fn sanitize_array(&self, schema: &Map<String, Value>, items: Vec<Value>) -> Vec<Value> {
        let bound = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let Some(item_schema) = schema.get("items") else { return items };
        let max_items = bound("maxItems").unwrap_or(usize::MAX);
        let mut retained: Vec<Value> =
            items.into_iter().take(max_items).map(|item| self.sanitize_value(item_schema, item)).collect();
        while retained.len() < bound("minItems").unwrap_or_default() {
            retained.push(self.placeholder_for(item_schema, MAX_PLACEHOLDER_DEPTH));
        }
        retained
    }

    fn placeholder_for(&self, schema: &Value, depth: usize) -> Value {
        let Some(schema) = self.resolve(schema).filter(|_| depth > 0) else { return Value::Null };
        if let Some(only) = schema.get("const").or_else(|| array(schema, "enum").first()) {
            return only.clone();
        }
        let inner = |part: &Value| self.placeholder_for(part, depth - 1);
        for union in ["oneOf", "anyOf"] {
            let mut placeholders = array(schema, union).iter().map(inner);
            if let Some(first) = placeholders.next() {
                return if placeholders.any(|other| other.is_null()) { Value::Null } else { first };
            }
        }
        let mut parts = Map::new();
        for part in array(schema, "allOf") {
            if let Value::Object(members) = inner(part) {
                parts.extend(members);
            }
        }
        let types = type_names(schema);
        let count = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        match types.first().copied() {
            _ if types.contains(&"null") => Value::Null,
            Some("string") => match (schema.get("example"), schema.get("format").and_then(Value::as_str)) {
                (Some(example @ Value::String(_)), _) => example.clone(),
                (_, Some("date-time")) => Value::from("2026-01-31T09:30:00Z"),
                _ => Value::from("x".repeat(count("minLength").unwrap_or(1).clamp(1, 256))),
            },
            Some("integer" | "number") => {
                let above =
                    schema.get("exclusiveMinimum").and_then(Value::as_f64).map(|least| Value::from(least + 1.0));
                schema.get("minimum").cloned().or(above).unwrap_or_else(|| Value::from(0))
            }
            Some("boolean") => Value::Bool(false),
            Some("array") => Value::Array(self.sanitize_array(schema, Vec::new())),
            Some("object") => {
                let own = self.sanitize_object(schema, Map::new());
                parts.extend(own);
                Value::Object(parts)
            }
            _ if !parts.is_empty() => Value::Object(parts),
            _ => Value::Null,
        }
    }
}
