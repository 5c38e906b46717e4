//! Prompt templates: text of the owner with placeholders for request content, which is enclosed in marks.
//!
//! `{{body}}` is the whole body, `{{body.a.0.b}}` a part of it (object members by name, array entries by index), and
//! `{{headers.<name>}}` a header. Missing values render as empty strings. Any other placeholder is rejected when the
//! template is saved.

use agentd_base::Marks;
use agentd_base::template::{Piece, Template as Pieces, format_value, lookup};
use serde_json::{Map, Value};

const MAX_CHARACTERS: usize = 16_000;
const MAX_PLACEHOLDERS: usize = 100;
/// Maximum length of one inserted value, in characters.
const MAX_VALUE_CHARACTERS: usize = 20_000;
/// Maximum total length of all inserted values, in characters.
const MAX_INSERTED_CHARACTERS: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Placeholder {
    Body(Vec<String>),
    Header(String),
}

/// A parsed prompt template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Pieces<Placeholder>);

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The problem, as a predicate that follows the field name.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > MAX_CHARACTERS {
            return Err(format!("must have at most {MAX_CHARACTERS} characters"));
        }
        if text.contains('\0') {
            return Err("must not contain the NUL character".to_owned());
        }
        let template = Pieces::parse(text, placeholder)?;
        if template.pieces().iter().filter(|piece| matches!(piece, Piece::Placeholder(_))).count() > MAX_PLACEHOLDERS {
            return Err(format!("must have at most {MAX_PLACEHOLDERS} placeholders"));
        }
        Ok(Self(template))
    }

    /// Returns the default template.
    pub(crate) fn whole_body() -> Self {
        let text = "A request came in. Look at it, and do with it what your instructions say; if they say \
                    nothing, say in a few sentences what it is about.\n\n";
        let body = Placeholder::Body(Vec::new());
        Self(vec![Piece::Text(text.to_owned()), Piece::Placeholder(body)].into())
    }

    /// Renders the template with the content of a request.
    pub(crate) fn render(&self, body: &Value, headers: &Map<String, Value>, marks: &Marks) -> String {
        let mut rendered_text = String::new();
        let mut left = MAX_INSERTED_CHARACTERS;
        for piece in self.0.pieces() {
            let value = match piece {
                Piece::Text(text) => {
                    rendered_text.push_str(text);
                    continue;
                }
                Piece::Placeholder(Placeholder::Body(path)) => format_value(lookup(body, path)),
                Piece::Placeholder(Placeholder::Header(name)) => format_value(headers.get(name)),
            };
            if value.is_empty() {
                continue;
            }
            let limit = MAX_VALUE_CHARACTERS.min(left);
            let part = prefix(&value, limit);
            let hidden = value[part.len()..].chars().count();
            left -= part.chars().count();
            rendered_text.push_str(&marks.begin);
            rendered_text.push_str(part);
            if hidden > 0 {
                rendered_text.push_str(&format!(" … ({hidden} more characters are left out)"));
            }
            rendered_text.push_str(&marks.end);
        }
        // The database cannot store NUL characters.
        rendered_text.replace('\0', "\u{fffd}")
    }
}

fn placeholder(inside: &str) -> Result<Placeholder, String> {
    let shown = prefix(inside, 60);
    let unknown = || {
        format!(
            "contains the unknown placeholder `{{{{{shown}}}}}`; use `{{{{body.<path>}}}}` or `{{{{headers.<name>}}}}`"
        )
    };
    let (root, path) = match inside.split_once('.') {
        Some((root, path)) => (root, Some(path)),
        None => (inside, None),
    };
    match (root, path) {
        ("body", None) => Ok(Placeholder::Body(Vec::new())),
        ("body", Some(path)) => {
            let parts: Vec<String> = path.split('.').map(str::to_owned).collect();
            if parts.iter().any(|part| part.is_empty() || part.contains(['{', '}'])) {
                return Err(format!("contains `{{{{{shown}}}}}`, whose path has an empty part or a brace"));
            }
            Ok(Placeholder::Body(parts))
        }
        ("headers", Some(name)) if !name.is_empty() && !name.contains(['{', '}', ' ']) => {
            Ok(Placeholder::Header(name.to_ascii_lowercase()))
        }
        _ => Err(unknown()),
    }
}

/// Returns at most the first `characters` of a text.
fn prefix(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn rendered(template: &str, body: &Value) -> String {
        let headers = json!({"x-event": "push"});
        let marks = Marks { begin: "<".to_owned(), end: ">".to_owned() };
        Template::parse(template).unwrap().render(body, headers.as_object().unwrap(), &marks)
    }

    #[test]
    fn values_are_enclosed_in_marks() {
        let body = json!({"user": {"name": "Ada"}, "tags": ["a", {"b": 2}], "none": null, "list": []});
        assert_eq!(rendered("Hi {{ body.user.name }}, {{headers.X-Event}}!", &body), "Hi <Ada>, <push>!");
        assert_eq!(rendered("{{body.tags.1.b}} {{body.tags.0}} {{body.tags}}", &body), "<2> <a> <[\"a\",{\"b\":2}]>");
        assert_eq!(rendered("({{body.missing.x}}{{body.none}}{{body.tags.9}}{{headers.no}})", &body), "()");
        assert_eq!(rendered("{{body}}", &json!("plain {{body.x}}")), "<plain {{body.x}}>");
        assert_eq!(rendered("a } b }} {c}", &body), "a } b }} {c}");
    }

    #[test]
    fn unknown_placeholders_are_rejected_by_name() {
        for (template, part) in [
            ("{{bdy.x}}", "bdy.x"),
            ("{{headers}}", "headers"),
            ("{{}}", "{{}}"),
            ("{{body..x}}", "empty part"),
            ("a {{body.x", "without a closing `}}`"),
            ("{{body.{{body.x}}", "brace"),
            ("\0", "NUL"),
        ] {
            let problem = Template::parse(template).unwrap_err();
            assert!(problem.contains(part), "{template}: {problem}");
        }
        assert!(Template::parse(&"{{body}}".repeat(101)).is_err());
        assert!(Template::parse(&"x".repeat(16_001)).is_err());
    }

    #[test]
    fn long_values_are_truncated_with_a_note() {
        let rendered_text = rendered("{{body.a}}", &json!({"a": "ä".repeat(20_005)}));
        assert!(rendered_text.ends_with("ä … (5 more characters are left out)>"), "{}", prefix(&rendered_text, 40));
        let rendered_text = rendered(&"{{body.a}}".repeat(100), &json!({"a": "x".repeat(30_000)}));
        assert!(rendered_text.chars().filter(|c| *c == 'x').count() <= 100_000);
    }

    proptest! {
        #[test]
        fn arbitrary_templates_never_panic(template in ".{0,80}|(\\{\\{|\\}\\}|body|headers|\\.|a| ){0,12}", text in ".{0,20}") {
            if let Ok(parsed) = Template::parse(&template) {
                let rendered_text = parsed.render(&json!({"a": text}), &Map::new(), &Marks::new("k"));
                prop_assert!(!rendered_text.contains('\0'));
            }
        }
    }
}
