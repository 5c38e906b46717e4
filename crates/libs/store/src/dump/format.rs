//! Line format of a dump.
//!
//! The first line is a header. Each table has a line that is followed by one line per row. The last line holds the
//! number of rows, so that a truncated file is detected. A row is an array in the order of the table's columns:
//! integers as numbers, text as strings, reals as strings (JSON readers disagree on their last digit), bytes in base64.

use agentd_base::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::value::{Kind, Value};

pub(super) const FORMAT: &str = "agentd-dump";
pub(super) const FORMAT_VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: String,
    pub(super) format_version: u32,
    pub(super) schema_version: u32,
    pub(super) created_at: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mark {
    Table { name: String, columns: Vec<String> },
    End { rows: u64 },
}

/// Totals of a written or loaded dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DumpSummary {
    pub tables: u64,
    pub rows: u64,
}

pub(super) fn encode(value: &Value) -> Json {
    match value {
        Value::Null(_) => Json::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => number.to_string().into(),
        Value::Text(text) => text.as_str().into(),
        Value::Blob(bytes) => BASE64.encode(bytes).into(),
    }
}

pub(super) fn decode(value: Json, kind: Kind) -> Option<Value> {
    Some(match (value, kind) {
        (Json::Null, kind) => Value::Null(kind),
        (Json::Number(number), Kind::Integer) => Value::Integer(number.as_i64()?),
        (Json::String(text), Kind::Real) => Value::Real(text.parse().ok()?),
        (Json::String(text), Kind::Text) => Value::Text(text),
        (Json::String(text), Kind::Blob) => Value::Blob(BASE64.decode(text).ok()?),
        _ => return None,
    })
}
