//! Statements that lack something: for the proof that this would be seen.

use std::borrow::Cow;
use std::cell::RefCell;

/// A part of statements, and what stands in its place.
pub type Alteration = (&'static str, &'static str);

thread_local! {
    static IN_FORCE: RefCell<Vec<Alteration>> = const { RefCell::new(Vec::new()) };
}

/// From now on, statements that this thread runs on SQLite are altered so.
pub fn alter_statements(alterations: Vec<Alteration>) {
    IN_FORCE.set(alterations);
}

pub(crate) fn altered(sql: &str) -> Cow<'_, str> {
    IN_FORCE.with_borrow(|alterations| {
        alterations.iter().fold(Cow::Borrowed(sql), |sql, (part, other)| match sql.contains(part) {
            true => sql.replace(part, other).into(),
            false => sql,
        })
    })
}
