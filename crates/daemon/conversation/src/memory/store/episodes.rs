//! Rows of episodes and their vectors.

use std::collections::{BTreeMap, HashMap};

use agentd_base::{Page, Timestamp, sha256};
use agentd_engine::agents::AgentId;
use agentd_entities::Wording;
use agentd_store::{Args, Read, Row, StoreError, Tx, args};

use super::counts::{CountChanges, count_episodes};
use super::{EPISODES, NOT_DELETED, entities, facts, placeholders};
use crate::memory::model::{Episode, EpisodeId, Millionths};

const COLUMNS: &str = "number, id, agent_id, source, content, summary, topics, importance, valence, access_count, \
                       superseded_by, is_untrusted, occurred_at, created_at, updated_at";

/// Tenth that the importance falls into; must match [`crate::memory::model::importance_bucket`].
pub(super) const BUCKET: &str = "CASE WHEN importance >= 1000000 THEN 9 ELSE importance / 100000 END";

/// Stays well below the parameter limit of the databases.
const BATCH: usize = 500;

fn episode(row: &Row) -> Result<Episode, StoreError> {
    Ok(Episode {
        number: row.get("number")?,
        id: row.get("id")?,
        agent_id: row.get("agent_id")?,
        source: row.get("source")?,
        content: row.get("content")?,
        summary: row.get("summary")?,
        topics: row.json("topics")?,
        importance: Millionths(row.get("importance")?),
        valence: Millionths(row.get("valence")?),
        access_count: row.get("access_count")?,
        superseded_by: row.get("superseded_by")?,
        is_untrusted: row.get("is_untrusted")?,
        occurred_at: row.get("occurred_at")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        entities: Vec::new(),
    })
}

/// Inserts an episode, sets its number and counts it; returns `false` if one with the same origin exists.
pub(crate) async fn insert_episode(
    tx: &mut Tx,
    episode: &mut Episode,
    origin: Option<&str>,
    counts: &mut CountChanges,
) -> Result<bool, StoreError> {
    let inserted = tx
        .fetch_optional(
            "INSERT INTO episodes (id, agent_id, source, origin, content, summary, topics, importance, valence, \
             access_count, extraction, occurred_at, created_at, updated_at, touched_at, is_untrusted, wording) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0, $10, $11, $12, $11, $13, $14) \
             ON CONFLICT (origin) DO NOTHING RETURNING number",
            args![
                &episode.id,
                episode.agent_id.as_ref().map(AgentId::as_str),
                &episode.source,
                origin,
                &episode.content,
                episode.summary.as_deref(),
                serde_json::Value::from(episode.topics.clone()),
                episode.importance.0,
                episode.valence.0,
                episode.occurred_at,
                episode.created_at,
                episode.updated_at,
                episode.is_untrusted,
                hash_wording(&Wording::of(&episode.content))
            ],
        )
        .await?;
    let Some(row) = inserted else { return Ok(false) };
    episode.number = row.get("number")?;
    counts.episode(episode, 1);
    tx.log_change(EPISODES, Some(episode.number)).await?;
    Ok(true)
}

pub(crate) async fn find_episode(read: &mut Read, id: &EpisodeId) -> Result<Option<Episode>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE id = $1 AND {NOT_DELETED}");
    let Some(row) = read.fetch_optional(sql, args![id]).await? else { return Ok(None) };
    let mut found = vec![episode(&row)?];
    entities::attach(read, &mut found).await?;
    Ok(found.pop())
}

/// Returns episodes in the order of `numbers`, without deleted ones.
pub(crate) async fn episodes_by_number(read: &mut Read, numbers: &[i64]) -> Result<Vec<Episode>, StoreError> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let placeholders = placeholders(&mut args, numbers.iter().copied());
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE number IN ({placeholders}) AND {NOT_DELETED}");
    let rows = read.fetch_all(sql, args).await?;
    let mut found = rows.iter().map(episode).collect::<Result<Vec<_>, _>>()?;
    found.sort_by_key(|episode| numbers.iter().position(|number| *number == episode.number));
    entities::attach(read, &mut found).await?;
    Ok(found)
}

