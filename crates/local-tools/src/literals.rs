//! What stands in a message literally: quotations, code, addresses, paths, numbers.
//!
//! Invariants: ranges lie on character boundaries, are in order, and never overlap.

use std::ops::Range;

use crate::words::{Word, unit, words};

/// What a literal looks like. Quoted text is classified by what is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Between fences of three backticks.
    Fence,
    /// `http://` or `https://`.
    Url,
    /// A host name without a scheme.
    Domain,
    Email,
    /// A path whose last part has an ending, as files have.
    File,
    /// A path that ends in a slash.
    Folder,
    /// Could be either.
    Path,
    Number,
    /// Letters, digits and signs that are no plain word: `parse_config`, `1.2.0`, `TODO`.
    Identifier,
    /// Quoted words.
    Text,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) kind: Kind,
    pub(crate) quoted: bool,
    /// Without its quotes.
    pub(crate) value: String,
    /// With its quotes.
    pub(crate) range: Range<usize>,
}

impl Literal {
    pub(crate) fn is_path(&self) -> bool {
        matches!(self.kind, Kind::File | Kind::Folder | Kind::Path)
    }
}

/// A message, taken apart once for all tools.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) text: String,
    pub(crate) literals: Vec<Literal>,
    /// Without those inside literals (numbers and identifiers aside).
    pub(crate) words: Vec<Word>,
}

impl Message {
    pub(crate) fn new(text: &str) -> Self {
        let literals = literals(text);
        let hides = |literal: &Literal| literal.quoted || !matches!(literal.kind, Kind::Number | Kind::Identifier);
        let hidden = |word: &Word| {
            literals
                .iter()
                .any(|literal| literal.range.start < word.end && word.start < literal.range.end && hides(literal))
        };
        let words = words(text).into_iter().filter(|word| !hidden(word)).take(MAX_WORDS).collect();
        Self { text: text.to_owned(), literals, words }
    }

    pub(crate) fn slice(&self, range: &Range<usize>) -> &str {
        self.text.get(range.clone()).unwrap_or_default()
    }

    /// The word that begins at or after `at`.
    pub(crate) fn word_after(&self, at: usize) -> Option<&Word> {
        self.words.iter().find(|word| word.start >= at)
    }

    /// The words before `at`, nearest first.
    pub(crate) fn words_before(&self, at: usize) -> impl Iterator<Item = &Word> {
        self.words.iter().rev().filter(move |word| word.end <= at)
    }

    pub(crate) fn literal_at(&self, at: usize) -> Option<&Literal> {
        self.literals.iter().find(|literal| literal.range.start == at)
    }
}

/// More of them are no small request.
const MAX_LITERALS: usize = 64;
const MAX_WORDS: usize = 400;

fn literals(text: &str) -> Vec<Literal> {
    let mut found: Vec<Literal> = Vec::new();
    let mut at = 0;
    while at < text.len() && found.len() < MAX_LITERALS {
        let rest = &text[at..];
        if let Some((literal, next)) = quotation(text, at) {
            found.push(literal);
            at = next;
        } else if rest.starts_with(char::is_whitespace) || rest.starts_with(is_wrapping) {
            at += rest.chars().next().map_or(1, char::len_utf8);
        } else {
            let end = at + rest.find(|c: char| c.is_whitespace() || is_quote(c)).unwrap_or(rest.len()).max(1);
            let end = ceil_boundary(text, end);
            if let Some(literal) = token(text, at..end) {
                found.push(literal);
            }
            at = end;
        }
    }
    found
}

fn ceil_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

fn is_wrapping(character: char) -> bool {
    matches!(character, '(' | '[' | '{' | '<' | ',' | ';')
}

fn is_quote(character: char) -> bool {
    matches!(character, '"' | '`' | '“' | '”' | '„' | '«' | '»')
}

