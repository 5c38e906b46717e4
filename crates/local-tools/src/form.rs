//! A tool's input schema as what can be filled in: a bounded, closed form of JSON Schema.
//!
//! Schemas come from users and from tool servers. What is understood here is narrower than what the
//! schema allows (the first alternative of an `anyOf`, bounded texts), never wider, as far as it
//! goes; what is not understood (`pattern`, `not`, …) is left to the check of the finished input
//! against the schema itself. References are followed inside the document alone, to a bounded depth.

use agentd_json_schema::SchemaError;
use serde_json::{Map, Value, json};

use crate::words::{identifier_stems, is_filler, words};

/// Larger schemas are refused unread.
pub(crate) const MAX_SCHEMA_BYTES: usize = 64 * 1024;
const MAX_DEPTH: usize = 8;
const MAX_NODES: usize = 512;
const MAX_PARAMETERS: usize = 48;
const MAX_CHOICES: usize = 256;
/// Longest text that the model is let write.
pub(crate) const MAX_TEXT: u64 = 600;
const MAX_ITEMS: u64 = 8;

/// Why a tool cannot be offered to the model inside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    #[error("its input schema has more than {MAX_SCHEMA_BYTES} bytes")]
    TooLarge,
    #[error("its input schema is nested too deeply, refers to itself, or has too many parts")]
    TooDeep,
    #[error("its input schema does not describe an object")]
    NotAnObject,
    #[error("its input schema has a part that no grammar can be made of: {0}")]
    Unsupported(String),
    #[error("its input schema {0}")]
    Invalid(#[from] SchemaError),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Text {
        min: u64,
        max: Option<u64>,
        format: Option<String>,
    },
    Integer {
        min: Option<f64>,
        max: Option<f64>,
    },
    Number {
        min: Option<f64>,
        max: Option<f64>,
    },
    Boolean,
    Choice(Vec<Value>),
    List {
        item: Box<Shape>,
        min: u64,
        max: Option<u64>,
    },
    /// Only what is required of a nested object is ever filled in.
    Record(Vec<(String, Shape)>),
}

/// One thing to be filled in.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
    pub(crate) default: Option<Value>,
    /// Of the name, in order.
    pub(crate) stems: Vec<String>,
    pub(crate) description_stems: Vec<String>,
}

struct Reader<'s> {
    root: &'s Value,
    nodes: usize,
}

/// What `schema` asks for, required parameters first.
pub(crate) fn parameters(schema: &Value) -> Result<Vec<Parameter>, FormError> {
    if encoded_length(schema) > MAX_SCHEMA_BYTES {
        return Err(FormError::TooLarge);
    }
    let mut reader = Reader { root: schema, nodes: 0 };
    let root = reader.resolve(schema, 0)?;
    let object = root.as_object().ok_or(FormError::NotAnObject)?;
    let is_object = match object.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
        None => true,
    };
    if !is_object {
        return Err(FormError::NotAnObject);
    }
    let required = names(object.get("required"));
    let nothing = Map::new();
    let properties = match object.get("properties") {
        Some(Value::Object(properties)) => properties,
        None => &nothing,
        Some(_) => return Err(FormError::NotAnObject),
    };
    if properties.len() > MAX_PARAMETERS {
        return Err(FormError::TooDeep);
    }
    if let Some(unknown) = required.iter().find(|name| !properties.contains_key(**name)) {
        return Err(FormError::Unsupported(format!("`{unknown}` is required and not described")));
    }
    let mut parameters = Vec::with_capacity(properties.len());
    for (name, part) in properties {
        let is_required = required.contains(&name.as_str());
        let shape = match reader.shape(part, 1) {
            Ok(shape) => shape,
            // An optional part that is not understood is simply never filled in.
            Err(FormError::Unsupported(_)) if !is_required => continue,
            Err(error) => return Err(error),
        };
        let text = |key: &str| part.get(key).and_then(Value::as_str).unwrap_or_default();
        let description: String = [text("title"), text("description")].join(" ").chars().take(400).collect();
        parameters.push(Parameter {
            stems: identifier_stems(name),
            description_stems: words(&description)
                .into_iter()
                .filter(|word| !is_filler(&word.lower))
                .map(|word| word.stem)
                .collect(),
            description: description.trim().to_owned(),
            name: name.clone(),
            required: is_required,
            default: part.get("default").filter(|value| !value.is_null()).cloned(),
            shape,
        });
    }
    parameters.sort_by_key(|parameter| !parameter.required);
    Ok(parameters)
}