/// Returns the ids of episodes by number, without deleted ones.
pub(crate) async fn ids_by_number(read: &mut Read, numbers: &[i64]) -> Result<HashMap<i64, EpisodeId>, StoreError> {
    let mut ids = HashMap::with_capacity(numbers.len());
    for batch in numbers.chunks(BATCH) {
        let mut args = Args::new();
        let placeholders = placeholders(&mut args, batch.iter().copied());
        let sql = format!("SELECT number, id FROM episodes WHERE number IN ({placeholders}) AND {NOT_DELETED}");
        for row in read.fetch_all(sql, args).await? {
            ids.insert(row.get("number")?, row.get("id")?);
        }
    }
    Ok(ids)
}

/// Returns whether an agent can recall anything: an episode of its own or of the owner.
pub(crate) async fn has_any_for(read: &mut Read, agent: &AgentId) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM episodes WHERE (agent_id = $1 OR agent_id IS NULL) AND {NOT_DELETED} LIMIT 1");
    Ok(read.fetch_optional(sql, args![agent]).await?.is_some())
}

/// Returns the first `characters` of the contents of episodes, by number.
pub(crate) async fn list_beginnings(
    read: &mut Read,
    numbers: &[i64],
    characters: u32,
) -> Result<BTreeMap<i64, String>, StoreError> {
    let mut list_beginnings = BTreeMap::new();
    for batch in numbers.chunks(BATCH) {
        let mut args = Args::new();
        let placeholders = placeholders(&mut args, batch.iter().copied());
        let sql = format!(
            "SELECT number, substr(content, 1, {characters}) AS beginning FROM episodes \
             WHERE number IN ({placeholders}) AND {NOT_DELETED}"
        );
        for row in read.fetch_all(sql, args).await? {
            list_beginnings.insert(row.get("number")?, row.get("beginning")?);
        }
    }
    Ok(list_beginnings)
}

/// Columns of an episode that are indexed.
#[derive(Debug)]
pub(crate) struct IndexedRow {
    pub number: i64,
    pub agent_id: Option<String>,
    pub source: String,
    pub content: String,
    pub embedding_model: Option<String>,
    pub occurred_at: Timestamp,
}

fn indexed(row: &Row) -> Result<IndexedRow, StoreError> {
    Ok(IndexedRow {
        number: row.get("number")?,
        agent_id: row.get("agent_id")?,
        source: row.get("source")?,
        content: row.get("content")?,
        embedding_model: row.get("embedding_model")?,
        occurred_at: row.get("occurred_at")?,
    })
}

const INDEXED: &str = "number, agent_id, source, content, embedding_model, occurred_at";

/// Returns those of `numbers` that exist, in ascending order.
pub(crate) async fn indexed_rows(read: &mut Read, numbers: &[i64]) -> Result<Vec<IndexedRow>, StoreError> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let placeholders = placeholders(&mut args, numbers.iter().copied());
    let sql =
        format!("SELECT {INDEXED} FROM episodes WHERE number IN ({placeholders}) AND {NOT_DELETED} ORDER BY number");
    read.fetch_all(sql, args).await?.iter().map(indexed).collect()
}

/// Returns a page of all episodes in ascending order.
pub(crate) async fn indexed_rows_after(read: &mut Read, after: i64, limit: u32) -> Result<Vec<IndexedRow>, StoreError> {
    let sql = format!("SELECT {INDEXED} FROM episodes WHERE number > $1 AND {NOT_DELETED} ORDER BY number LIMIT $2");
    read.fetch_all(sql, args![after, limit]).await?.iter().map(indexed).collect()
}

