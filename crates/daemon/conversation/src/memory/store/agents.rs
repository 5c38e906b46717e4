//! Hiding the memory of a deleted agent until it is purged: its rows are no longer counted or part of the graph.

use agentd_engine::agents::AgentId;
use agentd_store::{StoreError, Tx, args};

use super::counts::{CountChanges, Figure, count_episodes};
use super::episodes::BUCKET;

/// Removes an agent's episodes from all counters and from the graph. Idempotent.
pub(crate) async fn exclude_agent(tx: &mut Tx, agent: &AgentId) -> Result<(), StoreError> {
    let episodes = count_episodes(tx, Some(agent.as_str())).await?;
    if episodes == 0 {
        return Ok(());
    }
    let mut counts = CountChanges::default();
    counts.add(Figure::EpisodesOfAgent, agent.as_str(), -i64::try_from(episodes).unwrap_or(i64::MAX));
    let sql = "SELECT source, COUNT(*) AS amount FROM episodes WHERE agent_id = $1 GROUP BY source";
    for row in tx.fetch_all(sql, args![agent]).await? {
        counts.add(Figure::EpisodesOfSource, &row.get::<String>("source")?, -row.get::<i64>("amount")?);
    }
    let sql = format!(
        "SELECT {BUCKET} AS bucket, COUNT(*) AS amount, CAST(SUM(importance) AS BIGINT) AS importance, \
         CAST(SUM(valence) AS BIGINT) AS valence FROM episodes WHERE agent_id = $1 GROUP BY {BUCKET}"
    );
    for row in tx.fetch_all(sql, args![agent]).await? {
        let amount: i64 = row.get("amount")?;
        counts.add(Figure::Episodes, "", -amount);
        counts.add(Figure::EpisodesOfImportance, &row.get::<i64>("bucket")?.to_string(), -amount);
        counts.add(Figure::ImportanceSum, "", -row.get::<i64>("importance")?);
        counts.add(Figure::ValenceSum, "", -row.get::<i64>("valence")?);
    }
    exclude_from_graph(tx, agent, &mut counts).await?;
    counts.write(tx).await
}

const AGENT_EPISODES: &str = "(SELECT number FROM episodes WHERE agent_id = $1)";

async fn exclude_from_graph(tx: &mut Tx, agent: &AgentId, counts: &mut CountChanges) -> Result<(), StoreError> {
    let mentioned = format!("(SELECT entity FROM episode_entities WHERE episode IN {AGENT_EPISODES})");
    // Entities are changed first, in the same lock order as elsewhere.
    for sql in [
        format!(
            "UPDATE entities SET mentions = entities.mentions - gone.amount FROM \
             (SELECT entity, CAST(SUM(mentions) AS BIGINT) AS amount FROM episode_entities WHERE episode IN {AGENT_EPISODES} \
             GROUP BY entity) AS gone WHERE gone.entity = entities.number"
        ),
        format!(
            "UPDATE entity_relations SET weight = entity_relations.weight - gone.weight, \
             episodes = entity_relations.episodes - gone.amount FROM \
             (SELECT source, target, relation_type, CAST(SUM(weight) AS BIGINT) AS weight, COUNT(*) AS amount \
             FROM episode_relations WHERE episode IN {AGENT_EPISODES} GROUP BY source, target, relation_type) AS gone \
             WHERE gone.source = entity_relations.source AND gone.target = entity_relations.target \
             AND gone.relation_type = entity_relations.relation_type"
        ),
        format!("DELETE FROM episode_relations WHERE episode IN {AGENT_EPISODES}"),
    ] {
        tx.execute(sql, args![agent]).await?;
    }
    let sql = format!("DELETE FROM entity_relations WHERE episodes <= 0 AND source IN {mentioned}");
    let relations = tx.execute(sql, args![agent]).await?;
    counts.add(Figure::Relations, "", -i64::try_from(relations).unwrap_or(i64::MAX));
    tx.execute(format!("DELETE FROM episode_entities WHERE episode IN {AGENT_EPISODES}"), args![agent]).await?;
    // An entity exists as long as an episode mentions it, so these were only mentioned by this agent.
    let sql = "SELECT entity_type, COUNT(*) AS amount FROM entities WHERE mentions <= 0 GROUP BY entity_type";
    for row in tx.fetch_all(sql, args![]).await? {
        counts.add(Figure::EntitiesOfType, &row.get::<String>("entity_type")?, -row.get::<i64>("amount")?);
    }
    tx.execute("DELETE FROM entities WHERE mentions <= 0", args![]).await.map(|_| ())
}
