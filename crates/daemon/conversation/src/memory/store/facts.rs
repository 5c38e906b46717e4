//! Rows of facts, and which episode supersedes which.

use agentd_base::Timestamp;
use agentd_entities::FactKey;
use agentd_store::{Read, StoreError, Tx, args};

use crate::memory::model::{Episode, EpisodeId};

/// Maximum number of episodes with the same subject and attribute that are compared.
const MAX_COMPARED: u32 = 100;

/// Episode that states something about the same subject and attribute.
struct Statement {
    id: EpisodeId,
    number: i64,
    occurred_at: Timestamp,
    is_superseded: bool,
    fact: FactKey,
}

async fn list_statements(
    read: &mut Read,
    agent: &str,
    episode: i64,
    fact: &FactKey,
) -> Result<Vec<Statement>, StoreError> {
    let rows = read
        .fetch_all(
            "SELECT e.id, e.number, e.occurred_at, e.superseded_by, f.value, f.polarity FROM episode_facts f \
             JOIN episodes e ON e.number = f.episode \
             WHERE f.agent_id = $1 AND f.subject = $2 AND f.attribute = $3 AND f.episode <> $4 \
             ORDER BY e.occurred_at DESC, e.number DESC LIMIT $5",
            args![agent, &fact.subject, &fact.attribute, episode, MAX_COMPARED],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Statement {
                id: row.get("id")?,
                number: row.get("number")?,
                occurred_at: row.get("occurred_at")?,
                is_superseded: row.get::<Option<String>>("superseded_by")?.is_some(),
                fact: FactKey { value: row.get("value")?, polarity: row.get::<i64>("polarity")? != 0, ..fact.clone() },
            })
        })
        .collect()
}

/// Stores the facts of an agent's episode and records which older episodes it supersedes, or which newer one supersedes
/// it. No episode is deleted.
pub(crate) async fn insert_facts(tx: &mut Tx, episode: &mut Episode, facts: &[FactKey]) -> Result<(), StoreError> {
    let Some(agent) = episode.agent_id.clone() else { return Ok(()) };
    for (place, fact) in facts.iter().enumerate() {
        tx.execute(
            "INSERT INTO episode_facts (episode, place, agent_id, subject, attribute, value, polarity) \
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            args![
                episode.number,
                i64::try_from(place).unwrap_or(i64::MAX),
                &agent,
                &fact.subject,
                &fact.attribute,
                &fact.value,
                fact.polarity
            ],
        )
        .await?;
        for other in list_statements(tx, agent.as_str(), episode.number, fact).await? {
            if !fact.contradicts(&other.fact) {
                continue;
            }
            if (other.occurred_at, other.number) < (episode.occurred_at, episode.number) {
                if !other.is_superseded {
                    set_superseded(tx, other.number, &episode.id).await?;
                }
            } else if episode.superseded_by.is_none() {
                set_superseded(tx, episode.number, &other.id).await?;
                episode.superseded_by = Some(other.id);
            }
        }
    }
    Ok(())
}

async fn set_superseded(tx: &mut Tx, number: i64, successor: &EpisodeId) -> Result<(), StoreError> {
    tx.execute("UPDATE episodes SET superseded_by = $2 WHERE number = $1", args![number, successor]).await.map(|_| ())
}

/// Deletes the facts of an episode. Episodes that it superseded are now superseded by its own successor, if any.
pub(crate) async fn remove_facts(tx: &mut Tx, episode: &Episode) -> Result<(), StoreError> {
    tx.execute("DELETE FROM episode_facts WHERE episode = $1", args![episode.number]).await?;
    let successor = episode.superseded_by.as_ref().map(EpisodeId::as_str);
    tx.execute("UPDATE episodes SET superseded_by = $2 WHERE superseded_by = $1", args![&episode.id, successor])
        .await
        .map(|_| ())
}