/// Returns a page of episodes, newest first.
pub(crate) async fn list_episodes(
    read: &mut Read,
    agent: Option<&str>,
    page: Page,
) -> Result<Vec<Episode>, StoreError> {
    let mut args = Args::new();
    let of_agent = agent.map_or_else(String::new, |agent| format!("agent_id = ${} AND", args.push(agent)));
    let (limit, offset) = (args.push(page.limit), args.push(page.offset));
    let sql = format!(
        "SELECT {COLUMNS} FROM episodes WHERE {of_agent} {NOT_DELETED} ORDER BY number DESC LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = read.fetch_all(sql, args).await?;
    let mut found = rows.iter().map(episode).collect::<Result<Vec<_>, _>>()?;
    entities::attach(read, &mut found).await?;
    Ok(found)
}

/// Returns a page of all episodes, oldest first, for exports.
pub(crate) async fn episodes_after(read: &mut Read, after: i64, limit: u32) -> Result<Vec<Episode>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE number > $1 AND {NOT_DELETED} ORDER BY number LIMIT $2");
    let rows = read.fetch_all(sql, args![after, limit]).await?;
    let mut found = rows.iter().map(episode).collect::<Result<Vec<_>, _>>()?;
    entities::attach(read, &mut found).await?;
    Ok(found)
}

/// Returns the oldest episodes of an agent, which may be deleted.
pub(crate) async fn list_of_agent(read: &mut Read, agent: &AgentId, limit: u32) -> Result<Vec<Episode>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE agent_id = $1 ORDER BY number LIMIT $2");
    read.fetch_all(sql, args![agent, limit]).await?.iter().map(episode).collect()
}

/// Returns the numbers of an agent's episodes for the change log.
pub(crate) async fn list_numbers(read: &mut Read, agent: &AgentId) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT number FROM episodes WHERE agent_id = $1 ORDER BY number";
    read.fetch_all(sql, args![agent]).await?.iter().map(|row| row.get("number")).collect()
}

/// Deletes an episode with its dependent rows; returns whether it existed.
pub(crate) async fn delete_episode(tx: &mut Tx, episode: &Episode) -> Result<bool, StoreError> {
    let mut counts = CountChanges::default();
    entities::remove_of_episode(tx, episode.number, &mut counts).await?;
    if !delete_uncounted(tx, episode).await? {
        return Ok(false);
    }
    counts.episode(episode, -1);
    counts.write(tx).await?;
    Ok(true)
}

/// Deletes an episode that counters and entities no longer include.
pub(crate) async fn delete_uncounted(tx: &mut Tx, episode: &Episode) -> Result<bool, StoreError> {
    facts::remove_facts(tx, episode).await?;
    tx.execute("DELETE FROM episode_vectors WHERE episode = $1", args![episode.number]).await?;
    if tx.execute("DELETE FROM episodes WHERE number = $1", args![episode.number]).await? == 0 {
        return Ok(false);
    }
    tx.log_change(EPISODES, Some(episode.number)).await?;
    Ok(true)
}

/// Deletes everything and returns the number of episodes.
pub(crate) async fn delete_all(tx: &mut Tx) -> Result<u64, StoreError> {
    for table in
        ["episode_relations", "entity_relations", "episode_entities", "entities", "episode_vectors", "episode_facts"]
    {
        tx.execute(format!("DELETE FROM {table}"), args![]).await?;
    }
    // Excludes episodes of deleted agents.
    let deleted = count_episodes(tx, None).await?;
    tx.execute("DELETE FROM episodes", args![]).await?;
    // Recall statistics would otherwise be the only remaining trace of deleted episodes.
    tx.execute("DELETE FROM memory_counts", args![]).await?;
    // Messages from before the deletion are never processed again, so their origins are not needed.
    tx.execute("DELETE FROM memory_forgotten", args![]).await?;
    tx.log_change(EPISODES, None).await?;
    Ok(deleted)
}

/// Returns episodes in the order of `ids`, without deleted ones and without their entities.
pub(crate) async fn episodes_by_id(read: &mut Read, ids: &[String]) -> Result<Vec<Episode>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let placeholders = placeholders(&mut args, ids.iter().map(String::as_str));
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE id IN ({placeholders}) AND {NOT_DELETED}");
    let rows = read.fetch_all(sql, args).await?;
    let mut found = rows.iter().map(episode).collect::<Result<Vec<_>, _>>()?;
    found.sort_by_key(|episode| ids.iter().position(|id| id == episode.id.as_str()));
    Ok(found)
}

