//! Rows of hooks. Submodules store deliveries, executions and statistics.

pub(super) mod deliveries;
pub(super) mod executions;
pub(super) mod figures;
pub(super) mod queue;

use std::collections::{BTreeSet, HashSet};

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_store::{Args, Read, Row, Seq, StoreError, Tx, args, in_list};
use serde_json::{Map, Value};

use super::model::{Filter, HEADER_SECRET_PREFIX, Hook, HookId, HookType, secret_scope, stored_action};

const COLUMNS: &str = "id, name, event_type, hook_type, enabled, disabled_reason, scope, agent_id, config, has_secret, \
                       CAST(CASE WHEN EXISTS (SELECT 1 FROM secrets WHERE secrets.scope = 'hooks.' || hooks.id AND secrets.name = 'secret') \
                       THEN 1 ELSE 0 END AS BIGINT) AS keeps_secret, source_code, filter_expr, priority, tags, max_retries, bundled_id, heard_after, heard_in, \
                       created_at, updated_at";

/// Converts a row. The outbox position of a hook is valid only in the database that issued it.
fn hook(row: &Row, database: &str) -> Result<Hook, StoreError> {
    let hook_type = HookType::from_stored(&row.get::<String>("hook_type")?);
    let config: Map<String, Value> = row.json("config")?;
    let filter: Option<String> = row.get("filter_expr")?;
    let (heard_after, heard_in): (String, String) = (row.get("heard_after")?, row.get("heard_in")?);
    let mut action = stored_action(hook_type, &config);
    let filter = match filter.map(|text| parse_filter(&text)).transpose() {
        Ok(filter) => filter,
        // Without its filter, the hook would react to events that it must ignore.
        Err(problem) => {
            action = super::model::Action::Broken(problem);
            None
        }
    };
    Ok(Hook {
        id: row.get("id")?,
        name: row.get("name")?,
        event_type: row.get("event_type")?,
        hook_type,
        enabled: row.get("enabled")?,
        disabled_reason: row.get("disabled_reason")?,
        scope: row.get("scope")?,
        agent_id: row.get("agent_id")?,
        config,
        action,
        has_secret: row.get("has_secret")?,
        is_secret_stored: row.get("keeps_secret")?,
        missing_headers: BTreeSet::new(),
        missing_values: BTreeSet::new(),
        source_code: row.get("source_code")?,
        filter,
        priority: row.get("priority")?,
        tags: row.json("tags")?,
        max_retries: row.get("max_retries")?,
        bundled_id: row.get("bundled_id")?,
        heard_after: heard_after.parse::<Seq>().ok().filter(|_| heard_in == database),
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

fn parse_filter(text: &str) -> Result<Filter, String> {
    let source: Value = serde_json::from_str(text).map_err(|_| "the filter is not valid JSON".to_owned())?;
    Filter::parse(&source).map_err(|problem| format!("the filter {}", problem.message))
}

/// Version of the stored hooks, used to validate the cache: a change counter and the database id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    number: i64,
    pub(super) database: String,
}

const VERSION: &str = "SELECT COALESCE((SELECT version FROM hook_versions WHERE name = 'hooks'), 0) AS version, \
                       (SELECT value FROM store_info WHERE name = 'database_id') AS database_id";

pub(super) async fn find_version(read: &mut Read) -> Result<Version, StoreError> {
    let row = read.fetch_one(VERSION, args![]).await?;
    Ok(Version { number: row.get("version")?, database: row.get("database_id")? })
}

/// Returns the version and locks the hooks against changes until the transaction ends.
pub(super) async fn lock_version(tx: &mut Tx) -> Result<Version, StoreError> {
    let lock = tx.dialect().share_lock();
    tx.fetch_optional(format!("SELECT version FROM hook_versions WHERE name = 'hooks' {lock}"), args![]).await?;
    find_version(tx).await
}

/// Increments the version. Every change of a hook calls this.
pub(super) async fn increment_version(tx: &mut Tx) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO hook_versions (name, version) VALUES ('hooks', 1) \
         ON CONFLICT (name) DO UPDATE SET version = hook_versions.version + 1",
        args![],
    )
    .await?;
    Ok(())
}

