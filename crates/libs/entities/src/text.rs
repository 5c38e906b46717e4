//! Tokenized text: words, numbers and marks, each with its folded form, its case, its sentence and its cues. A single
//! pass, linear in the text.
//!
//! A line break ends a sentence unless the next line starts in lower case. Addresses (web, mail, files) are single
//! opaque tokens without any content.
//!
//! Differs from the analysis of the search index: case, marks and sentences are evidence here, and nothing is stemmed.

use std::ops::Range;

use crate::cues::{self, Cues};
use crate::fold::fold_character;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    /// Token that starts with a digit: `8`, `8th`, `05`.
    Number,
    /// `'s` after a word.
    Possessive,
    /// Single character.
    Mark,
    /// Address.
    Opaque,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// No cased letters.
    None,
    Lower,
    /// Only the first letter is capitalized, or the first of each part (`McDonald`).
    Capitalized,
    /// Two or more letters, all capitalized.
    Upper,
    /// Capitals only inside: `iPhone`.
    Mixed,
}

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) start: usize,
    pub(crate) end: usize,
    folded: Range<usize>,
    pub(crate) kind: Kind,
    pub(crate) case: Case,
    /// Whether the token follows white space or is at the start of the text.
    pub(crate) is_spaced: bool,
    /// Whether capitalization carries no information: the first word of the sentence or of a quotation.
    pub(crate) is_first: bool,
    pub(crate) starts_line: bool,
    pub(crate) sentence: usize,
    pub(crate) cues: Cues,
    /// Hash of the folded form, for fast comparison.
    pub(crate) hash: u64,
}

impl Token {
    pub(crate) const fn is_capital(&self) -> bool {
        matches!(self.case, Case::Capitalized | Case::Upper)
    }

    pub(crate) fn has(&self, cues: Cues) -> bool {
        self.cues & cues != 0
    }
}

#[derive(Debug)]
pub(crate) struct Text<'a> {
    pub(crate) source: &'a str,
    folded: String,
    pub(crate) tokens: Vec<Token>,
    /// Token range of each sentence.
    pub(crate) sentences: Vec<Range<usize>>,
}

