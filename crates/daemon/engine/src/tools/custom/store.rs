//! Rows of custom tools.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Topic, Tx, args};
use serde_json::Value;

use super::{CustomTool, CustomToolId, ToolKind};

/// Topic for changes to custom tools and their secrets.
pub(crate) const CUSTOM_TOOLS: Topic = Topic::new("skills.custom");

fn custom_tool(row: &Row) -> Result<CustomTool, StoreError> {
    Ok(CustomTool {
        id: row.get("id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        input_schema: row.json("input_schema")?,
        kind: ToolKind::from_stored(&row.get::<String>("kind")?),
        source_code: row.get("source_code")?,
        request: match row.get::<Option<String>>("request")? {
            Some(_) => Some(row.json("request")?),
            None => None,
        },
        timeout_seconds: row.get("timeout_seconds")?,
        enabled: row.get("enabled")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Returns all custom tools, oldest first.
pub(crate) async fn list_custom_tools(read: &mut Read) -> Result<Vec<CustomTool>, StoreError> {
    let sql = "SELECT id, name, description, input_schema, kind, source_code, request, timeout_seconds, enabled, \
               created_at, updated_at FROM custom_tools ORDER BY created_at, id";
    read.fetch_all(sql, args![]).await?.iter().map(custom_tool).collect()
}

pub(crate) async fn find_custom_tool(read: &mut Read, id: &CustomToolId) -> Result<Option<CustomTool>, StoreError> {
    let sql = "SELECT id, name, description, input_schema, kind, source_code, request, timeout_seconds, enabled, \
               created_at, updated_at FROM custom_tools WHERE id = $1";
    read.fetch_optional(sql, args![id]).await?.as_ref().map(custom_tool).transpose()
}

pub(crate) async fn count_custom_tools(read: &mut Read) -> Result<usize, StoreError> {
    read.fetch_one("SELECT COUNT(*) FROM custom_tools", args![]).await?.first()
}

fn request(tool: &CustomTool) -> Option<String> {
    tool.request.as_ref().and_then(|request| serde_json::to_string(request).ok())
}

fn schema(tool: &CustomTool) -> String {
    Value::to_string(&tool.input_schema)
}

/// Inserts a tool; returns whether the name was available.
pub(crate) async fn insert_custom_tool(tx: &mut Tx, tool: &CustomTool) -> Result<bool, StoreError> {
    tx.touch(CUSTOM_TOOLS);
    let inserted = tx
        .execute(
            "INSERT INTO custom_tools (id, name, description, input_schema, kind, source_code, request, \
             timeout_seconds, enabled, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) ON CONFLICT DO NOTHING",
            args![
                &tool.id,
                &tool.name,
                &tool.description,
                schema(tool),
                tool.kind.as_str(),
                tool.source_code.as_deref(),
                request(tool),
                tool.timeout_seconds,
                tool.enabled,
                tool.created_at
            ],
        )
        .await?;
    Ok(inserted > 0)
}

/// Whether a tool other than `id` has this name.
pub(crate) async fn is_name_taken(read: &mut Read, name: &str, id: &CustomToolId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM custom_tools WHERE name = $1 AND id <> $2";
    Ok(read.fetch_optional(sql, args![name, id]).await?.is_some())
}

pub(crate) async fn update_custom_tool(tx: &mut Tx, tool: &CustomTool) -> Result<(), StoreError> {
    tx.touch(CUSTOM_TOOLS);
    tx.execute(
        "UPDATE custom_tools SET name = $2, description = $3, input_schema = $4, kind = $5, source_code = $6, \
         request = $7, timeout_seconds = $8, enabled = $9, updated_at = $10 WHERE id = $1",
        args![
            &tool.id,
            &tool.name,
            &tool.description,
            schema(tool),
            tool.kind.as_str(),
            tool.source_code.as_deref(),
            request(tool),
            tool.timeout_seconds,
            tool.enabled,
            tool.updated_at
        ],
    )
    .await
    .map(|_| ())
}

/// Answers whether there was such a tool.
pub(crate) async fn toggle_custom_tool(
    tx: &mut Tx,
    id: &CustomToolId,
    enabled: Option<bool>,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.touch(CUSTOM_TOOLS);
    let sql = match enabled {
        Some(true) => "UPDATE custom_tools SET enabled = 1, updated_at = $2 WHERE id = $1",
        Some(false) => "UPDATE custom_tools SET enabled = 0, updated_at = $2 WHERE id = $1",
        None => "UPDATE custom_tools SET enabled = 1 - enabled, updated_at = $2 WHERE id = $1",
    };
    tx.execute(sql, args![id, now]).await?;
    Ok(())
}

/// Answers whether there was such a tool.
pub(crate) async fn delete_custom_tool(tx: &mut Tx, id: &CustomToolId) -> Result<bool, StoreError> {
    tx.touch(CUSTOM_TOOLS);
    Ok(tx.execute("DELETE FROM custom_tools WHERE id = $1", args![id]).await? > 0)
}
