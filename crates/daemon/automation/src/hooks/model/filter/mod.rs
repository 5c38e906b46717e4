//! Filters that select the events a hook reacts to.
//!
//! A filter is `{"field", "op", "value"}`, or `{"all": […]}`, `{"any": […]}`, `{"not": …}` of filters. A field is a
//! dotted path into the event (`data.agent_id`, `type`). A path that does not start with `data`, `type`, `id` or
//! `timestamp` is resolved under `data`. Numbers index arrays. A missing value equals null, compares neither greater
//! nor less than any value, and contains nothing.

use std::cmp::Ordering;
use std::fmt;

use agentd_base::template::lookup;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Top-level fields of an event.
pub(super) const ROOTS: [&str; 4] = ["data", "type", "id", "timestamp"];
const MAX_DEPTH: usize = 8;
const MAX_PARTS: usize = 100;
const MAX_BYTES: usize = 16 * 1024;
const MAX_PATH: usize = 200;
const MAX_PATTERN: usize = 500;
/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 64 * 1024;
/// Maximum number of bytes that a pattern is matched against. Filters run in the event reader, which must not be
/// blocked.
const MAX_MATCHED_BYTES: usize = 64 * 1024;

/// Comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    Contains,
    StartsWith,
    EndsWith,
    In,
    Exists,
    Matches,
}

impl Op {
    const ALL: [(Self, &str); 12] = [
        (Self::Eq, "eq"),
        (Self::Ne, "ne"),
        (Self::Gt, "gt"),
        (Self::Gte, "gte"),
        (Self::Lt, "lt"),
        (Self::Lte, "lte"),
        (Self::Contains, "contains"),
        (Self::StartsWith, "starts_with"),
        (Self::EndsWith, "ends_with"),
        (Self::In, "in"),
        (Self::Exists, "exists"),
        (Self::Matches, "matches"),
    ];
}

/// An invalid part of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterProblem {
    /// Dotted path within the filter; empty for the filter itself.
    pub path: String,
    pub message: String,
}

/// A validated filter together with its source.
#[derive(Clone)]
pub struct Filter {
    source: Value,
    rule: Rule,
}

#[derive(Clone)]
enum Rule {
    Compare { path: Vec<String>, op: Op, value: Value, pattern: Option<Regex> },
    All(Vec<Rule>),
    Any(Vec<Rule>),
    Not(Box<Rule>),
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({})", self.source)
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// The first invalid part.
    pub fn parse(source: &Value) -> Result<Self, FilterProblem> {
        if source.to_string().len() > MAX_BYTES {
            return Err(problem("", format!("must have at most {MAX_BYTES} bytes")));
        }
        let mut parts = 0;
        let rule = parse_rule(source, "", 1, &mut parts)?;
        Ok(Self { source: source.clone(), rule })
    }

    /// Returns the JSON source.
    #[must_use]
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Whether an event `{id, type, timestamp, data}` matches.
    #[must_use]
    pub fn passes(&self, event: &Value) -> bool {
        self.rule.passes(event)
    }
}

fn problem(path: &str, message: impl Into<String>) -> FilterProblem {
    FilterProblem { path: path.to_owned(), message: message.into() }
}

fn join_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn parse_rule(source: &Value, path: &str, depth: usize, parts: &mut usize) -> Result<Rule, FilterProblem> {
    *parts += 1;
    if depth > MAX_DEPTH || *parts > MAX_PARTS {
        return Err(problem(path, format!("must have at most {MAX_PARTS} parts, {MAX_DEPTH} levels deep")));
    }
    let shape = "must be {field, op, value}, {all: […]}, {any: […]} or {not: {…}}";
    let object = source.as_object().ok_or_else(|| problem(path, shape))?;
    if object.contains_key("field") {
        return parse_comparison(object, path);
    }
    let mut entries = object.iter();
    let (Some((name, inner)), None) = (entries.next(), entries.next()) else { return Err(problem(path, shape)) };
    let inner_path = join_path(path, name);
    match name.as_str() {
        "not" => Ok(Rule::Not(Box::new(parse_rule(inner, &inner_path, depth + 1, parts)?))),
        "all" | "any" => {
            let list = inner.as_array().filter(|list| !list.is_empty());
            let list = list.ok_or_else(|| problem(&inner_path, "must be a list of at least one filter"))?;
            let mut rules = Vec::with_capacity(list.len());
            for (at, inner) in list.iter().enumerate() {
                rules.push(parse_rule(inner, &format!("{inner_path}[{at}]"), depth + 1, parts)?);
            }
            Ok(if name == "all" { Rule::All(rules) } else { Rule::Any(rules) })
        }
        _ => Err(problem(path, shape)),
    }
}

