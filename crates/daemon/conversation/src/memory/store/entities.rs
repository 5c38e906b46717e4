//! Rows of entities, their relations and their mentions.

use std::collections::{BTreeMap, HashMap};

use agentd_engine::agents::{AgentId, live_agent_condition};
use agentd_store::{Args, Read, Row, StoreError, Tx, args};

use super::counts::{CountChanges, Figure};
use super::{NOT_DELETED, placeholders};
use crate::memory::model::{Entity, EntityId, Episode};

/// Entities and relations found in one episode. Ordered by key, which prevents deadlocks between transactions.
#[derive(Debug, Default)]
pub(crate) struct ExtractedEntities {
    pub entities: BTreeMap<EntityKey, ExtractedEntity>,
    /// Weights in thousandths.
    pub relations: BTreeMap<(EntityKey, EntityKey, String), i64>,
}

/// Identifies an entity independently of its spelling.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EntityKey {
    pub entity_type: String,
    pub key: String,
}

#[derive(Debug, Clone)]
pub(crate) struct ExtractedEntity {
    /// Display name.
    pub name: String,
    pub mentions: i64,
}

/// Relation in the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    pub source: EntityId,
    pub target: EntityId,
    pub relation_type: String,
    /// In thousandths.
    pub weight: i64,
}

fn entity(row: &Row) -> Result<Entity, StoreError> {
    Ok(Entity {
        number: row.get("number")?,
        id: row.get("id")?,
        name: row.get("name")?,
        entity_type: row.get("entity_type")?,
        mentions: row.get("mentions")?,
    })
}

fn relation(row: &Row) -> Result<Relation, StoreError> {
    Ok(Relation {
        source: row.get("source")?,
        target: row.get("target")?,
        relation_type: row.get("relation_type")?,
        weight: row.get("weight")?,
    })
}

/// Inserts what was found in an episode that has no entities yet, and records the extraction version.
pub(crate) async fn insert_entities(
    tx: &mut Tx,
    episode: i64,
    version: i64,
    found: &ExtractedEntities,
    counts: &mut CountChanges,
) -> Result<Vec<Entity>, StoreError> {
    let mut numbers: HashMap<&EntityKey, i64> = HashMap::new();
    let mut of_episode: HashMap<i64, i64> = HashMap::new();
    let mut entities = Vec::with_capacity(found.entities.len());
    for (key, found) in &found.entities {
        let id = EntityId::generate(tx.ids());
        let row = tx
            .fetch_one(
                "INSERT INTO entities (id, entity_type, entity_key, name, mentions) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (entity_type, entity_key) DO UPDATE SET mentions = entities.mentions + excluded.mentions \
                 RETURNING number, id, name, entity_type, mentions",
                args![id, &key.entity_type, &key.key, &found.name, found.mentions],
            )
            .await?;
        let entity = entity(&row)?;
        if i64::try_from(entity.mentions) == Ok(found.mentions) {
            counts.add(Figure::EntitiesOfType, &key.entity_type, 1);
        }
        tx.execute(
            "INSERT INTO episode_entities (episode, entity, mentions) VALUES ($1, $2, $3)",
            args![episode, entity.number, found.mentions],
        )
        .await?;
        numbers.insert(key, entity.number);
        of_episode.insert(entity.number, found.mentions);
        entities.push(entity);
    }
    for ((source, target, relation_type), weight) in &found.relations {
        let (Some(source), Some(target)) = (numbers.get(source), numbers.get(target)) else { continue };
        tx.execute(
            "INSERT INTO episode_relations (episode, source, target, relation_type, weight) \
             VALUES ($1, $2, $3, $4, $5)",
            args![episode, *source, *target, relation_type, *weight],
        )
        .await?;
        let row = tx
            .fetch_one(
                "INSERT INTO entity_relations (source, target, relation_type, weight, episodes) \
                 VALUES ($1, $2, $3, $4, 1) ON CONFLICT (source, target, relation_type) DO UPDATE \
                 SET weight = entity_relations.weight + excluded.weight, episodes = entity_relations.episodes + 1 \
                 RETURNING episodes",
                args![*source, *target, relation_type, *weight],
            )
            .await?;
        if row.get::<i64>("episodes")? == 1 {
            counts.add(Figure::Relations, "", 1);
        }
    }
    tx.execute("UPDATE episodes SET extraction = $2 WHERE number = $1", args![episode, version]).await?;
    // In the order of `attach`.
    let mentions_in_episode = |entity: &Entity| of_episode.get(&entity.number).copied().unwrap_or_default();
    entities.sort_by_key(|entity| (std::cmp::Reverse(mentions_in_episode(entity)), entity.number));
    Ok(entities)
}

