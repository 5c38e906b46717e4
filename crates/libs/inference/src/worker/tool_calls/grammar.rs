//! Grammar of a tool call: the name of one of the offered tools, and arguments that match its schema.
//!
//! Schemas are untrusted, and the engine converts them into grammars in native code without limits. Therefore a new,
//! bounded schema is built from known keywords. It allows everything that the original schema allows, and more: the
//! caller that runs the tool validates the arguments against the original schema.

use serde_json::{Map, Value, json};

use super::ToolFormat;
use crate::ToolDefinition;

const MAX_DEPTH: usize = 8;
/// Maximum number of schema nodes of all tools. Everything beyond becomes an unconstrained object.
const MAX_NODES: usize = 2000;
const MAX_TEXT_BYTES: usize = 32 * 1024;
const MAX_CHOICES: usize = 256;
const MAX_PROPERTIES: usize = 64;
const MAX_WHOLE_NUMBER: u64 = 1_000_000_000_000_000;
const MAX_CALLS: usize = 8;

/// Constraint for the rest of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallGrammar {
    /// JSON Schema as text; its properties are generated in this order.
    pub schema: String,
    /// Text that must follow the JSON.
    pub end: &'static str,
}

impl CallGrammar {
    pub(crate) fn new(format: ToolFormat, tools: &[ToolDefinition]) -> Self {
        let field = format.arguments_field();
        let mut budget = Budget { nodes: MAX_NODES, bytes: MAX_TEXT_BYTES };
        let of_tools: Vec<String> = tools
            .iter()
            .map(|tool| {
                let arguments = budget.arguments(&tool.input_schema);
                let name = Value::from(tool.name.as_str());
                format!(
                    "{{\"type\":\"object\",\"properties\":{{\"name\":{{\"const\":{name}}},\"{field}\":{arguments}}},\
                     \"required\":[\"name\",\"{field}\"],\"additionalProperties\":false}}"
                )
            })
            .collect();
        let any = format!("{{\"anyOf\":[{}]}}", of_tools.join(","));
        let schema = match format {
            ToolFormat::Hermes | ToolFormat::Llama => any,
            ToolFormat::Mistral => {
                format!("{{\"type\":\"array\",\"items\":{any},\"minItems\":1,\"maxItems\":{MAX_CALLS}}}")
            }
        };
        Self { schema, end: format.delimiters().get(1).copied().unwrap_or_default() }
    }
}

/// Remaining size of the grammar.
struct Budget {
    nodes: usize,
    bytes: usize,
}

impl Budget {
    /// Returns the constrained schema of a tool's arguments: always an object.
    fn arguments(&mut self, schema: &Value) -> Value {
        let (nodes, bytes) = (self.nodes, self.bytes);
        let part = self.part(schema, 0).filter(|part| part["type"] == "object");
        part.unwrap_or_else(|| {
            (self.nodes, self.bytes) = (nodes, bytes);
            json!({ "type": "object" })
        })
    }

    /// Returns the constrained part of a schema; `None` if the budget is exhausted.
    fn part(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        self.nodes = self.nodes.checked_sub(1)?;
        let Some(object) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return Some(anything()) };
        let list = |keyword| object.get(keyword).and_then(Value::as_array).filter(|list| !list.is_empty());
        if let Some(value) = object.get("const") {
            return self.choice(std::slice::from_ref(value));
        }
        if let Some(values) = list("enum") {
            return if values.len() > MAX_CHOICES { Some(anything()) } else { self.choice(values) };
        }
        if let Some(parts) = list("anyOf").or_else(|| list("oneOf")) {
            let parts = parts.iter().map(|part| self.part(part, depth + 1)).collect::<Option<Vec<Value>>>()?;
            return Some(json!({ "anyOf": parts }));
        }
        if let Some(kinds) = list("type") {
            let kinds = kinds.iter().map(|kind| self.typed(kind.as_str().unwrap_or_default(), object, depth));
            return Some(json!({ "anyOf": kinds.collect::<Option<Vec<Value>>>()? }));
        }
        match object.get("type").and_then(Value::as_str) {
            Some(kind) => self.typed(kind, object, depth),
            None if object.contains_key("properties") => self.typed("object", object, depth),
            None => Some(anything()),
        }
    }

    fn typed(&mut self, kind: &str, object: &Map<String, Value>, depth: usize) -> Option<Value> {
        let mut part = json!({ "type": kind });
        match kind {
            "string" | "number" | "boolean" | "null" => {}
            "integer" => {
                for keyword in ["minimum", "maximum"] {
                    let limit = object.get(keyword).and_then(Value::as_i64);
                    if let Some(limit) = limit.filter(|limit| limit.unsigned_abs() <= MAX_WHOLE_NUMBER) {
                        part[keyword] = limit.into();
                    }
                }
            }
            "array" => {
                if let Some(items) = object.get("items") {
                    part["items"] = self.part(items, depth + 1)?;
                }
            }
            "object" => {
                let properties = object.get("properties").and_then(Value::as_object);
                if let Some(properties) = properties.filter(|all| (1..=MAX_PROPERTIES).contains(&all.len())) {
                    let mut described = Map::new();
                    for (name, property) in properties {
                        self.bytes = self.bytes.checked_sub(name.len())?;
                        described.insert(name.clone(), self.part(property, depth + 1)?);
                    }
                    let required = object.get("required").and_then(Value::as_array).into_iter().flatten();
                    part["required"] = required
                        .filter(|name| name.as_str().is_some_and(|name| described.contains_key(name)))
                        .cloned()
                        .collect();
                    part["properties"] = described.into();
                    part["additionalProperties"] = false.into();
                }
            }
            _ => return Some(anything()),
        }
        Some(part)
    }

    fn choice(&mut self, values: &[Value]) -> Option<Value> {
        self.nodes = self.nodes.checked_sub(values.len())?;
        for value in values {
            self.bytes = self.bytes.checked_sub(value.to_string().len())?;
        }
        Some(json!({ "enum": values }))
    }
}

