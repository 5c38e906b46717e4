//! Languages of schedule texts.

/// Language of a text. Every tag except German selects English.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    #[default]
    English,
    German,
}

impl Language {
    /// Parses a language tag such as `de`, `de-AT` or `en_GB`.
    #[must_use]
    pub fn from_tag(tag: &str) -> Self {
        let primary = tag.split(['-', '_']).next().unwrap_or_default().trim();
        if primary.eq_ignore_ascii_case("de") { Self::German } else { Self::English }
    }
}

impl From<&str> for Language {
    fn from(tag: &str) -> Self {
        Self::from_tag(tag)
    }
}

impl From<&String> for Language {
    fn from(tag: &String) -> Self {
        Self::from_tag(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn german_tags_are_recognized_and_others_are_english() {
        for tag in ["de", "DE", "de-AT", "de_CH", " de "] {
            assert_eq!(Language::from_tag(tag), Language::German, "{tag}");
        }
        for tag in ["en", "", "fr", "den", "-de"] {
            assert_eq!(Language::from_tag(tag), Language::English, "{tag}");
        }
    }
}
