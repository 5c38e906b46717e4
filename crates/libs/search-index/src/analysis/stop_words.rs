//! English stop words. They are indexed; only queries drop them.

/// Sorted, folded, unstemmed.
const STOP_WORDS: &[&str] = &[
    "a", "about", "again", "am", "an", "and", "are", "aren", "as", "at", "be", "been", "being", "but", "by", "can",
    "could", "d", "did", "didn", "do", "does", "doesn", "doing", "don", "down", "for", "from", "had", "has", "have",
    "having", "he", "her", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "isn", "it", "its", "just",
    "ll", "m", "may", "me", "might", "must", "my", "no", "not", "of", "on", "or", "our", "out", "over", "re", "s",
    "shall", "she", "should", "so", "such", "t", "than", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "those", "to", "too", "up", "us", "ve", "very", "was", "wasn", "we", "were", "what", "when",
    "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your",
];

pub(super) fn is_stop_word(folded: &str) -> bool {
    STOP_WORDS.binary_search(&folded).is_ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn list_is_sorted() {
        assert!(super::STOP_WORDS.is_sorted());
    }
}
