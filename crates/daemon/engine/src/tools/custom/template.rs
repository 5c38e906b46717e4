//! Templates with `{{input.<field>}}` placeholders, filled with inputs of a model. Values are encoded for their
//! position, so that a value cannot affect the text around it.

use agentd_base::URL_RESERVED;
use agentd_base::template::{Piece, Template as Pieces, format_value, lookup};
use percent_encoding::utf8_percent_encode;
use serde_json::{Map, Value};

/// A placeholder is the path to a value, starting with a field of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Pieces<Vec<String>>);

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// A sentence that describes the invalid placeholder.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let placeholder = |inside: &str| match inside.strip_prefix("input.") {
            Some(path) if path.split('.').all(is_name) => Ok(path.split('.').map(str::to_owned).collect()),
            _ => Err("contains `{{` that does not start a placeholder `{{input.<field>}}`".to_owned()),
        };
        Pieces::parse(text, placeholder).map(Self)
    }

    /// Fills in values without encoding.
    pub(super) fn plain(&self, input: &Map<String, Value>) -> String {
        self.fill(|names| format_value(find(input, names)).into_owned())
    }

    /// Fills in values percent-encoded for a URL or a form.
    pub(super) fn url_encoded(&self, input: &Map<String, Value>) -> String {
        self.fill(|names| utf8_percent_encode(&format_value(find(input, names)), URL_RESERVED).to_string())
    }

    /// Fills in values for a JSON document: inside a string as escaped text, elsewhere as JSON.
    pub(super) fn json(&self, input: &Map<String, Value>) -> String {
        let mut text = String::new();
        let mut quotes = Quotes::default();
        for piece in self.0.pieces() {
            match piece {
                Piece::Text(part) => {
                    quotes.advance(part);
                    text.push_str(part);
                }
                Piece::Placeholder(names) if quotes.is_inside => {
                    let quoted = Value::String(format_value(find(input, names)).into_owned()).to_string();
                    text.push_str(&quoted[1..quoted.len() - 1]);
                }
                Piece::Placeholder(names) => text.push_str(&find(input, names).unwrap_or(&Value::Null).to_string()),
            }
        }
        text
    }

    /// Replaces every placeholder with the result of `value`.
    pub(super) fn fill(&self, value: impl Fn(&[String]) -> String) -> String {
        let piece = |piece: &Piece<Vec<String>>| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Placeholder(names) => value(names),
        };
        self.0.pieces().iter().map(piece).collect()
    }
}

/// Tracks whether a position in a JSON document is inside a string.
#[derive(Default)]
struct Quotes {
    is_inside: bool,
    is_escaped: bool,
}

impl Quotes {
    fn advance(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' if self.is_inside => self.is_escaped = true,
                '"' => self.is_inside = !self.is_inside,
                _ => {}
            }
        }
    }
}

fn find<'v>(input: &'v Map<String, Value>, names: &[String]) -> Option<&'v Value> {
    let (first, rest) = names.split_first()?;
    lookup(input.get(first)?, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn input(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn placeholders_must_name_input_fields() {
        for bad in [
            "{{",
            "{{x}}",
            "{{input}}",
            "{{input.}}",
            "{{input.a b}}",
            "{{input.a..b}}",
            "{{secret.a}}",
            "{{{input.a}}}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
        for good in ["", "plain", "{{input.a}}", "{{ input.a.b-c }}x{{input.d}}", "}}", "{\"a\": {\"b\": 1}}"] {
            assert!(Template::parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn values_are_encoded_for_their_position() {
        let input = input(&json!({"q": "a&b=\"c\"/..\n", "n": 7, "deep": {"list": [1, "x"]}}));
        let render = |text: &str| Template::parse(text).unwrap();
        assert_eq!(
            render("https://x.example/{{input.q}}").url_encoded(&input),
            "https://x.example/a%26b%3D%22c%22%2F..%0A"
        );
        assert_eq!(render("{{input.n}}-{{input.gone}}-{{input.deep.list}}").plain(&input), "7--[1,\"x\"]");
        assert_eq!(render("{{input.deep.list.1}}{{input.deep.list.2}}").plain(&input), "x");
        let body = render(
            r#"{"text": "say {{input.q}} \" {{input.n}}", "n": {{input.n}}, "l": {{input.deep.list}}, "g": {{input.gone}}}"#,
        );
        let parsed: Value = serde_json::from_str(&body.json(&input)).unwrap();
        let expected = json!({"text": "say a&b=\"c\"/..\n \" 7", "n": 7, "l": [1, "x"], "g": null});
        assert_eq!(parsed, expected);
    }

    proptest! {
        #[test]
        fn values_cannot_change_surrounding_text(text in any::<String>(), number in any::<i64>()) {
            let input = input(&json!({"a": text, "b": number}));
            let body = Template::parse(r#"{"x": "<{{input.a}}>", "y": {{input.a}}, "z": {{input.b}}}"#).unwrap();
            let parsed: Value = serde_json::from_str(&body.json(&input)).unwrap();
            prop_assert_eq!(parsed, json!({"x": format!("<{text}>"), "y": text, "z": number}));
            let url = Template::parse("https://x.example/p?a={{input.a}}&b=1#f").unwrap().url_encoded(&input);
            let url = url::Url::parse(&url).unwrap();
            let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            prop_assert_eq!(pairs, vec![("a".to_owned(), text), ("b".to_owned(), "1".to_owned())]);
            prop_assert_eq!((url.host_str(), url.path(), url.fragment()), (Some("x.example"), "/p", Some("f")));
        }
    }
}
