//! Test hooks that need internals of the store. Other test doubles are in `crates/testing/store`.

pub mod statements;

use std::collections::{BTreeMap, BTreeSet};

use crate::db::Purpose;
use crate::dump::catalog;
use crate::{Db, DbOptions, Dialect, Read, StoreError, args};

/// Opens a SQLite database as one of several simulated daemons on one file, each with its own data directory, clock and
/// ids. All database work happens on the calling thread in turn, so that results do not depend on durations. Must be
/// called within a `LocalSet`; dropping that kills the daemon's part of the database immediately.
///
/// # Errors
/// See [`Db::open`].
pub async fn open_simulated(options: DbOptions) -> Result<Db, StoreError> {
    Db::open_as(options, Purpose::Simulation).await
}

/// Describes the schema in terms shared by both dialects: one line per column with its type and nullability, and one
/// per unique key. Primary key columns count as not nullable.
pub async fn describe_schema(db: &Db) -> Result<BTreeSet<String>, StoreError> {
    let mut read = db.read_snapshot().await?;
    let mut lines = BTreeSet::new();
    for table in catalog::all_tables(&mut read).await? {
        for column in &table.columns {
            let is_nullable = column.is_nullable && !table.primary_key.contains(&column.name);
            let nullable = if is_nullable { " or NULL" } else { "" };
            lines.insert(format!("{}.{}: {}{nullable}", table.name, column.name, column.kind));
        }
    }
    lines.extend(unique_keys(&mut read).await?.into_iter().map(|key| format!("unique {key}")));
    Ok(lines)
}

/// Returns the columns of every unique index and primary key as `table(column, …)`; both dialects must agree.
async fn unique_keys(read: &mut Read) -> Result<BTreeSet<String>, StoreError> {
    let sql = match read.dialect() {
        Dialect::Sqlite => {
            "SELECT t.name AS table_name, l.name AS index_name, i.name AS column_name \
             FROM sqlite_master t JOIN pragma_index_list(t.name) l JOIN pragma_index_info(l.name) i \
             WHERE t.type = 'table' AND l.\"unique\" = 1 AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
             ORDER BY t.name, l.name, i.seqno"
        }
        Dialect::Postgres => {
            "SELECT t.relname AS table_name, x.relname AS index_name, a.attname AS column_name \
             FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid \
             CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, place) \
             JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum \
             WHERE i.indisunique AND t.relnamespace = current_schema()::regnamespace \
             ORDER BY t.relname, x.relname, k.place"
        }
    };
    let mut keys: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for row in read.fetch_all(sql, args![]).await? {
        keys.entry((row.get("table_name")?, row.get("index_name")?)).or_default().push(row.get("column_name")?);
    }
    let mut texts: BTreeSet<String> =
        keys.into_iter().map(|((table, _), columns)| format!("{table}({})", columns.join(", "))).collect();
    // SQLite gives an INTEGER PRIMARY KEY no index of its own.
    for table in catalog::all_tables(read).await? {
        if !table.primary_key.is_empty() {
            texts.insert(format!("{}({})", table.name, table.primary_key.join(", ")));
        }
    }
    Ok(texts)
}