/// A quotation that begins at `at`, and where it ends.
fn quotation(text: &str, at: usize) -> Option<(Literal, usize)> {
    let rest = &text[at..];
    if let Some(inner) = rest.strip_prefix("```") {
        let length = inner.find("```").unwrap_or(inner.len());
        let body = &inner[..length];
        // The language after the fence is no part of the code.
        let body = match body.split_once('\n') {
            Some((first, code)) if !first.trim().contains(char::is_whitespace) => code,
            _ => body,
        };
        let end = (at + 3 + length + 3).min(text.len());
        let value = body.trim_matches('\n').trim_end().to_owned();
        return Some((Literal { kind: Kind::Fence, quoted: true, value, range: at..end }, end));
    }
    let open = rest.chars().next()?;
    let closing: &[char] = match open {
        '"' => &['"'],
        '`' => &['`'],
        '“' | '„' => &['”', '“'],
        '«' => &['»'],
        '\'' | '‘' if !text[..at].ends_with(char::is_alphanumeric) => &['\'', '’'],
        _ => return None,
    };
    let from = at + open.len_utf8();
    let single = matches!(open, '\'' | '‘');
    let mut search = from;
    loop {
        let close = search + text[search..].find(closing)?;
        let width = text[close..].chars().next().map_or(1, char::len_utf8);
        let after = &text[close + width..];
        // An apostrophe inside a word closes nothing.
        if single && after.starts_with(char::is_alphanumeric) {
            search = close + width;
            continue;
        }
        let value = text[from..close].to_owned();
        if value.trim().is_empty() || (single && value.contains('\n')) {
            return None;
        }
        let kind =
            if value.contains(char::is_whitespace) { Kind::Text } else { classify(&value).unwrap_or(Kind::Text) };
        return Some((Literal { kind, quoted: true, value, range: at..close + width }, close + width));
    }
}

/// A word between spaces that is more than a word.
fn token(text: &str, range: Range<usize>) -> Option<Literal> {
    let whole = &text[range.clone()];
    let trimmed = whole.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '\'', '’']);
    let trimmed = trimmed.strip_suffix("'s").unwrap_or(trimmed);
    let kind = classify(trimmed)?;
    Some(Literal { kind, quoted: false, value: trimmed.to_owned(), range: range.start..range.start + trimmed.len() })
}

fn classify(token: &str) -> Option<Kind> {
    let lower = token.to_lowercase();
    if ["http://", "https://"].iter().any(|scheme| lower.strip_prefix(scheme).is_some_and(|rest| rest.len() > 2)) {
        return Some(Kind::Url);
    }
    if let Some((user, host)) = token.split_once('@')
        && !user.is_empty()
        && host.contains('.')
        && token.chars().all(|c| c.is_alphanumeric() || "@.-_+".contains(c))
    {
        return Some(Kind::Email);
    }
    if number(token).is_some() {
        return Some(Kind::Number);
    }
    if !token.chars().all(|c| c.is_alphanumeric() || "/._-~+#@*".contains(c)) || !token.contains(char::is_alphanumeric)
    {
        return identifier(token);
    }
    let has_letter = token.contains(char::is_alphabetic);
    if token.contains('/') && has_letter {
        let mut parts = token.trim_matches('/').split('/');
        let is_measure = parts.clone().count() == 2 && parts.all(|part| unit(&part.to_lowercase()).is_some());
        if is_measure || matches!(lower.as_str(), "and/or" | "he/she" | "his/her" | "him/her" | "yes/no" | "w/o") {
            return None;
        }
        let host = lower.split('/').next().unwrap_or_default();
        if host.rsplit_once('.').is_some_and(|(name, ending)| !name.is_empty() && DOMAINS.contains(&ending)) {
            return Some(Kind::Domain);
        }
        if token.ends_with('/') {
            return Some(Kind::Folder);
        }
        return Some(if has_ending(token) { Kind::File } else { Kind::Path });
    }
    if let Some((_, ending)) = lower.rsplit_once('.')
        && has_ending(token)
        && !matches!(lower.as_str(), "e.g" | "i.e" | "a.m" | "p.m" | "u.s" | "etc")
    {
        let is_host = DOMAINS.contains(&ending) || lower.starts_with("www.");
        return Some(if is_host { Kind::Domain } else { Kind::File });
    }
    identifier(token)
}

const DOMAINS: &[&str] = &[
    "com", "org", "net", "io", "dev", "edu", "gov", "info", "de", "uk", "eu", "fr", "nl", "ch", "at", "it", "es",
    "app", "ai", "co", "us",
];

