//! Entities in a text as rows store them: from the names that the tagger found, and word lists.

use agentd_entities::{EntityRef, TaggedName, extract};

use super::store::entities::{EntityKey, Found, FoundEntity};

/// Raised when tagger, lists or relations find something else than before; what was extracted by an older version can
/// then be extracted again.
pub(super) const TAGGER_VERSION: i64 = 3;
/// Version of what a model extracted, which no newer tagger replaces.
pub(super) const BY_MODEL: i64 = 1_000;
/// Maximum number of entities of an episode.
const MAX_ENTITIES: usize = 100;
/// Maximum number of relations of an episode.
const MAX_RELATIONS: usize = 200;

pub(super) fn find_entities(text: &str, names: &[TaggedName]) -> Found {
    let extraction = extract(text, names);
    let mut found = Found::default();
    for mention in extraction.mentions {
        let key = EntityKey { entity_type: mention.entity_type.as_str().to_owned(), key: mention.key };
        if found.entities.len() >= MAX_ENTITIES && !found.entities.contains_key(&key) {
            continue;
        }
        let entity = found.entities.entry(key).or_insert_with(|| FoundEntity { name: mention.name, mentions: 0 });
        entity.mentions += 1;
    }
    for relation in extraction.relations {
        let end = |end: EntityRef| EntityKey { entity_type: end.entity_type.as_str().to_owned(), key: end.key };
        let (source, target) = (end(relation.source), end(relation.target));
        let is_known = found.entities.contains_key(&source) && found.entities.contains_key(&target);
        if !is_known || source == target || found.relations.len() >= MAX_RELATIONS {
            continue;
        }
        #[allow(clippy::cast_possible_truncation, reason = "a small weight")]
        let thousandths = (relation.weight * 1e3).round() as i64;
        let weight = found.relations.entry((source, target, relation.relation_type.as_str().to_owned())).or_default();
        *weight += thousandths.max(1);
    }
    found
}
