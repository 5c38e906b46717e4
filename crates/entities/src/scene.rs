//! What the rules know of a text before they classify a single word: the gazetteer's matches, and for
//! each sentence what it talks about.

use crate::cues::{self, Cues};
use crate::dates;
use crate::gazetteer::{Entry, Match, gazetteer};
use crate::text::{Case, Kind, Text, Token};
use crate::types::EntityType;

/// How far around a word a speaking or an excluding word is looked for, in tokens: what keeps the
/// time linear in one endless sentence.
const WINDOW_TOKENS: usize = 16;
/// A sentence of at least so many words may be in title case.
const TITLE_CASE_MIN_WORDS: usize = 3;

/// How sure a rule is, 0 to 100. Where candidates of one length compete the higher one wins.
pub(crate) type Confidence = u8;

/// An entity that a rule proposes for the tokens `start..end`.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The mention ends here inside the last token, not with it.
    pub(crate) end_byte: Option<usize>,
    pub(crate) entity_type: EntityType,
    pub(crate) naming: Naming,
    pub(crate) confidence: Confidence,
}

/// Where name and key come from.
#[derive(Debug, Clone)]
pub(crate) enum Naming {
    Entry(usize),
    /// The text from this token on (a title belongs to the name, not to the key).
    TextFrom(usize),
    Key(String),
}

#[derive(Debug, Clone, Default)]
struct Sentence {
    cues: Cues,
    technical: u32,
    /// Capitalized words inside the sentence that may be technical names.
    maybe_technical: u32,
    places: u32,
    words: usize,
    capitals: usize,
    /// Words in lower case that are no words of grammar.
    plain: usize,
}

#[derive(Debug)]
pub(crate) struct Scene<'t, 'a> {
    pub(crate) text: &'t Text<'a>,
    /// Matches of the gazetteer, by their start.
    pub(crate) matches: Vec<(usize, Match)>,
    sentences: Vec<Sentence>,
    /// For each token: the type of the entry that certainly starts here and is no person.
    certain: Vec<Option<EntityType>>,
    /// For each token: the given name that it is.
    given_names: Vec<Option<usize>>,
}

impl<'t, 'a> Scene<'t, 'a> {
    pub(crate) fn new(text: &'t Text<'a>) -> Self {
        let mut scene = Self {
            text,
            matches: Vec::new(),
            sentences: vec![Sentence::default(); text.sentences.len()],
            certain: vec![None; text.tokens.len()],
            given_names: vec![None; text.tokens.len()],
        };
        let mut found = Vec::new();
        for index in 0..text.tokens.len() {
            scene.count(index);
            if !scene.may_start(index) {
                continue;
            }
            found.clear();
            gazetteer().matches(text, index, &mut found);
            for &matched in &found {
                if !scene.may_end(matched.end) {
                    continue;
                }
                scene.note(index, matched);
                scene.matches.push((index, matched));
            }
        }
        scene
    }

    fn count(&mut self, index: usize) {
        let token = &self.text.tokens[index];
        let sentence = &mut self.sentences[token.sentence];
        sentence.cues |= token.cues;
        sentence.technical += u32::from(token.has(cues::TECHNICAL));
        let is_counted = token.kind == Kind::Word && token.case != Case::None && !token.is_first;
        if is_counted && self.text.folded(index) != "i" {
            sentence.words += 1;
            sentence.capitals += usize::from(token.is_capital());
            sentence.plain += usize::from(!token.is_capital() && !token.has(cues::FUNCTION));
        }
    }

    fn note(&mut self, index: usize, matched: Match) {
        let entry = &gazetteer().entries[matched.entry];
        let token = &self.text.tokens[index];
        let sentence = &mut self.sentences[token.sentence];
        match entry.entity_type {
            EntityType::Person => self.given_names[index] = Some(matched.entry),
            entity_type if matched.is_unambiguous => {
                if entity_type.is_technical() {
                    sentence.technical += 1;
                } else if entity_type == EntityType::Place && token.is_capital() {
                    sentence.places += 1;
                }
                if token.case != Case::Lower {
                    self.certain[index] = Some(entity_type);
                }
            }
            EntityType::Place if token.is_capital() && !token.is_first => sentence.places += 1,
            entity_type if entity_type.is_technical() && token.is_capital() && !token.is_first => {
                sentence.maybe_technical += 1
            }
            _ => {}
        }
    }

    /// Inside `main.rs` or `name.example` nothing starts.
    fn may_start(&self, index: usize) -> bool {
        let token = &self.text.tokens[index];
        let before = index.checked_sub(1).map_or("", |before| self.text.folded(before));
        let is_part = !token.is_spaced && matches!(before, "." | "@" | "\\" | "$" | "%" | "=");
        match token.kind {
            Kind::Word | Kind::Number => !is_part,
            Kind::Mark => token.is_spaced && self.text.folded(index) == ".",
            _ => false,
        }
    }