/// Schema for any value; the engine treats an empty schema as an object.
fn anything() -> Value {
    json!({ "type": ["object", "array", "string", "number", "boolean", "null"] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, input_schema: Value) -> ToolDefinition {
        ToolDefinition { name: name.to_owned(), description: String::new(), input_schema }
    }

    /// Returns the arguments part of the grammar for one tool with this schema.
    fn arguments(schema: Value) -> Value {
        let grammar = CallGrammar::new(ToolFormat::Hermes, &[tool("t", schema)]);
        let whole: Value = serde_json::from_str(&grammar.schema).unwrap();
        whole["anyOf"][0]["properties"]["arguments"].clone()
    }

    #[test]
    fn name_comes_first_and_the_format_determines_the_rest() {
        let tools = [tool("a\"b", json!({"type": "object"}))];
        let hermes = CallGrammar::new(ToolFormat::Hermes, &tools);
        let expected = "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"a\\\"b\"},\
                        \"arguments\":{\"type\":\"object\"}},\"required\":[\"name\",\"arguments\"],\
                        \"additionalProperties\":false}]}";
        assert_eq!((hermes.schema.as_str(), hermes.end), (expected, "</tool_call>"));
        let llama = CallGrammar::new(ToolFormat::Llama, &tools);
        assert!(llama.schema.contains("\"parameters\":{") && llama.end.is_empty(), "{llama:?}");
        let mistral = CallGrammar::new(ToolFormat::Mistral, &tools);
        assert!(mistral.schema.starts_with("{\"type\":\"array\""), "{mistral:?}");
    }

    #[test]
    fn known_keywords_are_preserved_and_others_relaxed() {
        let schema = json!({"$schema": "x", "type": "object", "description": "d", "required": ["n", "ghost"], "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 1e300, "multipleOf": 7},
            "t": {"type": "string", "pattern": "((a+)+)+", "maxLength": 4_000_000_000u64},
            "l": {"type": "array", "items": {"enum": ["x", 1]}, "maxItems": 9},
            "o": {"type": ["string", "null"]},
            "r": {"$ref": "#"},
        }});
        let expected = json!({"type": "object", "required": ["n"], "additionalProperties": false, "properties": {
            "n": {"type": "integer", "minimum": 1},
            "t": {"type": "string"},
            "l": {"type": "array", "items": {"enum": ["x", 1]}},
            "o": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "r": anything(),
        }});
        assert_eq!(arguments(schema), expected);
        assert_eq!(arguments(json!(true)), json!({"type": "object"}));
    }

    #[test]
    fn hostile_schemas_are_bounded() {
        let mut deep = json!({"type": "string"});
        for _ in 0..100 {
            deep = json!({"type": "array", "items": deep});
        }
        let deep = json!({"type": "object", "properties": {"x": deep}});
        assert!(arguments(deep).to_string().len() < 1000);
        let wide: Map<String, Value> = (0..60).map(|at| (format!("p{at}"), json!({"enum": vec!["x"; 200]}))).collect();
        let wide = json!({"type": "object", "properties": wide});
        assert_eq!(arguments(wide.clone()), json!({"type": "object"}));
        // A tool that is too large does not reduce the budget of the others.
        let small = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        let grammar = CallGrammar::new(ToolFormat::Llama, &[tool("wide", wide), tool("small", small)]);
        assert!(grammar.schema.contains("\"x\":{\"type\":\"string\"}") && grammar.schema.len() < 1000, "{grammar:?}");
        let large = json!({"type": "object", "properties": {"x": {"const": "x".repeat(100_000)}}});
        let many: Vec<ToolDefinition> = (0..200).map(|at| tool(&format!("t{at}"), large.clone())).collect();
        assert!(CallGrammar::new(ToolFormat::Hermes, &many).schema.len() < 100_000);
    }
}
