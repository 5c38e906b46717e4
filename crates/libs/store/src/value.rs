//! Values supported by both databases: integers, reals, text, bytes, and typed NULLs, because PostgreSQL prepares a
//! statement for the types of its parameters.
//!
//! A statement text must always get values of the same kinds at the same positions.

use std::fmt;
use std::sync::Arc;

use agentd_base::trace::TraceContext;
use agentd_base::{Secret, Timestamp};

/// Type of a column or parameter: BIGINT, DOUBLE PRECISION, TEXT, BYTEA/BLOB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Real,
    Text,
    Blob,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Integer => "an integer",
            Self::Real => "a number",
            Self::Text => "text",
            Self::Blob => "bytes",
        })
    }
}

/// Value of a column or parameter.
#[derive(Clone, PartialEq)]
pub enum Value {
    Null(Kind),
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Null(kind) => *kind,
            Self::Integer(_) => Kind::Integer,
            Self::Real(_) => Kind::Real,
            Self::Text(_) => Kind::Text,
            Self::Blob(_) => Kind::Blob,
        }
    }

    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null(_))
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Null(_) | Self::Integer(_) | Self::Real(_) => 8,
            Self::Text(text) => text.len(),
            Self::Blob(bytes) => bytes.len(),
        }
    }
}

/// Shows sizes instead of contents, which may be secret.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null(_) => f.write_str("NULL"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "text({} bytes)", text.len()),
            Self::Blob(bytes) => write!(f, "blob({} bytes)", bytes.len()),
        }
    }
}

/// Reason why a value cannot be stored, or read as the requested type.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ValueError {
    #[error("the column does not exist")]
    Missing,
    #[error("the value is NULL")]
    Null,
    #[error("expected {wanted}, found {found}")]
    Mismatch { wanted: Kind, found: Kind },
    #[error("the number is out of range")]
    OutOfRange,
    #[error("text must not contain the character NUL")]
    Nul,
    #[error("the text is not valid UTF-8")]
    Utf8,
    #[error("type `{name}` of the database is not supported")]
    UnsupportedType { name: String },
    #[error("the JSON does not have the expected structure")]
    Json { source: Arc<serde_json::Error> },
    #[error("{reason}")]
    Other { reason: String },
}

/// Type that can be bound to a parameter.
pub trait IntoValue {
    /// Type of a NULL of this type.
    const KIND: Kind;

    /// Converts the value for the database.
    ///
    /// # Errors
    /// The value has no representation in the database.
    fn into_value(self) -> Result<Value, ValueError>;
}

/// Type that a column can be read as.
pub trait FromValue: Sized {
    /// Converts a value read from the database.
    ///
    /// # Errors
    /// The stored value is not of this type.
    fn from_value(value: &Value) -> Result<Self, ValueError>;
}

fn text(text: String) -> Result<Value, ValueError> {
    // PostgreSQL cannot store NUL in text; SQLite could, and the two must not differ.
    if text.as_bytes().contains(&0) { Err(ValueError::Nul) } else { Ok(Value::Text(text)) }
}

impl IntoValue for Value {
    const KIND: Kind = Kind::Text;

    fn into_value(self) -> Result<Value, ValueError> {
        match self {
            Value::Text(content) => text(content),
            other => Ok(other),
        }
    }
}

/// Stored as a `traceparent` header.
impl IntoValue for TraceContext {
    const KIND: Kind = Kind::Text;

    fn into_value(self) -> Result<Value, ValueError> {
        Ok(Value::Text(self.to_header()))
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl IntoValue for $type {
            const KIND: Kind = Kind::Integer;

            fn into_value(self) -> Result<Value, ValueError> {
                i64::try_from(self).map(Value::Integer).map_err(|_| ValueError::OutOfRange)
            }
        }

        impl FromValue for $type {
            fn from_value(value: &Value) -> Result<Self, ValueError> {
                integer(value).and_then(|number| <$type>::try_from(number).map_err(|_| ValueError::OutOfRange))
            }
        }
    )*};
}

integers!(i64, i32, u64, u32, u16, usize);

fn integer(value: &Value) -> Result<i64, ValueError> {
    match value {
        Value::Integer(number) => Ok(*number),
        other => Err(mismatch(other, Kind::Integer)),
    }
}

fn mismatch(found: &Value, wanted: Kind) -> ValueError {
    if found.is_null() { ValueError::Null } else { ValueError::Mismatch { wanted, found: found.kind() } }
}

impl IntoValue for bool {
    const KIND: Kind = Kind::Integer;

    fn into_value(self) -> Result<Value, ValueError> {
        Ok(Value::Integer(i64::from(self)))
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        integer(value).map(|number| number != 0)
    }
}

impl IntoValue for f64 {
    const KIND: Kind = Kind::Real;

