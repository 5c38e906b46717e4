//! Evaluation of conditions.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use agentd_base::Timestamp;
use cel::parser::Expression;
use cel::{Context, ExecutionError, Value};

use super::calendar;
use super::error::{ConditionError, shorten};

/// Stack size for parsing and evaluating the longest allowed text. Both recurse with the text, and a stack overflow
/// would abort the process. Unused pages cost nothing.
const STACK_BYTES: usize = 64 << 20;

/// Value of a variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// CEL timestamp, in UTC.
    Time(Timestamp),
    /// Integers become `int`, other numbers `double`, objects `map`.
    Json(serde_json::Value),
}

/// Values of the variables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values(Vec<(&'static str, Input)>);

impl Values {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable, which must not exceed its declared size.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Input) -> Self {
        self.0.push((name, value));
        self
    }
}

fn value(given: &Input) -> Value {
    match given {
        Input::Time(at) => match chrono::DateTime::from_timestamp_micros(at.as_micros()) {
            Some(at) => Value::Timestamp(at.fixed_offset()),
            None => Value::Null,
        },
        Input::Json(json) => from_json(json),
    }
}

fn from_json(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::Float(number.as_f64().unwrap_or(f64::MAX)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(from_json).collect::<Vec<Value>>()),
        Json::Object(fields) => {
            let fields: HashMap<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), from_json(field))).collect();
            Value::from(fields)
        }
    }
}

const MISSING_VALUE: &str = "it uses an operation that these values do not support";

/// Whether the function is a binary operator such as `_<_`.
fn is_operator(function: &str) -> bool {
    matches!(function, "_<_" | "_<=_" | "_>_" | "_>=_" | "_&&_" | "_||_" | "_+_" | "_-_" | "_*_" | "_/_" | "_%_")
}

/// Returns the name of a type in conditions.
fn type_name(name: &str) -> &str {
    match name {
        "google.protobuf.Timestamp" => "timestamp",
        "google.protobuf.Duration" => "duration",
        "null_type" => "null",
        other => other,
    }
}

/// Returns the message for an operator that does not apply to its operand types.
fn operator_mismatch(operator: &str, left: &str, right: &str) -> String {
    if let ("string", "timestamp") | ("timestamp", "string") = (left, right) {
        return "a string is compared with a timestamp; convert the string with `timestamp(…)`, for example \
                `timestamp('2026-01-05T09:00:00Z') < now`"
            .to_owned();
    }
    format!("`{operator}` does not support values of type {left} and {right}")
}

/// Converts an interpreter error to a message without internals.
fn describe(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("unknown field `{name}`"),
        ExecutionError::UndeclaredReference(name) => format!("unknown function `{name}`"),
        ExecutionError::InvalidArgumentCount { expected, actual } => {
            format!("a function takes {expected} arguments, got {actual}")
        }
        ExecutionError::UnsupportedTargetType { target } => {
            format!("a function cannot be called on a value of type {}", target.type_of())
        }
        ExecutionError::NotSupportedAsMethod { method, target } => {
            format!("`{method}` cannot be called on a value of type {}", target.type_of())
        }
        ExecutionError::UnexpectedType { got, want } => format!("expected a value of type {want}, got {got}"),
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("a value of type {} cannot be compared to one of type {}", left.type_of(), right.type_of())
        }
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            operator_mismatch(operator, &left.type_of().to_string(), &right.type_of().to_string())
        }
        ExecutionError::NoSuchOverload(overload) => match overload.argument_types() {
            [left, right] if is_operator(overload.function()) => {
                operator_mismatch(overload.function().trim_matches('_'), type_name(left), type_name(right))
            }
            _ => MISSING_VALUE.to_owned(),
        },
        ExecutionError::FunctionError { function, message } => match function.as_str() {
            calendar::ERRORS => message.clone(),
            "duration" => "`duration` expects a string such as '24h' or '1h30m'".to_owned(),
            "timestamp" => "`timestamp` expects a string such as '2026-01-05T09:00:00Z'".to_owned(),
            "matches" => "the argument of `matches` is not a valid regular expression".to_owned(),
            other => format!("invalid argument for `{other}`"),
        },
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "list index out of range".to_owned(),
        ExecutionError::UnsupportedIndex(..) | ExecutionError::UnsupportedKeyType(_) => {
            "the value in brackets is not a valid index or key".to_owned()
        }
        _ => MISSING_VALUE.to_owned(),
    }
}

fn evaluation_failed() -> ConditionError {
    ConditionError::Evaluation { message: "the interpreter gave up".to_owned() }
}

/// Runs `work` on a separate stack; `None` if it panicked or no thread could be started.
pub(crate) fn on_own_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("condition".to_owned()).stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

pub(crate) fn evaluate(expression: &Expression, values: &Values) -> Result<bool, ConditionError> {
    on_own_stack(|| resolve(expression, values)).unwrap_or_else(|| Err(evaluation_failed()))
}

pub(crate) fn evaluate_all(expressions: &[(&Expression, &Values)]) -> Vec<Result<bool, ConditionError>> {
    let all = on_own_stack(|| expressions.iter().map(|(expression, values)| resolve(expression, values)).collect());
    // One of the evaluations panicked, so each is evaluated separately.
    all.unwrap_or_else(|| expressions.iter().map(|(expression, values)| evaluate(expression, values)).collect())
}

fn resolve(expression: &Expression, values: &Values) -> Result<bool, ConditionError> {
    let mut context = Context::with_env(Arc::clone(&calendar::FUNCTIONS));
    for (name, given) in &values.0 {
        context.add_variable_from_value(*name, value(given));
    }
    match context.resolve(expression) {
        Ok(Value::Bool(truth)) => Ok(truth),
        Ok(other) => Err(ConditionError::NotBoolean { found: format!("a value of type {}", other.type_of()) }),
        Err(error) => Err(ConditionError::Evaluation { message: shorten(&describe(&error)) }),
    }
}
