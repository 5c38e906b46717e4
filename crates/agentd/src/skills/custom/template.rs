//! Texts with `{{input.<field>}}` in them, filled with what a model wrote. How a value is written
//! depends on where it stands, so that it can change nothing but its own place.

use serde_json::{Map, Value};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The names that lead to a value, the first in the input itself.
    Field(Vec<String>),
}

impl Template {
    /// # Errors
    /// A sentence on what stands between braces and is no placeholder.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let problem = "holds `{{` that begins no `{{input.<field>}}`";
            let (inside, after) = after.split_once(CLOSE).ok_or(problem)?;
            let names = inside.trim().strip_prefix("input.").ok_or(problem)?.split('.');
            let names: Vec<String> = names.map(str::to_owned).collect();
            let is_name = |name: &String| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
            };
            if !names.iter().all(is_name) {
                return Err(problem.to_owned());
            }
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Field(names));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// Values as they are.
    pub(super) fn plain(&self, input: &Map<String, Value>) -> String {
        self.fill(|names| text_of(lookup(input, names)))
    }

    /// Values with everything encoded that could mean something in a URL or a form.
    pub(super) fn url_encoded(&self, input: &Map<String, Value>) -> String {
        self.fill(|names| percent_encoded(&text_of(lookup(input, names))))
    }

    /// For a JSON document: within quotes a value becomes part of the text, elsewhere JSON.
    pub(super) fn json(&self, input: &Map<String, Value>) -> String {
        let mut text = String::new();
        let mut quotes = Quotes::default();
        for part in &self.0 {
            match part {
                Part::Text(part) => {
                    quotes.pass(part);
                    text.push_str(part);
                }
                Part::Field(names) if quotes.is_inside => {
                    let quoted = Value::String(text_of(lookup(input, names))).to_string();
                    text.push_str(&quoted[1..quoted.len() - 1]);
                }
                Part::Field(names) => text.push_str(&lookup(input, names).unwrap_or(&Value::Null).to_string()),
            }
        }
        text
    }

    /// Every placeholder as `value` says.
    pub(super) fn fill(&self, value: impl Fn(&[String]) -> String) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Field(names) => value(names),
        };
        self.0.iter().map(part).collect()
    }
}

/// Whether a place in a JSON document lies within a string.
#[derive(Default)]
struct Quotes {
    is_inside: bool,
    is_escaped: bool,
}

impl Quotes {
    fn pass(&mut self, text: &str) {
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

fn lookup<'v>(input: &'v Map<String, Value>, names: &[String]) -> Option<&'v Value> {
    let (first, rest) = names.split_first()?;
    rest.iter().try_fold(input.get(first)?, |value, name| value.get(name))
}

/// What is not there is nothing.
fn text_of(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// All but the unreserved characters of RFC 3986.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ => {
                encoded.push('%');
                encoded.push_str(&hex::encode_upper([byte]));
            }
        }
    }
    encoded
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
    fn only_fields_of_the_input_stand_between_braces() {
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
    fn a_value_is_written_as_its_place_needs() {
        let input = input(&json!({"q": "a&b=\"c\"/..\n", "n": 7, "deep": {"list": [1, "x"]}}));
        let render = |text: &str| Template::parse(text).unwrap();
        assert_eq!(
            render("https://x.example/{{input.q}}").url_encoded(&input),
            "https://x.example/a%26b%3D%22c%22%2F..%0A"
        );
        assert_eq!(render("{{input.n}}-{{input.gone}}-{{input.deep.list}}").plain(&input), "7--[1,\"x\"]");
        let body = render(
            r#"{"text": "say {{input.q}} \" {{input.n}}", "n": {{input.n}}, "l": {{input.deep.list}}, "g": {{input.gone}}}"#,
        );
        let parsed: Value = serde_json::from_str(&body.json(&input)).unwrap();
        let expected = json!({"text": "say a&b=\"c\"/..\n \" 7", "n": 7, "l": [1, "x"], "g": null});
        assert_eq!(parsed, expected);
    }

    proptest! {
        #[test]
        fn no_value_changes_more_than_its_place(text in any::<String>(), number in any::<i64>()) {
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
