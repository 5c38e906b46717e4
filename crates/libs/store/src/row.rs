//! Result row, independent of the database.

use std::sync::Arc;

use agentd_base::trace::TraceContext;
use serde::de::DeserializeOwned;

use crate::StoreError;
use crate::value::{self, FromValue, Value, ValueError};

/// One row. Columns are identified by their name in the statement.
#[derive(Debug, Clone)]
pub struct Row {
    pub(crate) columns: Arc<[Box<str>]>,
    pub(crate) values: Box<[Value]>,
}

impl Row {
    /// Returns the column as a `T`.
    ///
    /// # Errors
    /// `StoreError::Column` if the column does not exist or its value is not a `T`.
    pub fn get<T: FromValue>(&self, column: &str) -> Result<T, StoreError> {
        self.value(column).and_then(T::from_value).map_err(|source| self.unreadable(column, source))
    }

    /// Moves the bytes of the column out of the row without a copy.
    ///
    /// # Errors
    /// See [`get`](Self::get).
    pub fn take_bytes(&mut self, column: &str) -> Result<Vec<u8>, StoreError> {
        let position = self.columns.iter().position(|name| &**name == column);
        match position.and_then(|position| self.values.get_mut(position)) {
            Some(Value::Blob(bytes)) => Ok(std::mem::take(bytes)),
            _ => self.get(column),
        }
    }

    /// Parses the JSON text of the column.
    ///
    /// # Errors
    /// `StoreError::Column` if the column does not exist or its JSON is not a `T`.
    pub fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        self.value(column).and_then(value::json).map_err(|source| self.unreadable(column, source))
    }

    /// Returns the first column, for example a count.
    ///
    /// # Errors
    /// `StoreError::Column` if its value is not a `T`.
    pub fn first<T: FromValue>(&self) -> Result<T, StoreError> {
        let value = self.values.first().ok_or(ValueError::Missing);
        value.and_then(T::from_value).map_err(|source| self.unreadable("(first)", source))
    }

    /// Returns the trace context stored in the column `traceparent`. An invalid one is ignored, because tracing must
    /// not fail other work.
    ///
    /// # Errors
    /// `StoreError::Column` if the column does not exist.
    pub fn trace(&self) -> Result<Option<TraceContext>, StoreError> {
        Ok(self.get::<Option<String>>("traceparent")?.and_then(|text| TraceContext::parse(&text)))
    }

    fn value(&self, column: &str) -> Result<&Value, ValueError> {
        let position = self.columns.iter().position(|name| &**name == column).ok_or(ValueError::Missing)?;
        self.values.get(position).ok_or(ValueError::Missing)
    }

    fn unreadable(&self, column: &str, source: ValueError) -> StoreError {
        StoreError::Column { column: column.to_owned(), source }
    }
}
