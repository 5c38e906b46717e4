//! Words in `class`, `id` and `role` that mark elements around the content of a page.

const WORDS: [&str; 36] = [
    "ad",
    "ads",
    "advert",
    "advertisement",
    "adverts",
    "banner",
    "breadcrumb",
    "breadcrumbs",
    "complementary",
    "consent",
    "contentinfo",
    "cookie",
    "cookiebar",
    "cookies",
    "footer",
    "masthead",
    "menu",
    "menubar",
    "modal",
    "nav",
    "navbar",
    "navigation",
    "newsletter",
    "paywall",
    "popup",
    "promo",
    "recommended",
    "related",
    "share",
    "sharing",
    "sidebar",
    "skiplink",
    "social",
    "sponsored",
    "subscribe",
    "toolbar",
];

/// Whether `names` contains one of the words as a separate word: `site-nav` and `siteNav`, but not `navy`.
pub(crate) fn is_named(names: &str) -> bool {
    let mut word = String::new();
    let mut was_lower = false;
    for character in names.chars() {
        let starts_word = character.is_ascii_uppercase() && was_lower;
        if (starts_word || !character.is_ascii_alphanumeric()) && is_word(&word) {
            return true;
        }
        if starts_word || !character.is_ascii_alphanumeric() {
            word.clear();
        }
        if character.is_ascii_alphanumeric() {
            word.push(character.to_ascii_lowercase());
        }
        was_lower = character.is_ascii_lowercase();
    }
    is_word(&word)
}

fn is_word(word: &str) -> bool {
    WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_separate_words_match() {
        assert!(WORDS.is_sorted());
        for names in ["nav", "site-nav", "siteNav", "top_menu big", "x ADVERT", "col-3 sidebar"] {
            assert!(is_named(names), "{names}");
        }
        for names in ["", "navy", "menus", "article-body", "shareholder", "adapter", "post"] {
            assert!(!is_named(names), "{names}");
        }
    }
}
