//! The vectors of episodes, as little-endian 32-bit floats.

use agentd_store::{Args, Read, StoreError, Tx, args};

use super::{NOT_DELETED, placeholders};

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
pub(crate) async fn is_there(read: &mut Read, episode: i64) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT 1 FROM episodes WHERE number = $1", args![episode]).await?;
    Ok(row.is_some())
}

/// The model whose vectors the newest embedded episode has.
pub(crate) async fn newest_model(read: &mut Read) -> Result<Option<String>, StoreError> {
    let sql = "SELECT embedding_model FROM episodes WHERE embedding_model IS NOT NULL ORDER BY number DESC LIMIT 1";
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("embedding_model")).transpose()
}