/// Removes the entities and relations of an episode. Entities are changed first, in the order in which they are
/// inserted, which prevents deadlocks.
pub(crate) async fn remove_of_episode(tx: &mut Tx, episode: i64, counts: &mut CountChanges) -> Result<(), StoreError> {
    let mentioned = tx
        .fetch_all(
            "SELECT m.entity, m.mentions, e.entity_type, e.entity_key FROM episode_entities m \
             JOIN entities e ON e.number = m.entity WHERE m.episode = $1",
            args![episode],
        )
        .await?;
    let mut mentioned: Vec<(String, String, i64, i64)> = mentioned
        .iter()
        .map(|row| Ok((row.get("entity_type")?, row.get("entity_key")?, row.get("entity")?, row.get("mentions")?)))
        .collect::<Result<_, StoreError>>()?;
    mentioned.sort_unstable();
    let mut forgotten = Vec::new();
    for (entity_type, _, number, mentions) in mentioned {
        let sql = "UPDATE entities SET mentions = mentions - $2 WHERE number = $1 RETURNING mentions";
        let left = tx.fetch_optional(sql, args![number, mentions]).await?;
        if left.is_some_and(|row| row.get::<i64>("mentions").is_ok_and(|left| left <= 0)) {
            forgotten.push((number, entity_type));
        }
    }
    tx.execute("DELETE FROM episode_entities WHERE episode = $1", args![episode]).await?;
    remove_relations(tx, episode, counts).await?;
    for (number, entity_type) in forgotten {
        tx.execute("DELETE FROM entities WHERE number = $1", args![number]).await?;
        counts.add(Figure::EntitiesOfType, &entity_type, -1);
    }
    Ok(())
}

/// Removes the relations of an episode. Both entities of a relation are locked before, so no other transaction changes
/// it.
async fn remove_relations(tx: &mut Tx, episode: i64, counts: &mut CountChanges) -> Result<(), StoreError> {
    let relations = tx
        .fetch_all(
            "DELETE FROM episode_relations WHERE episode = $1 RETURNING source, target, relation_type, weight",
            args![episode],
        )
        .await?;
    for row in relations {
        let (source, target): (i64, i64) = (row.get("source")?, row.get("target")?);
        let (relation_type, weight): (String, i64) = (row.get("relation_type")?, row.get("weight")?);
        let row = tx
            .fetch_optional(
                "UPDATE entity_relations SET weight = weight - $4, episodes = episodes - 1 \
                 WHERE source = $1 AND target = $2 AND relation_type = $3 RETURNING episodes",
                args![source, target, &relation_type, weight],
            )
            .await?;
        if row.is_some_and(|row| row.get::<i64>("episodes").is_ok_and(|left| left <= 0)) {
            let sql = "DELETE FROM entity_relations WHERE source = $1 AND target = $2 AND relation_type = $3";
            tx.execute(sql, args![source, target, &relation_type]).await?;
            counts.add(Figure::Relations, "", -1);
        }
    }
    Ok(())
}

/// Loads the entities of episodes, most mentioned first.
pub(crate) async fn attach(read: &mut Read, episodes: &mut [Episode]) -> Result<(), StoreError> {
    // Stays well below the parameter limit of the databases.
    for batch in episodes.chunks_mut(500) {
        let mut args = Args::new();
        let placeholders = placeholders(&mut args, batch.iter().map(|episode| episode.number));
        let sql = format!(
            "SELECT m.episode, e.number, e.id, e.name, e.entity_type, e.mentions FROM episode_entities m \
             JOIN entities e ON e.number = m.entity WHERE m.episode IN ({placeholders}) \
             ORDER BY m.episode, m.mentions DESC, e.number"
        );
        if batch.is_empty() {
            continue;
        }
        let mut of_episode: HashMap<i64, Vec<Entity>> = HashMap::new();
        for row in read.fetch_all(sql, args).await? {
            of_episode.entry(row.get("episode")?).or_default().push(entity(&row)?);
        }
        for episode in batch {
            episode.entities = of_episode.remove(&episode.number).unwrap_or_default();
        }
    }
    Ok(())
}

/// Returns the most mentioned entities and the heaviest relations among them.
pub(crate) async fn graph(
    read: &mut Read,
    entity_limit: u32,
    relation_limit: u32,
) -> Result<(Vec<Entity>, Vec<Relation>), StoreError> {
    let rows = read
        .fetch_all(
            "SELECT number, id, name, entity_type, mentions FROM entities ORDER BY mentions DESC, number LIMIT $1",
            args![entity_limit],
        )
        .await?;
    let entities = rows.iter().map(entity).collect::<Result<Vec<_>, _>>()?;
    let selected = "(SELECT number FROM entities ORDER BY mentions DESC, number LIMIT $1)";
    let sql = format!(
        "SELECT s.id AS source, t.id AS target, r.relation_type, r.weight FROM entity_relations r \
         JOIN entities s ON s.number = r.source JOIN entities t ON t.number = r.target \
         WHERE r.source IN {selected} AND r.target IN {selected} \
         ORDER BY r.weight DESC, r.source, r.target, r.relation_type LIMIT $2"
    );
    let rows = read.fetch_all(sql, args![entity_limit, relation_limit]).await?;
    Ok((entities, rows.iter().map(relation).collect::<Result<_, StoreError>>()?))
}

