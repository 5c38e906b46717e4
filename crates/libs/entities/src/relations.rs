//! Relations between the entities of a sentence: by the verb between them (`Anna works at Siemens`), by kinship
//! (`Anna's brother Tom`), by apposition (`Berlin, Germany`), and otherwise by co-occurrence, with a weight that
//! decreases with distance.
//!
//! "I" and "we" refer to the speaker, if known; "he" and "she" to the last named person, with less weight. Negated
//! statements are not relations, except that not liking is disliking.

use std::collections::BTreeMap;

use crate::cues;
use crate::text::{Kind, Text};
use crate::types::{Candidate, EntityRef, EntityType, Mention, Relation, RelationType};
use crate::verbs::{self, Pattern};

/// Maximum number of relations of an extraction; the weakest are dropped.
pub const MAX_RELATIONS: usize = 2_000;
const STATED_WEIGHT: f64 = 0.9;
/// Weight of statements about "he" or "she".
const PRONOUN_WEIGHT: f64 = 0.6;
/// Weight of two adjacent entities; halved after [`HALF_DISTANCE_TOKENS`].
const CO_OCCURRENCE_WEIGHT: f64 = 0.5;
const HALF_DISTANCE_TOKENS: f64 = 6.0;
/// Maximum number of following entities with which an entity co-occurs.
const MAX_CO_OCCURRENCES: usize = 6;
const MAX_SUBJECT_DISTANCE: usize = 10;
const MAX_OBJECT_DISTANCE: usize = 7;
const MAX_LIST_GAP: usize = 2;

type Found = BTreeMap<(EntityRef, EntityRef, RelationType), f64>;

struct Reader<'s, 't, 'a> {
    text: &'t Text<'a>,
    chosen: &'s [Candidate],
    mentions: &'s [Mention],
    /// Mention that covers each token.
    covers: Vec<Option<usize>>,
    speaker: Option<EntityRef>,
    last_person: Option<usize>,
    found: Found,
}

/// Returns the relations among `mentions` (with their tokens in `chosen`), and whether some were dropped.
pub(crate) fn relations(
    text: &Text<'_>,
    chosen: &[Candidate],
    mentions: &[Mention],
    speaker: Option<&str>,
) -> (Vec<Relation>, bool) {
    let mut covers = vec![None; text.tokens.len()];
    for (index, candidate) in chosen.iter().enumerate() {
        covers[candidate.start..candidate.end].fill(Some(index));
    }
    let speaker = speaker.map(|key| EntityRef { key: key.to_owned(), entity_type: EntityType::Person });
    let mut reader = Reader { text, chosen, mentions, covers, speaker, last_person: None, found: Found::new() };
    let mut next = 0;
    for range in &text.sentences {
        let first = next;
        while next < chosen.len() && chosen[next].start < range.end {
            next += 1;
        }
        reader.sentence(range.clone(), first..next);
    }
    let mut relations: Vec<Relation> = reader
        .found
        .into_iter()
        .map(|((source, target, relation_type), weight)| Relation { source, target, relation_type, weight })
        .collect();
    relations.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let is_cut = relations.len() > MAX_RELATIONS;
    relations.truncate(MAX_RELATIONS);
    (relations, is_cut)
}

