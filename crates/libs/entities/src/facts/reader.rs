//! Left-to-right reader of a sentence's tokens: words, mentions and values.

use super::vocabulary::VAGUE;
use crate::extract::own_key;
use crate::proper_names::name_end;
use crate::text::{Kind, Text};
use crate::types::{EntityType, Mention};

const MAX_VALUE_WORDS: usize = 6;

pub(super) struct Reader<'s, 't, 'a> {
    pub(super) text: &'s Text<'a>,
    pub(super) mentions: &'t [Mention],
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Reader<'_, '_, '_> {
    pub(super) fn word(&self, offset: usize) -> &str {
        let at = self.at + offset;
        if at < self.end { self.text.folded(at) } else { "" }
    }

    pub(super) fn token_after(&self, byte: usize) -> usize {
        let tokens = &self.text.tokens;
        tokens.partition_point(|token| token.start < byte)
    }

    pub(super) fn take(&mut self, words: &[&str]) -> bool {
        let fits = words.contains(&self.word(0));
        self.at += usize::from(fits);
        fits
    }

    pub(super) fn skip(&mut self, words: &[&str]) {
        while self.take(words) {}
    }

    /// Returns the mention that starts at the current token.
    pub(super) fn mention(&self, allowed: &[EntityType]) -> Option<&Mention> {
        let token = self.text.get(self.at).filter(|_| self.at < self.end)?;
        self.mentions
            .iter()
            .find(|mention| mention.range.start == token.start && allowed.contains(&mention.entity_type))
    }

    /// Reads the key of an entity of this type; without a mention, capitalized words are accepted.
    pub(super) fn entity(&mut self, allowed: EntityType) -> Option<String> {
        self.skip(&["the"]);
        let (key, end) = self.named(allowed)?;
        self.at = end;
        Some(key)
    }

    /// Returns the person at the current token, and the token after the name.
    pub(super) fn person(&self) -> Option<(String, usize)> {
        self.named(EntityType::Person)
    }

    fn named(&self, allowed: EntityType) -> Option<(String, usize)> {
        if let Some(mention) = self.mention(&[allowed]) {
            return Some((mention.key.clone(), self.token_after(mention.range.end)));
        }
        let end = name_end(self.text, self.at).min(self.end);
        let is_unknown = self.mention(EntityType::ALL).is_none();
        (is_unknown && end > self.at).then(|| (own_key(self.text, self.at..end, allowed), end))
    }

    pub(super) fn value(&mut self) -> Option<String> {
        self.value_until(&[])
    }

    /// Reads the words up to a mark, a clause or one of `stops`: an entity's key if they form one, otherwise folded.
    pub(super) fn value_until(&mut self, stops: &[&str]) -> Option<String> {
        self.skip(&["a", "an", "the", "my", "very", "some", "any"]);
        let entity = self.mention(EntityType::ALL);
        let known = entity.map(|mention| (mention.key.clone(), self.token_after(mention.range.end)));
        let start = self.at;
        while self.at < self.end {
            let Some(token) = self.text.get(self.at) else { break };
            let word = self.word(0);
            let is_mark = token.kind == Kind::Mark
                && !matches!(word, "-" | "@" | "+" | "/" | "#" | "'")
                && (token.is_spaced || !matches!(word, ".") || self.at + 1 >= self.end);
            let is_clause = matches!(
                word,
                "because"
                    | "and"
                    | "but"
                    | "now"
                    | "anymore"
                    | "any"
                    | "since"
                    | "so"
                    | "which"
                    | "who"
                    | "with"
                    | "for"
                    | "at"
                    | "or"
                    | "these"
                    | "while"
                    | "as"
                    | "too"
                    | "again"
            );
            if is_mark || is_clause || stops.contains(&word) {
                break;
            }
            self.at += 1;
            if self.at - start > 2 * MAX_VALUE_WORDS {
                return None;
            }
        }
        let words = match self.text.get(start).filter(|token| token.kind == Kind::Opaque) {
            Some(_) => self.text.source_of(start..self.at).to_owned(),
            None => self.text.key_of(start..self.at),
        };
        match known {
            Some((key, end)) if end == self.at => Some(key),
            _ if words.is_empty() || words.split(' ').count() > MAX_VALUE_WORDS => None,
            _ => (!VAGUE.contains(&words.split(' ').next().unwrap_or_default())).then_some(words),
        }
    }
}