/// Whether the script is written without spaces between words.
const fn is_unspaced_script(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{303f}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

const fn is_apostrophe(character: char) -> bool {
    matches!(character, '\'' | '\u{2019}' | '\u{2018}' | '\u{2bc}')
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric()
        || matches!(character, '_' | '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{feff}')
}

/// Whether `chunk`, which has no white space, is an address rather than words.
fn is_address(chunk: &str) -> bool {
    let chunk = chunk.trim_start_matches(['(', '[', '<', '"', '\'']);
    let slashes = chunk.bytes().take(300).filter(|byte| matches!(byte, b'/' | b'\\')).count();
    chunk.starts_with("www.")
        || chunk.starts_with("~/")
        || chunk.starts_with("./")
        || chunk.starts_with('/') && slashes > 1
        || slashes > 2
        || chunk.find("://").is_some_and(|at| at < 20)
        || chunk.find('@').is_some_and(|at| {
            at > 0 && chunk[..at].is_ascii() && chunk[at + 1..].starts_with(|c: char| c.is_ascii_alphanumeric())
        })
}

impl<'a> Text<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        let mut reader = Reader {
            text: Self {
                source,
                folded: String::with_capacity(source.len()),
                tokens: Vec::new(),
                sentences: Vec::new(),
            },
            position: 0,
            is_first: true,
            is_spaced: true,
            starts_line: true,
            sentence_start: 0,
            address_until: 0,
        };
        reader.read();
        reader.text
    }

    /// Returns the token's folded form; empty beyond the end.
    pub(crate) fn folded(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &self.folded[token.folded.clone()])
    }

    pub(crate) fn source_of(&self, tokens: Range<usize>) -> &'a str {
        match (self.tokens.get(tokens.start), tokens.end.checked_sub(1).and_then(|last| self.tokens.get(last))) {
            (Some(first), Some(last)) if first.start <= last.end => &self.source[first.start..last.end],
            _ => "",
        }
    }

    /// Returns the folded forms, separated as in the text.
    pub(crate) fn key_of(&self, tokens: Range<usize>) -> String {
        let mut key = String::new();
        for index in tokens.clone() {
            if index > tokens.start && self.tokens[index].is_spaced {
                key.push(' ');
            }
            key.push_str(self.folded(index));
        }
        key
    }

    /// Whether tokens `a` and `a + 1` are in the same sentence with only space between them.
    pub(crate) fn same_sentence(&self, a: usize, b: usize) -> bool {
        match (self.tokens.get(a), self.tokens.get(b)) {
            (Some(a), Some(b)) => a.sentence == b.sentence,
            _ => false,
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Token> {
        self.tokens.get(index)
    }

    /// Returns the token `distance` before `index` in the same sentence.
    pub(crate) fn before(&self, index: usize, distance: usize) -> Option<(usize, &Token)> {
        let at = index.checked_sub(distance)?;
        if self.same_sentence(at, index) { self.tokens.get(at).map(|token| (at, token)) } else { None }
    }

    /// Returns the folded form of the token `distance` before `index` in the same sentence, or an empty text.
    pub(crate) fn word_before(&self, index: usize, distance: usize) -> &str {
        self.before(index, distance).map_or("", |(at, _)| self.folded(at))
    }

    /// Returns the folded form of token `index` if it is in the sentence of token `of`.
    pub(crate) fn word_at(&self, of: usize, index: usize) -> &str {
        if self.same_sentence(of, index) { self.folded(index) } else { "" }
    }
}

/// Hashes with FNV-1a, 64 bits.
pub(crate) fn hash(folded: &str) -> u64 {
    folded.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

struct Reader<'a> {
    text: Text<'a>,
    position: usize,
    is_first: bool,
    is_spaced: bool,
    starts_line: bool,
    sentence_start: usize,
    /// End of the part for which it is known whether it is an address.
    address_until: usize,
}

impl Reader<'_> {
    fn read(&mut self) {
        while let Some(character) = self.text.source[self.position..].chars().next() {
            if character == '\n' {
                self.line_break();
            } else if character.is_whitespace() {
                self.is_spaced = true;
                self.position += character.len_utf8();
            } else if self.position >= self.address_until && self.address() {
            } else if is_word_character(character) {
                self.word(character);
            } else {
                self.mark(character);
            }
        }
        self.end_sentence();
    }

    fn line_break(&mut self) {
        let rest = &self.text.source[self.position + 1..];
        let next = rest.chars().next();
        if !next.is_some_and(char::is_lowercase) {
            self.end_sentence();
        }
        self.starts_line = true;
        self.is_spaced = true;
        self.position += 1;
    }

    fn end_sentence(&mut self) {
        let end = self.text.tokens.len();
        if end > self.sentence_start {
            self.text.sentences.push(self.sentence_start..end);
            self.sentence_start = end;
        }
        self.is_first = true;
    }

    fn address(&mut self) -> bool {
        let rest = &self.text.source[self.position..];
        let length = rest.find(|c: char| c.is_whitespace() || is_unspaced_script(c)).unwrap_or(rest.len());
        let chunk = &rest[..length];
        self.address_until = self.position + length.max(1);
        if !is_address(chunk) {
            return false;
        }
        let end =
            self.position + chunk.trim_end_matches(['.', ',', ')', ']', '>', '!', '?', ';', ':', '"', '\'']).len();
        let folded = self.text.folded.len()..self.text.folded.len();
        self.push(end.max(self.position + 1), folded, Kind::Opaque, Case::None);
        true
    }

    fn word(&mut self, first: char) {
        let start = self.position;
        let folded_start = self.text.folded.len();
        let is_unspaced = is_unspaced_script(first);
        let (mut upper, mut lower, mut first_is_upper) = (0usize, 0usize, false);
        let mut end = start;

        for (offset, character) in self.text.source[start..].char_indices() {
            let is_inner_apostrophe = is_apostrophe(character) && {
                let rest = &self.text.source[start + offset + character.len_utf8()..];
                let mut ahead = rest.chars();
                let next = ahead.next();
                let is_s = matches!(next, Some('s' | 'S')) && !ahead.next().is_some_and(is_word_character);
                next.is_some_and(char::is_alphabetic) && !is_s
            };
            if !is_inner_apostrophe && (!is_word_character(character) || is_unspaced_script(character) != is_unspaced) {
                break;
            }
            end = start + offset + character.len_utf8();
            if character.is_uppercase() {
                first_is_upper |= upper + lower == 0;
                upper += 1;
            } else if character.is_lowercase() {
                lower += 1;
            }
            fold_character(character, &mut self.text.folded);
        }
        let case = match (first_is_upper, upper, lower) {
            (_, 0, 0) => Case::None,
            (_, 0, _) => Case::Lower,
            (true, 2.., 0) => Case::Upper,
            (true, ..) => Case::Capitalized,
            (false, ..) => Case::Mixed,
        };
        let kind = if first.is_ascii_digit() { Kind::Number } else { Kind::Word };
        let folded = folded_start..self.text.folded.len();
        self.push(end.max(start + first.len_utf8()), folded, kind, case);
        self.possessive();
    }

    /// Reads `'s` after a word as a separate token.
    fn possessive(&mut self) {
        let mut rest = self.text.source[self.position..].chars();
        if let (Some(mark), Some('s' | 'S')) = (rest.next(), rest.next())
            && is_apostrophe(mark)
            && !rest.next().is_some_and(is_word_character)
        {
            let folded_start = self.text.folded.len();
            self.text.folded.push_str("'s");
            let folded = folded_start..self.text.folded.len();
            self.push(self.position + mark.len_utf8() + 1, folded, Kind::Possessive, Case::None);
        }
    }

    fn mark(&mut self, character: char) {
        let end = self.position + character.len_utf8();
        let folded_start = self.text.folded.len();
        fold_character(character, &mut self.text.folded);
        let folded = folded_start..self.text.folded.len();
        let was_first = self.is_first;
        let next = self.text.source[end..].chars().next();
        let ends = match character {
            '.' => {
                next.is_none_or(|c| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '”')) && !self.is_abbreviated()
            }
            '!' | '?' => next.is_none_or(|c| !c.is_alphanumeric()),
            '…' | '。' | '！' | '？' => true,
            _ => false,
        };
        self.push(end, folded, Kind::Mark, Case::None);
        if ends {
            self.end_sentence();
        } else {
            let opens = matches!(character, ':' | '"' | '“' | '„' | '«' | '>' | '*' | '•');
            self.is_first = was_first || opens;
        }
    }

    /// Whether the full stop belongs to the previous word.
    fn is_abbreviated(&self) -> bool {
        let Some(last) = self.text.tokens.last() else { return false };
        if last.end != self.position || last.kind != Kind::Word {
            return false;
        }
        let word = &self.text.folded[last.folded.clone()];
        let is_initial = word.chars().count() == 1 && last.is_capital() && word != "i";
        is_initial || last.has(cues::ABBREVIATION)
    }

    fn push(&mut self, end: usize, folded: Range<usize>, kind: Kind, case: Case) {
        let hash = hash(&self.text.folded[folded.clone()]);
        let cues = if kind == Kind::Word { cues::of(&self.text.folded[folded.clone()]) } else { 0 };
        self.text.tokens.push(Token {
            start: self.position,
            end,
            folded,
            kind,
            case,
            is_spaced: self.is_spaced,
            is_first: self.is_first && kind != Kind::Possessive,
            starts_line: self.starts_line,
            sentence: self.text.sentences.len(),
            cues,
            hash,
        });
        self.position = end;
        self.is_spaced = false;
        self.starts_line = false;
        self.is_first = false;
    }
}
