//! From what the model wrote to the whole input of a call.

use serde_json::{Map, Value};

use crate::plan::Plan;
use crate::prompt;

const MAX_TEXT_CHARACTERS: usize = 4000;

impl Plan {
    /// The input of the call, with the model's `reply` to [`Plan::prompt`] (nothing, where there is none);
    /// `None` when the tool's schema does not accept what that makes.
    #[must_use]
    pub fn input(&self, reply: &str) -> Option<Value> {
        let written = match prompt::only_text(self) {
            Some((parameter, _)) => plain(reply).map(|text| (parameter.name.clone(), text)).into_iter().collect(),
            None => parse(reply).unwrap_or_default(),
        };
        let mut input = self.values.clone();
        for (name, value) in written {
            if self.open.iter().any(|(parameter, _)| parameter.name == name) {
                input.insert(name, value);
            }
        }
        let input = Value::Object(input);
        self.accepts(&input).then_some(input)
    }
}

/// A reply that is a text: without the fence that many models put around code, and never empty.
fn plain(reply: &str) -> Option<Value> {
    let reply = reply.trim();
    let inner = match reply.split_once("```") {
        Some((_, fenced)) => {
            let fenced = fenced.split("```").next().unwrap_or_default();
            let (first, rest) = fenced.split_once('\n').unwrap_or(("", fenced));
            if first.trim().contains(' ') { fenced } else { rest }
        }
        None => reply,
    };
    let text: String = inner.trim().chars().take(MAX_TEXT_CHARACTERS).collect();
    if text.is_empty() { None } else { Some(Value::String(text)) }
}

/// The object in a reply. One that was cut off by the output limit is closed where it ends.
fn parse(text: &str) -> Option<Map<String, Value>> {
    let text = text.trim();
    if let Ok(Value::Object(object)) = serde_json::from_str(text) {
        return Some(object);
    }
    // An escape that was cut in two goes; nothing else of a text can be incomplete.
    let mut cut = text;
    for _ in 0..8 {
        for ending in ["\"}", "}", "\"]}", "]}"] {
            if let Ok(Value::Object(object)) = serde_json::from_str(&format!("{cut}{ending}")) {
                return Some(object);
            }
        }
        let last = cut.chars().next_back()?;
        cut = &cut[..cut.len() - last.len_utf8()];
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_fence_around_code_is_no_part_of_it() {
        for (reply, text) in [
            ("print(1)", Some("print(1)")),
            ("Here it is:\n```python\nprint(1)\n```\nIt prints 1.", Some("print(1)")),
            ("```\nls -la", Some("ls -la")),
            ("``` ```", None),
            ("  ", None),
        ] {
            assert_eq!(plain(reply), text.map(Value::from), "{reply}");
        }
    }

    #[test]
    fn a_reply_that_was_cut_off_is_closed() {
        let text = |reply: &str| parse(reply).and_then(|object| object["a"].as_str().map(str::to_owned));
        assert_eq!(text(r#"{"a": "one"}"#).as_deref(), Some("one"));
        assert_eq!(text(r#"{"a": "one tw"#).as_deref(), Some("one tw"));
        assert_eq!(text(r#"{"a": "one\"#).as_deref(), Some("one"));
        assert_eq!(text(r#"{"a": "one\u00"#).as_deref(), Some("one"));
        assert_eq!(parse("no json"), None);
        assert_eq!(parse(""), None);
    }

    proptest! {
        #[test]
        fn any_reply_is_an_object_or_nothing(reply in "\\PC{0,40}|[{}\\[\\]\":,a\\\\u0-9 ]{0,40}") {
            let _ = parse(&reply);
        }

        #[test]
        fn a_text_cut_anywhere_keeps_its_beginning(text in "\\PC{0,30}", cut in any::<prop::sample::Index>()) {
            let whole = serde_json::json!({"a": text}).to_string();
            let begin = "{\"a\":\"".len();
            let at = begin + cut.index(whole.len() - begin);
            let at = (at..=whole.len()).find(|&at| whole.is_char_boundary(at)).unwrap();
            let object = parse(&whole[..at]).unwrap();
            prop_assert!(text.starts_with(object["a"].as_str().unwrap()));
        }
    }
}