/// Returns all hooks that are not deleted, oldest first.
pub(super) async fn list_hooks(read: &mut Read, database: &str) -> Result<Vec<Hook>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM hooks WHERE deleted_at IS NULL ORDER BY created_at, id");
    let rows = read.fetch_all(sql, args![]).await?;
    let mut hooks = rows.iter().map(|row| hook(row, database)).collect::<Result<Vec<_>, _>>()?;
    mark_missing_secrets(read, &mut hooks, "hooks.%").await?;
    Ok(hooks)
}

/// Marks the headers and config secrets that have no value in the vault. `scopes` is a `LIKE` pattern of vault scopes.
async fn mark_missing_secrets(read: &mut Read, hooks: &mut [Hook], scopes: &str) -> Result<(), StoreError> {
    if hooks.iter().all(|hook| hook.sealed_headers().is_empty() && hook.sealed_values().is_empty()) {
        return Ok(());
    }
    let rows = read.fetch_all("SELECT scope, name FROM secrets WHERE scope LIKE $1", args![scopes]).await?;
    let mut kept: HashSet<(String, String)> = HashSet::new();
    for row in &rows {
        kept.insert((row.get("scope")?, row.get("name")?));
    }
    for hook in hooks {
        let (scope, mut missing) = (secret_scope(&hook.id), hook.sealed_headers());
        missing.retain(|header| !kept.contains(&(scope.clone(), format!("{HEADER_SECRET_PREFIX}{header}"))));
        hook.missing_headers = missing.into_iter().collect();
        hook.missing_values = hook.sealed_values();
        hook.missing_values.retain(|name| !kept.contains(&(scope.clone(), name.clone())));
    }
    Ok(())
}

/// Returns the names of the secrets that the vault stores for a hook.
pub(super) async fn list_secrets(read: &mut Read, id: &HookId) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT name FROM secrets WHERE scope = $1 ORDER BY name";
    read.fetch_all(sql, args![secret_scope(id)]).await?.iter().map(|row| row.get("name")).collect()
}

pub(super) async fn find_hook(read: &mut Read, id: &HookId) -> Result<Option<Hook>, StoreError> {
    let database = find_version(read).await?.database;
    let sql = format!("SELECT {COLUMNS} FROM hooks WHERE id = $1 AND deleted_at IS NULL");
    let row = read.fetch_optional(sql, args![id]).await?;
    let mut found = row.map(|row| hook(&row, &database)).transpose()?;
    mark_missing_secrets(read, found.as_mut_slice(), &secret_scope(id)).await?;
    Ok(found)
}

pub(super) async fn count_hooks(read: &mut Read) -> Result<u64, StoreError> {
    let sql = "SELECT COUNT(*) AS hooks FROM hooks WHERE deleted_at IS NULL";
    read.fetch_one(sql, args![]).await?.get("hooks")
}

pub(super) async fn insert_hook(tx: &mut Tx, hook: &Hook) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO hooks (id, name, event_type, hook_type, enabled, scope, config, has_secret, priority, tags, \
         max_retries, heard_after, heard_in, created_at, updated_at) \
         VALUES ($1, '', '', $2, 0, '', '{}', 0, 0, '[]', 1, '', '', $3, $3)",
        args![&hook.id, hook.hook_type.as_str(), hook.created_at],
    )
    .await?;
    update_hook(tx, hook, true).await
}

