//! Keywords that assert properties of the value itself.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::evaluation::{At, Evaluation, Exhausted, Verdict};
use super::path::shorten;
use crate::same::{canonical, weight};

impl<'s> Evaluation<'s> {
    pub(super) fn asserts_any(&mut self, keyword: &str, argument: &'s Value, value: &Value, at: At<'_>) -> Verdict {
        match keyword {
            "type" if !has_type(argument, value) => {
                self.fails(at, || format!("{} is not of type {}", shorten(value), type_names(argument)))
            }
            "const" if !self.is_same(argument, value)? => self.fails(at, || format!("must be {}", shorten(argument))),
            "enum" => {
                for choice in argument.as_array().into_iter().flatten() {
                    if self.is_same(choice, value)? {
                        return Ok(true);
                    }
                }
                self.fails(at, || {
                    let choices = argument.as_array().into_iter().flatten().take(20).map(shorten);
                    format!("{} is none of {}", shorten(value), choices.collect::<Vec<_>>().join(", "))
                })
            }
            _ => Ok(true),
        }
    }

    fn is_same(&mut self, one: &Value, other: &Value) -> Verdict {
        match (one, other) {
            (Value::String(one), Value::String(other)) => {
                self.spend(1)?;
                Ok(one == other)
            }
            _ if std::mem::discriminant(one) != std::mem::discriminant(other) => Ok(false),
            _ => {
                self.spend_weight(one)?;
                self.spend_weight(other)?;
                Ok(canonical(one) == canonical(other))
            }
        }
    }

    fn spend_weight(&mut self, value: &Value) -> Result<(), Exhausted> {
        self.spend(weight(value, self.steps_left))
    }

    pub(super) fn asserts_number(
        &mut self,
        keywords: &'s Map<String, Value>,
        keyword: &str,
        argument: &'s Value,
        number: &Number,
        at: At<'_>,
    ) -> Verdict {
        // In draft 4, `exclusiveMinimum: true` modifies `minimum`.
        let is_exclusive = |keyword: &str| keywords.get(keyword) == Some(&Value::Bool(true));
        let Value::Number(limit) = argument else { return Ok(true) };
        let order = compare(number, limit);
        let (fits, rule) = match keyword {
            "minimum" if is_exclusive("exclusiveMinimum") => (order == Ordering::Greater, "greater than"),
            "maximum" if is_exclusive("exclusiveMaximum") => (order == Ordering::Less, "less than"),
            "minimum" => (order != Ordering::Less, "at least"),
            "maximum" => (order != Ordering::Greater, "at most"),
            "exclusiveMinimum" => (order == Ordering::Greater, "greater than"),
            "exclusiveMaximum" => (order == Ordering::Less, "less than"),
            "multipleOf" => (is_multiple(number, limit), "a multiple of"),
            _ => return Ok(true),
        };
        if fits { Ok(true) } else { self.fails(at, || format!("{number} must be {rule} {limit}")) }
    }

    pub(super) fn asserts_string(&mut self, keyword: &str, argument: &'s Value, text: &str, at: At<'_>) -> Verdict {
        match (keyword, argument) {
            ("pattern", Value::String(pattern)) => match self.matches(pattern, text)? {
                true => Ok(true),
                false => self.fails(at, || format!("{} does not match `{pattern}`", shorten(&Value::from(text)))),
            },
            ("minLength" | "maxLength", _) => {
                self.spend(text.len() as u64 / 64)?;
                self.bounds(keyword == "minLength", argument, text.chars().count(), "characters", at)
            }
            _ => Ok(true),
        }
    }

    /// Checks whether a count is at least, or at most, the limit in the schema.
    pub(super) fn bounds(&mut self, least: bool, limit: &Value, count: usize, unit: &str, at: At<'_>) -> Verdict {
        let Value::Number(limit) = limit else { return Ok(true) };
        let beyond = if least { Ordering::Less } else { Ordering::Greater };
        if compare(&Number::from(count), limit) != beyond {
            return Ok(true);
        }
        let rule = if least { "at least" } else { "at most" };
        self.fails(at, || format!("must have {rule} {limit} {unit}, and has {count}"))
    }

    /// Checks that no item of the list `value` occurs twice.
    pub(super) fn asserts_unique(&mut self, items: &[Value], value: &Value, at: At<'_>) -> Verdict {
        self.spend_weight(value)?;
        let mut seen = HashSet::with_capacity(items.len());
        match items.iter().all(|item| seen.insert(canonical(item))) {
            true => Ok(true),
            false => self.fails(at, || "must not have the same item twice".to_owned()),
        }
    }
}

pub(super) fn has_type(types: &Value, value: &Value) -> bool {
    let is = |name: &Value| match (name.as_str().unwrap_or_default(), value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_))
        | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => number.as_f64().is_some_and(|float| float.fract() == 0.0),
        _ => false,
    };
    match types {
        Value::Array(types) => types.iter().any(is),
        one => is(one),
    }
}

fn type_names(types: &Value) -> String {
    let names = match types {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => vec![one.as_str().unwrap_or_default()],
    };
    names.join(" or ")
}

fn to_integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn compare(one: &Number, other: &Number) -> Ordering {
    match (to_integer(one), to_integer(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
    }
}

fn is_multiple(number: &Number, step: &Number) -> bool {
    if let (Some(number), Some(step)) = (to_integer(number), to_integer(step)) {
        return step == 0 || number % step == 0;
    }
    let (Some(number), Some(step)) = (number.as_f64(), step.as_f64()) else { return true };
    let quotient = number / step;
    if step <= 0.0 {
        true
    } else if quotient.is_finite() {
        // A tenth has no exact float representation: 0.3 counts as a multiple of it.
        (quotient - quotient.round()).abs() <= (1e-9 * quotient.abs()).clamp(1e-9, 1e-6)
    } else {
        // The remainder is exact if the quotient overflows.
        number % step == 0.0
    }
}
