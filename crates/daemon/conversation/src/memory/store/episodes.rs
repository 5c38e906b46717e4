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

/// Which of ten equal parts the importance lies in, as [`crate::memory::model::importance_bucket`] says.
pub(super) const BUCKET: &str = "CASE WHEN importance >= 1000000 THEN 9 ELSE importance / 100000 END";

/// Well below what the databases take as parameters.
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

/// Adds the row, gives the episode its number, and counts it; `false` when something with the same
/// origin is there already.
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

/// In the order of `numbers`; those that are gone are left out.
pub(crate) async fn episodes_by_number(read: &mut Read, numbers: &[i64]) -> Result<Vec<Episode>, StoreError> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let places = placeholders(&mut args, numbers.iter().copied());
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE number IN ({places}) AND {NOT_DELETED}");
    let rows = read.fetch_all(sql, args).await?;
    let mut found = rows.iter().map(episode).collect::<Result<Vec<_>, _>>()?;
    found.sort_by_key(|episode| numbers.iter().position(|number| *number == episode.number));
    entities::attach(read, &mut found).await?;
    Ok(found)
}

/// The ids of episodes, by their numbers; those that are gone are left out.
pub(crate) async fn ids_by_number(read: &mut Read, numbers: &[i64]) -> Result<HashMap<i64, EpisodeId>, StoreError> {
    let mut ids = HashMap::with_capacity(numbers.len());
    for batch in numbers.chunks(BATCH) {
        let mut args = Args::new();
        let places = placeholders(&mut args, batch.iter().copied());
        let sql = format!("SELECT number, id FROM episodes WHERE number IN ({places}) AND {NOT_DELETED}");
        for row in read.fetch_all(sql, args).await? {
            ids.insert(row.get("number")?, row.get("id")?);
        }
    }
    Ok(ids)
}

/// Whether there is anything that an agent may recall: an episode of its own, or one of the owner's.
pub(crate) async fn has_any_for(read: &mut Read, agent: &AgentId) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM episodes WHERE (agent_id = $1 OR agent_id IS NULL) AND {NOT_DELETED} LIMIT 1");
    Ok(read.fetch_optional(sql, args![agent]).await?.is_some())
}

/// How the contents of episodes begin, by their numbers: up to `characters` of each.
pub(crate) async fn beginnings(
    read: &mut Read,
    numbers: &[i64],
    characters: u32,
) -> Result<BTreeMap<i64, String>, StoreError> {
    let mut beginnings = BTreeMap::new();
    for batch in numbers.chunks(BATCH) {
        let mut args = Args::new();
        let places = placeholders(&mut args, batch.iter().copied());
        let sql = format!(
            "SELECT number, substr(content, 1, {characters}) AS beginning FROM episodes \
             WHERE number IN ({places}) AND {NOT_DELETED}"
        );
        for row in read.fetch_all(sql, args).await? {
            beginnings.insert(row.get("number")?, row.get("beginning")?);
        }
    }
    Ok(beginnings)
}

/// What an index knows of an episode.
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

/// Those of `numbers` that are there, in the order of their numbers.
pub(crate) async fn indexed_rows(read: &mut Read, numbers: &[i64]) -> Result<Vec<IndexedRow>, StoreError> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let places = placeholders(&mut args, numbers.iter().copied());
    let sql = format!("SELECT {INDEXED} FROM episodes WHERE number IN ({places}) AND {NOT_DELETED} ORDER BY number");
    read.fetch_all(sql, args).await?.iter().map(indexed).collect()
}

/// All of them, page by page.
pub(crate) async fn indexed_rows_after(read: &mut Read, after: i64, limit: u32) -> Result<Vec<IndexedRow>, StoreError> {
    let sql = format!("SELECT {INDEXED} FROM episodes WHERE number > $1 AND {NOT_DELETED} ORDER BY number LIMIT $2");
    read.fetch_all(sql, args![after, limit]).await?.iter().map(indexed).collect()
}

/// The newest first.
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

/// All of them, page by page, the oldest first. For exports.
pub(crate) async fn episodes_after(read: &mut Read, after: i64, limit: u32) -> Result<Vec<Episode>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE number > $1 AND {NOT_DELETED} ORDER BY number LIMIT $2");
    let rows = read.fetch_all(sql, args![after, limit]).await?;
    let mut found = rows.iter().map(episode).collect::<Result<Vec<_>, _>>()?;
    entities::attach(read, &mut found).await?;
    Ok(found)
}

/// The oldest episodes of an agent, in sight or not.
pub(crate) async fn list_of_agent(read: &mut Read, agent: &AgentId, limit: u32) -> Result<Vec<Episode>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE agent_id = $1 ORDER BY number LIMIT $2");
    read.fetch_all(sql, args![agent, limit]).await?.iter().map(episode).collect()
}

/// The numbers of an agent's episodes, for the log of changes.
pub(crate) async fn numbers_of_agent(read: &mut Read, agent: &AgentId) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT number FROM episodes WHERE agent_id = $1 ORDER BY number";
    read.fetch_all(sql, args![agent]).await?.iter().map(|row| row.get("number")).collect()
}

/// Takes an episode away with everything that hangs on it; answers whether it was there.
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

