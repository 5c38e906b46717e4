//! Languages in which agents can answer.

/// Language tag such as `de` or `pt-BR` (RFC 5646, only language and region) with a language that models support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Language {
    tag: String,
    name: &'static str,
}

/// ISO 639-1 codes and English names. English names work best in prompts.
const LANGUAGES: &[(&str, &str)] = &[
    ("ar", "Arabic"),
    ("bg", "Bulgarian"),
    ("bn", "Bengali"),
    ("ca", "Catalan"),
    ("cs", "Czech"),
    ("da", "Danish"),
    ("de", "German"),
    ("el", "Greek"),
    ("en", "English"),
    ("es", "Spanish"),
    ("et", "Estonian"),
    ("fa", "Persian"),
    ("fi", "Finnish"),
    ("fr", "French"),
    ("he", "Hebrew"),
    ("hi", "Hindi"),
    ("hr", "Croatian"),
    ("hu", "Hungarian"),
    ("id", "Indonesian"),
    ("it", "Italian"),
    ("ja", "Japanese"),
    ("ko", "Korean"),
    ("lt", "Lithuanian"),
    ("lv", "Latvian"),
    ("nl", "Dutch"),
    ("no", "Norwegian"),
    ("pl", "Polish"),
    ("pt", "Portuguese"),
    ("ro", "Romanian"),
    ("ru", "Russian"),
    ("sk", "Slovak"),
    ("sl", "Slovenian"),
    ("sr", "Serbian"),
    ("sv", "Swedish"),
    ("sw", "Swahili"),
    ("th", "Thai"),
    ("tr", "Turkish"),
    ("uk", "Ukrainian"),
    ("vi", "Vietnamese"),
    ("zh", "Chinese"),
];

impl Language {
    /// Parses a language tag, ignoring case.
    ///
    /// # Errors
    /// A message that lists the supported languages.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (language, region) = match text.split_once('-') {
            None => (text, None),
            Some((language, region)) => (language, Some(region)),
        };
        let is_region = |region: &str| match region.len() {
            2 => region.bytes().all(|byte| byte.is_ascii_alphabetic()),
            3 => region.bytes().all(|byte| byte.is_ascii_digit()),
            _ => false,
        };
        let found = LANGUAGES.iter().find(|(code, _)| code.eq_ignore_ascii_case(language));
        match (found, region) {
            (Some((code, name)), None) => Ok(Self { tag: (*code).to_owned(), name }),
            (Some((code, name)), Some(region)) if is_region(region) => {
                Ok(Self { tag: format!("{code}-{}", region.to_ascii_uppercase()), name })
            }
            _ => {
                let codes: Vec<&str> = LANGUAGES.iter().map(|(code, _)| *code).collect();
                Err(format!("must be one of {}, optionally with a region, such as pt-BR", codes.join(", ")))
            }
        }
    }

    /// Returns the tag in canonical case, such as `pt-BR`.
    #[must_use]
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the English name for prompts, such as `Portuguese (BR)`.
    #[must_use]
    pub fn english_name(&self) -> String {
        match self.tag.split_once('-') {
            None => self.name.to_owned(),
            Some((_, region)) => format!("{} ({region})", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_parsed_in_any_case_and_normalized() {
        let language = Language::parse("PT-br").unwrap();
        assert_eq!((language.tag(), language.english_name().as_str()), ("pt-BR", "Portuguese (BR)"));
        assert_eq!(Language::parse("de").unwrap().english_name(), "German");
        assert_eq!(Language::parse("es-419").unwrap().tag(), "es-419");
    }

    #[test]
    fn unknown_or_malformed_tags_are_rejected() {
        for bad in ["", "xx", "english", "de-", "de-D", "de-DE-x", "d e", "de_DE"] {
            assert!(Language::parse(bad).is_err(), "{bad}");
        }
    }
}
