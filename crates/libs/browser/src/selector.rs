//! Selectors: `@3` from the last snapshot, CSS, `text=`, `role=`, `xpath=` and `point=`.

use crate::BrowserError;

const MAX_BYTES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selector {
    Reference {
        number: u32,
        /// Point within the element, as in [`Selector::Point`]; default: its centre.
        at: Option<String>,
    },
    Css(String),
    Xpath(String),
    /// Quoted: the exact whole text. Unquoted: a case-insensitive part of the text.
    Text {
        text: String,
        exact: bool,
    },
    Role {
        role: String,
        name: Option<String>,
    },
    /// Element at a point such as `40,25.5`, in percent of the viewport's width and height.
    Point(String),
}

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, BrowserError> {
        let text = text.trim();
        let wrong = |reason: &str| Err(BrowserError::Invalid(format!("`{}` {reason}", shortened(text))));
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(BrowserError::Invalid(format!("a selector must be 1 to {MAX_BYTES} bytes long")));
        }
        if let Some(reference) = text.strip_prefix('@') {
            let (number, at) = match reference.split_once(" point=") {
                Some((number, point)) => (number, Some(point_of(point))),
                None => (reference, None),
            };
            return match (number.parse(), at) {
                (Ok(number), None) => Ok(Self::Reference { number, at: None }),
                (Ok(number), Some(Some(at))) => Ok(Self::Reference { number, at: Some(at) }),
                _ => wrong("is not a reference; use `@` and a number of the last snapshot"),
            };
        }
        if let Some(path) = text.strip_prefix("xpath=") {
            return Ok(Self::Xpath(path.to_owned()));
        }
        if let Some(point) = text.strip_prefix("point=") {
            return match point_of(point) {
                Some(point) => Ok(Self::Point(point)),
                None => wrong("is not a point; use the form `point=40%,25.5%`, from the left and the top"),
            };
        }
        if let Some(value) = text.strip_prefix("text=") {
            let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let words = quoted.unwrap_or(value).split_whitespace().collect::<Vec<_>>().join(" ");
            if words.is_empty() {
                return wrong("contains no text");
            }
            return Ok(Self::Text { text: words, exact: quoted.is_some() });
        }
        if let Some(rest) = text.strip_prefix("role=") {
            let (role, attributes) = rest.split_at(rest.find('[').unwrap_or(rest.len()));
            if role.is_empty() || !role.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return wrong("contains no role");
            }
            return match name_of(attributes) {
                Some(name) => Ok(Self::Role { role: role.to_owned(), name }),
                None => wrong("is not a role selector; use the form `role=button[name=\"Save\"]`"),
            };
        }
        Ok(Self::Css(text.to_owned()))
    }

    /// Returns the kind and the arguments of the in-page search; `None` for selectors resolved otherwise.
    pub(crate) fn in_page(&self) -> Option<(&'static str, &str, bool)> {
        match self {
            Self::Css(value) => Some(("css", value, false)),
            Self::Xpath(value) => Some(("xpath", value, false)),
            Self::Text { text, exact } => Some(("text", text, *exact)),
            Self::Point(point) => Some(("point", point, false)),
            Self::Reference { .. } | Self::Role { .. } => None,
        }
    }

    /// Whether the selector is valid only for the current state of the page: a snapshot number or a point.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Reference { .. } | Self::Point(_))
    }

    /// Returns a selector for the same point of the element with this reference.
    pub(crate) fn with_reference(&self, number: &str) -> String {
        match self.point().and_then(|point| point.split_once(',')) {
            Some((x, y)) => format!("{number} point={x}%,{y}%"),
            None => number.to_owned(),
        }
    }

    /// Returns the point to act on, unless it is the centre.
    pub(crate) fn point(&self) -> Option<&str> {
        match self {
            Self::Point(point) | Self::Reference { at: Some(point), .. } => Some(point),
            _ => None,
        }
    }
}