    fn into_value(self) -> Result<Value, ValueError> {
        // SQLite silently turns NaN into NULL.
        if self.is_nan() { Err(ValueError::OutOfRange) } else { Ok(Value::Real(self)) }
    }
}

impl FromValue for f64 {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Real(number) => Ok(*number),
            #[allow(clippy::cast_precision_loss, reason = "a sum of integers read as a real")]
            Value::Integer(number) => Ok(*number as f64),
            other => Err(mismatch(other, Kind::Real)),
        }
    }
}

impl IntoValue for Timestamp {
    const KIND: Kind = Kind::Integer;

    fn into_value(self) -> Result<Value, ValueError> {
        Ok(Value::Integer(self.as_micros()))
    }
}

impl FromValue for Timestamp {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        integer(value).map(Self::from_micros)
    }
}

impl IntoValue for &str {
    const KIND: Kind = Kind::Text;

    fn into_value(self) -> Result<Value, ValueError> {
        text(self.to_owned())
    }
}

impl IntoValue for String {
    const KIND: Kind = Kind::Text;

    fn into_value(self) -> Result<Value, ValueError> {
        text(self)
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            other => Err(mismatch(other, Kind::Text)),
        }
    }
}

impl FromValue for Arc<str> {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Text(text) => Ok(text.as_str().into()),
            other => Err(mismatch(other, Kind::Text)),
        }
    }
}

impl FromValue for Secret {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        String::from_value(value).map(Self::new)
    }
}

impl IntoValue for Vec<u8> {
    const KIND: Kind = Kind::Blob;

    fn into_value(self) -> Result<Value, ValueError> {
        Ok(Value::Blob(self))
    }
}

impl IntoValue for &[u8] {
    const KIND: Kind = Kind::Blob;

    fn into_value(self) -> Result<Value, ValueError> {
        Ok(Value::Blob(self.to_vec()))
    }
}

impl<const N: usize> IntoValue for [u8; N] {
    const KIND: Kind = Kind::Blob;

    fn into_value(self) -> Result<Value, ValueError> {
        Ok(Value::Blob(self.to_vec()))
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        match value {
            Value::Blob(bytes) => Ok(bytes.clone()),
            other => Err(mismatch(other, Kind::Blob)),
        }
    }
}

impl<const N: usize> FromValue for [u8; N] {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        Vec::from_value(value).and_then(|bytes| bytes.try_into().map_err(|_| ValueError::OutOfRange))
    }
}

impl IntoValue for serde_json::Value {
    const KIND: Kind = Kind::Text;

    fn into_value(self) -> Result<Value, ValueError> {
        text(self.to_string())
    }
}

impl FromValue for serde_json::Value {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        json(value)
    }
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, ValueError> {
    match value {
        Value::Text(text) => serde_json::from_str(text).map_err(|e| ValueError::Json { source: Arc::new(e) }),
        other => Err(mismatch(other, Kind::Text)),
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    const KIND: Kind = T::KIND;

    fn into_value(self) -> Result<Value, ValueError> {
        self.map_or(Ok(Value::Null(T::KIND)), T::into_value)
    }
}

impl<T: IntoValue + Clone> IntoValue for &Option<T> {
    const KIND: Kind = T::KIND;

    fn into_value(self) -> Result<Value, ValueError> {
        self.clone().into_value()
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Result<Self, ValueError> {
        if value.is_null() { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

macro_rules! by_reference {
    ($($type:ty),*) => {$(
        impl IntoValue for &$type {
            const KIND: Kind = <$type as IntoValue>::KIND;

            fn into_value(self) -> Result<Value, ValueError> {
                self.clone().into_value()
            }
        }
    )*};
}

by_reference!(i64, i32, u64, u32, u16, usize, bool, f64, Timestamp, String, Vec<u8>, serde_json::Value, Value, &str);

/// Implements binding and reading for typed ids: `stored_ids!(AgentId, ConversationId);` next to their declaration.
/// Works for any type with `as_str(&self) -> &str` and `From<String>`.
#[macro_export]
macro_rules! stored_ids {
    ($($id:ty),+ $(,)?) => {$(
        impl $crate::IntoValue for $id {
            const KIND: $crate::Kind = $crate::Kind::Text;

            fn into_value(self) -> ::std::result::Result<$crate::Value, $crate::ValueError> {
                $crate::IntoValue::into_value(self.as_str())
            }
        }

        impl $crate::IntoValue for &$id {
            const KIND: $crate::Kind = $crate::Kind::Text;

            fn into_value(self) -> ::std::result::Result<$crate::Value, $crate::ValueError> {
                $crate::IntoValue::into_value(self.as_str())
            }
        }

        impl $crate::FromValue for $id {
            fn from_value(value: &$crate::Value) -> ::std::result::Result<Self, $crate::ValueError> {
                <::std::string::String as $crate::FromValue>::from_value(value).map(<$id>::from)
            }
        }
    )+};
}