fn parse_comparison(object: &Map<String, Value>, path: &str) -> Result<Rule, FilterProblem> {
    if let Some(other) = object.keys().find(|key| !matches!(key.as_str(), "field" | "op" | "value")) {
        return Err(problem(&join_path(path, other), "is not permitted in a comparison; use field, op and value"));
    }
    let field = object.get("field").and_then(Value::as_str).unwrap_or_default();
    let names = parse_path(field).map_err(|message| problem(&join_path(path, "field"), message))?;
    let op_name = object.get("op").and_then(Value::as_str).unwrap_or_default();
    let op = Op::ALL.into_iter().find(|(_, name)| *name == op_name).map(|(op, _)| op);
    let op = op.ok_or_else(|| {
        let known: Vec<&str> = Op::ALL.iter().map(|(_, name)| *name).collect();
        problem(&join_path(path, "op"), format!("must be one of {}", known.join(", ")))
    })?;
    let value_path = join_path(path, "value");
    let value = match (object.get("value"), op) {
        (Some(value), _) => value.clone(),
        (None, Op::Exists) => Value::Bool(true),
        (None, _) => return Err(problem(&value_path, "is required")),
    };
    let wanted = match op {
        Op::Gt | Op::Gte | Op::Lt | Op::Lte if !value.is_number() && !value.is_string() => Some("a number or a text"),
        Op::StartsWith | Op::EndsWith | Op::Matches if !value.is_string() => Some("a text"),
        Op::In if !value.is_array() => Some("a list"),
        Op::Exists if !value.is_boolean() => Some("true or false"),
        _ => None,
    };
    if let Some(wanted) = wanted {
        return Err(problem(&value_path, format!("must be {wanted} for {op_name}")));
    }
    let pattern = match (&value, op) {
        (Value::String(text), Op::Matches) => Some(compile(text).map_err(|message| problem(&value_path, message))?),
        _ => None,
    };
    Ok(Rule::Compare { path: names, op, value, pattern })
}

/// Parses a dotted path into an event as a list of names.
pub(super) fn parse_path(text: &str) -> Result<Vec<String>, &'static str> {
    let names: Vec<&str> = text.split('.').collect();
    if text.len() > MAX_PATH || names.iter().any(|name| name.is_empty() || name.chars().any(char::is_control)) {
        return Err("must be a dotted path into the event, such as data.agent_id");
    }
    let is_rooted = names.first().is_some_and(|first| ROOTS.contains(first));
    let root = (!is_rooted).then_some("data");
    Ok(root.into_iter().chain(names).map(str::to_owned).collect())
}

fn compile(text: &str) -> Result<Regex, String> {
    if text.len() > MAX_PATTERN {
        return Err(format!("must have at most {MAX_PATTERN} bytes"));
    }
    let built = RegexBuilder::new(text).size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too complex; simplify the pattern".to_owned(),
        // The error of the regex crate includes an annotated pattern; its last line is the message.
        other => format!(
            "is not a valid regular expression: {}",
            other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ")
        ),
    })
}

impl Rule {
    fn passes(&self, event: &Value) -> bool {
        match self {
            Self::All(rules) => rules.iter().all(|rule| rule.passes(event)),
            Self::Any(rules) => rules.iter().any(|rule| rule.passes(event)),
            Self::Not(rule) => !rule.passes(event),
            Self::Compare { path, op, value, pattern } => compare(lookup(event, path), *op, value, pattern.as_ref()),
        }
    }
}

fn compare(found: Option<&Value>, op: Op, value: &Value, pattern: Option<&Regex>) -> bool {
    let actual = found.unwrap_or(&Value::Null);
    let is = |predicate: fn(Ordering) -> bool| order(actual, value).is_some_and(predicate);
    match op {
        Op::Eq => equals(actual, value),
        Op::Ne => !equals(actual, value),
        Op::Gt => is(Ordering::is_gt),
        Op::Gte => is(Ordering::is_ge),
        Op::Lt => is(Ordering::is_lt),
        Op::Lte => is(Ordering::is_le),
        Op::Contains => match actual {
            Value::String(text) => value.as_str().is_some_and(|part| text.contains(part)),
            Value::Array(list) => list.iter().any(|item| equals(item, value)),
            Value::Object(object) => value.as_str().is_some_and(|name| object.contains_key(name)),
            _ => false,
        },
        Op::StartsWith => both_strings(actual, value, |text, part| text.starts_with(part)),
        Op::EndsWith => both_strings(actual, value, |text, part| text.ends_with(part)),
        Op::In => value.as_array().is_some_and(|list| list.iter().any(|item| equals(actual, item))),
        Op::Exists => found.is_some() == value.as_bool().unwrap_or(true),
        Op::Matches => actual.as_str().is_some_and(|text| {
            pattern.is_some_and(|pattern| pattern.is_match(&text[..text.floor_char_boundary(MAX_MATCHED_BYTES)]))
        }),
    }
}

/// Whether both values are strings that satisfy the predicate.
fn both_strings(a: &Value, b: &Value, predicate: impl Fn(&str, &str) -> bool) -> bool {
    a.as_str().zip(b.as_str()).is_some_and(|(a, b)| predicate(a, b))
}

/// Compares values for equality; 1 equals 1.0.
fn equals(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && order(a, b) == Some(Ordering::Equal))
}

/// Compares two numbers or two strings. Values of different types have no order.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
