//! Analysis of text into terms, identical for documents, queries and highlights.
//!
//! - A word is a sequence of letters, digits and marks. It is folded (see `fold`) and, if it then consists of plain
//!   Latin letters, stemmed by Snowball's English rules. Words of other languages in Latin script are stemmed by the
//!   same rules on both sides, so they match too. English suffixes after an apostrophe (`'s`, `n't`) are not words.
//! - Scripts without spaces (Han, kana, Hangul, Thai, Lao, Khmer, Myanmar) produce each character and each pair of
//!   neighbours; a query produces only pairs, or the character if there is only one.
//! - Compounds are also terms as a whole, unstemmed: `node.js`, `v1.2`, `a@b.example`, `snake_case`, `C++`, `C#`,
//!   `.NET`. A hyphenated word also matches its spelling as one word.
//! - Alternative spellings match each other (see `forms`): `1,240` and `1240`, `5 km` and `5km`, `Köln` and `Koeln`,
//!   `parseBound` by its parts. A pictogram is a term.
//! - A query in one of six other languages also drops the stop words of that language (see `languages`).
//! - A term has at most [`MAX_TERM_BYTES`] bytes; longer ones are truncated on both sides.
//!
//! Queries have no syntax: quotes, operators and control characters only separate words. Deliberately absent: other
//! stemmers. Documents do not state their language, and guessing would treat the same word differently in a document
//! and a query.

mod fold;
mod forms;
mod languages;
mod scripts;
mod stop_words;

use std::ops::Range;

use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;

use scripts::end_of;

/// Version of the analysis. A change of the analysis changes this number, which rebuilds every index.
pub(crate) const ANALYSIS_VERSION: u32 = 3;
/// Maximum length of a term, in bytes.
pub const MAX_TERM_BYTES: usize = 64;
/// Maximum number of distinct query terms that are searched: the first ones.
pub const MAX_QUERY_TERMS: usize = 64;
/// Maximum length of a compound such as an address, in bytes; longer ones are only indexed by their words.
const MAX_COMPOUND_BYTES: usize = 256;

/// Term with its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Indexed form: folded and stemmed.
    pub term: String,
    /// Byte range in the text.
    pub range: Range<usize>,
    /// Whether it is an English stop word.
    pub is_stop_word: bool,
    /// Whether it is a separate word, as opposed to an overlapping part or compound. The number of such words is the
    /// document's length.
    pub is_counted: bool,
}

/// Returns all terms of a text in order, as indexed for documents.
#[must_use]
pub fn analyze(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    Analyzer::new(Purpose::Document).run(text, &mut |term, range, kind| {
        tokens.push(Token {
            term: term.to_owned(),
            range,
            is_stop_word: kind == Kind::StopWord,
            is_counted: kind != Kind::Overlap,
        });
        true
    });
    tokens
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Document,
    Query,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    StopWord,
    /// Compound or pair of characters, whose position is also covered by other terms.
    Overlap,
}

/// Returns the distinct terms of a query with their frequencies; stop words only if there are no others.
pub(crate) fn query_terms(text: &str) -> Vec<(String, u32)> {
    let mut telling: Vec<(String, u32)> = Vec::new();
    let mut stop_words: Vec<(String, u32)> = Vec::new();
    let mut analyzer = Analyzer::new(Purpose::Query);
    analyzer.further_stop_words = languages::of_query(text);
    analyzer.run(text, &mut |term, _, kind| {
        let list = if kind == Kind::StopWord { &mut stop_words } else { &mut telling };
        if let Some((_, count)) = list.iter_mut().find(|(known, _)| known == term) {
            *count += 1;
        } else if list.len() < MAX_QUERY_TERMS {
            list.push((term.to_owned(), 1));
        }
        telling.len() < MAX_QUERY_TERMS
    });
    if telling.is_empty() { stop_words } else { telling }
}

pub(crate) struct Analyzer {
    stemmer: Stemmer,
    purpose: Purpose,
    /// Stop words of the query's language.
    further_stop_words: languages::StopWords,
    folded: String,
    cut: String,
}

type Visit<'v> = dyn FnMut(&str, Range<usize>, Kind) -> bool + 'v;

impl Analyzer {
    pub(crate) fn new(purpose: Purpose) -> Self {
        let stemmer = Stemmer::create(Algorithm::English);
        Self { stemmer, purpose, further_stop_words: &[], folded: String::new(), cut: String::new() }
    }

