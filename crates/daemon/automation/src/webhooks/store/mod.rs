//! Rows of webhooks.

pub(super) mod deliveries;
pub(super) mod purge;

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::{Read, Row, StoreError, Topic, Tx, args};

use super::model::{Webhook, WebhookId};

/// Topic that is signalled on every change of a webhook, to invalidate caches.
pub(super) const WEBHOOKS: Topic = Topic::new("webhooks");

const COLUMNS: &str = "id, name, agent_id, prompt_template, tools, enabled, disabled_reason, created_at, updated_at";

fn webhook(row: &Row) -> Result<Webhook, StoreError> {
    Ok(Webhook {
        id: row.get("id")?,
        name: row.get("name")?,
        agent_id: row.get("agent_id")?,
        prompt_template: row.get("prompt_template")?,
        tools: row.json("tools")?,
        enabled: row.get("enabled")?,
        disabled_reason: row.get("disabled_reason")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

fn tools_json(webhook: &Webhook) -> String {
    serde_json::to_string(&webhook.tools).unwrap_or_else(|_| "[]".to_owned())
}

/// Returns all webhooks that are not deleted, oldest first.
pub(super) async fn list_webhooks(read: &mut Read) -> Result<Vec<Webhook>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE deleted_at IS NULL ORDER BY created_at, id");
    read.fetch_all(sql, args![]).await?.iter().map(webhook).collect()
}

pub(super) async fn find_webhook(read: &mut Read, id: &WebhookId) -> Result<Option<Webhook>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE id = $1 AND deleted_at IS NULL");
    read.fetch_optional(sql, args![id]).await?.as_ref().map(webhook).transpose()
}

pub(super) async fn count_webhooks(read: &mut Read) -> Result<usize, StoreError> {
    read.fetch_one("SELECT COUNT(*) FROM webhooks WHERE deleted_at IS NULL", args![]).await?.first()
}

pub(super) async fn insert_webhook(tx: &mut Tx, webhook: &Webhook) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO webhooks (id, name, agent_id, prompt_template, tools, enabled, created_at, updated_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        args![
            &webhook.id,
            &webhook.name,
            webhook.agent_id.as_ref(),
            webhook.prompt_template.as_deref(),
            tools_json(webhook),
            webhook.enabled,
            webhook.created_at,
            webhook.updated_at
        ],
    )
    .await?;
    tx.touch(WEBHOOKS);
    Ok(())
}

pub(super) async fn update_webhook(tx: &mut Tx, webhook: &Webhook) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE webhooks SET name = $2, agent_id = $3, prompt_template = $4, tools = $5, enabled = $6, \
         disabled_reason = $7, updated_at = $8 WHERE id = $1",
        args![
            &webhook.id,
            &webhook.name,
            webhook.agent_id.as_ref(),
            webhook.prompt_template.as_deref(),
            tools_json(webhook),
            webhook.enabled,
            webhook.disabled_reason.as_deref(),
            webhook.updated_at
        ],
    )
    .await?;
    tx.touch(WEBHOOKS);
    Ok(())
}

/// Marks a webhook as deleted. Returns whether it existed.
pub(super) async fn mark_webhook_deleted(tx: &mut Tx, id: &WebhookId, now: Timestamp) -> Result<bool, StoreError> {
    let hidden =
        tx.execute("UPDATE webhooks SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL", args![id, now]).await?;
    tx.touch(WEBHOOKS);
    Ok(hidden == 1)
}

/// Disables the webhooks of a deleted agent and clears their agent.
pub(super) async fn disable_of_agent(tx: &mut Tx, agent: &AgentId, reason: &str) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let disabled = tx
        .execute(
            "UPDATE webhooks SET agent_id = NULL, enabled = 0, disabled_reason = $2, updated_at = $3 \
             WHERE agent_id = $1",
            args![agent, reason, now],
        )
        .await?;
    if disabled > 0 {
        tx.touch(WEBHOOKS);
    }
    Ok(())
}
