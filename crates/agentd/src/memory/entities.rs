//! What the rules for entities find, as rows know it.

use agentd_entities::{EntityRef, extract};

use super::store::entities::{EntityKey, Found, FoundEntity};

/// Raised when the rules find something else than before; what was gone over by older ones can then be
/// gone over again.
pub(super) const RULES: i64 = 2;
/// What was gone over by a model, whatever the rules are.
pub(super) const BY_MODEL: i64 = 1_000;
/// More of one episode would tell nothing any more.
const MOST_ENTITIES: usize = 100;
const MOST_RELATIONS: usize = 200;

pub(super) fn find_entities(text: &str) -> Found {
    let extraction = extract(text);
    let mut found = Found::default();
    for mention in extraction.mentions {
        let key = EntityKey { entity_type: mention.entity_type.as_str().to_owned(), key: mention.key };
        if found.entities.len() >= MOST_ENTITIES && !found.entities.contains_key(&key) {
            continue;
        }
        let entity = found.entities.entry(key).or_insert_with(|| FoundEntity { name: mention.name, mentions: 0 });
        entity.mentions += 1;
    }
    for relation in extraction.relations {
        let end = |end: EntityRef| EntityKey { entity_type: end.entity_type.as_str().to_owned(), key: end.key };
        let (source, target) = (end(relation.source), end(relation.target));
        let is_known = found.entities.contains_key(&source) && found.entities.contains_key(&target);
        if !is_known || source == target || found.relations.len() >= MOST_RELATIONS {
            continue;
        }
        #[allow(clippy::cast_possible_truncation, reason = "a small weight")]
        let thousandths = (relation.weight * 1e3).round() as i64;
        let weight = found.relations.entry((source, target, relation.relation_type.as_str().to_owned())).or_default();
        *weight += thousandths.max(1);
    }
    found
}