/// Returns the episode with this origin, if any, without its entities.
pub(crate) async fn find_by_origin(read: &mut Read, origin: &str) -> Result<Option<Episode>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE origin = $1");
    read.fetch_optional(sql, args![origin]).await?.as_ref().map(episode).transpose()
}

/// Returns `None` for a text without words.
fn hash_wording(wording: &Wording) -> Option<i64> {
    let hash = sha256(wording.as_str().as_bytes());
    (!wording.as_str().is_empty()).then(|| i64::from_le_bytes(hash.first_chunk().copied().unwrap_or_default()))
}

/// Finds the oldest episode of the agent that has the same words and is not outdated; with `before`, one with a smaller
/// number.
pub(crate) async fn find_repeated(
    read: &mut Read,
    agent: &AgentId,
    content: &str,
    before: Option<i64>,
) -> Result<Option<i64>, StoreError> {
    let wording = Wording::of(content);
    let Some(hash) = hash_wording(&wording) else { return Ok(None) };
    let sql = format!(
        "SELECT number, content FROM episodes \
         WHERE agent_id = $1 AND wording = $2 AND number < $3 AND superseded_by IS NULL AND {NOT_DELETED} \
         ORDER BY number LIMIT 1"
    );
    let args = args![agent, hash, before.unwrap_or(i64::MAX)];
    let Some(row) = read.fetch_optional(sql, args).await? else { return Ok(None) };
    // Two texts may have the same hash.
    let content: String = row.get("content")?;
    if wording.repeats(&Wording::of(&content)) { row.get("number").map(Some) } else { Ok(None) }
}

/// Merges a repeated text into an episode, which counts as recalled and keeps the higher importance. Returns `false` if
/// the episode is gone.
pub(crate) async fn merge_into(tx: &mut Tx, number: i64, importance: Millionths) -> Result<bool, StoreError> {
    let sql = format!("SELECT importance FROM episodes WHERE number = $1 AND {NOT_DELETED}");
    let Some(row) = tx.fetch_optional(sql, args![number]).await? else { return Ok(false) };
    let before = Millionths(row.get("importance")?);
    let after = before.max(importance);
    let now = tx.clock().now();
    tx.execute(
        "UPDATE episodes SET access_count = access_count + 1, importance = $2, updated_at = $3, touched_at = $3 \
         WHERE number = $1",
        args![number, after.0, now],
    )
    .await?;
    let mut counts = CountChanges::default();
    counts.importance(before, -1);
    counts.importance(after, 1);
    counts.write(tx).await?;
    Ok(true)
}

/// Returns episodes from conversations and insights, which are compared with earlier ones.
pub(crate) async fn list_comparable(read: &mut Read, after: i64, limit: u32) -> Result<Vec<Episode>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM episodes WHERE number > $1 AND source IN ('conversation', 'insight') AND {NOT_DELETED} \
         ORDER BY number LIMIT $2"
    );
    read.fetch_all(sql, args![after, limit]).await?.iter().map(episode).collect()
}

/// Returns episodes that were not stored, recalled or changed since a time, the longest untouched first.
pub(crate) async fn list_untouched_since(
    read: &mut Read,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<Episode>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM episodes WHERE touched_at < $1 AND {NOT_DELETED} ORDER BY touched_at, number LIMIT $2"
    );
    read.fetch_all(sql, args![since, limit]).await?.iter().map(episode).collect()
}

/// Returns automatically stored episodes below an importance. Episodes of hooks are excluded, because the owner
/// configured them.
pub(crate) async fn list_unimportant(
    read: &mut Read,
    importance: Millionths,
    limit: u32,
) -> Result<Vec<Episode>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM episodes \
         WHERE origin IS NOT NULL AND source <> 'hook' AND importance < $1 AND {NOT_DELETED} \
         ORDER BY importance, number LIMIT $2"
    );
    read.fetch_all(sql, args![importance.0, limit]).await?.iter().map(episode).collect()
}