    /// Calls `visit` with each term until it returns false.
    pub(crate) fn run(&mut self, text: &str, visit: &mut Visit<'_>) {
        let mut position = 0;
        while let Some(c) = text[position..].chars().next() {
            let go_on = if scripts::is_unspaced(c) {
                let end = end_of(text, position, |c| scripts::is_unspaced(c) || fold::is_invisible(c));
                let run = position..end;
                position = end;
                self.unspaced(text, run, visit)
            } else if scripts::is_word(c) || (c == '.' && starts_dotted(text, position)) {
                let end = end_of_compound(text, position);
                let run = position..end;
                position = end;
                self.number(text, run.clone(), visit) && self.compound(text, run, visit)
            } else {
                let range = position..position + c.len_utf8();
                position = range.end;
                !forms::is_pictogram(c) || self.emit(&text[range.clone()], range, Kind::Overlap, visit)
            };
            if !go_on {
                return;
            }
        }
    }

    /// Emits each character (with its marks) and each pair of neighbours.
    fn unspaced(&mut self, text: &str, run: Range<usize>, visit: &mut Visit<'_>) -> bool {
        let mut before: Option<(String, usize)> = None;
        let mut single = true;
        let mut position = run.start;
        while position < run.end {
            let Some(c) = text[position..run.end].chars().next() else { break };
            let end = end_of(text, position + c.len_utf8(), |c| scripts::is_attached(c) || fold::is_invisible(c));
            let range = position..end.min(run.end);
            position = range.end;
            let character: String = text[range.clone()]
                .chars()
                .filter(|c| !fold::is_invisible(*c))
                .nfkc()
                .collect::<String>()
                .to_lowercase();
            if character.is_empty() {
                continue;
            }
            let last = position >= run.end;
            single &= before.is_none();
            if (self.purpose == Purpose::Document || (single && last))
                && !self.emit(&character, range.clone(), Kind::Word, visit)
            {
                return false;
            }
            if let Some((previous, start)) = before.take() {
                let pair = previous + &character;
                if !self.emit(&pair, start..range.end, Kind::Overlap, visit) {
                    return false;
                }
            }
            before = Some((character, range.start));
        }
        true
    }

    /// Emits the words of a compound, and the compound itself if it differs.
    fn compound(&mut self, text: &str, run: Range<usize>, visit: &mut Visit<'_>) -> bool {
        let mut words = 0;
        let mut hyphens_only = true;
        let mut position = run.start;
        let mut after_apostrophe = false;
        while position < run.end {
            let Some(c) = text[position..run.end].chars().next() else { break };
            if !is_word_or_invisible(c) {
                hyphens_only &= is_hyphen(c) || is_apostrophe(c);
                after_apostrophe = is_apostrophe(c);
                position += c.len_utf8();
                continue;
            }
            let end = end_of(text, position, is_word_or_invisible).min(run.end);
            let range = position..end;
            position = end;
            if words > 0 && after_apostrophe && is_contraction(&text[range.clone()]) {
                continue;
            }
            words += 1;
            if !self.word(text, range, visit) {
                return false;
            }
        }
        let whole = &text[run.clone()];
        if whole.len() > MAX_COMPOUND_BYTES || !whole.chars().any(|c| is_joiner(c) || is_sign(c)) {
            return true;
        }
        self.folded.clear();
        fold::fold_into(whole, &mut self.folded);
        if hyphens_only {
            let joined: String = self.folded.chars().filter(|c| !is_hyphen(*c) && !is_apostrophe(*c)).collect();
            if !(2..=3).contains(&words) {
                return true;
            }
            let stemmed = self.stem(&joined);
            return self.emit(&stemmed, run, Kind::Overlap, visit);
        }
        let term = std::mem::take(&mut self.folded);
        let go_on = self.emit(&term, run, Kind::Overlap, visit);
        self.folded = term;
        go_on
    }

    /// Emits the alternative forms of a number that begins here.
    fn number(&mut self, text: &str, run: Range<usize>, visit: &mut Visit<'_>) -> bool {
        if !text.as_bytes()[run.start].is_ascii_digit() {
            return true;
        }
        let grouped = forms::grouped_number(text, run.start);
        let (number, end) = match &grouped {
            Some((number, end)) => (number.as_str(), *end),
            None => (&text[run.clone()], run.end),
        };
        if let Some((whole, unit_end)) = forms::with_unit(text, number, end)
            && !self.emit(&whole, run.start..unit_end, Kind::Overlap, visit)
        {
            return false;
        }
        grouped.is_none() || self.emit(number, run.start..end, Kind::Overlap, visit)
    }