/// The same for one that figures and entities do not count any more.
pub(crate) async fn delete_uncounted(tx: &mut Tx, episode: &Episode) -> Result<bool, StoreError> {
    facts::remove_facts(tx, episode).await?;
    tx.execute("DELETE FROM episode_vectors WHERE episode = $1", args![episode.number]).await?;
    if tx.execute("DELETE FROM episodes WHERE number = $1", args![episode.number]).await? == 0 {
        return Ok(false);
    }
    tx.log_change(EPISODES, Some(episode.number)).await?;
    Ok(true)
}

/// Takes everything away; answers how many episodes there were.
pub(crate) async fn delete_all(tx: &mut Tx) -> Result<u64, StoreError> {
    for table in
        ["episode_relations", "entity_relations", "episode_entities", "entities", "episode_vectors", "episode_facts"]
    {
        tx.execute(format!("DELETE FROM {table}"), args![]).await?;
    }
    // Without those that are out of sight.
    let deleted = count_episodes(tx, None).await?;
    tx.execute("DELETE FROM episodes", args![]).await?;
    // How often agents used what they recalled is no memory of theirs, yet it is all that is left of one.
    tx.execute("DELETE FROM memory_counts", args![]).await?;
    // What was said before memory was emptied is not made into anything again, deleted or not.
    tx.execute("DELETE FROM memory_forgotten", args![]).await?;
    tx.log_change(EPISODES, None).await?;
    Ok(deleted)
}

/// Episodes by their ids, in their order; those that are gone are left out. Without their entities.
pub(crate) async fn episodes_by_id(read: &mut Read, ids: &[String]) -> Result<Vec<Episode>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let places = placeholders(&mut args, ids.iter().map(String::as_str));
    let sql = format!("SELECT {COLUMNS} FROM episodes WHERE id IN ({places}) AND {NOT_DELETED}");
    let rows = read.fetch_all(sql, args).await?;
    let mut found = rows.iter().map(episode).collect::<Result<Vec<_>, _>>()?;
    found.sort_by_key(|episode| ids.iter().position(|id| id == episode.id.as_str()));
    Ok(found)
}

/// The episode that was made from this, if it is there. Without its entities.
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

/// Which episodes are to be compared with those before them.
pub(crate) async fn list_comparable(read: &mut Read, after: i64, limit: u32) -> Result<Vec<Episode>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM episodes WHERE number > $1 AND source IN ('conversation', 'insight') AND {NOT_DELETED} \
         ORDER BY number LIMIT $2"
    );
    read.fetch_all(sql, args![after, limit]).await?.iter().map(episode).collect()
}

/// Episodes that nobody stored, recalled or changed since then, the longest untouched first.
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

/// What was stored by itself and is less important than that. What a hook stores is the owner's instruction.
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

/// Whether an episode that was to be forgotten still is.
pub(crate) async fn is_still_to_go(
    read: &mut Read,
    number: i64,
    least: Millionths,
    untouched_since: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let row = read
        .fetch_optional(
            format!(
                "SELECT 1 FROM episodes WHERE number = $1 \
                 AND ((origin IS NOT NULL AND source <> 'hook' AND importance < $2) OR touched_at < $3) \
                  AND {NOT_DELETED}"
            ),
            args![number, least.0, untouched_since.unwrap_or(Timestamp::from_micros(0))],
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

/// Puts the vectors of an episode in the place of those that it has.
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

/// The vectors of episodes, in the order of `(episode, part)`.
pub(crate) async fn vectors_of(read: &mut Read, episodes: &[i64]) -> Result<Vec<(i64, Vec<f32>)>, StoreError> {
    if episodes.is_empty() {
        return Ok(Vec::new());
    }
    let mut args = Args::new();
    let places = placeholders(&mut args, episodes.iter().copied());
    let sql = format!("SELECT episode, vector FROM episode_vectors WHERE episode IN ({places}) ORDER BY episode, part");
    let rows = read.fetch_all(sql, args).await?;
    rows.iter().map(|row| Ok((row.get("episode")?, from_bytes(&row.get::<Vec<u8>>("vector")?)))).collect()
}

/// Episodes whose vectors are not of `model`, the oldest first: number, and what is embedded.
pub(crate) async fn without_vectors_of(
    read: &mut Read,
    model: &str,
    limit: u32,
) -> Result<Vec<(i64, String)>, StoreError> {
    // Three spans of one index, where `<>` would look at every row.
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

/// How many episodes have no vectors of `model`.
pub(crate) async fn count_without_vectors_of(read: &mut Read, model: &str) -> Result<u64, StoreError> {
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

/// Whether the episode is still there.
pub(crate) async fn exists(read: &mut Read, episode: i64) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT 1 FROM episodes WHERE number = $1", args![episode]).await?;
    Ok(row.is_some())
}

/// The model whose vectors the newest embedded episode has.
pub(crate) async fn newest_model(read: &mut Read) -> Result<Option<String>, StoreError> {
    let sql = "SELECT embedding_model FROM episodes WHERE embedding_model IS NOT NULL ORDER BY number DESC LIMIT 1";
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("embedding_model")).transpose()
}
