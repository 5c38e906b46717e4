//! Rows of jobs, runs and chains.

pub(super) mod calendar;
pub(super) mod chains;
pub(super) mod claims;
pub(super) mod jobs;
pub(super) mod runs;
pub(super) mod statistics;

use agentd_store::{Args, IntoValue};

/// Rows a statement, largest first: a bounded number of statement texts is prepared once each.
const BATCHES: [usize; 4] = [64, 16, 4, 1];

/// How many of `left` rows go into the next statement.
fn batch(left: usize) -> usize {
    BATCHES.into_iter().find(|rows| *rows <= left).unwrap_or(1)
}

/// The placeholders of an `IN` list, whose length is one of a few: the last value fills it up.
fn in_list<'v, V>(args: &mut Args, values: &'v [V]) -> String
where
    &'v V: IntoValue,
{
    let length = BATCHES.into_iter().rev().find(|rows| *rows >= values.len()).unwrap_or(values.len());
    let padded = values.iter().chain(std::iter::repeat_n(values.last(), length - values.len()).flatten());
    let places: Vec<String> = padded.map(|value| format!("${}", args.push(value))).collect();
    places.join(", ")
}

/// `($4, $5), ($6, $7)`: the placeholders of rows whose values were pushed one after the other.
fn rows_of(first: usize, columns: usize, rows: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> = (0..columns).map(|column| format!("${}", first + row * columns + column)).collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}
