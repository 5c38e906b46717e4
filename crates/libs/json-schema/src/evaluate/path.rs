//! Location in the evaluated value.

use serde_json::Value;

/// Linked list on the stack, converted to a pointer only for a problem.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    Root,
    Member(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    /// Formats a problem with the JSON pointer to its location.
    pub(super) fn describe(&self, problem: &str) -> String {
        match self {
            Self::Root => problem.to_owned(),
            _ => format!("`{}`: {problem}", self.pointer()),
        }
    }

    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Member(parent, name) => {
                let name: String = name.chars().take(100).collect();
                format!("{}/{}", parent.pointer(), name.replace('~', "~0").replace('/', "~1"))
            }
            Self::Item(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}

/// Returns the short form of a value for messages.
pub(super) fn shorten(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(members) => format!("an object of {} members", members.len()),
        Value::String(text) => {
            let start: String = text.chars().take(60).collect();
            let dots = if start.len() < text.len() { "…" } else { "" };
            format!("{}{dots}", Value::from(start))
        }
        other => other.to_string(),
    }
}