/// The length of `value` as JSON, counted no further than is of interest.
fn encoded_length(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            if self.0 > MAX_SCHEMA_BYTES { Err(std::io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

fn names(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

impl<'s> Reader<'s> {
    fn resolve(&mut self, part: &'s Value, depth: usize) -> Result<&'s Value, FormError> {
        let mut part = part;
        for _ in 0..MAX_DEPTH {
            let Some(reference) = part.get("$ref") else { return Ok(part) };
            let pointer = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
            let target = pointer.and_then(|pointer| self.root.pointer(pointer));
            part = target.ok_or_else(|| FormError::Unsupported(format!("the reference {reference}")))?;
            if std::ptr::eq(part, self.root) && depth > 0 {
                return Err(FormError::TooDeep);
            }
        }
        Err(FormError::TooDeep)
    }

    fn shape(&mut self, part: &'s Value, depth: usize) -> Result<Shape, FormError> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(FormError::TooDeep);
        }
        let part = self.resolve(part, depth)?;
        let unsupported = |what: &str| Err(FormError::Unsupported(what.to_owned()));
        let Some(object) = part.as_object() else {
            return if *part == Value::Bool(true) { Ok(text()) } else { unsupported("`false`") };
        };
        if let Some(value) = object.get("const") {
            return Ok(Shape::Choice(vec![value.clone()]));
        }
        if let Some(values) = object.get("enum") {
            let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
            let simple: Vec<Value> = values
                .iter()
                .filter(|value| !value.is_object() && !value.is_array() && !value.is_null())
                .cloned()
                .collect();
            return match simple.len() {
                0 => unsupported("an enumeration of nothing simple"),
                1..=MAX_CHOICES => Ok(Shape::Choice(simple)),
                _ => Err(FormError::TooDeep),
            };
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            if let Some(Value::Array(alternatives)) = object.get(key) {
                let mut first_error = None;
                for alternative in alternatives.iter().take(MAX_DEPTH) {
                    match self.shape(alternative, depth + 1) {
                        Ok(shape) => return Ok(shape),
                        Err(FormError::TooDeep) => return Err(FormError::TooDeep),
                        Err(error) => first_error = first_error.or(Some(error)),
                    }
                }
                return Err(first_error.unwrap_or_else(|| FormError::Unsupported(format!("an empty `{key}`"))));
            }
        }
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => {
                kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
            }
            _ if object.contains_key("properties") => "object",
            _ => "string",
        };
        let whole = |key: &str| object.get(key).and_then(Value::as_u64);
        let float = |key: &str| object.get(key).and_then(Value::as_f64);
        match kind {
            "string" => {
                let (min, max) = (whole("minLength").unwrap_or(0), whole("maxLength"));
                if min > MAX_TEXT || max.is_some_and(|max| max < min) {
                    return unsupported("a text of that length");
                }
                let format = object.get("format").and_then(Value::as_str).map(str::to_owned);
                Ok(Shape::Text { min, max, format })
            }
            "integer" => Ok(Shape::Integer {
                min: float("minimum").or(float("exclusiveMinimum").map(|limit| limit + 1.0)),
                max: float("maximum").or(float("exclusiveMaximum").map(|limit| limit - 1.0)),
            }),
            "number" => Ok(Shape::Number { min: float("minimum"), max: float("maximum") }),
            "boolean" => Ok(Shape::Boolean),
            "array" => {
                let (min, max) = (whole("minItems").unwrap_or(0), whole("maxItems"));
                if min > MAX_ITEMS || max.is_some_and(|max| max < min) {
                    return unsupported("a list of that length");
                }
                let item = match object.get("items") {
                    Some(item) => self.shape(item, depth + 1)?,
                    None => text(),
                };
                Ok(Shape::List { item: Box::new(item), min, max })
            }
            "object" => {
                let properties = object.get("properties").and_then(Value::as_object);
                let mut fields = Vec::new();
                for name in names(object.get("required")).into_iter().take(MAX_PARAMETERS) {
                    let field = properties.and_then(|properties| properties.get(name));
                    let field = field.ok_or_else(|| FormError::Unsupported(format!("`{name}` is not described")))?;
                    fields.push((name.to_owned(), self.shape(field, depth + 1)?));
                }
                Ok(Shape::Record(fields))
            }
            other => unsupported(other),
        }
    }
}

fn text() -> Shape {
    Shape::Text { min: 0, max: None, format: None }
}

impl Shape {
    /// The JSON Schema that the grammar is made of: ours, bounded, whatever the tool's says.
    pub(crate) fn grammar(&self) -> Value {
        match self {
            Self::Text { min, max, .. } => {
                json!({"type": "string", "minLength": (*min).max(u64::from(max.is_none_or(|max| max > 0))), "maxLength": max.unwrap_or(MAX_TEXT).min(MAX_TEXT)})
            }
            Self::Integer { min, max } => {
                let whole = |limit: f64| json!(truncate(limit.clamp(-1e15, 1e15)));
                let mut schema = json!({"type": "integer"});
                if let Some(min) = min {
                    schema["minimum"] = whole(min.ceil());
                }
                schema["maximum"] = whole(max.map_or(1e9, f64::floor));
                schema
            }
            Self::Number { .. } => json!({"type": "number"}),
            Self::Boolean => json!({"type": "boolean"}),
            Self::Choice(values) => json!({"enum": values}),
            Self::List { item, min, max } => {
                json!({"type": "array", "items": item.grammar(), "minItems": min, "maxItems": max.unwrap_or(MAX_ITEMS).min(MAX_ITEMS)})
            }
            Self::Record(fields) => object_grammar(fields.iter().map(|(name, shape)| (name.as_str(), shape))),
        }
    }
}

/// An object of exactly these fields.
pub(crate) fn object_grammar<'f>(fields: impl Iterator<Item = (&'f str, &'f Shape)>) -> Value {
    let properties: Map<String, Value> = fields.map(|(name, shape)| (name.to_owned(), shape.grammar())).collect();
    let required: Vec<String> = properties.keys().cloned().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

#[allow(clippy::cast_possible_truncation, reason = "the value was clamped, and float casts saturate")]
pub(crate) fn truncate(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_parameters_come_first_and_optional_parts_that_are_not_understood_are_left_out() {
        let schema = json!({"type": "object", "properties": {
            "a": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 2}]},
            "b": {"$ref": "#/$defs/mode"},
            "c": {"type": "string", "minLength": 100_000},
        }, "required": ["b"], "$defs": {"mode": {"enum": ["x", "y", null]}}});
        let found = parameters(&schema).unwrap();
        let names: Vec<&str> = found.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(found[0].shape, Shape::Choice(vec![json!("x"), json!("y")]));
        assert_eq!(found[1].shape, Shape::Integer { min: Some(2.0), max: None });
    }

    #[test]
    fn hostile_schemas_are_refused() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "array", "items": deep});
        }
        let many: Map<String, Value> = (0..1000).map(|at| (format!("p{at}"), json!({}))).collect();
        let branch = json!([{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]);
        for (schema, expected) in [
            (json!({"type": "object", "properties": {"x": deep}, "required": ["x"]}), FormError::TooDeep),
            (json!({"type": "object", "properties": many}), FormError::TooDeep),
            (json!({"properties": {"x": {"$ref": "#"}}, "required": ["x"]}), FormError::TooDeep),
            (json!({"properties": {"x": {"$ref": "#/properties/x"}}, "required": ["x"]}), FormError::TooDeep),
            (
                json!({"$defs": {"a": {"items": {"anyOf": branch}, "type": "array"}}, "properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["x"]}),
                FormError::TooDeep,
            ),
            (json!({"type": "object", "description": "x".repeat(100_000)}), FormError::TooLarge),
            (json!([1]), FormError::NotAnObject),
            (json!({"type": "string"}), FormError::NotAnObject),
        ] {
            assert_eq!(parameters(&schema).unwrap_err(), expected);
        }
        let remote = json!({"properties": {"x": {"$ref": "https://example.com/s"}}, "required": ["x"]});
        assert!(matches!(parameters(&remote), Err(FormError::Unsupported(_))));
    }
}