/// Whether the selector is a point without an element.
#[must_use]
pub fn is_point(selector: &str) -> bool {
    matches!(Selector::parse(selector), Ok(Selector::Point(_)))
}

/// Parses both percentages of a point.
fn point_of(text: &str) -> Option<String> {
    let part = |text: &str| {
        let percent: f64 = text.trim().strip_suffix('%')?.parse().ok()?;
        (0.0..100.0).contains(&percent).then_some(percent)
    };
    let (x, y) = text.split_once(',')?;
    Some(format!("{},{}", part(x)?, part(y)?))
}

/// Parses an optional `[name="…"]`; `None` if malformed.
#[allow(clippy::option_option, reason = "whether it is well formed, and whether there is a name")]
fn name_of(attributes: &str) -> Option<Option<String>> {
    if attributes.is_empty() {
        return Some(None);
    }
    let quoted = attributes.strip_prefix("[name=\"")?.strip_suffix("\"]")?;
    let mut name = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?),
            '"' => return None,
            character => name.push(character),
        }
    }
    Some(Some(name))
}

/// Truncates a text for use in a message.
pub(crate) fn shortened(text: &str) -> String {
    const MAX_SHOWN_BYTES: usize = 200;
    if text.len() <= MAX_SHOWN_BYTES {
        text.to_owned()
    } else {
        format!("{}…", &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn selectors_are_parsed_by_kind() {
        let role = |role: &str, name: Option<&str>| Selector::Role { role: role.into(), name: name.map(Into::into) };
        let cases = [
            ("@12", Selector::Reference { number: 12, at: None }),
            ("@12 point=40%,25.5%", Selector::Reference { number: 12, at: Some("40,25.5".into()) }),
            ("#a > b", Selector::Css("#a > b".into())),
            ("xpath=//a", Selector::Xpath("//a".into())),
            ("text=Sign  in", Selector::Text { text: "Sign in".into(), exact: false }),
            ("text=\"Sign in\"", Selector::Text { text: "Sign in".into(), exact: true }),
            ("role=button", role("button", None)),
            ("point=40%, 25.5%", Selector::Point("40,25.5".into())),
            (r#"role=button[name="Say \"hi\"]"]"#, role("button", Some("Say \"hi\"]"))),
        ];
        for (text, expected) in cases {
            assert_eq!(Selector::parse(text).unwrap(), expected, "{text}");
        }
        for text in
            ["", "  ", "@", "@x", "@-1", "text=", "role=", "role=a b", "role=button[x]", "role=button[name=\"a\"b\"]"]
        {
            assert_eq!(Selector::parse(text).unwrap_err().code(), "invalid_action", "{text}");
        }
        for text in
            ["point=", "point=1,2", "point=1%", "point=1%,2%,3%", "point=-1%,2%", "point=1%,100%", "point=NaN%,2%"]
        {
            assert_eq!(Selector::parse(text).unwrap_err().code(), "invalid_action", "{text}");
        }
    }

    #[test]
    fn with_reference_preserves_the_point() {
        for (text, expected) in [
            ("point=40%, 25.5%", "@1000000 point=40%,25.5%"),
            ("  @3 point=0%,99%", "@1000000 point=0%,99%"),
            ("@3", "@1000000"),
            ("text=point=1%,2%", "@1000000"),
        ] {
            let parsed = Selector::parse(text).unwrap();
            let numbered = parsed.with_reference("@1000000");
            assert_eq!(numbered, expected, "{text}");
            assert_eq!(Selector::parse(&numbered).unwrap().point(), parsed.point(), "{text}");
        }
        assert!(is_point(" point=1%,2%") && !is_point("@3 point=1%,2%") && !is_point("point=1") && !is_point("point"));
    }

    proptest! {
        #[test]
        fn parse_never_panics(
            text in ".{0,300}",
            prefix in "(@|text=|role=|role=a\\[name=\"|xpath=|point=|)",
        ) {
            let _ = Selector::parse(&format!("{prefix}{text}"));
            let _ = shortened(&text);
        }
    }
}
