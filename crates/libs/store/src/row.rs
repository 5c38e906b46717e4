//! A row as it was read, independent of the database it came from.

use std::sync::Arc;

use agentd_base::trace::TraceContext;
use serde::de::DeserializeOwned;

use crate::StoreError;
use crate::value::{self, FromValue, Value, ValueError};

/// One row. Columns are found by the name they have in the statement.
#[derive(Debug, Clone)]
pub struct Row {
    pub(crate) columns: Arc<[Box<str>]>,
    pub(crate) values: Box<[Value]>,
}

impl Row {
    /// The column as a `T`.
    ///
    /// # Errors
    /// `StoreError::Column` when there is no such column or its value is no `T`.
    pub fn get<T: FromValue>(&self, column: &str) -> Result<T, StoreError> {
        self.value(column).and_then(T::from_value).map_err(|source| self.unreadable(column, source))
    }

    /// The bytes of the column, moved out of the row: nobody copies what is large.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn take_bytes(&mut self, column: &str) -> Result<Vec<u8>, StoreError> {
        let position = self.columns.iter().position(|name| &**name == column);
        match position.and_then(|position| self.values.get_mut(position)) {
            Some(Value::Blob(bytes)) => Ok(std::mem::take(bytes)),
            _ => self.get(column),
        }
    }

    /// The JSON text of the column, parsed.
    ///
    /// # Errors
    /// `StoreError::Column` when there is no such column or its JSON is no `T`.
    pub fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, StoreError> {
        self.value(column).and_then(value::json).map_err(|source| self.unreadable(column, source))
    }

    /// The only or first column, for counts and the like.
    ///
    /// # Errors
    /// `StoreError::Column` when its value is no `T`.
    pub fn first<T: FromValue>(&self) -> Result<T, StoreError> {
        let value = self.values.first().ok_or(ValueError::Missing);
        value.and_then(T::from_value).map_err(|source| self.unreadable("(first)", source))
    }

    /// The column `traceparent`: where in a trace the row came about. What cannot be read is nothing: nobody's work must
    /// fail for it.
    ///
    /// # Errors
    /// `StoreError::Column` when there is no such column.
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
