//! Takes the value of one parameter out of a message, by its role.

mod contents;
mod measures;
mod references;
mod texts;

pub(super) use contents::{attribute, content, labelled, language, object};
pub(super) use measures::{choice, expression, flag, number_value, numbers, units};
pub(super) use references::{email, path, person, place, url};
pub(super) use texts::{all_quoted, code, command, query};
