//! Deliberately altered statements, to prove that tests detect the difference.

use std::borrow::Cow;
use std::cell::RefCell;

/// Part of a statement and its replacement.
pub type Alteration = (&'static str, &'static str);

thread_local! {
    static ALTERATIONS: RefCell<Vec<Alteration>> = const { RefCell::new(Vec::new()) };
}

/// Alters the statements that this thread runs on SQLite from now on.
pub fn alter_statements(alterations: Vec<Alteration>) {
    ALTERATIONS.set(alterations);
}

pub(crate) fn altered(sql: &str) -> Cow<'_, str> {
    ALTERATIONS.with_borrow(|alterations| {
        alterations.iter().fold(Cow::Borrowed(sql), |sql, (part, other)| match sql.contains(part) {
            true => sql.replace(part, other).into(),
            false => sql,
        })
    })
}