    fn may_end(&self, end: usize) -> bool {
        let is_glued = |index: usize| self.text.get(index).is_some_and(|token| !token.is_spaced);
        let word_follows = || self.text.get(end + 1).is_some_and(|token| !token.is_spaced && token.kind == Kind::Word);
        !(is_glued(end) && matches!(self.text.folded(end), "." | "@" | "=" | "\\" | "_") && word_follows())
    }

    pub(crate) fn sentence_cues(&self, index: usize) -> Cues {
        self.text.get(index).map_or(0, |token| self.sentences[token.sentence].cues)
    }

    /// How much the sentence talks of software, without `own` for the word in question.
    pub(crate) fn technical_context(&self, index: usize, own: u32) -> u32 {
        let Some(token) = self.text.get(index) else { return 0 };
        let around =
            |at: Option<usize>| at.and_then(|at| self.sentences.get(at)).map_or(0, |s| u32::from(s.technical > 1));
        let here = self.sentences[token.sentence].technical.saturating_sub(own);
        // "We use Go, Rust and R": together they are what none of them is alone.
        let sentence = &self.sentences[token.sentence];
        let is_list = sentence.maybe_technical > 1 && sentence.cues & cues::TECHNICAL_VERB != 0;
        u32::from(is_list) + here + around(token.sentence.checked_sub(1)) + around(Some(token.sentence + 1))
    }

    pub(crate) fn has_other_place(&self, index: usize) -> bool {
        self.text.get(index).is_some_and(|token| self.sentences[token.sentence].places > 0)
    }

    /// Whether capitals say nothing in this sentence: a headline, or all of it in capitals.
    pub(crate) fn is_title_case(&self, index: usize) -> bool {
        self.text.get(index).is_some_and(|token| {
            let sentence = &self.sentences[token.sentence];
            sentence.words >= TITLE_CASE_MIN_WORDS && sentence.plain == 0 && sentence.capitals * 4 > sentence.words * 3
        })
    }

    /// A capital that is evidence of a name.
    pub(crate) fn is_telling_capital(&self, index: usize) -> bool {
        self.text.get(index).is_some_and(|token| token.is_capital() && !token.is_first) && !self.is_title_case(index)
    }

    pub(crate) fn is_near(&self, index: usize, words: &[u64]) -> bool {
        if words.is_empty() {
            return false;
        }
        let Some(own) = self.text.get(index) else { return false };
        let range = index.saturating_sub(WINDOW_TOKENS)..(index + WINDOW_TOKENS).min(self.text.tokens.len());
        self.text.tokens[range]
            .iter()
            .any(|token| token.sentence == own.sentence && token.start != own.start && words.contains(&token.hash))
    }

    pub(crate) fn given_name(&self, index: usize) -> Option<&'static Entry> {
        self.given_names.get(index).copied().flatten().map(|entry| &gazetteer().entries[entry])
    }

    pub(crate) fn certain_type(&self, index: usize) -> Option<EntityType> {
        self.certain.get(index).copied().flatten()
    }

    /// Could be (a part of) a name that no list knows: capitalized, and no word of grammar, no known
    /// thing, no month or day.
    pub(crate) fn is_unknown_name(&self, index: usize) -> bool {
        let Some(token) = self.text.get(index) else { return false };
        let is_word = token.kind == Kind::Word && token.case == Case::Capitalized;
        is_word
            && !token.has(cues::FUNCTION)
            && self.certain_type(index).is_none()
            && dates::month_of(self.text.folded(index)).is_none()
            && dates::date_at(self.text, index).is_none()
            && !self.matches_at(index, index + 1)
    }

    /// Whether an entry of the gazetteer that is no person stands exactly at `start..end`.
    pub(crate) fn matches_at(&self, start: usize, end: usize) -> bool {
        let from = self.matches.partition_point(|(at, _)| *at < start);
        self.matches[from..].iter().take_while(|(at, _)| *at == start).any(|(_, matched)| {
            matched.end == end && gazetteer().entries[matched.entry].entity_type != EntityType::Person
        })
    }

    /// The organization of the gazetteer that stands exactly at `start..end`, in one sentence.
    pub(crate) fn organization_at(&self, start: usize, end: usize) -> Option<usize> {
        let from = self.matches.partition_point(|(at, _)| *at < start);
        let mut here = self.matches[from..].iter().take_while(|(at, _)| *at == start);
        let is_one = |matched: &Match| {
            matched.end == end && gazetteer().entries[matched.entry].entity_type == EntityType::Organization
        };
        let (_, matched) = here.find(|(_, matched)| is_one(matched))?;
        self.text.same_sentence(start, end).then_some(matched.entry)
    }

    /// The token at `index` if it is in the sentence of `of`.
    pub(crate) fn token_in(&self, of: usize, index: usize) -> Option<&Token> {
        if self.text.same_sentence(of, index) { self.text.get(index) } else { None }
    }
}
