//! Rows of agents.

mod versions;

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Tx, args};

use super::model::{Agent, AgentId, EvolutionChoice};

pub(super) const PURGE_QUEUE: &str = "agents.purge";

pub(super) use versions::{find_version, insert_version, list_versions};

const COLUMNS: &str = "id, svc_name, user_name, archetypes, custom_archetype, evolution_choice, profile, answers, \
    created_at, updated_at";

fn agent(row: &Row) -> Result<Agent, StoreError> {
    Ok(Agent {
        id: row.get("id")?,
        svc_name: row.get("svc_name")?,
        user_name: row.get("user_name")?,
        archetypes: row.json("archetypes")?,
        custom_archetype: row.get("custom_archetype")?,
        evolution_choice: EvolutionChoice::from_stored(&row.get::<String>("evolution_choice")?),
        profile: row.json("profile")?,
        answers: row.json("answers")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Returns the SQL condition that the agent in `column` is not deleted, for queries of domains that store data of
/// agents. Their rows are hidden together with the agent, without being updated.
pub fn live_agent_condition(column: &str) -> String {
    format!("EXISTS (SELECT 1 FROM agents WHERE agents.id = {column} AND agents.deleted_at IS NULL)")
}

/// Returns all live agents, oldest first.
pub(super) async fn list_agents(read: &mut Read) -> Result<Vec<Agent>, StoreError> {
    let rows = read
        .fetch_all(format!("SELECT {COLUMNS} FROM agents WHERE deleted_at IS NULL ORDER BY created_at, id"), args![])
        .await?;
    rows.iter().map(agent).collect()
}

pub(super) async fn find_agent(read: &mut Read, id: &AgentId) -> Result<Option<Agent>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM agents WHERE id = $1 AND deleted_at IS NULL");
    read.fetch_optional(sql, args![id]).await?.as_ref().map(agent).transpose()
}

/// Updates the mutable columns of a live agent.
pub(super) async fn update_agent(tx: &mut Tx, agent: &Agent) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE agents SET user_name = $2, archetypes = $3, custom_archetype = $4, evolution_choice = $5, \
         profile = $6, updated_at = $7 WHERE id = $1 AND deleted_at IS NULL",
        args![
            &agent.id,
            &agent.user_name,
            serde_json::Value::from(agent.archetypes.clone()),
            &agent.custom_archetype,
            agent.evolution_choice.as_str(),
            serde_json::to_string(&agent.profile).unwrap_or_default(),
            agent.updated_at
        ],
    )
    .await
    .map(|_| ())
}

/// Returns ids and names of all agents, including deleted ones.
pub(super) async fn list_names(read: &mut Read) -> Result<Vec<(AgentId, String)>, StoreError> {
    let rows = read.fetch_all("SELECT id, svc_name FROM agents", args![]).await?;
    rows.iter().map(|row| Ok((row.get("id")?, row.get("svc_name")?))).collect()
}

/// Returns the payloads of all pending purges.
pub(super) async fn list_purges(read: &mut Read) -> Result<Vec<String>, StoreError> {
    let rows = read.fetch_all("SELECT payload FROM queue WHERE queue = $1", args![PURGE_QUEUE]).await?;
    rows.iter().map(|row| row.get("payload")).collect()
}

pub(super) async fn count_agents(read: &mut Read) -> Result<usize, StoreError> {
    read.fetch_one("SELECT COUNT(*) FROM agents WHERE deleted_at IS NULL", args![]).await?.first()
}

pub(super) async fn is_alive(read: &mut Read, id: &AgentId) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT 1 FROM agents WHERE id = $1 AND deleted_at IS NULL", args![id]).await?;
    Ok(row.is_some())
}

/// Inserts an agent; returns whether the name was available.
pub(super) async fn insert_agent(tx: &mut Tx, agent: &Agent) -> Result<bool, StoreError> {
    let inserted = tx
        .execute(
            "INSERT INTO agents (id, svc_name, user_name, archetypes, custom_archetype, evolution_choice, profile, \
             answers, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) ON CONFLICT DO NOTHING",
            args![
                &agent.id,
                &agent.svc_name,
                &agent.user_name,
                serde_json::Value::from(agent.archetypes.clone()),
                &agent.custom_archetype,
                agent.evolution_choice.as_str(),
                serde_json::to_string(&agent.profile).unwrap_or_default(),
                serde_json::Value::from(agent.answers.clone()),
                agent.created_at
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Marks a live agent as deleted and frees its name; returns whether it existed.
pub(super) async fn hide_agent(tx: &mut Tx, id: &AgentId, now: Timestamp) -> Result<bool, StoreError> {
    let hidden = tx
        .execute(
            "UPDATE agents SET deleted_at = $2, leaves_folder = 1 WHERE id = $1 AND deleted_at IS NULL",
            args![id, now],
        )
        .await?;
    Ok(hidden == 1)
}

/// Returns deleted agents whose folder may still exist under `svc_name`.
pub(super) async fn list_with_old_folder(read: &mut Read, svc_name: &str) -> Result<Vec<AgentId>, StoreError> {
    let rows =
        read.fetch_all("SELECT id FROM agents WHERE svc_name = $1 AND leaves_folder = 1", args![svc_name]).await?;
    rows.iter().map(|row| row.get("id")).collect()
}

pub(super) async fn has_old_folder(read: &mut Read, id: &AgentId) -> Result<bool, StoreError> {
    let row = read.fetch_optional("SELECT 1 FROM agents WHERE id = $1 AND leaves_folder = 1", args![id]).await?;
    Ok(row.is_some())
}

pub(super) async fn mark_folder_moved(tx: &mut Tx, id: &AgentId) -> Result<(), StoreError> {
    tx.execute("UPDATE agents SET leaves_folder = 0 WHERE id = $1", args![id]).await.map(|_| ())
}

pub(super) async fn delete_agent(tx: &mut Tx, id: &AgentId) -> Result<(), StoreError> {
    versions::delete_versions(tx, id).await?;
    tx.execute("DELETE FROM agents WHERE id = $1 AND deleted_at IS NOT NULL", args![id]).await.map(|_| ())
}
