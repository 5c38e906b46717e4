//! Multi-row statements. Batch sizes come from a short list, so that a bounded number of statement texts is prepared.

use crate::{Args, IntoValue};

/// Rows per statement, in descending order.
const BATCH_SIZES: [usize; 4] = [64, 16, 4, 1];

/// Returns the number of rows of the next statement, given the number of remaining rows.
#[must_use]
pub fn batch_size(remaining: usize) -> usize {
    BATCH_SIZES.into_iter().find(|rows| *rows <= remaining).unwrap_or(1)
}

/// Returns the placeholders of rows whose values were pushed consecutively: `($4, $5), ($6, $7)`.
#[must_use]
pub fn row_placeholders(first: usize, columns: usize, rows: usize) -> String {
    let row = |row: usize| {
        let placeholders: Vec<String> =
            (0..columns).map(|column| format!("${}", first + row * columns + column)).collect();
        format!("({})", placeholders.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// Returns the placeholders of an `IN` list, padded with the last value.
pub fn in_list<'v, V>(args: &mut Args, values: &'v [V]) -> String
where
    &'v V: IntoValue,
{
    let length = BATCH_SIZES.into_iter().rev().find(|rows| *rows >= values.len()).unwrap_or(values.len());
    let padded = values.iter().chain(std::iter::repeat_n(values.last(), length - values.len()).flatten());
    let placeholders: Vec<String> = padded.map(|value| format!("${}", args.push(value))).collect();
    placeholders.join(", ")
}
