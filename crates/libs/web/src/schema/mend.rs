//! What is left of a value once everything that its schema refuses is out of it, so that a domain's own rules
//! can be asked about the rest. Work for requests that are refused anyway; nothing of it is ever stored.

use serde_json::{Map, Value};

use super::{Checked, array, has_type, property, type_names};

/// A schema that refers to itself ends here.
const DEEPEST_STAND_IN: usize = 8;

impl Checked {
    /// A value that the schema takes: bad fields are left out, or stand-ins where they are required.
    pub(crate) fn mended(&self, value: Value) -> Value {
        let mut mended = self.mend(&self.root, value);
        self.settle(&mut mended);
        mended
    }

    /// Some value that the schema takes, for a field whose own is bad or missing.
    pub(crate) fn stand_in(&self) -> Value {
        self.stand_in_of(&self.root, DEEPEST_STAND_IN)
    }

    fn mend(&self, schema: &Value, value: Value) -> Value {
        if self.fits(schema, &value) {
            return value;
        }
        let Some(resolved) = self.resolve(schema) else { return value };
        let mut value = value;
        for part in array(resolved, "allOf") {
            value = self.mend(part, value);
        }
        for union in ["oneOf", "anyOf"] {
            value = self.mend_union(array(resolved, union), value);
        }
        let types = type_names(resolved);
        let takes = |name: &str| types.is_empty() || types.contains(&name);
        let mended = match value {
            Value::Object(members) if takes("object") => Value::Object(self.mend_object(resolved, members)),
            Value::Array(items) if takes("array") => Value::Array(self.mend_array(resolved, items)),
            other => other,
        };
        if self.fits(schema, &mended) { mended } else { self.stand_in_of(schema, DEEPEST_STAND_IN) }
    }

    /// Of several alternatives the one that was meant: of those for such a value the one that keeps most of it.
    fn mend_union(&self, alternatives: &[Value], value: Value) -> Value {
        if alternatives.is_empty() || alternatives.iter().any(|alternative| self.fits(alternative, &value)) {
            return value;
        }
        let is_of_type = |schema: &&Value| {
            self.resolve(schema).is_some_and(|schema| {
                let types = type_names(schema);
                types.is_empty() || types.iter().any(|name| has_type(&value, name))
            })
        };
        let meant = alternatives.iter().filter(is_of_type).map(|alternative| self.mend(alternative, value.clone()));
        meant.max_by_key(|mended| mended.to_string().len()).unwrap_or(value)
    }

    fn mend_object(&self, schema: &Map<String, Value>, members: Map<String, Value>) -> Map<String, Value> {
        let required = || array(schema, "required").iter().filter_map(Value::as_str);
        let mut kept = Map::new();
        for (name, member) in members {
            match property(schema, &name) {
                Some(property) if !self.fits(property, &member) => {
                    // What is around a bad field is kept; what is bad itself is as if it had not been given.
                    let is_outside = member.is_object() || member.is_array();
                    let mended = self.mend(property, member);
                    if required().any(|required| required == name)
                        || (is_outside && (mended.is_object() || mended.is_array()))
                    {
                        kept.insert(name, mended);
                    }
                }
                None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {}
                _ => {
                    kept.insert(name, member);
                }
            }
        }
        for name in required() {
            if !kept.contains_key(name)
                && let Some(property) = property(schema, name)
            {
                kept.insert(name.to_owned(), self.stand_in_of(property, DEEPEST_STAND_IN));
            }
        }
        kept
    }

    fn mend_array(&self, schema: &Map<String, Value>, items: Vec<Value>) -> Vec<Value> {
        let bound = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
        let Some(item_schema) = schema.get("items") else { return items };
        let most = bound("maxItems").unwrap_or(usize::MAX);
        let mut kept: Vec<Value> = items.into_iter().take(most).map(|item| self.mend(item_schema, item)).collect();
        while kept.len() < bound("minItems").unwrap_or_default() {
            kept.push(self.stand_in_of(item_schema, DEEPEST_STAND_IN));
        }
        kept
    }

    fn stand_in_of(&self, schema: &Value, depth: usize) -> Value {
        let Some(schema) = self.resolve(schema).filter(|_| depth > 0) else { return Value::Null };
        if let Some(only) = schema.get("const").or_else(|| array(schema, "enum").first()) {
            return only.clone();
        }
        let inner = |part: &Value| self.stand_in_of(part, depth - 1);
        for union in ["oneOf", "anyOf"] {
            let mut stand_ins = array(schema, union).iter().map(inner);
            if let Some(first) = stand_ins.next() {
                return if stand_ins.any(|other| other.is_null()) { Value::Null } else { first };
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
            Some("array") => Value::Array(self.mend_array(schema, Vec::new())),
            Some("object") => {
                let own = self.mend_object(schema, Map::new());
                parts.extend(own);
                Value::Object(parts)
            }
            _ if !parts.is_empty() => Value::Object(parts),
            _ => Value::Null,
        }
    }
}
