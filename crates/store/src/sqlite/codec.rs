//! Values to and from sqlx's SQLite types.

use std::sync::Arc;

use sqlx::sqlite::{SqliteArguments, SqliteRow, SqliteValueRef};
use sqlx::{Arguments, Column, Decode, Row as _, Sqlite, TypeInfo, ValueRef};

use crate::row::Row;
use crate::value::{Kind, Value, ValueError};
use crate::{Args, StoreError};

pub(crate) fn arguments(args: Args) -> Result<SqliteArguments, StoreError> {
    let values = args.into_values()?;
    let mut arguments = SqliteArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        let added = match value {
            Value::Null(_) => arguments.add(None::<i64>),
            Value::Integer(number) => arguments.add(number),
            Value::Real(number) => arguments.add(number),
            Value::Text(text) => arguments.add(text),
            Value::Blob(bytes) => arguments.add(bytes),
        };
        added.map_err(|e| StoreError::from(sqlx::Error::Encode(e)))?;
    }
    Ok(arguments)
}

pub(crate) fn columns(row: &SqliteRow) -> Arc<[Box<str>]> {
    row.columns().iter().map(|column| column.name().into()).collect()
}

pub(crate) fn row(row: &SqliteRow, columns: &Arc<[Box<str>]>) -> Result<Row, StoreError> {
    let mut values = Vec::with_capacity(columns.len());
    for (position, column) in columns.iter().enumerate() {
        let raw = row.try_get_raw(position)?;
        values.push(value(raw).map_err(|source| StoreError::Column { column: column.to_string(), source })?);
    }
    Ok(Row { columns: Arc::clone(columns), values: values.into() })
}

fn value(raw: SqliteValueRef<'_>) -> Result<Value, ValueError> {
    let other = |_| ValueError::Utf8;
    let kind = match raw.type_info().name() {
        "INTEGER" => Kind::Integer,
        "REAL" => Kind::Real,
        "BLOB" => Kind::Blob,
        _ => Kind::Text,
    };
    if raw.is_null() {
        return Ok(Value::Null(kind));
    }
    Ok(match kind {
        Kind::Integer => Value::Integer(<i64 as Decode<Sqlite>>::decode(raw).map_err(other)?),
        Kind::Real => Value::Real(<f64 as Decode<Sqlite>>::decode(raw).map_err(other)?),
        Kind::Blob => Value::Blob(<Vec<u8> as Decode<Sqlite>>::decode(raw).map_err(other)?),
        Kind::Text => Value::Text(<String as Decode<Sqlite>>::decode(raw).map_err(other)?),
    })
}
