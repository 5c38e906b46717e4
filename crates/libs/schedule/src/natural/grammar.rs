//! Parser state: a position in the tokens, lookahead, and backtracking if a phrase does not match.

use super::draft::Draft;
use super::lexer::Token;
use super::token::{Kind, Unit};

/// Classification of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Unread,
    Day,
    Time,
    Other,
}

/// Parses tokens from left to right.
pub(super) struct Grammar<'a> {
    pub(super) tokens: &'a [Token],
    /// One mark for each consumed token.
    pub(super) marks: Vec<Mark>,
    pub(super) at: usize,
    pub(super) draft: Draft,
    /// Number of words that are neither about time nor filler words.
    pub(super) unknown: usize,
    /// Position where the last phrase ended.
    pub(super) end_of_phrase: Option<usize>,
}

impl<'a> Grammar<'a> {
    /// Returns the kind of the token `ahead` of the position; `Filler` past the end.
    pub(super) fn kind(&self, ahead: usize) -> Kind {
        self.tokens.get(self.at + ahead).map_or(Kind::Filler, |token| token.kind)
    }

    pub(super) fn text(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text.as_str())
    }

    pub(super) fn text_at(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| token.text.as_str())
    }

    pub(super) fn text_before(&self) -> &str {
        self.at.checked_sub(1).map_or("", |at| self.text_at(at))
    }

    pub(super) const fn at_end(&self, ahead: usize) -> bool {
        self.at + ahead >= self.tokens.len()
    }

    pub(super) fn previous(&self) -> Option<Kind> {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map(|token| token.kind)
    }

    /// Whether the position follows a unit that is not part of a phrase, as in "day 6".
    pub(super) fn follows_unit(&self) -> bool {
        matches!(self.previous(), Some(Kind::Unit(_))) && self.end_of_phrase != Some(self.at)
    }

    /// Consumes the token if it is of this kind.
    pub(super) fn take(&mut self, kind: Kind) -> bool {
        let found = !self.at_end(0) && self.kind(0) == kind;
        self.at += usize::from(found);
        found
    }

    pub(super) fn take_any(&mut self, kinds: &[Kind]) -> bool {
        kinds.iter().any(|kind| self.take(*kind))
    }

    /// Restores the position and the draft if `phrase` does not match.
    pub(super) fn attempt(&mut self, phrase: impl FnOnce(&mut Self) -> bool) -> bool {
        let (at, draft) = (self.at, self.draft.clone());
        if phrase(self) && self.at > at {
            return true;
        }
        (self.at, self.draft) = (at, draft);
        false
    }

    /// Returns the result of `phrase`; restores the position if it does not match.
    pub(super) fn find<T>(&mut self, phrase: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut found = None;
        self.attempt(|grammar| {
            found = phrase(grammar);
            found.is_some()
        });
        found
    }

    /// Parses a small whole number: digits, a word, or "a".
    pub(super) fn count(&mut self) -> Option<u32> {
        match self.kind(0) {
            Kind::Number(number) => {
                self.at += 1;
                // "a couple of hours".
                self.take(Kind::Of);
                Some(number)
            }
            Kind::A => {
                self.at += 1;
                if let Kind::Number(2) = self.kind(0)
                    && self.text(0) == "couple"
                {
                    self.at += 1;
                    self.take(Kind::Of);
                    return Some(2);
                }
                Some(1)
            }
            _ => None,
        }
    }

    pub(super) fn unit(&mut self) -> Option<Unit> {
        let unit = match self.kind(0) {
            Kind::Unit(unit) => unit,
            Kind::SecondWord => Unit::Second,
            Kind::Quarter if self.text(0) == "quarter" => Unit::Quarter,
            _ => return None,
        };
        self.at += 1;
        Some(unit)
    }
}
