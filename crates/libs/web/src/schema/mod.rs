//! Checks a JSON value against the schema that the OpenAPI document shows for it, and reports
//! every violation, so that what is documented is what is enforced and a caller learns of all bad
//! fields at once.
//!
//! Knows the subset of JSON Schema that the derive of `utoipa` writes: types, required fields,
//! enumerations, ranges, lengths, items, references, unions. It leaves alone what it does not
//! know (formats and patterns), which the domains check themselves.

mod mend;

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use agentd_base::Problems;
use parking_lot::RwLock;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A problem list longer than this helps nobody and costs memory.
const MAX_PROBLEMS: usize = 50;

/// A schema with what it refers to.
#[derive(Debug)]
pub struct Checked {
    root: Value,
    components: HashMap<String, Value>,
}

static CACHE: LazyLock<RwLock<HashMap<TypeId, Arc<Checked>>>> = LazyLock::new(RwLock::default);

/// Checks `value` against the schema of `T`, every violation under the dotted path of its field. A whole
/// number that was written as a fraction, `5.0`, is a whole number afterwards.
pub fn check<T: ToSchema + 'static>(value: &mut Value, problems: &mut Problems) {
    checked::<T>().check(value, problems);
}

/// The schema of `T`, made once.
pub(crate) fn checked<T: ToSchema + 'static>() -> Arc<Checked> {
    let cached = CACHE.read().get(&TypeId::of::<T>()).cloned();
    cached.unwrap_or_else(|| {
        let fresh = Arc::new(Checked::of::<T>());
        CACHE.write().insert(TypeId::of::<T>(), Arc::clone(&fresh));
        fresh
    })
}

impl Checked {
    fn of<T: ToSchema>() -> Self {
        let mut referenced = Vec::new();
        T::schemas(&mut referenced);
        let components = referenced
            .into_iter()
            .filter_map(|(name, schema)| Some((name, serde_json::to_value(schema).ok()?)))
            .collect();
        Self { root: serde_json::to_value(T::schema()).unwrap_or(Value::Bool(true)), components }
    }

    /// A schema from a ready document, such as that of a query parameter.
    #[must_use]
    pub fn from_value(root: Value) -> Self {
        Self { root, components: HashMap::new() }
    }

    /// As [`check`].
    pub fn check(&self, value: &mut Value, problems: &mut Problems) {
        let mut found = Vec::new();
        self.walk(&self.root, value, "", &mut found);
        let has_whole_fractions = look_through(value, "", &mut found);
        if has_whole_fractions {
            self.settle(value);
        }
        for (field, message) in found.into_iter().take(MAX_PROBLEMS) {
            problems.add(if field.is_empty() { "body".to_owned() } else { field }, message);
        }
    }

    fn resolve<'s>(&'s self, schema: &'s Value) -> Option<&'s Map<String, Value>> {
        let mut current = schema.as_object()?;
        // A reference to a reference is rare and a cycle of them impossible to write by derive.
        for _ in 0..8 {
            let Some(reference) = current.get("$ref").and_then(Value::as_str) else { return Some(current) };
            let name = reference.rsplit('/').next()?;
            current = self.components.get(name)?.as_object()?;
        }
        None
    }