impl Reader<'_, '_, '_> {
    fn sentence(&mut self, tokens: std::ops::Range<usize>, mentions: std::ops::Range<usize>) {
        let text = self.text;
        let mut mentions = mentions;
        // A speaker prefix identifies the speaker and is not part of the statement.
        if let Some(candidate) = self.chosen.get(mentions.start).filter(|_| !mentions.is_empty())
            && candidate.entity_type == EntityType::Person
            && text.get(candidate.start).is_some_and(|token| token.starts_line)
            && text.word_at(candidate.start, candidate.end) == ":"
        {
            self.speaker = Some(self.mentions[mentions.start].entity());
            mentions.start += 1;
        }
        for at in tokens {
            if self.covers[at].is_none()
                && text.tokens[at].kind == Kind::Word
                && let Some((pattern, end)) = verbs::pattern_at(text, at)
            {
                self.verb(at, end, pattern);
            }
        }
        for index in mentions.clone() {
            self.apposition(index);
            if self.mentions[index].entity_type == EntityType::Person {
                self.kinship(index);
                self.last_person = Some(index);
            }
        }
        self.add_co_occurrences(mentions);
    }

    fn add(&mut self, source: EntityRef, target: EntityRef, relation_type: RelationType, weight: f64) {
        // The map has the same limit as the result; known relations still gain weight.
        if source == target {
            return;
        }
        let key = (source, target, relation_type);
        let is_full = self.found.len() >= 2 * MAX_RELATIONS;
        if let Some(known) = self.found.get_mut(&key) {
            *known = 1.0 - (1.0 - *known) * (1.0 - weight);
        } else if !is_full {
            self.found.insert(key, weight);
        }
    }

    fn verb(&mut self, at: usize, end: usize, pattern: Pattern) {
        let Some((source, weight)) = self.subject(at, pattern.sources) else { return };
        let is_denied = (1..4).any(|distance| {
            self.text
                .before(at, distance)
                .is_some_and(|(at, token)| token.has(cues::NEGATION) && self.covers[at].is_none())
        });
        let relation_type = match (is_denied, pattern.relation) {
            (false, relation) => relation,
            (true, RelationType::Prefers) => RelationType::Dislikes,
            (true, _) => return,
        };
        // A residence is a single place; a following place contains it.
        let is_single = matches!(relation_type, RelationType::LivesIn | RelationType::BornIn | RelationType::LocatedIn);
        let targets = self.objects(end, pattern.targets);
        let count = if is_single { 1 } else { targets.len() };
        for target in targets.into_iter().take(count) {
            let target = self.mentions[target].entity();
            let (from, to) = if pattern.is_passive { (target, source.clone()) } else { (source.clone(), target) };
            self.add(from, to, relation_type, weight);
        }
    }

    /// Returns the subject before the verb.
    fn subject(&self, at: usize, allowed: &[EntityType]) -> Option<(EntityRef, f64)> {
        let text = self.text;
        let mut distance = 1;
        while distance <= MAX_SUBJECT_DISTANCE {
            let (position, token) = text.before(at, distance)?;
            if let Some(index) = self.covers[position] {
                let mention = &self.mentions[index];
                if allowed.contains(&mention.entity_type) {
                    return Some((mention.entity(), STATED_WEIGHT));
                }
            } else if allowed.contains(&EntityType::Person) {
                match text.folded(position) {
                    "i" | "we" | "i'm" | "i've" | "we've" | "i'd" | "we're" | "i'll" | "we'll" => {
                        return self.speaker.clone().map(|speaker| (speaker, STATED_WEIGHT));
                    }
                    "he" | "she" | "he's" | "she's" => {
                        return self.last_person.map(|index| (self.mentions[index].entity(), PRONOUN_WEIGHT));
                    }
                    // Refers to an unnamed person.
                    "you" | "they" | "it" | "who" => return None,
                    ";" => return None,
                    _ if token.has(cues::KINSHIP | cues::ACQUAINTANCE) => return None,
                    _ => {}
                }
            }
            distance += 1;
        }
        None
    }

    /// Returns the objects after the verb: one, or a list.
    fn objects(&self, from: usize, allowed: &[EntityType]) -> Vec<usize> {
        let text = self.text;
        let mut objects: Vec<usize> = Vec::new();
        let (mut at, mut gap) = (from, 0);
        while text.same_sentence(from - 1, at) {
            let limit = if objects.is_empty() { MAX_OBJECT_DISTANCE } else { MAX_LIST_GAP };
            if gap > limit || objects.len() > 8 {
                break;
            }
            match self.covers[at] {
                Some(index) if allowed.contains(&self.mentions[index].entity_type) => {
                    objects.push(index);
                    at = self.chosen[index].end;
                    gap = 0;
                    continue;
                }
                Some(index) if objects.is_empty() => {
                    gap += 1;
                    at = self.chosen[index].end;
                    continue;
                }
                Some(_) => break,
                None => {}
            }
            let word = text.folded(at);
            let is_link = matches!(word, "," | "and" | "or" | "&" | "/" | "both" | "the" | "a");
            if matches!(word, ";" | "but" | "because" | "while" | "than" | "over" | "instead" | "not")
                || !objects.is_empty() && !is_link
            {
                break;
            }
            gap += 1;
            at += 1;
        }
        objects
    }

    /// Detects `Berlin, Germany`.
    fn apposition(&mut self, index: usize) {
        let (Some(here), Some(next)) = (self.chosen.get(index), self.chosen.get(index + 1)) else { return };
        let is_apposed = here.entity_type == EntityType::Place
            && next.entity_type == EntityType::Place
            && next.start == here.end + 1
            && self.text.word_at(here.start, here.end) == ","
            && self.text.word_before(here.start, 1) != ","
            && !matches!(self.text.word_at(here.start, next.end), "," | "and" | "or");
        if is_apposed {
            self.add(
                self.mentions[index].entity(),
                self.mentions[index + 1].entity(),
                RelationType::LocatedIn,
                STATED_WEIGHT,
            );
        }
    }

    /// Detects `my sister Anna`, `Anna's brother Tom`, `Tom is Anna's brother`.
    fn kinship(&mut self, index: usize) {
        let text = self.text;
        let start = self.chosen[index].start;
        let comma = usize::from(text.word_before(start, 1) == ",");
        if let Some((kin_at, kin)) = text.before(start, 1 + comma)
            && kin.has(cues::KINSHIP | cues::ACQUAINTANCE)
            && let Some((owner, weight)) = self.owner_before(kin_at)
        {
            self.kin(index, text.folded(kin_at), owner, weight);
        }
        // "… is Anna's brother"
        let end = self.chosen[index].end;
        let is_copula = matches!(text.word_at(start, end), "is" | "was");
        let kin_at = (end + 2..end + 6).find(|at| {
            text.same_sentence(start, *at)
                && text.tokens[*at].has(cues::KINSHIP | cues::ACQUAINTANCE)
                && self.covers[*at].is_none()
        });
        if is_copula
            && let Some(kin_at) = kin_at
            && let Some((owner, weight)) = self.owner_before(kin_at)
        {
            self.kin(index, text.folded(kin_at), owner, weight);
        }
    }

    /// Returns the person whose relative the word at `kin_at` names, skipping adjectives before it.
    fn owner_before(&self, kin_at: usize) -> Option<(EntityRef, f64)> {
        let text = self.text;
        for distance in 1..4 {
            let (at, token) = text.before(kin_at, distance)?;
            match text.folded(at) {
                "my" | "our" => return self.speaker.clone().map(|speaker| (speaker, STATED_WEIGHT)),
                "his" | "her" => return self.last_person.map(|index| (self.mentions[index].entity(), PRONOUN_WEIGHT)),
                _ if token.kind == Kind::Possessive => {
                    let owner = at.checked_sub(1).and_then(|before| self.covers[before])?;
                    let owner = &self.mentions[owner];
                    return (owner.entity_type == EntityType::Person).then(|| (owner.entity(), STATED_WEIGHT));
                }
                _ if self.covers[at].is_some() || token.kind == Kind::Mark => return None,
                _ => {}
            }
        }
        None
    }

    fn kin(&mut self, index: usize, word: &str, owner: EntityRef, weight: f64) {
        let named = self.mentions[index].entity();
        let relation = match word {
            "mother" | "mom" | "mum" | "mama" | "mommy" | "father" | "dad" | "papa" | "daddy" | "parent"
            | "parents" | "stepmother" | "stepfather" => RelationType::ParentOf,
            "daughter" | "son" | "child" | "kid" | "stepson" | "stepdaughter" => RelationType::ChildOf,
            "sister" | "brother" | "sis" | "bro" | "twin" | "stepbrother" | "stepsister" => RelationType::SiblingOf,
            "wife" | "husband" | "spouse" | "partner" | "fiance" | "fiancee" | "girlfriend" | "boyfriend" => {
                RelationType::SpouseOf
            }
            "aunt" | "uncle" | "cousin" | "niece" | "nephew" | "grandmother" | "grandma" | "granny" | "grandfather"
            | "grandpa" | "granddaughter" | "grandson" => RelationType::RelativeOf,
            _ => {
                self.add(owner, named, RelationType::Knows, weight);
                return;
            }
        };
        self.add(named, owner, relation, weight);
    }

    fn add_co_occurrences(&mut self, mentions: std::ops::Range<usize>) {
        for first in mentions.clone() {
            for second in (first + 1..mentions.end).take(MAX_CO_OCCURRENCES) {
                let (a, b) = (self.mentions[first].entity(), self.mentions[second].entity());
                let (a, b) = if a <= b { (a, b) } else { (b, a) };
                let is_stated = RelationType::ALL.iter().any(|relation| {
                    *relation != RelationType::CoOccurs
                        && (self.found.contains_key(&(a.clone(), b.clone(), *relation))
                            || self.found.contains_key(&(b.clone(), a.clone(), *relation)))
                });
                if is_stated {
                    continue;
                }
                let gap =
                    u32::try_from(self.chosen[second].start.saturating_sub(self.chosen[first].end)).unwrap_or(u32::MAX);
                self.add(
                    a,
                    b,
                    RelationType::CoOccurs,
                    CO_OCCURRENCE_WEIGHT / (1.0 + f64::from(gap) / HALF_DISTANCE_TOKENS),
                );
            }
        }
    }
}
