//! A calculation that stands in a message, in signs or in words.
//!
//! `calculation("what is 15% of 80")` gives `15 / 100 * 80`. What is written in signs alone is kept
//! as it is written.

use std::ops::Range;

#[derive(Debug, Clone, PartialEq)]
enum Item {
    Number(String),
    Percent,
    Sign(char),
    Open,
    Close,
    Word(String),
}

struct Token {
    item: Item,
    range: Range<usize>,
}

/// An expression, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Calculation {
    pub(crate) expression: String,
    pub(crate) range: Range<usize>,
    /// It could also be a date, a range, or a telephone number: `555-0199`.
    pub(crate) doubtful: bool,
}

/// A verb, what links its numbers, the sign, and whether they change places.
type Form = (&'static [&'static str], &'static [&'static [&'static str]], char, bool);

const MAX_TOKENS: usize = 400;
const MAX_DEPTH: usize = 32;

/// The longest calculation of `text`.
pub(crate) fn calculation(text: &str) -> Option<Calculation> {
    let tokens = tokens(text);
    let mut best: Option<Calculation> = None;
    for start in 0..tokens.len() {
        let mut parser = Parser { tokens: &tokens, at: start, operations: 0, has_words: false };
        let Some(expression) = parser.leading_verb().or_else(|| parser.sum(0)) else { continue };
        if parser.operations == 0 {
            continue;
        }
        let range = tokens[start].range.start..tokens[parser.at - 1].range.end;
        let verbatim = &text[range.clone()];
        let expression = if parser.has_words { expression } else { verbatim.to_owned() };
        let tight = !verbatim.contains(char::is_whitespace) && !verbatim.contains(['*', '^', '(', '+', '×', '÷', '%']);
        let found = Calculation { expression, range, doubtful: tight };
        if best.as_ref().is_none_or(|best| found.range.len() > best.range.len()) {
            best = Some(found);
        }
    }
    best
}

fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, character)) = rest.next() {
        if found.len() >= MAX_TOKENS {
            break;
        }
        let mut end = start + character.len_utf8();
        let mut take = |wanted: fn(char, Option<char>) -> bool| {
            while let Some(&(at, next)) = rest.peek() {
                let after = text[at + next.len_utf8()..].chars().next();
                if !wanted(next, after) {
                    break;
                }
                end = at + next.len_utf8();
                rest.next();
            }
            end
        };
        let (item, end) = match character {
            '0'..='9' => {
                let end = take(|next, after| {
                    next.is_ascii_digit() || (matches!(next, '.' | ',') && after.is_some_and(|c| c.is_ascii_digit()))
                });
                // "3pm", "5kg" and "1.2.0" are no numbers to calculate with.
                let glued = text[end..].chars().next().is_some_and(|c| c.is_alphabetic() && c != 'x');
                let plain = text[start..end].replace(',', "");
                let item =
                    if glued || plain.matches('.').count() > 1 { Item::Word(plain) } else { Item::Number(plain) };
                (item, end)
            }
            '+' | '/' | '^' => (Item::Sign(character), end),
            '-' | '−' | '–' => (Item::Sign('-'), end),
            '×' | '·' => (Item::Sign('*'), end),
            '÷' => (Item::Sign('/'), end),
            '*' => {
                let end = take(|next, _| next == '*');
                (Item::Sign(if end - start >= 2 { '^' } else { '*' }), end)
            }
            '%' => (Item::Percent, end),
            '(' => (Item::Open, end),
            ')' => (Item::Close, end),
            c if c.is_alphabetic() => {
                let end = take(|next, _| next.is_alphanumeric() || next == '_');
                let word = text[start..end].to_lowercase();
                (if word == "x" { Item::Sign('*') } else { Item::Word(word) }, end)
            }
            c if c.is_whitespace() => continue,
            _ => (Item::Word(String::new()), end),
        };
        found.push(Token { item, range: start..end });
    }
    found
}

struct Parser<'t> {
    tokens: &'t [Token],
    /// The next token.
    at: usize,
    operations: usize,
    has_words: bool,
}

