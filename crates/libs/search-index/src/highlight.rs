//! Highlighted fragments of a text around the words of a query.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use crate::analysis::{Analyzer, MAX_TERM_BYTES, Purpose, query_terms};

/// Approximate number of characters of a fragment, cut at white space.
const FRAGMENT_CHARACTERS: usize = 160;
/// Number of bytes of a text that are searched.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Finds the words of a query in texts.
pub struct Highlighter {
    terms: Vec<String>,
    analyzer: Analyzer,
}

impl fmt::Debug for Highlighter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Highlighter").field("terms", &self.terms).finish_non_exhaustive()
    }
}

/// Position of a term, and its index in the query.
type Match = (Range<usize>, usize);

impl Highlighter {
    #[must_use]
    pub fn new(query: &str) -> Self {
        let terms = query_terms(query).into_iter().map(|(term, _)| term).collect();
        Self { terms, analyzer: Analyzer::new(Purpose::Document) }
    }

    /// Returns at most `max_fragments` fragments in text order, those with the most different matched words. Matches
    /// are enclosed in `<mark>`, everything else is HTML-escaped. Matching is the same as in the index: folded and
    /// stemmed. Empty if nothing matches. Only the first 256 KiB of a text are searched.
    pub fn fragments(&mut self, text: &str, max_fragments: usize) -> Vec<String> {
        let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
        if self.terms.is_empty() || max_fragments == 0 {
            return Vec::new();
        }
        let mut matches: Vec<Match> = Vec::new();
        let Self { terms, analyzer } = self;
        analyzer.run(text, &mut |term, range, _| {
            matches.extend(terms.iter().position(|known| known == term).map(|which| (range, which)));
            true
        });
        matches.sort_unstable_by_key(|(range, which)| (range.start, range.end, *which));
        let mut fragments = gather(text, &matches);
        fragments.sort_by_key(|fragment| (std::cmp::Reverse(fragment.different), fragment.range.start));
        fragments.truncate(max_fragments);
        fragments.sort_by_key(|fragment| fragment.range.start);
        fragments.into_iter().map(|fragment| render(text, &fragment)).collect()
    }
}

struct Fragment {
    range: Range<usize>,
    /// Disjoint and ascending.
    marks: Vec<Range<usize>>,
    /// Number of different terms that match.
    different: usize,
}

/// Combines matches that are close together into fragments.
fn gather(text: &str, matches: &[Match]) -> Vec<Fragment> {
    let mut fragments = Vec::new();
    let mut rest = matches;
    let mut from = 0;
    while let Some((first, _)) = rest.first() {
        let start = step_back(text, first.start, FRAGMENT_CHARACTERS / 4).max(from);
        let limit = step_forward(text, start, FRAGMENT_CHARACTERS).max(first.end);
        let taken = rest.iter().take_while(|(range, _)| range.end <= limit).count().max(1);
        let (inside, after) = rest.split_at(taken);
        let end =
            inside.iter().map(|(range, _)| range.end).max().unwrap_or(limit).max(cut_back(text, first.end, limit));
        let different = inside.iter().map(|(_, which)| which).collect::<HashSet<_>>().len();
        fragments.push(Fragment { range: start..end, marks: merged(inside), different });
        from = end;
        // A match that overlaps the end is shown up to the end.
        rest = &after[after.iter().take_while(|(range, _)| range.start < end).count()..];
    }
    fragments
}

fn merged(matches: &[Match]) -> Vec<Range<usize>> {
    let mut marks: Vec<Range<usize>> = Vec::new();
    for (range, _) in matches {
        match marks.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => marks.push(range.clone()),
        }
    }
    marks
}

/// Moves back by `characters`, then forward to the beginning of a word.
fn step_back(text: &str, from: usize, characters: usize) -> usize {
    let Some((start, _)) = text[..from].char_indices().rev().take(characters).last() else { return from };
    if start == 0 {
        return 0;
    }
    text[start..from].find(char::is_whitespace).map_or(start, |space| {
        let after = &text[start + space..from];
        from - after.trim_start().len()
    })
}

fn step_forward(text: &str, from: usize, characters: usize) -> usize {
    text[from..].char_indices().nth(characters).map_or(text.len(), |(offset, _)| from + offset)
}

/// Moves back from `limit` to the end of a word, but not before `least`.
fn cut_back(text: &str, least: usize, limit: usize) -> usize {
    if limit >= text.len() {
        return text.len();
    }
    text[least..limit].rfind(char::is_whitespace).map_or(limit, |space| least + space)
}

fn render(text: &str, fragment: &Fragment) -> String {
    let mut out = String::with_capacity(fragment.range.len() + MAX_TERM_BYTES);
    if fragment.range.start > 0 {
        out.push('…');
    }
    let mut position = fragment.range.start;
    for mark in &fragment.marks {
        escape(&text[position..mark.start], &mut out);
        out.push_str("<mark>");
        escape(&text[mark.clone()], &mut out);
        out.push_str("</mark>");
        position = mark.end;
    }
    escape(&text[position..fragment.range.end], &mut out);
    if fragment.range.end < text.len() {
        out.push('…');
    }
    out
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\r' | '\t' => out.push(' '),
            // Control characters are not displayable.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn highlights(query: &str, text: &str, max_fragments: usize) -> Vec<String> {
        Highlighter::new(query).fragments(text, max_fragments)
    }

    #[test]
    fn matches_equal_those_of_the_index() {
        assert_eq!(
            highlights("running cafes", "She runs a Café & <b>Bar</b>", 3),
            ["She <mark>runs</mark> a <mark>Café</mark> &amp; &lt;b&gt;Bar&lt;/b&gt;"]
        );
        assert_eq!(highlights("東京", "昨日東京都に行った", 3), ["昨日<mark>東京</mark>都に行った"]);
        assert_eq!(highlights("c++", "Learn C++ now", 3), ["Learn <mark>C++</mark> now"]);
        assert!(highlights("absent", "nothing here", 3).is_empty());
        assert!(highlights("", "nothing here", 3).is_empty());
    }

    #[test]
    fn fragments_are_limited_in_number_and_length() {
        let filler = "lorem ipsum dolor sit amet ".repeat(40);
        let text = format!("{filler} quick fox {filler} quick {filler} brown fox jumps quick {filler}");
        let found = highlights("quick brown fox", &text, 2);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("<mark>quick</mark> <mark>fox</mark>"), "{found:?}");
        assert!(found[1].contains("<mark>brown</mark> <mark>fox</mark>"), "{found:?}");
        for fragment in found {
            assert!(fragment.chars().count() < 250, "{fragment}");
        }
    }

    proptest! {
        #[test]
        fn output_contains_no_markup_except_marks(query in "[a-c<>&\" 東京]{0,8}", text in "[a-c<>&\"'\\x00\n 東京都é]{0,400}", most in 0_usize..4) {
            let found = highlights(&query, &text, most);
            prop_assert!(found.len() <= most);
            for fragment in found {
                let plain = fragment.replace("<mark>", "").replace("</mark>", "");
                prop_assert!(fragment.contains("<mark>"), "{fragment}");
                prop_assert!(!plain.contains(['<', '>', '"', '\'', '\0']), "{fragment}");
                prop_assert_eq!(fragment.matches("<mark>").count(), fragment.matches("</mark>").count());
            }
        }
    }
}
