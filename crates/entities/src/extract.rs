//! From a text to its entities: every rule proposes candidates, the longest of them stand, and among
//! equals the surest.

use std::collections::HashMap;

use crate::dates;
use crate::evidence;
use crate::fold::fold;
use crate::gazetteer::gazetteer;
use crate::organizations;
use crate::persons;
use crate::places;
use crate::relations;
use crate::scene::{Candidate, Naming, Scene};
use crate::text::Text;
use crate::types::{EntityType, Extraction, Mention};

/// What is read of a text; the rest is left out.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// How many mentions an extraction may have; the rest is left out.
pub const MAX_MENTIONS: usize = 2_000;
/// How many relations an extraction may have; the weakest are left out.
pub const MAX_RELATIONS: usize = 2_000;
/// What is longer is no name.
const MAX_NAME_BYTES: usize = 120;

const DATE_CONFIDENCE: u8 = 70;
const LONE_MONTH_CONFIDENCE: u8 = 55;

/// Finds the entities of a text and how they are related. Statements in the first person have no
/// source unless a prefix (`Anna: I live in Bonn`) says who speaks; see [`extract_as`].
#[must_use]
pub fn extract(text: &str) -> Extraction {
    extract_as(text, None)
}

/// As [`extract`], of what `speaker` said: "I", "my" and "we" are that person, who is then the source
/// of relations without being among the mentions. A prefix in the text wins.
#[must_use]
pub fn extract_as(text: &str, speaker: Option<&str>) -> Extraction {
    extract_from(text, speaker).1
}

/// As [`extract_as`], with the tokens for those who need them too.
pub(crate) fn extract_from<'a>(text: &'a str, speaker: Option<&str>) -> (Text<'a>, Extraction) {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let tokens = Text::new(&text[..end]);
    let scene = Scene::new(&tokens);
    let mut candidates = Vec::new();
    evidence::candidates(&scene, &mut candidates);
    persons::candidates(&scene, &mut candidates);
    organizations::candidates(&scene, &mut candidates);
    places::candidates(&scene, &mut candidates);
    date_candidates(&tokens, &mut candidates);
    let mut chosen = choose(candidates, tokens.tokens.len());
    let is_truncated = end < text.len() || chosen.len() > MAX_MENTIONS;
    chosen.truncate(MAX_MENTIONS);
    let mut mentions: Vec<Mention> = chosen.iter().filter_map(|candidate| mention(&tokens, candidate)).collect();
    chosen.retain(|candidate| mention(&tokens, candidate).is_some());
    join_short_names(&mut mentions);
    let speaker = speaker.map(fold).filter(|name| !name.is_empty());
    let (relations, is_cut) = relations::relations(&scene, &chosen, &mentions, speaker.as_deref());
    (tokens, Extraction { mentions, relations, is_truncated: is_truncated || is_cut })
}

fn date_candidates(text: &Text<'_>, into: &mut Vec<Candidate>) {
    for start in 0..text.tokens.len() {
        let Some(found) = dates::date_at(text, start) else { continue };
        let is_lone_month = found.key.len() == "--05".len() && found.key.starts_with("--");
        into.push(Candidate {
            start,
            end: found.end,
            end_byte: found.end_byte,
            entity_type: EntityType::Date,
            confidence: if is_lone_month { LONE_MONTH_CONFIDENCE } else { DATE_CONFIDENCE },
            naming: Naming::Key(found.key),
        });
    }
}

/// Keeps candidates that do not overlap: the longer first, then the surer, then the earlier.
fn choose(mut candidates: Vec<Candidate>, tokens: usize) -> Vec<Candidate> {
    let length = |candidate: &Candidate| candidate.end - candidate.start;
    candidates.sort_by(|a, b| {
        length(b)
            .cmp(&length(a))
            .then(b.confidence.cmp(&a.confidence))
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
    let shown = text.source_of(candidate.start..candidate.end);
    let start = text.get(candidate.start)?.start;
    let end = candidate.end_byte.unwrap_or(start + shown.len());
    let shown = text.source.get(start..end)?;
    if shown.is_empty() || shown.len() > MAX_NAME_BYTES {
        return None;
    }
    let (name, key) = match &candidate.naming {
        Naming::Entry(entry) => {
            let entry = &gazetteer().entries[*entry];
            (entry.name.to_string(), entry.key.to_string())
        }
        Naming::TextFrom(first) => (single_spaced(shown), text.key_of(*first..candidate.end)),
        Naming::Key(key) => (single_spaced(shown), key.clone()),
    };
    Some(Mention { name, key, entity_type: candidate.entity_type, range: start..end })
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// "Anna" is "Anna Berg" where the text knows one Anna alone.
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
