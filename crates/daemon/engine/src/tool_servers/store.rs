//! Rows of tool servers and of their tool lists.

use agentd_base::Timestamp;
use agentd_store::{Read, Row, StoreError, Topic, Tx, args};

use super::change::ToolServerId;
use super::model::ToolServer;

/// Topic for changes to registrations, their secrets and tool lists.
pub(super) const TOOL_SERVERS: Topic = Topic::new("skills.tool_servers");

const SELECT: &str = "SELECT id, name, prefix, reach, enabled, trusted, timeout_seconds, catalog_entry, revision, \
                      created_at, updated_at FROM tool_servers";

fn tool_server(row: &Row) -> Result<ToolServer, StoreError> {
    Ok(ToolServer {
        id: row.get("id")?,
        name: row.get("name")?,
        prefix: row.get("prefix")?,
        transport: row.json("reach")?,
        enabled: row.get("enabled")?,
        trusted: row.get("trusted")?,
        timeout_seconds: row.get("timeout_seconds")?,
        catalog_entry: row.get("catalog_entry")?,
        revision: row.get("revision")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Returns all servers, oldest first.
pub(super) async fn list_tool_servers(read: &mut Read) -> Result<Vec<ToolServer>, StoreError> {
    let rows = read.fetch_all(format!("{SELECT} ORDER BY created_at, id"), args![]).await?;
    rows.iter().map(tool_server).collect()
}

pub(super) async fn find_tool_server(read: &mut Read, id: &ToolServerId) -> Result<Option<ToolServer>, StoreError> {
    read.fetch_optional(format!("{SELECT} WHERE id = $1"), args![id]).await?.as_ref().map(tool_server).transpose()
}

pub(super) async fn count_tool_servers(read: &mut Read) -> Result<usize, StoreError> {
    read.fetch_one("SELECT COUNT(*) FROM tool_servers", args![]).await?.first()
}

fn transport_json(server: &ToolServer) -> String {
    serde_json::to_string(&server.transport).unwrap_or_default()
}

/// Inserts a server; returns whether the prefix was available.
pub(super) async fn insert_tool_server(tx: &mut Tx, server: &ToolServer) -> Result<bool, StoreError> {
    tx.touch(TOOL_SERVERS);
    let inserted = tx
        .execute(
            "INSERT INTO tool_servers (id, name, prefix, reach, enabled, trusted, timeout_seconds, catalog_entry, \
             revision, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10) \
             ON CONFLICT DO NOTHING",
            args![
                &server.id,
                &server.name,
                &server.prefix,
                transport_json(server),
                server.enabled,
                server.trusted,
                server.timeout_seconds,
                server.catalog_entry.as_deref(),
                server.revision,
                server.created_at
            ],
        )
        .await?;
    Ok(inserted > 0)
}

/// Whether a server other than `id` has this prefix.
pub(super) async fn is_prefix_taken(read: &mut Read, prefix: &str, id: &ToolServerId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM tool_servers WHERE prefix = $1 AND id <> $2";
    Ok(read.fetch_optional(sql, args![prefix, id]).await?.is_some())
}

pub(super) async fn update_tool_server(tx: &mut Tx, server: &ToolServer) -> Result<(), StoreError> {
    tx.touch(TOOL_SERVERS);
    tx.execute(
        "UPDATE tool_servers SET name = $2, prefix = $3, reach = $4, enabled = $5, trusted = $6, timeout_seconds = $7, \
         revision = $8, updated_at = $9 WHERE id = $1",
        args![
            &server.id,
            &server.name,
            &server.prefix,
            transport_json(server),
            server.enabled,
            server.trusted,
            server.timeout_seconds,
            server.revision,
            server.updated_at
        ],
    )
    .await
    .map(|_| ())
}

pub(super) async fn delete_tool_server(tx: &mut Tx, id: &ToolServerId) -> Result<(), StoreError> {
    tx.touch(TOOL_SERVERS);
    delete_listing(tx, id).await?;
    tx.execute("DELETE FROM tool_servers WHERE id = $1", args![id]).await.map(|_| ())
}

/// Returns the last tool list as JSON, and its time.
pub(super) async fn find_listing(
    read: &mut Read,
    id: &ToolServerId,
) -> Result<Option<(String, Timestamp)>, StoreError> {
    let sql = "SELECT listing, listed_at FROM tool_server_listings WHERE server_id = $1";
    let row = read.fetch_optional(sql, args![id]).await?;
    row.map(|row| Ok((row.get("listing")?, row.get("listed_at")?))).transpose()
}

/// Stores a tool list if the registration is unchanged since the list was requested.
pub(super) async fn upsert_listing(
    tx: &mut Tx,
    id: &ToolServerId,
    revision: i64,
    listing: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.touch(TOOL_SERVERS);
    tx.execute(
        "INSERT INTO tool_server_listings (server_id, listing, listed_at) \
         SELECT id, CAST($3 AS TEXT), CAST($4 AS BIGINT) FROM tool_servers WHERE id = $1 AND revision = $2 \
         ON CONFLICT (server_id) DO UPDATE SET listing = excluded.listing, listed_at = excluded.listed_at",
        args![id, revision, listing, now],
    )
    .await
    .map(|_| ())
}

pub(super) async fn delete_listing(tx: &mut Tx, id: &ToolServerId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM tool_server_listings WHERE server_id = $1", args![id]).await.map(|_| ())
}