/// Writes all changeable columns. `resets_position` makes the hook receive only events from this moment.
pub(super) async fn update_hook(tx: &mut Tx, hook: &Hook, resets_position: bool) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE hooks SET name = $2, event_type = $3, enabled = $4, disabled_reason = $5, scope = $6, agent_id = $7, \
         config = $8, has_secret = $9, source_code = $10, filter_expr = $11, priority = $12, tags = $13, \
         max_retries = $14, bundled_id = $15, updated_at = $16 WHERE id = $1",
        args![
            &hook.id,
            hook.name.as_str(),
            hook.event_type.as_str(),
            hook.enabled,
            hook.disabled_reason.as_deref(),
            hook.scope.as_str(),
            hook.agent_id.as_ref(),
            Value::Object(hook.config.clone()),
            hook.has_secret,
            hook.source_code.as_deref(),
            hook.filter.as_ref().map(|filter| filter.source().to_string()),
            hook.priority,
            serde_json::json!(hook.tags),
            hook.max_retries,
            hook.bundled_id.as_deref(),
            hook.updated_at
        ],
    )
    .await?;
    if resets_position {
        let (position, database) = (tx.outbox_position().await?, find_version(tx).await?.database);
        tx.execute(
            "UPDATE hooks SET heard_after = $2, heard_in = $3 WHERE id = $1",
            args![&hook.id, position.to_string(), database],
        )
        .await?;
    }
    increment_version(tx).await
}

/// Disables a hook on behalf of the daemon, with a reason.
pub(super) async fn disable_hook(tx: &mut Tx, id: &HookId, reason: &str) -> Result<(), StoreError> {
    let now = tx.clock().now();
    let changed = tx
        .execute(
            "UPDATE hooks SET enabled = 0, disabled_reason = $2, updated_at = $3 WHERE id = $1 AND enabled = 1",
            args![id, reason, now],
        )
        .await?;
    if changed == 0 { Ok(()) } else { increment_version(tx).await }
}

/// Marks a hook as deleted. Returns whether it existed.
pub(super) async fn mark_hook_deleted(tx: &mut Tx, id: &HookId, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE hooks SET enabled = 0, deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL";
    let hidden = tx.execute(sql, args![id, now]).await?;
    increment_version(tx).await?;
    Ok(hidden == 1)
}

pub(super) async fn list_of_agent(read: &mut Read, agent: &AgentId) -> Result<Vec<HookId>, StoreError> {
    let sql = "SELECT id FROM hooks WHERE agent_id = $1 AND deleted_at IS NULL ORDER BY id";
    read.fetch_all(sql, args![agent]).await?.iter().map(|row| row.get("id")).collect()
}

/// Returns which of the given hooks were deleted.
pub(super) async fn find_deleted(read: &mut Read, ids: &[&str]) -> Result<HashSet<HookId>, StoreError> {
    let mut found = HashSet::new();
    for ids in ids.chunks(64) {
        let mut values = Args::new();
        let list = in_list(&mut values, ids);
        let sql = format!("SELECT id FROM hooks WHERE id IN ({list}) AND deleted_at IS NOT NULL");
        for row in read.fetch_all(sql, values).await? {
            found.insert(row.get("id")?);
        }
    }
    Ok(found)
}

/// Returns deleted hooks that may still have dependent rows.
pub(super) async fn list_deleted(read: &mut Read, limit: u32) -> Result<Vec<HookId>, StoreError> {
    let sql = "SELECT id FROM hooks WHERE deleted_at IS NOT NULL ORDER BY deleted_at, id LIMIT $1";
    read.fetch_all(sql, args![limit]).await?.iter().map(|row| row.get("id")).collect()
}

/// Returns up to ten deleted hooks in the scope of an agent.
pub(super) async fn list_deleted_of_agent(read: &mut Read, agent: &AgentId) -> Result<Vec<HookId>, StoreError> {
    let sql = "SELECT id FROM hooks WHERE agent_id = $1 AND deleted_at IS NOT NULL ORDER BY id LIMIT 10";
    read.fetch_all(sql, args![agent]).await?.iter().map(|row| row.get("id")).collect()
}

pub(super) async fn delete_hook(tx: &mut Tx, id: &HookId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM hooks WHERE id = $1 AND deleted_at IS NOT NULL", args![id]).await?;
    Ok(())
}
