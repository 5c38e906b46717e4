//! Equality according to JSON Schema: numbers are equal by value, regardless of notation.

use serde_json::{Number, Value};

/// Returns a text that is equal for two values if and only if the values are equal.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) => text.push_str(&number_text(number)),
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (name, member) in members {
                text.push_str(&format!("{}\"{name}:", name.len()));
                write(member, text);
                text.push(',');
            }
            text.push('}');
        }
        // The length prefix makes the text unambiguous.
        Value::String(string) => {
            text.push_str(&format!("{}\"", string.len()));
            text.push_str(string);
        }
        Value::Null | Value::Bool(_) => text.push_str(&value.to_string()),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "whole, and within 64 bits")]
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9.2e18 => (float as i64).to_string(),
        _ => number.to_string(),
    }
}

/// Returns the number of steps for reading a value completely, counted up to `max`.
pub(super) fn weight(value: &Value, max: u64) -> u64 {
    let mut weight = 4;
    match value {
        Value::String(text) => weight += text.len() as u64 / 16,
        Value::Array(items) => {
            for item in items {
                if weight >= max {
                    break;
                }
                weight += self::weight(item, max - weight);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                if weight >= max {
                    break;
                }
                weight += name.len() as u64 / 16 + self::weight(member, max - weight);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    weight
}
