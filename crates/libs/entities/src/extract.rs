//! Extraction of entities from a text and its tagged names: the word lists add software and topics. Of overlapping
//! candidates the longer one is chosen, and among equals the one from the lists.

use std::collections::HashMap;
use std::ops::Range;

use crate::aliases::{place_key, without_legal_form};
use crate::fold::fold;
use crate::gazetteer::gazetteer;
use crate::known;
use crate::relations;
use crate::text::Text;
use crate::types::{Candidate, EntityType, Extraction, Mention, TaggedName};

/// Maximum number of bytes of a text that are read.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum number of mentions of an extraction.
pub const MAX_MENTIONS: usize = 2_000;
const MAX_NAME_BYTES: usize = 120;

/// Extracts the entities and relations of a text. `names` are the names found by a tagger. First-person statements have
/// no source unless a prefix (`Anna: I live in Bonn`) names the speaker; see [`extract_as`].
#[must_use]
pub fn extract(text: &str, names: &[TaggedName]) -> Extraction {
    extract_as(text, names, None)
}

/// Extracts like [`extract`] from a text by `speaker`: "I", "my" and "we" refer to that person, who is the source of
/// relations but not among the mentions. A prefix in the text takes precedence.
#[must_use]
pub fn extract_as(text: &str, names: &[TaggedName], speaker: Option<&str>) -> Extraction {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    let tokens = Text::new(&text[..end]);
    let names: Vec<(Range<usize>, Option<EntityType>)> =
        names.iter().filter_map(|name| Some((tokens_of(&tokens, &name.range)?, name.entity_type))).collect();
    let by_start: HashMap<usize, (usize, bool)> = names
        .iter()
        .map(|(range, kind)| (range.start, (range.end, !matches!(kind, Some(EntityType::Person | EntityType::Place)))))
        .collect();
    let mut candidates = Vec::new();
    known::candidates(&tokens, |start, end| by_start.get(&start) == Some(&(end, true)), &mut candidates);
    candidates.extend(names.into_iter().filter_map(|(range, kind)| {
        kind.map(|entity_type| Candidate { start: range.start, end: range.end, entity_type, entry: None })
    }));
    let mut chosen = choose(candidates, tokens.tokens.len());
    let is_truncated = end < text.len() || chosen.len() > MAX_MENTIONS;
    chosen.truncate(MAX_MENTIONS);
    chosen.retain(|candidate| mention(&tokens, candidate).is_some());
    let mut mentions: Vec<Mention> = chosen.iter().filter_map(|candidate| mention(&tokens, candidate)).collect();
    join_short_names(&mut mentions);
    let speaker = speaker.map(fold).filter(|name| !name.is_empty());
    let (relations, is_cut) = relations::relations(&tokens, &chosen, &mentions, speaker.as_deref());
    Extraction { mentions, relations, is_truncated: is_truncated || is_cut }
}

/// Returns the name and key of a name of this type in the word lists.
#[must_use]
pub fn known_name(name: &str, entity_type: EntityType) -> Option<(String, String)> {
    let text = Text::new(name);
    let mut found = Vec::new();
    gazetteer().matches(&text, 0, &mut found);
    let whole = found.into_iter().filter(|matched| matched.end == text.tokens.len());
    let entries = whole.map(|matched| &gazetteer().entries[matched.entry]);
    let entry = entries.into_iter().find(|entry| entry.entity_type == entity_type)?;
    Some((entry.name.to_owned(), entry.key.to_string()))
}

/// Returns the key of a name that is not in the word lists.
#[must_use]
pub fn key_of_name(name: &str, entity_type: EntityType) -> String {
    let text = Text::new(name);
    own_key(&text, 0..text.tokens.len(), entity_type)
}

pub(crate) fn own_key(text: &Text<'_>, tokens: Range<usize>, entity_type: EntityType) -> String {
    let key = text.key_of(tokens);
    match entity_type {
        EntityType::Place => place_key(key),
        EntityType::Organization => without_legal_form(&key).to_owned(),
        _ => key,
    }
}

/// Returns the tokens of a byte range; `None` if it contains none, or extends beyond a sentence or the text.
fn tokens_of(text: &Text<'_>, range: &Range<usize>) -> Option<Range<usize>> {
    let start = text.tokens.partition_point(|token| token.end <= range.start);
    let end = text.tokens.partition_point(|token| token.start < range.end);
    // A period that the tagger includes in a name is a separate mark here.
    let end = if end > start + 1 && text.folded(end - 1) == "." { end - 1 } else { end };
    let is_whole = range.end <= text.source.len() && text.get(start)?.start >= range.start;
    (start < end && is_whole && text.same_sentence(start, end - 1)).then_some(start..end)
}

/// Selects candidates without overlaps: longer ones first, then those of the lists, then earlier ones.
fn choose(mut candidates: Vec<Candidate>, tokens: usize) -> Vec<Candidate> {
    let length = |candidate: &Candidate| candidate.end - candidate.start;
    candidates.sort_by(|a, b| {
        length(b)
            .cmp(&length(a))
            .then(b.entry.is_some().cmp(&a.entry.is_some()))
            .then(a.start.cmp(&b.start))
            .then(a.entity_type.cmp(&b.entity_type))
    });
    let mut is_taken = vec![false; tokens];
    let mut chosen = Vec::new();
    for candidate in candidates {
        let Some(span) = is_taken.get_mut(candidate.start..candidate.end) else { continue };
        if span.iter().any(|taken| *taken) {
            continue;
        }
        span.fill(true);
        chosen.push(candidate);
    }
    chosen.sort_by_key(|candidate| candidate.start);
    chosen
}

fn mention(text: &Text<'_>, candidate: &Candidate) -> Option<Mention> {
    let tokens = candidate.start..candidate.end;
    let shown = text.source_of(tokens.clone());
    let start = text.get(candidate.start)?.start;
    if shown.is_empty() || shown.len() > MAX_NAME_BYTES {
        return None;
    }
    let (name, key) = match candidate.entry {
        Some(entry) => {
            let entry = &gazetteer().entries[entry];
            (entry.name.to_owned(), entry.key.to_string())
        }
        None => (single_spaced(shown), own_key(text, tokens, candidate.entity_type)),
    };
    (!key.is_empty()).then(|| Mention {
        name,
        key,
        entity_type: candidate.entity_type,
        range: start..start + shown.len(),
    })
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Expands "Anna" to "Anna Berg" if the text names exactly one Anna.
fn join_short_names(mentions: &mut [Mention]) {
    let mut full: HashMap<String, Option<String>> = HashMap::new();
    for mention in mentions.iter().filter(|mention| mention.entity_type == EntityType::Person) {
        if let Some((first, _)) = mention.key.split_once(' ') {
            full.entry(first.to_owned())
                .and_modify(|known| {
                    if known.as_deref() != Some(&*mention.key) {
                        *known = None;
                    }
                })
                .or_insert_with(|| Some(mention.key.clone()));
        }
    }
    for mention in mentions.iter_mut().filter(|mention| mention.entity_type == EntityType::Person) {
        if let Some(Some(key)) = full.get(&mention.key) {
            mention.key.clone_from(key);
        }
    }
}
