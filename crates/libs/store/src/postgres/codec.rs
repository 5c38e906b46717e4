//! Conversion of values to and from PostgreSQL's binary formats. Decoding depends on the type OID, so that the result
//! of an expression (NUMERIC from a sum, INT4 from a literal) reads like a column.

use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow, PgValueFormat, PgValueRef};
use sqlx::{Arguments, Column, Row as _, TypeInfo, ValueRef};

use crate::row::Row;
use crate::value::{Kind, Value, ValueError};
use crate::{Args, StoreError};

pub(crate) fn arguments(args: Args) -> Result<PgArguments, StoreError> {
    let values = args.into_values()?;
    let mut arguments = PgArguments::default();
    arguments.reserve(values.len(), 0);
    for value in values {
        let added = match value {
            Value::Null(Kind::Integer) => arguments.add(None::<i64>),
            Value::Null(Kind::Real) => arguments.add(None::<f64>),
            Value::Null(Kind::Text) => arguments.add(None::<String>),
            Value::Null(Kind::Blob) => arguments.add(None::<Vec<u8>>),
            Value::Integer(number) => arguments.add(number),
            Value::Real(number) => arguments.add(number),
            Value::Text(text) => arguments.add(text),
            Value::Blob(bytes) => arguments.add(bytes),
        };
        added.map_err(|e| StoreError::from(sqlx::Error::Encode(e)))?;
    }
    Ok(arguments)
}

pub(crate) fn columns(row: &PgRow) -> Arc<[Box<str>]> {
    row.columns().iter().map(|column| column.name().into()).collect()
}

pub(crate) fn row(row: &PgRow, columns: &Arc<[Box<str>]>) -> Result<Row, StoreError> {
    let mut values = Vec::with_capacity(columns.len());
    for (position, column) in columns.iter().enumerate() {
        let raw = row.try_get_raw(position)?;
        values.push(value(&raw).map_err(|source| StoreError::Column { column: column.to_string(), source })?);
    }
    Ok(Row { columns: Arc::clone(columns), values: values.into() })
}

/// Type OIDs: `pg_type.dat` of PostgreSQL 15.
fn value(raw: &PgValueRef<'_>) -> Result<Value, ValueError> {
    let oid = raw.type_info().oid().map_or(0, |oid| oid.0);
    let kind = match oid {
        16 | 20 | 21 | 23 | 26 | 5069 => Kind::Integer,
        700 | 701 | 1700 => Kind::Real,
        17 => Kind::Blob,
        // "char", name, text, json, unknown, bpchar, varchar, void
        18 | 19 | 25 | 114 | 705 | 1042 | 1043 | 2278 => Kind::Text,
        _ => return Err(ValueError::UnsupportedType { name: raw.type_info().name().to_owned() }),
    };
    if raw.is_null() {
        return Ok(Value::Null(kind));
    }
    if raw.format() != PgValueFormat::Binary {
        return Err(ValueError::UnsupportedType { name: "text form".to_owned() });
    }
    let bytes = raw.as_bytes().map_err(|_| ValueError::Null)?;
    let malformed = |_| ValueError::OutOfRange;
    Ok(match oid {
        16 => Value::Integer(i64::from(bytes.first().is_some_and(|b| *b != 0))),
        20 => Value::Integer(i64::from_be_bytes(bytes.try_into().map_err(malformed)?)),
        21 => Value::Integer(i16::from_be_bytes(bytes.try_into().map_err(malformed)?).into()),
        23 => Value::Integer(i32::from_be_bytes(bytes.try_into().map_err(malformed)?).into()),
        26 => Value::Integer(u32::from_be_bytes(bytes.try_into().map_err(malformed)?).into()),
        5069 => {
            let number = u64::from_be_bytes(bytes.try_into().map_err(malformed)?);
            Value::Integer(i64::try_from(number).map_err(|_| ValueError::OutOfRange)?)
        }
        700 => Value::Real(f32::from_be_bytes(bytes.try_into().map_err(malformed)?).into()),
        701 => Value::Real(f64::from_be_bytes(bytes.try_into().map_err(malformed)?)),
        1700 => numeric(bytes)?,
        17 => Value::Blob(bytes.to_vec()),
        2278 => Value::Null(Kind::Text),
        _ => Value::Text(std::str::from_utf8(bytes).map_err(|_| ValueError::Utf8)?.to_owned()),
    })
}

