//! Text templates with placeholders in double braces, and lookup of values by path.
//!
//! The caller defines the placeholder syntax, the formatting of values and all limits. Values are never parsed as
//! templates.

use std::borrow::Cow;

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<P> {
    Text(String),
    Placeholder(P),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template<P>(Vec<Piece<P>>);

impl<P> Template<P> {
    /// Parses `text`. `placeholder` parses the trimmed text between two pairs of braces.
    ///
    /// # Errors
    /// Returns the end of a sentence about the text: a brace is not closed, or the error of `placeholder`.
    pub fn parse(text: &str, mut placeholder: impl FnMut(&str) -> Result<P, String>) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (inside, after) = after.split_once("}}").ok_or_else(|| "has `{{` without a closing `}}`".to_owned())?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Placeholder(placeholder(inside.trim())?));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    #[must_use]
    pub fn pieces(&self) -> &[Piece<P>] {
        &self.0
    }
}

impl<P> From<Vec<Piece<P>>> for Template<P> {
    fn from(pieces: Vec<Piece<P>>) -> Self {
        Self(pieces)
    }
}

/// Looks up a value by path: members of objects by name, array entries by index from 0.
pub fn lookup<'v>(value: &'v Value, path: &[impl AsRef<str>]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, part| match value {
        Value::Object(members) => members.get(part.as_ref()),
        Value::Array(entries) => entries.get(part.as_ref().parse::<usize>().ok()?),
        _ => None,
    })
}

/// Formats a value: strings unchanged, `null` and missing values as empty text, anything else as JSON.
#[must_use]
pub fn format_value(value: Option<&Value>) -> Cow<'_, str> {
    match value {
        None | Some(Value::Null) => Cow::Borrowed(""),
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn names(text: &str) -> Result<Vec<Piece<String>>, String> {
        Template::parse(text, |inside| Ok(inside.to_owned())).map(|template| template.0)
    }

    #[test]
    fn placeholders_are_parsed_between_double_braces() {
        let (text, name) =
            (|text: &str| Piece::Text(text.to_owned()), |name: &str| Piece::Placeholder(name.to_owned()));
        assert_eq!(names(""), Ok(vec![]));
        assert_eq!(names("a } {b}} {{ c }}{{d}}"), Ok(vec![text("a } {b}} "), name("c"), name("d")]));
        assert!(names("a {{b}").is_err());
        let refused = Template::<()>::parse("{{x}}", |inside| Err(format!("no {inside}")));
        assert_eq!(refused, Err("no x".to_owned()));
    }

    #[test]
    fn lookup_follows_objects_and_arrays() {
        let value = json!({"a": [{"b": null}, "x"], "0": 7});
        let found = |path: &str| lookup(&value, &path.split('.').collect::<Vec<_>>());
        assert_eq!(found("a.1"), Some(&json!("x")));
        assert_eq!((found("a.0.b"), found("0")), (Some(&Value::Null), Some(&json!(7))));
        assert_eq!((found("a.2"), found("a.-1"), found("a.1.x"), found("gone")), (None, None, None, None));
        assert_eq!((format_value(found("a.0.b")), format_value(None)), ("".into(), "".into()));
        assert_eq!((format_value(found("a.1")), format_value(found("a.0"))), ("x".into(), r#"{"b":null}"#.into()));
    }

    proptest! {
        #[test]
        fn parse_preserves_all_text(text in "([{}a ]|\\{\\{|\\}\\}){0,20}") {
            if let Ok(pieces) = names(&text) {
                let again: String = pieces.iter().map(|piece| match piece {
                    Piece::Text(text) => text.clone(),
                    Piece::Placeholder(inside) => format!("{{{{{inside}}}}}"),
                }).collect();
                prop_assert_eq!(again.replace(' ', ""), text.replace(' ', ""));
            }
        }
    }
}