fn has_ending(token: &str) -> bool {
    let last = token.rsplit('/').next().unwrap_or(token);
    last.rsplit_once('.').is_some_and(|(_, ending)| {
        (1..=8).contains(&ending.len())
            && ending.chars().all(|c| c.is_ascii_alphanumeric())
            && ending.contains(|c: char| c.is_ascii_alphabetic())
    })
}

fn identifier(token: &str) -> Option<Kind> {
    let inner = token.chars().skip(1);
    let mixed = token.contains('_')
        || token.contains("::")
        || token.contains("()")
        || (token.chars().any(|c| c.is_ascii_digit())
            && !token.contains('%')
            && token.chars().any(|c| "._-".contains(c)))
        || inner.clone().any(char::is_uppercase);
    (mixed && token.chars().filter(|c| c.is_alphanumeric()).count() > 1).then_some(Kind::Identifier)
}

/// A number as people write it: `1,000`, `3.5`, `-2`.
pub(crate) fn number(token: &str) -> Option<f64> {
    let digits = token.trim_end_matches(['%', '°']);
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit())
        || !unsigned.chars().all(|c| c.is_ascii_digit() || ".,".contains(c))
    {
        return None;
    }
    let groups: Vec<&str> = digits.split(',').collect();
    let grouped =
        groups.len() == 1 || groups[1..].iter().all(|group| group.split('.').next().is_some_and(|g| g.len() == 3));
    grouped.then(|| groups.concat()).and_then(|plain| plain.parse::<f64>().ok()).filter(|value| value.is_finite())
}

/// Whether a text looks like a program rather than a command line or prose.
pub(crate) fn looks_like_code(text: &str) -> bool {
    let calls = text
        .char_indices()
        .any(|(at, c)| c == '(' && at > 0 && text[..at].ends_with(|b: char| b.is_alphanumeric() || b == '_'));
    calls || ["import ", "def ", "return ", "lambda "].iter().any(|word| text.contains(word)) || text.contains("\n    ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, String)> {
        Message::new(text).literals.into_iter().map(|literal| (literal.kind, literal.value)).collect()
    }

    #[test]
    fn each_kind_is_known_by_its_looks() {
        for (text, kind, value) in [
            ("see https://a.example/b?c=1.", Kind::Url, "https://a.example/b?c=1"),
            ("open example.com now", Kind::Domain, "example.com"),
            ("open example.com/a/b now", Kind::Domain, "example.com/a/b"),
            ("mail bob@example.com, please", Kind::Email, "bob@example.com"),
            ("read notes.txt!", Kind::File, "notes.txt"),
            ("read .env", Kind::File, ".env"),
            ("in docs/", Kind::Folder, "docs/"),
            ("in data/raw", Kind::Path, "data/raw"),
            ("take 1,000 of", Kind::Number, "1,000"),
            ("is parse_config used", Kind::Identifier, "parse_config"),
            ("to 1.2.0", Kind::Identifier, "1.2.0"),
            ("say \"hello there\"", Kind::Text, "hello there"),
            ("say 'it isn't'", Kind::Text, "it isn't"),
            ("run `ls -la`", Kind::Text, "ls -la"),
            ("run ```python\nprint(1)\n```", Kind::Fence, "print(1)"),
        ] {
            assert_eq!(kinds(text), [(kind, value.to_owned())], "{text}");
        }
    }

    #[test]
    fn plain_words_are_no_literals() {
        for text in
            ["and/or", "90 km/h".split(' ').nth(1).unwrap(), "e.g. this", "don't do that, Bob's friend", "Hello. World"]
        {
            assert_eq!(kinds(text), [], "{text}");
        }
    }

    proptest! {
        #[test]
        fn literals_are_in_order_and_apart(text in "[a-z0-9 '\"`.,/:@()_é“”\n-]{0,80}|\\PC{0,60}") {
            let message = Message::new(&text);
            let mut last = 0;
            for literal in &message.literals {
                prop_assert!(literal.range.start >= last && literal.range.end <= text.len());
                prop_assert!(text.get(literal.range.clone()).is_some());
                last = literal.range.end;
            }
        }
    }
}
