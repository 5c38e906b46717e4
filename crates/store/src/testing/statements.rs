//! Statements that lack something: for the proof that this would be seen.

use std::borrow::Cow;
use std::cell::Cell;

/// A part of statements, and what stands in its place.
pub type Alteration = (&'static str, &'static str);

thread_local! {
    static IN_FORCE: Cell<Option<Alteration>> = const { Cell::new(None) };
}

/// From now on, statements that this thread runs on SQLite are altered so.
pub fn alter_statements(alteration: Option<Alteration>) {
    IN_FORCE.set(alteration);
}

pub(crate) fn altered(sql: &str) -> Cow<'_, str> {
    match IN_FORCE.get() {
        Some((part, other)) if sql.contains(part) => sql.replace(part, other).into(),
        _ => sql.into(),
    }
}
