//! Statements over many rows. Their lengths are a few, so that a bounded number of statement texts is prepared,
//! once each.

use crate::{Args, IntoValue};

/// Rows a statement, the most first.
const LENGTHS: [usize; 4] = [64, 16, 4, 1];

/// How many of `left` rows go into the next statement.
#[must_use]
pub fn batch_of(left: usize) -> usize {
    LENGTHS.into_iter().find(|rows| *rows <= left).unwrap_or(1)
}

/// `($4, $5), ($6, $7)`: the placeholders of rows whose values were pushed one after the other.
#[must_use]
pub fn rows_of(first: usize, columns: usize, rows: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> = (0..columns).map(|column| format!("${}", first + row * columns + column)).collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// The placeholders of an `IN` list: the last value fills it up.
pub fn in_list<'v, V>(args: &mut Args, values: &'v [V]) -> String
where
    &'v V: IntoValue,
{
    let length = LENGTHS.into_iter().rev().find(|rows| *rows >= values.len()).unwrap_or(values.len());
    let padded = values.iter().chain(std::iter::repeat_n(values.last(), length - values.len()).flatten());
    let places: Vec<String> = padded.map(|value| format!("${}", args.push(value))).collect();
    places.join(", ")
}
