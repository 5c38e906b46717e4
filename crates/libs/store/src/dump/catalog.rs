//! Tables and schema version, read from the database itself so that no list can go out of date.

use std::collections::{BTreeMap, BTreeSet};

use crate::read::Read;
use crate::{Kind, StoreError, args};

/// Bookkeeping tables of one database, which are not part of a dump.
const EXCLUDED_TABLES: [&str; 4] = ["changes", "schema_migrations", "store_info", "topics"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) is_nullable: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// Sorted by name, which gives both dialects the same order.
    pub(crate) columns: Vec<Column>,
    pub(crate) primary_key: Vec<String>,
}

/// Returns the schema version; 0 for an empty schema.
pub(crate) async fn schema_version(read: &mut Read) -> Result<u32, StoreError> {
    match read.fetch_one("SELECT MAX(version) AS version FROM schema_migrations", args![]).await {
        Ok(row) => Ok(row.get::<Option<u32>>("version")?.unwrap_or(0)),
        Err(StoreError::NoTable { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Returns every table of a dump, referenced tables first.
pub(crate) async fn tables(read: &mut Read) -> Result<Vec<Table>, StoreError> {
    let all = all_tables(read).await?;
    let references = references(read).await?;
    let mut left: BTreeMap<String, Table> = all
        .into_iter()
        .filter(|table| !EXCLUDED_TABLES.contains(&table.name.as_str()))
        .map(|table| (table.name.clone(), table))
        .collect();
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let is_free =
            |name: &&String| !references.iter().any(|(from, to)| from == *name && to != *name && left.contains_key(to));
        // Tables with circular references cannot be ordered; the first by name goes first.
        let next = left.keys().find(is_free).or_else(|| left.keys().next()).cloned();
        ordered.extend(next.and_then(|name| left.remove(&name)));
    }
    Ok(ordered)
}

/// Returns every table by name, including bookkeeping tables.
pub(crate) async fn all_tables(read: &mut Read) -> Result<Vec<Table>, StoreError> {
    let sql = read.dialect().pick(
        "SELECT t.name AS table_name, c.name AS column_name, c.type AS type, c.pk AS key_place, \
         c.\"notnull\" = 0 AS is_nullable \
         FROM sqlite_master t JOIN pragma_table_info(t.name) c \
         WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY t.name, c.name",
        "SELECT t.relname AS table_name, a.attname AS column_name, format_type(a.atttypid, NULL) AS type, \
         COALESCE(array_position(i.indkey::smallint[], a.attnum) + 1, 0) AS key_place, \
         NOT a.attnotnull AS is_nullable \
         FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped \
         LEFT JOIN pg_index i ON i.indrelid = t.oid AND i.indisprimary \
         WHERE t.relkind IN ('r', 'p') AND t.relnamespace = current_schema()::regnamespace \
         ORDER BY t.relname COLLATE \"C\", a.attname COLLATE \"C\"",
    );
    let mut tables: Vec<Table> = Vec::new();
    let mut key_places = BTreeMap::new();
    for row in read.fetch_all(sql, args![]).await? {
        let (table, column): (String, String) = (row.get("table_name")?, row.get("column_name")?);
        let kind = kind(&row.get::<String>("type")?, &table, &column)?;
        if tables.last().is_none_or(|last| last.name != table) {
            tables.push(Table { name: table.clone(), columns: Vec::new(), primary_key: Vec::new() });
        }
        if let Some(last) = tables.last_mut() {
            last.columns.push(Column { name: column.clone(), kind, is_nullable: row.get("is_nullable")? });
        }
        let place: i64 = row.get("key_place")?;
        if place > 0 {
            key_places.insert((table, place), column);
        }
    }
    for ((name, _), column) in key_places {
        if let Some(table) = tables.iter_mut().find(|table| table.name == name) {
            table.primary_key.push(column);
        }
    }
    Ok(tables)
}

fn kind(type_name: &str, table: &str, column: &str) -> Result<Kind, StoreError> {
    Ok(match type_name.to_ascii_lowercase().as_str() {
        "bigint" | "integer" | "smallint" => Kind::Integer,
        "double precision" | "real" => Kind::Real,
        "text" => Kind::Text,
        "blob" | "bytea" => Kind::Blob,
        other => {
            return Err(StoreError::dump(format!("column {table}.{column} has the unsupported type `{other}`")));
        }
    })
}

/// Returns pairs of a referring and a referenced table.
async fn references(read: &mut Read) -> Result<BTreeSet<(String, String)>, StoreError> {
    let sql = read.dialect().pick(
        "SELECT t.name AS from_table, f.\"table\" AS to_table \
         FROM sqlite_master t JOIN pragma_foreign_key_list(t.name) f WHERE t.type = 'table'",
        "SELECT f.relname AS from_table, t.relname AS to_table FROM pg_constraint c \
         JOIN pg_class f ON f.oid = c.conrelid JOIN pg_class t ON t.oid = c.confrelid \
         WHERE c.contype = 'f' AND f.relnamespace = current_schema()::regnamespace",
    );
    let rows = read.fetch_all(sql, args![]).await?;
    rows.iter().map(|row| Ok((row.get("from_table")?, row.get("to_table")?))).collect()
}