/// Returns whether an episode selected for deletion still qualifies.
pub(crate) async fn is_still_expired(
    read: &mut Read,
    number: i64,
    min_importance: Millionths,
    untouched_since: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let row = read
        .fetch_optional(
            format!(
                "SELECT 1 FROM episodes WHERE number = $1 \
                 AND ((origin IS NOT NULL AND source <> 'hook' AND importance < $2) OR touched_at < $3) \
                  AND {NOT_DELETED}"
            ),
            args![number, min_importance.0, untouched_since.unwrap_or(Timestamp::from_micros(0))],
        )
        .await?;
    Ok(row.is_some())
}

/// Vectors are stored as little-endian 32-bit floats.
fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Replaces the vectors of an episode.
pub(crate) async fn replace_vectors(
    tx: &mut Tx,
    episode: i64,
    model: &str,
    vectors: &[Vec<f32>],
) -> Result<(), StoreError> {
    tx.execute("DELETE FROM episode_vectors WHERE episode = $1", args![episode]).await?;
    for (part, vector) in vectors.iter().enumerate() {
        let part = i64::try_from(part).unwrap_or(i64::MAX);
        tx.execute(
            "INSERT INTO episode_vectors (episode, part, vector) VALUES ($1, $2, $3)",
            args![episode, part, to_bytes(vector)],
        )
        .await?;
    }
    tx.execute("UPDATE episodes SET embedding_model = $2 WHERE number = $1", args![episode, model]).await?;
    Ok(())
}

/// Returns the vectors of episodes, ordered by `(episode, part)`.
pub(crate) async fn vectors_of(read: &mut Read, episodes: &[i64]) -> Result<Vec<(i64, Vec<f32>)>, StoreError> {
    if episodes.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let placeholders = placeholders(&mut args, episodes.iter().copied());
    let sql =
        format!("SELECT episode, vector FROM episode_vectors WHERE episode IN ({placeholders}) ORDER BY episode, part");
    let rows = read.fetch_all(sql, args).await?;
    rows.iter().map(|row| Ok((row.get("episode")?, from_bytes(&row.get::<Vec<u8>>("vector")?)))).collect()
}

/// Returns number and content of episodes without vectors of `model`, oldest first.
pub(crate) async fn list_without_vectors(
    read: &mut Read,
    model: &str,
    limit: u32,
) -> Result<Vec<(i64, String)>, StoreError> {
    // Three ranges of one index; `<>` would scan all rows.
    let rows = read
        .fetch_all(
            format!(
                "SELECT number, content FROM episodes WHERE number IN (\
                 SELECT number FROM episodes WHERE embedding_model IS NULL AND {NOT_DELETED} \
                 UNION ALL SELECT number FROM episodes WHERE embedding_model < $1 AND {NOT_DELETED} \
                 UNION ALL SELECT number FROM episodes WHERE embedding_model > $1 AND {NOT_DELETED} LIMIT $2) \
                 ORDER BY number"
            ),
            args![model, limit],
        )
        .await?;
    rows.iter().map(|row| Ok((row.get("number")?, row.get("content")?))).collect()
}

/// Returns the number of episodes without vectors of `model`.
pub(crate) async fn count_without_vectors(read: &mut Read, model: &str) -> Result<u64, StoreError> {
    let row = read
        .fetch_one(
            format!(
                "SELECT (SELECT COUNT(*) FROM episodes WHERE embedding_model IS NULL AND {NOT_DELETED}) \
                 + (SELECT COUNT(*) FROM episodes WHERE embedding_model < $1 AND {NOT_DELETED}) \
                 + (SELECT COUNT(*) FROM episodes WHERE embedding_model > $1 AND {NOT_DELETED})"
            ),
            args![model],
        )
        .await?;
    row.first()
}

/// Returns whether an episode exists.
pub(crate) async fn exists(read: &mut Read, episode: i64) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT 1 FROM episodes WHERE number = $1", args![episode]).await?;
    Ok(row.is_some())
}

/// Returns the model of the newest embedded episode.
pub(crate) async fn newest_model(read: &mut Read) -> Result<Option<String>, StoreError> {
    let sql = "SELECT embedding_model FROM episodes WHERE embedding_model IS NOT NULL ORDER BY number DESC LIMIT 1";
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("embedding_model")).transpose()
}