impl Parser<'_> {
    fn words(&mut self, wanted: &[&str]) -> bool {
        let here = self.tokens.get(self.at..self.at + wanted.len()).unwrap_or_default();
        let matches = here.len() == wanted.len()
            && here.iter().zip(wanted).all(|(token, word)| matches!(&token.item, Item::Word(text) if text == word));
        if matches {
            self.at += wanted.len();
            self.has_words = true;
        }
        matches
    }

    fn one_of(&mut self, phrases: &[&[&str]]) -> bool {
        phrases.iter().any(|phrase| self.words(phrase))
    }

    /// "add 2 and 3", "the product of 4 and 5", "divide 9 by 3".
    fn leading_verb(&mut self) -> Option<String> {
        let start = self.at;
        let forms: [Form; 8] = [
            (&["add"], &[&["and"], &["to"]], '+', false),
            (&["sum", "of"], &[&["and"]], '+', false),
            (&["subtract"], &[&["from"]], '-', true),
            (&["difference", "between"], &[&["and"]], '-', false),
            (&["difference", "of"], &[&["and"]], '-', false),
            (&["multiply"], &[&["by"], &["and"], &["with"]], '*', false),
            (&["product", "of"], &[&["and"]], '*', false),
            (&["divide"], &[&["by"]], '/', false),
        ];
        for (verb, links, sign, swapped) in forms {
            self.at = start;
            if !self.words(verb) {
                continue;
            }
            let Some(mut expression) = self.sum(0) else { continue };
            let mut linked = false;
            while let Some(next) = self.linked(links) {
                expression =
                    if swapped { format!("{next} {sign} {expression}") } else { format!("{expression} {sign} {next}") };
                self.operations += 1;
                linked = true;
            }
            if linked {
                return Some(expression);
            }
        }
        self.at = start;
        self.has_words = false;
        self.operations = 0;
        None
    }

    fn linked(&mut self, links: &[&[&str]]) -> Option<String> {
        let before = self.at;
        if self.one_of(links)
            && let Some(next) = self.sum(0)
        {
            return Some(next);
        }
        self.at = before;
        None
    }

    /// Precedence is left to who evaluates; only what can follow what matters here.
    fn sum(&mut self, depth: usize) -> Option<String> {
        let mut expression = self.operand(depth)?;
        loop {
            let before = (self.at, self.has_words);
            let Some(sign) = self.sign() else { break };
            let Some(next) = self.operand(depth) else {
                (self.at, self.has_words) = before;
                break;
            };
            self.operations += 1;
            expression = format!("{expression} {sign} {next}");
        }
        Some(expression)
    }

    fn sign(&mut self) -> Option<char> {
        if let Some(Token { item: Item::Sign(sign), .. }) = self.tokens.get(self.at) {
            self.at += 1;
            return Some(*sign);
        }
        let words: [(&[&[&str]], char); 5] = [
            (&[&["plus"]], '+'),
            (&[&["minus"]], '-'),
            (&[&["times"], &["multiplied", "by"]], '*'),
            (&[&["divided", "by"]], '/'),
            (&[&["to", "the", "power", "of"]], '^'),
        ];
        words.into_iter().find(|(phrases, _)| self.one_of(phrases)).map(|(_, sign)| sign)
    }

    fn operand(&mut self, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.one_of(&[&["square", "root", "of"], &["sqrt"]]) {
            let inner = self.operand(depth + 1)?;
            self.operations += 1;
            return Some(if inner.starts_with('(') { format!("sqrt{inner}") } else { format!("sqrt({inner})") });
        }
        let value = match &self.tokens.get(self.at)?.item {
            Item::Number(number) => {
                self.at += 1;
                number.clone()
            }
            Item::Sign('-') => {
                self.at += 1;
                format!("-{}", self.operand(depth + 1)?)
            }
            Item::Open => {
                self.at += 1;
                let inner = self.sum(depth + 1)?;
                if self.tokens.get(self.at)?.item != Item::Close {
                    return None;
                }
                self.at += 1;
                format!("({inner})")
            }
            _ => return None,
        };
        let is_percent = match self.tokens.get(self.at) {
            Some(Token { item: Item::Percent, .. }) => {
                self.at += 1;
                true
            }
            _ => self.words(&["percent"]) || self.words(&["per", "cent"]),
        };
        if is_percent && self.words(&["of"]) {
            let whole = self.operand(depth + 1)?;
            self.operations += 1;
            return Some(format!("{value} / 100 * {whole}"));
        }
        if is_percent {
            return Some(format!("{value} / 100"));
        }
        if self.words(&["squared"]) {
            self.operations += 1;
            return Some(format!("{value} ^ 2"));
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Option<String> {
        calculation(text).filter(|calculation| !calculation.doubtful).map(|calculation| calculation.expression)
    }

    #[test]
    fn sums_in_signs_and_in_words() {
        for (text, expression) in [
            ("What is 17 * 23?", "17 * 23"),
            ("Calculate (12 + 8) / 4 please", "(12 + 8) / 4"),
            ("15% of 80", "15 / 100 * 80"),
            ("what's 144 divided by 12", "144 / 12"),
            ("add 3.5 and 7.25", "3.5 + 7.25"),
            ("subtract 3 from 10", "10 - 3"),
            ("the square root of 144", "sqrt(144)"),
            ("2**10 now", "2**10"),
            ("3 x 4", "3 x 4"),
            ("1,000 plus 5", "1000 + 5"),
            ("12 squared", "12 ^ 2"),
        ] {
            assert_eq!(found(text).as_deref(), Some(expression), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in
            ["I am 30", "call 555-0199", "on 2026/05/01", "at 3pm", "chapter 1.2.0", "()", "((((", "add it to the list"]
        {
            assert_eq!(found(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "[0-9+*/()%. a-z-]{0,80}|\\PC{0,60}") {
            if let Some(calculation) = calculation(&text) {
                prop_assert!(text.get(calculation.range).is_some());
            }
        }
    }
}