    /// Emits the alternative forms of a word.
    fn further_forms(&mut self, word: &str, range: &Range<usize>, kind: Kind, visit: &mut Visit<'_>) -> bool {
        let kind = if kind == Kind::StopWord { kind } else { Kind::Overlap };
        let spelled = forms::spelled_out(word);
        // A query for an identifier refers to the whole identifier.
        let parts = if self.purpose == Purpose::Document { forms::parts_of_name(word) } else { Vec::new() };
        for form in spelled.as_deref().into_iter().chain(parts) {
            let mut folded = String::new();
            fold::fold_into(form, &mut folded);
            let stemmed = self.stem(&folded).into_owned();
            if !self.emit(&stemmed, range.clone(), kind, visit) {
                return false;
            }
        }
        true
    }

    fn word(&mut self, text: &str, range: Range<usize>, visit: &mut Visit<'_>) -> bool {
        self.folded.clear();
        fold::fold_into(&text[range.clone()], &mut self.folded);
        if self.folded.is_empty() {
            return true;
        }
        let is_stop_word = stop_words::is_stop_word(&self.folded)
            || self.further_stop_words.binary_search(&self.folded.as_str()).is_ok();
        let kind = if is_stop_word { Kind::StopWord } else { Kind::Word };
        let folded = std::mem::take(&mut self.folded);
        let stemmed = self.stem(&folded);
        let go_on = self.emit(&stemmed, range.clone(), kind, visit);
        drop(stemmed);
        self.folded = folded;
        go_on && self.further_forms(&text[range.clone()], &range, kind, visit)
    }

    fn stem<'w>(&self, folded: &'w str) -> std::borrow::Cow<'w, str> {
        if folded.len() >= 3 && folded.len() <= MAX_TERM_BYTES && folded.bytes().all(|b| b.is_ascii_lowercase()) {
            self.stemmer.stem(folded)
        } else {
            folded.into()
        }
    }

    fn emit(&mut self, term: &str, range: Range<usize>, kind: Kind, visit: &mut Visit<'_>) -> bool {
        if term.len() <= MAX_TERM_BYTES {
            return visit(term, range, kind);
        }
        self.cut.clear();
        self.cut.push_str(&term[..term.floor_char_boundary(MAX_TERM_BYTES)]);
        visit(&self.cut, range, kind)
    }
}

fn end_of_compound(text: &str, start: usize) -> usize {
    let mut end = start;
    let mut characters = text[start..].char_indices().peekable();
    while let Some((offset, c)) = characters.next() {
        let after = start + offset + c.len_utf8();
        let next_is_word = characters.peek().is_some_and(|(_, next)| is_spaced_word(*next));
        let joins = (is_joiner(c) || is_apostrophe(c)) && next_is_word;
        if joins || (is_word_or_invisible(c) && !scripts::is_unspaced(c)) {
            end = after;
        } else if is_sign(c) && offset > 0 {
            // `C++`, `C#`: signs that end a word.
            let signs = end_of(text, start + offset, is_sign);
            return if text[signs..].chars().next().is_none_or(|c| !is_spaced_word(c)) && signs - end <= 2 {
                signs
            } else {
                end
            };
        } else {
            break;
        }
    }
    end
}

/// Whether a dot begins a word, as in `.NET`, `.gitignore`.
fn starts_dotted(text: &str, position: usize) -> bool {
    text[..position].chars().next_back().is_none_or(char::is_whitespace)
        && text[position + 1..].chars().next().is_some_and(|c| c.is_ascii_alphabetic())
}

fn is_word_or_invisible(c: char) -> bool {
    scripts::is_word(c) || fold::is_invisible(c)
}

fn is_spaced_word(c: char) -> bool {
    scripts::is_word(c) && !scripts::is_unspaced(c)
}

fn is_joiner(c: char) -> bool {
    matches!(c, '.' | '_' | '@' | '-' | '‐' | '‑')
}

fn is_hyphen(c: char) -> bool {
    matches!(c, '-' | '‐' | '‑')
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | 'ʼ')
}

fn is_sign(c: char) -> bool {
    matches!(c, '+' | '#')
}

/// Whether this is an English suffix after an apostrophe.
fn is_contraction(part: &str) -> bool {
    ["s", "t", "m", "d", "ll", "re", "ve"].iter().any(|suffix| part.eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests;