/// Decodes a binary NUMERIC: four 16-bit numbers (digits, weight, sign, scale) followed by base-10000 digits, the first
/// worth 10000^weight (`numeric_send` in PostgreSQL's `numeric.c`). A whole number that fits becomes an integer, any
/// other number the nearest real.
fn numeric(bytes: &[u8]) -> Result<Value, ValueError> {
    let mut words = bytes.chunks_exact(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]]));
    let mut next = || words.next().ok_or(ValueError::OutOfRange);
    let (count, weight, sign, _scale) = (next()?, next()?, next()?, next()?);
    #[allow(clippy::cast_sign_loss, reason = "the sign is a bit pattern")]
    let sign = sign as u16;
    let is_negative = match sign {
        0x0000 => false,
        0x4000 => true,
        0xD000 => return Ok(Value::Real(f64::INFINITY)),
        0xF000 => return Ok(Value::Real(f64::NEG_INFINITY)),
        _ => return Ok(Value::Null(Kind::Real)),
    };
    let digits: Vec<i16> = words.collect();
    if digits.len() != usize::try_from(count).map_err(|_| ValueError::OutOfRange)? {
        return Err(ValueError::OutOfRange);
    }
    let places = i32::from(weight) + 1;
    let is_whole = digits.iter().skip(usize::try_from(places.max(0)).unwrap_or(0)).all(|digit| *digit == 0);
    if is_whole && places <= 5 {
        let mut number: i128 = 0;
        for place in 0..places.max(0) {
            let digit = digits.get(usize::try_from(place).unwrap_or(usize::MAX)).copied().unwrap_or(0);
            number = number * 10_000 + i128::from(digit);
        }
        if let Ok(number) = i64::try_from(if is_negative { -number } else { number }) {
            return Ok(Value::Integer(number));
        }
    }
    // Parsed as text, so that the standard library rounds correctly.
    let mut text = String::from(if is_negative { "-0" } else { "0" });
    for digit in &digits {
        text.push_str(&format!("{digit:04}"));
    }
    let exponent = 4 * (places - i32::try_from(digits.len()).unwrap_or(0));
    text.push_str(&format!("e{exponent}"));
    text.parse().map(Value::Real).map_err(|_| ValueError::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(weight: i16, is_negative: bool, digits: &[i16]) -> Vec<u8> {
        let sign: u16 = if is_negative { 0x4000 } else { 0 };
        let mut bytes = Vec::new();
        bytes.extend(i16::try_from(digits.len()).unwrap().to_be_bytes());
        bytes.extend(weight.to_be_bytes());
        bytes.extend(sign.to_be_bytes());
        bytes.extend(0i16.to_be_bytes());
        for digit in digits {
            bytes.extend(digit.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn decodes_integral_and_fractional_numerics() {
        assert_eq!(numeric(&wire(0, false, &[])).unwrap(), Value::Integer(0));
        assert_eq!(numeric(&wire(0, false, &[42])).unwrap(), Value::Integer(42));
        assert_eq!(numeric(&wire(1, true, &[3])).unwrap(), Value::Integer(-30_000));
        assert_eq!(numeric(&wire(4, false, &[922, 3372, 368, 5477, 5807])).unwrap(), Value::Integer(i64::MAX));
        assert_eq!(numeric(&wire(0, false, &[2, 5000])).unwrap(), Value::Real(2.5));
        assert_eq!(numeric(&wire(-1, true, &[25])).unwrap(), Value::Real(-0.0025));
        assert_eq!(
            numeric(&wire(4, false, &[922, 3372, 368, 5477, 5808])).unwrap(),
            Value::Real(9_223_372_036_854_775_808.0)
        );
        assert!(numeric(&[0, 1, 0]).is_err());
    }
}