    fn walk(&self, schema: &Value, value: &Value, path: &str, found: &mut Vec<(String, String)>) {
        if found.len() >= MAX_PROBLEMS {
            return;
        }
        let Some(schema) = self.resolve(schema) else { return };
        for part in array(schema, "allOf") {
            self.walk(part, value, path, found);
        }
        for union in ["oneOf", "anyOf"] {
            let alternatives = array(schema, union);
            if !alternatives.is_empty() {
                self.walk_union(alternatives, value, path, found);
            }
        }
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
            && !allowed.contains(value)
        {
            found.push((path.to_owned(), format!("must be one of {}", list(allowed))));
            return;
        }
        if let Some(expected) = schema.get("const")
            && expected != value
        {
            found.push((path.to_owned(), format!("must be {expected}")));
            return;
        }
        let types = type_names(schema);
        if !types.is_empty() && !types.iter().any(|name| has_type(value, name)) {
            match value {
                // No fraction, only larger than any whole number that JSON readers agree on.
                Value::Number(number) if types.contains(&"integer") && is_beyond_integers(number) => {
                    check_range(schema, number, path, found);
                }
                _ => found.push((path.to_owned(), format!("must be {}, not {}", wanted(&types), kind_of(value)))),
            }
            return;
        }
        match value {
            Value::Object(object) => self.walk_object(schema, object, path, found),
            Value::Array(items) => self.walk_array(schema, items, path, found),
            Value::String(text) => check_length(schema, text, path, found),
            Value::Number(number) => check_range(schema, number, path, found),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn walk_union(&self, alternatives: &[Value], value: &Value, path: &str, found: &mut Vec<(String, String)>) {
        let mut closest = None;
        let mut best = (false, 0);
        let mut types = Vec::new();
        for alternative in alternatives {
            let mut problems = Vec::new();
            self.walk(alternative, value, path, &mut problems);
            if problems.is_empty() {
                return;
            }
            let names = self.resolve(alternative).map(type_names).unwrap_or_default();
            if names == ["null"] {
                continue;
            }
            let is_of_type =
                names.is_empty() || names.iter().any(|name| has_type(value, name) || is_number(value, name));
            // Of the alternatives that take such a value, the one that failed deepest is the one that was meant.
            let depth = problems.iter().map(|(field, _)| field.len()).max().unwrap_or(0);
            let closeness = (is_of_type, depth);
            if closest.is_none() || closeness > best {
                (closest, best) = (Some(problems), closeness);
            }
            types.extend(names);
        }
        match closest {
            Some(_) if !best.0 => {
                found.push((path.to_owned(), format!("must be {}, not {}", wanted(&types), kind_of(value))));
            }
            Some(problems) => found.extend(problems),
            None => found.push((path.to_owned(), "must be null".to_owned())),
        }
    }

    fn walk_object(
        &self,
        schema: &Map<String, Value>,
        object: &Map<String, Value>,
        path: &str,
        found: &mut Vec<(String, String)>,
    ) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for name in array(schema, "required").iter().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                found.push((join(path, name), "is required".to_owned()));
            }
        }
        let additional = schema.get("additionalProperties");
        for (name, member) in object {
            if let Some(property) = properties.and_then(|known| known.get(name)) {
                self.walk(property, member, &join(path, name), found);
            } else if additional == Some(&Value::Bool(false)) {
                let known = properties.map(|known| known.keys().cloned().collect::<Vec<_>>().join(", "));
                let known = known.unwrap_or_default();
                found.push((join(path, name), format!("is not known here; known are: {known}")));
            } else if let Some(other) = additional.filter(|other| other.is_object()) {
                self.walk(other, member, &join(path, name), found);
            }
        }
    }

    fn walk_array(&self, schema: &Map<String, Value>, items: &[Value], path: &str, found: &mut Vec<(String, String)>) {
        let count = items.len() as u64;
        if let Some(minimum) = schema.get("minItems").and_then(Value::as_u64)
            && count < minimum
        {
            let message = match minimum {
                1 => "must not be empty".to_owned(),
                _ => format!("must have at least {minimum} entries"),
            };
            found.push((path.to_owned(), message));
        }
        if let Some(maximum) = schema.get("maxItems").and_then(Value::as_u64)
            && count > maximum
        {
            found.push((path.to_owned(), format!("must have at most {maximum} entries")));
        }
        if let Some(item_schema) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.walk(item_schema, item, &format!("{path}[{index}]"), found);
            }
        }
    }

    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let mut found = Vec::new();
        self.walk(schema, value, "", &mut found);
        found.is_empty()
    }

    /// Whole numbers that were written as fractions become whole numbers, where the schema wants those.
    fn settle(&self, value: &mut Value) {
        self.settle_at(&self.root, value);
    }

    fn settle_at(&self, schema: &Value, value: &mut Value) {
        let Some(schema) = self.resolve(schema) else { return };
        for part in array(schema, "allOf") {
            self.settle_at(part, value);
        }
        for union in ["oneOf", "anyOf"] {
            if let Some(taken) = array(schema, union).iter().find(|alternative| self.fits(alternative, value)) {
                self.settle_at(taken, value);
            }
        }
        match value {
            Value::Number(number) => {
                let types = type_names(schema);
                if types.contains(&"integer")
                    && !types.contains(&"number")
                    && let Some(whole) = whole(number)
                {
                    *value = Value::from(whole);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    if let Some(property) = property(schema, name) {
                        self.settle_at(property, member);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(item_schema) = schema.get("items") {
                    items.iter_mut().for_each(|item| self.settle_at(item_schema, item));
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
}

/// PostgreSQL cannot store U+0000 in text, and nothing that people write contains it, so it is
/// refused everywhere alike. Answers whether a whole number is written as a fraction somewhere.
fn look_through(value: &Value, path: &str, found: &mut Vec<(String, String)>) -> bool {
    let mut has_whole_fractions = false;
    match value {
        Value::Number(number) => has_whole_fractions = whole(number).is_some(),
        Value::String(text) if text.contains('\0') => {
            found.push((path.to_owned(), "must not contain the NUL character".to_owned()));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                has_whole_fractions |= look_through(item, &format!("{path}[{index}]"), found);
            }
        }
        Value::Object(object) => {
            for (name, member) in object {
                if name.contains('\0') {
                    found.push((path.to_owned(), "has a field name with the NUL character".to_owned()));
                }
                has_whole_fractions |= look_through(member, &join(path, name), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    has_whole_fractions
}

/// The whole number that `5.0` is.
fn whole(number: &serde_json::Number) -> Option<i64> {
    let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0)?;
    #[allow(clippy::cast_possible_truncation, reason = "whole, and within 64 bits")]
    (!is_beyond_integers(number)).then_some(float as i64)
}

fn check_length(schema: &Map<String, Value>, text: &str, path: &str, found: &mut Vec<(String, String)>) {
    let length = text.chars().count() as u64;
    if let Some(minimum) = schema.get("minLength").and_then(Value::as_u64)
        && length < minimum
    {
        let message = match minimum {
            1 => "must not be empty".to_owned(),
            _ => format!("must have at least {minimum} characters"),
        };
        found.push((path.to_owned(), message));
    }
    if let Some(maximum) = schema.get("maxLength").and_then(Value::as_u64)
        && length > maximum
    {
        found.push((path.to_owned(), format!("must have at most {maximum} characters")));
    }
}

fn check_range(
    schema: &Map<String, Value>,
    number: &serde_json::Number,
    path: &str,
    found: &mut Vec<(String, String)>,
) {
    let Some(given) = number.as_f64() else { return };
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let (low, high) = (bound("minimum"), bound("maximum"));
    if low.is_some_and(|low| given < low) || high.is_some_and(|high| given > high) {
        let message = match (low, high) {
            (Some(low), Some(high)) => format!("must be between {low} and {high}"),
            (Some(low), None) => format!("must be at least {low}"),
            (None, Some(high)) => format!("must be at most {high}"),
            (None, None) => return,
        };
        found.push((path.to_owned(), message));
    } else if bound("exclusiveMinimum").is_some_and(|low| given <= low) {
        found.push((path.to_owned(), format!("must be more than {}", bound("exclusiveMinimum").unwrap_or_default())));
    } else if given > f64::from(i32::MAX) && schema.get("format").and_then(Value::as_str) == Some("int32") {
        found.push((path.to_owned(), format!("must be at most {}", i32::MAX)));
    } else if number.as_i64().or_else(|| whole(number)).is_none() && type_names(schema).contains(&"integer") {
        // The store's integers are 64 bits wide and signed.
        let bound = if given < 0.0 { format!("least {}", i64::MIN) } else { format!("most {}", i64::MAX) };
        found.push((path.to_owned(), format!("must be at {bound}")));
    }
}

fn array<'s>(schema: &'s Map<String, Value>, name: &str) -> &'s [Value] {
    schema.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The schema of a member of an object, where it has one.
fn property<'s>(schema: &'s Map<String, Value>, name: &str) -> Option<&'s Value> {
    let known = schema.get("properties").and_then(Value::as_object).and_then(|properties| properties.get(name));
    known.or_else(|| schema.get("additionalProperties").filter(|other| other.is_object()))
}

fn type_names(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        // JSON knows no difference between `5` and `5.0`.
        "integer" => value.as_number().is_some_and(|number| !number.is_f64() || whole(number).is_some()),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Whether a number stands where a number of another kind belongs.
fn is_number(value: &Value, name: &str) -> bool {
    value.is_number() && matches!(name, "integer" | "number")
}

/// Whether this is a whole number that 64 bits cannot hold.
fn is_beyond_integers(number: &serde_json::Number) -> bool {
    // 2^63, which is exact as a float.
    number.is_f64() && number.as_f64().is_some_and(|number| number.abs() >= 9_223_372_036_854_775_808.0)
}

/// The types as a person would list them.
fn wanted(types: &[&str]) -> String {
    let names: Vec<String> = types.iter().filter(|name| **name != "null").map(|name| with_article(name)).collect();
    if names.is_empty() { "null".to_owned() } else { names.join(" or ") }
}

fn with_article(name: &str) -> String {
    match name {
        "integer" => "a whole number".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        other => format!("a {other}"),
    }
}

fn list(values: &[Value]) -> String {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), |text| format!("`{text}`"));
    values.iter().map(shown).collect::<Vec<_>>().join(", ")
}

fn join(path: &str, name: &str) -> String {
    // A name from outside is cut, so that an answer cannot be blown up by it.
    let name: String = name.chars().take(64).collect();
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests;