/// Returns entities after a number, oldest first.
pub(crate) async fn entities_after(read: &mut Read, after: i64, limit: u32) -> Result<Vec<Entity>, StoreError> {
    let sql = "SELECT number, id, name, entity_type, mentions FROM entities WHERE number > $1 ORDER BY number LIMIT $2";
    read.fetch_all(sql, args![after, limit]).await?.iter().map(entity).collect()
}

/// Sort key of a relation.
#[derive(Debug, Clone, Default)]
pub(crate) struct RelationPlace {
    pub source: i64,
    pub target: i64,
    relation_type: String,
}

/// Returns relations after a sort key, in order.
pub(crate) async fn relations_after(
    read: &mut Read,
    after: &RelationPlace,
    limit: u32,
) -> Result<Vec<(RelationPlace, Relation)>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT r.source AS source_number, r.target AS target_number, s.id AS source, t.id AS target, \
             r.relation_type, r.weight FROM entity_relations r \
             JOIN entities s ON s.number = r.source JOIN entities t ON t.number = r.target \
             WHERE (r.source, r.target, r.relation_type) > ($1, $2, $3) \
             ORDER BY r.source, r.target, r.relation_type LIMIT $4",
            args![after.source, after.target, &after.relation_type, limit],
        )
        .await?;
    let place_of = |row: &Row| {
        let relation = relation(row)?;
        let (source, target) = (row.get("source_number")?, row.get("target_number")?);
        Ok((RelationPlace { source, target, relation_type: relation.relation_type.clone() }, relation))
    };
    rows.iter().map(place_of).collect()
}

/// Returns up to `limit` of the newest episodes that share entities with one, and the number of shared entities. Very
/// frequently mentioned entities are ignored as uninformative.
pub(crate) async fn sharing_entities(read: &mut Read, episode: i64, limit: u32) -> Result<Vec<(i64, i64)>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT other.episode, COUNT(*) AS shared FROM episode_entities mine \
             JOIN entities e ON e.number = mine.entity AND e.mentions <= 2000 \
             JOIN episode_entities other ON other.entity = mine.entity AND other.episode <> mine.episode \
             WHERE mine.episode = $1 GROUP BY other.episode ORDER BY shared DESC, other.episode DESC LIMIT $2",
            args![episode, limit],
        )
        .await?;
    rows.iter().map(|row| Ok((row.get("episode")?, row.get("shared")?))).collect()
}

/// Returns number and content of episodes with an older extraction version, oldest first.
pub(crate) async fn list_not_extracted(
    read: &mut Read,
    version: i64,
    after: i64,
    limit: u32,
) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = read
        .fetch_all(
            format!(
                "SELECT number, content FROM episodes WHERE extraction < $1 AND number > $2 AND {NOT_DELETED} \
                 ORDER BY number LIMIT $3"
            ),
            args![version, after, limit],
        )
        .await?;
    rows.iter().map(|row| Ok((row.get("number")?, row.get("content")?))).collect()
}

pub(crate) async fn count_not_extracted(read: &mut Read, version: i64) -> Result<u64, StoreError> {
    let sql = format!("SELECT COUNT(*) FROM episodes WHERE extraction < $1 AND {NOT_DELETED}");
    read.fetch_one(sql, args![version]).await?.first()
}

/// Returns number, agent and content of the oldest such episode of an existing agent that is not among `others`.
pub(crate) async fn find_not_extracted_of_agents(
    read: &mut Read,
    version: i64,
    others: &[AgentId],
) -> Result<Option<(i64, AgentId, String)>, StoreError> {
    let mut args = Args::new();
    let version = args.push(version);
    let not_of = others.iter().map(|other| format!("AND agent_id <> ${}", args.push(other))).collect::<String>();
    let sql = format!(
        "SELECT number, agent_id, content FROM episodes WHERE extraction < ${version} AND agent_id IS NOT NULL \
         {not_of} AND {} ORDER BY number LIMIT 1",
        live_agent_condition("episodes.agent_id")
    );
    let row = read.fetch_optional(sql, args).await?;
    row.map(|row| Ok((row.get("number")?, row.get("agent_id")?, row.get("content")?))).transpose()
}

/// Replaces the entities of an older extraction version; returns `false` if the episode was deleted or already has this
/// version.
pub(crate) async fn replace_entities(
    tx: &mut Tx,
    episode: i64,
    version: i64,
    found: &ExtractedEntities,
) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM episodes WHERE number = $1 AND extraction < $2 AND {NOT_DELETED}");
    if tx.fetch_optional(sql, args![episode, version]).await?.is_none() {
        return Ok(false);
    }
    let mut counts = CountChanges::default();
    remove_of_episode(tx, episode, &mut counts).await?;
    insert_entities(tx, episode, version, found, &mut counts).await?;
    counts.write(tx).await?;
    Ok(true)
}

/// Records a newer extraction version without changing the entities.
pub(crate) async fn confirm_extraction(tx: &mut Tx, episode: i64, version: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE episodes SET extraction = $2 WHERE number = $1 AND extraction < $2", args![episode, version])
        .await
        .map(|_| ())
}
